/* SPDX-License-Identifier: BSD-3-Clause */
/* The schedule engine that most algorithms use.  start() writes the whole algorithm as rounds of
 * steps; one step function runs every schedule.  The messages of a round are posted together.  When
 * all are complete, the local steps of the round (copies, reductions) run in order; then the next
 * round begins.
 *
 * Errors while a schedule is written are kept in the schedule and reported by coll_sched_go(), so
 * builders have no error paths.  A pointer from coll_sched_keep() may be NULL, but then no step is
 * ever run.  Without memory for a temporary in host memory the task is poisoned (coll_task.lost),
 * and the pointer must not be used but in steps. */
#ifndef COLL_SCHED_H
#define COLL_SCHED_H

#include "coll/coll.h"

struct coll_sched;

extern const struct rt_layout coll_bytes; /* packed data: one byte an element */

/* Begins a schedule for the task; NULL: out of memory.  coll_sched_go() gives the schedule to the
 * task, or frees it and returns an error of the calls in between: -RT_ENOMEM or, on a device,
 * another -RT_E... */
struct coll_sched *coll_sched_new(struct coll_task *k);
int coll_sched_go(struct coll_sched *s);

/* Memory that lives as long as the schedule: nbytes, or room for `n` elements of `l`.  Like a
 * user's buffer, the pointer is the address of element 0. */
void *coll_sched_tmp(struct coll_sched *s, int64_t nbytes);
void *coll_sched_tmp_elems(struct coll_sched *s, int64_t n, const struct rt_layout *l);

/* The same, always CPU memory, for the schedule's own data. */
void *coll_sched_keep(struct coll_sched *s, int64_t nbytes);

/* From here on message steps name ranks of team t; at the beginning, of the task's team.  For
 * intercommunicators: t or t->local. */
void coll_sched_team(struct coll_sched *s, struct coll_team *t);

/* Steps of the current round.  Buffers and layouts must outlive the task. */
void coll_sched_send(struct coll_sched *s, const void *buf, int64_t n, const struct rt_layout *l,
                     int dst);
void coll_sched_recv(struct coll_sched *s, void *buf, int64_t n, const struct rt_layout *l,
                     int src);
void coll_sched_copy(struct coll_sched *s, const void *src, int64_t src_n,
                     const struct rt_layout *src_l, void *dst, int64_t dst_n,
                     const struct rt_layout *dst_l);
/* inout = in op inout with the task's operation; `in` is the operand of lower ranks. */
void coll_sched_reduce(struct coll_sched *s, const void *in, void *inout, int64_t n,
                       const struct rt_layout *l);
/* A collective of a team that shares memory; all ranks of that team must write this step.  `a` is
 * copied; memory that it points to must outlive the task.  The calls of a round run one after
 * another while the round's messages are in progress; the round waits for them.  The ranks of a
 * team write and start schedules with calls in the same order.  In a schedule on a device the call
 * goes from device to device.  False: no algorithm in shared memory serves the call, on any rank,
 * and no step was written. */
bool coll_sched_call(struct coll_sched *s, struct coll_team *t, const struct coll_args *a);
/* Ends the round; an empty round costs nothing. */
void coll_sched_round(struct coll_sched *s);

/* Copies at once; two contiguous layouts take a fast path. */
void coll_copy(const void *src, int64_t src_n, const struct rt_layout *src_l, void *dst,
               int64_t dst_n, const struct rt_layout *dst_l);
/* The length from the first to the last byte of n elements; *low: the offset of the lowest
 * address. */
int64_t coll_span(int64_t n, const struct rt_layout *l, int64_t *low);

#endif
