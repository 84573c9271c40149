/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts and reaps the ranks of this host. */
#ifndef LAUNCHER_HOST_SPAWN_H
#define LAUNCHER_HOST_SPAWN_H

#include "launcher/job.h"

/* Finds the programs; 0 or an exit code after a message. */
int launch_check_programs(struct launch_job *job);
/* Of open files and of the stack, for the ranks of this host; before anything else opens many. */
int launch_raise_limits(const struct launch_job *job);
/* Starts every rank.  0 or an exit code after a message; ranks may run in either case. */
int launch_spawn(struct launch_job *job);
/* A rank has ended. */
void launch_rank_ended(struct launch_job *job, struct launch_rank *r, int status);
/* Collects children of this process that have ended; those that are no rank are other()'s. */
void launch_reap(struct launch_job *job, bool (*other)(void *arg, pid_t pid, int status),
                 void *arg);
/* Reports once each rank that has ended, those killed by a signal first, then those that left with
 * code 0: an error is often the consequence of either. */
void launch_tell_dead(struct launch_job *job,
                      void (*tell)(struct launch_job *job, struct launch_rank *r));
/* To the process groups of the ranks of this host. */
void launch_signal_local(const struct launch_job *job, int sig);

#endif
