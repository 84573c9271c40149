/* SPDX-License-Identifier: BSD-3-Clause */
/* Partitioned messages: rank 0 sends one request of 512 partitions, or fewer large ones, to rank 1
 * again and again.  Its sending threads share the partitions and mark them ready one by one, each
 * thread a consecutive part.  Sizes are of a partition.  Needs MPI_THREAD_MULTIPLE. */
#include "test/bench/bench.h"
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

enum { PARTITIONS = 512, LEAST = 64, MOST_BYTES = 16 << 20, POLLS = 1000 };

struct round { /* of all threads of rank 0; the first thread starts and ends the rounds */
    MPI_Request request;
    int begun, over, threads, partitions; /* `over`: times that a thread has marked its part */
};

struct marker {
    struct round *round;
    pthread_t thread;
    int index, rounds;
};

/* Not pthread_barrier_t, which takes longer than a round. */
static void await(const int *word, int value)
{
    for (int i = 1; __atomic_load_n(word, __ATOMIC_ACQUIRE) < value; i++)
        if (i % POLLS == 0)
            sched_yield();
}

static void mark(struct round *r, int index)
{
    int low = r->partitions * index / r->threads, end = r->partitions * (index + 1) / r->threads;
    for (int i = low; i < end; i++)
        MPI_Pready(i, r->request);
    __atomic_fetch_add(&r->over, 1, __ATOMIC_RELEASE);
}

static void *help(void *arg)
{
    struct marker *m = arg;
    for (int i = 1; i <= m->rounds; i++) {
        await(&m->round->begun, i);
        mark(m->round, m->index);
    }
    return NULL;
}

static double run(struct bench *b, struct round *r, int first, int n)
{
    double start = bench_now();
    for (int i = first; i < first + n; i++) {
        MPI_Start(&r->request);
        if (b->rank == 0) {
            __atomic_store_n(&r->begun, i + 1, __ATOMIC_RELEASE);
            mark(r, 0);
            await(&r->over, (i + 1) * r->threads);
        }
        MPI_Wait(&r->request, MPI_STATUS_IGNORE);
    }
    return bench_now() - start;
}

static void measure(struct bench *b, size_t nbytes, double *v)
{
    struct round r = { .threads = b->opt.send_threads, .partitions = PARTITIONS };
    while (r.partitions > LEAST && nbytes * (size_t)r.partitions > MOST_BYTES)
        r.partitions /= 2;
    size_t all = nbytes * (size_t)r.partitions;
    void *buf = bench_alloc(b, all);
    struct marker *m = calloc((size_t)r.threads, sizeof *m);
    int count = bench_count(b, nbytes), helpers = b->rank == 0 ? r.threads - 1 : 0;

    if (!buf || !m)
        MPI_Abort(MPI_COMM_WORLD, 2);
    if (b->rank == 0) {
        bench_fill(b, buf, all, 0, 1);
        MPI_Psend_init(buf, r.partitions, count, b->type, 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                       &r.request);
    } else {
        bench_poison(b, buf, all);
        MPI_Precv_init(buf, r.partitions, count, b->type, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                       &r.request);
    }
    for (int i = 0; i < helpers; i++) {
        m[i] = (struct marker){ .round = &r, .index = i + 1, .rounds = b->skip + b->iters };
        if (pthread_create(&m[i].thread, NULL, help, &m[i]))
            MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    run(b, &r, 0, b->skip);
    double seconds = run(b, &r, b->skip, b->iters);
    for (int i = 0; i < helpers; i++)
        pthread_join(m[i].thread, NULL);
    if (b->rank == 1)
        bench_check(b, buf, all, 0, 1);
    v[0] = r.partitions * (double)b->iters / seconds / 1e6;
    v[1] = b->iters;
    MPI_Request_free(&r.request);
    bench_free(b, buf);
    free(m);
}

static const struct bench_spec spec = {
    .name = "osu_partitioned",
    .title = "Partitioned Message Test",
    .help =
        "rate at which the sending threads of a rank mark partitions that another one receives.",
    .flags = BENCH_TWO | BENCH_THREADS,
    .iters = 1000,
    .iters_large = 100,
    .skip = 50,
    .skip_large = 10,
    .max = 16384,
    .cols = { { "M partitions/s", "mpartitions_s", 18, 2, false },
              { "Iterations", "iterations", 12, 0, true } },
    .measure = measure,
};

int main(int argc, char **argv) { return bench_main(argc, argv, &spec); }
