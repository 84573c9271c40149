/* SPDX-License-Identifier: BSD-3-Clause */
/* Stream communicators: creation, the start and end of every call on them, and their destruction
 * (design: stream.h). */
#include <stdlib.h>
#include <string.h>
#include "mpi/api/bind.h"
#include "mpi/coll/exch.h"
#include "mpi/core/comm.h"
#include "mpi/core/commnew.h"
#include "mpi/core/life.h"
#include "mpi/p2p/describe.h"
#include "mpi/p2p/p2p.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/recv.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/send.h"
#include "mpi/p2p/wait.h"
#include "mpi/stream/stream.h"
#include "runtime/base/clock.h"
#include "runtime/gpu/kernel.h"

_Static_assert(sizeof(struct wm_xstream_block) <= RT_GPU_STAGE_SMALL,
               "a block is a staging buffer");

/* MPI_Finalize waits REST_NS for the work that the application has left on its streams.  Then it
 * makes the kernels give up and waits LEAVE_NS for them. */
#define REST_NS 10000000000u
#define LEAVE_NS 2000000000u
#define INBOXES_MAX 6
#define TAG_FAILURE (WM_TAG_COMM + 2)

struct rt_list wm_xstream_comms = { &wm_xstream_comms, &wm_xstream_comms };

static struct rt_gpu_meet_words *words_of(const struct wm_xstream_comm *s)
{
    return (struct rt_gpu_meet_words *)s->words->p;
}

/* Whether calls return before the stream has reached them. */
static bool is_async(const struct wm_xstream_comm *s) { return s->mapped || s->proxied; }

/* ---- destruction of a communicator's state ---- */

void wm_xstream_unhold(struct wm_xstream_comm *s, struct wm_xstream_held *h)
{
    struct coll_team *t = &s->comm->team;
    if (h->map.att)
        t->ops->dev_detach(t, &h->map);
    if (h->mem.reg)
        t->ops->dev_release(t, &h->mem);
    free(h);
}

void wm_xstream_sweep(struct wm_xstream_comm *s, bool every)
{
    uint32_t ended = s->words ? rt_load_acquire(&words_of(s)->ended) : 0;
    for (struct wm_xstream_held **p = &s->held, *h; (h = *p);) {
        bool sent = !h->req || rt_req_done(h->req), over = (int32_t)(ended - h->ticket) >= 0;
        if (!every && (!sent || !over || h->captured)) {
            p = &h->next;
            continue;
        }
        *p = h->next;
        if (h->req && sent)
            wm_req_release(h->req);
        if (sent) /* else leaked: at the end of MPI the engine still has the message */
            wm_xstream_unhold(s, h);
    }
}

static void forget(struct rt_req *r)
{
    if (!rt_req_done(r))
        r->ops->cancel(r);
    wm_req_release(r);
}

/* Called when no device uses the state any more. */
static void state_free(struct wm_xstream_comm *s)
{
    struct coll_team *t = &s->comm->team;
    wm_xstream_sweep(s, true);
    wm_proxy_leave(s);
    if (s->failure)
        forget(s->failure);
    for (int r = 0; r < s->comm->size && r < WM_XSTREAM_RANKS; r++) {
        if (s->peer[r].att)
            t->ops->dev_detach(t, &s->peer[r]);
        if (s->inbox_of[r].att)
            t->ops->dev_detach(t, &s->inbox_of[r]);
    }
    if (s->block_mem.reg)
        t->ops->dev_release(t, &s->block_mem);
    if (s->inbox_mem.reg)
        t->ops->dev_release(t, &s->inbox_mem);
    for (int i = 0; i < s->nscratch; i++)
        rt_gpu_stage_give(s->scratch[i]);
    if (s->inbox)
        rt_gpu_stage_give(s->inbox);
    if (s->block)
        rt_gpu_stage_give(s->block);
    if (s->words)
        rt_gpu_stage_give(s->words);
    if (s->ctl)
        wm_comm_unref(s->ctl);
    if (s->way)
        wm_comm_unref(s->way);
    wm_xstream_unref(s->stream);
    rt_list_del(&s->link);
    s->comm->stream = NULL;
    if (s->left)
        wm_comm_unref(s->comm);
    free(s->seq);
    free(s);
}

/* Whether no kernel of this communicator runs or is queued; true if the CUDA context was destroyed.
 * Graph launches that have not started are not counted. */
static bool is_quiet(struct wm_xstream_comm *s)
{
    if (!is_async(s) || !rt_gpu_alive(s->g))
        return true;
    struct rt_gpu_meet_words *w = words_of(s);
    uint32_t over = rt_load_acquire(&w->over);
    return rt_load_acquire(&w->ended) == s->ticket && rt_load_acquire(&w->begun) == over;
}

/* The same including graph launches: for captured work the stream itself is queried.  Not once the
 * application has freed both communicator and stream: it may have destroyed the CUDA stream. */
