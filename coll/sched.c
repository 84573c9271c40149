/* SPDX-License-Identifier: BSD-3-Clause */
/* Schedule engine: see sched.h.  Runs under the domain's lock.  A task owns its schedule; the
 * task's cleanup frees it. */
#include "coll/begin.h"
#include "coll/sched.h"
#include "coll/sched_int.h"

#include <stdlib.h>
#include <string.h>
#include "coll/sched_gpu.h"
#include "coll/blank.h"
#include "coll/select.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/base/reserve.h"

const struct rt_layout coll_bytes = {
    .size = 1, .extent = 1, .true_extent = 1, .contig = true, .elem = RT_ELEM_BYTE
};

static void sched_free(struct coll_sched *s)
{
    while (s->tmps) {
        struct tmp *t = s->tmps;
        s->tmps = t->next;
        rt_reserve_free(t);
    }
    coll_sched_gpu_free(s);
    rt_reserve_free(s->calls);
    rt_reserve_free(s->reqs);
    rt_reserve_free(s->steps);
    rt_reserve_free(s);
}

static void sched_cleanup(struct coll_task *k)
{
    if (k->state)
        sched_free(k->state);
    k->state = NULL;
}

struct coll_sched *coll_sched_new(struct coll_task *k)
{
    struct coll_sched *s = rt_reserve_zalloc(sizeof *s);
    if (s) {
        s->task = k;
        s->team = k->team;
        s->gpu = k->gpu;
    }
    return s;
}

void coll_sched_team(struct coll_sched *s, struct coll_team *t) { s->team = t; }

static void *add_tmp(struct coll_sched *s, void *p)
{
    struct tmp *t = p;
    t->next = s->tmps;
    s->tmps = t;
    return (char *)p + TMP_HEAD;
}

static void *alloc_tmp(int64_t nbytes)
{
    void *p = NULL;
    return posix_memalign(&p, TMP_HEAD, TMP_HEAD + (size_t)nbytes) ? NULL : p;
}

void *coll_sched_keep(struct coll_sched *s, int64_t nbytes)
{
    void *p = alloc_tmp(nbytes);
    if (!p)
        p = rt_reserve_take(TMP_HEAD + (size_t)nbytes);
    if (p)
        return add_tmp(s, p);
    s->err = -RT_ENOMEM;
    return NULL;
}

void *coll_sched_tmp(struct coll_sched *s, int64_t nbytes)
{
    if (s->gpu)
        return coll_sched_gpu_tmp(s, nbytes);
    void *p = alloc_tmp(nbytes);
    if (rt_likely(p != NULL))
        return add_tmp(s, p);
    if (!s->task->lost)
        log_error(COLL,
                  "out of memory for %lld bytes in %s of %d ranks; ranks that need data of rank %d "
                  "get an error, too",
                  (long long)nbytes, coll_kind_names[s->task->args.kind], s->task->team->size,
                  s->task->team->rank);
    coll_task_lose(s->task, -RT_ENOMEM);
    return coll_nowhere;
}

int64_t coll_span(int64_t n, const struct rt_layout *l, int64_t *low)
{
    int64_t reach = n > 1 ? (n - 1) * l->extent : 0;
    *low = l->true_lb + (reach < 0 ? reach : 0);
    return n > 0 ? l->true_extent + (reach < 0 ? -reach : reach) : 0;
}

void *coll_sched_tmp_elems(struct coll_sched *s, int64_t n, const struct rt_layout *l)
{
    int64_t low, span = coll_span(n, l, &low);
    /* The kernels of value-and-index pairs access whole C structs, including the padding after the
     * last struct. */
    int64_t pad = l->extent > l->true_extent ? l->extent - l->true_extent : 0;
    char *p = coll_sched_tmp(s, span + pad);
    return p ? p - low : NULL;
}

static struct step *step_add(struct coll_sched *s)
{
    static struct step scratch; /* takes writes after an error; never read */
    if (s->nsteps == s->room) {
        int room = s->room ? 2 * s->room : 16;
        struct step *steps = rt_reserve_realloc(s->steps, (size_t)s->room * sizeof *steps,
                                                (size_t)room * sizeof *steps);
        if (!steps) {
            s->err = -RT_ENOMEM;
            return &scratch;
        }
        s->steps = steps;
        s->room = room;
    }
    struct step *st = &s->steps[s->nsteps++];
    memset(st, 0, sizeof *st);
    return st;
}

