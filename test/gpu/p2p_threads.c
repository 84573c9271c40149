/* SPDX-License-Identifier: BSD-3-Clause */
/* Device buffers with MPI_THREAD_MULTIPLE: threads without a current context, each with its own
 * communicator, and a thread that only waits; then requests that are tested, cancelled or freed
 * instead of waited for; then a thread of the application that waits for the device all the
 * time. */
#include <pthread.h>
#include <stdatomic.h>
#include "test/gpu/exchange.h"

#define THREADS 3
#define ROUNDS 15

static pthread_mutex_t gt_lock = PTHREAD_MUTEX_INITIALIZER; /* for gputest and check.h */
static MPI_Comm comms[THREADS];

struct worker {
    int me, wrong;
    unsigned state;
};

static void trade(struct worker *w, int round)
{
    static const size_t lens[] = { 8, 700, 9000, 70000, 1500001 };
    size_t n = lens[mt_random(&w->state) % 5];
    enum gt_kind s = mt_random(&w->state) % GT_KINDS, r = mt_random(&w->state) % GT_KINDS;
    int peer = mt_rank ^ 1, dev = (mt_rank + w->me) % gt_ndevices();
    unsigned char *from, *to;
    MPI_Request req[2];

    pthread_mutex_lock(&gt_lock);
    from = gt_alloc(s, dev, n, (unsigned)round);
    to = gt_alloc(r, dev, n, 3);
    gt_fill(from, n, (uint64_t)(round * 100 + w->me * 10 + mt_rank));
    CHECK_EQ(cu.ctx_set_current(NULL), CU_OK);
    pthread_mutex_unlock(&gt_lock);
    if (round % 2)
        MPI_Sendrecv(from, (int)n, MPI_BYTE, peer, round, to, (int)n, MPI_BYTE, peer, round,
                     comms[w->me], MPI_STATUS_IGNORE);
    else {
        MPI_Irecv(to, (int)n, MPI_BYTE, MPI_ANY_SOURCE, round, comms[w->me], &req[0]);
        MPI_Isend(from, (int)n, MPI_BYTE, peer, round, comms[w->me], &req[1]);
        MPI_Waitall(2, req, MPI_STATUSES_IGNORE);
    }
    pthread_mutex_lock(&gt_lock);
    GT_CHECK_DATA(to, n, (uint64_t)(round * 100 + w->me * 10 + peer));
    CHECK(gt_guards_intact(to));
    gt_free(from);
    gt_free(to);
    pthread_mutex_unlock(&gt_lock);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    int round;

    for (round = 0; round < ROUNDS; round++)
        trade(w, round);
    return NULL;
}

static void threads(void)
{
    struct worker w[THREADS];
    pthread_t t[THREADS];
    int i;

    for (i = 0; i < THREADS; i++)
        OK(MPI_Comm_dup(mt_comm, &comms[i]));
    for (i = 0; i < THREADS && mt_peer != MPI_PROC_NULL; i++) {
        w[i] = (struct worker){ .me = i, .state = mt_seed + (unsigned)i };
        pthread_create(&t[i], NULL, work, &w[i]);
    }
    for (i = 0; i < THREADS && mt_peer != MPI_PROC_NULL; i++)
        pthread_join(t[i], NULL);
    for (i = 0; i < THREADS; i++)
        OK(MPI_Comm_free(&comms[i]));
}

/* A receive is cancelled, a later one gets the message. */
static void cancelled(void)
{
    unsigned char *p = gt_alloc(GT_CUDA, mt_rank % gt_ndevices(), 5000, 1);
    MPI_Request r;
    MPI_Status st;
    int flag = 0;

    OK(MPI_Irecv(p, 5000, MPI_BYTE, MPI_ANY_SOURCE, 7, mt_comm, &r));
    OK(MPI_Cancel(&r));
    OK(MPI_Wait(&r, &st));
    OK(MPI_Test_cancelled(&st, &flag));
    CHECK(flag);
    mt_sync();
    gt_fill(p, 5000, (uint64_t)mt_rank);
    if (mt_first)
        OK(MPI_Send(p, 5000, MPI_BYTE, mt_peer, 7, mt_comm));
    else if (mt_peer != MPI_PROC_NULL) {
        OK(MPI_Recv(p, 5000, MPI_BYTE, mt_peer, 7, mt_comm, MPI_STATUS_IGNORE));
        GT_CHECK_DATA(p, 5000, (uint64_t)mt_peer);
    }
    gt_free(p);
}

/* Freed requests complete in the background; the answer shows when the buffers may be freed. */
static void given_away(void)
{
    size_t n = 3000001;
    unsigned char *a, *b;
    MPI_Request r;

    if (mt_peer == MPI_PROC_NULL)
        return;
    a = gt_alloc(GT_CUDA, 0, n, 2);
    b = gt_alloc(GT_POOL_OWN, 0, n, 5);
    gt_fill(a, n, (uint64_t)mt_rank);
    OK(MPI_Isend(a, (int)n, MPI_BYTE, mt_peer, 1, mt_comm, &r));
    OK(MPI_Request_free(&r));
    OK(MPI_Recv(b, (int)n, MPI_BYTE, mt_peer, 1, mt_comm, MPI_STATUS_IGNORE));
    OK(MPI_Sendrecv(NULL, 0, MPI_BYTE, mt_peer, 2, NULL, 0, MPI_BYTE, mt_peer, 2, mt_comm,
                    MPI_STATUS_IGNORE));
    GT_CHECK_DATA(b, n, (uint64_t)mt_peer);
    gt_free(a);
    gt_free(b);
}

