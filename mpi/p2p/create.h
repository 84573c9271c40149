/* SPDX-License-Identifier: BSD-3-Clause */
/* Creation and end of a domain. */
#ifndef WM_P2P_CREATE_H
#define WM_P2P_CREATE_H

#include "mpi/p2p/domain.h"

/* Opens the transports of cfg.btl.  0 or -RT_E...; -RT_EUNREACH when none opens. */
int wm_domain_create(struct wm_domain **out);
/* The same over the caller's own table of transports, for tests. */
int wm_domain_create_over(const struct btl_ops *const *all, struct wm_domain **out);
/* Lane `lane` of this process, not 0: lane.h. */
int wm_domain_create_lane(int lane, struct wm_domain **out);
void wm_domain_destroy(struct wm_domain *d);
/* Called after MPI_Finalize or the last session's end: finishes what other processes still wait for
 * and frees what is cached.  Connections stay as they are.  wm_domain_resume() comes before the
 * next use; 0 or -RT_ENOMEM.  Both without the lock. */
void wm_domain_rest(struct wm_domain *d);
/* Publishes that this process is in MPI_Finalize, or uses MPI again: on this host in the segment,
 * to other hosts by a message to each process with which there was communication. */
void wm_domain_publish_leaving(struct wm_domain *d, bool leaving);
int wm_domain_resume(struct wm_domain *d);

#endif