static bool is_idle(struct wm_xstream_comm *s)
{
    if (!is_quiet(s))
        return false;
    if (!is_async(s) || !s->captured || (s->left && s->stream->freed) || !rt_gpu_alive(s->g))
        return true;
    int mode = rt_gpu_capture_relax();
    bool idle = rt_gpu_stream_capturing(s->g, s->stream->cuda) == 0 &&
                rt_gpu_stream_idle(s->g, s->stream->cuda) > 0;
    rt_gpu_capture_restore(mode);
    return idle;
}

/* Whether the receivers have taken all short messages.  A send is over earlier, but the receiver
 * stores a credit to this process's block. */
static bool is_taken(struct wm_xstream_comm *s)
{
    struct wm_xstream_block *b;
    bool any = false, taken = true;
    for (int r = 0; r < s->comm->size && s->pushes; r++)
        for (int i = 0; i < WM_XSTREAM_EAGER; i++)
            any = any || s->npassed[r][i];
    if (!any || s->broken || !rt_gpu_alive(s->g))
        return true;
    b = malloc(sizeof *b);
    if (!b)
        return false;
    int mode = rt_gpu_capture_relax();
    int err = rt_gpu_copy_now(s->g, b, s->block->p, sizeof *b);
    rt_gpu_capture_restore(mode);
    for (int r = 0; r < s->comm->size && err >= 0; r++)
        taken = taken && !memcmp(b->passed[r], b->credit[r], sizeof b->passed[r]);
    free(b);
    return err < 0 || taken;
}

/* Whether a stream waits, or will soon wait, for another process. */
static bool awaits(void)
{
    struct rt_list *l;
    rt_list_each (l, &wm_xstream_comms)
        if (!is_idle(rt_container(l, struct wm_xstream_comm, link)))
            return true;
    return false;
}

static void sweep_left(void)
{
    struct rt_list *l, *next;
    rt_list_each_safe (l, next, &wm_xstream_comms) {
        struct wm_xstream_comm *s = rt_container(l, struct wm_xstream_comm, link);
        if (s->left && !s->captured && !s->starts && is_quiet(s) && is_taken(s))
            state_free(s);
    }
}

static void comm_left(struct wm_comm *c)
{
    struct wm_xstream_comm *s = c->stream;
    rt_lock(&c->dom->lock);
    s->left = true;
    wm_comm_ref(c); /* until the state is freed */
    sweep_left();
    rt_unlock(&c->dom->lock);
}

/* No bell rings when a stream has got somewhere, so the thread does not sleep. */
static void until(struct wm_domain *d, bool (*ready)(void *arg), void *arg)
{
    rt_gpu_nactive++;
    wm_domain_until(d, ready, arg, WM_WHAT_CALL);
    rt_gpu_nactive--;
}

struct resting {
    struct wm_xstream_comm *s;
    uint64_t until_ns;
};

static bool has_rested(void *arg)
{
    struct resting *r = arg;
    return (is_idle(r->s) && is_taken(r->s)) || rt_now_ns() > r->until_ns;
}

static bool wait_idle(struct wm_domain *d, struct wm_xstream_comm *s, uint64_t ns)
{
    struct resting r = { s, rt_now_ns() + ns };
    until(d, has_rested, &r);
    return is_idle(s) && is_taken(s);
}

/* Makes kernels give up that wait for processes which will not come.  What they use is freed when
 * they have ended. */
static void give_up(struct wm_domain *d, struct wm_xstream_comm *s)
{
    log_error(
        MPI,
        "%s: operations enqueued on its stream have not ended %llu s after the last call of MPI; "
        "they are cancelled (synchronize the stream before MPI_Finalize)",
        s->comm->name[0] ? s->comm->name : "a stream communicator",
        (unsigned long long)(REST_NS / 1000000000u));
    if (s->proxied)
        wm_xstream_broken(s); /* on mapped communicators, the kernels notify the other processes */
    rt_store_release(&words_of(s)->abort, 1u);
    if (!wait_idle(d, s, LEAVE_NS))
        log_error(
            MPI, "cancelled operations are still on the device, behind other work on their stream");
}

static void at_rest(void)
{
    struct wm_domain *d = wm_main_domain;
    struct rt_list *l, *next;
    rt_lock(&d->lock);
    rt_list_each (l, &wm_xstream_comms) {
        struct wm_xstream_comm *s = rt_container(l, struct wm_xstream_comm, link);
        if (!wait_idle(d, s, REST_NS))
            give_up(d, s);
    }
    rt_unlock(&d->lock);
    wm_proxy_rest();
    rt_lock(&d->lock);
    rt_list_each_safe (l, next, &wm_xstream_comms)
        state_free(rt_container(l, struct wm_xstream_comm, link));
    rt_unlock(&d->lock);
}

/* ---- creation ---- */

