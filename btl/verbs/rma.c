/* SPDX-License-Identifier: BSD-3-Clause */
/* Remote memory of btl/verbs: registration, put by RDMA write, get by RDMA read.
 *
 * A transfer is cut into pieces; each lane takes the next piece when it has room.  So fast rails
 * take more pieces, and a message never waits behind more than LANE_BYTES of a transfer on its
 * lane.
 *
 * The engine registers device memory.  The GPU may see arriving data later than the host sees the
 * completion.  So a get ends with rt_ib_flush(), and a put with a read of one byte of the peer's
 * memory, on each rail that carried data: an adapter's reads do not overtake its writes. */
#include "btl/verbs/rma.h"
#include "btl/verbs/handshake.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <stdlib.h>
#include <string.h>

/* Four pieces of a lane are in progress: 20 us at 400 Gb/s, several round trips.  Where a round
 * trip takes longer than four pieces, a lane is idle in between. */
#define PIECE (256u << 10)
#define LANE_BYTES (4 * PIECE)
/* Transfers of this length or more are spread over the lanes.  Model: half of it takes 1.3 us at
 * 100 Gb/s, about the cost of a request.  On faster links, transfers of a few times this length
 * cost one request too many. */
#define SPREAD_MIN (32u << 10)
#define LEAVE 8u /* requests of a lane that are reserved for messages */

struct btl_mem {
    struct rt_list link; /* verbs.mems */
    const struct btl *btl;
    void *base;
    size_t len;
    bool window;
    struct rt_ib_mr *mr[VERBS_RAILS];
};

#define KEY_ORDER (1ull << 63) /* in `len`: a put must end with a read */
#define KEY_LEN (KEY_ORDER - 1)
struct verbs_key {
    uint64_t base, len;
    uint32_t rkey[VERBS_RAILS];
};
_Static_assert(sizeof(struct verbs_key) <= BTL_KEY_MAX, "a key fits");

struct verbs_rmem {
    struct btl_rmem base;
    struct verbs_peer *peer;
    struct verbs_key key;
};

struct verbs_xfer { /* a put or get in progress */
    struct rt_list link;
    struct verbs_peer *peer;
    struct btl_op *op; /* borrowed until done() */
    bool get;
    bool order;       /* the destination is device memory, whose data must be ordered at the end */
    bool flushing;    /* `flush` is in use */
    uint8_t no_rails; /* bits: local rails that cannot register `local` */
    uint8_t rails;    /* bits: rails with data not yet ordered (get: local; put: remote) */
    int err;
    char *local;
    size_t len, pos; /* pos: bytes posted so far */
    uint32_t flying; /* work requests in progress */
    uint64_t remote; /* address */
    uint32_t rkey[VERBS_RAILS];
    struct btl_mem *mem;              /* the engine's registration of `local`, or NULL: then */
    struct rt_ib_mr *mr[VERBS_RAILS]; /* registrations of this transfer */
    struct rt_ib_flush flush;
};

static int mem_new(struct btl *b, void *base, size_t len, const struct rt_gpu_ptr *at, bool window,
                   struct btl_mem **out)
{
    struct verbs *v = (struct verbs *)b;
    struct btl_mem *m = calloc(1, sizeof *m);
    if (!m)
        return -RT_ENOMEM;
    rt_list_append(&v->mems, &m->link);
    m->btl = b;
    m->base = base;
    m->len = len;
    m->window = window;
    for (int i = 0; i < v->nrails && len; i++) {
        const struct rt_ib_rail *ib = v->rails[i].ib;
        int err = window ? rt_ib_reg_window(ib, base, len, &m->mr[i])
                         : rt_ib_reg(ib, base, len, at, &m->mr[i]);
        if (err < 0) {
            verbs_mem_dereg(m);
            return err;
        }
    }
    *out = m;
    return 0;
}

int verbs_mem_reg(struct btl *b, void *base, size_t len, const struct rt_gpu_ptr *at,
                  struct btl_mem **out)
{
    return mem_new(b, base, len, at, false, out);
}

int verbs_window_reg(struct btl *b, void *base, size_t len, struct btl_mem **out)
{
    return mem_new(b, base, len, NULL, true, out);
}

void verbs_mem_dereg(struct btl_mem *m)
{
    rt_list_del(&m->link);
    for (int i = 0; i < VERBS_RAILS; i++)
        if (m->mr[i])
            rt_ib_dereg(m->mr[i]);
    free(m);
}

