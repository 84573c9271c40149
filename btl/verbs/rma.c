/* SPDX-License-Identifier: BSD-3-Clause */
/* Remote memory of btl/verbs: registration, put by RDMA write, get by RDMA read.
 *
 * A transfer is cut into pieces, and each lane takes the next piece when it has room.  So fast
 * rails take more, and a message never waits behind more than LANE_BYTES of a transfer on its lane.
 */
#include "btl/verbs/verbs.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <stdlib.h>
#include <string.h>

/* Four pieces of a lane are under way: at 400 Gb/s that is 20 us of wire, several round trips. */
#define PIECE (256u << 10)
#define LANE_BYTES (4 * PIECE)
/* Transfers from this length on are spread over the lanes. */
#define SPREAD_MIN (32u << 10)
#define LEAVE 8u /* requests that a lane keeps for messages */

struct btl_mem {
    struct rt_list link; /* verbs.mems */
    void *base;
    size_t len;
    struct rt_ib_mr *mr[VERBS_RAILS];
};

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

int verbs_mem_reg(struct btl *b, void *base, size_t len, const struct rt_gpu_ptr *at,
                  struct btl_mem **out)
{
    struct verbs *v = (struct verbs *)b;
    struct btl_mem *m = calloc(1, sizeof *m);
    if (!m)
        return -RT_ENOMEM;
    rt_list_append(&v->mems, &m->link);
    m->base = base;
    m->len = len;
    for (int i = 0; i < v->nrails && len; i++) {
        int err = rt_ib_reg(v->rails[i].ib, base, len, at, &m->mr[i]);
        if (err < 0) {
            verbs_mem_dereg(m);
            return err;
        }
    }
    *out = m;
    return 0;
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

int verbs_mem_key(const struct btl_mem *m, void *key)
{
    struct verbs_key k = { .base = (uintptr_t)m->base, .len = m->len };
    for (int i = 0; i < VERBS_RAILS; i++)
        k.rkey[i] = m->mr[i] ? m->mr[i]->rkey : 0;
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

static void finish(struct verbs_xfer *x)
{
    struct btl_op *op = x->op;
    int err = x->err;
    rt_list_del(&x->link);
    for (int i = 0; i < VERBS_RAILS; i++)
        if (x->mr[i])
            rt_ib_dereg(x->mr[i]);
    free(x);
    if (op)
        op->done(op, err);
}

static bool landed(const struct verbs_xfer *x)
{
    return x->flying == 0 && (x->err || x->pos == x->len);
}

void verbs_xfer_landed(struct verbs_lane *l, const struct verbs_mark *m, int err)
{
    struct verbs_xfer *x = m->xfer;
    l->rma_bytes -= m->nbytes;
    x->flying--;
    if (err && !x->err)
        x->err = err;
    if (landed(x))
        finish(x);
    else
        verbs_peer_work(l->peer);
}

/* The lane with the least under way; NULL when none takes more. */
static struct verbs_lane *lane_for(struct verbs_peer *p)
{
    struct verbs_lane *best = NULL;
    for (int i = 0; i < p->nlanes; i++) {
        struct verbs_lane *l = &p->lanes[i];
        if (l->rma_bytes < LANE_BYTES && verbs_lane_has_room(l, LEAVE) &&
            (!best || l->rma_bytes < best->rma_bytes))
            best = l;
    }
    return best;
}

static size_t piece_of(const struct verbs_xfer *x)
{
    size_t piece = PIECE, left = x->len - x->pos;
    if (x->peer->nlanes > 1 && x->len >= SPREAD_MIN) { /* each lane gets one at once */
        size_t share = (x->len / (size_t)x->peer->nlanes + 4095) & ~(size_t)4095;
        piece = share < piece ? share : piece;
    }
    return left < piece ? left : piece;
}

static int post_piece(struct verbs_xfer *x, struct verbs_lane *l)
{
    size_t n = piece_of(x);
    struct rt_ib_mr **mr = &x->mr[l->rail->index];
    if (!*mr) {
        int err = rt_ib_reg(l->rail->ib, x->local, x->len, NULL, mr);
        if (err < 0)
            return err;
        if (x->get && !(*mr)->writable)
            return -RT_EINVAL;
    }
    struct verbs_mark mark = { .xfer = x, .nbytes = (uint32_t)n };
    struct ibv_sge sge = { (uintptr_t)x->local + x->pos, (uint32_t)n, (*mr)->lkey };
    struct ibv_send_wr wr = { .opcode = x->get ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
                              .sg_list = &sge,
                              .num_sge = 1,
                              .wr.rdma = { x->remote + x->pos, x->rkey[l->remote_rail] } };
    int err = verbs_lane_post(l, &wr, &mark);
    if (err)
        return err;
    l->rma_bytes += (uint32_t)n;
    x->flying++;
    x->pos += n;
    return 0;
}

/* Posts what has room, first transfer first.  Calls nobody. */
static void post_pieces(struct verbs_peer *p)
{
    struct rt_list *pos;
    rt_list_each (pos, &p->xfers) {
        struct verbs_xfer *x = rt_container(pos, struct verbs_xfer, link);
        while (!x->err && x->pos < x->len) {
            struct verbs_lane *l = lane_for(p);
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
        if (landed(x)) {
            finish(x); /* may append, never removes others */
            n++;
        }
    }
    return n;
}

void verbs_xfers_drop(struct verbs_peer *p)
{
    struct rt_list *pos;
    rt_list_each (pos, &p->xfers) {
        struct verbs_xfer *x = rt_container(pos, struct verbs_xfer, link);
        x->op = NULL;
        x->len = x->pos; /* what is posted still uses it */
    }
}

void verbs_xfers_free(struct verbs_peer *p)
{
    verbs_xfers_drop(p);
    while (!rt_list_empty(&p->xfers))
        finish(rt_container(p->xfers.next, struct verbs_xfer, link));
}

static int start(struct btl_rmem *rmem, size_t off, void *local, size_t len, struct btl_op *op,
                 bool get)
{
    struct verbs_rmem *r = (struct verbs_rmem *)rmem;
    struct verbs_peer *p = r->peer;
    if (off > r->key.len || len > r->key.len - off)
        return -RT_EINVAL;
    if (p->err)
        return p->err;
    if (p->state == VERBS_NEW)
        verbs_wire_start(p);
    if (p->state != VERBS_UP)
        return p->err ? p->err : -RT_EAGAIN;
    struct verbs_xfer *x = calloc(1, sizeof *x);
    if (!x)
        return -RT_ENOMEM;
    x->peer = p;
    x->op = op;
    x->get = get;
    x->local = local;
    x->len = len;
    x->remote = r->key.base + off;
    memcpy(x->rkey, r->key.rkey, sizeof x->rkey);
    rt_list_append(&p->xfers, &x->link);
    post_pieces(p);
    if (x->pos < x->len || x->err || !x->len)
        verbs_peer_work(p);
    return 0;
}

int verbs_put(struct btl_rmem *r, size_t off, struct btl_mem *m, const void *src, size_t len,
              struct btl_op *op)
{
    (void)m;
    return start(r, off, (void *)(uintptr_t)src, len, op, false);
}

int verbs_get(struct btl_rmem *r, size_t off, struct btl_mem *m, void *dst, size_t len,
              struct btl_op *op)
{
    (void)m;
    return start(r, off, dst, len, op, true);
}
