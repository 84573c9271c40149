/* SPDX-License-Identifier: BSD-3-Clause */
/* Fake CUDA driver: stream-ordered pools.  A pool is one sparse file as long as the device's
 * memory; allocations are cut from it.  Freeing is an operation of the stream. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "test/fake/gpu/fake.h"

#define POOL_MAGIC 0x9001f00du
#define PAGE 4096u

static cu_pool pool_make(int dev, int handle_types)
{
    cu_pool p = calloc(1, sizeof(*p));
    int err;

    if (!p)
        return NULL;
    p->arena.phys = fake_phys_make(fake.mem_nbytes, dev, "pool", &err);
    p->arena.base = p->arena.phys ? fake_va_take(p->arena.phys->len) : 0;
    if (!p->arena.base) {
        fake_phys_unref(p->arena.phys);
        free(p);
        return NULL;
    }
    p->arena.len = p->arena.phys->len;
    p->magic = POOL_MAGIC;
    p->dev = dev;
    p->handle_types = handle_types;
    return p;
}

static bool usable(cu_pool p) { return p && p->magic == POOL_MAGIC && !p->destroyed; }

static cu_pool default_pool(int dev)
{
    if (!fake.default_pool[dev]) {
        fake.default_pool[dev] = pool_make(dev, 0);
        if (fake.default_pool[dev])
            fake.default_pool[dev]->is_default = true;
    }
    return fake.default_pool[dev];
}

static cu_pool current_pool(int dev)
{
    return fake.current_pool[dev] ? fake.current_pool[dev] : default_pool(dev);
}

static int device_pool(const char *symbol, cu_pool *out, cu_device d, cu_pool (*which)(int dev))
{
    int err = fake_enter(symbol);

    if (err || d < 0 || d >= fake.nvisible)
        return err ? err : CU_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&fake.lock);
    *out = which(fake.visible[d]);
    pthread_mutex_unlock(&fake.lock);
    return *out ? 0 : CU_ERROR_OUT_OF_MEMORY;
}

cu_result cuDeviceGetDefaultMemPool(cu_pool *pool, cu_device d)
{
    return device_pool("cuDeviceGetDefaultMemPool", pool, d, default_pool);
}

cu_result cuDeviceGetMemPool(cu_pool *pool, cu_device d)
{
    return device_pool("cuDeviceGetMemPool", pool, d, current_pool);
}

cu_result cuDeviceSetMemPool(cu_device d, cu_pool pool)
{
    int err = fake_enter("cuDeviceSetMemPool");

    if (err || d < 0 || d >= fake.nvisible)
        return err ? err : CU_ERROR_INVALID_DEVICE;
    if (!usable(pool) || pool->dev != fake.visible[d])
        return CU_ERROR_INVALID_VALUE;
    fake.current_pool[pool->dev] = pool;
    return 0;
}

cu_result cuMemPoolCreate(cu_pool *pool, const struct cu_pool_props *props)
{
    int err = fake_enter("cuMemPoolCreate"), d;

    if (err)
        return err;
    d = props->location.id;
    if (props->type != CU_ALLOCATION_PINNED || props->location.type != CU_LOCATION_DEVICE ||
        d < 0 || d >= fake.nvisible || (props->handle_types & ~CU_HANDLE_POSIX_FD))
        return CU_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake.lock);
    *pool = pool_make(fake.visible[d], props->handle_types);
    pthread_mutex_unlock(&fake.lock);
    return *pool ? 0 : CU_ERROR_OUT_OF_MEMORY;
}

/* The pool's memory is freed with its last allocation.  The pool object is kept, so that a stale
 * handle is detected. */
static void pool_end(cu_pool p)
{
    if (!p->destroyed || p->arena.nused || !p->arena.phys)
        return;
    fake_phys_unref(p->arena.phys);
    p->arena.phys = NULL;
    if (p->arena.base)
        fake_va_give(p->arena.base);
}

cu_result cuMemPoolDestroy(cu_pool pool)
{
    int err = fake_enter("cuMemPoolDestroy");

    if (err || !usable(pool) || pool->is_default)
        return err ? err : CU_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake.lock);
    pool->destroyed = true;
    if (fake.current_pool[pool->dev] == pool)
        fake.current_pool[pool->dev] = NULL;
    pool_end(pool);
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

/* ---- allocations ---- */

