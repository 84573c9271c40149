/* SPDX-License-Identifier: BSD-3-Clause */
/* A process that waits for a flag in a window, by a loop of one-sided calls, still takes part in
 * its messages: the process that sets the flag first waits until a message to it has been
 * delivered. */
#include "test/mpi/mpitest.h"

enum { N = 4 << 20 };

static MPI_Win win;
static int *mem;
static char *data;

static int flag_by_flush(int owner)
{
    int flag = -1;
    OK(MPI_Get(&flag, 1, MPI_INT, owner, 0, 1, MPI_INT, win));
    OK(MPI_Win_flush(owner, win));
    return flag;
}

static int flag_by_flush_all(int owner)
{
    int flag = -1;
    OK(MPI_Get(&flag, 1, MPI_INT, owner, 0, 1, MPI_INT, win));
    OK(MPI_Win_flush_all(win));
    return flag;
}

static int flag_by_atomic(int owner)
{
    int flag = -1, zero = 0;
    OK(MPI_Fetch_and_op(&zero, &flag, MPI_INT, owner, 0, MPI_SUM, win));
    OK(MPI_Win_flush_local(owner, win));
    return flag;
}

static int flag_by_lock(int owner)
{
    int flag = -1;
    OK(MPI_Win_lock(MPI_LOCK_SHARED, owner, 0, win));
    OK(MPI_Get(&flag, 1, MPI_INT, owner, 0, 1, MPI_INT, win));
    OK(MPI_Win_unlock(owner, win));
    return flag;
}

static int flag_by_sync(int owner)
{
    (void)owner;
    OK(MPI_Win_sync(win));
    return *(volatile int *)mem;
}

/* Each rank waits for its flag at rank `owner`; rank 0's message goes to rank 1. */
static void wait_for_flag(int (*flag)(int), int owner, bool epoch)
{
    MPI_Request req = MPI_REQUEST_NULL;
    int one = 1;
    if (mt_size < 2) {
        mt_skip("needs two ranks");
        return;
    }
    OK(MPI_Win_allocate(sizeof *mem, sizeof *mem, MPI_INFO_NULL, mt_comm, &mem, &win));
    *mem = 0;
    if (epoch)
        OK(MPI_Win_lock_all(0, win));
    if (mt_rank == 1)
        OK(MPI_Irecv(data, N, MPI_CHAR, 0, 1, mt_comm, &req));
    OK(MPI_Barrier(mt_comm));
    if (mt_rank == 0) {
        OK(MPI_Send(data, N, MPI_CHAR, 1, 1, mt_comm));
        if (!epoch)
            OK(MPI_Win_lock(MPI_LOCK_SHARED, owner, 0, win));
        OK(MPI_Accumulate(&one, 1, MPI_INT, owner, 0, 1, MPI_INT, MPI_REPLACE, win));
        if (epoch)
            OK(MPI_Win_flush(owner, win));
        else
            OK(MPI_Win_unlock(owner, win));
    } else if (mt_rank == 1) {
        while (flag(owner) != 1)
            ;
    }
    OK(MPI_Wait(&req, MPI_STATUS_IGNORE));
    if (epoch)
        OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
}

static void flushes(void) { wait_for_flag(flag_by_flush, mt_size - 1, true); }
static void all_flushes(void) { wait_for_flag(flag_by_flush_all, mt_size - 1, true); }
static void atomics(void) { wait_for_flag(flag_by_atomic, 0, true); }
static void locks(void) { wait_for_flag(flag_by_lock, 0, false); }
static void synchronisations(void) { wait_for_flag(flag_by_sync, 1, true); }

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    data = calloc(1, N);
    MT_RUN(flushes);
    MT_RUN(all_flushes);
    MT_RUN(atomics);
    MT_RUN(locks);
    MT_RUN(synchronisations);
    free(data);
    return mt_end();
}
