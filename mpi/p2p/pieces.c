/* SPDX-License-Identifier: BSD-3-Clause */
/* A message as a sequence of ordinary contiguous messages, a few under way at a time: while one
 * moves, the next is packed or the last one unpacked.  The receiver decides on pieces; its CTS
 * contains their length and whether they lie in host or in device memory.  Both sides then cut
 * alike.  The pieces travel on the collective context with a tag made of the receive's handle.
 *
 * Where an end's pieces lie: in the user's buffer itself if that is contiguous and of the right
 * kind.  Otherwise, for a host buffer, in two buffers of the domain's pool; for a device buffer, in
 * staging memory, where packing and unpacking run on the device and complete later (rt_gpu_op).
 * Without staging memory an end uses host memory and packs at once: slow, but correct.
 *
 * Errors.  A sender that fails stops and notifies the receiver (FIN_PUT), which cancels the pieces
 * that have not come.  A receiver that fails takes the rest and drops it.
 *
 * Staging memory is bounded: only so many receives of each peer are in pieces at a time, the others
 * wait in order.  The receiver waits, before it sends the CTS, so neither side holds memory
 * meanwhile.  Called under the domain's lock. */
#include "mpi/p2p/pieces.h"
#include <stdlib.h>
#include "mpi/p2p/device.h"
#include "mpi/p2p/recv.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/rndv.h"
#include "mpi/p2p/send.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/layout/pack_gpu.h"

/* A piece costs a handshake and two system calls: messages from twice PIECE_MIN on are cut, and
 * pieces are long rather than in the cache (measured: 4 MiB in 16 pieces is slower than in 8).
 * Where system calls are costlier, longer pieces would be faster. */
#define PIECE_MIN (256 << 10)
/* Idle buffers that a domain keeps: fresh memory costs a page fault for each page. */
#define POOL_MAX 4
/* Receives of one peer through staging memory at a time.  A sender's buffers become free a little
 * after the receiver's, and not more than 16 idle buffers are kept (stage.c): allocating and
 * freeing pinned memory costs 70 us.  More on a faster link: more pinned memory, and no gain;
 * fewer: a link that is idle between pieces. */
#define STAGED_MAX 8

enum { SLOTS = 4 };

enum slot_state { FILLING, MOVING, EMPTYING, ENDED };

struct slot { /* one piece under way */
    struct rt_gpu_op op;
    enum slot_state state;
    bool busy;  /* `op` is in use by the GPU */
    int err;    /* its result */
    char *room; /* memory for a piece; NULL: it lies in the user's buffer */
    char *at;   /* where this piece lies */
    int64_t off, len;
    struct rt_req *sub; /* its message */
};

struct wm_pieces {
    struct wm_pieces *next; /* spare */
    struct wm_preq *q;
    int64_t len, step;             /* of the message, of a piece */
    int64_t started, moved, ended; /* bytes begun, given to sub-messages, finished */
    int nslots, oldest, running;
    int err;
    bool halt;    /* no further pieces are begun */
    bool failed;  /* the sender has reported its failure */
    bool counted; /* in wm_peer.nstaged */
    char *heap;   /* host memory of `heap_pooled` or malloc, or NULL */
    bool heap_pooled;
    struct rt_gpu_stage *stage[SLOTS]; /* or NULL */
    struct slot slot[SLOTS];
};

static const struct rt_layout bytes = {
    .size = 1, .extent = 1, .true_extent = 1, .contig = true, .elem = RT_ELEM_BYTE
};

/* ---- host memory ---- */

#define POOL_NBYTES (2 * (size_t)WM_PIECE_MAX)

static void *pool_take(struct wm_domain *d)
{
    void *p = d->heap;
    if (!p)
        return aligned_alloc(4096, POOL_NBYTES);
    memcpy(&d->heap, p, sizeof d->heap);
    d->nheap--;
    return p;
}

