/* SPDX-License-Identifier: BSD-3-Clause */
/* How a body reports an error: it leaves a text for the error handler of this call (thread-local)
 * and returns the error class.  mpi/core/raise.h calls the error handlers. */
#ifndef WM_BASE_ERR_H
#define WM_BASE_ERR_H

struct wm_comm;

/* Reports an error with its detail: stores the text and returns `errclass`.  The text names what
 * was found, what was expected and what to do; the error handler adds rank, call and object. */
int wm_err(int errclass, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));
/* The same for a negative code from a lower layer. */
int wm_err_rt(int rt_err, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));
/* The error class of such a code. */
int wm_err_class(int rt_err);
/* Text that wm_err() left on this thread, "" if none. */
const char *wm_err_detail(void);
void wm_err_clear(void);

/* Sets the communicator whose handler applies to the error being returned, for calls that have no
 * communicator argument (MPI_Wait). wm_raise_comm(NULL, ...) uses and clears it; until then it
 * holds a reference.  Called under the domain's lock, only by calls that fail. */
void wm_err_attach(struct wm_comm *comm);
/* That communicator, with the reference; NULL if none is attached.  Afterwards none is attached. */
struct wm_comm *wm_err_take_comm(void);

#endif
