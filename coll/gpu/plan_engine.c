/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans of long reductions in which copy engines move the data between devices and folds are local,
 * at the speed of the device's memory.  Measured on two H200 with both directions busy, 256 MiB:
 * engines put at 385 GB/s each way and get at 368; kernels that load or store over the links reach
 * 330 to 358.  Data to be folded arrive in result buffers, which are free until the results are
 * written.  So these plans are not for in-place calls, and are used in both directions at once only
 * if results are mapped in large pages (run.c).
 *
 * Two ranks (allreduce, reduce, scan, reduce_scatter): a rank with data for the other puts them
 * into the other's result and posts; the other folds them there.  n in and out.  The data go in
 * chunks that become shorter, so that the fold of a chunk takes no longer than the transfer of the
 * next chunk, and only a short fold is left at the end.  One put at a time: several engines would
 * share the link, and the first chunk would arrive late.
 *
 * Two ranks, mixed: gets instead of puts, and a kernel moves a part of each chunk.
 *
 * allreduce of more ranks: every rank puts its part of block r to rank r; the result of rank r
 * holds the part of rank i in block i.  When all parts have arrived, rank r folds them into block
 * r.  When all ranks have folded, rank r puts block r to all, where r's own part was before.  2
 * (p-1)/p n in and out.  Blocks have equal lengths; the last rank folds the remainder in the
 * ordinary way.  Engines of several ranks that put to one device share its link badly (four H200:
 * 286 GB/s instead of 380), and engines that get share it worse (129 to 196).  So each rank puts to
 * one destination after another.
 *
 * This suits devices that share a switch.  If devices have links to each other (view.direct), one
 * destination after another would use one link of each device at a time.  Then copies to different
 * destinations run at the same time, and only copies to the same destination follow each other.
 * Such a machine has not been measured: by the model each link then carries 2/p n instead of one
 * link 2 (p-1)/p n. */
#include "coll/gpu/plan_int.h"
#include "runtime/gpu/kernel.h"

static int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }

/* Limits the number of posts. */
static int64_t chunk_of(int64_t nbytes)
{
    int64_t even = coll_gpu_cut(nbytes, 256, 1) + COLL_GPU_LINE;
    return even > coll_gpu_limits.engine_chunk ? even : coll_gpu_limits.engine_chunk;
}

static void fold_of(struct coll_gpu_make *m, struct rt_gpu_fold *f, int64_t len)
{
    f->type = m->type;
    f->code = m->code;
    f->near = false;
    f->count = (size_t)(len / m->elem);
    f->nsrc = f->ndst = 0;
}

/* ---- two ranks ---- */

/* Folds a chunk that has arrived in this rank's result with its own vector from `off` on. */
static int fold_landed(struct coll_gpu_make *m, int64_t off, int64_t at, int64_t len, int after)
{
    char *landed = coll_gpu_peer(m, COLL_GPU_RECV, m->rank, at, len);
    const char *own = coll_gpu_peer(m, COLL_GPU_SEND, m->rank, off + at, len);
    struct rt_gpu_fold *f = coll_gpu_fold_step(m, after);
    if (!f)
        return -1;
    fold_of(m, f, len);
    f->nsrc = 2;
    f->src[m->rank] = own;
    f->src[1 - m->rank] = landed;
    f->ndst = 1;
    f->dst[0] = landed;
    return m->out->n - 1;
}

/* A kernel loads the other's part itself, besides the engine. */
static void fold_over_link(struct coll_gpu_make *m, int64_t off, int64_t at, int64_t len, int after)
{
    struct rt_gpu_fold *f = len > 0 ? coll_gpu_fold_step(m, after) : NULL;
    if (!f)
        return;
    fold_of(m, f, len);
    for (int i = 0; i < 2; i++)
        f->src[f->nsrc++] = coll_gpu_peer(m, COLL_GPU_SEND, i, off + at, len);
    f->dst[f->ndst++] = coll_gpu_peer(m, COLL_GPU_RECV, m->rank, at, len);
}

/* A kernel does by_kernel 128ths of each chunk.  It begins when the engine has brought the chunk
 * before, after the fold of that chunk. */
