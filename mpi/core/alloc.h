/* SPDX-License-Identifier: BSD-3-Clause */
/* What MPI_Alloc_mem has given out. */
#ifndef WM_CORE_ALLOC_H
#define WM_CORE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

/* Blocks that MPI_Free_mem has not taken back. */
unsigned wm_alloc_count(void);
/* True when [p, p + nbytes) lies in one block of the node segment, which all processes of this host
 * map; `*off` is then the offset of p in the segment. */
bool wm_alloc_shared(const void *p, size_t nbytes, size_t *off);

#endif
