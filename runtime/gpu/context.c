/* SPDX-License-Identifier: BSD-3-Clause */
/* A context in use: entering it, noticing its end, and the calls of the driver that wait for it.
 * Under the domain's lock. */
#include "runtime/gpu/context.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/base/ticks.h"
#include "runtime/gpu/driver.h"
#include "runtime/gpu/gpu_int.h"

#include <string.h>

bool (*rt_gpu_awaits)(void);
uint64_t rt_gpu_nmade;
/* How often the driver is asked, at most, whether a context still exists: it bounds how late the
 * end of a context is noticed. */
#define CONTEXT_CHECK_MS 1

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

bool rt_gpu_is_there(struct rt_gpu *g)
{
    uint64_t now = rt_ticks(), id = 0;
    if (g->lost)
        return false;
    if (now - g->mark.looked < rt_ticks_in_ms(CONTEXT_CHECK_MS))
        return true;
    int attribute = CU_PTR_BUFFER_ID;
    void *value = &id;
    cu_result r = rt_cuda.pointer_get_attributes(1, &attribute, &value, g->mark.p);
    if (r == CU_OK && id != g->mark.id)
        lose(g);
    g->mark.looked = now;
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
    if (!rt_gpu_is_there(g)) /* before a handle is used that is no longer valid */
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
    g->deferred.nbytes -= d->nbytes;
}

/* A call may defer another one: that is made, too. */
void rt_gpu_make_deferred(struct rt_gpu *g)
{
    if (rt_list_empty(&g->deferred.calls))
        return;
    int in = rt_gpu_enter(g);
    if (in < 0 && !g->lost)
        return;
    while (!rt_list_empty(&g->deferred.calls)) {
        struct rt_gpu_deferred *d = rt_container(g->deferred.calls.next, struct rt_gpu_deferred,
                                                 link);
        rt_gpu_undefer(g, d);
        d->fn(d);
        rt_gpu_nmade++;
    }
    rt_gpu_leave(in);
}

void rt_gpu_defer(struct rt_gpu *g, struct rt_gpu_deferred *d, size_t nbytes,
                  void (*fn)(struct rt_gpu_deferred *d))
{
    d->fn = fn;
    d->nbytes = nbytes;
    rt_list_append(&g->deferred.calls, &d->link);
    g->deferred.nbytes += nbytes;
    bool full = g->deferred.nbytes > g->info.mem_nbytes / DEFERRED_PART;
    if (g->lost || (full && !rt_gpu_must_not_wait()))
        rt_gpu_make_deferred(g);
}

/* ---- facts ---- */

const struct rt_gpu_info *rt_gpu_info(const struct rt_gpu *g) { return &g->info; }

unsigned rt_gpu_most_blocks(const struct rt_gpu *g, unsigned per_sm)
{
    unsigned n = (unsigned)g->info.nsm * per_sm, limit = (unsigned)cfg.gpu_multiprocessors;

    return limit && limit < n ? limit : n;
}

uint64_t rt_gpu_turns_of(const struct rt_gpu *g)
{
    uint64_t half[2];

    if (g->info.mps || g->info.exclusive)
        return 0;
    memcpy(half, g->info.uuid, sizeof half);
    return half[0] ^ half[1] * 0x9E3779B97F4A7C15u;
}

bool rt_gpu_in_turns(const struct rt_gpu *g) { return g->in_turns; }

void rt_gpu_set_shared(struct rt_gpu *g)
{
    g->shared = true;
    g->in_turns = !g->info.mps;
}
