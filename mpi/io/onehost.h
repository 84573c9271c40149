/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective access by ranks of one host: the aggregators' windows are in the node segment. */
#ifndef WM_IO_ONEHOST_H
#define WM_IO_ONEHOST_H

#include "mpi/io/cop.h"

#define WM_ONEHOST_UNIT 4096 /* divides the offsets of blocks */

/* Makes f->onehost, empty, when the file is opened.  0 or -RT_ENOMEM. */
int wm_onehost_open(struct wm_file *f);
/* What this rank passes for the plan: rank 0, the offset of a block with room for the windows of
 * the aggregators that c->plan names; 0: not rank 0, or no room. */
int64_t wm_onehost_offer(const struct wm_cop *c);
/* Uses the block that rank 0 has offered, in place of an older one. */
void wm_onehost_take(struct wm_file *f, int64_t offer);
/* Carries out the plan.  `me`: the number of this aggregator, or -1. */
void wm_onehost_begin(struct wm_cop *c, int me);
/* Gives back the block, which the last rank frees, and the buffers; NULL: none. */
struct wm_onehost;
void wm_onehost_free(struct wm_onehost *o);

#endif
