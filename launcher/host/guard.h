/* SPDX-License-Identifier: BSD-3-Clause */
/* The process that cleans up after an mpirun or an agent that was killed. */
#ifndef LAUNCHER_HOST_GUARD_H
#define LAUNCHER_HOST_GUARD_H

#include "launcher/job.h"

/* Starts the guard.  channel: an agent's channel to its head, otherwise -1.  Returns 0 or an exit
 * code. */
int launch_guard_start(const struct launch_job *job, const char *segment, int channel_in,
                       int channel_out);
/* A process group that the guard must end; it has ended by itself. */
void launch_guard_add(pid_t group);
void launch_guard_drop(pid_t group);
/* Ends the guard, which then cleans up nothing, and waits for it. */
void launch_guard_stop(void);
/* Removes the files of a job on this host: its node segment, and those whose names continue the
 * segment's with a dot: the folder of PMIx's store, and shared windows whose creator was killed. */
void launch_remove_files(const char *segment);
/* The folder of PMIx's store, from the path of the segment. */
void launch_store_name(const char *segment, char *path, size_t len);

#endif
