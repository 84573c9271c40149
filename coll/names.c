/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives and algorithms by the names that people type, in WEFT_COLL and in tables of choices;
 * what is wrong is said once, with the name that may have been meant.  Reads only. */
#include "coll/start.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/base/near.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HINT_BYTES 64             /* the longest name is "neighbor_allgatherv" */

/* What to say of a name that does not exist, when `near` may have been meant, or NULL. */
static const char *hint(const char *near, char *buf, size_t len)
{
    if (near)
        snprintf(buf, len, "the nearest is \"%s\"", near);
    else
        snprintf(buf, len, "'weft_info --coll' lists all");
    return buf;
}

int coll_kind_find(const char *where, const char *name)
{
    char buf[HINT_BYTES];
    const char *near = NULL;
    int best = rt_near_limit(name);
    for (int k = 0; k < COLL_KINDS; k++) {
        if (!strcmp(coll_kind_names[k], name))
            return k;
        int d = rt_near(name, coll_kind_names[k]);
        if (d < best) {
            best = d;
            near = coll_kind_names[k];
        }
    }
    log_error(COLL, "%s names the collective \"%s\", which does not exist; %s", where, name,
              hint(near, buf, sizeof buf));
    return -RT_EINVAL;
}

const struct coll_alg *coll_alg_wanted(const char *where, enum coll_kind kind, const char *name)
{
    char buf[HINT_BYTES];
    const char *near = NULL;
    const struct coll_alg *a;
    int best = rt_near_limit(name);
    for (int i = 0; (a = coll_alg_at(i)); i++) {
        if (a->kind != kind)
            continue;
        if (!strcmp(a->name, name))
            return a;
        int d = rt_near(name, a->name);
        if (d < best) {
            best = d;
            near = a->name;
        }
    }
    log_error(COLL, "%s asks for the algorithm \"%s\" of %s, which does not exist; %s", where, name,
              coll_kind_names[kind], hint(near, buf, sizeof buf));
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
