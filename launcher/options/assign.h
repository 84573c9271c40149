/* SPDX-License-Identifier: BSD-3-Clause */
/* Assignment of ranks to hosts. */
#ifndef LAUNCHER_OPTIONS_ASSIGN_H
#define LAUNCHER_OPTIONS_ASSIGN_H

#include "launcher/job.h"

/* Called when job->hosts[].nobj are known (over several hosts: when all agents have reported).
 * Sets job->n, job->total, app->n, app->first; allocates job->ranks with rank, app and node; counts
 * hosts[].nranks.  Returns 0 or an exit code after a message. */
int launch_assign(struct launch_job *job);
/* Removes hosts that will get no rank, if this is known before any agent runs.  Returns 0 or an
 * exit code after a message. */
int launch_assign_ahead(struct launch_opts *o);

#endif
