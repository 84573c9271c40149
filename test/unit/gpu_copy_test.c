/* SPDX-License-Identifier: BSD-3-Clause */
/* runtime/gpu/copy.c, flight.c, linger.c and model.c over a device that the test advances step by
 * step: which path copies take, how many operations run at a time, that done() is called once and
 * after the data have arrived, and what happens if the driver fails. */
#include "test/unit/gpu_copy_dev.h"
#include "test/unit/capture.h"
#include "test/check.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

struct job {
    struct rt_gpu_op op; /* first */
    int ndone, err;
    bool right; /* the data were there when done() was called */
};

static char *here, *there, *host; /* device memory, another device's, pinned */
#define ROOM (24u << 20)
static struct job jobs[512];

static void fill(char *p, size_t n)
{
    static uint64_t x = 88172645463325252u;
    for (size_t i = 0; i < n; i += sizeof x) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        memcpy(p + i, &x, sizeof x);
    }
}

static void is_done(struct rt_gpu_op *op, int err)
{
    struct job *j = (struct job *)op;
    j->ndone++;
    j->err = err;
    j->right = op->len == 0 || memcmp(op->dst, op->src, op->len) == 0;
}

static void copy(struct rt_gpu *g, struct job *j, void *dst, const void *src, size_t len)
{
    *j = (struct job){ .op.done = is_done };
    rt_gpu_copy(g, dst, src, len, &j->op);
}

static struct rt_gpu *start(bool kernels, bool writes)
{
    struct rt_gpu *g = dev_open(kernels, writes);
    here = dev_mem(0, ROOM);
    there = dev_mem(1, ROOM);
    host = dev_mem(-1, ROOM);
    fill(there, ROOM);
    memset(here, 0x5a, ROOM);
    return g;
}

static void finish(struct rt_gpu *g)
{
    dev_close(g);
    free(host);
    CHECK_EQ(rt_gpu_nactive, 0);
}

static void expect_good(const struct job *j, int n)
{
    for (int i = 0; i < n; i++) {
        CHECK_EQ(j[i].ndone, 1);
        CHECK_EQ(j[i].err, 0);
        CHECK(j[i].right);
    }
}

/* ---- the polling kernel ---- */

static void lone_small_copies_use_the_ring(void)
{
    struct rt_gpu *g = start(true, true);
    copy(g, &jobs[0], here, there, 100);
    CHECK_EQ(dev.nlaunch[RT_GPU_LINGER], 1);
    CHECK_EQ(dev.linger.next, 1);
    CHECK_EQ(dev.linger.life_ns, 200000);
    CHECK_EQ(dev.linger.idle_ns, 50000);
    CHECK_EQ(rt_gpu_progress(), 0);
    CHECK_EQ(jobs[0].ndone, 0);
    CHECK(dev_linger(5));
    CHECK_EQ(jobs[0].ndone, 0); /* only progress calls done() */
    CHECK(rt_gpu_progress() > 0);
    expect_good(jobs, 1);
    for (int i = 1; i < 200; i++) { /* around the ring, without another launch */
        copy(g, &jobs[i], here + 64 * i, there + i, (size_t)i);
        dev_linger(5);
        rt_gpu_progress();
    }
    expect_good(jobs, 200);
    CHECK_EQ(dev.nlaunch[RT_GPU_LINGER], 1);
    CHECK_EQ(dev.nlaunch[RT_GPU_BATCH], 0);
    finish(g);
}

static void a_kernel_that_left_is_launched_again(void)
{
    struct rt_gpu *g = start(true, true);
    copy(g, &jobs[0], here, there, 8);
    dev_linger(1);
    rt_gpu_progress();
    dev_linger_leave(); /* idle: the host detects it when it next posts */
    copy(g, &jobs[1], here + 8, there + 8, 8);
    CHECK_EQ(dev.nlaunch[RT_GPU_LINGER], 2);
    CHECK_EQ(dev.linger.next, 2);
    CHECK_EQ(dev.linger.launch, 2);
    dev_linger(1);
    rt_gpu_progress();
    copy(g, &jobs[2], here + 16, there + 16, 8); /* posted, and then the kernel leaves */
    CHECK_EQ(dev.nlaunch[RT_GPU_LINGER], 2);
    dev_linger_leave();
    rt_gpu_progress();
    CHECK_EQ(jobs[2].ndone, 0);
    CHECK_EQ(dev.nlaunch[RT_GPU_LINGER], 3);
    CHECK_EQ(dev.linger.next, 3);
    dev_linger(1);
    rt_gpu_progress();
    expect_good(jobs, 3);
    finish(g);
}

/* The host launches the kernel again before it has seen that a copy was done: the copy must not be
 * done again, because its buffers belong to the user from then on. */
