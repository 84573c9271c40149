/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the processes of a job meet that do not know MPI: the address of rank 0's host and a port
 * that is free there, for MASTER_ADDR and MASTER_PORT of PyTorch and the coordinator of JAX. */
#ifndef LAUNCHER_HOST_MEET_H
#define LAUNCHER_HOST_MEET_H

#include "launcher/job.h"

/* A TCP port of this host that is free now, over IPv4 and IPv6; 0: none.  Nothing reserves it: the
 * kernel gives such ports to others in turn, so it stays free for seconds at least. */
int launch_free_port(void);
/* Variables that programs for torchrun read: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,
 * MASTER_ADDR and MASTER_PORT.  And those from which jax.distributed.initialize() takes a job of
 * Open MPI: JAX_COORDINATOR_ADDRESS, OMPI_MCA_orte_hnp_uri.  A variable that the user has set (-x,
 * --env, --genv) stays as the user has set it.  0 or -RT_ENOMEM. */
int launch_meet_vars(const struct launch_job *job, const struct launch_rank *r,
                     struct launch_list *env);

#endif
