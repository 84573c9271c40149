/* SPDX-License-Identifier: BSD-3-Clause */
/* Stream-ordered communication when something goes wrong.
 *     stream_faults differ     processes whose arguments differ
 *     stream_faults abandon    work left on a stream for MPI_Finalize; its peer makes no matching
 * call stream_faults graph      a graph that only one process launches stream_faults enqueue    one
 * process's driver refuses further kernels stream_faults queue      the same, collectives only, for
 * streams that share a hardware queue stream_faults reset      the application resets the device
 * under a communicator stream_faults mappings   memory is freed and allocated, and then cannot be
 * mapped stream_faults threads    two threads at the same time, each with a communicator and a
 * stream stream_faults frees      memory is freed while a stream waits for a process that first
 * needs this process's host */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>
#include "test/gpu/gputest.h"
#include "test/mpi/mpitest.h"

enum { N = 1000, CALLS = 60, THREADS = 2, LONG_MESSAGE = 300000 /* not a short one */ };

struct worker {
    cu_stream stream;
    MPIX_Stream xstream;
    MPI_Comm comm;
    unsigned char *in, *out;
    int failed; /* failed calls, or wrong results */
};

static struct worker w[THREADS];
static int dev;

static void open_stream(struct worker *k)
{
    MPI_Info info;
    CHECK_EQ(cu.stream_create(&k->stream, CU_STREAM_NON_BLOCKING), 0);
    k->in = gt_alloc(GT_CUDA, dev, N * sizeof(float), 0);
    k->out = gt_alloc(GT_CUDA, dev, N * sizeof(float), 0);
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "type", "cudaStream_t"));
    OK(MPIX_Info_set_hex(info, "value", &k->stream, sizeof k->stream));
    OK(MPIX_Stream_create(info, &k->xstream));
    OK(MPI_Info_free(&info));
    OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, k->xstream, &k->comm));
    OK(MPI_Comm_set_errhandler(k->comm, MPI_ERRORS_RETURN));
}

static void close_stream(struct worker *k)
{
    OK(MPI_Comm_free(&k->comm));
    OK(MPIX_Stream_free(&k->xstream));
}

/* Proxy threads carry the calls of ranks that share a device. */
static bool by_proxies(void) { return mt_size > gt_ndevices(); }

/* Sends of which the last is received first: the sender's stream waits for the receive of the first
 * one, so that the streams would wait for each other.  A sender of short messages waits only from
 * the ninth on, and never with proxy threads. */
static void received_last(int nsends, int first, int others, bool deadlocks)
{
    struct worker *k = &w[0];
    open_stream(k);
    unsigned char *in = gt_alloc(GT_CUDA, dev, LONG_MESSAGE, 0),
                  *out = gt_alloc(GT_CUDA, dev, LONG_MESSAGE, 0);
    if (mt_rank == 0)
        for (int i = 0; i < nsends; i++)
            OK(MPIX_Send_enqueue(in, i ? others : first, MPI_BYTE, 1, i, k->comm));
    if (mt_rank == 1) {
        int err = MPIX_Recv_enqueue(out, LONG_MESSAGE, MPI_BYTE, 0, nsends - 1, k->comm,
                                    MPI_STATUS_IGNORE);
        /* without kernels the sender's host has sent all and does not wait */
        CHECK_EQ(err, gt_kernels() && deadlocks ? MPI_ERR_OTHER : MPI_SUCCESS);
        for (int i = 0; i < nsends - 1; i++)
            OK(MPIX_Recv_enqueue(out, LONG_MESSAGE, MPI_BYTE, 0, i, k->comm, MPI_STATUS_IGNORE));
    }
    if (!deadlocks)
        CHECK_EQ(cu.stream_synchronize(k->stream), 0);
    OK(MPI_Barrier(mt_comm));
}

static void out_of_order(void)
{
    received_last(8, 10, 10, false);          /* a slot for each */
    received_last(10, 10, 10, !by_proxies()); /* two slots are used again, before the last one */
}

/* Work is left on the streams for MPI_Finalize: rank 0 waits for the receive of a long message,
 * rank 1 for a slot. */
