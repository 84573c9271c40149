/* SPDX-License-Identifier: BSD-3-Clause */
/* Levenshtein distance of two names, where exchanging two neighbours is one edit; computed one row
 * at a time.  No state. */
#include "runtime/base/near.h"

#include <stdbool.h>
#include <string.h>

static bool same_letter(char a, char b)
{
    return a == b || (a == '_' && b == '-') || (a == '-' && b == '_');
}

int rt_near(const char *a, const char *b)
{
    int rows[3][RT_NEAR_BYTES + 1];
    int na = (int)strnlen(a, RT_NEAR_BYTES), nb = (int)strnlen(b, RT_NEAR_BYTES);
    for (int j = 0; j <= nb; j++)
        rows[0][j] = j;
    for (int i = 1; i <= na; i++) {
        int *row = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= nb; j++) {
            int best = last[j - 1] + !same_letter(a[i - 1], b[j - 1]);
            best = last[j] + 1 < best ? last[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) &&
                same_letter(a[i - 2], b[j - 1]) && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[na % 3][nb];
}

int rt_near_limit(const char *typed)
{
    size_t len = strlen(typed);
    return len < 7 ? 2 : len < 11 ? 3 : 4;
}
