/* SPDX-License-Identifier: BSD-3-Clause */
/* How a window is to be created: shared by create.c and the bodies in alloc.c. */
#ifndef WM_RMA_CREATE_H
#define WM_RMA_CREATE_H

#include "mpi/rma/rma.h"

struct wm_rma_plan {
    int flavor;
    bool allocates;  /* the memory is in the window's file */
    bool contiguous; /* from process to process of a host */
    bool dynamic;
    bool device; /* memory of the current device is wanted: hint weft_memory_kind */
    char *base;
    MPI_Aint nbytes, unit, align;
    const struct wm_info *info;
};

/* What the processes of a host exchange. */
struct wm_rma_share {
    int64_t nbytes, align;
};
struct wm_rma_host { /* of one creation */
    int *ranks, me;  /* ranks of the window on this host; index of this process */
    struct wm_rma_share *share;
    int64_t align; /* of all */
};

/* Collective over `comm`.  `failed`: an error class that wm_err() has returned in this process; the
 * call then fails in all processes. */
int wm_rma_create(struct wm_comm *comm, const struct wm_rma_plan *p, int failed,
                  struct wm_win **out);

/* Whether [base, base + nbytes) of this process is device memory.  MPI_SUCCESS or an error class.
 * Under the domain's lock. */
int wm_rma_look(const void *base, int64_t nbytes, bool *device);

#endif
