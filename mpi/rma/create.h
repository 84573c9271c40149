/* SPDX-License-Identifier: BSD-3-Clause */
/* How a window is to be created: shared by create.c and the bodies in alloc.c. */
#ifndef WM_RMA_CREATE_H
#define WM_RMA_CREATE_H

#include "mpi/rma/rma.h"

struct wm_rma_plan {
    int flavor;
    bool allocates;  /* the memory is in the window's file */
    bool contiguous; /* the memories of a host's processes adjoin */
    bool dynamic;
    bool device; /* memory of the current device is wanted: hint weft_memory_kind */
    char *base;
    MPI_Aint nbytes, unit, align; /* align: of the memory, bytes */
    const struct wm_info *info;
};

/* What each process of a host sends to the others. */
struct wm_rma_share {
    int64_t nbytes, align, nnotes;
};
struct wm_rma_host { /* of one creation */
    int *ranks, me;  /* ranks of the window on this host; index of this process */
    struct wm_rma_share *share;
    int64_t align; /* of all */
};

/* Collective over `comm`.  `failed`: an error class that wm_err() has returned in this process; the
 * call then fails in all processes.  MPI_SUCCESS or an error class. */
int wm_rma_create(struct wm_comm *comm, const struct wm_rma_plan *p, int failed,
                  struct wm_win **out);

/* Whether [base, base + nbytes) of this process is device memory.  MPI_SUCCESS or an error class.
 * Under the domain's lock. */
int wm_rma_look(const void *base, int64_t nbytes, bool *device);

#endif
