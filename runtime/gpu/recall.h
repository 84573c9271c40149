/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels that start late. */
#ifndef RT_GPU_RECALL_H
#define RT_GPU_RECALL_H

#include "runtime/gpu/move_state.h"

void move_recall_init(struct move_recall *r, struct move_recall_words *pinned, cu_ptr word);
/* A kernel was launched, of which nblocks count themselves in the word. */
void move_recall_launched(struct move_recall *r, uint32_t number, unsigned nblocks);
/* One look, 1 ms after the last, at a launch that has not ended.  True: it has not started, and
 * will do nothing when it does. */
bool move_recall_look(struct move_state *m, struct move_recall *r);

/* Sets m->no_kernels.  Kernels do not start, because kernels of the application fill the device:
 * copy engines do all copies until the recalled kernels have ended. */
void move_kernels_look(struct move_state *m);
void move_report_late(struct move_state *m);

#endif
