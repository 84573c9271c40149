/* SPDX-License-Identifier: BSD-3-Clause */
/* What a process leaves unfinished in MPI_Finalize.  Under the domain's lock. */
#ifndef WM_P2P_LEFT_H
#define WM_P2P_LEFT_H

#include "mpi/p2p/domain.h"

struct rt_wait_note; /* runtime/mem/activity.h */

/* `describe` of the wait of MPI_Finalize: the unfinished messages of domain `d`. */
void wm_left_describe(const void *d, struct rt_wait_note *n);
/* After that wait: one warning that names the first sends that no receive has matched and the first
 * receives that no send has matched; none for requests that are complete and were not freed.
 * `given_up`: messages to or from this process have no chance any more; NULL: all are finished. */
void wm_left_report(const struct wm_domain *d, const struct wm_peer *given_up);

#endif
