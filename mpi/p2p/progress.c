/* SPDX-License-Identifier: BSD-3-Clause */
/* See progress.h. */
#include "mpi/p2p/progress.h"
#include "coll/begin.h"
#include "mpi/p2p/chunks.h"
#include "mpi/p2p/failed.h"
#include "mpi/p2p/pieces.h"
#include "mpi/p2p/send.h"
#include "mpi/p2p/transfer.h"
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

bool wm_progress_look(struct wm_domain *d)
{
    bool again = rt_deaths_look();
    wm_failed_look(d);
    if (rt_unlikely(d->napart != rt_load_relaxed(&rt_node.napart)))
        wm_domain_open_apart(d);
    return again;
}

int wm_progress(struct wm_domain *d)
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
    if (rt_unlikely(!++d->npasses)) /* once in 256 */
        wm_progress_look(d);
    if (rt_unlikely(d->look_cancelled != NULL) && !n)
        d->look_cancelled(d);
    return n;
}

void wm_domain_add_task(struct wm_domain *d, struct coll_task *k)
{
    k->home = &d->tasks;
    rt_list_append(k->home, &k->link);
}
