/* SPDX-License-Identifier: BSD-3-Clause */
/* Carries out a call on which all ranks have voted yes: each rank maps the others' ranges, makes
 * the plan of its device, and carries it out.  The host only starts steps and passes the barriers
 * on; no device waits for another.
 *
 * A rank that cannot proceed (a range that cannot be mapped, out of memory) has written nothing yet
 * and publishes DECLINED; then all ranks go through host memory together.  That needs the input of
 * all ranks intact.  If some rank's input is overwritten (in place), all wait until all are READY
 * before any begins; otherwise the second attempt may overwrite results.  After that point a
 * failure of a device is an error of the call on all ranks.  The call is over when all have
 * published END: then no device uses another rank's memory. */
#include "coll/gpu/gate.h"

#include <stdlib.h>
#include <string.h>
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/gpu/kernel.h"

struct coll_gpu_op {
    struct rt_gpu_op op;
    struct coll_gpu_call *call;
    bool started, ended;
};

static const struct coll_gpu_engine device = {
    rt_gpu_has_kernels, rt_gpu_can_fold,   rt_gpu_fold,        rt_gpu_copy,
    rt_gpu_copy_behind, rt_gpu_stage_take, rt_gpu_stage_give,  rt_gpu_query,
    rt_gpu_copy_near,   rt_gpu_lies_on,    rt_gpu_links_direct
};
const struct coll_gpu_engine *coll_gpu_engine = &device;

/* ---- the plan ---- */

static int make_ops(struct coll_gpu_call *c)
{
    free(c->run.op);
    c->run.op = calloc((size_t)c->run.plan.n, sizeof *c->run.op);
    c->run.nops = c->run.op ? c->run.plan.n : 0;
    for (int i = 0; i < c->run.nops; i++)
        c->run.op[i].call = c;
    return c->run.op ? 0 : -RT_ENOMEM;
}

/* The memory of this rank that p points into; NULL: another rank's memory, or scratch. */
static const struct rt_gpu_ptr *own_memory(const struct coll_gpu_call *c, const char *p)
{
    for (int w = 0; w < COLL_GPU_RANGES; w++)
        if (c->ranges.own.at[w] && p >= c->ranges.own.at[w] &&
            p < c->ranges.own.at[w] + c->ranges.own.len[w])
            return &c->ranges.mem[w].at;
    return NULL;
}

/* The last buffer has the remaining length. */
static bool in_scratch(const struct coll_gpu_call *c, const char *p)
{
    size_t left = c->ranges.own.scratch;
    for (int i = 0; i < c->maps.nscratch; i++) {
        size_t n = left < COLL_GPU_SCRATCH_UNIT ? left : COLL_GPU_SCRATCH_UNIT;
        if (p >= c->maps.scratch_at[i] && p < c->maps.scratch_at[i] + n)
            return true;
        left -= n;
    }
    return false;
}

static bool lies_here(const struct coll_gpu_call *c, const char *p)
{
    const struct rt_gpu_ptr *m = own_memory(c, p);
    return m ? coll_gpu_engine->lies_on(c->ranges.near->g, m) : in_scratch(c, p);
}

/* Marks the steps that store only into their own device's memory, because kernels end such steps
 * sooner.  A marked copy must not read managed memory; other ranks' memory is never managed. */
static void mark_near(struct coll_gpu_call *c)
{
    for (int i = 0; i < c->run.plan.n; i++) {
        struct coll_gpu_step *s = &c->run.plan.step[i];
        if (s->verb == COLL_GPU_COPY) {
            const struct rt_gpu_ptr *from = own_memory(c, s->copy.src);
            s->copy.near = lies_here(c, s->copy.dst) && (!from || from->kind != RT_MEM_MANAGED);
        } else if (s->verb == COLL_GPU_FOLD) {
            s->fold.near = true;
            for (unsigned d = 0; d < s->fold.ndst; d++)
                s->fold.near &= lies_here(c, s->fold.dst[d]);
        }
    }
}

/* The plan of the last call is used again if nothing has changed. */
static int make_plan(struct coll_gpu_call *c)
{
    if (c->run.planned)
        return 0;
    struct coll_gpu_view v = coll_gpu_ranges_view(&c->ranges, &c->task->args);
    v.scratch = c->maps.scratch_at;
    v.kernels = coll_gpu_has_kernels(c);
    v.background = c->task->background;
    int err = coll_gpu_make_plan(&v, &c->run.plan);
    if (err >= 0 && c->run.plan.n > c->run.nops)
        err = make_ops(c);
    if (err >= 0 && c->ranges.near)
        mark_near(c);
    c->run.planned = err >= 0 && !c->maps.nscratch; /* scratch may have another address next time */
    return err;
}

static bool is_work(const struct coll_gpu_step *s)
{
    return s->verb == COLL_GPU_FOLD || s->verb == COLL_GPU_COPY;
}

static void push(struct coll_gpu_call *c);

