/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans of reductions and scans.  p ranks, n bytes per vector; "in" and "out": bytes over the links
 * of the busiest rank.  Operands are always combined in rank order.
 *
 * allreduce, one shot: every rank folds all vectors into its own result, (p-1) n in and out.  Not
 * in place.
 *
 * allreduce, two shots in one: the owner of a block folds it and stores the result to all; 2
 * (p-1)/p n.  Only its owner accesses a block on any rank, so in place needs no other plan.  Put:
 * the owner keeps the result, and its copy engine stores the result to the others afterwards.
 *
 * reduce: short, the root folds all vectors, (p-1) n in; otherwise each rank except the root owns a
 * block and stores it at the root: n in and out for every rank, because the root's link carries
 * only results.
 *
 * reduce_scatter: rank r folds its block, n - n/p.  In place, the result overwrites data that
 * others still read, so it waits in scratch for a barrier.
 *
 * scan: short, rank r folds ranks 0 to r, (p-1) n in at the last rank and out at the first.  Long
 * or in place, the owner of a block folds it and stores every rank's result as it is computed, 2
 * (p-1)/p n; no barrier.  With more ranks than a fold has places, the first plan is used, in place
 * again through scratch.
 *
 * More ranks than a fold has sources: pieces are folded in several steps.
 *
 * Where processes take turns on a device (struct coll_gpu_view), only its worker owns blocks, and
 * it folds the shares of a reduce_scatter for all ranks of its device.  Calls in place that go
 * through scratch are an exception: there every rank folds its own. */
#include "coll/gpu/plan_int.h"
#include "runtime/gpu/kernel.h"

static int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- folds ---- */

/* Bytes [off, off + len) of the vectors of ranks [first, first + n). */
struct span {
    int first, n;
    int64_t off, len;
};

/* Makes one step that adds ranks from *next on to acc, or, when all have been added, copies the
 * result from the first destination. */
static struct rt_gpu_fold *fold_some(struct coll_gpu_make *m, const struct span *s, int *next,
                                     const char *acc, int after)
{
    struct rt_gpu_fold *f = coll_gpu_fold_step(m, after);
    if (!f)
        return NULL;
    f->type = m->type;
    f->count = (size_t)(s->len / m->elem);
    f->nsrc = f->ndst = 0;
    if (acc)
        f->src[f->nsrc++] = acc;
    for (; *next < s->n && f->nsrc < RT_GPU_FOLD_PLACES; ++*next)
        f->src[f->nsrc++] = coll_gpu_peer(m, COLL_GPU_SEND, s->first + *next, s->off, s->len);
    f->code = m->code;
    return f;
}

/* Folds a span of one piece to dst[] + shift; returns the index of the step that folded. */
static int fold_piece(struct coll_gpu_make *m, const struct span *s, char *const *dst, int ndst,
                      int64_t shift, int after)
{
    const char *acc = NULL;
    int next = 0, done = 0, folded = -1;
    while (next < s->n || done < ndst) {
        struct rt_gpu_fold *f = fold_some(m, s, &next, acc, after);
        if (!f)
            return after;
        after = m->out->n - 1;
        if (next < s->n) {
            acc = f->dst[f->ndst++] = m->chain;
            continue;
        }
        for (; done < ndst && f->ndst < RT_GPU_FOLD_PLACES; done++)
            f->dst[f->ndst++] = dst[done] + shift;
        if (f->nsrc == 1)
            coll_gpu_as_copy(f, s->len);
        folded = folded < 0 ? after : folded;
        acc = dst[0] + shift;
        after = folded;
    }
    return folded;
}

/* Folds a span into every dst; returns the index of the last step that folded. */
static int fold(struct coll_gpu_make *m, struct span s, char *const *dst, int ndst)
{
    const bool chained = s.n > RT_GPU_FOLD_PLACES;
    if (s.len <= 0 || m->err)
        return -1;
    if (s.n == 1 && ndst == 1)
        return coll_gpu_copy(m, dst[0], coll_gpu_peer(m, COLL_GPU_SEND, s.first, s.off, s.len),
                             s.len, -1);
    struct span piece = s;
    int last = -1;
    for (int64_t at = 0; at < s.len; at += piece.len) {
        piece.off = s.off + at;
        piece.len = min_of(s.len - at, chained ? coll_gpu_limits.chain : s.len);
        last = fold_piece(m, &piece, dst, ndst, at, chained ? m->chain_busy : -1);
        m->chain_busy = chained ? last : m->chain_busy;
    }
    return last;
}

/* The place of bytes [off, off + len) in every rank's result, this rank's first, or, without `own`,
 * in the others' results only. */
