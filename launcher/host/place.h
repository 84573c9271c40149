/* SPDX-License-Identifier: BSD-3-Clause */
/* Which cores of this host each rank uses. */
#ifndef LAUNCHER_HOST_PLACE_H
#define LAUNCHER_HOST_PLACE_H

#include "launcher/job.h"

/* Sets place and cpus of each rank, job->ncpus and job->cpus.  Returns 0, or an exit code. */
int launch_place(struct launch_job *job, hwloc_topology_t topo);
/* Number of objects of each kind that this process may use; 1 if the machine shows none of a kind.
 * Returns 0, -RT_ENOMEM, or -RT_ENOENT: no core may be used. */
int launch_count_objects(hwloc_topology_t topo, int nobj[LAUNCH_UNSET]);

#endif
