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
#include "runtime/reduce/gpu_codes.h"

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
    int64_t at = coll_args_parts(a, i);
    return operand(a, at, coll_args_parts(a, i + 1) - at);
}

struct coll_gpu_part coll_gpu_vector(const struct coll_args *a, int size)
{
    bool cut = coll_shape(a->kind, COLL_SEND) == COLL_SIDE_CUT;
    return operand(a, 0, cut ? coll_args_parts(a, size) : a->rcount);
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

/* ---- which memory a rank has ---- */

/* The memory of one side, from the lowest to the highest byte.  The blocks are those of a side of
 * the arguments: all blocks, or only those that the call reads. */
struct range {
    enum coll_side side;
    bool only_read;
    int n; /* blocks; 0: no memory */
    const char *at;
    size_t len;
};

/* A block in memory; the elements of a reduction may have a hole at their end. */
static struct coll_use block_of(const struct coll_team *t, const struct coll_args *a,
                                const struct range *r, int i)
{
    struct coll_use u = coll_args_use(t, a, r->side, i);
    if (!u.b.l || u.b.n <= 0 || (r->only_read && !u.in))
        u.b.n = 0;
    return u;
}

static int64_t nbytes_of(const struct coll_args *a, const struct coll_block *b)
{
    return b->n > 0 ? b->n * (coll_is(a->kind, COLL_IS_REDUCTION) ? b->l->extent : b->l->size) : 0;
}

static void find_ends(const struct coll_team *t, const struct coll_args *a, struct range *r)
{
    uintptr_t from = UINTPTR_MAX, to = 0;
    for (int i = 0; i < r->n; i++) {
        struct coll_use u = block_of(t, a, r, i);
        uintptr_t at = (uintptr_t)u.b.at, end = at + (uintptr_t)nbytes_of(a, &u.b);
        if (end == at)
            continue;
        from = at < from ? at : from;
        to = end > to ? end : to;
    }
    if (to > from)
        r->at = (const char *)from, r->len = to - from;
}

/* The memory that other ranks may read: the send side, or what the call reads of the receive
 * buffer. */
static struct range send_range(const struct coll_team *t, const struct coll_args *a)
{
    struct range r = { .side = COLL_SEND, .n = coll_args_uses(t, a, COLL_SEND) };
    if (r.n == 0)
        r = (struct range){ COLL_RECV, true, coll_args_uses(t, a, COLL_RECV), NULL, 0 };
    find_ends(t, a, &r);
    return r;
}

/* The memory that the call writes: the whole receive side, if anything of it is written. */
static struct range recv_range(const struct coll_team *t, const struct coll_args *a)
{
    struct range r = { .side = COLL_RECV, .n = coll_args_uses(t, a, COLL_RECV) };
    bool written = false;
    for (int i = 0; i < r.n && !written; i++)
        written = coll_args_use(t, a, COLL_RECV, i).out;
    r.n = written ? r.n : 0;
    find_ends(t, a, &r);
    return r;
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
    bool in_place = coll_args_in_place(a, rank);
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
    bool in_place = coll_args_in_place(a, t->rank);
    int64_t elem;
    out->folds = coll_is(a->kind, COLL_IS_REDUCTION);
    if (out->folds ? !coll_gpu_arith(a, &out->type, &out->code, &elem)
                   : !layouts_do(t, a, in_place))
        return -RT_ENOTSUP;
    const struct range range[COLL_GPU_RANGES] = { send_range(t, a), recv_range(t, a) };
    for (int r = 0; r < COLL_GPU_RANGES; r++) {
        out->at[r] = range[r].at;
        out->len[r] = range[r].len;
    }
    out->word = word_of(t, a, in_place, out);
    out->scratch = coll_gpu_scratch(a, t->rank, t->size);
    if (out->folds && t->size > RT_GPU_FOLD_PLACES)
        out->scratch = coll_gpu_chain_at(out->scratch) + coll_gpu_limits.chain;
    out->swaps = out->scratch && coll_is_alltoall(a->kind);
    out->publishes = publishes(t, a);
    int r = coll_is(a->kind, COLL_IS_FROM_ROOT) ? COLL_GPU_SEND : COLL_GPU_RECV;
    for (int i = 0; out->publishes && i < t->size; i++) {
        struct coll_use u = block_of(t, a, &range[r], i);
        offsets[i] = u.b.n > 0 ? (uint64_t)(u.b.at - range[r].at) : 0;
    }
    return 0;
}