void verbs_mems_free(struct verbs *v)
{
    while (!rt_list_empty(&v->mems))
        verbs_mem_dereg(rt_container(v->mems.next, struct btl_mem, link));
}

/* Whether a put must end with a read: iWARP completes a write when its data have been sent. */
static bool needs_read(const struct btl_mem *m)
{
    const struct verbs *v = (const struct verbs *)m->btl;
    return m->mr[0] && (rt_ib_flush_needed(m->mr[0]) || (m->window && v->rails[0].ib->iwarp));
}

int verbs_mem_key(const struct btl_mem *m, void *key)
{
    struct verbs_key k = { .base = (uintptr_t)m->base, .len = m->len };
    for (int i = 0; i < VERBS_RAILS; i++)
        k.rkey[i] = m->mr[i] ? m->mr[i]->rkey : 0;
    if (needs_read(m))
        k.len |= KEY_ORDER;
    memcpy(key, &k, sizeof k);
    return 0;
}

int verbs_attach(struct btl_peer *p, const void *key, const struct rt_gpu_ptr *near,
                 struct btl_rmem **out)
{
    struct verbs_rmem *r = calloc(1, sizeof *r);
    (void)near;
    if (!r)
        return -RT_ENOMEM;
    r->peer = (struct verbs_peer *)p;
    memcpy(&r->key, key, sizeof r->key);
    *out = &r->base;
    return 0;
}

void verbs_detach(struct btl_rmem *r) { free((struct verbs_rmem *)r); }

/* One is kept for the next transfer: a program that waits for each of its puts needs no other. */
static struct verbs_xfer *xfer_new(struct verbs *v)
{
    struct verbs_xfer *x = v->spare_xfer;
    if (!x)
        return calloc(1, sizeof *x);
    v->spare_xfer = NULL;
    memset(x, 0, sizeof *x);
    return x;
}

static void xfer_free(struct verbs_xfer *x)
{
    struct verbs *v = verbs_of(x->peer);
    for (int i = 0; i < VERBS_RAILS; i++)
        if (x->mr[i])
            rt_ib_dereg(x->mr[i]);
    free(v->spare_xfer);
    v->spare_xfer = x;
}

static void finish(struct verbs_xfer *x)
{
    struct btl_op *op = x->op;
    int err = x->err;
    rt_list_del(&x->link);
    xfer_free(x);
    if (op)
        op->done(op, err);
}

static bool landed(const struct verbs_xfer *x)
{
    return x->flying == 0 && (x->err || x->pos == x->len);
}

static struct rt_ib_mr *mr_of(const struct verbs_xfer *x, int rail)
{
    return x->mem ? x->mem->mr[rail] : x->mr[rail];
}

static bool settle(struct verbs_xfer *x);

static void flushed(struct rt_ib_flush *f, int err)
{
    struct verbs_xfer *x = rt_container(f, struct verbs_xfer, flush);
    x->flushing = false;
    x->err = err;
    settle(x);
}

static int flush(struct verbs_xfer *x, int rail)
{
    const struct verbs *v = verbs_of(x->peer);
    x->flush.done = flushed;
    int err = rt_ib_flush(v->rails[rail].ib, mr_of(x, rail), &x->flush);
    x->flushing = err == -RT_EAGAIN;
    return x->flushing ? 0 : err;
}

/* Starts the read that orders a put.  -RT_EAGAIN: no room now. */
static int read_back(struct verbs_xfer *x, int remote_rail)
{
    struct verbs_lane *l = x->peer->lanes;
    while (l->remote_rail != remote_rail)
        l++;
    struct verbs_sbuf *s = verbs_lane_has_room(l, 1) ? verbs_sbuf_take(l->rail) : NULL;
    if (!s)
        return -RT_EAGAIN;
    struct verbs_mark mark = { .xfer = x, .sbuf = s };
    struct ibv_sge sge = { (uintptr_t)s->data, 1, s->lkey };
    struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_READ,
                              .sg_list = &sge,
                              .num_sge = 1,
                              .wr.rdma = { x->remote, x->rkey[remote_rail] } };
    int err = verbs_lane_post(l, &wr, &mark);
    if (err)
        verbs_sbuf_give(l->rail, s);
    else
        x->flying++;
    return err;
}

/* All data have arrived: orders data in device memory, then ends the transfer.  True: it has
 * ended. */
