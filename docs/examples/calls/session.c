/* SPDX-License-Identifier: BSD-3-Clause */
/* A library that uses MPI by a session, without MPI_Init. */
#include <mpi.h>

int main(void)
{
    int rank, size, sum;
    MPI_Session session;
    MPI_Group world;
    MPI_Comm comm;

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &world);
    MPI_Comm_create_from_group(world, "org.example.solver", MPI_INFO_NULL,
                               MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Group_free(&world);

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);

    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
    return sum != size * (size - 1) / 2;
}
