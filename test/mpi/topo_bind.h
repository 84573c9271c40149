/* SPDX-License-Identifier: BSD-3-Clause */
/* With the argument "bound" the ranks of a test bind themselves to cores in turn, so that
 * neighbouring ranks are on different cores and `reorder` has something to gain. */
#ifndef TEST_MPI_TOPO_BIND_H
#define TEST_MPI_TOPO_BIND_H

#include <sched.h>
#include <string.h>

static inline void bind_in_turn(int argc, char **argv, int rank)
{
    cpu_set_t all, one;
    if (argc < 2 || strcmp(argv[1], "bound") || sched_getaffinity(0, sizeof all, &all))
        return;
    int skip = rank % CPU_COUNT(&all), cpu = 0;
    while (!CPU_ISSET(cpu, &all) || skip-- > 0)
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

#endif
