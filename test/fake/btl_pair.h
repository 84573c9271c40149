/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a function as n processes of a job on this host, without a launcher: for tests and
 * benchmarks below MPI. */
#ifndef TEST_FAKE_BTL_PAIR_H
#define TEST_FAKE_BTL_PAIR_H

#include <stdbool.h>
#include <stdint.h>
#include "btl/btl.h"

/* The end of a process, as the engine does it. */
static inline void fake_btl_end(struct btl *b)
{
    while (b->ops->leave && b->ops->leave(b) < 0)
        b->ops->progress(b);
    b->ops->close(b);
}

/* Fills in rt_boot: local rank `rank` of `size` of job `nspace`, all on this host. */
void fake_boot_as(const char *nspace, int rank, int size);

/* fork()s n processes that call fn(rank, arg) and exit with its result.  Kills all of them after
 * timeout_s (times TEST_TIMEOUT_SCALE), and the others soon after one has failed.  Returns 0, or
 * the status of the first process that did not return 0 (128 + signal, 124 after the timeout), with
 * one line on stdout.  SIGKILL has the lowest priority, because tests kill their own processes: any
 * other failure is returned instead. */
int fake_run_ranks(const char *nspace, int n, int (*fn)(int rank, void *arg), void *arg,
                   int timeout_s);

#endif
