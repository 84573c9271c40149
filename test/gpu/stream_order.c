/* SPDX-License-Identifier: BSD-3-Clause */
/* Stream-ordered communication (MPIX_..._enqueue): objects and wrong arguments, messages and
 * collectives in the order of a CUDA stream without waiting for it, graphs that are captured once
 * and launched many times, and calls that use the host because of their buffers.  Failures are
 * tested in stream_faults.c. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "test/gpu/gputest.h"
#include "test/mpi/mpitest.h"

enum { N = 5000, BIG = (1 << 20) + 3, ROUNDS = 6 };

static cu_stream stream;
static MPIX_Stream xstream;
static MPI_Comm comm;
static int dev;
static unsigned char *in, *out, *other; /* device memory of BIG bytes each */
static float host[N], want[N];

static void write_on(void *p, int byte, size_t n)
{
    CHECK_EQ(cu.memset_d8_async((cu_ptr)(uintptr_t)p, (unsigned char)byte, n, stream), 0);
}

static void settle(void) { CHECK_EQ(cu.stream_synchronize(stream), 0); }

static MPIX_Stream stream_of(void *value)
{
    MPI_Info info;
    MPIX_Stream s = MPIX_STREAM_NULL;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "type", "cudaStream_t"));
    OK(MPIX_Info_set_hex(info, "value", &value, sizeof value));
    OK(MPIX_Stream_create(info, &s));
    OK(MPI_Info_free(&info));
    return s;
}

static void setup(void)
{
    CHECK_EQ(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING), 0);
    in = gt_alloc(GT_CUDA, dev, BIG, 0);
    out = gt_alloc(GT_CUDA, dev, BIG, 0);
    other = gt_alloc(GT_CUDA, dev, BIG, 0);
    xstream = stream_of(stream);
    OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, xstream, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
}

static void teardown(void)
{
    OK(MPI_Comm_free(&comm));
    OK(MPIX_Stream_free(&xstream));
    settle();
    gt_free(in);
    gt_free(out);
    gt_free(other);
    CHECK_EQ(cu.stream_destroy(stream), 0);
}

/* ---- objects ---- */

static void objects(void)
{
    MPIX_Stream s, same;
    MPI_Comm plain;
    MPI_Info info;
    char text[64];
    int flag = 0, len = sizeof text, size = 0;
    OK(MPIX_Comm_get_stream(comm, 0, &s));
    CHECK_EQ(s, xstream);
    FAILS(MPIX_Comm_get_stream(comm, 1, &s), MPI_ERR_ARG);
    OK(MPIX_Comm_get_stream(MPI_COMM_SELF, 0, &s));
    CHECK_EQ(s, MPIX_STREAM_NULL);
    OK(MPI_Comm_size(comm, &size));
    CHECK_EQ(size, mt_size);
    OK(MPI_Info_create(&info));
    OK(MPIX_Info_set_hex(info, "k", "\x01\xfe", 2));
    OK(MPI_Info_get_string(info, "k", &len, text, &flag));
    CHECK(flag && !strcmp(text, "01fe"));
    OK(MPI_Info_set(info, "type", "hipStream_t"));
    FAILS(MPIX_Stream_create(info, &s), MPI_ERR_INFO_VALUE);
    OK(MPI_Info_set(info, "type", "cudaStream_t"));
    FAILS(MPIX_Stream_create(info, &s), MPI_ERR_INFO_VALUE);
    OK(MPI_Info_set(info, "value", "xyz"));
    FAILS(MPIX_Stream_create(info, &s), MPI_ERR_INFO_VALUE);
    OK(MPI_Info_free(&info));
    /* A stream object without a device, as for threads, and no stream object: the communicators are
     * plain ones. */
    OK(MPIX_Stream_create(MPI_INFO_NULL, &s));
    OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, s, &plain));
    OK(MPI_Comm_set_errhandler(plain, MPI_ERRORS_RETURN));
    OK(MPI_Barrier(plain));
    FAILS(MPIX_Barrier_enqueue(plain), MPI_ERR_COMM);
    OK(MPI_Comm_free(&plain));
    same = s;
    OK(MPIX_Stream_free(&s));
    CHECK_EQ(s, MPIX_STREAM_NULL);
    FAILS(MPIX_Stream_free(&same), MPI_ERR_ARG);
    FAILS(MPIX_Stream_comm_create(MPI_COMM_WORLD, same, &plain), MPI_ERR_ARG);
    OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, MPIX_STREAM_NULL, &plain));
    OK(MPI_Comm_set_errhandler(plain, MPI_ERRORS_RETURN));
    FAILS(MPIX_Send_enqueue(in, 1, MPI_BYTE, 0, 0, plain), MPI_ERR_COMM);
    OK(MPI_Comm_free(&plain));
}

