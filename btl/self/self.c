/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of a process to itself.  send() queues a copy, and progress() delivers it: send() must
 * not deliver, because the engine may call send() during a state change.  put and get are memory
 * copies; their completions are queued, too.  The key of registered memory is its address.  The
 * engine serialises calls on the instance. */
#include "btl/self/self.h"
#include "runtime/base/err.h"
#include "runtime/base/list.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Queued message or completion, in the order of the calls, so that done() comes before later
 * messages. */
struct self_item {
    struct rt_list link;
    struct btl_op *op; /* completion to report, or NULL: a message */
    struct btl_hdr hdr;
    size_t len;
    _Alignas(16) char data[];
};

struct btl_self {
    struct btl base;
    struct btl_up up;
    struct btl_peer *peer; /* this process; one only */
    struct rt_list queue;  /* of self_item, oldest first */
    int nqueued;
    struct rt_list spare; /* items of SMALL bytes for reuse, which save malloc() */
};

#define SMALL 256 /* largest payload of a reusable item */
/* Most messages in the queue: more without a receive would use memory without limit.  Then send()
 * returns -RT_EAGAIN. */
#define QUEUE_MAX 4096

struct btl_mem {
    void *base;
};

struct self_key {
    void *base;
};

static struct self_item *item_new(struct btl_self *s, size_t len)
{
    if (len <= SMALL && !rt_list_empty(&s->spare)) {
        struct self_item *i = rt_container(s->spare.next, struct self_item, link);
        rt_list_del(&i->link);
        return i;
    }
    size_t room = len < SMALL ? SMALL : len;
    struct self_item *i = aligned_alloc(16, (sizeof *i + room + 15) / 16 * 16);
    if (i)
        rt_list_init(&i->link);
    return i;
}

static void item_done(struct btl_self *s, struct self_item *i)
{
    if (i->len <= SMALL)
        rt_list_append(&s->spare, &i->link);
    else
        free(i);
}

static void list_free(struct rt_list *l)
{
    struct rt_list *pos, *next;
    rt_list_each_safe (pos, next, l)
        free(rt_container(pos, struct self_item, link));
}

static int self_open(const struct btl_up *up, struct btl **out, int max)
{
    if (max < 1)
        return 0;
    struct btl_self *s = calloc(1, sizeof *s);
    if (!s)
        return -RT_ENOMEM;
    s->up = *up;
    rt_list_init(&s->queue);
    rt_list_init(&s->spare);
    s->base.ops = &btl_self_ops;
    s->base.caps = (struct btl_caps){
        .flags = BTL_PUT | BTL_GET | BTL_PTR,
        .send_mem = RT_MEM_HOST_BITS,
        .rma_mem = RT_MEM_HOST_BITS,
        /* Above this size the copy into the queue costs more than a rendezvous. */
        .eager_max = 16384,
        .key_len = sizeof(struct self_key),
        .latency_ns = 20,
        .mb_per_s = 20000,
        .put_mb_per_s = 20000,
        .get_mb_per_s = 20000,
    };
    out[0] = &s->base;
    return 1;
}

static int self_lanes(void) { return INT_MAX; }

static void self_close(struct btl *b)
{
    struct btl_self *s = (struct btl_self *)b;
    list_free(&s->queue);
    list_free(&s->spare);
    free(s->peer);
    free(s);
}

static int self_address(struct btl *b, void *buf, size_t len)
{
    (void)b;
    (void)buf;
    (void)len;
    return 0;
}

static int self_add_peer(struct btl *b, const struct rt_proc *proc, const void *addr, size_t len,
                         struct btl_peer **out)
{
    struct btl_self *s = (struct btl_self *)b;
    (void)addr;
    (void)len;
    if (proc->ns != 0 || proc->rank != (uint32_t)rt_boot.rank)
        return -RT_EUNREACH;
    if (!s->peer) {
        s->peer = calloc(1, sizeof *s->peer);
        if (!s->peer)
            return -RT_ENOMEM;
        s->peer->btl = b;
        s->peer->proc = *proc;
    }
    *out = s->peer;
    return 0;
}

static void self_del_peer(struct btl_peer *p)
{
    struct btl_self *s = (struct btl_self *)p->btl;
    list_free(&s->queue); /* messages to a peer that has been deleted */
    rt_list_init(&s->queue);
    s->nqueued = 0;
    s->peer = NULL;
    free(p);
}

