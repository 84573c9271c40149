/* SPDX-License-Identifier: BSD-3-Clause */
/* Which cores of this host each rank gets. */
#ifndef LAUNCHER_HOST_PLACE_H
#define LAUNCHER_HOST_PLACE_H

#include "launcher/job.h"

/* Where on this host each rank goes: place and cpus, and job->ncpus. */
int launch_place(struct launch_job *job, hwloc_topology_t topo);
/* Objects of each kind that this process may use; 1 where the machine shows none of a kind. */
int launch_count_objects(hwloc_topology_t topo, int nobj[LAUNCH_UNSET]);

#endif
