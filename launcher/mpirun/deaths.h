/* SPDX-License-Identifier: BSD-3-Clause */
/* mpirun --ft: ranks that die while the job continues.  Main thread only. */
#ifndef LAUNCHER_MPIRUN_DEATHS_H
#define LAUNCHER_MPIRUN_DEATHS_H

#include "launcher/job.h"

/* Whether the end of rank `r` is not to end the job, and has been handled: its death is recorded
 * and published to the others.  False without --ft, and while the job is being ended. */
bool launch_death(struct launch_job *job, struct launch_rank *r);
/* The same for ranks that ran on hosts first..end-1, which are lost: SIGKILL stands for how. */
bool launch_death_of_hosts(struct launch_job *job, int first, int end);
/* Notifies the ranks of this mpirun's job that a rank of that job, of this one or another, has
 * died. */
void launch_death_publish(struct launch_job *job, const char *nspace, int rank);
/* At the end of the job: prints who died, when and of what, and returns the job's exit code: that
 * of the lowest rank that did not die, or, if all died, that of the first death. */
int launch_deaths_end(const struct launch_job *job);

#endif
