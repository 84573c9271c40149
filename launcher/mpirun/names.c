/* SPDX-License-Identifier: BSD-3-Clause */
/* Published names: see names.h. */
#include "launcher/mpirun/names.h"
#include "runtime/base/err.h"

#include <stdlib.h>
#include <string.h>

static struct name *find(const struct names *names, const char *key)
{
    for (int i = 0; i < names->n; i++)
        if (!strcmp(names->v[i].key, key))
            return &names->v[i];
    return NULL;
}

static void drop(struct names *names, struct name *name)
{
    free(name->key);
    free(name->value);
    *name = names->v[--names->n];
}

static int publish(struct names *names, int owner, const struct launch_list *words)
{
    if (words->n != 3)
        return -RT_EINVAL;
    if (find(names, words->v[1]))
        return -RT_EEXIST;
    struct name *v = realloc(names->v, (size_t)(names->n + 1) * sizeof *v);
    if (!v)
        return -RT_ENOMEM;
    names->v = v;
    v[names->n] = (struct name){ strdup(words->v[1]), strdup(words->v[2]), owner };
    if (v[names->n].key && v[names->n].value) {
        names->n++;
        return 0;
    }
    free(v[names->n].key);
    free(v[names->n].value);
    return -RT_ENOMEM;
}

static int lookup(const struct names *names, const struct launch_list *words,
                  struct launch_list *answer)
{
    for (int i = 1; i < words->n; i++) {
        const struct name *name = find(names, words->v[i]);
        if (name &&
            (launch_list_add(answer, name->key) < 0 || launch_list_add(answer, name->value) < 0))
            return -RT_ENOMEM;
    }
    return answer->n ? 0 : -RT_ENOENT;
}

static int unpublish(struct names *names, const struct launch_list *words)
{
    int err = 0;
    for (int i = 1; i < words->n; i++) {
        struct name *name = find(names, words->v[i]);
        if (name)
            drop(names, name);
        else
            err = -RT_ENOENT;
    }
    return err;
}

int names_ask(struct names *names, int owner, const struct launch_list *words,
              struct launch_list *answer)
{
    if (!strcmp(words->v[0], "publish"))
        return publish(names, owner, words);
    if (!strcmp(words->v[0], "lookup"))
        return lookup(names, words, answer);
    return !strcmp(words->v[0], "unpublish") ? unpublish(names, words) : -RT_ENOTSUP;
}

void names_drop(struct names *names, int owner)
{
    for (int i = 0; i < names->n;)
        if (names->v[i].owner == owner)
            drop(names, &names->v[i]);
        else
            i++;
}

void names_fini(struct names *names)
{
    while (names->n)
        drop(names, &names->v[0]);
    free(names->v);
    names->v = NULL;
}
