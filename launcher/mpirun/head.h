/* SPDX-License-Identifier: BSD-3-Clause */
/* mpirun as the head of a job over several hosts: the root of the tree of agents.  It has no ranks
 * and no PMIx server.  Frames of the agents are translated into the events of one host: the death
 * of a rank, output, a PMIx event.  So job_end.c decides in both cases why and how a job ends. Main
 * thread only. */
#ifndef LAUNCHER_MPIRUN_HEAD_H
#define LAUNCHER_MPIRUN_HEAD_H

#include "launcher/explain/merge.h"
#include "launcher/job.h"

struct head;
struct pollfd;

/* Starts the agents, assigns ranks to hosts and lets the agents prepare the job.  Returns 0 and
 * sets job->head, or an exit code after a message.  Returns early on a signal that ends mpirun. */
int head_start(struct launch_job *job, int signal_fd);
/* Starts the ranks. */
void head_go(struct head *h);
/* Ends the agents, waits at most two seconds for them, and frees job->head, which may be NULL. */
void head_stop(struct launch_job *job);

void head_signal(struct head *h, int sig); /* to all ranks */
/* To all hosts: a rank of that job has died (--ft). */
void head_died(struct head *h, const char *nspace, int rank);
/* No rank is left: the agents clean up and send the remaining output. */
void head_finish(struct head *h);
bool head_finished(const struct head *h);

/* Called by the loop, which reports ended ranks afterwards.  A time of -1: no limit. */
int head_nfds(const struct head *h);
int head_fds(struct head *h, struct pollfd *fds);
int head_timeout_ms(const struct head *h);
void head_step(struct head *h, const struct pollfd *fds);
/* Ends the job if ranks wait in a fence for a rank that has ended; a rank that has failed is
 * reported first. */
void head_check_fences(struct head *h);
void head_exited(struct head *h, pid_t pid, int status); /* the process of a remote shell */

/* Called by forward.c: a piece of mpirun's standard input for the ranks that read it, empty at the
 * end.  The next piece may be passed when this one has been taken. */
void head_input(struct head *h, const void *data, size_t len);
bool head_input_busy(const struct head *h);

/* Asks all agents what their ranks do; asked before LOOK_PICTURE: LOOK_MOVEMENT.  -RT_ENOMEM.
 * The agents have time until head_look_until_ns(); 0: all answers are there.  Then: */
int head_look(struct head *h, enum explain_look kind);
uint64_t head_look_until_ns(const struct head *h);
/* a value that stays the same while no rank does anything in MPI, and the age of the oldest wait;
 */
uint64_t head_look_movement(const struct head *h, uint64_t *age_ns);
/* the pictures (NULL: no memory), and a text about hosts that are not in them; "": none. */
struct explain_merge *head_look_pictures(struct head *h);
void head_look_missing(const struct head *h, char *text, size_t len);

#endif
