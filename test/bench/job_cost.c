/* SPDX-License-Identifier: BSD-3-Clause */
/* What a job costs each of its processes, for test/rig/net_scale.py: the time of MPI_Init, memory
 * after it, and what a connection adds.  No rank sends until rank 0 exchanges messages with the
 * ranks of other hosts, one after the other; so every process has at least the memory after
 * MPI_Init.  Memory is what malloc has given out, of all libraries (PMIx keeps each address that it
 * has fetched), and private resident memory; the kernel's part of a socket is not in it.
 *     job_cost [HOSTS]    one line of JSON on rank 0; ranks fill so many hosts in turn */
#include <malloc.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "test/descriptors.h"

enum { TAG = 5, LARGE = 1 << 20 };
struct cost {
    double init_ms, heap, rss; /* bytes */
};

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static double heap(void)
{
    struct mallinfo2 m = mallinfo2();
    return (double)(m.uordblks + m.hblkhd);
}

static double private_rss(void)
{
    char line[256];
    long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "RssAnon: %ld", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return (double)kib * 1024;
}

static int same_host(int a, int b, const int *node) { return node[a] == node[b]; }

/* Rank 0 sends to each rank of another host and receives from it; the number of them. */
static int talk(int rank, int size, const int *node, char *buf, int len)
{
    int n = 0;
    if (rank && !same_host(0, rank, node)) {
        MPI_Recv(buf, len, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(buf, 0, MPI_CHAR, 0, TAG, MPI_COMM_WORLD);
    }
    for (int r = 1; !rank && r < size; r++) {
        if (same_host(0, r, node))
            continue;
        MPI_Send(buf, len, MPI_CHAR, r, TAG, MPI_COMM_WORLD);
        MPI_Recv(buf, 0, MPI_CHAR, r, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        n++;
    }
    return n;
}

static void report(const struct cost *all, int size)
{
    struct cost most = { 0, 0, 0 }, sum = { 0, 0, 0 };
    for (int i = 0; i < size; i++) {
        most.init_ms = all[i].init_ms > most.init_ms ? all[i].init_ms : most.init_ms;
        most.heap = all[i].heap > most.heap ? all[i].heap : most.heap;
        sum.init_ms += all[i].init_ms / size;
        sum.heap += all[i].heap / size;
        sum.rss += all[i].rss / size;
    }
    printf("{\"ranks\": %d, \"init_ms\": %.1f, \"init_ms_most\": %.1f, \"heap\": %.0f, "
           "\"heap_most\": %.0f, \"rss\": %.0f",
           size, sum.init_ms, most.init_ms, sum.heap, most.heap, sum.rss);
}

int main(int argc, char **argv)
{
    static char buf[LARGE];
    int rank, size, hosts = argc > 1 ? atoi(argv[1]) : 2;
    struct cost mine = { .init_ms = now_ms(), .heap = heap() };
    MPI_Init(NULL, NULL);
    mine.init_ms = now_ms() - mine.init_ms;
    mine.heap = heap() - mine.heap;
    mine.rss = private_rss();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int *node = malloc((size_t)size * sizeof *node), fds = descriptors();
    struct cost *all = rank ? NULL : malloc((size_t)size * sizeof *all);
    for (int i = 0; i < size; i++)
        node[i] = i / ((size + hosts - 1) / hosts);
    double before = heap();
    int n = talk(rank, size, node, buf, 8);
    double small = heap() - before;
    int small_fds = descriptors() - fds;
    talk(rank, size, node, buf, LARGE);
    double large = heap() - before;
    int large_fds = descriptors() - fds;
    talk(rank, size, node, buf, 0); /* no rank has left until here */
    MPI_Gather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (!rank) {
        report(all, size);
        if (n)
            printf(", \"peers\": %d, \"peer\": %.0f, \"peer_fds\": %.2f, \"peer_large\": %.0f, "
                   "\"peer_large_fds\": %.2f",
                   n, small / n, (double)small_fds / n, large / n, (double)large_fds / n);
        printf("}\n");
    }
    free(all);
    free(node);
    MPI_Finalize();
    return 0;
}
