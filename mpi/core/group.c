/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups: immutable lists of processes (MPI-5.0 section 7.3).  Any thread; references are atomic,
 * contents never change.  Set operations use a hash index of the second group, so they cost
 * O(n + m). */
#include "mpi/core/group.h"
#include "mpi/api/bodies.h"
#include "mpi/core/session.h"
#include <stdlib.h>
#include <string.h>

void wm_group_ref(struct wm_group *g)
{
    if (g != &wm_group_empty)
        rt_fetch_add(&g->obj.refs, 1);
}

void wm_group_unref(struct wm_group *g)
{
    if (g && g != &wm_group_empty && rt_fetch_add(&g->obj.refs, -1) == 1) {
        wm_session_unref(g->session);
        free(g->procs);
        rt_slab_free(&wm_group_slab, g);
    }
}

void wm_group_set_session(struct wm_group *g, struct wm_session *s)
{
    if (g == &wm_group_empty || !s)
        return;
    wm_session_ref(s);
    g->session = s;
}

/* Two groups in one call must descend from the same session; the empty group fits any session. */
static int check_sessions(const struct wm_group *a, const struct wm_group *b)
{
    if (a == &wm_group_empty || b == &wm_group_empty)
        return MPI_SUCCESS;
    return wm_session_check(a->session, b->session, "arguments 1 and 2: the groups");
}

static bool same_proc(struct rt_proc a, struct rt_proc b)
{
    return a.ns == b.ns && a.rank == b.rank;
}

static bool is_run(const struct rt_proc *procs, int n)
{
    for (int i = 1; i < n; i++)
        if (procs[i].ns != procs[0].ns || procs[i].rank != procs[0].rank + (uint32_t)i)
            return false;
    return true;
}

static int create(struct rt_proc *procs, struct rt_proc first, int n, struct wm_group **out)
{
    struct wm_group *g = rt_slab_alloc(&wm_group_slab);
    if (!g) {
        free(procs);
        return wm_err(MPI_ERR_NO_MEM, "no memory for another group");
    }
    g->size = n;
    g->procs = procs;
    g->first = first;
    g->rank = wm_group_find(g, (struct rt_proc){ 0, (uint32_t)rt_boot.rank });
    *out = g;
    return MPI_SUCCESS;
}

int wm_group_create_run(struct rt_proc first, int n, struct wm_group **out)
{
    return create(NULL, first, n, out);
}

int wm_group_create(struct rt_proc *procs, int n, struct wm_group **out)
{
    if (n && !is_run(procs, n))
        return create(procs, procs[0], n, out);
    struct rt_proc first = n ? procs[0] : (struct rt_proc){ 0 };
    free(procs);
    if (n)
        return wm_group_create_run(first, n, out);
    *out = &wm_group_empty;
    return MPI_SUCCESS;
}

void wm_group_list(const struct wm_group *g, struct rt_proc *to)
{
    for (int i = 0; i < g->size; i++)
        to[i] = wm_group_proc(g, i);
}

/* Open-addressed hash index from process to rank. */
struct index {
    int *slot; /* NULL: a group of consecutive processes needs no index, or there is no memory for
                * one and each look-up is a linear search */
    uint32_t mask;
    const struct wm_group *g;
};

static uint32_t hash_proc(struct rt_proc p)
{
    return (p.rank * 0x9e3779b1u) ^
           (p.ns * 0x85ebca6bu); /* odd multipliers spread neighbouring ranks */
}

static void index_init(struct index *x, const struct wm_group *g)
{
    *x = (struct index){ .g = g };
    if (!g->procs)
        return;
    uint32_t n = 4;
    while (n < 2u * (uint32_t)g->size)
        n *= 2;
    x->slot = malloc(n * sizeof *x->slot);
    if (!x->slot)
        return;
    memset(x->slot, 0xff, n * sizeof *x->slot);
    x->mask = n - 1;
    for (int i = 0; i < g->size; i++) {
        uint32_t h = hash_proc(g->procs[i]) & x->mask;
        while (x->slot[h] >= 0)
            h = (h + 1) & x->mask;
        x->slot[h] = i;
    }
}

static int index_find(const struct index *x, struct rt_proc p)
{
    if (!x->slot)
        return wm_group_find(x->g, p);
    for (uint32_t h = hash_proc(p) & x->mask; x->slot[h] >= 0; h = (h + 1) & x->mask)
        if (same_proc(x->g->procs[x->slot[h]], p))
            return x->slot[h];
    return MPI_UNDEFINED;
}

