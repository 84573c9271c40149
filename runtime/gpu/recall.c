/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels that copy and do not start, because the application's kernels fill the device, are
 * recalled: struct rt_gpu_recall of kernel.h.  The host's two accesses to the device's word are
 * copies in a stream of their own, and a later look finds that they have ended; nothing waits.
 * Under the domain's lock, with the context current. */
#include "runtime/gpu/recall.h"
#include "runtime/base/cfg.h"
#include "runtime/base/log.h"
#include "runtime/gpu/driver.h"
#include "runtime/gpu/move.h"

#include <stddef.h>

/* Looks are 1 ms apart: 100 times what the start of a kernel takes. */
#define LATE_LOOKS 2u

void move_recall_init(struct move_recall *r, struct move_recall_words *pinned, cu_ptr word)
{
    r->pinned = pinned;
    r->word = word;
    r->state = MOVE_KEPT;
}

void move_recall_launched(struct move_recall *r, uint32_t number, unsigned nblocks)
{
    r->number = number;
    r->before = r->started;
    r->started += nblocks;
    r->looks = 0;
    r->state = MOVE_MAY_BE_LATE;
}

static void ask(struct move_state *m, struct move_recall *r)
{
    struct move_recall_words *p = r->pinned;
    cu_ptr recalled = r->word + offsetof(struct rt_gpu_recall, recalled);

    r->state = MOVE_ASKED;
    p->number = r->number;
    cu_result e = rt_cuda.memcpy_async(recalled, (cu_ptr)(uintptr_t)&p->number, sizeof p->number,
                                       m->g->now);
    if (e == CU_OK)
        e = rt_cuda.memcpy_async((cu_ptr)(uintptr_t)&p->seen, r->word, sizeof p->seen, m->g->now);
    if (e == CU_OK)
        return;
    r->state = MOVE_KEPT;
    if (move_is_dead(m, e))
        move_fail(m, e, "recalling a kernel");
    else
        rt_cuda_error(e, "recalling a kernel");
}

bool move_recall_look(struct move_state *m, struct move_recall *r)
{
    if (r->state == MOVE_MAY_BE_LATE && ++r->looks >= LATE_LOOKS)
        ask(m, r);
    else if (r->state == MOVE_ASKED && rt_cuda.stream_query(m->g->now) == CU_OK)
        r->state = r->pinned->seen.started == r->before ? MOVE_RECALLED : MOVE_KEPT;
    return r->state == MOVE_RECALLED;
}

void move_kernels_look(struct move_state *m)
{
    struct move_linger *l = &m->linger;

    if (l->recalled && rt_load_acquire(&l->words->left) == l->launch)
        l->running = l->recalled = false;
    m->no_kernels = cfg.gpu_engines || l->recalled || m->late.nbatches;
}

void move_report_late(struct move_state *m)
{
    if (!m->late.reported)
        log_info(GPU,
                 "kernels of the application occupy GPU %d, so kernels of MPI do not start: short "
                 "copies use the copy engines meanwhile",
                 m->g->info.ordinal);
    m->late.reported = true;
    move_kernels_look(m);
}
