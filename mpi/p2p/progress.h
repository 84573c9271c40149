/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress of everything under way.  Called under the domain's lock. */
#ifndef WM_P2P_PROGRESS_H
#define WM_P2P_PROGRESS_H

#include "mpi/p2p/engine.h"

/* One pass over transports, retries and tasks; returns the number of events. */
int wm_progress(struct wm_domain *d);
int wm_progress_pass(struct wm_domain *d); /* the same without a look */
/* Looks whether processes of this host have ended or do not share memory; also for a thread that
 * is about to sleep.  Returns what rt_deaths_look() does. */
bool wm_progress_look(struct wm_domain *d);
/* Lets other processes see that the messages of `d` move, where they cannot read its counters. */
void wm_progress_show(struct wm_domain *d);
/* Progress of copies of device memory alone, where some are under way; returns the number of
 * events. */
int wm_progress_copies(struct wm_domain *d);
/* Adds a started collective task; progress advances it until it is done. */
void wm_domain_add_task(struct wm_domain *d, struct coll_task *k);

/* At the start of a collective call, outside of progress. */
static inline void wm_flow_before_coll(struct wm_domain *d)
{
    if (rt_unlikely(d->flow_due)) {
        d->flow_due = false;
        wm_progress(d);
    }
}

/* A nonblocking call has started r.  A program may start many long messages of device memory before
 * it waits for them; without progress in between, none of them would have begun.  So some calls
 * make progress.  Not each call: a pass over everything takes a quarter of the time of starting a
 * message.  Shorter messages are faster in large batches.  Measured on 2 x H200 in windows, one way
 * and both ways, in GB/s, without and with progress: 64 KiB 95 and 155, 70 and 116; 512 KiB 261 and
 * 456, 258 and 474; 1 MiB 307 and 565, 310 and 594.  On another machine a wrong limit costs at most
 * such a difference. */
#define WM_DEV_ADVANCE 4
#define WM_DEV_ADVANCE_NBYTES (512 << 10)
static inline void wm_dev_advance(struct wm_domain *d, const struct rt_req *r)
{
    if (rt_unlikely(r->flags & RT_REQ_DEVICE) &&
        ((const struct wm_preq *)r)->nbytes >= WM_DEV_ADVANCE_NBYTES &&
        ++d->ndev_started % WM_DEV_ADVANCE == 0)
        wm_progress(d);
}

#endif
