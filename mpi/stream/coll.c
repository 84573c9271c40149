/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives on streams (design: stream.h).  The hosts exchange the keys of their buffers when the
 * calls are made, and whether each process can take part, so that all processes take the same path.
 * If they find that all blocks of a v form are short, the call is one kernel (push.c).
 *
 * The devices carry out the plan of a blocking call on device buffers (coll/gpu/plan.h), with a
 * barrier of the streams before the first step and after the last.  So no process reads before all
 * streams have reached the call, and no stream continues while its buffers are in use.  All steps
 * are on one stream, so they run in the order of the plan. */
#include <stdlib.h>
#include "coll/gpu/ranges.h"
#include "mpi/coll/call.h"
#include "mpi/coll/exch.h"
#include "mpi/p2p/device.h"
#include "mpi/stream/stream.h"

#define TAG_CALLS (WM_TAG_COMM + 1)

_Static_assert(COLL_GPU_SCRATCH_MAX <= WM_XSTREAM_SCRATCH * (size_t)COLL_GPU_SCRATCH_UNIT,
               "room for what plans want beside");

/* The message that the processes exchange.  The first time, the descriptor of the process's buffers
 * follows. */
struct note {
    uint32_t can;       /* can take the device path */
    uint32_t capturing; /* in a capture: cannot take the host path */
    int32_t err;        /* error class: the process has failed */
    uint32_t pad;
    uint64_t turn;    /* the process's proposal for the order: turn.c */
    uint64_t longest; /* bytes of its longest block, of calls that may be short (push.c) */
};

struct enqueue {
    struct wm_xstream_call k;
    struct coll_args args;
    struct note mine;
    struct coll_gpu_ranges ranges; /* posts: after the notes of all processes, */
    size_t stride;                 /* which are so many bytes apart */
    int posts;                     /* signals of this call so far */
    uint64_t longest;              /* of all processes */
};

static struct note *note_of(const struct enqueue *e, int rank)
{
    return (struct note *)(void *)(e->ranges.posts + (size_t)rank * e->stride) - 1;
}

/* ---- this process ---- */

static int describe_range(struct enqueue *e, enum coll_gpu_range w)
{
    struct coll_gpu_ranges *r = &e->ranges;
    if (!r->own.at[w])
        return 0;
    if (r->team->size > 1)
        return coll_gpu_range_register(r, w);
    return rt_gpu_find(r->own.at[w], r->own.len[w], &r->mem[w].at) > 0 ? 0 : -RT_ENOTSUP;
}

/* A barrier has no data: it consists of the two barriers of the streams. */
static int describe(struct enqueue *e)
{
    struct wm_xstream_comm *s = e->k.s;
    const struct coll_gpu_own *own = &e->ranges.own;
    if (!s->mapped)
        return -RT_ENOTSUP;
    if (e->args.kind == COLL_BARRIER)
        return 0;
    int err = coll_gpu_ranges_describe(&e->ranges, &e->args);
    if (err >= 0 && own->folds && !rt_gpu_can_fold(s->g, own->type, own->code))
        err = -RT_ENOTSUP;
    if (err >= 0)
        err = wm_xstream_take_scratch(s, own->scratch);
    for (int w = 0; w < COLL_GPU_RANGES && err >= 0; w++)
        err = describe_range(e, (enum coll_gpu_range)w);
    coll_gpu_post_of(&e->ranges, s->comm->rank)->direct = s->comm->size > 2 &&
                                                          rt_gpu_links_direct(s->g);
    return err;
}

static void describe_own(struct enqueue *e)
{
    int err = describe(e);
    e->ranges.near = &e->k.s->block_mem.at;
    e->mine.can = err >= 0;
    e->mine.capturing = e->k.capturing;
    e->mine.longest = wm_xstream_push_own_longest(e->k.s, &e->args);
    if (err == -RT_EADDR)
        e->mine.err = wm_dev_fault();
    else if (err == -RT_EGPU)
        e->mine.err = wm_err_rt(err, "querying the memory of a collective's buffers");
}

int wm_xstream_take_scratch(struct wm_xstream_comm *s, size_t nbytes)
{
    int err = nbytes > COLL_GPU_SCRATCH_MAX ? -RT_ENOTSUP : 0;
    while (err >= 0 && (size_t)s->nscratch * COLL_GPU_SCRATCH_UNIT < nbytes) {
        err = rt_gpu_stage_take(s->g, false, COLL_GPU_SCRATCH_UNIT, &s->scratch[s->nscratch]);
        s->nscratch += err >= 0;
    }
    return err;
}

