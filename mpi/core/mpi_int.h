/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by all files of mpi/: the library's state, object classes, handle decoding, and how a body
 * reports an error.  A procedure MPI_Xxx_yyy has three parts: a row of the API table; a generated
 * binding MPI_Xxx_yyy/PMPI_Xxx_yyy that checks the arguments by kind, decodes handles and raises
 * errors; and a hand-written body `int wm_api_xxx_yyy(...)` in its chapter's folder.  A body
 * returns MPI_SUCCESS or what wm_err() returned. */
#ifndef WM_CORE_MPI_INT_H
#define WM_CORE_MPI_INT_H

#include <stdbool.h>
#include <stdint.h>
#include "mpi.h"
#include "runtime/base/atomic.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/base/slab.h"

/* Slab classes, the top four bits of a handle. */
enum wm_class {
    WM_COMM = 1,
    WM_GROUP,
    WM_TYPE,
    WM_OP,
    WM_REQUEST,
    WM_ERRHANDLER,
    WM_INFO,
    WM_MESSAGE,
    WM_WIN,
    WM_FILE,
    WM_SESSION,
    WM_KEYVAL,
    WM_XSTREAM, /* MPIX_Stream */
    WM_TOOL,    /* handles of the tool information interface */
    WM_CLASSES
};

#define WM_PREDEFINED_MAX 0x1000u /* handles below are the ABI's constants */

struct wm_comm;
struct wm_group;
struct wm_type;
struct wm_op;
struct wm_errh;
struct wm_info;
struct wm_win;
struct wm_file;
struct wm_session;
struct wm_message;

/* FORKED: this process is a child made by fork() after MPI was initialized.  The child shares the
 * connections and the memory of its parent, so it must not use the library. */
enum wm_phase { WM_BEFORE_INIT, WM_INITIALIZED, WM_FINALIZED, WM_FORKED };
struct wm_state {
    int phase;        /* enum wm_phase of the world model */
    int users;        /* world model + open sessions; the library is up while > 0.  0 when FORKED */
    int thread_level; /* MPI_THREAD_... */
};
extern struct wm_state wm_state;

/* Reports an error with its detail: stores the text for the error handler of this call
 * (thread-local) and returns `errclass`.  The text names what was found, what was expected and what
 * to do; the caller adds rank, call and argument name. */
int wm_err(int errclass, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));
/* The same for a negative code from a lower layer. */
int wm_err_rt(int rt_err, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));
/* Sets the communicator whose handler applies to the error being returned, for calls that have no
 * communicator argument (MPI_Wait). wm_raise_comm(NULL, ...) uses and clears it; until then it
 * holds a reference.  Called under the domain's lock, only by calls that fail. */
void wm_err_attach(struct wm_comm *comm);
/* Text that wm_err() left on this thread, "" if none. */
const char *wm_err_detail(void);

/* Calls the error handler that applies and returns the value for the binding to return.  `comm`
 * NULL: the call has no communicator; then the handler of MPI_COMM_SELF is called if the program
 * has set it (MPI-5.0 section 9.3), else that of MPI_COMM_WORLD. */
int wm_raise_comm(struct wm_comm *comm, int errcode, const char *call) __attribute__((cold));
int wm_raise_win(struct wm_win *win, int errcode, const char *call) __attribute__((cold));
int wm_raise_file(struct wm_file *file, int errcode, const char *call) __attribute__((cold));
int wm_raise_session(struct wm_session *s, int errcode, const char *call) __attribute__((cold));

/* Count vectors of the v and w collectives: int[] from the plain binding, MPI_Count[] from the _c
 * binding. */
struct wm_counts {
    const void *v;
    bool wide;
};
static inline int64_t wm_count_at(struct wm_counts c, int i)
{
    return c.wide ? ((const MPI_Count *)c.v)[i] : ((const int *)c.v)[i];
}
/* Displacement vectors: int[] or MPI_Aint[]. */
struct wm_displs {
    const void *v;
    bool wide;
};
static inline int64_t wm_displ_at(struct wm_displs d, int i)
{
    return d.wide ? ((const MPI_Aint *)d.v)[i] : ((const int *)d.v)[i];
}

#endif