static void no_copy_is_done_twice(void)
{
    struct rt_gpu *g = start(true, true);
    char first[8];
    memcpy(first, there, 8);
    copy(g, &jobs[0], here, there, 8);
    dev_linger(1);
    dev_linger_leave();
    copy(g, &jobs[1], here + 8, there + 8, 8);
    CHECK_EQ(dev.nlaunch[RT_GPU_LINGER], 2);
    CHECK_EQ(dev.linger.next, 2);
    rt_gpu_progress();
    CHECK_EQ(jobs[0].ndone, 1);
    memset(there, 0x33, 8);
    dev_linger(5);
    rt_gpu_progress();
    CHECK(!memcmp(here, first, 8));
    CHECK_EQ(jobs[1].ndone, 1);
    copy(g, &jobs[2], here + 16, there + 16, 8);
    dev_linger(1);
    dev_linger_leave();
    copy(g, &jobs[3], here + (1 << 20), there, 5u << 20); /* detects it, and launches none */
    CHECK_EQ(dev.nlaunch[RT_GPU_LINGER], 2);
    dev_settle();
    expect_good(jobs + 1, 3);
    finish(g);
}

static void done_and_left_together(void)
{
    struct rt_gpu *g = start(true, true);
    copy(g, &jobs[0], here, there, 8);
    dev_linger(1);
    dev_linger_leave();
    rt_gpu_progress();
    expect_good(jobs, 1);
    CHECK_EQ(dev.nlaunch[RT_GPU_LINGER], 1);
    finish(g);
}

/* A kernel of one block runs for short copies; a longer one is launched for a long copy. */
static void long_copies_in_the_ring(void)
{
    struct rt_gpu *g = start(true, true);
    size_t len = WEFT_LINGER_ONE + 5000;
    if (rt_gpu_choose(RT_GPU_LINK_PEER, len, true, true) != RT_GPU_WAY_LINGER) {
        finish(g);
        return;
    }
    copy(g, &jobs[0], here, there, 100);
    CHECK_EQ(dev.linger_grid, 1);
    dev_linger(1);
    rt_gpu_progress();
    copy(g, &jobs[1], here + 100, there, len);
    CHECK_EQ(dev.nlaunch[RT_GPU_LINGER] + dev.nlaunch[RT_GPU_BATCH] + dev.ncopies, 2);
    dev_settle();
    CHECK_EQ(dev.nlaunch[RT_GPU_LINGER], 1);
    dev_linger_leave();
    copy(g, &jobs[2], here + (1 << 20), there, len);
    CHECK_EQ(dev.nlaunch[RT_GPU_LINGER], 2);
    CHECK_EQ(dev.linger_grid, WEFT_LINGER_MANY);
    dev_settle();
    copy(g, &jobs[3], here + (2 << 20), there, len);
    copy(g, &jobs[4], here + (3 << 20), there, 8);
    dev_settle();
    CHECK_EQ(dev.nlaunch[RT_GPU_LINGER], 2);
    expect_good(jobs, 5);
    finish(g);
}

static void no_ring_when_it_may_not_be(void)
{
    struct rt_gpu *g = start(true, true);
    g->shared = true;
    copy(g, &jobs[0], here, there, 8);
    dev_settle();
    CHECK_EQ(dev.nlaunch[RT_GPU_BATCH], 0); /* the kernels of two processes alternate */
    CHECK_EQ(dev.ncopies, 1);
    g->shared = false;
    cfg.gpu_linger_us = 0;
    copy(g, &jobs[1], here + 8, there + 8, 8);
    dev_settle();
    expect_good(jobs, 2);
    CHECK_EQ(dev.nlaunch[RT_GPU_LINGER], 0);
    finish(g);
}

static void a_refused_lingering_kernel(void)
{
    struct rt_gpu *g = start(true, true);
    dev.refuse_fn = g->fn[RT_GPU_LINGER];
    dev.refuse = 701;
    capture_begin();
    for (int i = 0; i < 3; i++) {
        copy(g, &jobs[i], here + 8 * i, there + 8 * i, 8);
        dev_settle();
    }
    const char *text = capture_end();
    expect_good(jobs, 3);
    CHECK(strstr(text, "701") && strstr(text, "cannot be launched"));
    char *again = strstr(text, "cannot be launched");
    CHECK(again && !strstr(again + 1, "cannot be launched"));
    CHECK(dev.nlaunch[RT_GPU_BATCH] > 0 && dev.nlaunch[RT_GPU_LINGER] == 0);
    finish(g);
}

/* ---- reductions ---- */

static void fold_done(struct rt_gpu_op *op, int err)
{
    struct job *j = (struct job *)op;
    j->ndone++;
    j->err = err;
}

/* dst (2 n words) = a + b; with `twice` for both halves of dst. */
static void sum(struct rt_gpu *g, struct job *j, char *dst, char *a, char *b, size_t n, bool twice)
{
    struct rt_gpu_fold f = { .type = RT_GPU_I32,
                             .code = RT_GPU_FOLD_SUM,
                             .nsrc = 2,
                             .ndst = twice ? 2 : 1,
                             .count = n,
                             .src = { a, b },
                             .dst = { dst, dst + 4 * n } };
    *j = (struct job){ .op.done = fold_done };
    rt_gpu_fold(g, &f, &j->op);
}

static void is_sum(const struct job *j, const char *dst, const char *a, const char *b, size_t n)
{
    CHECK_EQ(j->ndone, 1);
    CHECK_EQ(j->err, 0);
    for (size_t i = 0; i < n; i++)
        CHECK(((const uint32_t *)(const void *)dst)[i] ==
              ((const uint32_t *)(const void *)a)[i] + ((const uint32_t *)(const void *)b)[i]);
}

