/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocking waits that end when a process of the communicator has died.  Mpirun ends the job of such
 * a process; without mpirun's help, calls return MPI_ERR_PROC_ABORTED instead of waiting for ever.
 * Under the domain's lock. */
#ifndef WM_COLL_ALIVE_H
#define WM_COLL_ALIVE_H

#include "mpi/base/comm.h"
#include "mpi/p2p/wait.h"

/* For a caller that polls: zero at first.  True: a process of `c` has died, and that was not
 * returned before. */
struct wm_alive {
    uint32_t seen; /* rt_interrupts() */
};
bool wm_alive_look(struct wm_comm *c, struct wm_alive *l);
/* Sends the living processes of `c` the names of the dead ones that this process knows.  Their
 * waits for the dead end, in any communicator, also without a connection to the dead. */
void wm_alive_report(struct wm_comm *c);
/* The same, and ends the waits of the others on `c`, the communicator of a file, also if no death
 * is known. */
void wm_alive_notify(struct wm_comm *c);
/* Waits until ready(arg), which any thread may call.  0, or -RT_EPEER: a process of `c` has died
 * before. */
int wm_alive_until(struct wm_comm *c, bool (*ready)(void *arg), void *arg, struct wm_what what);
/* Waits for a receive and cancels it if a process of `c` dies.  0, or -RT_EPEER: cancelled. */
int wm_alive_receive(struct wm_comm *c, struct rt_req *r);
/* wm_coll_run() that ends when a process of `c` dies, for a call whose only buffer is rbuf, with
 * 64-bit integers: v[n], n <= WM_ALIVE_NUMBERS, filled after success.  `k`: memory that lives as
 * long as `c`.  0 or -RT_E...  After -RT_EPEER the task may not have ended: it stays among the
 * domain's tasks, so `c` must not be freed or used for another collective. */
#define WM_ALIVE_NUMBERS 6
struct wm_numbers {
    struct coll_task task;
    int64_t v[WM_ALIVE_NUMBERS];
    bool stays; /* the task */
};
int wm_alive_numbers(struct wm_comm *c, struct coll_args *a, struct wm_numbers *k, int64_t *v,
                     int n);

#endif
