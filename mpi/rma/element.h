/* SPDX-License-Identifier: BSD-3-Clause */
/* What an accumulate changes; one element by an atomic operation of the processor. */
#ifndef WM_RMA_ELEMENT_H
#define WM_RMA_ELEMENT_H

#include "mpi/p2p/resolve.h"
#include "mpi/rma/rma.h"
#include "runtime/layout/layout.h"
#include "runtime/reduce/reduce.h"

/* A part of an accumulate at its target, for a process that can reach the memory. */
struct wm_rma_acc {
    const struct wm_rma *rma;
    struct wm_rma_ctl *ctl; /* of the target */
    int cma;                /* local rank of the process to whose memory `base` belongs; -1: ours */
    char *zero;             /* where the window's memory begins, in the address space of `base` */
    char *base;             /* where the target's elements begin */
    int64_t count;
    const struct rt_layout *layout; /* of an element */
    const struct wm_mem *mem;       /* of the target's elements in device memory of ours; NULL */
    bool atomic;                    /* devices of other processes may change them, too */
    enum rt_opcode op;
    enum rt_elem elem;
    int64_t esize;      /* packed bytes of a basic element */
    int64_t pos, len;   /* this part of the packed form */
    const char *origin; /* packed, len bytes; NULL with RT_OP_NO_OP */
    char *result;       /* packed, len bytes; NULL: not wanted */
};

struct wm_rma_args;
/* Carries out an accumulate or compare-and-swap on one element by an atomic operation; `c` has its
 * ctl, cma, base, layout, elem and esize.  False: it needs wm_rma_acc() or wm_rma_cas(). */
bool wm_rma_element_try(const struct wm_rma *r, const struct wm_rma_acc *c,
                        const struct wm_rma_args *a);
/* From here on, accumulates on the target with this block take stripes.  Waits for a change of an
 * element that another process has begun. */
void wm_rma_stripes_begin(const struct wm_rma *r, struct wm_rma_ctl *c);

#endif
