/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations as objects. */
#ifndef WM_OP_OP_H
#define WM_OP_OP_H

#include "mpi/base/mpi_int.h"
#include "mpi/datatype/type.h"
#include "runtime/reduce/reduce.h"

struct wm_op {
    struct rt_obj obj;
    /* User operations must be given the layout inside a struct wm_type, not a copy. */
    struct rt_op op;
    bool predefined;
    bool freed; /* by the user; collectives may still use it */
    union {
        MPI_User_function *plain;
        MPI_User_function_c *large;
        MPIX_User_function_x *extra; /* called with `state` */
    } fn;
    MPIX_Destructor_function *destroy; /* of `state`; NULL: none */
    void *state;
};

extern struct rt_slab wm_op_slab;
extern struct wm_op *wm_op_predefined[32]; /* index handle & 0x1f; NULL for MPI_OP_NULL */

static inline struct wm_op *wm_op_get(MPI_Op h)
{
    uintptr_t v = (uintptr_t)h;
    if (v < WM_PREDEFINED_MAX)
        return (v & ~0x1fu) == 0x20 ? wm_op_predefined[v & 0x1f] : NULL;
    return rt_slab_get(&wm_op_slab, v);
}
MPI_Op wm_op_handle(const struct wm_op *o);
/* Gives an operation that is not in use yet a function with a state of its own. */
void wm_op_set_x(struct wm_op *o, MPIX_User_function_x *fn, MPIX_Destructor_function *destroy,
                 void *state);

/* Nonblocking and persistent reductions hold a reference, so that MPI_Op_free does not end the
 * operation. */
void wm_op_ref(struct wm_op *o);
void wm_op_unref(struct wm_op *o);
/* Whether MPI allows the op on the type (MPI-5.0 section 6.9.2): user ops on all types, predefined
 * ops on predefined types of the right class. */
bool wm_op_allows(const struct wm_op *o, const struct wm_type *t);

#endif
