/* SPDX-License-Identifier: BSD-3-Clause */
/* Flights, and launches that wait for one. */
#ifndef RT_GPU_FLIGHT_H
#define RT_GPU_FLIGHT_H

#include "runtime/gpu/move_state.h"

/* All but move_launch() with the context current.  ..._start() take from the waiting lists what
 * fits into one flight; false: no flight of the kind is free. */
int move_flights_init(struct move_state *m);
void move_flights_fini(struct move_state *m);
bool move_has_free(const struct move_state *m, enum move_kind kind);
bool move_is_busy(const struct move_state *m, enum move_kind kind);
/* rt_gpu_launch() (copy.h) of an operation that has begun. */
void move_launch(struct move_state *m, enum rt_gpu_kernel k, unsigned grid, unsigned block,
                 const void *params, size_t nbytes, struct rt_gpu_op *op);
void move_launches_start(struct move_state *m); /* those that wait for a flight */
bool move_batch_start(struct move_state *m, struct rt_list *from, unsigned *nwaiting);
bool move_engine_start(struct move_state *m);
/* Whether `before` is running in a stream and a flight is free for a copy behind it; if so, starts
 * the copy, which has begun. */
bool move_engine_can_follow(const struct move_state *m, const struct rt_gpu_op *before);
void move_engine_behind(struct move_state *m, struct rt_gpu_op *op, const struct rt_gpu_op *before);
int move_flights_poll(struct move_state *m);
/* Queries the streams of running flights; a failure ends every operation. */
void move_flights_look(struct move_state *m);

#endif
