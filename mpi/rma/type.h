/* SPDX-License-Identifier: BSD-3-Clause */
/* Datatypes of targets in messages. */
#ifndef WM_RMA_TYPE_H
#define WM_RMA_TYPE_H

#include "mpi/rma/format.h"
#include "mpi/rma/target.h"

/* Layouts that a target keeps for an origin. */
#define WM_RMA_SLOTS 32
#define WM_RMA_NO_SLOT 0xffffu /* the target's data are contiguous */

struct wm_rma_layouts {
    struct rt_layout *slot[WM_RMA_SLOTS];
    char *partial; /* a layout that arrives in parts */
    int64_t npartial;
};

/* The slot in which the target has this layout; the layout is sent first if the target does
 * not have it.  WM_RMA_NO_SLOT for contiguous layouts; -RT_E... */
int wm_rma_slot(struct wm_rma *r, struct wm_rma_target *t, const struct rt_layout *l);
void wm_rma_types_free(struct wm_rma_target *t);
/* A part of a layout has arrived.  0 or -RT_E... */
int wm_rma_on_type(struct wm_rma_layouts *k, const struct wm_rma_msg *m, const char *data);
void wm_rma_slots_free(struct wm_rma_layouts *k);

#endif