static void abandon(void)
{
    received_last(2, LONG_MESSAGE, LONG_MESSAGE, true);
    for (int i = 0; i < 9 && mt_rank == 1 && gt_kernels(); i++)
        OK(MPIX_Send_enqueue(w[0].in, 10, MPI_BYTE, 0, i, w[0].comm));
    OK(MPI_Barrier(mt_comm));
}

/* A captured collective needs kernels; without them it fails, and all processes continue. */
static void capture_allreduce(struct worker *k, cu_graph *graph)
{
    CHECK_EQ(cu.stream_begin_capture(k->stream, CU_CAPTURE_GLOBAL), 0);
    if (gt_kernels())
        OK(MPIX_Allreduce_enqueue(k->in, k->out, N, MPI_FLOAT, MPI_SUM, k->comm));
    else
        FAILS(MPIX_Allreduce_enqueue(k->in, k->out, N, MPI_FLOAT, MPI_SUM, k->comm),
              MPI_ERR_UNSUPPORTED_OPERATION);
    CHECK_EQ(cu.stream_end_capture(k->stream, graph), 0);
}

/* Rank 0 launches a graph that the others do not launch, and leaves it to MPI_Finalize; the others
 * stay until it has been given up, and detect that. */
static void lonely_graph(void)
{
    cu_graph graph;
    cu_graph_exec exec;
    struct worker *k = &w[0];
    open_stream(k);
    capture_allreduce(k, &graph);
    CHECK_EQ(cu.graph_instantiate(&exec, graph, 0), 0);
    CHECK_EQ(cu.graph_launch(exec, k->stream), 0);
    CHECK_EQ(cu.stream_synchronize(k->stream), 0);
    OK(MPI_Barrier(mt_comm));
    if (mt_rank == 0)
        CHECK_EQ(cu.graph_launch(exec, k->stream), 0);
    CHECK_EQ(cu.graph_destroy(graph), 0);
    OK(MPI_Barrier(mt_comm));
}

static fake_cuda_fail_fn *fail_fn(void)
{
    return (fake_cuda_fail_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "fake_cuda_fail");
}

static void fail_now(const char *rules) { fail_fn()(rules); }

/* Only the fake driver fails on request. */
static bool never_fails(void)
{
    if (fail_fn())
        return false;
    mt_skip("not the fake driver");
    return true;
}

/* The last rank's driver fails.  The others have enqueued their part of the same collective: their
 * streams end, and a process whose host waits for a message of the failing process gets an
 * error. */
static void failed_enqueue(void)
{
    struct worker *k = &w[0], *other = &w[1];
    bool fails = mt_rank == mt_size - 1;
    MPI_Status st;
    MPI_Request r;
    if (never_fails())
        return;
    if (!gt_kernels()) {
        mt_skip("no kernels in this build, so nothing is left on streams");
        return;
    }
    open_stream(k);
    open_stream(other);
    OK(MPIX_Allreduce_enqueue(k->in, k->out, N, MPI_FLOAT, MPI_SUM, k->comm));
    CHECK_EQ(cu.stream_synchronize(k->stream), 0);
    OK(MPI_Barrier(mt_comm));
    if (fails) {
        usleep(200000); /* the others are waiting */
        fail_now("cuLaunchKernel:1+");
        FAILS(MPIX_Isend_enqueue(k->in, 1, MPI_BYTE, mt_rank, 1, other->comm, &r), MPI_ERR_OTHER);
    } else {
        FAILS(MPIX_Recv_enqueue(k->out, 1, MPI_BYTE, mt_size - 1, 1, other->comm, &st),
              MPI_ERR_OTHER);
    }
    int err = MPIX_Allreduce_enqueue(k->in, k->out, N, MPI_FLOAT, MPI_SUM, k->comm);
    CHECK_MSG(fails ? err != MPI_SUCCESS : true, "the enqueue failed, the call did not");
    CHECK_EQ(cu.stream_synchronize(k->stream), 0);
    OK(MPI_Barrier(mt_comm));
    for (int i = 0; i < THREADS; i++) {
        FAILS(MPIX_Barrier_enqueue(w[i].comm), MPI_ERR_OTHER);
        FAILS(MPIX_Send_enqueue(k->in, 1, MPI_BYTE, 0, 1, w[i].comm), MPI_ERR_OTHER);
        CHECK_EQ(cu.stream_synchronize(w[i].stream), 0);
        close_stream(&w[i]);
    }
}

