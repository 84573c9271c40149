/* SPDX-License-Identifier: BSD-3-Clause */
/* Waits for progress.  Called under the domain's lock, which a wait releases between polls. */
#ifndef WM_P2P_WAIT_H
#define WM_P2P_WAIT_H

#include "mpi/p2p/domain.h"
#include "mpi/p2p/ended.h"
#include "runtime/base/idle.h"

struct rt_req;
struct pollfd;
struct rt_wait_note; /* runtime/mem/activity.h */
#define WM_WAIT_FDS 65

/* What a wait is for.  describe() is called under the lock, when the wait is older than a
 * millisecond; NULL: known by the name of the MPI call alone. */
struct wm_what {
    void (*describe)(const void *of, struct rt_wait_note *n);
    const void *of;
};
#define WM_WHAT_CALL ((struct wm_what){ 0 })

/* What may end a wait early.  hits() is called under the lock by the waiting thread, when
 * rt_interrupts() has changed (runtime/mem/deaths.h): true if the wait must end. */
struct wm_interrupt {
    bool (*hits)(void *of); /* NULL: nothing */
    void *of;
};

/* A thread's wait: lives on its stack. */
struct wm_wait {
    bool (*ready)(void *arg); /* the wait has ended; called by any thread.  NULL: only the waiting
                                 thread can check */
    void *arg;
    struct wm_what what;
    struct rt_idle idle;
    bool internal;             /* of a thread of the library: nothing is published */
    bool of_polls;             /* of a loop of polls, which polled.c publishes */
    bool counted;              /* in domain->wait.nawake */
    bool published;            /* `note` is, or there was no free one */
    uint32_t limit_us;         /* of one sleep; 0: only the safety net */
    uint32_t lanes;            /* for requests of several lanes: a bit for each; 0: of one */
    uint32_t seen;             /* rt_interrupts() when `by` was last asked; 0: not yet */
    int nfds;                  /* at most WM_WAIT_FDS */
    const struct pollfd *fds;  /* descriptors that end a sleep, too; of the waiting thread */
    struct wm_interrupt by;    /* of wm_domain_until_or() */
    struct wm_look look;       /* for processes that have ended */
    uint64_t begin_ns;         /* of its first sleep; 0: it has not slept */
    uint64_t arrivals;         /* when the description was written: wait_note.c */
    struct rt_wait_note *note; /* the published description; NULL: none */
};
/* Lane `d` is in use with others: its lock keeps the rules of wait_lanes.c.  Under that lock, or
 * before others know `d`. */
void wm_lanes_watch(struct wm_domain *d);
bool wm_wait_done(void *done); /* `ready` of a done word */
#define WM_WAIT_DONE(r) ((void *)(uintptr_t) & (r)->done)
#define WM_WAIT_REQ(r, of) \
    { \
        .ready = wm_wait_done, .arg = WM_WAIT_DONE(r), .what = of \
    }

/* Progress until the request is done; yields the core and, when idle, sleeps.  Called and returns
 * under the lock. */
void wm_domain_wait(struct wm_domain *d, const struct rt_req *r);
/* Progress until ready(arg), which any thread may call, under the lock. */
void wm_domain_until(struct wm_domain *d, bool (*ready)(void *arg), void *arg, struct wm_what what);
/* The same until by.hits().  False: ended so, after progress on what had arrived before. */
bool wm_domain_until_or(struct wm_domain *d, bool (*ready)(void *arg), void *arg,
                        struct wm_what what, struct wm_interrupt by);
/* For a caller's own loop, which ends with wm_domain_left(); lock as above.  One idle step between
 * polls; progress, and an idle step if there is none.  True: there was progress. */
void wm_domain_idle(struct wm_domain *d, struct wm_wait *w);
bool wm_domain_step(struct wm_domain *d, struct wm_wait *w);
void wm_domain_sleep(struct wm_domain *d, struct wm_wait *w); /* without polls: at once */
void wm_domain_leave(struct wm_domain *d, struct wm_wait *w); /* after an idle step */
static inline void wm_domain_left(struct wm_domain *d, struct wm_wait *w)
{
    if (rt_unlikely(w->counted))
        wm_domain_leave(d, w);
}
/* Stores in `p` the descriptors that wake a sleeper beside its bell, at most WM_BTL_MAX.  Each
 * transport prepares for the sleep and may shorten it.  -1: one of them has work already.  Under
 * the lock; one wm_progress() must follow before the sleep. */
int wm_domain_sleep_fds(const struct wm_domain *d, struct pollfd *p, int *limit_us);
/* The last step of a call that polls and does not wait, without the lock.  Programs make such calls
 * in loops.  Where other ranks or threads need the core, calls in a loop that find nothing follow
 * the policy of waits (runtime/base/idle.h): the thread yields, then sleeps until an event, for a
 * short time. */
void wm_domain_polled(bool found);

#endif
