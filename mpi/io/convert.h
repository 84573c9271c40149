/* SPDX-License-Identifier: BSD-3-Clause */
/* The access of one rank to a file in a data representation. */
#ifndef WM_IO_CONVERT_H
#define WM_IO_CONVERT_H

#include "mpi/io/iop.h"

/* As wm_indep_run(); sets op->moved to bytes of memory.  By the thread that called MPI only: user
 * functions are called. */
int wm_convert_run(struct wm_iop *op);

#endif
