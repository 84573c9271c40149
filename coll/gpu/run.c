/* SPDX-License-Identifier: BSD-3-Clause */
/* Carries out a call that all ranks have agreed on at the gate: each maps the others' ranges, makes
 * the plan of what its device does, and does it.  The host only starts steps and passes barriers
 * on; no device waits for another.
 *
 * A rank that finds that it cannot (a range that cannot be mapped, no memory) has done nothing yet
 * and says DECLINED; then all go through host memory together.  That needs everybody's input
 * intact.  Where a rank's input is overwritten (in place) all wait for all to be READY before any
 * begins; elsewhere results may be overwritten by the second attempt.  Behind that, a failure of a
 * device is an error of the call on all ranks.  The call is over when all have said END: then no
 * device uses another rank's memory. */
#include "coll/gpu/gpu.h"

#include <stdlib.h>
#include <string.h>
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/gpu/kernel.h"

/* The driver maps an allocation for other processes in pages of 2 MiB when its length is a multiple
 * of that, else in small ones, into which two ranks' engines at once put 295 instead of 385 GB/s
 * each (H200, driver 580; one rank alone, engines' reads and kernels do not notice). */
#define LARGE_PAGE (2u << 20)

struct coll_gpu_op {
    struct rt_gpu_op op;
    struct coll_gpu_call *call;
    bool started, ended;
};

static const struct coll_gpu_engine device = { rt_gpu_has_kernels, rt_gpu_can_fold,
                                               rt_gpu_fold,        rt_gpu_copy,
                                               rt_gpu_copy_behind, rt_gpu_stage_take,
                                               rt_gpu_stage_give,  rt_gpu_query };
const struct coll_gpu_engine *coll_gpu_engine = &device;

/* ---- this rank's buffers ---- */

static void release_own(struct coll_gpu_call *c)
{
    struct coll_team *t = c->gate->team;
    for (int w = 0; w < COLL_GPU_RANGES; w++)
        if (c->mem[w].reg) {
            t->ops->dev_release(t, &c->mem[w]);
            c->mem[w].reg = NULL;
        }
    while (c->nscratch)
        coll_gpu_engine->give(c->scratch[--c->nscratch]);
    c->near = NULL;
}

/* Whether its device does more than copies. */
static bool has_kernels(const struct coll_gpu_call *c)
{
    struct rt_gpu *g = c->near ? c->near->g : NULL;
    return g && coll_gpu_engine->kernels(g) &&
           coll_gpu_engine->can_fold(g, RT_GPU_U8, RT_GPU_FOLD_COPY) &&
           coll_gpu_engine->can_fold(g, RT_GPU_U8, RT_GPU_FOLD_SWAP);
}

static int take_scratch(struct coll_gpu_call *c)
{
    size_t left = c->own.swaps && has_kernels(c) ? 0 : c->own.scratch;
    for (size_t n; left; left -= n) {
        n = left < COLL_GPU_SCRATCH_UNIT ? left : COLL_GPU_SCRATCH_UNIT;
        if (c->nscratch == COLL_GPU_UNITS)
            return -RT_ENOTSUP;
        int err = coll_gpu_engine->take(c->near->g, false, n, &c->scratch[c->nscratch]);
        if (err < 0)
            return err;
        c->scratch_at[c->nscratch] = c->scratch[c->nscratch]->p;
        c->nscratch++;
    }
    return 0;
}

/* The device of the receive buffer does the work, where a rank has one. */
static int describe(struct coll_gpu_call *c, struct coll_gpu_post *post)
{
    struct coll_team *t = c->gate->team;
    int err = coll_gpu_own(t, &c->task->args, &c->own, post->offsets);
    post->has = post->pages = 0;
    post->publishes = c->own.publishes;
    post->word = c->own.word;
    for (int w = 0; w < COLL_GPU_RANGES && err >= 0; w++) {
        if (!c->own.at[w])
            continue;
        err = t->ops->dev_describe(t, c->own.at[w], c->own.len[w], &c->mem[w]);
        if (err < 0)
            break;
        memcpy(post->key[w], c->mem[w].key, COLL_DEV_KEY);
        post->len[w] = c->own.len[w];
        post->has |= 1u << w;
        post->pages |= (uint32_t)(c->mem[w].at.len % LARGE_PAGE == 0) << w;
        c->near = &c->mem[w].at;
    }
    if (err >= 0 && c->own.folds && c->near &&
        !coll_gpu_engine->can_fold(c->near->g, c->own.type, c->own.code))
        err = -RT_ENOTSUP;
    return err >= 0 && c->near ? take_scratch(c) : err;
}

