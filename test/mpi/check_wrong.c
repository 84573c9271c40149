/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs with one mistake each, for check.py: `check_wrong MISTAKE`.  Three ranks; rank 2 is the
 * one that is wrong, unless said otherwise.  Without WEFT_CHECK most of them hang. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "test/patience.h"

static int rank, size, buf[4096], out[4096];
static int ints[8], at[8];
static MPI_Comm comm;
#define WRONG (rank == 2)

static void kind(void) { WRONG ? MPI_Barrier(comm) : MPI_Bcast(buf, 1, MPI_INT, 0, comm); }
static void root(void) { MPI_Bcast(buf, 1, MPI_INT, WRONG ? 1 : 0, comm); }
static void count(void) { MPI_Bcast(buf, WRONG ? 3 : 2, MPI_INT, 0, comm); }
static void type(void) { MPI_Bcast(buf, 2, WRONG ? MPI_FLOAT : MPI_INT, 0, comm); }
static void op(void) { MPI_Allreduce(buf, out, 1, MPI_INT, WRONG ? MPI_MAX : MPI_SUM, comm); }

static void form(void)
{
    MPI_Request r;
    if (!WRONG) {
        MPI_Barrier(comm);
        return;
    }
    MPI_Ibarrier(comm, &r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static void persistent(void)
{
    MPI_Request r;
    if (WRONG)
        MPI_Barrier_init(comm, MPI_INFO_NULL, &r);
    else
        MPI_Ibarrier(comm, &r);
    if (WRONG)
        MPI_Start(&r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static void gather(void) { MPI_Gather(buf, WRONG ? 2 : 1, MPI_INT, out, 1, MPI_INT, 0, comm); }
static void scatter(void) { MPI_Scatter(buf, 2, MPI_INT, out, WRONG ? 1 : 2, MPI_INT, 0, comm); }

static void gatherv(void)
{
    MPI_Gatherv(buf, WRONG ? 1 : rank + 1, MPI_INT, out, ints, at, MPI_INT, 0, comm);
}

static void scatterv(void)
{
    MPI_Scatterv(buf, ints, at, MPI_INT, out, rank + 1, WRONG ? MPI_FLOAT : MPI_INT, 0, comm);
}

static void allgatherv(void)
{
    MPI_Allgatherv(buf, WRONG ? 1 : rank + 1, MPI_INT, out, ints, at, MPI_INT, comm);
}

/* Rank r sends s + 1 ints to rank s, so each expects rank + 1 from all ranks. */
static void alltoallv(void)
{
    int in[8];
    for (int i = 0; i < size; i++)
        in[i] = rank + 1;
    if (WRONG)
        in[1] = 7;
    MPI_Alltoallv(buf, ints, at, MPI_INT, out, in, at, MPI_INT, comm);
}

static void alltoallw(void)
{
    MPI_Datatype t[8], u[8];
    for (int i = 0; i < 8; i++)
        u[i] = t[i] = MPI_INT;
    if (WRONG)
        t[0] = MPI_FLOAT;
    for (int i = 0; i < 8; i++)
        at[i] *= (int)sizeof(int);
    for (int i = 0; i < 8; i++)
        ints[i] = 1;
    MPI_Alltoallw(buf, ints, at, t, out, ints, at, u, comm);
}

static void reduce_scatter(void)
{
    if (WRONG) {
        ints[0] = 2;
        ints[1] = 1;
    }
    MPI_Reduce_scatter(buf, out, ints, MPI_INT, MPI_SUM, comm);
}

static void creation(void)
{
    MPI_Comm c;
    if (WRONG)
        MPI_Comm_split(comm, 0, 0, &c);
    else
        MPI_Comm_dup(comm, &c);
}

/* Rank 2 makes one call too few: the others are one call ahead. */
static void missing(void)
{
    if (!WRONG)
        MPI_Barrier(comm);
    MPI_Allreduce(buf, out, 1, MPI_INT, MPI_SUM, comm);
}

/* Rank 2 leaves without the last call. */
static void never(void)
{
    MPI_Request r;
    if (!WRONG)
        MPI_Ibarrier(MPI_COMM_WORLD, &r);
}

/* The same on a communicator that is never freed. */
static void never_here(void)
{
    MPI_Request r;
    MPI_Comm c;
    MPI_Comm_dup(comm, &c);
    MPI_Comm_set_name(c, "unused");
    if (!WRONG)
        MPI_Ibarrier(c, &r);
}

static void freed_by_some(void)
{
    MPI_Comm c;
    MPI_Comm_dup(comm, &c);
    MPI_Comm_set_name(c, "half freed");
    if (!WRONG)
        MPI_Comm_free(&c);
}

/* Rank 0 waits for a message that rank 1 sends only after a collective, which rank 0 has not
 * entered. */
static void crossed(void)
{
    if (rank == 0)
        MPI_Recv(buf, 1, MPI_INT, 1, 1, comm, MPI_STATUS_IGNORE);
    MPI_Bcast(buf, WRONG ? 2 : 1, MPI_INT, 1, comm);
    if (rank == 1)
        MPI_Send(buf, 1, MPI_INT, 0, 1, comm);
}

static void in_subgroup(void)
{
    MPI_Comm half;
    MPI_Comm_split(comm, rank != 0, 0, &half);
    MPI_Comm_set_name(half, "half");
    MPI_Bcast(buf, WRONG ? 2 : 1, MPI_INT, 0, half);
    MPI_Comm_free(&half);
}

static void many(void)
{
    for (int i = 0; i < 20; i++)
        MPI_Allgather(buf, 1, MPI_INT, out, 1, WRONG && i == 16 ? MPI_FLOAT : MPI_INT, comm);
}

static void pending(void)
{
    static MPI_Request r[3];
    MPI_Irecv(buf, 1, MPI_INT, MPI_ANY_SOURCE, 77, comm, &r[0]);
    MPI_Send_init(buf, 1, MPI_INT, rank, 5, comm, &r[1]);
    if (rank == 1) {
        MPI_Isend(out, 3, MPI_INT, 0, 42, comm, &r[2]);
        MPI_Request_free(&r[2]);
    }
    MPI_Barrier(comm);
}

static void leak(void)
{
    MPI_Comm c;
    MPI_Comm_dup(comm, &c);
    MPI_Comm_set_name(c, "forgotten");
    MPI_Barrier(c);
}

/* Nothing wrong here: the same data described in different ways. */
static void right(void)
{
    MPI_Datatype pairs, vector, record, kinds[2] = { MPI_INT, MPI_DOUBLE };
    MPI_Aint where[2] = { 0, 8 };
    MPI_Request r[2];
    int ones[2] = { 1, 1 }, n = rank + 1, all = MPI_UNDEFINED;
    MPI_Type_contiguous(2, MPI_INT, &pairs);
    MPI_Type_vector(3, 1, 2, MPI_INT, &vector);
    MPI_Type_create_struct(2, ones, where, kinds, &record);
    MPI_Type_commit(&pairs);
    MPI_Type_commit(&vector);
    MPI_Type_commit(&record);
    for (int i = 0; i < 50; i++) {
        MPI_Bcast(buf, rank ? 6 : 3, rank ? MPI_INT : pairs, 0, comm);
        MPI_Bcast(buf, rank == 1 ? 2 : 6, rank == 1 ? vector : MPI_INT, 1, comm);
        MPI_Bcast(buf, 4, record, 0, comm);
        MPI_Gatherv(buf, n, MPI_INT, out, ints, at, MPI_INT, 1, comm);
        MPI_Scatterv(buf, ints, at, MPI_INT, out, n, MPI_INT, 2, comm);
        MPI_Allgatherv(rank ? buf : MPI_IN_PLACE, n, MPI_INT, out, ints, at, MPI_INT, comm);
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, 2, MPI_INT, comm);
        MPI_Gather(rank ? buf : MPI_IN_PLACE, 2, MPI_INT, out, 1, pairs, 0, comm);
        MPI_Iallreduce(buf, out, 4, MPI_INT, MPI_MIN, comm, r);
        MPI_Wait(r, MPI_STATUS_IGNORE);
    }
    MPI_Type_free(&pairs);
    MPI_Type_free(&vector);
    MPI_Type_free(&record);
    MPI_Comm c, d;
    MPI_Comm_split(comm, rank == 1 ? all : 0, 0, &c);
    MPI_Comm_idup(comm, &d, r);
    MPI_Wait(r, MPI_STATUS_IGNORE);
    if (c != MPI_COMM_NULL) {
        MPI_Barrier(c);
        MPI_Comm_free(&c);
    }
    MPI_Comm_free(&d);
}

/* Rank 2 has an error while rank 0 is outside MPI, until `flag` is set or for some time. */
static void fail_early(const volatile int *flag, unsigned ms)
{
    MPI_Bcast(buf, WRONG ? 1 : 4, MPI_INT, 0, comm);
    if (rank)
        return;
    for (struct watch w = watch_begin(); !watch_over(&w, ms * 1000000ull) && !*flag;)
        usleep(1000);
    if (*flag)
        printf("the call of rank 2 has returned\n");
    fflush(stdout);
}

static void dies(void)
{
    int never = 0;
    fail_early(&never, 500);
}

static void returns(void)
{
    int *own, *flag, unit;
    MPI_Aint len;
    MPI_Win w;
    MPI_Win_allocate_shared(sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &own, &w);
    MPI_Win_shared_query(w, 0, &len, &unit, &flag);
    *own = 0;
    MPI_Barrier(comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    fail_early(flag, 1500);
    if (WRONG)
        *flag = 1;
    MPI_Win_free(&w);
}

static const struct {
    const char *name;
    void (*run)(void);
} mistakes[] = {
    { "kind", kind },
    { "root", root },
    { "count", count },
    { "type", type },
    { "op", op },
    { "form", form },
    { "persistent", persistent },
    { "gather", gather },
    { "scatter", scatter },
    { "gatherv", gatherv },
    { "scatterv", scatterv },
    { "allgatherv", allgatherv },
    { "alltoallv", alltoallv },
    { "alltoallw", alltoallw },
    { "reduce_scatter", reduce_scatter },
    { "creation", creation },
    { "missing", missing },
    { "never", never },
    { "never_here", never_here },
    { "freed_by_some", freed_by_some },
    { "crossed", crossed },
    { "in_subgroup", in_subgroup },
    { "many", many },
    { "pending", pending },
    { "leak", leak },
    { "dies", dies },
    { "returns", returns },
    { "right", right },
};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 8; i++) {
        ints[i] = i + 1;
        at[i] = 8 * i;
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_name(comm, "mine");
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++)
        if (argc > 1 && !strcmp(argv[1], mistakes[i].name))
            mistakes[i].run();
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
