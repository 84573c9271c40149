/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by all files of mpi/: object classes, handle decoding, count vectors.  A procedure
 * MPI_Xxx_yyy has three parts: a row of the API table; a generated binding MPI_Xxx_yyy/PMPI_Xxx_yyy
 * that checks the arguments by kind, decodes handles and raises
 * errors; and a hand-written body `int wm_api_xxx_yyy(...)` in its chapter's folder.  A body
 * returns MPI_SUCCESS or what wm_err() returned. */
#ifndef WM_BASE_MPI_INT_H
#define WM_BASE_MPI_INT_H

#include <stdbool.h>
#include <stdint.h>
#include "mpi.h"
#include "mpi/base/err.h"
#include "runtime/base/atomic.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/base/slab.h"

/* Slab classes, the top four bits of a handle. */
enum wm_class {
    WM_COMM = 1,
    WM_GROUP,
    WM_TYPE,
    WM_OP,
    WM_REQUEST,
    WM_ERRHANDLER,
    WM_INFO,
    WM_MESSAGE,
    WM_WIN,
    WM_FILE,
    WM_SESSION,
    WM_KEYVAL,
    WM_XSTREAM, /* MPIX_Stream */
    WM_TOOL,    /* handles of the tool information interface */
    WM_CLASSES
};

#define WM_PREDEFINED_MAX 0x1000u /* handles below are the ABI's constants */

struct wm_comm;
struct wm_group;
struct wm_type;
struct wm_op;
struct wm_errh;
struct wm_info;
struct wm_win;
struct wm_file;
struct wm_session;
struct wm_message;

/* Count vectors of the v and w collectives: int[] from the plain binding, MPI_Count[] from the _c
 * binding. */
struct wm_counts {
    const void *v;
    bool wide;
};
static inline int64_t wm_count_at(struct wm_counts c, int i)
{
    return c.wide ? ((const MPI_Count *)c.v)[i] : ((const int *)c.v)[i];
}
/* Displacement vectors: int[] or MPI_Aint[]. */
struct wm_displs {
    const void *v;
    bool wide;
};
static inline int64_t wm_displ_at(struct wm_displs d, int i)
{
    return d.wide ? ((const MPI_Aint *)d.v)[i] : ((const int *)d.v)[i];
}

#endif
