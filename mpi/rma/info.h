/* SPDX-License-Identifier: BSD-3-Clause */
/* Hints of windows. */
#ifndef WM_RMA_INFO_H
#define WM_RMA_INFO_H

#include "mpi/rma/rma.h"

int wm_rma_notes_wanted(const struct wm_info *info); /* hint weft_notifications, or the default */
/* MPI_SUCCESS or an error class. */
int wm_rma_set_hints(struct wm_rma *r, const struct wm_info *info);
bool wm_rma_is_device_kind(const char *v); /* a value of the hint weft_memory_kind */

#endif