static void what_is_near_is_told(void)
{
    struct rt_gpu *g = start(true, true);
    for (int i = 0; i < 300; i++) { /* around the ring: all three kinds use each slot */
        jobs[0] = (struct job){ .op.done = is_done };
        if (i % 3 == 0)
            rt_gpu_copy_near(g, here, there + 8 * i, 8, &jobs[0].op);
        else if (i % 3 == 1)
            copy(g, &jobs[0], here, there + 8 * i, 8);
        else
            sum(g, &jobs[0], here, there, host, 2, true);
        dev_settle();
        CHECK_EQ(jobs[0].ndone, 1);
        CHECK_EQ(dev.nnear, i / 3 + 1);
    }
    CHECK_EQ(dev.nfolds, 100);
    finish(g);
}

static void short_reductions_use_the_ring(void)
{
    struct rt_gpu *g = start(true, true);
    for (unsigned i = 0; i < 70; i++) { /* around the ring, with copies in between */
        sum(g, &jobs[0], here, there, host, 1 + i, i % 2);
        copy(g, &jobs[1], here + 8192, there, 64);
        dev_settle();
        is_sum(&jobs[0], here, there, host, 1 + i);
        is_sum(&jobs[0], i % 2 ? here + 4 * (1 + i) : here, there, host, 1 + i);
        expect_good(&jobs[1], 1);
    }
    CHECK_EQ(dev.nfolds, 70);
    CHECK_EQ(dev.nlaunch[RT_GPU_LINGER], 1);
    CHECK_EQ(dev.linger_grid, 1);
    sum(g, &jobs[0], here, there, host, 1 << 20, false);               /* long */
    sum(g, &jobs[1], here + (8 << 20) + 1, there + 1, host, 2, false); /* odd */
    dev_settle();
    is_sum(&jobs[0], here, there, host, 1 << 20);
    CHECK_EQ(dev.nfolds, 70);
    CHECK_EQ(dev.nlaunch[RT_GPU_FOLD_4], 2);
    for (int i = 0; i < 8; i++) /* many at once: one launch each */
        sum(g, &jobs[i], here + 1024 * i, there, host, 9, false);
    dev_settle();
    for (int i = 0; i < 8; i++)
        is_sum(&jobs[i], here + 1024 * i, there, host, 9);
    CHECK(dev.nfolds <= 74 && dev.nlaunch[RT_GPU_FOLD_4] >= 6);
    finish(g);
}

static void reductions_of_many_places(void)
{
    struct rt_gpu *g = start(true, true);
    struct rt_gpu_fold f = { .type = RT_GPU_I32, .code = RT_GPU_FOLD_SUM, .count = 3 };
    for (unsigned n = 1; n <= RT_GPU_FOLD_PLACES; n++)
        for (unsigned ndst = 1; ndst <= 4; ndst++) {
            uint32_t want = 0;
            int before = dev.nfolds;
            for (unsigned i = 0; i < n; i++) {
                f.src[i] = there + 64 * i;
                want += ((uint32_t *)(void *)(there + 64 * i))[2];
            }
            for (unsigned i = 0; i < ndst; i++)
                f.dst[i] = here + 64 * i;
            f.nsrc = (uint8_t)n;
            f.ndst = (uint8_t)ndst;
            jobs[0] = (struct job){ .op.done = fold_done };
            rt_gpu_fold(g, &f, &jobs[0].op);
            dev_settle();
            CHECK_EQ(jobs[0].ndone, 1);
            CHECK_EQ(jobs[0].err, 0);
            for (unsigned i = 0; i < ndst && n > 1; i++)
                CHECK_EQ(((uint32_t *)(void *)(here + 64 * i))[2], want);
            CHECK_EQ(dev.nfolds - before,
                     n <= RT_GPU_RING_SOURCES && n + ndst <= RT_GPU_RING_PLACES);
        }
    finish(g);
}

static void reductions_of_many_blocks(void)
{
    struct rt_gpu *g = start(true, true);
    sum(g, &jobs[0], here, there, there + (4 << 20), 16 << 10, false);
    CHECK_EQ(dev.linger_grid, WEFT_LINGER_MANY);
    dev_settle();
    is_sum(&jobs[0], here, there, there + (4 << 20), 16 << 10);
    CHECK_EQ(dev.nfolds, 1);
    finish(g);
}

/* If the ring's kernel cannot be launched, the reductions in the ring are launched separately. */
static void reductions_of_a_refused_kernel(void)
{
    struct rt_gpu *g = start(true, true);
    dev.refuse_fn = g->fn[RT_GPU_LINGER];
    dev.refuse = 701;
    capture_begin();
    for (unsigned i = 0; i < 3; i++) {
        sum(g, &jobs[i], here + 1024 * i, there, host, 5 + i, false);
        dev_settle();
        is_sum(&jobs[i], here + 1024 * i, there, host, 5 + i);
    }
    capture_end();
    CHECK_EQ(dev.nfolds, 0);
    CHECK_EQ(dev.nlaunch[RT_GPU_FOLD_4], 3);
    finish(g);
}

/* A kernel has left, its results have not been seen, and the next kernel cannot be launched: a sum
 * in place must not be added again. */