static void wrong_arguments(void)
{
    MPI_Request r = MPI_REQUEST_NULL;
    MPI_Status st;
    int x = 0;
    FAILS(MPIX_Allreduce_enqueue(in, out, 1, MPI_INT, MPI_SUM, mt_comm), MPI_ERR_COMM);
    FAILS(MPIX_Allreduce_enqueue(in, out, -1, MPI_INT, MPI_SUM, comm), MPI_ERR_COUNT);
    FAILS(MPIX_Allreduce_enqueue(in, out, 1, MPI_FLOAT, MPI_BAND, comm), MPI_ERR_OP);
    FAILS(MPIX_Allreduce_enqueue(in, out, 1, MPI_DATATYPE_NULL, MPI_SUM, comm), MPI_ERR_TYPE);
    FAILS(MPIX_Allreduce_enqueue(NULL, out, 1, MPI_INT, MPI_SUM, comm), MPI_ERR_BUFFER);
    FAILS(MPIX_Send_enqueue(in, 1, MPI_INT, mt_size, 0, comm), MPI_ERR_RANK);
    FAILS(MPIX_Send_enqueue(in, 1, MPI_INT, 0, -7, comm), MPI_ERR_TAG);
    FAILS(MPIX_Recv_enqueue(in, 1, MPI_INT, mt_size, 0, comm, &st), MPI_ERR_RANK);
    FAILS(MPIX_Bcast_enqueue(in, 1, MPI_INT, -1, comm), MPI_ERR_ROOT);
    OK(MPIX_Send_enqueue(in, 1, MPI_INT, MPI_PROC_NULL, 0, comm));
    OK(MPIX_Recv_enqueue(in, 1, MPI_INT, MPI_PROC_NULL, 0, comm, &st));
    CHECK_EQ(st.MPI_SOURCE, MPI_PROC_NULL);
    OK(MPIX_Wait_enqueue(&r, &st));
    OK(MPI_Irecv(&x, 1, MPI_INT, mt_rank, 3, mt_comm, &r));
    FAILS(MPIX_Wait_enqueue(&r, &st), MPI_ERR_REQUEST);
    OK(MPI_Send(&(int){ 1 }, 1, MPI_INT, mt_rank, 3, mt_comm));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    settle();
}

/* ---- messages ---- */

/* The same result on all ranks. */
static bool can_capture(void)
{
    cu_graph graph;
    CHECK_EQ(cu.stream_begin_capture(stream, CU_CAPTURE_GLOBAL), 0);
    int rc = MPIX_Barrier_enqueue(comm);
    CHECK_EQ(cu.stream_end_capture(stream, &graph), 0);
    CHECK_EQ(cu.graph_destroy(graph), 0);
    return rc == MPI_SUCCESS;
}

/* Whether processes take turns on a device: proxy threads run their collectives, with any
 * buffers. */
static bool take_turns(void)
{
    const char *mps = getenv("FAKE_CUDA_MPS");
    return mt_size > gt_ndevices() && !(mps && *mps == '1');
}

/* A send takes the contents of the buffer when the stream reaches the call, not earlier or later
 * contents. */
static void in_order(void)
{
    static const int lengths[] = { 0, 1, 777, 4096, BIG };
    MPI_Status st;
    int n;
    if (mt_peer == MPI_PROC_NULL)
        return;
    for (int k = 0; k < 5; k++)
        for (int i = 0; i < ROUNDS; i++) {
            int len = lengths[k];
            if (mt_first) {
                write_on(in, 16 * k + i, BIG);
                OK(MPIX_Send_enqueue(in, len, MPI_BYTE, mt_peer, 10 + i, comm));
                write_on(in, 0xff, BIG);
            } else {
                write_on(out, 0xaa, BIG);
                OK(MPIX_Recv_enqueue(out, BIG, MPI_BYTE, mt_peer, 10 + i, comm, &st));
                OK(MPI_Get_count(&st, MPI_BYTE, &n));
                CHECK_EQ(n, len);
                CHECK_EQ(st.MPI_SOURCE, mt_peer);
                CHECK_EQ(st.MPI_TAG, 10 + i);
                settle();
                CHECK_EQ(gt_unlike(out, (size_t)len, 16 * k + i), (size_t)len);
                CHECK_EQ(gt_unlike(out + len, (size_t)(BIG - len), 0xaa), (size_t)(BIG - len));
            }
        }
    settle();
}

static void both_ways(void)
{
    int to = (mt_rank + 1) % mt_size, from = (mt_rank + mt_size - 1) % mt_size;
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Request r[4];
        MPI_Status st[4];
        int half = BIG / 2;
        write_on(in, mt_rank + 10 * i, BIG);
        OK(MPIX_Irecv_enqueue(out, half, MPI_BYTE, from, 1, comm, &r[0]));
        OK(MPIX_Irecv_enqueue(out + half, half, MPI_BYTE, from, 2, comm, &r[1]));
        OK(MPIX_Isend_enqueue(in, half, MPI_BYTE, to, 2, comm, &r[2])); /* in reverse order */
        OK(MPIX_Isend_enqueue(in + half, half, MPI_BYTE, to, 1, comm, &r[3]));
        OK(MPIX_Waitall_enqueue(4, r, st));
        CHECK(r[0] == MPI_REQUEST_NULL && r[3] == MPI_REQUEST_NULL);
        CHECK_EQ(st[1].MPI_TAG, 2);
        write_on(in, 0xff, BIG);
        settle();
        CHECK_EQ(gt_unlike(out, (size_t)(2 * half), from + 10 * i), (size_t)(2 * half));
    }
}

static void wildcards_and_errors(void)
{
    MPI_Status st;
    MPI_Request r;
    if (mt_peer == MPI_PROC_NULL)
        return;
    if (mt_first) {
        write_on(in, 7, 100);
        OK(MPIX_Send_enqueue(in, 100, MPI_BYTE, mt_peer, 55, comm));
        OK(MPIX_Send_enqueue(in, 100, MPI_BYTE, mt_peer, 56, comm));
        OK(MPIX_Isend_enqueue(in, 1, MPI_BYTE, mt_peer, 57, comm, &r));
        OK(MPIX_Wait_enqueue(&r, MPI_STATUS_IGNORE));
    } else {
        OK(MPIX_Recv_enqueue(out, 100, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &st));
        CHECK_EQ(st.MPI_TAG, 55);
        FAILS(MPIX_Recv_enqueue(out, 99, MPI_BYTE, mt_peer, 56, comm, &st), MPI_ERR_TRUNCATE);
        OK(MPIX_Recv_enqueue(out, 1, MPI_BYTE, mt_peer, 57, comm, MPI_STATUS_IGNORE));
    }
    settle();
}

