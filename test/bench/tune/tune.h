/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-tune: measures the algorithms of the collectives on the machine where it runs and writes a
 * table of choices that the setting tune_file names.  It is linked with the library's internal
 * functions, to force algorithms and to ask what the library would choose; one thread.  main.c has
 * the order of the work, calls.c makes the calls and takes their time, table.c makes rows of the
 * times. */
#ifndef TEST_BENCH_TUNE_TUNE_H
#define TEST_BENCH_TUNE_TUNE_H

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include "coll/coll.h"

#define TUNE_ALGS 16  /* of a collective */
#define TUNE_SIZES 40 /* powers of two */
#define TUNE_RANKS 16 /* numbers of ranks */
#define TUNE_NAME "weft-tune"
#define TUNE_RANKS_MAX 4096 /* ranks */

struct tune_opts {
    const char *out;
    int64_t max, gpu_max; /* largest sizes, host and device memory */
    int step;             /* from a size to the next */
    int nranks[TUNE_RANKS], nnumbers;
    bool kind[COLL_KINDS];
    double seconds; /* for one algorithm at one size */
    bool gpu, host, quiet;
};

/* One measurement's circumstances. */
struct tune_call {
    MPI_Comm comm;
    int rank, size; /* in comm */
    bool node;      /* all ranks on one host */
    bool gpu;       /* buffers on devices, */
    bool direct;    /* which have links of their own to each other */
    enum coll_kind kind;
    char *sbuf, *rbuf;
    int *counts, *displs;
    double seconds;
};

/* What was found of one collective, in one kind of memory, for one number of ranks. */
struct tune_result {
    enum coll_kind kind;
    bool gpu;
    int mem; /* as in struct coll_tune */
    int nranks, nalgs, nsizes;
    const struct coll_alg *alg[TUNE_ALGS];
    int64_t bytes[TUNE_SIZES];
    double us[TUNE_ALGS][TUNE_SIZES];         /* 0: cannot serve such a call */
    const struct coll_alg *usual[TUNE_SIZES]; /* what the library takes without a table */
    int best[TUNE_SIZES];                     /* index of the algorithm to take, -1: none */
};

/* calls.c */
bool tune_has_sizes(enum coll_kind kind); /* false: the choice does not depend on the size */
bool tune_can_call(enum coll_kind kind);
size_t tune_room(enum coll_kind kind, int nranks, int64_t bytes); /* of a buffer */
/* What the library would take; NULL: it has a rule of its own (devices). */
const struct coll_alg *tune_choice(const struct tune_call *c, int64_t bytes);
double tune_time(const struct tune_call *c, int64_t bytes); /* us, the same on all ranks */

/* table.c */
void tune_decide(struct tune_result *r);
/* Rows of all results to f; `where`: what stands in them as the place of the measurement. */
void tune_write(FILE *f, const struct tune_result *all, int n, const char *where);
void tune_report(const struct tune_result *all, int n);

#endif
