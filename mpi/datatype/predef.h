/* SPDX-License-Identifier: BSD-3-Clause */
/* Predefined datatypes. */
#ifndef WM_DATATYPE_PREDEF_H
#define WM_DATATYPE_PREDEF_H

#include "mpi/base/mpi_int.h"

/* Fills the table of predefined types; idempotent, called before main() by the library. */
void wm_type_init(void);

/* Fortran's default kinds: sizes that Weft can give them, and giving them one, for the types that
 * follow (MPI_INTEGER, MPI_2INTEGER ...; MPI-5.0 chapter 20).  Before types are derived of them. */
enum wm_fortran_kind { WM_FORTRAN_LOGICAL, WM_FORTRAN_INTEGER, WM_FORTRAN_REAL, WM_FORTRAN_DOUBLE };
bool wm_type_fortran_known(enum wm_fortran_kind kind, int nbytes);
void wm_type_fortran_size(enum wm_fortran_kind kind, int nbytes);

#endif
