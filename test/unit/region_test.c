/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory by index and generation (btl/region.h): a stale, out-of-range or invented key
 * finds nothing. */
#include "btl/region.h"
#include "test/check.h"

static char room[4096];

static void only_what_is_registered_is_found(void)
{
    struct btl_regions t = { 0 };
    struct btl_mem *m = NULL;
    CHECK(!btl_region_at(&t, 0, 1, 0, 0));
    CHECK_EQ(btl_region_add(&t, room, 100, &m), 0);
    CHECK(btl_region_at(&t, m->region, m->gen, 0, 100) == room);
    CHECK(btl_region_at(&t, m->region, m->gen, 99, 1) == room + 99);
    CHECK(!btl_region_at(&t, m->region, m->gen, 99, 2));
    CHECK(!btl_region_at(&t, m->region, m->gen, 101, 0));
    CHECK(!btl_region_at(&t, m->region, m->gen, 1, UINT64_MAX)); /* the sum wraps */
    CHECK(!btl_region_at(&t, m->region, m->gen, UINT64_MAX, 2));
    CHECK(!btl_region_at(&t, m->region + 1, m->gen, 0, 1));
    CHECK(!btl_region_at(&t, m->region, m->gen + 1, 0, 0));
    btl_regions_fini(&t);
}

static void late_keys_find_nothing(void)
{
    struct btl_regions t = { 0 };
    struct btl_mem *m[9], *again;
    uint32_t region, gen;
    for (int i = 0; i < 9; i++)
        CHECK_EQ(btl_region_add(&t, room + i * 100, 100, &m[i]), 0);
    region = m[4]->region;
    gen = m[4]->gen;
    btl_region_drop(m[4]);
    CHECK(!btl_region_at(&t, region, gen, 0, 0));
    CHECK(!btl_region_at(&t, region, gen + 1, 0, 0)); /* of freed memory */
    CHECK_EQ(btl_region_add(&t, room + 2000, 50, &again), 0);
    CHECK_EQ(again->region, region); /* reused */
    CHECK(!btl_region_at(&t, region, gen, 0, 1));
    CHECK(btl_region_at(&t, region, again->gen, 0, 50) == room + 2000);
    CHECK(btl_region_at(&t, m[8]->region, m[8]->gen, 0, 100) == room + 800);
    btl_regions_fini(&t);
}

int main(void)
{
    RUN(only_what_is_registered_is_found);
    RUN(late_keys_find_nothing);
    return check_end();
}
