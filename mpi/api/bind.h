/* SPDX-License-Identifier: BSD-3-Clause */
/* What the generated bindings share: export macros, the checks that every call makes inline (a
 * compare or two, predicted), and the cold functions that put a failed check into words.  A cold
 * function leaves the text with wm_err() and returns the error class; the binding raises it.  `arg`
 * is the text "argument 4 (dest)". */
#ifndef WM_API_BIND_H
#define WM_API_BIND_H

#include <limits.h>
#include "mpi/api/bodies.h"
#include "mpi/coll/check.h"
#include "mpi/coll/call.h"
#include "mpi/core/comm.h"
#include "mpi/core/errh.h"
#include "mpi/core/info.h"
#include "mpi/core/mpi_int.h"
#include "mpi/core/session.h"
#include "mpi/core/win.h"
#include "mpi/datatype/type.h"

#define WM_EXPORT __attribute__((visibility("default")))
/* Profiling: PMPI_X is the function, MPI_X a weak name for it that a tool may define anew. */
#define WM_WEAK(name) \
    extern __typeof__(P##name) name __attribute__((weak, alias("P" #name), visibility("default")))

/* Files: this library makes no such objects yet, so no handle is valid. */
static inline struct wm_file *wm_file_get(MPI_File h)
{
    (void)h;
    return NULL;
}
static inline MPI_File wm_file_handle(const struct wm_file *f)
{
    (void)f;
    return MPI_FILE_NULL;
}

/* MPI_BOTTOM, MPI_IN_PLACE and MPI_BUFFER_AUTOMATIC are the addresses 0, 1 and 2; of these only
 * MPI_BOTTOM may hold data, and only for a derived datatype, whose displacements may be addresses.
 * `t` NULL: bytes. */
static inline bool wm_bad_address(const void *buf, MPI_Count count, const struct wm_type *t)
{
    return rt_unlikely((uintptr_t)buf <= 2) && count > 0 && (buf || !t || t->predefined);
}

/* Processes that a rank argument may name: on an intercommunicator those of the remote group. */
static inline int wm_comm_npeers(const struct wm_comm *c)
{
    return rt_likely(!c->inter) ? c->size : c->remote->size;
}

static inline bool wm_usable_type(const struct wm_type *t)
{
    return rt_likely(t != NULL) && rt_likely(t->committed) && rt_likely(!t->absent);
}

/* Which arguments of a collective with a root mean something to this process. */
#define WM_AT_ROOT 1u /* those for the root only */
#define WM_AT_ALL 2u  /* the others */
/* `both`: the root of an intercommunicator uses its peers' arguments too (broadcast, reduce). */
static inline unsigned wm_root_side(const struct wm_comm *c, int root, bool both)
{
    if (rt_likely(!c->inter))
        return root == c->rank ? WM_AT_ROOT | WM_AT_ALL : WM_AT_ALL;
    if (root == MPI_ROOT)
        return both ? WM_AT_ROOT | WM_AT_ALL : WM_AT_ROOT;
    return root == MPI_PROC_NULL ? 0 : WM_AT_ALL;
}
static inline bool wm_valid_root(const struct wm_comm *c, int root)
{
    if (rt_likely(!c->inter))
        return (unsigned)root < (unsigned)c->size;
    return root == MPI_ROOT || root == MPI_PROC_NULL || (unsigned)root < (unsigned)c->remote->size;
}

/* MPI_UNDEFINED stands for a count that does not fit an int (MPI-5.0 section 3.2.5). */
static inline int wm_fit_int(MPI_Count n)
{
    return rt_likely(n >= INT_MIN && n <= INT_MAX) ? (int)n : MPI_UNDEFINED;
}

#define WM_COLD __attribute__((cold, noinline))

/* The library is not up: raises MPI_ERR_OTHER and returns it. */
int wm_bad_phase(const char *call) WM_COLD;
/* The same for calls that belong to the world model, whatever sessions are open. */
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

/* After wm_bad_address(). */
int wm_bad_buffer(const char *arg, const void *buf, const struct wm_type *t) WM_COLD;
/* The vector of a v or w collective: n counts, none negative. */
int wm_check_counts(const char *arg, struct wm_counts v, int n);

#endif
