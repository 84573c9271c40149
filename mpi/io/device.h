/* SPDX-License-Identifier: BSD-3-Clause */
/* The access of one rank from or to device memory. */
#ifndef WM_IO_DEVICE_H
#define WM_IO_DEVICE_H

#include "mpi/io/iop.h"

/* Shorter accesses, in bytes, gain nothing by GPUDirect Storage: libcufile moves data in pieces of
 * this length, and registering a file takes longer than a copy. */
#define WM_STORAGE_LEAST (1 << 20)
/* As wm_indep_run(). */
int wm_device_run(struct wm_iop *op, struct wm_rooms *r);

#endif