/* More short messages than the sender has slots, of lengths around groups, while requests have some
 * of the slots; also to this process itself.  Each send ends before it is received. */
static void many_short(void)
{
    enum { COUNT = 40, ROOM = 5000, HELD = 3 };
    MPI_Request r[HELD];
    MPI_Status st;
    int to = (mt_rank + 1) % mt_size, from = (mt_rank + mt_size - 1) % mt_size;
    if (!can_capture())
        return;
    for (int i = 0; i < HELD; i++) {
        write_on(in + i, 50 + mt_rank + i, 1);
        OK(MPIX_Isend_enqueue(in + i, 1, MPI_BYTE, to, 100 + i, comm, &r[i]));
    }
    for (int i = 0; i < COUNT; i++) {
        int len = i * i * 3;
        write_on(in + ROOM + 1, i + mt_rank, ROOM);
        OK(MPIX_Send_enqueue(in + ROOM + 1, len, MPI_BYTE, to, i % 3, comm));
        write_on(in + ROOM + 1, 0xff, ROOM);
        write_on(out + 3, 0xaa, ROOM);
        OK(MPIX_Recv_enqueue(out + 3, ROOM, MPI_BYTE, from, i % 3, comm, &st));
        settle();
        CHECK_EQ(gt_unlike(out + 3, (size_t)len, i + from), (size_t)len);
        CHECK_EQ(gt_unlike(out + 3 + len, (size_t)(ROOM - len), 0xaa), (size_t)(ROOM - len));
    }
    for (int i = HELD; i-- > 0;) {
        OK(MPIX_Recv_enqueue(out + i, 1, MPI_BYTE, from, 100 + i, comm, MPI_STATUS_IGNORE));
        OK(MPIX_Wait_enqueue(&r[i], MPI_STATUS_IGNORE));
    }
    settle();
    for (int i = 0; i < HELD; i++)
        CHECK_EQ(gt_unlike(out + i, 1, 50 + from + i), 1u);
}

/* The sender frees its communicator, and makes others, before the receiver takes the message. */
static void freed_by_sender(void)
{
    MPI_Comm c[4];
    int token = 0;
    if (mt_peer == MPI_PROC_NULL && mt_size > 1) {
        OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, xstream, &c[0]));
        OK(MPI_Comm_free(&c[0]));
    } else if (mt_size > 1) {
        OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, xstream, &c[0]));
        if (mt_first) {
            write_on(in, 77, 10);
            OK(MPIX_Send_enqueue(in, 10, MPI_BYTE, mt_peer, 1, c[0]));
            settle();
            OK(MPI_Comm_free(&c[0]));
            OK(MPI_Send(&token, 1, MPI_INT, mt_peer, 78, mt_comm));
        } else {
            OK(MPI_Recv(&token, 1, MPI_INT, mt_peer, 78, mt_comm, MPI_STATUS_IGNORE));
            OK(MPIX_Recv_enqueue(out, 10, MPI_BYTE, mt_peer, 1, c[0], MPI_STATUS_IGNORE));
            settle();
            CHECK_EQ(gt_unlike(out, 10, 77), 10u);
            OK(MPI_Comm_free(&c[0]));
        }
    }
    for (int i = 0; i < 4; i++) {
        OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, xstream, &c[i]));
        OK(MPIX_Barrier_enqueue(c[i]));
    }
    settle();
    for (int i = 0; i < 4; i++)
        OK(MPI_Comm_free(&c[i]));
}

/* More sends than there is room for their headers at a receiver that is late, and then a host that
 * waits in the driver, where it makes no progress for messages. */
static void far_ahead(void)
{
    enum { COUNT = 1500 };
    if (!can_capture() || mt_peer == MPI_PROC_NULL || mt_size == 1)
        return;
    write_on(mt_first ? in : out, mt_first ? 33 : 0, 8);
    settle();
    if (!mt_first)
        usleep(100000);
    for (int i = 0; i < COUNT; i++)
        if (mt_first)
            OK(MPIX_Send_enqueue(in, 8, MPI_BYTE, mt_peer, 3, comm));
        else
            OK(MPIX_Recv_enqueue(out, 8, MPI_BYTE, mt_peer, 3, comm, MPI_STATUS_IGNORE));
    settle();
    if (!mt_first)
        CHECK_EQ(gt_unlike(out, 8, 33), 8u);
}

/* The slots are all requests': the next sends take the path of long messages. */
static void no_slot_left(void)
{
    enum { SENDS = 20 };
    MPI_Request r[SENDS];
    int to = (mt_rank + 1) % mt_size, from = (mt_rank + mt_size - 1) % mt_size;
    for (int k = 0; k < 2; k++) {
        write_on(in, 9 + mt_rank + k, SENDS);
        for (int i = 0; i < SENDS; i++)
            OK(MPIX_Isend_enqueue(in + i, 1, MPI_BYTE, to, i, comm, &r[i]));
        for (int i = SENDS; i-- > 0;) /* in reverse order */
            OK(MPIX_Recv_enqueue(out + i, 1, MPI_BYTE, from, i, comm, MPI_STATUS_IGNORE));
        OK(MPIX_Waitall_enqueue(SENDS, r, MPI_STATUSES_IGNORE));
        settle();
        CHECK_EQ(gt_unlike(out, SENDS, 9 + from + k), (size_t)SENDS);
    }
}

/* ---- collectives ---- */

static void put_floats(void *p, int from, int n)
{
    for (int i = 0; i < n; i++)
        host[i] = (float)((from + i) % 100);
    gt_write(p, host, (size_t)n * sizeof host[0]);
}

