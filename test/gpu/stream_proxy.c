/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives on the streams of processes whose devices cannot synchronise by kernels that wait:
 * processes of several hosts, more than 16, or processes that take turns on a device.  Each is
 * compared with the ordinary call on host memory.
 *     stream_proxy calls       all collectives, counts and places; while a stream is held; graphs
 *     stream_proxy threads     two threads, each with a communicator, which enqueue in any order
 *     stream_proxy faults      one process's driver refuses further kernels, or its memory is freed
 *     stream_proxy graph       a graph that only one process launches
 *     stream_proxy turns       processes of one device: only one of them launches kernels
 *     stream_proxy victim WHO  endless calls, until one process is killed (stream_dead.py) */
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "test/gpu/gputest.h"
#include "test/gpu/victim.h"
#include "test/mpi/mpitest.h"

enum { MOST = 777, RANKS = 32, INTS = RANKS * (MOST + RANKS), ROUNDS = 4, THREADS = 2 };

enum kind {
    ALLREDUCE,
    REDUCE,
    BCAST,
    ALLGATHER,
    ALLTOALL,
    REDUCE_SCATTER,
    REDUCE_SCATTER_BLOCK,
    ALLGATHERV,
    ALLTOALLV,
    GATHERV,
    SCATTERV,
    BARRIER,
    KINDS
};

struct place {
    int *in, *out;
};

struct worker {
    cu_stream stream;
    MPIX_Stream xstream;
    MPI_Comm comm;
    struct place device;
    int failed; /* failed calls, or wrong results */
};

static struct worker w[THREADS];
static struct place before, plain, got; /* host memory */
static int dev;

static void open_stream(struct worker *k, MPI_Comm of)
{
    MPI_Info info;
    CHECK_EQ(cu.stream_create(&k->stream, CU_STREAM_NON_BLOCKING), 0);
    k->device.in = (int *)(void *)gt_alloc(GT_CUDA, dev, INTS * sizeof(int), 0);
    k->device.out = (int *)(void *)gt_alloc(GT_CUDA, dev, INTS * sizeof(int), 0);
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "type", "cudaStream_t"));
    OK(MPIX_Info_set_hex(info, "value", &k->stream, sizeof k->stream));
    OK(MPIX_Stream_create(info, &k->xstream));
    OK(MPI_Info_free(&info));
    OK(MPIX_Stream_comm_create(of, k->xstream, &k->comm));
    OK(MPI_Comm_set_errhandler(k->comm, MPI_ERRORS_RETURN));
}

static void close_stream(struct worker *k)
{
    OK(MPI_Comm_free(&k->comm));
    OK(MPIX_Stream_free(&k->xstream));
}

static void settle(struct worker *k) { CHECK_EQ(cu.stream_synchronize(k->stream), 0); }

/* ---- one call, enqueued and ordinary ---- */

/* Blocks of a v form differ, some are empty, and there are gaps between them. */
struct vectors {
    int n[RANKS], at[RANKS];
};

static struct vectors blocks(int count, int (*len)(int count, int other))
{
    struct vectors v = { { 0 }, { 0 } };
    for (int r = 0, at = 0; r < mt_size; r++) {
        v.n[r] = len(count, r);
        v.at[r] = at;
        at += v.n[r] + (count > 0);
    }
    return v;
}

static int of_rank(int count, int r) { return count ? (count + r) % (count + 1) : 0; }
static int both_ways(int count, int r) { return of_rank(count, r + mt_rank); }
static int to_rank(int count, int r) { return of_rank(count, mt_rank + 2 * r); }
static int from_rank(int count, int r) { return of_rank(count, r + 2 * mt_rank); }

