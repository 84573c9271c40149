/* SPDX-License-Identifier: BSD-3-Clause */
/* The access of one rank. */
#ifndef WM_IO_INDEP_H
#define WM_IO_INDEP_H

#include "mpi/io/iop.h"

/* Carries out an operation of this rank alone; takes the domain's lock only for device memory.  Any
 * thread.  0 or -RT_E...; sets op->moved. */
int wm_indep_run(struct wm_iop *op);

#endif
