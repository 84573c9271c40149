/* SPDX-License-Identifier: BSD-3-Clause */
/* weft_info --launcher: how this process was started, and what MPI_Init of a program that is
 * started like this will do. */
#include "launcher/info/info.h"
#include "runtime/boot/launched.h"

int info_launcher(void)
{
    struct rt_launched by;
    rt_launched_find(&by);
    switch (by.how) {
    case RT_LAUNCHED_ALONE:
        printf("none: a program that is started like this is one rank, alone\n"
               "      several ranks: mpirun -n N PROGRAM\n");
        return 0;
    case RT_LAUNCHED_PMIX:
        printf("%s, by PMIx: rank %ld\n", by.by, by.rank);
        return 0;
    case RT_LAUNCHED_PMI:
        printf("%s, by PMI-1: rank %ld of %ld\n", by.by, by.rank, by.size);
        return 0;
    case RT_LAUNCHED_SEVERAL:
        printf("%s has started %ld processes that cannot find each other: each is rank 0 of 1\n"
               "as one job: %s\n",
               by.by, by.size, by.advice);
        return 1;
    }
    return 1;
}
