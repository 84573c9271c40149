/* SPDX-License-Identifier: BSD-3-Clause */
/* Staging buffers: they never overlap, are reused, few are kept; and the behaviour without memory
 * and without a context. */
#include "runtime/base/err.h"
#include "test/check.h"
#include "test/unit/capture.h"
#include "test/unit/gpu_table.h"

static struct rt_gpu *g;

static void start(void)
{
    table_reset();
    table_believe(false);
    CHECK_EQ(rt_cuda_open(false), 0);
    CHECK_EQ(rt_gpu_of(&table.own[0], 0, &g), 0);
}

static void lengths(void)
{
    static const size_t ask[] = { 0,
                                  1,
                                  RT_GPU_STAGE_SMALL,
                                  RT_GPU_STAGE_SMALL + 1,
                                  RT_GPU_STAGE_LARGE,
                                  RT_GPU_STAGE_LARGE + 1,
                                  5 * (size_t)RT_GPU_STAGE_LARGE };
    static const size_t got[] = { RT_GPU_STAGE_SMALL,
                                  RT_GPU_STAGE_SMALL,
                                  RT_GPU_STAGE_SMALL,
                                  RT_GPU_STAGE_LARGE,
                                  RT_GPU_STAGE_LARGE,
                                  2 * RT_GPU_STAGE_LARGE,
                                  8 * (size_t)RT_GPU_STAGE_LARGE };
    struct rt_gpu_stage *s;
    start();
    for (int host = 0; host < 2; host++)
        for (size_t i = 0; i < sizeof ask / sizeof *ask; i++) {
            CHECK_EQ(rt_gpu_stage_take(g, host, ask[i], &s), 0);
            CHECK_EQ(s->len, got[i]);
            CHECK(s->g == (host ? NULL : g));
            memset(s->p, 0x5a, s->len);
            rt_gpu_stage_give(s);
        }
    CHECK_EQ(table.nhost, 4);
    CHECK_EQ(table.nalloc, 1 + 4); /* the context's mark */
    s = NULL;
    CHECK_EQ(rt_gpu_stage_take(g, true, SIZE_MAX, &s), -RT_ENOMEM);
    CHECK(!s);
    rt_gpu_fini();
    CHECK_EQ(table.nhost + table.nalloc, 0);
}

/* Takes and gives buffers in a random order; each buffer is filled with its own number. */
static void never_overlap(void)
{
    enum { N = 150 };
    struct rt_gpu_stage *s[N] = { NULL };
    unsigned seed = 20261121;
    start();
    for (int step = 0; step < 6000; step++) {
        seed = seed * 1103515245u + 12345;
        unsigned i = (seed >> 8) % N;
        bool large = i >= N - 6;
        if (!s[i]) {
            CHECK_EQ(rt_gpu_stage_take(g, i % 2, large ? RT_GPU_STAGE_LARGE : 100, &s[i]), 0);
            memset(s[i]->p, (int)i, 64);
            memset(s[i]->p + s[i]->len - 64, (int)i, 64);
            continue;
        }
        for (size_t k = 0; k < 64; k++) {
            CHECK_EQ((unsigned char)s[i]->p[k], i);
            CHECK_EQ((unsigned char)s[i]->p[s[i]->len - 64 + k], i);
        }
        rt_gpu_stage_give(s[i]);
        s[i] = NULL;
    }
    for (int i = 0; i < N; i++)
        if (s[i])
            rt_gpu_stage_give(s[i]);
    int n = table.nhost + table.nalloc;
    CHECK(n > 4);
    rt_gpu_fini();
    CHECK_EQ(table.nhost + table.nalloc, 0);
}

/* 64 MiB of host memory are kept.  The free of 64 MiB more, 1/16 of the memory of the table's
 * devices, may be deferred; until then these buffers are used. */