static void sums(int n, int round, bool in_place)
{
    put_floats(in, mt_rank + round, n);
    for (int i = 0; i < n; i++) {
        want[i] = 0;
        for (int r = 0; r < mt_size; r++)
            want[i] += (float)((r + round + i) % 100);
    }
    if (in_place)
        OK(MPIX_Allreduce_enqueue(MPI_IN_PLACE, in, n, MPI_FLOAT, MPI_SUM, comm));
    else
        OK(MPIX_Allreduce_enqueue(in, out, n, MPI_FLOAT, MPI_SUM, comm));
    write_on(in + BIG - 1, 0, 1); /* data after the buffer */
    settle();
    gt_read(host, in_place ? in : out, (size_t)n * sizeof host[0]);
    CHECK_EQ(memcmp(host, want, (size_t)n * sizeof host[0]), 0);
}

static void reductions(void)
{
    static const int lengths[] = { 0, 1, 100, N };
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < ROUNDS; i++)
            sums(lengths[k], i, i % 2);
}

/* Several calls at once, without waiting between them. */
static void chained(void)
{
    enum { COUNT = 64 };
    uint16_t half[COUNT];
    for (int i = 0; i < COUNT; i++)
        half[i] = 0x3f80; /* 1.0 as bfloat16 */
    gt_write(in, half, sizeof half);
    OK(MPIX_Barrier_enqueue(comm));
    OK(MPIX_Allreduce_enqueue(in, out, COUNT, MPIX_BFLOAT16, MPI_SUM, comm));
    OK(MPIX_Allreduce_enqueue(out, in, COUNT, MPIX_BFLOAT16, MPI_MAX, comm));
    OK(MPIX_Reduce_enqueue(in, other, COUNT, MPIX_BFLOAT16, MPI_MAX, 0, comm));
    OK(MPIX_Bcast_enqueue(other, COUNT, MPIX_BFLOAT16, 0, comm));
    OK(MPIX_Allgather_enqueue(other, 2, MPIX_BFLOAT16, out, 2, MPIX_BFLOAT16, comm));
    OK(MPIX_Alltoall_enqueue(out, 2, MPIX_BFLOAT16, in, 2, MPIX_BFLOAT16, comm));
    settle();
    gt_read(half, in, sizeof half);
    float f = (float)mt_size;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    for (int i = 0; i < 2 * mt_size; i++)
        CHECK_EQ(half[i], bits >> 16);
}

static void user_sum(void *a, void *b, int *n, MPI_Datatype *t)
{
    (void)t;
    for (int i = 0; i < *n; i++)
        ((int *)b)[i] += ((int *)a)[i];
}

/* Host buffers, a type with gaps, a user operation: right results, after the stream. */
static void by_host(void)
{
    int mine[4] = { mt_rank, 1, 2, 3 }, all[4] = { 0 };
    MPI_Datatype gaps;
    MPI_Op op;
    OK(MPIX_Allreduce_enqueue(mine, all, 4, MPI_INT, MPI_SUM, comm));
    settle();
    CHECK_EQ(all[0], mt_size * (mt_size - 1) / 2);
    CHECK_EQ(all[3], 3 * mt_size);
    gt_write(in, mine, sizeof mine);
    OK(MPI_Op_create(user_sum, 1, &op));
    OK(MPIX_Allreduce_enqueue(in, out, 4, MPI_INT, op, comm));
    OK(MPI_Op_free(&op));
    settle();
    gt_read(all, out, sizeof all);
    CHECK_EQ(all[2], 2 * mt_size);
    if (mt_peer == MPI_PROC_NULL)
        return;
    OK(MPI_Type_vector(50, 1, 2, MPI_BYTE, &gaps));
    OK(MPI_Type_commit(&gaps));
    if (mt_first) {
        write_on(in, 3, 200);
        OK(MPIX_Send_enqueue(in, 1, gaps, mt_peer, 1, comm));      /* gaps at the sender, */
        OK(MPIX_Send_enqueue(in, 50, MPI_BYTE, mt_peer, 2, comm)); /* at the receiver, */
        OK(MPIX_Send_enqueue(mine, 4, MPI_INT, mt_peer, 3, comm)); /* host memory at the sender, */
        OK(MPIX_Send_enqueue(in, 16, MPI_BYTE, mt_peer, 4, comm)); /* at the receiver */
    } else {
        write_on(out, 0, 400);
        OK(MPIX_Recv_enqueue(out, 50, MPI_BYTE, mt_peer, 1, comm, MPI_STATUS_IGNORE));
        OK(MPIX_Recv_enqueue(out + 100, 1, gaps, mt_peer, 2, comm, MPI_STATUS_IGNORE));
        OK(MPIX_Recv_enqueue(out + 300, 4, MPI_INT, mt_peer, 3, comm, MPI_STATUS_IGNORE));
        OK(MPIX_Recv_enqueue(all, 16, MPI_BYTE, mt_peer, 4, comm, MPI_STATUS_IGNORE));
        settle();
        CHECK_EQ(gt_unlike(out, 50, 3), 50u);
        gt_read(mine, out + 100, 4);
        CHECK_EQ(mine[0], 0x00030003);
        gt_read(mine, out + 300, 16);
        CHECK_EQ(mine[0], mt_peer);
        CHECK_EQ(all[0], 0x03030303);
    }
    settle();
    OK(MPI_Type_free(&gaps));
}

/* ---- graphs ---- */

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
    int to = (mt_rank + 1) % mt_size, from = (mt_rank + mt_size - 1) % mt_size;
    MPI_Request r[2];
    OK(MPIX_Allreduce_enqueue(in, out, N, MPI_FLOAT, MPI_SUM, comm));
    OK(MPIX_Irecv_enqueue(other, N, MPI_FLOAT, from, 9, comm, &r[0]));
    OK(MPIX_Isend_enqueue(in, N, MPI_FLOAT, to, 9, comm, &r[1]));
    OK(MPIX_Waitall_enqueue(2, r, MPI_STATUSES_IGNORE));
}

