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
};

/* inout[] becomes the combination of all participants' contributions.  merge(inout, in) must be
 * associative and commutative. Called under the domain's lock; waits. */
int wm_exch_combine(const struct wm_exch *x, void *inout, int64_t nbytes,
                    void (*merge)(void *inout, const void *in));
/* all[] (n times nbytes) collects every participant's mine[]. */
int wm_exch_allgather(const struct wm_exch *x, const void *mine, int64_t nbytes, void *all);

#endif