static void pool_give(struct wm_domain *d, void *p)
{
    if (d->nheap == POOL_MAX) {
        free(p);
        return;
    }
    memcpy(p, &d->heap, sizeof d->heap);
    d->heap = p;
    d->nheap++;
}

int wm_packed_take(struct wm_preq *q, int64_t nbytes)
{
    q->packed_pooled = nbytes <= (int64_t)POOL_NBYTES;
    q->packed = q->packed_pooled ? pool_take(q->dom) : malloc((size_t)nbytes);
    if (q->packed)
        return 0;
    log_error(MPI, "out of memory: %lld bytes to pack a non-contiguous message", (long long)nbytes);
    return -RT_ENOMEM;
}

void wm_packed_drop(struct wm_preq *q)
{
    if (!q->packed)
        return;
    if (q->packed_pooled)
        pool_give(q->dom, q->packed);
    else
        free(q->packed);
    q->packed = NULL;
}

void wm_pieces_fini(struct wm_domain *d)
{
    while (d->nheap)
        free(pool_take(d));
    for (struct wm_pieces *s = d->spare_pieces, *next; s; s = next) {
        next = s->next;
        free(s);
    }
    d->spare_pieces = NULL;
}

/* ---- where pieces lie ---- */

static bool is_send(const struct wm_pieces *s) { return s->q->kind == WM_PREQ_SEND; }

/* Whether the pieces of this end can be parts of the user's buffer. */
static bool in_place(const struct wm_pieces *s, bool on_device)
{
    const struct wm_preq *q = s->q;
    if (!q->layout->contig)
        return false;
    return !q->dev || (on_device && (!is_send(s) || q->dev->exported));
}

static int heap_rooms(struct wm_pieces *s, int64_t unit)
{
    s->heap_pooled = unit <= WM_PIECE_MAX;
    s->nslots = s->heap_pooled ? 2 : 1;
    s->heap = s->heap_pooled ? pool_take(s->q->dom) : malloc((size_t)unit);
    for (int i = 0; s->heap && i < s->nslots; i++)
        s->slot[i].room = s->heap + i * WM_PIECE_MAX;
    return s->heap ? 0 : -RT_ENOMEM;
}

/* Pinned memory: one buffer holds all pieces. */
static int pinned_rooms(struct wm_pieces *s, int64_t unit, int n)
{
    while (n > 1 && n * unit > RT_GPU_STAGE_LARGE)
        n--;
    if (unit > RT_GPU_STAGE_LARGE ||
        rt_gpu_stage_take(s->q->dev->at.g, true, (size_t)(n * unit), &s->stage[0]) < 0)
        return -RT_ENOMEM;
    s->nslots = n;
    for (int i = 0; i < n; i++)
        s->slot[i].room = s->stage[0]->p + i * unit;
    return 0;
}

/* Device memory: pieces are long, each has a buffer of its own. */
static int device_rooms(struct wm_pieces *s, int64_t unit, int n)
{
    s->nslots = 0;
    for (int i = 0; i < n && i < 2; i++) {
        if (rt_gpu_stage_take(s->q->dev->at.g, false, (size_t)unit, &s->stage[i]) < 0)
            break;
        s->slot[i].room = s->stage[i]->p;
        s->nslots++;
    }
    return s->nslots ? 0 : -RT_ENOMEM;
}

/* A sender that was asked for pieces in device memory and has none may send them from the host; the
 * receiver decided before it sent the CTS. */
static int find_rooms(struct wm_pieces *s, bool on_device)
{
    int64_t unit = s->len < s->step ? s->len : s->step, n = (s->len + s->step - 1) / s->step;
    if (in_place(s, on_device)) {
        s->nslots = SLOTS;
        return 0;
    }
    if (!s->q->dev || s->q->dev->scattered)
        return heap_rooms(s, unit);
    int want = n < SLOTS ? (int)n : SLOTS;
    if (on_device && device_rooms(s, unit, want) >= 0)
        return 0;
    if (on_device && !is_send(s))
        return -RT_ENOMEM;
    return pinned_rooms(s, unit, want) >= 0 ? 0 : heap_rooms(s, unit);
}

