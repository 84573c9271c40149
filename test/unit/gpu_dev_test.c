/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts in use: which context an address gets, how often contexts are entered, what is created
 * for them and destroyed, what happens if a step of that fails or the application destroys the
 * context. */
#include "runtime/base/ticks.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "test/check.h"
#include "test/unit/capture.h"
#include "test/unit/gpu_table.h"

#define PER_CONTEXT (2 + RT_GPU_ENGINES) /* streams */

static struct rt_gpu *of(cu_ctx ctx, int ordinal)
{
    struct rt_gpu *g = NULL;
    CHECK_EQ(rt_gpu_of(ctx, ordinal, &g), 0);
    return g;
}

static void start(void)
{
    table_reset();
    table_believe(false); /* contexts are checked each time */
    CHECK_EQ(rt_cuda_open(false), 0);
}

static void nothing_left(void)
{
    CHECK_EQ(table.nalloc, 0);
    CHECK_EQ(table.nhost, 0);
    CHECK_EQ(table.nstreams, 0);
    CHECK_EQ(table.nmoves, 0);
    CHECK_EQ(table.nimages, 0);
    CHECK_EQ(table.depth, 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(table.retained[i], 0);
}

static void one_each_context(void)
{
    start();
    struct rt_gpu *a = of(&table.own[0], 0), *b = of(&table.own[1], 1);
    CHECK(a != b);
    CHECK(of(&table.own[0], 0) == a);
    CHECK(of(&table.own[1], 1) == b);
    CHECK(of(NULL, 1) == b); /* memory without a context: a context in use */
    CHECK(of(&table.own[2], 0) != a);
    CHECK_EQ(table.nstreams, 3 * PER_CONTEXT);
    CHECK_EQ(table.depth, 0);
    CHECK(!table.current);
    const struct rt_gpu_info *i = rt_gpu_info(b);
    CHECK_EQ(i->ordinal, 1);
    CHECK_STR(i->name, "Table 1");
    CHECK_STR(i->pci, "0000:19:00.0");
    CHECK_EQ(i->uuid[15], 0x41);
    CHECK_EQ(i->nsm, 132);
    CHECK(a->stream_writes && !a->shared);
    rt_gpu_set_shared(a);
    CHECK(a->shared && !b->shared);
    CHECK(rt_gpu_can_access(0, 0));
    CHECK(!rt_gpu_can_access(0, 1));
    table.can_access = true;
    CHECK(rt_gpu_can_access(0, 1));
    CHECK(!rt_gpu_can_access(0, 7));
    rt_gpu_fini();
    nothing_left();
}

static void memory_without_a_context(void)
{
    start(); /* nothing in use or current: the primary context is retained, once */
    struct rt_gpu *g = of(NULL, 1);
    CHECK(g->ctx == &table.primary[1]);
    CHECK_EQ(table.retained[1], 1);
    CHECK(of(&table.primary[1], 1) == g);
    CHECK_EQ(table.retained[1], 1);
    rt_gpu_fini();
    nothing_left();

    start(); /* the current one, if it is of that device and the primary one is not in use */
    table.current = &table.own[1];
    g = of(NULL, 1);
    CHECK(g->ctx == &table.own[1]);
    CHECK(of(NULL, 0)->ctx == &table.primary[0]);
    table.current = NULL;
    rt_gpu_fini();
    nothing_left();

    start(); /* the primary one, if the application uses it */
    table.current = &table.own[1];
    table.primary[1].alive = true;
    CHECK(of(NULL, 1)->ctx == &table.primary[1]);
    table.current = NULL;
    rt_gpu_fini();
    nothing_left();
}

static void primary_for_tools(void)
{
    struct rt_gpu *g, *h;
    struct rt_gpu_info i;
    start();
    table.primary[0].alive = true;
    g = of(&table.primary[0], 0);
    CHECK_EQ(table.retained[0], 0);
    CHECK_EQ(rt_gpu_primary(0, &g), 0);
    CHECK_EQ(rt_gpu_primary(0, &h), 0);
    CHECK(g == h && g->retained);
    CHECK_EQ(table.retained[0], 1);
    CHECK_EQ(rt_gpu_describe(1, &i), 0);
    CHECK_STR(i.name, "Table 1");
    capture_begin();
    CHECK_EQ(rt_gpu_primary(2, &h), -RT_ENOENT);
    CHECK_EQ(rt_gpu_describe(-1, &i), -RT_ENOENT);
    CHECK(strstr(capture_end(), "sees 0 to 1"));
    CHECK(h == g);
    table.fail = "primary_ctx_retain", table.fail_at = 1, table.fail_with = 46;
    capture_begin();
    CHECK_EQ(rt_gpu_primary(1, &h), -RT_EGPU);
    CHECK(strstr(capture_end(), "cuDevicePrimaryCtxRetain"));
    rt_gpu_fini();
    nothing_left();
}

static void entering(void)
{
    start();
    struct rt_gpu *a = of(&table.own[0], 0), *b = of(&table.own[1], 1);
    int in = rt_gpu_enter(a);
    CHECK_EQ(in, 1);
    CHECK(table.current == a->ctx);
    int in2 = rt_gpu_enter(a), in3 = rt_gpu_enter(b);
    CHECK_EQ(in2, 0);
    CHECK_EQ(in3, 1);
    CHECK_EQ(table.depth, 2);
    rt_gpu_leave(in3);
    rt_gpu_leave(in2);
    CHECK(table.current == a->ctx);
    rt_gpu_leave(in);
    CHECK(!table.current);
    rt_gpu_leave(-RT_EGPU);
    CHECK_EQ(table.depth, 0);
}

/* Each call that creates something fails once: nothing is left over, and the next attempt works. */
static void every_step_may_fail(void)
{
    static const char *const steps[] = { "device_get_name",
                                         "ctx_push_current",
                                         "ctx_get_stream_priority_range",
                                         "stream_create_with_priority",
                                         "mem_alloc",
                                         "images_load",
                                         "move_init" };
    static const cu_result with[] = { CU_ERROR_OUT_OF_MEMORY, 999 };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        for (int at = 1; at <= (i == 3 ? PER_CONTEXT : 1); at++) {
            struct rt_gpu *g = NULL;
            start();
            table.fail = steps[i], table.fail_at = at;
            table.fail_with = with[i >= 2 && i <= 4]; /* without device memory these continue */
            capture_begin();
            int err = rt_gpu_of(NULL, 0, &g);
            const char *said = capture_end();
            CHECK_MSG(err == -RT_ENOMEM || err == -RT_EGPU, "%s: %d", steps[i], err);
            CHECK_MSG(i >= 5 || (said[0] && strchr(said, '\n') == strrchr(said, '\n')),
                      "%s said: %s", steps[i], said);
            CHECK(!g);
            nothing_left();
            CHECK(of(NULL, 0));
            rt_gpu_fini();
            nothing_left();
        }
}

/* A failed attempt is not repeated for every message. */
static void fails_for_a_while(void)
{
    struct rt_gpu *g = NULL;
    start();
    table_believe(true);
    table.fail = "device_get_name", table.fail_at = 1, table.fail_with = 999;
    capture_begin();
    CHECK_EQ(rt_gpu_of(&table.own[0], 0, &g), -RT_EGPU);
    capture_end();
    CHECK_EQ(rt_gpu_of(&table.own[0], 0, &g), -RT_EGPU);
    CHECK(!g);
    CHECK(of(&table.own[1], 1)); /* another context works */
    rt_ticks_per_ms = 0;
    CHECK(of(&table.own[0], 0));
    rt_gpu_fini();
    nothing_left();
}

/* Not even memory for streams: the default stream is used. */
static void no_memory_for_streams(void)
{
    char a[8] = "streams", b[8];
    for (int at = 1; at <= PER_CONTEXT; at++) {
        start();
        table.fail = "stream_create_with_priority", table.fail_at = at;
        table.fail_with = CU_ERROR_OUT_OF_MEMORY;
        capture_begin();
        struct rt_gpu *g = of(&table.own[0], 0);
        CHECK(strstr(capture_end(), "no memory left for a stream"));
        CHECK_EQ(rt_gpu_copy_now(g, b, a, 8), 0);
        CHECK_STR(b, a);
        rt_gpu_fini();
        nothing_left();
    }
}

/* The application has filled the device's memory. */
static void no_device_memory(void)
{
    start();
    table.fail = "mem_alloc", table.fail_at = 1, table.fail_with = CU_ERROR_OUT_OF_MEMORY;
    struct rt_gpu *a = of(&table.own[0], 0), *b;
    CHECK_EQ(table.nalloc, 0);
    table_destroy(&table.own[0]);
    table.own[0].alive = true;
    b = of(&table.own[0], 0);
    CHECK(a != b && a->lost);
    rt_gpu_fini();
    table_reset();
    start();
    table.fail = "mem_alloc", table.fail_at = 1, table.fail_with = CU_ERROR_OUT_OF_MEMORY;
    of(&table.own[0], 0);
    rt_gpu_fini();
    nothing_left();
}

static void destroyed_and_made_again(void)
{
    start();
    cu_ctx ctx = &table.own[0];
    struct rt_gpu *a = of(ctx, 0), *b;
    struct rt_gpu_stage *s;
    CHECK_EQ(rt_gpu_stage_take(a, true, 100, &s), 0);
    rt_gpu_stage_give(s);
    table_destroy(ctx);
    ctx->alive = true; /* another context at the same address */
    b = of(ctx, 0);
    CHECK(b != a && a->lost && !b->lost);
    CHECK(of(ctx, 0) == b);
    CHECK_EQ(rt_gpu_enter(a), -RT_EGPU);
    capture_begin();
    CHECK_EQ(rt_gpu_stage_take(a, true, 100, &s), -RT_EGPU);
    CHECK(strstr(capture_end(), "has destroyed its context"));
    CHECK_EQ(table.nstreams, 2 * PER_CONTEXT); /* the old streams were destroyed with the context */
    capture_begin();
    rt_gpu_fini();
    CHECK_STR(capture_end(), "");
    CHECK_EQ(table.nstreams, PER_CONTEXT);
    CHECK_EQ(table.nmoves, 0);
    CHECK_EQ(table.nimages, 0);
}

/* cudaDeviceReset() of a primary context also drops the library's reference. */
static void primary_reset(void)
{
    start();
    struct rt_gpu *a = of(NULL, 0);
    table_destroy(&table.primary[0]);
    table.retained[0] = 0;
    struct rt_gpu *b = of(NULL, 0);
    CHECK(a != b && a->lost);
    CHECK_EQ(table.retained[0], 1);
    rt_gpu_fini();
    CHECK_EQ(table.retained[0], 0);
}

static void destroyed_for_good(void)
{
    static char device[64];
    start();
    struct rt_gpu *a = of(&table.own[0], 0);
    table_destroy(&table.own[0]);
    capture_begin();
    CHECK_EQ(rt_gpu_copy_now(a, device, device + 8, 8), -RT_EGPU);
    const char *said = capture_end();
    CHECK_MSG(strstr(said, "has destroyed its context on GPU 0"), "said: %s", said);
    CHECK(a->lost);
    capture_begin();
    CHECK_EQ(rt_gpu_enter(a), -RT_EGPU);
    rt_gpu_fini();
    CHECK_STR(capture_end(), "");
    CHECK_EQ(table.nmoves, 0);
}

/* MPI_Finalize after the driver has gone, or after the application has reset its devices. */
static void the_end_is_quiet(void)
{
    static const cu_result ends[] = { CU_ERROR_DEINITIALIZED, CU_ERROR_CONTEXT_IS_DESTROYED,
                                      CU_ERROR_INVALID_CONTEXT };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        start();
        of(&table.own[0], 0);
        of(NULL, 1);
        capture_begin();
        table.ask = ends[i];
        rt_gpu_fini();
        CHECK_STR(capture_end(), "");
        CHECK_EQ(table.nmoves, 0);
        CHECK_EQ(table.nimages, 0);
        table.ask = CU_OK;
    }
}

