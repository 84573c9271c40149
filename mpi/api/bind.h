/* SPDX-License-Identifier: BSD-3-Clause */
/* What the generated bindings share: export macros and the checks that every call makes inline (a
 * compare or two, predicted). */
#ifndef WM_API_BIND_H
#define WM_API_BIND_H

#include <limits.h>
#include "mpi/api/bodies.h"
#include "mpi/api/bad.h"
#include "mpi/check/made.h"
#include "mpi/coll/check.h"
#include "mpi/coll/call.h"
#include "mpi/base/comm.h"
#include "mpi/core/errh.h"
#include "mpi/core/info.h"
#include "mpi/core/raise.h"
#include "mpi/core/session.h"
#include "mpi/core/state.h"
#include "mpi/core/win.h"
#include "mpi/datatype/type.h"
#include "mpi/core/file.h"
#include "mpi/io/op.h"
#include "mpi/p2p/request.h"
#include "mpi/rma/quick_calls.h"

#define WM_EXPORT __attribute__((visibility("default")))
#define WM_NOINLINE __attribute__((noinline))
/* Profiling: PMPI_X is the function, MPI_X a weak name for it that a tool may define anew. */
#define WM_WEAK(name) \
    extern __typeof__(P##name) name __attribute__((weak, alias("P" #name), visibility("default")))

/* After a call that could otherwise become a jump: a wait in it finds the name of the MPI procedure
 * on the stack (runtime/base/frames.h). */
#define WM_STAYS_ON_STACK() __asm__ volatile("")

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

/* Which arguments of a collective with a root are significant at this process. */
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

#endif