static void pair_gets(struct coll_gpu_make *m, struct coll_gpu_part want, int by_kernel)
{
    const int64_t chunk = chunk_of(want.len);
    int got[2] = { -1, -1 };
    for (int64_t at = 0, k = 0; at < want.len && !m->err; at += chunk, k++) {
        int64_t len = min_of(want.len - at, chunk),
                rest = len / 128 * by_kernel / COLL_GPU_LINE * COLL_GPU_LINE, n = len - rest;
        int before = got[(k + 1) & 1], *last = &got[k & 1];
        *last = coll_gpu_copy(m, coll_gpu_peer(m, COLL_GPU_RECV, m->rank, at, n),
                              coll_gpu_peer(m, COLL_GPU_SEND, 1 - m->rank, want.off + at, n), n,
                              *last);
        fold_landed(m, want.off, at, n, *last);
        fold_over_link(m, want.off, at + n, rest, before);
    }
}

/* The data that one rank gives the other, of a kind that two ranks can reduce in this way: bytes
 * from `off` of its vector, to the beginning of the result. */
static struct coll_gpu_part given(const struct coll_args *a, int from)
{
    const struct coll_team two = { .rank = from, .size = 2 };
    struct coll_block b = coll_args_sent(&two, a, 1 - from);
    if (!b.l || coll_is(a->kind, COLL_IS_EXCLUSIVE))
        return (struct coll_gpu_part){ 0, 0 };
    return (struct coll_gpu_part){ b.at - (const char *)coll_input(a), b.n * b.l->extent };
}

static int64_t longest_given(const struct coll_args *a)
{
    int64_t first = given(a, 0).len, second = given(a, 1).len;
    return first > second ? first : second;
}

/* The end of the chunk that begins at `at`: long enough that the transfer of the remainder hides
 * the fold. */
static int64_t chunk_end(int64_t at, int64_t nbytes)
{
    int64_t left = nbytes - at;
    return left <= coll_gpu_limits.engine_chunk || left < 4 * COLL_GPU_LINE
               ? nbytes
               : at + left / (2 * COLL_GPU_LINE) * COLL_GPU_LINE + COLL_GPU_LINE;
}

bool coll_gpu_pair_does(const struct coll_gpu_make *m)
{
    if (m->size != 2 || m->any_overwritten || m->v->background || coll_gpu_in_turns(m))
        return false;
    int64_t len = longest_given(m->v->a);
    bool one_way = !given(m->v->a, 0).len || !given(m->v->a, 1).len;
    return len > 0 && len >= coll_gpu_limits.engine_min / 2 && (one_way || m->v->large_pages);
}

void coll_gpu_plan_pair(struct coll_gpu_make *m)
{
    const struct coll_args *a = m->v->a;
    const int me = m->rank, other = 1 - me;
    const struct coll_gpu_part give = given(a, me), get = given(a, other);
    const int64_t nbytes = longest_given(a);
    int put = -1, posts = 0;
    for (int64_t at = 0, end; at < nbytes; at = end) {
        end = chunk_end(at, nbytes);
        int64_t len = min_of(give.len, end) - at;
        put = coll_gpu_copy(m, coll_gpu_peer(m, COLL_GPU_RECV, other, at, len),
                            coll_gpu_peer(m, COLL_GPU_SEND, me, give.off + at, len), len, put);
        coll_gpu_post(m);
    }
    if (a->kind == COLL_SCAN && me == 0)
        coll_gpu_kernel_copy(m, coll_gpu_peer(m, COLL_GPU_RECV, me, 0, nbytes),
                             coll_gpu_peer(m, COLL_GPU_SEND, me, 0, nbytes), nbytes);
    for (int64_t at = 0, end; at < get.len && !m->err; at = end) {
        end = chunk_end(at, nbytes);
        coll_gpu_await(m, ++posts);
        fold_landed(m, get.off, at, min_of(get.len, end) - at, -1);
    }
}

/* ---- allreduce of more than two ranks ---- */

/* With two halves the engines are never idle: the first half is folded during the transfer of the
 * second half, and the second half during the transfer of the first results.  Each further copy
 * costs 3 us of a link. */
#define HALVES 2

struct halves {
    int64_t block, at[HALVES + 1]; /* bytes of a block; start of each half, and the end */
};

static struct halves halves_of(const struct coll_gpu_make *m, int64_t nbytes)
{
    int64_t block = nbytes / COLL_GPU_LINE / m->size * COLL_GPU_LINE;
    struct halves h = { .block = block };
    for (int k = 0; k <= HALVES; k++)
        h.at[k] = coll_gpu_cut(block, HALVES, k);
    return h;
}

