/* SPDX-License-Identifier: BSD-3-Clause */
/* See progress.h. */
#include "mpi/p2p/progress.h"
#include "coll/begin.h"
#include "mpi/p2p/chunks.h"
#include "mpi/p2p/failed.h"
#include "mpi/p2p/lane.h"
#include "mpi/p2p/pieces.h"
#include "mpi/p2p/send.h"
#include "mpi/p2p/transfer.h"
#include "runtime/mem/activity.h"
#include "runtime/mem/deaths.h"

static int advance_tasks(struct wm_domain *d)
{
    int n = 0;
    struct rt_list *l, *before = &d->tasks;
    while ((l = before->next) != &d->tasks) {
        rt_list_del(l); /* before advancing: the end of a task may free its memory */
        if (coll_task_advance(rt_container(l, struct coll_task, link))) {
            n++;
        } else if (rt_list_empty(l)) { /* it does not wait in another list */
            rt_list_append(before->next, l);
            before = l;
        }
    }
    return n;
}

int wm_progress_copies(struct wm_domain *d)
{
    d->fins.gather = true;
    int n = rt_gpu_progress();
    d->fins.gather = false;
    if (d->fins.n)
        wm_fins_flush(d);
    return n;
}

void wm_progress_show(struct wm_domain *d)
{
    uint64_t n = d->own_stats.eager + d->own_stats.rndv + d->own_stats.received;
    if (n != d->nshown)
        rt_activity_moved(n - d->nshown);
    d->nshown = n;
}

bool wm_progress_look(struct wm_domain *d)
{
    if (rt_unlikely(d->lane)) { /* lane 0 looks */
        wm_progress_show(d);
        return false;
    }
    bool again = rt_deaths_look();
    wm_failed_look(d);
    if (rt_unlikely(d->napart != rt_load_relaxed(&rt_node.napart)))
        wm_domain_open_apart(d);
    return again;
}

/* Progress of another lane, of each in turn, where no thread has made progress since `d` was there
 * last: its threads would wait for the lock, and then for all that this one has touched.  The locks
 * of other lanes are never waited for under that of `d`. */
static void visit_lane(struct wm_domain *d)
{
    int i = d->visits.next, n = rt_load_acquire(&wm_lanes.n);
    d->visits.next = i + 1 < n ? i + 1 : 0;
    struct wm_domain *e = wm_lane_at(i);
    if (!e || e == d)
        return;
    int nawake = rt_load_relaxed(&e->wait.nawake);
    uint32_t npasses = rt_load_relaxed(&e->npasses);
    d->wait.nelsewhere += nawake - d->visits.nawake[i];
    d->visits.nawake[i] = nawake;
    if (npasses != d->visits.npasses[i]) {
        d->visits.npasses[i] = npasses;
        return;
    }
    if (!rt_lock_try(&e->lock))
        return;
    wm_progress_pass(e);
    wm_progress_look(e);
    rt_unlock(&e->lock);
}

static __attribute__((noinline)) void look_around(struct wm_domain *d)
{
    wm_progress_look(d);
    if (wm_lanes_on())
        visit_lane(d);
}

static inline int pass(struct wm_domain *d)
{
    int n = rt_unlikely(rt_gpu_nactive) ? wm_progress_copies(d) : 0;
    for (int i = 0; i < d->nbtl; i++)
        n += d->btl[i]->ops->progress(d->btl[i]);
    if (rt_unlikely(!rt_list_empty(&d->retry)))
        n += wm_retry(d);
    if (rt_unlikely(!rt_list_empty(&d->streams)))
        n += wm_stream_progress(d);
    if (rt_unlikely(d->staging.room))
        wm_pieces_resume(d);
    if (!rt_list_empty(&d->tasks))
        n += advance_tasks(d);
    if (rt_unlikely(d->look_cancelled != NULL) && !n)
        d->look_cancelled(d);
    return n;
}

int wm_progress_pass(struct wm_domain *d) { return pass(d); }

int wm_progress(struct wm_domain *d)
{
    int n = pass(d);
    uint32_t npasses = d->npasses + 1;
    rt_store_relaxed(&d->npasses, npasses);
    if (rt_unlikely(npasses % 256 == 0))
        look_around(d);
    return n;
}

void wm_domain_add_task(struct wm_domain *d, struct coll_task *k)
{
    k->home = &d->tasks;
    rt_list_append(k->home, &k->link);
}