static void check_step(int round)
{
    int from = (mt_rank + mt_size - 1) % mt_size;
    gt_read(host, out, sizeof host);
    for (int i = 0; i < N; i++) {
        float sum = 0;
        for (int r = 0; r < mt_size; r++)
            sum += (float)((r + round + i) % 100);
        want[i] = sum;
    }
    CHECK_EQ(memcmp(host, want, sizeof host), 0);
    gt_read(host, other, sizeof host);
    for (int i = 0; i < N; i++)
        want[i] = (float)((from + round + i) % 100);
    CHECK_EQ(memcmp(host, want, sizeof host), 0);
}

static void graphs_in(int mode)
{
    cu_graph_exec exec = captured(mode, a_step);
    for (int i = 0; i < ROUNDS; i++) {
        put_floats(in, mt_rank + i, N);
        write_on(out, 0xff, N * sizeof(float));
        CHECK_EQ(cu.graph_launch(exec, stream), 0);
        if (i == 3)
            OK(MPIX_Barrier_enqueue(comm)); /* ordinary work in between */
        settle();
        check_step(i);
    }
    for (int i = 0; i < 20; i++) /* many at once */
        CHECK_EQ(cu.graph_launch(exec, stream), 0);
    settle();
    check_step(ROUNDS - 1);
    CHECK_EQ(cu.graph_exec_destroy(exec), 0);
}

/* Short messages in both directions, twice, in a ring; with wildcards. */
static void message_step(void)
{
    int to = (mt_rank + 1) % mt_size, from = (mt_rank + mt_size - 1) % mt_size;
    MPI_Status st;
    OK(MPIX_Send_enqueue(in, N, MPI_BYTE, to, 5, comm));
    OK(MPIX_Recv_enqueue(out, N, MPI_BYTE, MPI_ANY_SOURCE, 5, comm, &st));
    CHECK_EQ(st.MPI_SOURCE, from);
    OK(MPIX_Send_enqueue(out, 8, MPI_BYTE, from, 6, comm));
    OK(MPIX_Recv_enqueue(other, 8, MPI_BYTE, to, MPI_ANY_TAG, comm, &st));
    CHECK_EQ(st.MPI_TAG, 6);
}

/* Two graphs in turn, ordinary messages between them, more launches than slots at once. */
static void graphs_of_messages(void)
{
    int from = (mt_rank + mt_size - 1) % mt_size;
    cu_graph_exec exec[2];
    for (int i = 0; i < 2; i++)
        exec[i] = captured(CU_CAPTURE_GLOBAL, message_step);
    for (int i = 0; i < 30; i++) {
        write_on(in, mt_rank + i, N);
        write_on(out, 0xff, N);
        write_on(other, 0xff, 8);
        if (i % 4 == 3)
            message_step();
        else
            CHECK_EQ(cu.graph_launch(exec[i % 3 == 1], stream), 0);
        if (i % 5)
            continue;
        settle();
        CHECK_EQ(gt_unlike(out, N, from + i), (size_t)N);
        CHECK_EQ(gt_unlike(other, 8, mt_rank + i), 8u);
    }
    settle();
    for (int i = 0; i < 2; i++)
        CHECK_EQ(cu.graph_exec_destroy(exec[i]), 0);
}

/* The other collectives: each block has M numbers; contributions of several ranks are in `out`. */
enum { M = 300, GATHERED = M, EXCHANGED = M + 16 * M };

static float *block_of_out(int at) { return (float *)(void *)out + at; }

static void other_step(void)
{
    int root = mt_size - 1;
    OK(MPIX_Reduce_enqueue(in, out, M, MPI_FLOAT, MPI_SUM, root, comm));
    OK(MPIX_Allgather_enqueue(in, M, MPI_FLOAT, block_of_out(GATHERED), M, MPI_FLOAT, comm));
    OK(MPIX_Barrier_enqueue(comm));
    OK(MPIX_Alltoall_enqueue(in, M, MPI_FLOAT, block_of_out(EXCHANGED), M, MPI_FLOAT, comm));
    OK(MPIX_Bcast_enqueue(other, M, MPI_FLOAT, root, comm));
}

/* Checks M consecutive numbers starting with `from`. */
static void check_count(const void *p, int from, const char *what)
{
    gt_read(host, p, M * sizeof host[0]);
    for (int i = 0; i < M; i++)
        if (host[i] != (float)((from + i) % 100)) {
            CHECK_MSG(0, "rank %d: %s: number %d is %g, not %d", mt_rank, what, i, (double)host[i],
                      (from + i) % 100);
            return;
        }
}

static void check_other_step(int round)
{
    for (int r = 0; r < mt_size; r++) {
        check_count(block_of_out(GATHERED + r * M), r + round, "allgather");
        check_count(block_of_out(EXCHANGED + r * M), r + round + mt_rank * M, "alltoall");
    }
    check_count(other, mt_size - 1 + round, "bcast");
    if (mt_rank != mt_size - 1)
        return;
    gt_read(host, out, M * sizeof host[0]);
    for (int i = 0; i < M; i++) {
        float sum = 0;
        for (int r = 0; r < mt_size; r++)
            sum += (float)((r + round + i) % 100);
        CHECK_EQ(host[i], sum);
    }
}

static void graphs_of_others(void)
{
    cu_graph_exec exec = captured(CU_CAPTURE_GLOBAL, other_step);
    for (int i = 0; i < ROUNDS; i++) {
        put_floats(in, mt_rank + i, M * mt_size);
        put_floats(other, mt_rank + i, M);
        write_on(out, 0xff, (EXCHANGED + 16 * M) * sizeof(float));
        CHECK_EQ(cu.graph_launch(exec, stream), 0);
        settle();
        check_other_step(i);
    }
    CHECK_EQ(cu.graph_exec_destroy(exec), 0);
}

