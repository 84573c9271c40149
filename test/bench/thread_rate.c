/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages a second that threads of even ranks send to threads of the next odd ranks, in windows of
 * nonblocking 8-byte messages, each answered by a short message.  Arguments: threads (1), windows
 * (2000), and how threads are kept apart: "own": a communicator for each; "tags": one communicator
 * for all, a tag for each; "hint": own communicators on lane 1 of Weft; "sums": own communicators,
 * on which all ranks do an allreduce in place of each message.  0 threads: one, with
 * MPI_THREAD_SINGLE.  Uses MPI alone, so it runs with other libraries, too. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 64, MOST = 64, LEN = 8, ANSWER = 1000 };

static int nwindows = 2000, rank;
static int sums;
static MPI_Comm comms[MOST];
static pthread_barrier_t together;
static double seconds[MOST];

static void run_window(int t)
{
    char data[WINDOW][LEN] = { { 0 } };
    MPI_Request r[WINDOW];
    int peer = rank ^ 1, x = 0;
    double sum;
    for (int i = 0; sums && i < WINDOW; i++)
        MPI_Allreduce(&seconds[t], &sum, 1, MPI_DOUBLE, MPI_SUM, comms[t]);
    if (sums)
        return;
    for (int i = 0; i < WINDOW; i++)
        if (rank & 1)
            MPI_Irecv(data[i], LEN, MPI_BYTE, peer, t, comms[t], &r[i]);
        else
            MPI_Isend(data[i], LEN, MPI_BYTE, peer, t, comms[t], &r[i]);
    MPI_Waitall(WINDOW, r, MPI_STATUSES_IGNORE);
    if (rank & 1)
        MPI_Send(&x, 1, MPI_INT, peer, ANSWER + t, comms[t]);
    else
        MPI_Recv(&x, 1, MPI_INT, peer, ANSWER + t, comms[t], MPI_STATUS_IGNORE);
}

static void *run(void *arg)
{
    int t = (int)(long)arg;
    for (int i = 0; i < nwindows / 10; i++)
        run_window(t);
    pthread_barrier_wait(&together);
    double begin = MPI_Wtime();
    for (int i = 0; i < nwindows; i++)
        run_window(t);
    seconds[t] = MPI_Wtime() - begin;
    return NULL;
}

static void make_comm(const char *how, int t)
{
    MPI_Info info = MPI_INFO_NULL;
    if (!strcmp(how, "tags") && t) {
        comms[t] = comms[0];
        return;
    }
    if (!strcmp(how, "hint")) {
        MPI_Info_create(&info);
        MPI_Info_set(info, "weft_lane", "1");
    }
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comms[t]);
    if (info != MPI_INFO_NULL)
        MPI_Info_free(&info);
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 1, level, size;
    const char *how = argc > 3 ? argv[3] : "own";
    pthread_t t[MOST];
    double longest = 0, rate, sum = 0;
    sums = !strcmp(how, "sums");
    nwindows = argc > 2 ? atoi(argv[2]) : nwindows;
    MPI_Init_thread(&argc, &argv, n ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    n = n < 1 ? 1 : n;
    if (n > MOST || size % 2) {
        fprintf(stderr, "thread_rate: at most %d threads, and an even number of ranks\n", MOST);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int i = 0; i < n; i++)
        make_comm(how, i);
    pthread_barrier_init(&together, NULL, (unsigned)n);
    for (long i = 1; i < n; i++)
        pthread_create(&t[i], NULL, run, (void *)i);
    run(NULL);
    for (int i = 1; i < n; i++)
        pthread_join(t[i], NULL);
    for (int i = 0; i < n; i++)
        longest = seconds[i] > longest ? seconds[i] : longest;
    rate = (sums ? rank > 0 : rank & 1) ? 0 : (double)n * nwindows * WINDOW / longest / 1e6;
    MPI_Reduce(&rate, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (!rank)
        printf("%d ranks, %d threads, %s: %.2f M %s/s\n", size, n, how, sum,
               sums ? "calls" : "messages");
    for (int i = 0; i < (strcmp(how, "tags") ? n : 1); i++)
        MPI_Comm_free(&comms[i]);
    MPI_Finalize();
    return 0;
}
