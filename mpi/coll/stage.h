/* SPDX-License-Identifier: BSD-3-Clause */
/* Host memory that stands for the device buffers of one collective call (design: stage.c).
 * Under the domain's lock. */
#ifndef WM_COLL_STAGE_H
#define WM_COLL_STAGE_H

#include "coll/coll.h"
#include "runtime/gpu/gpu.h"

struct wm_stage_piece; /* a block's copy */
struct wm_stage_slot;  /* a part of one on its way through pinned memory */

struct wm_stage_side {
    int n;                         /* blocks; 0: the side is not staged */
    struct wm_stage_piece *pieces; /* [n] */
    char *mem;                     /* packed blocks; or the mirror of block 0, owned */
    bool mirror;
    int64_t low;             /* mirror: offset of its first byte from the block's address */
    size_t len;              /* bytes of mem */
    struct rt_layout l, *ls; /* of all blocks; w forms: of each */
    const struct rt_layout **types;
    int64_t *displs;
};

struct wm_stage {
    struct coll_args user;        /* as the call gave them; vectors and layouts are the call's */
    const struct coll_team *team; /* NULL: MPI_Reduce_local */
    struct wm_stage_side side[2];
    struct rt_gpu_stage *pinned; /* the memory, owned: one of the two */
    char *plain;
    struct rt_gpu_stage *bounce; /* of plain: what its copies go through, owned, or NULL: */
    struct wm_stage_slot *slots; /* it is cut into these; NULL: they are done at once */
    struct wm_stage_piece *first, **last; /* copies that have not been begun as a whole */
    int npending;                         /* copies under way */
    int err;                              /* of a copy */
};

/* Whether the block, or any of a side, is device memory. */
bool wm_block_on_device(const struct coll_block *b);
bool wm_side_on_device(const struct coll_args *a, const struct coll_team *t, enum coll_side which);

/* Finds and checks the buffers and takes memory.  -RT_EADDR, -RT_ENOMEM, -RT_EGPU. */
int wm_stage_create(const struct coll_args *a, const struct coll_team *t, struct wm_stage **out);
/* Not while messages may be under way into the memory: those look at its layouts, too. */
void wm_stage_destroy(struct wm_stage *s);
/* Puts the host memory into the arguments of the same call. */
void wm_stage_replace(const struct wm_stage *s, struct coll_args *a);
/* Starts the copies of a side, in: of what the call reads, out: of what it has defined.  Failures
 * are kept in s->err. */
void wm_stage_copy(struct wm_stage *s, enum coll_side which, bool in);
bool wm_stage_copied(const struct wm_stage *s); /* none is under way; makes progress */

#endif
