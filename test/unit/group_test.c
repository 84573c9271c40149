/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups: set operations, selections and translation, with errors (MPI-5.0 section 7.3). */
#include "mpi/api/bodies.h"
#include "mpi/core/group.h"
#include "test/check.h"

/* A group of job ranks, ended by -1. */
static struct wm_group *group_of(const int *ranks)
{
    int n = 0;
    while (ranks[n] >= 0)
        n++;
    struct rt_proc *p = malloc((size_t)(n + 1) * sizeof *p);
    struct wm_group *g = NULL;
    for (int i = 0; i < n; i++)
        p[i] = (struct rt_proc){ 0, (uint32_t)ranks[i] };
    CHECK_EQ(wm_group_create(p, n, &g), 0);
    return g;
}
#define G(...) group_of((const int[]){ __VA_ARGS__, -1 })

static void check_group(struct wm_group *g, const int *ranks)
{
    int n = 0;
    for (; ranks[n] >= 0; n++)
        CHECK_MSG(n < g->size && (int)wm_group_proc(g, n).rank == ranks[n], "rank %d", n);
    CHECK_EQ(g->size, n);
    wm_api_group_free(g);
}
#define IS(g, ...) check_group(g, (const int[]){ __VA_ARGS__, -1 })

/* Consecutive processes are stored without a list, however the group was made. */
static void runs(void)
{
    struct wm_group *big = NULL, *r = NULL;
    struct wm_group *a = G(4, 5, 6), *back = G(6, 5, 4), *b = G(4, 5, 7);
    int ranks[] = { 0, 999999, 5 }, out[3], result, missing;
    CHECK_EQ(wm_group_create_run((struct rt_proc){ 0, 0 }, 1000000, &big), 0);
    CHECK(big->procs == NULL && a->procs == NULL && back->procs != NULL);
    CHECK_EQ(big->rank, 0);
    CHECK_EQ(a->rank, MPI_UNDEFINED);
    CHECK_EQ(wm_group_translate(big, 3, ranks, a, out), 0);
    CHECK(out[0] == MPI_UNDEFINED && out[1] == MPI_UNDEFINED && out[2] == 1);
    CHECK_EQ(wm_group_compare(a, back, &result), 0);
    CHECK_EQ(result, MPI_SIMILAR);
    CHECK_EQ(wm_group_compare(a, b, &result), 0);
    CHECK_EQ(result, MPI_UNEQUAL);
    CHECK(wm_group_contains(big, b, &missing));
    CHECK(!wm_group_contains(a, b, &missing) && missing == 2);
    CHECK_EQ(wm_api_group_union(a, b, &r), 0);
    CHECK(r->procs == NULL);
    IS(r, 4, 5, 6, 7);
    CHECK_EQ(wm_api_group_incl(big, 3, (const int[]){ 7, 8, 9 }, &r), 0);
    CHECK_EQ(wm_group_compare(r, a, &result), 0);
    CHECK_EQ(result, MPI_UNEQUAL);
    IS(r, 7, 8, 9);
    wm_api_group_free(a), wm_api_group_free(b), wm_api_group_free(back), wm_api_group_free(big);
}

static void sets(void)
{
    struct wm_group *a = G(5, 1, 3, 0), *b = G(2, 3, 5, 7), *r = NULL;
    CHECK_EQ(a->rank, 3); /* this process is rank 0 of the job */
    CHECK_EQ(b->rank, MPI_UNDEFINED);
    CHECK_EQ(wm_api_group_union(a, b, &r), 0);
    IS(r, 5, 1, 3, 0, 2, 7);
    CHECK_EQ(wm_api_group_intersection(a, b, &r), 0);
    IS(r, 5, 3);
    CHECK_EQ(wm_api_group_difference(a, b, &r), 0);
    IS(r, 1, 0);
    CHECK_EQ(wm_api_group_difference(a, a, &r), 0);
    CHECK(wm_group_handle(r) == MPI_GROUP_EMPTY);
    struct wm_group *e = r;
    CHECK_EQ(wm_api_group_union(e, b, &r), 0);
    IS(r, 2, 3, 5, 7);
    CHECK_EQ(wm_api_group_intersection(a, e, &r), 0);
    CHECK(r == e);
    wm_api_group_free(e);
    CHECK_EQ(e->obj.refs, 1); /* predefined: never freed */
    wm_api_group_free(a);
    wm_api_group_free(b);
    CHECK_EQ(wm_group_slab.used, 0);
}

