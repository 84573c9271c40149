/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that MPI_Alloc_mem has allocated. */
#ifndef WM_CORE_ALLOC_H
#define WM_CORE_ALLOC_H

/* Number of blocks that have not been freed with MPI_Free_mem. */
unsigned wm_alloc_count(void);

#endif
