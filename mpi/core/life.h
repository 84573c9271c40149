/* SPDX-License-Identifier: BSD-3-Clause */
/* Start and end of the library: it is up while it has users, the world model or at least one
 * session (MPI-5.0 sections 11.2 and 11.3).  After the last user has left, the library is at rest:
 * segment and domain exist, and a new session can use them again.  Any thread, at any time. */
#ifndef WM_CORE_LIFE_H
#define WM_CORE_LIFE_H

#include "mpi/core/state.h"

/* Adds a user: brings the library up if it is down.  `*provided` is the thread level of this user:
 * the required level, or a lower one if threads may already be inside MPI without locks.  Returns
 * MPI_SUCCESS or what wm_err() returned. */
int wm_life_enter(int required, int *provided);
/* Removes a user.  The last one completes what other processes still wait for and disconnects from
 * the process manager in order.  The node segment, the domain and the facts of the job stay: peers
 * may still be up, and MPI may be used again.  `call` is for messages. */
void wm_life_leave(const char *call);

/* The store of the program, which takes the place of a process manager.  An error of wm_err() if
 * this process has another rank or size already; no effect if the store came before. */
struct rt_store;
int wm_life_use_store(const struct rt_store *s);

/* Called when the library goes to rest, before the domain does; set by mpi/stream, which may have
 * work on devices then, and by helper.c, which may have a thread.  NULL: nothing to do. */
enum wm_rest { WM_REST_STREAM, WM_REST_HELPER, WM_RESTS };
extern void (*wm_life_at_rest[WM_RESTS])(void);

/* Called inside MPI, without the domain's lock: switches locks on if they are off, because the
 * library is about to start a thread of its own.  False: the application's threads may be inside
 * without locks. */
bool wm_life_threads(void);

/* Ends this process, a child of fork() that has called MPI (WM_FORKED), and prints why; the process
 * manager and the other ranks are not notified. */
_Noreturn void wm_life_forked(const char *call);

/* "MPI_THREAD_MULTIPLE"; NULL if there is no such level. */
const char *wm_thread_level_name(int level);
/* The level with this name, -1 if there is none. */
int wm_thread_level_of(const char *name);

#endif
