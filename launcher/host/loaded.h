/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks of this host that have loaded another MPI's library. */
#ifndef LAUNCHER_HOST_LOADED_H
#define LAUNCHER_HOST_LOADED_H

#include "launcher/job.h"

/* To be called when the ranks have been started.  A job of one rank is left out: it is right. */
void launch_look_begin(struct launch_job *job);
/* Looks for them if it is time, and calls found() once for each.  Returns when to look again,
 * rt_now_ns(); 0: no more. */
uint64_t launch_look_loaded(struct launch_job *job,
                            void (*found)(struct launch_job *job, const struct launch_event *e));

#endif
