/* SPDX-License-Identifier: BSD-3-Clause */
/* WEFT_CHECK: do the processes agree on their collective calls?  Every process numbers its calls on
 * a communicator and sends rank 0 a note about each: name, root, operation, signature of the data.
 * Rank 0 compares in the progress loop, whatever itself is waiting for, and ends the job with a
 * message that says who differs and how.  Nobody waits for a note, so calls keep their timing.
 *
 * What it finds: another call, form (blocking, nonblocking, persistent), root or operation; data
 * of another size or of other basic types, also where each pair of ranks has its own (v and w
 * forms); a call that some rank never makes, once it has reached MPI_Finalize; and in MPI_Finalize
 * requests, messages and communicators that are left over.  Notes travel on the collective
 * context. */
#ifndef WM_COLL_CHECK_H
#define WM_COLL_CHECK_H

#include "mpi/core/comm.h"
#include "runtime/base/cfg.h"

struct wm_call;

/* A collective call begins.  Without the domain's lock.  Call them when cfg.check is set. */
void wm_check_call(const struct wm_call *call);
void wm_check_named(struct wm_comm *c, const char *name); /* of which only the name is known */
/* A collective call has failed: perhaps because of a disagreement, so rank 0 gets a moment to say
 * so.  Without the lock. */
void wm_check_failed(struct wm_comm *c);
/* The library itself frees a communicator, whose making failed here, perhaps not elsewhere; nothing
 * when the user has freed it.  Under the lock. */
void wm_check_freed(struct wm_comm *c);
/* The communicator goes; under the lock. */
void wm_check_drop(struct wm_comm *c);
/* MPI_Finalize of the world model, with everything still up.  Collective; waits for all. */
void wm_check_finalize(struct wm_comm *world);

#endif
