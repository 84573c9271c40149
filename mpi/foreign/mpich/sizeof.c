/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_SIZEOF of MPICH's module mpi: a procedure for each type, and one for its arrays, under the
 * names that gfortran gives procedures of a module. */
#include "mpi/fortran/fort.h"

#define NAMED(name, symbol, n) \
    WF_EXPORT void wx_sizeof_##name(const void *x, wf_int *size, wf_int *ierror) __asm__( \
        "__mpi_sizeofs_MOD_mpi_sizeof_" #symbol); \
    void wx_sizeof_##name(const void *x, wf_int *size, wf_int *ierror) \
    { \
        (void)x; \
        *size = n; \
        wf_error(ierror, MPI_SUCCESS); \
    }
#define SIZEOF(name, n) \
    NAMED(name, name, n) \
    NAMED(name##_array, name##v, n)

SIZEOF(ch, 1)
SIZEOF(l, 4)
SIZEOF(i, 4)
SIZEOF(i1, 1)
SIZEOF(i2, 2)
SIZEOF(i8, 8)
SIZEOF(r, 4)
SIZEOF(d, 8)
SIZEOF(cx, 8)
