/* SPDX-License-Identifier: BSD-3-Clause */
/* Which addresses are device memory, how often the driver is queried, its answers for an address,
 * with drivers of several versions; freed and bad buffers; threads that query at the same time. */
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "test/check.h"
#include "test/unit/capture.h"
#include "test/unit/gpu_table.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
static char *space;  /* 64 MiB of addresses without memory, like a driver's */
static char *mapped; /* 64 MiB of host memory */

static void off_costs_nothing(void)
{
    table_reset();
    rt_cfg_set("gpu", "off", RT_CFG_CMD);
    rt_gpu_init();
    CHECK(!rt_gpu_watch);
    table_add(space, MIB, &table.own[0], 0);
    CHECK(!rt_gpu_is_device(space));
    CHECK_EQ(table.nask + table.ndlopen, 0);
}

/* No answer is cached: host memory may have become device memory at the next check. */
static void host_is_asked_each_time(void)
{
    char *pinned = mapped + 32 * MIB;
    table_reset();
    CHECK(rt_gpu_watch);
    CHECK(!rt_gpu_is_device(mapped));
    int n = table.nask;
    for (int i = 0; i < 1000; i++)
        CHECK(!rt_gpu_is_device(mapped));
    CHECK_EQ(table.nask, n + 1000);
    table_add(pinned, 64, &table.own[0], 0)->type = CU_MEMORY_HOST;
    CHECK(!rt_gpu_is_device(pinned));
    CHECK_EQ(table.nask, n + 1001);
}

static void host_memory_becomes_device_memory(void)
{
    table_reset();
    table_believe(true); /* no time has passed */
    for (int round = 0; round < 3; round++) {
        CHECK(!rt_gpu_is_device(mapped));
        table_add(mapped, MIB, &table.own[0], 0);
        CHECK(rt_gpu_is_device(mapped + 5));
        table_remove(mapped);
    }
}

/* The driver is not queried for the program's own variables, heap and stack, however deep and new
 * they are. */
static char variable[100];

static int deep(int levels)
{
    volatile char here[4000];
    here[3999] = 1;
    CHECK(!rt_gpu_is_device((const char *)here + 3999));
    return levels ? deep(levels - 1) + here[3999] : 0;
}

static void own_memory_is_host(void)
{
    int here;
    table_reset();
    table_believe(false);
    int n = table.nask;
    CHECK(!rt_gpu_is_device(variable + 99));
    CHECK(!rt_gpu_is_device(&here));
    CHECK_EQ(deep(100), 100);
    for (int i = 0; i < 40; i++) /* not malloc(), which a sanitizer replaces */
        CHECK(!rt_gpu_is_device((char *)sbrk(100000) + 99999));
    CHECK_EQ(table.nask, n);
    CHECK(rt_gpu_is_own(variable) && rt_gpu_is_own(&here));
    CHECK(!rt_gpu_is_own(mapped) && !rt_gpu_is_own(space) && !rt_gpu_is_own(NULL));
    CHECK(!rt_gpu_is_own((char *)rt_gpu_own.data - 1));
    CHECK(!rt_gpu_is_own((char *)rt_gpu_own.heap - 1));
    CHECK(!rt_gpu_is_own((char *)rt_gpu_own.heap + rt_gpu_own.heap_len));
    CHECK(!rt_gpu_is_own((void *)rt_gpu_own.stack_end));
}

static void special_addresses_are_host(void)
{
    table_reset();
    table_believe(false);
    int n = table.nask;
    CHECK(!rt_gpu_is_device(NULL));
    CHECK(!rt_gpu_is_device((void *)1));
    CHECK_EQ(table.nask, n);
}

static void device_and_back(void)
{
    struct region *r;
    table_reset();
    table_believe(true);
    r = table_add(space, MIB, &table.own[0], 0);
    CHECK(rt_gpu_is_device(space));
    CHECK(rt_gpu_is_device(space + MIB - 1));
    r->id++; /* other memory has another number */
    r->type = CU_MEMORY_HOST;
    r->managed = 1;
    CHECK(rt_gpu_is_device(space));
    r->id++;
    r->managed = 0;
    CHECK(!rt_gpu_is_device(space));
    r->id++;
    r->type = CU_MEMORY_DEVICE;
    CHECK(rt_gpu_is_device(space));
}

