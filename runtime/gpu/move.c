/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of operations: of one, or of all of a context that has failed.  Under the domain's lock.
 */
#include "runtime/gpu/move.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/gpu/context.h"
#include "runtime/gpu/driver.h"

#include <stdlib.h>

int rt_gpu_nactive;
static struct rt_list ended = { &ended, &ended }; /* operations whose done() is due */

void move_refuse(struct rt_gpu_op *op)
{
    op->err = -RT_EGPU;
    rt_list_append(&ended, &op->link);
}

void move_end(struct move_state *m, struct rt_gpu_op *op, int err)
{
    rt_list_del(&op->link);
    op->err = err;
    rt_list_append(&ended, &op->link);
    m->nactive--;
}

void move_by_engine(struct move_state *m, struct rt_gpu_op *op)
{
    rt_list_del(&op->link);
    rt_list_append(&m->queue.large, &op->link);
    m->queue.nlarge++;
}

bool move_call_ended(void)
{
    bool any = !rt_list_empty(&ended);

    while (!rt_list_empty(&ended)) {
        struct rt_gpu_op *op = rt_container(ended.next, struct rt_gpu_op, link);
        rt_list_del(&op->link);
        rt_gpu_nactive--;
        op->done(op, op->err);
    }
    return any;
}

/* ---- failure ---- */

bool move_is_dead(struct move_state *m, cu_result r)
{
    if (rt_gpu_check_lost(m->g, r))
        return true;
    /* After an error of a kernel, of any owner, every later call returns that error. */
    enum rt_cuda_fault now = rt_cuda_fault(rt_cuda.stream_query(m->g->now));
    return now == RT_CUDA_CALL || now == RT_CUDA_GONE;
}

static void end_list(struct move_state *m, struct rt_list *l)
{
    while (!rt_list_empty(l))
        move_end(m, rt_container(l->next, struct rt_gpu_op, link), -RT_EGPU);
}

void move_end_everything(struct move_state *m)
{
    m->broken = true;
    m->busy = 0;
    m->nevents = 0;
    for (int i = 0; i < MOVE_FLIGHTS; i++)
        end_list(m, &m->flights[i].ops);
    end_list(m, &m->linger.ops);
    m->linger.n = 0;
    end_list(m, &m->queue.small);
    end_list(m, &m->queue.large);
    m->queue.nsmall = m->queue.nlarge = 0;
    while (!rt_list_empty(&m->queue.launches)) {
        struct move_launch *w = rt_container(m->queue.launches.next, struct move_launch, link);
        rt_list_del(&w->link);
        move_end(m, w->op, -RT_EGPU);
        free(w);
    }
}

void move_fail(struct move_state *m, cu_result r, const char *what)
{
    if (m->broken)
        return;
    if (r == CU_OK || r == CU_ERROR_NOT_READY)
        log_error(GPU, "GPU %d: %s", m->g->info.ordinal, what);
    else
        rt_cuda_error(r, what);
    log_error(GPU,
              "GPU %d: %d copies and kernels of MPI fail, as will all later ones in this "
              "context",
              m->g->info.ordinal, m->nactive);
    move_end_everything(m);
}
