/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans of long reductions in which copy engines carry everything between devices: they reach
 * 388 GB/s each way while both ways are busy, where kernels that load or store over the links stop
 * at 340 (measured on two H200).  What is to be folded lands in result buffers, which are free
 * until results are there; so not in place.  Folds then are local, at the speed of the device's
 * memory.
 *
 * Two ranks (allreduce, reduce, scan, reduce_scatter): whoever has something the other needs puts
 * it into the other's result, chunk by chunk, and tells; the other folds each chunk there.  n in
 * and out.
 *
 * More (allreduce): rank i puts its part of block r into block i of r's result; r folds them into
 * block r, chunk by chunk as they come, and puts that into everybody's block r, where what it had
 * put there has been folded by then.  2 (p-1)/p n in and out.  All but the last chunk of the
 * results is put while that one is folded.  Blocks are equally long, and what is left over is
 * folded by the last rank the ordinary way.
 *
 * The puts of two chunks are under way at a time, so that engines do not wait for hosts. */
#include "coll/gpu/plan_int.h"
#include "runtime/gpu/kernel.h"

static int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }

/* Not too many posts. */
static int64_t chunk_of(int64_t nbytes)
{
    int64_t even = coll_gpu_cut(nbytes, 256, 1) + COLL_GPU_LINE;
    return even > coll_gpu_limits.engine_chunk ? even : coll_gpu_limits.engine_chunk;
}

static void fold_of(struct coll_gpu_make *m, struct rt_gpu_fold *f, int64_t len)
{
    f->type = m->type;
    f->code = m->code;
    f->count = (size_t)(len / m->elem);
    f->nsrc = f->ndst = 0;
}

/* ---- two ranks ---- */

/* What one of them gives the other: bytes from `off` of its vector to the begin of the result. */
static struct coll_gpu_part given(const struct coll_args *a, int from, int64_t nbytes)
{
    switch (a->kind) {
    case COLL_ALLREDUCE:
        return (struct coll_gpu_part){ 0, nbytes };
    case COLL_REDUCE:
        return (struct coll_gpu_part){ 0, from != a->root ? nbytes : 0 };
    case COLL_SCAN:
        return (struct coll_gpu_part){ 0, from == 0 ? nbytes : 0 };
    default:
        return coll_gpu_share(a, 1 - from);
    }
}

static int64_t longest_given(const struct coll_args *a)
{
    int64_t nbytes = coll_gpu_vector(a, 2).len, first = given(a, 0, nbytes).len,
            second = given(a, 1, nbytes).len;
    return first > second ? first : second;
}

bool coll_gpu_pair_does(const struct coll_gpu_make *m)
{
    return m->size == 2 && !m->any_overwritten && m->v->a->kind != COLL_EXSCAN &&
           longest_given(m->v->a) >= coll_gpu_limits.engine_min;
}

static void fold_landed(struct coll_gpu_make *m, int64_t off, int64_t at, int64_t len)
{
    char *landed = coll_gpu_peer(m, COLL_GPU_RECV, m->rank, at, len);
    const char *own = coll_gpu_peer(m, COLL_GPU_SEND, m->rank, off + at, len);
    struct rt_gpu_fold *f = coll_gpu_fold_step(m, -1);
    if (!f)
        return;
    fold_of(m, f, len);
    f->nsrc = 2;
    f->src[m->rank] = own;
    f->src[1 - m->rank] = landed;
    f->ndst = 1;
    f->dst[0] = landed;
}

void coll_gpu_plan_pair(struct coll_gpu_make *m)
{
    const struct coll_args *a = m->v->a;
    const int64_t nbytes = coll_gpu_vector(a, 2).len, chunk = chunk_of(nbytes);
    const int me = m->rank, other = 1 - me;
    const struct coll_gpu_part give = given(a, me, nbytes), get = given(a, other, nbytes);
    const int n = (int)((longest_given(a) + chunk - 1) / chunk); /* posts of either */
    int put[2] = { -1, -1 };
    for (int k = 0; k < n; k++) {
        int64_t at = k * chunk, len = min_of(give.len - at, chunk);
        put[k & 1] = coll_gpu_copy(m, coll_gpu_peer(m, COLL_GPU_RECV, other, at, len),
                                   coll_gpu_peer(m, COLL_GPU_SEND, me, give.off + at, len), len,
                                   put[k & 1]);
        coll_gpu_post(m);
    }
    if (a->kind == COLL_SCAN && me == 0)
        coll_gpu_copy(m, coll_gpu_peer(m, COLL_GPU_RECV, me, 0, nbytes),
                      coll_gpu_peer(m, COLL_GPU_SEND, me, 0, nbytes), nbytes, -1);
    /* of a reduce_scatter: where the own share begins */
    int64_t off = a->kind == COLL_REDUCE_SCATTER || a->kind == COLL_REDUCE_SCATTER_BLOCK
                      ? coll_gpu_share(a, me).off
                      : 0;
    for (int k = 0; k < n && k * chunk < get.len; k++) {
        coll_gpu_await(m, k + 1);
        fold_landed(m, off, k * chunk, min_of(get.len - k * chunk, chunk));
    }
}