static int results(struct coll_gpu_make *m, int64_t off, int64_t len, bool own, char **dst)
{
    int n = 0;
    for (int i = own ? 0 : 1; i < m->size && len > 0; i++)
        dst[n++] = coll_gpu_peer(m, COLL_GPU_RECV, (m->rank + i) % m->size, off, len);
    return n;
}

static struct span all_ranks(const struct coll_gpu_make *m, int64_t off, int64_t len)
{
    return (struct span){ 0, m->size, off, len };
}

/* ---- allreduce ---- */

static void one_shot(struct coll_gpu_make *m, int64_t nbytes)
{
    char *dst = coll_gpu_peer(m, COLL_GPU_RECV, m->rank, 0, nbytes);
    fold(m, all_ranks(m, 0, nbytes), &dst, 1);
}

/* Block of owner i if up to `most` ranks own one; i < 0: not an owner. */
static struct coll_gpu_part block_of(int64_t nbytes, int most, int i)
{
    int64_t owners = min_of(most,
                            (nbytes + coll_gpu_limits.owner_min - 1) / coll_gpu_limits.owner_min);
    if (i < 0 || i >= owners)
        return (struct coll_gpu_part){ nbytes, 0 };
    int64_t from = coll_gpu_cut(nbytes, (int)owners, i);
    return (struct coll_gpu_part){ from, coll_gpu_cut(nbytes, (int)owners, i + 1) - from };
}

void coll_gpu_fold_to_all(struct coll_gpu_make *m, int64_t off, int64_t len)
{
    char *dst[COLL_GPU_RANKS_MAX];
    fold(m, all_ranks(m, off, len), dst, results(m, off, len, true, dst));
}

static void two_shot(struct coll_gpu_make *m, int64_t nbytes)
{
    struct coll_gpu_part b = block_of(nbytes, m->nworkers, m->nth);
    coll_gpu_fold_to_all(m, b.off, b.len);
}

static void fold_and_put(struct coll_gpu_make *m, int64_t nbytes)
{
    struct coll_gpu_part b = block_of(nbytes, m->size, m->rank);
    char *dst = coll_gpu_peer(m, COLL_GPU_RECV, m->rank, b.off, b.len);
    coll_gpu_put_result(m, b.off, b.len, fold(m, all_ranks(m, b.off, b.len), &dst, 1));
}

/* Two ranks: both shots move the same bytes.  For short vectors one shot is faster, because its
 * results are local (two H200, medians of four turns: 8 B 5.5 us, two shots 5.8; 8 KiB 6.7 and
 * 7.0); for longer vectors two shots. */
static enum coll_gpu_way best_shot(int64_t p, int64_t nbytes)
{
    if (p == 2)
        return nbytes <= 128 << 10 ? COLL_GPU_ONE_SHOT : COLL_GPU_TWO_SHOT;
    return (p - 1) * (p - 2) * (nbytes / p) <= coll_gpu_limits.one_shot_extra ? COLL_GPU_ONE_SHOT
                                                                              : COLL_GPU_TWO_SHOT;
}

/* For results in large pages.  If the number of ranks is not a power of two, there is no order in
 * which engines avoid each other: coll_gpu_other(). */
static enum coll_gpu_way best_way(int64_t p, int64_t nbytes, bool any_overwritten)
{
    bool two = p == 2;
    if (p & (p - 1))
        return best_shot(p, nbytes);
    if (nbytes >= (two ? coll_gpu_limits.engine_min : coll_gpu_limits.many_min) && !any_overwritten)
        return COLL_GPU_ENGINE;
    if (nbytes >= (two ? coll_gpu_limits.engine_min : coll_gpu_limits.put_min))
        return COLL_GPU_PUT;
    return best_shot(p, nbytes);
}

enum coll_gpu_way coll_gpu_allreduce_way(int size, int64_t nbytes, bool any_overwritten,
                                         bool large_pages, bool direct)
{
    enum coll_gpu_way way = size > 1 ? coll_gpu_asked_way(size, nbytes, direct) : COLL_GPU_ONE_SHOT;
    if (way == COLL_GPU_AUTO)
        way = large_pages ? best_way(size, nbytes, any_overwritten) : best_shot(size, nbytes);
    if ((way == COLL_GPU_ENGINE || way == COLL_GPU_MIXED) &&
        (any_overwritten || nbytes < (int64_t)size * COLL_GPU_LINE))
        way = COLL_GPU_PUT;
    if (way >= COLL_GPU_PUT && size > RT_GPU_FOLD_PLACES)
        way = COLL_GPU_TWO_SHOT;
    return way == COLL_GPU_ONE_SHOT && any_overwritten ? COLL_GPU_TWO_SHOT : way;
}