static void gather_odd(struct worker *k)
{
    int counts[16], at[16];
    for (int r = 0; r < mt_size; r++) {
        counts[r] = 10;
        at[r] = 10 * r;
    }
    OK(MPIX_Gatherv_enqueue(k->in, mt_rank == mt_size - 1 ? 11 : 10, MPI_INT, k->out, counts, at,
                            MPI_INT, 0, k->comm));
}

/* Short calls whose arguments differ, one after another on communicators of their own: the streams
 * end, and the next calls are errors.  A process that may not capture its buffer makes the others'
 * graphs end, when they are launched. */
static void differ(void)
{
    static int host;
    cu_graph graph;
    cu_graph_exec exec;
    bool odd = mt_rank == mt_size - 1;
    for (int i = 0; i < 5 && gt_kernels(); i++) {
        struct worker *k = &w[0];
        int err = MPI_SUCCESS;
        open_stream(k);
        OK(MPIX_Barrier_enqueue(k->comm));
        if (i == 0)
            OK(MPIX_Allreduce_enqueue(k->in, k->out, odd ? 1 : N, MPI_FLOAT, MPI_SUM, k->comm));
        else if (i == 1)
            OK(MPIX_Allreduce_enqueue(k->in, k->out, N, MPI_FLOAT, odd ? MPI_MAX : MPI_SUM,
                                      k->comm));
        else if (i == 2 && odd)
            OK(MPIX_Barrier_enqueue(k->comm));
        else if (i == 2)
            OK(MPIX_Bcast_enqueue(k->in, N, MPI_FLOAT, 0, k->comm));
        else if (i == 4) /* rank 0 receives fewer bytes than the last rank sends */
            gather_odd(k);
        if (i == 3) {
            CHECK_EQ(cu.stream_begin_capture(k->stream, CU_CAPTURE_GLOBAL), 0);
            err = MPIX_Bcast_enqueue(odd ? (void *)&host : k->in, 1, MPI_INT, 0, k->comm);
            CHECK_EQ(err, odd ? MPI_ERR_UNSUPPORTED_OPERATION : MPI_SUCCESS);
            CHECK_EQ(cu.stream_end_capture(k->stream, &graph), 0);
            OK(MPIX_Barrier_enqueue(k->comm)); /* nothing has happened yet */
            CHECK_EQ(cu.graph_instantiate(&exec, graph, 0), 0);
            CHECK_EQ(cu.graph_launch(exec, k->stream), 0);
        }
        CHECK_EQ(cu.stream_synchronize(k->stream), 0);
        OK(MPI_Barrier(mt_comm)); /* all know */
        err = MPIX_Barrier_enqueue(k->comm);
        if (i == 4 && err == MPI_SUCCESS &&
            mt_rank) { /* its part was over before the root failed */
            CHECK_EQ(cu.stream_synchronize(k->stream), 0);
            err = MPIX_Barrier_enqueue(k->comm);
        }
        CHECK_MSG(err == MPI_ERR_OTHER || (err == MPI_ERR_TRUNCATE && i != 3), "case %d gave %d", i,
                  err);
        int truncated = err == MPI_ERR_TRUNCATE, any = 0;
        OK(MPI_Allreduce(&truncated, &any, 1, MPI_INT, MPI_MAX, mt_comm));
        CHECK_EQ(any, i != 3); /* at least one process knows which rank differs */
        close_stream(k);
    }
}

static int memory_alive(void)
{
    fake_cuda_alive_fn *alive = (fake_cuda_alive_fn *)(uintptr_t)dlsym(RTLD_DEFAULT,
                                                                       "fake_cuda_alive");
    return alive(FAKE_MEMORY);
}

/* A number from each rank to each, except a long block from the first rank to the last: no short
 * call, so the buffers are mapped.  The long block is the last one of its buffers. */
