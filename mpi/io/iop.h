/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations: one access of one rank to a file, in any form; and the way of their data. */
#ifndef WM_IO_IOP_H
#define WM_IO_IOP_H

#include "mpi/io/file.h"
#include "mpi/io/view.h"
#include "mpi/p2p/resolve.h"

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

/* A run of COARSE bytes has a call of its own, which is cheaper than a copy.  A gap below GAP bytes
 * is read, which is cheaper than another call.  SIEVE: most bytes read at once with gaps. */
#define WM_IOP_COARSE 4096
#define WM_IOP_GAP 4096
#define WM_IOP_SIEVE (1 << 20)
#define WM_IOP_IMAGE (1 << 20)

/* Buffers of an operation. */
struct wm_rooms {
    char image[WM_IOP_IMAGE], sieve[WM_IOP_SIEVE];
};

/* Whether a job thread may carry out the operation, and the MPI error of one that failed. */
bool wm_iop_may_be_a_job(const struct wm_iop *op);
int wm_iop_error(const struct wm_iop *op, int rt_err);

/* The file's side of an operation, between `image`, contiguous host memory, and positions
 * [pos, pos + len) of the view.  `r` NULL: without data sieving.  Returns the bytes moved, of a
 * read less at the end of the file; -RT_E... */
int64_t wm_iop_move(const struct wm_iop *op, struct wm_rooms *r, char *image, int64_t pos,
                    int64_t len);
/* The same for reading by one call for each run. */
int64_t wm_iop_read(const struct wm_iop *op, char *image, int64_t pos, int64_t len);
/* True: the first runs at these positions are short and most gaps between them, too. */
bool wm_iop_sieves(const struct wm_view *v, int64_t pos, int64_t len);

/* What of the operation is in [from, to) of the file, in an ordered view: returns the bytes of data
 * from *pos on, relative to the operation's first. */
int64_t wm_iop_part(const struct wm_iop *op, int64_t from, int64_t to, int64_t *pos);
/* Copies `len` bytes of data from `pos` on between user memory and `packed`, which the operation
 * reads or writes.  Under the file's lock for device memory.  0 or -RT_E... */
int wm_iop_pack(const struct wm_iop *op, int64_t pos, char *packed, int64_t len);

#endif
