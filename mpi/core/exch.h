/* SPDX-License-Identifier: BSD-3-Clause */
/* Small exchanges among some or all ranks of a communicator, for making new ones: no dependence on
 * collective algorithms, which need a complete communicator themselves. */
#ifndef WM_CORE_EXCH_H
#define WM_CORE_EXCH_H

#include "mpi/core/comm.h"

struct wm_exch {
    struct wm_comm *comm;
    const int *ranks; /* participants as ranks of `comm`; NULL: all of them */
    int n, me;        /* participants; index of this process among them */
    int tag;          /* on the collective context; >= WM_TAG_COMM */
    /* Two groups: `comm` is the one of this process, and its participant `leader` meets the other
     * group's, which is rank `far` of `across`.  Only the leader looks at the last three. */
    bool two;
    int leader;
    struct wm_comm *across;
    int far, far_tag;
    /* Waits for a receive in place of wm_domain_wait(), and may cancel it; 0 or -RT_E... NULL-able.
     */
    int (*await)(void *arg, struct rt_req *r);
    void *arg;
};

/* All processes of `c`, those of both groups of an intercommunicator. */
struct wm_exch wm_exch_all(struct wm_comm *c, int tag);

#define WM_EXCH_MAX 256 /* bytes that can be combined */

/* inout[] becomes the combination of all participants' contributions, in both groups if there are
 * two.  merge(inout, in) must be
 * associative and commutative. Called under the domain's lock; waits. */
int wm_exch_combine(const struct wm_exch *x, void *inout, int64_t nbytes,
                    void (*merge)(void *inout, const void *in));
/* all[] (n times nbytes) collects every participant's mine[], of this process's group. */
int wm_exch_allgather(const struct wm_exch *x, const void *mine, int64_t nbytes, void *all);
/* The leader's data to its own group; both leaders' data to each other, called by them alone. */
int wm_exch_bcast(const struct wm_exch *x, void *buf, int64_t nbytes);
int wm_exch_swap(const struct wm_exch *x, const void *out, int64_t out_nbytes, void *in,
                 int64_t in_nbytes);

#endif
