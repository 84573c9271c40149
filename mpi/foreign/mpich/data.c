/* SPDX-License-Identifier: BSD-3-Clause */
/* Data objects of the ABI.  mpi.h, which has macros of these names, is not included.  An executable
 * may copy the pointers, so their targets are compared. */
#include "mpi/foreign/mpich/data.h"

#define EXPORT __attribute__((visibility("default")))

int wx_unweighted_cell, wx_weights_empty_cell, wx_all_handles_cell;
int wx_status_ignore_cell[5], wx_statuses_ignore_cell[5];

EXPORT extern int *const MPI_UNWEIGHTED, *const MPI_WEIGHTS_EMPTY;
EXPORT extern void *const MPI_T_PVAR_ALL_HANDLES;
EXPORT extern int *MPI_F_STATUS_IGNORE, *MPI_F_STATUSES_IGNORE;
EXPORT extern int *MPI_F08_STATUS_IGNORE, *MPI_F08_STATUSES_IGNORE;

int *const MPI_UNWEIGHTED = &wx_unweighted_cell;
int *const MPI_WEIGHTS_EMPTY = &wx_weights_empty_cell;
void *const MPI_T_PVAR_ALL_HANDLES = &wx_all_handles_cell;
int *MPI_F_STATUS_IGNORE = wx_status_ignore_cell;
int *MPI_F_STATUSES_IGNORE = wx_statuses_ignore_cell;
int *MPI_F08_STATUS_IGNORE = wx_status_ignore_cell;
int *MPI_F08_STATUSES_IGNORE = wx_statuses_ignore_cell;
