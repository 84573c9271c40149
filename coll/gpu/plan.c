/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes plans: checks that the ranks agree, and has the functions with which the files of the kinds
 * add steps.  After the first error nothing is added. */
#include "coll/gpu/plan_int.h"
#include <stdlib.h>
#include "runtime/base/err.h"
#include "runtime/gpu/kernel.h"

enum coll_gpu_way coll_gpu_way;

/* Measured on two H200 (driver 580); many_min and put_min are computed for four, from the rates of
 * their links.  They select among plans with the same result.  Model for slower links, over which
 * kernels and engines slow down alike: the best values are smaller in the same ratio, and between
 * the two values a call takes up to 16 % longer than necessary, the ratio of the rates. */
struct coll_gpu_limits coll_gpu_limits = {
    .step = 5 << 20,       /* 12 to 15 us at 350 GB/s and more */
    .kernel_max = 4 << 20, /* rows PUT of runtime/gpu/cost.def */
    /* stores to other devices and their ordering: about 1 us */
    .one_shot_extra = 256 << 10,
    .owner_min = 2 << 10,    /* a fold of it takes almost no time: 128 threads at once */
    .engine_min = 128 << 20, /* kernels take 416 us for 128 MiB, engines 394; for 256 MiB 804
                              * and 744 */
    .many_min = 128 << 20, /* four ranks, from the rates of test/gpu/links.cu; see plan_engine.c */
    .put_min = 32 << 20,   /* the same source: kernels load 317 GB/s, load and store 300, engines
                            * 380 */
    .engine_move = 32 << 20,  /* kernels 126 us, engines 115; for 64 MiB 234 and 201 */
    .by_kernel = 10,          /* what a link has left besides an engine, and a little more */
    .engine_chunk = 16 << 20, /* a transfer of 43 us; the last chunk's fold takes 15 us */
    .unit = COLL_GPU_SCRATCH_UNIT,
    .chain = 1 << 20,
};

static struct coll_gpu_step *add(struct coll_gpu_make *m, enum coll_gpu_verb verb, int after)
{
    struct coll_gpu_plan *p = m->out;
    if (m->err)
        return NULL;
    if (p->n == p->room) {
        int room = p->room ? 2 * p->room : 8;
        struct coll_gpu_step *more = realloc(p->step, (size_t)room * sizeof *more);
        if (!more) {
            m->err = -RT_ENOMEM;
            return NULL;
        }
        p->step = more;
        p->room = room;
    }
    struct coll_gpu_step *s = &p->step[p->n++];
    s->verb = verb;
    s->after = after;
    return s;
}

char *coll_gpu_peer(struct coll_gpu_make *m, enum coll_gpu_range r, int rank, int64_t off,
                    int64_t len)
{
    char *at = m->v->at[r][rank];
    size_t room = m->v->len[r][rank];
    if (m->err || len <= 0)
        return NULL;
    if (!at || off < 0 || (size_t)off > room || (size_t)len > room - (size_t)off) {
        m->err = -RT_ETRUNC;
        return NULL;
    }
    return at + off;
}

int64_t coll_gpu_published(struct coll_gpu_make *m, int rank, int whose)
{
    const uint64_t *offsets = m->v->offsets ? m->v->offsets[rank] : NULL;
    if (offsets)
        return (int64_t)offsets[whose];
    m->err = m->err ? m->err : -RT_ETRUNC; /* the rank is in another call */
    return 0;
}

int coll_gpu_copy(struct coll_gpu_make *m, void *dst, const void *src, int64_t len, int after)
{
    if (len <= 0 || dst == src)
        return after;
    struct coll_gpu_step *s = add(m, COLL_GPU_COPY, after);
    if (!s)
        return after;
    s->copy.dst = dst;
    s->copy.src = src;
    s->copy.len = (size_t)len;
    s->copy.near = false;
    return m->out->n - 1;
}

static struct coll_gpu_step *add_post(struct coll_gpu_make *m, enum coll_gpu_verb verb, int after)
{
    if (++m->posts > COLL_GPU_POSTS_MAX && !m->err)
        m->err = -RT_ENOTSUP;
    return add(m, verb, after);
}

void coll_gpu_barrier(struct coll_gpu_make *m)
{
    struct coll_gpu_step *s = add_post(m, COLL_GPU_BARRIER, -1);
    if (s)
        s->posts = m->posts;
    m->chain_busy = -1;
}

void coll_gpu_post(struct coll_gpu_make *m) { add_post(m, COLL_GPU_POST, -1); }

void coll_gpu_post_after(struct coll_gpu_make *m, int after) { add_post(m, COLL_GPU_POST, after); }

void coll_gpu_await(struct coll_gpu_make *m, int posts)
{
    struct coll_gpu_step *s = add(m, COLL_GPU_AWAIT, -1);
    if (s)
        s->posts = posts;
}

struct rt_gpu_fold *coll_gpu_fold_step(struct coll_gpu_make *m, int after)
{
    struct coll_gpu_step *s = add(m, COLL_GPU_FOLD, after);
    if (!s)
        return NULL;
    s->fold.near = s->fold.prefixes = false;
    return &s->fold;
}

void coll_gpu_as_copy(struct rt_gpu_fold *f, int64_t len)
{
    static const uint8_t types[] = { RT_GPU_U8, RT_GPU_U16, RT_GPU_U32, RT_GPU_U64 };
    uintptr_t bits = (uintptr_t)len;
    for (int i = 0; i < f->nsrc; i++)
        bits |= (uintptr_t)f->src[i];
    for (int i = 0; i < f->ndst; i++)
        bits |= (uintptr_t)f->dst[i];
    int log = bits & 7 ? __builtin_ctzl(bits & 7) : 3;
    f->type = types[log];
    f->code = RT_GPU_FOLD_COPY;
    f->count = (size_t)len >> log;
}

