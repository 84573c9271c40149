/* SPDX-License-Identifier: BSD-3-Clause */
/* Large messages with a non-contiguous end, so that packing and unpacking overlap and no copy of
 * the whole message is ever made (engine.h has the protocol).  Two ways; the receiver decides.
 *
 * Chunks: the sender packs as much as the transport's messages carry, and the receiver unpacks each
 * where it arrives: two copies in all.  A contiguous end copies from or to its own buffer.  Right
 * where streaming through shared memory is fast, and for transports that have no get.  Small
 * messages to the same peer may overtake chunks: these name the receiver's request.
 *
 * Pieces: ordinary contiguous messages through two buffers at each side, of 16 to 256 KiB, which
 * move by put and get like all large messages.  Right where process_vm_readv beats streaming.
 *
 * What is under way is on the domain's list and moves on in wm_progress(), a little each turn.
 * Called under the domain's lock. */
#include <stdlib.h>
#include "mpi/p2p/engine.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#define CHUNKS_A_TURN 4 /* 32 KiB with the default of 8 KiB: a few microseconds */
#define CHUNK_MIN 64    /* a transport with shorter messages is left to put and get */

bool wm_stream_possible(const struct wm_peer *p) { return p->eager_max >= CHUNK_MIN; }

/* ---- chunks ---- */

static int64_t chunk_len(const struct wm_preq *q)
{
    int64_t left = q->put_len - q->put_off;
    return left < q->peer->eager_max ? left : q->peer->eager_max;
}

/* The next chunk; one that was packed and refused is still in `packed`. */
static const void *chunk(struct wm_preq *q, int64_t len)
{
    if (q->layout->contig)
        return (const char *)q->buf + q->put_off;
    if (!q->chunk_ready)
        rt_layout_pack(q->layout, q->count, q->buf, q->put_off, q->packed, len);
    q->chunk_ready = true;
    return q->packed;
}

/* The number of chunks sent; the stream may be gone afterwards. */
static int step(struct wm_preq *q)
{
    struct wm_peer *p = q->peer;
    struct btl_hdr hdr = wm_hdr(WM_DATA, 0, (int)q->remote, 0);
    for (int n = 0; n < CHUNKS_A_TURN; n++) {
        if (p->blocked && !p->err)
            return n; /* what is queued comes first */
        int64_t len = chunk_len(q);
        int err = p->err ? p->err : p->send(p->eager, &hdr, chunk(q, len), (size_t)len);
        if (err == -RT_EAGAIN)
            return n;
        q->chunk_ready = false;
        q->put_off += len;
        if (err < 0 || q->put_off == q->put_len) {
            wm_rndv_part_done(q, err);
            return n + 1;
        }
    }
    return CHUNKS_A_TURN;
}

/* ---- pieces ---- */

/* A piece costs a hand-shake and two system calls: messages are cut from twice the least piece on,
 * and pieces are long rather than in the cache (measured: 4 MiB in 16 pieces is slower than in 8).
 */
#define PIECE_MIN (256 << 10)
#define POOL_MAX 4 /* idle buffers that a domain keeps: fresh memory costs a fault a page */

/* A message as a sequence of ordinary contiguous messages, two under way at a time: while one
 * moves, the next is packed, or the last one unpacked. */
struct wm_pieces {
    struct wm_pieces *next; /* in the domain's pool */
    int64_t len, step;      /* of the message, of a piece */
    int64_t started, ended; /* bytes */
    int64_t sub_len[2];
    struct rt_req *sub[2]; /* the messages under way, used in turn */
    int turn;              /* which ends next */
    int err;
    char *buf[2]; /* behind the struct */
};

static const struct rt_layout bytes = {
    .size = 1, .extent = 1, .true_extent = 1, .contig = true, .elem = RT_ELEM_BYTE
};

#define BUF_AT 4096 /* the struct has a page, so that the buffers begin on one */
_Static_assert(sizeof(struct wm_pieces) <= BUF_AT, "the struct has room before the buffers");

static struct wm_pieces *pool_take(struct wm_domain *d)
{
    struct wm_pieces *s = d->pieces;
    if (!s)
        return aligned_alloc(4096, BUF_AT + 2 * WM_PIECE_MAX);
    d->pieces = s->next;
    d->npieces--;
    return s;
}

static void pool_give(struct wm_domain *d, struct wm_pieces *s)
{
    if (d->npieces == POOL_MAX) {
        free(s);
        return;
    }
    s->next = d->pieces;
    d->pieces = s;
    d->npieces++;
}

int wm_packed_take(struct wm_preq *q, int64_t nbytes)
{
    if (nbytes <= WM_PIECE_MAX) {
        q->pieces = pool_take(q->dom);
        q->packed = q->pieces ? (char *)q->pieces + BUF_AT : NULL;
    } else {
        q->packed = malloc((size_t)nbytes);
    }
    if (q->packed)
        return 0;
    log_error(MPI, "out of memory: %lld bytes to pack a non-contiguous message", (long long)nbytes);
    return -RT_ENOMEM;
}

void wm_packed_drop(struct wm_preq *q)
{
    if (q->pieces)
        pool_give(q->dom, q->pieces);
    else
        free(q->packed);
    q->pieces = NULL;
    q->packed = NULL;
}