/* Blocks of different lengths, r + 1 numbers for rank r; contributions of several ranks are in
 * `out` with gaps between them. */
enum { STEP = 20, GV = 16 * STEP, AV = 2 * GV, SV = 3 * GV, RS = 4 * GV, RB = 5 * GV };

static void v_step_on(unsigned char *to)
{
    float *at = (float *)(void *)to;
    int counts[16], displs[16], alike[16], root = mt_size / 2, mine = mt_rank + 1;
    for (int r = 0; r < mt_size; r++) {
        counts[r] = r + 1;
        displs[r] = STEP * r;
        alike[r] = mine;
    }
    OK(MPIX_Allgatherv_enqueue(in, mine, MPI_FLOAT, to, counts, displs, MPI_FLOAT, comm));
    OK(MPIX_Gatherv_enqueue(in, mine, MPI_FLOAT, at + GV, counts, displs, MPI_FLOAT, root, comm));
    OK(MPIX_Alltoallv_enqueue(in, counts, displs, MPI_FLOAT, at + AV, alike, displs, MPI_FLOAT,
                              comm));
    OK(MPIX_Scatterv_enqueue(in, counts, displs, MPI_FLOAT, at + SV, mine, MPI_FLOAT, root, comm));
    OK(MPIX_Reduce_scatter_enqueue(in, at + RS, counts, MPI_FLOAT, MPI_SUM, comm));
    OK(MPIX_Reduce_scatter_block_enqueue(in, at + RB, 3, MPI_FLOAT, MPI_SUM, comm));
}

static void v_step(void) { v_step_on(out); }

static void check_block(int at, int n, int from, int ranks, const char *what)
{
    gt_read(host, block_of_out(at), (size_t)n * sizeof host[0]);
    for (int i = 0; i < n; i++) {
        float sum = 0;
        for (int r = 0; r < ranks; r++)
            sum += (float)((from + r + i) % 100);
        CHECK_MSG(host[i] == sum, "rank %d: %s: number %d is %g, not %g", mt_rank, what, i,
                  (double)host[i], (double)sum);
    }
}

static void check_v_step(int round)
{
    int root = mt_size / 2, before = mt_rank * (mt_rank + 1) / 2;
    for (int r = 0; r < mt_size; r++) {
        check_block(STEP * r, r + 1, r + round, 1, "allgatherv");
        if (mt_rank == root)
            check_block(GV + STEP * r, r + 1, r + round, 1, "gatherv");
        check_block(AV + STEP * r, mt_rank + 1, r + round + STEP * mt_rank, 1, "alltoallv");
    }
    check_block(SV, mt_rank + 1, root + round + STEP * mt_rank, 1, "scatterv");
    check_block(RS, mt_rank + 1, round + before, mt_size, "reduce_scatter");
    check_block(RB, 3, round + 3 * mt_rank, mt_size, "reduce_scatter_block");
    gt_read(host, block_of_out(1), sizeof host[0]); /* a gap */
    CHECK_EQ(memcmp(host, "\xff\xff\xff\xff", 4), 0);
}

/* No call waits, also without the devices' help; then in a graph. */
static void v_forms(void)
{
    for (int i = 0; i < 2; i++) {
        put_floats(in, mt_rank + i, N);
        write_on(out, 0xff, 6 * GV * sizeof(float));
        v_step();
        settle();
        check_v_step(i);
    }
    if (!can_capture())
        return;
    cu_graph_exec exec = captured(CU_CAPTURE_GLOBAL, v_step);
    for (int i = 0; i < ROUNDS; i++) {
        put_floats(in, mt_rank + i, N);
        write_on(out, 0xff, 6 * GV * sizeof(float));
        CHECK_EQ(cu.graph_launch(exec, stream), 0);
        settle();
        check_v_step(i);
    }
    CHECK_EQ(cu.graph_exec_destroy(exec), 0);
}

static void wrong_vectors(void)
{
    int counts[16] = { 0 }, displs[16] = { 0 };
    FAILS(MPIX_Reduce_scatter_enqueue(in, out, NULL, MPI_INT, MPI_SUM, comm), MPI_ERR_ARG);
    FAILS(MPIX_Reduce_scatter_block_enqueue(in, out, -1, MPI_INT, MPI_SUM, comm), MPI_ERR_COUNT);
    FAILS(MPIX_Allgatherv_enqueue(in, 1, MPI_INT, out, counts, NULL, MPI_INT, comm), MPI_ERR_ARG);
    FAILS(MPIX_Alltoallv_enqueue(in, counts, displs, MPI_DATATYPE_NULL, out, counts, displs,
                                 MPI_INT, comm),
          MPI_ERR_TYPE);
    FAILS(MPIX_Gatherv_enqueue(in, 1, MPI_INT, out, counts, displs, MPI_INT, mt_size, comm),
          MPI_ERR_ROOT);
    counts[0] = -1;
    FAILS(MPIX_Scatterv_enqueue(in, counts, displs, MPI_INT, out, 1, MPI_INT, mt_rank, comm),
          MPI_ERR_COUNT);
}

/* No host waits for another process's call: rank 0's calls return before the others make theirs. */
static void alone(void)
{
    int token = 1, all = mt_size * (mt_size - 1) / 2, sum[2] = { mt_rank, 0 };
    if (!can_capture()) /* the hosts do the work */
        return;
    gt_write(in, sum, sizeof sum[0]);
    OK(MPI_Barrier(mt_comm));
    if (mt_rank > 0)
        OK(MPI_Recv(&token, 1, MPI_INT, mt_rank - 1, 77, mt_comm, MPI_STATUS_IGNORE));
    OK(MPIX_Allreduce_enqueue(in, out, 1, MPI_INT, MPI_SUM, comm));
    OK(MPIX_Bcast_enqueue(out, 1, MPI_INT, mt_size - 1, comm));
    OK(MPIX_Barrier_enqueue(comm));
    if (mt_rank < mt_size - 1)
        OK(MPI_Send(&token, 1, MPI_INT, mt_rank + 1, 77, mt_comm));
    settle();
    gt_read(sum, out, sizeof sum[0]);
    CHECK_EQ(sum[0], all);
}

