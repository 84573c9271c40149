/* SPDX-License-Identifier: BSD-3-Clause */
/* The vote of a team's ranks on whether a call goes from device to device.
 *
 * Each rank alone knows the memory that it passes.  So it votes on a board (coll/board.h): yes,
 * with the keys of its ranges, or no.  After a veto the call goes through host memory, by the
 * algorithms for host memory.  A rank that votes yes waits for the other votes in its step
 * function.  All ranks number calls alike: a call's kind determines whether it is counted, and the
 * kind is the same on all ranks.  The store of a veto is all that a call with host
 * buffers costs.
 *
 * Order.  A rank votes on e after it has voted on all earlier calls, and when its entry is free.
 * Calls wait for that in their step, in the order in which they were made (`first`), including
 * calls with host buffers.  They are decided in this order, so the algorithms for host memory,
 * which number their calls, begin in the same order on all ranks.  No call waits for a later one,
 * so the rank with the earliest unfinished call always proceeds.
 *
 * Calls of a schedule on the device (coll/sched.c) are numbered when the schedule begins to run; a
 * rank votes on each when its turn in the schedule comes.  They may be decided in any order,
 * because none of them starts an algorithm in shared memory.
 *
 * A rank whose memory others cannot map (not exportable, or its device cannot access theirs) vetoes
 * short calls.  On long calls it votes yes.  If its memory is not exportable, it describes staging
 * memory instead (staging.c).  If that cannot be done, it sets `apart` in its descriptor.  Then all
 * ranks send messages between devices, with the staging buffers and pipelines of point-to-point
 * messages (mpi/p2p/pieces.c), and no rank stages whole buffers in host memory.
 *
 * A rank that could not start a call (out of memory) may repeat the call if it has made no other
 * since; its vote stays, and the call was vetoed. */
#include "coll/gpu/gate.h"

#include <stdlib.h>
#include <string.h>
#include "coll/begin.h"
#include "coll/select.h"
#include "runtime/base/clock.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/idle.h"
#include "runtime/base/log.h"
#include "runtime/base/reserve.h"

/* Time that a background call waits at its start: about the cost of starting the device (H200).
 * Where ranks differ by more, the call starts later, in progress. */
#define MOMENT_NS 5000
/* Calls that do not wait after a call that waited without success: so on every machine such waits
 * cost at most MOMENT_NS / HURRY a call. */
#define HURRY 16
/* Different calls that a program repeats in turn and that are recognised.  If it repeats more, each
 * call is described and planned again. */
#define KNOWN 4

/* ---- opening and closing ---- */

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
    coll_board_fini(&g->board);
    free(g);
}

/* ---- votes ---- */

static bool offer_buffers(struct coll_gpu_call *c)
{
    struct coll_gpu *g = c->gate;
    c->maps.far = coll_gpu_backs_off(&g->far);
    if ((!c->booked && coll_is_forced(g->board.team, &c->task->args, true)) ||
        coll_gpu_describe(c) < 0 || coll_gpu_avoids_turns(c))
        return false;
    coll_gpu_put_post(c);
    return true;
}

/* Votes.  False: not yet. */
static bool vote(struct coll_gpu_call *c)
{
    struct coll_board *b = &c->gate->board;
    uint64_t before = b->own->voted[COLL_BOARD_CALLS];
    if (c->on.number <= before) { /* repeated after it could not start: vetoed */
        c->voted = true;
        return true;
    }
    int may = c->device && c->on.number == before + 1 ? coll_board_enter(&c->on) : -RT_ENOTSUP;
    if (c->on.number != before + 1 || may == 0)
        return false;
    c->voted = true;
    if (may > 0 && c->gate->subject->offer(c))
        coll_board_yes(&c->on);
    else
        coll_board_veto(b, COLL_BOARD_CALLS, c->on.number);
    return true;
}

/* For a background call (coll_task.background): once all ranks have arrived, the device continues
 * alone.  So this function waits for the time by which ranks usually differ.  If that was not
 * enough, the next HURRY calls do not wait. */
void coll_gpu_wait_a_moment(struct coll_gpu_call *c, uint32_t phase)
{
    struct coll_gpu *g = c->gate;
    uint64_t end = rt_now_ns() + MOMENT_NS;
    bool there = false;
    if (!c->task->background || rt_idle_oversubscribed() || (g->hurry && g->hurry--))
        return;
    do {
        there = phase ? coll_board_all_at(&c->on, phase) : coll_board_all_yes(&c->on) != 0;
        rt_relax();
    } while (!there && rt_now_ns() < end);
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
        c->maps.known = known;
        *at = c->next;
        g->nspare--;
    }
    return c;
}

struct coll_gpu_call *coll_gpu_call_take(struct coll_gpu *g, struct coll_task *k,
                                         enum coll_board_row row, uint64_t number)
{
    struct coll_gpu_call *c = find_spare(g, k);
    if (!c && !(c = rt_reserve_zalloc(sizeof *c)))
        return NULL;
    c->gate = g;
    c->task = k;
    c->next = NULL;
    c->found = NULL;
    c->device = k->args.mem != RT_MEM_HOST || coll_gpu_has_nothing(k->team, &k->args);
    c->voted = c->booked = c->maps.far = false;
    c->run.failed_at = 0;
    coll_board_begin(&c->on, &g->board, row, number);
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
    if (c->on.seen | c->on.flags)
        coll_gpu_unlearn(c);
    c->next = g->spare;
    g->spare = c;
    g->nspare++;
}

