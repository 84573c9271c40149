/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations by messages, the origin's side; answer.c has the answers.  What fits goes inside the
 * message.  Longer puts and gets go as ordinary messages on the window's communicator, so the
 * engine's rendezvous moves them; longer accumulates are cut.  The target executes messages in the
 * order in which they were sent, which is the order of accumulates that the standard requires. */
#include "mpi/rma/message.h"
#include "mpi/p2p/control.h"
#include "mpi/p2p/engine.h"
#include "mpi/p2p/recv.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/send.h"
#include "mpi/rma/acc_device.h"
#include "mpi/rma/map.h"
#include "mpi/rma/type.h"
#include "runtime/base/err.h"
#include <stdlib.h>
#include <string.h>

/* Bytes from which a copy costs more than a write of two parts. */
#define APART_MIN 1024

/* The head of an operation's messages; the target's layout has been sent to its slot before. */
static int head_of(struct wm_rma_op *op, enum wm_rma_code code, struct wm_rma_msg *m)
{
    const struct wm_rma_side *t = &op->a.target;
    bool empty = !op->a.nbytes; /* a notification alone */
    int slot = empty ? (int)WM_RMA_NO_SLOT : wm_rma_slot(op->rma, op->t, &t->type->layout);
    if (slot < 0)
        return slot;
    *m = (struct wm_rma_msg){ .code = (uint8_t)code,
                              .op = op->a.opcode,
                              .flags = op->a.fetches ? WM_RMA_FETCH : 0,
                              .id = op->obj.handle,
                              .disp = empty ? 0 : op->a.disp,
                              .count = slot == WM_RMA_NO_SLOT ? op->a.nbytes : t->count,
                              .slot = (uint16_t)slot };
    if (op->a.what == WM_RMA_DO_PUT)
        m->note = op->a.note;
    if (op->a.what == WM_RMA_DO_ACC || op->a.what == WM_RMA_DO_CAS) {
        m->elem = t->type->basic->layout.elem;
        m->esize = (uint16_t)t->type->basic->layout.size;
    }
    return 0;
}

/* Before a message that is the whole operation.  It asks for its acknowledgement if it has an
 * answer, or if the program has flushed each message so far, so that a flush costs no message. */
static void will_be_acked(struct wm_rma_op *op, struct wm_rma_msg *m, bool answer)
{
    struct wm_rma_target *t = op->t;
    uint32_t seq = t->msg.sent + 1;
    if (answer) {
        op->acks = true;
        op->seq = seq;
    } else if (t->msg.acks && t->msg.acked == t->msg.sent) {
        m->flags |= WM_RMA_ACK;
        m->id = seq;
    }
}

static void count_message(struct wm_rma_op *op, const struct wm_rma_msg *m)
{
    struct wm_rma_target *t = op->t;
    t->msg.sent++;
    if (op->acks || m->flags & WM_RMA_ACK)
        t->msg.flushed = t->msg.sent;
}

/* Sends a head and `len` bytes of the origin's packed data from `pos` on. */
static int send_data(struct wm_rma_op *op, struct wm_rma_msg *m, int64_t pos, int64_t len)
{
    const struct wm_rma_side *o = &op->a.origin;
    char *msg = wm_rma_scratch(sizeof *m + (size_t)len);
    if (!msg)
        return -RT_ENOMEM;
    if (op->a.what != WM_RMA_DO_PUT)
        m->pos = pos;
    m->len = (uint32_t)len;
    memcpy(msg, m, sizeof *m);
    if (rt_unlikely(op->a.on_device & WM_RMA_ORIGIN)) {
        int err = wm_rma_pack(wm_rma_mem(&op->a, WM_RMA_ORIGIN), &o->type->layout, o->count, o->buf,
                              pos, msg + sizeof *m, len);
        if (err < 0)
            return err;
    } else if (o->type && len && o->type->layout.contig)
        memcpy(msg + sizeof *m, o->buf + pos, (size_t)len);
    else if (o->type && len)
        rt_layout_pack(&o->type->layout, o->count, o->buf, pos, msg + sizeof *m, len);
    else
        len = 0; /* MPI_NO_OP */
    count_message(op, m);
    return wm_try_ctl(op->rma->dom, op->t->msg.peer, wm_rma_hdr(op->rma), msg,
                      (uint32_t)(sizeof *m + (size_t)len));
}

