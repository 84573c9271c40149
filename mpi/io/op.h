/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations: one access of one rank to a file, in any form. */
#ifndef WM_IO_OP_H
#define WM_IO_OP_H

#include "mpi/io/file.h"
#include "mpi/io/view.h"
#include "mpi/p2p/resolve.h"

/* What a call of the API says. */
enum wm_where { WM_AT, WM_OWN, WM_SHARED, WM_ORDERED }; /* explicit offset; file pointers */
struct wm_access {
    struct wm_file *file;
    bool write;
    enum wm_where where;
    MPI_Offset offset; /* WM_AT: in etypes */
    void *buf;
    MPI_Count count;
    struct wm_type *type;
};

struct wm_iop {
    struct wm_file *file;
    struct wm_view *view; /* referenced */
    bool write;
    char *buf; /* user memory: `count` elements of `mem` */
    const struct rt_layout *mem;
    int64_t count;
    struct wm_mem where;  /* user memory: resolved where the call begins */
    struct wm_type *type; /* of the memory, for conversions */
    int64_t item;         /* bytes of an element in the file */
    int64_t pos, nbytes;  /* in the view, bytes of data */
    int64_t moved; /* bytes of data that have arrived; of a read, less at the end of the file */
};

/* Blocking, and as a request, by one rank.  These calls and those of all ranks return MPI_SUCCESS,
 * or an error class with its text. */
int wm_io_run(const struct wm_access *a, MPI_Status *status);
int wm_io_start(const struct wm_access *a, MPI_Request *request);
/* The same by all ranks of the file, and in two halves: split.c. */
int wm_io_run_all(const struct wm_access *a, MPI_Status *status);
int wm_io_start_all(const struct wm_access *a, MPI_Request *request);
int wm_io_begin(const struct wm_access *a);
int wm_io_end(const struct wm_access *a, MPI_Status *status);
/* How the ranks divide a collective access, for weft_info. */
const char *wm_io_collective_plan(void);

/* Whether a job thread may carry out the operation, and the MPI error of one that failed. */
bool wm_iop_may_be_a_job(const struct wm_iop *op);
int wm_iop_error(const struct wm_iop *op, int rt_err);
/* Carries out an operation of this rank alone; takes the domain's lock only for device memory.  Any
 * thread.  0 or -RT_E...; sets op->moved. */
int wm_indep_run(struct wm_iop *op);

/* What of the operation is in [from, to) of the file, in an ordered view: returns the bytes of data
 * from *pos on, relative to the operation's first. */
int64_t wm_iop_part(const struct wm_iop *op, int64_t from, int64_t to, int64_t *pos);
/* Copies `len` bytes of data from `pos` on between user memory and `packed`, which the operation
 * reads or writes.  0 or -RT_E... */
int wm_iop_pack(const struct wm_iop *op, int64_t pos, char *packed, int64_t len);

/* When the access of one rank goes from one way to another, for weft_info. */
struct wm_indep_limits {
    int64_t coarse;  /* bytes of a run from which it has a call of its own */
    int64_t sieve;   /* bytes read at once with the gaps between runs */
    int64_t gap;     /* bytes of a gap between short runs from which it is not read */
    int64_t storage; /* bytes of an access from which GPUDirect Storage may move them */
};
void wm_indep_limits(struct wm_indep_limits *out);

/* For data that pass through memory of the host: the file's side of an operation between `image`,
 * contiguous host memory, and positions [pos, pos + len) of the view.  Returns the bytes moved, of
 * a read less at the end of the file; -RT_E... */
struct wm_rooms; /* buffers of indep.c */
char *wm_rooms_image(struct wm_rooms *r, int64_t *len);
int64_t wm_indep_move(const struct wm_iop *op, struct wm_rooms *r, char *image, int64_t pos,
                      int64_t len);
/* The same for reading by one call for each run. */
int64_t wm_indep_read(const struct wm_iop *op, char *image, int64_t pos, int64_t len);
/* wm_indep_run() for device memory: device.c.  Shorter accesses gain nothing by GPUDirect Storage:
 * libcufile moves data in pieces of this length, and registering a file takes longer than a copy.
 */
#define WM_STORAGE_LEAST (1 << 20)
int wm_indep_device(struct wm_iop *op, struct wm_rooms *r);

#endif
