/* SPDX-License-Identifier: BSD-3-Clause */
/* The progress thread of the library: it serves other processes while the program computes, and
 * exists while a client does.  Clients need locks (wm_life_threads). */
#ifndef WM_CORE_HELPER_H
#define WM_CORE_HELPER_H

#include <stdbool.h>

enum wm_client {
    WM_CLIENT_WINDOW, /* other hosts access it: descriptors of transports report that */
    WM_CLIENT_FILE,   /* has operations that meet those of other ranks, of this host, too */
    WM_CLIENTS
};

/* Without the domain's lock.  `joined` belongs to the client, false at first.  0 or an errno value:
 * there is no thread, and the client is served while this process calls MPI. */
int wm_helper_join(enum wm_client c, bool *joined);
void wm_helper_leave(enum wm_client c, bool *joined);

/* An operation of a WM_CLIENT_FILE that has joined is in progress; it has ended.  Under the
 * domain's lock. */
void wm_helper_begin(void);
void wm_helper_end(void);

#endif
