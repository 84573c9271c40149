/* SPDX-License-Identifier: BSD-3-Clause */
/* The jobs of one mpirun.  Its own job may spawn others, and these may spawn further ones.  Each
 * spawned job, a member of the family, has an mpirun of its own, which the first mpirun starts with
 * the hosts and slots that are free.  So a job is always started, watched and ended by the same
 * code, and what a member uses is returned when its mpirun ends.  The mpirun of a member is
 * connected to the first one by a socket, the option --weft-control: it announces its job
 * (FRAME_UP), passes on requests of its ranks (FRAME_ASK), and ends its job when FRAME_QUIT arrives
 * or the socket closes.
 *
 * A process without an mpirun starts one when it spawns.  That mpirun has no job of its own: the
 * process is its first member, adopted with its job, and sends the same frames.
 *
 * The first mpirun keeps the names, the slots in use, and which jobs are connected.  If a job
 * fails, the jobs connected to it, directly or through others, end too; with --ft the death of
 * ranks, even of all, is no failure of their job.  Main thread. */
#ifndef LAUNCHER_MPIRUN_FAMILY_H
#define LAUNCHER_MPIRUN_FAMILY_H

#include "launcher/job.h"

struct pollfd;

/* Called once, before ranks run.  0 or -RT_ENOMEM. */
int family_init(struct launch_job *job);
/* The socket of --weft-serve leads to a process that has no mpirun.  It becomes a member that runs
 * already.  0, or -RT_ESYS after a message. */
int family_adopt(struct launch_job *job);
/* The ranks of this mpirun's job run: announces the job to the first mpirun. */
void family_up(struct launch_job *job);
/* A request (ask.h) of a rank: of this host, answered with launch_ask_answer(); of another host,
 * answered with FRAME_ANSWER to its node. */
void family_ask(struct launch_job *job, struct launch_call *call, int rank);
void family_ask_from(struct launch_job *job, uint32_t node, uint32_t number, int rank,
                     const struct launch_list *words);
/* With --ft: a rank of that job has died.  The ranks of all other jobs of the family are notified:
 * which of them know the rank, they find out themselves. */
void family_died(struct launch_job *job, const char *nspace, int rank);
/* With --ft: the ranks have ended, and their deaths are no failure of the job: the jobs connected
 * to it continue. */
void family_left(struct launch_job *job);
/* Whether the process was the mpirun of a member, which has now ended. */
bool family_exited(struct launch_job *job, pid_t pid, int status);
/* For poll(): the number of descriptors, and the descriptors. */
int family_nfds(const struct launch_job *job);
int family_fds(struct launch_job *job, struct pollfd *fds);
/* Handles frames; ends jobs that are connected to a job that has failed. */
void family_step(struct launch_job *job);
/* Ends all members except an adopted process, which has received the signal of the user, too.
 * `now`: their mpiruns also get SIGTERM. */
void family_end_all(struct launch_job *job, bool now);
/* Sends a signal to the mpiruns of all members. */
void family_signal(struct launch_job *job, int sig);
/* Time at which family_step() must be called: an adopted process is to be killed, or a spawn has
 * waited long enough for slots.  0: at no time. */
uint64_t family_step_at_ns(const struct launch_job *job);
/* Whether this mpirun runs a job that another mpirun's job has spawned. */
bool family_is_member(const struct launch_job *job);
/* Whether such a job is to end, before family_up(). */
bool family_ends_early(struct launch_job *job);
/* Whether a member runs. */
bool family_active(const struct launch_job *job);
/* Frees the family.  Members that still run end when their sockets close. */
void family_fini(struct launch_job *job);

#endif
