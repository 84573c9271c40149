/* SPDX-License-Identifier: BSD-3-Clause */
/* The collective operations: how each is called, and what data it must deliver.  Root is rank 0, as
 * in the originals. */
#include "test/bench/coll.h"
#include <stdlib.h>
#include <string.h>

#define WORLD MPI_COMM_WORLD

static void allreduce(struct bench *b, int n)
{
    MPI_Allreduce(coll_from(b), b->rbuf, n, b->type, b->op, WORLD);
}

static void iallreduce(struct bench *b, int n, MPI_Request *req)
{
    MPI_Iallreduce(coll_from(b), b->rbuf, n, b->type, b->op, WORLD, req);
}

static void reduce(struct bench *b, int n)
{
    MPI_Reduce(coll_from_root(b), b->rbuf, n, b->type, b->op, 0, WORLD);
}

static void ireduce(struct bench *b, int n, MPI_Request *req)
{
    MPI_Ireduce(coll_from_root(b), b->rbuf, n, b->type, b->op, 0, WORLD, req);
}

static void bcast(struct bench *b, int n) { MPI_Bcast(b->rbuf, n, b->type, 0, WORLD); }

static void ibcast(struct bench *b, int n, MPI_Request *req)
{
    MPI_Ibcast(b->rbuf, n, b->type, 0, WORLD, req);
}

static void allgather(struct bench *b, int n)
{
    MPI_Allgather(coll_from(b), n, b->type, b->rbuf, n, b->type, WORLD);
}

static void iallgather(struct bench *b, int n, MPI_Request *req)
{
    MPI_Iallgather(coll_from(b), n, b->type, b->rbuf, n, b->type, WORLD, req);
}

static void alltoall(struct bench *b, int n)
{
    MPI_Alltoall(coll_from(b), n, b->type, b->rbuf, n, b->type, WORLD);
}

static void ialltoall(struct bench *b, int n, MPI_Request *req)
{
    MPI_Ialltoall(coll_from(b), n, b->type, b->rbuf, n, b->type, WORLD, req);
}

static void gather(struct bench *b, int n)
{
    MPI_Gather(coll_from_root(b), n, b->type, b->rbuf, n, b->type, 0, WORLD);
}

static void igather(struct bench *b, int n, MPI_Request *req)
{
    MPI_Igather(coll_from_root(b), n, b->type, b->rbuf, n, b->type, 0, WORLD, req);
}

static void scatter(struct bench *b, int n)
{
    MPI_Scatter(b->sbuf, n, b->type, coll_into_root(b), n, b->type, 0, WORLD);
}

static void iscatter(struct bench *b, int n, MPI_Request *req)
{
    MPI_Iscatter(b->sbuf, n, b->type, coll_into_root(b), n, b->type, 0, WORLD, req);
}

/* Made anew when the size changes, which is before the timed calls. */
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

struct coll_vec coll_vec_blocks(const struct bench *b, int n)
{
    if (vec.n != n) {
        vec_room(b, n);
        for (int r = 0; r < b->nranks; r++) {
            vec.counts[r] = n;
            vec.displs[r] = r * n;
        }
    }
    return (struct coll_vec){ vec.counts, vec.displs };
}

struct coll_vec coll_vec_parts(const struct bench *b, int n)
{
    if (vec.n != n) {
        vec_room(b, n);
        for (int r = 0, at = 0; r < b->nranks; at += vec.counts[r], r++) {
            vec.counts[r] = n / b->nranks + (r < n % b->nranks);
            vec.displs[r] = at;
        }
    }
    return (struct coll_vec){ vec.counts, vec.displs };
}

static void reduce_scatter(struct bench *b, int n)
{
    struct coll_vec v = coll_vec_parts(b, n);

    MPI_Reduce_scatter(coll_from(b), b->rbuf, v.counts, b->type, b->op, WORLD);
}

