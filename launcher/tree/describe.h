/* SPDX-License-Identifier: BSD-3-Clause */
/* The description of a job that the head sends to all agents: the options that agents need, the
 * hosts, and the host of each rank.  Main thread. */
#ifndef LAUNCHER_TREE_DESCRIBE_H
#define LAUNCHER_TREE_DESCRIBE_H

#include "launcher/job.h"
#include "runtime/boot/frame.h"

/* In the head; `cwd` is the working directory of ranks without --wdir. */
void launch_describe(struct frame_out *o, const struct launch_job *job, const char *cwd);
/* In the agent of host job->node: fills *opts and the hosts and ranks of *job (job->ranks are those
 * of this host).  Strings, also *cwd, point into the frame, which must be kept.  -RT_EINVAL:
 * invalid description; nothing needs to be freed, because the agent ends. */
int launch_understand(struct frame_in *i, struct launch_job *job, struct launch_opts *opts,
                      struct launch_list *env, const char **cwd);
/* Lists of strings in frames.  A malformed list sets i->bad. */
void launch_put_list(struct frame_out *o, char *const *v, size_t n);
void launch_get_list(struct frame_in *i, struct launch_list *l);
/* Fills by_host, host_of and the hosts' nranks, node and begin from host_of_rank[].  Returns 0 or
 * -RT_ENOMEM. */
int launch_index_hosts(struct launch_job *job, const uint32_t *host_of_rank);

#endif
