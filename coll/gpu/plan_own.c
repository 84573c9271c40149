/* SPDX-License-Identifier: BSD-3-Clause */
/* The shape of a call: what this rank contributes and what the call writes here, as far as the rank
 * knows before it meets the others.  Pure functions of the arguments.
 *
 * The signature (`word`) that ranks compare is a hash of what MPI requires to be the same on all
 * ranks (lengths, operation, root); its lowest bit belongs to this rank only: in place.  If a
 * rank's arguments contradict each other, its signature equals no other rank's. */
#include "coll/gpu/plan_int.h"
#include <string.h>
#include "coll/sched.h"
#include "runtime/base/err.h"
#include "runtime/gpu/kernel.h"
#include "runtime/reduce/gpu.h"

/* ---- blocks ---- */

_Static_assert(COLL_GPU_SEND == (int)COLL_SEND && COLL_GPU_RECV == (int)COLL_RECV, "sides");

/* The bytes of a reduction's elements in memory; pairs may have a hole at their end. */
static struct coll_gpu_part operand(const struct coll_args *a, int64_t at, int64_t n)
{
    return (struct coll_gpu_part){ at * a->rtype->extent, n * a->rtype->extent };
}

struct coll_gpu_part coll_gpu_part(const struct coll_args *a, enum coll_gpu_range side, int i)
{
    struct coll_block b = coll_args_block(a, (enum coll_side)side, i);
    const void *buf = side == COLL_GPU_RECV ? a->rbuf : a->sbuf;
    if (!b.l || b.n <= 0)
        return (struct coll_gpu_part){ 0, 0 };
    return (struct coll_gpu_part){ (int64_t)((uintptr_t)b.at - (uintptr_t)buf), b.n * b.l->size };
}

struct coll_gpu_part coll_gpu_share(const struct coll_args *a, int i)
{
    int64_t at = a->rcounts ? 0 : i * a->rcount;
    for (int j = 0; a->rcounts && j < i; j++)
        at += a->rcounts[j];
    return operand(a, at, a->rcounts ? a->rcounts[i] : a->rcount);
}

struct coll_gpu_part coll_gpu_vector(const struct coll_args *a, int size)
{
    if (coll_shape(a->kind, COLL_SEND) != COLL_SIDE_CUT)
        return operand(a, 0, a->rcount);
    struct coll_gpu_part last = coll_gpu_share(a, size - 1);
    return (struct coll_gpu_part){ 0, last.off + last.len };
}

bool coll_gpu_arith(const struct coll_args *a, uint8_t *type, uint8_t *code, int64_t *elem)
{
    const struct rt_layout *l = a->rtype;
    struct rt_reduce_gpu as;
    int64_t nbytes = rt_elem_nbytes(l->elem);
    bool pairs = !l->lb && !l->true_lb && l->extent == nbytes && l->size <= nbytes;
    if ((!l->contig && !pairs) || rt_reduce_gpu(NULL, a->op, l->elem, &as) < 0)
        return false;
    *type = as.type;
    *code = as.code;
    *elem = nbytes;
    return true;
}

/* ---- which blocks a rank has ---- */

/* One side of a call: a block at the buffer, or one for each rank. */
struct side {
    const char *buf;
    bool row;
    enum coll_gpu_range as; /* side of the arguments, for a row */
    struct coll_gpu_part one;
};

bool coll_gpu_is_reduction(enum coll_kind kind) { return coll_is(kind, COLL_IS_REDUCTION); }

bool coll_gpu_is_in_place(const struct coll_args *a, int rank)
{
    return coll_args_in_place(a, rank);
}

static struct side one(const void *buf, int64_t off, int64_t len)
{
    return (struct side){ .buf = buf, .one = { off, len } };
}

static struct side row(const void *buf, enum coll_gpu_range as)
{
    return (struct side){ .buf = buf, .row = true, .as = as };
}

/* The block of a side that is not a row. */
static struct side block(const struct coll_args *a, enum coll_side which, int rank)
{
    struct coll_block b = coll_args_block(a, which, rank);
    return one(b.at, 0, coll_block_nbytes(&b));
}

static const struct side nothing;

/* The memory that other ranks may read. */
static struct side send_side(const struct coll_team *t, const struct coll_args *a, bool in_place)
{
    enum coll_shape shape = coll_shape(a->kind, COLL_SEND);
    if (coll_is(a->kind, COLL_IS_FROM_ROOT) && t->rank != a->root)
        return nothing;
    if (coll_is(a->kind, COLL_IS_REDUCTION))
        return one(in_place ? a->rbuf : a->sbuf, 0, coll_gpu_vector(a, t->size).len);
    if (shape == COLL_SIDE_NONE)
        return block(a, COLL_RECV, t->rank);
    if (shape == COLL_SIDE_ONE && in_place) { /* root of a gather, allgather */
        struct coll_gpu_part own = coll_gpu_part(a, COLL_GPU_RECV, t->rank);
        return one(a->rbuf, own.off, own.len);
    }
    if (shape == COLL_SIDE_ONE)
        return block(a, COLL_SEND, t->rank);
    return coll_is_alltoall(a->kind) && in_place ? row(a->rbuf, COLL_GPU_RECV)
                                                 : row(a->sbuf, COLL_GPU_SEND);
}

