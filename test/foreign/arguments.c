/* SPDX-License-Identifier: BSD-3-Clause */
/* Each argument of each generated procedure of an ABI reaches Weft converted, and each result comes
 * back converted: Weft's procedures are stubs here.  Requests and statuses that Weft reads and
 * writes in the caller's memory are passed on; complete.c tests these.  Procedures written by hand
 * are tested by handles.c and the programs of test/mpi. */
#include <string.h>
#include "mpi/foreign/convert.h"

#ifdef TEST_mpich

/* Data objects of the ABI, whose names are macros of mpi.h. */
extern int *const theirs_unweighted __asm__("MPI_UNWEIGHTED");
extern MPI_T_pvar_handle const theirs_all_handles __asm__("MPI_T_PVAR_ALL_HANDLES");

/* The ABI's documentation: 62 bits of the length above the flag. */
static void theirs_set_bytes(wx_MPI_Status *s)
{
    s->count_lo = 5;
    s->count_hi_and_cancelled = 3 << 1 | 1;
}

#define ARGUMENTS "test/foreign/arguments_mpich.h"

#else

#define theirs_unweighted ((int *)2)
#define theirs_all_handles ((MPI_T_pvar_handle)-1)

static void theirs_set_bytes(wx_MPI_Status *s)
{
    s->cancelled = 1;
    s->len = ((size_t)3 << 32) + 5;
}

#define ARGUMENTS "test/foreign/arguments_ompi.h"

#endif

#define HELPERS "test/foreign/arguments.h"
#include ARGUMENTS

int main(void)
{
    wx_weft.ready = true;
    check_all();
    printf("%s 1 - arguments\n1..1\n", bad ? "not ok" : "ok");
    return bad != 0;
}
