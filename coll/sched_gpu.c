/* SPDX-License-Identifier: BSD-3-Clause */
/* Schedules on device memory.  Algorithms and messages are those for host memory, but temporaries
 * are in device memory, the device does the copies and reductions, and no host thread blocks.  Each
 * rank decides on its own whether it uses such a schedule, because messages match whatever the
 * memory at the two ends is; with calls, the ranks that make these calls decide together.
 *
 * Local steps of a round are ordered, because some read what earlier steps write.  A step that has
 * no conflict with the steps in progress starts at once, so the blocks of a gather are copied
 * concurrently; other steps wait.
 *
 * After a device failure this rank's results are poisoned (coll_task.lost), and the schedule
 * continues without the device: it runs no local step, and messages do not access device memory.
 * Under the domain's lock. */

#include "coll/sched_gpu.h"
#include <stdlib.h>
#include "coll/sched.h"
#include "coll/select.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/layout/pack_gpu.h"

struct gpu_tmp {
    struct gpu_tmp *next;
    struct rt_gpu_stage *stage; /* owned */
};

struct gpu_op {
    struct rt_gpu_op op;
    struct coll_sched *s;
};

void *coll_sched_gpu_tmp(struct coll_sched *s, int64_t nbytes)
{
    struct gpu_tmp *t = calloc(1, sizeof *t);
    int err = t ? rt_gpu_stage_take(s->gpu, false, (size_t)nbytes, &t->stage) : -RT_ENOMEM;
    if (err < 0) {
        s->err = err;
        free(t);
        return NULL;
    }
    t->next = s->gpu_tmps;
    s->gpu_tmps = t;
    return t->stage->p;
}

void coll_sched_gpu_free(struct coll_sched *s)
{
    while (s->gpu_tmps) {
        struct gpu_tmp *t = s->gpu_tmps;
        s->gpu_tmps = t->next;
        rt_gpu_stage_give(t->stage);
        free(t);
    }
    free(s->ops);
}

int coll_sched_gpu_ready(struct coll_sched *s)
{
    const struct coll_args *a = &s->task->args;
    int err = a->op ? rt_reduce_gpu(s->gpu, a->op, a->rtype->elem, &s->reduce) : 0;
    if (err < 0)
        return err;
    s->ops = calloc((size_t)s->nsteps + 1, sizeof *s->ops);
    return s->ops ? 0 : -RT_ENOMEM;
}

static void op_done(struct rt_gpu_op *op, int err)
{
    struct coll_sched *s = rt_container(op, struct gpu_op, op)->s;
    s->nops--;
    if (err < 0)
        s->gpu_err = err;
}

/* ---- which steps may run concurrently ---- */

static bool overlap(const void *a, int64_t an, const struct rt_layout *al, const void *b,
                    int64_t bn, const struct rt_layout *bl)
{
    int64_t alow, blow, alen = coll_span(an, al, &alow), blen = coll_span(bn, bl, &blow);
    uintptr_t pa = (uintptr_t)a + (uintptr_t)alow, pb = (uintptr_t)b + (uintptr_t)blow;
    return pa < pb + (uintptr_t)blen && pb < pa + (uintptr_t)alen;
}

/* Whether `st` accesses what `old` writes, or writes what `old` reads. */
static bool conflict(const struct step *old, const struct step *st)
{
    return overlap(old->dst, old->dst_n, old->dst_l, st->src, st->src_n, st->src_l) ||
           overlap(old->dst, old->dst_n, old->dst_l, st->dst, st->dst_n, st->dst_l) ||
           overlap(old->src, old->src_n, old->src_l, st->dst, st->dst_n, st->dst_l);
}

static bool must_wait(const struct coll_sched *s, const struct step *st)
{
    for (int i = s->first; s->nops && i < s->next; i++) {
        const struct step *old = &s->steps[i];
        if ((old->kind == STEP_COPY || old->kind == STEP_REDUCE) && conflict(old, st))
            return true;
    }
    return false;
}

/* ---- running the steps ---- */

static void start_copy(struct coll_sched *s, const struct step *st, struct rt_gpu_op *op)
{
    int64_t nbytes = st->src_n * st->src_l->size;
    if (st->src_l->contig && st->dst_l->contig)
        rt_gpu_copy(s->gpu, st->dst, st->src, (size_t)nbytes, op);
    else if (st->dst_l->contig)
        rt_layout_gpu_pack(s->gpu, st->src_l, st->src_n, st->src, 0, st->dst, nbytes, op);
    else
        rt_layout_gpu_unpack(s->gpu, st->dst_l, st->dst_n, st->dst, 0, st->src, nbytes, op);
}

static void start_local(struct coll_sched *s, const struct step *st)
{
    struct gpu_op *o = &s->ops[st - s->steps];
    o->s = s;
    o->op.done = op_done;
    s->nops++;
    if (st->kind == STEP_COPY)
        start_copy(s, st, &o->op);
    else
        rt_reduce_gpu_apply(s->gpu, s->reduce, st->src, st->dst, st->dst_n, st->dst_l, &o->op);
}

static bool is_local(const struct step *st)
{
    if (st->kind == STEP_COPY)
        return !coll_sched_in_place(st->src, st->src_l, st->dst, st->dst_l);
    return st->kind == STEP_REDUCE;
}

/* Skips the rest of the round: its results are poisoned. */
static int leave_round(struct coll_sched *s)
{
    if (s->nops)
        return 0;
    while (s->steps[s->next].kind != STEP_ROUND)
        s->next++;
    coll_sched_next_round(s, &s->steps[s->next]);
    return 1;
}

int coll_sched_gpu_locals(struct coll_sched *s)
{
    if (s->next < s->at)
        s->first = s->next = s->at;
    if (s->nops)
        rt_gpu_progress();
    for (;;) {
        const struct step *st = &s->steps[s->next];
        if (rt_unlikely(s->gpu_err < 0))
            coll_task_lose(s->task, s->gpu_err);
        if (rt_unlikely(s->task->lost))
            return leave_round(s);
        if (s->nops == 0)
            s->first = s->next;
        if (st->kind == STEP_ROUND) {
            if (s->nops)
                return 0;
            coll_sched_next_round(s, st);
            return 1;
        }
        if (is_local(st)) {
            if (must_wait(s, st))
                return 0;
            start_local(s, st);
        }
        s->next++;
    }
}

int coll_begin_device(struct coll_task *k, struct rt_gpu *g)
{
    const char *why;
    struct coll_args host = k->args; /* all ranks must choose alike, whatever memory they pass */
    host.mem = RT_MEM_HOST;
    k->alg = coll_choose(k->team, &host, false, &why);
    k->step = NULL;
    k->cleanup = NULL;
    k->state = NULL;
    k->gpu = g;
    int err = k->alg->start(k->team, &k->args, k);
    k->gpu = NULL;
    if (err >= 0)
        log_trace(COLL, "call %u: %s by %s (%s), on the device", k->seq,
                  coll_kind_names[k->args.kind], k->alg->name, why);
    return err;
}
