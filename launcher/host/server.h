/* SPDX-License-Identifier: BSD-3-Clause */
/* The PMIx server in this process.  Functions return -RT_E... after they logged the cause. */
#ifndef LAUNCHER_HOST_SERVER_H
#define LAUNCHER_HOST_SERVER_H

#include "launcher/job.h"

/* Before the first use of PMIx or hwloc. */
void launch_server_tune(void);
int launch_server_start(struct launch_job *job, const char *segment);
/* Adds what a PMIx client needs to the environment of a rank. */
int launch_server_env(struct launch_job *job, int rank, struct launch_list *env);
void launch_server_stop(struct launch_job *job);
/* Answers a call: 0 and what was gathered or published, or -RT_ENOENT, -RT_ETIMEOUT, -RT_ENOMEM.
 * Frees the call. */
void launch_server_answer(struct launch_call *call, int err, const void *data, size_t len);
/* Asks for what a rank of this host published; LAUNCH_PUBLISHED with this number comes. */
int launch_server_fetch(int rank, uint32_t number);
void launch_call_free(struct launch_call *call);
/* The i-th rank on a host, in ascending order. */
uint32_t launch_rank_on(const struct launch_job *job, int host, int i);

#endif
