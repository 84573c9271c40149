/* SPDX-License-Identifier: BSD-3-Clause */
/* The vote of a team's ranks on whether a call goes from device to device.
 *
 * Each rank alone knows the memory that it passes.  So it votes: yes, with the keys of its ranges,
 * or no.  One veto is enough, and a rank that vetoes does not wait: the call goes through host
 * memory, by the algorithms for host memory.  A rank that votes yes waits for the other votes in
 * its step function.
 *
 * Flag lines.  Calls are numbered alike on all ranks: the kind of a call, which is the same on all
 * ranks, determines whether it is counted.  No other rank writes a rank's struct coll_gpu_word.
 * `passed` grows with each call, in order; this store is all that a call with host buffers costs.
 * To vote yes on call e, a rank writes its descriptor with the keys into its area, slot s = e %
 * SLOTS, unless it is there already, then the descriptor's version into version[s], then e into
 * yes[s], then e into `passed`.  To read a vote on call e, a rank waits until `passed` is e or
 * more; then yes[s] == e means yes, any other value no.
 *
 * Order.  A rank votes on e after it has voted on all earlier calls, and when its slot is free:
 * call e - SLOTS was vetoed or has ended on this rank.  Calls wait for that in their step, in the
 * order in which they were made (`first`), including calls with host buffers.  They are decided in
 * this order, so the algorithms for host memory, which number their calls, begin in the same order
 * on all ranks.  No call waits for a later one, so the rank with the earliest unfinished call
 * always proceeds.
 *
 * Why all ranks decide alike.  Let some rank read q's vote on call e.  If q voted yes, yes[s] is e
 * until q votes yes on e + SLOTS or a later call of the slot.  q does so only after e was vetoed or
 * has ended on q.  If e was vetoed, then some r voted no, so yes[s] of r never becomes e, and each
 * rank that still reads the votes finds this veto, whatever it reads of q.  If e has ended on q,
 * then all ranks have published END, which they do after they have decided.
 *
 * Why no descriptor is read too late.  Descriptors and at[] are read only when all have voted yes.
 * Then no rank uses its slot again before the call has ended on it, so after all have published
 * END; a rank publishes END when it needs no key any more.  at[s] is first written in call e +
 * SLOTS when all have voted yes on that call, so all have left call e; until then it has the result
 * of e.  The area belongs to the rank and is freed with its team: then the team's calls have ended
 * or were vetoed.  The flag lines belong to the team's block, whose owner calls coll_gpu_quiet():
 * all have voted on the same number of calls, and no rank has an open call.
 *
 * Calls of a schedule on the device (coll/sched.c) are numbered when the schedule begins to run; a
 * rank votes on each when its turn in the schedule comes.  They may be decided in any order,
 * because none of them starts an algorithm in shared memory.
 *
 * A rank whose memory others cannot map (not exportable, or its device cannot access theirs) vetoes
 * short calls.  On long calls it votes yes and sets `apart` in its descriptor.  Then all ranks send
 * messages between devices, with the staging buffers and pipelines of point-to-point messages
 * (mpi/p2p/pieces.c), and no rank stages whole buffers in host memory.
 *
 * While a rank waits for another, it tests at intervals whether that rank lives; if not, the wait
 * ends with an error.  A rank that could not start a call (out of memory) may repeat the call if it
 * has made no other since; its vote stays, and the call was vetoed. */
#include "coll/gpu/gpu.h"

#include <stdlib.h>
#include <string.h>
#include "coll/begin.h"
#include "coll/select.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/idle.h"
#include "runtime/base/log.h"

/* Interval of the tests, in units of rt_gpu_seen_for, which is 20 us. */
#define LOOK_EVERY 1000
/* About the cost of starting the device. */
#define MOMENT_NS 5000
/* Calls that do not wait after a call that waited without success. */
#define HURRY 16
/* Different calls that a program repeats in turn and that are recognised. */
#define KNOWN 4

/* ---- opening and closing ---- */

size_t coll_gpu_nbytes(int size)
{
    return sizeof(struct coll_gpu_head) + (size_t)size * sizeof(struct coll_gpu_word);
}

static struct coll_gpu_word *words_at(void *shared)
{
    return (struct coll_gpu_word *)((struct coll_gpu_head *)shared + 1);
}

size_t coll_gpu_post_nbytes(const struct coll_gpu *g)
{
    size_t n = sizeof(struct coll_gpu_post) + (size_t)g->team->size * sizeof(uint64_t);
    return (n + RT_CACHE_LINE - 1) & ~(size_t)(RT_CACHE_LINE - 1);
}

