/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of ranks that only the first mpirun can serve: to spawn a job, and names.  The PMIx
 * server of a host turns each request into words, and the answer is an error code and words.
 *
 *   spawn RANK [KEY=VALUE]... { app [KEY=VALUE]... }...    answer: namespace of the new job
 *       for all: nspace host add_host hostfile map_by; for each app: n cwd path soft host env
 * (repeated) arg (repeated) publish NAME VALUE          -RT_EEXIST: the name exists lookup NAME...
 * answer: NAME VALUE for each that exists; -RT_ENOENT: none exists unpublish NAME... -RT_ENOENT: a
 * name does not exist join NAMESPACE, part NAMESPACE   the rank's job is connected to that job, or
 * no longer
 *
 * On the wire between a rank and its server, join and part are publications of the keys below. */
#ifndef LAUNCHER_HOST_ASK_H
#define LAUNCHER_HOST_ASK_H

#include "launcher/job.h"

/* Answers a request and frees the call.  err: 0 or -RT_E... */
void launch_ask_answer(struct launch_call *call, int err, const struct launch_list *words);
/* Notifies a rank of this host that a job which it has spawned has ended. */
void launch_ask_ended(const char *nspace, int rank, const char *job_nspace, int code);

#endif
