/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts collective calls.  Called under the domain's lock. */

#include "coll/start/start.h"
#include "coll/begin.h"
#include "coll/gpu/gate.h"
#include "coll/hier/hier.h"
#include "coll/hier/team.h"
#include "coll/select.h"
#include "runtime/base/err.h"

/* Calls whose numbers are TAG_NUMBERS + 1 apart have the same tag; they are never both in
 * progress. */
#define TAG_NUMBERS (COLL_TAG_CALLS - 1u)
_Static_assert(COLL_TAG_PERSISTENT + TAG_NUMBERS < COLL_TAG_END, "tags stay in their range");

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

/* Without host memory for its description a call cannot begin, but other ranks wait for this one.
 */
static int must_begin(const struct coll_team *t, int err)
{
    if (rt_unlikely(err == -RT_ENOMEM) && (t->size > 1 || t->local))
        coll_cannot_take_part();
    return err;
}

/* Before the first call. */
static int settle(struct coll_team *t)
{
    bool unsure = t->unsure;
    t->unsure = false;
    if (unsure)
        t->ops->settle(t);
    return t->hier && !t->hier->mapped ? coll_hier_map(t->hier) : 0;
}

static int begin(struct coll_task *k)
{
    struct coll_team *t = k->team;
    int err = rt_unlikely(t->unsure || (t->hier && !t->hier->mapped)) ? settle(t) : 0;
    if (rt_unlikely(err < 0))
        return must_begin(t, err);
    bool counted = !k->messages && is_counted(t, &k->args);
    if (counted && rt_unlikely(t->gpu != NULL)) {
        if (!coll_gpu_pass(t, &k->args))
            return coll_gpu_start(k);
    } else {
        t->gate_calls += counted;
    }
    err = rt_unlikely(k->args.mem != RT_MEM_HOST) && may_pass(&k->args)
              ? t->ops->stage(t, k)
              : must_begin(t, coll_begin_host(k));
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
    k->home = NULL;
    k->lost = 0;
    k->copying = false;
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
    if (rt_unlikely(t->unsure))
        (void)settle(t); /* an error is found again by the first start */
    if (t->hier || !is_counted(t, a))
        return;
    t->gate_inits++;
    if (rt_unlikely(t->gpu != NULL))
        coll_gpu_prepare(k);
}

void coll_prepare_own(struct coll_task *k, struct coll_team *own)
{
    k->team = own;
    k->messages = false;
}

int coll_restart(struct coll_task *k)
{
    k->home = NULL;
    k->lost = 0;
    k->copying = false;
    return rt_unlikely(k->fixed != NULL) ? coll_gpu_restart(k) : begin(k);
}

void coll_unprepare(struct coll_task *k)
{
    if (k->fixed)
        coll_gpu_unprepare(k);
}
