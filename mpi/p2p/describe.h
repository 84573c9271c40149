/* SPDX-License-Identifier: BSD-3-Clause */
/* What a wait is for, as a note for other processes (runtime/mem/activity.h).  Called under the
 * domain's lock, by waits that are older than a millisecond. */
#ifndef WM_P2P_DESCRIBE_H
#define WM_P2P_DESCRIBE_H

#include "mpi/p2p/domain.h"
#include "runtime/mem/activity.h"

struct rt_req;

/* The communicator of the wait. */
void wm_describe_comm(struct rt_wait_note *n, const struct wm_comm *c);
/* A message or a process of communicator c; peer may be a wildcard. */
struct rt_wait_item wm_describe_item(enum rt_wait_kind kind, const struct wm_comm *c, int peer,
                                     int tag, int64_t nbytes);
/* The item is all that the wait is for. */
void wm_describe_one(struct rt_wait_note *n, const struct wm_comm *c, struct rt_wait_item item);
/* A request of any kind; `what` of waits for one. */
void wm_describe_request(const void *request, struct rt_wait_note *n);
/* A point-to-point request; `describe` of their operations. */
void wm_describe_preq(const void *preq, struct rt_wait_note *n);
/* One more request for which the wait waits. */
void wm_describe_add(struct rt_wait_note *n, const struct rt_req *r);
/* Adds what others may need of this process: unexpected messages, those of the wait's communicator
 * first; the locks of windows that it holds, also for a wait of a lane without windows. */
void wm_describe_unexpected(struct wm_domain *d, struct rt_wait_note *n);
void wm_describe_locks(const struct wm_domain *d, struct rt_wait_note *n);

/* One more lock, of a target in a window on c; MPI_ANY_SOURCE: of all. */
void wm_describe_held(struct rt_wait_note *n, const struct wm_comm *c, int target);

/* For a receive that nothing has matched: " (tag 8 is here)" if another message of its source is
 * there; else "". */
void wm_describe_instead(const struct wm_comm *c, int source, char *out, size_t len);
/* The error of a receive or probe whose source has gone, as wm_err_rt() returns it.  Names a
 * message that is there instead. */
int wm_err_gone(const struct wm_comm *c, int source, int tag);

#endif