int coll_gpu_describe(struct coll_gpu_call *c, struct coll_gpu_post *post)
{
    int err = describe(c, post);
    if (err < 0) {
        log_debug(COLL, "%s: device buffers of this rank go through host memory: %s",
                  coll_kind_names[c->task->args.kind], rt_err_text(err));
        release_own(c);
    }
    return err;
}

/* ---- the others' ---- */

static int make_room(struct coll_gpu_call *c)
{
    size_t n = (size_t)c->gate->team->size;
    if (c->offsets)
        return 0;
    for (int w = 0; w < COLL_GPU_RANGES; w++) {
        if (!c->map[w])
            c->map[w] = calloc(n, sizeof *c->map[w]);
        if (!c->at[w])
            c->at[w] = calloc(n, sizeof *c->at[w]);
        if (!c->len[w])
            c->len[w] = calloc(n, sizeof *c->len[w]);
        if (!c->map[w] || !c->at[w] || !c->len[w])
            return -RT_ENOMEM;
    }
    if (!c->word && !(c->word = calloc(n, sizeof *c->word)))
        return -RT_ENOMEM;
    c->offsets = calloc(n, sizeof *c->offsets);
    return c->offsets ? 0 : -RT_ENOMEM;
}

bool coll_gpu_stands(const struct coll_gpu_call *c)
{
    struct rt_gpu_ptr now;
    for (int w = 0; w < COLL_GPU_RANGES; w++) {
        const struct rt_gpu_ptr *at = &c->mem[w].at;
        if (c->mem[w].reg && (coll_gpu_engine->query(c->own.at[w], c->own.len[w], &now) < 0 ||
                              now.id != at->id || now.base != at->base || now.g != at->g))
            return false;
    }
    return true;
}

static void detach_all(struct coll_gpu_call *c)
{
    struct coll_team *t = c->gate->team;
    for (int w = 0; w < COLL_GPU_RANGES && c->map[w]; w++)
        for (int r = 0; r < t->size; r++)
            if (c->map[w][r].att) {
                t->ops->dev_detach(t, &c->map[w][r]);
                c->map[w][r].att = NULL;
            }
}

/* A rank without buffers of its own has no device, and no work: what it would address does not
 * matter, only whether it is there. */
#define SOMEWHERE ((char *)COLL_GPU_RANGES)

static int attach_range(struct coll_gpu_call *c, int w, int rank, const struct coll_gpu_post *post)
{
    struct coll_team *t = c->gate->team;
    c->at[w][rank] = NULL;
    c->len[w][rank] = 0;
    if (!(post->has & 1u << w))
        return 0;
    c->len[w][rank] = post->len[w];
    if (rank == t->rank && c->mem[w].at.g == c->near->g) {
        c->at[w][rank] = (char *)(uintptr_t)c->own.at[w];
        return 0;
    }
    c->at[w][rank] = SOMEWHERE;
    if (!c->near)
        return 0;
    int err = t->ops->dev_attach(t, rank, post->key[w], c->near, &c->map[w][rank]);
    if (err < 0)
        return err;
    c->at[w][rank] = c->map[w][rank].ptr;
    return 0;
}

/* Trying costs a call that is begun twice, so it is done ever more seldom. */
static void note_reach(struct coll_gpu *g, int err)
{
    enum { FAR_FIRST = 8, FAR_MOST = 4096 };
    if (err == -RT_EUNREACH)
        g->far = g->far_last = !g->far_last               ? FAR_FIRST
                               : g->far_last < FAR_MOST / 2 ? 2 * g->far_last
                                                            : FAR_MOST;
    else if (err >= 0)
        g->far_last = 0;
}

static int attach_all(struct coll_gpu_call *c, bool *in_place)
{
    int err = make_room(c);
    *in_place = false;
    c->large_pages = true;
    for (int r = 0; r < c->gate->team->size && err >= 0; r++) {
        const struct coll_gpu_post *post = coll_gpu_post_of(c, r);
        c->word[r] = post->word;
        *in_place |= post->word & COLL_GPU_IN_PLACE;
        c->offsets[r] = post->publishes ? post->offsets : NULL;
        c->large_pages &= !(post->has & ~post->pages & 1u << COLL_GPU_RECV);
        for (int w = 0; w < COLL_GPU_RANGES && err >= 0; w++)
            err = attach_range(c, w, r, post);
    }
    note_reach(c->gate, err);
    return err;
}

/* ---- the plan ---- */

