/* SPDX-License-Identifier: BSD-3-Clause */
/* Staging memory: pinned host memory and device memory of a context.  Buffers are cut from blocks:
 * a block holds 32 small buffers, or one buffer of 4 MiB or of a larger power of two.  Device
 * blocks are single allocations by cuMemAlloc, so that legacy IPC can export them.
 *
 * Making a block takes long (pinning 0.3 s a gigabyte; each peer maps device memory anew, 3 to 4
 * ms), and freeing it waits for the device.  So idle blocks are kept up to a number of bytes;
 * beyond that the free of the block that has been idle for longest is deferred, and until then the
 * block may be used again.  All blocks end with their context: then only their descriptions are
 * freed.  Under the domain's lock. */
#include "runtime/gpu/stage.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/gpu/context.h"
#include "runtime/gpu/driver.h"
#include "runtime/gpu/gpu_int.h"
#include "runtime/gpu/pinned.h"

#include <stdlib.h>

/* Classes: 0 is small; 1 is the large buffers; k has 2^(k-1) times their length. */
enum { SMALL, LARGE };
#define SMALL_COUNT 32

struct buffer {
    /* First member: the user's view; `next` links the free ones of a block. */
    struct rt_gpu_stage stage;
    struct rt_gpu_block *block;
};

struct rt_gpu_block {
    struct rt_list link; /* in its class, those with free buffers first */
    struct rt_list idle; /* while no buffer is in use and its free is not deferred */
    struct rt_gpu_deferred deferred;
    bool is_deferred;
    struct rt_gpu *owner;
    struct rt_gpu_pool *pool;
    char *p;
    size_t len;
    struct rt_gpu_stage *free;
    unsigned nused, class;
    struct rt_gpu_pinned pinned; /* of host memory */
    struct buffer buffers[];
};

static bool is_host(const struct rt_gpu_block *b) { return b->pool->host; }

/* Idle bytes that are kept: 64 MiB pinned on the host, 256 MiB on the device.  Pinned memory is
 * missing for the rest of the machine; with less, each burst of messages would make blocks anew. */
static size_t kept_nbytes(const struct rt_gpu_pool *pool)
{
    return pool->host ? 64u << 20 : 256u << 20;
}

/* ---- the driver's memory ---- */

static cu_result memory_take(struct rt_gpu_block *b)
{
    cu_ptr d = 0;
    if (is_host(b)) {
        cu_result r = rt_gpu_pinned_take(&b->pinned, b->len);
        b->p = b->pinned.p;
        return r;
    }
    cu_result r = rt_cuda.mem_alloc(&d, b->len);
    b->p = (char *)(uintptr_t)d;
    b->owner->held += r == CU_OK ? b->len : 0;
    return r;
}

/* The driver takes long and may find the context gone; neither matters here. */
static void memory_give(struct rt_gpu_block *b)
{
    int in = rt_gpu_enter(b->owner);
    b->owner->held -= is_host(b) ? 0 : b->len;
    if (is_host(b))
        rt_gpu_pinned_give(&b->pinned, in < 0);
    else if (in >= 0)
        rt_cuda.mem_free((cu_ptr)(uintptr_t)b->p);
    if (in >= 0)
        rt_gpu_leave(in);
}

static int report(struct rt_gpu_block *b, cu_result r)
{
    const char *place = is_host(b) ? "pinned host" : "device";
    if (rt_gpu_check_lost(b->owner, r))
        return rt_gpu_gone(b->owner);
    if (r != CU_ERROR_OUT_OF_MEMORY)
        return rt_cuda_error(r, is_host(b) ? "cuMemHostAlloc" : "cuMemAlloc");
    if (b->class > LARGE)
        log_info(GPU,
                 "no %s memory for %zu bytes of temporary data of GPU %d: using another "
                 "path",
                 place, b->len, b->owner->info.ordinal);
    else if (!b->pool->reported)
        log_warn(GPU,
                 "no %s memory for a staging buffer of %zu bytes of GPU %d: messages use "
                 "slower paths, and fail where there is none",
                 place, b->len, b->owner->info.ordinal);
    b->pool->reported = b->pool->reported || b->class <= LARGE;
    return -RT_ENOMEM;
}

/* ---- blocks ---- */

/* No buffer of it is in use; a block that is too long to be kept is the first to be freed. */
static void set_idle(struct rt_gpu_block *b)
{
    struct rt_list *all = &b->pool->idle;
    b->pool->nidle += b->len;
    rt_list_append(b->len > kept_nbytes(b->pool) ? all->next : all, &b->idle);
}

static void unset_idle(struct rt_gpu_block *b)
{
    if (b->is_deferred) {
        b->is_deferred = false;
        rt_gpu_undefer(b->owner, &b->deferred);
        return;
    }
    b->pool->nidle -= b->len;
    rt_list_del(&b->idle);
}

/* Neither idle nor deferred any longer. */
static void block_free(struct rt_gpu_block *b)
{
    rt_list_del(&b->link);
    memory_give(b);
    free(b);
}

