/* SPDX-License-Identifier: BSD-3-Clause */
/* The program that leaks.py starts, with WEFT_CHECK_LEAKS or WEFT_CHECK: leaves behind what the
 * first argument says.  It prints nothing itself. */
#include <mpi.h>
#include <string.h>

static void add(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *n; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

/* Two persistent requests keep a communicator, a datatype and an operation that are freed. */
static void leave_requests(void)
{
    static int x[2], y[2];
    MPI_Comm c;
    MPI_Datatype t;
    MPI_Op op;
    MPI_Request r;
    MPI_Comm_dup(MPI_COMM_WORLD, &c);
    MPI_Type_contiguous(2, MPI_INT, &t);
    MPI_Type_commit(&t);
    MPI_Send_init(x, 1, t, 0, 0, c, &r);
    MPI_Type_free(&t);
    MPI_Op_create(add, 1, &op);
    MPI_Allreduce_init(x, y, 2, MPI_INT, op, c, MPI_INFO_NULL, &r);
    MPI_Op_free(&op);
    MPI_Comm_disconnect(&c);
}

static void leave_objects(void)
{
    MPI_Comm c;
    MPI_Group g, h;
    MPI_Datatype t;
    MPI_Op op;
    int first = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &c);
    MPI_Comm_group(c, &g);
    MPI_Group_incl(g, 1, &first, &h);
    MPI_Type_contiguous(2, MPI_INT, &t);
    MPI_Op_create(add, 1, &op);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    MPI_Info info;
    MPI_Errhandler h;
    MPI_Init(&argc, &argv);
    MPI_Info_create(&info);
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &h);
    if (!strcmp(mode, "requests"))
        leave_requests();
    if (!strcmp(mode, "objects"))
        leave_objects();
    MPI_Finalize();
    MPI_Info_free(&info); /* allowed here (MPI-5.0 section 11.4.1) */
    MPI_Errhandler_free(&h);
    return 0;
}