enum { SWAPPED = (1 << 20) + 100 };
static size_t swap_in(void) { return mt_rank == 0 ? SWAPPED : 64; }
static size_t swap_out(void) { return mt_rank == mt_size - 1 ? SWAPPED : 64; }
static int swap_place(int from) { return mt_rank == mt_size - 1 ? mt_size - 1 - from : from; }

static int swap_all(struct worker *k, unsigned char *in, unsigned char *out)
{
    int give[16], take[16], from[16], to[16], last = mt_size - 1;
    for (int i = 0; i < mt_size; i++) {
        give[i] = mt_rank == 0 && i == last ? (SWAPPED - 64) / 4 : 1;
        take[i] = mt_rank == last && i == 0 ? (SWAPPED - 64) / 4 : 1;
        from[i] = i;
        to[i] = swap_place(i);
    }
    return MPIX_Alltoallv_enqueue(in, give, from, MPI_INT32_T, out, take, to, MPI_INT32_T, k->comm);
}

static void swap_of(struct worker *k, unsigned char *in, unsigned char *out, int round)
{
    int32_t mine[16] = { 0 }, got[16];
    for (int r = 0; r < mt_size; r++)
        mine[r] = 100 * mt_rank + r + round;
    gt_write(in, mine, (size_t)mt_size * sizeof mine[0]);
    OK(swap_all(k, in, out));
    CHECK_EQ(cu.stream_synchronize(k->stream), 0);
    gt_read(got, out, (size_t)mt_size * sizeof got[0]);
    for (int r = 0; r < mt_size; r++)
        CHECK_EQ(got[swap_place(r)], 100 * r + mt_rank + round);
}

/* Memory that its owner has freed does not stay mapped; closing a mapping of cuMemAlloc memory is
 * deferred. */
static void freed_buffers(void)
{
    enum { ROUNDS = 30 };
    struct worker *k = &w[0];
    open_stream(k);
    unsigned char *first = gt_alloc(GT_CUDA, dev, SWAPPED, 0),
                  *second = gt_alloc(GT_CUDA, dev, SWAPPED, 0);
    swap_of(k, first, second, 0);
    int before = memory_alive();
    for (int i = 0; i < ROUNDS; i++) {
        unsigned char *in = gt_alloc(GT_VMM, dev, swap_in(), 0),
                      *out = gt_alloc(GT_VMM, dev, swap_out(), 0);
        swap_of(k, in, out, i);
        OK(MPI_Barrier(mt_comm)); /* all have seen the end */
        gt_free(in);
        gt_free(out);
    }
    OK(MPI_Barrier(mt_comm));
    swap_of(k, first, second, 1);
    int more = memory_alive() - before;
    CHECK_MSG(more <= 4 * mt_size, "%d allocations of others are still mapped", more);
    close_stream(k);
}

/* More buffers than any table of mappings had places, each allocated, used and kept. */
static void more_than_256(void)
{
    enum { BUFFERS = 150 };
    static unsigned char *in[BUFFERS], *out[BUFFERS];
    struct worker *k = &w[0];
    open_stream(k);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < BUFFERS; i++) {
            if (round == 0) {
                in[i] = gt_alloc(GT_CUDA, dev, swap_in(), 0);
                out[i] = gt_alloc(GT_CUDA, dev, swap_out(), 0);
            }
            swap_of(k, in[i], out[i], i + round);
        }
    for (int i = 0; i < BUFFERS; i++) {
        gt_free(in[i]);
        gt_free(out[i]);
    }
    close_stream(k);
}

/* Each step allocates other lengths of the same pool, mostly at addresses that the step before has
 * used, and half of the steps do not wait for the peers to have unmapped that. */
static void pool_of_changing_length(void)
{
    enum { ROUNDS = 24 };
    struct worker *k = &w[0];
    open_stream(k);
    for (int i = 0; i < ROUNDS; i++) {
        unsigned char *in = gt_alloc(GT_POOL, dev, swap_in() + (size_t)(i % 5) * 100000, 0),
                      *out = gt_alloc(GT_POOL, dev, swap_out() + (size_t)(i % 7) * 70000, 0);
        swap_of(k, in, out, i);
        if (i % 2)
            OK(MPI_Barrier(mt_comm)); /* all have seen the end */
        gt_free(in);
        gt_free(out);
    }
    close_stream(k);
}

