/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks' output to ours, line by line, and our stdin to theirs.  Never blocks. */
#ifndef LAUNCHER_MPIRUN_IO_H
#define LAUNCHER_MPIRUN_IO_H

#include "launcher/job.h"

struct pollfd;

int launch_io_init(struct launch_job *job);
int launch_io_open_files(struct launch_job *job);
int launch_io_fds(struct launch_job *job, struct pollfd *fds); /* fills at most 3n + 3 */
void launch_io_step(struct launch_job *job, const struct pollfd *fds, int nfds);
int launch_io_timeout_ms(const struct launch_job *job); /* -1 = none */
/* Takes what a rank has written so far out of its pipes. */
void launch_io_drain(struct launch_job *job, struct launch_rank *r);
/* The ranks of a head: their streams are open, and these bytes came; none: the end. */
void launch_io_far(struct launch_job *job);
void launch_io_feed(struct launch_job *job, int rank, bool is_err, const void *data, size_t len);
/* The reader of our stdout is so slow that agents hold output back. */
bool launch_io_full(void);
/* Nothing more will come and everything is written. */
bool launch_io_idle(const struct launch_job *job);
/* Our own output still waits for its reader. */
bool launch_io_busy(void);
/* Nothing can be written to our stdout any more: errno, EPIPE when its reader has gone; else 0. */
int launch_io_broken(void);
/* Some output of a rank is not in its file. */
bool launch_io_lost(void);
/* A line of our own on stderr, in order. */
void launch_io_say(const char *text);
void launch_io_fini(struct launch_job *job);

#endif
