/* SPDX-License-Identifier: BSD-3-Clause */
/* weft_ping, the program that `mpirun --ping` starts once on each host: measures every pair of
 * hosts, and names those that are slower than the others. */
#ifndef LAUNCHER_PING_PING_H
#define LAUNCHER_PING_PING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define PING_HOSTS_MAX 2048 /* the table of all pairs takes 36 bytes each */
#define PING_MATRIX_MAX 12  /* hosts up to which tables are printed */
#define PING_SLOW 2.0       /* so many times worse than the median is slow */

/* What one process knows about its connection to another; travels as it is, all hosts of a job
 * being of one kind. */
struct ping_cell {
    double us;      /* half a round trip of 8 bytes, median */
    double out, in; /* MB/s of long messages, from and to this process, median */
    bool ok;        /* messages arrive both ways */
    char by[11];    /* transport; "" when none leads there */
};

/* All cells, n * n, by rank of the process that knows and rank of the other one.  Where the two
 * disagree on `ok`, the pair is unreachable. */
struct ping_table {
    int n;
    char (*name)[64];
    struct ping_cell *cell;
    bool *missing; /* the process did not report */
};

/* With whom rank me measures in round r of ping_rounds(n); -1 = with no rank.  Each pair meets once
 * and no rank is in two pairs of a round. */
int ping_rounds(int n);
int ping_partner(int n, int r, int me);

/* Prints the report; the number of pairs that are unreachable. */
long ping_report(const struct ping_table *t, FILE *f);

/* measure.c: these return MPI error codes.  `turn_s` is how long one pair may take, roughly. */
/* Sends to all others at once and receives from them, for at most limit_s. */
int ping_reach(int n, int me, double limit_s, bool *reached);
/* Both processes of the pair call it at their own time. */
int ping_pair(int me, int other, double turn_s, struct ping_cell *out);

#endif