/* The driver of the first rank can map only the first half of the buffers. */
static void many_buffers(void)
{
    enum { BUFFERS = 40 };
    static unsigned char *in[BUFFERS], *out[BUFFERS];
    struct worker *k = &w[0];
    cu_graph graph;
    if (never_fails())
        return;
    open_stream(k);
    for (int i = 0; i < BUFFERS; i++) {
        if (i == BUFFERS / 2 && mt_rank == 0)
            fail_now("cuIpcOpenMemHandle:1+:801");
        in[i] = gt_alloc(GT_CUDA, dev, swap_in(), 0);
        out[i] = gt_alloc(GT_CUDA, dev, swap_out(), 0);
        swap_of(k, in[i], out[i], i);
    }
    CHECK_EQ(cu.stream_begin_capture(k->stream, CU_CAPTURE_GLOBAL), 0);
    FAILS(swap_all(k, in[BUFFERS - 1], out[BUFFERS - 1]), MPI_ERR_UNSUPPORTED_OPERATION);
    CHECK_EQ(cu.stream_end_capture(k->stream, &graph), 0);
    CHECK_EQ(cu.graph_destroy(graph), 0);
    for (int i = 0; i < BUFFERS; i++) {
        gt_free(in[i]);
        gt_free(out[i]);
    }
    close_stream(k);
}

static void reset(void)
{
    struct worker *k = &w[0];
    open_stream(k);
    OK(MPIX_Allreduce_enqueue(k->in, k->out, N, MPI_FLOAT, MPI_SUM, k->comm));
    CHECK_EQ(cu.stream_synchronize(k->stream), 0);
    OK(MPI_Barrier(mt_comm));
    CHECK_EQ(cu.primary_ctx_reset(dev), CU_OK);
    FAILS(MPIX_Barrier_enqueue(k->comm), MPI_ERR_OTHER);
    FAILS(MPIX_Send_enqueue(k->in, 1, MPI_BYTE, 0, 0, k->comm), MPI_ERR_OTHER);
    close_stream(k);
    OK(MPI_Barrier(mt_comm));
}

/* Rank 0's stream waits for rank 1, which continues after messages with memory that is mapped and
 * freed: rank 0 unmaps it, which the driver does when the device is idle. */
static void frees(void)
{
    enum { ROUNDS = 6, LONG = 300000 };
    MPI_Comm c = MPI_COMM_WORLD;
    struct worker *k = &w[0];
    unsigned char *to = gt_alloc(GT_CUDA, dev, LONG, 0), *from;
    open_stream(k);
    unsigned char *sent = gt_alloc(GT_CUDA, dev, LONG_MESSAGE, 0),
                  *got = gt_alloc(GT_CUDA, dev, LONG_MESSAGE, 0);
    gt_fill(sent, LONG_MESSAGE, 9);
    if (mt_rank == 0)
        OK(MPIX_Send_enqueue(sent, LONG_MESSAGE, MPI_BYTE, 1, 1, k->comm));
    for (int i = 0; i < ROUNDS && mt_rank < 2; i++) {
        if (mt_rank == 0) {
            OK(MPI_Recv(to, LONG, MPI_BYTE, 1, 2, c, MPI_STATUS_IGNORE));
            continue;
        }
        from = gt_alloc(GT_CUDA, dev, LONG, 0);
        gt_fill(from, LONG, (unsigned)i);
        OK(MPI_Send(from, LONG, MPI_BYTE, 0, 2, c));
        gt_free(from);
    }
    if (mt_rank == 1) {
        OK(MPIX_Recv_enqueue(got, LONG_MESSAGE, MPI_BYTE, 0, 1, k->comm, MPI_STATUS_IGNORE));
        CHECK_EQ(cu.stream_synchronize(k->stream), 0);
        GT_CHECK_DATA(got, LONG_MESSAGE, 9);
    }
    CHECK_EQ(cu.stream_synchronize(k->stream), 0);
    if (mt_rank == 0)
        GT_CHECK_DATA(to, LONG, ROUNDS - 1);
    close_stream(k);
    OK(MPI_Barrier(c));
}

