/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of the text of a verdict: print.c, phrases.c, kinds.c. */
#ifndef LAUNCHER_EXPLAIN_PRINT_H
#define LAUNCHER_EXPLAIN_PRINT_H

#include "launcher/explain/explain.h"

#define PRINT_RANGES 48 /* bytes of the text of ranks */

/* Waits that a line describes, of which `first` is one. */
struct print_group {
    int first, n;
};

struct print_all {
    struct explain_ref *waits; /* groups in succession, each by rank */
    int nwaits;
    struct print_group *groups; /* the largest first */
    int ngroups;
};

/* ---- phrases.c ---- */

/* "0-3,7,9-4095"; what does not fit is left out: "0,2,4,... (17)". */
void print_ranges(char buf[PRINT_RANGES], const int *ranks, int n);
/* NULL: the rank could not be read. */
const struct explain_rank *print_find(const struct explain_job *job, int rank);
/* The wait's message, or its first request. */
const struct rt_wait_item *print_front(const struct explain_ref *w);
/* "MPI_Recv from rank 1 tag 3, 4 B on MPI_COMM_WORLD (2 ranks) at halo.c:88", for n equal waits.
 * n 0: one wait, in brief. */
void print_waits(FILE *f, const struct explain_ref *w, int n);
/* "rank 2 is in MPI_Recv from rank 1 tag 3 on MPI_COMM_WORLD at halo.c:88" */
void print_is_in(FILE *f, const struct explain_ref *w);
void print_roots(FILE *f, const struct explain_verdict *v); /* "ranks 0,3" */
void print_place(FILE *f, const struct explain_rank *r);    /* " in step() at solve.c:7" */

/* ---- kinds.c ---- */

/* The sentence of the verdict.  `ranks`: room for all waits. */
void print_kind(FILE *f, const struct explain_job *job, const struct print_all *all, int *ranks,
                const struct explain_verdict *v);

#endif