static void copy_now(void)
{
    char a[1000], b[1000];
    start();
    struct rt_gpu *g = of(&table.own[0], 0);
    for (int i = 0; i < 1000; i++)
        a[i] = (char)(i * 7), b[i] = 0;
    CHECK_EQ(rt_gpu_copy_now(g, b + 1, a + 3, 991), 0);
    CHECK(b[0] == 0 && b[992] == 0 && !memcmp(b + 1, a + 3, 991));
    CHECK_EQ(rt_gpu_copy_now(g, NULL, NULL, 0), 0);
    table.fail = "memcpy_async", table.fail_at = 1, table.fail_with = 1;
    capture_begin();
    CHECK_EQ(rt_gpu_copy_now(g, b, a, 1), -RT_EGPU);
    table.fail = "stream_synchronize", table.fail_at = 1, table.fail_with = 700;
    CHECK_EQ(rt_gpu_copy_now(g, b, a, 1), -RT_EGPU);
    CHECK(strstr(capture_end(), "700"));
    CHECK(!g->lost);
    CHECK_EQ(table.depth, 0);
}

/* Any number of lives. */
/* Which machines have a device, according to files. */
static void files(void)
{
    static const struct {
        const char *files;
        bool has;
    } cases[] = {
        { "", false },
        { "/dev/nvidiactl ", true },
        { "/dev/dxg ", false },                              /* WSL 2 with another vendor's GPU, */
        { "/dev/dxg /usr/lib/wsl/lib/libcuda.so.1 ", true }, /* with an NVIDIA GPU */
        { "/usr/lib/wsl/lib/libcuda.so.1 ", false },
    };
    table_reset();
    rt_cfg_set("gpu", "auto", RT_CFG_CMD);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        table.files = cases[i].files;
        CHECK_EQ(rt_gpu_possible(), cases[i].has);
    }
    rt_cfg_set("gpu", "on", RT_CFG_CMD);
    table.files = "";
    CHECK(rt_gpu_possible());
    table.library = TABLE_ABSENT;
    CHECK(strstr(rt_gpu_why_not(), "/dev/nvidiactl"));
    table.files = "/dev/dxg /usr/lib/wsl/lib/libcuda.so.1 ";
    CHECK(strstr(rt_gpu_why_not(), "libcuda.so.1 is not found"));
}