static void few_are_kept(void)
{
    struct rt_gpu_stage *s[40];
    start();
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 32; i++)
            CHECK_EQ(rt_gpu_stage_take(g, true, RT_GPU_STAGE_LARGE, &s[i]), 0);
        for (int i = 0; i < 32; i++)
            rt_gpu_stage_give(s[i]);
        CHECK_EQ(table.nhost, 32);
    }
    CHECK(rt_gpu_run_deferred()); /* memory is short: kept buffers are freed too */
    CHECK_EQ(table.nhost, 0);
    for (int i = 0; i < 40; i++)
        CHECK_EQ(rt_gpu_stage_take(g, true, RT_GPU_STAGE_LARGE, &s[i]), 0);
    for (int i = 0; i < 33; i++)
        rt_gpu_stage_give(s[i]);
    CHECK_EQ(table.nhost, 40 - 17); /* the last of them exceeded the limit */
    for (int i = 33; i < 40; i++)
        rt_gpu_stage_give(s[i]);
    CHECK_EQ(table.nhost, 40 - 17);
    rt_gpu_fini();
    CHECK_EQ(table.nhost, 0);
}

/* One limit for all lengths in a place; the block that has been idle longest is freed first. */
static void lengths_share_the_limit(void)
{
    enum { MIB = 1 << 20 };
    static const size_t len[] = { 100, 32 * MIB, 4 * MIB, 16 * MIB, 16 * MIB };
    struct rt_gpu_stage *s[5], *again;
    start();
    for (int i = 0; i < 5; i++)
        CHECK_EQ(rt_gpu_stage_take(g, true, len[i], &s[i]), 0);
    for (int i = 0; i < 4; i++)
        rt_gpu_stage_give(s[i]);
    size_t all = g->host.nidle;
    CHECK(all < 64 * MIB);
    rt_gpu_stage_give(s[4]); /* 69 MiB: the small buffers' block and the longest are freed */
    CHECK_EQ(g->host.nidle, 36 * MIB);
    CHECK_EQ(g->deferred.nbytes, all + 16 * MIB - 36 * MIB);
    CHECK_EQ(table.nhost, 5);
    CHECK_EQ(rt_gpu_stage_take(g, true, 17 * MIB, &again), 0); /* the longest */
    CHECK_EQ(g->deferred.nbytes, all - 52 * MIB);
    CHECK_EQ(table.nhost, 5);
    rt_gpu_stage_give(again);
    CHECK_EQ(table.nhost, 5);
    CHECK_EQ(rt_gpu_stage_take(g, true, 128 * MIB, &again), 0);
    rt_gpu_stage_give(again); /* longer than the limit: the others stay */
    CHECK(g->host.nidle > 32 * MIB);
    CHECK_EQ(g->deferred.nbytes, 0);
    rt_gpu_fini();
    CHECK_EQ(table.nhost + table.nalloc, 0);
}

static bool awaiting;
static bool awaits(void) { return awaiting; }

/* While a stream may wait for another process, no buffer is returned to the driver, which would
 * wait for the stream; later it is. */
static void all_is_kept_while_streams_wait(void)
{
    enum { N = 40, KEPT = 256 << 20 };
    static const size_t longer[] = { KEPT / 2, KEPT / 2, 2 * (size_t)KEPT };
    struct rt_gpu_stage *s[N];
    struct rt_gpu_stage *a[3];
    start();
    rt_gpu_awaits = awaits;
    for (int i = 0; i < N; i++)
        CHECK_EQ(rt_gpu_stage_take(g, true, RT_GPU_STAGE_LARGE, &s[i]), 0);
    int before = table.nalloc;
    for (int i = 0; i < 3; i++)
        CHECK_EQ(rt_gpu_stage_take(g, false, longer[i], &a[i]), 0);
    awaiting = true;
    for (int i = 0; i < N; i++)
        rt_gpu_stage_give(s[i]);
    for (int i = 0; i < 3; i++)
        rt_gpu_stage_give(a[i]);
    CHECK_EQ(table.nhost, N);
    CHECK_EQ(table.nalloc, before + 3);
    CHECK_EQ(rt_gpu_stage_take(g, true, RT_GPU_STAGE_LARGE, &s[0]), 0);
    CHECK_EQ(rt_gpu_stage_take(g, false, KEPT / 2, &a[0]), 0);
    CHECK_EQ(table.nhost, N);
    CHECK_EQ(table.nalloc, before + 3);
    awaiting = false;
    rt_gpu_stage_give(s[0]);
    rt_gpu_stage_give(a[0]);
    CHECK(rt_gpu_run_deferred());
    CHECK(table.nhost == 0 && table.nalloc == before);
    rt_gpu_awaits = NULL;
    rt_gpu_fini();
    CHECK_EQ(table.nhost + table.nalloc, 0);
}