/* `c`: MPI_COMM_NULL for the ordinary call.  Roots are the last rank. */
static int call(enum kind kind, struct place p, int n, bool in_place, MPI_Comm c)
{
#define DO(name, ...) \
    (c == MPI_COMM_NULL ? MPI_##name(__VA_ARGS__, MPI_COMM_WORLD) \
                        : MPIX_##name##_enqueue(__VA_ARGS__, c))
    int root = mt_size - 1, mine = of_rank(n, mt_rank);
    bool is_root = mt_rank == root;
    void *in = in_place && (is_root || (kind != REDUCE && kind != GATHERV)) ? MPI_IN_PLACE : p.in;
    struct vectors v = blocks(n, of_rank), to = blocks(n, to_rank), from = blocks(n, from_rank),
                   both = blocks(n, both_ways);
    switch (kind) {
    case ALLREDUCE:
        return DO(Allreduce, in, p.out, n, MPI_INT, MPI_SUM);
    case REDUCE:
        return DO(Reduce, in, p.out, n, MPI_INT, MPI_MAX, root);
    case BCAST:
        return DO(Bcast, p.out, n, MPI_INT, root);
    case ALLGATHER:
        return DO(Allgather, in, n, MPI_INT, p.out, n, MPI_INT);
    case ALLTOALL:
        return DO(Alltoall, in, n, MPI_INT, p.out, n, MPI_INT);
    case REDUCE_SCATTER:
        return DO(Reduce_scatter, in, p.out, v.n, MPI_INT, MPI_SUM);
    case REDUCE_SCATTER_BLOCK:
        return DO(Reduce_scatter_block, in, p.out, n, MPI_INT, MPI_SUM);
    case ALLGATHERV:
        return DO(Allgatherv, in, mine, MPI_INT, p.out, v.n, v.at, MPI_INT);
    case ALLTOALLV:
        if (in_place)
            return DO(Alltoallv, in, NULL, NULL, MPI_INT, p.out, both.n, both.at, MPI_INT);
        return DO(Alltoallv, p.in, to.n, to.at, MPI_INT, p.out, from.n, from.at, MPI_INT);
    case GATHERV:
        return DO(Gatherv, in, mine, MPI_INT, p.out, v.n, v.at, MPI_INT, root);
    case SCATTERV:
        return DO(Scatterv, p.in, v.n, v.at, MPI_INT,
                  in_place && is_root ? MPI_IN_PLACE : (void *)p.out, mine, MPI_INT, root);
    default:
        return c == MPI_COMM_NULL ? MPI_Barrier(MPI_COMM_WORLD) : MPIX_Barrier_enqueue(c);
    }
#undef DO
}

static void fill(int key)
{
    for (int i = 0; i < INTS; i++) {
        before.in[i] = (mt_rank + 3 * i + key) % 1000;
        before.out[i] = (7 * mt_rank + i + key) % 1000;
    }
}

static void put(struct place p)
{
    gt_write(p.in, before.in, INTS * sizeof(int));
    gt_write(p.out, before.out, INTS * sizeof(int));
}

/* Compares all of `p` with the result expected from `before`. */
static void compare(enum kind kind, struct place p, int n, bool in_place)
{
    memcpy(plain.in, before.in, INTS * sizeof(int));
    memcpy(plain.out, before.out, INTS * sizeof(int));
    OK(call(kind, plain, n, in_place, MPI_COMM_NULL));
    gt_read(got.in, p.in, INTS * sizeof(int));
    gt_read(got.out, p.out, INTS * sizeof(int));
    for (int i = 0; i < INTS; i++)
        if (got.in[i] != plain.in[i] || got.out[i] != plain.out[i]) {
            CHECK_MSG(0,
                      "rank %d: kind %d, count %d, in place %d: number %d is %d and %d, not %d "
                      "and %d",
                      mt_rank, (int)kind, n, in_place, i, got.in[i], got.out[i], plain.in[i],
                      plain.out[i]);
            return;
        }
}

static void all_calls(void)
{
    static const int counts[] = { 0, 1, 33, MOST };
    struct worker *k = &w[0];
    for (enum kind kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < 8; i++) {
            fill(i);
            put(k->device);
            OK(call(kind, k->device, counts[i / 2], i % 2, k->comm));
            settle(k);
            compare(kind, k->device, counts[i / 2], i % 2);
        }
}

/* Host memory, and types and operations that are freed before the stream has reached the call. */
static void user_max(void *a, void *b, int *n, MPI_Datatype *t)
{
    (void)t;
    for (int i = 0; i < *n; i++)
        ((int *)b)[i] = ((int *)a)[i] > ((int *)b)[i] ? ((int *)a)[i] : ((int *)b)[i];
}

static void other_buffers(void)
{
    struct worker *k = &w[0];
    int mine[2] = { mt_rank, -mt_rank }, most[2] = { -1, -1 };
    MPI_Datatype gaps;
    MPI_Op op;
    OK(MPI_Op_create(user_max, 1, &op));
    OK(MPIX_Allreduce_enqueue(mine, most, 2, MPI_INT, op, k->comm));
    OK(MPI_Op_free(&op));
    fill(5);
    put(k->device);
    OK(MPI_Type_vector(10, 1, 2, MPI_INT, &gaps));
    OK(MPI_Type_commit(&gaps));
    OK(MPIX_Bcast_enqueue(k->device.out, 1, gaps, 0, k->comm));
    OK(MPI_Type_free(&gaps));
    settle(k);
    CHECK(most[0] == mt_size - 1 && most[1] == 0);
    gt_read(got.out, k->device.out, INTS * sizeof(int));
    for (int i = 0; i < 20; i++)
        CHECK_EQ(got.out[i], i % 2 ? before.out[i] : (i + 5) % 1000);
}

/* Messages to every process of the communicator. */
static void messages(void)
{
    struct worker *k = &w[0];
    int next = (mt_rank + 1) % mt_size, last = (mt_rank + mt_size - 1) % mt_size;
    MPI_Request r[2];
    for (int i = 0; i < ROUNDS; i++) {
        fill(i);
        put(k->device);
        OK(MPIX_Barrier_enqueue(k->comm));
        OK(MPIX_Irecv_enqueue(k->device.out, MOST, MPI_INT, last, i, k->comm, &r[0]));
        OK(MPIX_Isend_enqueue(k->device.in, MOST, MPI_INT, next, i, k->comm, &r[1]));
        OK(MPIX_Waitall_enqueue(2, r, MPI_STATUSES_IGNORE));
        settle(k);
        gt_read(got.out, k->device.out, MOST * sizeof(int));
        for (int j = 0; j < MOST; j++)
            if (got.out[j] != (last + 3 * j + i) % 1000) {
                CHECK_MSG(0, "rank %d: message %d: number %d is %d", mt_rank, i, j, got.out[j]);
                break;
            }
    }
}

static bool share_host(MPI_Comm c)
{
    MPI_Comm host;
    int n, all;
    OK(MPI_Comm_split_type(c, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host));
    OK(MPI_Comm_size(host, &n));
    OK(MPI_Comm_size(c, &all));
    OK(MPI_Comm_free(&host));
    return n == all;
}

enum { HELD = 1 << 20 }; /* bytes */

/* Rank 0's stream is held by a long send to rank 1 (a short one would not wait for it), which
 * receives after all have enqueued several calls that depend on each other.  If ranks 0 and 1 are
 * on different hosts, no stream is held. */
static void held(void)
{
    struct worker *k = &w[0], pair;
    MPI_Comm two;
    int ones[3];
    bool first = mt_rank == 0, in_pair = mt_rank < 2;
    OK(MPI_Comm_split(MPI_COMM_WORLD, in_pair ? 0 : MPI_UNDEFINED, mt_rank, &two));
    bool can_hold = in_pair && share_host(two);
    unsigned char *data = gt_alloc(GT_CUDA, dev, HELD, 0);
    if (in_pair)
        open_stream(&pair, two);
    for (int i = 0; i < 3; i++)
        ones[i] = mt_rank + i;
    gt_write(k->device.in, ones, sizeof ones);
    if (first) {
        OK(MPIX_Send_enqueue(data, HELD, MPI_BYTE, 1, 1, pair.comm));
        cu_event e; /* on the pair's stream; the other stream waits for it */
        CHECK_EQ(cu.event_create(&e, 0), 0);
        CHECK_EQ(cu.event_record(e, pair.stream), 0);
        CHECK_EQ(cu.stream_wait_event(k->stream, e, 0), 0);
        CHECK_EQ(cu.event_destroy(e), 0);
    }
    OK(MPIX_Allreduce_enqueue(k->device.in, k->device.out, 3, MPI_INT, MPI_SUM, k->comm));
    OK(MPIX_Bcast_enqueue(k->device.out, 1, MPI_INT, 0, k->comm));
    OK(MPIX_Allreduce_enqueue(k->device.out, k->device.in, 3, MPI_INT, MPI_MAX, k->comm));
    OK(MPI_Barrier(mt_comm));
    OK(MPI_Bcast(&can_hold, 1, MPI_C_BOOL, 0, mt_comm));
    CHECK(!can_hold || cu.stream_query(k->stream) == CU_ERROR_NOT_READY);
    OK(MPI_Barrier(mt_comm));
    if (mt_rank == 1)
        OK(MPIX_Recv_enqueue(data, HELD, MPI_BYTE, 0, 1, pair.comm, MPI_STATUS_IGNORE));
    settle(k);
    gt_read(ones, k->device.in, sizeof ones);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(ones[i], mt_size * (mt_size - 1) / 2 + i * mt_size);
    if (in_pair) {
        settle(&pair);
        close_stream(&pair);
        OK(MPI_Comm_free(&two));
    }
    gt_free(data);
}

/* All collectives in one graph, each with a part of the buffers. */
enum { PART = INTS / KINDS, GRAPH_COUNT = 20 };

static struct place part_of(struct place p, enum kind kind)
{
    return (struct place){ p.in + kind * PART, p.out + kind * PART };
}

static void capture(struct worker *k)
{
    for (enum kind kind = 0; kind < KINDS; kind++)
        OK(call(kind, part_of(k->device, kind), GRAPH_COUNT, kind % 2, k->comm));
}

static void check_graph(struct worker *k, int round)
{
    struct place all = plain;
    fill(round);
    memcpy(all.in, before.in, INTS * sizeof(int));
    memcpy(all.out, before.out, INTS * sizeof(int));
    for (enum kind kind = 0; kind < KINDS; kind++)
        OK(call(kind, part_of(all, kind), GRAPH_COUNT, kind % 2, MPI_COMM_NULL));
    gt_read(got.out, k->device.out, INTS * sizeof(int));
    for (int i = 0; i < INTS; i++)
        if (got.out[i] != all.out[i]) {
            CHECK_MSG(0, "rank %d: launch %d: kind %d: number %d is %d, not %d", mt_rank, round,
                      i / PART, i % PART, got.out[i], all.out[i]);
            return;
        }
}

static void graphs(void)
{
    struct worker *k = &w[0];
    cu_graph graph;
    cu_graph_exec exec;
    CHECK_EQ(cu.stream_begin_capture(k->stream, CU_CAPTURE_GLOBAL), 0);
    capture(k);
    CHECK_EQ(cu.stream_end_capture(k->stream, &graph), 0);
    CHECK_EQ(cu.graph_instantiate(&exec, graph, 0), 0);
    CHECK_EQ(cu.graph_destroy(graph), 0);
    for (int i = 0; i < ROUNDS; i++) {
        fill(i);
        put(k->device);
        CHECK_EQ(cu.graph_launch(exec, k->stream), 0);
        if (i % 2)
            OK(MPIX_Barrier_enqueue(k->comm)); /* ordinary work in between */
        settle(k);
        check_graph(k, i);
    }
    for (int i = 0; i < ROUNDS; i++) /* several at once */
        CHECK_EQ(cu.graph_launch(exec, k->stream), 0);
    settle(k);
    CHECK_EQ(cu.graph_exec_destroy(exec), 0);
}

/* A communicator is freed while its calls are on the stream. */
static void freed(void)
{
    struct worker other;
    open_stream(&other, MPI_COMM_WORLD);
    for (int i = 0; i < ROUNDS; i++)
        OK(MPIX_Allreduce_enqueue(MPI_IN_PLACE, other.device.out, MOST, MPI_INT, MPI_MAX,
                                  other.comm));
    close_stream(&other);
    settle(&other);
}

/* ---- processes that take turns on a device ---- */

enum { TURNS = 40 };

static long nkernels(void)
{
    fake_cuda_seen_fn *seen = (fake_cuda_seen_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "fake_cuda_seen");
    return seen ? seen("kernel") : 0;
}

/* The thread has the cores of all ranks but its own rank's, on which it would be late when the rank
 * polls its stream in the driver. */
static void cores_of_thread(void)
{
    cpu_set_t own, all, thread;
    char path[64], name[32];
    int tid = 0;
    CHECK_EQ(sched_getaffinity(0, sizeof own, &own), 0);
    OK(MPI_Allreduce(&own, &all, sizeof own, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD));
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *d; tasks && !tid && (d = readdir(tasks));) {
        snprintf(path, sizeof path, "/proc/self/task/%.12s/comm", d->d_name);
        FILE *f = fopen(path, "r");
        if (f && fgets(name, sizeof name, f) && !strcmp(name, "weft-proxy\n"))
            tid = atoi(d->d_name);
        if (f)
            fclose(f);
    }
    if (tasks)
        closedir(tasks);
    CHECK_MSG(tid, "there is no thread weft-proxy");
    if (!tid || sched_getaffinity(tid, sizeof thread, &thread))
        return;
    if (!CPU_EQUAL(&own, &all))
        CPU_XOR(&all, &all, &own);
    CPU_AND(&thread, &thread, &all);
    CHECK_EQ(CPU_COUNT(&thread), CPU_COUNT(&all));
}

