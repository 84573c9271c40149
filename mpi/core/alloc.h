/* SPDX-License-Identifier: BSD-3-Clause */
/* What MPI_Alloc_mem has given out. */
#ifndef WM_CORE_ALLOC_H
#define WM_CORE_ALLOC_H

/* Blocks that MPI_Free_mem has not taken back. */
unsigned wm_alloc_count(void);

#endif
