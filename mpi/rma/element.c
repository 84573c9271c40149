/* SPDX-License-Identifier: BSD-3-Clause */
/* The change of one element of the memory of a target, out of line, and the end of the rule that
 * elements change by atomic operations (element.h).
 *
 * The process that ends the rule makes all others execute a fence by membarrier(2), then waits
 * until each has finished its change.  Where a process has no membarrier(2), windows begin with
 * stripes. A process that has threads does not change elements by atomic operations, because its
 * word is for one thread. */
#include "mpi/rma/element.h"
#include "mpi/op/op.h"
#include "mpi/rma/op.h"
#include "runtime/base/idle.h"
#include "runtime/mem/deaths.h"
#include <string.h>

static void await_change(const struct wm_rma *r, int local)
{
    const struct wm_rma_ctl *c = wm_rma_ctl_at(r, local);
    struct rt_idle idle = { 0 };
    while (rt_load_acquire(&c->changing))
        if (rt_idle_pause(&idle, 1) && rt_node_gone_now(local))
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

/* Whether an element of so many bytes can change by an atomic operation. */
static bool has_size(uint64_t nbytes) { return nbytes <= 8 && !(nbytes & (nbytes - 1)); }

bool wm_rma_element_fold(const struct wm_rma_place *p, struct wm_rma_element *e, const void *origin,
                         void *result, bool *stored)
{
    uint64_t old = 0;
    if (!has_size(e->nbytes))
        return false;
    e->op = WM_RMA_FOLD;
    e->value = origin ? wm_rma_number(origin, e->nbytes) : 0;
    if (!wm_rma_element(p, e, &old, stored))
        return false;
    if (result)
        wm_rma_number_store(result, old, e->nbytes);
    return true;
}

static bool compare_and_swap(const struct wm_rma_place *p, struct wm_rma_element *e,
                             const struct wm_rma_args *a)
{
    bool stored;
    if (!has_size(e->nbytes))
        return false;
    e->op = WM_RMA_SWAP;
    e->value = wm_rma_number(a->origin.buf, e->nbytes);
    uint64_t old = wm_rma_number(a->compare, e->nbytes);
    if (!wm_rma_element(p, e, &old, &stored))
        return false;
    wm_rma_number_store(a->result.buf, old, e->nbytes);
    return true;
}

bool wm_rma_element_try(const struct wm_rma *r, const struct wm_rma_acc *c,
                        const struct wm_rma_args *a)
{
    const struct wm_type *in = a->origin.type, *out = a->result.type;
    struct wm_rma_place p = { c->zero, c->ctl, r->shared.ctl };
    struct wm_rma_element e = { .at = c->base, .nbytes = (uint64_t)a->nbytes };
    bool gives = a->opcode != RT_OP_NO_OP, stored;
    if (c->cma >= 0 || a->on_device || a->nbytes != c->esize || !c->layout->contig)
        return false;
    if (a->what == WM_RMA_DO_CAS)
        return compare_and_swap(&p, &e, a);
    e.kernel = rt_reduce_find(a->opcode, c->elem);
    if (!e.kernel || (gives && !in->layout.contig) || (a->fetches && !out->layout.contig))
        return false;
    return wm_rma_element_fold(&p, &e, gives ? a->origin.buf : NULL,
                               a->fetches ? a->result.buf : NULL, &stored);
}