static struct wm_pieces *make(struct wm_preq *q, int64_t len, int64_t step)
{
    struct wm_domain *d = q->dom;
    struct wm_pieces *s = d->spare_pieces;
    if (s)
        d->spare_pieces = s->next;
    else if (!(s = malloc(sizeof *s)))
        return NULL;
    *s = (struct wm_pieces){ .q = q, .len = len, .step = step };
    return s;
}

static void destroy(struct wm_pieces *s)
{
    struct wm_domain *d = s->q->dom;
    for (int i = 0; i < SLOTS; i++)
        if (s->stage[i])
            rt_gpu_stage_give(s->stage[i]);
    if (s->heap && s->heap_pooled)
        pool_give(d, s->heap);
    else
        free(s->heap);
    s->next = d->spare_pieces;
    d->spare_pieces = s;
}

/* ---- one piece ---- */

static void op_done(struct rt_gpu_op *op, int err)
{
    struct slot *t = rt_container(op, struct slot, op);
    t->busy = false;
    t->err = err;
}

/* Packs or unpacks between the piece's memory and the user's buffer. */
static void pack(struct wm_pieces *s, struct slot *t)
{
    const struct wm_preq *q = s->q;
    char *user = (char *)(uintptr_t)q->buf;
    bool out = is_send(s);
    t->err = 0;
    if (!t->room)
        return;
    if (!q->dev) {
        if (out)
            rt_layout_pack(q->layout, q->count, user, t->off, t->at, t->len);
        else
            rt_layout_unpack(q->layout, q->count, user, t->off, t->at, t->len);
        return;
    }
    struct rt_gpu *g = q->dev->at.g;
    wm_stat_add(&q->dom->stats.staged_bytes, (uint64_t)t->len);
    if (s->heap) {
        struct wm_packing p = { q->layout, q->count, user, t->off, t->at, t->len, out };
        t->err = q->dev->scattered ? wm_scattered_copy(&p) : wm_dev_move_now(g, &p);
        return;
    }
    t->op.done = op_done;
    t->busy = true;
    if (q->layout->contig)
        rt_gpu_copy(g, out ? t->at : user + t->off, out ? user + t->off : t->at, (size_t)t->len,
                    &t->op);
    else if (out)
        rt_layout_gpu_pack(g, q->layout, q->count, user, t->off, t->at, t->len, &t->op);
    else
        rt_layout_gpu_unpack(g, q->layout, q->count, user, t->off, t->at, t->len, &t->op);
}

static void fail(struct wm_pieces *s, int err)
{
    if (err && !s->err)
        s->err = err;
    s->halt = s->halt || (err && is_send(s));
}

/* Sends or receives the piece. */
static void move(struct wm_pieces *s, struct slot *t)
{
    const struct wm_preq *q = s->q;
    bool send = is_send(s);
    struct wm_msg m = { .buf = t->at,
                        .count = t->len,
                        .layout = &bytes,
                        .comm = q->comm,
                        .peer = send ? q->peer_rank : q->r.status.src,
                        .tag = (int)~(send ? q->remote : q->r.obj.handle),
                        .coll = true,
                        .prompt = true };
    int err = send ? wm_p2p_isend(&m, WM_STANDARD, &t->sub) : wm_p2p_irecv(&m, &t->sub);
    if (err < 0 && err != -RT_ENOMEM && !send) { /* the sender waits for a receive of the piece */
        fail(s, err);
        m.buf = NULL;
        m.count = 0;
        err = wm_p2p_irecv(&m, &t->sub);
    }
    t->state = MOVING;
    if (err == -RT_ENOMEM)
        rt_boot_abort(1, "out of memory for a piece of a message");
    if (err >= 0) {
        s->moved += t->len;
        return;
    }
    t->sub = NULL;
    t->state = ENDED;
    fail(s, err);
    s->halt = true;
}

