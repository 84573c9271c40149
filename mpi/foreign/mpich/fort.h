/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles of MPICH's ABI in Fortran: C's, which are ints; mpi/fortran/fort.h includes this. */
#ifndef WX_MPICH_FORT_H
#define WX_MPICH_FORT_H

#include "mpi/foreign/fortran.h"

#define wf_h(type, x) ((type)(uintptr_t)(unsigned)(x))
#define wf_i(handle) ((wf_int)(uintptr_t)(handle))

/* Predefined keys have 0x64 or 0x66 in their high bits, and are one higher than C's. */
#define wf_keyval(x) ((x) >> 26 == 0x19 ? (x)-1 : (x))

#endif