/* Counts the kernels of enqueued and of captured calls.  A kernel of the first process does the
 * work of all, and none waits. */
static void turns(void)
{
    struct worker *k = &w[0];
    fake_cuda_fail_fn *fail = (fake_cuda_fail_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "fake_cuda_fail");
    cu_graph graph;
    cu_graph_exec exec;
    if (fail)
        fail("kernel:0"); /* counts, nothing fails */
    open_stream(k, MPI_COMM_WORLD);
    fill(1);
    for (int i = 0; i < 2; i++) {
        long kernels = nkernels();
        put(k->device);
        if (i) {
            CHECK_EQ(cu.stream_begin_capture(k->stream, CU_CAPTURE_GLOBAL), 0);
            OK(call(ALLREDUCE, k->device, MOST, false, k->comm));
            CHECK_EQ(cu.stream_end_capture(k->stream, &graph), 0);
            CHECK_EQ(cu.graph_instantiate(&exec, graph, 0), 0);
            CHECK_EQ(cu.graph_destroy(graph), 0);
        }
        for (int j = 0; j < TURNS; j++)
            if (i)
                CHECK_EQ(cu.graph_launch(exec, k->stream), 0);
            else
                OK(call(ALLREDUCE, k->device, MOST, false, k->comm));
        settle(k);
        kernels = nkernels() - kernels;
        CHECK_MSG(kernels <= (mt_rank ? 0 : TURNS), "rank %d: %ld kernels", mt_rank, kernels);
        compare(ALLREDUCE, k->device, MOST, false);
        kernels = nkernels();
        messages();
        CHECK_EQ(nkernels() - kernels, 0);
    }
    CHECK_EQ(cu.graph_exec_destroy(exec), 0);
    cores_of_thread();
    close_stream(k);
}

