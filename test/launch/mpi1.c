/* SPDX-License-Identifier: BSD-3-Clause */
/* A program of MPI-1, for mpicc -mpi1 (test/launch/tools): every name that MPI-3.0 removed. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define WANT(cond) \
    do { \
        if (!(cond)) { \
            printf("line %d: %s\n", __LINE__, #cond); \
            MPI_Abort(MPI_COMM_WORLD, 1); \
        } \
    } while (0)

struct record {
    int i;
    double d;
};

static int errors;
static void count_error(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    errors++;
}

static void bounds(MPI_Datatype type, long want_lb, long want_ub)
{
    MPI_Aint lb = 7, ub = 7, extent = 7;
    MPI_Type_lb(type, &lb);
    MPI_Type_ub(type, &ub);
    MPI_Type_extent(type, &extent);
    WANT(lb == want_lb && ub == want_ub && extent == want_ub - want_lb);
    MPI_Type_free(&type);
}

static void error_handlers(void)
{
    MPI_Handler_function *function = count_error;
    MPI_Errhandler made, found;
    MPI_Errhandler_create(function, &made);
    MPI_Errhandler_set(MPI_COMM_WORLD, made);
    MPI_Errhandler_get(MPI_COMM_WORLD, &found);
    WANT(found == made);
    MPI_Errhandler_free(&found);
    MPI_Send(NULL, 0, MPI_INT, -5, 0, MPI_COMM_WORLD);
    WANT(errors == 1);
    MPI_Errhandler_set(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&made);
}

static void datatypes(void)
{
    MPI_Datatype type, marked[] = { MPI_LB, MPI_INT, MPI_UB, MPI_LB };
    int ones[] = { 1, 1, 1, 1 }, length = 2;
    MPI_Aint at[] = { -4, 0, 24, -8 }, far = 16;

    MPI_Type_struct(4, ones, at, marked, &type);
    bounds(type, -8, 24);
    MPI_Type_struct(2, ones + 1, at + 1, marked + 1, &type);
    bounds(type, 0, 24);
    MPI_Type_struct(1, ones, at + 1, marked + 1, &type);
    bounds(type, 0, 4);
    MPI_Type_struct(0, ones, at, marked, &type);
    bounds(type, 0, 0);
    MPI_Type_create_struct(2, ones + 1, at + 1, marked + 1, &type);
    bounds(type, 0, 24);
    MPI_Type_hvector(2, 1, 16, MPI_INT, &type);
    bounds(type, 0, 20);
    MPI_Type_hindexed(1, &length, &far, MPI_INT, &type);
    bounds(type, 16, 24);

    /* The markers are no datatypes elsewhere. */
    MPI_Errhandler_set(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    WANT(MPI_Send(ones, 1, MPI_UB, MPI_PROC_NULL, 0, MPI_COMM_SELF) == MPI_ERR_TYPE);
}

/* Each rank sends records to the next one. */
static void messages(void)
{
    struct record out[3], in[3];
    int rank, size, ones[] = { 1, 1, 1 };
    MPI_Aint at[3];
    MPI_Datatype type, types[] = { MPI_INT, MPI_DOUBLE, MPI_UB };

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 3; i++)
        out[i] = (struct record){ 10 * rank + i, 0.5 * i };
    MPI_Address(&out[0].i, &at[0]);
    MPI_Address(&out[0].d, &at[1]);
    MPI_Address(&out[1], &at[2]);
    for (int i = 2; i >= 0; i--)
        at[i] -= at[0];
    MPI_Type_struct(3, ones, at, types, &type);
    MPI_Type_commit(&type);
    MPI_Sendrecv(out, 3, type, (rank + 1) % size, 0, in, 3, type, (rank + size - 1) % size, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < 3; i++)
        WANT(in[i].i == 10 * ((rank + size - 1) % size) + i && in[i].d == 0.5 * i);
    int ints, addresses, datatypes, combiner;
    MPI_Type_get_envelope(type, &ints, &addresses, &datatypes, &combiner);
    switch (combiner) {
    case MPI_COMBINER_HVECTOR_INTEGER:
    case MPI_COMBINER_HINDEXED_INTEGER:
    case MPI_COMBINER_STRUCT_INTEGER:
        abort();
    default:
        break;
    }
    MPI_Type_free(&type);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    error_handlers();
    datatypes();
    messages();
    MPI_Finalize();
    return 0;
}
