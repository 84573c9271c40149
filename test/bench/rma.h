/* SPDX-License-Identifier: BSD-3-Clause */
/* The one-sided benchmarks.  All run in rma.c; each osu_*.c names a row of its table. */
#ifndef TEST_BENCH_RMA_H
#define TEST_BENCH_RMA_H

int rma_main(int argc, char **argv, const char *name);

#endif
