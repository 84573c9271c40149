/* SPDX-License-Identifier: BSD-3-Clause */
/* The special variables of Open MPI's mpif.h: COMMON blocks of the program, or those of data.c. */
#include "mpi/fortran/fort.h"

#define CELLS(X) \
    X(bottom, BOTTOM, WF_BOTTOM) \
    X(in_place, IN_PLACE, WF_INPLACE) \
    X(argv_null, ARGV_NULL, WF_ARGV) \
    X(argvs_null, ARGVS_NULL, WF_ARGVS) \
    X(errcodes_ignore, ERRCODES_IGNORE, WF_ERRCODES) \
    X(status_ignore, STATUS_IGNORE, WF_STATUS) \
    X(statuses_ignore, STATUSES_IGNORE, WF_STATUSES) \
    X(unweighted, UNWEIGHTED, WF_UNWEIGHTED) \
    X(weights_empty, WEIGHTS_EMPTY, WF_EMPTY)

#define DECLARE(name, NAME, cell) extern char mpi_fortran_##name##_[];
CELLS(DECLARE)

static const char none[1]; /* MPI_BUFFER_AUTOMATIC: the ABI has none */

const struct wf_cells wf_cells = { { [WF_AUTOMATIC] = none,
#define AT(name, NAME, cell) [cell] = mpi_fortran_##name##_,
                                     CELLS(AT) } };

/* As gfortran stores them. */
wf_int wf_true = 1, wf_false = 0;

void wf_usual_kinds(void) {}
