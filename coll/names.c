/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives and algorithms by the names that people type, in WEFT_COLL and in tables of choices;
 * what is wrong is said once, with the nearest name that would be right.  Reads only. */
#include "coll/start.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/base/near.h"

int coll_kind_find(const char *where, const char *name)
{
    int best = 0;
    for (int k = 0; k < COLL_KINDS; k++) {
        if (!strcmp(coll_kind_names[k], name))
            return k;
        if (rt_near(name, coll_kind_names[k]) < rt_near(name, coll_kind_names[best]))
            best = k;
    }
    log_error(COLL, "%s names the collective \"%s\", which does not exist; the nearest is \"%s\"",
              where, name, coll_kind_names[best]);
    return -RT_EINVAL;
}

const struct coll_alg *coll_alg_wanted(const char *where, enum coll_kind kind, const char *name)
{
    const struct coll_alg *best = NULL, *a;
    for (int i = 0; (a = coll_alg_at(i)); i++) {
        if (a->kind != kind)
            continue;
        if (!strcmp(a->name, name))
            return a;
        if (!best || rt_near(name, a->name) < rt_near(name, best->name))
            best = a;
    }
    log_error(COLL,
              "%s asks for the algorithm \"%s\" of %s, which does not exist; the nearest is \"%s\"",
              where, name, coll_kind_names[kind], best->name);
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