/* A fence of device scope only where it is known to be sufficient. */
static void fences(void)
{
    static const struct {
        int major;
        bool near;
    } cases[] = { { 7, false }, { 8, true }, { 9, true }, { 10, false }, { 12, false } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        start();
        table.major = cases[i].major;
        CHECK_EQ(of(&table.own[0], 0)->near_fence, cases[i].near);
    }
}

/* ---- calls that wait for the device ---- */

#define MIB ((size_t)1 << 20)
#define LIMIT (64 * MIB) /* 1/16 of the table's devices */

static struct waiter {
    struct rt_gpu_deferred deferred;
    cu_ctx ctx;
    int n;
} waiters[3];
static struct rt_gpu *late_gpu;

static void waits(struct rt_gpu_deferred *d)
{
    struct waiter *w = rt_container(d, struct waiter, deferred);
    w->ctx = table.current;
    if (++w->n == 1 && w == &waiters[2])
        rt_gpu_defer(late_gpu, d, 1, waits);
}

static void defer(int i, size_t nbytes)
{
    rt_gpu_defer(late_gpu, &waiters[i].deferred, nbytes, waits);
}

static void deferred(void)
{
    start();
    memset(waiters, 0, sizeof waiters);
    struct rt_gpu *g = late_gpu = of(&table.own[0], 0);
    CHECK(!rt_gpu_run_deferred());
    for (int i = 0; i < 3; i++)
        defer(i, 1);
    rt_gpu_undefer(g, &waiters[1].deferred);
    CHECK_EQ(waiters[0].n, 0);
    CHECK(rt_gpu_run_deferred()); /* one call has deferred itself again */
    CHECK(waiters[0].n == 1 && waiters[1].n == 0 && waiters[2].n == 2);
    CHECK(waiters[0].ctx == &table.own[0]);
    CHECK(!rt_gpu_run_deferred());
    CHECK_EQ(table.depth, 0);
    defer(0, 1);
    rt_gpu_fini();
    CHECK(waiters[0].n == 2 && waiters[0].ctx == &table.own[0]);
    nothing_left();
    start();
    late_gpu = of(&table.own[0], 0);
    defer(0, 1);
    table_destroy(&table.own[0]);
    rt_gpu_fini();
    CHECK(waiters[0].n == 3 && !waiters[0].ctx);
}