static struct rt_proc *procs_alloc(int64_t n)
{
    return malloc((n ? (size_t)n : 1) * sizeof(struct rt_proc));
}

static int no_procs(int64_t n)
{
    return wm_err(MPI_ERR_NO_MEM, "no memory for a group of %lld processes", (long long)n);
}

static bool same_members(const struct wm_group *a, const struct wm_group *b)
{
    if (a->size != b->size || !a->procs != !b->procs)
        return false;
    if (!a->procs)
        return !a->size || same_proc(a->first, b->first);
    return !memcmp(a->procs, b->procs, (size_t)a->size * sizeof *a->procs);
}

int wm_group_compare(const struct wm_group *a, const struct wm_group *b, int *result)
{
    if (a == b || same_members(a, b)) {
        *result = MPI_IDENT;
        return MPI_SUCCESS;
    }
    *result = MPI_UNEQUAL;
    if (a->size != b->size)
        return MPI_SUCCESS;
    struct index x;
    index_init(&x, b);
    int i = 0;
    while (i < a->size && index_find(&x, wm_group_proc(a, i)) >= 0)
        i++;
    if (i == a->size)
        *result = MPI_SIMILAR;
    free(x.slot);
    return MPI_SUCCESS;
}

int wm_group_translate(const struct wm_group *from, int n, const int ranks[],
                       const struct wm_group *to, int out[])
{
    struct index x;
    int err = MPI_SUCCESS;
    index_init(&x, to);
    for (int i = 0; i < n && !err; i++) {
        if (ranks[i] == MPI_PROC_NULL)
            out[i] = MPI_PROC_NULL;
        else if (ranks[i] < 0 || ranks[i] >= from->size)
            err = wm_err(MPI_ERR_RANK, "ranks1[%d] is %d, the group has ranks 0..%d", i, ranks[i],
                         from->size - 1);
        else
            out[i] = index_find(&x, wm_group_proc(from, ranks[i]));
    }
    free(x.slot);
    return err;
}

bool wm_group_contains(const struct wm_group *big, const struct wm_group *small, int *missing)
{
    struct index x;
    index_init(&x, big);
    int i = 0;
    while (i < small->size && index_find(&x, wm_group_proc(small, i)) >= 0)
        i++;
    free(x.slot);
    *missing = i;
    return i == small->size;
}

/* The members of `a` that are (or are not) in `b`; with `rest` followed by the members of `b` that
 * are not in `a`. */
static int combine(struct wm_group *a, struct wm_group *b, bool take_common, bool take_other,
                   bool rest, struct wm_group **out)
{
    int n = 0, err = check_sessions(a, b);
    if (err)
        return err;
    struct rt_proc *p = procs_alloc((int64_t)a->size + b->size);
    if (!p)
        return no_procs((int64_t)a->size + b->size);
    struct index x;
    index_init(&x, b);
    for (int i = 0; i < a->size; i++)
        if (index_find(&x, wm_group_proc(a, i)) >= 0 ? take_common : take_other)
            p[n++] = wm_group_proc(a, i);
    free(x.slot);
    if (rest) {
        index_init(&x, a);
        for (int i = 0; i < b->size; i++)
            if (index_find(&x, wm_group_proc(b, i)) < 0)
                p[n++] = wm_group_proc(b, i);
        free(x.slot);
    }
    err = wm_group_create(p, n, out);
    if (!err)
        wm_group_set_session(*out, a->session ? a->session : b->session);
    return err;
}

int wm_api_group_union(struct wm_group *group1, struct wm_group *group2, struct wm_group **newgroup)
{
    return combine(group1, group2, true, true, true, newgroup);
}

int wm_api_group_intersection(struct wm_group *group1, struct wm_group *group2,
                              struct wm_group **newgroup)
{
    return combine(group1, group2, true, false, false, newgroup);
}

int wm_api_group_difference(struct wm_group *group1, struct wm_group *group2,
                            struct wm_group **newgroup)
{
    return combine(group1, group2, false, true, false, newgroup);
}

/* Marks the listed ranks in seen[group->size]; an error for a rank out of range or repeated. */
static int mark_rank(const struct wm_group *g, unsigned char *seen, int rank, int i)
{
    if (rank < 0 || rank >= g->size)
        return wm_err(MPI_ERR_RANK, "entry %d names rank %d, the group has ranks 0..%d", i, rank,
                      g->size - 1);
    if (seen[rank])
        return wm_err(MPI_ERR_RANK, "entry %d names rank %d a second time", i, rank);
    seen[rank] = 1;
    return MPI_SUCCESS;
}