static void a_reduction_done_by_the_last_kernel(void)
{
    struct rt_gpu *g = start(true, true);
    uint32_t want, got;
    memcpy(&want, here, sizeof want);
    memcpy(&got, there, sizeof got);
    want += got;
    sum(g, &jobs[0], here, here, there, 1, false);
    CHECK(dev_linger(5));
    CHECK(dev_linger_leave());
    dev.refuse_fn = g->fn[RT_GPU_LINGER];
    dev.refuse = 701;
    capture_begin();
    sum(g, &jobs[1], here + 1024, there, host, 5, false);
    dev_settle();
    capture_end();
    memcpy(&got, here, sizeof got);
    CHECK_EQ(jobs[0].ndone, 1);
    CHECK_EQ(got, want);
    is_sum(&jobs[1], here + 1024, there, host, 5);
    finish(g);
}

static void a_reduction_in_a_failed_context(void)
{
    struct rt_gpu *g = start(true, true);
    sum(g, &jobs[0], here, there, host, 5, false);
    capture_begin();
    dev.dead = 700;
    sum(g, &jobs[1], here, there, host, 1 << 20, false);
    for (int i = 0; i < 100000 && rt_gpu_nactive; i++)
        rt_gpu_progress();
    sum(g, &jobs[2], here, there, host, 5, false);
    rt_gpu_progress();
    capture_end();
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(jobs[i].ndone, 1);
        CHECK_EQ(jobs[i].err, -RT_EGPU);
    }
    g->lost = true;
    finish(g);
}

static void a_device_without_memory(void)
{
    capture_begin();
    struct rt_gpu *g = dev_open_full();
    CHECK(strstr(capture_end(), "without kernels"));
    CHECK(!rt_gpu_has_kernels(g));
    here = dev_mem(0, ROOM);
    there = dev_mem(1, ROOM);
    host = dev_mem(-1, ROOM);
    fill(there, ROOM);
    for (int i = 0; i < 30; i++)
        copy(g, &jobs[i], here + 100 * i, there + i, 99);
    dev_settle();
    expect_good(jobs, 30);
    finish(g);
}

/* ---- batches ---- */

static void a_crowd_goes_in_batches(void)
{
    struct rt_gpu *g = start(true, true);
    for (int i = 0; i < 300; i++)
        copy(g, &jobs[i], here + 4096 * i, there + 4096 * i + i % 16, (size_t)(4000 - i));
    CHECK_EQ(dev.nlaunch[RT_GPU_LINGER], 1); /* the first copy was alone */
    CHECK_EQ(dev.nlaunch[RT_GPU_BATCH], 0);
    rt_gpu_progress();
    CHECK_EQ(dev.nlaunch[RT_GPU_BATCH], 2);
    CHECK_EQ(dev.batch_n, RT_GPU_BATCH_MAX);
    rt_gpu_progress();
    CHECK_EQ(dev.nlaunch[RT_GPU_BATCH], 2); /* no more than two at a time */
    dev_settle();
    expect_good(jobs, 300);
    CHECK_EQ(dev.nlaunch[RT_GPU_BATCH], 5); /* 299 copies */
    CHECK_EQ(dev.longest, 2);
    CHECK_EQ(dev.ncopies, 0);
    finish(g);
}

static void a_row_of_copies_starts_without_progress(void)
{
    struct rt_gpu *g = start(true, true);
    for (int i = 0; i < 60; i++) {
        copy(g, &jobs[i], here + 4096 * i, there + 4096 * i, 4000);
        rt_gpu_copies_more(g);
    }
    CHECK_EQ(dev.nlaunch[RT_GPU_LINGER], 1);
    CHECK_EQ(dev.nlaunch[RT_GPU_BATCH], 2); /* of 16; the others wait for one of them */
    CHECK_EQ(dev.batch_n, 16);
    dev_settle();
    expect_good(jobs, 60);
    CHECK_EQ(dev.nlaunch[RT_GPU_BATCH], 3);
    finish(g);
}

static void a_batch_has_a_grid_for_its_bytes(void)
{
    struct rt_gpu *g = start(true, true);
    cfg.gpu_linger_us = 0;
    copy(g, &jobs[0], here, there, 8);
    CHECK_EQ(dev.batch_grid, 1);
    dev_settle();
    copy(g, &jobs[0], here, there, 8);
    copy(g, &jobs[1], here + 16, there, 17);
    copy(g, &jobs[2], here + 1024, there, WEFT_BATCH_PIECE + 1);
    dev_settle();
    CHECK_EQ(dev.batch_grid, 3);
    expect_good(jobs, 3);
    finish(g);
}

static void a_batch_has_a_limit_of_blocks(void)
{
    struct rt_gpu *g = start(true, true);
    int way[2] = { 0, 1000 };
    cfg.gpu_multiprocessors = 3;
    for (int i = 0; i < 2; i++) {
        cfg.gpu_linger_us = way[i];
        for (int j = 0; j < 8; j++)
            copy(g, &jobs[j], here + j * (WEFT_BATCH_PIECE + 16), there, WEFT_BATCH_PIECE + 1);
        dev_settle();
        expect_good(jobs, 8);
    }
    CHECK_EQ(dev.batch_grid, 3);
    CHECK(dev.linger_grid <= 3);
    CHECK_EQ(rt_gpu_most_blocks(g, 1), 3);
    cfg.gpu_multiprocessors = 0;
    CHECK_EQ(rt_gpu_most_blocks(g, 2), 2u * 132);
    finish(g);
}