static bool awaiting;
static bool awaits(void) { return awaiting; }

/* All are executed if they hold too much memory, but not while a stream may wait for another
 * process. */
static void deferred_up_to_a_limit(void)
{
    start();
    memset(waiters, 0, sizeof waiters);
    late_gpu = of(&table.own[0], 0);
    defer(0, LIMIT);
    CHECK_EQ(waiters[0].n, 0);
    defer(1, 1);
    CHECK(waiters[0].n == 1 && waiters[1].n == 1);
    defer(0, LIMIT);
    rt_gpu_undefer(late_gpu, &waiters[0].deferred);
    defer(1, LIMIT);
    CHECK(waiters[0].n == 1 && waiters[1].n == 1);
    rt_gpu_awaits = awaits;
    awaiting = true;
    defer(0, LIMIT);
    CHECK(!rt_gpu_run_deferred());
    CHECK(waiters[0].n == 1 && waiters[1].n == 1);
    awaiting = false;
    CHECK(rt_gpu_run_deferred());
    CHECK(waiters[0].n == 2 && waiters[1].n == 2);
    rt_gpu_awaits = NULL;
}

/* Calls of every context are executed, and the call without memory is repeated. */
static void deferred_until_memory_is_short(void)
{
    start();
    memset(waiters, 0, sizeof waiters);
    late_gpu = of(&table.own[1], 1);
    struct rt_gpu *g = of(&table.own[0], 0);
    struct rt_gpu_stage *s;
    int n = table.nalloc;
    defer(0, 1);
    table.fail = "mem_alloc", table.fail_at = 1, table.fail_with = CU_ERROR_OUT_OF_MEMORY;
    CHECK_EQ(rt_gpu_stage_take(g, false, 1, &s), 0);
    CHECK(waiters[0].n == 1 && waiters[0].ctx == &table.own[1]);
    CHECK_EQ(table.nalloc, n + 1);
    CHECK(!table.current && table.depth == 0);
    rt_gpu_stage_give(s);
}

