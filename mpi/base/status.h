/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Status: 8 ints of the ABI.  Of the five private ones, [0] holds the cancelled flag and [1..2]
 * the received bytes as 64 bits (copied with memcpy: the struct is only int-aligned).  MPI_ERROR is
 * written by multi-completion calls only (MPI-5.0 section 3.2.5).  The first 24 bytes are Open
 * MPI's status, and the library never accesses the others: mpi/foreign/ompi passes the
 * caller's.  Calls that complete requests write statuses by caller.h. */
#ifndef WM_BASE_STATUS_H
#define WM_BASE_STATUS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "mpi.h"

static inline void wm_status_set_cancelled(MPI_Status *s, bool cancelled)
{
    s->MPI_internal[0] = cancelled;
}

static inline void wm_status_set_len(MPI_Status *s, int64_t len)
{
    memcpy(&s->MPI_internal[1], &len, sizeof len);
}

static inline void wm_status_set(MPI_Status *s, int src, int tag, int64_t len, bool cancelled)
{
    if (s == MPI_STATUS_IGNORE)
        return;
    s->MPI_SOURCE = src;
    s->MPI_TAG = tag;
    wm_status_set_cancelled(s, cancelled);
    wm_status_set_len(s, len);
}

/* The status that a wait on MPI_REQUEST_NULL or an inactive request returns (MPI-5.0 section
 * 3.7.3). */
static inline void wm_status_set_empty(MPI_Status *s)
{
    if (s != MPI_STATUS_IGNORE)
        s->MPI_ERROR = MPI_SUCCESS;
    wm_status_set(s, MPI_ANY_SOURCE, MPI_ANY_TAG, 0, false);
}

static inline int64_t wm_status_len(const MPI_Status *s)
{
    int64_t len;
    memcpy(&len, &s->MPI_internal[1], sizeof len);
    return len;
}

static inline bool wm_status_cancelled(const MPI_Status *s) { return s->MPI_internal[0] != 0; }

#endif
