/* SPDX-License-Identifier: BSD-3-Clause */
/* Random sequences of collectives against results that each rank computes alone.  What has to be
 * alike on all ranks (kind, lengths, root, order) comes from one stream of random numbers, what may
 * differ (datatypes of equal signature, delays, which request is looked at) from another.  Every
 * byte of both buffers is compared, those between the elements too.
 *   coll_random [seed [calls [bytes [bcast]]]]   bytes: of the largest contribution; bcast: only
 *                                                broadcasts, with barriers between some of them */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "mpi.h"
#include "test/mpi/mt_jobs.h"

enum {
    BARRIER,
    BCAST,
    REDUCE,
    ALLREDUCE,
    GATHER,
    GATHERV,
    SCATTER,
    SCATTERV,
    ALLGATHER,
    ALLGATHERV,
    ALLTOALL,
    ALLTOALLV,
    ALLTOALLW,
    REDUCE_SCATTER,
    REDUCE_SCATTER_BLOCK,
    SCAN,
    EXSCAN,
    KINDS
};
static const char *const names[KINDS] = { "barrier",    "bcast",          "reduce",
                                          "allreduce",  "gather",         "gatherv",
                                          "scatter",    "scatterv",       "allgather",
                                          "allgatherv", "alltoall",       "alltoallv",
                                          "alltoallw",  "reduce_scatter", "reduce_scatter_block",
                                          "scan",       "exscan" };
enum { BLOCKING, NONBLOCKING, PERSISTENT, FORMS };
#define MAXP 32
#define NTYPES 4
#define NOPS 5
#define NCOMMS 4
#define PENDING 4

struct type { /* holds `per` ints in `ext` ints of memory */
    MPI_Datatype h;
    int per, ext;
    int at[2];
};
static struct type types[NTYPES];
static MPI_Op ops[NOPS];
static MPI_Comm comms[NCOMMS];
static int world_rank, world_size;
static unsigned seed;
static int broadcasts;
static uint64_t shared_state, own_state;

struct call {
    int kind, form, p, me, root, op, len; /* len: ints of a block */
    unsigned id;
    int in_place;
    MPI_Comm comm;
    int *s, *r, *s_want, *r_want;
    size_t s_len, r_len;
    const struct type *st, *rt;
    int scounts[MAXP], sdispls[MAXP], rcounts[MAXP], rdispls[MAXP];
    MPI_Datatype stypes[MAXP], rtypes[MAXP];
    MPI_Request req;
};
static struct call pending[PENDING];
static int npending;

static uint32_t draw(uint64_t *state, uint32_t n)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return (uint32_t)((z ^ z >> 31) >> 16) % n;
}
static uint32_t alike(uint32_t n) { return draw(&shared_state, n); }
static uint32_t own(uint32_t n) { return draw(&own_state, n); }

static uint32_t value(unsigned id, int from, int to, int i)
{
    uint32_t h = id * 2654435761u ^ (uint32_t)(from * 31 + to + 7) * 40503u ^ (uint32_t)i * 97u;
    h = (h ^ h >> 15) * 0x2c1b3c6du;
    return h ^ h >> 13;
}

