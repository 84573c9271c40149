/* SPDX-License-Identifier: BSD-3-Clause */
/* The PMIx server in this process.  The functions log the cause of an error and return -RT_E.... */
#ifndef LAUNCHER_HOST_SERVER_H
#define LAUNCHER_HOST_SERVER_H

#include "launcher/job.h"

/* Sets variables that PMIx and hwloc read; called before their first use. */
void launch_server_tune(void);
/* There is no call that stops the server: the process ends by _exit(), because PMIx's thread still
 * runs.  PMIx_server_finalize() would wait for whatever occupies this thread, such as a connection
 * on which half a message has arrived; PMIx 4.2 closes connections with unsent answers in a wrong
 * order there, so libevent prints a warning, and crashes while it frees collectives of dead ranks.
 * launch_remove_files() removes the files. */
int launch_server_start(struct launch_job *job, const char *segment);
/* Adds the variables that a PMIx client needs to the environment of a rank. */
int launch_server_env(struct launch_job *job, int rank, struct launch_list *env);
/* Answers a call with 0 and the data that were gathered or published, or with -RT_ENOENT,
 * -RT_ETIMEOUT or -RT_ENOMEM.  Frees the call. */
void launch_server_answer(struct launch_call *call, int err, const void *data, size_t len);
/* Requests what a rank of this host has published; the answer is an event LAUNCH_PUBLISHED with
 * this number. */
int launch_server_fetch(int rank, uint32_t number);
/* Notifies the ranks of this host that `rank` of that job has died, of this one or another. */
void launch_server_died(const char *nspace, int rank);
void launch_call_free(struct launch_call *call);
/* The i-th rank on a host, in ascending order. */
uint32_t launch_rank_on(const struct launch_job *job, int host, int i);

#endif