static int self_send(struct btl_peer *p, const struct btl_hdr *h, const void *buf, size_t len)
{
    struct btl_self *s = (struct btl_self *)p->btl;

    if (s->nqueued >= QUEUE_MAX)
        return -RT_EAGAIN;
    struct self_item *i = item_new(s, len);
    if (!i)
        return -RT_ENOMEM;
    i->op = NULL;
    i->hdr = *h;
    i->len = len;
    if (len)
        memcpy(i->data, buf, len);
    rt_list_append(&s->queue, &i->link);
    s->nqueued++;
    return 0;
}

static int self_mem_reg(struct btl *b, void *base, size_t len, const struct rt_gpu_ptr *at,
                        struct btl_mem **out)
{
    (void)b;
    (void)len;
    (void)at;
    struct btl_mem *m = malloc(sizeof *m);
    if (!m)
        return -RT_ENOMEM;
    m->base = base;
    *out = m;
    return 0;
}

static void self_mem_dereg(struct btl_mem *m) { free(m); }

static int self_mem_key(const struct btl_mem *m, void *key)
{
    memcpy(key, &(struct self_key){ m->base }, sizeof(struct self_key));
    return 0;
}

struct self_rmem {
    struct btl_rmem base;
    struct btl_self *self;
};

static int self_attach(struct btl_peer *p, const void *key, const struct rt_gpu_ptr *near,
                       struct btl_rmem **out)
{
    (void)near;
    struct self_rmem *r = malloc(sizeof *r);
    struct self_key k;

    if (!r)
        return -RT_ENOMEM;
    memcpy(&k, key, sizeof k);
    r->base = (struct btl_rmem){ .ptr = k.base };
    r->self = (struct btl_self *)p->btl;
    *out = &r->base;
    return 0;
}

static void self_detach(struct btl_rmem *r) { free(r); }

static int copy_and_report(struct btl_rmem *r, void *dst, const void *src, size_t len,
                           struct btl_op *op)
{
    struct btl_self *s = ((struct self_rmem *)r)->self;
    struct self_item *i = item_new(s, 0);

    if (!i)
        return -RT_ENOMEM;
    memmove(dst, src, len);
    i->op = op;
    i->len = 0;
    rt_list_append(&s->queue, &i->link);
    s->nqueued++;
    return 0;
}

static int self_put(struct btl_rmem *r, size_t off, struct btl_mem *m, const void *src, size_t len,
                    struct btl_op *op)
{
    (void)m;
    return copy_and_report(r, (char *)r->ptr + off, src, len, op);
}

static int self_get(struct btl_rmem *r, size_t off, struct btl_mem *m, void *dst, size_t len,
                    struct btl_op *op)
{
    (void)m;
    return copy_and_report(r, dst, (const char *)r->ptr + off, len, op);
}

static int self_progress(struct btl *b)
{
    struct btl_self *s = (struct btl_self *)b;
    struct rt_list *last = s->queue.prev; /* items that the upward calls add are handled in the next
                                           * pass */
    bool more = !rt_list_empty(&s->queue);
    int n = 0;

    while (more) {
        struct self_item *i = rt_container(s->queue.next, struct self_item, link);
        more = &i->link != last;
        rt_list_del(&i->link);
        s->nqueued--;
        if (i->op)
            i->op->done(i->op, 0);
        else
            s->up.recv(s->up.arg, s->peer, &i->hdr, i->data, i->len);
        item_done(s, i);
        n++;
    }
    return n;
}

static int self_poll(struct btl_peer *p) { return self_progress(p->btl); }

const struct btl_ops btl_self_ops = {
    .name = "self",
    .help = "messages of a process to itself",
    .open = self_open,
    .lanes = self_lanes,
    .close = self_close,
    .address = self_address,
    .add_peer = self_add_peer,
    .del_peer = self_del_peer,
    .send = self_send,
    .mem_reg = self_mem_reg,
    .mem_dereg = self_mem_dereg,
    .mem_key = self_mem_key,
    .attach = self_attach,
    .detach = self_detach,
    .put = self_put,
    .get = self_get,
    .progress = self_progress,
    .poll = self_poll,
};