/* ---- two communicators ---- */

static void *work(void *arg)
{
    struct worker *k = arg;
    cu.ctx_set_current(gt_ctx(dev));
    for (int i = 0; i < 30; i++) {
        k->failed += !!MPIX_Allreduce_enqueue(MPI_IN_PLACE, k->device.out, MOST, MPI_INT, MPI_MAX,
                                              k->comm);
        k->failed += !!MPIX_Barrier_enqueue(k->comm);
        k->failed += i % 10 == 0 ? !!cu.stream_synchronize(k->stream) : 0;
    }
    k->failed += !!cu.stream_synchronize(k->stream);
    return NULL;
}

static void threads(void)
{
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++) {
        open_stream(&w[i], MPI_COMM_WORLD);
        fill(mt_rank + i);
        put(w[i].device);
    }
    for (int i = 0; i < THREADS; i++) /* different orders in different processes */
        CHECK_EQ(pthread_create(&t[i], NULL, work, &w[(i + mt_rank) % THREADS]), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(t[i], NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(w[i].failed, 0);
        close_stream(&w[i]);
    }
}

/* ---- failure ---- */

static fake_cuda_fail_fn *fail_fn(void)
{
    return (fake_cuda_fail_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "fake_cuda_fail");
}

/* The streams of all processes end, and the communicator is unusable in all of them. */
static void check_unusable(struct worker *k)
{
    settle(k);
    OK(MPI_Barrier(mt_comm));
    FAILS(MPIX_Barrier_enqueue(k->comm), MPI_ERR_OTHER);
    FAILS(MPIX_Bcast_enqueue(k->device.in, 1, MPI_INT, 0, k->comm), MPI_ERR_OTHER);
    settle(k);
    close_stream(k);
}

