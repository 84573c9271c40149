/* SPDX-License-Identifier: BSD-3-Clause */
/* Large messages with a non-contiguous end, moved so that packing and unpacking overlap and no copy
 * of the whole message is made (engine.h has the protocol).  There are two ways; the receiver
 * decides.
 *
 * Chunks, here: the sender packs as much as one message of the transport carries, and the receiver
 * unpacks each chunk where it arrives: two copies in all.  A contiguous end copies from or to its
 * own buffer.  Best where streaming through shared memory is fast, and for transports that have no
 * get.  Small messages to the same peer may overtake chunks, because chunks name the receiver's
 * request.
 *
 * Pieces, in pieces.c: ordinary contiguous messages, which move by put and get like all large
 * messages.  Best where process_vm_readv is faster than streaming, and used for device buffers that
 * cannot be copied directly.
 *
 * Chunks under way are on the domain's list; wm_progress() moves each on a little.  Called under
 * the domain's lock. */
#include "mpi/p2p/chunks.h"
#include "mpi/p2p/engine.h"
#include "mpi/p2p/pieces.h"
#include "mpi/p2p/malformed.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/transfer.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

/* 64 KiB with the default of 16 KiB: a few microseconds, for which one stream delays everything
 * else. A slower machine only takes longer for its turn. */
#define CHUNKS_A_TURN 4
#define CHUNK_MIN 64 /* a transport with shorter messages is left to put and get */

bool wm_stream_possible(const struct wm_peer *p) { return p->eager_max >= CHUNK_MIN; }

static int64_t chunk_len(const struct wm_preq *q)
{
    int64_t left = q->put_len - q->put_off;
    return left < q->peer->eager_max ? left : q->peer->eager_max;
}

/* The next chunk; a chunk that was packed and refused is still in `packed`. */
static const void *chunk(struct wm_preq *q, int64_t len)
{
    if (q->layout->contig)
        return (const char *)q->buf + q->put_off;
    if (q->ready == q->put_off)
        rt_layout_pack(q->layout, q->count, q->buf, q->put_off, q->packed, len);
    q->ready = q->put_off + len;
    return q->packed;
}

/* The number of chunks sent; the stream may have been freed on return. */
static int step(struct wm_preq *q)
{
    struct wm_peer *p = q->peer;
    struct btl_hdr hdr = wm_hdr(WM_DATA, 0, (int)q->remote, 0);
    for (int n = 0; n < CHUNKS_A_TURN; n++) {
        if (p->blocked && !p->err)
            return n; /* queued messages go first */
        int64_t len = chunk_len(q);
        int err = p->err ? p->err : p->send(p->eager, &hdr, chunk(q, len), (size_t)len);
        if (err == -RT_EAGAIN)
            return n;
        q->put_off += len;
        if (err < 0 || q->put_off == q->put_len) {
            wm_rndv_step(q, WM_STEP_OP, err);
            return n + 1;
        }
    }
    return CHUNKS_A_TURN;
}

int wm_stream_progress(struct wm_domain *d)
{
    int n = 0;
    struct rt_list *l, *tmp;
    rt_list_each_safe (l, tmp, &d->streams) {
        struct wm_preq *q = rt_container(l, struct wm_preq, posted.link);
        n += q->state == WM_PIECES ? wm_pieces_step(q) : step(q);
    }
    return n;
}

int wm_stream_send(struct wm_preq *q, int64_t len)
{
    q->put_off = 0;
    q->put_len = len;
    q->ready = 0;
    int err = q->layout->contig ? 0 : wm_packed_take(q, q->peer->eager_max);
    if (err < 0)
        return err;
    rt_list_append(&q->dom->streams, &q->posted.link);
    wm_rndv_enter(q, WM_CHUNKS);
    step(q);
    return 0;
}

void wm_on_data(const struct btl_peer *from, const struct btl_hdr *h, const void *data, size_t len)
{
    struct wm_preq *q = wm_preq_named((uint32_t)h->tag);
    if (!q || q->kind != WM_PREQ_RECV || q->state != WM_CHUNKS || q->peer->eager != from)
        return; /* the receive has failed in between */
    if ((int64_t)len > q->moved_len - q->put_off)
        wm_malformed(&from->proc, "%zu bytes, more than were requested", len);
    rt_layout_unpack(q->layout, q->count, (void *)(uintptr_t)q->buf, q->put_off, data,
                     (int64_t)len);
    q->put_off += (int64_t)len;
    if (q->put_off == q->moved_len)
        wm_rndv_step(q, WM_STEP_OP, 0);
}
