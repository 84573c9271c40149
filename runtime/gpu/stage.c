/* SPDX-License-Identifier: BSD-3-Clause */
/* Staging buffers: pinned host memory and device memory of a context, in two lengths.  Buffers are
 * cut from blocks; a block is a small one's 32 buffers, or one large buffer.  Device blocks are
 * single allocations by cuMemAlloc, so that legacy IPC can export them.  Giving a block back to the
 * driver waits for the device, so some idle ones are kept, and all while that could take for ever
 * (rt_gpu_awaits).  All of it dies with its context: then only the descriptions are freed.  Under
 * the domain's lock. */
#include "runtime/gpu/gpu_int.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { SMALL, LARGE };
static const struct {
    size_t buf, block; /* bytes of a buffer and of a block */
    unsigned keep;     /* idle blocks that are kept: 4 MiB of small ones, 64 MiB of large ones */
} classes[] = {
    [SMALL] = { RT_GPU_STAGE_SMALL, 32 * (size_t)RT_GPU_STAGE_SMALL, 4 },
    [LARGE] = { RT_GPU_STAGE_LARGE, RT_GPU_STAGE_LARGE, 16 },
};

struct buffer {
    struct rt_gpu_stage stage; /* first: what the user has; `next` links the free ones of a block */
    struct rt_gpu_block *block;
};

struct rt_gpu_block {
    struct rt_list link;       /* in its pool, those with free buffers first */
    struct rt_gpu *owner;
    struct rt_gpu_pool *pool;
    char *p;
    struct rt_gpu_stage *free;
    unsigned nused, class;
    bool registered;           /* mapped by us, pinned by the driver */
    struct buffer buffers[];
};

static bool is_host(const struct rt_gpu_block *b) { return b->pool == &b->owner->host; }

/* Memory that the driver allocates is a device's mapping, which process_vm_readv of another process
 * is refused; ordinary memory that the driver pins is read like any other. */
static bool register_host(struct rt_gpu_block *b, size_t nbytes)
{
    if (!rt_cuda.mem_host_register || !rt_cuda.mem_host_unregister)
        return false;
    void *p = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return false;
    if (rt_cuda.mem_host_register(p, nbytes, CU_HOST_PORTABLE | CU_HOST_DEVICEMAP) != CU_OK) {
        munmap(p, nbytes);
        return false;
    }
    b->p = p;
    b->registered = true;
    return true;
}

static cu_result memory_take(struct rt_gpu_block *b)
{
    size_t nbytes = classes[b->class].block;
    cu_ptr d = 0;
    void *h = NULL;
    if (is_host(b) && register_host(b, nbytes))
        return CU_OK;
    cu_result r = is_host(b)
                      ? rt_cuda.mem_host_alloc(&h, nbytes, CU_HOST_PORTABLE | CU_HOST_DEVICEMAP)
                      : rt_cuda.mem_alloc(&d, nbytes);
    b->p = is_host(b) ? h : (char *)(uintptr_t)d;
    return r;
}

/* The driver takes long and may find the context gone; neither matters here. */
static void memory_give(struct rt_gpu_block *b)
{
    int in = rt_gpu_enter(b->owner);
    if (in < 0) {
        if (b->registered)
            munmap(b->p, classes[b->class].block);
        return;
    }
    if (b->registered) {
        rt_cuda.mem_host_unregister(b->p);
        munmap(b->p, classes[b->class].block);
    } else if (is_host(b))
        rt_cuda.mem_free_host(b->p);
    else
        rt_cuda.mem_free((cu_ptr)(uintptr_t)b->p);
    rt_gpu_leave(in);
}

static int report(struct rt_gpu_block *b, cu_result r)
{
    bool told = b->pool->told;
    if (rt_gpu_check_lost(b->owner, r))
        return rt_gpu_gone(b->owner);
    if (r != CU_ERROR_OUT_OF_MEMORY)
        return rt_cuda_error(r, is_host(b) ? "cuMemHostAlloc" : "cuMemAlloc");
    b->pool->told = true;
    if (!told)
        log_warn(GPU, "no %s memory for a staging buffer of %zu bytes of GPU %d: messages take "
                 "slower ways, and fail where there is no other",
                 is_host(b) ? "pinned host" : "device", classes[b->class].block,
                 b->owner->info.ordinal);
    return -RT_ENOMEM;
}

