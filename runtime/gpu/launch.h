/* SPDX-License-Identifier: BSD-3-Clause */
/* Launches of kernels in streams of runtime/gpu. */
#ifndef RT_GPU_LAUNCH_H
#define RT_GPU_LAUNCH_H

#include "runtime/gpu/move_state.h"

void move_graphs_init(struct move_state *m); /* a failure only makes launches slower */
void move_graphs_fini(struct move_state *m);
/* All launches in streams of runtime/gpu.  exec: the caller's instance, or NULL. */
cu_result move_kernel(struct move_state *m, cu_graph_exec exec, enum rt_gpu_kernel k, unsigned grid,
                      unsigned block, cu_stream s, void *params);

#endif