/* The message that the processes exchange: the first failure counts. */
struct note {
    char key[COLL_DEV_KEY], inbox[COLL_DEV_KEY];
    uint64_t words;     /* address of the process's words */
    uint64_t turns;     /* the device, if processes take turns on it (rt_gpu_turns_of) */
    uint32_t can, cuda; /* cuda: the process passed a CUDA stream */
    uint32_t adds;      /* the process's device may add to all blocks */
    uint32_t pushes;    /* the process has an inbox, and can use the others' */
    uint32_t hands;     /* its stream can wait without a kernel */
    uint32_t threads;   /* MPI_THREAD_MULTIPLE */
    int32_t err;        /* error class of a process that has failed */
};

static const char *cannot(const struct wm_xstream_comm *s)
{
    const struct coll_team *t = &s->comm->team;
    return !s->g                              ? "a process passed no CUDA stream"
           : !rt_gpu_can_meet(s->g)           ? "this build has no kernels for the device"
           : s->way                           ? NULL
           : s->comm->size > WM_XSTREAM_RANKS ? "there are too many processes"
           : !t->ops->dev_describe            ? "device memory cannot be shared between processes"
                                              : NULL;
}

static int count_inboxes(void)
{
    struct rt_list *l;
    int n = 0;
    rt_list_each (l, &wm_xstream_comms)
        n += rt_container(l, struct wm_xstream_comm, link)->inbox != NULL;
    return n;
}

static int clear(struct wm_xstream_comm *s, struct rt_gpu_stage *stage, size_t nbytes)
{
    void *zero = calloc(1, nbytes);
    int err = zero ? rt_gpu_copy_now(s->g, stage->p, zero, nbytes) : -RT_ENOMEM;
    free(zero);
    return err;
}

/* Short collectives and messages need an inbox.  Without memory for it, all processes do without,
 * and so they do if a process has INBOXES_MAX, 48 MiB. */
static bool make_inbox(struct wm_xstream_comm *s, struct note *mine)
{
    struct coll_team *t = &s->comm->team;
    size_t nbytes = 2 * rt_gpu_push_slot() + WM_XSTREAM_EAGER_ROOM;
    if (count_inboxes() >= INBOXES_MAX || rt_gpu_stage_take(s->g, false, nbytes, &s->inbox) ||
        clear(s, s->inbox, nbytes) < 0 ||
        (t->size > 1 && t->ops->dev_describe(t, s->inbox->p, nbytes, &s->inbox_mem) < 0))
        return false;
    memcpy(mine->inbox, s->inbox_mem.key, sizeof mine->inbox);
    return true;
}

/* This process's part of a communicator whose devices synchronise: the key to its flags. */
static const char *publish(struct wm_xstream_comm *s, struct note *mine)
{
    struct coll_team *t = &s->comm->team;
    if (t->size > 1 &&
        t->ops->dev_describe(t, s->block->p, sizeof(struct wm_xstream_block), &s->block_mem) < 0)
        return "device memory cannot be shared";
    memcpy(mine->key, s->block_mem.key, sizeof mine->key);
    mine->words = (uintptr_t)s->words->p;
    mine->turns = rt_gpu_turns_of(s->g);
    mine->pushes = s->pushes && make_inbox(s, mine);
    return NULL;
}

/* Allocates this process's flags and words, and what other processes need to use them.  Returns
 * NULL, or why not. */
static const char *prepare(struct wm_xstream_comm *s, struct note *mine)
{
    const char *why = cannot(s);
    if (why)
        return why;
    /* Kernels of rare types are loaded now: loading one later would wait for the stream, and with
     * it for other processes. */
    rt_gpu_can_fold(s->g, RT_GPU_I16, RT_GPU_FOLD_SUM);
    if (rt_gpu_stage_take(s->g, false, sizeof(struct wm_xstream_block), &s->block) ||
        rt_gpu_stage_take(s->g, true, sizeof(struct rt_gpu_meet_words), &s->words))
        return "there is no memory for the flags of this process";
    memset(s->words->p, 0, sizeof(struct rt_gpu_meet_words));
    if (clear(s, s->block, sizeof(struct wm_xstream_block)) < 0)
        return "the flags of this process cannot be written";
    rt_gpu_awaits = awaits;
    if (!s->way)
        why = publish(s, mine);
    else if (wm_proxy_join(s) < 0)
        why = "this process cannot start a proxy thread";
    mine->can = !why;
    return why;
}

/* If a mapping that is no longer used prevents this one, runs the deferred work that removes it,
 * and tries again.  Only for work that has no other path than from device to device. */
static int attach(const struct wm_xstream_comm *s, int rank, const void *key,
                  struct coll_dev_map *out)
{
    struct coll_team *t = &s->comm->team;
    int err = t->ops->dev_attach(t, rank, key, &s->block_mem.at, out);
    if (err == -RT_ENOTSUP && rt_gpu_run_deferred())
        err = t->ops->dev_attach(t, rank, key, &s->block_mem.at, out);
    return err;
}