void coll_gpu_forget(struct coll_team *t)
{
    struct coll_gpu *g = t->gpu;
    for (struct coll_gpu_call *c; g && (c = g->spare);) {
        g->spare = c->next;
        coll_gpu_free(c);
    }
    if (g)
        g->nspare = 0;
}

void coll_gpu_fini(struct coll_team *t)
{
    struct coll_gpu *g = t->gpu;
    if (!g)
        return;
    coll_gpu_forget(t);
    t->gpu = NULL;
    t = g->team;
    for (int r = 0; t->rank == 0 && r < t->size; r++) { /* no rank reads them any more */
        const struct coll_gpu_word *w = &g->word[r];
        if (w->area)
            t->ops->shm_free(t, w->area - 1, COLL_GPU_SLOTS * coll_gpu_post_nbytes(g));
        if (w->fixed)
            t->ops->shm_free(t, w->fixed - 1, coll_gpu_fixed_nbytes(g));
    }
    free(g);
}

bool coll_gpu_quiet(const struct coll_team *t, const struct coll_team *words, void *shared)
{
    const struct coll_gpu_word *word = words_at(shared);
    for (int i = 0; i < words->size; i++) {
        /* UINT64_MAX: the rank vetoes all calls */
        uint64_t passed = rt_load_acquire(&word[i].passed);
        if (passed < t->gate_calls ||
            (passed != UINT64_MAX && rt_load_acquire(&word[i].inits) < t->gate_inits) ||
            rt_load_relaxed(&word[i].open))
            return false;
    }
    return true;
}

/* ---- flag lines ---- */

void coll_gpu_wake(struct coll_gpu *g)
{
    struct coll_team *t = g->team;
    for (int i = 0; i < t->size; i++)
        if (i != t->rank)
            t->ops->shm_wake(t, i);
}

struct coll_gpu_post *coll_gpu_post_of(const struct coll_gpu_call *c, int rank)
{
    struct coll_gpu *g = c->gate;
    if (c->init)
        return (struct coll_gpu_post *)(coll_gpu_entry_of(c, rank) + 1);
    char *area = rank == g->team->rank
                     ? g->area
                     : g->team->ops->shm_at(g->team, rt_load_relaxed(&g->word[rank].area) - 1);
    return (struct coll_gpu_post *)(area + (size_t)c->slot * coll_gpu_post_nbytes(g));
}

static bool has_area(struct coll_gpu *g)
{
    struct coll_team *t = g->team;
    if (g->area || g->no_area)
        return g->area;
    size_t off = t->ops->shm_alloc(t, COLL_GPU_SLOTS * coll_gpu_post_nbytes(g));
    g->no_area = off == SIZE_MAX;
    if (g->no_area) {
        log_warn(COLL, "no shared memory for collectives on device memory; they are copied through "
                       "host memory instead");
        return false;
    }
    g->area = t->ops->shm_at(t, off);
    rt_store_relaxed(&g->own->area, off + 1);
    return true;
}

static bool is_far(struct coll_gpu *g) { return g->far && g->far--; }

static bool may_say_yes(struct coll_gpu_call *c)
{
    struct coll_gpu *g = c->gate;
    if (!c->device || g->write)
        return c->device && coll_gpu_vote(c);
    c->far = is_far(g);
    return (c->booked || !coll_is_forced(g->team, &c->task->args, true)) && has_area(g) &&
           coll_gpu_describe(c) >= 0;
}

/* Whether the last call of the slot that this rank voted yes on has left the slot. */
static bool slot_is_free(const struct coll_gpu_call *c)
{
    struct coll_gpu *g = c->gate;
    return !g->in[c->slot] && (!g->write || coll_gpu_vote_is_known(g, c->slot));
}

static void put_post(struct coll_gpu_call *c)
{
    struct coll_gpu *g = c->gate;
    g->in_area[c->slot] = coll_gpu_put_post(c, g->in_area[c->slot]);
    rt_store_relaxed(&g->own->version[c->slot], g->in_area[c->slot]);
}

/* Votes.  False: not yet. */
static bool post(struct coll_gpu_call *c)
{
    struct coll_gpu *g = c->gate;
    if (c->number <= g->own->passed) { /* repeated after it could not start: vetoed */
        c->posted = true;
        return true;
    }
    if (c->number != g->own->passed + 1 || (c->device && !slot_is_free(c)))
        return false;
    c->posted = true;
    c->said_yes = may_say_yes(c);
    if (c->said_yes) {
        if (!g->write)
            put_post(c);
        g->in[c->slot] = c;
        rt_store_relaxed(&g->head->devices, 1);
        rt_store_relaxed(&g->own->open, g->own->open + 1);
        rt_store_release(&g->own->yes[c->slot], c->number);
    }
    rt_store_release(&g->own->passed, c->number); /* after all stores of a yes */
    coll_gpu_has_said(g);
    return true;
}

