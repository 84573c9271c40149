/* SPDX-License-Identifier: BSD-3-Clause */
/* Growing arrays of strings: command lines and environments.  Each list owns its strings.  Any
 * thread; one thread at a time uses a list. */
#include "launcher/job.h"
#include "runtime/base/err.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static int add_owned(struct launch_list *l, char *text)
{
    char **v = text ? realloc(l->v, (size_t)(l->n + 2) * sizeof *v) : NULL;
    if (!v) {
        free(text);
        return -RT_ENOMEM;
    }
    l->v = v;
    l->v[l->n++] = text;
    l->v[l->n] = NULL;
    return 0;
}

int launch_list_add(struct launch_list *l, const char *text) { return add_owned(l, strdup(text)); }

int launch_list_addf(struct launch_list *l, const char *fmt, ...)
{
    va_list args;
    char *text;
    va_start(args, fmt);
    int len = vasprintf(&text, fmt, args);
    va_end(args);
    return len < 0 ? -RT_ENOMEM : add_owned(l, text);
}

int launch_list_setenv(struct launch_list *l, const char *name, const char *value)
{
    size_t len = strlen(name);
    char *text;
    for (int i = 0; i < l->n; i++) {
        if (strncmp(l->v[i], name, len) || l->v[i][len] != '=')
            continue;
        if (asprintf(&text, "%s=%s", name, value) < 0)
            return -RT_ENOMEM;
        free(l->v[i]);
        l->v[i] = text;
        return 0;
    }
    return launch_list_addf(l, "%s=%s", name, value);
}

void launch_list_fini(struct launch_list *l)
{
    for (int i = 0; i < l->n; i++)
        free(l->v[i]);
    free(l->v);
    memset(l, 0, sizeof *l);
}