int coll_gpu_other(const struct coll_gpu_make *m, int i)
{
    return m->size & (m->size - 1) ? (m->rank + i) % m->size : m->rank ^ i;
}

bool coll_gpu_engines_move(const struct coll_gpu_make *m, int64_t len)
{
    return m->v->large_pages && !(m->size & (m->size - 1)) && len >= coll_gpu_limits.engine_move;
}

int64_t coll_gpu_together_max(const struct coll_gpu_make *m)
{
    return m->v->in_order && m->v->direct ? INT64_MAX : coll_gpu_limits.kernel_max;
}

void coll_gpu_kernel_copy(struct coll_gpu_make *m, void *dst, const void *src, int64_t len)
{
    if (!m->v->kernels || len <= coll_gpu_limits.kernel_max || dst == src) {
        coll_gpu_copy(m, dst, src, len, -1);
        return;
    }
    struct rt_gpu_fold *f = coll_gpu_fold_step(m, -1);
    if (!f)
        return;
    f->nsrc = f->ndst = 1;
    f->src[0] = src;
    f->dst[0] = dst;
    coll_gpu_as_copy(f, len);
}

void coll_gpu_fan_out(struct coll_gpu_make *m, const void *src, int64_t len, char *const *dst,
                      int ndst, int64_t most)
{
    bool fold = m->v->kernels && ndst > 1 && len <= most / ndst;
    for (int i = 0; !fold && i < ndst; i++)
        coll_gpu_copy(m, dst[i], src, len, -1);
    for (int i = 0; fold && len > 0 && i < ndst; i += RT_GPU_FOLD_PLACES) {
        struct rt_gpu_fold *f = coll_gpu_fold_step(m, -1);
        if (!f)
            return;
        f->nsrc = 1;
        f->ndst = (uint8_t)(ndst - i < RT_GPU_FOLD_PLACES ? ndst - i : RT_GPU_FOLD_PLACES);
        f->src[0] = src;
        for (int j = 0; j < f->ndst; j++)
            f->dst[j] = dst[i + j];
        coll_gpu_as_copy(f, len);
    }
}

int64_t coll_gpu_cut(int64_t len, int parts, int i)
{
    if (i >= parts)
        return len;
    int64_t lines = (len + COLL_GPU_LINE - 1) / COLL_GPU_LINE;
    return (lines / parts * i + lines % parts * i / parts) * COLL_GPU_LINE;
}

/* ---- the plan ---- */

static void find_workers(struct coll_gpu_make *m)
{
    m->nth = -1;
    for (int i = 0; i < m->size; i++) {
        if (m->v->worker && m->v->worker[i] != i)
            continue;
        if (i == m->rank)
            m->nth = m->nworkers;
        m->nworkers++;
    }
}

static void plan_nothing(struct coll_gpu_make *m) { (void)m; }

static void (*const planners[COLL_KINDS])(struct coll_gpu_make *m) = {
    [COLL_BARRIER] = plan_nothing,
    [COLL_BCAST] = coll_gpu_plan_bcast,
    [COLL_REDUCE] = coll_gpu_plan_reduce,
    [COLL_ALLREDUCE] = coll_gpu_plan_allreduce,
    [COLL_GATHER] = coll_gpu_plan_gather,
    [COLL_GATHERV] = coll_gpu_plan_gather,
    [COLL_SCATTER] = coll_gpu_plan_scatter,
    [COLL_SCATTERV] = coll_gpu_plan_scatter,
    [COLL_ALLGATHER] = coll_gpu_plan_allgather,
    [COLL_ALLGATHERV] = coll_gpu_plan_allgather,
    [COLL_ALLTOALL] = coll_gpu_plan_alltoall,
    [COLL_ALLTOALLV] = coll_gpu_plan_alltoall,
    [COLL_ALLTOALLW] = coll_gpu_plan_alltoall,
    [COLL_REDUCE_SCATTER] = coll_gpu_plan_reduce_scatter,
    [COLL_REDUCE_SCATTER_BLOCK] = coll_gpu_plan_reduce_scatter,
    [COLL_SCAN] = coll_gpu_plan_scan,
    [COLL_EXSCAN] = coll_gpu_plan_scan,
};

int coll_gpu_make_plan(const struct coll_gpu_view *v, struct coll_gpu_plan *out)
{
    struct coll_gpu_make m = {
        .v = v, .out = out, .rank = v->rank, .size = v->size, .chain_busy = -1
    };
    out->n = 0;
    for (int i = 0; i < v->size; i++) {
        if (v->word[i] >> 1 != v->word[0] >> 1)
            return -RT_ETRUNC;
        m.any_overwritten = m.any_overwritten || coll_gpu_overwritten(&m, i);
    }
    if (!planners[v->a->kind])
        return -RT_ENOTSUP;
    if (coll_is(v->a->kind, COLL_IS_REDUCTION) && !coll_gpu_arith(v->a, &m.type, &m.code, &m.elem))
        return -RT_ENOTSUP;
    m.in_place = coll_args_in_place(v->a, v->rank);
    find_workers(&m);
    if (coll_is(v->a->kind, COLL_IS_REDUCTION) && v->size > RT_GPU_FOLD_PLACES)
        m.chain = coll_gpu_scratch_at(&m,
                                      coll_gpu_chain_at(coll_gpu_scratch(v->a, v->rank, v->size)));
    planners[v->a->kind](&m);
    if (m.err)
        out->n = 0;
    return m.err;
}

void coll_gpu_free_plan(struct coll_gpu_plan *p)
{
    free(p->step);
    *p = (struct coll_gpu_plan){ 0 };
}