/* The driver is searched again after a library has been loaded. */
static void no_driver_until_something_is_loaded(void)
{
    table_reset();
    table.library = TABLE_ABSENT;
    rt_gpu_init();
    rt_cuda_forget();
    CHECK(!rt_gpu_is_device(space));
    table.ndlopen = 0;
    for (size_t i = 0; i < 64; i++)
        CHECK(!rt_gpu_is_device(space + i * MIB));
    CHECK_EQ(table.ndlopen, 0);
    CHECK(dlmopen(LM_ID_BASE, "libanl.so.1", RTLD_NOW)); /* dlopen() is the fake's */
    CHECK(!rt_gpu_is_device(space));
    CHECK_EQ(table.ndlopen, 1);
    table.library = TABLE_LOADED;
    table_add(space, MIB, &table.own[0], 0);
    CHECK(dlmopen(LM_ID_BASE, "libBrokenLocale.so.1", RTLD_NOW));
    CHECK(rt_gpu_is_device(space));
    int n = table.ndlopen;
    CHECK(rt_gpu_is_device(space) && !rt_gpu_is_device(mapped));
    CHECK_EQ(table.ndlopen, n);
}

static void not_initialised_is_host(void)
{
    table_reset();
    rt_gpu_init();
    table.ask = CU_ERROR_NOT_INITIALIZED;
    for (size_t i = 0; i < 64; i++)
        CHECK(!rt_gpu_is_device(space + i * MIB));
    table.ask = CU_OK;
    table_add(space, MIB, &table.own[0], 0);
    CHECK(rt_gpu_is_device(space));
    table.ask = CU_ERROR_DEINITIALIZED; /* the process is ending */
    CHECK(!rt_gpu_is_device(space));
}

/* After a kernel has failed, the driver returns an error from every call. */
static void a_driver_with_a_failed_kernel(void)
{
    struct rt_gpu_ptr q;
    table_reset();
    table_believe(false);
    rt_gpu_init();
    table_add(space, MIB, &table.own[0], 0);
    table.ask = 700;
    CHECK(rt_gpu_is_device(space));
    CHECK(!rt_gpu_is_device(mapped));
    capture_begin();
    CHECK_EQ(rt_gpu_query(space, 8, &q), -RT_EGPU);
    CHECK(strstr(capture_end(), "700"));
}

/* The address had host memory, then device memory, then nothing. */
static void freed_memory_where_host_memory_was(void)
{
    table_reset();
    table_believe(true);
    mprotect(space, 2 * MIB, PROT_READ);
    CHECK(!rt_gpu_is_device(space));
    mprotect(space, 2 * MIB, PROT_NONE);
    table_add(space, MIB, &table.own[0], 0);
    CHECK(rt_gpu_is_device(space));
    table_remove(space);
    CHECK(rt_gpu_is_device(space));
}

static void freed_memory_is_refused(void)
{
    struct rt_gpu_ptr q = { .len = 77 };
    table_reset();
    table_believe(false);
    table_add(space, MIB, &table.own[0], 0);
    CHECK(rt_gpu_is_device(space + 100));
    table_remove(space);
    CHECK(rt_gpu_is_device(space + 100));
    CHECK_EQ(rt_gpu_query(space + 100, 8, &q), -RT_ENOENT);
    CHECK_EQ(rt_gpu_query(mapped, 4, &q), -RT_ENOENT);
    CHECK_EQ(q.len, 77);
}

/* ---- query ---- */

