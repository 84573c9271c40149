/* SPDX-License-Identifier: BSD-3-Clause */
/* Temporary memory of any length, of the host or of a device, for large collectives.  Making it
 * takes long (pinning host memory 0.3 s a gigabyte; memory of a device must be mapped anew by each
 * peer, 3 to 4 ms), so lengths are powers of two and some areas are kept, and all while giving them
 * back could wait for ever (rt_gpu_awaits).  All of it dies with its context: then only the
 * descriptions are freed.  Under the domain's lock. */
#include "runtime/gpu/area.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/gpu/gpu_int.h"

#include <stdlib.h>
#include <sys/mman.h>

/* Bytes of either place that are kept while nobody uses them. */
#define KEEP (256u << 20)

static cu_result memory_make(struct rt_gpu_area *a)
{
    cu_ptr d = 0;
    if (!a->host) {
        cu_result r = rt_cuda.mem_alloc(&d, a->len);
        a->p = (char *)(uintptr_t)d;
        return r;
    }
    if (!rt_cuda.mem_host_register || !rt_cuda.mem_host_unregister)
        return CU_ERROR_OUT_OF_MEMORY;
    void *p = mmap(NULL, a->len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return CU_ERROR_OUT_OF_MEMORY;
    cu_result r = rt_cuda.mem_host_register(p, a->len, CU_HOST_PORTABLE | CU_HOST_DEVICEMAP);
    if (r != CU_OK)
        munmap(p, a->len);
    else
        a->p = p;
    return r;
}

static void destroy(struct rt_gpu_area *a)
{
    int in = rt_gpu_enter(a->g);
    if (in >= 0 && a->host)
        rt_cuda.mem_host_unregister(a->p);
    else if (in >= 0)
        rt_cuda.mem_free((cu_ptr)(uintptr_t)a->p);
    if (a->host)
        munmap(a->p, a->len);
    if (in >= 0)
        rt_gpu_leave(in);
    free(a);
}

static struct rt_gpu_area *oldest(struct rt_gpu *g, bool host)
{
    struct rt_list *kept = &g->areas[host];
    return rt_list_empty(kept) ? NULL : rt_container(kept->next, struct rt_gpu_area, link);
}

/* Gives back what was kept longest until `room` bytes of what is kept are free, when it may be
 * done now. */
static void make_room(struct rt_gpu *g, bool host, size_t room)
{
    struct rt_gpu_area *a;
    if (g->areas_nbytes[host] + room <= KEEP || (!g->lost && rt_gpu_must_not_wait()))
        return;
    while (g->areas_nbytes[host] + room > KEEP && (a = oldest(g, host))) {
        rt_list_del(&a->link);
        g->areas_nbytes[host] -= a->len;
        destroy(a);
    }
}

static struct rt_gpu_area *find_kept(struct rt_gpu *g, bool host, size_t len)
{
    struct rt_list *l;
    rt_list_each (l, &g->areas[host]) {
        struct rt_gpu_area *a = rt_container(l, struct rt_gpu_area, link);
        if (a->len != len)
            continue;
        rt_list_del(&a->link);
        g->areas_nbytes[host] -= len;
        return a;
    }
    return NULL;
}

static int create(struct rt_gpu *g, bool host, size_t len, struct rt_gpu_area **out)
{
    struct rt_gpu_area *a = malloc(sizeof *a);
    if (!a)
        return -RT_ENOMEM;
    *a = (struct rt_gpu_area){ .len = len, .g = g, .host = host };
    rt_list_init(&a->link);
    int in = rt_gpu_enter(g);
    if (in < 0) {
        free(a);
        return g->lost ? rt_gpu_gone(g) : in;
    }
    cu_result r = memory_make(a);
    if (r == CU_ERROR_OUT_OF_MEMORY && oldest(g, host)) {
        make_room(g, host, KEEP);
        r = memory_make(a);
    }
    rt_gpu_leave(in);
    if (r == CU_OK) {
        *out = a;
        return 0;
    }
    free(a);
    if (rt_gpu_check_lost(g, r))
        return rt_gpu_gone(g);
    log_info(GPU, "no %s memory for %zu bytes of temporary data of GPU %d: another way is taken",
             host ? "pinned host" : "device", len, g->info.ordinal);
    return -RT_ENOMEM;
}

int rt_gpu_area_take(struct rt_gpu *g, bool host, size_t nbytes, struct rt_gpu_area **out)
{
    size_t len = RT_GPU_STAGE_LARGE;
    if (g->lost)
        return rt_gpu_gone(g);
    if (nbytes > SIZE_MAX / 4)
        return -RT_ENOMEM;
    while (len < nbytes)
        len *= 2;
    *out = find_kept(g, host, len);
    return *out ? 0 : create(g, host, len, out);
}

void rt_gpu_area_give(struct rt_gpu_area *a)
{
    struct rt_gpu *g = a->g;
    struct rt_list *kept = &g->areas[a->host];
    if (g->lost) {
        destroy(a);
        return;
    }
    /* One that is too long to be kept is the first to go. */
    rt_list_append(a->len > KEEP ? kept->next : kept, &a->link);
    g->areas_nbytes[a->host] += a->len;
    make_room(g, a->host, 0);
}

void rt_gpu_area_init(struct rt_gpu *g)
{
    rt_list_init(&g->areas[false]);
    rt_list_init(&g->areas[true]);
}

void rt_gpu_area_fini(struct rt_gpu *g)
{
    make_room(g, false, KEEP + 1);
    make_room(g, true, KEEP + 1);
}
