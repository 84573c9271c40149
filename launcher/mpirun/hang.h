/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether the ranks make progress, and the explanation when they do not: on this host, or on all
 * hosts of a head, whose agents answer while the loop continues.  Main thread. */
#ifndef LAUNCHER_MPIRUN_HANG_H
#define LAUNCHER_MPIRUN_HANG_H

#include "launcher/job.h"

/* Looks at the ranks when it is time to; prints an explanation if none has made progress for
 * hang_s.  Called in each turn of the loop. */
void launch_hang_step(struct launch_job *job);
/* When launch_hang_step() has something to do next; 0: never. */
uint64_t launch_hang_at_ns(const struct launch_job *job);
/* Prints what the ranks do now, or as soon as the agents have answered, because the user has asked.
 */
void launch_hang_explain(struct launch_job *job);
/* The same before the job is ended.  False: not printed yet; call it again. */
bool launch_hang_explained(struct launch_job *job);
void launch_hang_fini(struct launch_job *job);

#endif