/* Counts that are not the same on all: for a long call an error on all at once, and nothing has
 * happened. */
static void differing(void)
{
    enum { LEN = 600000 };
    unsigned char *p = gt_alloc(GT_CUDA, dev, (LEN + 1) * sizeof(int), 0);
    if (mt_size > 1 && can_capture() && !take_turns())
        FAILS(MPIX_Allreduce_enqueue(MPI_IN_PLACE, p, LEN + (mt_rank == 1), MPI_INT, MPI_SUM, comm),
              MPI_ERR_TRUNCATE);
    gt_free(p);
}

static void graphs(void)
{
    if (!can_capture()) {
        mt_skip("devices do not reach each other");
        return;
    }
    graphs_in(CU_CAPTURE_GLOBAL);
    graphs_in(CU_CAPTURE_THREAD_LOCAL);
    graphs_in(CU_CAPTURE_RELAXED);
    graphs_of_messages();
    if (M * mt_size <= N)
        graphs_of_others();
}

static void what_cannot(void)
{
    int x = 1, y = 0;
    FAILS(MPIX_Allreduce_enqueue(&x, &y, 1, MPI_INT, MPI_SUM, comm), MPI_ERR_UNSUPPORTED_OPERATION);
    FAILS(MPIX_Send_enqueue(&x, 1, MPI_INT, (mt_rank + 1) % mt_size, 0, comm),
          MPI_ERR_UNSUPPORTED_OPERATION);
}

static void not_captured(void)
{
    if (!take_turns())
        CHECK_EQ(cu.graph_exec_destroy(captured(CU_CAPTURE_GLOBAL, what_cannot)), 0);
    sums(100, 1, false);
}

/* Messages that are not part of their thread's capture, each launching its own kernel. */
static void ordinary_messages(void)
{
    int to = (mt_rank + 1) % mt_size, from = (mt_rank + mt_size - 1) % mt_size;
    for (int len = 8; len <= 32768; len *= 8) {
        usleep(1000); /* the polling kernel has left */
        OK(MPI_Sendrecv(in, len, MPI_BYTE, to, 6, out + len, len, MPI_BYTE, from, 6, mt_comm,
                        MPI_STATUS_IGNORE));
    }
}

static void messages_beside_a_capture(void)
{
    int from = (mt_rank + mt_size - 1) % mt_size;
    for (int i = 0; i < 2; i++) {
        cu_graph_exec exec = NULL;
        write_on(in, 1 + mt_rank + 10 * i, BIG);
        write_on(out, 0xee, BIG);
        settle();
        OK(MPI_Barrier(mt_comm)); /* all buffers are written */
        if (i == 0)               /* memory is allocated and mapped */
            ordinary_messages();
        else
            exec = captured(CU_CAPTURE_GLOBAL, ordinary_messages);
        for (int len = 8; len <= 32768; len *= 8)
            CHECK_EQ(gt_unlike(out + len, (size_t)len, 1 + from + 10 * i), (size_t)len);
        if (exec)
            CHECK_EQ(cu.graph_exec_destroy(exec), 0);
    }
}

/* Freed while its work continues. */
static void freed_early(void)
{
    MPI_Comm c;
    for (int i = 0; i < ROUNDS; i++) {
        OK(MPIX_Stream_comm_create(comm, xstream, &c));
        put_floats(in, mt_rank, 100);
        OK(MPIX_Allreduce_enqueue(in, out, 100, MPI_FLOAT, MPI_MAX, c));
        OK(MPI_Comm_free(&c));
        settle();
        gt_read(host, out, 4);
        CHECK(host[0] == (float)(mt_size - 1));
    }
}

/* The default stream, and a communicator in which one process has no stream. */
static void other_streams(void)
{
    MPIX_Stream s = stream_of(NULL);
    MPI_Comm c;
    OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, s, &c));
    put_floats(in, mt_rank, 100);
    OK(MPIX_Allreduce_enqueue(in, out, 100, MPI_FLOAT, MPI_MAX, c));
    CHECK_EQ(cu.stream_synchronize(NULL), 0);
    gt_read(host, out, 4);
    CHECK(host[0] == (float)(mt_size - 1));
    OK(MPI_Comm_free(&c));
    OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, mt_rank ? s : MPIX_STREAM_NULL, &c));
    OK(MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN));
    FAILS(MPIX_Allreduce_enqueue(in, out, 100, MPI_FLOAT, MPI_MAX, c), MPI_ERR_COMM);
    OK(MPI_Comm_free(&c));
    OK(MPIX_Stream_free(&s));
}

/* A result in the memory of another device of the process: the stream's device gets access to that
 * memory, or the host does the work. */
static void other_device(void)
{
    unsigned char *p = gt_alloc(GT_CUDA, (dev + 1) % gt_ndevices(), 400, 0);
    put_floats(in, mt_rank, 100);
    OK(MPIX_Allreduce_enqueue(in, p, 100, MPI_FLOAT, MPI_MAX, comm));
    settle();
    gt_read(host, p, 4);
    CHECK(host[0] == (float)(mt_size - 1));
    gt_free(p);
}

/* How often the fake driver's function has been called; -1: another driver, or counting is off. */
static long ncalled(const char *what)
{
    fake_cuda_seen_fn *seen = (fake_cuda_seen_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "fake_cuda_seen");
    const char *rules = getenv("FAKE_CUDA_FAIL");
    return seen && rules && strstr(rules, what) ? seen(what) : -1;
}

