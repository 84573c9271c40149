/* SPDX-License-Identifier: BSD-3-Clause */
/* The C side of callbacks.f90.  FINT is its INTEGER; handles of both languages have the same value.
 */
#include <mpi.h>
#include <stdint.h>

static int copies, deletes, errors;

static void digits(void *in, void *inout, int *len, MPI_Datatype *datatype)
{
    (void)datatype;
    for (int i = 0; i < *len; i++)
        ((FINT *)inout)[i] += 10 * ((FINT *)in)[i];
}
void c_make_op_(FINT *op)
{
    MPI_Op made;
    MPI_Op_create(digits, 0, &made);
    *op = MPI_Op_toint(made);
}
void c_reduce_(FINT *op, FINT *comm, FINT got[2])
{
    int rank;
    MPI_Comm c = MPI_Comm_fromint((int)*comm);
    MPI_Comm_rank(c, &rank);
    FINT x[2] = { rank + 1, rank + 1 };
    MPI_Allreduce(x, got, 2, MPI_INTEGER, MPI_Op_fromint((int)*op), c);
}

static int copy_fn(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)key;
    copies += extra == &copies ? 1 : 1000;
    *(void **)out = (char *)in + 1;
    *flag = 1;
    return MPI_SUCCESS;
}
static int delete_fn(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value;
    deletes += extra == &copies ? 1 : 1000;
    return MPI_SUCCESS;
}
void c_make_keyval_(FINT *keyval)
{
    int key;
    MPI_Comm_create_keyval(copy_fn, delete_fn, &key, &copies);
    *keyval = key;
}
void c_set_(FINT *comm, FINT *keyval, MPI_Aint *value)
{
    MPI_Comm_set_attr(MPI_Comm_fromint((int)*comm), (int)*keyval, (void *)*value);
}
/* The value that a pointer to MPI_Aint and a pointer to INTEGER finds; again after other calls. */
void c_get_(FINT *comm, FINT *keyval, MPI_Aint value[2], MPI_Aint *as_int)
{
    void *at, *again;
    int found, other;
    MPI_Comm c = MPI_Comm_fromint((int)*comm), d;
    MPI_Comm_get_attr(c, (int)*keyval, &at, &found);
    if (!found)
        return;
    *as_int = *(FINT *)at;
    value[0] = *(MPI_Aint *)at;
    MPI_Comm_dup(MPI_COMM_SELF, &d);
    MPI_Comm_free(&d);
    MPI_Comm_get_attr(c, (int)*keyval, &again, &other);
    value[1] = again == at ? value[0] : 0;
}
void c_dup_(FINT *comm, FINT *made)
{
    MPI_Comm d;
    MPI_Comm_dup(MPI_Comm_fromint((int)*comm), &d);
    *made = MPI_Comm_toint(d);
}
void c_counts_(FINT *c, FINT *d, FINT *e) { *c = copies, *d = deletes, *e = errors; }

static void on_error(MPI_Comm *comm, int *code, ...)
{
    errors += *comm == MPI_COMM_SELF && *code != MPI_SUCCESS ? 1 : 1000;
}
void c_make_errhandler_(FINT *e)
{
    MPI_Errhandler made;
    MPI_Comm_create_errhandler(on_error, &made);
    *e = MPI_Errhandler_toint(made);
}
void c_fail_(void)
{
    int x = 0;
    MPI_Send(&x, 1, MPI_INT, 7, 0, MPI_COMM_SELF);
}

void c_wait_(FINT *request, FINT got[4])
{
    int count;
    MPI_Status s;
    MPI_Request r = MPI_Request_fromint((int)*request);
    MPI_Wait(&r, &s);
    MPI_Get_count(&s, MPI_INTEGER, &count);
    got[0] = s.MPI_SOURCE, got[1] = s.MPI_TAG, got[2] = count, got[3] = s.MPI_ERROR;
    *request = MPI_Request_toint(r);
}
