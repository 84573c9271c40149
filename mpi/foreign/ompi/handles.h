/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles of Open MPI's ABI (abi.h) and Weft's, and their numbers in Fortran. */
#ifndef WX_OMPI_HANDLES_H
#define WX_OMPI_HANDLES_H

#include <stdint.h>
#include "mpi/foreign/ompi/tables.h"

struct ompi_request_t;

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
static inline int wx_other_to_fortran(const void *handle)
{
    uintptr_t h = wx_handle_in(handle);
    return h < WX_PREDEFINED && wx_fortran[h] >= 0 ? wx_fortran[h] : (int)h;
}

/* All handles of requests but the null one are Weft's. */
static inline int wx_request_to_fortran(const void *request)
{
    return request == wx_request_of_fortran[0] ? 0 : (int)(uintptr_t)request;
}

#define wx_to_fortran(handle) \
    _Generic((handle), struct ompi_request_t * \
             : wx_request_to_fortran, default \
             : wx_other_to_fortran)(handle)

/* NULL: no handle, which Weft refuses. */
static inline void *wx_of_fortran(void *const *predefined, int f)
{
    if (f < 0)
        return (void *)0;
    if (f < WX_OMPI_FORTRAN)
        return predefined[f];
    return predefined == wx_request_of_fortran ? (void *)(uintptr_t)f : wx_handle_out((uintptr_t)f);
}

#endif