void coll_gpu_plan_allreduce(struct coll_gpu_make *m)
{
    int64_t nbytes = coll_gpu_vector(m->v->a, m->size).len;
    enum coll_gpu_way asked = coll_gpu_asked_way(m->size, nbytes, m->v->direct);
    enum coll_gpu_way way = coll_gpu_allreduce_way(m->size, nbytes, m->any_overwritten,
                                                   m->v->large_pages, m->v->direct);
    if (m->v->background && way >= COLL_GPU_PUT && asked == COLL_GPU_AUTO)
        way = COLL_GPU_TWO_SHOT;
    /* Engines that work beside kernels, or beside each other, gain nothing in order. */
    if (m->v->in_order && way >= COLL_GPU_PUT && (asked > COLL_GPU_PUT || m->v->direct))
        way = COLL_GPU_TWO_SHOT;
    if (coll_gpu_in_turns(m) && asked == COLL_GPU_AUTO)
        way = COLL_GPU_TWO_SHOT;
    switch (way) {
    case COLL_GPU_ONE_SHOT:
        one_shot(m, nbytes);
        break;
    case COLL_GPU_PUT:
        fold_and_put(m, nbytes);
        break;
    case COLL_GPU_MIXED:
        coll_gpu_plan_by_engine(m, nbytes, true);
        break;
    case COLL_GPU_ENGINE:
        coll_gpu_plan_by_engine(m, nbytes, false);
        break;
    default:
        two_shot(m, nbytes);
        break;
    }
}

/* ---- reduce ---- */

void coll_gpu_plan_reduce(struct coll_gpu_make *m)
{
    int64_t nbytes = coll_gpu_vector(m->v->a, m->size).len;
    int root = m->v->a->root;
    if (coll_gpu_pair_does(m)) {
        coll_gpu_plan_pair(m);
        return;
    }
    struct coll_gpu_part b = { 0, m->rank == root ? nbytes : 0 };
    if ((m->size - 2) * nbytes > coll_gpu_limits.one_shot_extra)
        b = m->rank == root ? (struct coll_gpu_part){ 0, 0 }
                            : block_of(nbytes, m->size - 1, m->rank - (m->rank > root));
    if (coll_gpu_in_turns(m))
        b = block_of(nbytes, m->nworkers, m->nth);
    char *dst = coll_gpu_peer(m, COLL_GPU_RECV, root, b.off, b.len);
    fold(m, all_ranks(m, b.off, b.len), &dst, 1);
}

/* ---- through scratch ---- */

/* Two places are used in turn, unless the whole fits into both together. */
#define STAGED_CHUNK ((COLL_GPU_PLACES * coll_gpu_limits.unit) / 2)

static int64_t nchunks_of(int64_t nbytes)
{
    if (nbytes <= (COLL_GPU_PLACES * coll_gpu_limits.unit))
        return nbytes > 0;
    return (nbytes + STAGED_CHUNK - 1) / STAGED_CHUNK;
}

static void stage_in(struct coll_gpu_make *m, struct span s, int64_t scratch)
{
    struct span unit = s;
    for (int64_t at = 0; at < s.len; at += unit.len) {
        unit.off = s.off + at;
        unit.len = min_of(s.len - at, coll_gpu_limits.unit);
        char *to = coll_gpu_scratch_at(m, scratch + at);
        fold(m, unit, &to, 1);
    }
}

static void stage_out(struct coll_gpu_make *m, char *dst, int64_t len, int64_t scratch)
{
    for (int64_t at = 0; at < len; at += coll_gpu_limits.unit)
        coll_gpu_copy(m, dst + at, coll_gpu_scratch_at(m, scratch + at),
                      min_of(len - at, coll_gpu_limits.unit), -1);
}

/* Folds a span into dst, which other ranks read: chunk by chunk into scratch, and from scratch to
 * dst after the next barrier, while the next chunk is folded.  `longest`: of all ranks, so that the
 * number of barriers is the same.  A rank that reads dst at all reads it no later than this rank
 * reads the same place of its own span. */
static void fold_staged(struct coll_gpu_make *m, struct span s, char *dst, int64_t longest)
{
    int64_t n = nchunks_of(longest), chunk = n == 1 ? longest : STAGED_CHUNK;
    for (int64_t i = 0; i <= n; i++) {
        int64_t at = i * chunk, was = at - chunk;
        if (at < s.len)
            stage_in(m, (struct span){ s.first, s.n, s.off + at, min_of(s.len - at, chunk) },
                     i % 2 * STAGED_CHUNK);
        if (i && was < s.len)
            stage_out(m, dst + was, min_of(s.len - was, chunk), (i - 1) % 2 * STAGED_CHUNK);
        if (i < n)
            coll_gpu_barrier(m);
    }
}

