/* SPDX-License-Identifier: BSD-3-Clause */
/* The types of MPI_Type_create_f90_*. */
#ifndef WM_DATATYPE_F90_H
#define WM_DATATYPE_F90_H

/* Releases the types of MPI_Type_create_f90_*, which the library keeps. */
void wm_type_fini(void);

#endif
