/* SPDX-License-Identifier: BSD-3-Clause */
/* The computation beside a nonblocking collective: counted work, calibrated once, so that it costs
 * the same however the ranks are scheduled, and more when other work takes processor time or
 * multiprocessors away.  On the device it is a kernel of one block a multiprocessor; the host waits
 * for it in the driver and so does nothing for MPI meanwhile. */
#ifndef TEST_BENCH_COMPUTE_H
#define TEST_BENCH_COMPUTE_H

#include "test/bench/bench.h"

/* Returns 0, or the exit status if the device cannot compute, after rank 0 has printed why. */
int compute_open(struct bench *b);
/* The number of steps that take `us` microseconds; on the device these include a start and a
 * wait. */
long compute_steps(double us);
void compute(long steps); /* returns when done */

#endif
