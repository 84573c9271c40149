/* SPDX-License-Identifier: BSD-3-Clause */
/* Looks up collectives and algorithms by the names in WEFT_COLL and in tuning files.  An unknown
 * name is logged with the nearest valid name.  Reads only. */
#include "coll/names.h"
#include "coll/select.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/base/near.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A search for a typed name. */
struct search {
    const char *typed, *near; /* near: nearest name so far, or NULL */
    int best;                 /* distance of `near` */
    int n;                    /* names compared */
    char text[512];           /* "known are " and all names compared */
};

static struct search search_for(const char *typed)
{
    return (struct search){ .typed = typed, .best = rt_near_limit(typed), .text = "known are" };
}

/* True if the typed name is this name. */
static bool is(struct search *s, const char *name)
{
    size_t n = strlen(s->text);
    int d = rt_near(s->typed, name);
    if (!strcmp(s->typed, name))
        return true;
    snprintf(s->text + n, sizeof s->text - n, "%s %s", s->n++ ? "," : "", name);
    if (d < s->best) {
        s->best = d;
        s->near = name;
    }
    return false;
}

/* Advice for the error message. */
static const char *hint(struct search *s)
{
    if (s->near)
        snprintf(s->text, sizeof s->text, "the nearest is \"%s\"", s->near);
    return s->text;
}

int coll_kind_find(const char *where, const char *name)
{
    struct search s = search_for(name);
    for (int k = 0; k < COLL_KINDS; k++)
        if (is(&s, coll_kind_names[k]))
            return k;
    log_error(COLL, "%s names the collective \"%s\", which does not exist; %s", where, name,
              hint(&s));
    return -RT_EINVAL;
}

const struct coll_alg *coll_alg_wanted(const char *where, enum coll_kind kind, const char *name)
{
    struct search s = search_for(name);
    const struct coll_alg *a;
    for (int i = 0; (a = coll_alg_at(i)); i++)
        if (a->kind == kind && is(&s, a->name))
            return a;
    log_error(COLL, "%s asks for the algorithm \"%s\" of %s, which does not exist; %s", where, name,
              coll_kind_names[kind], hint(&s));
    return NULL;
}

int coll_bytes_parse(const char *where, const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    int shift = *end == 'K' || *end == 'k'   ? 10
                : *end == 'M' || *end == 'm' ? 20
                : *end == 'G' || *end == 'g' ? 30
                                             : 0;
    if (end == text || errno || v < 0 || v > INT64_MAX >> shift || end[shift > 0]) {
        if (where)
            log_error(
                COLL,
                "%s has the size \"%s\"; expected bytes with an optional K, M or G, such as 64K",
                where, text);
        return -RT_EINVAL;
    }
    *out = (int64_t)v << shift;
    return 0;
}