void coll_sched_send(struct coll_sched *s, const void *buf, int64_t n, const struct rt_layout *l,
                     int dst)
{
    struct step *st = step_add(s);
    st->kind = STEP_SEND;
    st->team = s->team;
    st->peer = dst;
    st->src = buf;
    st->src_n = n;
    st->src_l = l;
    s->round_msgs++;
}

void coll_sched_recv(struct coll_sched *s, void *buf, int64_t n, const struct rt_layout *l, int src)
{
    struct step *st = step_add(s);
    st->kind = STEP_RECV;
    st->team = s->team;
    st->peer = src;
    st->dst = buf;
    st->dst_n = n;
    st->dst_l = l;
    s->round_msgs++;
}

void coll_sched_copy(struct coll_sched *s, const void *src, int64_t src_n,
                     const struct rt_layout *src_l, void *dst, int64_t dst_n,
                     const struct rt_layout *dst_l)
{
    int64_t nbytes = src_n * src_l->size;
    if (nbytes == 0)
        return;
    if (s->gpu && !src_l->contig && !dst_l->contig) { /* through a packed copy */
        void *packed = coll_sched_tmp(s, nbytes);
        coll_sched_copy(s, src, src_n, src_l, packed, nbytes, &coll_bytes);
        coll_sched_copy(s, packed, nbytes, &coll_bytes, dst, dst_n, dst_l);
        return;
    }
    struct step *st = step_add(s);
    st->kind = STEP_COPY;
    st->src = src;
    st->src_n = src_n;
    st->src_l = src_l;
    st->dst = dst;
    st->dst_n = dst_n;
    st->dst_l = dst_l;
}

void coll_sched_reduce(struct coll_sched *s, const void *in, void *inout, int64_t n,
                       const struct rt_layout *l)
{
    if (n == 0)
        return;
    struct step *st = step_add(s);
    st->kind = STEP_REDUCE;
    st->src = in;
    st->dst = inout;
    st->src_n = st->dst_n = n;
    st->src_l = st->dst_l = l;
}

/* Here the buffers of poisoned calls may be buffers for which there is no memory. */
static void blank(struct coll_sched *s, const struct coll_team *t, struct coll_args *a)
{
    void *room = coll_sched_keep(s, (int64_t)coll_blank_nbytes(t, a));
    if (room)
        coll_blank(t, a, room);
}

bool coll_sched_call(struct coll_sched *s, struct coll_team *t, const struct coll_args *a)
{
    const char *why;
    int64_t bytes = coll_args_bytes(t, a);
    const struct coll_alg *alg = s->gpu ? t->device_part : coll_choose_for(t, a, bytes, true, &why);
    if (!(alg->need & COLL_NEED_ONE_NODE) || (s->gpu && a->kind == COLL_BARRIER))
        return false;
    if (s->ncalls == s->calls_room) {
        int room = s->calls_room ? 2 * s->calls_room : 2;
        struct coll_task *calls = rt_reserve_realloc(
            s->calls, (size_t)s->calls_room * sizeof *calls, (size_t)room * sizeof *calls);
        if (!calls) {
            s->err = -RT_ENOMEM;
            return true;
        }
        s->calls = calls;
        s->calls_room = room;
    }
    struct coll_task *k = &s->calls[s->ncalls];
    memset(k, 0, sizeof *k);
    k->team = t;
    k->args = *a;
    k->bytes = bytes;
    k->alg = alg;
    k->gpu = s->gpu;
    if (s->gpu)
        k->args.mem = RT_MEM_CUDA;
    else if (rt_unlikely(s->task->lost))
        blank(s, t, &k->args);
    struct step *st = step_add(s);
    st->kind = STEP_CALL;
    st->peer = s->ncalls++;
    return true;
}

void coll_sched_round(struct coll_sched *s)
{
    if (s->nsteps == 0 || s->steps[s->nsteps - 1].kind == STEP_ROUND)
        return;
    step_add(s)->kind = STEP_ROUND;
    if (s->round_msgs > s->max_msgs)
        s->max_msgs = s->round_msgs;
    s->round_msgs = 0;
}

/* Whether the first bytes are the same.  Comparing the buffers is not enough: both may be
 * MPI_BOTTOM, with types of absolute addresses. */
bool coll_sched_in_place(const void *src, const struct rt_layout *src_l, const void *dst,
                         const struct rt_layout *dst_l)
{
    return (const char *)src + src_l->true_lb == (const char *)dst + dst_l->true_lb;
}

