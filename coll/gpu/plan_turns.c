/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans of collectives without arithmetic on devices on which processes take turns (struct
 * coll_gpu_view): the worker of a rank moves the blocks that this rank sends.  So on a device with
 * several ranks, one process launches kernels, and no kernel waits for the turn of its process.
 *
 * Only what all ranks know is used: the lengths of the ranges, and the offsets that ranks publish.
 * alltoallv and alltoallw are not here, because their lengths are known to two ranks only; there,
 * and in an alltoall in place, every rank does its own work.
 *
 * Blocks of one length are moved together, up to RT_GPU_FOLD_PLACES by one kernel. */
#include "coll/gpu/plan_int.h"
#include "runtime/gpu/kernel.h"

struct move {
    char *dst, *src;
    int64_t len;
};

/* The blocks of one length that have not become a step yet. */
struct together {
    struct move of[RT_GPU_FOLD_PLACES];
    int n;
};

static void flush(struct coll_gpu_make *m, struct together *t)
{
    if (t->n == 1 || !m->v->kernels) {
        for (int i = 0; i < t->n; i++)
            coll_gpu_kernel_copy(m, t->of[i].dst, t->of[i].src, t->of[i].len);
        t->n = 0;
        return;
    }
    struct rt_gpu_fold *f = t->n ? coll_gpu_fold_step(m, -1) : NULL;
    if (!f)
        return;
    f->nsrc = f->ndst = (uint8_t)t->n;
    for (int i = 0; i < t->n; i++) {
        f->src[i] = t->of[i].src;
        f->dst[i] = t->of[i].dst;
    }
    coll_gpu_as_copy(f, t->of[0].len);
    f->code = RT_GPU_FOLD_EACH;
    t->n = 0;
}

static void add(struct coll_gpu_make *m, struct together *t, const struct move *b)
{
    if (b->len <= 0 || b->dst == b->src || m->err)
        return;
    if (t->n == RT_GPU_FOLD_PLACES || (t->n && t->of[0].len != b->len))
        flush(m, t);
    t->of[t->n++] = *b;
}

/* The block that rank `from` sends to rank `to`. */
static struct move block_of(struct coll_gpu_make *m, int from, int to)
{
    const enum coll_kind kind = m->v->a->kind;
    struct move b = { .len = (int64_t)m->v->len[COLL_GPU_SEND][from] };
    int64_t at = 0;
    if (coll_is(kind, COLL_IS_FROM_ROOT)) {
        b.len = (int64_t)m->v->len[COLL_GPU_RECV][to];
        at = kind == COLL_SCATTERV ? coll_gpu_published(m, from, to) : to * b.len;
    } else if (kind == COLL_ALLTOALL) {
        b.len /= m->size;
        at = to * b.len;
    }
    b.src = coll_gpu_peer(m, COLL_GPU_SEND, from, at, b.len);
    at = coll_is(kind, COLL_IS_FROM_ROOT)                  ? 0
         : kind == COLL_GATHERV || kind == COLL_ALLGATHERV ? coll_gpu_published(m, to, from)
                                                           : from * b.len;
    b.dst = coll_gpu_peer(m, COLL_GPU_RECV, to, at, b.len);
    return b;
}

void coll_gpu_plan_in_turns(struct coll_gpu_make *m)
{
    const struct coll_args *a = m->v->a;
    struct together t = { .n = 0 };
    for (int from = 0; from < m->size; from++)
        for (int to = 0; to < m->size && coll_gpu_works_for(m, from); to++) {
            if ((coll_is(a->kind, COLL_IS_FROM_ROOT) && from != a->root) ||
                (coll_is(a->kind, COLL_IS_TO_ROOT) && to != a->root))
                continue;
            struct move b = block_of(m, from, to);
            add(m, &t, &b);
        }
    flush(m, &t);
}
