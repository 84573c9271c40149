/* SPDX-License-Identifier: BSD-3-Clause */
/* MPIX_Type_iov and MPIX_Type_iov_len: the pieces of a vector, and wrong arguments. */
#include "test/mpi/mpitest.h"

static void wrong_arguments(MPI_Datatype t)
{
    MPIX_Iov v[3];
    MPI_Count n, nbytes;

    FAILS(MPIX_Type_iov_len(t, -1, NULL, &nbytes), MPI_ERR_ARG);
    FAILS(MPIX_Type_iov_len(t, -1, &n, NULL), MPI_ERR_ARG);
    FAILS(MPIX_Type_iov_len(MPI_DATATYPE_NULL, -1, &n, &nbytes), MPI_ERR_TYPE);
    FAILS(MPIX_Type_iov(t, -1, v, 3, &n), MPI_ERR_ARG);
    FAILS(MPIX_Type_iov(t, 0, v, -1, &n), MPI_ERR_ARG);
    FAILS(MPIX_Type_iov(t, 0, NULL, 3, &n), MPI_ERR_ARG);
    FAILS(MPIX_Type_iov(t, 0, v, 3, NULL), MPI_ERR_ARG);
    FAILS(MPIX_Type_iov(MPI_DATATYPE_NULL, 0, v, 3, &n), MPI_ERR_TYPE);
}

int main(int argc, char **argv)
{
    MPI_Datatype t;
    MPIX_Iov v[3];
    MPI_Count n = -1, nbytes = -1;

    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Type_vector(3, 1, 2, MPI_INT, &t);
    CHECK(MPIX_Type_iov_len(t, -1, &n, &nbytes) == MPI_SUCCESS && n == 3 && nbytes == 12);
    CHECK(MPIX_Type_iov(t, 1, v, 3, &n) == MPI_SUCCESS && n == 2);
    CHECK((MPI_Aint)v[0].iov_base == 8 && v[0].iov_len == 4);
    CHECK(MPIX_Type_iov(t, 0, NULL, 0, &n) == MPI_SUCCESS && n == 0);
    wrong_arguments(t);
    MPI_Type_free(&t);
    MPI_Finalize();
    printf("%sok 1 - pieces of a datatype\n1..1\n", check_failed_case ? "not " : "");
    return check_failed_case;
}