/* All has been sent.  If no answer is expected, the operation is complete for this process. */
static int sent(struct wm_rma_op *op, bool answer)
{
    if (!answer) {
        wm_rma_op_done(op, 0);
        return 0;
    }
    rt_list_del(&op->link);
    rt_list_append(&op->t->flight, &op->link);
    return 0;
}

/* ---- data as ordinary messages ---- */

/* One of the two messages of a fetching accumulate has ended. */
static void fetch_ended(struct wm_rma_op *op, int err)
{
    op->err = op->err ? op->err : err;
    if (!op->bulk_req && !op->result_req)
        wm_rma_op_done(op, 0);
}

static void bulk_ended(struct wm_rma_op *op, int err)
{
    op->bulk_req = NULL;
    if (op->folds && op->a.fetches) {
        fetch_ended(op, err);
        return;
    }
    wm_rma_op_local(op, err);
    if (op->a.what == WM_RMA_DO_GET || op->answered || err)
        wm_rma_op_done(op, err);
}

static void bulk_done(struct rt_req *q, void *arg)
{
    int err = q->err;
    if (q->status.cancelled)
        err = -RT_ERANGE;
    wm_req_release(q);
    bulk_ended(arg, err);
}

static void bulk_begun(struct wm_rma_op *op, struct rt_req *q)
{
    if (!rt_req_done(q)) {
        op->bulk_req = q;
        q->notify = bulk_done;
        q->arg = op;
        return;
    }
    int err = q->err;
    wm_req_release(q);
    bulk_ended(op, err);
}

static void result_done(struct rt_req *q, void *arg)
{
    struct wm_rma_op *op = arg;
    int err = q->status.cancelled ? -RT_ERANGE : q->err;
    wm_req_release(q);
    op->result_req = NULL;
    fetch_ended(op, err);
}

static struct wm_msg bulk_msg(const struct wm_rma_op *op, const struct wm_rma_side *o,
                              bool to_origin)
{
    return (struct wm_msg){ .buf = o->buf,
                            .count = o->count,
                            .layout = &o->type->layout,
                            .comm = op->rma->comm,
                            .peer = op->t->rank,
                            .tag = wm_rma_tag(op->obj.handle, to_origin),
                            .coll = true };
}

/* The head of an operation whose data do not lie behind it. */
static int send_head(struct wm_rma_op *op, const struct wm_rma_msg *m)
{
    struct {
        struct wm_rma_msg m;
        char key[WM_RMA_KEY];
    } msg = { .m = *m };
    bool lent = m->code == WM_RMA_ACC_BULK && wm_rma_lend(op, msg.key);
    if (lent)
        msg.m.flags |= WM_RMA_LENT;
    op->t->msg.sent++;
    return wm_try_ctl(op->rma->dom, op->t->msg.peer, wm_rma_hdr(op->rma), &msg,
                      lent ? sizeof msg : sizeof msg.m);
}

int wm_rma_bulk_data(struct wm_rma_op *op)
{
    struct wm_msg msg = bulk_msg(op, &op->a.origin, false);
    struct rt_req *q;
    int err = wm_p2p_isend(&msg, WM_STANDARD, &q);
    if (err >= 0)
        bulk_begun(op, q);
    return err < 0 ? err : 0;
}

static int bulk_send(struct wm_rma_op *op, enum wm_rma_code code)
{
    struct wm_rma_msg m;
    int err = head_of(op, code, &m);
    if (!err)
        err = send_head(op, &m);
    if (err < 0)
        return err;
    sent(op, true);
    return op->lent.mem ? 0 : wm_rma_bulk_data(op);
}

