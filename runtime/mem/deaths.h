/* SPDX-License-Identifier: BSD-3-Clause */
/* Deaths and departures of processes: the one place that finds them, for all layers.
 *
 * A wait whose end depends on other processes compares rt_interrupts() with the number that it has
 * seen: one load, no clock, no system call.  A new number means that something has happened that
 * may end waits; the wait then asks what concerns it: the functions below about ranks of this host,
 * rt_other.ended about processes of other jobs, wm_peer.err about those of other hosts.  Code that
 * detects such an event by other means (a lost connection, a message, an answer of mpirun) calls
 * rt_interrupt(), and so may other kinds of events, such as the revocation of a communicator.
 *
 * rt_deaths_look() keeps the only clock.  The general wait calls it before it sleeps, and progress
 * once in some hundred passes (mpi/p2p).  Every 50 ms one process looks for all ranks of
 * its host, and asks the kernel once for each rank: the process that advances the time of the next
 * look, in the node segment, by compare-and-swap.  A process has ended if two looks in a row do not
 * find it; after one look, ranks would often return errors before mpirun ends the job.  The look
 * marks it in its bell, advances the segment's counter and wakes all sleepers; each process
 * advances its own number when it finds a new counter.  If the looking process dies meanwhile,
 * another one looks 50 ms later.  Processes of a PID namespace that is not the segment's look for
 * themselves.
 *
 * With the setting `ft`, the launcher reports deaths (runtime/boot/dead.h), and the next look takes
 * them without asking the kernel.
 *
 * States of a rank: attached; leaving, from MPI_Finalize on; left, in good order: others may still
 * need what it has stored.  Its process may end in each of them.  A process that has ended without
 * leaving has died. */
#ifndef RT_MEM_DEATHS_H
#define RT_MEM_DEATHS_H

#include "runtime/mem/segment.h"

extern RT_HIDDEN uint32_t rt_interrupts_count;
/* Interruptions so far in this process; 0: none.  Any thread. */
static inline uint32_t rt_interrupts(void) { return rt_load_relaxed(&rt_interrupts_count); }
void rt_interrupt(void); /* any thread */

/* Before rt_boot_init(): deaths that the launcher reports interrupt waits. */
void rt_deaths_init(void);

/* Under the domain's lock.  True: a caller that sleeps must look again after RT_DEATHS_US, because
 * a process must be confirmed to have ended, or to map another segment. */
#define RT_DEATHS_US 60000
bool rt_deaths_look(void);

/* Whether rank `r` of this host has published that it will post no further receives, or has
 * left. */
bool rt_node_is_leaving(int r);
void rt_node_publish_leaving(void);
/* Whether its process is known to have ended, in any state; whether it has died so. */
bool rt_node_has_ended(int r);
bool rt_node_has_died(int r);
/* Whether it has left MPI, or its process is known to have ended: it stores nothing more. */
bool rt_node_gone(int r);
/* The same after asking the kernel about `r`, for a caller that cannot wait for the next look: one
 * system call.  Any thread. */
bool rt_node_gone_now(int r);

/* Takes a lock that is held for a moment: a word of shared memory that names its holder, the local
 * rank plus 1; 0: free.  A holder that has ended does not block the others.  A store of 0 with
 * release frees the lock.  Any thread. */
void rt_node_hold(uint32_t *word);

#endif
