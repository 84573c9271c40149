/* SPDX-License-Identifier: BSD-3-Clause */
/* Nonblocking duplication of communicators. */
#ifndef WM_CORE_IDUP_H
#define WM_CORE_IDUP_H

#include "mpi/base/comm.h"

/* Waits for duplications that failed in this process but that other processes still need; called by
 * MPI_Finalize and MPI_Session_finalize, without the domain's lock. */
void wm_comm_finish_dropped(struct wm_domain *dom);

#endif
