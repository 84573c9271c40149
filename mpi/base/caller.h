/* SPDX-License-Identifier: BSD-3-Clause */
/* The ABI of the calling program: the standard one, unless a library in the place of another MPI
 * has called MPIX_Caller_set().  Calls that complete requests read and write requests and statuses
 * in the caller's memory as that ABI has them; sends and receives store such requests.  Set
 * before the first of these calls and constant from then on. */
#ifndef WM_BASE_CALLER_H
#define WM_BASE_CALLER_H

#include "mpi/base/status.h"

enum wm_abi {
    WM_STANDARD_ABI,
    WM_OMPI,  /* requests are those of this library; the first 24 bytes of its statuses */
    WM_MPICH, /* a request is an int: the handle with bit 31 inverted; struct wm_mpich_status */
};

struct wm_mpich_status {
    uint32_t len_low, len_high_and_cancelled; /* the flag is the lowest bit of the second word */
    int source, tag, error;
};

struct wm_caller {
    enum wm_abi abi;
    MPI_Request null; /* MPI_REQUEST_NULL of the caller, as wm_caller_request() returns it */
    int any_source, proc_null, any_tag;
    int (*code)(int errcode); /* NULL: the codes of this library */
};
extern struct wm_caller wm_caller;

/* The error code for the caller. */
int wm_caller_code(int errcode) __attribute__((cold));

#define WM_MPICH_BIT 0x80000000u

/* Request i of an array.  `abi` is wm_caller.abi, or a constant to which that has been compared.
 */
static inline MPI_Request wm_caller_request(const MPI_Request *h, int i, enum wm_abi abi)
{
    if (abi == WM_MPICH)
        return (MPI_Request)(uintptr_t)(((const uint32_t *)h)[i] ^ WM_MPICH_BIT);
    return h[i];
}

static inline void wm_caller_store(MPI_Request *h, int i, enum wm_abi abi, MPI_Request r)
{
    if (abi == WM_MPICH)
        ((uint32_t *)h)[i] = (uint32_t)(uintptr_t)r ^ WM_MPICH_BIT;
    else
        h[i] = r;
}

/* Status i of an array. */
static inline MPI_Status *wm_caller_status(MPI_Status *s, int i, enum wm_abi abi)
{
    size_t nbytes = abi == WM_STANDARD_ABI ? sizeof *s
                    : abi == WM_OMPI       ? 24
                                           : sizeof(struct wm_mpich_status);
    return s == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE
                                    : (MPI_Status *)((char *)s + (size_t)i * nbytes);
}

static inline int wm_caller_rank(int src)
{
    if (src == MPI_ANY_SOURCE)
        return wm_caller.any_source;
    return src == MPI_PROC_NULL ? wm_caller.proc_null : src;
}

/* Inlined into the loops of MPI_Waitall, one for each ABI. */
static inline __attribute__((always_inline)) void
wm_caller_fill(MPI_Status *s, enum wm_abi abi, int src, int tag, int64_t len, bool cancelled)
{
    if (s == MPI_STATUS_IGNORE)
        return;
    if (abi != WM_STANDARD_ABI && (src | tag) < 0) {
        src = wm_caller_rank(src);
        if (tag == MPI_ANY_TAG)
            tag = wm_caller.any_tag;
    }
    if (abi == WM_MPICH) {
        struct wm_mpich_status *m = (struct wm_mpich_status *)s;
        m->len_low = (uint32_t)len;
        m->len_high_and_cancelled = (uint32_t)(len >> 32) << 1 | cancelled;
        m->source = src;
        m->tag = tag;
    } else {
        wm_status_set(s, src, tag, len, cancelled);
    }
}

static inline void wm_caller_fill_error(MPI_Status *s, enum wm_abi abi, int err)
{
    if (s == MPI_STATUS_IGNORE)
        return;
    if (abi != WM_STANDARD_ABI && err)
        err = wm_caller_code(err);
    if (abi == WM_MPICH)
        ((struct wm_mpich_status *)s)->error = err;
    else
        s->MPI_ERROR = err;
}

#endif
