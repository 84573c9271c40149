/* SPDX-License-Identifier: BSD-3-Clause */
/* The target's side of messages: operations, locks and completions of origins that do not reach
 * this process's memory or control blocks.  Called from the transports' upcall, so nothing here
 * waits for another process; a stripe is held for microseconds. */
#include "mpi/rma/message.h"
#include "mpi/p2p/control.h"
#include "mpi/p2p/engine.h"
#include "mpi/p2p/malformed.h"
#include "mpi/p2p/recv.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/send.h"
#include "mpi/rma/acc.h"
#include "mpi/rma/acc_device.h"
#include "mpi/rma/element.h"
#include "mpi/rma/lock.h"
#include "mpi/rma/map.h"
#include "mpi/rma/net.h"
#include "mpi/rma/notify.h"
#include "mpi/rma/origin.h"
#include "mpi/rma/progress.h"
#include "mpi/rma/range.h"
#include "mpi/rma/type.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include <stdlib.h>
#include <string.h>

/* A message of one origin, with where its data go. */
struct job {
    struct wm_rma *r;
    struct wm_rma_origin *o;
    const struct wm_rma_msg *m;
    const char *data;
    char *base; /* first element in this process's memory */
    int64_t count;
    struct rt_layout contig; /* in place of a slot */
    const struct rt_layout *layout;
    const struct wm_mem *mem; /* of the data if they are device memory; NULL */
    struct wm_mem found;
};

/* A transfer by an ordinary message. */
struct transfer {
    struct wm_rma *r;
    struct wm_peer *peer;
    uint32_t id;
    bool put;
    int note; /* of a put */
    int err;
    struct rt_layout layout;
    void *discard; /* buffer for data that are out of range */
};

/* Memory of a dynamic window may be of several kinds: each message's is resolved. */
static int resolve(struct job *j)
{
    int64_t nbytes = j->count * j->layout->size;
    j->mem = nbytes ? wm_rma_own(j->r) : NULL;
    if (j->mem || !nbytes)
        return 0;
    int err = wm_resolve(j->base, j->count, j->layout, nbytes, &j->found);
    j->mem = err >= 0 && j->found.kind != WM_MEMORY_HOST ? &j->found : NULL;
    return err;
}

/* Finds the memory that a message names.  0, or -RT_ERANGE: outside of the window. */
static int locate(struct job *j)
{
    const struct wm_rma_msg *m = j->m;
    int64_t at, low = 0, high = m->count;
    j->count = m->count;
    if (m->slot == WM_RMA_NO_SLOT) {
        int64_t each = m->esize ? m->esize : 1;
        j->count = m->count / each;
        rt_layout_basic(&j->contig, each, each, m->elem);
        j->layout = &j->contig;
    } else {
        j->layout = m->slot < WM_RMA_SLOTS ? j->o->layouts.slot[m->slot] : NULL;
        if (!j->layout)
            wm_malformed(&j->o->peer->proc, "layout %u of a window, which it has not sent",
                         m->slot);
        wm_rma_span(j->layout, m->count, &low, &high);
    }
    if (__builtin_mul_overflow(m->disp, j->r->memory.unit, &at) ||
        __builtin_add_overflow(at, low, &low) || __builtin_add_overflow(at, high, &high))
        return -RT_ERANGE;
    if (!wm_rma_in_window(j->r, low, high) &&
        (j->r->win->flavor != MPI_WIN_FLAVOR_DYNAMIC || m->slot == WM_RMA_NO_SLOT ||
         !wm_rma_pieces_in_window(j->r, j->layout, m->count, at)))
        return -RT_ERANGE;
    j->base = (char *)((uintptr_t)j->r->memory.base + (uintptr_t)at);
    return rt_unlikely(j->r->shared.ctl->on_device) ? resolve(j) : 0;
}

static void answer(struct job *j, int code, int64_t value)
{
    wm_rma_send(j->r, j->o->peer, code, j->m->id, value);
}

static void send_data(struct job *j, char *msg, int64_t pos, int64_t len)
{
    struct wm_rma_msg m = { .code = WM_RMA_DATA, .id = j->m->id, .pos = pos, .len = (uint32_t)len };
    memcpy(msg, &m, sizeof m);
    wm_send_ctl(j->r->dom, j->o->peer, wm_rma_hdr(j->r), msg, (uint32_t)(sizeof m + (size_t)len));
}

static char *room_for(int64_t len)
{
    char *msg = wm_rma_scratch(sizeof(struct wm_rma_msg) + (size_t)len);
    if (!msg)
        rt_boot_abort(1, "out of memory for an answer of a window");
    return msg;
}

static int on_put(struct job *j)
{
    int err = 0;
    if (rt_unlikely(j->mem))
        err = wm_rma_unpack(j->mem, j->layout, j->count, j->base, 0, j->data, j->m->len);
    else if (j->layout->contig && j->m->len)
        memcpy(j->base, j->data, j->m->len);
    else if (j->m->len)
        rt_layout_unpack(j->layout, j->count, j->base, 0, j->data, j->m->len);
    if (j->m->note && !err)
        wm_rma_notify(j->r->shared.ctl, (int)j->m->note);
    return err;
}

