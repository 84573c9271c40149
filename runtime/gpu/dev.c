/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices, and the contexts in which this process uses them: one struct rt_gpu for each, made when
 * the first address of the context is queried, kept until rt_gpu_fini().  Under the domain's
 * lock. */
#include "runtime/gpu/gpu_int.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/base/ticks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CFG_GPU_ON 1 /* positions of the words in cfg.def */
#define CFG_GPU_OFF 2
#define MARK_NBYTES 256
#define DEVICE_FILE "/dev/nvidiactl"
/* WSL 2 has no such file: its driver is that of Windows, whose library lies at one fixed path.  The
 * device file alone may belong to a GPU of another vendor. */
#define WSL_DEVICE_FILE "/dev/dxg"
#define WSL_LIBRARY "/usr/lib/wsl/lib/libcuda.so.1"

/* All struct rt_gpu, also the lost ones. */
static struct rt_list all = { &all, &all };
uint32_t rt_gpu_era;
bool (*rt_gpu_awaits)(void);
static char why_not[320]; /* result of rt_gpu_why_not() */
/* How often the driver is asked, at most, whether a context still exists: it bounds how late the
 * end of a context is noticed. */
#define CONTEXT_CHECK_MS 1
/* The last attempt to use a context that failed.  An attempt takes long, so not every message
 * tries: a context that works again is used at most FAILED_MS milliseconds late. */
#define FAILED_MS 500
static struct {
    cu_ctx ctx;
    uint64_t when;
    int err;
} failed;

/* ---- entering and losing a context ---- */

static void lose(struct rt_gpu *g)
{
    if (g->lost)
        return;
    g->lost = true;
    log_info(
        GPU,
        "the application has destroyed its context on GPU %d, with all memory and streams in it",
        g->info.ordinal);
}

bool rt_gpu_check_lost(struct rt_gpu *g, cu_result r)
{
    if (rt_cuda_fault(r) == RT_CUDA_GONE)
        lose(g);
    return g->lost;
}

/* Whether the context for which g was made still exists.  The driver is asked at most once in
 * CONTEXT_CHECK_MS. */
static bool still_there(struct rt_gpu *g)
{
    uint64_t now = rt_ticks(), id = 0;
    if (g->lost)
        return false;
    if (now - g->looked < rt_ticks_in_ms(CONTEXT_CHECK_MS))
        return true;
    int attribute = CU_PTR_BUFFER_ID;
    void *value = &id;
    cu_result r = rt_cuda.pointer_get_attributes(1, &attribute, &value, g->mark);
    if (r == CU_OK && id != g->mark_id)
        lose(g);
    g->looked = now;
    return !rt_gpu_check_lost(g, r);
}

int rt_gpu_gone(const struct rt_gpu *g)
{
    log_error(GPU,
              "the application has destroyed its context on GPU %d, which this call of MPI needs",
              g->info.ordinal);
    return -RT_EGPU;
}

int rt_gpu_enter(struct rt_gpu *g)
{
    cu_ctx now = NULL;
    if (g->lost)
        return -RT_EGPU;
    cu_result r = rt_cuda.ctx_get_current(&now);
    if (r == CU_OK && now == g->ctx)
        return 0;
    if (!still_there(g)) /* before a handle is used that is no longer valid */
        return -RT_EGPU;
    if (r == CU_OK)
        r = rt_cuda.ctx_push_current(g->ctx);
    if (r == CU_OK)
        return 1;
    return rt_gpu_check_lost(g, r) ? -RT_EGPU : rt_cuda_error(r, "cuCtxPushCurrent");
}

void rt_gpu_leave(int in)
{
    cu_ctx c;
    if (in == 1)
        rt_cuda.ctx_pop_current(&c);
}

/* ---- what waits for the device ---- */

/* Deferred calls hold at most this part of the device's memory.  Larger: more memory that is free
 * but missing for the application; smaller: more waits for the device. */
#define DEFERRED_PART 16

void rt_gpu_undefer(struct rt_gpu *g, struct rt_gpu_deferred *d)
{
    rt_list_del(&d->link);
    g->deferred_nbytes -= d->nbytes;
}

static uint64_t nrun; /* deferred calls made so far */