bool coll_gpu_is_gone(struct coll_gpu_call *c, int rank)
{
    struct coll_team *t = c->gate->team;
    uint64_t now = rt_gpu_clock();
    if (now < c->look_at || !t->ops->gone)
        return false;
    bool first = c->look_at == 0;
    c->look_at = now + LOOK_EVERY * rt_load_relaxed(&rt_gpu_seen_for);
    return !first && t->ops->gone(t, rank);
}

/* 1: all ranks have voted yes.  0: not yet.  -RT_ENOTSUP: vetoed.  -RT_EPEER. */
static int all_yes(struct coll_gpu_call *c)
{
    struct coll_gpu *g = c->gate;
    for (; c->heard < g->team->size; c->heard++) {
        const struct coll_gpu_word *w = &g->word[c->heard];
        /* pairs with the release in post() and coll_gpu_pass() */
        if (rt_load_acquire(&w->passed) < c->number) {
            if (!coll_gpu_is_gone(c, c->heard))
                return 0;
            /* Its last vote before it went counts: other ranks have read the vote and wait for this
             * rank. */
            if (rt_load_acquire(&w->passed) < c->number)
                return -RT_EPEER;
        }
        if (rt_load_relaxed(&w->yes[c->slot]) != c->number)
            return -RT_ENOTSUP;
    }
    c->heard = 0;
    return 1;
}

void coll_gpu_say(struct coll_gpu_call *c, uint32_t phase)
{
    struct coll_gpu *g = c->gate;
    c->phase = phase;
    rt_store_release(c->init ? &coll_gpu_entry_of(c, g->team->rank)->at : &g->own->at[c->slot],
                     COLL_GPU_AT(c->number, phase | c->flags));
    coll_gpu_wake(g);
}

/* A rank's progress in this call; UINT64_MAX: in a later one.  Pairs with the release in
 * coll_gpu_say(). */
static uint64_t at_of(const struct coll_gpu_call *c, int rank)
{
    if (!c->init)
        return rt_load_acquire(&c->gate->word[rank].at[c->slot]);
    const struct coll_gpu_entry *e = coll_gpu_entry_of(c, rank);
    uint64_t at = rt_load_acquire(&e->at);
    return rt_load_relaxed(&e->number) == c->init ? at : UINT64_MAX; /* persistent.c */
}

/* Whether the rank has reached the phase, or is in a later call. */
static bool is_at(const struct coll_gpu_call *c, uint64_t at, uint32_t phase)
{
    uint64_t want = COLL_GPU_AT(c->number, 0u);
    return at >= want + COLL_GPU_AT(1u, 0u) || (at >= want && (at & COLL_GPU_PHASE) >= phase);
}

int coll_gpu_all_at(struct coll_gpu_call *c, uint32_t phase)
{
    if (c->target != phase) {
        c->target = phase;
        c->heard = 0;
    }
    for (; c->heard < c->gate->team->size; c->heard++) {
        uint64_t at = at_of(c, c->heard);
        if (!is_at(c, at, phase)) {
            if (!coll_gpu_is_gone(c, c->heard))
                return 0;
            at = at_of(c, c->heard); /* it may have reached the phase and then have left normally */
        }
        if (!is_at(c, at, phase)) {
            c->seen |= COLL_GPU_FAILED;
            c->err = -RT_EPEER;
        } else if (at >= COLL_GPU_AT(c->number + 1, 0u)) { /* a persistent call, started again */
            if (c->phase == COLL_GPU_READY)
                c->seen |= COLL_GPU_DECLINED;
        } else {
            c->seen |= (uint32_t)at & (COLL_GPU_DECLINED | COLL_GPU_FAILED | COLL_GPU_MISMATCH);
        }
    }
    return 1;
}

/* For a call for which progress is not called until its owner returns: once all ranks have arrived,
 * the device continues alone.  So this waits for the time by which ranks usually differ, and not
 * for the next calls if that was not enough. */
