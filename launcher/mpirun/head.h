/* SPDX-License-Identifier: BSD-3-Clause */
/* mpirun as the head of a job over several hosts: the root of the tree of agents.  It has no rank
 * and no PMIx server of its own; frames of the agents become what happens on one host: a rank's
 * death, its output, an event.  So why and how a job ends is decided by end.c in both cases.  Main
 * thread only. */
#ifndef LAUNCHER_MPIRUN_HEAD_H
#define LAUNCHER_MPIRUN_HEAD_H

#include "launcher/job.h"

struct head;
struct pollfd;

/* Starts the agents, assigns ranks to hosts and has everything prepared; 0 and job->head, or an
 * exit code after a message.  Returns early for a signal that ends mpirun. */
int head_start(struct launch_job *job, int signal_fd);
/* Starts the ranks. */
void head_go(struct head *h);
void head_stop(struct launch_job *job);

void head_signal(struct head *h, int sig); /* to all ranks */
/* No rank is left: the agents clear up and send what output there is. */
void head_finish(struct head *h);
bool head_finished(const struct head *h);

/* The loop's side; it reports the dead afterwards. */
int head_nfds(const struct head *h);
int head_fds(struct head *h, struct pollfd *fds);
int head_timeout_ms(const struct head *h);
void head_step(struct head *h, const struct pollfd *fds);
/* Ends the job when ranks wait in a fence for one that has ended; one that failed is reported
 * first. */
void head_check_fences(struct head *h);
void head_exited(struct head *h, pid_t pid, int status); /* a remote shell */

/* io.c's side: a piece of our stdin for the ranks that read it, empty at its end; the next may
 * come when this one is taken. */
void head_input(struct head *h, const void *data, size_t len);
bool head_input_busy(const struct head *h);

#endif