static int pool_alloc(cu_pool pool, size_t len, uint64_t *out)
{
    size_t room = (len + 511) & ~(size_t)511;
    struct fake_mem *m;
    uint64_t at;

    if (!usable(pool) || !len)
        return CU_ERROR_INVALID_VALUE;
    if (fake.used[pool->dev] + room > fake.mem_nbytes)
        return CU_ERROR_OUT_OF_MEMORY;
    at = fake_arena_cut(&pool->arena, room);
    if (!at)
        return CU_ERROR_OUT_OF_MEMORY;
    pool->arena.phys->nref++;
    m = fake_mem_add(at, len, FAKE_POOL, pool->arena.phys, (size_t)(at - pool->arena.base));
    if (!m)
        return CU_ERROR_OUT_OF_MEMORY;
    m->pool = pool;
    pool->arena.nused++;
    fake.used[pool->dev] += room;
    *out = at;
    return 0;
}

/* Returns the memory to the system, as far as whole pages are concerned. */
static void punch(const struct fake_mem *m)
{
    size_t from = (m->off + PAGE - 1) & ~(size_t)(PAGE - 1);
    size_t to = (m->off + m->len) & ~(size_t)(PAGE - 1);

    if (to > from)
        (void)!fallocate(m->phys->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from,
                         (off_t)(to - from));
}

void fake_pool_free(struct fake_mem *m)
{
    cu_pool pool = m->pool;

    fake.used[pool->dev] -= (m->len + 511) & ~(size_t)511;
    punch(m);
    fake_mem_drop(m);
    pool->arena.nused--;
    pool_end(pool);
}

static int alloc_async(const char *symbol, cu_ptr *p, size_t nbytes, cu_pool pool, cu_stream s)
{
    cu_ctx c;
    int err = fake_enter_ctx(symbol, &c);

    if (!err)
        err = fake_stream_of(c, s, &s);
    if (err)
        return err;
    pthread_mutex_lock(&fake.lock);
    if (!pool)
        pool = current_pool(s->ctx->dev);
    err = pool ? pool_alloc(pool, nbytes, p) : CU_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&fake.lock);
    return err;
}

cu_result cuMemAllocAsync(cu_ptr *p, size_t nbytes, cu_stream s)
{
    return alloc_async("cuMemAllocAsync", p, nbytes, NULL, s);
}

cu_result cuMemAllocFromPoolAsync(cu_ptr *p, size_t nbytes, cu_pool pool, cu_stream s)
{
    if (!usable(pool))
        return CU_ERROR_INVALID_VALUE;
    return alloc_async("cuMemAllocFromPoolAsync", p, nbytes, pool, s);
}

static int run_free(struct fake_op *op)
{
    struct fake_mem *m;

    pthread_mutex_lock(&fake.lock);
    m = fake_mem_find(op->dst);
    if (m && m->base == op->dst && m->id == op->src)
        fake_mem_free(m);
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

cu_result cuMemFreeAsync(cu_ptr p, cu_stream s)
{
    struct fake_op *op;
    struct fake_mem *m;
    cu_ctx c;
    int err = fake_enter_ctx("cuMemFreeAsync", &c);

    if (!err)
        err = fake_stream_of(c, s, &s);
    if (err)
        return err;
    op = fake_op_make(run_free, 0);
    pthread_mutex_lock(&fake.lock);
    m = fake_mem_find(p);
    if (!m || m->base != p || (m->kind != FAKE_POOL && m->kind != FAKE_DEVICE))
        err = CU_ERROR_INVALID_VALUE;
    else if (op) {
        op->dst = p;
        op->src = m->id;
    }
    pthread_mutex_unlock(&fake.lock);
    if (err) {
        free(op);
        return err;
    }
    return fake_submit(s, op);
}

/* ---- other processes ---- */

/* The library must not call these: the driver requires that importers free a pool's memory before
 * its owner does, which only the application could see to. */
#define FORBIDDEN(symbol) \
    __attribute__((visibility("default"))) cu_result symbol(void); \
    cu_result symbol(void) \
    { \
        fprintf(stderr, "fake CUDA: pid %d: " #symbol ": memory of a pool must not be shared\n", \
                (int)getpid()); \
        abort(); \
    }

FORBIDDEN(cuMemPoolExportToShareableHandle)
FORBIDDEN(cuMemPoolExportPointer)
FORBIDDEN(cuMemPoolImportFromShareableHandle)
FORBIDDEN(cuMemPoolImportPointer)
FORBIDDEN(cuMemPoolSetAccess)
