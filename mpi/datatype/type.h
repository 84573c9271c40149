/* SPDX-License-Identifier: BSD-3-Clause */
/* Datatypes as objects. */
#ifndef WM_DATATYPE_TYPE_H
#define WM_DATATYPE_TYPE_H

#include "mpi/base/mpi_int.h"
#include "runtime/layout/layout.h"

struct wm_attrs;

struct wm_type {
    struct rt_obj obj; /* predefined: the ABI value as handle; refs counts handles, messages and
                          derived types */
    int32_t handles;   /* handles that the user has to free; atomic; freeing the last deletes the
                          attributes */
    struct rt_layout layout;
    bool predefined, committed;    /* predefined: includes the unnamed ones of create_f90_* */
    bool absent;                   /* optional type that this compiler lacks: size MPI_UNDEFINED */
    int combiner;                  /* MPI_COMBINER_... */
    struct wm_type_recipe *recipe; /* arguments of the constructor; NULL for predefined types */
    int64_t nelems;                /* basic elements in one item; a pair is two */
    int32_t align;   /* strictest alignment of its basic types, bytes: pads the extent of structs */
    bool bounds_set; /* its bounds were set by the resized, subarray or darray constructor, also
                        inside another type */
    uint32_t ops;    /* predefined: operations that MPI allows, bits of enum rt_opcode */
    int pair_first;  /* predefined pair: bytes of its first part */
    struct wm_type *basic; /* the one predefined type that all its data has; NULL when there are
                              several or none */
    struct wm_attrs *attrs;
    char name[MPI_MAX_OBJECT_NAME];
};

/* Set by the bindings of the _c constructors around their bodies: the contents are large counts. */
extern _Thread_local bool wm_type_large;

extern struct rt_slab wm_type_slab;
/* Indexed by handle & 0xff; NULL where nothing is assigned. */
extern RT_HIDDEN struct wm_type *wm_type_predefined[256];

static inline struct wm_type *wm_type_get(MPI_Datatype h)
{
    uintptr_t v = (uintptr_t)h;
    if (rt_likely(v < WM_PREDEFINED_MAX))
        return (v & ~0xffu) == 0x200 ? wm_type_predefined[v & 0xff] : NULL;
    return rt_slab_get(&wm_type_slab, v);
}
/* The same for a handle that is predefined. */
static inline struct wm_type *wm_type_known(MPI_Datatype h)
{
    return wm_type_predefined[(uintptr_t)h & 0xff];
}
MPI_Datatype wm_type_handle(const struct wm_type *t);

/* A message or derived type that outlives the handle holds a reference. */
void wm_type_ref(struct wm_type *t);
void wm_type_unref(struct wm_type *t);
#endif
