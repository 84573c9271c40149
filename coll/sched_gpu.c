/* SPDX-License-Identifier: BSD-3-Clause */
/* Schedules whose data are device memory: the same algorithms and messages as for host memory, but
 * temporaries are in the device's memory, and copies and reductions are carried out by it, while
 * the schedule waits for nothing.  Whether a rank does it this way is its own affair, or with calls
 * that of the ranks which make them together: messages match whatever memory the two ends have.
 *
 * Local steps of a round have an order, because some read what others before them have written.
 * Those that touch nothing of what is under way start at once, so the blocks of a gather are copied
 * together; the others wait.
 *
 * After a failure of the device what this rank makes is void (coll_task.lost), and the rest of the
 * schedule does without the device: no local step is made, and messages neither read nor write its
 * memory.  Under the domain's lock. */
#include "coll/sched_int.h"

#include <stdlib.h>
#include "coll/start.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/layout/gpu.h"

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

/* ---- which steps may be under way together ---- */

static bool overlap(const void *a, int64_t an, const struct rt_layout *al, const void *b,
                    int64_t bn, const struct rt_layout *bl)
{
    int64_t alow, blow, alen = coll_span(an, al, &alow), blen = coll_span(bn, bl, &blow);
    uintptr_t pa = (uintptr_t)a + (uintptr_t)alow, pb = (uintptr_t)b + (uintptr_t)blow;
    return pa < pb + (uintptr_t)blen && pb < pa + (uintptr_t)alen;
}

/* Whether `st` touches what `old` writes, or writes what `old` reads. */
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

/* ---- carrying them out ---- */

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

/* Goes on without the rest of the round: what its steps make is void. */
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
    struct coll_args host = k->args; /* the choice must not depend on this rank's memory */
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