static void kinds(void)
{
    struct rt_gpu_ptr q, first;
    struct region *r;
    table_reset();
    r = table_add(space, MIB, &table.own[1], 1);
    CHECK_EQ(rt_gpu_query(space + 5, MIB - 5, &q), 0);
    CHECK_EQ(q.kind, RT_MEM_CUDA);
    CHECK_EQ(q.ordinal, 1);
    CHECK(q.ctx == &table.own[1] && q.base == (uintptr_t)space && q.len == MIB && q.single);
    CHECK_EQ(q.id, r->id);
    CHECK(q.g && q.g->ctx == &table.own[1]);
    first = q;
    r->id++;
    r->managed = 1;
    CHECK_EQ(rt_gpu_query(space, MIB, &q), 0);
    CHECK_EQ(q.kind, RT_MEM_MANAGED);
    CHECK(q.g == first.g);
    r->id++;
    r->managed = r->legacy = 0;
    r->ctx = NULL;
    r->pool = (cu_pool)&table;
    r->block_id = 4711;
    CHECK_EQ(rt_gpu_query(space, MIB, &q), 0);
    CHECK_EQ(q.kind, RT_MEM_CUDA_POOL);
    CHECK(q.g == first.g && !q.ctx);
    first = q;
    r->id++; /* the pool reused the address */
    CHECK_EQ(rt_gpu_query(space, MIB, &q), 0);
    CHECK(q.id != first.id);
    r->id--, r->block_id++;
    CHECK_EQ(rt_gpu_query(space, MIB, &q), 0);
    CHECK(q.id != first.id);
    r->pool = NULL; /* another allocation */
    r->id++;
    CHECK_EQ(rt_gpu_query(space, MIB, &q), 0);
    CHECK_EQ(q.kind, RT_MEM_CUDA_VMM);
    CHECK_EQ(q.id, r->block_id);
    r->type = CU_MEMORY_HOST;
    CHECK_EQ(rt_gpu_query(space, 1, &q), -RT_ENOENT);
}

static struct region *vmm(size_t at, size_t len)
{
    struct region *r = table_add(space + at, len, NULL, 0);
    r->start = (uintptr_t)space;
    r->len = 64 * MIB;
    r->legacy = 0;
    r->block_id = 1000 + r->id;
    return r;
}

/* A known allocation costs one call of the driver, in a check, in a query, and in both at once. VMM
 * memory may have several mappings and is identified by the address. */
static void one_call_for_what_is_known(void)
{
    struct rt_gpu_ptr q;
    table_reset();
    table_believe(true);
    table_add(space, MIB, &table.own[0], 0);
    table_add(space + 4 * MIB, MIB, &table.own[0], 0);
    CHECK_EQ(rt_gpu_query(space, 0, &q), 0); /* creates the context's state */
    int n = table.nask;
    CHECK_EQ(rt_gpu_query(space, 1, &q), 0);
    CHECK_EQ(table.nask, n + 1);
    CHECK_EQ(table.nattributes, 1);
    CHECK(rt_gpu_is_device(space + 8));
    CHECK_EQ(table.nask, n + 2);
    CHECK_EQ(rt_gpu_find(space + 8, 100, &q), 1);
    CHECK(q.base == (uintptr_t)space && q.len == MIB);
    CHECK_EQ(table.nask, n + 3);
    n = table.nask;
    CHECK_EQ(rt_gpu_find(space + 4 * MIB, 1, &q), 1); /* unknown */
    CHECK(q.base == (uintptr_t)(space + 4 * MIB));
    CHECK_EQ(table.nask, n + 2);
    CHECK(rt_gpu_is_device(space) && rt_gpu_is_device(space + 5 * MIB - 1));
    CHECK_EQ(table.nask, n + 4);
    vmm(8 * MIB, 2 * MIB);
    n = table.nask;
    CHECK(rt_gpu_is_device(space + 8 * MIB));
    CHECK_EQ(table.nask, n + 2);
    CHECK(rt_gpu_is_device(space + 8 * MIB));
    CHECK_EQ(table.nask, n + 3);
}

