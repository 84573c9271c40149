/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives between two groups over fake teams, with messages that arrive in any order: every
 * kind at many sizes of the groups against the definition.  Several calls are in progress at once.
 * Ranks are those of the fake: [0, p) and [p, p + q). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "test/check.h"
#include "test/fake/coll_fake.h"

struct elem { /* a piece of a hashed string: concatenation is associative but not commutative */
    uint32_t h, p;
};
static struct elem concat(struct elem a, struct elem b)
{
    return (struct elem){ a.h * b.p + b.h, a.p * b.p };
}
static void user_concat(const struct rt_op *op, const void *in, void *inout, int64_t n,
                        const struct rt_layout *l)
{
    const struct elem *a = in;
    struct elem *b = inout;

    (void)op;
    (void)l;
    for (int64_t i = 0; i < n; i++)
        b[i] = concat(a[i], b[i]);
}
static const struct rt_op op = { .code = RT_OP_USER, .user = user_concat };
static const struct rt_layout layout = {
    .size = 8, .extent = 8, .true_extent = 8, .elem = RT_ELEM_NONE, .contig = true
};

struct call {
    enum coll_kind kind;
    int p, q, root; /* of the fake */
    int64_t count;
};

struct side { /* one rank's arguments and buffers in a call */
    struct elem *s, *r;
    int64_t sn, rn, sc[40], sd[40], rc[40], rd[40];
    const struct rt_layout *types[40];
};

static bool second(const struct call *c, int i) { return i >= c->p; }
static int far_n(const struct call *c, int i) { return second(c, i) ? c->p : c->q; }
static int far_rank(const struct call *c, int i, int j) { return second(c, i) ? j : c->p + j; }
static int own_n(const struct call *c, int i) { return second(c, i) ? c->q : c->p; }
static int own_rank(const struct call *c, int i) { return second(c, i) ? i - c->p : i; }

static bool rooted(enum coll_kind k)
{
    return k == COLL_BCAST || k == COLL_REDUCE || k == COLL_GATHER || k == COLL_GATHERV ||
           k == COLL_SCATTER || k == COLL_SCATTERV;
}
static bool reduction(enum coll_kind k)
{
    return k == COLL_REDUCE || k == COLL_ALLREDUCE || k == COLL_REDUCE_SCATTER ||
           k == COLL_REDUCE_SCATTER_BLOCK;
}
static bool vectors(enum coll_kind k)
{
    return k == COLL_GATHERV || k == COLL_SCATTERV || k == COLL_ALLGATHERV || k == COLL_ALLTOALLV ||
           k == COLL_ALLTOALLW;
}

/* Elements sent from i to j, and their values; in bcast and allgather the same for all
 * receivers. */
static int64_t len(const struct call *c, int i, int j)
{
    if (c->kind == COLL_ALLTOALLV || c->kind == COLL_ALLTOALLW)
        return (i + j) % 3 * c->count;
    if (c->kind == COLL_ALLGATHERV || c->kind == COLL_GATHERV)
        return i % 3 * c->count;
    if (c->kind == COLL_SCATTERV)
        return j % 3 * c->count;
    return rooted(c->kind) || !second(c, i) ? c->count : 2 * c->count;
}
static struct elem value(const struct call *c, int i, int j, int64_t e)
{
    bool alike = c->kind == COLL_BCAST || c->kind == COLL_ALLGATHER || c->kind == COLL_ALLGATHERV ||
                 reduction(c->kind);
    uint32_t x = (uint32_t)i * 2654435761u ^ (alike ? 0 : (uint32_t)j * 40503u) ^
                 (uint32_t)e * 2246822519u ^ (uint32_t)c->kind * 97u;
    return (struct elem){ (x ^ x >> 15) * 2246822519u, (x >> 7 | 1) * 31 };
}