/* ---- all processes ---- */

static int await_host(void *s, struct rt_req *r) { return wm_xstream_await(s, r); }

/* Exchanges the notes; *all_can: all processes can take the device path.  Returns MPI_SUCCESS
 * or the first error; an error of this process has priority over errors of other processes. */
static int exchange(struct enqueue *e, bool *all_can, bool *any_captures)
{
    struct wm_xstream_comm *s = e->k.s;
    struct wm_exch x = wm_exch_all(s->ctl);
    x.tag = TAG_CALLS;
    struct note *mine = note_of(e, s->comm->rank);
    int err = 0, n = s->comm->size;
    x.await = await_host;
    x.arg = e->k.s;
    *mine = e->mine;
    int rc = wm_exch_allgather(&x, mine, (int64_t)e->stride, note_of(e, 0));
    if (rc < 0)
        return rc == -RT_EREMOTE ? wm_xstream_given_up(s)
                                 : wm_err_rt(rc, "an enqueued collective among %d processes", n);
    *all_can = true;
    *any_captures = false;
    e->longest = 0;
    for (int r = 0; r < n; r++) {
        const struct note *note = note_of(e, r);
        *all_can = *all_can && note->can;
        *any_captures = *any_captures || note->capturing;
        e->longest = note->longest > e->longest ? note->longest : e->longest;
        err = err ? err : note->err;
    }
    if (e->mine.err || !err)
        return e->mine.err;
    return wm_err(err, "another process of the communicator has failed in this collective");
}

static int attach(void *arg, enum coll_gpu_range w, int rank, char **at)
{
    struct enqueue *e = arg;
    const struct coll_gpu_ranges *r = &e->ranges;
    void *p = (void *)(uintptr_t)r->own.at[w];
    int err = rank == r->team->rank
                  ? rt_gpu_reach(e->k.g, &r->mem[w].at)
                  : wm_xstream_map(&e->k, rank, coll_gpu_post_of(r, rank)->key[w], &p);
    *at = p;
    return err;
}

/* The largest proposal of all processes. */
static uint64_t largest_turn(const struct enqueue *e)
{
    uint64_t largest = 0;
    for (int r = 0; r < e->k.s->comm->size; r++)
        if (note_of(e, r)->turn > largest)
            largest = note_of(e, r)->turn;
    return largest;
}

/* ---- execution ---- */

/* post: signals all other ranks. await: waits for their signals, up to the one `behind` signals
 * before this rank's latest.  Both: a barrier. */
static int meet_halves(struct enqueue *e, bool post, bool await, int behind, bool last)
{
    struct wm_xstream_comm *s = e->k.s;
    struct rt_gpu_meet m;
    int me = s->comm->rank;
    wm_xstream_meet_init(&e->k, &m, wm_xstream_own(s, meetings), post);
    m.behind = (uint32_t)behind;
    for (int r = 0; r < s->comm->size; r++) {
        if (r != me && post)
            m.signal[m.nsignal++] = wm_xstream_at(s, r, met[me]);
        if (r != me && await)
            m.wait[m.nwait++] = wm_xstream_own(s, met[r]);
    }
    e->posts += post;
    return wm_xstream_meet(&e->k, &m, last);
}

static int meet(struct enqueue *e, bool last) { return meet_halves(e, true, true, 0, last); }

static int do_step(struct enqueue *e, const struct coll_gpu_step *step)
{
    struct wm_xstream_call *k = &e->k;
    switch (step->verb) {
    case COLL_GPU_FOLD:
        return rt_gpu_fold_on(k->g, k->stream, &step->fold);
    case COLL_GPU_COPY:
        return rt_gpu_copy_on(k->g, k->stream, step->copy.dst, step->copy.src, step->copy.len);
    case COLL_GPU_POST:
        return meet_halves(e, true, false, 0, false);
    case COLL_GPU_AWAIT: /* the plan does not count the barrier before its first step */
        return meet_halves(e, false, true, e->posts - 1 - step->posts, false);
    default:
        return meet(e, false);
    }
}

static int make_plan(struct enqueue *e, struct coll_gpu_plan *out)
{
    struct wm_xstream_comm *s = e->k.s;
    char *scratch[WM_XSTREAM_SCRATCH];
    if (e->args.kind == COLL_BARRIER)
        return 0;
    coll_gpu_ranges_read(&e->ranges);
    int err = coll_gpu_ranges_attach(&e->ranges, attach, e);
    if (err < 0)
        return err;
    struct coll_gpu_view v = coll_gpu_ranges_view(&e->ranges, &e->args);
    for (int i = 0; i < s->nscratch; i++)
        scratch[i] = s->scratch[i]->p;
    v.scratch = scratch;
    v.kernels = v.in_order = true;
    v.background = true; /* a plan with the fewest barriers on the stream */
    return coll_gpu_make_plan(&v, out);
}

