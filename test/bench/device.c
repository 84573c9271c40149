/* SPDX-License-Identifier: BSD-3-Clause */
/* See device.h.  The functions come from libcuda.so.1; memory is written and read by copies on a
 * stream of our own, never by the CPU, so that managed memory stays where the GPU has it. */
#define _GNU_SOURCE 1
#include "test/bench/device.h"
#include "test/bench/bench.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rt_cuda device_cu;

static struct {
    bool open;
    char why[300];
    int ordinal;
    cu_ctx ctx;
    cu_stream stream;
    /* not called by the library; some are missing in old drivers */
    cu_result (*alloc_managed)(cu_ptr *p, size_t nbytes, unsigned flags);
} dev;

const char *device_why(void) { return dev.why; }
int device_ordinal(void) { return dev.ordinal; }
cu_ctx device_ctx(void) { return dev.ctx; }

int device_local_rank(void)
{
    /* Not Slurm's: mpirun within a job step hands the same one to all ranks. */
    static const char *const names[] = { "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                         "MV2_COMM_WORLD_LOCAL_RANK" };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *s = getenv(names[i]);
        if (s && *s)
            return atoi(s);
    }
    return -1;
}

static const char *error_text(cu_result r)
{
    const char *text = NULL;

    if (device_cu.get_error_string)
        device_cu.get_error_string(r, &text);
    return text ? text : "unknown error";
}

static int why_not(const char *what, cu_result r)
{
    snprintf(dev.why, sizeof dev.why, "%s: error %d, %s", what, r, error_text(r));
    return -1;
}

/* dlsym() answers with an object pointer; memcpy makes a function pointer of it without a cast that
 * ISO C does not know. */
static bool look_up(void *lib, const char *name, void *slot)
{
    void *p = dlsym(lib, name);

    memcpy(slot, &p, sizeof p);
    return p != NULL;
}

/* As applications' allocators do, and so that the driver maps all of it in large pages for others:
 * buffers are a few bytes longer than the messages. */
#define PAGE ((size_t)2 << 20)

static int load(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    const char *missing = NULL;

    if (!lib) {
        snprintf(dev.why, sizeof dev.why, "no CUDA driver: %s", dlerror());
        return -1;
    }
#define NEED(field, symbol, params) \
    if (!look_up(lib, #symbol, &device_cu.field)) \
        missing = #symbol;
#define MAY(field, symbol, params) look_up(lib, #symbol, &device_cu.field);
    CU_FUNCTIONS(NEED, MAY)
    look_up(lib, "cuMemAllocManaged", &dev.alloc_managed);
    if (missing)
        snprintf(dev.why, sizeof dev.why, "the CUDA driver is too old: it has no %s", missing);
    return missing ? -1 : 0;
}

int device_open(int local, bool same)
{
    int n = 0;
    cu_device d;
    cu_result r;

    if (dev.open)
        return 0;
    if (load())
        return -1;
    r = device_cu.init(0);
    if (!r)
        r = device_cu.device_get_count(&n);
    if (r || n < 1)
        return why_not("no CUDA device", r ? r : CU_ERROR_NO_DEVICE);
    dev.ordinal = same ? 0 : local % n;
    r = device_cu.device_get(&d, dev.ordinal);
    if (!r)
        r = device_cu.primary_ctx_retain(&dev.ctx, d);
    if (!r)
        r = device_cu.ctx_push_current(dev.ctx);
    if (!r)
        r = device_cu.stream_create_with_priority(&dev.stream, CU_STREAM_NON_BLOCKING, 0);
    if (r)
        return why_not("the CUDA device cannot be used", r);
    dev.open = true;
    return 0;
}

void device_must(cu_result r, const char *what)
{
    if (!r)
        return;
    fprintf(stderr, "benchmark: device %d: %s: error %d, %s\n", dev.ordinal, what, r,
            error_text(r));
    MPI_Abort(MPI_COMM_WORLD, BENCH_NO_DEVICE);
}

/* A thread that was started after device_open() has no context yet. */
static void enter(void)
{
    cu_ctx now = NULL;

    device_must(device_cu.ctx_get_current(&now), "cuCtxGetCurrent");
    if (now != dev.ctx)
        device_must(device_cu.ctx_push_current(dev.ctx), "cuCtxPushCurrent");
}

void *device_alloc(char kind, size_t len)
{
    cu_ptr p = 0;
    cu_result r;

    enter();
    if (kind == 'M')
        r = dev.alloc_managed ? dev.alloc_managed(&p, len ? len : 1, 1) /* 1: for all streams */
                              : CU_ERROR_NOT_SUPPORTED;
    else
        r = device_cu.mem_alloc(&p, (len + PAGE - 1) / PAGE * PAGE + (len ? 0 : PAGE));
    if (r) {
        why_not(kind == 'M' ? "cuMemAllocManaged" : "cuMemAlloc", r);
        return NULL;
    }
    return (void *)(uintptr_t)p;
}

void device_free(void *p)
{
    if (!p)
        return;
    enter();
    device_must(device_cu.mem_free((cu_ptr)(uintptr_t)p), "cuMemFree");
}

static void finish(void)
{
    device_must(device_cu.stream_synchronize(dev.stream), "cuStreamSynchronize");
}

void device_copy(void *dst, const void *src, size_t len)
{
    if (!len)
        return;
    enter();
    device_must(
        device_cu.memcpy_async((cu_ptr)(uintptr_t)dst, (cu_ptr)(uintptr_t)src, len, dev.stream),
        "cuMemcpyAsync");
    finish();
}

void device_set(void *dst, unsigned char c, size_t len)
{
    if (!len)
        return;
    enter();
    device_must(device_cu.memset_d8_async((cu_ptr)(uintptr_t)dst, c, len, dev.stream),
                "cuMemsetD8Async");
    finish();
}
