/* SPDX-License-Identifier: BSD-3-Clause */
/* Cells of Fortran that procedures in C compare with. */
#ifndef WX_OMPI_DATA_H
#define WX_OMPI_DATA_H

extern char mpi_fortran_status_ignore_[8], mpi_fortran_statuses_ignore_[8];

#endif