static void freed_and_allocated_again(void)
{
    struct rt_gpu_ptr q, first;
    int n;
    table_reset();
    table_believe(true);
    struct region *r = table_add(space, MIB, &table.own[0], 0);
    CHECK_EQ(rt_gpu_query(space, 1, &first), 0);
    n = table.nask;
    CHECK(rt_gpu_is_still(&first));
    CHECK_EQ(table.nask, n); /* another thread may free it now */
    r->id++;
    CHECK_EQ(rt_gpu_query(space, 1, &q), 0);
    CHECK(q.id == first.id + 1);
    table_remove(space); /* longer */
    table_add(space, 2 * MIB, &table.own[0], 0);
    CHECK_EQ(rt_gpu_find(space, 2 * MIB, &q), 1);
    CHECK_EQ(q.len, 2 * MIB);
    CHECK(rt_gpu_is_still(&q));
    capture_begin();
    CHECK_EQ(rt_gpu_find(space, 2 * MIB + 1, &q), -RT_EINVAL);
    capture_end();
    table_remove(space);
    CHECK(!rt_gpu_is_still(&q));
    CHECK_EQ(rt_gpu_query(space, 1, &q), -RT_ENOENT);
    CHECK_EQ(rt_gpu_find(space, 1, &q), -RT_ENOENT); /* the processor cannot access it either */
}

static void ends_behind_its_allocation(void)
{
    struct rt_gpu_ptr q = { .len = 77 };
    char want[200];
    table_reset();
    table_add(space, 1000, &table.own[1], 1);
    CHECK_EQ(rt_gpu_query(space + 990, 10, &q), 0);
    q.len = 77;
    capture_begin();
    CHECK_EQ(rt_gpu_query(space + 990, 13, &q), -RT_EINVAL);
    const char *said = capture_end();
    snprintf(want, sizeof want,
             "buffer 0x%llx of 13 bytes ends 3 bytes behind its allocation "
             "0x%llx+1000 on GPU 1",
             (unsigned long long)(uintptr_t)(space + 990), (unsigned long long)(uintptr_t)space);
    CHECK_MSG(strstr(said, want), "said: %s", said);
    capture_begin();
    CHECK_EQ(rt_gpu_query(space + 990, SIZE_MAX - 5, &q), -RT_EINVAL);
    capture_end();
    CHECK_EQ(q.len, 77);
    table_add(space + 1000, 1000, &table.own[1], 1); /* a neighbouring allocation does not help */
    capture_begin();
    CHECK_EQ(rt_gpu_query(space + 990, 13, &q), -RT_EINVAL);
    capture_end();
}

/* Two other allocations are remembered instead of all known ones. */
static void forget(void)
{
    struct rt_gpu_ptr q;
    for (int i = 0; i < 4; i++) {
        table_add(space + (20 + i) * MIB, 4096, &table.own[0], 0);
        CHECK_EQ(rt_gpu_query(space + (20 + i) * MIB, 1, &q), 0);
    }
}

static void old_drivers_know_less(int newest, int most)
{
    struct rt_gpu_ptr q;
    struct region *r;
    table_reset();
    table.newest = newest;
    table_believe(true); /* so that the context is not checked */
    r = table_add(space, MIB, &table.own[0], 0);
    r->block_id = 9;
    CHECK_EQ(rt_gpu_query(space, MIB, &q), 0);
    CHECK_EQ(q.kind, RT_MEM_CUDA);
    forget();
    int n = table.nask;
    r->legacy = 0;
    r->ctx = NULL;
    r->start -= MIB; /* more addresses are reserved than mapped */
    r->len += 4 * MIB;
    CHECK_EQ(rt_gpu_query(space + 3, MIB - 3, &q), 0);
    CHECK_EQ(table.nask - n, 1); /* remembered */
    CHECK_EQ(q.kind, RT_MEM_CUDA_VMM);
    CHECK_EQ(q.base, (uintptr_t)space);
    CHECK_EQ(q.len, MIB);
    CHECK_EQ(q.id, newest >= most ? 9 : r->id);
    forget();
    table.ask = CU_ERROR_INVALID_VALUE;
    capture_begin();
    CHECK_EQ(rt_gpu_query(space, 1, &q), -RT_EGPU);
    capture_end();
    table.ask = CU_OK;
    CHECK_EQ(rt_gpu_query(space, 1, &q), 0);
}