/* The message and the announcement of the data leave together. */
static int put_bulk(struct wm_rma_op *op, enum wm_rma_code code)
{
    struct btl *b = op->t->msg.peer->eager->btl;
    if (b->ops->hold)
        b->ops->hold(b);
    int err = bulk_send(op, code);
    if (b->ops->hold)
        b->ops->release(b);
    return err;
}

static int get_bulk(struct wm_rma_op *op)
{
    struct wm_msg msg = bulk_msg(op, &op->a.origin, true);
    struct wm_rma_msg m;
    struct rt_req *q;
    int err = head_of(op, WM_RMA_GET_BULK, &m);
    if (!err)
        err = wm_p2p_irecv(&msg, &q);
    if (err < 0)
        return err;
    sent(op, true);
    op->bulk_req = q; /* a receive that was just posted is not complete */
    q->notify = bulk_done;
    q->arg = op;
    op->t->msg.sent++;
    op->err = wm_try_ctl(op->rma->dom, op->t->msg.peer, wm_rma_hdr(op->rma), &m, sizeof m);
    if (op->err < 0)
        q->ops->cancel(q);
    return 0;
}

/* ---- by kind ---- */

/* The transport takes the data from the user's buffer.  Shorter data are copied behind the head. */
static bool goes_apart(const struct wm_rma_op *op)
{
    const struct wm_peer *p = op->t->msg.peer;
    return op->a.nbytes >= APART_MIN && op->a.nbytes <= p->eager_max &&
           p->eager->btl->ops->send_head && !(op->a.on_device & WM_RMA_ORIGIN) &&
           op->a.origin.type->layout.contig;
}

static int put_apart(struct wm_rma_op *op)
{
    struct {
        _Alignas(WM_RMA_HEAD) struct wm_rma_msg m;
    } head = { 0 };
    struct btl_peer *to = op->t->msg.peer->eager;
    struct btl_hdr hdr = wm_rma_hdr(op->rma);
    int err = head_of(op, WM_RMA_PUT, &head.m);
    if (err < 0)
        return err;
    will_be_acked(op, &head.m, false);
    head.m.flags |= WM_RMA_APART;
    head.m.len = (uint32_t)op->a.nbytes;
    err = to->btl->ops->send_head(to, &hdr, &head, sizeof head, op->a.origin.buf, head.m.len);
    if (err < 0)
        return err;
    count_message(op, &head.m);
    return sent(op, false);
}

static int send_put(struct wm_rma_op *op)
{
    struct wm_rma_msg m;
    if (goes_apart(op))
        return put_apart(op);
    if (op->a.nbytes > (int64_t)wm_rma_room(op->t->msg.peer))
        return put_bulk(op, WM_RMA_PUT_BULK);
    int err = head_of(op, WM_RMA_PUT, &m);
    if (err < 0)
        return err;
    will_be_acked(op, &m, false);
    err = send_data(op, &m, 0, op->a.nbytes);
    return err < 0 ? err : sent(op, false);
}

static int send_get(struct wm_rma_op *op)
{
    struct wm_rma_msg m;
    if (op->a.nbytes > (int64_t)wm_rma_room(op->t->msg.peer))
        return get_bulk(op);
    int err = head_of(op, WM_RMA_GET, &m);
    if (err < 0)
        return err;
    m.len = (uint32_t)op->a.nbytes;
    will_be_acked(op, &m, true);
    count_message(op, &m);
    sent(op, true);
    return wm_try_ctl(op->rma->dom, op->t->msg.peer, wm_rma_hdr(op->rma), &m, sizeof m);
}

/* The target's data are contiguous in the memory of a device of this host, whose kernel reduces
 * them at once (acc_bulk.c). */
static bool folds_at_once(const struct wm_rma_op *op)
{
    const struct wm_rma_target *t = op->t;
    return op->a.nbytes > (int64_t)wm_rma_room(t->msg.peer) && t->ctl &&
           rt_load_acquire(&t->ctl->on_device) && op->a.target.type->layout.contig;
}

/* No result will come; result_done() ends the operation. */
void wm_rma_fetch_fails(struct wm_rma_op *op, int err)
{
    op->err = op->err ? op->err : err;
    if (op->result_req)
        op->result_req->ops->cancel(op->result_req);
}

