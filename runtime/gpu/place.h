/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the memory of a copy lies, as far as speed depends on it. */
#ifndef RT_GPU_PLACE_H
#define RT_GPU_PLACE_H

#include "runtime/gpu/move_state.h"

enum rt_gpu_link move_link(struct move_state *m, const void *dst, const void *src);
/* For the copy engines: both directions over PCIe run at once only in different streams. */
enum move_way { MOVE_TO_HOST, MOVE_FROM_HOST, MOVE_DEVICES, MOVE_FROM_PEER };
enum move_way move_way(struct move_state *m, const struct rt_gpu_op *op);

#endif
