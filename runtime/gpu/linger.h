/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's side of the polling kernel. */
#ifndef RT_GPU_LINGER_H
#define RT_GPU_LINGER_H

#include "runtime/gpu/move_state.h"

/* Whether a copy of this length may be posted: small ones, and longer ones unless the kernel that
 * runs has one block. */
bool move_linger_takes(struct move_state *m, size_t len);
/* Posts op and launches the kernel if it does not run.  If the launch fails, everything posted
 * waits in the queue again, or is launched, and the kernel is off. */
void move_linger_post(struct move_state *m, struct rt_gpu_op *op);
/* The descriptor of a reduction, except its sequence number; false: the ring does not support this
 * reduction, or a launch is better. */
bool move_linger_describe(const struct move_fold *f, enum rt_gpu_link link,
                          struct rt_gpu_desc *out);
void move_linger_post_fold(struct move_state *m, const struct move_fold *f,
                           const struct rt_gpu_desc *desc, struct rt_gpu_op *op);
int move_linger_poll(struct move_state *m); /* completes what is done */
/* The kernel has left with descriptors undone: it has to be launched again, with the context
 * current. */
bool move_linger_gone(const struct move_state *m);
void move_linger_start(struct move_state *m);
void move_linger_look(struct move_state *m); /* like move_flights_look() */

#endif
