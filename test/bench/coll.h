/* SPDX-License-Identifier: BSD-3-Clause */
/* One row for each collective operation that is measured, blocking and nonblocking from the same
 * row. */
#ifndef TEST_BENCH_COLL_H
#define TEST_BENCH_COLL_H

#include "test/bench/bench.h"

struct coll_kind {
    const char *name, *title; /* "allreduce", "Allreduce" */
    unsigned flags;           /* BENCH_REDUCES, _SEND_ALL, _RECV_ALL, _NOSIZE */
    void (*call)(struct bench *b, int count);
    void (*start)(struct bench *b, int count, MPI_Request *req); /* NULL: only blocking */
    void (*fill)(struct bench *b, size_t nbytes);  /* before: writes input, clears output */
    void (*check)(struct bench *b, size_t nbytes); /* after: checks output */
};

/* What goes where with -l, in place: on every rank, or on the root only. */
static inline const void *coll_from(const struct bench *b)
{
    return b->opt.in_place ? MPI_IN_PLACE : b->sbuf;
}

static inline const void *coll_from_root(const struct bench *b)
{
    return b->opt.in_place && b->rank == 0 ? MPI_IN_PLACE : b->sbuf;
}

static inline void *coll_into_root(const struct bench *b)
{
    return b->opt.in_place && b->rank == 0 ? MPI_IN_PLACE : b->rbuf;
}

/* Counts and displacements of the v forms, in elements: a block of n elements for every rank, or n
 * elements shared out among the ranks. */
struct coll_vec {
    const int *counts, *displs;
};
struct coll_vec coll_vec_blocks(const struct bench *b, int n);
struct coll_vec coll_vec_parts(const struct bench *b, int n);

const struct coll_kind *coll_find(const char *name);
int coll_main(int argc, char **argv, const char *name);  /* osu_<name> */
int icoll_main(int argc, char **argv, const char *name); /* osu_i<name> */
int pcoll_main(int argc, char **argv, const char *name); /* osu_<name>_persistent */
int nccl_main(int argc, char **argv, const char *name);  /* osu_nccl_<name> */
/* coll.c: the figures of one size, and the columns they go to. */
void coll_measure(struct bench *b, size_t nbytes, double *v);
extern const struct bench_spec coll_spec;
void coll_check(struct bench *b, const struct coll_kind *kind, size_t nbytes);
void coll_spread(double mine, int nranks, double *v);
void coll_barrier_check(struct bench *b, const struct coll_kind *kind);

#endif
