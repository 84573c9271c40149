/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress of operations and locks that wait: operations for a target that has not posted or whose
 * lock is not held yet, locks with other holders, messages that found no room.  While a window has
 * any of these, it is one of the domain's tasks, so every call that makes progress advances it;
 * programs without such windows pay nothing.  Also how calls wait. */
#include "mpi/p2p/wait.h"
#include "mpi/rma/quick.h"
#include "mpi/rma/rma.h"
#include "mpi/p2p/engine.h"
#include "mpi/p2p/send.h"
#include "runtime/base/err.h"
#include "runtime/mem/segment.h"
#include <time.h>

/* Nanoseconds between two checks of a wait whether a process of this host has gone; each check is
 * one kill(2) for each process, about a microsecond.  A longer interval only delays the error. */
#define LOOK_NS 50000000u
/* Polls between readings of the clock, which takes as long as several polls. */
#define LOOK_POLLS 64

/* Polls of a word in a control block before the general wait, whose polls also make progress and
 * take several times as long; as in a collective call (mpi/coll/call.c). */
#define NEAR_POLLS 100

bool wm_rma_ready(const struct wm_rma *r, const struct wm_rma_target *t)
{
    switch (r->access) {
    case WM_ACCESS_START:
        if (r->nocheck)
            return true;
        if (t->by_ctl)
            return rt_load_acquire(&r->ctl->from[t->local].posts) != t->posts_seen;
        return t->post_seen;
    case WM_ACCESS_LOCK:
        return t->nocheck || (t->by_ctl ? t->want.state == WM_WANT_HELD : t->granted);
    case WM_ACCESS_LOCK_ALL:
        return r->nocheck || (t->by_ctl ? r->all.state == WM_WANT_HELD : t->granted);
    default:
        return true;
    }
}

void wm_rma_poll(struct wm_rma *r)
{
    const unsigned turns = 8; /* divides WM_RMA_QUICK_TURNS */
    if ((r->serves && !r->helped) || wm_rma_quick_calls++ % turns == 0)
        wm_progress(r->dom);
}

static int pump(struct coll_task *k)
{
    struct wm_rma *r = rt_container(k, struct wm_rma, pump);
    struct rt_list *l, *tmp;
    rt_list_each_safe (l, tmp, &r->wants) {
        struct wm_rma_want *w = rt_container(l, struct wm_rma_want, link);
        if (!wm_rma_want_step(r, w))
            continue;
        rt_list_del(&w->link);
        if (w->granted)
            w->granted(r, w);
    }
    wm_rma_folds_run(r);
    rt_list_each_safe (l, tmp, &r->busy)
        wm_rma_target_run(r, rt_container(l, struct wm_rma_target, busy));
    if (!rt_list_empty(&r->wants) || !rt_list_empty(&r->busy) || r->folding ||
        !rt_list_empty(&r->folds) || !rt_list_empty(&r->deferred))
        return 0;
    r->pumping = false;
    return 1;
}

void wm_rma_pump_need(struct wm_rma *r)
{
    if (r->pumping)
        return;
    r->pumping = true;
    r->pump = (struct coll_task){ .step = pump };
    wm_domain_add_task(r->dom, &r->pump);
}

void wm_rma_queue(struct wm_rma *r, struct wm_rma_target *t, struct wm_rma_op *op)
{
    rt_list_append(&t->queue, &op->link);
    op->local = true;
    t->nlocal++;
    wm_rma_activate(r, t);
    wm_rma_target_run(r, t);
    if (!rt_list_empty(&t->queue)) {
        if (rt_list_empty(&t->busy))
            rt_list_append(&r->busy, &t->busy);
        wm_rma_pump_need(r);
    }
}

void wm_rma_target_run(struct wm_rma *r, struct wm_rma_target *t)
{
    while (!rt_list_empty(&t->queue)) {
        struct wm_rma_op *op = rt_container(t->queue.next, struct wm_rma_op, link);
        if (!wm_rma_ready(r, t)) {
            if (r->access == WM_ACCESS_LOCK_ALL && !t->by_ctl)
                wm_rma_ask(r, t, WM_WANT_SHARED);
            return;
        }
        int err = wm_rma_sends(t) ? wm_rma_send_op(op) : wm_rma_execute(r, t, &op->a);
        if (err == -RT_EAGAIN)
            return;
        if (err < 0 || !wm_rma_sends(t))
            wm_rma_op_done(op, err);
    }
    rt_list_del(&t->busy);
}

struct wait {
    struct wm_rma *r;
    bool (*cond)(void *arg);
    void *arg;
    unsigned npolls;
    uint64_t nsleeps, next_ns;
};

/* Called at each poll.  A sleeping process polls about once a second, and reads the clock each
 * time.  Reading the coarse clock takes a quarter of the time of CLOCK_MONOTONIC. */
static void look_for_dead(struct wait *w)
{
    struct wm_rma *r = w->r;
    struct timespec t;
    uint64_t nsleeps = r->dom->stats.sleeps;
    if (++w->npolls % LOOK_POLLS && w->next_ns && nsleeps == w->nsleeps)
        return;
    w->nsleeps = nsleeps;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    uint64_t now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    if (now < w->next_ns)
        return;
    for (int i = 0; i < r->nmembers && w->next_ns && !r->dead; i++)
        if (rt_node_gone(r->members[i]) && !wm_rma_has_left(r, r->members[i]))
            r->dead = (int)rt_boot.local_procs[r->members[i]] + 1;
    w->next_ns = now + LOOK_NS;
}

static bool wait_ended(void *arg)
{
    struct wait *w = arg;
    if (w->cond(w->arg))
        return true;
    look_for_dead(w);
    return w->r->dead;
}

int wm_rma_dead(const struct wm_rma *r)
{
    return wm_err_rt(-RT_EPEER, "process %d of the job, which is in the window", r->dead - 1);
}

unsigned wm_rma_nwaits;

int wm_rma_until(struct wm_rma *r, bool (*cond)(void *arg), void *arg)
{
    struct wait w = { .r = r, .cond = cond, .arg = arg, .nsleeps = r->dom->stats.sleeps };
    if (cond(arg))
        return MPI_SUCCESS;
    wm_rma_nwaits++;
    wm_domain_until(r->dom, wait_ended, &w);
    if (cond(arg))
        return MPI_SUCCESS;
    return wm_rma_dead(r);
}

struct target_wait {
    struct wm_rma *r;
    struct wm_rma_target *t;
    wm_rma_cond *cond;
};

static bool target_met(void *arg)
{
    const struct target_wait *w = arg;
    return w->cond(w->r, w->t);
}

int wm_rma_wait(struct wm_rma *r, struct wm_rma_target *t, wm_rma_cond *cond)
{
    struct target_wait w = { r, t, cond };
    return wm_rma_until(r, target_met, &w);
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

static bool is_ready(struct wm_rma *r, struct wm_rma_target *t) { return wm_rma_ready(r, t); }

int wm_rma_await_ready(struct wm_rma *r, struct wm_rma_target *t)
{
    return t->by_ctl && r->access == WM_ACCESS_START ? wm_rma_wait_near(r, t, is_ready)
                                                     : wm_rma_wait(r, t, is_ready);
}
