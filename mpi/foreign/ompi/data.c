/* SPDX-License-Identifier: BSD-3-Clause */
/* Data objects of Open MPI's ABI besides the predefined handles: what Fortran passes for absent
 * arguments, in the spellings of Fortran compilers.  mpi.h, which has macros of some of these
 * names, is not included. */
#include "mpi/foreign/ompi/data.h"

#define EXPORT __attribute__((visibility("default")))
/* A common block of the Fortran program, which comes before these. */
#define CELL(lower, upper, n) \
    EXPORT extern char mpi_fortran_##lower##_[n], mpi_fortran_##lower##__[n]; \
    EXPORT extern char mpi_fortran_##lower[n], MPI_FORTRAN_##upper[n]; \
    char mpi_fortran_##lower##_[n], mpi_fortran_##lower##__[n]; \
    char mpi_fortran_##lower[n], MPI_FORTRAN_##upper[n];

CELL(bottom, BOTTOM, 4)
CELL(in_place, IN_PLACE, 4)
CELL(argv_null, ARGV_NULL, 1)
CELL(argvs_null, ARGVS_NULL, 1)
CELL(errcodes_ignore, ERRCODES_IGNORE, 4)
CELL(status_ignore, STATUS_IGNORE, 8)
CELL(statuses_ignore, STATUSES_IGNORE, 8)
CELL(unweighted, UNWEIGHTED, 4)
CELL(weights_empty, WEIGHTS_EMPTY, 4)

EXPORT extern void *MPI_F_STATUS_IGNORE, *MPI_F_STATUSES_IGNORE;
EXPORT extern void *MPI_F08_STATUS_IGNORE, *MPI_F08_STATUSES_IGNORE;
void *MPI_F_STATUS_IGNORE = mpi_fortran_status_ignore_;
void *MPI_F_STATUSES_IGNORE = mpi_fortran_statuses_ignore_;
void *MPI_F08_STATUS_IGNORE = mpi_fortran_status_ignore_;
void *MPI_F08_STATUSES_IGNORE = mpi_fortran_statuses_ignore_;
