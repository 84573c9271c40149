/* SPDX-License-Identifier: BSD-3-Clause */
/* How the ranks of a team agree whether a call goes from device to device.
 *
 * Each rank alone knows what memory it passes, so it tells the others: yes, with the keys of its
 * ranges, or no.  One no is enough, and a rank that says no waits for nobody: the call goes through
 * host memory, by the algorithms for host memory.  A rank that says yes waits for the others' words
 * in its step function.
 *
 * Words.  Calls are numbered alike on all ranks: those that pass the gate are told by their kind,
 * which is the same everywhere.  Each rank alone writes its struct coll_gpu_word.  `passed` grows
 * with each call, in order; that store is all that a call with host buffers costs.  For a yes of
 * call e, the keys go to the rank's area, slot s = e % SLOTS, unless they are there already, and
 * their version to version[s], then e to yes[s], then e to `passed`.
 * Who looks for call e waits until `passed` is e or more; yes[s] == e means yes, anything else no.
 *
 * Order.  A rank says its word for e after those for all calls before, and once its slot is free,
 * that is, call e - SLOTS was decided no or has ended here; calls wait for that in their step, in
 * the order in which they were made (`first`), calls with host buffers, too.  They are decided in
 * this order, so the algorithms for host memory, which number their calls, begin in the same order
 * on all ranks.  Nothing waits for a later call, so the rank with the earliest unfinished call
 * always gets on.
 *
 * Why all decide alike.  Say some rank looks for q's word on call e.  If q said yes, yes[s] is e
 * until q says yes to e + SLOTS or a later call of the slot.  q does so only after e was decided no
 * or has ended on q.  If it was decided no, then some r said no, so yes[s] of r never becomes e,
 * and whoever still looks finds this no, whatever it reads of q.  If it has ended on q then all
 * ranks have said so, which they do after they have decided.
 *
 * Why nothing is read too late.  Posts and at[] are read only when all have said yes.  Then
 * no rank uses its slot again before the call has ended on it, hence after all have said END; they
 * say that when they need no key any more.  at[s] is first written in call e + SLOTS when all have
 * said yes to that, and thus all have left call e; until then it says how e went.  The area is the
 * rank's own and goes with its team: its calls have ended then, or were decided no.  The words
 * belong to the team's block, whose owner asks coll_gpu_quiet(): all have passed as many calls, and
 * none has one that is open.
 *
 * Calls of a schedule on the device (coll/sched.c) are numbered when it begins to run, and each
 * says its word when its turn in the schedule comes; they may be decided in any order, because none
 * begins anything in shared memory.
 *
 * A rank whose memory cannot be mapped by others (not exportable, or its device does not reach
 * theirs) says no to short calls.  To long ones it says yes and marks its post `apart`.  Then all
 * ranks send messages between devices, with the bounce buffers and pipelines of point to point
 * (mpi/p2p/pieces.c), and no rank stages whole buffers in host memory.
 *
 * A rank that dies while others wait for it is looked for at intervals; the wait ends with an
 * error.  A rank that could not start a call (no memory) may repeat it when it has made no other
 * since; its word stands, and the call was decided no. */
#include "coll/gpu/gpu.h"

#include <stdlib.h>
#include <string.h>
#include "coll/start.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/idle.h"
#include "runtime/base/log.h"

/* Times rt_gpu_seen_for, which is 20 us. */
#define LOOK_EVERY 1000
/* About what starting the device costs. */
#define MOMENT_NS 5000
/* Calls that do not wait after one that has waited in vain. */
#define HURRY 16
/* Different calls that a program repeats in turn, and that are known again. */
#define KNOWN 4

/* ---- life ---- */

size_t coll_gpu_nbytes(int size)
{
    return sizeof(struct coll_gpu_head) + (size_t)size * sizeof(struct coll_gpu_word);
}

static struct coll_gpu_word *words_at(void *shared)
{
    return (struct coll_gpu_word *)((struct coll_gpu_head *)shared + 1);
}

int coll_gpu_attach(struct coll_team *t, struct coll_team *words, void *shared)
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
    g->votes = words != t;
    g->head = shared;
    g->word = word;
    g->own = &word[words->rank];
    g->last = &g->first;
    t->gpu = g;
    return 0;
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
    for (int r = 0; t->rank == 0 && r < t->size; r++) { /* nobody looks at anything any more */
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
        uint64_t passed = rt_load_acquire(&word[i].passed); /* UINT64_MAX: it says no to all */
        if (passed < t->gate_calls ||
            (passed != UINT64_MAX && rt_load_acquire(&word[i].inits) < t->gate_inits) ||
            rt_load_relaxed(&word[i].open))
            return false;
    }
    return true;
}