static void begin(struct wm_pieces *s)
{
    struct slot *t = &s->slot[(s->oldest + s->running++) % s->nslots];
    int64_t left = s->len - s->started;
    t->off = s->started;
    t->len = left < s->step ? left : s->step;
    t->at = t->room ? t->room : (char *)(uintptr_t)s->q->buf + t->off;
    s->started += t->len;
    if (is_send(s)) {
        t->state = FILLING;
        pack(s, t);
    } else {
        move(s, t);
    }
}

/* A piece that the failed sender has not sent. */
static void give_up(struct wm_pieces *s, struct slot *t)
{
    if (t->state != MOVING || rt_req_done(t->sub) || ((struct wm_preq *)t->sub)->state != WM_POSTED)
        return;
    t->sub->ops->cancel(t->sub);
    wm_req_release(t->sub);
    t->sub = NULL;
    t->state = ENDED;
    s->halt = true;
}

/* Whether the piece has moved on. */
static bool advance(struct wm_pieces *s, struct slot *t)
{
    switch (t->state) {
    case FILLING:
        if (t->busy)
            return false;
        fail(s, t->err);
        t->state = ENDED;
        if (!s->halt)
            move(s, t);
        return true;
    case MOVING:
        if (!rt_req_done(t->sub))
            return false;
        fail(s, t->sub->err);
        wm_req_release(t->sub);
        t->sub = NULL;
        t->state = ENDED;
        if (!is_send(s) && !s->err) {
            t->state = EMPTYING;
            pack(s, t);
        }
        return true;
    case EMPTYING:
        if (t->busy)
            return false;
        fail(s, t->err);
        t->state = ENDED;
        return true;
    default:
        return false;
    }
}

/* ---- all of them ---- */

/* The oldest first; no piece is sent before an older one. */
static int turn(struct wm_pieces *s)
{
    int n = 0;
    for (int i = 0; i < s->running; i++) {
        struct slot *t = &s->slot[(s->oldest + i) % s->nslots];
        while (advance(s, t))
            n++;
        if (t->state == FILLING)
            break;
    }
    while (s->running && s->slot[s->oldest].state == ENDED) {
        s->ended += s->slot[s->oldest].len;
        s->oldest = (s->oldest + 1) % s->nslots;
        s->running--;
        n++;
    }
    while (s->running < s->nslots && s->started < s->len && !s->halt) {
        begin(s);
        if (s->failed)
            give_up(s, &s->slot[(s->oldest + s->running - 1) % s->nslots]);
        n++;
    }
    return n;
}

int wm_pieces_step(struct wm_preq *q)
{
    struct wm_pieces *s = q->pieces;
    int n = turn(s);
    if (s->running || (!s->halt && s->started < s->len))
        return n;
    int err = s->err;
    if (is_send(s) && s->moved < s->len && !q->peer->err) /* the receiver waits for the others */
        wm_rndv_send_fin(q, WM_FIN_PUT, err);
    wm_rndv_step(q, WM_STEP_OP, err);
    return n + 1;
}

void wm_pieces_stop(struct wm_preq *q, int err)
{
    struct wm_pieces *s = q->pieces;
    s->failed = true;
    fail(s, err);
    for (int i = 0; i < s->running; i++)
        give_up(s, &s->slot[(s->oldest + i) % s->nslots]);
}

static int start(struct wm_preq *q, int64_t len, int64_t step, bool on_device)
{
    struct wm_pieces *s = make(q, len, step);
    int err = s ? find_rooms(s, on_device) : -RT_ENOMEM;
    if (err < 0) {
        if (s)
            destroy(s);
        return err;
    }
    q->pieces = s;
    wm_rndv_enter(q, WM_PIECES); /* if the peer is lost, the pieces end first, with an error */
    while (s->running < s->nslots && s->started < len && !s->halt)
        begin(s);
    rt_list_append(&q->dom->streams, &q->posted.link);
    return 0;
}