/* A call may defer another one: that is made, too. */
static void run_deferred(struct rt_gpu *g)
{
    if (rt_list_empty(&g->deferred))
        return;
    int in = rt_gpu_enter(g);
    if (in < 0 && !g->lost)
        return;
    while (!rt_list_empty(&g->deferred)) {
        struct rt_gpu_deferred *d = rt_container(g->deferred.next, struct rt_gpu_deferred, link);
        rt_gpu_undefer(g, d);
        d->fn(d);
        nrun++;
    }
    rt_gpu_leave(in);
}

void rt_gpu_defer(struct rt_gpu *g, struct rt_gpu_deferred *d, size_t nbytes,
                  void (*fn)(struct rt_gpu_deferred *d))
{
    d->fn = fn;
    d->nbytes = nbytes;
    rt_list_append(&g->deferred, &d->link);
    g->deferred_nbytes += nbytes;
    bool full = g->deferred_nbytes > g->info.mem_nbytes / DEFERRED_PART;
    if (g->lost || (full && !rt_gpu_must_not_wait()))
        run_deferred(g);
}

bool rt_gpu_run_deferred(void)
{
    uint64_t was = nrun;
    struct rt_list *l;
    if (rt_gpu_must_not_wait())
        return false;
    rt_list_each (l, &all) {
        struct rt_gpu *g = rt_container(l, struct rt_gpu, link);
        rt_gpu_stage_release(g);
        run_deferred(g);
    }
    return nrun != was;
}

/* ---- devices ---- */

static int attribute_of(cu_device d, int which)
{
    int value = 0;
    return rt_cuda.device_get_attribute(&value, which, d) == CU_OK ? value : 0;
}