static void few_copies_gather(void)
{
    struct rt_gpu *g = start(true, true);
    for (int i = 0; i < 6; i++)
        copy(g, &jobs[i], here + 4096 * i, there + 4096 * i, 4096);
    rt_gpu_progress();
    CHECK_EQ(dev.nlaunch[RT_GPU_LINGER], 1);
    CHECK_EQ(dev.nlaunch[RT_GPU_BATCH], 0); /* four wait for the two in the ring */
    for (int i = 6; i < 18; i++)
        copy(g, &jobs[i], here + 4096 * i, there + 4096 * i, 4096);
    rt_gpu_progress();
    CHECK_EQ(dev.nlaunch[RT_GPU_BATCH], 1);
    CHECK_EQ(dev.batch_n, 16);
    copy(g, &jobs[18], here + (1 << 20), there, 100);
    rt_gpu_progress();
    dev_linger(2);
    rt_gpu_progress();
    CHECK_EQ(dev.nlaunch[RT_GPU_BATCH], 1); /* the batch is not done */
    dev_settle();
    expect_good(jobs, 19);
    CHECK_EQ(dev.nlaunch[RT_GPU_BATCH], 1);
    finish(g);
}

static struct rt_gpu *chain_gpu;
static int chain_left;
static struct job chain_job;

static void chain(struct rt_gpu_op *op, int err)
{
    CHECK_EQ(err, 0);
    (void)op;
    if (--chain_left > 0)
        rt_gpu_copy(chain_gpu, here, there, (size_t)chain_left * 1000, &chain_job.op);
}

static void done_may_start_the_next(void)
{
    chain_gpu = start(true, true);
    chain_left = 50;
    chain_job.op.done = chain;
    rt_gpu_copy(chain_gpu, here, there, 50000, &chain_job.op);
    dev_settle();
    CHECK_EQ(chain_left, 0);
    finish(chain_gpu);
}

/* ---- copy engines ---- */

static void large_copies_take_the_engines_in_turn(void)
{
    struct rt_gpu *g = start(true, true);
    const size_t len = 5u << 20;
    for (size_t i = 0; i < 4; i++)
        copy(g, &jobs[i], there + i * len, here + i * len, len - 3);
    CHECK_EQ(dev.ncopies, 4); /* all at once */
    CHECK_STR(dev.where, "0123");
    CHECK_EQ(dev.nwrites, 4);
    rt_gpu_progress();
    CHECK_EQ(jobs[0].ndone, 0);
    dev_step(1);
    rt_gpu_progress();
    CHECK_EQ(jobs[1].ndone, 0); /* its word is stored after the data */
    dev_step(1);
    rt_gpu_progress();
    CHECK_EQ(jobs[1].ndone, 1);
    CHECK_EQ(jobs[0].ndone, 0);
    dev_settle();
    expect_good(jobs, 4);
    finish(g);
}

/* Copies from a peer end with events; each poll queries one event, the oldest of a stream. */
static void copies_from_a_peer_end_with_events(void)
{
    struct rt_gpu *g = start(true, true);
    const size_t len = 5u << 20;
    for (size_t i = 0; i < 4; i++)
        copy(g, &jobs[i], here + i * len, there + i * len, len - 3);
    for (size_t i = 0; i < 2; i++)
        copy(g, &jobs[4 + i], here + i * len, there + i * len, len - 3);
    CHECK_EQ(dev.nwrites, 0);
    CHECK_EQ(dev.nrecords, 6);
    for (int i = 0; i < 40; i++)
        rt_gpu_progress();
    CHECK_EQ(dev.nasked, 40);
    dev_run();
    for (int i = 0; i < 6; i++)
        rt_gpu_progress();
    CHECK_EQ(dev.nasked, 46);
    expect_good(jobs, 6);
    finish(g);
}

static void many_large_copies_share_flights(void)
{
    struct rt_gpu *g = start(false, true);
    for (int i = 0; i < 64; i++)
        copy(g, &jobs[i], there + (i << 16), here + (i << 16), 60000);
    CHECK_EQ(dev.ncopies, MOVE_ENGINES);
    dev_settle();
    expect_good(jobs, 64);
    CHECK_EQ(dev.ncopies, 64);
    CHECK(dev.nwrites <= MOVE_ENGINES + (64 - MOVE_ENGINES) / 3);
    finish(g);
}

/* A length for which a single copy uses an engine and many use a batch, if the table has one. */
static size_t middling(enum rt_gpu_link link, unsigned n)
{
    for (size_t len = 4096; len <= ROOM / n; len += 4096)
        if (rt_gpu_choose(link, len, true, true) == RT_GPU_WAY_ENGINE &&
            rt_gpu_choose_group(link, len, n / 2, true, true) == RT_GPU_WAY_BATCH)
            return len;
    return 0;
}

