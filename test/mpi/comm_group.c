/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups (MPI-5.0 section 7.3).  All operations are local; every rank computes the same and checks
 * it.  Larger groups come from the world's ranks, so the set operations are checked at the size
 * that runs. */
#include "test/mpi/mpitest.h"

static MPI_Group all;

static void with_all(void) { OK(MPI_Comm_group(mt_comm, &all)); }

/* The group's ranks, as ranks of `all`. */
static int members(MPI_Group g, int *out)
{
    int n = -1, i, ranks[64];

    OK(MPI_Group_size(g, &n));
    for (i = 0; i < n && i < 64; i++)
        ranks[i] = i;
    OK(MPI_Group_translate_ranks(g, n, ranks, all, out));
    return n;
}

static void check_members(MPI_Group g, const int *want, int nwant)
{
    int got[64], i, r = -5, mine = MPI_UNDEFINED, n = members(g, got);

    CHECK_EQ(n, nwant);
    for (i = 0; i < n && n == nwant; i++) {
        CHECK_EQ(got[i], want[i]);
        if (want[i] == mt_rank)
            mine = i;
    }
    OK(MPI_Group_rank(g, &r));
    CHECK_EQ(r, mine);
}

static void empty(void)
{
    int n = -1, r = -1, cmp = -1;
    MPI_Group g;

    with_all();
    OK(MPI_Group_size(MPI_GROUP_EMPTY, &n));
    CHECK_EQ(n, 0);
    OK(MPI_Group_rank(MPI_GROUP_EMPTY, &r));
    CHECK_EQ(r, MPI_UNDEFINED);
    OK(MPI_Group_incl(all, 0, NULL, &g));
    CHECK(g == MPI_GROUP_EMPTY);
    OK(MPI_Group_compare(g, MPI_GROUP_EMPTY, &cmp));
    CHECK_EQ(cmp, MPI_IDENT);
    OK(MPI_Group_difference(all, all, &g));
    CHECK(g == MPI_GROUP_EMPTY);
    OK(MPI_Group_free(&all));
}

static void incl_and_excl(void)
{
    int last[1] = { mt_size - 1 }, rest[64], backwards[64], i;
    MPI_Group g;

    with_all();
    for (i = 0; i < mt_size; i++) {
        rest[i] = i;
        backwards[i] = mt_size - 1 - i;
    }
    OK(MPI_Group_incl(all, 1, last, &g));
    check_members(g, last, 1);
    OK(MPI_Group_free(&g));
    OK(MPI_Group_excl(all, 1, last, &g));
    check_members(g, rest, mt_size - 1);
    if (g != MPI_GROUP_EMPTY)
        OK(MPI_Group_free(&g));
    OK(MPI_Group_incl(all, mt_size, backwards, &g));
    check_members(g, backwards, mt_size);
    OK(MPI_Group_free(&g));
    OK(MPI_Group_free(&all));
}

static void ranges(void)
{
    int up[1][3] = { { 0, mt_size - 1, 2 } }, down[1][3] = { { mt_size - 1, 0, -1 } }, want[64],
        n = 0, i;
    MPI_Group g;

    with_all();
    for (i = 0; i < mt_size; i += 2)
        want[n++] = i;
    OK(MPI_Group_range_incl(all, 1, up, &g));
    check_members(g, want, n);
    OK(MPI_Group_free(&g));
    for (n = 0, i = 1; i < mt_size; i += 2)
        want[n++] = i;
    OK(MPI_Group_range_excl(all, 1, up, &g));
    check_members(g, want, n);
    if (g != MPI_GROUP_EMPTY)
        OK(MPI_Group_free(&g));
    for (i = 0; i < mt_size; i++)
        want[i] = mt_size - 1 - i;
    OK(MPI_Group_range_incl(all, 1, down, &g));
    check_members(g, want, mt_size);
    OK(MPI_Group_free(&g));
    OK(MPI_Group_free(&all));
}