static int make_plan(struct coll_gpu_call *c)
{
    const struct coll_team *t = c->gate->team;
    struct coll_gpu_view v = { .rank = t->rank,
                               .size = t->size,
                               .a = &c->task->args,
                               .at = { c->at[COLL_GPU_SEND], c->at[COLL_GPU_RECV] },
                               .len = { c->len[COLL_GPU_SEND], c->len[COLL_GPU_RECV] },
                               .word = c->word,
                               .offsets = c->offsets,
                               .scratch = c->scratch_at,
                               .kernels = has_kernels(c),
                               .large_pages = c->large_pages,
                               .background = c->task->background };
    int err = coll_gpu_make_plan(&v, &c->plan);
    if (err < 0 || c->plan.n <= c->nops)
        return err;
    free(c->op);
    c->op = calloc((size_t)c->plan.n, sizeof *c->op);
    c->nops = c->op ? c->plan.n : 0;
    for (int i = 0; i < c->nops; i++)
        c->op[i].call = c;
    return c->op ? 0 : -RT_ENOMEM;
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
    c->running--;
    if (err < 0) {
        c->flags |= COLL_GPU_FAILED;
        c->err = err;
    }
    push(c);
}

static void set_started(struct coll_gpu_call *c, int i)
{
    struct coll_gpu_op *o = &c->op[i];
    o->started = true;
    o->op.done = step_ended;
    c->running++;
}

/* A copy that is to come after another one may be given to its engine at once. */
static bool start_behind(struct coll_gpu_call *c, int i, int after)
{
    const struct coll_gpu_step *s = &c->plan.step[i];
    if (s->verb != COLL_GPU_COPY || c->plan.step[after].verb != COLL_GPU_COPY ||
        !c->op[after].started || !coll_gpu_engine->copy_behind ||
        !coll_gpu_engine->copy_behind(c->near->g, s->copy.dst, s->copy.src, s->copy.len,
                                      &c->op[i].op, &c->op[after].op))
        return false;
    set_started(c, i);
    return true;
}

static void start_step(struct coll_gpu_call *c, int i)
{
    const struct coll_gpu_step *s = &c->plan.step[i];
    struct coll_gpu_op *o = &c->op[i];
    set_started(c, i);
    if (s->verb == COLL_GPU_FOLD)
        coll_gpu_engine->fold(c->near->g, &s->fold, &o->op);
    else
        coll_gpu_engine->copy(c->near->g, s->copy.dst, s->copy.src, s->copy.len, &o->op);
}

/* Starts what may run: all before the next wait that has not been passed, but for what comes after
 * a step that has not ended. */
static void start_steps(struct coll_gpu_call *c)
{
    bool all = true; /* so far */
    for (int i = c->started; i < c->wait; i++) {
        int after = c->plan.step[i].after;
        if (is_work(&c->plan.step[i]) && !c->op[i].started) {
            if (after < 0 || c->op[after].ended)
                start_step(c, i);
            else if (!start_behind(c, i, after))
                all = false;
        }
        if (all)
            c->started = i + 1;
    }
}

/* Goes over what has ended, in order, and says so where the plan wants it said; up to a barrier
 * that has not been passed. */
static void fire_posts(struct coll_gpu_call *c)
{
    for (; c->lead < c->plan.n; c->lead++) {
        enum coll_gpu_verb verb = c->plan.step[c->lead].verb;
        if (is_work(&c->plan.step[c->lead])) {
            if (!c->op[c->lead].ended)
                return;
        } else if (verb == COLL_GPU_POST || (verb == COLL_GPU_BARRIER && c->barrier < c->lead)) {
            c->barrier = c->lead;
            coll_gpu_say(c, c->phase + 1);
        }
        if (verb == COLL_GPU_BARRIER && c->lead >= c->wait)
            return;
    }
}

static void push(struct coll_gpu_call *c)
{
    if (c->flags & COLL_GPU_FAILED || c->seen)
        return;
    start_steps(c);
    fire_posts(c);
}

/* The next step that waits for others, from i on. */
static int next_wait(const struct coll_gpu_call *c, int i)
{
    for (; i < c->plan.n; i++)
        if (c->plan.step[i].verb == COLL_GPU_BARRIER || c->plan.step[i].verb == COLL_GPU_AWAIT)
            break;
    return i;
}

/* The phase in which all others must be before what is behind the step that waits. */
static uint32_t wanted(const struct coll_gpu_call *c)
{
    int posts = 0;
    if (c->plan.step[c->wait].verb == COLL_GPU_AWAIT)
        return COLL_GPU_READY + (uint32_t)c->plan.step[c->wait].posts;
    for (int i = 0; i <= c->wait; i++)
        posts += c->plan.step[i].verb == COLL_GPU_BARRIER || c->plan.step[i].verb == COLL_GPU_POST;
    return COLL_GPU_READY + (uint32_t)posts;
}

