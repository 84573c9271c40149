/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversions of arguments between a foreign ABI and Weft's.  The ABI's own header, WX_ABI, has
 * those of handles, constants and one status; this file has arrays, statuses as arguments, and the
 * definition of a procedure.  The sources of this folder are compiled once for each ABI. */
#ifndef WX_CONVERT_H
#define WX_CONVERT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "mpi-ext.h"
#include "mpi.h"
#include "mpi/foreign/weft.h"
#include WX_ABI

/* ---- procedures ---- */

/* Defines PMPI_X, and MPI_X as a weak symbol, which a tool may define.  In C the function has
 * another name, because mpi.h declares MPI_X with Weft's types. */
#define WX_PROC(type, name, params) WX_ALIAS(type, name, "PMPI_" #name, "MPI_" #name, params)
#define WX_PROCX(type, name, params) WX_ALIAS(type, name, "PMPIX_" #name, "MPIX_" #name, params)
#define WX_ALIAS(type, name, strong, weak_name, params) \
    __attribute__((visibility("default"))) type wx_##name params __asm__(strong); \
    extern __typeof__(wx_##name) wx_weak_##name __asm__(weak_name) \
        __attribute__((weak, alias(strong), visibility("default"))); \
    type wx_##name params

/* The name before MPI-4.0 of a persistent collective. */
#define WX_BEFORE(name) \
    WX_OTHER("PMPI_" #name, name, x, "MPIX_") WX_OTHER("PMPI_" #name, name, px, "PMPIX_")
#define WX_OTHER(strong, name, form, prefix) \
    extern __typeof__(wx_##name) wx_##form##_##name __asm__(prefix #name) \
        __attribute__((weak, alias(strong), visibility("default")));

/* Weft's procedures.  They are looked up at the first call: this library may be preloaded into
 * processes that never call MPI.  Until then each is a function that ends the process: procedures
 * that need a communicator, a request or a window do not call wx_ready(). */
struct wx_weft {
    bool ready;
#define WX_FIELD(prefix, name) __typeof__(prefix##name) *name;
    WX_WEFT(WX_FIELD)
#undef WX_FIELD
#define WX_FIELD(name) __typeof__(PMPI_##name) *known_##name; /* both handles are predefined */
    WX_KNOWN(WX_FIELD)
#undef WX_FIELD
};
extern struct wx_weft wx_weft __attribute__((visibility("hidden")));
#define WX(name) (wx_weft.name)

/* Whether Weft's handles are predefined, of both kinds: 0x2XX and 0x10X. */
static inline bool wx_is_known(MPI_Datatype type, MPI_Comm comm)
{
    return ((uintptr_t)type | (uintptr_t)comm) < 0x400;
}

/* Finds Weft's library and procedures; ends the process if one is missing. */
void wx_load(void);

static inline void wx_ready(void)
{
    if (__builtin_expect(!__atomic_load_n(&wx_weft.ready, __ATOMIC_ACQUIRE), 0))
        wx_load();
}

/* Ends the process if there is no memory. */
void *wx_alloc(size_t nbytes);

/* ---- buffers ---- */

static inline bool wx_is_in_place(const void *buf) { return buf == WX_IN_PLACE; }

static inline void *wx_buf_in(const void *buf)
{
    /* The constants of all ABIs are from -2 to 1. */
    if (__builtin_expect((uintptr_t)buf + 2 >= 4, 1))
        return (void *)(uintptr_t)buf;
    if (buf == WX_IN_PLACE)
        return MPI_IN_PLACE;
    return buf == WX_BUFFER_AUTOMATIC ? MPI_BUFFER_AUTOMATIC : (void *)(uintptr_t)buf;
}

/* After a buffer was detached; `buf` points to its address. */
static inline void wx_detached(void *buf)
{
    if (*(void **)buf == MPI_BUFFER_AUTOMATIC)
        *(void **)buf = WX_BUFFER_AUTOMATIC;
}

/* MPI_UNWEIGHTED, MPI_WEIGHTS_EMPTY or an array. */
int *wx_weights_in(const int *weights);

/* A handle or the ABI's MPI_T_PVAR_ALL_HANDLES. */
MPI_T_pvar_handle wx_pvar_in(MPI_T_pvar_handle handle);

/* Fortran's MPI_STATUS_IGNORE or MPI_STATUSES_IGNORE, as MPI_F_STATUS_IGNORE points to it. */
bool wx_is_ignored(const void *status);

/* ---- strings ---- */

/* Whether the caller's buffers of a kind may be too short for Weft's strings.  Some ABIs count the
 * zero at the end, others do not. */
#define WX_SHORTER(limit) (WX_MAX_##limit + 1 < MPI_MAX_##limit)

/* Stores a string of Weft, cut to `size` bytes including the zero at the end. */
static inline void wx_string_out(char *to, int *len, const char *from, size_t size)
{
    size_t n = strlen(from) < size ? strlen(from) : size - 1;
    memcpy(to, from, n);
    to[n] = '\0';
    if (len)
        *len = (int)n;
}

/* ---- arrays ---- */

#define WX_SMALL 64

struct wx_tmp {
    void *heap; /* NULL: small */
    union {
        void *handle[WX_SMALL];
        int value[WX_SMALL];
    } small;
};

static inline void *wx_tmp_get(struct wx_tmp *t, int n, size_t nbytes)
{
    t->heap = n > WX_SMALL ? wx_alloc((size_t)n * nbytes) : NULL;
    return t->heap ? t->heap : &t->small;
}

static inline void wx_tmp_free(struct wx_tmp *t) { free(t->heap); }

/* wx_infos_in() and so on: Weft's handles of an array. */
#define WX_HANDLES(word, type) \
    static inline type *wx_##word##s_in(struct wx_tmp *t, const wx_##type *v, int n) \
    { \
        type *w = wx_tmp_get(t, v ? n : 0, sizeof *w); \
        for (int i = 0; v && i < n; i++) \
            w[i] = wx_##word##_in(v[i]); \
        return v ? w : NULL; \
    }

WX_HANDLES(info, MPI_Info)
WX_HANDLES(type, MPI_Datatype)

static inline int *wx_ints_in(struct wx_tmp *t, const int *v, int n, int (*convert)(int))
{
    int *w = wx_tmp_get(t, v ? n : 0, sizeof *w);
    for (int i = 0; v && i < n; i++)
        w[i] = convert(v[i]);
    return v ? w : NULL;
}

static inline void wx_ints_out(int *v, int n, int (*convert)(int))
{
    for (int i = 0; v && i < n; i++)
        v[i] = convert(v[i]);
}

/* Lengths of arrays that no argument gives: the peers of a communicator, the neighbours of this
 * process; 0 after an error. */
int wx_peers(wx_MPI_Comm comm);
int wx_degree(wx_MPI_Comm comm, bool out);

/* ---- statuses ---- */

/* In MPI_SOURCE before a call: Weft has not written the status.  In MPI_ERROR: Weft has not written
 * this field, which the standard requires in some calls only. */
#define WX_UNSET INT_MIN

/* A status for a call of Weft: `w`, or the caller's if Weft can write it (WX_SAME_STATUS).  Calls
 * that use wx_envelope_new() never write MPI_ERROR, and write the rest if they succeed. */
static inline MPI_Status *wx_envelope_new(MPI_Status *w, wx_MPI_Status *f)
{
    w->MPI_SOURCE = WX_UNSET;
    if (!f || f == WX_STATUS_IGNORE)
        return MPI_STATUS_IGNORE;
    return WX_SAME_STATUS ? (MPI_Status *)f : w;
}

/* Constants of a status that Weft wrote in the caller's memory.  A message has neither. */
static inline void wx_status_fix(wx_MPI_Status *f)
{
    if (f->MPI_SOURCE == MPI_ANY_SOURCE && f->MPI_TAG == MPI_ANY_TAG) { /* of a send */
        f->MPI_SOURCE = wx_rank_out(MPI_ANY_SOURCE);
        f->MPI_TAG = wx_tag_out(MPI_ANY_TAG);
    } else {
        f->MPI_SOURCE = wx_rank_out(f->MPI_SOURCE);
        f->MPI_TAG = wx_tag_out(f->MPI_TAG);
    }
}

static inline void wx_envelope_done(const MPI_Status *w, wx_MPI_Status *f, int ret)
{
    if (!WX_SAME_STATUS) {
        if (__builtin_expect(w->MPI_SOURCE != WX_UNSET, 1))
            wx_status_write(w, f);
    } else if (!ret && f && __builtin_expect(f->MPI_SOURCE < 0, 0)) {
        wx_status_fix(f);
    }
}

/* Of the other calls.  `w` keeps the fields of the caller's that Weft may leave alone. */
static inline MPI_Status *wx_status_new(MPI_Status *w, wx_MPI_Status *f)
{
    MPI_Status *s = wx_envelope_new(w, f);
    w->MPI_ERROR = WX_UNSET;
    if (WX_SAME_STATUS && s != MPI_STATUS_IGNORE) {
        w->MPI_SOURCE = f->MPI_SOURCE;
        w->MPI_ERROR = f->MPI_ERROR;
        f->MPI_SOURCE = f->MPI_ERROR = WX_UNSET;
    }
    return s;
}

static inline void wx_status_done(const MPI_Status *w, wx_MPI_Status *f)
{
    if (!WX_SAME_STATUS) {
        wx_envelope_done(w, f, 0);
        if (w->MPI_ERROR != WX_UNSET)
            f->MPI_ERROR = wx_error_out(w->MPI_ERROR);
        return;
    }
    if (!f)
        return;
    if (f->MPI_SOURCE == WX_UNSET)
        f->MPI_SOURCE = w->MPI_SOURCE;
    else if (f->MPI_SOURCE < 0)
        wx_status_fix(f);
    if (f->MPI_ERROR)
        f->MPI_ERROR = f->MPI_ERROR == WX_UNSET ? w->MPI_ERROR : wx_error_out(f->MPI_ERROR);
}

static inline MPI_Status *wx_status_in(MPI_Status *w, const wx_MPI_Status *f)
{
    if (!f || f == WX_STATUS_IGNORE)
        return MPI_STATUS_IGNORE;
    wx_status_read(f, w);
    return w;
}

static inline void wx_status_back(const MPI_Status *w, wx_MPI_Status *f)
{
    if (!f || f == WX_STATUS_IGNORE)
        return;
    wx_status_write(w, f);
    if (w->MPI_ERROR != wx_error_in(f->MPI_ERROR))
        f->MPI_ERROR = wx_error_out(w->MPI_ERROR);
}

/* Statuses that Weft writes in the caller's layout (COMPLETE in mpi/api/table.py). */
static inline MPI_Status *wx_status_at(wx_MPI_Status *f)
{
    return f == WX_STATUS_IGNORE ? MPI_STATUS_IGNORE : (MPI_Status *)f;
}

#endif
