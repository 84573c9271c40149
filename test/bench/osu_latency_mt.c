/* SPDX-License-Identifier: BSD-3-Clause */
/* Ping-pongs between threads: the sending threads of rank 0 share the iterations among them, so do
 * the receiving threads of rank 1; any receiver may answer any sender.  Needs MPI_THREAD_MULTIPLE.
 */
#include "test/bench/bench.h"
#include <pthread.h>
#include <stdlib.h>

enum { TAG_PING = 1, TAG_PONG = 2 };

struct worker {
    struct bench b; /* a copy: own buffers, own count of wrong data */
    pthread_t thread;
    pthread_barrier_t *warm; /* all threads of the process have done their warm-up */
    size_t nbytes;
    int index, workers;
    double seconds;
};

static int share(int n, const struct worker *w)
{
    return n / w->workers + (w->index < n % w->workers);
}

static void exchange(struct worker *w, int n)
{
    struct bench *b = &w->b;
    int count = bench_count(b, w->nbytes);

    for (int i = 0; i < n && b->rank == 0; i++) {
        MPI_Send(b->sbuf, count, b->type, 1, TAG_PING, MPI_COMM_WORLD);
        MPI_Recv(b->rbuf, count, b->type, 1, TAG_PONG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < n && b->rank == 1; i++) {
        MPI_Recv(b->rbuf, count, b->type, 0, TAG_PING, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(b->sbuf, count, b->type, 0, TAG_PONG, MPI_COMM_WORLD);
    }
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct bench *b = &w->b;
    int n = share(b->iters, w);
    double start;

    bench_fill(b, b->sbuf, w->nbytes, b->rank, 1 - b->rank);
    bench_poison(b, b->rbuf, w->nbytes);
    exchange(w, share(b->skip, w));
    pthread_barrier_wait(w->warm);
    start = bench_now();
    exchange(w, n);
    w->seconds = n ? (bench_now() - start) / n : 0;
    if (n) /* a thread with no turn got no data */
        bench_check(b, b->rbuf, w->nbytes, 1 - b->rank, b->rank);
    return NULL;
}

static void start_worker(struct worker *w, const struct bench *b, size_t nbytes)
{
    w->b = *b;
    w->b.bad = 0;
    w->nbytes = nbytes;
    w->b.sbuf = bench_alloc(b, nbytes);
    w->b.rbuf = bench_alloc(b, nbytes);
    if (!w->b.sbuf || !w->b.rbuf || pthread_create(&w->thread, NULL, work, w))
        MPI_Abort(MPI_COMM_WORLD, 2);
}

static double finish_worker(struct worker *w, struct bench *b)
{
    pthread_join(w->thread, NULL);
    b->bad += w->b.bad;
    bench_free(b, w->b.sbuf);
    bench_free(b, w->b.rbuf);
    return w->seconds;
}

static void measure(struct bench *b, size_t nbytes, double *v)
{
    int n = b->rank == 0 ? b->opt.send_threads : b->opt.recv_threads, timed = 0;
    struct worker *w = calloc((size_t)n, sizeof *w);
    pthread_barrier_t warm;
    double sum = 0, low = 1e30, high = 0;

    if (!w || pthread_barrier_init(&warm, NULL, (unsigned)n))
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < n; i++) {
        w[i].index = i;
        w[i].workers = n;
        w[i].warm = &warm;
        start_worker(&w[i], b, nbytes);
    }
    for (int i = 0; i < n; i++) {
        double s = finish_worker(&w[i], b);
        timed += s > 0;
        sum += s;
        low = s > 0 && s < low ? s : low;
        high = s > high ? s : high;
    }
    v[0] = timed ? sum / timed * 1e6 / 2 : 0;
    v[1] = timed ? low * 1e6 / 2 : 0;
    v[2] = high * 1e6 / 2;
    v[3] = b->iters;
    pthread_barrier_destroy(&warm);
    free(w);
}

static const struct bench_spec spec = {
    .name = "osu_latency_mt",
    .title = "Multi-threaded Latency Test",
    .help = "latency between several threads of two ranks.",
    .flags = BENCH_TWO | BENCH_THREADS,
    .iters = 10000,
    .iters_large = 1000,
    .skip = 100,
    .skip_large = 10,
    .max = 4u << 20,
    .cols = { { "Avg Latency(us)", "latency_us", 18, 2, false },
              { "Min Latency(us)", "latency_min_us", 18, 2, true },
              { "Max Latency(us)", "latency_max_us", 18, 2, true },
              { "Iterations", "iterations", 12, 0, true } },
    .measure = measure,
};

int main(int argc, char **argv) { return bench_main(argc, argv, &spec); }
