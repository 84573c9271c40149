/* SPDX-License-Identifier: BSD-3-Clause */
/* Which ranks of a communicator are on one host, by names that do not come through the procedures
 * under test: the launcher's, because one machine may play several hosts, else the machine's. */
#ifndef TEST_MPI_HOSTS_H
#define TEST_MPI_HOSTS_H

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#define HOST_RANKS_MAX 64

/* Each rank's host, as the lowest rank of `c` there.  Called by all ranks. */
static inline void host_of_all(MPI_Comm c, int *host)
{
    static char names[HOST_RANKS_MAX][MPI_MAX_PROCESSOR_NAME];
    char mine[MPI_MAX_PROCESSOR_NAME] = "";
    const char *given = getenv("PMIX_HOSTNAME");
    int n, len;

    if (given)
        strncpy(mine, given, sizeof mine - 1);
    else
        MPI_Get_processor_name(mine, &len);
    MPI_Comm_size(c, &n);
    MPI_Allgather(mine, sizeof mine, MPI_CHAR, names, sizeof mine, MPI_CHAR, c);
    for (int i = 0; i < n; i++)
        for (host[i] = 0; strcmp(names[host[i]], names[i]);)
            host[i]++;
}

/* How many of the ranks first .. last are on this host. */
static inline int host_count(const int *host, int me, int first, int last)
{
    int n = 0;
    for (int i = first; i <= last; i++)
        n += host[i] == host[me];
    return n;
}

#endif
