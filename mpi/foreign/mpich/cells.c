/* SPDX-License-Identifier: BSD-3-Clause */
/* The special variables of MPICH's mpif.h: COMMON blocks of the program, or those of data.c. */
#include "mpi/fortran/fort.h"
#include "mpi/foreign/mpich/data.h"

static const char none[1]; /* MPI_BUFFER_AUTOMATIC: mpif.h has none */

const struct wf_cells wf_cells = { {
    [WF_AUTOMATIC] = none,
    [WF_BOTTOM] = mpipriv1_,
    [WF_INPLACE] = mpipriv1_ + 4,
    [WF_STATUS] = mpipriv1_ + 8,
    [WF_STATUSES] = mpipriv2_,
    [WF_ERRCODES] = mpipriv2_ + 20,
    [WF_ARGVS] = mpiprivc_,
    [WF_ARGV] = mpiprivc_ + 1,
    [WF_UNWEIGHTED] = mpifcmb5_,
    [WF_EMPTY] = mpifcmb9_,
} };

/* As gfortran stores them. */
wf_int wf_true = 1, wf_false = 0;

void wf_usual_kinds(void) {}