/* An ordered selection of ranks, used by all forms of incl and excl. */
struct select {
    const struct wm_group *g;
    unsigned char *seen;
    int *order;
    int n;
};

static int select_init(struct select *s, const struct wm_group *g)
{
    s->g = g;
    s->n = 0;
    s->seen = calloc((size_t)g->size + 1, 1);
    s->order = malloc(((size_t)g->size + 1) * sizeof *s->order);
    if (s->seen && s->order)
        return MPI_SUCCESS;
    free(s->seen);
    free(s->order);
    return no_procs(g->size);
}

static int select_add(struct select *s, int rank, int i)
{
    int err = mark_rank(s->g, s->seen, rank, i);
    if (!err)
        s->order[s->n++] = rank;
    return err;
}

static int select_list(struct select *s, int n, const int ranks[])
{
    int err = MPI_SUCCESS;
    for (int i = 0; i < n && !err; i++)
        err = select_add(s, ranks[i], i);
    return err;
}

static int select_ranges(struct select *s, int n, int ranges[][3])
{
    int err = MPI_SUCCESS;
    for (int i = 0; i < n && !err; i++) {
        int64_t first = ranges[i][0], last = ranges[i][1], step = ranges[i][2];
        if (!step)
            return wm_err(MPI_ERR_ARG, "the stride of range %d is 0", i);
        for (int64_t r = first; (step > 0 ? r <= last : r >= last) && !err; r += step)
            err = select_add(s, (int)r, i);
    }
    return err;
}

/* Creates the group of the selected ranks, or of all other ranks in their order, and frees the
 * selection. */
static int select_finish(struct select *s, int err, bool exclude, struct wm_group **out)
{
    struct rt_proc *p = NULL;
    if (!err) {
        p = procs_alloc(s->g->size);
        if (!p)
            err = no_procs(s->g->size);
    }
    if (!err) {
        int n = 0;
        if (!exclude)
            for (; n < s->n; n++)
                p[n] = wm_group_proc(s->g, s->order[n]);
        else
            for (int i = 0; i < s->g->size; i++)
                if (!s->seen[i])
                    p[n++] = wm_group_proc(s->g, i);
        err = wm_group_create(p, n, out);
        if (!err)
            wm_group_set_session(*out, s->g->session);
    }
    free(s->seen);
    free(s->order);
    return err;
}

static int select_by_list(struct wm_group *g, int n, const int ranks[], bool exclude,
                          struct wm_group **out)
{
    struct select s;
    int err = select_init(&s, g);
    return err ? err : select_finish(&s, select_list(&s, n, ranks), exclude, out);
}

static int select_by_ranges(struct wm_group *g, int n, int ranges[][3], bool exclude,
                            struct wm_group **out)
{
    struct select s;
    int err = select_init(&s, g);
    return err ? err : select_finish(&s, select_ranges(&s, n, ranges), exclude, out);
}

int wm_api_group_incl(struct wm_group *group, int n, const int ranks[], struct wm_group **newgroup)
{
    return select_by_list(group, n, ranks, false, newgroup);
}

int wm_api_group_excl(struct wm_group *group, int n, const int ranks[], struct wm_group **newgroup)
{
    return select_by_list(group, n, ranks, true, newgroup);
}

int wm_api_group_range_incl(struct wm_group *group, int n, int ranges[][3],
                            struct wm_group **newgroup)
{
    return select_by_ranges(group, n, ranges, false, newgroup);
}

int wm_api_group_range_excl(struct wm_group *group, int n, int ranges[][3],
                            struct wm_group **newgroup)
{
    return select_by_ranges(group, n, ranges, true, newgroup);
}

int wm_api_group_size(struct wm_group *group, int *size)
{
    *size = group->size;
    return MPI_SUCCESS;
}

int wm_api_group_rank(struct wm_group *group, int *rank)
{
    *rank = group->rank;
    return MPI_SUCCESS;
}

int wm_api_group_compare(struct wm_group *group1, struct wm_group *group2, int *result)
{
    int err = check_sessions(group1, group2);
    return err ? err : wm_group_compare(group1, group2, result);
}

int wm_api_group_translate_ranks(struct wm_group *group1, int n, const int ranks1[],
                                 struct wm_group *group2, int ranks2[])
{
    int err = check_sessions(group1, group2);
    return err ? err : wm_group_translate(group1, n, ranks1, group2, ranks2);
}

int wm_api_group_free(struct wm_group *group)
{
    wm_group_unref(group); /* no effect on MPI_GROUP_EMPTY */
    return MPI_SUCCESS;
}
