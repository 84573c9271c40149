/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of GPUs for the benchmarks, through the CUDA driver, which is opened at run time: no CUDA
 * header and nothing to link, so that the programs build and run where there is no GPU.  A rank
 * uses one device, in its primary context, as programs of the CUDA runtime do.  What fails after
 * device_open() ends the job. */
#ifndef TEST_BENCH_DEVICE_H
#define TEST_BENCH_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include "runtime/gpu/cu.h"

extern struct rt_cuda device_cu; /* the driver's functions, after device_open() */

/* The local rank as launchers give it in the environment, or -1. */
int device_local_rank(void);
/* Makes device `local` modulo devices (`same`: device 0) the caller's current one; repeating it is
 * cheap.  0, or -1 with device_why(). */
int device_open(int local, bool same);
const char *device_why(void);
int device_ordinal(void);
cu_ctx device_ctx(void);

/* All of these may be called by any thread.  kind: 'D' device, 'M' managed. */
void *device_alloc(char kind, size_t len); /* NULL: none left, or no such memory here */
void device_free(void *p);
void device_copy(void *dst, const void *src, size_t len); /* between any two memories; waits */
void device_set(void *dst, unsigned char c, size_t len);  /* waits */
void device_must(cu_result r, const char *what);          /* ends the job unless r is 0 */

#endif
