/* SPDX-License-Identifier: BSD-3-Clause */
/* The program that rma_path.py starts: rank 0 puts into a window of each kind of the last rank, in
 * the order of weft_info --rma, and the last rank checks the data. There is no shared window if the
 * ranks are on several hosts. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, last;
static int memory;

static void fill(MPI_Win win, MPI_Aint disp, const int *at, int value)
{
    MPI_Win_fence(0, win);
    if (rank == 0)
        MPI_Put(&value, 1, MPI_INT, last, disp, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    if (rank == last && *at != value) {
        printf("window %d holds %d\n", value, *at);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Win_free(&win);
}

static void dynamic(void)
{
    MPI_Win win;
    MPI_Aint at;
    MPI_Get_address(&memory, &at);
    MPI_Bcast(&at, 1, MPI_AINT, last, MPI_COMM_WORLD);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_attach(win, &memory, sizeof memory);
    MPI_Barrier(MPI_COMM_WORLD);
    fill(win, at, &memory, 5);
}

int main(int argc, char **argv)
{
    MPI_Win win;
    MPI_Comm host;
    int *mine, size, nlocal;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    last = size - 1;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &nlocal);
    MPI_Comm_free(&host);
    MPI_Win_allocate(sizeof(int), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
    fill(win, 0, mine, 1);
    if (nlocal == size) {
        MPI_Win_allocate_shared(sizeof(int), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
        fill(win, 0, mine, 2);
    }
    MPI_Win_create(&memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    fill(win, 0, &memory, 3);
    MPI_Alloc_mem(sizeof(int), MPI_INFO_NULL, &mine);
    MPI_Win_create(mine, sizeof(int), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    fill(win, 0, mine, 4);
    MPI_Free_mem(mine);
    dynamic();
    if (rank == last)
        printf("all windows filled\n");
    MPI_Finalize();
    return 0;
}