/* The result comes as an ordinary message, too. */
static int fetch_bulk(struct wm_rma_op *op)
{
    struct wm_msg to = bulk_msg(op, &op->a.result, true);
    struct wm_rma_msg m;
    int err = head_of(op, WM_RMA_ACC_BULK, &m);
    if (!err)
        err = wm_p2p_irecv(&to, &op->result_req);
    if (err < 0)
        return err;
    sent(op, true);
    op->result_req->notify = result_done; /* it was just posted, and is not complete */
    op->result_req->arg = op;
    err = send_head(op, &m);
    if (!err && op->a.origin.type && !op->lent.mem)
        err = wm_rma_bulk_data(op);
    if (err < 0)
        wm_rma_fetch_fails(op, err);
    return 0;
}

static int acc_bulk(struct wm_rma_op *op)
{
    op->folds = true;
    op->t->device.nfolds++;
    return op->a.fetches ? fetch_bulk(op) : put_bulk(op, WM_RMA_ACC_BULK);
}

/* In parts, as long as the connection accepts them. */
static int send_acc(struct wm_rma_op *op)
{
    struct wm_rma_msg m;
    int64_t esize = op->a.target.type->basic->layout.size;
    int64_t most = (int64_t)wm_rma_room(op->t->msg.peer) / esize * esize;
    if (!op->pos && folds_at_once(op))
        return acc_bulk(op);
    int err = head_of(op, WM_RMA_ACC, &m);
    if (!err && op->a.nbytes <= most)
        will_be_acked(op, &m, op->a.fetches);
    while (!err && op->pos < op->a.nbytes) {
        if (op->t->msg.peer->blocked && op->pos)
            return op->t->msg.peer->err ? op->t->msg.peer->err : -RT_EAGAIN;
        int64_t n = op->a.nbytes - op->pos < most ? op->a.nbytes - op->pos : most;
        int64_t pos = op->pos;
        op->pos += n;
        err = send_data(op, &m, pos, n);
    }
    return err < 0 ? err : sent(op, op->a.fetches);
}

static int operand(const struct wm_rma_op *op, int which, const void *from, char *to)
{
    if (op->a.on_device & which)
        return wm_rma_pack(wm_rma_mem(&op->a, which), &op->a.target.type->layout, 1, from, 0, to,
                           op->a.nbytes);
    memcpy(to, from, (size_t)op->a.nbytes);
    return 0;
}

static int send_cas(struct wm_rma_op *op)
{
    struct {
        struct wm_rma_msg m;
        char value[32];
    } msg;
    size_t n = (size_t)op->a.nbytes;
    int err = head_of(op, WM_RMA_CAS, &msg.m);
    if (!err)
        err = operand(op, WM_RMA_COMPARE, op->a.compare, msg.value);
    if (!err)
        err = operand(op, WM_RMA_ORIGIN, op->a.origin.buf, msg.value + n);
    if (err < 0)
        return err;
    msg.m.len = (uint32_t)n;
    will_be_acked(op, &msg.m, true);
    count_message(op, &msg.m);
    sent(op, true);
    return wm_try_ctl(op->rma->dom, op->t->msg.peer, wm_rma_hdr(op->rma), &msg,
                      (uint32_t)(sizeof msg.m + 2 * n));
}

int wm_rma_am_send(struct wm_rma_op *op)
{
    struct wm_peer *p = op->t->msg.peer;
    /* no copy of the data is made while the connection is full: the user's buffer holds them */
    if (p->blocked)
        return -RT_EAGAIN;
    if ((op->t->device.nfolds || op->t->device.nchanges) &&
        op->a.what >= WM_RMA_DO_ACC) /* they are ordered */
        return -RT_EAGAIN;
    wm_rma_activate(op->rma, op->t);
    switch (op->a.what) {
    case WM_RMA_DO_PUT:
        return send_put(op);
    case WM_RMA_DO_GET:
        return send_get(op);
    case WM_RMA_DO_ACC:
        return send_acc(op);
    default:
        return send_cas(op);
    }
}
