/* SPDX-License-Identifier: BSD-3-Clause */
/* Predefined datatypes. */
#ifndef WM_DATATYPE_PREDEF_H
#define WM_DATATYPE_PREDEF_H

#include "mpi/base/mpi_int.h"

/* Fortran's default kinds (MPI-5.0 chapter 20): whether Weft has the kind with `nbytes` bytes; and
 * setting the size of a kind, with the types that depend on it (MPI_INTEGER, MPI_2INTEGER ...).
 * Sizes are set before other types are derived from these. */
enum wm_fortran_kind { WM_FORTRAN_LOGICAL, WM_FORTRAN_INTEGER, WM_FORTRAN_REAL, WM_FORTRAN_DOUBLE };
bool wm_type_fortran_known(enum wm_fortran_kind kind, int nbytes);
void wm_type_fortran_size(enum wm_fortran_kind kind, int nbytes);

#endif
