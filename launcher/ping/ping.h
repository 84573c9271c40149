/* SPDX-License-Identifier: BSD-3-Clause */
/* weft_ping, the program that `mpirun --ping` starts once on each host.  It measures every pair of
 * hosts and names hosts and pairs that are slower than the others. */
#ifndef LAUNCHER_PING_PING_H
#define LAUNCHER_PING_PING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define PING_HOSTS_MAX 2048 /* the table takes 40 bytes for each ordered pair: 160 MiB */
#define PING_MATRIX_MAX 12  /* hosts up to which tables are printed */
#define PING_SLOW 2.0       /* a value this many times worse than the median is slow */

/* What one process knows about its connection to another.  Sent as it is: all hosts of a job have
 * the same byte order. */
struct ping_cell {
    double us;      /* half a round trip of 8 bytes, median */
    double out, in; /* MB/s of long messages, from and to this process, median */
    bool ok;        /* messages arrive in both directions */
    char by[11];    /* transport; "" if no transport reaches the process */
};

/* All cells, n * n, by rank of the measuring process and rank of its partner.  A pair is
 * unreachable if either process reports so. */
struct ping_table {
    int n;
    char (*name)[64];
    struct ping_cell *cell;
    bool *missing; /* the process has not reported */
};

/* Partner of rank `me` in round r of ping_rounds(n); -1: none.  Each pair meets once, and no rank
 * is in two pairs of a round. */
int ping_rounds(int n);
int ping_partner(int n, int r, int me);

/* Prints the report; returns the number of unreachable pairs. */
long ping_report(const struct ping_table *t, FILE *f);

/* measure.c: these functions return MPI error codes.  `turn_s`: approximate time for one pair,
 * in seconds. */
/* Sends to all other processes at once and receives from them, for at most limit_s
 * seconds; sets reached[] for each process that has answered. */
int ping_reach(int n, int me, double limit_s, bool *reached);
/* Both processes of the pair call it, not necessarily at the same time. */
int ping_pair(int me, int other, double turn_s, struct ping_cell *out);

#endif
