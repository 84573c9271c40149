/* SPDX-License-Identifier: BSD-3-Clause */
/* WEFT_CHECK: do the processes agree on their collective calls? Every process numbers its calls on
 * a communicator and sends rank 0 a note about each call: name, root, operation, signature of the
 * data.  Rank 0 compares the notes in the progress loop, whatever it is waiting for itself.  At a
 * difference it ends the job with a message that names the ranks and the difference.  No process
 * waits for a note, so calls keep their timing.
 *
 * The check finds: a different call, form (blocking, nonblocking, persistent), root or operation;
 * data of a different size or of different basic types, also where each pair of ranks has its own
 * (v and w forms); a call that some rank never makes, once that rank has reached MPI_Finalize; and
 * in MPI_Finalize requests, messages and communicators that are left over.  Notes use the
 * collective context. */
#ifndef WM_COLL_CHECK_H
#define WM_COLL_CHECK_H

#include "mpi/base/comm.h"
#include "runtime/base/cfg.h"

struct wm_call;

/* At the start of a collective call.  Without the domain's lock.  Only if cfg.check is set. */
void wm_check_call(const struct wm_call *call);
void wm_check_named(struct wm_comm *c, const char *name); /* a call that is compared by name only */
/* The same for an object with a communicator of its own: `kind` "window" or "file". */
void wm_check_object(struct wm_comm *c, const char *kind, const char *name, const char *call);
/* An access to the memory of a window, whose communicator `c` is, in the epoch that the next
 * collective call ends: mpi/check/accesses.h.  Under the lock. */
void wm_check_access(struct wm_comm *c, int target, int kind, int64_t low, int64_t high);
/* A collective call of this thread has failed, perhaps because of a disagreement. */
void wm_check_failed(const struct wm_comm *c);
/* The error has been reported, and the job is about to be aborted: gives rank 0 time to report the
 * disagreement.  Without the lock. */
void wm_check_before_abort(void);
/* The library itself frees a communicator, because its creation failed in this process, perhaps not
 * in others; no effect if the user has freed it.  Under the lock. */
void wm_check_freed(struct wm_comm *c);
/* The communicator is being destroyed; under the lock. */
void wm_check_drop(struct wm_comm *c);
/* MPI_Finalize of the world model, while everything is still up.  Collective; waits for all
 * processes.  `last`: no session is open. */
void wm_check_finalize(struct wm_comm *world, bool last);

#endif