void coll_copy(const void *src, int64_t src_n, const struct rt_layout *src_l, void *dst,
               int64_t dst_n, const struct rt_layout *dst_l)
{
    if (src_n * src_l->size == 0 || coll_sched_in_place(src, src_l, dst, dst_l))
        return;
    if (src_l->contig && dst_l->contig)
        memcpy(dst, src, (size_t)(src_n * src_l->size));
    else
        rt_layout_copy(src_l, src_n, src, dst_l, dst_n, dst);
}

/* If the error means that only data are lost, notes the poison and returns true: a device or its
 * memory has failed, here or at a peer, or a rank has died, and all others still take part.  After
 * a death the poison ends the call on ranks that exchange no messages with the dead rank; mpirun
 * need not end them, because the dead rank may be of another job. */
static bool lose(struct coll_sched *s, int err)
{
    if (err != -RT_EREMOTE && err != -RT_EGPU && err != -RT_EADDR && err != -RT_ENOMEM &&
        err != -RT_EPEER)
        return false;
    coll_task_lose(s->task, err);
    return true;
}

/* Starts the message of a step; *out stays NULL if there is nothing to wait for.  If this rank's
 * data are poisoned, it sends poison and discards what it receives, because the buffers may be
 * memory that cannot be accessed any more. */
static int post(const struct coll_sched *s, const struct step *st, struct rt_req **out)
{
    struct coll_team *t = st->team;
    int tag = s->task->tag;
    bool lost = s->task->lost;
    if (st->kind == STEP_RECV)
        return t->ops->irecv(t, lost ? NULL : st->dst, lost ? 0 : st->dst_n,
                             lost ? &coll_bytes : st->dst_l, st->peer, tag, out);
    if (rt_unlikely(lost))
        return t->ops->send_poison(t, st->peer, tag);
    return t->ops->isend(t, st->src, st->src_n, st->src_l, st->peer, tag, out);
}

/* Posts the messages of the current round. */
static int round_post(struct coll_sched *s)
{
    s->nreqs = s->next_req = 0;
    for (const struct step *st = &s->steps[s->at]; st->kind != STEP_ROUND; st++) {
        if (st->kind != STEP_SEND && st->kind != STEP_RECV)
            continue;
        struct rt_req **r = &s->reqs[s->nreqs];
        *r = NULL;
        int err = post(s, st, r);
        if (rt_unlikely(err < 0) && !s->task->lost && lose(s, err))
            err = post(s, st, r);
        if (rt_unlikely(err == -RT_ENOMEM))
            coll_cannot_take_part();
        if (err < 0 && err != -RT_EPEER)
            return err;
        s->nreqs += *r != NULL;
    }
    s->posted = true;
    return 0;
}

/* 1: all messages of the round are complete; 0: not yet; or the first error. */
static int round_poll(struct coll_sched *s)
{
    struct coll_team *t = s->task->team;
    while (s->next_req < s->nreqs) {
        struct rt_req *r = s->reqs[s->next_req];
        if (!rt_req_done(r))
            return 0;
        int err = r->err;
        t->ops->release(t, r);
        s->next_req++;
        bool thrown_away = err == -RT_ETRUNC && s->task->lost;
        if (rt_unlikely(err < 0) && !thrown_away && !lose(s, err))
            return err;
    }
    return 1;
}

/* Runs the calls of the round in order.  1: all have ended; 0: not yet; or the error of a call. */
static int round_calls(struct coll_sched *s)
{
    for (const struct step *st = &s->steps[s->at]; st->kind != STEP_ROUND; st++) {
        if (st->kind != STEP_CALL || st->peer < s->next_call)
            continue;
        struct coll_task *k = &s->calls[st->peer];
        coll_task_lose(k, s->task->lost);
        if (!coll_task_advance(k))
            return 0;
        s->next_call++;
        if (rt_likely(k->req.err >= 0))
            continue;
        if (k->req.err == k->lost)
            coll_task_lose(s->task, k->lost);
        else if (!lose(s, k->req.err))
            return k->req.err;
    }
    return 1;
}

static void message_done(struct rt_req *r, void *arg)
{
    struct coll_task *k = arg;
    (void)r;
    rt_list_del(&k->link);
    rt_list_append(k->home, &k->link);
}

/* The task has nothing to do until this message is complete.  So thousands of tasks cost nothing
 * while they wait. */
static void await(struct coll_sched *s)
{
    struct rt_req *r = s->reqs[s->next_req];
    if (!s->task->home || s->gpu || r->notify)
        return;
    r->notify = message_done;
    r->arg = s->task;
    rt_list_init(&s->waiting);
    rt_list_append(&s->waiting, &s->task->link);
}

