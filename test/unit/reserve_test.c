/* SPDX-License-Identifier: BSD-3-Clause */
/* The reserve: runs do not overlap, freed runs are reused and joined, and it ends. */
#include "runtime/base/reserve.h"
#include "test/check.h"
#include <stdint.h>
#include <string.h>

#define PARTS 64

static void runs_do_not_overlap(void)
{
    char *at[PARTS];
    for (size_t i = 0; i < PARTS; i++) {
        at[i] = rt_reserve_take(100 * i + 1);
        CHECK(at[i] != NULL);
        CHECK_EQ((uintptr_t)at[i] % 64, 0);
        memset(at[i], (int)i, 100 * i + 1);
    }
    for (size_t i = 0; i < PARTS; i++) {
        size_t same = 0;
        while (same < 100 * i + 1 && at[i][same] == (char)i)
            same++;
        CHECK_EQ(same, 100 * i + 1);
        rt_reserve_free(at[i]);
    }
}

static void it_ends_and_is_whole_again(void)
{
    size_t half = RT_RESERVE_NBYTES / 2 - 1;
    char *a = rt_reserve_take(half), *b = rt_reserve_take(half);
    CHECK(a && b);
    CHECK(!rt_reserve_take(1));
    CHECK(!rt_reserve_take(SIZE_MAX));
    rt_reserve_free(a);
    CHECK(rt_reserve_take(half) == a);
    rt_reserve_free(b);
    rt_reserve_free(a);
    a = rt_reserve_take(RT_RESERVE_NBYTES - 1024); /* both halves are one run again */
    CHECK(a != NULL);
    rt_reserve_free(a);
}

static void memory_grows(void)
{
    char *p = rt_reserve_realloc(NULL, 0, 10);
    memset(p, 'x', 10);
    p = rt_reserve_realloc(p, 10, 5000);
    CHECK(p && p[9] == 'x');
    rt_reserve_free(p);
    p = rt_reserve_take(10); /* what is in the reserve stays in it */
    memset(p, 'y', 10);
    char *more = rt_reserve_realloc(p, 10, 5000);
    CHECK(more && more != p && more[9] == 'y');
    CHECK(rt_reserve_take(10) == p);
    rt_reserve_free(p);
    rt_reserve_free(more);
    p = rt_reserve_zalloc(100);
    CHECK(p && !p[0] && !p[99]);
    rt_reserve_free(p);
    rt_reserve_free(NULL);
}

int main(void)
{
    RUN(runs_do_not_overlap);
    RUN(it_ends_and_is_whole_again);
    RUN(memory_grows);
    return check_end();
}
