/* SPDX-License-Identifier: BSD-3-Clause */
/* Fake CUDA driver: allocation, freeing, and queries of an address.  Small allocations share blocks
 * of 2 MiB, as with the real driver.  Freeing waits for the context's work. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "test/fake/gpu/fake.h"

#define SMALL (1u << 20)
#define ALIGN 512u

static struct fake_arena *blocks;

/* ---- blocks of small allocations ---- */

static struct fake_arena *block_make(cu_ctx c, int *err)
{
    struct fake_arena *a = calloc(1, sizeof(*a));

    *err = CU_ERROR_OUT_OF_MEMORY;
    if (!a)
        return NULL;
    a->phys = fake_phys_make(FAKE_GRANULE, c->dev, "device", err);
    a->base = a->phys ? fake_va_take(FAKE_GRANULE) : 0;
    if (!a->base) {
        fake_phys_unref(a->phys);
        free(a);
        return NULL;
    }
    a->len = FAKE_GRANULE;
    a->ctx = c;
    a->next = blocks;
    blocks = a;
    return a;
}

static void block_unuse(struct fake_arena *a)
{
    struct fake_arena **at = &blocks;

    if (--a->nused)
        return;
    while (*at != a)
        at = &(*at)->next;
    *at = a->next;
    fake_phys_unref(a->phys);
    fake_va_give(a->base);
    free(a);
}

static struct fake_mem *small_alloc(cu_ctx c, size_t len, int *err)
{
    struct fake_arena *a;
    struct fake_mem *m;
    uint64_t at = 0;

    for (a = blocks; a; a = a->next)
        if (a->ctx == c && (at = fake_arena_cut(a, len)) != 0)
            break;
    if (!a) {
        a = block_make(c, err);
        if (!a)
            return NULL;
        at = a->base;
    }
    a->nused++;
    a->phys->nref++;
    m = fake_mem_add(at, len, FAKE_DEVICE, a->phys, (size_t)(at - a->base));
    if (!m) {
        *err = CU_ERROR_OUT_OF_MEMORY;
        block_unuse(a);
        return NULL;
    }
    m->arena = a;
    if (a->nused == 1)
        a->id = m->id;
    return m;
}

/* A separate memory object; host and managed memory is also mapped at its user address. */
static struct fake_mem *large_alloc(enum fake_kind kind, int dev, size_t len, int *err)
{
    struct fake_phys *phys = fake_phys_make(len, dev, kind == FAKE_DEVICE ? "device" : "host", err);
    uint64_t va = phys ? fake_va_take(len) : 0;
    struct fake_mem *m;

    *err = CU_ERROR_OUT_OF_MEMORY;
    if (!va) {
        fake_phys_unref(phys);
        return NULL;
    }
    if (kind != FAKE_DEVICE && mmap((void *)va, phys->len, PROT_READ | PROT_WRITE,
                                    MAP_SHARED | MAP_FIXED, phys->fd, 0) == MAP_FAILED)
        goto err_va;
    m = fake_mem_add(va, len, kind, phys, 0);
    if (m)
        return m;
    phys = NULL;
err_va:
    fake_phys_unref(phys);
    fake_va_give(va);
    return NULL;
}

static int alloc(const char *symbol, enum fake_kind kind, uint64_t *out, size_t len)
{
    struct fake_mem *m;
    cu_ctx c;
    int err = fake_enter_ctx(symbol, &c);

    if (err)
        return err;
    if (!len || !out)
        return CU_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake.lock);
    if (kind == FAKE_DEVICE && len <= SMALL)
        m = small_alloc(c, (len + ALIGN - 1) & ~(size_t)(ALIGN - 1), &err);
    else
        m = large_alloc(kind, kind == FAKE_HOST ? -1 : c->dev, len, &err);
    if (m) {
        m->len = len;
        m->ctx = c;
        m->dev = c->dev;
        *out = m->base;
        err = 0;
    }
    pthread_mutex_unlock(&fake.lock);
    return err;
}

cu_result cuMemAlloc_v2(cu_ptr *p, size_t nbytes)
{
    return alloc("cuMemAlloc_v2", FAKE_DEVICE, p, nbytes);
}

cu_result cuMemAllocManaged(cu_ptr *p, size_t nbytes, unsigned flags)
{
    (void)flags;
    return alloc("cuMemAllocManaged", FAKE_MANAGED, p, nbytes);
}

cu_result cuMemHostAlloc(void **p, size_t nbytes, unsigned flags)
{
    uint64_t at = 0;
    int err = alloc("cuMemHostAlloc", FAKE_HOST, &at, nbytes);

    (void)flags;
    if (!err)
        *p = (void *)at;
    return err;
}

/* ---- freeing ---- */

int fake_mem_free(struct fake_mem *m)
{
    struct fake_arena *a = m->arena;
    uint64_t base = m->base;

    switch (m->kind) {
    case FAKE_POOL:
        fake_pool_free(m);
        return 0;
    case FAKE_REGISTERED:
        fake_mem_drop(m);
        return 0;
    case FAKE_VMM:
        return CU_ERROR_INVALID_VALUE;
    default:
        break;
    }
    fake_mem_drop(m);
    if (a)
        block_unuse(a);
    else
        fake_va_give(base);
    return 0;
}

