/* SPDX-License-Identifier: BSD-3-Clause */
/* What the programs that nomem.py runs have in common: the options rank=N (the first rank of which
 * an allocation fails), from=N (the first allocation, counted from 1) and "only", and the walk
 * through all allocations of one call.  To be included after mpitest.h or iotest.h. */
#ifndef TEST_MPI_NOMEM_WALK_H
#define TEST_MPI_NOMEM_WALK_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "test/mpi/nomem_alloc.h"

static struct {
    int rank;
    bool only;
    long from;
} nomem_opt = { .from = 1 };

/* Reads the options behind the first argument, the name of a call.  Skips the program where no
 * allocation can fail. */
static inline void nomem_options(int argc, char **argv)
{
    if (!nomem_works())
        check_skip("the allocator of this build cannot be replaced");
    for (int i = 2; i < argc; i++) {
        if (!strncmp(argv[i], "rank=", 5))
            nomem_opt.rank = atoi(argv[i] + 5);
        else if (!strncmp(argv[i], "from=", 5))
            nomem_opt.from = atol(argv[i] + 5);
        else if (!strcmp(argv[i], "only"))
            nomem_opt.only = true;
    }
}

/* The first call of all ranks behind the one that had no memory.  It fails only where the victim
 * ends the job, which kills this rank, too, and whatever it prints until then is no result. */
static inline void nomem_behind(int err)
{
    if (err)
        sleep(20);
    CHECK_MSG(!err, "the job continues, and a call behind the one without memory gave %d", err);
}

/* attempt() calls with allocation `nth` of rank `victim` failing, and returns on all ranks whether
 * there was such an allocation.  It prints what nomem.py reads. */
static inline void nomem_walk(const char *name, bool (*attempt)(int victim, long nth))
{
    long n = 0, nth = nomem_opt.from;

    for (int victim = nomem_opt.rank; victim < mt_size; victim++, nth = 1) {
        for (; attempt(victim, nth); nth++) {
            n++;
            if (nomem_opt.only)
                break;
        }
        if (nomem_opt.only)
            break;
    }
    if (mt_rank == 0 && nomem_opt.only && !n)
        printf("# past the last\n");
    else if (mt_rank == 0)
        printf("# %s: %ld allocations\n", name, n);
}

#endif