/* Messages do not overtake each other, device or host, small or large. */
static void in_order(void)
{
    enum { N = 24 };
    static const size_t lens[] = { 8, 3000001, 0, 9000, 100 };
    static const enum gt_kind kinds[] = { GT_CUDA, GT_HOST, GT_VMM_OWN, GT_PINNED, GT_POOL };
    unsigned char *p[N];
    MPI_Request r[N];
    MPI_Status st;
    int i, n, done = 0;

    if (mt_peer == MPI_PROC_NULL)
        return;
    for (i = 0; i < N; i++) {
        p[i] = gt_alloc(kinds[(i + mt_rank) % 5], i % gt_ndevices(), lens[i % 5], 1);
        if (mt_first)
            gt_fill(p[i], lens[i % 5], (uint64_t)i);
    }
    for (i = 0; i < N; i++)
        if (mt_first)
            OK(MPI_Isend(p[i], (int)lens[i % 5], MPI_BYTE, mt_peer, 1, mt_comm, &r[i]));
        else if (i % 3 == 1) { /* the rest stays unexpected for a while */
            OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, mt_comm, &st));
            OK(MPI_Get_count(&st, MPI_BYTE, &n));
            CHECK_EQ(n, lens[i % 5]);
            OK(MPI_Irecv(p[i], n, MPI_BYTE, mt_peer, 1, mt_comm, &r[i]));
        } else {
            OK(MPI_Recv(p[i], (int)lens[i % 5], MPI_BYTE, MPI_ANY_SOURCE, 1, mt_comm, &st));
            r[i] = MPI_REQUEST_NULL;
        }
    while (!done)
        OK(MPI_Testall(N, r, &done, MPI_STATUSES_IGNORE));
    for (i = 0; i < N; i++) {
        if (!mt_first)
            GT_CHECK_DATA(p[i], lens[i % 5], (uint64_t)i);
        CHECK(gt_guards_intact(p[i]));
        gt_free(p[i]);
    }
}

/* ---- the application's own work beside messages ---- */

struct app {
    atomic_bool stop;
    atomic_int rounds; /* negative: the driver has returned an error */
    double longest;
};

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* cudaDeviceSynchronize and cudaFree wait for everything on the device. */
static void *app_main(void *arg)
{
    struct app *a = arg;
    cu_ptr p;
    double t;

    cu.ctx_set_current(gt_ctx(mt_rank % gt_ndevices()));
    while (!atomic_load(&a->stop)) {
        t = now_s();
        if (cu.mem_alloc(&p, 100000) || cu.memset_d8(p, 7, 100000) || cu.ctx_synchronize() ||
            cu.mem_free(p)) {
            atomic_store(&a->rounds, -1);
            break;
        }
        t = now_s() - t;
        a->longest = t > a->longest ? t : a->longest;
        atomic_fetch_add(&a->rounds, 1);
    }
    return NULL;
}

/* Small messages keep polling kernels on the device, each for at most gpu_linger_us; a real device
 * still serves the application meanwhile. */
static void beside_the_application(void)
{
    struct app a = { .rounds = 0 };
    unsigned char *p = gt_alloc(GT_CUDA, mt_rank % gt_ndevices(), 1000, 0);
    pthread_t t;
    double end = now_s() + 0.5;
    int more = 1, rounds;

    if (mt_peer == MPI_PROC_NULL) {
        gt_free(p);
        return;
    }
    pthread_create(&t, NULL, app_main, &a);
    while (more) {
        rounds = atomic_load(&a.rounds);
        if (mt_first)
            more = now_s() < end || (rounds >= 0 && rounds < 3);
        for (int i = 0; i < 20; i++)
            if (mt_first) {
                OK(MPI_Send(p, 8, MPI_BYTE, mt_peer, 1, mt_comm));
                OK(MPI_Recv(p, 8, MPI_BYTE, mt_peer, 1, mt_comm, MPI_STATUS_IGNORE));
            } else {
                OK(MPI_Recv(p, 8, MPI_BYTE, mt_peer, 1, mt_comm, MPI_STATUS_IGNORE));
                OK(MPI_Send(p, 8, MPI_BYTE, mt_peer, 1, mt_comm));
            }
        OK(mt_first ? MPI_Send(&more, 1, MPI_INT, mt_peer, 2, mt_comm)
                    : MPI_Recv(&more, 1, MPI_INT, mt_peer, 2, mt_comm, MPI_STATUS_IGNORE));
    }
    atomic_store(&a.stop, true);
    pthread_join(t, NULL);
    rounds = atomic_load(&a.rounds);
    printf("# rank %d: %d times on the device, the longest took %.1f ms\n", mt_rank, rounds,
           a.longest * 1e3);
    CHECK(rounds >= 0 && (rounds > 0 || !mt_first));
    CHECK_MSG(gt_is_fake() || a.longest < 0.1, "rank %d: the application waited %g s", mt_rank,
              a.longest);
    gt_free(p);
}

int main(int argc, char **argv)
{
    int got;

    gt_need(1);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &got);
    mt_setup();
    CHECK_EQ(got, MPI_THREAD_MULTIPLE);
    MT_RUN(threads);
    MT_RUN(cancelled);
    MT_RUN(given_away);
    MT_RUN(in_order);
    MT_RUN(beside_the_application);
    return mt_end();
}