static void ireduce_scatter(struct bench *b, int n, MPI_Request *req)
{
    struct coll_vec v = coll_vec_parts(b, n);

    MPI_Ireduce_scatter(coll_from(b), b->rbuf, v.counts, b->type, b->op, WORLD, req);
}

static void reduce_scatter_block(struct bench *b, int n)
{
    MPI_Reduce_scatter_block(coll_from(b), b->rbuf, n, b->type, b->op, WORLD);
}

static void scan(struct bench *b, int n)
{
    MPI_Scan(coll_from(b), b->rbuf, n, b->type, b->op, WORLD);
}

static void iscan(struct bench *b, int n, MPI_Request *req)
{
    MPI_Iscan(coll_from(b), b->rbuf, n, b->type, b->op, WORLD, req);
}

static void exscan(struct bench *b, int n)
{
    MPI_Exscan(coll_from(b), b->rbuf, n, b->type, b->op, WORLD);
}

static void allgatherv(struct bench *b, int n)
{
    struct coll_vec v = coll_vec_blocks(b, n);

    MPI_Allgatherv(coll_from(b), n, b->type, b->rbuf, v.counts, v.displs, b->type, WORLD);
}

static void iallgatherv(struct bench *b, int n, MPI_Request *req)
{
    struct coll_vec v = coll_vec_blocks(b, n);

    MPI_Iallgatherv(coll_from(b), n, b->type, b->rbuf, v.counts, v.displs, b->type, WORLD, req);
}

static void alltoallv(struct bench *b, int n)
{
    struct coll_vec v = coll_vec_blocks(b, n);

    MPI_Alltoallv(coll_from(b), v.counts, v.displs, b->type, b->rbuf, v.counts, v.displs, b->type,
                  WORLD);
}

static void ialltoallv(struct bench *b, int n, MPI_Request *req)
{
    struct coll_vec v = coll_vec_blocks(b, n);

    MPI_Ialltoallv(coll_from(b), v.counts, v.displs, b->type, b->rbuf, v.counts, v.displs, b->type,
                   WORLD, req);
}

static void gatherv(struct bench *b, int n)
{
    struct coll_vec v = coll_vec_blocks(b, n);

    MPI_Gatherv(coll_from_root(b), n, b->type, b->rbuf, v.counts, v.displs, b->type, 0, WORLD);
}

