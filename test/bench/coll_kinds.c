/* SPDX-License-Identifier: BSD-3-Clause */
/* The collective operations: how each is called, and what data it has to bring.  Root is rank 0, as
 * in the originals. */
#include "test/bench/coll.h"
#include <stdlib.h>
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

/* Counts and displacements of the v forms, in elements; made anew when the size changes, which is
 * before the timed calls. */
static struct {
    int n, *counts, *displs;
} vec = { .n = -1 };

static void vec_room(const struct bench *b, int n)
{
    size_t p = (size_t)b->nranks;

    if (!vec.counts)
        vec.counts = malloc(2 * p * sizeof *vec.counts);
    if (!vec.counts)
        MPI_Abort(WORLD, 2);
    vec.displs = vec.counts + p;
    vec.n = n;
}

/* A block of n elements for every rank. */
static void vec_blocks(const struct bench *b, int n)
{
    if (vec.n == n)
        return;
    vec_room(b, n);
    for (int r = 0; r < b->nranks; r++) {
        vec.counts[r] = n;
        vec.displs[r] = r * n;
    }
}

/* n elements shared out among the ranks. */
static void vec_parts(const struct bench *b, int n)
{
    if (vec.n == n)
        return;
    vec_room(b, n);
    for (int r = 0, at = 0; r < b->nranks; at += vec.counts[r], r++) {
        vec.counts[r] = n / b->nranks + (r < n % b->nranks);
        vec.displs[r] = at;
    }
}

static void reduce_scatter(struct bench *b, int n)
{
    vec_parts(b, n);
    MPI_Reduce_scatter(b->sbuf, b->rbuf, vec.counts, b->type, MPI_SUM, WORLD);
}

static void scan(struct bench *b, int n) { MPI_Scan(b->sbuf, b->rbuf, n, b->type, MPI_SUM, WORLD); }

static void allgatherv(struct bench *b, int n)
{
    vec_blocks(b, n);
    MPI_Allgatherv(b->sbuf, n, b->type, b->rbuf, vec.counts, vec.displs, b->type, WORLD);
}

static void alltoallv(struct bench *b, int n)
{
    vec_blocks(b, n);
    MPI_Alltoallv(b->sbuf, vec.counts, vec.displs, b->type, b->rbuf, vec.counts, vec.displs,
                  b->type, WORLD);
}

static void gatherv(struct bench *b, int n)
{
    vec_blocks(b, n);
    MPI_Gatherv(b->sbuf, n, b->type, b->rbuf, vec.counts, vec.displs, b->type, 0, WORLD);
}

static void scatterv(struct bench *b, int n)
{
    vec_blocks(b, n);
    MPI_Scatterv(b->sbuf, vec.counts, vec.displs, b->type, b->rbuf, n, b->type, 0, WORLD);
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

static void check_parts(struct bench *b, size_t n)
{
    vec_parts(b, bench_count(b, n));
    bench_check_part(b, b->rbuf, (size_t)vec.counts[b->rank], (size_t)vec.displs[b->rank],
                     b->nranks);
}

static void check_scan(struct bench *b, size_t n)
{
    bench_check_part(b, b->rbuf, n / b->type_len, 0, b->rank + 1);
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
    { "reduce_scatter", "Reduce_scatter", BENCH_REDUCES, reduce_scatter, NULL, fill_sum,
      check_parts },
    { "scan", "Scan", BENCH_REDUCES, scan, NULL, fill_sum, check_scan },
    { "allgatherv", "Allgatherv", BENCH_RECV_ALL, allgatherv, NULL, fill_one, check_from_all },
    { "alltoallv", "All-to-Allv", BENCH_SEND_ALL | BENCH_RECV_ALL, alltoallv, NULL, fill_alltoall,
      check_alltoall },
    { "gatherv", "Gatherv", BENCH_RECV_ALL, gatherv, NULL, fill_one, check_gather },
    { "scatterv", "Scatterv", BENCH_SEND_ALL, scatterv, NULL, fill_scatter, check_scatter },
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
