/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective calls with device buffers that coll/gpu does not carry out from device to device.
 * There are four cases.
 *
 * A team of one process sends messages to itself.  Neighbourhood collectives are messages over the
 * user's buffers in any case.
 *
 * If all ranks use messages and there is enough data, as in long calls on memory that other ranks
 * cannot map (coll/gpu/gate.c), the same algorithm runs over the user's buffers, with temporaries
 * and reductions on the device (coll/sched_gpu.c).  The condition is that this process's buffers
 * are on one device and its kernels support the operation.  Each process decides alone, also a
 * process that is alone on its host.  Ranks of a host that work together have voted before
 * (coll/gpu/vote.c); this file gets the calls that they do not carry out on their devices.
 *
 * All other calls are done in host memory (stage.c).  The algorithm is started at once, so that
 * calls are numbered in their order; it makes its first step when the input has been copied.
 *
 * Failed copies.  A failed copy out is an error of this process alone.  If a copy in fails, the
 * algorithm runs nevertheless, so that no rank hangs, and its input is poisoned (coll_task.lost).
 * Each rank that receives poisoned data, or data computed from it, is notified, and its call also
 * fails.  Messages carry the notification by their kind (WM_VOID) and carry no data; flag lines in
 * shared memory carry a mark (coll/node/node.h); ranks that have voted use FAILED (coll/gpu/run.c).
 * The same holds if a device fails during a schedule (coll/sched_gpu.c), and for a message whose
 * data could not be moved.  A rank may be notified without need: after the failure all data that a
 * rank sends count as poisoned.  Ranks that receive no data, as most ranks of a gather, are not
 * notified. */
#include "mpi/coll/device.h"
#include <stdlib.h>
#include "coll/begin.h"
#include "coll/sched_gpu.h"
#include "coll/select.h"
#include "coll/start/team.h"
#include "coll/wide.h"
#include "mpi/coll/stage.h"
#include "mpi/p2p/device.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/base/reserve.h"
#include "runtime/reduce/gpu_codes.h"

/* An algorithm over messages runs on the device if the process's buffers have at least this many
 * bytes.  Model: for fewer bytes, the copies in and out cost less than one kernel and two copies
 * per round.  Where these copies are slower, the device would pay for shorter calls, too; only the
 * speed depends on this value. */
#define DEVICE_MIN (64 << 10)

/* A staged call, or a call of a team of one. */
struct run {
    struct wm_stage *stage;
    enum { COPY_IN, RUN, COPY_OUT } phase;
    bool abandoned;                   /* the algorithm has failed */
    int (*step)(struct coll_task *k); /* the algorithm's own step */
    void (*cleanup)(struct coll_task *k);
    struct rt_req *msg[2]; /* a team of one: its messages to itself */
};

/* ---- where the buffers are ---- */

static int check_side(const struct coll_args *a, const struct coll_team *t, enum coll_side which)
{
    struct wm_mem mem;
    int err = 0;
    for (int i = 0, n = coll_args_uses(t, a, which); i < n && err >= 0; i++) {
        struct coll_block b = coll_args_use(t, a, which, i).b;
        err = wm_block_resolve(&b, &mem);
    }
    return err;
}

/* Whether a buffer is not host memory. */
static bool find(const void *buf, struct rt_gpu_ptr *at)
{
    int rc = rt_gpu_find(buf, 0, at);
    if (rc <= 0)
        at->g = NULL;
    return rc != 0;
}

/* Shortcuts for the most frequent calls, whose data are contiguous and start at the buffers'
 * addresses.  Each buffer is looked at once, the receive buffer first.  If neither is device
 * memory, this process need not find out which of them it uses.  If every rank has a receive buffer
 * and this one is device memory, the send buffer does not matter. */
int wm_coll_look(struct wm_call *call, struct rt_gpu_ptr *at)
{
    struct coll_args *a = &call->args;
    const struct coll_team *t = &call->comm->team;
    bool plain = !a->rcounts && (!a->rtype || a->rtype->contig);
    at[COLL_SEND].g = at[COLL_RECV].g = NULL;
    a->found = at;
    bool recv = plain && find(a->rbuf, &at[COLL_RECV]);
    if (a->kind == COLL_BARRIER ||
        (rt_likely(plain && !recv && !a->scounts && (!a->stype || a->stype->contig)) &&
         !find(a->sbuf, &at[COLL_SEND])))
        return 0;
    if (recv && !coll_is(a->kind, COLL_IS_TO_ROOT | COLL_IS_NEIGHBOR) && a->rtype &&
        a->rcount * a->rtype->size > 0) {
        a->mem = RT_MEM_CUDA;
        return 0;
    }
    if (a->neighbors) {
        int err = check_side(a, t, COLL_SEND);
        return err < 0 ? err : check_side(a, t, COLL_RECV);
    }
    if (wm_side_on_device(a, t, COLL_RECV) || wm_side_on_device(a, t, COLL_SEND))
        a->mem = RT_MEM_CUDA;
    return 0;
}

