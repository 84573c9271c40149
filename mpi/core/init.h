/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Init, for layers above. */
#ifndef WM_CORE_INIT_H
#define WM_CORE_INIT_H

/* Set by mpi/dynamic when the library is loaded; called once MPI_COMM_WORLD exists.  Returns
 * MPI_SUCCESS or what wm_err() returned. */
extern int (*wm_init_parent)(void);

#endif