static long ncopies(void) { return ncalled("cuMemcpyAsync"); }

/* A send, a receive, and the same with requests. */
static void ring_on(unsigned char *p)
{
    int to = (mt_rank + 1) % mt_size, from = (mt_rank + mt_size - 1) % mt_size;
    MPI_Request r[2];
    OK(MPIX_Send_enqueue(p, 4000, MPI_BYTE, to, 1, comm));
    OK(MPIX_Recv_enqueue(p + 5000, 4000, MPI_BYTE, from, 1, comm, MPI_STATUS_IGNORE));
    OK(MPIX_Irecv_enqueue(p, 8, MPI_BYTE, from, 2, comm, &r[0]));
    OK(MPIX_Isend_enqueue(p + 5000, 8, MPI_BYTE, to, 2, comm, &r[1]));
    OK(MPIX_Waitall_enqueue(2, r, MPI_STATUSES_IGNORE));
}

/* A short call is one kernel and no copy, in place or not, whatever its buffers' memory. */
static void one_kernel(void)
{
    static const enum gt_kind kinds[] = { GT_CUDA, GT_POOL_OWN, GT_VMM_PARTS, GT_MANAGED };
    int root = mt_size - 1;
    if (!can_capture() || ncopies() < 0)
        return;
    for (int i = 0; i < 4; i++) {
        unsigned char *p = gt_alloc(kinds[i], dev, 3 << 20, 0);
        long kernels = ncalled("cuLaunchKernel"), copies = ncopies();
        OK(MPIX_Allreduce_enqueue(MPI_IN_PLACE, p, 1000, MPI_INT, MPI_MIN, comm));
        OK(MPIX_Allreduce_enqueue(in, p, 1000, MPI_INT, MPI_SUM, comm));
        OK(MPIX_Reduce_enqueue(in, p, 1000, MPI_INT, MPI_BXOR, root, comm));
        OK(MPIX_Bcast_enqueue(p, 1000, MPI_INT, root, comm));
        OK(MPIX_Allgather_enqueue(in, 10, MPI_INT, p, 10, MPI_INT, comm));
        OK(MPIX_Alltoall_enqueue(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, p, 10, MPI_INT, comm));
        OK(MPIX_Reduce_scatter_block_enqueue(MPI_IN_PLACE, p, 10, MPI_INT, MPI_SUM, comm));
        OK(MPIX_Barrier_enqueue(comm));
        CHECK_EQ(ncalled("cuLaunchKernel") - kernels, 8);
        kernels = ncalled("cuLaunchKernel");
        v_step_on(p);
        CHECK_EQ(ncalled("cuLaunchKernel") - kernels, 6);
        kernels = ncalled("cuLaunchKernel");
        ring_on(p);
        CHECK_EQ(ncalled("cuLaunchKernel") - kernels, 4);
        CHECK_EQ(ncopies() - copies, 0);
        settle();
        gt_free(p);
    }
}

/* Blocks that engines would bring to one rank after another: with direct links a kernel brings them
 * to all. */
static void long_blocks(void)
{
    enum { LEN = 5 << 20 };
    unsigned char *p = gt_alloc(GT_CUDA, dev, LEN * (size_t)mt_size, 0),
                  *q = gt_alloc(GT_CUDA, dev, LEN * (size_t)mt_size, 0);
    long before = ncopies();
    if (mt_rank == 0)
        gt_fill(p, LEN, 1);
    OK(MPIX_Bcast_enqueue(p, LEN, MPI_BYTE, 0, comm));
    settle();
    GT_CHECK_DATA(p, LEN, 1);
    for (int i = 0; i < mt_size; i++)
        gt_fill(p + (size_t)i * LEN, LEN, (uint64_t)(100 * mt_rank + i));
    if (before >= 0 && mt_size > 2 && gt_kernels()) {
        long after = ncopies();
        OK(MPIX_Alltoall_enqueue(p, LEN, MPI_BYTE, q, LEN, MPI_BYTE, comm));
        settle();
        OK(MPIX_Bcast_enqueue(p, LEN, MPI_BYTE, 0, comm));
        settle();
        CHECK_MSG(ncopies() == after, "%ld copies by engines", ncopies() - after);
    } else {
        OK(MPIX_Alltoall_enqueue(p, LEN, MPI_BYTE, q, LEN, MPI_BYTE, comm));
        settle();
    }
    for (int i = 0; i < mt_size; i++)
        GT_CHECK_DATA(q + (size_t)i * LEN, LEN, (uint64_t)(100 * i + mt_rank));
    gt_free(p);
    gt_free(q);
}

int main(int argc, char **argv)
{
    gt_need(1);
    mt_init(argc, argv);
    dev = mt_rank % gt_ndevices();
    gt_use(dev);
    setup();
    MT_RUN(objects);
    MT_RUN(wrong_arguments);
    MT_RUN(in_order);
    MT_RUN(both_ways);
    MT_RUN(wildcards_and_errors);
    MT_RUN(many_short);
    MT_RUN(no_slot_left);
    MT_RUN(far_ahead);
    MT_RUN(freed_by_sender);
    MT_RUN(reductions);
    MT_RUN(chained);
    MT_RUN(by_host);
    MT_RUN(alone);
    MT_RUN(differing);
    MT_RUN(graphs);
    MT_RUN(v_forms);
    MT_RUN(wrong_vectors);
    MT_RUN(not_captured);
    MT_RUN(messages_beside_a_capture);
    MT_RUN(freed_early);
    MT_RUN(other_streams);
    MT_RUN(other_device);
    MT_RUN(one_kernel);
    MT_RUN(long_blocks);
    teardown();
    return mt_end();
}