/* The memory that the call writes. */
static struct side recv_side(const struct coll_team *t, const struct coll_args *a, bool in_place)
{
    bool root = t->rank == a->root, scatters = coll_shape(a->kind, COLL_SEND) != COLL_SIDE_NONE;
    if ((coll_is(a->kind, COLL_IS_TO_ROOT) && !root) ||
        (coll_is(a->kind, COLL_IS_FROM_ROOT) && (scatters ? in_place : root)) ||
        (coll_is(a->kind, COLL_IS_EXCLUSIVE) && t->rank == 0))
        return nothing;
    if (coll_shape(a->kind, COLL_SEND) == COLL_SIDE_CUT && !in_place)
        return one(a->rbuf, 0, coll_gpu_share(a, t->rank).len);
    if (coll_is(a->kind, COLL_IS_REDUCTION))
        return one(a->rbuf, 0, coll_gpu_vector(a, t->size).len);
    return coll_shape(a->kind, COLL_RECV) == COLL_SIDE_ONE ? block(a, COLL_RECV, t->rank)
                                                           : row(a->rbuf, COLL_GPU_RECV);
}

static struct coll_gpu_part side_part(const struct coll_args *a, const struct side *s, int i)
{
    return s->row ? coll_gpu_part(a, s->as, i) : s->one;
}

/* The range from the lowest to the highest byte. */
static void describe(const struct coll_args *a, int size, const struct side *s, const char **at,
                     size_t *len, int64_t *low)
{
    int64_t from = INT64_MAX, to = INT64_MIN;
    for (int i = 0; i < (s->row ? size : 1); i++) {
        struct coll_gpu_part p = side_part(a, s, i);
        if (p.len <= 0)
            continue;
        from = p.off < from ? p.off : from;
        to = p.off + p.len > to ? p.off + p.len : to;
    }
    *at = NULL;
    *len = 0;
    *low = 0;
    if (to < from)
        return;
    /* for absolute addresses `buf` is NULL */
    *at = (const char *)((uintptr_t)s->buf + (uintptr_t)from);
    *len = (size_t)(to - from);
    *low = from;
}

/* ---- what can be planned ---- */

static bool moves(const struct rt_layout *l, int64_t n) { return n <= 0 || !l || l->contig; }

static bool row_moves(const struct coll_args *a, enum coll_gpu_range as, int size)
{
    bool recv = as == COLL_GPU_RECV;
    const int64_t *counts = recv ? a->rcounts : a->scounts;
    const struct rt_layout *const *types = recv ? a->rtypes : a->stypes;
    if (!types)
        return moves(recv ? a->rtype : a->stype, 1);
    for (int i = 0; i < size; i++)
        if (!moves(types[i], counts[i]))
            return false;
    return true;
}

static bool layouts_do(const struct coll_team *t, const struct coll_args *a, bool in_place)
{
    bool root = t->rank == a->root, sends = !in_place, receives = true;
    if (coll_shape(a->kind, COLL_SEND) == COLL_SIDE_NONE)
        return moves(a->rtype, a->rcount);
    if (coll_is(a->kind, COLL_IS_FROM_ROOT)) {
        sends = root;
        receives = !in_place;
    } else if (coll_is(a->kind, COLL_IS_TO_ROOT)) {
        receives = root;
    }
    return (!sends || row_moves(a, COLL_GPU_SEND, t->size)) &&
           (!receives || row_moves(a, COLL_GPU_RECV, t->size));
}

/* ---- the signature ---- */

static uint64_t word_of(const struct coll_team *t, const struct coll_args *a, bool in_place,
                        const struct coll_gpu_own *own)
{
    uint64_t h = coll_args_signature(t, a);
    if (own->folds) {
        int64_t len = coll_gpu_vector(a, t->size).len;
        h = coll_args_mix(coll_args_mix(coll_args_mix(h, len), own->type), own->code);
        for (int direct = 0; direct < 2 && a->kind == COLL_ALLREDUCE; direct++)
            h = coll_args_mix(h, coll_gpu_asked_way(t->size, len, direct));
    }
    return (h << 1) | (in_place && (own->folds || coll_is_alltoall(a->kind)));
}

/* ---- scratch ---- */

static int64_t up_to_line(int64_t n)
{
    return (n + COLL_GPU_LINE - 1) / COLL_GPU_LINE * COLL_GPU_LINE;
}

struct coll_gpu_swap coll_gpu_swap(int64_t len, int rank, int peer)
{
    bool lower = rank < peer;
    if (len <= 2 * COLL_GPU_LINE) /* not divided; spread evenly over the ranks */
        return (struct coll_gpu_swap){ 0, lower == !((rank ^ peer) & 1) ? 0 : len };
    int64_t half = up_to_line(len / 2);
    return lower ? (struct coll_gpu_swap){ 0, half } : (struct coll_gpu_swap){ half, len };
}

