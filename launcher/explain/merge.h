/* SPDX-License-Identifier: BSD-3-Clause */
/* The pictures of the hosts of a job, in frames, and one picture of them.
 *
 * mpirun (mpirun/head_look.c) asks, the agent of each host (agent/look.c) answers for its ranks,
 * which need not do anything.  The frames pass the tree of agents like all others:
 *
 *   FRAME_LOOK     to all: number, enum explain_look.  5 bytes.
 *   FRAME_MOVED    answers LOOK_MOVEMENT: number, a sum that stays the same while no rank of the
 *                  host does anything in MPI, age of the oldest wait.  20 bytes a host, eight times
 *                  in hang_s.  Only if no sum has changed for hang_s, or the user asks, follows
 *   FRAME_PICTURE  answers LOOK_PICTURE and LOOK_STACKS: number, whether it is complete, what
 *                  explain_put() writes: about 70 bytes a rank and 150 a wait.  Sent twice: at once
 *                  without places in the sources, because these may take seconds, and with all that
 *                  could be looked up in EXPLAIN_LOOK_UP_NS.
 *
 * mpirun waits EXPLAIN_ANSWER_NS for the answers to a FRAME_LOOK, and EXPLAIN_COMPLETE_NS for the
 * complete pictures of hosts that have answered.  It names the hosts that did not answer.
 * Their ranks may do anything, so no deadlock is proven through them.
 *
 * A picture contains only waits that are unchanged since the LOOK_MOVEMENT before it.  mpirun asks
 * for pictures after the hosts have answered that one, and ignores the picture of a host that has
 * not.  So there was a time at which all waits of these pictures lasted.
 *
 * A frame is input: every length, number and string is checked. */
#ifndef LAUNCHER_EXPLAIN_MERGE_H
#define LAUNCHER_EXPLAIN_MERGE_H

#include "launcher/explain/explain.h"
#include "launcher/explain/pages.h"
#include "runtime/boot/frame.h"

#define EXPLAIN_ANSWER_NS 2000000000ull
#define EXPLAIN_LOOK_UP_NS 6000000000ull
#define EXPLAIN_COMPLETE_NS 8000000000ull

enum explain_look { LOOK_MOVEMENT, LOOK_PICTURE, LOOK_STACKS, LOOK_KINDS };

/* Writes the picture of a host; `lacks`: explain_picture_lacks(); `stacks`: text of the stacks. */
void explain_put(struct frame_out *o, const struct explain_job *job, const char *lacks,
                 const char *stacks);

/* Pictures of hosts 0 to nhosts - 1. */
struct explain_merge;
struct explain_merge *explain_merge_new(int nhosts, int total); /* NULL: no memory */
void explain_merge_free(struct explain_merge *m);
/* Reads the rest of a frame: the picture of a host that has these ranks, in this order.  It
 * replaces an earlier one.  `name` must stay valid.  -RT_EINVAL: it is malformed, and nothing has
 * changed; -RT_ENOMEM. */
int explain_merge_take(struct explain_merge *m, int host, const char *name, const uint32_t *ranks,
                       int nranks, struct frame_in *in);
/* A host without a picture: what its launcher knows of its ranks, and why the rest is unknown.
 * -RT_ENOMEM. */
int explain_merge_absent(struct explain_merge *m, int host, const char *name, const char *why,
                         const struct explain_known *known, int nranks);
/* The picture of all hosts, valid until the next call with `m`; NULL: no memory. */
struct explain_job *explain_merge_job(struct explain_merge *m);
/* A line about what the first host with such a line could not find out; "": nothing. */
void explain_merge_lacks(const struct explain_merge *m, char *text, size_t len);
void explain_merge_stacks(const struct explain_merge *m, FILE *f);

#endif