static void run_deferred(struct rt_gpu_deferred *d)
{
    block_free(rt_container(d, struct rt_gpu_block, deferred));
}

/* Defers the free of idle blocks until at most `keep` bytes are idle. */
static void trim(struct rt_gpu *g, struct rt_gpu_pool *pool, size_t keep)
{
    while (pool->nidle > keep) {
        struct rt_gpu_block *b = rt_container(pool->idle.next, struct rt_gpu_block, idle);
        unset_idle(b);
        b->is_deferred = true;
        rt_gpu_defer(g, &b->deferred, b->len, run_deferred);
    }
}

static int block_create(struct rt_gpu *g, struct rt_gpu_pool *pool, unsigned class,
                        struct rt_gpu_block **out)
{
    size_t n = class == SMALL ? SMALL_COUNT : 1;
    size_t len = class == SMALL ? RT_GPU_STAGE_SMALL : (size_t)RT_GPU_STAGE_LARGE << (class - 1);
    struct rt_gpu_block *b = calloc(1, sizeof *b + n * sizeof b->buffers[0]);
    if (!b) {
        log_error(GPU, "no memory for the description of staging buffers");
        return -RT_ENOMEM;
    }
    b->owner = g;
    b->pool = pool;
    b->class = class;
    b->len = n * len;
    int in = rt_gpu_enter(g);
    cu_result r = in < 0 ? CU_OK : memory_take(b);
    if (in >= 0)
        rt_gpu_leave(in);
    if (in < 0 || r != CU_OK) {
        int err = in >= 0 ? report(b, r) : g->lost ? rt_gpu_gone(g) : in;
        free(b);
        return err;
    }
    for (size_t i = n; i-- > 0; b->free = &b->buffers[i].stage)
        b->buffers[i] = (struct buffer){ { b->p + i * len, len, is_host(b) ? NULL : g, b->free },
                                         b };
    rt_list_append(pool->blocks[class].next, &b->link);
    set_idle(b);
    *out = b;
    return 0;
}

/* ---- buffers ---- */

int rt_gpu_stage_take(struct rt_gpu *g, bool host, size_t nbytes, struct rt_gpu_stage **out)
{
    struct rt_gpu_pool *pool = host ? &g->host : &g->dev;
    unsigned class = nbytes <= RT_GPU_STAGE_SMALL ? SMALL : LARGE;
    while (class < RT_GPU_STAGE_CLASSES && nbytes > (size_t)RT_GPU_STAGE_LARGE << class >> 1)
        class ++;
    if (g->lost)
        return rt_gpu_gone(g);
    if (class == RT_GPU_STAGE_CLASSES)
        return -RT_ENOMEM;
    struct rt_list *l = pool->blocks[class].next;
    struct rt_gpu_block *b = l == &pool->blocks[class] ? NULL
                                                       : rt_container(l, struct rt_gpu_block, link);
    if (!b || !b->free) {
        int err = block_create(g, pool, class, &b);
        if (err)
            return err;
    }
    struct rt_gpu_stage *s = b->free;
    b->free = s->next;
    s->next = NULL;
    if (b->nused++ == 0)
        unset_idle(b);
    rt_list_del(&b->link);
    rt_list_append(b->free ? pool->blocks[class].next : &pool->blocks[class], &b->link);
    *out = s;
    return 0;
}

void rt_gpu_stage_give(struct rt_gpu_stage *s)
{
    struct rt_gpu_block *b = rt_container(s, struct buffer, stage)->block;
    struct rt_gpu_pool *pool = b->pool;
    s->next = b->free;
    b->free = s;
    rt_list_del(&b->link);
    rt_list_append(pool->blocks[b->class].next, &b->link);
    if (--b->nused)
        return;
    set_idle(b);
    trim(b->owner, pool, b->owner->lost ? 0 : kept_nbytes(pool));
}

static struct rt_list *pool_list(struct rt_gpu *g, int i)
{
    return &(i % 2 ? &g->host : &g->dev)->blocks[i / 2];
}

void rt_gpu_stage_init(struct rt_gpu *g)
{
    g->host.host = true;
    rt_list_init(&g->host.idle);
    rt_list_init(&g->dev.idle);
    for (int i = 0; i < 2 * RT_GPU_STAGE_CLASSES; i++)
        rt_list_init(pool_list(g, i));
}

void rt_gpu_stage_release(struct rt_gpu *g)
{
    trim(g, &g->host, 0);
    trim(g, &g->dev, 0);
}

void rt_gpu_stage_fini(struct rt_gpu *g)
{
    struct rt_list *l, *next;
    for (int i = 0; i < 2 * RT_GPU_STAGE_CLASSES; i++)
        rt_list_each_safe (l, next, pool_list(g, i)) {
            struct rt_gpu_block *b = rt_container(l, struct rt_gpu_block, link);
            if (b->nused == 0)
                unset_idle(b);
            block_free(b);
        }
}
