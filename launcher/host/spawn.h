/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts and reaps the ranks of this host. */
#ifndef LAUNCHER_HOST_SPAWN_H
#define LAUNCHER_HOST_SPAWN_H

#include "launcher/job.h"

/* Finds the programs; 0 or an exit code after a message. */
int launch_check_programs(struct launch_job *job);
/* Prints the MPI that each program was built for, for --dry-run. */
void launch_show_programs(struct launch_job *job, FILE *out);
/* Raises the limit of the stack; called first in main(), because any function may need more than a
 * small one.  0 or an exit code after a message. */
int launch_raise_stack(const char *program);
/* Raises the limit of open files for the ranks of this host; called before this process opens many
 * files.  0 or an exit code after a message. */
int launch_raise_limits(const struct launch_job *job);
/* Starts every rank.  0 or an exit code after a message; ranks may run in either case. */
int launch_spawn(struct launch_job *job);
/* Records that a rank has ended with this status of waitpid(). */
void launch_rank_ended(struct launch_job *job, struct launch_rank *r, int status);
/* Reaps children of this process.  Calls other() for each; true: the child is not a rank. */
void launch_reap(struct launch_job *job, bool (*other)(void *arg, pid_t pid, int status),
                 void *arg);
/* Reports each ended rank once: first the ranks killed by a signal, then those with exit code 0,
 * because an error is often the consequence of either. */
void launch_report_dead(struct launch_job *job,
                        void (*tell)(struct launch_job *job, struct launch_rank *r));
/* Sends a signal to the process groups of the ranks of this host. */
void launch_signal_local(const struct launch_job *job, int sig);

#endif