static void comparison(void)
{
    struct wm_group *a = G(1, 2, 3), *b = G(1, 2, 3), *c = G(3, 1, 2), *d = G(1, 2, 4);
    int result;
    CHECK(!wm_api_group_compare(a, b, &result) && result == MPI_IDENT);
    CHECK(!wm_api_group_compare(a, c, &result) && result == MPI_SIMILAR);
    CHECK(!wm_api_group_compare(a, d, &result) && result == MPI_UNEQUAL);
    CHECK(!wm_api_group_compare(a, wm_group_get(MPI_GROUP_EMPTY), &result) &&
          result == MPI_UNEQUAL);
    int in[] = { 2, 0, MPI_PROC_NULL, 1 }, out[4];
    CHECK_EQ(wm_api_group_translate_ranks(a, 4, in, d, out), 0);
    CHECK(out[0] == MPI_UNDEFINED && out[1] == 0 && out[2] == MPI_PROC_NULL && out[3] == 1);
    CHECK_EQ(wm_api_group_translate_ranks(a, 1, (int[]){ 3 }, d, out), MPI_ERR_RANK);
    wm_api_group_free(a);
    wm_api_group_free(b);
    wm_api_group_free(c);
    wm_api_group_free(d);
}

static void selections(void)
{
    struct wm_group *a = G(10, 11, 12, 13, 14, 15, 16, 17, 18, 19), *r = NULL;
    CHECK_EQ(wm_api_group_incl(a, 3, (int[]){ 9, 0, 4 }, &r), 0);
    IS(r, 19, 10, 14);
    CHECK_EQ(wm_api_group_excl(a, 3, (int[]){ 9, 0, 4 }, &r), 0);
    IS(r, 11, 12, 13, 15, 16, 17, 18);
    CHECK_EQ(wm_api_group_incl(a, 0, NULL, &r), 0);
    CHECK(wm_group_handle(r) == MPI_GROUP_EMPTY);
    CHECK_EQ(wm_api_group_incl(a, 2, (int[]){ 1, 10 }, &r), MPI_ERR_RANK);
    CHECK_EQ(wm_api_group_incl(a, 2, (int[]){ 1, 1 }, &r), MPI_ERR_RANK);
    CHECK_EQ(wm_api_group_excl(a, 1, (int[]){ -1 }, &r), MPI_ERR_RANK);
    CHECK_EQ(wm_api_group_range_incl(a, 2, (int[][3]){ { 6, 7, 1 }, { 4, 0, -2 } }, &r), 0);
    IS(r, 16, 17, 14, 12, 10);
    CHECK_EQ(wm_api_group_range_excl(a, 2, (int[][3]){ { 1, 6, 5 }, { 9, 7, -1 } }, &r), 0);
    IS(r, 10, 12, 13, 14, 15);
    CHECK_EQ(wm_api_group_range_incl(a, 1, (int[][3]){ { 0, 3, 0 } }, &r), MPI_ERR_ARG);
    CHECK_EQ(wm_api_group_range_incl(a, 1, (int[][3]){ { 8, 10, 1 } }, &r), MPI_ERR_RANK);
    wm_api_group_free(a);
    CHECK_EQ(wm_group_slab.used, 0);
}

int main(void)
{
    RUN(runs);
    RUN(sets);
    RUN(comparison);
    RUN(selections);
    return check_end();
}
