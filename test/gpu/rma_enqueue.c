/* SPDX-License-Identifier: BSD-3-Clause */
/* Enqueued puts, flushes and notifications of windows on stream communicators: order with the
 * stream's other work, contention, graphs, calls that the host carries out, wrong arguments, and a
 * driver that fails in one process.  The argument "host": the devices do not add to each other's
 * memory, so the host carries out all calls with notifications.  "victim WHO": endless calls, until
 * that rank is killed (stream_dead.py). */
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>
#include "test/gpu/gputest.h"
#include "test/gpu/victim.h"
#include "test/mpi/mpitest.h"

enum { N = 3000, BIG = 300000, ROUNDS = 5 };

static cu_stream stream;
static MPIX_Stream xstream;
static MPI_Comm comm;
static MPI_Win win;
static int dev, left, right;
static bool by_device; /* what can be captured is */
static unsigned char *mem, *in, *out;

static void settle(void) { CHECK_EQ(cu.stream_synchronize(stream), 0); }

static void write_on(void *p, int byte, size_t n)
{
    CHECK_EQ(cu.memset_d8_async((cu_ptr)(uintptr_t)p, (unsigned char)byte, n, stream), 0);
}

static void copy_on(void *to, const void *from, size_t n)
{
    CHECK_EQ(cu.memcpy_async((cu_ptr)(uintptr_t)to, (cu_ptr)(uintptr_t)from, n, stream), 0);
}

static void open_all(void)
{
    MPI_Info info;
    CHECK_EQ(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING), 0);
    in = gt_alloc(GT_CUDA, dev, BIG, 0);
    out = gt_alloc(GT_CUDA, dev, BIG, 0);
    mem = gt_alloc(GT_CUDA, dev, BIG, 0);
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "type", "cudaStream_t"));
    OK(MPIX_Info_set_hex(info, "value", &stream, sizeof stream));
    OK(MPIX_Stream_create(info, &xstream));
    OK(MPI_Info_free(&info));
    OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, xstream, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    left = (mt_rank + mt_size - 1) % mt_size;
    right = (mt_rank + 1) % mt_size;
}

static void open_window(void *base, MPI_Aint nbytes)
{
    OK(MPI_Win_create(base, nbytes, 1, MPI_INFO_NULL, comm, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Win_lock_all(0, win));
}

static void close_window(void)
{
    settle();
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
}

static void put(const void *from, int n, int rank, MPI_Aint disp, int number)
{
    OK(MPIX_Put_notify_enqueue(from, n, MPI_BYTE, rank, disp, n, MPI_BYTE, number, win));
}

static void tell(int rank, int number) { put(NULL, 0, rank, 0, number); }

/* What the stream wrote before a put arrives; what follows the wait sees it. */
static void in_order(void)
{
    const int lengths[] = { 1, 16, N, BIG };
    open_window(mem, BIG);
    for (unsigned i = 0; i < ROUNDS * sizeof lengths / sizeof lengths[0]; i++) {
        int n = lengths[i % (sizeof lengths / sizeof lengths[0])];
        write_on(in, 10 * (int)i + mt_rank, (size_t)n);
        put(in, n, right, 0, 3);
        write_on(in, 0xee, (size_t)n);
        OK(MPIX_Notify_wait_enqueue(3, 1, win));
        copy_on(out, mem, (size_t)n);
        tell(left, 4); /* the memory may be overwritten */
        OK(MPIX_Notify_wait_enqueue(4, 1, win));
        settle();
        CHECK_EQ(gt_unlike(out, (size_t)n, (10 * (int)i + left) & 0xff), (size_t)n);
    }
    close_window();
}

/* Puts without notification, complete where the flush is. */
static void flushed(void)
{
    open_window(mem, BIG);
    gt_set(mem, 0, BIG);
    OK(MPI_Barrier(mt_comm));
    write_on(in, 50 + mt_rank, N);
    OK(MPIX_Put_enqueue_c(in, N, MPI_BYTE, right, 7, N, MPI_BYTE, win));
    OK(MPIX_Put_enqueue(in, N, MPI_BYTE, MPI_PROC_NULL, 7, N, MPI_BYTE, win));
    OK(MPIX_Win_flush_enqueue(right, win));
    OK(MPIX_Win_flush_enqueue(MPI_PROC_NULL, win));
    settle();
    OK(MPI_Barrier(mt_comm));
    CHECK_EQ(gt_unlike(mem + 7, N, 50 + left), (size_t)N);
    close_window();
}

/* All ranks notify rank 0, with delays, which waits for several at once and answers. */
static void contended(void)
{
    open_window(mem, BIG);
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 2 && mt_rank == i % mt_size)
            usleep(30000);
        write_on(in, i + mt_rank, N);
        for (int k = 0; k < 3; k++)
            put(in, N / 3, 0, mt_rank * N + k * (N / 3), 9);
        if (mt_rank == 0) {
            OK(MPIX_Notify_wait_enqueue(9, 3 * mt_size, win));
            for (int r = 0; r < mt_size; r++)
                copy_on(out + r * N, mem + r * N, N);
            for (int r = 0; r < mt_size; r++)
                tell(r, 10);
        }
        OK(MPIX_Notify_wait_enqueue(10, 1, win));
        settle();
        for (int r = 0; r < mt_size && mt_rank == 0; r++)
            CHECK_EQ(gt_unlike(out + r * N, N, i + r), (size_t)N);
    }
    close_window();
}