static int describe(cu_device d, int ordinal, struct rt_gpu_info *out)
{
    struct rt_gpu_info i = { .ordinal = ordinal };
    struct cu_uuid uuid;
    cu_result r = rt_cuda.device_get_name(i.name, sizeof i.name, d);
    if (r == CU_OK)
        r = rt_cuda.device_get_pci_bus_id(i.pci, sizeof i.pci, d);
    if (r == CU_OK)
        r = rt_cuda.device_total_mem(&i.mem_nbytes, d);
    if (r != CU_OK)
        return rt_cuda_error(r, "asking for a device's name and memory");
    if (rt_cuda.device_get_uuid && rt_cuda.device_get_uuid(&uuid, d) == CU_OK)
        memcpy(i.uuid, uuid.bytes, sizeof i.uuid);
    else
        memcpy(i.uuid, i.pci, sizeof i.uuid); /* distinguishes devices of one host */
    i.major = attribute_of(d, CU_DEV_MAJOR);
    i.minor = attribute_of(d, CU_DEV_MINOR);
    i.nsm = attribute_of(d, CU_DEV_MULTIPROCESSORS);
    i.unified_managed = attribute_of(d, CU_DEV_CONCURRENT_MANAGED) != 0;
    i.exclusive = attribute_of(d, CU_DEV_COMPUTE_MODE) == CU_COMPUTE_EXCLUSIVE_PROCESS;
    i.mps = attribute_of(d, CU_DEV_MPS) != 0;
    *out = i;
    return 0;
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
    void *value = &g->mark_id, *host;
    cu_result r = rt_cuda.mem_alloc(&g->mark, MARK_NBYTES);
    if (r == CU_ERROR_OUT_OF_MEMORY) {
        r = rt_cuda.mem_host_alloc(&host, MARK_NBYTES, CU_HOST_PORTABLE | CU_HOST_DEVICEMAP);
        g->mark = r == CU_OK ? (cu_ptr)(uintptr_t)host : 0;
        g->mark_host = r == CU_OK;
    }
    if (r == CU_OK)
        r = rt_cuda.pointer_get_attributes(1, &attribute, &value, g->mark);
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
    int err = describe(g->device, ordinal_of(g->device), &g->info);
    if (err)
        return err;
    g->near_fence = near_fence_is_enough(&g->info);
    g->stream_writes = rt_cuda.stream_write_value32 &&
                       attribute_of(g->device, CU_DEV_CAN_STREAM_MEM_OPS) != 0;
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
    g->looked = 0;
    int in = still_there(g) ? rt_gpu_enter(g) : -RT_EGPU;
    g->lost = in < 0;
    rt_gpu_move_fini(g);
    run_deferred(g);
    rt_gpu_ipc_fini(g);
    rt_gpu_images_unload(g);
    rt_gpu_stage_fini(g);
    if (!g->lost) {
        for (int i = 0; i < NSTREAMS; i++)
            if (*stream(g, i))
                rt_cuda.stream_destroy(*stream(g, i));
        if (g->mark_host)
            rt_cuda.mem_free_host((void *)(uintptr_t)g->mark);
        else if (g->mark)
            rt_cuda.mem_free(g->mark);
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
    g->looked = rt_ticks();
    rt_list_init(&g->deferred);
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
        if (g->ctx == ctx && still_there(g))
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
        if (g->info.ordinal == ordinal && (!best || g->retained) && still_there(g))
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

int rt_gpu_of(cu_ctx ctx, int ordinal, struct rt_gpu **out)
{
    return ctx ? of_context(ctx, out) : of_device(ordinal, out);
}

static bool has_device_file(void)
{
    return access(DEVICE_FILE, F_OK) == 0 ||
           (access(WSL_DEVICE_FILE, F_OK) == 0 && access(WSL_LIBRARY, F_OK) == 0);
}

bool rt_gpu_possible(void)
{
    return cfg.gpu == CFG_GPU_ON || (cfg.gpu != CFG_GPU_OFF && has_device_file());
}

void rt_gpu_prepare(void)
{
    struct rt_gpu *g;
    cu_ctx c = NULL;
    if (!rt_gpu_watch || rt_gpu_driver(false) != RT_GPU_DRIVER_READY)
        return;
    if (rt_cuda.ctx_get_current(&c) == CU_OK && c)
        (void)rt_gpu_of(c, -1, &g); /* a message in the context tries again and returns the error */
}

int rt_gpu_take(size_t len, void **out)
{
    const size_t large = 2u << 20;
    struct rt_gpu *g;
    cu_ctx c = NULL;
    cu_ptr p = 0;
    if (!rt_gpu_watch || rt_gpu_driver(false) != RT_GPU_DRIVER_READY ||
        rt_cuda.ctx_get_current(&c) != CU_OK || !c)
        return -RT_ENOTSUP;
    int err = rt_gpu_of(c, -1, &g);
    if (err < 0)
        return err;
    int in = rt_gpu_enter(g);
    if (in < 0)
        return in;
    if (len >= large) /* rt_gpu_in_large_pages() */
        len = (len + large - 1) / large * large;
    cu_result r = rt_cuda.mem_alloc(&p, len);
    rt_gpu_leave(in);
    *out = (void *)(uintptr_t)p;
    return r == CU_OK                    ? 0
           : r == CU_ERROR_OUT_OF_MEMORY ? -RT_ENOMEM
                                         : rt_cuda_error(r, "cuMemAlloc");
}

struct given {
    struct rt_gpu_deferred deferred;
    struct rt_gpu *g;
    cu_ptr p;
};

static void give_now(struct rt_gpu_deferred *d)
{
    struct given *x = rt_container(d, struct given, deferred);
    int in = rt_gpu_enter(x->g);
    if (in >= 0) { /* else it has been freed with its context */
        rt_cuda.mem_free(x->p);
        rt_gpu_leave(in);
    }
    free(x);
}

void rt_gpu_give(void *p)
{
    struct rt_gpu_ptr at;
    struct given *x = rt_gpu_query(p, 1, &at) < 0 ? NULL : calloc(1, sizeof *x);
    if (!x)
        return;
    x->g = at.g;
    x->p = (cu_ptr)(uintptr_t)p;
    rt_gpu_defer(at.g, &x->deferred, at.len, give_now);
}

void rt_gpu_init(void)
{
    rt_ticks_init();
    rt_gpu_classify_init();
    rt_gpu_watch = rt_gpu_possible();
}

void rt_gpu_fini(void)
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
    rt_gpu_watch = false;
}

/* ---- for tools and for other holders of a struct rt_gpu ---- */

struct rt_gpu *rt_gpu_next(const struct rt_gpu *g)
{
    struct rt_list *l = g ? g->link.next : all.next;
    return l == &all ? NULL : rt_container(l, struct rt_gpu, link);
}

const struct rt_gpu_info *rt_gpu_info(const struct rt_gpu *g) { return &g->info; }

unsigned rt_gpu_most_blocks(const struct rt_gpu *g, unsigned per_sm)
{
    unsigned n = (unsigned)g->info.nsm * per_sm, limit = (unsigned)cfg.gpu_multiprocessors;

    return limit && limit < n ? limit : n;
}

void rt_gpu_set_shared(struct rt_gpu *g)
{
    g->shared = true;
    g->in_turns = !g->info.mps;
}

bool rt_gpu_can_access(int ordinal, int peer)
{
    cu_device d, other;
    int can = 0;
    if (peer == ordinal)
        return true;
    return rt_cuda.device_get(&d, ordinal) == CU_OK && rt_cuda.device_get(&other, peer) == CU_OK &&
           rt_cuda.device_can_access_peer(&can, d, other) == CU_OK && can;
}

/* Loads and initialises the driver.  The number of devices; if 0, why_not has the reason. */
static int start(void)
{
    const char *name = NULL, *text = NULL;
    int n = 0;
    why_not[0] = '\0';
    enum rt_gpu_driver found = rt_gpu_driver(true);
    if (found == RT_GPU_DRIVER_OLD)
        snprintf(why_not, sizeof why_not,
                 "the driver, for CUDA %d.%d, is too old: device buffers "
                 "need one for CUDA 11.2 or newer",
                 rt_gpu_driver_version() / 1000, rt_gpu_driver_version() % 1000 / 10);
    else if (found == RT_GPU_DRIVER_NONE && !has_device_file())
        snprintf(why_not, sizeof why_not,
                 "there is no /dev/nvidiactl: no NVIDIA driver runs here, "
                 "or this container was started without its devices");
    else if (found == RT_GPU_DRIVER_NONE)
        snprintf(why_not, sizeof why_not,
                 "libcuda.so.1 is not found: install the driver's user "
                 "part, or put its folder into LD_LIBRARY_PATH");
    if (found != RT_GPU_DRIVER_READY)
        return 0;
    cu_result r = rt_cuda.init(0);
    if (r == CU_OK)
        r = rt_cuda.device_get_count(&n);
    if (r == CU_OK && n > 0)
        return n;
    if (r == CU_OK || r == CU_ERROR_NO_DEVICE) {
        snprintf(why_not, sizeof why_not,
                 "the driver shows no device to this process: look at "
                 "CUDA_VISIBLE_DEVICES and at the devices of the container");
        return 0;
    }
    rt_cuda.get_error_name(r, &name);
    rt_cuda.get_error_string(r, &text);
    snprintf(why_not, sizeof why_not, "the driver does not start: cuInit answered %d, %s (%s)", r,
             name ? name : "an unknown error", text ? text : "no explanation");
    return 0;
}

int rt_gpu_count(void) { return start(); }

const char *rt_gpu_why_not(void) { return start() > 0 ? NULL : why_not; }

int rt_gpu_driver_version(void)
{
    int version = 0;
    if (rt_gpu_driver(true) == RT_GPU_DRIVER_NONE || !rt_cuda.driver_get_version ||
        rt_cuda.driver_get_version(&version) != CU_OK)
        return 0;
    return version;
}

static int known_ordinal(int ordinal)
{
    int n = start();
    if (ordinal >= 0 && ordinal < n)
        return 0;
    if (n == 0)
        log_error(GPU, "no GPU %d: %s", ordinal, why_not);
    else
        log_error(GPU, "no GPU %d: this process sees 0 to %d", ordinal, n - 1);
    return -RT_ENOENT;
}

int rt_gpu_describe(int ordinal, struct rt_gpu_info *out)
{
    cu_device d;
    int err = known_ordinal(ordinal);
    if (err)
        return err;
    cu_result r = rt_cuda.device_get(&d, ordinal);
    return r == CU_OK ? describe(d, ordinal, out) : rt_cuda_error(r, "cuDeviceGet");
}

int rt_gpu_primary(int ordinal, struct rt_gpu **out)
{
    int err = known_ordinal(ordinal);
    return err ? err : of_primary(ordinal, out);
}

/* ---- copies that are complete on return ---- */

int rt_gpu_copy_now(struct rt_gpu *g, void *dst, const void *src, size_t len)
{
    if (len == 0)
        return 0;
    int in = rt_gpu_enter(g);
    if (in < 0)
        return g->lost ? rt_gpu_gone(g) : in;
    cu_result r = rt_cuda.memcpy_async((cu_ptr)(uintptr_t)dst, (cu_ptr)(uintptr_t)src, len, g->now);
    if (r == CU_OK)
        r = rt_cuda.stream_synchronize(g->now);
    rt_gpu_leave(in);
    if (r == CU_OK)
        return 0;
    return rt_gpu_check_lost(g, r) ? rt_gpu_gone(g) : rt_cuda_error(r, "copying device memory");
}
