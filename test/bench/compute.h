/* SPDX-License-Identifier: BSD-3-Clause */
/* The computation beside a nonblocking collective: counted work, calibrated once, so that it costs
 * the same however the ranks are scheduled, and more when other work takes processor time or
 * multiprocessors away.  On the device it is a kernel of one block a multiprocessor; the host waits
 * for it in the driver and so does nothing for MPI meanwhile. */
#ifndef TEST_BENCH_COMPUTE_H
#define TEST_BENCH_COMPUTE_H

#include "test/bench/bench.h"

/* 0, or the exit status when the device cannot compute, said by rank 0. */
int compute_open(struct bench *b);
/* Steps that take so long; on the device a start and a wait are part of the time. */
long compute_steps(double us);
void compute(long steps); /* returns when done */

#endif
