/* SPDX-License-Identifier: BSD-3-Clause */
/* The special variables of Fortran, the addresses at which programs see them, and what the
 * program's compiler stores in LOGICALs.  Objects report when they are loaded and unloaded
 * (start.c), under a lock; calls read the list without the lock. */
#include "mpi/fortran/fort.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* Not zero, so that they are data and not bss: GNU ld then takes them as the definitions of the
 * COMMON blocks in the objects that it links.  Compilers align those to as much as 32 bytes. */
#define CELL(name, NAME, constant, type, n) \
    extern WF_EXPORT const type WF_SYMBOL(name)[n] __attribute__((aligned(32))); \
    const type WF_SYMBOL(name)[n] = { 0x57 };
#include "mpi/fortran/cells.def"
#undef CELL

/* Filled in by the dynamic linker, which knows of copies in the program. */
const struct wf_cells wf_cells = { {
#define CELL(name, NAME, constant, type, n) [constant] = WF_SYMBOL(name),
#include "mpi/fortran/cells.def"
#undef CELL
} };

/* For C, which has no other way to see that a Fortran caller ignores a status.  All three forms
 * pass the same address, except objects with COMMON blocks of their own (cells.h). */
static __attribute__((constructor)) void publish_cells(void)
{
    void *one = (void *)(uintptr_t)wf_cells.at[WF_STATUS];
    void *many = (void *)(uintptr_t)wf_cells.at[WF_STATUSES];
    MPI_F_STATUS_IGNORE = one;
    MPI_F_STATUSES_IGNORE = many;
    MPI_F08_STATUS_IGNORE = one;
    MPI_F08_STATUSES_IGNORE = many;
}

wf_int wf_true = 1, wf_false = 0;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void add(const void *at, enum wf_cell cell)
{
    if (!at || at == wf_cells.at[cell] || wf_more_find(at, -1) >= 0)
        return;
    struct wf_more *m = wf_more;
    while (m && m->at)
        m = m->next;
    if (m) { /* no reader compares with NULL, so the cell may change before the address */
        m->cell = cell;
        __atomic_store_n(&m->at, at, __ATOMIC_RELEASE);
        return;
    }
    m = wf_alloc(sizeof *m);
    *m = (struct wf_more){ at, cell, wf_more };
    __atomic_store_n(&wf_more, m, __ATOMIC_RELEASE); /* the entry before the pointer to it */
}

static void drop(const void *at)
{
    for (struct wf_more *m = wf_more; m && at; m = m->next)
        if (m->at == at)
            __atomic_store_n(&m->at, NULL, __ATOMIC_RELAXED);
}

static const char *object_of(const void *start)
{
    Dl_info info;
    return dladdr(start, &info) && info.dli_fname ? info.dli_fname : "an object";
}

/* Calls from an object of the other INTEGER size still reach this library, because the
 * procedures have the same names. */
static void check_size(const struct wf_start *start)
{
    int found = start->integer_size;
    if (start->kinds && start->version == WF_START_VERSION && found == (int)sizeof(wf_int))
        found = (int)start->kinds->integer_size;
    if (start->version == WF_START_VERSION && found == (int)sizeof(wf_int))
        return;
    fprintf(
        stderr,
        "Weft MPI: %s was linked for INTEGERs of %d bytes%s, but %s, for INTEGERs of %d bytes, is "
        "loaded in this process.\nCompile and link all parts with mpifort and the same size.\n",
        object_of(start), found,
        start->version == WF_START_VERSION ? "" : " by another version of Weft MPI",
        object_of(&wf_cells), (int)sizeof(wf_int));
    exit(EXIT_FAILURE);
}

static void put(MPI_Info info, const char *key, wf_int nbytes)
{
    char text[16];
    snprintf(text, sizeof text, "%d", (int)nbytes);
    PMPI_Info_set(info, key, text);
}

/* Reports the kinds to the C library, unless they have been reported before. */
static void publish(const struct wf_kinds *k)
{
    MPI_Info info = MPI_INFO_NULL;
    int known = 0;
    wf_int t, f;
    PMPI_Abi_get_fortran_booleans((int)sizeof t, &t, &f, &known);
    if (!known)
        PMPI_Abi_set_fortran_booleans((int)sizeof t, (void *)(uintptr_t)&k->is_true,
                                      (void *)(uintptr_t)&k->is_false);
    PMPI_Abi_get_fortran_info(&info);
    if (info == MPI_INFO_NULL && PMPI_Info_create(&info) == MPI_SUCCESS) {
        put(info, "mpi_logical_size", k->logical_size);
        put(info, "mpi_integer_size", k->integer_size);
        put(info, "mpi_real_size", k->real_size);
        put(info, "mpi_double_precision_size", k->double_size);
        PMPI_Abi_set_fortran_info(info);
    }
    if (info != MPI_INFO_NULL)
        PMPI_Info_free(&info);
}

static struct wf_kinds kinds; /* of the first object that reported any; real_size 0 before */

/* The kinds of the first object are used.  An object with other kinds causes a warning. */
static void take_kinds(const struct wf_kinds *k, const void *start)
{
    const struct wf_kinds *known = &kinds;
    if (known->real_size) {
        if (k->is_true != known->is_true || k->is_false != known->is_false ||
            k->real_size != known->real_size || k->double_size != known->double_size)
            fprintf(stderr,
                    "Weft MPI: warning: %s was linked for other LOGICAL values or sizes of REAL "
                    "than an object loaded before it; MPI_LOGICAL, MPI_REAL and LOGICAL arguments "
                    "follow the first\n",
                    object_of(start));
        return;
    }
    kinds = *k; /* the object may be unloaded */
    wf_true = k->is_true;
    wf_false = k->is_false;
    publish(&kinds);
}

WF_EXPORT void weft_fortran_object(const struct wf_start *start, bool loaded)
{
    if (loaded)
        check_size(start);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < 3; i++)
        for (int c = 0; c < WF_NCELLS; c++) {
            const void *at = start->cells[i].at[c];
            if (loaded)
                add(at, (enum wf_cell)c);
            else if (at != wf_cells.at[c])
                drop(at);
        }
    if (loaded && start->kinds)
        take_kinds(start->kinds, start);
    pthread_mutex_unlock(&lock);
}

void wf_usual_kinds(void)
{
    static const struct wf_kinds usual = { 1, 0, sizeof(wf_int), sizeof(wf_int), 4, 8 };
    pthread_mutex_lock(&lock);
    if (!kinds.real_size)
        take_kinds(&usual, NULL);
    pthread_mutex_unlock(&lock);
}
