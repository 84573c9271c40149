/* SPDX-License-Identifier: BSD-3-Clause */
/* What the exported pointers of the ABI point to, and the special variables of Fortran. */
#ifndef WX_MPICH_DATA_H
#define WX_MPICH_DATA_H

extern int wx_unweighted_cell, wx_weights_empty_cell, wx_all_handles_cell;
/* BOTTOM, IN_PLACE, STATUS_IGNORE; STATUSES_IGNORE, ERRCODES_IGNORE; ARGVS_NULL, ARGV_NULL;
 * UNWEIGHTED; WEIGHTS_EMPTY. */
extern char mpipriv1_[28], mpipriv2_[24], mpiprivc_[2], mpifcmb5_[4], mpifcmb9_[4];
/* Those of the module mpi_f08. */
extern char wx_f08_bottom[4] __asm__("MPIR_F08_MPI_BOTTOM");
extern char wx_f08_in_place[4] __asm__("MPIR_F08_MPI_IN_PLACE");
extern char wx_f08_status_ignore[20] __asm__("MPIR_F08_MPI_STATUS_IGNORE_OBJ");
extern char wx_f08_statuses_ignore[20] __asm__("MPIR_F08_MPI_STATUSES_IGNORE_OBJ");

#endif
