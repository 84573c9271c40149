/* SPDX-License-Identifier: BSD-3-Clause */
/* Raising errors (MPI-5.0 section 9.3).  Without locks: a handler may call MPI. */
#ifndef WM_CORE_RAISE_H
#define WM_CORE_RAISE_H

#include "mpi/base/mpi_int.h"

struct wm_errh;

/* Calls the error handler that applies and returns the value for the binding to return.  `comm`
 * NULL: the call has no communicator; then the handler of MPI_COMM_SELF is called if the program
 * has set it (MPI-5.0 section 9.3), else that of MPI_COMM_WORLD. */
int wm_raise_comm(struct wm_comm *comm, int errcode, const char *call) __attribute__((cold));
int wm_raise_win(struct wm_win *win, int errcode, const char *call) __attribute__((cold));
int wm_raise_file(struct wm_file *file, int errcode, const char *call) __attribute__((cold));
int wm_raise_session(struct wm_session *s, int errcode, const char *call) __attribute__((cold));
/* Calls `h` for an error of a call that was given its handler, because its object does not exist
 * yet (MPI_Session_init, MPI_Comm_create_from_group). NULL: the call was given no handler
 * either. */
int wm_raise_errh(struct wm_errh *h, int errcode, const char *call) __attribute__((cold));
/* For calls on groups: the handler of the session from which the group was derived. */
int wm_raise_group(struct wm_group *g, int errcode, const char *call) __attribute__((cold));
/* Prints the caller's stack to stderr if the setting abort_backtrace is on. */
void wm_err_backtrace(void);

#endif
