/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of calls.f90 from C. */
#include <mpi.h>

void c_send_(const int *n)
{
    int x[4] = { 0 };
    for (int i = 0; i < *n; i++)
        MPI_Send(x, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
}

void c_recv_(const int *n)
{
    int x[4];
    for (int i = 0; i < *n; i++)
        MPI_Recv(x, 1, MPI_INTEGER, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
