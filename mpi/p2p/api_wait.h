/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a request, for bodies of calls that wait. */
#ifndef WM_P2P_API_WAIT_H
#define WM_P2P_API_WAIT_H

#include "mpi/p2p/request.h"

/* Waits for r, fills the status and releases r; returns MPI_SUCCESS or what wm_err() returned. */
int wm_req_wait(struct wm_domain *d, struct rt_req *r, MPI_Status *status);
/* MPI_Wait for a request and a status of this library, whatever the ABI of the caller. */
int wm_req_wait_handle(MPI_Request request, MPI_Status *status);
/* The MPI error of a completed request, with its text. */
int wm_req_error(const struct rt_req *r);

#endif