static void block_destroy(struct rt_gpu_block *b)
{
    if (b->nused == 0)
        b->pool->nidle[b->class]--;
    rt_list_del(&b->link);
    memory_give(b);
    free(b);
}

/* Gives back what is idle, but for so many blocks.  False: nothing, or it may not be done now. */
static bool trim(struct rt_gpu *g, struct rt_gpu_pool *pool, unsigned class, unsigned keep)
{
    struct rt_list *l, *next;
    unsigned n = pool->nidle[class];
    if (n <= keep || (!g->lost && rt_gpu_must_not_wait()))
        return false;
    rt_list_each_safe(l, next, &pool->blocks[class]) {
        struct rt_gpu_block *b = rt_container(l, struct rt_gpu_block, link);
        if (b->nused == 0 && pool->nidle[class] > keep)
            block_destroy(b);
    }
    return true;
}

/* Before it is said that there is no memory. */
static bool drop_idle(struct rt_gpu *g, struct rt_gpu_pool *pool)
{
    bool small = trim(g, pool, SMALL, 0);
    return trim(g, pool, LARGE, 0) || small;
}

static int block_create(struct rt_gpu *g, struct rt_gpu_pool *pool, unsigned class,
                        struct rt_gpu_block **out)
{
    size_t n = classes[class].block / classes[class].buf;
    struct rt_gpu_block *b = calloc(1, sizeof *b + n * sizeof b->buffers[0]);
    if (!b) {
        log_error(GPU, "no memory for the description of staging buffers");
        return -RT_ENOMEM;
    }
    b->owner = g;
    b->pool = pool;
    b->class = class;
    int in = rt_gpu_enter(g);
    cu_result r = in < 0 ? CU_OK : memory_take(b);
    if (r == CU_ERROR_OUT_OF_MEMORY && drop_idle(g, pool))
        r = memory_take(b);
    if (in >= 0)
        rt_gpu_leave(in);
    if (in < 0 || r != CU_OK) {
        int err = in >= 0 ? report(b, r) : g->lost ? rt_gpu_gone(g) : in;
        free(b);
        return err;
    }
    for (size_t i = n; i-- > 0; b->free = &b->buffers[i].stage)
        b->buffers[i] = (struct buffer){ { b->p + i * classes[class].buf, classes[class].buf,
                                           is_host(b) ? NULL : g, b->free }, b };
    rt_list_append(pool->blocks[class].next, &b->link);
    pool->nidle[class]++;
    *out = b;
    return 0;
}

int rt_gpu_stage_take(struct rt_gpu *g, bool host, size_t nbytes, struct rt_gpu_stage **out)
{
    struct rt_gpu_pool *pool = host ? &g->host : &g->dev;
    unsigned class = nbytes <= RT_GPU_STAGE_SMALL ? SMALL : LARGE;
    struct rt_list *l = pool->blocks[class].next;
    struct rt_gpu_block *b = l == &pool->blocks[class] ? NULL
                                                       : rt_container(l, struct rt_gpu_block, link);
    if (nbytes > RT_GPU_STAGE_LARGE) {
        log_error(GPU, "a staging buffer of %zu bytes was asked for, the largest has %u", nbytes,
                  RT_GPU_STAGE_LARGE);
        return -RT_EINVAL;
    }
    if (g->lost)
        return rt_gpu_gone(g);
    if (!b || !b->free) {
        int err = block_create(g, pool, class, &b);
        if (err)
            return err;
    }
    struct rt_gpu_stage *s = b->free;
    b->free = s->next;
    s->next = NULL;
    if (b->nused++ == 0)
        pool->nidle[class]--;
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
    pool->nidle[b->class]++;
    trim(b->owner, pool, b->class, b->owner->lost ? 0 : classes[b->class].keep);
}

static struct rt_list *pool_list(struct rt_gpu *g, int i)
{
    return &(i < 2 ? &g->host : &g->dev)->blocks[i % 2];
}

void rt_gpu_stage_init(struct rt_gpu *g)
{
    for (int i = 0; i < 4; i++)
        rt_list_init(pool_list(g, i));
}

void rt_gpu_stage_fini(struct rt_gpu *g)
{
    struct rt_list *l, *next;
    for (int i = 0; i < 4; i++)
        rt_list_each_safe(l, next, pool_list(g, i))
            block_destroy(rt_container(l, struct rt_gpu_block, link));
}