/* Streams wait for a put that rank 0 enqueues after the waiting calls have returned. */
static void later(void)
{
    open_window(mem, BIG);
    if (by_device && mt_rank)
        OK(MPIX_Notify_wait_enqueue(0, 1, win));
    OK(MPI_Barrier(mt_comm));
    if (mt_rank == 0) {
        usleep(50000);
        write_on(in, 70, N);
        for (int i = 1; i < mt_size; i++)
            put(in, N, i, 0, 0);
    } else if (!by_device) {
        OK(MPIX_Notify_wait_enqueue(0, 1, win));
    }
    settle();
    if (mt_rank)
        CHECK_EQ(gt_unlike(mem, N, 70), (size_t)N);
    close_window();
}

static cu_graph_exec captured(int mode, void (*what)(void))
{
    cu_graph graph = NULL;
    cu_graph_exec exec = NULL;
    CHECK_EQ(cu.stream_begin_capture(stream, mode), 0);
    what();
    CHECK_EQ(cu.stream_end_capture(stream, &graph), 0);
    CHECK_EQ(cu.graph_instantiate(&exec, graph, 0), 0);
    CHECK_EQ(cu.graph_destroy(graph), 0);
    return exec;
}

static void a_step(void)
{
    put(in, N, right, 0, 1);
    OK(MPIX_Notify_wait_enqueue(1, 1, win));
    copy_on(out, mem, N);
    tell(left, 2);
    OK(MPIX_Notify_wait_enqueue(2, 1, win));
}

static void what_cannot(void)
{
    FAILS(MPIX_Put_notify_enqueue(in, N, MPI_BYTE, right, 0, N, MPI_BYTE, 1, win),
          MPI_ERR_UNSUPPORTED_OPERATION);
    FAILS(MPIX_Notify_wait_enqueue(1, 1, win), MPI_ERR_UNSUPPORTED_OPERATION);
}

/* Captured once, launched several times, with ordinary calls in between. */
static void graphs(void)
{
    const int modes[] = { CU_CAPTURE_GLOBAL, CU_CAPTURE_THREAD_LOCAL, CU_CAPTURE_RELAXED };
    open_window(mem, BIG);
    for (int m = 0; m < 3; m++) {
        cu_graph_exec exec = captured(modes[m], by_device ? a_step : what_cannot);
        for (int i = 0; i < 3 && by_device; i++) {
            write_on(in, 40 * m + 10 * i + mt_rank, N);
            if (i == mt_rank % 3)
                usleep(20000);
            CHECK_EQ(cu.graph_launch(exec, stream), 0);
            if (i == 1)
                a_step();
            settle();
            CHECK_EQ(gt_unlike(out, N, 40 * m + 10 * i + left), (size_t)N);
        }
        for (int i = 0; i < 10 && by_device; i++) /* many at once */
            CHECK_EQ(cu.graph_launch(exec, stream), 0);
        settle();
        CHECK_EQ(cu.graph_exec_destroy(exec), 0);
        OK(MPI_Barrier(mt_comm));
    }
    close_window();
}

