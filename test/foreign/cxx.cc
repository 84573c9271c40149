// SPDX-License-Identifier: BSD-3-Clause
// A program of Open MPI's C++ bindings: predefined objects, virtual functions, and callbacks, which
// see C++ objects.  With -DTEST_REAL it is compiled with Open MPI's own mpi.h (test/rig/foreign).
#ifdef TEST_REAL
#include <mpi.h>
#else
#include "test/foreign/cxx.hh"
#endif
#include <stdio.h>
#include <stdlib.h>

#define WANT(x) \
    do { \
        if (!(x)) { \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #x); \
            exit(1); \
        } \
    } while (0)

static int rank, size;

static void test_objects(MPI::Intracomm &world)
{
    int sum = -1, one[2] = { 1, 1 }, both[2];
    WANT(world.Get_rank() == rank && world.Get_size() == size); // virtual
    WANT(MPI::COMM_SELF.Get_size() == 1);
    world.Allreduce(&rank, &sum, 1, MPI::INT, MPI::SUM);
    WANT(sum == size * (size - 1) / 2);
    MPI::Datatype two = MPI::INT.Create_contiguous(2);
    two.Commit();
    WANT(two.Get_size() == 8);
    MPI_Sendrecv(one, 1, two, rank, 0, both, 1, two, rank, 0, world, MPI_STATUS_IGNORE);
    WANT(both[1] == 1);
    two.Free();
    WANT((MPI_Datatype)two == MPI_DATATYPE_NULL);
    MPI::Win win = MPI::Win::Create(&sum, sizeof sum, 1, MPI::INFO_NULL, world);
    win.Free();
    WANT((MPI_Win)win == MPI_WIN_NULL);
    MPI::Intracomm none;
    WANT((MPI_Comm)none == MPI_COMM_NULL);
    MPI::Intracomm *copy = &static_cast<MPI::Intracomm &>(world.Clone());
    WANT(copy->Get_size() == size);
    copy->Free();
    delete copy;
}

static void product(const void *in, void *inout, int n, const MPI::Datatype &type)
{
    WANT((MPI_Datatype)type == MPI_INT && type.Get_size() == 4);
    for (int i = 0; i < n; i++)
        ((int *)inout)[i] *= ((const int *)in)[i];
}

static void test_op()
{
    int v[2] = { 2, rank + 1 }, out[2], want = 1;
    MPI::Op op;
    op.Init(product, true);
    MPI::COMM_WORLD.Allreduce(v, out, 2, MPI::INT, op);
    for (int i = 1; i <= size; i++)
        want *= i;
    WANT(out[0] == 1 << size && out[1] == want);
    op.Free();
}

static int errors, error_size;
static void on_error(MPI::Comm &comm, int *code, ...)
{
    int kind;
    MPI_Error_class(*code, &kind);
    errors += kind == MPI_ERR_RANK;
    error_size = comm.Get_size();
}

static void test_errors()
{
    MPI::Errhandler handler = MPI::Comm::Create_errhandler(on_error);
    MPI::COMM_WORLD.Set_errhandler(handler);
    MPI::COMM_WORLD.Send(&rank, 1, MPI::INT, size, 0);
    WANT(errors == 1 && error_size == size);
    MPI::COMM_WORLD.Set_errhandler(MPI::ERRORS_THROW_EXCEPTIONS);
    MPI::COMM_WORLD.Send(&rank, 1, MPI::INT, size, 0);
    MPI::COMM_WORLD.Set_errhandler(MPI::ERRORS_RETURN);
#ifndef TEST_REAL
    int kind;
    MPI_Error_class(MPI::mpi_errno, &kind);
    WANT(kind == MPI_ERR_RANK);
#endif
    handler.Free();
}

static int extra = 5, copies, deletions;
static int copy(const MPI::Comm &old, int, void *state, void *in, void *out, bool &flag)
{
    WANT(state == &extra && old.Get_size() == size);
    *(void **)out = in;
    flag = ++copies == 1;
    return MPI_SUCCESS;
}
static int del(MPI::Comm &comm, int, void *value, void *state)
{
    WANT(state == &extra && value == &rank && comm.Get_size() == size);
    deletions++;
    return MPI_SUCCESS;
}

static void test_attributes()
{
    void *found = 0;
    int key = MPI::Comm::Create_keyval(copy, del, &extra);
    MPI::Intracomm a = MPI::COMM_WORLD.Dup();
    a.Set_attr(key, &rank);
    MPI::Intracomm b = a.Dup(), c = a.Dup();
    WANT(copies == 2 && b.Get_attr(key, &found) && found == &rank && !c.Get_attr(key, &found));
    a.Free(), b.Free(), c.Free();
    WANT(deletions == 2);
    MPI::Comm::Free_keyval(key);
}

static int released;
static int query(void *state, MPI::Status &status)
{
    WANT(state == &extra);
    status.Set_tag(77);
    return MPI_SUCCESS;
}
static int release(void *state) { return released += state == &extra, MPI_SUCCESS; }
static int cancel(void *, bool) { return MPI_SUCCESS; }

static void test_requests()
{
    MPI::Status status;
    MPI::Grequest request = MPI::Grequest::Start(query, release, cancel, &extra);
    request.Complete();
    request.Wait(status);
    WANT(status.Get_tag() == 77 && released == 1);
}

int main(int argc, char **argv)
{
    MPI::Init(argc, argv);
    rank = MPI::COMM_WORLD.Get_rank();
    size = MPI::COMM_WORLD.Get_size();
    MPI::Intracomm *volatile world = &MPI::COMM_WORLD; // its class is unknown to the compiler
    test_objects(*world);
    test_op();
    test_errors();
    test_attributes();
    test_requests();
    MPI::Finalize();
    if (rank == 0)
        printf("ok 1 - C++\n1..1\n");
    return 0;
}
