/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of MPI_Alloc_mem that is released after MPI_Finalize, in main() and by a destructor.  Open
 * MPI accepts it, and boost.mpi's module for Python does it; MPICH ends the process with 1. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static const MPI_Aint nbytes[] = { 0, 100, 1 << 20 };
enum { N = sizeof nbytes / sizeof nbytes[0] };
static void *memory[N], *last;

static __attribute__((destructor)) void release_last(void) { MPI_Free_mem(last); }

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < N; i++)
        MPI_Alloc_mem(nbytes[i], MPI_INFO_NULL, &memory[i]);
    MPI_Alloc_mem(100, MPI_INFO_NULL, &last);
    MPI_Finalize();
    for (int i = 0; i < N; i++) {
        memset(memory[i], 1, (size_t)nbytes[i]);
        if (MPI_Free_mem(memory[i]) != MPI_SUCCESS)
            return 2;
    }
    if (MPI_Free_mem(NULL) != MPI_SUCCESS)
        return 3;
    if (rank == 0)
        printf("ok 1 - released after MPI_Finalize\n1..1\n");
    return 0;
}