static const char *attach_all(struct wm_xstream_comm *s, const struct note *notes,
                              struct note *mine)
{
    const struct wm_comm *c = s->comm;
    mine->adds = 1;
    for (int r = 0; r < c->size; r++) {
        s->words_at[r] = notes[r].words;
        if (r == c->rank)
            s->peer[r].ptr = s->block->p;
        else if (attach(s, r, notes[r].key, &s->peer[r]) < 0)
            return "the devices of its processes cannot access each other's memory";
        mine->adds &= rt_gpu_atomics_reach(s->g, s->peer[r].ptr);
    }
    return NULL;
}

static bool attach_inboxes(struct wm_xstream_comm *s, const struct note *notes)
{
    int r, n = s->comm->size;
    for (r = 0; r < n && notes[r].pushes; r++)
        ;
    if (r < n)
        return false;
    for (r = 0; r < n; r++)
        if (r == s->comm->rank)
            s->inbox_of[r].ptr = s->inbox ? s->inbox->p : NULL;
        else if (attach(s, r, notes[r].inbox, &s->inbox_of[r]) < 0)
            return false;
    return true;
}

/* Whether two processes take turns on a device. */
static bool find_turns(const struct note *notes, int n)
{
    bool found = false;
    for (int r = 0; r < n; r++)
        for (int j = 0; j < r; j++)
            found = found || (notes[r].turns && notes[r].turns == notes[j].turns);
    return found;
}

static bool has_threads(const struct wm_comm *c)
{
    return (c->session ? c->session->thread_level : wm_state.thread_level) == MPI_THREAD_MULTIPLE;
}

/* Under the lock.  Collective: two exchanges, the first of keys, the second of whether all
 * processes could map them.  `notes`: room for one of each process. */
static int connect(struct wm_xstream_comm *s, struct note *notes, int err)
{
    int n = s->comm->size;
    struct note mine = { .err = err, .cuda = s->g != NULL, .threads = has_threads(s->comm) };
    mine.hands = s->g && rt_gpu_can_hand();
    struct wm_exch x = wm_exch_all(s->ctl);
    const char *why = err ? "" : prepare(s, &mine);
    int rc = wm_exch_allgather(&x, &mine, sizeof mine, notes);
    bool can = rc >= 0;
    s->all_cuda = s->hands = can;
    for (int r = 0; r < n && rc >= 0; r++) {
        s->all_cuda = s->all_cuda && notes[r].cuda;
        s->hands = s->hands && notes[r].hands;
        s->in_turn = s->in_turn || notes[r].threads;
        can = can && notes[r].can;
        err = err ? err : notes[r].err;
    }
    if (rc >= 0 && can && !s->way) {
        why = attach_all(s, notes, &mine);
        mine.can = !why;
        mine.pushes = !why && attach_inboxes(s, notes);
        rc = wm_exch_allgather(&x, &mine, sizeof mine, notes);
        s->adds = s->pushes = true;
        for (int r = 0; r < n && rc >= 0; r++) {
            can = can && notes[r].can;
            s->adds = s->adds && notes[r].adds;
            s->pushes = s->pushes && notes[r].pushes;
        }
    }
    if (rc < 0)
        return wm_err_rt(rc, "setting up a stream communicator among %d processes", n);
    s->mapped = can && !s->way;
    s->adds = s->mapped && s->adds;
    s->pushes = s->mapped && s->pushes;
    s->takes_turns = s->mapped && s->hands && find_turns(notes, n);
    s->proxied = can && s->way;
    if (!can && !err && s->g)
        log_info(
            MPI,
            "a stream communicator: enqueued calls wait for the stream on the host, because %s",
            why && *why ? why : "another process requires it");
    return mine.err || !err ? MPI_SUCCESS
                            : wm_err(err, "another process of the communicator has failed");
}

/* What a process needs before it can take part: allocated before any communicator is made. */
static struct wm_xstream_comm *state_new(int size, struct note **notes)
{
    struct wm_xstream_comm *s = calloc(1, sizeof *s);
    *notes = calloc((size_t)size, sizeof **notes);
    if (s)
        s->seq = calloc((size_t)size, sizeof *s->seq);
    if (s && s->seq && *notes)
        return s;
    if (s)
        free(s->seq);
    free(s);
    free(*notes);
    *notes = NULL;
    wm_err(MPI_ERR_NO_MEM, "no memory for a stream communicator");
    return NULL;
}

/* Gives the state to the communicator `c`.  The state owns the hidden communicators, also if this
 * fails. */
