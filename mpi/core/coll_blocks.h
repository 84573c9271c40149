/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of a user's buffers that a collective call reads and defines. */
#ifndef WM_CORE_COLL_BLOCKS_H
#define WM_CORE_COLL_BLOCKS_H

#include "mpi/core/comm.h"

enum wm_side { WM_SEND, WM_RECV };

struct wm_block {
    const struct rt_layout *l; /* NULL: an empty one without a type */
    int64_t n;
    uintptr_t at; /* the user's address */
    bool in, out; /* read; defined by the call */
};

/* A side has no blocks when this process does not use its buffer or gives MPI_IN_PLACE, one for
 * each process or neighbour in the v and w forms, and where in place blocks differ in what they
 * are.  Block i begins where the blocks before it end, but for the v and w forms.  `c` is not
 * looked at for the kinds that treat all processes alike without blocks for each. */
int wm_blocks_of(const struct coll_args *a, const struct wm_comm *c, enum wm_side side);
struct wm_block wm_block_at(const struct coll_args *a, const struct wm_comm *c, enum wm_side side,
                            int i);
/* Whether the displacements say where blocks lie. */
bool wm_blocks_apart(enum coll_kind kind, enum wm_side side);
static inline int64_t wm_block_nbytes(const struct wm_block *b)
{
    return b->n > 0 ? b->n * b->l->size : 0;
}
/* Elements that the call defines: less than block.n of a vector reduced in place and scattered. */
int64_t wm_block_defined(const struct coll_args *a, const struct wm_comm *c,
                         const struct wm_block *b);

#endif
