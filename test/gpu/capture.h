/* SPDX-License-Identifier: BSD-3-Clause */
/* A stream capture by this thread or by another one, in any mode, while the program calls MPI: the
 * calls succeed, and the capture is the same as without them. */
#ifndef TEST_GPU_CAPTURE_H
#define TEST_GPU_CAPTURE_H

#include <pthread.h>
#include "test/gpu/gputest.h"
#include "test/mpi/mpitest.h"

static int dev;
static cu_stream stream;
static cu_ptr scratch;
static struct {
    pthread_t thread;
    pthread_barrier_t at;
    int mode;
} other;

static void capture_open(void)
{
    pthread_barrier_init(&other.at, NULL, 2);
    CHECK_EQ(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING), CU_OK);
    CHECK_EQ(cu.mem_alloc(&scratch, 64), CU_OK);
}

static void capture_close(void)
{
    CHECK_EQ(cu.mem_free(scratch), CU_OK);
    CHECK_EQ(cu.stream_destroy(stream), CU_OK);
}

static void capture_begin(int mode)
{
    CHECK_EQ(cu.stream_begin_capture(stream, mode), CU_OK);
    CHECK_EQ(cu.memset_d8_async(scratch, 1, 64, stream), CU_OK);
}

static void capture_end(const char *who, int mode)
{
    cu_graph graph = NULL;
    cu_result r = cu.stream_end_capture(stream, &graph);

    CHECK_MSG(r == CU_OK && graph, "rank %d: the capture of %s in mode %d ended with %d", mt_rank,
              who, mode, r);
    if (graph)
        CHECK_EQ(cu.graph_destroy(graph), CU_OK);
}

static void *capture_main(void *arg)
{
    (void)arg;
    CHECK_EQ(cu.ctx_set_current(gt_ctx(dev)), CU_OK);
    capture_begin(other.mode);
    pthread_barrier_wait(&other.at);
    pthread_barrier_wait(&other.at);
    capture_end("another thread", other.mode);
    return NULL;
}

/* Calls `what` during a capture. */
static void capture_beside(int mode, bool by_other, void (*what)(void))
{
    if (by_other) {
        other.mode = mode;
        CHECK_EQ(pthread_create(&other.thread, NULL, capture_main, NULL), 0);
        pthread_barrier_wait(&other.at);
    } else {
        capture_begin(mode);
    }
    what();
    if (by_other) {
        pthread_barrier_wait(&other.at);
        pthread_join(other.thread, NULL);
    } else {
        capture_end("this thread", mode);
    }
}

#endif
