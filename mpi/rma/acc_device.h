/* SPDX-License-Identifier: BSD-3-Clause */
/* Accumulates on device memory by kernels, and short copies. */
#ifndef WM_RMA_ACC_DEVICE_H
#define WM_RMA_ACC_DEVICE_H

#include "mpi/rma/element.h"

/* wm_rma_acc() for a part of at most 32 KiB of device memory, whose stripes the
 * caller holds.  -RT_ENOTSUP: there is no kernel for it, and nothing has been changed. */
int wm_rma_acc_device(const struct wm_rma_acc *a, int64_t done, int64_t len);
/* wm_rma_acc() of a part, and wm_rma_cas(), by atomic operations of the device.  -RT_ENOTSUP: such
 * elements are not changed by atomic operations, and nothing has been changed. */
int wm_rma_acc_atomic(const struct wm_rma_acc *a, int64_t done, int64_t len);
int wm_rma_cas_atomic(const struct wm_rma_acc *a, const void *compare);

/* wm_pack_now() and wm_unpack_now() for buffers that are known to be device memory; faster for
 * short ones.  0 or -RT_E...  Not from a callback of runtime/gpu. */
int wm_rma_pack(const struct wm_mem *mem, const struct rt_layout *l, int64_t count, const void *buf,
                int64_t pos, void *out, int64_t n);
int wm_rma_unpack(const struct wm_mem *mem, const struct rt_layout *l, int64_t count, void *buf,
                  int64_t pos, const void *in, int64_t n);

#endif