/* ---- more ---- */

struct blocks {
    int64_t len, chunk; /* of every block; of what is put at once */
    int n;              /* chunks */
};

static struct blocks blocks_of(const struct coll_gpu_make *m, int64_t nbytes)
{
    struct blocks b = { .len = nbytes / COLL_GPU_LINE / m->size * COLL_GPU_LINE };
    b.chunk = chunk_of(nbytes) / COLL_GPU_LINE / (m->size - 1) * COLL_GPU_LINE;
    b.chunk = b.chunk ? b.chunk : COLL_GPU_LINE;
    b.n = (int)((b.len + b.chunk - 1) / b.chunk);
    return b;
}

static int64_t chunk_len(const struct blocks *b, int k)
{
    return min_of(b->len - k * b->chunk, b->chunk);
}

static void put_parts(struct coll_gpu_make *m, const struct blocks *b, int k, int *put)
{
    int64_t at = k * b->chunk, len = chunk_len(b, k);
    for (int i = 1; i < m->size; i++) {
        int to = (m->rank + i) % m->size;
        put[i] = coll_gpu_copy(m, coll_gpu_peer(m, COLL_GPU_RECV, to, m->rank * b->len + at, len),
                               coll_gpu_peer(m, COLL_GPU_SEND, m->rank, to * b->len + at, len), len,
                               put[i]);
    }
}

static void fold_parts(struct coll_gpu_make *m, const struct blocks *b, int k)
{
    int64_t at = k * b->chunk, len = chunk_len(b, k);
    struct rt_gpu_fold *f = coll_gpu_fold_step(m, -1);
    if (!f)
        return;
    fold_of(m, f, len);
    for (int i = 0; i < m->size; i++)
        f->src[f->nsrc++] = coll_gpu_peer(m, i == m->rank ? COLL_GPU_SEND : COLL_GPU_RECV, m->rank,
                                          i * b->len + at, len);
    f->dst[f->ndst++] = coll_gpu_peer(m, COLL_GPU_RECV, m->rank, m->rank * b->len + at, len);
}

/* Chunks [from, to) of the results. */
static void put_results(struct coll_gpu_make *m, const struct blocks *b, int from, int to)
{
    int64_t at = m->rank * b->len + from * b->chunk,
            len = min_of(b->len, to * b->chunk) - from * b->chunk;
    for (int i = 1; i < m->size; i++)
        coll_gpu_copy(m, coll_gpu_peer(m, COLL_GPU_RECV, (m->rank + i) % m->size, at, len),
                      coll_gpu_peer(m, COLL_GPU_RECV, m->rank, at, len), len, -1);
}

/* Posts, in this order: every chunk put; all but the last folded; the last folded. */
void coll_gpu_plan_by_engine(struct coll_gpu_make *m, int64_t nbytes)
{
    struct blocks b = blocks_of(m, nbytes);
    int64_t rest = b.len * m->size;
    int put[2][RT_GPU_FOLD_PLACES];
    for (int i = 0; i < RT_GPU_FOLD_PLACES; i++)
        put[0][i] = put[1][i] = -1;
    for (int k = 0; k < b.n; k++) {
        put_parts(m, &b, k, put[k & 1]);
        coll_gpu_post(m);
    }
    if (m->rank == m->size - 1)
        coll_gpu_fold_to_all(m, rest, nbytes - rest);
    for (int k = 0; k + 1 < b.n; k++) {
        coll_gpu_await(m, k + 1);
        fold_parts(m, &b, k);
    }
    coll_gpu_post(m);
    coll_gpu_await(m, b.n);
    fold_parts(m, &b, b.n - 1);
    coll_gpu_post(m);
    coll_gpu_await(m, b.n + 1);
    put_results(m, &b, 0, b.n - 1);
    coll_gpu_await(m, b.n + 2);
    put_results(m, &b, b.n - 1, b.n);
}