static bool settle(struct verbs_xfer *x)
{
    while (x->rails && x->op && !x->err && !x->flushing && !(x->get && x->flying)) {
        int rail = __builtin_ctz(x->rails);
        int err = x->get ? flush(x, rail) : read_back(x, rail);
        if (err == -RT_EAGAIN)
            break;
        x->rails &= (uint8_t)(x->rails - 1);
        x->err = err;
    }
    if (x->flushing || x->flying)
        return false;
    if (x->rails && x->op && !x->err) {
        verbs_peer_work(x->peer);
        return false;
    }
    finish(x);
    return true;
}

void verbs_xfer_landed(struct verbs_lane *l, const struct verbs_mark *m, int err)
{
    struct verbs_xfer *x = m->xfer;
    l->rma_bytes -= m->nbytes;
    x->flying--;
    if (x->get && m->sbuf && x->op && !err)
        memcpy(x->local, m->sbuf->data, x->len);
    if (err && !x->err)
        x->err = err;
    if (landed(x))
        settle(x);
    else
        verbs_peer_work(l->peer);
}

/* The lane with the fewest bytes in progress that x may use; NULL: none has room. */
static struct verbs_lane *lane_for(const struct verbs_xfer *x)
{
    struct verbs_peer *p = x->peer;
    struct verbs_lane *best = NULL;
    for (int i = 0; i < p->nlanes; i++) {
        struct verbs_lane *l = &p->lanes[i];
        if (l->rma_bytes < LANE_BYTES && verbs_lane_has_room(l, LEAVE) &&
            !(x->no_rails >> l->rail->index & 1) && (!best || l->rma_bytes < best->rma_bytes))
            best = l;
    }
    return best;
}

static size_t piece_of(const struct verbs_xfer *x)
{
    size_t piece = PIECE, left = x->len - x->pos;
    if (x->peer->nlanes > 1 && x->len >= SPREAD_MIN) { /* each lane gets a piece at once */
        size_t share = (x->len / (size_t)x->peer->nlanes + 4095) & ~(size_t)4095;
        piece = share < piece ? share : piece;
    }
    return left < piece ? left : piece;
}

/* Registers the local memory on a rail if the engine has not. */
static int need_mr(struct verbs_xfer *x, const struct verbs_rail *r)
{
    if (!mr_of(x, r->index)) {
        int err = rt_ib_reg(r->ib, x->local, x->len, NULL, &x->mr[r->index]);
        if (err < 0)
            return err;
    }
    return x->get && !mr_of(x, r->index)->writable ? -RT_EINVAL : 0;
}

/* Short data in host memory are not registered, which costs more than a copy, above all where
 * registrations are not kept (runtime/mem/regcache.h). */
static bool is_short(const struct verbs_xfer *x)
{
    return !x->mem && x->len <= verbs_of(x->peer)->base.caps.eager_max;
}

/* Finds the memory of a piece for a request: inside the request, in a buffer, or the user's.  0;
 * -RT_EAGAIN: no buffer is free; -RT_ENOTSUP: not on this rail. */
static int prepare_piece(struct verbs_xfer *x, struct verbs_lane *l, struct ibv_send_wr *wr,
                         struct verbs_mark *mark)
{
    struct ibv_sge *sge = wr->sg_list;
    sge->addr = (uintptr_t)x->local + x->pos;
    if (!is_short(x)) {
        if (need_mr(x, l->rail) < 0)
            return -RT_ENOTSUP;
        sge->lkey = mr_of(x, l->rail->index)->lkey;
        return 0;
    }
    if (!x->get && x->len <= l->max_inline) {
        wr->send_flags = IBV_SEND_INLINE;
        return 0;
    }
    mark->sbuf = verbs_sbuf_take(l->rail);
    if (!mark->sbuf)
        return -RT_EAGAIN;
    if (!x->get)
        memcpy(mark->sbuf->data, x->local, x->len);
    sge->addr = (uintptr_t)mark->sbuf->data;
    sge->lkey = mark->sbuf->lkey;
    return 0;
}

static int post_piece(struct verbs_xfer *x, struct verbs_lane *l)
{
    size_t n = piece_of(x);
    struct verbs_mark mark = { .xfer = x, .nbytes = (uint32_t)n };
    struct ibv_sge sge = { .length = (uint32_t)n };
    struct ibv_send_wr wr = { .opcode = x->get ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
                              .sg_list = &sge,
                              .num_sge = 1,
                              .wr.rdma = { x->remote + x->pos, x->rkey[l->remote_rail] } };
    int err = prepare_piece(x, l, &wr, &mark);
    if (err == -RT_ENOTSUP) { /* the first rail has registered it, otherwise the transfer would not
                               * exist */
        x->no_rails |= (uint8_t)(1u << l->rail->index);
        return 0;
    }
    if (!err)
        err = verbs_lane_post(l, &wr, &mark);
    if (err && mark.sbuf)
        verbs_sbuf_give(l->rail, mark.sbuf);
    if (err)
        return err;
    l->rma_bytes += (uint32_t)n;
    x->flying++;
    x->pos += n;
    if (x->order)
        x->rails |= (uint8_t)(1u << (x->get ? l->rail->index : l->remote_rail));
    return 0;
}

