/* SPDX-License-Identifier: BSD-3-Clause */
/* Distances of names: known distances, in both directions, and names longer than the compared
 * part. */
#include "runtime/base/near.h"
#include "test/check.h"

static void known_distances(void)
{
    static const struct {
        const char *a, *b;
        int d;
    } rows[] = {
        { "", "", 0 },
        { "", "abc", 3 },
        { "same", "same", 0 },
        { "ab", "ba", 1 },
        { "timout", "timeout", 1 },
        { "kitten", "sitting", 3 },
        { "shm_eager", "shm-eager", 0 },
        { "rnig", "ring", 1 },
        { "a-b", "ab_", 1 },
        { "cab", "abc", 2 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK_EQ(rt_near(rows[i].a, rows[i].b), rows[i].d);
        CHECK_EQ(rt_near(rows[i].b, rows[i].a), rows[i].d);
    }
}

static void long_names(void)
{
    char name[10 * RT_NEAR_BYTES] = { 0 };
    memset(name, 'x', sizeof name - 1);
    CHECK_EQ(rt_near(name, name), 0);
    CHECK_EQ(rt_near(name, "x"), RT_NEAR_BYTES - 1);
    CHECK_EQ(rt_near("", name), RT_NEAR_BYTES);
}

static void short_names_have_fewer_slips(void)
{
    CHECK(rt_near("foo", "log") >= rt_near_limit("foo"));
    CHECK(rt_near("lgo", "log") < rt_near_limit("lgo"));
    CHECK(rt_near("ogl", "log") >= rt_near_limit("ogl"));
    CHECK(rt_near("logg", "log") < rt_near_limit("logg"));
    CHECK(rt_near("sleep_us_", "spin_us") >= rt_near_limit("sleep_us_"));
    CHECK(rt_near("verbs_dev", "verbs_srq") >= rt_near_limit("verbs_dev"));
    CHECK(rt_near("frist-name", "first-name") < rt_near_limit("frist-name"));
}

int main(void)
{
    RUN(known_distances);
    RUN(long_names);
    RUN(short_names_have_fewer_slips);
    return check_end();
}