static void a_crowd_of_middling_copies(void)
{
    for (int link = RT_GPU_LINK_LOCAL; link <= RT_GPU_LINK_PEER; link++) {
        const unsigned n = 16;
        size_t len = middling(link, n);
        if (!len)
            continue;
        printf("# %zu bytes of link %d\n", len, link);
        struct rt_gpu *g = start(true, true);
        char *src = link == RT_GPU_LINK_PEER ? there : dev_mem(0, ROOM);
        if (src != there)
            fill(src, ROOM);
        for (unsigned i = 0; i < n; i++)
            copy(g, &jobs[i], here + i * len, src + i * len, len);
        CHECK_EQ(dev.ncopies, 1); /* the others wait for one another */
        dev_settle();
        expect_good(jobs, (int)n);
        CHECK_EQ(dev.ncopies, 1);
        CHECK(dev.nlaunch[RT_GPU_BATCH] > 0);
        finish(g);
    }
}

static void directions_have_their_own_streams(void)
{
    struct rt_gpu *g = start(true, true);
    for (int i = 0; i < 4; i++) {
        copy(g, &jobs[2 * i], host + (i << 20), there + (i << 20), 1u << 20);
        copy(g, &jobs[2 * i + 1], here + (i << 20), there + (8 << 20), 1u << 20);
    }
    dev_settle();
    memset(dev.where, 0, sizeof dev.where);
    dev.ncopies = 0;
    for (int i = 0; i < 2; i++) {
        copy(g, &jobs[8 + 2 * i], host + ((8 + i) << 20), here, 1u << 20);
        copy(g, &jobs[9 + 2 * i], here + ((8 + i) << 20), host, 1u << 20);
    }
    CHECK_EQ(dev.ncopies, 4);
    for (int i = 0; i < 4; i++)
        CHECK(i % 2 ? dev.where[i] >= '2' : dev.where[i] < '2');
    dev_settle();
    expect_good(jobs, 12);
    finish(g);
}

static void without_stream_writes(void)
{
    struct rt_gpu *g = start(true, false);
    for (int i = 0; i < 20; i++)
        copy(g, &jobs[i], here + (i << 20), there + (i << 20), i % 2 ? 5u << 20 : 77);
    dev_settle();
    expect_good(jobs, 20);
    CHECK_EQ(dev.nwrites, 0);
    CHECK(dev.nrecords > 0);
    finish(g);
}

static void without_kernels(void)
{
    struct rt_gpu *g = start(false, true);
    for (int i = 0; i < 40; i++)
        copy(g, &jobs[i], here + (i << 12), there + (i << 12), (size_t)i * 100);
    CHECK_EQ(jobs[0].ndone, 0); /* 0 bytes, but done() is not called from inside the call */
    dev_settle();
    expect_good(jobs, 40);
    CHECK_EQ(dev.nlaunch[RT_GPU_BATCH] + dev.nlaunch[RT_GPU_LINGER], 0);
    finish(g);
}

/* ---- launches ---- */

static void launches_wait_for_a_flight(void)
{
    struct rt_gpu *g = start(true, true);
    for (int i = 0; i < 20; i++) {
        struct rt_gpu_pack p = { .packed = (uintptr_t)(here + 1000 * i),
                                 .user = (uintptr_t)(there + 1000 * i),
                                 .len = 1000 };
        jobs[i] = (struct job){ .op.done = is_done };
        rt_gpu_launch(g, RT_GPU_PACK, 1, 32, &p, sizeof p, &jobs[i].op);
        jobs[i].op.dst = here + 1000 * i, jobs[i].op.src = there + 1000 * i, jobs[i].op.len = 1000;
    }
    CHECK_EQ(dev.nlaunch[RT_GPU_PACK], MOVE_LAUNCHES);
    dev_settle();
    expect_good(jobs, 20);
    CHECK_EQ(dev.nlaunch[RT_GPU_PACK], 20);
    finish(g);
}

/* ---- failures ---- */

static void a_refused_copy_fails_alone(void)
{
    struct rt_gpu *g = start(false, true);
    dev.bad = here + (11 << 16);
    capture_begin();
    for (int i = 0; i < 24; i++)
        copy(g, &jobs[i], here + (i << 16), there + (i << 16), 1u << 16);
    dev_settle();
    const char *text = capture_end();
    CHECK(strstr(text, "cuMemcpyAsync"));
    CHECK_EQ(jobs[11].ndone, 1);
    CHECK_EQ(jobs[11].err, -RT_EGPU);
    expect_good(jobs, 11);
    expect_good(jobs + 12, 12);
    finish(g);
}

/* Buffers are released when the data have arrived, and the next copies continue. */
static void an_end_that_cannot_be_marked(void)
{
    for (int writes = 0; writes < 2; writes++) {
        struct rt_gpu *g = start(false, writes);
        dev.no_marks = true;
        capture_begin();
        for (int i = 0; i < 6; i++) {
            copy(g, &jobs[i], here + (i << 20), there + (i << 20), 1u << 20);
            dev.no_marks = i < 3;
        }
        dev_settle();
        CHECK(strstr(capture_end(), "no event can be recorded"));
        expect_good(jobs, 6);
        finish(g);
    }
}

