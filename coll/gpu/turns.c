/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices on which contexts of processes take turns.  The worker of a device (struct coll_gpu_view)
 * does the work of all ranks there, so only its context needs the compute engine.  If no other
 * context uses the engine, a short call takes as long as with one rank.  If one does, in most
 * programs a kernel of the application, the worker's kernel waits for its turn, 100 us and more.
 * Copies to and from the host do not wait, so a short call is then faster through host memory, by
 * the algorithms for host memory (mpi/coll/stage.c).
 *
 * No rank knows what other contexts do, so the worker measures: if the work of a short call has
 * taken as long as a turn, the worker vetoes the next short calls, and more of them each time.  One
 * veto decides for all ranks.  Under the domain's lock. */
#include "coll/gpu/gate.h"
#include "runtime/base/clock.h"

/* Of work that has waited for a turn: half of RT_GPU_TURN_NS; a kernel that has not waited takes 10
 * to 20 us (H200). */
#define LATE_NS (RT_GPU_TURN_NS / 2)

enum { BACKOFF_FIRST = 8, BACKOFF_MOST = 64 };

bool coll_gpu_backs_off(struct coll_gpu_backoff *b) { return b->left && b->left--; }

void coll_gpu_tried(struct coll_gpu_backoff *b, bool failed)
{
    if (!failed)
        b->last = 0;
    else
        b->left = b->last = !b->last                     ? BACKOFF_FIRST
                            : b->last < BACKOFF_MOST / 2 ? 2 * b->last
                                                         : BACKOFF_MOST;
}

/* Whether host memory is faster than waiting for a turn. */
static bool is_short(const struct coll_gpu_call *c)
{
    const size_t *len = c->ranges.own.len;
    size_t longest = len[COLL_GPU_SEND] > len[COLL_GPU_RECV] ? len[COLL_GPU_SEND]
                                                             : len[COLL_GPU_RECV];
    return longest * (size_t)c->ranges.team->size <= rt_gpu_turn_max();
}

bool coll_gpu_avoids_turns(struct coll_gpu_call *c)
{
    return c->gate->turn.left && is_short(c) && coll_gpu_backs_off(&c->gate->turn);
}

/* Calls in the background are seen to end late for other reasons, and plans with barriers wait for
 * other ranks. */
void coll_gpu_turn_begin(struct coll_gpu_call *c)
{
    bool measured = c->ranges.in_turns && c->run.plan.n && c->run.wait == c->run.plan.n &&
                    !c->task->background && is_short(c);
    c->run.began = measured ? rt_now_ns() : 0;
}

void coll_gpu_turn_end(struct coll_gpu_call *c)
{
    if (c->run.began)
        coll_gpu_tried(&c->gate->turn, rt_now_ns() - c->run.began > LATE_NS);
    c->run.began = 0;
}
