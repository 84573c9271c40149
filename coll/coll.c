/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts and advances collective calls.  Called under the domain's lock. */
#include "coll/coll.h"

#include "coll/algo/algo.h"
#include "coll/gpu/gpu.h"
#include "coll/hier/hier.h"
#include "coll/start.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

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

static int start_with(struct coll_task *k, bool has_node)
{
    const char *why;
    k->alg = coll_choose(k->team, &k->args, has_node, &why);
    log_trace(COLL, "call %u: %s by %s (%s)", k->seq, coll_kind_names[k->args.kind], k->alg->name,
              why);
    return k->alg->start(k->team, &k->args, k);
}

/* Calls whose numbers are TAG_NUMBERS + 1 apart have the same tag; they are never both in
 * progress. */
#define TAG_NUMBERS (COLL_TAG_CALLS - 1u)
_Static_assert(COLL_TAG_PERSISTENT + TAG_NUMBERS < COLL_TAG_END, "tags stay in their range");

int coll_begin_host(struct coll_task *k)
{
    bool has_node = k->team->node && !k->messages;
    k->step = step_nothing;
    k->cleanup = NULL;
    k->state = NULL;
    k->alg = NULL;
    k->gpu = NULL;
    if (k->team->local)
        return start_with(k, false);             /* each group knows only its own lengths */
    if (coll_is(k->args.kind, COLL_IS_NEIGHBOR)) /* a single rank may be its own neighbour */
        return start_with(k, has_node);
    if (k->team->size == 1) {
        self_copy(k->team, &k->args);
        return 0;
    }
    if (coll_args_are_empty(k->team, &k->args)) /* no message is needed */
        return 0;
    return coll_is_wide(k) ? coll_start_wide(k) : start_with(k, has_node);
}

/* Kinds that need the ranks' agreement on memory: they may go from device to device or be staged.
 * Neighbourhood collectives do not: they exchange messages, which take any memory. */
static bool may_pass(const struct coll_args *a) { return !coll_is(a->kind, COLL_IS_NEIGHBOR); }

/* Whether coll/gpu counts the call: ranks that share memory (all ranks, or those of this host) must
 * agree on the memory that they pass. */
static bool is_counted(const struct coll_team *t, const struct coll_args *a)
{
    return (t->node || (t->hier && t->hier->local.team.node)) && may_pass(a) &&
           !coll_forces_messages(t, a);
}

static int begin(struct coll_task *k)
{
    struct coll_team *t = k->team;
    int err = rt_unlikely(t->hier && !t->hier->mapped) ? coll_hier_map(t->hier) : 0;
    if (rt_unlikely(err < 0))
        return err;
    bool counted = !k->messages && is_counted(t, &k->args);
    if (counted && rt_unlikely(t->gpu != NULL)) {
        if (!coll_gpu_pass(t, &k->args))
            return coll_gpu_start(k);
    } else {
        t->gate_calls += counted;
    }
    err = rt_unlikely(k->args.mem != RT_MEM_HOST) && may_pass(&k->args) ? t->ops->stage(t, k)
                                                                        : coll_begin_host(k);
    if (rt_unlikely(err < 0)) /* not started; may be repeated */
        t->gate_calls -= counted;
    return err;
}

int coll_start(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    k->team = t;
    k->args = *a;
    k->seq = t->seq++;
    k->tag = (int)(k->seq & TAG_NUMBERS);
    k->messages = false;
    k->lost = 0;
    int err = begin(k);
    if (err < 0)
        t->seq--; /* not started: when repeated, it has the number for which the other ranks wait */
    return err;
}

void coll_prepare(struct coll_team *t, const struct coll_args *a, struct coll_task *k)
{
    k->team = t;
    k->args = *a;
    k->seq = t->seq++;
    k->tag = (int)(k->seq & TAG_NUMBERS) | COLL_TAG_PERSISTENT;
    k->messages = true;
    k->fixed = NULL;
    if (t->hier || !is_counted(t, a))
        return;
    t->gate_inits++;
    if (rt_unlikely(t->gpu != NULL))
        coll_gpu_prepare(k);
}

int coll_restart(struct coll_task *k)
{
    k->lost = 0;
    return rt_unlikely(k->fixed != NULL) ? coll_gpu_restart(k) : begin(k);
}

void coll_unprepare(struct coll_task *k)
{
    if (k->fixed)
        coll_gpu_unprepare(k);
}

int coll_start_messages(struct coll_task *k) { return start_with(k, false); }

int coll_task_advance(struct coll_task *k)
{
    int rc = k->step(k);
    if (rc == 0)
        return 0;
    if (k->cleanup)
        k->cleanup(k);
    k->cleanup = NULL;
    rt_req_finish(&k->req, rc < 0 ? rc : k->lost);
    return 1;
}