/* a: first two thirds in reverse, b: last two thirds. */
static void set_operations(void)
{
    int third = mt_size / 3, a[64], b[64], want[64], na = 0, nb = 0, n, i;
    MPI_Group ga, gb, g;

    with_all();
    for (i = mt_size - third - 1; i >= 0; i--)
        a[na++] = i;
    for (i = third; i < mt_size; i++)
        b[nb++] = i;
    OK(MPI_Group_incl(all, na, a, &ga));
    OK(MPI_Group_incl(all, nb, b, &gb));

    memcpy(want, a, sizeof(want)); /* all of a, then what only b has, each in its order */
    for (n = na, i = 0; i < nb; i++)
        if (b[i] >= mt_size - third)
            want[n++] = b[i];
    OK(MPI_Group_union(ga, gb, &g));
    check_members(g, want, n);
    OK(MPI_Group_free(&g));

    for (n = i = 0; i < na; i++)
        if (a[i] >= third)
            want[n++] = a[i];
    OK(MPI_Group_intersection(ga, gb, &g));
    check_members(g, want, n);
    if (g != MPI_GROUP_EMPTY)
        OK(MPI_Group_free(&g));

    for (n = i = 0; i < na; i++)
        if (a[i] < third)
            want[n++] = a[i];
    OK(MPI_Group_difference(ga, gb, &g));
    check_members(g, want, n);
    if (g != MPI_GROUP_EMPTY)
        OK(MPI_Group_free(&g));
    OK(MPI_Group_free(&ga));
    OK(MPI_Group_free(&gb));
    OK(MPI_Group_free(&all));
}

static void compare(void)
{
    int backwards[64], i, cmp = -1;
    MPI_Group g, h;

    with_all();
    for (i = 0; i < mt_size; i++)
        backwards[i] = mt_size - 1 - i;
    OK(MPI_Group_incl(all, mt_size, backwards, &g));
    OK(MPI_Group_compare(all, g, &cmp));
    CHECK_EQ(cmp, mt_size == 1 ? MPI_IDENT : MPI_SIMILAR);
    OK(MPI_Group_incl(g, mt_size, backwards, &h));
    OK(MPI_Group_compare(all, h, &cmp));
    CHECK_EQ(cmp, MPI_IDENT);
    OK(MPI_Group_compare(all, MPI_GROUP_EMPTY, &cmp));
    CHECK_EQ(cmp, MPI_UNEQUAL);
    OK(MPI_Group_free(&g));
    OK(MPI_Group_free(&h));
    OK(MPI_Group_free(&all));
}

static void translate(void)
{
    int in[3] = { 0, MPI_PROC_NULL, mt_size - 1 }, out[3] = { -9, -9, -9 }, first[1] = { 0 };
    MPI_Group g;

    with_all();
    OK(MPI_Group_incl(all, 1, first, &g));
    OK(MPI_Group_translate_ranks(all, 3, in, g, out));
    CHECK_EQ(out[0], 0);
    CHECK_EQ(out[1], MPI_PROC_NULL);
    CHECK_EQ(out[2], mt_size == 1 ? 0 : MPI_UNDEFINED);
    OK(MPI_Group_free(&g));
    OK(MPI_Group_free(&all));
}

static void bad_ranks(void)
{
    int twice[2] = { 0, 0 }, outside[1] = { mt_size }, range[1][3] = { { 0, mt_size - 1, 0 } };
    MPI_Group g;

    with_all();
    FAILS(MPI_Group_incl(all, 1, outside, &g), MPI_ERR_RANK);
    FAILS(MPI_Group_excl(all, 1, outside, &g), MPI_ERR_RANK);
    if (mt_size > 1)
        FAILS(MPI_Group_incl(all, 2, twice, &g), MPI_ERR_RANK);
    FAILS(MPI_Group_range_incl(all, 1, range, &g), MPI_ERR_ARG);
    FAILS(MPI_Group_size(MPI_GROUP_NULL, twice), MPI_ERR_GROUP);
    OK(MPI_Group_free(&all));
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MT_RUN(empty);
    MT_RUN(incl_and_excl);
    MT_RUN(ranges);
    MT_RUN(set_operations);
    MT_RUN(compare);
    MT_RUN(translate);
    MT_RUN(bad_ranks);
    return mt_end();
}