/* A context that is current at setup is prepared then. */
static void prepared(void)
{
    start();
    rt_gpu_prepare();
    CHECK(!rt_gpu_next(NULL)); /* there is no context */
    table.current = &table.own[1];
    rt_gpu_prepare();
    struct rt_gpu *g = rt_gpu_next(NULL);
    CHECK(g && g->ctx == &table.own[1] && rt_gpu_info(g)->ordinal == table.own[1].device);
    rt_gpu_prepare();
    CHECK(!rt_gpu_next(g));
    table.current = NULL;
}

static void again(void)
{
    for (int i = 0; i < 3; i++) {
        start();
        CHECK(of(NULL, 0));
        rt_gpu_fini();
        nothing_left();
        CHECK(!rt_gpu_watch);
        rt_gpu_fini();
    }
}

int main(void)
{
    RUN(one_each_context);
    RUN(memory_without_a_context);
    RUN(primary_for_tools);
    RUN(entering);
    RUN(every_step_may_fail);
    RUN(fails_for_a_while);
    RUN(no_memory_for_streams);
    RUN(no_device_memory);
    RUN(destroyed_and_made_again);
    RUN(primary_reset);
    RUN(destroyed_for_good);
    RUN(the_end_is_quiet);
    RUN(copy_now);
    RUN(files);
    RUN(fences);
    RUN(deferred);
    RUN(deferred_up_to_a_limit);
    RUN(deferred_until_memory_is_short);
    RUN(prepared);
    RUN(again);
    table_reset();
    return check_end();
}