static int on_get(struct job *j)
{
    char *msg = room_for(j->m->len), *to = msg + sizeof(struct wm_rma_msg);
    int err = 0;
    if (rt_unlikely(j->mem))
        err = wm_rma_pack(j->mem, j->layout, j->count, j->base, 0, to, j->m->len);
    else if (j->layout->contig)
        memcpy(to, j->base, j->m->len);
    else
        rt_layout_pack(j->layout, j->count, j->base, 0, to, j->m->len);
    if (!err)
        send_data(j, msg, 0, j->m->len);
    return err;
}

static struct wm_rma_acc acc_of(const struct job *j)
{
    return (struct wm_rma_acc){ .rma = j->r,
                                .ctl = j->r->shared.ctl,
                                .cma = -1,
                                .zero = j->r->memory.base,
                                .base = j->base,
                                .count = j->count,
                                .layout = j->layout,
                                .mem = j->mem,
                                .atomic = j->r->shared.ctl->atomic,
                                .op = j->m->op,
                                .elem = j->m->elem,
                                .esize = j->m->esize,
                                .pos = j->m->pos,
                                .len = j->m->len,
                                .origin = j->data };
}

static int on_acc(struct job *j)
{
    struct wm_rma_acc a = acc_of(j);
    bool fetch = j->m->flags & WM_RMA_FETCH;
    char *msg = fetch ? room_for(j->m->len) : NULL;
    a.result = fetch ? msg + sizeof(struct wm_rma_msg) : NULL;
    int err = wm_rma_acc(&a);
    if (!err && fetch)
        send_data(j, msg, j->m->pos, j->m->len);
    return err;
}

static int on_cas(struct job *j)
{
    struct wm_rma_acc a = acc_of(j);
    char *msg = room_for(j->m->len);
    a.origin = j->data + j->m->len;
    a.result = msg + sizeof(struct wm_rma_msg);
    int err = wm_rma_cas(&a, j->data);
    if (!err)
        send_data(j, msg, 0, j->m->len);
    return err;
}

/* ---- data as ordinary messages ---- */

static void transfer_end(struct transfer *x, int err)
{
    err = x->err ? x->err : err;
    if (x->note && !err)
        wm_rma_notify(x->r->shared.ctl, x->note);
    if (x->put || err)
        wm_rma_send(x->r, x->peer, WM_RMA_DONE, x->id, err);
    x->r->service.nserving--;
    rt_layout_fini(&x->layout);
    free(x->discard);
    free(x);
}

static void transfer_done(struct rt_req *q, void *arg)
{
    int err = q->err;
    wm_req_release(q);
    transfer_end(arg, err);
}

/* Data of a put that is out of range must be received as well. */
static int discard(struct job *j, struct transfer *x, int64_t nbytes)
{
    x->discard = malloc((size_t)nbytes);
    if (!x->discard)
        rt_boot_abort(1, "out of memory to receive a put that is outside of its window");
    j->base = x->discard;
    j->count = nbytes;
    return rt_layout_basic(&x->layout, 1, 1, RT_ELEM_NONE);
}

static void on_bulk(struct job *j, int err)
{
    bool put = j->m->code != WM_RMA_GET_BULK;
    int64_t nbytes = j->count * j->layout->size;
    if (err && !put) {
        answer(j, WM_RMA_DONE, err);
        return;
    }
    struct transfer *x = calloc(1, sizeof *x);
    if (!x)
        rt_boot_abort(1, "out of memory for a transfer of a window");
    *x = (struct transfer){ .r = j->r,
                            .peer = j->o->peer,
                            .id = j->m->id,
                            .put = put,
                            .note = j->m->code == WM_RMA_PUT_BULK ? (int)j->m->note : 0,
                            .err = err };
    if (err)
        discard(j, x, nbytes);
    else
        rt_layout_dup(&x->layout, j->layout);
    struct wm_msg msg = { .buf = j->base,
                          .count = j->count,
                          .layout = &x->layout,
                          .comm = j->r->comm,
                          .peer = j->o->rank,
                          .tag = wm_rma_tag(j->m->id, !put),
                          .coll = true,
                          .mem = err ? NULL : j->mem };
    struct rt_req *q;
    j->r->service.nserving++;
    err = put ? wm_p2p_irecv(&msg, &q) : wm_p2p_isend(&msg, WM_STANDARD, &q);
    if (err < 0) {
        transfer_end(x, err);
    } else if (rt_req_done(q)) {
        transfer_done(q, x);
    } else {
        q->notify = transfer_done;
        q->arg = x;
    }
}

/* ---- synchronisation ---- */

static void lock_granted(struct wm_rma *r, struct wm_rma_want *w)
{
    struct wm_rma_origin *o = rt_container(w, struct wm_rma_origin, want);
    if (o->peer->err)
        wm_rma_release(r, w);
    else
        wm_rma_send(r, o->peer, WM_RMA_GRANT, 0, 0);
}

