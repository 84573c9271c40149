/* SPDX-License-Identifier: BSD-3-Clause */
/* Data objects of the ABI.  mpi.h, which has macros of these names, is not included.  An executable
 * may copy the pointers, so their targets are compared. */
#include "mpi/foreign/mpich/data.h"

#define EXPORT __attribute__((visibility("default")))

int wx_unweighted_cell, wx_weights_empty_cell, wx_all_handles_cell;

/* COMMON blocks of mpif.h: those of the Fortran program come before these. */
EXPORT char mpipriv1_[28], mpipriv2_[24], mpiprivc_[2], mpifcmb5_[4], mpifcmb9_[4];
EXPORT char wx_f08_bottom[4], wx_f08_in_place[4];
EXPORT char wx_f08_status_ignore[20], wx_f08_statuses_ignore[20];

EXPORT extern int *const MPI_UNWEIGHTED, *const MPI_WEIGHTS_EMPTY;
EXPORT extern void *const MPI_T_PVAR_ALL_HANDLES;
EXPORT extern int *MPI_F_STATUS_IGNORE, *MPI_F_STATUSES_IGNORE;
EXPORT extern int *MPI_F08_STATUS_IGNORE, *MPI_F08_STATUSES_IGNORE;

int *const MPI_UNWEIGHTED = &wx_unweighted_cell;
int *const MPI_WEIGHTS_EMPTY = &wx_weights_empty_cell;
void *const MPI_T_PVAR_ALL_HANDLES = &wx_all_handles_cell;
int *MPI_F_STATUS_IGNORE = (int *)(mpipriv1_ + 8);
int *MPI_F_STATUSES_IGNORE = (int *)mpipriv2_;
int *MPI_F08_STATUS_IGNORE = (int *)wx_f08_status_ignore;
int *MPI_F08_STATUSES_IGNORE = (int *)wx_f08_statuses_ignore;
