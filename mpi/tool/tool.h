/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to mpi/tool: what the parts of the tool information interface share (MPI-5.0 section
 * 15.3).  Everything here is used between tool_enter() and tool_leave(), which hold one recursive
 * mutex: callbacks of events may call the interface again.  Lock order: a domain's lock, then this
 * mutex; so nothing here takes a domain's lock. */
#ifndef WM_TOOL_TOOL_H
#define WM_TOOL_TOOL_H

#include <stddef.h>
#include "mpi/base/mpi_int.h"
#include "mpi/base/event.h"

enum tool_kind { TOOL_CVAR = 1, TOOL_SESSION, TOOL_PVAR, TOOL_REGISTRATION, TOOL_INSTANCE };

/* First member of everything that tools hold handles to; one slab for all kinds, so that stale and
 * foreign handles are detected. */
struct tool_obj {
    struct rt_obj obj;
    int kind, index; /* enum tool_kind; of the variable or event type */
    struct tool_obj *next;
};

/* MPI_SUCCESS with the mutex held, or MPI_T_ERR_NOT_INITIALIZED without it. */
int tool_enter(void);
void tool_leave(void);
/* The mutex alone, for the library's own side. */
void tool_lock(void);
void tool_unlock(void);

struct tool_obj *tool_obj_new(enum tool_kind kind, int index); /* NULL: no memory */
void tool_obj_free(struct tool_obj *o);
/* NULL when the handle is not a live one of this kind. */
void *tool_obj_get(const void *handle, enum tool_kind kind);
void *tool_obj_handle(const struct tool_obj *o);

/* Returns a string by the rules of MPI-5.0 section 15.3.3. */
void tool_text(const char *text, char *buf, int *len);
static inline void tool_int(int *out, int value)
{
    if (out)
        *out = value;
}

/* Enumerations are numbered; a handle is the number + 1. */
enum tool_enum_id {
    TOOL_ENUM_NONE = -1,
    TOOL_ENUM_BOOL,
    TOOL_ENUM_COLL_KIND,
    TOOL_ENUM_COLL_ALG,
    TOOL_ENUM_EVENT,                            /* elements of each event type */
    TOOL_ENUM_CFG = TOOL_ENUM_EVENT + WM_EVENTS /* words of each setting of type ENUM */
};
static inline MPI_T_enum tool_enum_handle(int id)
{
    return id < 0 ? MPI_T_ENUM_NULL : (MPI_T_enum)(uintptr_t)(id + 1);
}

/* Categories; a tree whose root is the first. */
enum tool_cat {
    CAT_WEFT,
    CAT_BASE,
    CAT_P2P,
    CAT_SHM,
    CAT_TCP,
    CAT_RDMA,
    CAT_GPU,
    CAT_RMA,
    CAT_COLL,
    CAT_WAIT,
    CAT_OBJECTS,
    CAT_LAUNCH,
    CATS
};

#endif