static void fail(const struct call *c, const char *what, size_t at, int got, int want)
{
    fprintf(
        stderr,
        "coll_random: seed %u, rank %d of %d: call %u, %s in form %d on %d ranks (me %d, root %d, "
        "op %d, len %d, in place %d, types %d %d): %s differs at int %zu: 0x%x, expected 0x%x\n",
        seed, world_rank, world_size, c->id, names[c->kind], c->form, c->p, c->me, c->root, c->op,
        c->len, c->in_place, c->st ? (int)(c->st - types) : -1, c->rt ? (int)(c->rt - types) : -1,
        what, at, (unsigned)got, (unsigned)want);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* ---- types and operations ---- */

static size_t place(const struct type *t, int i)
{
    return (size_t)(i / t->per) * (size_t)t->ext + (size_t)t->at[i % t->per];
}

static void compose(const struct type *t, const uint32_t *in, uint32_t *inout, int pairs)
{
    for (int k = 0; k < pairs; k++) {
        size_t a = place(t, 2 * k), b = place(t, 2 * k + 1);
        inout[b] += inout[a] * in[b];
        inout[a] *= in[a];
    }
}
static void compose_dense(void *in, void *inout, int *n, MPI_Datatype *h)
{
    (void)h;
    compose(&types[1], in, inout, *n);
}
static void compose_holes(void *in, void *inout, int *n, MPI_Datatype *h)
{
    (void)h;
    compose(&types[3], in, inout, *n);
}

static void make_types(void)
{
    MPI_Datatype t;
    types[0] = (struct type){ MPI_UINT32_T, 1, 1, { 0, 0 } };
    types[1] = (struct type){ MPI_UINT32_T, 2, 2, { 0, 1 } };
    MPI_Type_contiguous(2, MPI_UINT32_T, &types[1].h);
    types[2] = (struct type){ MPI_UINT32_T, 1, 2, { 0, 0 } };
    MPI_Type_create_resized(MPI_UINT32_T, 0, 8, &types[2].h);
    types[3] = (struct type){ MPI_UINT32_T, 2, 3, { 1, 0 } };
    MPI_Type_indexed(2, (int[]){ 1, 1 }, (int[]){ 1, 0 }, MPI_UINT32_T, &t);
    MPI_Type_create_resized(t, 0, 12, &types[3].h);
    MPI_Type_free(&t);
    for (int i = 1; i < NTYPES; i++)
        MPI_Type_commit(&types[i].h);
    ops[0] = MPI_SUM;
    ops[1] = MPI_BXOR;
    ops[2] = MPI_MAX;
    MPI_Op_create(compose_dense, 0, &ops[3]);
    MPI_Op_create(compose_holes, 0, &ops[4]);
}
static const struct type *op_type(int op) { return &types[op < 3 ? 0 : op == 3 ? 1 : 3]; }

/* Elements [at, at + n) of the combined vectors of ranks [0, nranks), in ints. */
static void combined(const struct call *c, int nranks, int at, int n, uint32_t *out)
{
    for (int i = 0; i < n; i++)
        out[i] = value(c->id, 0, 0, at + i);
    for (int r = 1; r < nranks; r++)
        for (int i = 0; i < n; i++) {
            uint32_t v = value(c->id, r, 0, at + i);
            if (c->op == 0)
                out[i] += v;
            else if (c->op == 1)
                out[i] ^= v;
            else if (c->op == 2)
                out[i] = v > out[i] ? v : out[i];
            else if (i % 2 == 0) {
                uint32_t w = value(c->id, r, 0, at + i + 1);
                out[i + 1] = w + v * out[i + 1];
                out[i] *= v;
            } else {
                continue;
            }
        }
}

/* ---- buffers ---- */

static int *blank(size_t n)
{
    int *b = malloc((n + 1) * sizeof *b);
    if (!b)
        MPI_Abort(MPI_COMM_WORLD, 2);
    memset(b, 0x5a, (n + 1) * sizeof *b);
    return b;
}

static void put(int *b, size_t off, const struct type *t, int n, unsigned id, int from, int to,
                int i0)
{
    for (int i = 0; i < n; i++)
        b[off + place(t, i)] = (int)value(id, from, to, i0 + i);
}

static int *copy_of(const int *b, size_t n)
{
    int *c = blank(n);
    memcpy(c, b, (n + 1) * sizeof *c);
    return c;
}

static void compare(const struct call *c, const char *what, const int *got, const int *want,
                    size_t n)
{
    if (!got || !memcmp(got, want, (n + 1) * sizeof *got))
        return;
    for (size_t i = 0; i <= n; i++)
        if (got[i] != want[i])
            fail(c, what, i, got[i], want[i]);
}

/* Ints that `from` has for `to` in a v form. */
static int count(const struct call *c, int from, int to)
{
    if (c->in_place && from > to)
        return count(c, to, from);
    uint32_t h = value(c->id, from, to, -1);
    return h % 4 == 0 ? 0 : (int)(h / 4 % ((uint32_t)c->len + 1)) & ~1;
}

/* Blocks of a side in random order with gaps; displacements in elements, or ints with holes. */
static size_t lay_out(const struct type *const *t, const int *ints, int p, int *displs)
{
    size_t at = own(3);
    int first = (int)own((uint32_t)p);
    for (int j = 0; j < p; j++) {
        int i = (first + j) % p;
        at = (at + (size_t)t[i]->ext - 1) / (size_t)t[i]->ext * (size_t)t[i]->ext;
        displs[i] = (int)at;
        at += (size_t)(ints[i] / t[i]->per * t[i]->ext) + own(3);
    }
    return at;
}

static const struct type *any_type(void) { return &types[own(3) ? 0 : own(NTYPES)]; }

/* Sets up both buffers and what is expected in them. */
static void equal_blocks(struct call *c, int ns, int nr, int per_to)
{
    int n = c->len, in_place = c->in_place;
    if (ns) {
        c->s = blank(c->s_len = (size_t)ns * (size_t)n / (size_t)c->st->per * (size_t)c->st->ext);
        for (int j = 0; j < ns; j++)
            put(c->s, (size_t)j * (size_t)(n / c->st->per * c->st->ext), c->st, n, c->id, c->me,
                per_to ? j : 0, 0);
    }
    if (!nr)
        return;
    size_t step = (size_t)(n / c->rt->per * c->rt->ext);
    c->r = blank(c->r_len = (size_t)nr * step);
    if (in_place)
        for (int j = 0; j < nr; j++)
            if (c->kind == ALLTOALL || j == c->me)
                put(c->r, (size_t)j * step, c->rt, n, c->id, c->me, per_to ? j : 0, 0);
    c->r_want = copy_of(c->r, c->r_len);
    for (int j = 0; j < nr; j++)
        put(c->r_want, (size_t)j * step, c->rt, n, c->id, nr == 1 ? c->root : j, per_to ? c->me : 0,
            0);
}

static void vector_blocks(struct call *c, int send, int recv, int per_to)
{
    const struct type *st[MAXP], *rt[MAXP];
    int sn[MAXP], rn[MAXP], w = c->kind == ALLTOALLW;
    for (int j = 0; j < c->p; j++) {
        st[j] = w ? any_type() : c->st;
        rt[j] = w ? any_type() : c->rt;
        sn[j] = per_to ? count(c, c->me, j) : count(c, c->me, 0);
        rn[j] = per_to ? count(c, j, c->me) : count(c, j, 0);
        c->stypes[j] = st[j]->h;
        c->rtypes[j] = rt[j]->h;
    }
    if (send) {
        c->s = blank(c->s_len = lay_out(st, sn, c->p, c->sdispls));
        for (int j = 0; j < c->p; j++)
            put(c->s, (size_t)c->sdispls[j], st[j], sn[j], c->id, c->me, j, 0);
    }
    if (recv) {
        c->r = blank(c->r_len = lay_out(rt, rn, c->p, c->rdispls));
        for (int j = 0; j < c->p && c->in_place; j++)
            if (per_to || j == c->me)
                put(c->r, (size_t)c->rdispls[j], rt[j], rn[j], c->id, c->me, per_to ? j : 0, 0);
        c->r_want = copy_of(c->r, c->r_len);
        for (int j = 0; j < c->p; j++)
            put(c->r_want, (size_t)c->rdispls[j], rt[j], rn[j], c->id, j, per_to ? c->me : 0, 0);
    }
    for (int j = 0; j < c->p; j++) {
        c->scounts[j] = sn[j] / st[j]->per;
        c->rcounts[j] = rn[j] / rt[j]->per;
        c->sdispls[j] = w ? c->sdispls[j] * 4 : c->sdispls[j] / st[j]->ext;
        c->rdispls[j] = w ? c->rdispls[j] * 4 : c->rdispls[j] / rt[j]->ext;
    }
}

/* One block of count(me or from) on one side, all blocks on the other, at the root. */
static void set_rooted_v(struct call *c)
{
    int root = c->me == c->root, g = c->kind == GATHERV;
    const struct type *one = g ? c->st : c->rt;
    int n = g ? count(c, c->me, 0) : count(c, c->root, c->me);
    if (root)
        vector_blocks(c, !g, g, !g);
    if (!(root && c->in_place)) {
        size_t len = (size_t)(n / one->per * one->ext);
        int *b = blank(len);
        if (g) {
            put(b, 0, one, n, c->id, c->me, 0, 0);
            c->s = b;
            c->s_len = len;
        } else {
            c->r = b;
            c->r_len = len;
            c->r_want = copy_of(b, len);
            put(c->r_want, 0, one, n, c->id, c->root, c->me, 0);
        }
    }
    c->scounts[MAXP - 1] = n / one->per; /* of the single block */
}

static void set_reduction(struct call *c)
{
    const struct type *t = c->st = c->rt = op_type(c->op);
    int total = c->len, mine = c->len, at = 0, nranks = c->p, has = 1;
    if (c->kind == REDUCE_SCATTER)
        for (int j = total = 0; j < c->p; j++) {
            int n = value(c->id, j, 0, -1) % 4
                        ? (int)(value(c->id, j, 0, -2) % ((uint32_t)c->len + 1)) & ~1
                        : 0;
            at = j == c->me ? total : at;
            mine = j == c->me ? n : mine;
            c->rcounts[j] = n / t->per;
            total += n;
        }
    if (c->kind == REDUCE_SCATTER_BLOCK) {
        at = c->me * c->len;
        total = c->p * c->len;
    }
    if (c->kind == SCAN || c->kind == EXSCAN)
        nranks = c->me + (c->kind == SCAN);
    if (c->kind == REDUCE)
        has = c->me == c->root;
    size_t slen = (size_t)(total / t->per * t->ext),
           rlen = c->in_place ? slen : (size_t)(mine / t->per * t->ext);
    int in_place = c->in_place && has;
    if (!in_place) {
        c->s = blank(c->s_len = slen);
        put(c->s, 0, t, total, c->id, c->me, 0, 0);
    }
    if (!has)
        return;
    c->r = blank(c->r_len = rlen);
    if (in_place)
        put(c->r, 0, t, total, c->id, c->me, 0, 0);
    c->r_want = copy_of(c->r, rlen);
    if (nranks) {
        uint32_t *sum = malloc(((size_t)mine + 2) * sizeof *sum);
        combined(c, nranks, at, mine, sum);
        for (int i = 0; i < mine; i++)
            c->r_want[place(t, i)] = (int)sum[i];
        free(sum);
    }
}

static void set_up(struct call *c)
{
    int root = c->me == c->root;
    c->st = any_type();
    c->rt = any_type();
    switch (c->kind) {
    case BARRIER:
        break;
    case BCAST:
        c->r = blank(c->r_len = (size_t)(c->len / c->rt->per * c->rt->ext));
        c->r_want = copy_of(c->r, c->r_len);
        put(c->r_want, 0, c->rt, c->len, c->id, c->root, 0, 0);
        if (root)
            put(c->r, 0, c->rt, c->len, c->id, c->root, 0, 0);
        break;
    case GATHER:
        equal_blocks(c, !(root && c->in_place), root ? c->p : 0, 0);
        break;
    case SCATTER:
        equal_blocks(c, root ? c->p : 0, !(root && c->in_place), 1);
        break;
    case ALLGATHER:
        equal_blocks(c, !c->in_place, c->p, 0);
        break;
    case ALLTOALL:
        equal_blocks(c, c->in_place ? 0 : c->p, c->p, 1);
        break;
    case GATHERV:
    case SCATTERV:
        set_rooted_v(c);
        break;
    case ALLGATHERV: {
        int n = count(c, c->me, 0);
        vector_blocks(c, 0, 1, 0);
        if (!c->in_place) {
            c->s = blank(c->s_len = (size_t)(n / c->st->per * c->st->ext));
            put(c->s, 0, c->st, n, c->id, c->me, 0, 0);
        }
        c->scounts[MAXP - 1] = n / c->st->per;
        break;
    }
    case ALLTOALLV:
    case ALLTOALLW:
        vector_blocks(c, !c->in_place, 1, 1);
        break;
    default:
        set_reduction(c);
    }
    if (c->s)
        c->s_want = copy_of(c->s, c->s_len);
}

#define FORM(B, I, P, ...) \
    (c->form == BLOCKING      ? B(__VA_ARGS__, c->comm) \
     : c->form == NONBLOCKING ? I(__VA_ARGS__, c->comm, &c->req) \
                              : P(__VA_ARGS__, c->comm, MPI_INFO_NULL, &c->req))

static void start(struct call *c)
{
    int root = c->me == c->root, n = c->len, err = 0;
    void *s = c->in_place && !c->s ? MPI_IN_PLACE : (void *)c->s, *r = c->r;
    /* Arguments that are significant only at the root are not read elsewhere. */
    MPI_Datatype sh = c->st ? c->st->h : MPI_DATATYPE_NULL,
                 rh = c->rt ? c->rt->h : MPI_DATATYPE_NULL;
    int sn = n / c->st->per, rn = n / c->rt->per;
    switch (c->kind) {
    case BARRIER:
        err = c->form == BLOCKING      ? MPI_Barrier(c->comm)
              : c->form == NONBLOCKING ? MPI_Ibarrier(c->comm, &c->req)
                                       : MPI_Barrier_init(c->comm, MPI_INFO_NULL, &c->req);
        break;
    case BCAST:
        err = FORM(MPI_Bcast, MPI_Ibcast, MPI_Bcast_init, r, rn, rh, c->root);
        break;
    case REDUCE:
        err = FORM(MPI_Reduce, MPI_Ireduce, MPI_Reduce_init, s, r, rn, rh, ops[c->op], c->root);
        break;
    case ALLREDUCE:
        err = FORM(MPI_Allreduce, MPI_Iallreduce, MPI_Allreduce_init, s, r, rn, rh, ops[c->op]);
        break;
    case SCAN:
        err = FORM(MPI_Scan, MPI_Iscan, MPI_Scan_init, s, r, rn, rh, ops[c->op]);
        break;
    case EXSCAN:
        err = FORM(MPI_Exscan, MPI_Iexscan, MPI_Exscan_init, s, r, rn, rh, ops[c->op]);
        break;
    case REDUCE_SCATTER_BLOCK:
        err = FORM(MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block,
                   MPI_Reduce_scatter_block_init, s, r, rn, rh, ops[c->op]);
        break;
    case REDUCE_SCATTER:
        err = FORM(MPI_Reduce_scatter, MPI_Ireduce_scatter, MPI_Reduce_scatter_init, s, r,
                   c->rcounts, rh, ops[c->op]);
        break;
    case GATHER:
        err = FORM(MPI_Gather, MPI_Igather, MPI_Gather_init, s, sn, sh, r, root ? rn : -5,
                   root ? rh : MPI_DATATYPE_NULL, c->root);
        break;
    case GATHERV:
        err = FORM(MPI_Gatherv, MPI_Igatherv, MPI_Gatherv_init, s, c->scounts[MAXP - 1], sh, r,
                   root ? c->rcounts : NULL, root ? c->rdispls : NULL,
                   root ? rh : MPI_DATATYPE_NULL, c->root);
        break;
    case SCATTER:
        err = FORM(MPI_Scatter, MPI_Iscatter, MPI_Scatter_init, s, root ? sn : -5,
                   root ? sh : MPI_DATATYPE_NULL, c->r ? r : MPI_IN_PLACE, rn, rh, c->root);
        break;
    case SCATTERV:
        err = FORM(MPI_Scatterv, MPI_Iscatterv, MPI_Scatterv_init, s, root ? c->scounts : NULL,
                   root ? c->sdispls : NULL, root ? sh : MPI_DATATYPE_NULL, c->r ? r : MPI_IN_PLACE,
                   c->r && !root ? c->scounts[MAXP - 1] : count(c, c->root, c->me) / c->rt->per, rh,
                   c->root);
        break;
    case ALLGATHER:
        err = FORM(MPI_Allgather, MPI_Iallgather, MPI_Allgather_init, s, sn, sh, r, rn, rh);
        break;
    case ALLGATHERV:
        err = FORM(MPI_Allgatherv, MPI_Iallgatherv, MPI_Allgatherv_init, s, c->scounts[MAXP - 1],
                   sh, r, c->rcounts, c->rdispls, rh);
        break;
    case ALLTOALL:
        err = FORM(MPI_Alltoall, MPI_Ialltoall, MPI_Alltoall_init, s, sn, sh, r, rn, rh);
        break;
    case ALLTOALLV:
        err = FORM(MPI_Alltoallv, MPI_Ialltoallv, MPI_Alltoallv_init, s, c->scounts, c->sdispls, sh,
                   r, c->rcounts, c->rdispls, rh);
        break;
    case ALLTOALLW:
        err = FORM(MPI_Alltoallw, MPI_Ialltoallw, MPI_Alltoallw_init, s, c->scounts, c->sdispls,
                   c->stypes, r, c->rcounts, c->rdispls, c->rtypes);
        break;
    }
    if (err)
        fail(c, "error", 0, err, 0);
}

static void look(const struct call *c)
{
    compare(c, "the receive buffer", c->r, c->r_want, c->r_len);
    compare(c, "the send buffer", c->s, c->s_want, c->s_len);
}

static void drop(struct call *c)
{
    look(c);
    free(c->s);
    free(c->r);
    free(c->s_want);
    free(c->r_want);
}

static void finish(int i)
{
    struct call *c = &pending[i];
    MPI_Wait(&c->req, MPI_STATUS_IGNORE);
    drop(c);
    *c = pending[--npending];
}

static void delay(void)
{
    if (own(8) == 0)
        usleep(own(300));
    for (int i = npending; i > 0 && own(2); i--) { /* progress, and completions in any order */
        int flag, k = (int)own((uint32_t)npending);
        MPI_Request_get_status(pending[k].req, &flag, MPI_STATUS_IGNORE);
        if (flag)
            finish(k);
        if (!npending)
            break;
    }
}

/* Lengths of all orders of magnitude, including thresholds and lengths next to them. */
static int length(int max_bytes)
{
    int bits = 0, n;
    while (2 << bits <= max_bytes / 4)
        bits++;
    n = 1 << alike((uint32_t)bits + 1);
    n = alike(3) ? n + (int)alike((uint32_t)n) : n;
    n = alike(12) ? n : 0;
    return (n * 4 > max_bytes ? max_bytes / 4 : n) & ~1;
}

static void one(unsigned id, int max_bytes)
{
    struct call c = { .id = id, .kind = (int)alike(KINDS), .form = (int)alike(5) };
    int which = (int)alike(NCOMMS + 1), blocks;
    if (broadcasts)
        c.kind = alike(4) ? BCAST : BARRIER;
    c.form = c.form >= 3 ? BLOCKING : c.form;
    int temporary = which == NCOMMS;
    c.comm = comms[temporary ? 0 : which];
    if (temporary)
        MPI_Comm_dup(comms[alike(NCOMMS)], &c.comm);
    MPI_Comm_size(c.comm, &c.p);
    MPI_Comm_rank(c.comm, &c.me);
    c.root = (int)alike(MAXP * 27720) % c.p;
    c.op = (int)alike(NOPS);
    c.in_place = alike(3) == 0;
    blocks = c.kind >= ALLTOALL && c.kind <= REDUCE_SCATTER_BLOCK ? world_size : 1;
    c.len = length(max_bytes / blocks);
    /* These may be in place at some ranks only. */
    if (c.in_place && (c.kind == REDUCE_SCATTER || c.kind == REDUCE_SCATTER_BLOCK ||
                       c.kind == SCAN || c.kind == EXSCAN))
        c.in_place = (int)own(4) > 0;
    set_up(&c);
    delay();
    start(&c);
    if (temporary)
        MPI_Comm_free(&c.comm);
    if (c.form == NONBLOCKING) {
        if (npending == PENDING)
            finish((int)own(PENDING));
        pending[npending++] = c;
        return;
    }
    if (c.form == PERSISTENT) {
        int times = 1 + (int)alike(2);
        int *again = c.r ? copy_of(c.r, c.r_len) : NULL;
        for (int i = 0; i < times; i++) {
            if (i && again)
                memcpy(c.r, again, c.r_len * sizeof *c.r);
            MPI_Start(&c.req);
            delay();
            MPI_Wait(&c.req, MPI_STATUS_IGNORE);
            look(&c);
        }
        free(again);
        MPI_Request_free(&c.req);
    }
    drop(&c);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    seed = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
    int calls = argc > 2 ? atoi(argv[2]) : 200, max_bytes = argc > 3 ? atoi(argv[3]) : 256 << 10;
    broadcasts = argc > 4 && !strcmp(argv[4], "bcast");
    mt_join_jobs();
    MPI_Comm_rank(mt_world, &world_rank);
    MPI_Comm_size(mt_world, &world_size);
    shared_state = seed * 7919u + (unsigned)world_size;
    own_state = shared_state * 31 + (unsigned)world_rank + 1;
    make_types();
    comms[0] = mt_world;
    MPI_Comm_dup(mt_world, &comms[1]);
    MPI_Comm_split(mt_world, world_rank % 2, -world_rank, &comms[2]);
    MPI_Comm_split(mt_world, world_rank * 3 >= world_size, world_rank * 7 % 5, &comms[3]);
    for (int i = 0; i < calls; i++)
        one((unsigned)i, max_bytes);
    while (npending)
        finish((int)own((uint32_t)npending));
    for (int i = 1; i < NCOMMS; i++)
        MPI_Comm_free(&comms[i]);
    for (int i = 1; i < NTYPES; i++)
        MPI_Type_free(&types[i].h);
    MPI_Op_free(&ops[3]);
    MPI_Op_free(&ops[4]);
    mt_part_jobs();
    MPI_Finalize();
    if (world_rank == 0)
        printf("1..1\nok 1 - %d calls from seed %u\n", calls, seed);
    return 0;
}