static void attributes_of_all_ages(void)
{
    for (int newest = CU_PTR_MAPPED; newest <= CU_PTR_MEMORY_BLOCK_ID; newest++)
        old_drivers_know_less(newest, CU_PTR_MEMORY_BLOCK_ID);
}

static void vmm_runs(void)
{
    struct rt_gpu_ptr q;
    struct region *last;
    table_reset();
    vmm(0, 2 * MIB);
    vmm(2 * MIB, 4 * MIB);
    last = vmm(6 * MIB, 2 * MIB);
    CHECK_EQ(rt_gpu_query(space + MIB, MIB, &q), 0);
    CHECK(q.single && q.len == 2 * MIB && q.base == (uintptr_t)space);
    CHECK_EQ(rt_gpu_query(space + MIB, 6 * MIB, &q), 0);
    CHECK(!q.single && q.len == 8 * MIB && q.base == (uintptr_t)space);
    CHECK_EQ(rt_gpu_query(space + 3 * MIB, 4 * MIB, &q), 0);
    CHECK(!q.single && q.len == 6 * MIB && q.base == (uintptr_t)space + 2 * MIB);
    capture_begin();
    CHECK_EQ(rt_gpu_query(space + MIB, 7 * MIB + 1, &q), -RT_EINVAL);
    CHECK(strstr(capture_end(), "ends 1 bytes behind"));
    last->mapped = 0;
    capture_begin();
    CHECK_EQ(rt_gpu_query(space + MIB, 7 * MIB, &q), -RT_EINVAL);
    CHECK_EQ(rt_gpu_query(space + 6 * MIB, 1, &q), -RT_EINVAL);
    CHECK(strstr(capture_end(), "not mapped"));
}

/* Memory of another process opened by an IPC handle: has a context, cannot be exported again. */
static void imported_memory(void)
{
    struct rt_gpu_ptr q;
    struct region *r;
    table_reset();
    r = table_add(space, MIB, &table.own[0], 0);
    r->legacy = r->mapped = 0;
    r->mapping_len = 0;
    CHECK_EQ(rt_gpu_query(space + 1, 100, &q), 0);
    CHECK_EQ(q.kind, RT_MEM_CUDA_VMM);
    CHECK(q.base == (uintptr_t)space && q.len == MIB);
}

/* ---- threads ---- */

static void *ask_all(void *arg)
{
    long wrong = 0;
    for (int i = 0; i < 20000; i++) {
        wrong += rt_gpu_is_device(mapped);
        wrong += !rt_gpu_is_device(space + (size_t)(i % 4) * MIB);
        wrong += rt_gpu_is_device(arg);
    }
    return (void *)wrong;
}

static void threads_ask_at_the_same_time(void)
{
    pthread_t t[4];
    void *wrong;
    table_reset(); /* one of the threads fills the driver's table */
    table_add(space, 4 * MIB, &table.own[0], 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&t[i], NULL, ask_all, mapped + (size_t)i * 8 * MIB), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], &wrong);
        CHECK_EQ((long)wrong, 0);
    }
}

int main(void)
{
    rt_log_levels[RT_LOG_GPU] = RT_LOG_INFO; /* logs bad buffers */
    space = mmap(NULL, 64 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    mapped = mmap(NULL, 64 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(space != MAP_FAILED && mapped != MAP_FAILED);
    RUN(off_costs_nothing);
    RUN(host_is_asked_each_time);
    RUN(host_memory_becomes_device_memory);
    RUN(own_memory_is_host);
    RUN(special_addresses_are_host);
    RUN(device_and_back);
    RUN(no_driver_until_something_is_loaded);
    RUN(not_initialised_is_host);
    RUN(a_driver_with_a_failed_kernel);
    RUN(freed_memory_where_host_memory_was);
    RUN(freed_memory_is_refused);
    RUN(kinds);
    RUN(one_call_for_what_is_known);
    RUN(freed_and_allocated_again);
    RUN(ends_behind_its_allocation);
    RUN(attributes_of_all_ages);
    RUN(vmm_runs);
    RUN(imported_memory);
    RUN(threads_ask_at_the_same_time);
    table_reset();
    return check_end();
}