void wm_pieces_fini(struct wm_domain *d)
{
    while (d->npieces)
        free(pool_take(d));
}

static void piece_start(struct wm_preq *q, int slot)
{
    struct wm_pieces *s = q->pieces;
    bool send = q->kind == WM_PREQ_SEND;
    int64_t len = s->len - s->started < s->step ? s->len - s->started : s->step;
    if (!len || s->err)
        return;
    if (send)
        rt_layout_pack(q->layout, q->count, q->buf, s->started, s->buf[slot], len);
    struct wm_msg m = { .buf = s->buf[slot],
                        .count = len,
                        .layout = &bytes,
                        .comm = q->comm,
                        .peer = send ? q->peer_rank : q->r.status.src,
                        .tag = (int)~(send ? q->remote : q->r.obj.handle),
                        .coll = true };
    s->err = send ? wm_p2p_isend(&m, WM_STANDARD, &s->sub[slot]) : wm_p2p_irecv(&m, &s->sub[slot]);
    if (s->err == -RT_ENOMEM)
        rt_boot_abort(1, "out of memory for a piece of a message");
    if (s->err)
        s->sub[slot] = NULL;
    s->sub_len[slot] = len;
    s->started += len;
}

/* Whether the piece whose turn it is has ended. */
static bool piece_end(struct wm_preq *q)
{
    struct wm_pieces *s = q->pieces;
    int slot = s->turn;
    struct rt_req *r = s->sub[slot];
    if (!r || !rt_req_done(r))
        return false;
    if (r->err && !s->err)
        s->err = r->err;
    s->sub[slot] = NULL;
    wm_req_release(r);
    if (!s->err && q->kind == WM_PREQ_RECV)
        rt_layout_unpack(q->layout, q->count, (void *)(uintptr_t)q->buf, s->ended, s->buf[slot],
                         s->sub_len[slot]);
    s->ended += s->sub_len[slot];
    s->turn = !slot;
    piece_start(q, slot);
    return true;
}

static int pieces_step(struct wm_preq *q)
{
    struct wm_pieces *s = q->pieces;
    int n = 0;
    while (piece_end(q))
        n++;
    if (s->sub[0] || s->sub[1] || (!s->err && s->ended < s->len))
        return n;
    int err = s->err;
    q->op_busy = q->in_pieces = false;
    wm_rndv_part_done(q, err);
    return n + 1;
}

static int64_t piece_len(int64_t len)
{
    int64_t half = (len / 2 + 4095) & ~(int64_t)4095;
    return half < PIECE_MIN || half > WM_PIECE_MAX ? WM_PIECE_MAX : half;
}

int wm_pieces_start(struct wm_preq *q, int64_t len)
{
    wm_packed_drop(q); /* the receiver wants pieces of what was packed in advance */
    struct wm_pieces *s = pool_take(q->dom);
    if (!s) {
        log_error(MPI, "out of memory: %d bytes to pack a message", 2 * WM_PIECE_MAX);
        return -RT_ENOMEM;
    }
    *s = (struct wm_pieces){ .len = len, .step = piece_len(len) };
    s->buf[0] = (char *)s + BUF_AT;
    s->buf[1] = s->buf[0] + WM_PIECE_MAX;
    q->pieces = s;
    q->streams = q->in_pieces = true;
    q->op_busy = true; /* when the peer is lost the pieces end first, with an error */
    piece_start(q, 0);
    piece_start(q, 1);
    rt_list_append(&q->dom->streams, &q->posted.link);
    return 0;
}

/* ---- both ---- */

int wm_stream_progress(struct wm_domain *d)
{
    int n = 0;
    struct rt_list *l, *tmp;
    rt_list_each_safe (l, tmp, &d->streams) {
        struct wm_preq *q = rt_container(l, struct wm_preq, posted.link);
        n += q->in_pieces ? pieces_step(q) : step(q);
    }
    return n;
}

int wm_stream_send(struct wm_preq *q, int64_t len)
{
    q->put_off = 0;
    q->put_len = len;
    q->chunk_ready = false;
    wm_packed_drop(q); /* the receiver wants chunks of what was packed in advance */
    int err = q->layout->contig ? 0 : wm_packed_take(q, q->peer->eager_max);
    if (err < 0)
        return err;
    rt_list_append(&q->dom->streams, &q->posted.link);
    q->streams = true;
    step(q);
    return 0;
}

void wm_on_data(const struct btl_peer *from, const struct btl_hdr *h, const void *data, size_t len)
{
    struct wm_preq *q = rt_slab_get(&wm_request_slab, (uint32_t)h->tag);
    if (!q || !q->peer || q->peer->eager != from || !q->streams || q->in_pieces)
        return; /* the receive has failed in between */
    if ((int64_t)len > q->moved_len - q->put_off)
        RT_BUG("rank %u sent more than it was asked for", from->proc.rank);
    rt_layout_unpack(q->layout, q->count, (void *)(uintptr_t)q->buf, q->put_off, data,
                     (int64_t)len);
    q->put_off += (int64_t)len;
    if (q->put_off == q->moved_len)
        wm_rndv_part_done(q, 0);
}
