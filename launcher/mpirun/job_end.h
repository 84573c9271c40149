/* SPDX-License-Identifier: BSD-3-Clause */
/* Why and how a job ends. */
#ifndef LAUNCHER_MPIRUN_JOB_END_H
#define LAUNCHER_MPIRUN_JOB_END_H

#include "launcher/job.h"

/* Prints a message of mpirun: launch_job.say. */
void launch_print(const char *text);
/* Reports what happens to a started job; --quiet suppresses this. */
void launch_report(const struct launch_job *job, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* A rank has ended with r->status; if this is a failure, the job ends. */
void launch_end_exited(struct launch_job *job, struct launch_rank *r);
/* An event of the PMIx server about a rank. */
void launch_end_event(struct launch_job *job, const struct launch_event *e);
/* At the end of the job: reports ranks that have run on another MPI. */
void launch_end_other(const struct launch_job *job);
/* Ends the job: other ranks wait forever for a rank that has ended. */
void launch_end_missed(struct launch_job *job, struct launch_rank *r);
/* Sends SIGTERM to all ranks; the loop sends SIGKILL later.  Only the first call has an effect. */
void launch_end_begin(struct launch_job *job, int exit_code);
/* Ends the job because of the suspect when its time has passed. */
void launch_end_check(struct launch_job *job);
/* Sends SIGKILL to all ranks. */
void launch_end_kill(struct launch_job *job);
/* Sends a signal to all ranks, also on other hosts. */
void launch_signal_all(const struct launch_job *job, int sig);

#endif