/* ---- on the device ---- */

/* Whether kernels of g support the call's operation on its type; pairs with a hole are supported
 * element by element. */
static bool can_reduce(const struct coll_args *a, struct rt_gpu *g)
{
    struct rt_reduce_gpu r;
    const struct rt_layout *l = a->rtype;
    if (!a->op)
        return true;
    bool is_pair = !rt_elem_packs((enum rt_elem)l->elem) && l->true_lb == 0 &&
                   l->extent == rt_elem_nbytes((enum rt_elem)l->elem);
    return (l->contig || is_pair) && rt_reduce_gpu(g, a->op, (enum rt_elem)l->elem, &r) >= 0;
}

/* Adds a side's bytes; false unless all its memory is on one device, *g if that is set. */
static bool lies_on(const struct coll_args *a, const struct coll_team *t, enum coll_side which,
                    struct rt_gpu **g, int64_t *nbytes)
{
    for (int i = 0, n = coll_args_uses(t, a, which); i < n; i++) {
        struct coll_block b = coll_args_use(t, a, which, i).b;
        struct wm_mem mem;
        if (!coll_block_nbytes(&b))
            continue;
        if (wm_block_resolve(&b, &mem) < 0 || mem.kind != WM_MEMORY_DEVICE ||
            (*g && *g != mem.at.g))
            return false;
        *g = mem.at.g;
        *nbytes += coll_block_nbytes(&b);
    }
    return true;
}

/* Whether this rank's part of the algorithm is messages only; all ranks of a host come to the same
 * answer. */
static bool by_messages(const struct coll_team *t, const struct coll_task *k)
{
    struct coll_args host = k->args;
    const char *why;
    host.mem = RT_MEM_HOST;
    if (k->messages || (!t->node && !t->hier))
        return true;
    /* Algorithms for several hosts have parts in shared memory, if ranks share memory. */
    if (t->hier && !coll_team_local((struct coll_team *)t)->node)
        return true;
    return !(coll_select(t, &host, &why)->need & (COLL_NEED_ONE_NODE | COLL_NEED_NODES));
}

/* The device that has all of this rank's buffers; NULL: there is none.  Adds their bytes. */
static struct rt_gpu *sole_device(const struct coll_team *t, const struct coll_args *a,
                                  int64_t *nbytes)
{
    struct rt_gpu *g = NULL;
    bool ok = lies_on(a, t, COLL_SEND, &g, nbytes) && lies_on(a, t, COLL_RECV, &g, nbytes);
    return ok && g && can_reduce(a, g) ? g : NULL;
}

struct rt_gpu *wm_coll_device(struct coll_team *t, const struct coll_args *a)
{
    int64_t nbytes = 0;
    bool gaps = !a->op && ((a->stype && !a->stype->contig) || (a->rtype && !a->rtype->contig));
    return gaps ? NULL : sole_device(t, a, &nbytes);
}

/* The device that carries out the call; NULL: there is none. */
static struct rt_gpu *device_of(const struct coll_team *t, const struct coll_task *k)
{
    int64_t nbytes = 0;
    struct rt_gpu *g = by_messages(t, k) && !coll_is_wide(k) ? sole_device(t, &k->args, &nbytes)
                                                             : NULL;
    return nbytes >= DEVICE_MIN ? g : NULL;
}

/* ---- in host memory ---- */

static void say_once(enum coll_kind kind)
{
    static bool said;
    if (!said)
        log_info(MPI, "device buffers of collectives, such as %s, are copied through host memory",
                 coll_kind_names[kind]);
    said = true;
}

static int staged_step(struct coll_task *k);
static void staged_cleanup(struct coll_task *k);