static int state_fill(struct wm_xstream_comm *s, struct note *notes, struct wm_comm *c,
                      struct wm_comm *ctl, struct wm_comm *way, struct wm_xstream *stream)
{
    int mine = MPI_SUCCESS;
    if (way && stream && stream->is_cuda)
        wm_proxy_permit();
    rt_lock(&c->dom->lock);
    sweep_left();
    s->comm = c;
    s->ctl = ctl;
    s->way = way;
    ctl->no_handle = true;
    if (way)
        way->no_handle = true;
    s->stream = stream;
    c->stream = s;
    c->stream_left = comm_left;
    c->stream_window = wm_xstream_window;
    wm_life_at_rest[WM_REST_STREAM] = at_rest;
    if (stream)
        wm_xstream_ref(stream);
    rt_list_append(&wm_xstream_comms, &s->link);
    int mode = rt_gpu_capture_relax();
    if (stream && stream->is_cuda) {
        int rc = rt_gpu_stream_of(stream->cuda, &s->g);
        mine = rc < 0 ? wm_err_rt(rc, "using CUDA stream %p", stream->cuda) : MPI_SUCCESS;
    }
    int rc = connect(s, notes, mine);
    rt_gpu_capture_restore(mode);
    rt_unlock(&c->dom->lock);
    return mine ? mine : rc;
}

/* The communicator that the user sees, and the hidden ones.  `err`: this process has failed; all
 * processes are notified. */
static int make_comms(struct wm_comm *comm, int err, bool proxies, struct wm_comm *made[3])
{
    for (int i = 0; i < 3; i++)
        made[i] = NULL;
    err = wm_comm_create_from(comm, comm->group, err, &made[0]);
    if (!err)
        err = wm_comm_create_from(comm, comm->group, MPI_SUCCESS, &made[1]);
    if (!err && proxies && wm_proxy_serves(made[0]))
        err = wm_comm_create_from(comm, comm->group, MPI_SUCCESS, &made[2]);
    for (int i = 0; err && i < 3; i++)
        if (made[i])
            wm_comm_free(made[i]);
    return err;
}

/* Lets proxy threads carry out the collectives of a communicator whose devices could.  If a process
 * cannot start its thread, they go by the devices in all. */
static void add_proxies(struct wm_comm *parent, struct wm_xstream_comm *s)
{
    struct wm_comm *way = NULL;
    wm_proxy_permit();
    rt_lock(&s->comm->dom->lock);
    int err = wm_proxy_join(s);
    rt_unlock(&s->comm->dom->lock);
    err = wm_comm_create_from(parent, parent->group, err < 0 ? MPI_ERR_OTHER : MPI_SUCCESS, &way);
    rt_lock(&s->comm->dom->lock);
    s->way = way;
    s->proxied = !err;
    if (way)
        way->no_handle = true;
    rt_unlock(&s->comm->dom->lock);
}

/* user: for calls of the application; else for a window, which has no collectives. */
static int comm_create(struct wm_comm *comm, struct wm_xstream *stream, int err, bool user,
                       struct wm_comm **out)
{
    struct wm_comm *c[3];
    struct note *notes = NULL;
    struct wm_xstream_comm *s = err ? NULL : state_new(comm->size, &notes);
    if (!err && !s)
        err = MPI_ERR_NO_MEM;
    err = make_comms(comm, err, user, c);
    if (err) {
        if (s)
            free(s->seq);
        free(s);
    } else {
        s->pushes = user;
        err = state_fill(s, notes, c[0], c[1], c[2], stream);
        if (!err && user && s->takes_turns)
            add_proxies(comm, s);
        if (err)
            wm_comm_free(c[0]); /* frees its state too */
        else
            *out = c[0];
    }
    free(notes);
    return err;
}

int wm_xstream_again(struct wm_comm *comm, struct wm_comm **out)
{
    int err = comm_create(comm, comm->stream->stream, MPI_SUCCESS, false, out);
    if (!err)
        (*out)->no_handle = true;
    return err;
}

static int check_stream(MPIX_Stream h, struct wm_xstream **out)
{
    *out = NULL;
    if (h == MPIX_STREAM_NULL)
        return MPI_SUCCESS;
    *out = rt_slab_get(&wm_xstream_slab, (uintptr_t)(unsigned)h);
    if (*out && !(*out)->freed)
        return MPI_SUCCESS;
    *out = NULL;
    return wm_err(MPI_ERR_ARG,
                  "argument 2 (stream): %#x is not a live stream; it was freed or never made",
                  (unsigned)h);
}

WM_EXPORT int PMPIX_Stream_comm_create(MPI_Comm comm, MPIX_Stream stream, MPI_Comm *newcomm)
{
    static const char call[] = "MPIX_Stream_comm_create";
    struct wm_comm *c = wm_comm_get(comm), *made = NULL;
    struct wm_xstream *s;
    if (rt_unlikely(!rt_load_relaxed(&wm_state.users)))
        return wm_bad_phase(call);
    if (rt_unlikely(!c))
        return wm_raise_comm(c, wm_bad_comm("argument 1 (comm)", comm), call);
    if (rt_unlikely(!newcomm))
        return wm_raise_comm(c, wm_bad_null("argument 3 (newcomm)", MPI_ERR_ARG), call);
    if (c->inter)
        return wm_raise_comm(c,
                             wm_err(MPI_ERR_COMM,
                                    "argument 1 (comm) is an intercommunicator; stream "
                                    "communicators are made of intracommunicators"),
                             call);
    int err = check_stream(stream, &s);
    err = comm_create(c, s, err, true, &made);
    if (err)
        return wm_raise_comm(c, err, call);
    *newcomm = wm_comm_handle(made);
    return MPI_SUCCESS;
}
WM_WEAK(MPIX_Stream_comm_create);

