/* SPDX-License-Identifier: BSD-3-Clause */
/* The schedule engine that most algorithms use.  start() writes the whole algorithm down as rounds
 * of steps; one step function runs every schedule.  The messages of a round are posted together;
 * when all are complete its local steps (copies, reductions) run in order; then the next round
 * begins.
 *
 * Errors while a schedule is written are kept in it and reported by coll_sched_go(), so builders
 * have no error paths: a pointer from coll_sched_tmp() may be NULL, but then no step is ever run.
 */
#ifndef COLL_SCHED_H
#define COLL_SCHED_H

#include "coll/coll.h"

struct coll_sched;

extern const struct rt_layout coll_bytes; /* packed data: one byte an element */

/* Begins a schedule for the task; NULL when memory is out.  coll_sched_go() hands it to the task,
 * -RT_ENOMEM if anything failed meanwhile (then it is freed already). */
struct coll_sched *coll_sched_new(struct coll_task *k);
int coll_sched_go(struct coll_sched *s);

/* Memory that lives as long as the schedule: raw, or so shaped that `n` elements of `l` fit (the
 * pointer is where element 0 starts, as a user's buffer would be given). */
void *coll_sched_tmp(struct coll_sched *s, int64_t nbytes);
void *coll_sched_tmp_elems(struct coll_sched *s, int64_t n, const struct rt_layout *l);

/* The same, always for the CPU: for the schedule's own facts. */
void *coll_sched_keep(struct coll_sched *s, int64_t nbytes);

/* The team whose ranks the message steps from here on name; the task's own until then.  For teams
 * of intercommunicators: t or t->local. */
void coll_sched_team(struct coll_sched *s, struct coll_team *t);

/* Steps of the current round.  Buffers and layouts must outlive the task. */
void coll_sched_send(struct coll_sched *s, const void *buf, int64_t n, const struct rt_layout *l,
                     int dst);
void coll_sched_recv(struct coll_sched *s, void *buf, int64_t n, const struct rt_layout *l,
                     int src);
void coll_sched_copy(struct coll_sched *s, const void *src, int64_t src_n,
                     const struct rt_layout *src_l, void *dst, int64_t dst_n,
                     const struct rt_layout *dst_l);
/* inout = in op inout with the task's operation; `in` is the operand of the lower ranks. */
void coll_sched_reduce(struct coll_sched *s, const void *in, void *inout, int64_t n,
                       const struct rt_layout *l);
/* A collective of a team that shares memory, in which all its ranks have this step; `a` is copied,
 * what it points to must outlive the task.  It is over when the round is; calls of a round are made
 * one after the other while its messages are under way.  Ranks of a team write and start schedules
 * with calls in the same order.  Of a schedule on a device it goes from device to device.  False:
 * no algorithm in shared memory serves it, on any rank, and nothing was written. */
bool coll_sched_call(struct coll_sched *s, struct coll_team *t, const struct coll_args *a);
/* Ends the round; an empty round costs nothing. */
void coll_sched_round(struct coll_sched *s);

/* A copy right now, with the shortcut for two contiguous layouts. */
void coll_copy(const void *src, int64_t src_n, const struct rt_layout *src_l, void *dst,
               int64_t dst_n, const struct rt_layout *dst_l);
/* Memory from the first to the last byte of n elements, and the offset of the first byte (lowest
 * address touched). */
int64_t coll_span(int64_t n, const struct rt_layout *l, int64_t *low);

#endif