static int launch(struct enqueue *e, const struct coll_gpu_plan *plan)
{
    int err = meet(e, false);
    for (int i = 0; i < plan->n && err >= 0; i++)
        err = do_step(e, &plan->step[i]);
    if (err < 0) /* the other processes' streams wait for the rest */
        wm_xstream_broken(e->k.s);
    else
        err = meet(e, true);
    return err < 0 ? wm_err_rt(err, "enqueuing a collective among %d processes", e->k.s->comm->size)
                   : MPI_SUCCESS;
}

/* If a process cannot take part, or has failed, no process enqueues anything. */
static int run_mapped(struct enqueue *e, bool *all_can, bool *any_captures)
{
    struct coll_gpu_plan plan = { 0 };
    struct wm_xstream_turn turn;
    int err = make_plan(e, &plan);
    e->mine.can = err >= 0;
    if (err < 0 && !wm_xstream_unmappable(err))
        e->mine.err = wm_err_rt(err, "preparing an enqueued collective among %d processes",
                                e->k.s->comm->size);
    e->mine.turn = wm_xstream_turn_propose(&turn, e->k.s->ctl->ctx);
    e->stride = sizeof e->mine; /* the descriptors have been used */
    int rc = exchange(e, all_can, any_captures);
    if (!rc && *all_can) {
        wm_xstream_turn_await(e->k.s->comm->dom, &turn, largest_turn(e));
        rc = launch(e, &plan);
    }
    wm_xstream_turn_end(&turn);
    coll_gpu_free_plan(&plan);
    return rc;
}

/* Under the lock; *by_host: the caller makes the ordinary call instead. */
static int enqueue(struct enqueue *e, bool *by_host)
{
    bool all_can, any_captures;
    describe_own(e);
    int err = exchange(e, &all_can, &any_captures);
    if (!err && wm_xstream_push_fits(e->k.s, e->longest))
        return wm_xstream_push_blocks(&e->k, &e->args, e->longest);
    if (!err && all_can)
        err = run_mapped(e, &all_can, &any_captures);
    if (err || all_can)
        return err;
    if (any_captures && !e->k.capturing)
        return wm_err(
            MPI_ERR_UNSUPPORTED_OPERATION,
            "another process captures this collective in a graph; these buffers, types and "
            "operation cannot be captured on this communicator");
    err = wm_xstream_settle(&e->k,
                            "the buffers of all processes must be contiguous memory of devices "
                            "that reach each other, and the operation predefined");
    *by_host = !err;
    return err;
}

/* A collective that devices carry out by the plan of a blocking call. */
static int by_plan(struct wm_xstream_call *k, struct wm_call *call, bool *by_host)
{
    struct wm_comm *c = call->comm;
    struct enqueue e = { .k = *k, .args = call->args };
    bool publishes = coll_is_apart(e.args.kind, COLL_SEND) || coll_is_apart(e.args.kind, COLL_RECV);
    int err = coll_gpu_ranges_init(&e.ranges, &c->team, sizeof(struct note),
                                   coll_gpu_post_nbytes(publishes ? c->size : 0));
    if (err < 0)
        return wm_err(MPI_ERR_NO_MEM, "no memory for the keys of %d processes", c->size);
    e.stride = e.ranges.stride;
    err = enqueue(&e, by_host);
    coll_gpu_ranges_release(&e.ranges);
    coll_gpu_ranges_fini(&e.ranges);
    k->maps = e.k.maps;
    return err;
}

int wm_xstream_coll(struct wm_call *call)
{
    struct wm_xstream_call k;
    bool by_host = false;
    int err = wm_xstream_enter(call->comm, &k);
    if (!err) {
        if (!k.s->all_cuda)
            err = wm_err(MPI_ERR_COMM,
                         "a process created the communicator without a CUDA stream, so "
                         "collectives cannot be enqueued on it");
        else if (k.s->proxied)
            err = wm_proxy_enqueue(&k, call);
        else if (wm_xstream_pushes(k.s, &call->args))
            err = wm_xstream_push_enqueue(&k, &call->args);
        else
            err = by_plan(&k, call, &by_host);
        wm_xstream_leave(&k);
    }
    if (by_host)
        return wm_call_run(call);
    free(call->vectors);
    return err;
}
