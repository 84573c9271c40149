/* SPDX-License-Identifier: BSD-3-Clause */
/* The collective operations: how each is called, and what data it has to bring.  Root is rank 0, as
 * in the originals. */
#include "test/bench/coll.h"
#include <string.h>

#define WORLD MPI_COMM_WORLD

static void allreduce(struct bench *b, int n)
{
    MPI_Allreduce(b->sbuf, b->rbuf, n, b->type, MPI_SUM, WORLD);
}

static void iallreduce(struct bench *b, int n, MPI_Request *req)
{
    MPI_Iallreduce(b->sbuf, b->rbuf, n, b->type, MPI_SUM, WORLD, req);
}

static void reduce(struct bench *b, int n)
{
    MPI_Reduce(b->sbuf, b->rbuf, n, b->type, MPI_SUM, 0, WORLD);
}

static void ireduce(struct bench *b, int n, MPI_Request *req)
{
    MPI_Ireduce(b->sbuf, b->rbuf, n, b->type, MPI_SUM, 0, WORLD, req);
}

static void bcast(struct bench *b, int n) { MPI_Bcast(b->rbuf, n, b->type, 0, WORLD); }

static void ibcast(struct bench *b, int n, MPI_Request *req)
{
    MPI_Ibcast(b->rbuf, n, b->type, 0, WORLD, req);
}

static void allgather(struct bench *b, int n)
{
    MPI_Allgather(b->sbuf, n, b->type, b->rbuf, n, b->type, WORLD);
}

static void iallgather(struct bench *b, int n, MPI_Request *req)
{
    MPI_Iallgather(b->sbuf, n, b->type, b->rbuf, n, b->type, WORLD, req);
}

static void alltoall(struct bench *b, int n)
{
    MPI_Alltoall(b->sbuf, n, b->type, b->rbuf, n, b->type, WORLD);
}

static void ialltoall(struct bench *b, int n, MPI_Request *req)
{
    MPI_Ialltoall(b->sbuf, n, b->type, b->rbuf, n, b->type, WORLD, req);
}

static void gather(struct bench *b, int n)
{
    MPI_Gather(b->sbuf, n, b->type, b->rbuf, n, b->type, 0, WORLD);
}

static void igather(struct bench *b, int n, MPI_Request *req)
{
    MPI_Igather(b->sbuf, n, b->type, b->rbuf, n, b->type, 0, WORLD, req);
}

static void scatter(struct bench *b, int n)
{
    MPI_Scatter(b->sbuf, n, b->type, b->rbuf, n, b->type, 0, WORLD);
}

static void iscatter(struct bench *b, int n, MPI_Request *req)
{
    MPI_Iscatter(b->sbuf, n, b->type, b->rbuf, n, b->type, 0, WORLD, req);
}

static void barrier(struct bench *b, int n)
{
    (void)b;
    (void)n;
    MPI_Barrier(WORLD);
}

static void ibarrier(struct bench *b, int n, MPI_Request *req)
{
    (void)b;
    (void)n;
    MPI_Ibarrier(WORLD, req);
}

static void fill_sum(struct bench *b, size_t n)
{
    bench_fill_numbers(b, b->sbuf, n);
    bench_poison(b, b->rbuf, n);
}

static void check_sum_all(struct bench *b, size_t n) { bench_check_sum(b, b->rbuf, n); }

static void check_sum_root(struct bench *b, size_t n)
{
    if (b->rank == 0)
        bench_check_sum(b, b->rbuf, n);
}

static void fill_bcast(struct bench *b, size_t n)
{
    if (b->rank == 0)
        bench_fill(b, b->rbuf, n, 0, 0);
    else
        bench_poison(b, b->rbuf, n);
}

static void check_bcast(struct bench *b, size_t n) { bench_check(b, b->rbuf, n, 0, 0); }

/* The same block to everybody, so a block has no receiver in its pattern. */
static void fill_one(struct bench *b, size_t n)
{
    bench_fill(b, b->sbuf, n, b->rank, 0);
    bench_poison(b, b->rbuf, n * (size_t)b->nranks);
}

static void check_from_all(struct bench *b, size_t n)
{
    for (int r = 0; r < b->nranks; r++)
        bench_check(b, b->rbuf + (size_t)r * n, n, r, 0);
}

static void check_gather(struct bench *b, size_t n)
{
    if (b->rank == 0)
        check_from_all(b, n);
}

static void fill_alltoall(struct bench *b, size_t n)
{
    for (int r = 0; r < b->nranks; r++)
        bench_fill(b, b->sbuf + (size_t)r * n, n, b->rank, r);
    bench_poison(b, b->rbuf, n * (size_t)b->nranks);
}

static void check_alltoall(struct bench *b, size_t n)
{
    for (int r = 0; r < b->nranks; r++)
        bench_check(b, b->rbuf + (size_t)r * n, n, r, b->rank);
}

static void fill_scatter(struct bench *b, size_t n)
{
    for (int r = 0; r < b->nranks && b->rank == 0; r++)
        bench_fill(b, b->sbuf + (size_t)r * n, n, 0, r);
    bench_poison(b, b->rbuf, n);
}

static void check_scatter(struct bench *b, size_t n) { bench_check(b, b->rbuf, n, 0, b->rank); }

static const struct coll_kind kinds[] = {
    { "allreduce", "Allreduce", BENCH_REDUCES, allreduce, iallreduce, fill_sum, check_sum_all },
    { "reduce", "Reduce", BENCH_REDUCES, reduce, ireduce, fill_sum, check_sum_root },
    { "bcast", "Broadcast", 0, bcast, ibcast, fill_bcast, check_bcast },
    { "allgather", "Allgather", BENCH_RECV_ALL, allgather, iallgather, fill_one, check_from_all },
    { "alltoall", "All-to-All", BENCH_SEND_ALL | BENCH_RECV_ALL, alltoall, ialltoall, fill_alltoall,
      check_alltoall },
    { "gather", "Gather", BENCH_RECV_ALL, gather, igather, fill_one, check_gather },
    { "scatter", "Scatter", BENCH_SEND_ALL, scatter, iscatter, fill_scatter, check_scatter },
    { "barrier", "Barrier", BENCH_NOSIZE, barrier, ibarrier, NULL, NULL },
};

const struct coll_kind *coll_find(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (!strcmp(kinds[i].name, name))
            return &kinds[i];
    }
    return NULL;
}
