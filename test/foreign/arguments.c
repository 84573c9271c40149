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

/* A message without constants, by the procedure for predefined handles and by the other one. */
static uintptr_t seen_type, seen_comm;
static int known;

static int send_other(const void *buf, int count, MPI_Datatype type, int dest, int tag,
                      MPI_Comm comm)
{
    WANT(buf, memory);
    WANT(count == 3 && dest == 4 && tag == 5, true);
    seen_type = (uintptr_t)type;
    seen_comm = (uintptr_t)comm;
    known = false;
    return 0;
}

static int send_known(const void *buf, int count, MPI_Datatype type, int dest, int tag,
                      MPI_Comm comm)
{
    int err = send_other(buf, count, type, dest, tag, comm);
    known = true;
    return err;
}

static void check_message(uintptr_t type, uintptr_t comm)
{
    theirs_Send(memory, 3, wx_type_out((MPI_Datatype)type), 4, 5, wx_comm_out((MPI_Comm)comm));
    WANT(seen_type, type);
    WANT(seen_comm, comm);
    WANT(known, type < WX_PREDEFINED && comm < WX_PREDEFINED);
}

/* Each predefined datatype, and one that a program made. */
static void check_messages(void)
{
    enum { MADE_TYPE = 0x30000001, MADE_COMM = 0x10000001 };
    begin("a message");
    wx_weft.Send = send_other;
    wx_weft.known_Send = send_known;
    for (uintptr_t type = 0x200; type < WX_PREDEFINED; type++) {
        if (!wx_theirs[type])
            continue;
        check_message(type, (uintptr_t)MPI_COMM_WORLD);
        check_message(type, (uintptr_t)MPI_COMM_SELF);
        check_message(type, MADE_COMM);
    }
    check_message(MADE_TYPE, (uintptr_t)MPI_COMM_WORLD);
    check_message(MADE_TYPE, MADE_COMM);
}

int main(void)
{
    wx_weft.ready = true;
    check_all();
    check_messages();
    printf("%s 1 - arguments\n1..1\n", bad ? "not ok" : "ok");
    return bad != 0;
}