/* Data of the host, and data with gaps: the host waits for the stream. */
static void by_host(void)
{
    unsigned char *host = gt_alloc(GT_HOST, 0, N, 0);
    MPI_Datatype every2;
    OK(MPI_Type_vector(N / 2, 1, 2, MPI_BYTE, &every2));
    OK(MPI_Type_commit(&every2));
    open_window(mem, BIG);
    gt_set(host, 90 + mt_rank, N);
    put(host, N, right, 0, 0);
    OK(MPIX_Notify_wait_enqueue(0, 1, win));
    OK(MPI_Barrier(mt_comm)); /* puts by messages need the target's calls */
    settle();
    CHECK_EQ(gt_unlike(mem, N, 90 + left), (size_t)N);
    OK(MPI_Barrier(mt_comm));
    write_on(in, 120 + mt_rank, N);
    OK(MPIX_Put_notify_enqueue(in, 1, every2, right, N, N / 2, MPI_BYTE, 0, win));
    OK(MPIX_Notify_wait_enqueue(0, 1, win));
    OK(MPI_Barrier(mt_comm));
    settle();
    CHECK_EQ(gt_unlike(mem + N, N / 2, 120 + left), (size_t)(N / 2));
    close_window();
    OK(MPI_Type_free(&every2));
    gt_free(host);
}

/* A window in host memory. */
static void host_window(void)
{
    unsigned char *host = calloc(1, N);
    open_window(host, N);
    write_on(in, 30 + mt_rank, N);
    put(in, N, right, 0, 0);
    OK(MPIX_Notify_wait_enqueue(0, 1, win));
    OK(MPI_Barrier(mt_comm));
    settle();
    int bad = 0;
    for (int i = 0; i < N; i++)
        bad += host[i] != 30 + left;
    CHECK_EQ(bad, 0);
    close_window();
    free(host);
}

/* Notifications of the two kinds do not mix. */
static void apart(void)
{
    MPI_Count n = -1;
    open_window(mem, BIG);
    tell(right, 5);
    OK(MPIX_Put_notify(in, 1, MPI_BYTE, right, 0, 1, MPI_BYTE, 5, win));
    OK(MPIX_Notify_wait(5, 1, win));
    OK(MPIX_Notify_get(5, &n, win));
    CHECK_EQ(n, 0);
    OK(MPIX_Notify_wait_enqueue(5, 1, win));
    OK(MPIX_Notify_wait_enqueue(5, 0, win));
    close_window();
}