/* The last rank's driver fails; others detect it before or after they have enqueued their part. */
static void failed_enqueue(void)
{
    struct worker *k = &w[0];
    bool fails = mt_rank == mt_size - 1;
    open_stream(k, MPI_COMM_WORLD);
    OK(MPIX_Barrier_enqueue(k->comm));
    settle(k);
    OK(MPI_Barrier(mt_comm));
    if (fails)
        fail_fn()("cuLaunchKernel:1+,cuStreamWaitValue32:1+");
    int err = MPIX_Allreduce_enqueue(k->device.in, k->device.out, MOST, MPI_INT, MPI_SUM, k->comm);
    CHECK_MSG(err || !fails, "the enqueue failed, the call did not"); /* can be in time */
    check_unusable(k);
}

/* A buffer of the first rank is freed before its stream reaches the call. */
static void failed_collective(void)
{
    struct worker *k = &w[0];
    unsigned char *gone = gt_alloc(GT_CUDA, dev, 4096, 0);
    open_stream(k, MPI_COMM_WORLD);
    if (mt_rank == 0)
        gt_free(gone);
    int err = MPIX_Allreduce_enqueue(MPI_IN_PLACE, gone, 1000, MPI_INT, MPI_SUM, k->comm);
    if (err) /* the first has failed while this one was in the call */
        FAILS(err, MPI_ERR_OTHER);
    check_unusable(k);
    if (mt_rank)
        gt_free(gone);
}

