/* SPDX-License-Identifier: BSD-3-Clause */
/* Private memory of another process of this host, in any layout, by process_vm_readv and
 * process_vm_writev. */
#ifndef WM_RMA_CMA_H
#define WM_RMA_CMA_H

#include "runtime/layout/layout.h"

/* Copies bytes [pos, pos + len) of the packed form of `count` elements at `there`, an address of
 * the other process, to or from `here`.  0 or -RT_E... */
int wm_rma_cma(int local_rank, bool write, const struct rt_layout *l, int64_t count, char *there,
               int64_t pos, void *here, int64_t len);

#endif