static void scatterv(struct bench *b, int n)
{
    struct coll_vec v = coll_vec_blocks(b, n);

    MPI_Scatterv(b->sbuf, v.counts, v.displs, b->type, coll_into_root(b), n, b->type, 0, WORLD);
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

/* In place the input lies in the receive buffer. */
static void fill_sum(struct bench *b, size_t n)
{
    bench_fill_numbers(b, b->opt.in_place ? b->rbuf : b->sbuf, n);
    if (!b->opt.in_place)
        bench_poison(b, b->rbuf, n);
}

static void fill_sum_root(struct bench *b, size_t n)
{
    bool here = b->opt.in_place && b->rank == 0;

    bench_fill_numbers(b, here ? b->rbuf : b->sbuf, n);
    if (!here)
        bench_poison(b, b->rbuf, n);
}

static void fill_blocks(struct bench *b, size_t n) { fill_sum(b, n * (size_t)b->nranks); }

static void check_sum_all(struct bench *b, size_t n) { bench_check_sum(b, b->rbuf, n); }

static void check_sum_root(struct bench *b, size_t n)
{
    if (b->rank == 0)
        bench_check_sum(b, b->rbuf, n);
}

static void check_parts(struct bench *b, size_t n)
{
    struct coll_vec v = coll_vec_parts(b, bench_count(b, n));

    bench_check_part(b, b->rbuf, (size_t)v.counts[b->rank], (size_t)v.displs[b->rank], b->nranks);
}

static void check_block(struct bench *b, size_t n)
{
    size_t own = n / b->type_len;

    bench_check_part(b, b->rbuf, own, own * (size_t)b->rank, b->nranks);
}

static void check_scan(struct bench *b, size_t n)
{
    bench_check_part(b, b->rbuf, n / b->type_len, 0, b->rank + 1);
}

/* Rank 0 gets no data. */
static void check_exscan(struct bench *b, size_t n)
{
    if (b->rank)
        bench_check_part(b, b->rbuf, n / b->type_len, 0, b->rank);
}

static void fill_bcast(struct bench *b, size_t n)
{
    if (b->rank == 0)
        bench_fill(b, b->rbuf, n, 0, 0);
    else
        bench_poison(b, b->rbuf, n);
}

static void check_bcast(struct bench *b, size_t n) { bench_check(b, b->rbuf, n, 0, 0); }

/* The same block to all ranks, so a block has no receiver in its pattern. */
static void fill_own(struct bench *b, size_t n, bool here)
{
    bench_poison(b, b->rbuf, n * (size_t)b->nranks);
    bench_fill(b, here ? b->rbuf + (size_t)b->rank * n : b->sbuf, n, b->rank, 0);
}

static void fill_one(struct bench *b, size_t n) { fill_own(b, n, b->opt.in_place); }

static void fill_one_root(struct bench *b, size_t n)
{
    fill_own(b, n, b->opt.in_place && b->rank == 0);
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
    char *from = b->opt.in_place ? b->rbuf : b->sbuf;

    if (!b->opt.in_place)
        bench_poison(b, b->rbuf, n * (size_t)b->nranks);
    for (int r = 0; r < b->nranks; r++)
        bench_fill(b, from + (size_t)r * n, n, b->rank, r);
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

static void check_scatter(struct bench *b, size_t n)
{
    if (!b->opt.in_place || b->rank)
        bench_check(b, b->rbuf, n, 0, b->rank);
}

enum {
    SUMS = BENCH_REDUCES | BENCH_COLL,
    GATHERS = BENCH_RECV_ALL | BENCH_COLL,
    SCATTERS = BENCH_SEND_ALL | BENCH_COLL,
    EXCHANGES = BENCH_SEND_ALL | BENCH_RECV_ALL | BENCH_COLL
};

static const struct coll_kind kinds[] = {
    { "allreduce", "Allreduce", SUMS, allreduce, iallreduce, fill_sum, check_sum_all },
    { "reduce", "Reduce", SUMS, reduce, ireduce, fill_sum_root, check_sum_root },
    { "bcast", "Broadcast", 0, bcast, ibcast, fill_bcast, check_bcast },
    { "allgather", "Allgather", GATHERS, allgather, iallgather, fill_one, check_from_all },
    { "alltoall", "All-to-All", EXCHANGES, alltoall, ialltoall, fill_alltoall, check_alltoall },
    { "gather", "Gather", GATHERS, gather, igather, fill_one_root, check_gather },
    { "scatter", "Scatter", SCATTERS, scatter, iscatter, fill_scatter, check_scatter },
    { "reduce_scatter", "Reduce_scatter", SUMS, reduce_scatter, ireduce_scatter, fill_sum,
      check_parts },
    { "reduce_scatter_block", "Reduce_scatter_block", BENCH_REDUCES | EXCHANGES,
      reduce_scatter_block, NULL, fill_blocks, check_block },
    { "scan", "Scan", SUMS, scan, iscan, fill_sum, check_scan },
    { "exscan", "Exscan", SUMS, exscan, NULL, fill_sum, check_exscan },
    { "allgatherv", "Allgatherv", GATHERS, allgatherv, iallgatherv, fill_one, check_from_all },
    { "alltoallv", "All-to-Allv", EXCHANGES, alltoallv, ialltoallv, fill_alltoall, check_alltoall },
    { "gatherv", "Gatherv", GATHERS, gatherv, NULL, fill_one_root, check_gather },
    { "scatterv", "Scatterv", SCATTERS, scatterv, NULL, fill_scatter, check_scatter },
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
