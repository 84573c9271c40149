/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans of long reductions in which copy engines carry what goes between devices and folds are
 * local, at the speed of the device's memory.  Measured on two H200 with both ways busy, 256 MiB:
 * engines put at 385 GB/s each way and get at 368, kernels that load or store over the links reach
 * 330 to 358.  What is to be folded lands in result buffers, which are free until results are
 * there; so not in place, and both ways at once only where results are mapped in large pages
 * (run.c).
 *
 * Two ranks (allreduce, reduce, scan, reduce_scatter): whoever has something the other needs puts
 * it into the other's result and posts; the other folds it there.  n in and out.  It goes in chunks
 * that become shorter, so that a chunk's fold takes no longer than the next one's way, and only a
 * short one is left at the end.  One put at a time: engines would share the link among several, and
 * the first chunk would come late.
 *
 * Two ranks, mixed: gets instead of puts, and a part of each chunk is left to a kernel.
 *
 * allreduce of more: rank r gets block r of everybody, the part of rank i into block i of its
 * result, folds the parts into block r, and posts; then each gets the others' blocks.
 * 2 (p-1)/p n in and out.  All but the last chunk is fetched while that one is folded.  Blocks are
 * equally long; what is left over is folded by the last rank the ordinary way. */
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
    f->near = false;
    f->count = (size_t)(len / m->elem);
    f->nsrc = f->ndst = 0;
}

/* ---- two ranks ---- */

/* A chunk that has landed in this rank's result, with its own vector's from `off` on. */
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

/* A kernel loads the other's itself, beside the engine. */
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

/* Of each chunk, so many 128ths are left to a kernel, which begins when the engine has brought the
 * chunk before, behind the fold of that. */
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

/* What one of them gives the other: bytes from `off` of its vector to the begin of the result. */
static struct coll_gpu_part given(const struct coll_args *a, int from)
{
    int64_t nbytes = coll_gpu_vector(a, 2).len;
    switch (a->kind) {
    case COLL_ALLREDUCE:
        return (struct coll_gpu_part){ 0, nbytes };
    case COLL_REDUCE:
        return (struct coll_gpu_part){ 0, from != a->root ? nbytes : 0 };
    case COLL_SCAN:
        return (struct coll_gpu_part){ 0, from == 0 ? nbytes : 0 };
    case COLL_REDUCE_SCATTER:
    case COLL_REDUCE_SCATTER_BLOCK:
        return coll_gpu_share(a, 1 - from);
    default:
        return (struct coll_gpu_part){ 0, 0 };
    }
}

static int64_t longest_given(const struct coll_args *a)
{
    int64_t first = given(a, 0).len, second = given(a, 1).len;
    return first > second ? first : second;
}

/* The end of the chunk that begins at `at`: so much of what is left that the rest of it, on its
 * way, hides the fold. */
static int64_t chunk_end(int64_t at, int64_t nbytes)
{
    int64_t left = nbytes - at;
    return left <= coll_gpu_limits.engine_chunk || left < 4 * COLL_GPU_LINE
               ? nbytes
               : at + left / (2 * COLL_GPU_LINE) * COLL_GPU_LINE + COLL_GPU_LINE;
}

bool coll_gpu_pair_does(const struct coll_gpu_make *m)
{
    if (m->size != 2 || m->any_overwritten || m->v->background)
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

/* ---- allreduce of more ---- */

#define LANES 4 /* chunks whose parts are fetched, one after the other, at the same time */

struct blocks {
    int64_t len, chunk; /* of every block; of what is fetched at once */
    int n;              /* chunks */
};

static struct blocks blocks_of(const struct coll_gpu_make *m, int64_t nbytes)
{
    struct blocks b = { .len = nbytes / COLL_GPU_LINE / m->size * COLL_GPU_LINE };
    b.chunk = (chunk_of(nbytes) / COLL_GPU_LINE + 1) / 2 * COLL_GPU_LINE;
    b.n = (int)((b.len + b.chunk - 1) / b.chunk);
    return b;
}

/* Fetches and folds chunk k of the own block. */
static int fold_chunk(struct coll_gpu_make *m, const struct blocks *b, int k, int after)
{
    int64_t at = k * b->chunk, len = min_of(b->len - at, b->chunk), mine = m->rank * b->len + at;
    struct rt_gpu_fold f;
    fold_of(m, &f, len);
    f.nsrc = (uint8_t)m->size;
    f.src[m->rank] = coll_gpu_peer(m, COLL_GPU_SEND, m->rank, mine, len);
    f.dst[f.ndst++] = coll_gpu_peer(m, COLL_GPU_RECV, m->rank, mine, len);
    for (int i = 1; i < m->size; i++) {
        int turn = (i + k) % (m->size - 1) + 1; /* lanes begin with different ranks */
        int from = (m->rank + turn) % m->size;
        char *to = coll_gpu_peer(m, COLL_GPU_RECV, m->rank, from * b->len + at, len);
        f.src[from] = to;
        after = coll_gpu_copy(m, to, coll_gpu_peer(m, COLL_GPU_SEND, from, mine, len), len, after);
    }
    struct rt_gpu_fold *step = coll_gpu_fold_step(m, after);
    if (!step)
        return -1;
    *step = f;
    return m->out->n - 1;
}

/* Chunks [from, to) of the others' results. */
static void get_results(struct coll_gpu_make *m, const struct blocks *b, int from, int to)
{
    int64_t first = from * b->chunk, len = min_of(b->len, to * b->chunk) - first;
    for (int i = 1; i < m->size; i++) {
        int owner = (m->rank + i) % m->size;
        int64_t at = owner * b->len + first;
        coll_gpu_copy(m, coll_gpu_peer(m, COLL_GPU_RECV, m->rank, at, len),
                      coll_gpu_peer(m, COLL_GPU_RECV, owner, at, len), len, -1);
    }
}

static void many_get(struct coll_gpu_make *m, int64_t nbytes)
{
    const struct blocks b = blocks_of(m, nbytes);
    int lane[LANES] = { -1, -1, -1, -1 };
    if (m->rank == m->size - 1)
        coll_gpu_fold_to_all(m, b.len * m->size, nbytes - b.len * m->size);
    for (int k = 0; k < b.n; k++) {
        if (k == b.n - 1)
            coll_gpu_post(m); /* all but the last chunk folded */
        lane[k % LANES] = fold_chunk(m, &b, k, lane[k % LANES]);
    }
    coll_gpu_post(m);
    coll_gpu_await(m, 1);
    get_results(m, &b, 0, b.n - 1);
    coll_gpu_await(m, 2);
    get_results(m, &b, b.n - 1, b.n);
}

void coll_gpu_plan_by_engine(struct coll_gpu_make *m, int64_t nbytes, bool mixed)
{
    if (m->size == 2 && mixed)
        pair_gets(m, (struct coll_gpu_part){ 0, nbytes }, coll_gpu_limits.by_kernel);
    else if (m->size == 2)
        coll_gpu_plan_pair(m);
    else
        many_get(m, nbytes);
}
