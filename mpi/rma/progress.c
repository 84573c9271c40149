/* SPDX-License-Identifier: BSD-3-Clause */
/* How calls wait: until a condition is met, or a process of the window has gone.  Also what makes a
 * window one of the domain's tasks while it has something that waits; the task is in windows.c. */
#include "mpi/rma/progress.h"
#include <stdio.h>
#include "mpi/p2p/describe.h"
#include "mpi/p2p/engine.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/wait.h"
#include "mpi/rma/epoch.h"
#include "mpi/rma/quick.h"
#include "mpi/rma/target.h"
#include "runtime/base/err.h"
#include "runtime/boot/dead.h"
#include "runtime/mem/deaths.h"

/* Polls of a word in a control block before the general wait, whose polls also make progress and
 * take several times as long; as in a collective call (mpi/coll/call.c). */
#define NEAR_POLLS 100

void wm_rma_poll(struct wm_rma *r)
{
    const unsigned turns = 8; /* divides WM_RMA_QUICK_TURNS: a call that is due comes here next */
    if ((r->service.serves && !r->service.helped) || (wm_rma_quick_count() - 1) % turns == 0)
        wm_progress(r->dom);
}

void wm_rma_pump_need(struct wm_rma *r)
{
    if (r->task.pumping)
        return;
    r->task.pumping = true;
    r->task.pump = (struct coll_task){ .step = r->task.run };
    wm_domain_add_task(r->dom, &r->task.pump);
}

static bool has_lost(void *window)
{
    struct wm_rma *r = window;
    for (int i = 0; i < r->shared.nmembers && !r->dead; i++)
        if (rt_node_gone(r->shared.members[i]) && !wm_rma_has_left(r, r->shared.members[i]))
            r->dead = (int)rt_boot.local_procs[r->shared.members[i]] + 1;
    for (uint32_t i = 0; i < rt_dead() && !r->dead; i++) /* also without a connection to it */
        if (wm_group_find(r->comm->group, rt_dead_at(i)) >= 0)
            r->dead = (int)rt_dead_at(i).rank + 1;
    return r->dead;
}

int wm_rma_dead(const struct wm_rma *r)
{
    return wm_err_rt(-RT_EPEER, "process %d of the job, which is in the window", r->dead - 1);
}

uint32_t wm_rma_ncompleted(const struct wm_rma *r)
{
    uint32_t n = r->epoch.ncompleted - r->epoch.nwaited_for;
    for (int i = 0; i < r->shared.nmembers; i++)
        n += rt_load_acquire(&r->shared.ctl->from[r->shared.members[i]].completes);
    return n;
}

struct wait {
    struct wm_rma *r;
    struct wm_rma_target *t; /* the one that is waited for; NULL: not one */
    wm_rma_cond *cond;       /* of wm_rma_wait() */
};

static void describe(const void *of, struct rt_wait_note *n)
{
    const struct wait *w = of;
    const struct wm_rma *r = w->r;
    /* In a window of two processes, a wait for no target is for the other one. */
    int peer = w->t ? w->t->rank : r->shared.pair >= 0 ? !r->comm->rank : MPI_PROC_NULL;
    bool meets = !w->t && r->barrier.req.ops && !rt_req_done(&r->barrier.req);
    if (meets)
        wm_describe_request(&r->barrier.req, n);
    else
        wm_describe_one(n, r->comm, wm_describe_item(RT_WAIT_TARGET, r->comm, peer, 0, 0));
    if (w->t && (w->t->epoch.locked || w->t->epoch.asked))
        snprintf(n->what, sizeof n->what, "%s", wm_rma_holds(w->t) ? "flush" : "lock");
    else if (r->epoch.access == WM_ACCESS_LOCK_ALL)
        snprintf(n->what, sizeof n->what, "%s",
                 r->shared.all.state == WM_WANT_HELD ? "flush" : "lock");
    snprintf(n->comm.name, sizeof n->comm.name, "%.*s", (int)sizeof n->comm.name - 1,
             r->win->name[0] ? r->win->name : "window");
    /* Only the number of completions is known, not which ones. */
    if (!meets && !w->t && r->epoch.exposed && !wm_rma_ncompleted(r)) {
        n->nreqs = (uint32_t)r->epoch.nexposed;
        for (int i = 0; i < r->epoch.nexposed && i < RT_ACTIVITY_REQS; i++)
            n->reqs[i] = wm_describe_item(RT_WAIT_TARGET, r->comm, r->epoch.first_exposed[i], 0, 0);
    }
}

static int until(struct wait *w, bool (*cond)(void *arg), void *arg)
{
    if (cond(arg) || wm_domain_until_or(w->r->dom, cond, arg, (struct wm_what){ describe, w },
                                        (struct wm_interrupt){ has_lost, w->r }))
        return MPI_SUCCESS;
    return wm_rma_dead(w->r);
}

int wm_rma_until(struct wm_rma *r, bool (*cond)(void *arg), void *arg)
{
    struct wait w = { .r = r };
    return until(&w, cond, arg);
}

static bool is_met(void *wait)
{
    const struct wait *w = wait;
    return w->cond(w->r, w->t);
}

int wm_rma_wait(struct wm_rma *r, struct wm_rma_target *t, wm_rma_cond *cond)
{
    struct wait w = { r, t, cond };
    return until(&w, is_met, &w);
}

int wm_rma_wait_near(struct wm_rma *r, struct wm_rma_target *t, wm_rma_cond *cond)
{
    int polls = rt_idle_oversubscribed() ? 1 : NEAR_POLLS;
    for (int i = 0; i < polls; i++) {
        if (!cond(r, t)) {
            rt_relax();
            continue;
        }
        if (wm_rma_quick_due())
            wm_progress(r->dom);
        return MPI_SUCCESS;
    }
    return wm_rma_wait(r, t, cond);
}

int wm_rma_await_ready(struct wm_rma *r, struct wm_rma_target *t)
{
    return t->by_ctl && r->epoch.access == WM_ACCESS_START ? wm_rma_wait_near(r, t, wm_rma_ready)
                                                           : wm_rma_wait(r, t, wm_rma_ready);
}
