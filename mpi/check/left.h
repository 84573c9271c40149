/* SPDX-License-Identifier: BSD-3-Clause */
/* WEFT_CHECK keeps the processes in MPI_Finalize until all have called it.  A process that waits
 * for a message of one of them gets the same error as if that one had left.  Under the domain's
 * lock. */
#ifndef WM_CHECK_LEFT_H
#define WM_CHECK_LEFT_H

#include "mpi/p2p/domain.h"

/* Watches, from the first message of the user on, for processes that are in MPI_Finalize. */
void check_left_watch(struct wm_domain *d);
/* This process is in MPI_Finalize: publishes that, after all that it has sent. */
void check_left_publish(struct wm_domain *d);

#endif
