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
 * Staging memory is bounded: only a limited number of receives of each peer are in pieces at a
 * time; the others wait in order.  The receiver waits, before it sends the CTS, so neither side
 * holds memory meanwhile.  Called under the domain's lock. */
#include "mpi/p2p/pieces.h"
#include <stdlib.h>
#include "mpi/p2p/control.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/transfer.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/layout/pack_gpu.h"

/* A piece costs a handshake and two system calls: messages from twice PIECE_MIN on are cut, and
 * pieces are long rather than in the cache (measured: 4 MiB in 16 pieces is slower than in 8).
 * Where system calls are costlier, longer pieces would be faster. */
#define PIECE_MIN (256 << 10)
/* Where processes take turns on the device, all pieces that a side has room for, two, move in one
 * turn, so a message needs two turns for each two pieces: pieces are long.  A copy within the
 * device moves 1.9 TB/s and a turn takes 140 us (H200), so 128 MiB take half a turn.  More would
 * be faster, and take more memory.  Measured, between two pools, 64 and 256 MiB: 224 and 708 us. */
#define TURN_STEP_MIN (4 * (int64_t)RT_GPU_STAGE_LARGE)
#define TURN_STEP_MAX (16 * (int64_t)RT_GPU_STAGE_LARGE)
/* Receives of one peer through staging memory at a time.  Idle buffers are kept only up to
 * a number of bytes, and making new ones takes long (runtime/gpu/stage.c).  More on a faster link:
 * more pinned memory, and no gain; fewer: a link that is idle between pieces. */
#define STAGED_MAX 8

struct wm_pieces {
    struct wm_pipe pipe;    /* a slot's `up` is the piece's message */
    struct wm_pieces *next; /* spare */
    struct wm_preq *q;
    int64_t len, step;      /* of the message, of a piece */
    int64_t started, moved; /* bytes begun, given to sub-messages */
    bool failed;            /* the sender has reported its failure */
    bool counted;           /* in wm_peer.nstaged */
};

static const struct rt_layout bytes = {
    .size = 1, .extent = 1, .true_extent = 1, .contig = true, .elem = RT_ELEM_BYTE
};

void wm_pieces_fini(struct wm_domain *d)
{
    wm_host_fini(d);
    for (struct wm_pieces *s = d->spare.pieces, *next; s; s = next) {
        next = s->next;
        free(s);
    }
    d->spare.pieces = NULL;
}

/* ---- where pieces lie ---- */

static const struct wm_pipe_ops pipe_ops;

static bool is_send(const struct wm_pieces *s) { return s->q->kind == WM_PREQ_SEND; }

/* Whether the pieces of this end can be parts of the user's buffer. */
static bool in_place(const struct wm_pieces *s, bool on_device)
{
    const struct wm_preq *q = s->q;
    if (!q->layout->contig)
        return false;
    return !q->dev || (on_device && (!is_send(s) || q->dev->exported));
}

/* A sender that was asked for pieces in device memory and has none may send them from the host; the
 * receiver decided before it sent the CTS. */
static int find_rooms(struct wm_pieces *s, bool on_device)
{
    struct wm_staging *rooms = &s->pipe.rooms;
    const struct wm_dev *dev = s->q->dev;
    int64_t unit = s->len < s->step ? s->len : s->step, n = (s->len + s->step - 1) / s->step;
    if (in_place(s, on_device)) {
        rooms->n = WM_STAGING_ROOMS;
        return 0;
    }
    if (!dev || dev->scattered)
        return wm_staging_host(rooms, unit);
    int want = n < WM_STAGING_ROOMS ? (int)n : WM_STAGING_ROOMS;
    if (on_device && wm_staging_device(rooms, dev->at.g, unit, want) >= 0)
        return 0;
    if (on_device && !is_send(s))
        return -RT_ENOMEM;
    return wm_staging_pinned(rooms, dev->at.g, unit, want) >= 0 ? 0 : wm_staging_host(rooms, unit);
}

static struct wm_pieces *make(struct wm_preq *q, int64_t len, int64_t step)
{
    struct wm_domain *d = q->dom;
    struct wm_pieces *s = d->spare.pieces;
    if (s)
        d->spare.pieces = s->next;
    else if (!(s = malloc(sizeof *s)))
        return NULL;
    *s = (struct wm_pieces){
        .pipe = { .ops = &pipe_ops, .rooms.d = d }, .q = q, .len = len, .step = step
    };
    return s;
}

static void destroy(struct wm_pieces *s)
{
    struct wm_domain *d = s->q->dom;
    wm_staging_give(&s->pipe.rooms);
    s->next = d->spare.pieces;
    d->spare.pieces = s;
}

/* ---- one piece ---- */

static bool next_piece(struct wm_pipe *p, struct wm_slot *t)
{
    struct wm_pieces *s = rt_container(p, struct wm_pieces, pipe);
    const struct wm_preq *q = s->q;
    int64_t left = s->len - s->started, len = left < s->step ? left : s->step;
    if (!len)
        return false;
    t->m = (struct wm_packing){ .l = q->layout,
                                .count = q->count,
                                .user = (char *)(uintptr_t)q->buf,
                                .pos = s->started,
                                .len = len,
                                .pack = is_send(s) };
    t->memory = !q->dev             ? WM_MEMORY_HOST
                : q->dev->scattered ? WM_MEMORY_SCATTERED
                                    : WM_MEMORY_DEVICE;
    t->g = q->dev ? q->dev->at.g : NULL;
    if (q->dev && p->rooms.room[0])
        wm_stat_add(&q->dom->stats->staged_bytes, (uint64_t)len);
    s->started += len;
    return true;
}