static void no_memory(void)
{
    static const char *const fail[] = { "mem_alloc", "mem_host_alloc" };
    for (int host = 0; host < 2; host++) {
        struct rt_gpu_stage *s = NULL, *t;
        start();
        table.fail = fail[host], table.fail_at = 1, table.fail_with = CU_ERROR_OUT_OF_MEMORY;
        capture_begin();
        CHECK_EQ(rt_gpu_stage_take(g, host, 1, &s), -RT_ENOMEM);
        table.fail_at = 1;
        CHECK_EQ(rt_gpu_stage_take(g, host, RT_GPU_STAGE_LARGE, &s), -RT_ENOMEM);
        const char *said = capture_end();
        CHECK_MSG(said[0] && strchr(said, '\n') == strrchr(said, '\n'), "not one line: %s", said);
        CHECK(!s);
        CHECK_EQ(rt_gpu_stage_take(g, host, 1, &s), 0);
        table.fail_at = 1; /* not called: the block has more buffers */
        CHECK_EQ(rt_gpu_stage_take(g, host, 1, &t), 0);
        rt_gpu_stage_give(s);
        rt_gpu_stage_give(t);
        table.fail_with = 700;
        capture_begin();
        CHECK_EQ(rt_gpu_stage_take(g, host, RT_GPU_STAGE_LARGE, &s), -RT_EGPU);
        CHECK(strstr(capture_end(), "700"));
        CHECK_EQ(table.depth, 0);
        rt_gpu_fini();
        CHECK_EQ(table.nhost + table.nalloc, 0);
    }
}

/* Idle buffers are freed before an allocation fails. */
static void idle_memory_helps(void)
{
    struct rt_gpu_stage *s[3], *t;
    start();
    for (int i = 0; i < 3; i++)
        CHECK_EQ(rt_gpu_stage_take(g, false, RT_GPU_STAGE_LARGE, &s[i]), 0);
    rt_gpu_stage_give(s[0]);
    rt_gpu_stage_give(s[2]);
    CHECK_EQ(table.nalloc, 1 + 3);
    table.fail = "mem_alloc", table.fail_at = 1, table.fail_with = CU_ERROR_OUT_OF_MEMORY;
    capture_begin();
    CHECK_EQ(rt_gpu_stage_take(g, false, 1, &t), 0);
    CHECK_STR(capture_end(), "");
    CHECK_EQ(table.nalloc, 1 + 2);
    rt_gpu_stage_give(s[1]);
    rt_gpu_stage_give(t);
    rt_gpu_fini();
    CHECK_EQ(table.nhost + table.nalloc, 0);
}

/* Buffers in use when their context is destroyed are given back like others; the driver is not
 * called. */
static void context_goes(void)
{
    struct rt_gpu_stage *s[3], *t;
    start();
    for (int i = 0; i < 3; i++)
        CHECK_EQ(rt_gpu_stage_take(g, i == 1, i == 2 ? RT_GPU_STAGE_LARGE : 10, &s[i]), 0);
    int nhost = table.nhost, nalloc = table.nalloc;
    table_destroy(&table.own[0]);
    capture_begin();
    CHECK_EQ(rt_gpu_stage_take(g, true, RT_GPU_STAGE_LARGE, &t), -RT_EGPU);
    CHECK(strstr(capture_end(), "has destroyed its context"));
    capture_begin();
    for (int i = 0; i < 3; i++)
        rt_gpu_stage_give(s[i]);
    rt_gpu_fini();
    CHECK_STR(capture_end(), "");
    CHECK_EQ(table.nhost, nhost);
    CHECK_EQ(table.nalloc, nalloc);
}

int main(void)
{
    RUN(lengths);
    RUN(never_overlap);
    RUN(few_are_kept);
    RUN(lengths_share_the_limit);
    RUN(all_is_kept_while_streams_wait);
    RUN(no_memory);
    RUN(idle_memory_helps);
    RUN(context_goes);
    table_reset();
    return check_end();
}
