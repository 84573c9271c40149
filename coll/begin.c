/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts a task by an algorithm for host memory, and advances tasks.  Called under the domain's
 * lock. */

#include "coll/begin.h"
#include "coll/sched.h"
#include "coll/select.h"
#include "coll/wide.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/boot/boot.h"
#include "runtime/mem/segment.h"

static int step_nothing(struct coll_task *k)
{
    (void)k;
    return 1;
}

/* In a team of one rank, data to itself is copied. */
static void self_copy(const struct coll_team *t, const struct coll_args *a)
{
    struct coll_block from = coll_args_sent(t, a, 0), to = coll_args_received(t, a, 0);
    if (from.l && to.l && !coll_args_in_place(a, 0))
        coll_copy(from.at, from.n, from.l, to.at, to.n, to.l);
}

static int start_with(struct coll_task *k, int64_t bytes, bool has_node)
{
    const char *why;
    k->bytes = bytes;
    k->alg = coll_choose_for(k->team, &k->args, bytes, has_node, &why);
    log_trace(COLL, "call %u: %s by %s (%s)", k->seq, coll_kind_names[k->args.kind], k->alg->name,
              why);
    return k->alg->start(k->team, &k->args, k);
}

int coll_begin_host(struct coll_task *k)
{
    bool has_node = k->team->node && !k->messages;
    k->step = step_nothing;
    k->cleanup = NULL;
    k->state = NULL;
    k->alg = NULL;
    k->gpu = NULL;
    if (k->team->local)
        return start_with(k, 0, false); /* each group knows only its own lengths */
    int64_t bytes = coll_args_bytes(k->team, &k->args);
    if (coll_is(k->args.kind, COLL_IS_NEIGHBOR)) /* a single rank may be its own neighbour */
        return start_with(k, bytes, has_node);
    if (k->team->size == 1) {
        self_copy(k->team, &k->args);
        return 0;
    }
    if (coll_args_are_empty(&k->args, bytes)) /* no message is needed */
        return 0;
    return coll_is_wide(k) ? coll_start_wide(k) : start_with(k, bytes, has_node);
}

int coll_start_messages(struct coll_task *k)
{
    return start_with(k, coll_args_bytes(k->team, &k->args), false);
}

uint32_t coll_revocations;

/* Messages report a lost rank themselves, and calls on devices test for one (coll/board.c).
 * Returns 0: the call may still end; -RT_EPEER, -RT_EREVOKED: it must be given up. */
static int is_hopeless(const struct coll_task *k)
{
    struct coll_team *t = k->team;
    if (rt_likely(!(rt_node.nended | coll_revocations)) || !k->alg || k->copying ||
        !(k->alg->need & COLL_NEED_ONE_NODE) || k->alg->need & COLL_NEED_PEER_MAP)
        return 0;
    if (coll_revocations && t->ops->revoked && t->ops->revoked(t))
        return -RT_EREVOKED;
    if (!rt_node.nended)
        return 0;
    int rank = t->limits->lost(t);
    if (rank >= 0)
        log_at(COLL, cfg.ft ? RT_LOG_INFO : RT_LOG_ERROR,
               "rank %d of the communicator has ended before %s was complete; it fails",
               coll_team_whole_rank(t, rank), coll_kind_names[k->args.kind]);
    return rank >= 0 ? -RT_EPEER : 0;
}

/* Poison of host memory comes from a rank that has lost another one. */
static int result_of(const struct coll_task *k, int rc)
{
    int err = rc < 0 ? rc : k->lost;
    return rt_unlikely(err == -RT_EREMOTE) && cfg.ft && k->args.mem == RT_MEM_HOST ? -RT_EPEER
                                                                                   : err;
}

int coll_task_advance(struct coll_task *k)
{
    int rc = k->step(k);
    if (rc == 0) {
        rc = is_hopeless(k);
        if (rt_likely(!rc))
            return 0;
        k->team->limits->fail(k->team);
        if (k->home)
            rt_list_del(&k->link);
    }
    if (k->cleanup)
        k->cleanup(k);
    k->cleanup = NULL;
    rc = result_of(k, rc);
    if (rt_unlikely(rc < 0) && k->team) /* of MPI_Comm_idup: none */
        k->team->failed = true;
    rt_req_finish(&k->req, rc);
    return 1;
}

_Noreturn void coll_cannot_take_part(void)
{
    rt_boot_abort(1, "out of memory for a collective, in which the other processes would wait");
}