/* Cancels the message of a piece that the failed sender has not sent. */
static bool give_up(struct wm_slot *t)
{
    struct rt_req *sub = t->up;
    if (rt_req_done(sub) || ((struct wm_preq *)sub)->state != WM_POSTED)
        return false;
    sub->ops->cancel(sub);
    wm_req_release(sub);
    return true;
}

/* Sends or receives the piece. */
static int move(struct wm_pipe *p, struct wm_slot *t)
{
    struct wm_pieces *s = rt_container(p, struct wm_pieces, pipe);
    const struct wm_preq *q = s->q;
    bool send = is_send(s);
    struct rt_req *sub = NULL;
    struct wm_msg m = { .buf = t->m.packed,
                        .count = t->m.len,
                        .layout = &bytes,
                        .comm = q->comm,
                        .peer = send ? q->peer_rank : q->r.status.src,
                        .tag = (int)~(send ? q->remote : q->r.obj.handle),
                        .coll = true,
                        .prompt = true };
    int err = q->dom->start_message(&m, send, &sub);
    if (err < 0 && err != -RT_ENOMEM && !send) { /* the sender waits for a receive of the piece */
        wm_pipe_fail(p, err);
        m.buf = NULL;
        m.count = 0;
        err = q->dom->start_message(&m, send, &sub);
    }
    if (err == -RT_ENOMEM)
        rt_boot_abort(1, "out of memory for a piece of a message");
    if (err < 0)
        return err;
    t->up = sub;
    s->moved += t->m.len;
    return s->failed && give_up(t) ? p->err : 0;
}

static int moved(struct wm_pipe *p, struct wm_slot *t)
{
    struct rt_req *sub = t->up;
    (void)p;
    if (!rt_req_done(sub))
        return 0;
    int err = sub->err;
    wm_req_release(sub);
    return err < 0 ? err : 1;
}

static const struct wm_pipe_ops pipe_ops = { next_piece, move, moved };

/* ---- all of them ---- */

static void drop(struct wm_preq *q)
{
    struct wm_pieces *s = q->pieces;
    if (s->counted) {
        q->peer->nstaged--;
        q->dom->staging.room = true;
    }
    q->pieces = NULL;
    destroy(s);
}

int wm_pieces_step(struct wm_preq *q)
{
    struct wm_pieces *s = q->pieces;
    int n = wm_pipe_step(&s->pipe);
    if (s->pipe.running || (!s->pipe.halt && s->started < s->len))
        return n;
    int err = s->pipe.err;
    if (is_send(s) && s->moved < s->len && !q->peer->err) /* the receiver waits for the others */
        wm_rndv_send_fin(q, WM_FIN_PUT, err);
    drop(q);
    wm_rndv_step(q, WM_STEP_OP, err);
    return n + 1;
}

void wm_pieces_stop(struct wm_preq *q, int err)
{
    struct wm_pieces *s = q->pieces;
    s->failed = true;
    wm_pipe_fail(&s->pipe, err < 0 ? err : -RT_EREMOTE);
    for (int i = 0; i < s->pipe.running; i++) {
        struct wm_slot *t = wm_pipe_part(&s->pipe, i);
        if (t->state == WM_SLOT_MOVING && give_up(t)) {
            t->state = WM_SLOT_ENDED;
            s->pipe.halt = true;
        }
    }
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
    wm_pipe_start(&s->pipe);
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

/* ---- asking ---- */

/* Two pieces of half the message overlap; a transport with messages only gets pieces that one
 * message carries. */
static int64_t step_of(const struct wm_preq *q, int64_t len, bool on_device)
{
    const struct btl_caps *c = &q->peer->eager->btl->caps;
    bool in_turns = on_device && q->dev && rt_gpu_in_turns(q->dev->at.g);
    int64_t half = (len / 2 + 4095) & ~(int64_t)4095;
    if (in_turns)
        return half < TURN_STEP_MIN ? TURN_STEP_MIN : half < TURN_STEP_MAX ? half : TURN_STEP_MAX;
    if (on_device)
        return RT_GPU_STAGE_LARGE;
    if (!(c->flags & (BTL_PUT | BTL_GET)))
        return c->eager_max < WM_PIECE_MAX ? (int64_t)c->eager_max : WM_PIECE_MAX;
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
        rt_list_append(&q->dom->staging.queue, &q->posted.link);
    } else {
        ask(q, counted);
    }
}

void wm_pieces_resume(struct wm_domain *d)
{
    struct rt_list *l, *tmp;
    d->staging.room = false;
    rt_list_each_safe (l, tmp, &d->staging.queue) {
        struct wm_preq *q = rt_container(l, struct wm_preq, posted.link);
        if (q->peer->nstaged >= STAGED_MAX)
            continue;
        rt_list_del(&q->posted.link);
        ask(q, true);
    }
}