/* Puts half k of each other rank's block to that rank, into this rank's block of the result.  Each
 * copy is ordered after last[0], which becomes the last copy, or, with direct links, after last[]
 * of the destination. */
static void put_parts(struct coll_gpu_make *m, const struct halves *h, int k, int *last)
{
    int64_t len = h->at[k + 1] - h->at[k];
    for (int i = 1; i < m->size; i++) {
        int to = coll_gpu_other(m, i), *after = m->v->direct ? &last[to] : last;
        *after = coll_gpu_copy(
            m, coll_gpu_peer(m, COLL_GPU_RECV, to, m->rank * h->block + h->at[k], len),
            coll_gpu_peer(m, COLL_GPU_SEND, m->rank, to * h->block + h->at[k], len), len, *after);
    }
}

/* Folds half k of the own block.  Returns the step, or `none`. */
static int fold_half(struct coll_gpu_make *m, const struct halves *h, int k, int none)
{
    int64_t len = h->at[k + 1] - h->at[k], mine = m->rank * h->block + h->at[k];
    struct rt_gpu_fold *f = len > 0 ? coll_gpu_fold_step(m, -1) : NULL;
    if (!f)
        return none;
    fold_of(m, f, len);
    for (int i = 0; i < m->size; i++)
        f->src[f->nsrc++] = i == m->rank ? coll_gpu_peer(m, COLL_GPU_SEND, i, mine, len)
                                         : coll_gpu_peer(m, COLL_GPU_RECV, m->rank,
                                                         i * h->block + h->at[k], len);
    f->dst[f->ndst++] = coll_gpu_peer(m, COLL_GPU_RECV, m->rank, mine, len);
    return m->out->n - 1;
}

int coll_gpu_put_result(struct coll_gpu_make *m, int64_t off, int64_t len, int after)
{
    const int first = after;
    for (int i = 1; i < m->size; i++)
        after = coll_gpu_copy(m, coll_gpu_peer(m, COLL_GPU_RECV, coll_gpu_other(m, i), off, len),
                              coll_gpu_peer(m, COLL_GPU_RECV, m->rank, off, len), len,
                              m->v->direct ? first : after);
    return after;
}

/* With direct links a post must follow the copies to all ranks, so it comes after them in the list,
 * and both halves are put before the first one is awaited. */
static void many_put_directly(struct coll_gpu_make *m, const struct halves *h)
{
    int last[COLL_GPU_RANKS_MAX];
    for (int i = 0; i < m->size; i++)
        last[i] = -1;
    for (int k = 0; k < HALVES; k++) {
        put_parts(m, h, k, last);
        coll_gpu_post(m);
    }
    for (int k = 0; k < HALVES; k++) {
        coll_gpu_await(m, k + 1);
        coll_gpu_post_after(m, fold_half(m, h, k, last[coll_gpu_other(m, 1)]));
    }
    for (int k = 0; k < HALVES; k++) {
        coll_gpu_await(m, HALVES + k + 1);
        coll_gpu_put_result(m, m->rank * h->block + h->at[k], h->at[k + 1] - h->at[k], -1);
    }
}

static void many_put(struct coll_gpu_make *m, int64_t nbytes)
{
    const struct halves h = halves_of(m, nbytes);
    int put[HALVES], last = -1, posts = 0;
    if (m->rank == m->size - 1)
        coll_gpu_fold_to_all(m, h.block * m->size, nbytes - h.block * m->size);
    if (m->v->direct) {
        many_put_directly(m, &h);
        return;
    }
    for (int k = 0; k < HALVES; k++) {
        put_parts(m, &h, k, &last);
        put[k] = last;
    }
    for (int k = 0; k < HALVES; k++) {
        coll_gpu_post_after(m, put[k]);
        coll_gpu_await(m, ++posts);
        coll_gpu_post_after(m, fold_half(m, &h, k, put[k]));
        coll_gpu_await(m, ++posts);
        last = coll_gpu_put_result(m, m->rank * h.block + h.at[k], h.at[k + 1] - h.at[k], last);
    }
}

void coll_gpu_plan_by_engine(struct coll_gpu_make *m, int64_t nbytes, bool mixed)
{
    if (m->size == 2 && mixed)
        pair_gets(m, (struct coll_gpu_part){ 0, nbytes }, coll_gpu_limits.by_kernel);
    else if (m->size == 2)
        coll_gpu_plan_pair(m);
    else
        many_put(m, nbytes);
}
