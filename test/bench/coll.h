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
    void (*fill)(struct bench *b, size_t nbytes);  /* before: own data out, old data away */
    void (*check)(struct bench *b, size_t nbytes); /* after: what has to have arrived */
};

const struct coll_kind *coll_find(const char *name);
int coll_main(int argc, char **argv, const char *name);  /* osu_<name> */
int icoll_main(int argc, char **argv, const char *name); /* osu_i<name> */
void coll_barrier_check(struct bench *b, const struct coll_kind *kind);

#endif
