/* SPDX-License-Identifier: BSD-3-Clause */
/* Persistent calls on device memory: calls that stay on the board, with a round for each start.
 * When such a call is created, each rank votes yes, with the keys of its ranges, or no, without
 * waiting; it vetoes if its entry still belongs to another call.  At its first start a rank reads
 * the others' votes, maps their ranges and makes the plan, once.  Each start then only publishes
 * that this rank has arrived (READY), and carries the plan out.  Starts of different calls may come
 * in any order, so each call has an entry of its own.
 *
 * DECLINED (a range that cannot be mapped, memory that has been freed) and FAILED end the call's
 * use of devices on all ranks: a rank that has seen one of them carries out later starts in host
 * memory. */
#include "coll/gpu/gate.h"

#include "coll/select.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

/* As for ordinary calls, a rank without data votes yes if device memory has been seen. */
static bool may_be_device(const struct coll_gpu *g, const struct coll_args *a)
{
    return a->mem != RT_MEM_HOST ||
           (rt_load_relaxed(&g->board.head->used) && coll_gpu_has_nothing(g->board.team, a));
}

/* coll_prepare() has counted the call. */
void coll_gpu_prepare(struct coll_task *k)
{
    struct coll_gpu *g = k->team->gpu;
    uint64_t number = k->team->gate_inits;
    struct coll_gpu_call *c = NULL;
    if (may_be_device(g, &k->args) && !g->far.left && !coll_is_forced(k->team, &k->args, false))
        c = coll_gpu_call_take(g, k, COLL_BOARD_STAYING, number);
    if (c && coll_board_enter(&c->on) > 0 && coll_gpu_describe(c) >= 0) {
        coll_gpu_put_post(c);
        coll_board_yes(&c->on);
        k->fixed = c;
        return;
    }
    if (c)
        coll_gpu_call_spare(c);
    coll_board_veto(&g->board, COLL_BOARD_STAYING, number);
}

void coll_gpu_unprepare(struct coll_task *k)
{
    struct coll_gpu_call *c = k->fixed;
    k->fixed = NULL;
    coll_board_leave(&c->on);
    coll_gpu_call_spare(c);
}

/* Until all ranks have arrived, or a rank has declined. */
static int arrived(struct coll_gpu_call *c)
{
    if (!coll_board_all_at(&c->on, COLL_BOARD_READY))
        return 0;
    if (c->on.seen &
        COLL_BOARD_FAILED) /* perhaps later: the others wait for this rank's END, too */
        return coll_gpu_end(c);
    return c->on.seen ? coll_gpu_stage(c) : coll_gpu_carry_out(c);
}

static int arrive(struct coll_gpu_call *c)
{
    if (!(c->on.flags & (COLL_BOARD_DECLINED | COLL_BOARD_FAILED)) && !coll_gpu_stands(c))
        c->on.flags |= COLL_BOARD_DECLINED;
    c->go = arrived;
    coll_board_publish(&c->on, COLL_BOARD_READY);
    coll_gpu_wait_a_moment(c, COLL_BOARD_READY);
    return arrived(c);
}

/* At the first start: reads the votes of the other ranks. */
static int look(struct coll_gpu_call *c)
{
    bool in_place;
    int rc = coll_board_all_yes(&c->on);
    if (rc == 0)
        return 0;
    if (rc < 0)
        c->on.seen |= rc == -RT_ENOTSUP ? COLL_BOARD_DECLINED : COLL_BOARD_FAILED;
    if (rc == -RT_ENOTSUP)
        return coll_gpu_stage(c);
    if (rc < 0)
        return coll_gpu_over(c, rc);
    coll_gpu_get_ready(c, &in_place); /* it stores the error */
    return arrive(c);
}

static int persistent_step(struct coll_task *k)
{
    struct coll_gpu_call *c = k->state;
    return c->go(c);
}

int coll_gpu_restart(struct coll_task *k)
{
    struct coll_gpu_call *c = k->fixed;
    c->run.failed_at = 0;
    c->go = c->on.agreed ? arrive : look;
    if (c->on.agreed)
        coll_board_again(&c->on);
    k->alg = &coll_gpu_alg;
    k->state = c;
    k->cleanup = NULL;
    k->step = persistent_step;
    return 0;
}
