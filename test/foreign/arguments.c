/* SPDX-License-Identifier: BSD-3-Clause */
/* Each argument of each generated procedure of MPICH's ABI reaches Weft converted, and each result
 * comes back converted: Weft's procedures are stubs here.  Those written by hand are tested by
 * handles.c and the programs of test/mpi. */
#include <string.h>
#include "mpi/foreign/convert.h"

/* Data objects of the ABI, whose names are macros of mpi.h. */
extern int *const theirs_unweighted __asm__("MPI_UNWEIGHTED");
extern MPI_T_pvar_handle const theirs_all_handles __asm__("MPI_T_PVAR_ALL_HANDLES");

/* The ABI's documentation: 62 bits of the length above the flag. */
static void theirs_set_bytes(wx_MPI_Status *s)
{
    s->count_lo = 5;
    s->count_hi_and_cancelled = 3 << 1 | 1;
}

#define HELPERS "test/foreign/arguments.h"
#include "test/foreign/arguments_mpich.h"

int main(void)
{
    wx_weft.ready = true;
    check_all();
    printf("%s 1 - arguments\n1..1\n", bad ? "not ok" : "ok");
    return bad != 0;
}
