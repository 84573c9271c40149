/* SPDX-License-Identifier: BSD-3-Clause */
/* A window of device memory: each rank stores its number to the window of the next rank by a
 * kernel, and all ranks count in the window of rank 0 by MPI_Fetch_and_op.
 *
 *     nvcc -ccbin mpicxx device_window.cu -o device_window
 *     mpirun -n 2 ./device_window */
#include <mpi.h>
#include <stdio.h>

__global__ void store(int *to, int value) { *to = value; }

static void store_to_next(MPI_Win win, int rank, int size)
{
    int unit, *next;
    MPI_Aint nbytes;
    MPI_Win_shared_query(win, (rank + 1) % size, &nbytes, &unit, &next);
    if (!next) { /* the devices do not reach each other */
        MPI_Put(&rank, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, win);
        MPI_Win_flush((rank + 1) % size, win);
    } else {
        store<<<1, 1>>>(next, rank);
        cudaDeviceSynchronize();
    }
    MPI_Win_sync(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(win);
}

int main(int argc, char **argv)
{
    int rank, size, ndevices = 0, one = 1, zero[2] = { 0, 0 }, turn, got[2], *mine;
    MPI_Info info;
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    cudaGetDeviceCount(&ndevices);
    if (ndevices == 0 || cudaSetDevice(rank % ndevices) || cudaFree(0)) { /* makes the context */
        fprintf(stderr, "rank %d: no CUDA device can be used\n", rank);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Info_create(&info);
    MPI_Info_set(info, "weft_memory_kind", "cuda:device");
    MPI_Win_allocate(sizeof zero, sizeof(int), info, MPI_COMM_WORLD, &mine, &win);
    MPI_Info_free(&info);
    cudaMemcpy(mine, zero, sizeof zero, cudaMemcpyDefault);
    MPI_Barrier(MPI_COMM_WORLD);

    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    store_to_next(win, rank, size);
    MPI_Fetch_and_op(&one, &turn, MPI_INT, 0, 1, MPI_SUM, win);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);

    cudaMemcpy(got, mine, sizeof got, cudaMemcpyDefault);
    printf("rank %d has the number of rank %d, and counted after %d other ranks\n", rank, got[0],
           turn);
    bool right = got[0] == (rank + size - 1) % size && (rank || got[1] == size);
    MPI_Win_free(&win);
    MPI_Finalize();
    return !right;
}
