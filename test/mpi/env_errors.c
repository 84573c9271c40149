/* SPDX-License-Identifier: BSD-3-Clause */
/* Whose error handler is called for errors that belong to no object: MPI_COMM_SELF's (MPI-5.0
 * section 9.3) when the program has set it, else MPI_COMM_WORLD's, as programs older than MPI-4.0
 * expect. */
#include "test/mpi/mpitest.h"

static int nworld, nself, nother;

static void count(MPI_Comm *comm, int *errcode, ...)
{
    int class;
    MPI_Error_class(*errcode, &class);
    CHECK(class == MPI_ERR_COUNT || class == MPI_ERR_OP || class == MPI_ERR_COMM ||
          class == MPI_ERR_ARG);
    if (*comm == MPI_COMM_WORLD)
        nworld++;
    else if (*comm == MPI_COMM_SELF)
        nself++;
    else
        nother++;
}

/* Errors of calls on datatypes, operations, null communicators and plain arguments. */
static void err_four_times(void)
{
    MPI_Op op = MPI_OP_NULL;
    MPI_Datatype t;
    int n;

    nworld = nself = nother = 0;
    FAILS(MPI_Type_contiguous(-1, MPI_INT, &t), MPI_ERR_COUNT);
    FAILS(MPI_Op_free(&op), MPI_ERR_OP);
    FAILS(MPI_Comm_size(MPI_COMM_NULL, &n), MPI_ERR_COMM);
    FAILS(MPI_Add_error_string(1, "no"), MPI_ERR_ARG);
}

int main(int argc, char **argv)
{
    MPI_Errhandler h;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &mt_rank);
    MPI_Comm_create_errhandler(count, &h);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, h);
    err_four_times();
    CHECK(nworld == 4 && nself == 0 && nother == 0);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    err_four_times();
    CHECK(nworld == 0 && nself == 0 && nother == 0);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, h);
    err_four_times();
    CHECK(nworld == 0 && nself == 4 && nother == 0);
    MPI_Errhandler_free(&h);
    MPI_Finalize();
    if (mt_rank == 0)
        printf("%sok 1 - errors without an object\n1..1\n", check_failed_case ? "not " : "");
    return check_failed_case;
}
