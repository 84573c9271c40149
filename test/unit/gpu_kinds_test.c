/* SPDX-License-Identifier: BSD-3-Clause */
/* Every kind of memory of a driver, the fake one or a real one: classification of addresses,
 * copies, staging, freed memory and reused addresses, contexts that are destroyed or reset.
 * Skipped without a driver. */
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "test/check.h"
#include "test/gpu/cuda_more.h"
#include "test/unit/capture.h"
#include "runtime/gpu/gpu.h"
#include "runtime/gpu/gpu_int.h"

#include <dlfcn.h>
#include <time.h>

#define MIB ((size_t)1 << 20)
#define FIELD(field, symbol, params) cu_result(*field) params;
static struct more {
    CU_MORE_FUNCTIONS(FIELD)
} more;
#define OK(call) \
    do { \
        cu_result ok_r = (call); \
        CHECK_MSG(ok_r == CU_OK, "%s answered %d", #call, ok_r); \
    } while (0)

#define NAME(field, symbol, params) { #symbol, offsetof(struct more, field) },
static void *at(cu_ptr p) { return (void *)(uintptr_t)p; }

/* Longer than any knowledge of an address or a context is trusted. */
static void pass_time(void)
{
    struct timespec t = { 0, 3000000 };
    nanosleep(&t, NULL);
}

static struct rt_gpu_ptr ask(void *p, size_t len)
{
    struct rt_gpu_ptr q = { .kind = RT_MEM_KINDS };
    CHECK(rt_gpu_is_device(p));
    CHECK_EQ(rt_gpu_query(p, len, &q), 0);
    return q;
}

/* Copies through device memory p and back, with odd lengths and offsets. */
static void round_trip(void *p, size_t len)
{
    struct rt_gpu_ptr q = ask((char *)p + 3, len - 3);
    unsigned char *a = malloc(len), *b = malloc(len);
    for (size_t i = 0; i < len; i++)
        a[i] = (unsigned char)(i * 31 + i / 257 + len), b[i] = 0xee;
    if (q.g) {
        CHECK_EQ(rt_gpu_copy_now(q.g, (char *)p + 3, a + 1, len - 4), 0);
        CHECK_EQ(rt_gpu_copy_now(q.g, b + 2, (char *)p + 3, len - 4), 0);
        CHECK(b[0] == 0xee && b[1] == 0xee && b[len - 1] == 0xee && b[len - 2] == 0xee);
        CHECK(!memcmp(b + 2, a + 1, len - 4));
    }
    free(a);
    free(b);
}

/* Checks memory [p, p + len) that was allocated with this length; the driver may round it up. */
static struct rt_gpu_ptr bounds(void *p, size_t len, enum rt_memkind kind)
{
    struct rt_gpu_ptr q = ask(p, len), tail = ask((char *)p + len - 1, 1), bad = q;
    CHECK_EQ(q.kind, kind);
    CHECK_EQ(q.base, (uintptr_t)p);
    CHECK_MSG(q.len >= len && q.len < len + 2 * MIB, "%zu bytes of %zu", q.len, len);
    CHECK_EQ(tail.base, q.base);
    CHECK_EQ(tail.id, q.id);
    CHECK_EQ(tail.len, q.len);
    CHECK(q.id != 0 && q.single && q.g && tail.g == q.g);
    CHECK_EQ(rt_gpu_lies_on(q.g, &q), kind != RT_MEM_MANAGED);
    capture_begin();
    CHECK_EQ(rt_gpu_query(p, q.len + 1, &bad), -RT_EINVAL);
    CHECK(strstr(capture_end(), "ends 1 bytes behind its allocation"));
    round_trip(p, len);
    return q;
}

static void plain(void)
{
    cu_ptr p, p2;
    OK(rt_cuda.mem_alloc(&p, 5 * MIB));
    struct rt_gpu_ptr q = bounds(at(p), 5 * MIB, RT_MEM_CUDA);
    OK(rt_cuda.mem_free(p));
    OK(rt_cuda.mem_alloc(&p2, 5 * MIB));
    struct rt_gpu_ptr again = bounds(at(p2), 5 * MIB, RT_MEM_CUDA);
    CHECK(again.id != q.id && again.g == q.g);
    OK(rt_cuda.mem_free(p2));
    OK(rt_cuda.mem_alloc(&p, 100)); /* small allocations share a granule */
    OK(rt_cuda.mem_alloc(&p2, 100));
    q = bounds(at(p), 100, RT_MEM_CUDA);
    again = bounds(at(p2), 100, RT_MEM_CUDA);
    CHECK(again.id != q.id);
    OK(rt_cuda.mem_free(p));
    OK(rt_cuda.mem_free(p2));
}

static void freed(void)
{
    cu_ptr p;
    struct rt_gpu_ptr q;
    OK(rt_cuda.mem_alloc(&p, 64 * MIB));
    ask(at(p), 64 * MIB);
    OK(rt_cuda.mem_free(p));
    pass_time();
    CHECK(rt_gpu_is_device(at(p))); /* otherwise the CPU would access it */
    CHECK_EQ(rt_gpu_query(at(p), 8, &q), -RT_ENOENT);
}

static void managed(void)
{
    cu_ptr p;
    int can = 0;
    rt_cuda.device_get_attribute(&can, CU_DEV_MANAGED_MEMORY, 0);
    if (!can)
        return;
    OK(more.mem_alloc_managed(&p, 3 * MIB, CU_MEM_ATTACH_GLOBAL));
    bounds(at(p), 3 * MIB, RT_MEM_MANAGED);
    OK(rt_cuda.mem_free(p));
}

static void host(void)
{
    void *p;
    struct rt_gpu_ptr q;
    static char plain_memory[9 << 20];
    OK(rt_cuda.mem_host_alloc(&p, MIB, CU_HOST_PORTABLE));
    CHECK(!rt_gpu_is_device(p));
    CHECK_EQ(rt_gpu_query(p, 8, &q), -RT_ENOENT);
    OK(rt_cuda.mem_free_host(p));
    CHECK(!rt_gpu_is_device(plain_memory));
    CHECK_EQ(rt_gpu_query(plain_memory, 8, &q), -RT_ENOENT);
    if (rt_cuda.mem_host_register(plain_memory, 4 * MIB, CU_HOST_PORTABLE) != CU_OK)
        return;
    pass_time();
    CHECK(!rt_gpu_is_device(plain_memory));
    CHECK_EQ(rt_gpu_query(plain_memory, 8, &q), -RT_ENOENT);
    OK(rt_cuda.mem_host_unregister(plain_memory));
}

static void pool(void)
{
    cu_ptr p, p2;
    cu_stream s;
    if (!more.mem_alloc_async || more.stream_create(&s, CU_STREAM_NON_BLOCKING) != CU_OK)
        return;
    OK(more.mem_alloc_async(&p, 3 * MIB, s));
    OK(more.mem_alloc_async(&p2, 3 * MIB, s));
    OK(rt_cuda.stream_synchronize(s));
    struct rt_gpu_ptr q = bounds(at(p), 3 * MIB, RT_MEM_CUDA_POOL);
    CHECK(bounds(at(p2), 3 * MIB, RT_MEM_CUDA_POOL).id != q.id);
    OK(more.mem_free_async(p, s));
    OK(more.mem_free_async(p2, s));
    OK(rt_cuda.stream_synchronize(s));
    OK(rt_cuda.stream_destroy(s));
}

static size_t grain;

static cu_handle map(cu_ptr p, size_t len)
{
    struct cu_alloc_prop prop = { .type = CU_ALLOCATION_PINNED,
                                  .handle_types = CU_HANDLE_POSIX_FD,
                                  .location = { CU_LOCATION_DEVICE, 0 } };
    struct cu_access access = { { CU_LOCATION_DEVICE, 0 }, CU_ACCESS_READWRITE };
    cu_handle h = 0;
    OK(rt_cuda.mem_create(&h, len, &prop, 0));
    OK(rt_cuda.mem_map(p, len, 0, h, 0));
    OK(rt_cuda.mem_set_access(p, len, &access, 1));
    return h;
}

/* Three mappings in a row, then a hole. */
static void vmm(void)
{
    struct cu_alloc_prop prop = { .type = CU_ALLOCATION_PINNED,
                                  .location = { CU_LOCATION_DEVICE, 0 } };
    struct rt_gpu_ptr q, q2;
    cu_handle h[3];
    cu_ptr p;
    if (!rt_cuda.mem_create || rt_cuda.mem_get_allocation_granularity(&grain, &prop, 0) != CU_OK)
        return;
    OK(rt_cuda.mem_address_reserve(&p, 8 * grain, 0, 0, 0));
    h[0] = map(p, grain);
    h[1] = map(p + grain, 2 * grain);
    h[2] = map(p + 3 * grain, grain);
    q = ask(at(p + grain + 5), grain);
    CHECK(q.kind == RT_MEM_CUDA_VMM && q.single && q.base == p + grain && q.len == 2 * grain);
    q2 = ask(at(p + 3 * grain), 1);
    CHECK(q2.id != q.id && q2.single && q2.len == grain);
    q = ask(at(p + 7), 4 * grain - 7);
    CHECK(q.kind == RT_MEM_CUDA_VMM && !q.single && q.base == p && q.len == 4 * grain);
    round_trip(at(p + grain), 2 * grain);
    capture_begin();
    CHECK_EQ(rt_gpu_query(at(p), 4 * grain + 1, &q), -RT_EINVAL);
    capture_end();
    OK(rt_cuda.mem_unmap(p + grain, 2 * grain));
    pass_time();
    capture_begin();
    CHECK_EQ(rt_gpu_query(at(p), 2 * grain, &q), -RT_EINVAL);
    CHECK(rt_gpu_is_device(at(p + grain)));
    int err = rt_gpu_query(at(p + grain), 1, &q);
    CHECK(err == -RT_EINVAL || err == -RT_ENOENT);
    capture_end();
    q = ask(at(p), grain);
    CHECK(q.single && q.len == grain);
    OK(rt_cuda.mem_unmap(p, grain));
    OK(rt_cuda.mem_unmap(p + 3 * grain, grain));
    for (int i = 0; i < 3; i++)
        OK(rt_cuda.mem_release(h[i]));
    OK(rt_cuda.mem_address_free(p, 8 * grain));
}

static void staging(void)
{
    struct rt_gpu *g;
    struct rt_gpu_stage *h, *d;
    CHECK_EQ(rt_gpu_primary(0, &g), 0);
    CHECK_EQ(rt_gpu_stage_take(g, true, RT_GPU_STAGE_LARGE, &h), 0);
    CHECK_EQ(rt_gpu_stage_take(g, false, RT_GPU_STAGE_LARGE, &d), 0);
    memset(h->p, 0x6b, h->len);
    CHECK_EQ(rt_gpu_copy_now(g, d->p, h->p, h->len), 0);
    memset(h->p, 0, h->len);
    CHECK_EQ(rt_gpu_copy_now(g, h->p + 1, d->p, h->len - 1), 0);
    CHECK(h->p[0] == 0 && h->p[1] == 0x6b && !memcmp(h->p + 1, h->p + 2, h->len - 2));
    CHECK(!rt_gpu_is_device(h->p));
    CHECK_EQ(ask(d->p, d->len).kind, RT_MEM_CUDA);
    rt_gpu_stage_give(h);
    rt_gpu_stage_give(d);
}

static void own_context(void)
{
    cu_ctx c, popped;
    cu_ptr p;
    OK(more.ctx_create(&c, 0, 0));
    OK(rt_cuda.mem_alloc(&p, MIB));
    struct rt_gpu_ptr q = bounds(at(p), MIB, RT_MEM_CUDA);
    CHECK(q.ctx == c && q.g->ctx == c);
    OK(rt_cuda.ctx_pop_current(&popped));
    round_trip(at(p), MIB); /* in another context, or in none */
    OK(more.ctx_set_current(NULL));
    round_trip(at(p), MIB);
    OK(more.ctx_destroy(c));
    pass_time();
    struct rt_gpu *g;
    CHECK_EQ(rt_gpu_primary(0, &g), 0);
    CHECK(g != q.g);
    char x[8] = "";
    CHECK_EQ(rt_gpu_query(at(p), 8, &q), -RT_ENOENT);
    OK(more.ctx_set_current(g->ctx));
    CHECK_EQ(rt_gpu_copy_now(g, x, x + 4, 4), 0);
}

/* cudaDeviceReset(): MPI's objects are destroyed, and created again when they are needed. */
static void reset(void)
{
    struct rt_gpu *before, *after;
    cu_ptr p;
    CHECK_EQ(rt_gpu_primary(0, &before), 0);
    OK(more.primary_ctx_reset(0));
    pass_time();
    CHECK_EQ(rt_gpu_primary(0, &after), 0);
    CHECK(before != after && before->lost && !after->lost);
    OK(more.ctx_set_current(after->ctx));
    OK(rt_cuda.mem_alloc(&p, MIB));
    struct rt_gpu_ptr q = bounds(at(p), MIB, RT_MEM_CUDA);
    CHECK(q.g == after);
    staging();
    OK(more.primary_ctx_reset(0));
    pass_time();
    rt_log_levels[RT_LOG_GPU] = RT_LOG_WARN;
    capture_begin(); /* the end, with nothing left */
    rt_gpu_fini();
    CHECK_STR(capture_end(), "");
    rt_gpu_init();
}

int main(void)
{
    rt_log_levels[RT_LOG_GPU] = RT_LOG_INFO; /* logs bad buffers */
    cu_ctx c;
    rt_cfg_set("gpu", "on", RT_CFG_CMD);
    rt_gpu_init();
    if (rt_gpu_count() == 0)
        check_skip(rt_gpu_why_not());
    void *lib = dlopen("libcuda.so.1", RTLD_LAZY);
    static const struct {
        const char *symbol;
        size_t off;
    } names[] = { CU_MORE_FUNCTIONS(NAME) };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *f = dlsym(lib, names[i].symbol);
        memcpy((char *)&more + names[i].off, &f, sizeof f);
    }
    OK(rt_cuda.primary_ctx_retain(&c, 0));
    OK(more.ctx_set_current(c));
    pass_time();
    RUN(plain);
    RUN(freed);
    RUN(managed);
    RUN(host);
    RUN(pool);
    RUN(vmm);
    RUN(staging);
    RUN(own_context);
    RUN(reset);
    rt_gpu_fini();
    return check_end();
}