/* ---- phases ---- */

/* What WEFT_CHECK has to say is more than this rank knows, and on its way. */
#define CHECK_TAKES 2000000000u

/* Whose device it was has said what happened. */
static int fail(struct coll_gpu_call *c)
{
    int err = c->seen & COLL_GPU_MISMATCH ? -RT_EMISMATCH : c->err < 0 ? c->err : -RT_EREMOTE;
    if (err == -RT_EMISMATCH && cfg.check) {
        c->failed_at = c->failed_at ? c->failed_at : rt_now_ns();
        if (rt_now_ns() - c->failed_at < CHECK_TAKES)
            return 0;
    }
    return coll_gpu_over(c, err);
}

static int at_end(struct coll_gpu_call *c)
{
    if (!coll_gpu_all_at(c, COLL_GPU_END))
        return 0;
    if (!(c->seen & (COLL_GPU_FAILED | COLL_GPU_DECLINED)))
        return coll_gpu_over(c, 0);
    if (c->seen & COLL_GPU_FAILED)
        return fail(c);
    c->task->messages = true; /* later calls may have begun */
    return coll_gpu_stage(c);
}

int coll_gpu_end(struct coll_gpu_call *c)
{
    c->go = at_end;
    coll_gpu_say(c, COLL_GPU_END);
    return at_end(c);
}

/* Until all steps have ended and all waits have been passed. */
static int in_plan(struct coll_gpu_call *c)
{
    while (c->wait < c->plan.n && !(c->flags & COLL_GPU_FAILED)) {
        bool there = coll_gpu_all_at(c, wanted(c));
        if (c->seen)
            break; /* of one that has ended: the others may wait for posts that will not come */
        if (!there)
            return 0;
        c->wait = next_wait(c, c->wait + 1);
        push(c);
    }
    if (c->running || (c->lead < c->plan.n && !(c->flags & COLL_GPU_FAILED) && !c->seen))
        return 0;
    return coll_gpu_end(c);
}

int coll_gpu_get_ready(struct coll_gpu_call *c, bool *in_place)
{
    int err = attach_all(c, in_place);
    if (err >= 0)
        err = make_plan(c);
    if (err >= 0)
        return 0;
    log_debug(COLL, "%s: not from device to device: %s", coll_kind_names[c->task->args.kind],
              rt_err_text(err));
    bool declined = err == -RT_ENOTSUP || err == -RT_EUNREACH || err == -RT_ENOMEM;
    c->flags |= declined ? COLL_GPU_DECLINED : COLL_GPU_FAILED;
    c->flags |= err == -RT_ETRUNC ? COLL_GPU_MISMATCH : 0;
    c->err = declined ? 0 : err;
    return err;
}

int coll_gpu_carry_out(struct coll_gpu_call *c)
{
    c->phase = COLL_GPU_READY;
    c->started = c->lead = c->running = 0;
    c->barrier = -1;
    for (int i = 0; i < c->plan.n; i++)
        c->op[i].started = c->op[i].ended = false;
    c->wait = next_wait(c, 0);
    c->go = in_plan;
    push(c);
    return in_plan(c);
}

static int all_ready(struct coll_gpu_call *c)
{
    if (!coll_gpu_all_at(c, COLL_GPU_READY))
        return 0;
    return c->seen ? coll_gpu_end(c) : coll_gpu_carry_out(c);
}

int coll_gpu_run(struct coll_gpu_call *c)
{
    bool in_place;
    if (coll_gpu_get_ready(c, &in_place) < 0)
        return coll_gpu_end(c);
    if (!in_place)
        return coll_gpu_carry_out(c);
    c->go = all_ready;
    coll_gpu_say(c, COLL_GPU_READY);
    coll_gpu_wait_a_moment(c, COLL_GPU_READY);
    return all_ready(c);
}

void coll_gpu_release(struct coll_gpu_call *c)
{
    detach_all(c);
    release_own(c);
}

void coll_gpu_free(struct coll_gpu_call *c)
{
    for (int w = 0; w < COLL_GPU_RANGES; w++) {
        free(c->map[w]);
        free(c->at[w]);
        free(c->len[w]);
    }
    free(c->word);
    free(c->offsets);
    free(c->op);
    coll_gpu_free_plan(&c->plan);
    free(c);
}