WM_EXPORT int PMPIX_Comm_get_stream(MPI_Comm comm, int idx, MPIX_Stream *stream)
{
    static const char call[] = "MPIX_Comm_get_stream";
    struct wm_comm *c = wm_comm_get(comm);
    if (rt_unlikely(!rt_load_relaxed(&wm_state.users)))
        return wm_bad_phase(call);
    if (rt_unlikely(!c))
        return wm_raise_comm(c, wm_bad_comm("argument 1 (comm)", comm), call);
    if (rt_unlikely(!stream))
        return wm_raise_comm(c, wm_bad_null("argument 3 (stream)", MPI_ERR_ARG), call);
    if (rt_unlikely(idx != 0))
        return wm_raise_comm(c,
                             wm_err(MPI_ERR_ARG,
                                    "argument 2 (idx) is %d; a communicator has one stream, number "
                                    "0",
                                    idx),
                             call);
    struct wm_xstream *s = c->stream ? c->stream->stream : NULL;
    *stream = s && !s->freed ? (MPIX_Stream)s->obj.handle : MPIX_STREAM_NULL;
    return MPI_SUCCESS;
}
WM_WEAK(MPIX_Comm_get_stream);

/* ---- failure ---- */

static bool has_failed(const struct wm_xstream_comm *s)
{
    const struct rt_gpu_meet_words *w = words_of(s);
    return s->broken || (s->failure && rt_req_done(s->failure)) || rt_load_acquire(&w->failed) ||
           rt_load_acquire(&w->abort);
}

int wm_xstream_given_up(const struct wm_xstream_comm *s)
{
    uint32_t differs = words_of(s)->differs;
    if (differs)
        return wm_err(
            MPI_ERR_TRUNCATE,
            "the arguments of an enqueued collective differ: rank %d and this process, rank %d, "
            "have called it with other counts, types, operations or roots, or have called "
            "different collectives; make the calls alike, and free the communicator",
            (int)differs - 1, s->comm->rank);
    return wm_err(
        MPI_ERR_OTHER,
        "operations that were enqueued earlier have been cancelled, because a process could "
        "not enqueue its part, ended, or freed the communicator; free the communicator");
}

static struct wm_msg failure_message(const struct wm_xstream_comm *s, const uint32_t *word,
                                     int peer)
{
    return (struct wm_msg){ .buf = word,
                            .count = sizeof *word,
                            .layout = &wm_type_get(MPI_BYTE)->layout,
                            .comm = s->ctl,
                            .peer = peer,
                            .tag = TAG_FAILURE,
                            .coll = true,
                            .prompt = true };
}

/* Makes rank r's kernels and its host leave their waits. */
static void notify(struct wm_xstream_comm *s, int r)
{
    static const uint32_t one = 1;
    struct coll_team *t = &s->comm->team;
    struct wm_msg m = failure_message(s, &one, r);
    struct rt_req *req;
    /* Without mappings there may be more processes than addresses of words. */
    uint64_t words = s->mapped ? s->words_at[r] : 0;
    uint64_t abort = words + offsetof(struct rt_gpu_meet_words, abort);
    if (words && t->ops->peer_write(t, r, abort, &one, sizeof one) < 0)
        rt_gpu_copy_now(s->g, (void *)(uintptr_t)wm_xstream_at(s, r, poison), &one, sizeof one);
    if (wm_p2p_isend(&m, WM_STANDARD, &req) < 0)
        return; /* the process has ended */
    if (rt_req_done(req))
        wm_req_release(req);
    else
        req->flags |= RT_REQ_DETACHED;
}

void wm_xstream_broken(struct wm_xstream_comm *s)
{
    if (s->broken)
        return;
    s->broken = true;
    s->captured = true; /* tickets do not count the work left on the stream */
    rt_store_release(&words_of(s)->failed, 1u);
    rt_store_release(&words_of(s)->abort, 1u);
    if (s->failure && rt_req_done(s->failure))
        return; /* the process that notified this one notifies all */
    for (int r = 0; r < s->comm->size; r++)
        if (r != s->comm->rank)
            notify(s, r);
}

int wm_xstream_expect_failure(struct wm_xstream_comm *s)
{
    struct wm_msg m = failure_message(s, &s->failure_word, MPI_ANY_SOURCE);
    return wm_p2p_irecv(&m, &s->failure);
}

struct awaited {
    const struct wm_xstream_comm *s;
    struct rt_req *r, *failure;
};

static bool has_come(void *arg)
{
    const struct awaited *a = arg;
    return rt_req_done(a->r) || rt_req_done(a->failure) || a->s->broken;
}

