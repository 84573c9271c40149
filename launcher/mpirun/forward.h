/* SPDX-License-Identifier: BSD-3-Clause */
/* Forwards output of the ranks to mpirun's output, line by line, and mpirun's standard input to the
 * ranks.  Never blocks. */
#ifndef LAUNCHER_MPIRUN_FORWARD_H
#define LAUNCHER_MPIRUN_FORWARD_H

#include "launcher/job.h"

struct pollfd;

int launch_io_init(struct launch_job *job); /* 0 or -RT_ENOMEM */
/* Opens the files of --output-filename.  0, or -RT_ESYS after a message. */
int launch_io_open_files(struct launch_job *job);
/* Fills at most 3n + 3 entries for n ranks; returns their number. */
int launch_io_fds(struct launch_job *job, struct pollfd *fds);
void launch_io_step(struct launch_job *job, const struct pollfd *fds, int nfds);
int launch_io_timeout_ms(const struct launch_job *job); /* -1: no limit */
/* Reads what a rank has written to its pipes until now, at most 256 KiB of each. */
void launch_io_drain(struct launch_job *job, struct launch_rank *r);
/* For the ranks of a head: marks their streams as open; passes on bytes that an agent has sent
 * (none: end of the stream). */
void launch_io_far(struct launch_job *job);
void launch_io_feed(struct launch_job *job, int rank, bool is_err, const void *data, size_t len);
/* Whether the reader of mpirun's output is so slow that agents must hold output back. */
bool launch_io_full(void);
/* Whether all output has ended and is written. */
bool launch_io_idle(const struct launch_job *job);
/* Whether mpirun's own output waits for its reader. */
bool launch_io_busy(void);
/* errno if nothing can be written to mpirun's stdout (EPIPE: its reader has gone); otherwise 0. */
int launch_io_broken(void);
/* Whether some output of a rank is missing in its file. */
bool launch_io_lost(void);
/* Writes a line of mpirun's own to stderr, in order. */
void launch_io_print(const char *text);
void launch_io_fini(struct launch_job *job);

#endif
