/* SPDX-License-Identifier: BSD-3-Clause */
/* The library's life: it is up while the world model or at least one session uses it (MPI-5.0
 * sections 11.2 and 11.3).  Any thread, at any time. */
#ifndef WM_CORE_LIFE_H
#define WM_CORE_LIFE_H

#include "mpi/core/mpi_int.h"

/* Reads the settings, once; MPI_SUCCESS or what wm_err() returned. */
int wm_life_settings(void);
/* One more user: brings the library up when it is down.  `*provided` is the thread level that this
 * user gets: the required one, unless threads may be inside already without locks. */
int wm_life_enter(int required, int *provided);
/* One user less.  The last one finishes what other processes still wait for and leaves the process
 * manager in order; the node segment, the domain and the facts of the job stay, because peers may
 * be in another of their lives, and because MPI may be used again.  `call` is for messages. */
void wm_life_leave(const char *call);

/* Called inside MPI, without locks: switches them on, for a thread of the library's own that is
 * about to begin.  False: the application's threads may be inside without them. */
bool wm_life_threads(void);

/* Ends this process, a child of fork() that has called MPI (WM_FORKED), with a message; the process
 * manager and the other ranks get no message. */
_Noreturn void wm_life_forked(const char *call);

/* "MPI_THREAD_MULTIPLE"; NULL when the level is none. */
const char *wm_thread_level_name(int level);
/* The level of this name, -1 when there is none. */
int wm_thread_level_of(const char *name);

#endif
