/* SPDX-License-Identifier: BSD-3-Clause */
/* How many ranks each host gets, and which. */
#ifndef LAUNCHER_OPTIONS_ASSIGN_H
#define LAUNCHER_OPTIONS_ASSIGN_H

#include "launcher/job.h"

/* When job->hosts[].nobj are known (over several hosts, when all agents have reported): how many
 * ranks (job->n = job->total, app->n, app->first); allocates job->ranks with rank, app and node,
 * and counts hosts[].nranks.  0 or an exit code after a message. */
int launch_assign(struct launch_job *job);
/* Leaves out hosts that get no rank, where that is known before any agent runs. */
int launch_assign_ahead(struct launch_opts *o);

#endif
