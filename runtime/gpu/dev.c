/* SPDX-License-Identifier: BSD-3-Clause */
/* The contexts in which this process uses devices: one struct rt_gpu for each, made when the first
 * address of the context is queried, kept until rt_gpu_fini().  Under the domain's lock. */
#include "runtime/gpu/dev.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/base/ticks.h"
#include "runtime/gpu/context.h"
#include "runtime/gpu/copy.h"
#include "runtime/gpu/driver.h"
#include "runtime/gpu/gpu_int.h"
#include "runtime/gpu/images.h"
#include "runtime/gpu/ipc.h"
#include "runtime/gpu/stage.h"

#include <stdlib.h>

#define MARK_NBYTES 256

/* All struct rt_gpu, also the lost ones. */
static struct rt_list all = { &all, &all };
uint32_t rt_gpu_era;

/* The last attempt to use a context that failed.  An attempt takes long, so not every message
 * tries: a context that works again is used at most FAILED_MS milliseconds late. */
#define FAILED_MS 500
static struct {
    cu_ctx ctx;
    uint64_t when;
    int err;
} failed;

bool rt_gpu_run_deferred(void)
{
    uint64_t was = rt_gpu_nmade;
    struct rt_list *l;
    if (rt_gpu_must_not_wait())
        return false;
    rt_list_each (l, &all) {
        struct rt_gpu *g = rt_container(l, struct rt_gpu, link);
        rt_gpu_stage_release(g);
        rt_gpu_make_deferred(g);
    }
    return rt_gpu_nmade != was;
}

size_t rt_gpu_held(void)
{
    struct rt_list *l;
    size_t n = 0;
    rt_list_each (l, &all) {
        const struct rt_gpu *g = rt_container(l, struct rt_gpu, link);
        n += g->lost ? 0 : g->held;
    }
    return n;
}

/* ---- making and giving back ---- */

#define NSTREAMS (2 + RT_GPU_ENGINES)
static cu_stream *stream(struct rt_gpu *g, int i)
{
    return i == 0 ? &g->kernels : i == 1 ? &g->now : &g->engine[i - 2];
}

/* A stream takes memory of the device.  If the application has left none, the default stream is
 * used: copies then wait for the application's kernels. */
static cu_result make_streams(struct rt_gpu *g)
{
    int least = 0, greatest = 0;
    cu_result r = rt_cuda.ctx_get_stream_priority_range(&least, &greatest);
    for (int i = 0; r == CU_OK && i < NSTREAMS; i++) {
        r = rt_cuda.stream_create_with_priority(stream(g, i), CU_STREAM_NON_BLOCKING, greatest);
        if (r != CU_OK)
            *stream(g, i) = NULL; /* discards what the driver has stored */
    }
    if (r != CU_ERROR_OUT_OF_MEMORY)
        return r;
    log_warn(GPU,
             "GPU %d has no memory left for a stream of MPI: its copies wait for the "
             "application's kernels; leave some memory free",
             g->info.ordinal);
    return CU_OK;
}

/* If an application has filled the device, the mark is pinned host memory.  If the driver gives
 * that no id, a context made again at the same address is not noticed by the mark. */
static cu_result make_mark(struct rt_gpu *g)
{
    int attribute = CU_PTR_BUFFER_ID;
    void *value = &g->mark.id, *host;
    cu_result r = rt_cuda.mem_alloc(&g->mark.p, MARK_NBYTES);
    if (r == CU_ERROR_OUT_OF_MEMORY) {
        r = rt_cuda.mem_host_alloc(&host, MARK_NBYTES, CU_HOST_PORTABLE | CU_HOST_DEVICEMAP);
        g->mark.p = r == CU_OK ? (cu_ptr)(uintptr_t)host : 0;
        g->mark.host = r == CU_OK;
    }
    if (r == CU_OK)
        r = rt_cuda.pointer_get_attributes(1, &attribute, &value, g->mark.p);
    return r;
}