/* Ends the call's use of the board.  A persistent call keeps its entry as long as it may be carried
 * out on devices again. */
static void call_give(struct coll_gpu_call *c)
{
    c->task->state = NULL;
    c->task->cleanup = NULL;
    if (c->on.row != COLL_BOARD_STAYING) {
        coll_board_leave(&c->on);
        coll_gpu_call_spare(c);
    } else if (c->on.seen) {
        coll_gpu_unprepare(c->task);
    }
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
    uint64_t number = c->on.number;
    bool once = c->on.row == COLL_BOARD_CALLS && !c->booked;
    call_give(c);
    int err = begin_here(k);
    if (err < 0 && once)
        unspend(g, k, number);
    return err < 0 ? err : k->step(k);
}

static int run_on_device(struct coll_gpu_call *c)
{
    log_debug(COLL, "call %u: %s from device to device", c->task->seq,
              coll_kind_names[c->task->args.kind]);
    c->go = coll_gpu_run;
    return coll_gpu_run(c);
}

static const struct coll_gpu_subject calls = { .offer = offer_buffers, .won = run_on_device };

/* Waits until the call is decided. */
static int wait_turn(struct coll_gpu_call *c)
{
    struct coll_gpu *g = c->gate;
    if (!c->voted && !vote(c))
        return 0;
    if (g->first != c && !c->booked)
        return 0;
    int rc = c->on.yes ? coll_board_all_yes(&c->on) : -RT_ENOTSUP;
    if (rc == 0)
        return 0;
    leave_queue(c);
    if (rc > 0)
        return g->subject->won(c);
    if (c->on.yes && g->subject->lost)
        g->subject->lost(c);
    if (rc == -RT_ENOTSUP)
        return coll_gpu_stage(c);
    log_at(COLL, cfg.ft ? RT_LOG_INFO : RT_LOG_ERROR,
           "rank %d of the communicator has gone; %s on device memory fails",
           coll_team_whole_rank(g->board.team, c->on.counted), coll_kind_names[c->task->args.kind]);
    return coll_gpu_over(c, rc);
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

static void begin_call(struct coll_gpu_call *c)
{
    struct coll_task *k = c->task;
    c->go = wait_turn;
    k->state = c;
    k->cleanup = NULL;
    k->step = gate_step;
}

/* Without it this rank cannot vote, and the others wait for its vote. */
static struct coll_gpu_call *take_or_abort(struct coll_task *k, uint64_t number)
{
    struct coll_gpu_call *c = coll_gpu_call_take(k->team->gpu, k, COLL_BOARD_CALLS, number);
    if (!c)
        coll_cannot_take_part();
    return c;
}

int coll_gpu_start(struct coll_task *k)
{
    struct coll_gpu *g = k->team->gpu;
    uint64_t number = k->team->gate_calls + 1;
    struct coll_gpu_call *c = take_or_abort(k, number);
    k->team->gate_calls = number;
    if (rt_unlikely(number == g->redo))
        k->messages = true; /* the same as on the other ranks */
    begin_call(c);
    k->alg = c->device ? &coll_gpu_alg : NULL;
    bool alone = !g->first;
    c->found = k->args.found;
    /* vetoed without waiting: errors are those of the host call */
    if (alone && vote(c) && !c->on.yes) {
        call_give(c);
        int err = begin_here(k);
        k->team->gate_calls -= err < 0;
        g->redo = err < 0 ? g->redo : 0;
        return err;
    }
    *g->last = c;
    g->last = &c->next;
    if (!alone)
        vote(c);
    c->found = NULL;
    if (c->on.yes && alone)
        coll_gpu_wait_a_moment(c, 0);
    return 0;
}

/* Takes part in the vote in its first step. */
static int booked_step(struct coll_task *k)
{
    uint64_t number = (uint64_t)(uintptr_t)k->state;
    struct coll_gpu_call *c = take_or_abort(k, number);
    c->booked = true;
    begin_call(c);
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

int coll_gpu_create(struct coll_team *t, struct coll_team *local,
                    bool (*write)(struct coll_task *k))
{
    if (!rt_gpu_watch || !t->ops->dev_describe)
        return 0;
    struct coll_gpu *g = calloc(1, sizeof *g);
    int err = g ? coll_board_init(&g->board, local, write ? 0 : coll_gpu_post_nbytes(local->size))
                : -RT_ENOMEM;
    if (err < 0) {
        free(g);
        return err;
    }
    g->subject = write ? &coll_gpu_schedules : &calls;
    g->write = write;
    g->last = &g->first;
    t->gpu = g;
    return 0;
}

void coll_gpu_attach(struct coll_team *t, const struct coll_team *local, void *shared)
{
    if (!t->gpu) {
        coll_board_absent(shared, local->rank);
        return;
    }
    coll_board_attach(&t->gpu->board, shared);
    t->device_part = &part_alg;
}