void fake_ctx_free_all(cu_ctx c)
{
    struct fake_mem *m = fake_mem_next(0);

    while (m) {
        uint64_t base = m->base;

        if (m->ctx == c && m->kind != FAKE_VMM)
            fake_mem_free(m);
        m = fake_mem_next(base + 1);
    }
}

/* Frees the allocation that starts at p, after the work of its context has ended; memory of pools
 * is freed without waiting, as the driver's manual says. */
static int free_at(const char *symbol, uint64_t p, uint32_t kinds)
{
    struct fake_mem *m;
    cu_ctx c;
    int err = fake_enter_ctx(symbol, &c);
    bool waits;

    if (err || !p)
        return err;
    pthread_mutex_lock(&fake.lock);
    m = fake_mem_find(p);
    if (m && m->ctx)
        c = m->ctx;
    waits = !m || m->kind != FAKE_POOL;
    pthread_mutex_unlock(&fake.lock);
    if (waits)
        fake_ctx_wait(c);
    pthread_mutex_lock(&fake.lock);
    m = fake_mem_find(p);
    if (!m || m->base != p || !(kinds & 1u << m->kind))
        err = CU_ERROR_INVALID_VALUE;
    else
        err = fake_mem_free(m);
    pthread_mutex_unlock(&fake.lock);
    return err;
}

cu_result cuMemFree_v2(cu_ptr p)
{
    return free_at("cuMemFree_v2", p, 1u << FAKE_DEVICE | 1u << FAKE_MANAGED | 1u << FAKE_POOL);
}

cu_result cuMemFreeHost(void *p)
{
    return free_at("cuMemFreeHost", (uint64_t)(uintptr_t)p, 1u << FAKE_HOST);
}

cu_result cuMemHostRegister_v2(void *p, size_t nbytes, unsigned flags)
{
    uint64_t at = (uint64_t)(uintptr_t)p;
    struct fake_mem *m;
    cu_ctx c;
    int err = fake_enter_ctx("cuMemHostRegister_v2", &c);

    (void)flags;
    if (err)
        return err;
    if (!p || !nbytes)
        return CU_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake.lock);
    m = fake_mem_next(at);
    if (fake_mem_find(at) || (m && m->base < at + nbytes))
        err = CU_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    else if (!(m = fake_mem_add(at, nbytes, FAKE_REGISTERED, NULL, 0)))
        err = CU_ERROR_OUT_OF_MEMORY;
    else {
        m->ctx = c;
        m->dev = c->dev;
    }
    pthread_mutex_unlock(&fake.lock);
    return err;
}

cu_result cuMemHostUnregister(void *p)
{
    int err = free_at("cuMemHostUnregister", (uint64_t)(uintptr_t)p, 1u << FAKE_REGISTERED);

    return err == CU_ERROR_INVALID_VALUE ? CU_ERROR_HOST_MEMORY_NOT_REGISTERED : err;
}

cu_result cuMemHostGetDevicePointer_v2(cu_ptr *p, void *host, unsigned flags)
{
    struct fake_mem *m;
    cu_ctx c;
    int err = fake_enter_ctx("cuMemHostGetDevicePointer_v2", &c);

    if (err || flags)
        return err ? err : CU_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake.lock);
    m = fake_mem_find((uint64_t)(uintptr_t)host);
    *p = (cu_ptr)(uintptr_t)host;
    if (!m || (m->kind != FAKE_HOST && m->kind != FAKE_REGISTERED))
        err = CU_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&fake.lock);
    return err;
}