static void on_lock(struct job *j)
{
    j->o->want.granted = lock_granted;
    if (wm_rma_want(j->r, &j->o->want, (enum wm_want_kind)j->m->value, j->r->shared.ctl))
        lock_granted(j->r, &j->o->want);
}

static void on_unlock(struct job *j)
{
    wm_rma_release(j->r, &j->o->want);
    if (j->m->id)
        answer(j, WM_RMA_FLUSHED, j->m->value);
}

static void failed(struct job *j, int err)
{
    bool answers = j->m->code != WM_RMA_PUT &&
                   (j->m->code != WM_RMA_ACC || j->m->flags & WM_RMA_FETCH);
    /* if an accumulate is out of range, so are all of its parts, and one answer is enough; of other
     * answers the origin takes the first */
    if (answers && (j->m->pos == 0 || err != -RT_ERANGE))
        answer(j, WM_RMA_DONE, err);
    else if (!answers)
        answer(j, WM_RMA_FAILED, err);
}

static void on_acc_bulk(struct job *j)
{
    struct wm_rma_acc a = acc_of(j);
    a.len = j->count * j->layout->size;
    wm_rma_fold_begin(j->r, j->o, j->m->id, &a, j->m->flags & WM_RMA_FETCH,
                      j->m->flags & WM_RMA_LENT ? j->data : NULL);
}

static void operation(struct job *j)
{
    int err = locate(j);
    if (j->m->code == WM_RMA_ACC_BULK && !err) {
        on_acc_bulk(j);
        return;
    }
    bool data = j->m->op != RT_OP_NO_OP && !(j->m->flags & WM_RMA_LENT); /* follow */
    if (j->m->code == WM_RMA_PUT_BULK || j->m->code == WM_RMA_GET_BULK ||
        (j->m->code == WM_RMA_ACC_BULK && data)) {
        on_bulk(j, err);
        return;
    }
    if (!err)
        err = j->m->code == WM_RMA_PUT   ? on_put(j)
              : j->m->code == WM_RMA_GET ? on_get(j)
              : j->m->code == WM_RMA_ACC ? on_acc(j)
                                         : on_cas(j);
    if (err)
        failed(j, err);
    if (j->m->flags & WM_RMA_ACK)
        answer(j, WM_RMA_FLUSHED, j->m->id);
}

static void on_type(struct job *j)
{
    int err = wm_rma_on_type(&j->o->layouts, j->m, j->data);
    if (err == -RT_ENOMEM)
        rt_boot_abort(1, "out of memory for the datatype of a window's operation");
    if (err < 0)
        rt_boot_abort(1, "a process of a window sent a datatype that cannot be read; all processes "
                         "must run the same version of this library");
}

static void dispatch(struct job *j)
{
    switch (j->m->code) {
    case WM_RMA_TYPE:
        on_type(j);
        return;
    case WM_RMA_LOCK:
        on_lock(j);
        return;
    case WM_RMA_UNLOCK:
        on_unlock(j);
        return;
    case WM_RMA_FLUSH:
        answer(j, WM_RMA_FLUSHED, j->m->value);
        return;
    case WM_RMA_KEY_ASKED:
        wm_rma_net_on_ask(j->r, j->o->peer);
        return;
    case WM_RMA_COMPLETE:
        j->r->epoch.ncompleted++;
        return;
    default:
        operation(j);
    }
}

/* ---- messages that wait while a kernel reduces ---- */

struct deferred {
    struct rt_list link;
    struct wm_peer *from;
    int rank;
    struct wm_rma_msg m;
    _Alignas(16) char data[];
};

static void defer(struct wm_rma *r, struct wm_peer *from, int rank, const struct wm_rma_msg *m,
                  const char *data, size_t len)
{
    struct deferred *w = malloc(sizeof *w + len);
    if (!w)
        rt_boot_abort(1, "out of memory for a message of a window");
    *w = (struct deferred){ .from = from, .rank = rank, .m = *m };
    memcpy(w->data, data, len);
    rt_list_append(&r->service.deferred, &w->link);
    wm_rma_pump_need(r);
}

void wm_rma_deferred_run(struct wm_rma *r)
{
    while (!r->service.folding && !rt_list_empty(&r->service.deferred)) {
        struct deferred *w = rt_container(r->service.deferred.next, struct deferred, link);
        struct job j = {
            .r = r, .o = wm_rma_origin(r, w->rank, w->from), .m = &w->m, .data = w->data
        };
        rt_list_del(&w->link);
        dispatch(&j);
        free(w);
    }
}

void wm_rma_serve(struct wm_rma *r, struct wm_peer *from, int rank, const struct wm_rma_msg *m,
                  const char *data, size_t len)
{
    if (rt_unlikely(r->service.folding || !rt_list_empty(&r->service.deferred))) {
        defer(r, from, rank, m, data, len);
        return;
    }
    struct job j = { .r = r, .o = wm_rma_origin(r, rank, from), .m = m, .data = data };
    dispatch(&j);
}