void coll_gpu_wait_a_moment(struct coll_gpu_call *c, uint32_t phase)
{
    struct coll_gpu *g = c->gate;
    uint64_t end = rt_now_ns() + MOMENT_NS;
    bool there = false;
    if (!c->task->background || rt_idle_oversubscribed() || (g->hurry && g->hurry--))
        return;
    do {
        there = phase ? coll_gpu_all_at(c, phase) : all_yes(c) != 0;
        rt_relax();
    } while (!there && rt_now_ns() < end);
    if (!phase)
        c->heard = 0;
    if (!there)
        g->hurry = HURRY;
}

/* ---- calls ---- */

bool coll_gpu_has_nothing(const struct coll_team *t, const struct coll_args *a)
{
    return coll_args_have_nothing(t, a);
}

/* The struct last used for the same call, otherwise the least recently used one. */
static struct coll_gpu_call *find_spare(struct coll_gpu *g, const struct coll_task *k)
{
    struct coll_gpu_call **at = &g->spare, *c;
    bool known = false;
    while (*at && !(known = coll_gpu_knows(*at, k)) && ((*at)->next || g->nspare < KNOWN))
        at = &(*at)->next;
    if ((c = *at)) {
        c->known = known;
        *at = c->next;
        g->nspare--;
    }
    return c;
}

struct coll_gpu_call *coll_gpu_call_take(struct coll_gpu *g, struct coll_task *k)
{
    struct coll_gpu_call *c = find_spare(g, k);
    if (!c && !(c = calloc(1, sizeof *c)))
        return NULL;
    c->gate = g;
    c->task = k;
    c->next = NULL;
    c->init = 0;
    c->device = k->args.mem != RT_MEM_HOST || coll_gpu_has_nothing(k->team, &k->args);
    c->posted = c->said_yes = c->booked = c->far = false;
    c->heard = 0;
    c->look_at = 0;
    c->seen = c->phase = c->flags = c->target = 0;
    c->failed_at = 0;
    c->err = 0;
    return c;
}

void coll_gpu_call_spare(struct coll_gpu_call *c)
{
    struct coll_gpu *g = c->gate;
    coll_gpu_release(c);
    if (g->nspare == COLL_GPU_SPARE) {
        coll_gpu_free(c);
        return;
    }
    if (c->seen | c->flags)
        coll_gpu_unlearn(c);
    c->next = g->spare;
    g->spare = c;
    g->nspare++;
}

/* Ends the vote's use of a call; its slot is free again.  A persistent call keeps its slot as long
 * as it may be carried out on devices again. */
static void call_give(struct coll_gpu_call *c)
{
    struct coll_gpu *g = c->gate;
    c->task->state = NULL;
    c->task->cleanup = NULL;
    if (c->init) {
        if (c->seen)
            coll_gpu_unprepare(c->task);
        return;
    }
    if (c->said_yes) {
        g->in[c->slot] = NULL;
        rt_store_release(&g->own->open, g->own->open - 1);
    }
    coll_gpu_call_spare(c);
}

static void leave_queue(struct coll_gpu_call *c)
{
    struct coll_gpu *g = c->gate;
    if (c->booked)
        return;
    g->first = c->next;
    if (!g->first)
        g->last = &g->first;
}

int coll_gpu_over(struct coll_gpu_call *c, int err)
{
    call_give(c);
    return err < 0 ? err : 1;
}

static int begin_here(struct coll_task *k)
{
    return k->args.mem != RT_MEM_HOST ? k->team->ops->stage(k->team, k) : coll_begin_host(k);
}

/* A decided call could not start because of memory.  If it is this rank's last call, its numbers
 * are returned, so that it may be repeated; the vote stays. */
static void unspend(struct coll_gpu *g, const struct coll_task *k, uint64_t number)
{
    struct coll_team *t = k->team;
    if (t->gate_calls != number || t->seq != k->seq + 1)
        return;
    t->gate_calls--;
    t->seq--;
    g->redo = k->messages ? number : 0;
}

int coll_gpu_stage(struct coll_gpu_call *c)
{
    struct coll_gpu *g = c->gate;
    struct coll_task *k = c->task;
    uint64_t number = c->number;
    bool once = c->init == 0 && !c->booked;
    if (g->write && c->said_yes)
        coll_gpu_vote_lost(c);
    call_give(c);
    int err = begin_here(k);
    if (err < 0 && once)
        unspend(g, k, number);
    return err < 0 ? err : k->step(k);
}

/* Publishing this rank's READY is the last use of the call here. */
static int vote_won(struct coll_gpu_call *c)
{
    struct coll_task *k = c->task;
    coll_gpu_vote_won(c);
    call_give(c);
    k->step = c->step;
    k->cleanup = c->cleanup;
    k->state = c->state;
    return k->step(k);
}

