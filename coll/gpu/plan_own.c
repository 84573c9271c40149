/* SPDX-License-Identifier: BSD-3-Clause */
/* The shape of a call: what this rank contributes and defines, and what it can say of that before
 * it meets the others.  Pure functions of the arguments.
 *
 * The word that ranks compare holds what MPI wants alike on all of them (lengths, operation, root),
 * folded together; its lowest bit is this rank's own: in place.  A rank whose arguments contradict
 * each other says a word that fits nobody's. */
#include "coll/gpu/plan_int.h"
#include <string.h>
#include "coll/algo/algo.h"
#include "runtime/base/err.h"
#include "runtime/gpu/kernel.h"
#include "runtime/reduce/gpu.h"

/* ---- blocks ---- */

struct coll_gpu_part coll_gpu_part(const struct coll_args *a, enum coll_gpu_range side, int i)
{
    bool recv = side == COLL_GPU_RECV;
    const int64_t *counts = recv ? a->rcounts : a->scounts,
                  *displs = recv ? a->rdispls : a->sdispls;
    const struct rt_layout *const *types = recv ? a->rtypes : a->stypes;
    const struct rt_layout *l = types ? types[i] : recv ? a->rtype : a->stype;
    int64_t n = counts ? counts[i] : recv ? a->rcount : a->scount;
    if (!l || n <= 0)
        return (struct coll_gpu_part){ 0, 0 };
    int64_t at = displs ? displs[i] : i * n;
    return (struct coll_gpu_part){ types ? at : at * l->extent, n * l->size };
}

/* An element of a reduction, as it lies in memory: pairs may have a hole at their end. */
static int64_t stride_of(const struct rt_layout *l) { return l->contig ? l->size : l->extent; }

struct coll_gpu_part coll_gpu_share(const struct coll_args *a, int i)
{
    int64_t each = stride_of(a->rtype), off = 0;
    if (a->kind == COLL_REDUCE_SCATTER_BLOCK)
        return (struct coll_gpu_part){ i * a->rcount * each, a->rcount * each };
    for (int j = 0; j < i; j++)
        off += a->rcounts[j];
    return (struct coll_gpu_part){ off * each, a->rcounts[i] * each };
}

struct coll_gpu_part coll_gpu_vector(const struct coll_args *a, int size)
{
    if (a->kind == COLL_REDUCE_SCATTER || a->kind == COLL_REDUCE_SCATTER_BLOCK) {
        struct coll_gpu_part last = coll_gpu_share(a, size - 1);
        return (struct coll_gpu_part){ 0, last.off + last.len };
    }
    return (struct coll_gpu_part){ 0, a->rcount * stride_of(a->rtype) };
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
    enum coll_gpu_range as; /* of the arguments, when it is a row */
    struct coll_gpu_part one;
};

bool coll_gpu_is_reduction(enum coll_kind kind)
{
    switch (kind) {
    case COLL_REDUCE:
    case COLL_ALLREDUCE:
    case COLL_REDUCE_SCATTER:
    case COLL_REDUCE_SCATTER_BLOCK:
    case COLL_SCAN:
    case COLL_EXSCAN:
        return true;
    default:
        return false;
    }
}

static bool alltoalls(enum coll_kind kind)
{
    return kind == COLL_ALLTOALL || kind == COLL_ALLTOALLV || kind == COLL_ALLTOALLW;
}

static bool scatters(enum coll_kind kind) { return kind == COLL_SCATTER || kind == COLL_SCATTERV; }

static bool gathers(enum coll_kind kind) { return kind == COLL_GATHER || kind == COLL_GATHERV; }

/* Buffers that are the same without MPI_IN_PLACE, which MPI forbids, are taken for in place where
 * that has a meaning. */
bool coll_gpu_is_in_place(const struct coll_args *a, int rank)
{
    if (a->kind == COLL_BCAST)
        return false;
    if (scatters(a->kind))
        return rank == a->root && a->rbuf == COLL_IN_PLACE;
    if ((a->kind == COLL_REDUCE || gathers(a->kind)) && rank != a->root)
        return false;
    return a->sbuf == COLL_IN_PLACE || (coll_gpu_is_reduction(a->kind) && a->sbuf == a->rbuf);
}

static struct side one(const void *buf, int64_t off, int64_t len)
{
    return (struct side){ .buf = buf, .one = { off, len } };
}

static struct side row(const void *buf, enum coll_gpu_range as)
{
    return (struct side){ .buf = buf, .row = true, .as = as };
}

static int64_t sent(const struct coll_args *a) { return a->scount * a->stype->size; }

