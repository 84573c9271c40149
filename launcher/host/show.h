/* SPDX-License-Identifier: BSD-3-Clause */
/* What --display-map and --report-bindings print. */
#ifndef LAUNCHER_HOST_SHOW_H
#define LAUNCHER_HOST_SHOW_H

#include "launcher/job.h"

void launch_show_map(const struct launch_job *job, hwloc_topology_t topo, FILE *f);
void launch_show_bindings(const struct launch_job *job, hwloc_topology_t topo, FILE *f);

#endif