/* Whether a fence of device scope is enough before the host is notified of stores into the device's
 * own memory (completion.h).  PTX does not promise that: in its model such a fence orders nothing
 * for the host.  It follows from the hardware:
 * 8.x, 9.x (Ampere, Ada, Hopper): all accesses to the device's memory meet in its second-level
 * cache: those of its multiprocessors, its engines, other devices (NVLink) and the bus.  What the
 * fence has ordered is there before the flag leaves the device, so a reader that has seen the flag
 * finds no older data.  Tests on devices run on 9.0 (H200: half the time of the other fence).
 * 10.0 and later: two dies with a cache each.  Whether the same holds is not known, so these
 * devices use the fence of system scope, and so do those before 8.0. */
static bool near_fence_is_enough(const struct rt_gpu_info *i)
{
    return i->major == 8 || i->major == 9;
}

static int ordinal_of(cu_device device)
{
    cu_device d;
    int n = 0;
    rt_cuda.device_get_count(&n);
    for (int i = 0; i < n; i++)
        if (rt_cuda.device_get(&d, i) == CU_OK && d == device)
            return i;
    return -1;
}

/* g's context is current. */
static int fill(struct rt_gpu *g)
{
    cu_result r = rt_cuda.ctx_get_device(&g->device);
    if (r != CU_OK)
        return rt_cuda_error(r, "cuCtxGetDevice");
    int err = rt_gpu_describe_device(g->device, ordinal_of(g->device), &g->info);
    if (err)
        return err;
    g->near_fence = near_fence_is_enough(&g->info);
    /* 0 with driver 580, although the function works: it describes the first version.
     * Events are as good there: messages of 16 and 64 KiB between two processes of one H200 take
     * 14.4 and 15.9 us with events, 16.2 and 19.8 with stores. */
    g->stream_writes = rt_cuda.stream_write_value32 &&
                       rt_gpu_attribute(g->device, CU_DEV_CAN_STREAM_MEM_OPS);
    if ((r = make_streams(g)) != CU_OK)
        return rt_cuda_error(r, "making streams");
    if ((r = make_mark(g)) != CU_OK)
        return rt_cuda_error(r, "the first allocation of memory for MPI");
    if ((err = rt_gpu_images_load(g)))
        return err;
    return rt_gpu_move_init(g);
}

/* Frees everything that fill() has made, in any state, in reverse order. */
static void empty(struct rt_gpu *g)
{
    g->mark.looked = 0;
    int in = rt_gpu_is_there(g) ? rt_gpu_enter(g) : -RT_EGPU;
    g->lost = in < 0;
    rt_gpu_move_fini(g);
    rt_gpu_make_deferred(g);
    rt_gpu_ipc_fini(g);
    rt_gpu_images_unload(g);
    rt_gpu_stage_fini(g);
    if (!g->lost) {
        for (int i = 0; i < NSTREAMS; i++)
            if (*stream(g, i))
                rt_cuda.stream_destroy(*stream(g, i));
        if (g->mark.host)
            rt_cuda.mem_free_host((void *)(uintptr_t)g->mark.p);
        else if (g->mark.p)
            rt_cuda.mem_free(g->mark.p);
    }
    rt_gpu_leave(in);
    if (g->retained && !g->lost)
        rt_cuda.primary_ctx_release(g->device);
}

static int make(cu_ctx ctx, struct rt_gpu **out)
{
    if (ctx == failed.ctx && rt_ticks() - failed.when < rt_ticks_in_ms(FAILED_MS))
        return failed.err;
    struct rt_gpu *g = calloc(1, sizeof *g);
    if (!g) {
        log_error(GPU, "no memory for the state of a GPU");
        return -RT_ENOMEM;
    }
    g->ctx = ctx;
    g->mark.looked = rt_ticks();
    rt_list_init(&g->deferred.calls);
    rt_gpu_stage_init(g);
    int in = rt_gpu_enter(g);
    int err = in < 0 ? in : fill(g);
    if (in >= 0)
        rt_gpu_leave(in);
    if (err) {
        failed.ctx = ctx;
        failed.when = rt_ticks();
        failed.err = err;
        empty(g);
        free(g);
        return err;
    }
    rt_list_append(&all, &g->link);
    rt_cuda_make_room = rt_gpu_run_deferred;
    rt_gpu_era++;
    log_info(GPU, "using GPU %d, %s, compute capability %d.%d, %s", g->info.ordinal, g->info.name,
             g->info.major, g->info.minor, g->module[0] ? "with kernels" : "without kernels");
    *out = g;
    return 0;
}