static struct side send_side(const struct coll_team *t, const struct coll_args *a, bool in_place)
{
    bool root = t->rank == a->root;
    if (a->kind == COLL_BCAST)
        return root ? one(a->rbuf, 0, a->rcount * a->rtype->size) : one(NULL, 0, 0);
    if (coll_gpu_is_reduction(a->kind))
        return one(in_place ? a->rbuf : a->sbuf, 0, coll_gpu_vector(a, t->size).len);
    if (alltoalls(a->kind))
        return in_place ? row(a->rbuf, COLL_GPU_RECV) : row(a->sbuf, COLL_GPU_SEND);
    if (scatters(a->kind))
        return root ? row(a->sbuf, COLL_GPU_SEND) : one(NULL, 0, 0);
    if (in_place) { /* gather's root, allgather */
        struct coll_gpu_part own = coll_gpu_part(a, COLL_GPU_RECV, t->rank);
        return one(a->rbuf, own.off, own.len);
    }
    return one(a->sbuf, 0, sent(a));
}

static struct side recv_side(const struct coll_team *t, const struct coll_args *a, bool in_place)
{
    bool root = t->rank == a->root;
    const struct side nothing = one(NULL, 0, 0);
    switch (a->kind) {
    case COLL_BCAST:
        return root ? nothing : one(a->rbuf, 0, a->rcount * a->rtype->size);
    case COLL_REDUCE:
        return root ? one(a->rbuf, 0, coll_gpu_vector(a, t->size).len) : nothing;
    case COLL_EXSCAN:
        return t->rank ? one(a->rbuf, 0, coll_gpu_vector(a, t->size).len) : nothing;
    case COLL_ALLREDUCE:
    case COLL_SCAN:
        return one(a->rbuf, 0, coll_gpu_vector(a, t->size).len);
    case COLL_REDUCE_SCATTER:
    case COLL_REDUCE_SCATTER_BLOCK:
        return one(a->rbuf, 0,
                   in_place ? coll_gpu_vector(a, t->size).len : coll_gpu_share(a, t->rank).len);
    case COLL_SCATTER:
    case COLL_SCATTERV:
        return in_place ? nothing : one(a->rbuf, 0, a->rcount * a->rtype->size);
    case COLL_GATHER:
    case COLL_GATHERV:
        return root ? row(a->rbuf, COLL_GPU_RECV) : nothing;
    default:
        return row(a->rbuf, COLL_GPU_RECV);
    }
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
    *at = (const char *)((uintptr_t)s->buf + (uintptr_t)from); /* absolute addresses: no buffer */
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
    bool root = t->rank == a->root;
    if (a->kind == COLL_BCAST)
        return moves(a->rtype, a->rcount);
    bool sends = !in_place || (scatters(a->kind) && root), receives = true;
    if (scatters(a->kind)) {
        sends = root;
        receives = !in_place;
    } else if (gathers(a->kind)) {
        receives = root;
    }
    return (!sends || row_moves(a, COLL_GPU_SEND, t->size)) &&
           (!receives || row_moves(a, COLL_GPU_RECV, t->size));
}

/* ---- the word ---- */

static uint64_t mix(uint64_t h, int64_t v)
{
    h = (h ^ (uint64_t)v) * 0x9e3779b97f4a7c15u; /* the golden ratio: spreads every bit upwards */
    return h ^ (h >> 29);
}

static uint64_t mix_row(uint64_t h, const struct coll_args *a, int size)
{
    for (int i = 0; i < size; i++)
        h = mix(h, coll_gpu_part(a, COLL_GPU_RECV, i).len);
    return h;
}

/* Of a block that a rank sends and receives; both lengths must be the same. */
static uint64_t mix_block(uint64_t h, const struct coll_args *a, bool sends, bool receives,
                          int rank)
{
    int64_t r = receives ? coll_gpu_part(a, COLL_GPU_RECV, rank).len : sent(a);
    h = mix(h, r);
    return sends && sent(a) != r ? mix(h, rank + 1) : h;
}

