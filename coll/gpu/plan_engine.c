/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans of long reductions in which copy engines carry what goes between devices and folds are
 * local, at the speed of the device's memory.  Measured on two H200, 256 MiB and more: kernels that
 * load or store over the links reach 330 to 340 GB/s; engines that put 385, but 250 to 300 each way
 * when both ways are busy; engines that get 357, and 361 each way.  What is to be folded lands in
 * result buffers, which are free until results are there; so not in place.
 *
 * allreduce of two ranks, and their reduce_scatter: each gets the other's vector (its part) into
 * its own result, chunk by chunk, and folds it there.  No rank waits for another.  n in and out.
 *
 * allreduce of more: rank r gets block r of everybody, the part of rank i into block i of its
 * result, folds the parts into block r, and posts; then each gets the others' blocks.
 * 2 (p-1)/p n in and out.  All but the last chunk is fetched while that one is folded.  Blocks are
 * equally long; what is left over is folded by the last rank the ordinary way.
 *
 * reduce and scan of two ranks, where data goes one way only: whoever has something the other needs
 * puts it into the other's result, chunk by chunk, and posts; the other folds each chunk there.
 *
 * Several copies are under way at a time, so that engines do not wait for hosts. */
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

/* Data goes from rank `from` to the other one, who folds. */
static void pair_puts(struct coll_gpu_make *m, int from, int64_t nbytes)
{
    const int64_t chunk = chunk_of(nbytes);
    const int n = (int)((nbytes + chunk - 1) / chunk); /* posts of either */
    int put[2] = { -1, -1 };
    for (int k = 0; k < n; k++) {
        int64_t at = k * chunk, len = m->rank == from ? min_of(nbytes - at, chunk) : 0;
        put[k & 1] = coll_gpu_copy(m, coll_gpu_peer(m, COLL_GPU_RECV, 1 - from, at, len),
                                   coll_gpu_peer(m, COLL_GPU_SEND, from, at, len), len, put[k & 1]);
        coll_gpu_post(m);
    }
    for (int k = 0; k < n && m->rank != from; k++) {
        coll_gpu_await(m, k + 1);
        fold_landed(m, 0, k * chunk, min_of(nbytes - k * chunk, chunk), -1);
    }
}

bool coll_gpu_pair_does(const struct coll_gpu_make *m)
{
    const struct coll_args *a = m->v->a;
    int64_t len = coll_gpu_vector(a, m->size).len, most = 0;
    if (m->size != 2 || m->any_overwritten || m->v->background)
        return false;
    switch (a->kind) {
    case COLL_REDUCE:
    case COLL_SCAN:
        return len >= coll_gpu_limits.engine_min / 2; /* one way gains more */
    case COLL_REDUCE_SCATTER:
    case COLL_REDUCE_SCATTER_BLOCK:
        for (int i = 0; i < 2; i++)
            most = coll_gpu_share(a, i).len > most ? coll_gpu_share(a, i).len : most;
        return most >= coll_gpu_limits.engine_min;
    default:
        return false;
    }
}

void coll_gpu_plan_pair(struct coll_gpu_make *m)
{
    const struct coll_args *a = m->v->a;
    const int64_t nbytes = coll_gpu_vector(a, 2).len;
    switch (a->kind) {
    case COLL_REDUCE:
        pair_puts(m, 1 - a->root, nbytes);
        break;
    case COLL_SCAN:
        if (m->rank == 0)
            coll_gpu_copy(m, coll_gpu_peer(m, COLL_GPU_RECV, 0, 0, nbytes),
                          coll_gpu_peer(m, COLL_GPU_SEND, 0, 0, nbytes), nbytes, -1);
        pair_puts(m, 0, nbytes);
        break;
    default:
        pair_gets(m, coll_gpu_share(a, m->rank), 0);
        break;
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
    if (m->size == 2)
        pair_gets(m, (struct coll_gpu_part){ 0, nbytes }, mixed ? coll_gpu_limits.by_kernel : 0);
    else
        many_get(m, nbytes);
}