/* ---- words ---- */

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
    if (!c->device || g->votes)
        return c->device && coll_gpu_vote(c);
    c->far = is_far(g);
    return (c->booked || !coll_is_forced(g->team, &c->task->args, true)) && has_area(g) &&
           coll_gpu_describe(c) >= 0;
}

/* Whether the call that this rank last said yes to in the slot has left it. */
static bool slot_is_free(const struct coll_gpu_call *c)
{
    struct coll_gpu *g = c->gate;
    return !g->in[c->slot] && (!g->votes || coll_gpu_vote_is_known(g, c->slot));
}

static void put_post(struct coll_gpu_call *c)
{
    struct coll_gpu *g = c->gate;
    g->in_area[c->slot] = coll_gpu_put_post(c, g->in_area[c->slot]);
    rt_store_relaxed(&g->own->version[c->slot], g->in_area[c->slot]);
}

/* Says yes or no.  False: not yet. */
static bool post(struct coll_gpu_call *c)
{
    struct coll_gpu *g = c->gate;
    if (c->number <= g->own->passed) { /* it could not start, and is repeated: said no */
        c->posted = true;
        return true;
    }
    if (c->number != g->own->passed + 1 || (c->device && !slot_is_free(c)))
        return false;
    c->posted = true;
    c->said_yes = may_say_yes(c);
    if (c->said_yes) {
        if (!g->votes)
            put_post(c);
        g->in[c->slot] = c;
        rt_store_relaxed(&g->head->devices, 1);
        rt_store_relaxed(&g->own->open, g->own->open + 1);
        rt_store_release(&g->own->yes[c->slot], c->number);
    }
    rt_store_release(&g->own->passed, c->number); /* after all that belongs to a yes */
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

/* 1: all have said yes.  0: not yet.  -RT_ENOTSUP: somebody has said no.  -RT_EPEER. */
static int all_yes(struct coll_gpu_call *c)
{
    struct coll_gpu *g = c->gate;
    for (; c->heard < g->team->size; c->heard++) {
        const struct coll_gpu_word *w = &g->word[c->heard];
        /* pairs with the release in post() and coll_gpu_pass() */
        if (rt_load_acquire(&w->passed) < c->number) {
            if (!coll_gpu_is_gone(c, c->heard))
                return 0;
            /* Its last word before it went counts: others have read it and wait for this rank. */
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

/* How far a rank is in this call; UINT64_MAX: further.  Pairs with the release in coll_gpu_say().
 */
static uint64_t at_of(const struct coll_gpu_call *c, int rank)
{
    if (!c->init)
        return rt_load_acquire(&c->gate->word[rank].at[c->slot]);
    const struct coll_gpu_entry *e = coll_gpu_entry_of(c, rank);
    uint64_t at = rt_load_acquire(&e->at);
    return rt_load_relaxed(&e->number) == c->init ? at : UINT64_MAX; /* persistent.c */
}

/* Whether it is in the phase, or further, or in a later call. */
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
            at = at_of(c, c->heard); /* it may have come there, and then have left in order */
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

/* Of a call that nobody drives until its owner comes back: once all are there the device carries on
 * alone, so the others are given the time that ranks are usually apart; not again for a while when
 * that was not enough. */
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

/* The one that knows the call best: that made it before, or has not been used for longest. */
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

/* Ends what the gate has to do with a call; its slot may be used again.  A persistent one stays as
 * long as it may go this way again. */
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

/* A decided call could not start here for lack of memory.  When it is this rank's last one its
 * numbers are given back, so that it may be repeated; its word stands. */
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
    if (g->votes && c->said_yes)
        coll_gpu_vote_lost(c);
    call_give(c);
    int err = begin_here(k);
    if (err < 0 && once)
        unspend(g, k, number);
    return err < 0 ? err : k->step(k);
}

/* This rank's word for it is the last that the gate has to do with the call. */
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

/* Until the call is decided. */
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
        if (g->votes)
            coll_gpu_vote_lost(c);
        return coll_gpu_over(c, rc);
    }
    if (g->votes)
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

/* For tools: what carries device calls out; never chosen by the table. */
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
        k->messages = true; /* as the others' */
    begin_call(c, c->number);
    k->alg = c->device ? &coll_gpu_alg : NULL;
    bool alone = !g->first;
    if (alone && post(c) && !c->said_yes) { /* as if it had been passed by: errors are the call's */
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

/* Meets the others in its first step. */
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

void coll_gpu_book(struct coll_task *k)
{
    k->state = (void *)(uintptr_t)++k->team->gate_calls;
    k->cleanup = NULL;
    k->step = booked_step;
}
