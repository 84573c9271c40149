/* SPDX-License-Identifier: BSD-3-Clause */
/* The error texts of the bindings' argument checks, in cold functions.  Each stores the text with
 * wm_err() and returns the error class; the binding raises it.  `arg` is the text
 * "argument 4 (dest)". */
#ifndef WM_API_BAD_H
#define WM_API_BAD_H

#include "mpi/base/caller.h"
#include "mpi/base/comm.h"
#include "mpi/datatype/type.h"

#define WM_COLD __attribute__((cold, noinline))

/* MPI is not initialised: raises MPI_ERR_OTHER.  This function and the next two return the
 * value that the binding returns. */
int wm_bad_phase(const char *call) WM_COLD;
/* The same for calls of the world model, also if sessions are open. */
int wm_bad_world(const char *call) WM_COLD;
/* The procedure has no body: raises MPI_ERR_UNSUPPORTED_OPERATION on `comm` (may be NULL). */
int wm_unsupported(struct wm_comm *comm, const char *call) WM_COLD;

int wm_bad_comm(const char *arg, MPI_Comm h) WM_COLD;
int wm_bad_group(const char *arg, MPI_Group h) WM_COLD;
int wm_bad_op(const char *arg, MPI_Op h) WM_COLD;
int wm_bad_errh(const char *arg, MPI_Errhandler h) WM_COLD;
int wm_bad_info(const char *arg, MPI_Info h) WM_COLD;
int wm_bad_win(const char *arg, MPI_Win h) WM_COLD;
int wm_bad_file(const char *arg, MPI_File h) WM_COLD;
int wm_bad_session(const char *arg, MPI_Session h) WM_COLD;
/* A wrong handle, or a datatype that communication cannot use: not committed, or not of this
 * machine. */
int wm_bad_type(const char *arg, MPI_Datatype h) WM_COLD;
int wm_bad_op_type(const char *arg, MPI_Op op, MPI_Datatype type) WM_COLD;

int wm_bad_rank(const char *arg, const struct wm_comm *c, int found) WM_COLD;
int wm_bad_source(const char *arg, const struct wm_comm *c, int found) WM_COLD;
int wm_bad_member(const char *arg, const struct wm_comm *c, int found) WM_COLD;
int wm_bad_root(const char *arg, const struct wm_comm *c, int found) WM_COLD;
int wm_bad_tag(const char *arg, int found) WM_COLD;
int wm_bad_recv_tag(const char *arg, int found) WM_COLD;
int wm_bad_count(const char *arg, MPI_Count found) WM_COLD;
/* A negative number of something else: `errclass` is MPI_ERR_ARG, MPI_ERR_DIMS ... */
int wm_bad_number(const char *arg, MPI_Count found, int errclass) WM_COLD;
int wm_bad_null(const char *arg, int errclass) WM_COLD;
int wm_bad_in_place(const char *arg, const struct wm_comm *c) WM_COLD;

/* A buffer that wm_bad_address() has found to be bad. */
int wm_bad_buffer(const char *arg, const void *buf, const struct wm_type *t) WM_COLD;
/* Checks the vector of a v or w collective: n counts, none negative.  MPI_SUCCESS or an error. */
int wm_check_counts(const char *arg, struct wm_counts v, int n);

#endif