/* In terms of the user's communicator: the message itself is internal. */
static void describe_awaited(const void *of, struct rt_wait_note *n)
{
    const struct awaited *a = of;
    wm_describe_request(a->r, n);
    wm_describe_comm(n, a->s->comm);
    n->item.nbytes = 0;
}

/* False: a process has given up, and the request is not done. */
static bool done_or_failed(struct wm_xstream_comm *s, struct rt_req *r)
{
    struct wm_domain *d = s->comm->dom;
    struct awaited a = { s, r, s->failure };
    uint32_t word = 0;
    struct wm_msg m = failure_message(s, &word, MPI_ANY_SOURCE);
    if (rt_req_done(r) || !is_async(s) || (!a.failure && wm_p2p_irecv(&m, &a.failure) < 0)) {
        wm_domain_until(d, wm_wait_done, WM_WAIT_DONE(r), (struct wm_what){ describe_awaited, &a });
        return true;
    }
    wm_domain_until(d, has_come, &a, (struct wm_what){ describe_awaited, &a });
    bool failed = s->broken || rt_req_done(a.failure);
    if (!s->failure)
        forget(a.failure);
    if (failed)
        wm_xstream_broken(s);
    return rt_req_done(r);
}

int wm_xstream_await(struct wm_xstream_comm *s, struct rt_req *r)
{
    if (!done_or_failed(s, r)) {
        r->ops->cancel(r);
        wm_domain_wait(s->comm->dom, r); /* returns at once, except for a matched receive */
    }
    return r->status.cancelled ? -RT_EREMOTE : 0;
}

void wm_xstream_await_sent(struct wm_xstream_comm *s, struct rt_req *r)
{
    if (r && rt_unlikely(!rt_req_done(r)))
        done_or_failed(s, r);
}

/* ---- calls ---- */

static int check_comm(const struct wm_comm *c)
{
    struct wm_xstream_comm *s = c->stream;
    if (!s)
        return wm_err(MPI_ERR_COMM,
                      "the communicator has no stream; make a stream communicator with "
                      "MPIX_Stream_comm_create");
    if (!s->g)
        return wm_err(MPI_ERR_COMM,
                      "this process created the communicator with %s, not with a CUDA stream",
                      s->stream ? "a stream without a device" : "MPIX_STREAM_NULL");
    bool lost = !rt_gpu_alive(s->g), failed = is_async(s) && has_failed(s);
    if (is_async(s) && (lost || failed))
        wm_xstream_broken(s);
    if (lost)
        return wm_err(MPI_ERR_OTHER,
                      "the CUDA context of the communicator's stream has been destroyed");
    return failed ? wm_xstream_given_up(s) : MPI_SUCCESS;
}

int wm_xstream_enter(struct wm_comm *c, struct wm_xstream_call *k)
{
    rt_lock(&c->dom->lock);
    if (c->stream)
        wm_proxy_await_room(c->stream);
    int err = check_comm(c);
    if (!err) {
        struct wm_xstream_comm *s = c->stream;
        *k = (struct wm_xstream_call){ .s = s, .g = s->g, .stream = s->stream->cuda };
        k->mode = rt_gpu_capture_relax();
        int rc = rt_gpu_stream_capturing(s->g, k->stream);
        if (rc >= 0) {
            k->capturing = rc;
            wm_xstream_sweep(s, false);
            return MPI_SUCCESS;
        }
        rt_gpu_capture_restore(k->mode);
        err = wm_err_rt(rc, "querying the stream of the communicator");
    }
    rt_unlock(&c->dom->lock);
    return err;
}

void wm_xstream_leave(struct wm_xstream_call *k)
{
    for (struct wm_xstream_held *m; (m = k->maps);) {
        k->maps = m->next;
        wm_xstream_hold(k, m);
        m->captured |= k->s->broken;
    }
    rt_gpu_capture_restore(k->mode);
    rt_unlock(&k->s->comm->dom->lock);
}

struct running {
    const struct wm_xstream_call *k;
    int idle;
};

static bool has_run(void *arg)
{
    struct running *r = arg;
    r->idle = rt_gpu_stream_idle(r->k->g, r->k->stream);
    return r->idle != 0;
}

/* Makes progress while it waits: other processes may need this process's part of a message before
 * they enqueue what the stream waits for. */
int wm_xstream_wait_idle(const struct wm_xstream_call *k)
{
    struct running r = { k, 0 };
    until(k->s->comm->dom, has_run, &r);
    return r.idle < 0 ? r.idle : 0;
}

int wm_xstream_settle(const struct wm_xstream_call *k, const char *why)
{
    if (k->capturing)
        return wm_err(MPI_ERR_UNSUPPORTED_OPERATION,
                      "this cannot be captured in a graph: %s, so that the host would have to wait "
                      "for the stream",
                      why);
    int err = wm_xstream_wait_idle(k);
    return err < 0 ? wm_err_rt(err, "waiting for the stream of the communicator") : MPI_SUCCESS;
}

