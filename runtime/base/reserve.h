/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of a size that is bounded by the number of ranks, for calls in which other processes take
 * part: from malloc or, where that has none, from a reserve of the process.  So a process without
 * memory can still take part in a collective, and send poison in place of data.  Any thread. */
#ifndef RT_BASE_RESERVE_H
#define RT_BASE_RESERVE_H

#include <stddef.h>

#define RT_RESERVE_NBYTES (1u << 20)

/* NULL: the reserve is used up, too. */
void *rt_reserve_alloc(size_t nbytes);
void *rt_reserve_zalloc(size_t nbytes);
/* Enlarges p, which is NULL or has old_nbytes.  NULL: p is as it was. */
void *rt_reserve_realloc(void *p, size_t old_nbytes, size_t nbytes);
/* From the reserve only, where malloc has failed.  Aligned to cache lines. */
void *rt_reserve_take(size_t nbytes);
/* Frees memory of all of these, and of malloc. */
void rt_reserve_free(void *p);

#endif