/* The application has freed a communicator whose work was captured, and its stream: the library
 * must not query the stream any more. */
static void destroyed(void)
{
    enum { ROUNDS = 6, LONG = 300000 };
    cu_graph graph;
    struct worker *k = &w[0];
    open_stream(k);
    capture_allreduce(k, &graph);
    CHECK_EQ(cu.graph_destroy(graph), 0);
    close_stream(k);
    CHECK_EQ(cu.stream_destroy(k->stream), 0);
    for (int i = 0; i < ROUNDS; i++) { /* mappings are made and closed */
        unsigned char *p = gt_alloc(GT_CUDA, dev, LONG, 0);
        gt_fill(p, LONG, (unsigned)mt_rank);
        OK(MPI_Bcast(p, LONG, MPI_BYTE, 0, MPI_COMM_WORLD));
        GT_CHECK_DATA(p, LONG, 0);
        gt_free(p);
    }
}

/* The buffer of captured work lies where the peer still maps shorter memory that has been freed.
 * Captured work has no other way than a mapping, so the former one is closed. */
static void regrown(void)
{
    struct worker *k = &w[0];
    cu_graph graph;
    unsigned char *stays = gt_alloc(GT_CUDA, dev, 64, 0);
    unsigned char *p = gt_alloc(GT_CUDA, dev, 2000, 0), *q = gt_alloc(GT_CUDA, dev, 2000, 0);
    unsigned char *was = p;
    int right = (mt_rank + 1) % mt_size, left = (mt_rank + mt_size - 1) % mt_size;
    gt_fill(p, 2000, (unsigned)mt_rank);
    OK(MPI_Sendrecv(p, 2000, MPI_BYTE, right, 3, q, 2000, MPI_BYTE, left, 3, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
    GT_CHECK_DATA(q, 2000, (unsigned)left);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    gt_free(p);
    gt_free(q);
    open_stream(k);
    if (fail_fn()) /* the fake driver takes the first room */
        CHECK(k->in == was);
    capture_allreduce(k, &graph);
    CHECK_EQ(cu.graph_destroy(graph), 0);
    close_stream(k);
    gt_free(stays);
}

/* A receive into memory that is not pinned, from a sender whose stream continues only after this
 * host has received another message: the driver would wait for the stream inside the copy. */
static void pageable_of(int len)
{
    static unsigned char host[2 * LONG_MESSAGE];
    struct worker *k = &w[0];
    int token = 5;
    MPI_Request r[2];
    open_stream(k);
    unsigned char *in = gt_alloc(GT_CUDA, dev, LONG_MESSAGE, 0);
    if (mt_rank == 0) {
        gt_fill(in, (size_t)len, 3);
        OK(MPIX_Isend_enqueue(in, len, MPI_BYTE, 1, 2, k->comm, &r[0]));
        OK(MPIX_Send_enqueue(in, len, MPI_BYTE, 1, 1, k->comm));
        OK(MPIX_Wait_enqueue(&r[0], MPI_STATUS_IGNORE));
    } else if (mt_rank == 1) {
        OK(MPIX_Recv_enqueue(host, len, MPI_BYTE, 0, 1, k->comm, MPI_STATUS_IGNORE));
        OK(MPIX_Recv_enqueue(host + len, len, MPI_BYTE, 0, 2, k->comm, MPI_STATUS_IGNORE));
        CHECK_EQ(cu.stream_synchronize(k->stream), 0);
        CHECK(gt_differs(host, (size_t)len, 3) == (size_t)len &&
              gt_differs(host + len, (size_t)len, 3) == (size_t)len);
    }
    CHECK_EQ(cu.stream_synchronize(k->stream), 0);
    OK(MPI_Bcast(&token, 1, MPI_INT, 0, MPI_COMM_WORLD));
    close_stream(k);
}

static void pageable(void)
{
    pageable_of(1000);
    pageable_of(LONG_MESSAGE);
}

static void *work(void *arg)
{
    struct worker *k = arg;
    int to = (mt_rank + 1) % mt_size, from = (mt_rank + mt_size - 1) % mt_size;
    cu.ctx_set_current(gt_ctx(dev));
    for (int i = 0; i < CALLS; i++) {
        MPI_Request r[2];
        k->failed += !!MPIX_Allreduce_enqueue(k->in, k->out, N, MPI_FLOAT, MPI_SUM, k->comm);
        k->failed += !!MPIX_Irecv_enqueue(k->in, N, MPI_FLOAT, from, i, k->comm, &r[0]);
        k->failed += !!MPIX_Isend_enqueue(k->out, N, MPI_FLOAT, to, i, k->comm, &r[1]);
        k->failed += !!MPIX_Waitall_enqueue(2, r, MPI_STATUSES_IGNORE);
        k->failed += i % 10 == 0 ? !!cu.stream_synchronize(k->stream) : 0;
    }
    k->failed += !!cu.stream_synchronize(k->stream);
    return NULL;
}

/* No process enqueues the calls of its threads in its own order. */
static void *collect(void *arg)
{
    struct worker *k = arg;
    cu.ctx_set_current(gt_ctx(dev));
    for (int i = 0; i < 5 * CALLS; i++) {
        k->failed += !!MPIX_Allreduce_enqueue(k->in, k->out, N, MPI_FLOAT, MPI_SUM, k->comm);
        k->failed += !!MPIX_Barrier_enqueue(k->comm);
        k->failed += i % 10 == 0 ? !!cu.stream_synchronize(k->stream) : 0;
    }
    k->failed += !!cu.stream_synchronize(k->stream);
    return NULL;
}

static void queue(void)
{
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++)
        open_stream(&w[i]);
    OK(MPI_Barrier(mt_comm));
    for (int i = 0; i < THREADS; i++) /* in the opposite order on neighbours */
        CHECK_EQ(pthread_create(&t[i], NULL, collect, &w[(i + mt_rank) % THREADS]), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(t[i], NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(w[i].failed, 0);
        close_stream(&w[i]);
    }
}

static void threads(void)
{
    float host[N];
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++) {
        open_stream(&w[i]);
        for (int j = 0; j < N; j++)
            host[j] = (float)i;
        gt_write(w[i].in, host, sizeof host);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&t[i], NULL, work, &w[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(t[i], NULL), 0);
        CHECK_EQ(w[i].failed, 0);
        gt_read(host, w[i].out, sizeof host);
        float want = (float)i;
        for (int j = 0; j < CALLS; j++)
            want *= (float)mt_size; /* infinite in the end, the same on all ranks */
        CHECK(memcmp(&host[N - 1], &want, sizeof want) == 0);
        close_stream(&w[i]);
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    int got;
    gt_need(1);
    MPI_Init_thread(&argc, &argv,
                    strcmp(mode, "differ") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED, &got);
    mt_setup();
    dev = mt_rank % gt_ndevices();
    gt_use(dev);
    if (!strcmp(mode, "abandon")) {
        MT_RUN(out_of_order);
        MT_RUN(abandon);
    } else if (!strcmp(mode, "graph"))
        MT_RUN(lonely_graph);
    else if (!strcmp(mode, "enqueue"))
        MT_RUN(failed_enqueue);
    else if (!strcmp(mode, "differ"))
        MT_RUN(differ);
    else if (!strcmp(mode, "reset"))
        MT_RUN(reset);
    else if (!strcmp(mode, "queue"))
        MT_RUN(queue);
    else if (!strcmp(mode, "threads"))
        MT_RUN(threads);
    else if (!strcmp(mode, "mappings")) {
        MT_RUN(freed_buffers);
        MT_RUN(more_than_256);
        MT_RUN(pool_of_changing_length);
        MT_RUN(many_buffers);
    } else if (!strcmp(mode, "frees")) {
        MT_RUN(frees);
        MT_RUN(pageable);
        MT_RUN(destroyed);
        MT_RUN(regrown);
    } else
        CHECK_MSG(
            0,
            "%s is none of abandon, differ, enqueue, frees, graph, mappings, queue, reset, threads",
            mode);
    return mt_end();
}
