/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to WEFT_CHECK: the state of a communicator. */
#ifndef WM_COLL_CHECK_INT_H
#define WM_COLL_CHECK_INT_H

#include "mpi/check/accesses.h"
#include "mpi/coll/check.h"
#include "mpi/coll/check_note.h"

/* A call that not all ranks have reported yet. */
struct check_open {
    struct rt_list link;
    uint32_t number;
    int nseen;
    struct check_note *by_rank[];
};

struct wm_check { /* state of a communicator */
    struct wm_comm *comm;
    char
        object[MPI_MAX_OBJECT_NAME + 32]; /* the window or file whose communicator it is; else "" */
    struct rt_list link;                  /* rank 0: in the list of all communicators */
    struct rt_list open;            /* rank 0: struct check_open, in the order of their numbers */
    uint32_t calls;                 /* calls made by this process */
    struct check_accesses accesses; /* of this process to a window, since the last call */
    bool freed;                     /* the user has freed it in this process */
    bool over;                      /* rank 0: freed in all processes */
};

#endif