cu_result cuMemGetInfo_v2(size_t *free_nbytes, size_t *total)
{
    cu_ctx c;
    int err = fake_enter_ctx("cuMemGetInfo_v2", &c);

    if (err)
        return err;
    pthread_mutex_lock(&fake.lock);
    *free_nbytes = fake.mem_nbytes - fake.used[c->dev];
    *total = fake.mem_nbytes;
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

/* ---- queries of an address ---- */

cu_result cuMemGetAddressRange_v2(cu_ptr *base, size_t *len, cu_ptr p)
{
    struct fake_mem *m;
    cu_ctx c;
    int err = fake_enter_ctx("cuMemGetAddressRange_v2", &c);

    if (err)
        return err;
    pthread_mutex_lock(&fake.lock);
    m = fake_mem_find(p);
    if (!m)
        err = CU_ERROR_NOT_FOUND;
    if (m && base)
        *base = m->base;
    if (m && len)
        *len = m->len;
    pthread_mutex_unlock(&fake.lock);
    return err;
}

/* A descriptor of the memory behind a range; its file position is the start of the range.  An
 * adapter's driver that knows this (test/fake/ib_dmabuf.c) can use it as a dma-buf. */
static int range_fd(cu_ptr p, size_t nbytes)
{
    struct fake_mem *m = fake_mem_find(p);
    char path[64];
    int fd;

    if (!m)
        m = fake_mem_next(p); /* whole pages start before a small allocation */
    if (!m || !m->phys || m->base >= p + nbytes)
        return -1;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", m->phys->fd);
    fd = open(path, O_RDWR | O_CLOEXEC); /* not dup(): it needs its own file position */
    if (fd >= 0)
        lseek(fd, (off_t)(m->off + p - m->base), SEEK_SET);
    return fd;
}

cu_result cuMemGetHandleForAddressRange(void *handle, cu_ptr p, size_t nbytes, int type,
                                        unsigned long long flags)
{
    cu_ctx c;
    int fd, err = fake_enter_ctx("cuMemGetHandleForAddressRange", &c);

    if (err || type != CU_RANGE_DMABUF_FD || flags || !fake.dmabuf)
        return err ? err : CU_ERROR_NOT_SUPPORTED;
    pthread_mutex_lock(&fake.lock);
    fd = range_fd(p, nbytes);
    pthread_mutex_unlock(&fake.lock);
    if (fd < 0)
        return CU_ERROR_INVALID_VALUE;
    *(int *)handle = fd;
    return 0;
}

cu_result cuFlushGPUDirectRDMAWrites(int target, int scope)
{
    cu_ctx c;

    (void)target, (void)scope;
    return fake_enter_ctx("cuFlushGPUDirectRDMAWrites", &c);
}

cu_result cuPointerSetAttribute(const void *value, int attribute, cu_ptr p)
{
    cu_ctx c;
    int err = fake_enter_ctx("cuPointerSetAttribute", &c);

    if (err)
        return err;
    pthread_mutex_lock(&fake.lock);
    if (!value || attribute != CU_PTR_SYNC_MEMOPS || !fake_mem_find(p))
        err = CU_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&fake.lock);
    return err;
}

static bool on_host(const struct fake_mem *m)
{
    return m->kind == FAKE_HOST || m->kind == FAKE_REGISTERED;
}

static uint64_t handle_types(const struct fake_mem *m)
{
    if (m->kind == FAKE_VMM)
        return (uint64_t)m->phys->handle_types;
    return m->pool ? (uint64_t)m->pool->handle_types : 0;
}

/* Writes an attribute with the width that the real driver uses. */
static int attribute(const struct fake_mem *m, int what, void *out)
{
    static const struct fake_mem none;
    bool known = m != NULL;
    uint32_t word = 0;
    uint64_t wide = 0;

    if (!m)
        m = &none;
    switch (what) {
    case CU_PTR_CONTEXT:
        *(cu_ctx *)out = m->ctx;
        return 0;
    case CU_PTR_MEMORY_TYPE:
        word = !known ? 0 : on_host(m) ? CU_MEMORY_HOST : CU_MEMORY_DEVICE;
        break;
    case CU_PTR_IS_MANAGED:
        word = known && m->kind == FAKE_MANAGED;
        break;
    case CU_PTR_DEVICE_ORDINAL:
        word = known ? (uint32_t)fake_ordinal(m->dev) : (uint32_t)-2;
        break;
    case CU_PTR_IS_LEGACY_IPC_CAPABLE:
        word = known && m->kind == FAKE_DEVICE;
        break;
    case CU_PTR_MAPPED:
        word = known;
        break;
    case CU_PTR_BUFFER_ID:
    case CU_PTR_MEMORY_BLOCK_ID:
        wide = m->id;
        goto store_wide;
    case CU_PTR_RANGE_START:
    case CU_PTR_MAPPING_BASE:
        wide = m->base;
        goto store_wide;
    case CU_PTR_RANGE_SIZE:
    case CU_PTR_MAPPING_SIZE:
        wide = m->len;
        goto store_wide;
    case CU_PTR_ALLOWED_HANDLE_TYPES:
        wide = known ? handle_types(m) : 0;
        goto store_wide;
    case CU_PTR_MEMPOOL_HANDLE:
        wide = (uint64_t)(uintptr_t)m->pool;
        goto store_wide;
    default:
        return CU_ERROR_INVALID_VALUE;
    }
    memcpy(out, &word, sizeof(word));
    return 0;
store_wide:
    memcpy(out, &wide, sizeof(wide));
    return 0;
}

/* Needs no current context; an unknown address is not an error. */
cu_result cuPointerGetAttributes(unsigned n, int *attributes, void **values, cu_ptr p)
{
    struct fake_mem *m;
    unsigned i;
    int err = fake_enter("cuPointerGetAttributes");

    if (err || !n)
        return err ? err : CU_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake.lock);
    m = fake_mem_find(p);
    for (i = 0; i < n && !err; i++)
        err = attribute(m, attributes[i], values[i]);
    pthread_mutex_unlock(&fake.lock);
    return err;
}

cu_result cuPointerGetAttribute(void *value, int what, cu_ptr p)
{
    struct fake_mem *m;
    int err = fake_enter("cuPointerGetAttribute");

    if (err)
        return err;
    pthread_mutex_lock(&fake.lock);
    m = fake_mem_find(p);
    err = m ? attribute(m, what, value) : CU_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&fake.lock);
    return err;
}