/* Polls until the streams are checked, which is after 1 ms. */
static const char *poll_until_failed(int n)
{
    capture_begin();
    for (int i = 0; i < 200000000 && rt_gpu_nactive; i++)
        rt_gpu_progress();
    const char *text = capture_end();
    for (int i = 0; i < n; i++) {
        CHECK_EQ(jobs[i].ndone, 1);
        CHECK_EQ(jobs[i].err, -RT_EGPU);
    }
    return text;
}

static void a_failed_context_ends_everything(void)
{
    struct rt_gpu *g = start(true, true);
    for (int i = 0; i < 200; i++) /* in the ring, in batches, in flights, waiting */
        copy(g, &jobs[i], here + 4096 * i, there + 4096 * i, i % 10 ? 100 : 4u << 20);
    for (int i = 200; i < 220; i++) {
        struct rt_gpu_pack p = { .len = 0 };
        jobs[i] = (struct job){ .op.done = is_done };
        rt_gpu_launch(g, RT_GPU_PACK, 1, 32, &p, sizeof p, &jobs[i].op);
    }
    dev.dead = 700;
    const char *text = poll_until_failed(220);
    char *first = strstr(text, "answered 700");
    CHECK(first && !strstr(first + 1, "answered 700")); /* logged once */
    copy(g, &jobs[0], here, there, 8);
    CHECK_EQ(jobs[0].ndone, 0);
    rt_gpu_progress();
    CHECK_EQ(jobs[0].err, -RT_EGPU);
    CHECK_EQ(jobs[0].ndone, 1);
    g->lost = true; /* as dev.c detects it */
    finish(g);
}

/* Detected by the launch of a waiting copy. */
static void a_failure_while_launches_wait(void)
{
    struct rt_gpu *g = start(true, true);
    for (int i = 0; i < 20; i++) {
        struct rt_gpu_pack p = { .len = 0 };
        jobs[i] = (struct job){ .op.done = is_done };
        rt_gpu_launch(g, RT_GPU_PACK, 1, 32, &p, sizeof p, &jobs[i].op);
    }
    dev_run();
    dev.dead = 719;
    capture_begin();
    rt_gpu_progress();
    capture_end();
    CHECK_EQ(g->move->nactive, 0);
    CHECK_EQ(rt_gpu_nactive, 0);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(jobs[i].ndone, 1);
        CHECK_EQ(jobs[i].err, i < MOVE_LAUNCHES ? 0 : -RT_EGPU);
    }
    g->lost = true;
    finish(g);
}

static void a_failure_in_a_call(void)
{
    for (int way = 0; way < 3; way++) {
        struct rt_gpu *g = start(true, true);
        size_t len = way == 0 ? 8 : way == 1 ? 4u << 20 : 1000;
        cfg.gpu_linger_us = way == 2 ? 0 : 200;
        dev.dead = 719;
        capture_begin();
        copy(g, &jobs[0], here, there, len);
        copy(g, &jobs[1], here, there, len);
        rt_gpu_progress();
        const char *text = capture_end();
        CHECK(strstr(text, "answered 719"));
        for (int i = 0; i < 2; i++) {
            CHECK_EQ(jobs[i].ndone, 1);
            CHECK_EQ(jobs[i].err, -RT_EGPU);
        }
        g->lost = true;
        finish(g);
    }
}

static void a_lost_context(void)
{
    struct rt_gpu *g = start(true, true);
    copy(g, &jobs[0], here, there, 8);
    copy(g, &jobs[1], here, there, 4u << 20);
    g->lost = true;
    rt_gpu_progress();
    copy(g, &jobs[2], here, there, 8);
    rt_gpu_progress();
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(jobs[i].ndone, 1);
        CHECK_EQ(jobs[i].err, -RT_EGPU);
    }
    finish(g);
}

static void a_word_that_does_not_come(void)
{
    for (int way = 0; way < 2; way++) {
        struct rt_gpu *g = start(true, true);
        dev.no_last_store = true;
        if (way == 0)
            copy(g, &jobs[0], there, here, 5u << 20);
        else
            copy(g, &jobs[0], here, there, 8);
        dev_run();
        dev_linger_leave();
        CHECK(strstr(poll_until_failed(1), "copies and kernels of MPI fail"));
        g->lost = true;
        finish(g);
    }
}

static void fini_waits(void)
{
    struct rt_gpu *g = start(true, true);
    copy(g, &jobs[0], here, there, 8);
    copy(g, &jobs[1], here + (1 << 20), there, 5u << 20);
    dev_close(g);
    CHECK_EQ(jobs[0].ndone + jobs[1].ndone, 2);
    CHECK_EQ(jobs[0].err + jobs[1].err, 0);
    free(host);
    CHECK_EQ(rt_gpu_nactive, 0);
}

/* ---- random operations in random order ---- */

static void random_copies(void)
{
    for (int round = 0; round < 12; round++) {
        struct rt_gpu *g = start(round % 4 != 3, round % 3 != 2);
        size_t at = 0;
        int n = 0;
        for (int step = 0; step < 4000; step++) {
            if (n < 500 && rand() % 3 == 0) {
                size_t len = (size_t)1 << rand() % (rand() % 8 ? 12 : 21);
                len += (size_t)(rand() % 64);
                if (at + len + 64 <= ROOM) {
                    char *src = rand() % 4 ? there : host;
                    copy(g, &jobs[n++], here + at, src + rand() % (8 << 20), len);
                    at += len + (size_t)(rand() % 64);
                }
            }
            dev_step(rand() % dev_nstreams());
            if (rand() % 5 == 0)
                dev_linger(1);
            if (rand() % 60 == 0)
                dev_linger_leave();
            if (rand() % 3 == 0)
                rt_gpu_progress();
        }
        dev_settle();
        expect_good(jobs, n);
        CHECK(dev.longest <= 2);
        finish(g);
    }
}