/* The same for a rank whose result no other rank reads. */
static void fold_direct(struct coll_gpu_make *m, struct span s, char *dst, int64_t longest)
{
    fold(m, s, &dst, 1);
    for (int64_t i = nchunks_of(longest); i > 0; i--)
        coll_gpu_barrier(m);
}

static void fold_shares(struct coll_gpu_make *m)
{
    for (int i = 0; i < m->size; i++) {
        struct coll_gpu_part b = coll_gpu_share(m->v->a, i);
        char *dst = coll_gpu_works_for(m, i) ? coll_gpu_peer(m, COLL_GPU_RECV, i, 0, b.len) : NULL;
        if (dst)
            fold(m, all_ranks(m, b.off, b.len), &dst, 1);
    }
}

void coll_gpu_plan_reduce_scatter(struct coll_gpu_make *m)
{
    struct coll_gpu_part b = coll_gpu_share(m->v->a, m->rank);
    int64_t longest = 0;
    if (coll_gpu_in_turns(m) && !m->any_overwritten) {
        fold_shares(m);
        return;
    }
    if (coll_gpu_pair_does(m)) {
        coll_gpu_plan_pair(m);
        return;
    }
    for (int i = 0; i < m->size && m->any_overwritten; i++) {
        int64_t len = coll_gpu_share(m->v->a, i).len;
        longest = len > longest ? len : longest;
    }
    /* Bytes c of the result may lie in another rank's block.  That block begins no earlier, so the
     * bytes are in a chunk of it that comes no later: they are read before the barrier after which
     * they are written. */
    char *dst = coll_gpu_peer(m, COLL_GPU_RECV, m->rank, 0, b.len);
    if (m->in_place)
        fold_staged(m, all_ranks(m, b.off, b.len), dst, longest);
    else
        fold_direct(m, all_ranks(m, b.off, b.len), dst, longest);
}

/* ---- scans ---- */

/* The owner of a block has all vectors and all results of it.  With two ranks the second rank needs
 * only the vectors. */
static bool owners_scan(const struct coll_gpu_make *m, int64_t nbytes)
{
    if (coll_gpu_in_turns(m) && m->v->a->kind == COLL_SCAN)
        return m->size <= RT_GPU_FOLD_PLACES;
    return m->size > 2 && m->size <= RT_GPU_FOLD_PLACES &&
           (m->any_overwritten || coll_gpu_in_turns(m) ||
            best_shot(m->size, nbytes) == COLL_GPU_TWO_SHOT);
}

static void scan_own_block(struct coll_gpu_make *m, int64_t nbytes)
{
    const int first = m->v->a->kind == COLL_EXSCAN; /* first rank with a result */
    struct coll_gpu_part b = block_of(nbytes, m->nworkers, m->nth);
    struct rt_gpu_fold *f = b.len > 0 ? coll_gpu_fold_step(m, -1) : NULL;
    if (!f)
        return;
    f->type = m->type;
    f->code = m->code;
    f->prefixes = true;
    f->count = (size_t)(b.len / m->elem);
    f->nsrc = f->ndst = (uint8_t)(m->size - first);
    for (int i = 0; i < f->nsrc; i++) {
        f->src[i] = coll_gpu_peer(m, COLL_GPU_SEND, i, b.off, b.len);
        f->dst[i] = coll_gpu_peer(m, COLL_GPU_RECV, i + first, b.off, b.len);
    }
}

void coll_gpu_plan_scan(struct coll_gpu_make *m)
{
    const struct coll_args *a = m->v->a;
    int64_t nbytes = coll_gpu_vector(a, m->size).len, longest = m->any_overwritten ? nbytes : 0;
    if (coll_gpu_pair_does(m)) {
        coll_gpu_plan_pair(m);
        return;
    }
    if (owners_scan(m, nbytes)) {
        scan_own_block(m, nbytes);
        return;
    }
    struct span s = { 0, m->rank + (a->kind == COLL_SCAN), 0, nbytes };
    /* Only the last rank reads its vector, and the first rank's result, if any, is its vector: with
     * two ranks no step has to wait. */
    bool staged = m->in_place && m->rank < m->size - 1;
    if (m->size <= 2)
        longest = 0;
    if (m->rank == 0 && (staged || a->kind == COLL_EXSCAN))
        s.n = 0;
    if (!s.n)
        s.len = 0;
    char *dst = coll_gpu_peer(m, COLL_GPU_RECV, m->rank, 0, s.len);
    if (staged && s.n)
        fold_staged(m, s, dst, longest);
    else
        fold_direct(m, s, dst, longest);
}