int wm_pieces_send(struct wm_preq *q, const struct wm_cts *cts)
{
    int err = start(q, cts->len, cts->step, cts->stream == WM_STREAM_PIECES_DEVICE);
    if (err < 0)
        log_error(MPI, "out of memory for the pieces of a message of %lld bytes to rank %u",
                  (long long)cts->len, q->peer->proc.rank);
    return err;
}

void wm_pieces_drop(struct wm_preq *q)
{
    struct wm_pieces *s = q->pieces;
    if (!s)
        return;
    if (s->counted) {
        q->peer->nstaged--;
        q->dom->staged_room = true;
    }
    q->pieces = NULL;
    destroy(s);
}

/* ---- asking ---- */

/* Two pieces of half the message overlap; a transport with messages only gets pieces that one
 * message carries. */
static int64_t step_of(const struct wm_preq *q, int64_t len, bool on_device)
{
    const struct btl_caps *c = &q->peer->eager->btl->caps;
    if (on_device)
        return RT_GPU_STAGE_LARGE;
    if (!(c->flags & (BTL_PUT | BTL_GET)))
        return c->eager_max < WM_PIECE_MAX ? (int64_t)c->eager_max : WM_PIECE_MAX;
    int64_t half = (len / 2 + 4095) & ~(int64_t)4095;
    return half < PIECE_MIN || half > WM_PIECE_MAX ? WM_PIECE_MAX : half;
}

static void ask(struct wm_preq *q, bool counted)
{
    bool on_device = q->stream == WM_STREAM_PIECES_DEVICE;
    int64_t step = step_of(q, q->moved_len, on_device);
    int err = start(q, q->moved_len, step, on_device);
    if (err == -RT_ENOMEM && on_device) {
        on_device = false;
        step = step_of(q, q->moved_len, false);
        err = start(q, q->moved_len, step, false);
    }
    if (err < 0) {
        log_error(MPI, "out of memory for the pieces of a message of %lld bytes",
                  (long long)q->moved_len);
        wm_rndv_send_fin(q, WM_FIN_GET, err);
        wm_rndv_end(q, err);
        return;
    }
    q->pieces->counted = counted;
    q->peer->nstaged += counted;
    struct wm_cts cts = { .len = q->moved_len,
                          .sender = q->remote,
                          .receiver = q->r.obj.handle,
                          .stream = on_device ? WM_STREAM_PIECES_DEVICE : WM_STREAM_PIECES,
                          .step = step };
    wm_send_ctl(q->dom, q->peer, wm_hdr(WM_CTS, 0, 0, 0), &cts, sizeof cts);
}

/* The messages of other receives' pieces never wait: those receives would wait for them. */
void wm_pieces_ask(struct wm_preq *q, bool on_device)
{
    bool counted = !wm_is_piece(q);
    rt_list_init(&q->posted.link);
    q->stream = on_device ? WM_STREAM_PIECES_DEVICE : WM_STREAM_PIECES;
    if (counted && q->peer->nstaged >= STAGED_MAX) {
        wm_rndv_enter(q, WM_QUEUED);
        rt_list_append(&q->dom->staged, &q->posted.link);
    } else {
        ask(q, counted);
    }
}

void wm_pieces_resume(struct wm_domain *d)
{
    struct rt_list *l, *tmp;
    d->staged_room = false;
    rt_list_each_safe (l, tmp, &d->staged) {
        struct wm_preq *q = rt_container(l, struct wm_preq, posted.link);
        if (q->peer->nstaged >= STAGED_MAX)
            continue;
        rt_list_del(&q->posted.link);
        ask(q, true);
    }
}
