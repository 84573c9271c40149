/* SPDX-License-Identifier: BSD-3-Clause */
/* The main loop of mpirun. */
#ifndef LAUNCHER_MPIRUN_LOOP_H
#define LAUNCHER_MPIRUN_LOOP_H

#include "launcher/job.h"

/* Runs until every rank has ended; returns the exit code. */
int launch_loop(struct launch_job *job, int signal_fd);

#endif
