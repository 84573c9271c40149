/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles of Open MPI's ABI (abi.h) and Weft's, and their numbers in Fortran. */
#ifndef WX_OMPI_HANDLES_H
#define WX_OMPI_HANDLES_H

#include <stdint.h>
#include "mpi/foreign/ompi/tables.h"

#define WX_PREDEFINED WX_OMPI_PREDEFINED /* Weft's predefined handles are below */

static inline uintptr_t wx_handle_in(const void *h)
{
    uintptr_t v = (uintptr_t)h;
    if (v >> 32)
        return *(const uint32_t *)h;
    if (v >> 31)
        return v & 0x7fffffff;
    return h ? *(const uint32_t *)h : WX_NO_HANDLE;
}

static inline void *wx_handle_out(uintptr_t h)
{
    return h < WX_PREDEFINED ? wx_theirs[h] : (void *)(h | 0x80000000u);
}

/* Predefined handles have numbers of their own for each class, from 0 on; any other is Weft's. */
static inline int wx_to_fortran(const void *handle)
{
    uintptr_t h = wx_handle_in(handle);
    return h < WX_PREDEFINED && wx_fortran[h] >= 0 ? wx_fortran[h] : (int)h;
}

/* NULL: no handle, which Weft refuses. */
static inline void *wx_of_fortran(void *const *predefined, int f)
{
    if (f < 0)
        return (void *)0;
    return f < WX_OMPI_FORTRAN ? predefined[f] : wx_handle_out((uintptr_t)f);
}

#endif