/* Runs the algorithm's step, which may replace the task's step and cleanup. */
static int inner_step(struct coll_task *k)
{
    struct run *s = k->up;
    k->step = s->step;
    k->cleanup = s->cleanup;
    int rc = k->step(k);
    s->step = k->step;
    s->cleanup = k->cleanup;
    k->step = staged_step;
    k->cleanup = staged_cleanup;
    if (rc < 0)
        s->abandoned = true;
    return rc;
}

static int staged_step(struct coll_task *k)
{
    struct run *s = k->up;
    if (s->phase == COPY_IN) {
        k->copying = !wm_stage_copied(s->stage);
        if (k->copying)
            return 0;
        if (s->stage->err < 0)
            coll_task_lose(k, s->stage->err);
        s->phase = RUN;
    }
    if (s->phase == RUN) {
        int rc = inner_step(k);
        if (rc <= 0)
            return rc;
        if (!k->lost)
            wm_stage_copy(s->stage, COLL_RECV, false);
        s->phase = COPY_OUT;
    }
    k->copying = !wm_stage_copied(s->stage);
    if (k->copying)
        return 0;
    return s->stage->err < 0 ? s->stage->err : 1;
}

static void staged_cleanup(struct coll_task *k)
{
    struct run *s = k->up;
    if (s->cleanup)
        s->cleanup(k);
    k->args = s->stage->user;
    k->up = NULL;
    if (!s->abandoned) /* else leaked: messages may still use it (coll/sched.c) */
        wm_stage_destroy(s->stage);
    rt_reserve_free(s);
}

/* Other ranks wait for this one, so without memory for the data the rank takes part and sends
 * poison. */
static void lose(struct coll_task *k, int err)
{
    log_error(MPI,
              "out of memory to carry out %s of %d ranks in host memory; ranks that need data of "
              "rank %d get an error, too",
              coll_kind_names[k->args.kind], k->team->size, k->team->rank);
    coll_task_lose(k, err);
}

static int start_staged(struct coll_team *t, struct coll_task *k)
{
    struct run *s = rt_reserve_zalloc(sizeof *s);
    int err = s ? wm_stage_create(&k->args, t, &s->stage) : -RT_ENOMEM;
    if (rt_unlikely(err == -RT_ENOMEM))
        coll_cannot_take_part();
    if (err < 0) {
        rt_reserve_free(s);
        return err;
    }
    if (rt_unlikely(s->stage->blank != NULL))
        lose(k, s->stage->err);
    wm_stage_replace(s->stage, &k->args);
    err = coll_begin_host(k);
    if (rt_unlikely(err == -RT_ENOMEM))
        coll_cannot_take_part();
    if (err < 0) {
        k->args = s->stage->user;
        wm_stage_destroy(s->stage);
        rt_reserve_free(s);
        return err;
    }
    say_once(k->args.kind);
    s->step = k->step;
    s->cleanup = k->cleanup;
    k->step = staged_step;
    k->cleanup = staged_cleanup;
    k->up = s;
    if (rt_likely(!s->stage->blank)) {
        wm_stage_copy(s->stage, COLL_SEND, true);
        wm_stage_copy(s->stage, COLL_RECV, true);
    }
    return 0;
}

/* ---- a team of one ---- */

static int alone_step(struct coll_task *k)
{
    struct run *s = k->up;
    int err = 0;
    for (int i = 0; i < 2; i++)
        if (s->msg[i] && !rt_req_done(s->msg[i]))
            return 0;
    for (int i = 0; i < 2; i++) {
        if (!s->msg[i])
            continue;
        err = s->msg[i]->err < 0 ? s->msg[i]->err : err;
        k->team->ops->release(k->team, s->msg[i]);
    }
    return err < 0 ? err : 1;
}

static void alone_cleanup(struct coll_task *k)
{
    free(k->up);
    k->up = NULL;
}

static int nothing(struct coll_task *k)
{
    (void)k;
    return 1;
}

/* Cancels a receive for which no message comes, because a later message would match it. */
static void take_back(struct coll_team *t, struct rt_req *r)
{
    if (!r)
        return;
    r->ops->cancel(r);
    t->ops->release(t, r);
}

