/* SPDX-License-Identifier: BSD-3-Clause */
/* Host memory in place of the device buffers of one collective call (design: stage.c).  Under the
 * domain's lock. */
#ifndef WM_COLL_STAGE_H
#define WM_COLL_STAGE_H

#include "coll/coll.h"
#include "mpi/p2p/pipe.h"
#include "runtime/gpu/gpu.h"

struct wm_stage_piece; /* the copy of one block */

struct wm_stage_side {
    int n;                         /* blocks; 0: the side is not staged */
    struct wm_stage_piece *pieces; /* [n] */
    char *mem;                     /* packed blocks; or the mirror of block 0, owned */
    bool mirror;
    int64_t low;             /* mirror: offset of its first byte from the block's address */
    size_t len;              /* length of mem in bytes */
    struct rt_layout l, *ls; /* of all blocks; w forms: one per block */
    const struct rt_layout **types;
    int64_t *displs;
};

struct wm_stage {
    struct coll_args user;        /* as the call passed them; vectors and layouts are the call's */
    const struct coll_team *team; /* NULL: MPI_Reduce_local */
    struct wm_stage_side side[2];
    struct rt_gpu_stage *pinned; /* the memory, owned: pinned or plain, not both */
    char *plain;
    bool in_parts;       /* some copies go in parts, through: */
    struct wm_pipe pipe; /* a slot's `up` is its copy */
    int64_t part_nbytes;
    struct wm_stage_piece *first, **last; /* waiting copies, of which parts are not started yet */
    int npending;                         /* copies in progress, without parts */
    void *blank; /* in place of memory for the data, which there is not; nothing is copied */
    int err;     /* of a failed copy; -RT_ENOMEM with `blank` */
};

/* Resolves a block. */
int wm_block_resolve(const struct coll_block *b, struct wm_mem *out);
/* Whether any block of a side is device memory. */
bool wm_side_on_device(const struct coll_args *a, const struct coll_team *t, enum coll_side which);

/* Finds and checks the buffers and allocates memory; without memory for the data, `err` is set.  0,
 * -RT_EADDR, -RT_ENOMEM or -RT_EGPU. */
int wm_stage_create(const struct coll_args *a, const struct coll_team *t, struct wm_stage **out);
/* Not while messages may be in flight into the memory; they also use the layouts stored here. */
void wm_stage_destroy(struct wm_stage *s);
/* Replaces the device buffers in the arguments of the same call by host memory. */
void wm_stage_replace(const struct wm_stage *s, struct coll_args *a);
/* Starts the copies of a side. in: of the blocks that the call reads; out: of the blocks that it
 * has defined.  Errors are stored in s->err. */
void wm_stage_copy(struct wm_stage *s, enum coll_side which, bool in);
bool wm_stage_copied(struct wm_stage *s); /* all copies complete; makes progress */

#endif
