/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress of collective operations while the program computes.  Under the domain's lock, with
 * locks on (wm_life_threads). */
#ifndef WM_IO_HELPER_H
#define WM_IO_HELPER_H

#include <stdbool.h>

/* An operation is in progress.  False: there is no helper, and the operation progresses while this
 * process calls MPI. */
bool wm_io_helper_begin(void);
/* An operation that has begun has ended. */
void wm_io_helper_end(void);

#endif
