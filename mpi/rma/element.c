/* SPDX-License-Identifier: BSD-3-Clause */
/* Accumulates and compare-and-swaps on one element of 1, 2, 4 or 8 bytes, by an atomic operation of
 * the processor.  They take no stripe (acc.c), and each has one serialising instruction instead of
 * two.  A target begins with this rule.  The first accumulate that needs stripes ends the rule for
 * the target, for good: a reduction of many elements by atomic operations would take ten times as
 * long as under a stripe.
 *
 * A process publishes with a plain store that it changes an element, and reads the rule after that
 * without a fence.  The process that ends the rule makes all others execute a fence by
 * membarrier(2), then waits until each has finished its change.  Where a process has no
 * membarrier(2), windows begin with stripes.  A process that has threads does not change elements
 * in this way, because its word is for one thread. */
#include "mpi/rma/element.h"
#include "mpi/op/op.h"
#include "mpi/rma/op.h"
#include "mpi/rma/quick.h"
#include "runtime/base/idle.h"
#include "runtime/mem/segment.h"
#include <string.h>

static void await_change(const struct wm_rma *r, int local)
{
    const struct wm_rma_ctl *c = wm_rma_ctl_at(r, local);
    struct rt_idle idle = { 0 };
    while (rt_load_acquire(&c->changing))
        if (rt_idle_pause(&idle, 1) && rt_node_gone(local))
            return;
}

void wm_rma_stripes_begin(const struct wm_rma *r, struct wm_rma_ctl *c)
{
    uint32_t rule = WM_RMA_BY_ELEMENT;
    rt_cas(&c->rule, &rule, WM_RMA_TO_STRIPES);
    if (rule == WM_RMA_BY_STRIPE)
        return;
    rt_node_barrier(); /* the rule before the reads of `changing` */
    for (int i = 0; i < r->shared.nmembers; i++)
        await_change(r, r->shared.members[i]);
    rt_store_release(&c->rule, WM_RMA_BY_STRIPE);
}

static uint64_t load(const void *at, uint64_t nbytes)
{
    switch (nbytes) {
    case 1:
        return rt_load_relaxed((const uint8_t *)at);
    case 2:
        return rt_load_relaxed((const uint16_t *)at);
    case 4:
        return rt_load_relaxed((const uint32_t *)at);
    default:
        return rt_load_relaxed((const uint64_t *)at);
    }
}

/* Stores `next` if *old is there; else sets *old. */
static bool swap(void *at, uint64_t *old, uint64_t next, uint64_t nbytes)
{
    uint8_t old1 = (uint8_t)*old;
    uint16_t old2 = (uint16_t)*old;
    uint32_t old4 = (uint32_t)*old;
    bool done;
    switch (nbytes) {
    case 1:
        done = rt_cas((uint8_t *)at, &old1, (uint8_t)next);
        *old = old1;
        return done;
    case 2:
        done = rt_cas((uint16_t *)at, &old2, (uint16_t)next);
        *old = old2;
        return done;
    case 4:
        done = rt_cas((uint32_t *)at, &old4, (uint32_t)next);
        *old = old4;
        return done;
    default:
        return rt_cas((uint64_t *)at, old, next);
    }
}

static bool fits(const void *at, uint64_t nbytes)
{
    return nbytes <= 8 && !(nbytes & (nbytes - 1)) && !((uintptr_t)at & (nbytes - 1)) &&
           !rt_threaded;
}

bool wm_rma_element(struct wm_rma_ctl *mine, const struct wm_rma_ctl *c, rt_reduce_fn *kernel,
                    void *at, const void *origin, void *result, uint64_t nbytes)
{
    uint64_t in = 0, old, next;
    if (!fits(at, nbytes) || !wm_rma_element_begin(mine, c))
        return false;
    if (origin)
        memcpy(&in, origin, nbytes);
    old = load(at, nbytes);
    do {
        next = old;
        kernel(&in, &next, &next, 1);
    } while (next != old && !swap(at, &old, next, nbytes));
    wm_rma_element_end(mine);
    if (result)
        memcpy(result, &old, nbytes);
    return true;
}

static bool compare_and_swap(const struct wm_rma *r, const struct wm_rma_acc *c,
                             const struct wm_rma_args *a)
{
    uint64_t n = (uint64_t)a->nbytes, old = 0, next = 0;
    if (!fits(c->base, n) || !wm_rma_element_begin(r->shared.ctl, c->ctl))
        return false;
    memcpy(&old, a->compare, n);
    memcpy(&next, a->origin.buf, n);
    swap(c->base, &old, next, n);
    wm_rma_element_end(r->shared.ctl);
    memcpy(a->result.buf, &old, n);
    return true;
}

bool wm_rma_element_try(const struct wm_rma *r, const struct wm_rma_acc *c,
                        const struct wm_rma_args *a)
{
    const struct wm_type *in = a->origin.type, *out = a->result.type;
    if (rt_load_relaxed(&c->ctl->rule) != WM_RMA_BY_ELEMENT || c->cma >= 0 || a->on_device ||
        a->nbytes != c->esize || !c->layout->contig)
        return false;
    if (a->what == WM_RMA_DO_CAS)
        return compare_and_swap(r, c, a);
    rt_reduce_fn *kernel = rt_reduce_find(a->opcode, c->elem);
    bool gives = a->opcode != RT_OP_NO_OP;
    if (!kernel || (gives && !in->layout.contig) || (a->fetches && !out->layout.contig))
        return false;
    return wm_rma_element(r->shared.ctl, c->ctl, kernel, c->base, gives ? a->origin.buf : NULL,
                          a->fetches ? a->result.buf : NULL, (uint64_t)a->nbytes);
}
