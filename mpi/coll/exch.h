/* SPDX-License-Identifier: BSD-3-Clause */
/* Small exchanges among some or all ranks of a communicator, for creating communicators.  They do
 * not use collective algorithms, which need a complete communicator.  They allocate nothing but
 * requests: a participant without memory could not notify the others.  Functions that return int
 * return 0 or -RT_E...; -RT_EPEER: a process has died. */
#ifndef WM_COLL_EXCH_H
#define WM_COLL_EXCH_H

#include "mpi/base/comm.h"

struct wm_exch {
    struct wm_comm *comm;
    /* Participants: ranks of `comm`, or the members of a group, all of them in `comm`; both NULL:
     * all ranks. */
    const int *ranks;
    const struct wm_group *members;
    int n, me; /* number of participants; index of this process */
    int tag;   /* on the collective context: WM_TAG_..., which collectives do not use */
    /* Two groups: `comm` is the one of this process.  Its participant `leader` exchanges messages
     * with the other group's leader, which is rank `far` of `across`.  Only the leader uses
     * `across`, `far` and `far_tag`. */
    bool two;
    int leader;
    struct wm_comm *across;
    int far, far_tag;
    /* Waits for a receive, and may cancel it; returns 0 or -RT_E..., -RT_EREMOTE if another
     * participant has had an error.  NULL: wm_alive_receive(). */
    int (*await)(void *arg, struct rt_req *r);
    void *arg;
};

/* All processes of `c`; of an intercommunicator, those of both groups.  The tag is that of the
 * collective call on `c` in progress: messages that a failed call has left do not reach the next
 * one. */
struct wm_exch wm_exch_all(struct wm_comm *c);

#define WM_EXCH_MAX 256 /* most bytes that can be combined */

/* Combines the contributions of all participants, of both groups if there are two; each participant
 * passes its own in inout[] and gets the result there. merge(inout, in) must be associative and
 * commutative.  Called under the domain's lock; waits. */
int wm_exch_combine(const struct wm_exch *x, void *inout, int64_t nbytes,
                    void (*merge)(void *inout, const void *in));
/* The same for the largest of the participants' numbers, as error classes are; 0: none. */
int wm_exch_max(const struct wm_exch *x, int32_t *v);
/* Gathers mine[] of every participant of this process's group into all[] (n times nbytes), of which
 * mine[] may be this process's part. */
int wm_exch_allgather(const struct wm_exch *x, const void *mine, int64_t nbytes, void *all);
/* bcast: the leader's data to its own group. swap: both leaders exchange data; only they call
 * it. */
int wm_exch_bcast(const struct wm_exch *x, void *buf, int64_t nbytes);
int wm_exch_swap(const struct wm_exch *x, const void *out, int64_t out_nbytes, void *in,
                 int64_t in_nbytes);

#endif