static void wrong(void)
{
    MPI_Win plain;
    OK(MPI_Win_create(mem, N, 1, MPI_INFO_NULL, mt_comm, &plain));
    OK(MPI_Win_set_errhandler(plain, MPI_ERRORS_RETURN));
    OK(MPI_Win_lock_all(0, plain));
    FAILS(MPIX_Put_enqueue(in, 1, MPI_BYTE, 0, 0, 1, MPI_BYTE, plain), MPI_ERR_WIN);
    FAILS(MPIX_Notify_wait_enqueue(0, 1, plain), MPI_ERR_WIN);
    FAILS(MPIX_Win_flush_enqueue(0, plain), MPI_ERR_WIN);
    OK(MPI_Win_unlock_all(plain));
    OK(MPI_Win_free(&plain));
    open_window(mem, N);
    FAILS(MPIX_Put_enqueue(in, -1, MPI_BYTE, 0, 0, 1, MPI_BYTE, win), MPI_ERR_COUNT);
    FAILS(MPIX_Put_enqueue(in, 1, MPI_DATATYPE_NULL, 0, 0, 1, MPI_BYTE, win), MPI_ERR_TYPE);
    FAILS(MPIX_Put_enqueue(in, 1, MPI_BYTE, mt_size, 0, 1, MPI_BYTE, win), MPI_ERR_RANK);
    FAILS(MPIX_Put_enqueue(in, 1, MPI_BYTE, 0, N, 1, MPI_BYTE, win), MPI_ERR_RMA_RANGE);
    FAILS(MPIX_Put_notify_enqueue(in, 1, MPI_BYTE, 0, 0, 2, MPI_BYTE, 0, win), MPI_ERR_TRUNCATE);
    FAILS(MPIX_Put_notify_enqueue(in, 1, MPI_BYTE, 0, 0, 1, MPI_BYTE, 64, win), MPI_ERR_ARG);
    FAILS(MPIX_Notify_wait_enqueue(-1, 1, win), MPI_ERR_ARG);
    FAILS(MPIX_Notify_wait_enqueue(0, -1, win), MPI_ERR_COUNT);
    FAILS(MPIX_Win_flush_enqueue(mt_size, win), MPI_ERR_RANK);
    OK(MPI_Win_unlock_all(win));
    FAILS(MPIX_Put_enqueue(in, 1, MPI_BYTE, 0, 0, 1, MPI_BYTE, win), MPI_ERR_RMA_SYNC);
    FAILS(MPIX_Win_flush_enqueue(0, win), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_lock_all(0, win));
    close_window();
    FAILS(MPIX_Win_flush_enqueue(0, MPI_WIN_NULL), MPI_ERR_WIN);
}

/* The last rank's driver refuses the kernel that notifies, while the other streams wait. */
static void failed_enqueue(void)
{
    fake_cuda_fail_fn *fail = (fake_cuda_fail_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "fake_cuda_fail");
    if (!fail || !by_device || mt_size == 1) {
        mt_skip("needs the fake driver, kernels and two ranks");
        return;
    }
    open_window(mem, BIG);
    tell(right, 0);
    OK(MPIX_Notify_wait_enqueue(0, 1, win));
    settle();
    OK(MPI_Barrier(mt_comm));
    if (mt_rank == mt_size - 1) {
        usleep(100000); /* the others are waiting */
        fail("cuLaunchKernel:1+");
        FAILS(MPIX_Put_notify_enqueue(in, N, MPI_BYTE, right, 0, N, MPI_BYTE, 0, win),
              MPI_ERR_OTHER);
    } else {
        OK(MPIX_Notify_wait_enqueue(0, 1, win));
    }
    settle();
    OK(MPI_Barrier(mt_comm));
    FAILS(MPIX_Notify_wait_enqueue(0, 1, win), MPI_ERR_OTHER);
    FAILS(MPIX_Put_enqueue(in, N, MPI_BYTE, right, 0, N, MPI_BYTE, win), MPI_ERR_OTHER);
    OK(MPI_Put(in, N, MPI_BYTE, right, 0, N, MPI_BYTE, win));
    close_window();
}

/* Every rank waits for the notifications of its left neighbour. */
static void endless(int who)
{
    open_window(mem, BIG);
    if (mt_rank == who)
        die_soon();
    for (;;) {
        put(in, N, right, 0, 0);
        OK(MPIX_Notify_wait_enqueue(0, 1, win));
        settle();
    }
}

int main(int argc, char **argv)
{
    gt_need(1);
    mt_init(argc, argv);
    dev = mt_rank % gt_ndevices();
    gt_use(dev);
    by_device = gt_kernels() && !(argc > 1 && !strcmp(argv[1], "host"));
    open_all();
    if (argc > 2 && !strcmp(argv[1], "victim"))
        endless(atoi(argv[2]));
    MT_RUN(in_order);
    MT_RUN(flushed);
    MT_RUN(contended);
    MT_RUN(later);
    MT_RUN(graphs);
    MT_RUN(by_host);
    MT_RUN(host_window);
    MT_RUN(apart);
    MT_RUN(wrong);
    MT_RUN(failed_enqueue);
    OK(MPI_Comm_free(&comm));
    OK(MPIX_Stream_free(&xstream));
    gt_free(in);
    gt_free(out);
    gt_free(mem);
    CHECK_EQ(cu.stream_destroy(stream), 0);
    return mt_end();
}
