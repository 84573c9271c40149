/* SPDX-License-Identifier: BSD-3-Clause */
/* Views: which bytes of the file a rank sees, in which order (MPI-5.0 section 14.3).  A view never
 * changes; the file and each operation hold a reference.  Positions in a view are counted in bytes
 * of data, from 0 on; etypes only at the API. */
#ifndef WM_IO_VIEW_H
#define WM_IO_VIEW_H

#include "mpi/datatype/type.h"
#include "runtime/layout/runs.h"

struct wm_datarep; /* datarep.h */
struct wm_view {
    int32_t refs;                     /* atomic */
    MPI_Offset disp;                  /* bytes */
    struct wm_type *etype, *filetype; /* referenced */
    int64_t esize;                    /* bytes of data of an etype; 0 only with an empty filetype */
    const struct wm_datarep *rep;     /* NULL: as in memory */
    struct wm_type *stored;           /* of `rep`: the filetype in the file; NULL */
    const struct rt_layout *file;     /* of the filetype, in the file */
    struct rt_layout_facts facts;     /* of `file` */
    int64_t piece; /* mean bytes in a row that a rank sees, of the rank with most; INT64_MAX: the
                    * view of a rank has no gaps.  The same on all ranks */
    char datarep[MPI_MAX_DATAREP_STRING];
};

/* The view of a file that has just been opened: bytes.  MPI_SUCCESS or MPI_ERR_NO_MEM. */
int wm_view_default(struct wm_view **out);
void wm_view_ref(struct wm_view *v);
void wm_view_unref(struct wm_view *v);

/* Offset in the file of the byte at a position. */
static inline int64_t wm_view_offset(const struct wm_view *v, int64_t pos)
{
    return v->disp + (v->file->contig ? pos : rt_layout_offset(v->file, pos));
}
/* Bounds of the bytes at positions [pos, pos + len), len > 0: [*from, *to) of the file. */
void wm_view_hull(const struct wm_view *v, int64_t pos, int64_t len, int64_t *from, int64_t *to);
/* Bytes of data before an offset in the file; of a view that is not ordered, a bound from below. */
int64_t wm_view_below(const struct wm_view *v, int64_t off);

#endif
