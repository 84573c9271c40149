/* SPDX-License-Identifier: BSD-3-Clause */
/* Datatypes and operations as objects. */
#ifndef WM_DATATYPE_TYPE_H
#define WM_DATATYPE_TYPE_H

#include "mpi/base/mpi_int.h"
#include "runtime/layout/layout.h"
#include "runtime/reduce/reduce.h"

struct wm_attrs;

struct wm_type {
    struct rt_obj obj; /* predefined: the ABI value as handle; refs counts handles, messages and
                          derived types */
    int32_t handles;   /* that the user has to free, atomic; the last takes the attributes along */
    struct rt_layout layout;
    bool predefined, committed;    /* predefined: includes the unnamed ones of create_f90_* */
    bool absent;                   /* optional type that this compiler lacks: size MPI_UNDEFINED */
    int combiner;                  /* MPI_COMBINER_... */
    struct wm_type_recipe *recipe; /* arguments of the constructor; NULL for predefined types */
    int64_t nelems;                /* basic elements in one item; a pair is two */
    int32_t align;   /* strictest alignment of its basic types, bytes: pads the extent of structs */
    bool bounds_set; /* its bounds come from MPI_Type_create_resized, also inside another type */
    uint32_t ops;    /* predefined: operations that MPI allows, bits of enum rt_opcode */
    int pair_first;  /* predefined pair: bytes of its first part */
    struct wm_type *basic; /* the one predefined type that all its data has; NULL when there are
                              several or none */
    struct wm_attrs *attrs;
    char name[MPI_MAX_OBJECT_NAME];
};

struct wm_op {
    struct rt_obj obj;
    /* User operations must be given the layout inside a struct wm_type, not a copy. */
    struct rt_op op;
    bool predefined;
    bool freed; /* by the user; collectives may still use it */
    union {
        MPI_User_function *plain;
        MPI_User_function_c *large;
    } fn;
};

/* Set by the bindings of the _c constructors around their bodies: the contents are large counts. */
extern _Thread_local bool wm_type_large;

extern struct rt_slab wm_type_slab, wm_op_slab;
/* Indexed by handle & 0xff; NULL where nothing is assigned. */
extern struct wm_type *wm_type_predefined[256];
extern struct wm_op *wm_op_predefined[32]; /* index handle & 0x1f; NULL for MPI_OP_NULL */

static inline struct wm_type *wm_type_get(MPI_Datatype h)
{
    uintptr_t v = (uintptr_t)h;
    if (rt_likely(v < WM_PREDEFINED_MAX))
        return (v & ~0xffu) == 0x200 ? wm_type_predefined[v & 0xff] : NULL;
    return rt_slab_get(&wm_type_slab, v);
}
static inline struct wm_op *wm_op_get(MPI_Op h)
{
    uintptr_t v = (uintptr_t)h;
    if (v < WM_PREDEFINED_MAX)
        return (v & ~0x1fu) == 0x20 ? wm_op_predefined[v & 0x1f] : NULL;
    return rt_slab_get(&wm_op_slab, v);
}
MPI_Datatype wm_type_handle(const struct wm_type *t);
MPI_Op wm_op_handle(const struct wm_op *o);

/* Fill the predefined tables; idempotent, called before main() by the library. */
void wm_type_init(void);
void wm_op_init(void);
/* Gives back what the library keeps for itself: the types of MPI_Type_create_f90_*. */
void wm_type_fini(void);

/* Fortran's default kinds: sizes that Weft can give them, and giving them one, for the types that
 * follow (MPI_INTEGER, MPI_2INTEGER ...; MPI-5.0 chapter 20).  Before types are derived of them. */
enum wm_fortran_kind { WM_FORTRAN_LOGICAL, WM_FORTRAN_INTEGER, WM_FORTRAN_REAL, WM_FORTRAN_DOUBLE };
bool wm_type_fortran_known(enum wm_fortran_kind kind, int nbytes);
void wm_type_fortran_size(enum wm_fortran_kind kind, int nbytes);
/* A message or derived type that outlives the handle holds a reference. */
void wm_type_ref(struct wm_type *t);
void wm_type_unref(struct wm_type *t);
/* Nonblocking and persistent reductions hold a reference, so that MPI_Op_free does not end the
 * operation. */
void wm_op_ref(struct wm_op *o);
void wm_op_unref(struct wm_op *o);
/* Whether MPI allows the op on the type (MPI-5.0 section 6.9.2): user ops on all types, predefined
 * ops on predefined types of the right class. */
bool wm_op_allows(const struct wm_op *o, const struct wm_type *t);

#endif