static void step_ended(struct rt_gpu_op *op, int err)
{
    struct coll_gpu_op *o = (struct coll_gpu_op *)op;
    struct coll_gpu_call *c = o->call;
    o->ended = true;
    c->run.running--;
    if (err < 0) {
        c->on.flags |= COLL_BOARD_FAILED;
        c->on.err = err;
    }
    push(c);
}

static void set_started(struct coll_gpu_call *c, int i)
{
    struct coll_gpu_op *o = &c->run.op[i];
    o->started = true;
    o->op.done = step_ended;
    c->run.running++;
}

/* Gives a copy that must follow another copy to its engine at once. */
static bool start_behind(struct coll_gpu_call *c, int i, int after)
{
    const struct coll_gpu_step *s = &c->run.plan.step[i];
    if (s->verb != COLL_GPU_COPY || c->run.plan.step[after].verb != COLL_GPU_COPY ||
        !c->run.op[after].started || !coll_gpu_engine->copy_behind ||
        !coll_gpu_engine->copy_behind(c->ranges.near->g, s->copy.dst, s->copy.src, s->copy.len,
                                      &c->run.op[i].op, &c->run.op[after].op))
        return false;
    set_started(c, i);
    return true;
}

static void start_step(struct coll_gpu_call *c, int i)
{
    const struct coll_gpu_step *s = &c->run.plan.step[i];
    struct coll_gpu_op *o = &c->run.op[i];
    set_started(c, i);
    if (s->verb == COLL_GPU_FOLD)
        coll_gpu_engine->fold(c->ranges.near->g, &s->fold, &o->op);
    else
        (s->copy.near ? coll_gpu_engine->copy_near : coll_gpu_engine->copy)(
            c->ranges.near->g, s->copy.dst, s->copy.src, s->copy.len, &o->op);
}

/* Starts all steps before the next wait, except those whose `after` has not ended. */
static void start_steps(struct coll_gpu_call *c)
{
    bool all = true; /* all steps so far have been started */
    for (int i = c->run.started; i < c->run.wait; i++) {
        int after = c->run.plan.step[i].after;
        if (is_work(&c->run.plan.step[i]) && !c->run.op[i].started) {
            if (after < 0 || c->run.op[after].ended)
                start_step(c, i);
            else if (!start_behind(c, i, after))
                all = false;
        }
        if (all)
            c->run.started = i + 1;
    }
}

/* The next POST or BARRIER to be published. */
static int next_post(const struct coll_gpu_call *c)
{
    int i = c->run.posted + 1;
    while (i < c->run.plan.n && c->run.plan.step[i].verb != COLL_GPU_POST &&
           c->run.plan.step[i].verb != COLL_GPU_BARRIER)
        i++;
    return i;
}

static bool may_say(const struct coll_gpu_call *c, int i)
{
    int after = c->run.plan.step[i].after;
    return after >= 0 ? c->run.op[after].ended : c->run.lead >= i;
}

/* Passes over ended steps in order, up to a barrier that has not been passed, and publishes the
 * posts that are due. */
static void fire_posts(struct coll_gpu_call *c)
{
    for (; c->run.lead < c->run.plan.n; c->run.lead++) {
        const struct coll_gpu_step *s = &c->run.plan.step[c->run.lead];
        if (is_work(s) ? !c->run.op[c->run.lead].ended
                       : s->verb == COLL_GPU_BARRIER && c->run.lead >= c->run.wait)
            break;
    }
    for (int i; (i = next_post(c)) < c->run.plan.n && may_say(c, i);) {
        c->run.posted = i;
        coll_board_publish(&c->on, c->on.phase + 1);
    }
}

static void push(struct coll_gpu_call *c)
{
    if (c->on.flags & COLL_BOARD_FAILED || c->on.seen)
        return;
    start_steps(c);
    fire_posts(c);
}

/* The next step from i on that waits for others. */
static int next_wait(const struct coll_gpu_call *c, int i)
{
    for (; i < c->run.plan.n; i++)
        if (c->run.plan.step[i].verb == COLL_GPU_BARRIER ||
            c->run.plan.step[i].verb == COLL_GPU_AWAIT)
            break;
    return i;
}

/* The phase that all ranks must reach before the waiting step is passed. */
static uint32_t wanted(const struct coll_gpu_call *c)
{
    int posts = 0;
    if (c->run.plan.step[c->run.wait].verb == COLL_GPU_AWAIT)
        return COLL_BOARD_READY + (uint32_t)c->run.plan.step[c->run.wait].posts;
    for (int i = 0; i <= c->run.wait; i++)
        posts += c->run.plan.step[i].verb == COLL_GPU_BARRIER ||
                 c->run.plan.step[i].verb == COLL_GPU_POST;
    return COLL_BOARD_READY + (uint32_t)posts;
}

/* ---- phases ---- */

/* Nanoseconds that a rank waits before it raises the error, because the report of WEFT_CHECK, which
 * ends the job, says more. */