/* Posts pieces while there is room, in the order of the transfers.  Makes no upward calls. */
static void post_pieces(struct verbs_peer *p)
{
    struct rt_list *pos;
    rt_list_each (pos, &p->xfers) {
        struct verbs_xfer *x = rt_container(pos, struct verbs_xfer, link);
        while (!x->err && x->pos < x->len) {
            struct verbs_lane *l = lane_for(x);
            if (!l)
                return;
            int err = post_piece(x, l);
            if (err == -RT_EAGAIN)
                return;
            x->err = err;
        }
    }
}

int verbs_xfers_step(struct verbs_peer *p)
{
    struct rt_list *pos, *tmp;
    int n = 0;
    if (!p->err)
        post_pieces(p);
    rt_list_each_safe (pos, tmp, &p->xfers) {
        struct verbs_xfer *x = rt_container(pos, struct verbs_xfer, link);
        if (p->err && !x->err)
            x->err = p->err;
        if (landed(x))
            n += settle(x); /* may append transfers, never removes others */
    }
    return n;
}

void verbs_xfers_drop(struct verbs_peer *p)
{
    struct rt_list *pos;
    rt_list_each (pos, &p->xfers) {
        struct verbs_xfer *x = rt_container(pos, struct verbs_xfer, link);
        x->op = NULL;
        x->len = x->pos; /* posted pieces still use it */
        if (x->flushing)
            rt_ib_flush_cancel(&x->flush);
        x->flushing = false;
    }
}

void verbs_xfers_free(struct verbs_peer *p)
{
    verbs_xfers_drop(p);
    while (!rt_list_empty(&p->xfers))
        finish(rt_container(p->xfers.next, struct verbs_xfer, link));
}

static bool covers(const struct btl_mem *m, const char *p, size_t len)
{
    return m && p >= (char *)m->base && len <= m->len &&
           (size_t)(p - (char *)m->base) <= m->len - len;
}

/* 0: connected; -RT_EAGAIN: not yet. */
static int usable(struct verbs_peer *p)
{
    if (p->err)
        return p->err;
    if (p->state == VERBS_NEW)
        verbs_handshake_start(p);
    if (p->state != VERBS_UP)
        return p->err ? p->err : -RT_EAGAIN;
    return 0;
}

static int start(struct btl_rmem *rmem, size_t off, struct btl_mem *m, void *local, size_t len,
                 struct btl_op *op, bool get)
{
    struct verbs_rmem *r = (struct verbs_rmem *)rmem;
    struct verbs_peer *p = r->peer;
    uint64_t there = r->key.len & KEY_LEN;
    if (off > there || len > there - off)
        return -RT_EINVAL;
    int err = usable(p);
    if (err < 0)
        return err;
    struct verbs_xfer *x = xfer_new(verbs_of(p));
    if (!x)
        return -RT_ENOMEM;
    x->peer = p;
    x->op = op;
    x->get = get;
    x->local = local;
    x->len = len;
    x->remote = r->key.base + off;
    x->mem = covers(m, local, len) ? m : NULL;
    x->order = get ? x->mem && x->mem->mr[0] && x->mem->mr[0]->gpu : (r->key.len & KEY_ORDER) != 0;
    memcpy(x->rkey, r->key.rkey, sizeof x->rkey);
    struct verbs_lane *l = lane_for(x);
    err = len && !is_short(x) ? need_mr(x, l ? l->rail : p->lanes[0].rail) : 0;
    if (err < 0) {
        xfer_free(x);
        return err;
    }
    rt_list_append(&p->xfers, &x->link);
    post_pieces(p);
    if (x->pos < x->len || x->err || !x->len)
        verbs_peer_work(p);
    return 0;
}

int verbs_put(struct btl_rmem *r, size_t off, struct btl_mem *m, const void *src, size_t len,
              struct btl_op *op)
{
    return start(r, off, m, (void *)(uintptr_t)src, len, op, false);
}

int verbs_get(struct btl_rmem *r, size_t off, struct btl_mem *m, void *dst, size_t len,
              struct btl_op *op)
{
    return start(r, off, m, dst, len, op, true);
}
