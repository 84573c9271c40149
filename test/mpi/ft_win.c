/* SPDX-License-Identifier: BSD-3-Clause */
/* mpirun --ft: windows and files after the last rank has died.  Synchronisation with the dead ends
 * with an error, as do collective calls on the file; memory and file of the others stay usable. */
#include "test/mpi/ft_test.h"

#define TAG 3

int main(int argc, char **argv)
{
    int victim, n, alive[64], *mine, v = 7, token = 0, rc, class = 0;
    char name[64];
    MPI_Win win;
    MPI_File file;
    ft_init(argc, argv);
    n = mt_size;
    victim = n - 1;
    OK(MPI_Win_allocate((MPI_Aint)(64 * sizeof *mine), sizeof *mine, MPI_INFO_NULL, MPI_COMM_WORLD,
                        &mine, &win));
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    int id = mt_rank ? 0 : (int)getpid();
    OK(MPI_Bcast(&id, 1, MPI_INT, 0, MPI_COMM_WORLD));
    snprintf(name, sizeof name, "/tmp/weft-ft-win-%d", id);
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MPI_File_set_errhandler(file, MPI_ERRORS_RETURN);
    OK(MPI_Win_fence(0, win));
    mine[0] = mt_rank;
    OK(MPI_Win_fence(0, win));
    ft_lose_last(0);

    FAILS(MPI_Recv(&v, 1, MPI_INT, victim, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
          MPIX_ERR_PROC_FAILED);
    rc = MPI_Win_fence(0, win);
    FAILS(rc, MPIX_ERR_PROC_FAILED);
    rc = MPI_Win_lock(MPI_LOCK_SHARED, victim, 0, win); /* any of the three may find it */
    if (!rc) {
        rc = MPI_Put(&v, 1, MPI_INT, victim, 1, 1, MPI_INT, win);
        int end = MPI_Win_unlock(victim, win);
        rc = rc ? rc : end;
    }
    MPI_Error_class(rc, &class);
    CHECK_MSG(!class || class == MPIX_ERR_PROC_FAILED, "lock of the dead: class %d", class);
    CHECK(mine[0] == mt_rank);

    MPI_Offset at = (MPI_Offset)(mt_rank * (int)sizeof v);
    OK(MPI_File_write_at(file, at, &mt_rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    rc = MPI_File_write_at_all(file, at, &mt_rank, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_Error_class(rc, &class); /* a call that needs no data of the others may succeed */
    CHECK_MSG(!class || class == MPIX_ERR_PROC_FAILED, "collective write: class %d", class);
    FAILS(MPI_File_set_size(file, 1000), MPIX_ERR_PROC_FAILED);
    OK(MPI_File_read_at(file, at, &token, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(token == mt_rank);
    rc = MPI_File_close(&file); /* ends */
    MPI_Error_class(rc, &class);
    CHECK(!rc || class == MPIX_ERR_PROC_FAILED);
    rc = MPI_Win_free(&win);
    MPI_Error_class(rc, &class);
    CHECK(!rc || class == MPIX_ERR_PROC_FAILED);
    if (mt_rank == 0)
        unlink(name);
    for (int i = 0; i < victim && i < 64; i++)
        alive[i] = i;
    return ft_end("windows, files and a dead process", 0, alive, victim);
}
