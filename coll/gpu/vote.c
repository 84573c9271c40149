/* SPDX-License-Identifier: BSD-3-Clause */
/* Votes of the ranks of one of several hosts on whether they carry out their part of a call on
 * their devices (coll/hier).  As in gate.c, for the whole team's calls but with this host's ranks
 * only, and without keys.
 *
 * A rank votes yes when its schedule exists, with all its memory.  The schedule runs when all have
 * voted yes; otherwise it is freed.  Votes are decided in order, and a schedule numbers its calls
 * when it begins to run, so these numbers are in the same order on all ranks of the host.  A vote
 * has no end at which all ranks meet: a rank publishes READY when it has seen all votes, and
 * leaves. */
#include "coll/gpu/gate.h"

static bool write_schedule(struct coll_gpu_call *c)
{
    struct coll_task *k = c->task;
    int (*step)(struct coll_task *) = k->step;
    bool yes = c->gate->write(k);
    c->schedule.step = k->step;
    c->schedule.cleanup = k->cleanup;
    c->schedule.state = k->state;
    k->step = step;
    k->cleanup = NULL;
    k->state = c;
    return yes;
}

static int run_schedule(struct coll_gpu_call *c)
{
    struct coll_task *k = c->task;
    int (*step)(struct coll_task *) = c->schedule.step;
    void (*cleanup)(struct coll_task *) = c->schedule.cleanup;
    void *state = c->schedule.state;
    coll_board_publish(&c->on, COLL_BOARD_READY);
    coll_gpu_over(c, 0);
    k->step = step;
    k->cleanup = cleanup;
    k->state = state;
    return k->step(k);
}

static void free_schedule(struct coll_gpu_call *c)
{
    c->task->state = c->schedule.state;
    if (c->schedule.cleanup)
        c->schedule.cleanup(c->task);
}

const struct coll_gpu_subject coll_gpu_schedules = { .offer = write_schedule,
                                                     .won = run_schedule,
                                                     .lost = free_schedule };