/* Rank 0 launches a graph that the others do not launch, and leaves it to MPI_Finalize. */
static void lonely_graph(void)
{
    struct worker *k = &w[0];
    cu_graph graph;
    cu_graph_exec exec;
    if (!gt_kernels()) {
        mt_skip("no kernels in this build, so nothing can be captured");
        return;
    }
    open_stream(k, MPI_COMM_WORLD);
    CHECK_EQ(cu.stream_begin_capture(k->stream, CU_CAPTURE_GLOBAL), 0);
    OK(call(ALLREDUCE, k->device, MOST, false, k->comm));
    CHECK_EQ(cu.stream_end_capture(k->stream, &graph), 0);
    CHECK_EQ(cu.graph_instantiate(&exec, graph, 0), 0);
    CHECK_EQ(cu.graph_launch(exec, k->stream), 0);
    settle(k);
    OK(MPI_Barrier(mt_comm));
    if (mt_rank == 0)
        CHECK_EQ(cu.graph_launch(exec, k->stream), 0);
    CHECK_EQ(cu.graph_destroy(graph), 0);
    OK(MPI_Barrier(mt_comm));
}

static void killed(int who)
{
    struct worker *k = &w[0];
    open_stream(k, MPI_COMM_WORLD);
    if (mt_rank == who)
        die_soon();
    for (;;) {
        OK(MPIX_Allreduce_enqueue(MPI_IN_PLACE, k->device.out, MOST, MPI_INT, MPI_MAX, k->comm));
        settle(k);
    }
}

static void alloc_places(void)
{
    struct place *p[] = { &before, &plain, &got };
    for (int i = 0; i < 3; i++) {
        p[i]->in = calloc(INTS, sizeof(int));
        p[i]->out = calloc(INTS, sizeof(int));
    }
}

static void calls(void)
{
    open_stream(&w[0], MPI_COMM_WORLD);
    MT_RUN(all_calls);
    MT_RUN(other_buffers);
    MT_RUN(messages);
    if (gt_kernels()) {
        MT_RUN(held);
        MT_RUN(graphs);
    }
    MT_RUN(freed);
    close_stream(&w[0]);
}

static void faults(void)
{
    if (!fail_fn())
        mt_skip("not the fake driver");
    else if (!gt_kernels())
        mt_skip("no kernels in this build, so nothing is left on streams");
    if (!fail_fn() || !gt_kernels())
        return;
    failed_collective();
    failed_enqueue();
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    int got_level, level = strcmp(mode, "threads") ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE;
    gt_need(1);
    if (argc < 2) /* stream_dead.py checks for a device */
        return 0;
    MPI_Init_thread(&argc, &argv, level, &got_level);
    mt_setup();
    dev = mt_rank % gt_ndevices();
    gt_use(dev);
    alloc_places();
    if (!strcmp(mode, "calls"))
        calls();
    else if (!strcmp(mode, "threads"))
        MT_RUN(threads);
    else if (!strcmp(mode, "faults"))
        MT_RUN(faults);
    else if (!strcmp(mode, "graph"))
        MT_RUN(lonely_graph);
    else if (!strcmp(mode, "turns"))
        MT_RUN(turns);
    else if (!strcmp(mode, "victim") && argc > 2)
        killed(atoi(argv[2]));
    else
        CHECK_MSG(0, "%s is none of calls, faults, graph, threads, turns, victim", mode);
    return mt_end();
}
