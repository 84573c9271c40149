/* SPDX-License-Identifier: BSD-3-Clause */
/* The description of a job that the head sends to all agents: what agents need of the options, the
 * hosts, and which rank is where.  Main thread. */
#ifndef LAUNCHER_TREE_DESCRIBE_H
#define LAUNCHER_TREE_DESCRIBE_H

#include "launcher/job.h"
#include "launcher/tree/frame.h"

/* In the head; `cwd` is where ranks run that have no --wdir. */
void launch_describe(struct frame_out *o, const struct launch_job *job, const char *cwd);
/* In the agent of host job->node: fills *opts and what *job says of hosts and ranks (its own in
 * job->ranks).  Strings point into the frame, which must stay; *cwd too.  -RT_EINVAL: no such
 * description, with nothing that need be freed in order: the agent leaves. */
int launch_understand(struct frame_in *i, struct launch_job *job, struct launch_opts *opts,
                      struct launch_list *env, const char **cwd);
/* Fills by_host, host_of and the hosts' nranks, node and begin from host_of_rank(r).  -RT_ENOMEM */
int launch_index_hosts(struct launch_job *job, const uint32_t *host_of_rank);

#endif
