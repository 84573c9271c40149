/* SPDX-License-Identifier: BSD-3-Clause */
/* Origins of a window as their target knows them. */
#ifndef WM_RMA_ORIGIN_H
#define WM_RMA_ORIGIN_H

#include "mpi/rma/rma.h"
#include "mpi/rma/type.h"

/* A rank of the window as an origin, as the target knows it; made by its first message. */
struct wm_rma_origin {
    struct wm_rma_origin *next; /* hash chain */
    int rank;
    struct wm_peer *peer;
    struct wm_rma_want want; /* the lock of this process's memory that it holds or waits for */
    struct wm_rma_layouts layouts;
};

/* Of a rank, from which a message has come over `p`.  Ends the job if there is no memory. */
struct wm_rma_origin *wm_rma_origin(struct wm_rma *r, int rank, struct wm_peer *p);
void wm_rma_origins_free(struct wm_rma *r);

#endif