static bool receives(const struct call *c, int i)
{
    bool from_root = c->kind == COLL_BCAST || c->kind == COLL_SCATTER || c->kind == COLL_SCATTERV;
    return !rooted(c->kind) || (from_root ? second(c, i) != second(c, c->root) : i == c->root);
}
/* Whether rank i has a block for (or from) each rank of the other group. */
static bool many_out(const struct call *c)
{
    return c->kind == COLL_SCATTER || c->kind == COLL_SCATTERV || c->kind == COLL_ALLTOALL ||
           c->kind == COLL_ALLTOALLV || c->kind == COLL_ALLTOALLW;
}
static bool many_in(const struct call *c)
{
    return c->kind == COLL_GATHER || c->kind == COLL_GATHERV || c->kind == COLL_ALLGATHER ||
           c->kind == COLL_ALLGATHERV || c->kind == COLL_ALLTOALL || c->kind == COLL_ALLTOALLV ||
           c->kind == COLL_ALLTOALLW;
}
static int partner(const struct call *c, int i, int j, bool many)
{
    return many || !rooted(c->kind) ? far_rank(c, i, j)
           : i == c->root           ? far_rank(c, i, 0)
                                    : c->root;
}

/* The vector of a reduction has `count` elements for each pair of ranks if it is scattered. */
static int64_t terms(const struct call *c)
{
    bool scattered = c->kind == COLL_REDUCE_SCATTER || c->kind == COLL_REDUCE_SCATTER_BLOCK;
    return scattered ? c->count * c->p * c->q : c->count;
}
static int64_t own_terms(const struct call *c, int i, int j) /* for local rank j */
{
    int64_t each = c->count * far_n(c, i);
    if (c->kind == COLL_REDUCE_SCATTER_BLOCK)
        return each;
    if (c->kind != COLL_REDUCE_SCATTER)
        return c->count;
    return j == 0 ? each * own_n(c, i) : 0; /* all to the first rank */
}

static void fill(const struct call *c, int i, struct side *d, struct coll_args *a)
{
    int n = far_n(c, i);
    bool w = c->kind == COLL_ALLTOALLW;

    memset(d, 0, sizeof *d);
    d->sn = reduction(c->kind) ? terms(c) : 0;
    for (int j = 0; j < n; j++) {
        d->sc[j] = len(c, i, partner(c, i, j, many_out(c)));
        d->rc[j] = len(c, partner(c, i, j, many_in(c)), i);
        d->sd[j] = d->sn * (w ? 8 : 1);
        d->rd[j] = d->rn * (w ? 8 : 1);
        d->sn += many_out(c) || j == 0 ? d->sc[j] : 0;
        d->rn += many_in(c) || j == 0 ? d->rc[j] : 0;
        d->types[j] = &layout;
    }
    if (reduction(c->kind)) {
        for (int j = 0; j < own_n(c, i); j++)
            d->rc[j] = own_terms(c, i, j);
        d->rn = d->rc[own_rank(c, i)];
    }
    d->s = calloc((size_t)d->sn + 1, 8);
    d->r = calloc((size_t)d->rn + 1, 8);
    for (int j = 0, at = 0; j < (many_out(c) ? n : 1); j++)
        for (int64_t e = 0; e < (reduction(c->kind) ? terms(c) : d->sc[j]); e++)
            d->s[at++] = value(c, i, partner(c, i, j, many_out(c)), e);
    *a = (struct coll_args){ .kind = c->kind,
                             .sbuf = d->s,
                             .rbuf = c->kind == COLL_BCAST && i == c->root ? d->s : d->r,
                             .scount = d->sc[0],
                             .rcount = c->kind == COLL_BCAST ? c->count : d->rc[0],
                             .stype = &layout,
                             .rtype = &layout,
                             .op = reduction(c->kind) ? &op : NULL };
    if (rooted(c->kind))
        a->root = i == c->root                         ? COLL_ROOT
                  : second(c, i) == second(c, c->root) ? COLL_NOBODY
                                                       : own_rank(c, c->root);
    if (vectors(c->kind)) {
        a->scounts = d->sc;
        a->sdispls = d->sd;
        a->rcounts = d->rc;
        a->rdispls = d->rd;
    }
    if (c->kind == COLL_REDUCE_SCATTER) {
        a->rcounts = d->rc;
        a->rcount = 0;
    }
    if (w) {
        a->stypes = a->rtypes = d->types;
    }
}