/* ---- the model ---- */

/* A short reduction uses the ring, a long one a launch, and each can be launched. */
static void the_model_of_reductions(void)
{
    for (enum rt_gpu_link l = 0; l < RT_GPU_LINKS; l++) {
        for (size_t len = 1; len < (size_t)1 << 40; len *= 2)
            CHECK(rt_gpu_cost_fold_ns(RT_GPU_WAY_BATCH, l, len) < UINT64_MAX);
        CHECK(rt_gpu_cost_fold_ns(RT_GPU_WAY_LINGER, l, 8) <
              rt_gpu_cost_fold_ns(RT_GPU_WAY_BATCH, l, 8));
        CHECK_EQ(rt_gpu_cost_fold_ns(RT_GPU_WAY_LINGER, l, WEFT_LINGER_FOLD_MOST + 1), UINT64_MAX);
    }
}

static void the_model(void)
{
    for (int link = 0; link < RT_GPU_LINKS; link++) {
        CHECK(rt_gpu_cost_ns(RT_GPU_WAY_ENGINE, link, SIZE_MAX / 2) < UINT64_MAX);
        for (size_t len = 1; len < (size_t)1 << 40; len = len * 5 / 4 + 1) {
            enum rt_gpu_way w = rt_gpu_choose(link, len, true, true);
            uint64_t best = rt_gpu_cost_ns(w, link, len);
            for (int o = 0; o < RT_GPU_WAYS; o++)
                CHECK(best <= rt_gpu_cost_ns(o, link, len));
            CHECK_EQ(rt_gpu_choose(link, len, true, false), RT_GPU_WAY_ENGINE);
            CHECK(rt_gpu_choose(link, len, false, true) != RT_GPU_WAY_LINGER);
            CHECK(rt_gpu_cost_group_ns(w, link, len, 2) >= best);
        }
        CHECK_EQ(rt_gpu_choose(link, 8, true, true), RT_GPU_WAY_LINGER);
        CHECK_EQ(rt_gpu_choose_group(link, 4096, 64, true, true), RT_GPU_WAY_BATCH);
        CHECK_EQ(rt_gpu_choose(link, 64u << 20, true, true), RT_GPU_WAY_ENGINE);
        CHECK_EQ(rt_gpu_choose_group(link, 16u << 20, 64, true, true), RT_GPU_WAY_ENGINE);
    }
    for (int w = 0; w < RT_GPU_WAYS; w++)
        CHECK(rt_gpu_way_names[w] != NULL);
    for (int large = 0; large < 2; large++) {
        CHECK_EQ(rt_gpu_side(1, large), RT_GPU_LINK_PEER);
        CHECK_EQ(rt_gpu_side(1 << 20, large), RT_GPU_LINK_PUT);
        CHECK_EQ(rt_gpu_side(SIZE_MAX, large), large ? RT_GPU_LINK_PUT : RT_GPU_LINK_PEER);
    }
}

int main(void)
{
    srand(4711);
    RUN(lone_small_copies_use_the_ring);
    RUN(a_kernel_that_left_is_launched_again);
    RUN(no_copy_is_done_twice);
    RUN(done_and_left_together);
    RUN(long_copies_in_the_ring);
    RUN(no_ring_when_it_may_not_be);
    RUN(a_refused_lingering_kernel);
    RUN(short_reductions_use_the_ring);
    RUN(what_is_near_is_told);
    RUN(reductions_of_many_places);
    RUN(reductions_of_many_blocks);
    RUN(reductions_of_a_refused_kernel);
    RUN(a_reduction_done_by_the_last_kernel);
    RUN(a_reduction_in_a_failed_context);
    RUN(a_device_without_memory);
    RUN(a_crowd_goes_in_batches);
    RUN(a_row_of_copies_starts_without_progress);
    RUN(a_batch_has_a_grid_for_its_bytes);
    RUN(a_batch_has_a_limit_of_blocks);
    RUN(few_copies_gather);
    RUN(done_may_start_the_next);
    RUN(large_copies_take_the_engines_in_turn);
    RUN(copies_from_a_peer_end_with_events);
    RUN(many_large_copies_share_flights);
    RUN(a_crowd_of_middling_copies);
    RUN(directions_have_their_own_streams);
    RUN(without_stream_writes);
    RUN(without_kernels);
    RUN(launches_wait_for_a_flight);
    RUN(a_refused_copy_fails_alone);
    RUN(an_end_that_cannot_be_marked);
    RUN(a_failed_context_ends_everything);
    RUN(a_failure_while_launches_wait);
    RUN(a_failure_in_a_call);
    RUN(a_lost_context);
    RUN(a_word_that_does_not_come);
    RUN(fini_waits);
    RUN(random_copies);
    RUN(the_model);
    RUN(the_model_of_reductions);
    return check_end();
}