/* A piece of 2 MiB takes about as long as a step costs; other pieces hide this. */
struct coll_gpu_places coll_gpu_swap_places(const struct coll_args *a, int rank, int size)
{
    int64_t longest = 0, sum = 0;
    for (int i = 0; i < size; i++) {
        struct coll_gpu_swap s = coll_gpu_swap(coll_gpu_part(a, COLL_GPU_RECV, i).len, rank, i);
        int64_t len = i == rank ? 0 : s.to - s.from;
        longest = len > longest ? len : longest;
        sum += up_to_line(len);
    }
    struct coll_gpu_places p = { 0 };
    if (!longest)
        return p;
    p.len = longest < coll_gpu_limits.unit / 2 ? up_to_line(longest) : coll_gpu_limits.unit / 2;
    p.per_unit = (int)(coll_gpu_limits.unit / p.len);
    int64_t most = p.per_unit * (COLL_GPU_PLACES), n = (sum + p.len - 1) / p.len;
    n = n > size ? n : size; /* for blocks of different lengths */
    n = n < most ? n : most;
    p.n = (int)(n < COLL_GPU_RANKS_MAX ? n : COLL_GPU_RANKS_MAX);
    p.nbytes = (p.n - 1) / p.per_unit * coll_gpu_limits.unit + ((p.n - 1) % p.per_unit + 1) * p.len;
    return p;
}

size_t coll_gpu_scratch(const struct coll_args *a, int rank, int size)
{
    bool in_place = coll_gpu_is_in_place(a, rank);
    int64_t n = 0;
    if (!in_place)
        return 0;
    if (coll_shape(a->kind, COLL_SEND) == COLL_SIDE_CUT)
        n = coll_gpu_share(a, rank).len;
    else if (coll_is(a->kind, COLL_IS_PREFIX) && size > RT_GPU_FOLD_PLACES)
        n = coll_gpu_vector(a, size).len;
    else if (coll_is_alltoall(a->kind))
        n = coll_gpu_swap_places(a, rank, size).nbytes;
    return (size_t)(n < (COLL_GPU_PLACES * coll_gpu_limits.unit)
                        ? up_to_line(n)
                        : (COLL_GPU_PLACES * coll_gpu_limits.unit));
}

/* ---- the whole call ---- */

/* Whether a rank publishes the positions of its blocks, for the ranks that access them. */
static bool publishes(const struct coll_team *t, const struct coll_args *a)
{
    return (coll_is_apart(a->kind, COLL_SEND) || coll_is_apart(a->kind, COLL_RECV)) &&
           (!coll_is(a->kind, COLL_IS_ROOTED) || t->rank == a->root);
}

static bool is_planned(const struct coll_team *t, const struct coll_args *a)
{
    return coll_shape(a->kind, COLL_RECV) != COLL_SIDE_NONE &&
           !coll_is(a->kind, COLL_IS_NEIGHBOR) && !t->local && t->size <= COLL_GPU_RANKS_MAX;
}

int coll_gpu_own(const struct coll_team *t, const struct coll_args *a, struct coll_gpu_own *out,
                 uint64_t *offsets)
{
    *out = (struct coll_gpu_own){ 0 };
    if (!is_planned(t, a))
        return -RT_ENOTSUP;
    bool in_place = coll_gpu_is_in_place(a, t->rank);
    int64_t elem, low[COLL_GPU_RANGES];
    out->folds = coll_gpu_is_reduction(a->kind);
    if (out->folds ? !coll_gpu_arith(a, &out->type, &out->code, &elem)
                   : !layouts_do(t, a, in_place))
        return -RT_ENOTSUP;
    const struct side side[COLL_GPU_RANGES] = { send_side(t, a, in_place),
                                                recv_side(t, a, in_place) };
    for (int r = 0; r < COLL_GPU_RANGES; r++)
        describe(a, t->size, &side[r], &out->at[r], &out->len[r], &low[r]);
    out->word = word_of(t, a, in_place, out);
    out->scratch = coll_gpu_scratch(a, t->rank, t->size);
    if (out->folds && t->size > RT_GPU_FOLD_PLACES)
        out->scratch = coll_gpu_chain_at(out->scratch) + coll_gpu_limits.chain;
    out->swaps = out->scratch && coll_is_alltoall(a->kind);
    out->publishes = publishes(t, a);
    int r = coll_is(a->kind, COLL_IS_FROM_ROOT) ? COLL_GPU_SEND : COLL_GPU_RECV;
    for (int i = 0; out->publishes && i < t->size; i++) {
        struct coll_gpu_part p = side_part(a, &side[r], i);
        offsets[i] = p.len > 0 ? (uint64_t)(p.off - low[r]) : 0;
    }
    return 0;
}
