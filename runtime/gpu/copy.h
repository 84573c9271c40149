/* SPDX-License-Identifier: BSD-3-Clause */
/* What copy.c, linger.c and model.c share: the state of one context's copies.  Private to them and
 * their tests. */
#ifndef RT_GPU_COPY_H
#define RT_GPU_COPY_H

#include "runtime/gpu/gpu_int.h"

/* A group of n copies of this length that go together: predicted time until all are done, and the
 * best way.  UINT64_MAX: this way does not go. */
uint64_t rt_gpu_cost_group_ns(enum rt_gpu_way way, enum rt_gpu_link link, size_t len, unsigned n);
enum rt_gpu_way rt_gpu_choose_group(enum rt_gpu_link link, size_t len, unsigned n, bool linger,
                                    bool kernels);

#endif