void wm_xstream_meet_init(struct wm_xstream_call *k, struct rt_gpu_meet *m, uint64_t count,
                          uint32_t step)
{
    struct wm_xstream_comm *s = k->s;
    *m = (struct rt_gpu_meet){
        .count = count,
        .runs = wm_xstream_own(s, runs),
        .poison = wm_xstream_own(s, poison),
        .words = (uint64_t)(uintptr_t)s->words->p,
        .step = step,
    };
    for (int r = 0; s->mapped && r < s->comm->size; r++)
        if (r != s->comm->rank)
            m->poison_of[m->npoison++] = wm_xstream_at(s, r, poison);
}

/* The ticket of a launch; 0: none. */
static uint32_t ticket_of(const struct wm_xstream_call *k, bool last)
{
    uint32_t next = k->s->ticket + 1 ? k->s->ticket + 1 : 1; /* 0 means no ticket */
    return last && !k->capturing ? next : 0;
}

/* A kernel has been put on the stream, or has not: `err`. */
static int launched(const struct wm_xstream_call *k, uint32_t ticket, int err)
{
    struct wm_xstream_comm *s = k->s;
    if (err)
        wm_xstream_broken(s);
    else if (ticket)
        s->ticket = ticket;
    s->captured = s->captured || k->capturing;
    return err;
}

int wm_xstream_meet(struct wm_xstream_call *k, struct rt_gpu_meet *m, bool last)
{
    m->ticket = ticket_of(k, last);
    return launched(k, m->ticket, rt_gpu_meet_on(k->g, k->stream, m));
}

int wm_xstream_hand(struct wm_xstream_call *k, struct rt_gpu_hand *h)
{
    uint32_t ticket = ticket_of(k, true);
    if (ticket) {
        h->then = &words_of(k->s)->ended;
        h->value = ticket;
    }
    return launched(k, ticket, rt_gpu_hand_on(k->g, k->stream, h));
}

void wm_xstream_push_init(struct wm_xstream_call *k, struct rt_gpu_push *p)
{
    struct wm_xstream_comm *s = k->s;
    *p = (struct rt_gpu_push){ .epochs = wm_xstream_own(s, pushes),
                               .ended = wm_xstream_own(s, blocks),
                               .runs = wm_xstream_own(s, runs),
                               .words = (uint64_t)(uintptr_t)s->words->p,
                               .slot = s->inbox ? (uint32_t)rt_gpu_push_slot() : 0,
                               .rank = (uint8_t)s->comm->rank,
                               .size = (uint8_t)s->comm->size };
    for (int r = 0; r < s->comm->size; r++) {
        p->of[r].inbox = (uint64_t)(uintptr_t)s->inbox_of[r].ptr;
        p->of[r].marks = wm_xstream_at(s, r, marks);
        p->of[r].poison = wm_xstream_at(s, r, poison);
    }
}

int wm_xstream_push(struct wm_xstream_call *k, struct rt_gpu_push *p, bool last)
{
    p->ticket = ticket_of(k, last);
    return launched(k, p->ticket, rt_gpu_push_on(k->g, k->stream, p));
}

int wm_xstream_message(struct wm_xstream_call *k, struct rt_gpu_message *m)
{
    m->ticket = ticket_of(k, true);
    return launched(k, m->ticket, rt_gpu_message_on(k->g, k->stream, m));
}

/* A buffer that graphs use is mapped once. */
static struct wm_xstream_held *find_captured(struct wm_xstream_comm *s, int rank, const char *key)
{
    struct wm_xstream_held *m = s->held;
    while (m &&
           !(m->captured && m->map.att && m->rank == rank && !memcmp(m->key, key, COLL_DEV_KEY)))
        m = m->next;
    return m;
}

int wm_xstream_map(struct wm_xstream_call *k, int rank, const char *key, void **out)
{
    struct wm_xstream_comm *s = k->s;
    struct coll_team *t = &s->comm->team;
    struct wm_xstream_held *m = k->capturing ? find_captured(s, rank, key) : NULL;
    if (!m) {
        m = malloc(sizeof *m);
        if (!m)
            return -RT_ENOMEM;
        *m = (struct wm_xstream_held){ .rank = rank };
        memcpy(m->key, key, sizeof m->key);
        int err = k->capturing ? attach(s, rank, key, &m->map)
                               : t->ops->dev_attach(t, rank, key, &s->block_mem.at, &m->map);
        if (err < 0) {
            free(m);
            return err;
        }
        m->next = k->maps;
        k->maps = m;
    }
    *out = m->map.ptr;
    return 0;
}

void wm_xstream_hold(struct wm_xstream_call *k, struct wm_xstream_held *h)
{
    h->ticket = k->s->ticket;
    h->captured = k->capturing;
    h->next = k->s->held;
    k->s->held = h;
}
