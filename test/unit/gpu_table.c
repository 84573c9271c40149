/* SPDX-License-Identifier: BSD-3-Clause */
/* See gpu_table.h.  Functions that the code under test does not call return "not supported". */
#include "test/unit/gpu_table.h"
#include "runtime/base/ticks.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

struct table table;

static bool fails(const char *name)
{
    return table.fail && !strcmp(name, table.fail) && table.fail_at > 0 && --table.fail_at == 0;
}
#define MAYBE_FAIL(field) \
    if (fails(#field)) \
    return table.fail_with
#define NEED_CTX(field) \
    if (!table.current) \
        return CU_ERROR_INVALID_CONTEXT; \
    if (!table.current->alive) \
        return CU_ERROR_CONTEXT_IS_DESTROYED; \
    MAYBE_FAIL(field)

static cu_result t_unsupported(void) { return CU_ERROR_NOT_SUPPORTED; }

static cu_result t_init(unsigned flags)
{
    (void)flags;
    return table.init;
}

static cu_result t_driver_get_version(int *version)
{
    *version = table.version;
    return CU_OK;
}

static cu_result t_get_error_name(cu_result err, const char **name)
{
    if (err == 999)
        return CU_ERROR_INVALID_VALUE;
    *name = err == CU_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OTHER";
    return CU_OK;
}

static cu_result t_get_error_string(cu_result err, const char **text)
{
    if (err == 999)
        return CU_ERROR_INVALID_VALUE;
    *text = err == CU_ERROR_OUT_OF_MEMORY ? "out of memory" : "something else";
    return CU_OK;
}

static cu_result t_device_get_count(int *n)
{
    *n = table.ndevices;
    return CU_OK;
}

static cu_result t_device_get(cu_device *d, int ordinal)
{
    if (ordinal < 0 || ordinal >= table.ndevices)
        return 101;
    *d = ordinal;
    return CU_OK;
}

static cu_result t_device_get_name(char *name, int len, cu_device d)
{
    MAYBE_FAIL(device_get_name);
    snprintf(name, (size_t)len, "Table %d", d);
    return CU_OK;
}

static cu_result t_device_get_uuid(struct cu_uuid *uuid, cu_device d)
{
    memset(uuid, 0x40 + d, sizeof *uuid);
    return CU_OK;
}

static cu_result t_device_get_attribute(int *value, int attribute, cu_device d)
{
    (void)d;
    *value = attribute == CU_DEV_MAJOR                ? table.major
             : attribute == CU_DEV_MULTIPROCESSORS    ? 132
             : attribute == CU_DEV_CAN_STREAM_MEM_OPS ? table.stream_writes
                                                      : 0;
    return CU_OK;
}

static cu_result t_device_total_mem(size_t *nbytes, cu_device d)
{
    (void)d;
    *nbytes = (size_t)1 << 30;
    return CU_OK;
}

static cu_result t_device_get_pci_bus_id(char *id, int len, cu_device d)
{
    snprintf(id, (size_t)len, "0000:%02x:00.0", 0x18 + d);
    return CU_OK;
}

static cu_result t_device_can_access_peer(int *can, cu_device d, cu_device peer)
{
    (void)d, (void)peer;
    *can = table.can_access;
    return CU_OK;
}

static cu_result t_primary_ctx_get_state(cu_device d, unsigned *flags, int *active)
{
    *flags = 0;
    *active = table.primary[d].alive;
    return CU_OK;
}

static cu_result t_primary_ctx_retain(cu_ctx *c, cu_device d)
{
    MAYBE_FAIL(primary_ctx_retain);
    table.primary[d].alive = true;
    table.retained[d]++;
    *c = &table.primary[d];
    return CU_OK;
}

static cu_result t_primary_ctx_release(cu_device d)
{
    table.retained[d]--;
    return CU_OK;
}

static cu_result t_ctx_get_current(cu_ctx *c)
{
    *c = table.current;
    return CU_OK;
}

static cu_ctx before[8];

static cu_result t_ctx_push_current(cu_ctx c)
{
    MAYBE_FAIL(ctx_push_current);
    if (!c->alive)
        return CU_ERROR_CONTEXT_IS_DESTROYED;
    before[table.depth++] = table.current;
    table.current = c;
    return CU_OK;
}

static cu_result t_ctx_pop_current(cu_ctx *c)
{
    *c = table.current;
    table.current = before[--table.depth];
    return CU_OK;
}

static cu_result t_ctx_get_device(cu_device *d)
{
    NEED_CTX(ctx_get_device);
    *d = table.current->device;
    return CU_OK;
}

static cu_result t_ctx_get_stream_priority_range(int *least, int *greatest)
{
    NEED_CTX(ctx_get_stream_priority_range);
    *least = 0;
    *greatest = -5;
    return CU_OK;
}

/* Memory and streams of destroyed contexts have no owner: reset() frees them. */
static void *made[256];

static void *make(size_t nbytes)
{
    int i = 0;
    while (made[i])
        if (++i == 256)
            abort();
    return made[i] = calloc(1, nbytes);
}

static void unmake(void *p)
{
    for (int i = 0; i < 256; i++)
        if (made[i] == p)
            made[i] = NULL;
    free(p);
}

static const struct region *region_of(cu_ptr p)
{
    for (int i = 0; i < table.nregions; i++)
        if (p - table.regions[i].base < table.regions[i].extent)
            return &table.regions[i];
    return NULL;
}

static size_t answer(int attribute, const struct region *r, uint64_t *v)
{
    switch (attribute) {
    case CU_PTR_CONTEXT:
        *v = (uintptr_t)r->ctx;
        return sizeof(cu_ctx);
    case CU_PTR_MEMORY_TYPE:
        *v = r->type;
        return 4;
    case CU_PTR_BUFFER_ID:
        *v = r->id;
        return 8;
    case CU_PTR_IS_MANAGED:
        *v = r->managed;
        return 4;
    case CU_PTR_DEVICE_ORDINAL:
        *v = (uint64_t)r->ordinal;
        return 4;
    case CU_PTR_IS_LEGACY_IPC_CAPABLE:
        *v = r->legacy;
        return 4;
    case CU_PTR_RANGE_START:
        *v = r->start;
        return 8;
    case CU_PTR_RANGE_SIZE:
        *v = r->len;
        return sizeof(size_t);
    case CU_PTR_MAPPED:
        *v = r->mapped;
        return 4;
    case CU_PTR_ALLOWED_HANDLE_TYPES:
        *v = 0;
        return 8;
    case CU_PTR_MEMPOOL_HANDLE:
        *v = (uintptr_t)r->pool;
        return sizeof(cu_pool);
    case CU_PTR_MAPPING_SIZE:
        *v = r->mapping_len;
        return sizeof(size_t);
    case CU_PTR_MAPPING_BASE:
        *v = r->mapping;
        return 8;
    case CU_PTR_MEMORY_BLOCK_ID:
        *v = r->block_id;
        return 8;
    default:
        return 0;
    }
}

static cu_result t_pointer_get_attributes(unsigned n, int *attributes, void **values, cu_ptr p)
{
    static const struct region nothing;
    const struct region *r = region_of(p);
    __atomic_fetch_add(&table.nask, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&table.nattributes, n, __ATOMIC_RELAXED);
    if (table.ask)
        return table.ask;
    for (unsigned i = 0; i < n; i++)
        if (attributes[i] > table.newest)
            return CU_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < n; i++) {
        uint64_t v = 0;
        size_t len = answer(attributes[i], r ? r : &nothing, &v);
        memcpy(values[i], &v, len); /* little-endian */
    }
    return CU_OK;
}

static cu_result t_mem_get_address_range(cu_ptr *base, size_t *len, cu_ptr p)
{
    const struct region *r = region_of(p);
    if (!r)
        return CU_ERROR_NOT_FOUND;
    *base = r->base;
    *len = r->extent;
    return CU_OK;
}

static cu_result t_mem_alloc(cu_ptr *p, size_t nbytes)
{
    NEED_CTX(mem_alloc);
    void *m = make(nbytes);
    *p = (cu_ptr)(uintptr_t)m;
    table_add(m, nbytes, table.current, table.current->device);
    table.nalloc++;
    return CU_OK;
}

static cu_result t_mem_free(cu_ptr p)
{
    NEED_CTX(mem_free);
    if (!region_of(p))
        return CU_ERROR_INVALID_VALUE;
    table_remove((void *)(uintptr_t)p);
    unmake((void *)(uintptr_t)p);
    table.nalloc--;
    return CU_OK;
}

static cu_result t_mem_host_alloc(void **p, size_t nbytes, unsigned flags)
{
    NEED_CTX(mem_host_alloc);
    if (flags != (CU_HOST_PORTABLE | CU_HOST_DEVICEMAP))
        return CU_ERROR_INVALID_VALUE;
    *p = make(nbytes);
    table_add(*p, nbytes, table.current, table.current->device)->type = CU_MEMORY_HOST;
    table.nhost++;
    return CU_OK;
}

static cu_result t_mem_free_host(void *p)
{
    NEED_CTX(mem_free_host);
    if (!region_of((cu_ptr)(uintptr_t)p))
        return CU_ERROR_INVALID_VALUE;
    table_remove(p);
    unmake(p);
    table.nhost--;
    return CU_OK;
}

static cu_result t_thread_exchange_capture_mode(int *mode)
{
    int was = table.mode;
    table.mode = *mode;
    *mode = was;
    table.nexchanges++;
    return CU_OK;
}

static cu_result t_stream_create_with_priority(cu_stream *s, unsigned flags, int priority)
{
    if (table.need_mode && table.mode != table.need_mode)
        return CU_ERROR_CAPTURE_FIRST;
    NEED_CTX(stream_create_with_priority);
    if (flags != CU_STREAM_NON_BLOCKING || priority != -5)
        return CU_ERROR_INVALID_VALUE;
    *s = make(1);
    table.nstreams++;
    return CU_OK;
}

static cu_result t_stream_destroy(cu_stream s)
{
    if (table.need_mode && table.mode != table.need_mode)
        return CU_ERROR_CAPTURE_FIRST;
    NEED_CTX(stream_destroy);
    unmake(s);
    table.nstreams--;
    return CU_OK;
}

static cu_result t_stream_synchronize(cu_stream s)
{
    (void)s;
    NEED_CTX(stream_synchronize);
    return CU_OK;
}

static cu_result t_memcpy_async(cu_ptr dst, cu_ptr src, size_t nbytes, cu_stream s)
{
    NEED_CTX(memcpy_async);
    (void)s;
    memcpy((void *)(uintptr_t)dst, (void *)(uintptr_t)src, nbytes);
    return CU_OK;
}

/* ---- what the linker puts in place of the real functions ---- */

#define HAVE(field) \
    { \
#field, (void (*)(void))t_##field \
    }
static const struct {
    const char *field;
    void (*f)(void);
} have[] = { HAVE(init),
             HAVE(driver_get_version),
             HAVE(get_error_name),
             HAVE(get_error_string),
             HAVE(device_get_count),
             HAVE(device_get),
             HAVE(device_get_name),
             HAVE(device_get_uuid),
             HAVE(device_get_attribute),
             HAVE(device_total_mem),
             HAVE(device_get_pci_bus_id),
             HAVE(device_can_access_peer),
             HAVE(primary_ctx_get_state),
             HAVE(primary_ctx_retain),
             HAVE(primary_ctx_release),
             HAVE(ctx_get_current),
             HAVE(ctx_push_current),
             HAVE(ctx_pop_current),
             HAVE(ctx_get_device),
             HAVE(ctx_get_stream_priority_range),
             HAVE(pointer_get_attributes),
             HAVE(mem_get_address_range),
             HAVE(mem_alloc),
             HAVE(mem_free),
             HAVE(mem_host_alloc),
             HAVE(mem_free_host),
             HAVE(stream_create_with_priority),
             HAVE(stream_destroy),
             HAVE(stream_synchronize),
             HAVE(thread_exchange_capture_mode),
             HAVE(memcpy_async) };

#define SYMBOL(field, symbol, params) { #field, #symbol },
static const struct {
    const char *field, *symbol;
} symbols[] = { CU_FUNCTIONS(SYMBOL, SYMBOL){ "device_get_uuid", "cuDeviceGetUuid" } };

int __real_access(const char *name, int mode);
int __wrap_access(const char *name, int mode);
void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlsym(void *lib, const char *symbol);
int __wrap_rt_gpu_move_init(struct rt_gpu *g);
void __wrap_rt_gpu_move_fini(struct rt_gpu *g);
int __wrap_rt_gpu_images_load(struct rt_gpu *g);
void __wrap_rt_gpu_images_unload(struct rt_gpu *g);

int __wrap_access(const char *name, int mode)
{
    if (!table.files)
        return __real_access(name, mode);
    const char *at = strstr(table.files, name);
    return at && at[strlen(name)] == ' ' ? 0 : -1;
}

void *__wrap_dlopen(const char *name, int flags)
{
    __atomic_fetch_add(&table.ndlopen, 1, __ATOMIC_RELAXED);
    if (strcmp(name, "libcuda.so.1"))
        abort();
    if (table.library == TABLE_ABSENT || (table.library == TABLE_ON_DISK && flags & RTLD_NOLOAD))
        return NULL;
    table.library = TABLE_LOADED;
    return &table;
}

void *__wrap_dlsym(void *lib, const char *symbol)
{
    void (*f)(void) = (void (*)(void))t_unsupported;
    const char *field = NULL;
    void *p;
    if (lib != &table)
        abort();
    if (table.missing && !strcmp(symbol, table.missing))
        return NULL;
    for (size_t i = 0; !field && i < sizeof symbols / sizeof *symbols; i++)
        if (!strcmp(symbols[i].symbol, symbol))
            field = symbols[i].field;
    for (size_t i = 0; field && i < sizeof have / sizeof *have; i++)
        if (!strcmp(have[i].field, field))
            f = have[i].f;
    memcpy(&p, &f, sizeof p);
    return field ? p : NULL;
}

int __wrap_rt_gpu_move_init(struct rt_gpu *g)
{
    if (table.current != g->ctx || fails("move_init"))
        return -RT_ENOMEM;
    table.nmoves++;
    g->move = (void *)&table;
    return 0;
}

void __wrap_rt_gpu_move_fini(struct rt_gpu *g) { table.nmoves -= g->move != NULL; }

int __wrap_rt_gpu_images_load(struct rt_gpu *g)
{
    if (table.current != g->ctx || fails("images_load"))
        return -RT_EGPU;
    table.nimages++;
    g->module[0] = (void *)&table;
    return 0;
}

void __wrap_rt_gpu_images_unload(struct rt_gpu *g) { table.nimages -= g->module[0] != NULL; }

/* ---- for tests ---- */

struct region *table_add(const void *base, size_t len, cu_ctx ctx, int ordinal)
{
    struct region *r = &table.regions[table.nregions++];
    if (table.nregions > 64)
        abort();
    *r = (struct region){ .base = (uintptr_t)base,
                          .start = (uintptr_t)base,
                          .extent = len,
                          .len = len,
                          .mapping = (uintptr_t)base,
                          .mapping_len = len,
                          .type = CU_MEMORY_DEVICE,
                          .legacy = 1,
                          .mapped = 1,
                          .ctx = ctx,
                          .ordinal = ordinal,
                          .id = ++table.next_id };
    return r;
}

void table_remove(const void *base)
{
    int n = 0;
    for (int i = 0; i < table.nregions; i++)
        if (table.regions[i].base != (uintptr_t)base)
            table.regions[n++] = table.regions[i];
    table.nregions = n;
}

void table_destroy(cu_ctx ctx)
{
    for (int i = table.nregions; i-- > 0;)
        if (table.regions[i].ctx == ctx)
            table_remove((void *)(uintptr_t)table.regions[i].base);
    ctx->alive = false;
}

void table_believe(bool long_time)
{
    struct timespec t = { 0, 11000000 };
    nanosleep(&t, NULL); /* so that the rate is measured now, and not again */
    rt_ticks_in_ms(0);
    rt_ticks_per_ms = long_time ? (uint64_t)1 << 26 : 0;
}

void table_reset(void)
{
    rt_gpu_fini();
    rt_cuda_forget();
    for (int i = 0; i < 256; i++)
        if (made[i])
            unmake(made[i]);
    table = (struct table){ .library = TABLE_LOADED,
                            .version = 13000,
                            .ndevices = 2,
                            .newest = CU_PTR_MEMORY_BLOCK_ID,
                            .stream_writes = true,
                            .major = 9 };
    for (int i = 0; i < 4; i++) {
        table.primary[i].device = i;
        table.own[i] = (struct cu_ctx_st){ true, i % 2 };
    }
    rt_cfg_set("gpu", "on", RT_CFG_CMD);
    rt_gpu_init();
}
