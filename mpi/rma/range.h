/* SPDX-License-Identifier: BSD-3-Clause */
/* Which memory of a window may be accessed. */
#ifndef WM_RMA_RANGE_H
#define WM_RMA_RANGE_H

#include "mpi/rma/rma.h"

/* Where the elements at a target begin and end: bytes relative to the first element's address. */
void wm_rma_span(const struct rt_layout *l, int64_t count, int64_t *low, int64_t *high);
/* Whether [low, high) of this process's window, or of its address space for a dynamic window, may
 * be accessed. */
bool wm_rma_in_window(const struct wm_rma *r, int64_t low, int64_t high);
/* The same for the data of elements at `at` without their gaps: regions that are attached to a
 * dynamic window need not adjoin. */
bool wm_rma_pieces_in_window(const struct wm_rma *r, const struct rt_layout *l, int64_t count,
                             int64_t at);

#endif
