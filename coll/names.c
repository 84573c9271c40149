/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives and algorithms by the names that people type, in WEFT_COLL and in tables of choices;
 * what is wrong is said once, with the nearest name that would be right.  Reads only. */
#include "coll/start.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/err.h"
#include "runtime/base/log.h"

/* Edit distance of two short names, for "did you mean". */
static int distance(const char *a, const char *b)
{
    int row[64], la = (int)strlen(a), lb = (int)strlen(b);
    if (lb > 62)
        lb = 62;
    for (int j = 0; j <= lb; j++)
        row[j] = j;
    for (int i = 1; i <= la; i++) {
        int diag = row[0];
        row[0] = i;
        for (int j = 1; j <= lb; j++) {
            int change = diag + (a[i - 1] != b[j - 1]), drop = row[j] + 1, add = row[j - 1] + 1;
            diag = row[j];
            row[j] = change < drop ? (change < add ? change : add) : (drop < add ? drop : add);
        }
    }
    return row[lb];
}

int coll_kind_find(const char *where, const char *name)
{
    int best = 0;
    for (int k = 0; k < COLL_KINDS; k++) {
        if (!strcmp(coll_kind_names[k], name))
            return k;
        if (distance(name, coll_kind_names[k]) < distance(name, coll_kind_names[best]))
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
        if (!best || distance(name, a->name) < distance(name, best->name))
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
        log_error(COLL,
                  "%s has the size \"%s\"; expected bytes with an optional K, M or G, such as 64K",
                  where, text);
        return -RT_EINVAL;
    }
    *out = (int64_t)v << shift;
    return 0;
}
