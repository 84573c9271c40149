/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of ranks that only the first mpirun can serve: to spawn a job, and names.  The PMIx
 * server of a host turns each request into words, and the answer is an error code and words.
 *
 *   spawn RANK [KEY=VALUE]... { app [KEY=VALUE]... }...
 *       Keys of the request: nspace host add_host hostfile map_by.  Keys of a program: n cwd path
 *       soft host env (repeated) arg (repeated).  Answer: the namespace of the new job.
 *   publish NAME VALUE
 *       -RT_EEXIST: the name exists.
 *   lookup NAME...
 *       Answer: NAME VALUE for each name that exists.  -RT_ENOENT: none exists.
 *   unpublish NAME...
 *       -RT_ENOENT: one of the names does not exist.
 *
 * A rank connects its job to another job by publishing that job's namespace under the name
 * RT_BOOT_KEY_JOIN, and disconnects the two by publishing it under RT_BOOT_KEY_PART
 * (runtime/boot/boot.h).  These two names are not stored.  A lookup of RT_BOOT_KEY_ENDED is
 * answered by the mpirun of the rank's own job: the ranks that have ended, "0-3,7-7". */
#ifndef LAUNCHER_HOST_ASK_H
#define LAUNCHER_HOST_ASK_H

#include "launcher/job.h"

/* Answers a request and frees the call.  err: 0 or -RT_E... */
void launch_ask_answer(struct launch_call *call, int err, const struct launch_list *words);
/* Notifies a rank of this host that a job which it has spawned has ended. */
void launch_ask_ended(const char *nspace, int rank, const char *job_nspace, int code);

#endif