/* The copy from the send to the receive buffer is a message, which takes buffers of all kinds. */
static int start_alone(struct coll_team *t, struct coll_task *k)
{
    const struct coll_args *a = &k->args;
    k->step = nothing;
    k->cleanup = NULL;
    k->state = NULL;
    k->alg = NULL;
    int err = check_side(a, t, COLL_SEND);
    if (err >= 0)
        err = check_side(a, t, COLL_RECV);
    struct coll_block from = coll_args_sent(t, a, 0), to = coll_args_received(t, a, 0);
    if (err < 0 || !from.l || !to.l || coll_args_in_place(a, 0))
        return err;
    struct run *s = calloc(1, sizeof *s);
    if (!s)
        return -RT_ENOMEM;
    k->up = s;
    err = t->ops->irecv(t, to.at, to.n, to.l, 0, k->tag, &s->msg[0]);
    if (err >= 0)
        err = t->ops->isend(t, from.at, from.n, from.l, 0, k->tag, &s->msg[1]);
    if (err < 0) {
        take_back(t, s->msg[0]);
        alone_cleanup(k);
        return err;
    }
    k->step = alone_step;
    k->cleanup = alone_cleanup;
    return 0;
}

/* ---- the calls ---- */

int wm_coll_stage(struct coll_team *t, struct coll_task *k)
{
    if (t->size == 1 && !t->local)
        return start_alone(t, k);
    struct rt_gpu *g = device_of(t, k);
    int err = g ? coll_begin_device(k, g) : -RT_ENOTSUP;
    return err == -RT_ENOTSUP || err == -RT_ENOMEM ? start_staged(t, k) : err;
}

static int copies_wait(struct wm_stage *s)
{
    while (!wm_stage_copied(s))
        ;
    return s->err;
}

struct local_op {
    struct rt_gpu_op op;
    bool done;
};

static void local_done(struct rt_gpu_op *op, int err)
{
    (void)err;
    rt_container(op, struct local_op, op)->done = true;
}

/* -RT_ENOTSUP: the buffers are not all on one device, or there is no kernel. */
static int reduce_on_device(const struct coll_args *a)
{
    struct local_op o = { .op.done = local_done };
    struct rt_gpu *g = NULL;
    struct rt_reduce_gpu r;
    int64_t nbytes = 0;
    if (!lies_on(a, NULL, COLL_SEND, &g, &nbytes) || !lies_on(a, NULL, COLL_RECV, &g, &nbytes) ||
        !g || !can_reduce(a, g) || rt_reduce_gpu(g, a->op, (enum rt_elem)a->rtype->elem, &r) < 0)
        return -RT_ENOTSUP;
    rt_reduce_gpu_apply(g, r, a->sbuf, a->rbuf, a->rcount, a->rtype, &o.op);
    while (!o.done)
        rt_gpu_progress();
    return o.op.err;
}

int wm_coll_reduce_local(const struct rt_op *op, const void *in, void *inout, int64_t count,
                         const struct rt_layout *l)
{
    struct coll_args a = { .kind = COLL_ALLREDUCE, .sbuf = in, .rbuf = inout, .op = op };
    a.scount = a.rcount = count;
    a.stype = a.rtype = l;
    struct coll_args here = a;
    struct wm_stage *s;
    struct rt_lock *lock = &wm_main_domain->lock;
    if (rt_likely(!rt_gpu_watch))
        return rt_reduce_apply(op, in, inout, count, l);
    rt_lock(lock);
    if (!wm_side_on_device(&a, NULL, COLL_SEND) && !wm_side_on_device(&a, NULL, COLL_RECV)) {
        rt_unlock(lock); /* the operation may be a user function */
        return rt_reduce_apply(op, in, inout, count, l);
    }
    int err = reduce_on_device(&a);
    if (err != -RT_ENOTSUP) {
        rt_unlock(lock);
        return err;
    }
    err = wm_stage_create(&a, NULL, &s);
    if (err >= 0 && s->err < 0) {
        err = s->err;
        wm_stage_destroy(s);
    }
    if (err < 0) {
        rt_unlock(lock);
        return err;
    }
    wm_stage_replace(s, &here);
    wm_stage_copy(s, COLL_SEND, true);
    s->user.sbuf = COLL_IN_PLACE; /* the result's buffer is also input */
    wm_stage_copy(s, COLL_RECV, true);
    err = copies_wait(s);
    rt_unlock(lock);
    if (err >= 0)
        err = rt_reduce_apply(op, here.sbuf, here.rbuf, count, here.rtype);
    rt_lock(lock);
    if (err >= 0) {
        wm_stage_copy(s, COLL_RECV, false);
        err = copies_wait(s);
    }
    wm_stage_destroy(s);
    rt_unlock(lock);
    return err;
}
