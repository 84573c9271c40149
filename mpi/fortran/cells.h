/* SPDX-License-Identifier: BSD-3-Clause */
/* Fortran's MPI_BOTTOM, MPI_IN_PLACE and the like are variables: a call gets their addresses.  They
 * are COMMON blocks of mpif.h and variables of the modules, all of them defined by this library
 * (cells.c) as read-only data.  wf_cells holds the addresses as the dynamic linker resolved them.
 *
 * One variable may have several addresses: gold and lld give each object that includes mpif.h a
 * COMMON block of its own, and of those in plug-ins only the first becomes the library's.  The
 * object start.c, which mpifort links everywhere, reports such addresses; wf_more is then not NULL.
 */
#ifndef WF_CELLS_H
#define WF_CELLS_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum wf_cell {
#define CELL(name, NAME, constant, type, n) constant,
#include "mpi/fortran/cells.def"
#undef CELL
    WF_NCELLS
};

/* The symbol of a COMMON block, as nearly all compilers spell it: mpif4bottom_.  The names have no
 * underscore inside, where compilers differ. */
#ifdef WF_INTEGER_8
#define WF_SYMBOL(name) mpif8##name##_
#else
#define WF_SYMBOL(name) mpif4##name##_
#endif

struct wf_cells {
    const void *at[WF_NCELLS];
};
extern const struct wf_cells wf_cells __attribute__((visibility("hidden")));
#ifdef WF_SECOND_CELLS /* an ABI in which mpi_f08 has variables of its own, that are no buffers */
extern const struct wf_cells wf_second_cells __attribute__((visibility("hidden")));
#define wf_is_second_cell(p, cell) ((p) == wf_second_cells.at[cell])
#else
#define wf_is_second_cell(p, cell) false
#endif

/* A further address of a cell.  Entries are never freed: another thread may be reading the list. */
struct wf_more {
    const void *at; /* NULL: the object that had it was unloaded */
    enum wf_cell cell;
    struct wf_more *next;
};
extern struct wf_more *wf_more __attribute__((visibility("hidden")));

/* What the object kinds.f90 holds, all in the INTEGERs of its compiler. */
#ifdef WF_INTEGER_8
typedef int64_t wf_int;
#else
typedef int wf_int;
#endif
struct wf_kinds {
    wf_int is_true, is_false; /* LOGICALs */
    wf_int integer_size, logical_size, real_size, double_size;
};

/* What the object start.c reports when it is loaded (true) and unloaded: how the program or shared
 * library that it is part of sees the cells, under each spelling of the names that compilers use
 * (NULL entries: not at all), and the object kinds.f90; NULL: not linked. */
struct wf_start {
    int version; /* WF_START_VERSION */
    int integer_size;
    struct wf_cells cells[3];
    const struct wf_kinds *kinds;
};
#define WF_START_VERSION 1
void weft_fortran_object(const struct wf_start *start, bool loaded);
/* For programs that were linked without kinds.f90: called when a Fortran program starts MPI. */
void wf_usual_kinds(void);

/* The cell (enum wf_cell) of which this is a further address; otherwise `none`. */
int wf_more_find(const void *p, int none) __attribute__((cold, noinline));

/* Whether this is an address of that cell. */
static inline bool wf_is_cell(const void *p, enum wf_cell cell)
{
    if (p == wf_cells.at[cell] || wf_is_second_cell(p, cell))
        return true;
    return __builtin_expect(wf_more != NULL, 0) && wf_more_find(p, -1) == (int)cell;
}
static inline bool wf_is_status_ignore(const void *p)
{
    return wf_is_cell(p, WF_STATUS) || wf_is_cell(p, WF_STATUSES);
}
static inline bool wf_is_unweighted(const void *p) { return wf_is_cell(p, WF_UNWEIGHTED); }
static inline bool wf_is_weights_empty(const void *p) { return wf_is_cell(p, WF_EMPTY); }

/* A choice buffer: C has constants for the special addresses. */
void *wf_more_buf(const void *p) __attribute__((cold, noinline));
static inline void *wf_buf(const void *p)
{
    if (__builtin_expect(p == wf_cells.at[WF_BOTTOM], 0))
        return MPI_BOTTOM;
    if (__builtin_expect(p == wf_cells.at[WF_INPLACE], 0))
        return MPI_IN_PLACE;
    if (__builtin_expect(p == wf_cells.at[WF_AUTOMATIC], 0))
        return MPI_BUFFER_AUTOMATIC;
    if (__builtin_expect(wf_more != NULL, 0))
        return wf_more_buf(p);
    return (void *)(uintptr_t)p;
}
/* The other way: MPI_BUFFER_DETACH returns the address that was attached. */
static inline const void *wf_unbuf(const void *p)
{
    return p == MPI_BUFFER_AUTOMATIC ? wf_cells.at[WF_AUTOMATIC] : p;
}

#endif