static uint64_t word_of(const struct coll_team *t, const struct coll_args *a, bool in_place,
                        const struct coll_gpu_own *own)
{
    bool root = t->rank == a->root;
    uint64_t h = mix(mix(0, a->kind), t->size);
    if (coll_gpu_is_reduction(a->kind))
        h = mix(mix(mix(h, coll_gpu_vector(a, t->size).len), own->type), own->code);
    switch (a->kind) {
    case COLL_BCAST:
        h = mix(mix(h, a->root), a->rcount * a->rtype->size);
        break;
    case COLL_REDUCE:
    case COLL_GATHERV:
    case COLL_SCATTERV:
        h = mix(h, a->root);
        break;
    case COLL_ALLREDUCE:
        h = mix(h, coll_gpu_asked_way(t->size, coll_gpu_vector(a, t->size).len));
        break;
    case COLL_REDUCE_SCATTER:
        for (int i = 0; i < t->size; i++)
            h = mix(h, a->rcounts[i]);
        break;
    case COLL_GATHER:
        h = mix_block(mix(h, a->root), a, !in_place, root, t->rank);
        break;
    case COLL_SCATTER:
        h = mix_block(mix(h, a->root), a, root, !in_place, t->rank);
        break;
    case COLL_ALLGATHERV:
        h = mix_row(h, a, t->size);
        if (!in_place && sent(a) != coll_gpu_part(a, COLL_GPU_RECV, t->rank).len)
            h = mix(h, t->rank + 1);
        break;
    case COLL_ALLGATHER:
    case COLL_ALLTOALL:
        h = mix_block(h, a, !in_place, true, t->rank);
        break;
    default:
        break;
    }
    return (h << 1) | (in_place && (coll_gpu_is_reduction(a->kind) || alltoalls(a->kind)));
}

/* ---- scratch ---- */

static int64_t up_to_line(int64_t n)
{
    return (n + COLL_GPU_LINE - 1) / COLL_GPU_LINE * COLL_GPU_LINE;
}

struct coll_gpu_swap coll_gpu_swap(int64_t len, int rank, int peer)
{
    bool lower = rank < peer;
    if (len <= 2 * COLL_GPU_LINE) /* whole; evenly spread over ranks */
        return (struct coll_gpu_swap){ 0, lower == !((rank ^ peer) & 1) ? 0 : len };
    int64_t half = up_to_line(len / 2);
    return lower ? (struct coll_gpu_swap){ 0, half } : (struct coll_gpu_swap){ half, len };
}

/* A piece of 2 MiB takes about as long as a step costs, which the others' pieces hide. */
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
    n = n > size ? n : size; /* blocks of different lengths */
    n = n < most ? n : most;
    p.n = (int)(n < COLL_GPU_RANKS_MAX ? n : COLL_GPU_RANKS_MAX);
    p.nbytes = (p.n - 1) / p.per_unit * coll_gpu_limits.unit + ((p.n - 1) % p.per_unit + 1) * p.len;
    return p;
}

size_t coll_gpu_scratch(const struct coll_args *a, int rank, int size)
{
    bool in_place = coll_gpu_is_in_place(a, rank);
    int64_t n = 0;
    switch (a->kind) {
    case COLL_REDUCE_SCATTER:
    case COLL_REDUCE_SCATTER_BLOCK:
        n = in_place ? coll_gpu_share(a, rank).len : 0;
        break;
    case COLL_SCAN:
    case COLL_EXSCAN:
        n = in_place && size > RT_GPU_FOLD_PLACES ? coll_gpu_vector(a, size).len : 0;
        break;
    case COLL_ALLTOALL:
    case COLL_ALLTOALLV:
    case COLL_ALLTOALLW:
        n = in_place ? coll_gpu_swap_places(a, rank, size).nbytes : 0;
        break;
    default:
        break;
    }
    return (size_t)(n < (COLL_GPU_PLACES * coll_gpu_limits.unit)
                        ? up_to_line(n)
                        : (COLL_GPU_PLACES * coll_gpu_limits.unit));
}

/* ---- all of it ---- */

static bool publishes(const struct coll_team *t, const struct coll_args *a)
{
    if (a->kind == COLL_GATHERV || a->kind == COLL_SCATTERV)
        return t->rank == a->root;
    return a->kind == COLL_ALLGATHERV || a->kind == COLL_ALLTOALLV || a->kind == COLL_ALLTOALLW;
}

static bool is_planned(const struct coll_team *t, const struct coll_args *a)
{
    return a->kind > COLL_BARRIER && a->kind < COLL_NEIGHBOR_ALLGATHER && !t->local &&
           t->size <= COLL_GPU_RANKS_MAX;
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
    out->swaps = out->scratch && alltoalls(a->kind);
    out->publishes = publishes(t, a);
    int r = scatters(a->kind) ? COLL_GPU_SEND : COLL_GPU_RECV;
    for (int i = 0; out->publishes && i < t->size; i++) {
        struct coll_gpu_part p = side_part(a, &side[r], i);
        offsets[i] = p.len > 0 ? (uint64_t)(p.off - low[r]) : 0;
    }
    return 0;
}
