/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory that other ranks cannot map (pools that cannot be exported, managed memory), in
 * calls long enough: staging memory of the same device, which they can map, takes its place in the
 * descriptor, so the call has the plan that it has with other memory.  The rank copies its input
 * into the staging memory when all ranks have voted yes, and the result out of it when all have
 * ended: two copies within the device, where a message between such buffers has one copy for each
 * piece on either side.  Which ranks do so does not matter to the others, except that all wait
 * until all are READY.
 *
 * A range is copied as a whole, so the call must define every byte of it: one count for all blocks,
 * and types without gaps.  In place, a range is copied in before it is copied out.  Under the
 * domain's lock. */
#include "coll/gpu/gate.h"
#include "runtime/base/err.h"

/* Of a range; longer ones go by messages.  Idle staging memory is kept up to this length, so a
 * repeated call makes none anew (runtime/gpu/stage.c). */
#define STAGING_MAX (256u << 20)

/* Between two ranks, moving data one way is one message.  Measured, one H200: a broadcast of 1, 16,
 * 64 MiB takes 167, 336, 412 us with staging memory, a message 112, 179, 224. */
static bool is_a_message(const struct coll_team *t, const struct coll_args *a)
{
    return t->size == 2 && coll_is(a->kind, COLL_IS_ROOTED) && !coll_is(a->kind, COLL_IS_REDUCTION);
}

static bool is_dense(const struct coll_args *a)
{
    return !a->scounts && !a->rcounts && (!a->stype || a->stype->contig) &&
           (!a->rtype || a->rtype->contig);
}

/* In place, the input may lie within the result: then one buffer stands for both. */
int coll_gpu_staging_take(struct coll_gpu_call *c, enum coll_gpu_range w)
{
    struct coll_gpu_own *own = &c->ranges.own;
    struct coll_gpu_staging *s = &c->maps.staging;
    struct coll_gpu_staged *p = &s->part[w];
    const char *from = own->at[w], *to = from + own->len[w];
    const char *at = own->at[COLL_GPU_RECV], *end = at + own->len[COLL_GPU_RECV];
    bool both = w == COLL_GPU_SEND && at && at < to && from < end;
    if (both) {
        from = at < from ? at : from;
        to = end > to ? end : to;
    }
    if (is_a_message(c->ranges.team, &c->task->args) || !is_dense(&c->task->args) ||
        (size_t)(to - from) > STAGING_MAX)
        return -RT_ENOTSUP;
    int err = coll_gpu_engine->take(c->ranges.mem[w].at.g, false, (size_t)(to - from), &p->mem);
    if (err < 0)
        return err;
    p->user = (char *)(uintptr_t)from;
    p->len = (size_t)(to - from);
    p->is_input = w == COLL_GPU_SEND || coll_args_in_place(&c->task->args, c->ranges.team->rank);
    if (w == COLL_GPU_RECV || both) {
        s->result = (char *)(uintptr_t)at;
        own->at[COLL_GPU_RECV] = p->mem->p + (at - from);
    }
    if (w == COLL_GPU_SEND)
        own->at[COLL_GPU_SEND] = p->mem->p + (own->at[COLL_GPU_SEND] - from);
    c->ranges.mem[w].at.g = NULL;
    coll_gpu_post_of(&c->ranges, c->ranges.team->rank)->staged = 1;
    return 0;
}

bool coll_gpu_is_staged(const struct coll_gpu_call *c)
{
    return c->maps.staging.part[COLL_GPU_SEND].mem || c->maps.staging.part[COLL_GPU_RECV].mem;
}

static void copied(struct rt_gpu_op *op, int err)
{
    struct coll_gpu_staging *s = ((struct coll_gpu_staged *)op)->all;
    s->running--;
    s->err = err < 0 ? err : s->err;
}

static void copy(struct coll_gpu_staging *s, struct coll_gpu_staged *p, void *dst, const void *src,
                 size_t len)
{
    p->op = (struct rt_gpu_op){ .done = copied };
    p->all = s;
    s->running++;
    coll_gpu_engine->copy(p->mem->g, dst, src, len, &p->op);
}

void coll_gpu_staging_in(struct coll_gpu_call *c)
{
    struct coll_gpu_staging *s = &c->maps.staging;
    for (int w = 0; w < COLL_GPU_RANGES; w++)
        if (s->part[w].mem && s->part[w].is_input)
            copy(s, &s->part[w], s->part[w].mem->p, s->part[w].user, s->part[w].len);
}

void coll_gpu_staging_out(struct coll_gpu_call *c)
{
    struct coll_gpu_staging *s = &c->maps.staging;
    const struct coll_gpu_own *own = &c->ranges.own;
    int w = s->part[COLL_GPU_RECV].mem ? COLL_GPU_RECV : COLL_GPU_SEND;
    if (s->result)
        copy(s, &s->part[w], s->result, own->at[COLL_GPU_RECV], own->len[COLL_GPU_RECV]);
}

void coll_gpu_staging_give(struct coll_gpu_call *c)
{
    for (int w = 0; w < COLL_GPU_RANGES; w++)
        if (c->maps.staging.part[w].mem)
            coll_gpu_engine->give(c->maps.staging.part[w].mem);
    c->maps.staging = (struct coll_gpu_staging){ .result = NULL };
}
