/* SPDX-License-Identifier: BSD-3-Clause */
/* Packing and unpacking where either side may be host or device memory, finished on return
 * (MPI_Pack and its companions).  Any thread; they take the domain's lock when a device is
 * involved. */
#ifndef WM_P2P_PACK_ANY_H
#define WM_P2P_PACK_ANY_H

#include "runtime/layout/layout.h"

/* As rt_layout_pack() and _unpack().  0 or -RT_E... */
int wm_pack_any(const struct rt_layout *l, int64_t count, const void *buf, int64_t pos, void *out,
                int64_t nbytes);
int wm_unpack_any(const struct rt_layout *l, int64_t count, void *buf, int64_t pos, const void *in,
                  int64_t nbytes);
/* The MPI error for a negative return code, with its text. */
int wm_any_error(int err);

#endif