/* Waits until the call is decided. */
static int wait_turn(struct coll_gpu_call *c)
{
    struct coll_gpu *g = c->gate;
    if (!c->posted && !post(c))
        return 0;
    if (g->first != c && !c->booked)
        return 0;
    int rc = c->said_yes ? all_yes(c) : -RT_ENOTSUP;
    if (rc == 0)
        return 0;
    leave_queue(c);
    if (rc == -RT_ENOTSUP)
        return coll_gpu_stage(c);
    if (rc < 0) {
        log_error(COLL, "rank %d of the communicator has gone; %s on device memory fails",
                  coll_team_whole_rank(g->team, c->heard), coll_kind_names[c->task->args.kind]);
        if (g->write)
            coll_gpu_vote_lost(c);
        return coll_gpu_over(c, rc);
    }
    if (g->write)
        return vote_won(c);
    log_debug(COLL, "call %u: %s from device to device", c->task->seq,
              coll_kind_names[c->task->args.kind]);
    c->go = coll_gpu_run;
    return coll_gpu_run(c);
}

static int gate_step(struct coll_task *k)
{
    struct coll_gpu_call *c = k->state;
    return c->go(c);
}

/* For tools: stands for device plans; the tuning table never selects it. */
const struct coll_alg coll_gpu_alg = { .name = "gpu",
                                       .help = "from device to device",
                                       .need = COLL_NEED_ONE_NODE | COLL_NEED_PEER_MAP |
                                               COLL_NEED_CUDA_BUFFERS };

static void begin_call(struct coll_gpu_call *c, uint64_t number)
{
    struct coll_task *k = c->task;
    c->number = number;
    c->slot = (int)(number % COLL_GPU_SLOTS);
    c->go = wait_turn;
    k->state = c;
    k->cleanup = NULL;
    k->step = gate_step;
}

int coll_gpu_start(struct coll_task *k)
{
    struct coll_gpu *g = k->team->gpu;
    struct coll_gpu_call *c = coll_gpu_call_take(g, k);
    if (!c)
        return -RT_ENOMEM;
    c->number = ++k->team->gate_calls;
    if (rt_unlikely(c->number == g->redo))
        k->messages = true; /* the same as on the other ranks */
    begin_call(c, c->number);
    k->alg = c->device ? &coll_gpu_alg : NULL;
    bool alone = !g->first;
    /* vetoed without waiting: errors are those of the host call */
    if (alone && post(c) && !c->said_yes) {
        call_give(c);
        int err = begin_here(k);
        k->team->gate_calls -= err < 0;
        g->redo = err < 0 ? g->redo : 0;
        return err;
    }
    *g->last = c;
    g->last = &c->next;
    if (!alone)
        post(c);
    if (c->said_yes && alone)
        coll_gpu_wait_a_moment(c, 0);
    return 0;
}

/* Takes part in the vote in its first step. */
static int booked_step(struct coll_task *k)
{
    uint64_t number = (uint64_t)(uintptr_t)k->state;
    struct coll_gpu_call *c = coll_gpu_call_take(k->team->gpu, k);
    if (!c)
        return -RT_ENOMEM;
    c->booked = true;
    begin_call(c, number);
    k->alg = &coll_gpu_alg;
    return wait_turn(c);
}

/* Numbers a call of a schedule on the device; its first step takes part in the vote. */
static int book(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    (void)a;
    k->state = (void *)(uintptr_t)++t->gate_calls;
    k->cleanup = NULL;
    k->step = booked_step;
    return 0;
}

static const struct coll_alg part_alg = { .name = "gpu_part",
                                          .help = "part of a schedule on devices",
                                          .need = COLL_NEED_ONE_NODE,
                                          .start = book };

int coll_gpu_attach(struct coll_team *t, struct coll_team *words, void *shared,
                    bool (*write)(struct coll_task *k))
{
    struct coll_gpu_word *word = words_at(shared);
    if (!rt_gpu_watch || !t->ops->dev_describe) {
        rt_store_release(&word[words->rank].passed, UINT64_MAX);
        return 0;
    }
    struct coll_gpu *g = calloc(1, sizeof *g);
    if (!g)
        return -RT_ENOMEM;
    g->team = words;
    g->write = write;
    g->head = shared;
    g->word = word;
    g->own = &word[words->rank];
    g->last = &g->first;
    t->gpu = g;
    t->device_part = &part_alg;
    return 0;
}
