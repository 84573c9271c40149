/* SPDX-License-Identifier: BSD-3-Clause */
/* Levenshtein's distance of two names, one row of the table at a time.  No state. */
#include "runtime/base/near.h"

#include <stdbool.h>
#include <string.h>

static bool same_letter(char a, char b)
{
    return a == b || (a == '_' && b == '-') || (a == '-' && b == '_');
}

int rt_near(const char *a, const char *b)
{
    int row[RT_NEAR_BYTES + 1];
    int na = (int)strnlen(a, RT_NEAR_BYTES), nb = (int)strnlen(b, RT_NEAR_BYTES);
    for (int j = 0; j <= nb; j++)
        row[j] = j;
    for (int i = 1; i <= na; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= nb; j++) {
            int best = diagonal + !same_letter(a[i - 1], b[j - 1]);
            diagonal = row[j];
            best = row[j] + 1 < best ? row[j] + 1 : best;
            row[j] = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
        }
    }
    return row[nb];
}

int rt_near_limit(const char *typed)
{
    size_t len = strlen(typed);
    return len < 7 ? 2 : len < 11 ? 3 : 4;
}