/* Advances the messages and the calls of the round; same result. */
static int round_wait(struct coll_sched *s)
{
    int calls = s->next_call < s->ncalls ? round_calls(s) : 1;
    int rc = calls < 0 ? calls : round_poll(s);
    if (rc == 0 && calls > 0)
        await(s);
    return rc > 0 ? calls : rc;
}

/* Runs the local steps of the round and goes to the next round.  Poisoned data are not passed to
 * user-defined operations. */
static int round_finish(struct coll_sched *s)
{
    const struct step *st = &s->steps[s->at];
    for (; st->kind != STEP_ROUND; st++) {
        int err = 0;
        if (rt_unlikely(s->task->lost))
            continue;
        if (st->kind == STEP_COPY)
            coll_copy(st->src, st->src_n, st->src_l, st->dst, st->dst_n, st->dst_l);
        else if (st->kind == STEP_REDUCE)
            err = rt_reduce_apply(s->task->args.op, st->src, st->dst, st->dst_n, st->dst_l);
        if (err < 0)
            return err;
    }
    coll_sched_next_round(s, st);
    return 0;
}

void coll_sched_next_round(struct coll_sched *s, const struct step *end)
{
    s->at = (int)(end - s->steps) + 1;
    s->posted = false;
}

/* Releases the messages of the round.  Returns whether some are still in progress; these are
 * released when they complete. */
static bool detach(struct coll_sched *s)
{
    struct coll_team *t = s->task->team;
    bool any = false;
    for (; s->next_req < s->nreqs; s->next_req++) {
        struct rt_req *r = s->reqs[s->next_req];
        if (rt_req_done(r)) {
            t->ops->release(t, r);
        } else {
            r->flags |= RT_REQ_DETACHED;
            any = true;
        }
    }
    return any;
}

/* After an error, messages that are still in progress may write to the schedule's buffers, and so
 * may calls in shared memory.  Then the schedule is kept to the end of the process: memory in a job
 * that has lost a process is better than a write into memory that has been reallocated. */
static int sched_abandon(struct coll_task *k, int err)
{
    static struct coll_sched *abandoned;
    struct coll_sched *s = k->state;
    if (!detach(s) && s->next_call == s->ncalls && !s->gpu)
        return err;
    log_debug(COLL, "call %u abandoned after an error: %s", k->seq, rt_err_text(err));
    s->abandoned = rt_load_relaxed(&abandoned);
    while (!rt_cas(&abandoned, &s->abandoned, s)) /* teams of other lanes abandon theirs, too */
        continue;
    k->state = NULL;
    return err;
}

/* Numbers the calls, so all ranks run them in this order.  Algorithms in shared memory only take a
 * number when they start, and cannot fail. */
static void calls_begin(struct coll_sched *s)
{
    s->begun = true;
    for (int i = 0; i < s->ncalls; i++) {
        struct coll_task *k = &s->calls[i];
        k->seq = s->task->seq;
        k->tag = s->task->tag;
        k->background = s->task->background;
        int err = k->alg->start(k->team, &k->args, k);
        rt_assert(err == 0);
        (void)err;
    }
}

static int sched_step(struct coll_task *k)
{
    struct coll_sched *s = k->state;
    if (rt_unlikely(!s->begun))
        calls_begin(s);
    while (s->at < s->nsteps) {
        int rc = s->posted ? 0 : round_post(s);
        if (rc == 0)
            rc = round_wait(s);
        if (rc == 0)
            return 0;
        if (rc > 0 && s->gpu) {
            rc = coll_sched_gpu_locals(s);
            if (rc == 0)
                return 0;
        } else if (rc > 0) {
            rc = round_finish(s);
        }
        if (rc < 0)
            return sched_abandon(k, rc);
    }
    return 1;
}

int coll_sched_go(struct coll_sched *s)
{
    coll_sched_round(s);
    if (s->max_msgs > 0 && !s->err) {
        s->reqs = rt_reserve_zalloc((size_t)s->max_msgs * sizeof(struct rt_req *));
        if (!s->reqs)
            s->err = -RT_ENOMEM;
    }
    if (s->gpu && !s->err)
        s->err = coll_sched_gpu_ready(s);
    if (s->err) {
        int err = s->err;
        sched_free(s);
        return err;
    }
    if (!s->gpu) /* on a device: when the schedule first runs, as coll/gpu/vote.c assumes */
        calls_begin(s);
    s->task->state = s;
    s->task->step = sched_step;
    s->task->cleanup = sched_cleanup;
    return 0;
}