static struct rt_gpu *find(cu_ctx ctx)
{
    struct rt_list *l;
    rt_list_each (l, &all) {
        struct rt_gpu *g = rt_container(l, struct rt_gpu, link);
        if (g->ctx == ctx && rt_gpu_is_there(g))
            return g;
    }
    return NULL;
}

static int of_context(cu_ctx ctx, struct rt_gpu **out)
{
    struct rt_gpu *g = find(ctx);
    if (!g)
        return make(ctx, out);
    *out = g;
    return 0;
}

static int of_primary(int ordinal, struct rt_gpu **out)
{
    cu_device d;
    cu_ctx ctx;
    struct rt_gpu *g;
    cu_result r = rt_cuda.device_get(&d, ordinal);
    if (r != CU_OK)
        return rt_cuda_error(r, "cuDeviceGet");
    if ((r = rt_cuda.primary_ctx_retain(&ctx, d)) != CU_OK)
        return rt_cuda_error(r, "cuDevicePrimaryCtxRetain");
    int err = of_context(ctx, &g);
    if (err || g->retained) {
        rt_cuda.primary_ctx_release(d); /* one reference is enough */
    } else {
        g->retained = true;
    }
    if (!err)
        *out = g;
    return err;
}

/* A context of the device that is in use already, the primary one first. */
static struct rt_gpu *find_ordinal(int ordinal)
{
    struct rt_gpu *best = NULL;
    struct rt_list *l;
    rt_list_each (l, &all) {
        struct rt_gpu *g = rt_container(l, struct rt_gpu, link);
        if (g->info.ordinal == ordinal && (!best || g->retained) && rt_gpu_is_there(g))
            best = g;
    }
    return best;
}

/* For memory that belongs to a device and to no context (VMM, pools): a context that is in use, so
 * that none has to be made. */
static int of_device(int ordinal, struct rt_gpu **out)
{
    struct rt_gpu *g = find_ordinal(ordinal);
    if (g) {
        *out = g;
        return 0;
    }
    cu_device d, mine;
    cu_ctx now = NULL;
    unsigned flags;
    int active = 0;
    cu_result r = rt_cuda.device_get(&d, ordinal);
    if (r == CU_OK)
        r = rt_cuda.primary_ctx_get_state(d, &flags, &active);
    if (r != CU_OK)
        return rt_cuda_error(r, "cuDevicePrimaryCtxGetState");
    if (!active && rt_cuda.ctx_get_current(&now) == CU_OK && now &&
        rt_cuda.ctx_get_device(&mine) == CU_OK && mine == d)
        return of_context(now, out);
    return of_primary(ordinal, out);
}

int rt_gpu_of(void *ctx, int ordinal, struct rt_gpu **out)
{
    return ctx ? of_context(ctx, out) : of_device(ordinal, out);
}

void rt_gpu_end_all(void)
{
    struct rt_list *l, *next;
    rt_list_each_safe (l, next, &all) {
        struct rt_gpu *g = rt_container(l, struct rt_gpu, link);
        empty(g);
        rt_list_del(l);
        free(g);
    }
    rt_gpu_era++;
    failed.ctx = NULL;
}

/* ---- for tools and for other holders of a struct rt_gpu ---- */

struct rt_gpu *rt_gpu_next(const struct rt_gpu *g)
{
    struct rt_list *l = g ? g->link.next : all.next;
    return l == &all ? NULL : rt_container(l, struct rt_gpu, link);
}

int rt_gpu_primary(int ordinal, struct rt_gpu **out)
{
    int err = rt_gpu_check_ordinal(ordinal);
    return err ? err : of_primary(ordinal, out);
}