#define CHECK_TAKES 2000000000u

/* The rank whose device failed has logged the reason. */
static int fail(struct coll_gpu_call *c)
{
    int err = c->on.seen & COLL_BOARD_MISMATCH ? -RT_EMISMATCH
              : c->on.err < 0                  ? c->on.err
                                               : -RT_EREMOTE;
    if (err == -RT_EMISMATCH && cfg.check) {
        c->run.failed_at = c->run.failed_at ? c->run.failed_at : rt_now_ns();
        if (rt_now_ns() - c->run.failed_at < CHECK_TAKES)
            return 0;
    }
    return coll_gpu_over(c, err);
}

static int copied_out(struct coll_gpu_call *c)
{
    return c->maps.staging.running ? 0 : coll_gpu_over(c, c->maps.staging.err);
}

static int at_end(struct coll_gpu_call *c)
{
    if (!coll_board_all_at(&c->on, COLL_BOARD_END))
        return 0;
    if (!(c->on.seen & (COLL_BOARD_FAILED | COLL_BOARD_DECLINED))) {
        coll_gpu_staging_out(c);
        c->go = copied_out;
        return copied_out(c);
    }
    if (c->on.seen & COLL_BOARD_FAILED)
        return fail(c);
    c->task->messages = true; /* the others may have begun later calls */
    return coll_gpu_stage(c);
}

int coll_gpu_end(struct coll_gpu_call *c)
{
    c->go = at_end;
    coll_board_publish(&c->on, COLL_BOARD_END);
    return at_end(c);
}

/* Until all steps have ended and all waits have been passed. */
static int in_plan(struct coll_gpu_call *c)
{
    while (c->run.wait < c->run.plan.n && !(c->on.flags & COLL_BOARD_FAILED)) {
        bool there = coll_board_all_at(&c->on, wanted(c));
        if (c->on.seen)
            break; /* after a failure or the end of a rank the others' posts may never come */
        if (!there)
            return 0;
        c->run.wait = next_wait(c, c->run.wait + 1);
        push(c);
    }
    if (c->run.running ||
        (c->run.lead < c->run.plan.n && !(c->on.flags & COLL_BOARD_FAILED) && !c->on.seen))
        return 0;
    coll_gpu_turn_end(c);
    return coll_gpu_end(c);
}

int coll_gpu_get_ready(struct coll_gpu_call *c, bool *in_place)
{
    int err = coll_gpu_map(c);
    *in_place = c->ranges.in_place;
    if (err >= 0)
        err = make_plan(c);
    if (err >= 0)
        return 0;
    log_debug(COLL, "%s: not from device to device: %s", coll_kind_names[c->task->args.kind],
              rt_err_text(err));
    bool declined = err == -RT_ENOTSUP || err == -RT_EUNREACH || err == -RT_ENOMEM;
    c->on.flags |= declined ? COLL_BOARD_DECLINED : COLL_BOARD_FAILED;
    c->on.flags |= err == -RT_ETRUNC ? COLL_BOARD_MISMATCH : 0;
    c->on.err = declined ? 0 : err;
    return err;
}

int coll_gpu_carry_out(struct coll_gpu_call *c)
{
    c->on.phase = COLL_BOARD_READY;
    c->run.started = c->run.lead = c->run.running = 0;
    c->run.posted = -1;
    for (int i = 0; i < c->run.plan.n; i++)
        c->run.op[i].started = c->run.op[i].ended = false;
    c->run.wait = next_wait(c, 0);
    c->go = in_plan;
    coll_gpu_turn_begin(c);
    push(c);
    return in_plan(c);
}

static int all_ready(struct coll_gpu_call *c)
{
    if (!coll_board_all_at(&c->on, COLL_BOARD_READY))
        return 0;
    return c->on.seen ? coll_gpu_end(c) : coll_gpu_carry_out(c);
}

static int be_ready(struct coll_gpu_call *c)
{
    if (c->maps.staging.running)
        return 0;
    if (c->maps.staging.err < 0) {
        c->on.flags |= COLL_BOARD_FAILED;
        c->on.err = c->maps.staging.err;
        return coll_gpu_end(c);
    }
    c->go = all_ready;
    coll_board_publish(&c->on, COLL_BOARD_READY);
    coll_gpu_wait_a_moment(c, COLL_BOARD_READY);
    return all_ready(c);
}

int coll_gpu_run(struct coll_gpu_call *c)
{
    bool in_place;
    if (rt_unlikely(c->task->lost)) { /* an earlier part of the schedule has failed */
        c->on.flags |= COLL_BOARD_FAILED;
        c->on.err = c->task->lost;
        return coll_gpu_end(c);
    }
    if (coll_gpu_get_ready(c, &in_place) < 0)
        return coll_gpu_end(c);
    if (!in_place)
        return coll_gpu_carry_out(c);
    coll_gpu_staging_in(c);
    c->go = be_ready;
    return be_ready(c);
}