static int wrong(const struct call *c, int i, const struct side *d)
{
    int bad = 0, n = many_in(c) ? far_n(c, i) : 1;
    int64_t at = 0, first = 0;

    for (int j = 0; j < own_rank(c, i) && reduction(c->kind); j++)
        first += c->kind == COLL_REDUCE || c->kind == COLL_ALLREDUCE ? 0 : own_terms(c, i, j);
    if (!receives(c, i) || c->kind == COLL_BARRIER)
        n = 0;
    for (int j = 0; j < n; j++) {
        for (int64_t e = 0; e < (reduction(c->kind) ? d->rn : d->rc[j]); e++, at++) {
            struct elem want = value(c, partner(c, i, j, many_in(c)), i, e);
            if (reduction(c->kind)) {
                want = value(c, far_rank(c, i, 0), i, first + e);
                for (int k = 1; k < far_n(c, i); k++)
                    want = concat(want, value(c, far_rank(c, i, k), i, first + e));
            }
            bad += d->r[at].h != want.h || d->r[at].p != want.p;
        }
    }
    for (; at <= d->rn; at++) /* elements that this rank must not get, and the guard */
        bad += d->r[at].h != 0 || d->r[at].p != 0;
    return bad;
}

/* Every kind once, at most `window` at a time. */
static void run(int p, int q, int64_t count, unsigned seed, int window)
{
    enum { N = COLL_REDUCE_SCATTER_BLOCK + 1 };
    int size = p + q;
    struct coll_args *args = calloc((size_t)(N * size), sizeof *args);
    struct side *sides = calloc((size_t)(N * size), sizeof *sides);
    struct call calls[N];
    struct fake *f = fake_create_inter(p, q, seed);

    for (int k = 0; k < N; k++) {
        calls[k] = (struct call){ (enum coll_kind)k, p, q, (int)(seed * 7 + (unsigned)k) % size,
                                  count };
        for (int i = 0; i < size; i++)
            fill(&calls[k], i, &sides[k * size + i], &args[k * size + i]);
    }
    int err = fake_run(f, args, N, window), left = fake_destroy(f);
    CHECK_MSG(!err && !left, "%d|%d count %lld seed %u: error %d, %d messages left", p, q,
              (long long)count, seed, err, left);
    for (int k = 0; k < N; k++) {
        for (int i = 0; i < size; i++) {
            int bad = wrong(&calls[k], i, &sides[k * size + i]);
            CHECK_MSG(!bad, "%d|%d %s root %d count %lld seed %u: %d wrong at rank %d", p, q,
                      coll_kind_names[k], calls[k].root, (long long)count, seed, bad, i);
            free(sides[k * size + i].s);
            free(sides[k * size + i].r);
        }
    }
    free(sides);
    free(args);
}

static void all_cuts(void)
{
    static const int sizes[] = { 1, 2, 3, 4, 5, 8, 17 };
    static const int64_t counts[] = { 0, 1, 6, 50 };

    for (int i = 0; i < 7; i++)
        for (int j = 0; j < 7; j++)
            for (int k = 0; k < 4 && !check_failed_case; k++)
                run(sizes[i], sizes[j], counts[k], (unsigned)(100 * i + 10 * j + k),
                    1 + (i + j + k) % 4);
}

static void many_seeds(void)
{
    for (unsigned s = 0; s < 300 && !check_failed_case; s++)
        run(1 + (int)(s % 4), 1 + (int)(s / 4 % 5), s % 5, s, 4);
}

int main(void)
{
    RUN(all_cuts);
    RUN(many_seeds);
    return check_end();
}
