/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages with device buffers during a stream capture, by the sending thread or by another one,
 * including the first message of the process: the messages arrive, and the capture is the same as
 * without them.
 *     p2p_capture [rounds=N] */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "test/gpu/gputest.h"
#include "test/mpi/mpitest.h"

static const size_t lens[] = { 8, 5000, 300000, 3000000 };
enum { NLENS = 4 };

static const enum gt_kind kinds[] = { GT_CUDA, GT_VMM, GT_POOL, GT_POOL_OWN };
enum { NKINDS = 4 };

static int dev, rounds = 3;
static cu_stream stream;
static cu_ptr scratch;
static unsigned char *buf[NKINDS][NLENS];

/* ---- the capture ---- */

static void begin(int mode)
{
    CHECK_EQ(cu.stream_begin_capture(stream, mode), CU_OK);
    CHECK_EQ(cu.memset_d8_async(scratch, 1, 64, stream), CU_OK);
}

static void end(const char *who, int mode)
{
    cu_graph graph = NULL;
    cu_result r = cu.stream_end_capture(stream, &graph);

    CHECK_MSG(r == CU_OK && graph, "rank %d: the capture of %s in mode %d ended with %d", mt_rank,
              who, mode, r);
    if (graph)
        CHECK_EQ(cu.graph_destroy(graph), CU_OK);
}

static struct other {
    pthread_t thread;
    pthread_barrier_t at;
    int mode;
} other;

static void *capture_main(void *arg)
{
    (void)arg;
    CHECK_EQ(cu.ctx_set_current(gt_ctx(dev)), CU_OK);
    begin(other.mode);
    pthread_barrier_wait(&other.at);
    pthread_barrier_wait(&other.at);
    end("another thread", other.mode);
    return NULL;
}

/* ---- messages ---- */

static void send_all(int to, unsigned char *p[NKINDS][NLENS])
{
    for (int k = 0; k < NKINDS; k++)
        for (int i = 0; i < NLENS; i++)
            OK(MPI_Send(p[k][i], (int)lens[i], MPI_BYTE, to, 10 * k + i, mt_comm));
}

static void recv_all(int from, unsigned char *p[NKINDS][NLENS])
{
    for (int k = 0; k < NKINDS; k++)
        for (int i = 0; i < NLENS; i++)
            OK(MPI_Recv(p[k][i], (int)lens[i], MPI_BYTE, from, 10 * k + i, mt_comm,
                        MPI_STATUS_IGNORE));
}

static void fill(uint64_t key)
{
    for (int k = 0; k < NKINDS; k++)
        for (int i = 0; i < NLENS; i++)
            gt_fill(buf[k][i], lens[i], mt_first ? key : 99);
}

static void check(uint64_t key)
{
    for (int k = 0; k < NKINDS; k++)
        for (int i = 0; i < NLENS; i++)
            GT_CHECK_DATA(buf[k][i], lens[i], key);
}

static void messages(void)
{
    if (mt_first)
        send_all(mt_peer, buf);
    else
        recv_all(mt_peer, buf);
}

static void beside(int mode, bool by_other, uint64_t key)
{
    fill(key);
    if (by_other) {
        other.mode = mode;
        CHECK_EQ(pthread_create(&other.thread, NULL, capture_main, NULL), 0);
        pthread_barrier_wait(&other.at);
    } else {
        begin(mode);
    }
    messages();
    if (by_other) {
        pthread_barrier_wait(&other.at);
        pthread_join(other.thread, NULL);
    } else {
        end("this thread", mode);
    }
    check(key);
}

static void all_modes(void)
{
    uint64_t key = 1;

    if (mt_peer == MPI_PROC_NULL)
        return;
    for (int round = 0; round < rounds; round++)
        for (int mode = CU_CAPTURE_GLOBAL; mode <= CU_CAPTURE_RELAXED; mode++)
            for (int by_other = 0; by_other < 2; by_other++)
                beside(mode, by_other, key++);
    fill(key); /* and after them */
    messages();
    check(key);
}

int main(int argc, char **argv)
{
    gt_need(1);
    mt_init(argc, argv);
    dev = mt_rank % gt_ndevices();
    gt_use(dev);
    for (int i = 1; i < argc; i++)
        if (!strncmp(argv[i], "rounds=", 7))
            rounds = atoi(argv[i] + 7);
    pthread_barrier_init(&other.at, NULL, 2);
    CHECK_EQ(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING), CU_OK);
    CHECK_EQ(cu.mem_alloc(&scratch, 64), CU_OK);
    for (int k = 0; k < NKINDS; k++)
        for (int i = 0; i < NLENS; i++)
            buf[k][i] = gt_alloc(kinds[k], dev, lens[i], 0);
    MT_RUN(all_modes);
    for (int k = 0; k < NKINDS; k++)
        for (int i = 0; i < NLENS; i++)
            gt_free(buf[k][i]);
    CHECK_EQ(cu.mem_free(scratch), CU_OK);
    CHECK_EQ(cu.stream_destroy(stream), CU_OK);
    return mt_end();
}
