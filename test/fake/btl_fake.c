/* SPDX-License-Identifier: BSD-3-Clause */
/* The fake transport.  Time is the number of progress calls.  Every message and operation gets a
 * due time from the seed, never earlier than the previous one in the same direction, so a pair of
 * ranks stays in order and different pairs do not.  Single-threaded. */
#include "test/fake/btl_fake.h"
#include "btl/all/all.h"
#include "runtime/base/err.h"
#include "runtime/base/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct btl_mem {
    char *base;
    size_t len;
    uint64_t id; /* never reused; 0 once deregistered */
    struct rt_list link;
};

struct fake_key {
    struct btl_mem *mem; /* freed only by fake_net_reset(), so that a stale key is detected */
    uint64_t id;
};

struct fake_peer {
    struct btl_peer base;
    int rank;
    bool told; /* down() has been called */
};

struct fake_btl {
    struct btl base;
    struct btl_up up;
    int rank;
    struct fake_peer *peers[FAKE_RANKS_MAX];
    struct rt_list ops; /* puts and gets started by this rank */
};

struct fake_rmem {
    struct btl_rmem base;
    struct fake_peer *peer;
    struct fake_key key;
};

struct item { /* a message in flight, or an operation in progress */
    struct rt_list link;
    uint64_t due;
    struct btl_hdr hdr;
    struct fake_rmem *rmem; /* operation: */
    struct btl_op *op;
    char *local;
    size_t off;
    bool get;
    size_t len;
    char data[]; /* message: */
};

struct queue {
    struct rt_list items;
    uint64_t last_due;
    uint32_t n;
};

struct state {
    uint64_t now, next_id;
    uint32_t rng;
    struct fake_btl *inst[FAKE_RANKS_MAX];
    struct queue q[FAKE_RANKS_MAX][FAKE_RANKS_MAX]; /* [from][to] */
    bool dead[FAKE_RANKS_MAX];
    struct rt_list mems; /* every btl_mem ever made */
};

struct fake_net fake_net;

static struct state *state(void)
{
    struct state *s = fake_net.state;

    if (s)
        return s;
    s = calloc(1, sizeof *s);
    s->rng = fake_net.seed * 2654435761u + 1;
    for (int i = 0; i < FAKE_RANKS_MAX; i++)
        for (int k = 0; k < FAKE_RANKS_MAX; k++)
            rt_list_init(&s->q[i][k].items);
    rt_list_init(&s->mems);
    fake_net.state = s;
    return s;
}

static uint32_t rnd(uint32_t n)
{
    struct state *s = state();
    s->rng = s->rng * 1664525u + 1013904223u;
    return n ? (uint32_t)((uint64_t)(s->rng >> 8) * n >> 24) : 0;
}

static void violation(const char *what)
{
    fake_net.violations++;
    printf("# fake transport: %s\n", what);
}

/* 0, or the error that the test has injected for this call. */
static int wanted_error(void)
{
    fake_net.calls++;
    return fake_net.fail_call == fake_net.calls ? fake_net.fail_err : 0;
}

static bool refuse(void) { return rnd(100) < fake_net.eagain_percent; }

static void items_free(struct rt_list *l)
{
    struct rt_list *pos, *next;
    rt_list_each_safe (pos, next, l)
        free(rt_container(pos, struct item, link));
    rt_list_init(l);
}

/* Appends in order, after everything already in the queue. */
static void enqueue(struct queue *q, struct item *i)
{
    uint64_t due = state()->now + rnd(fake_net.delay_max + 1);

    i->due = due > q->last_due ? due : q->last_due;
    q->last_due = i->due;
    q->n++;
    rt_list_append(&q->items, &i->link);
}

static int fake_open(const struct btl_up *up, struct btl **out, int max)
{
    int err = wanted_error();
    if (err || max < 1)
        return err;
    struct fake_btl *b = calloc(1, sizeof *b);
    b->up = *up;
    b->rank = fake_net.me;
    rt_list_init(&b->ops);
    b->base.ops = &btl_fake_ops;
    b->base.caps = (struct btl_caps){
        .flags = (fake_net.no_put ? 0 : BTL_PUT) | (fake_net.no_get ? 0 : BTL_GET),
        .send_mem = RT_MEM_HOST_BITS,
        .rma_mem = RT_MEM_HOST_BITS,
        .eager_max = fake_net.eager_max ? fake_net.eager_max : 1024,
        .key_len = sizeof(struct fake_key),
        .latency_ns = 1,
        .mb_per_s = 1000,
        .put_mb_per_s = fake_net.no_put ? 0 : 1000,
        .get_mb_per_s = fake_net.no_get ? 0 : 1000,
    };
    state()->inst[b->rank] = b;
    out[0] = &b->base;
    return 1;
}

static void fake_close(struct btl *btl)
{
    struct fake_btl *b = (struct fake_btl *)btl;

    state()->inst[b->rank] = NULL;
    items_free(&b->ops);
    for (int r = 0; r < FAKE_RANKS_MAX; r++)
        free(b->peers[r]);
    free(b);
}

static int fake_address(struct btl *b, void *buf, size_t len)
{
    (void)b;
    (void)buf;
    (void)len;
    return 0;
}

static struct fake_peer *peer_get(struct fake_btl *b, int rank)
{
    if (!b->peers[rank]) {
        struct fake_peer *p = calloc(1, sizeof *p);
        p->base = (struct btl_peer){ .btl = &b->base, .proc = { 0, (uint32_t)rank } };
        p->rank = rank;
        b->peers[rank] = p;
    }
    return b->peers[rank];
}

static int fake_add_peer(struct btl *btl, const struct rt_proc *proc, const void *addr, size_t len,
                         struct btl_peer **out)
{
    (void)addr;
    (void)len;
    int err = wanted_error();
    if (err)
        return err;
    if (proc->ns || proc->rank >= (uint32_t)fake_net.nranks)
        return -RT_EUNREACH;
    *out = &peer_get((struct fake_btl *)btl, (int)proc->rank)->base;
    return 0;
}

static void fake_del_peer(struct btl_peer *p) { p->up = NULL; }

static int from_of(const struct btl_peer *p) { return ((struct fake_btl *)p->btl)->rank; }

static int fake_send(struct btl_peer *peer, const struct btl_hdr *h, const void *buf, size_t len)
{
    struct fake_peer *p = (struct fake_peer *)peer;
    struct queue *q = &state()->q[from_of(peer)][p->rank];
    int err = wanted_error();

    if (err)
        return err;
    if (state()->dead[p->rank])
        return -RT_EPEER;
    if (len > peer->btl->caps.eager_max)
        violation("a message longer than eager_max");
    if (refuse() || q->n >= (fake_net.depth ? fake_net.depth : 64))
        return -RT_EAGAIN;
    struct item *i = calloc(1, sizeof *i + len);
    i->hdr = *h;
    i->len = len;
    if (len)
        memcpy(i->data, buf, len);
    enqueue(q, i);
    return 0;
}

static int fake_mem_reg(struct btl *b, void *base, size_t len, const struct rt_gpu_ptr *at,
                        struct btl_mem **out)
{
    (void)b;
    (void)at;
    int err = wanted_error();
    if (err)
        return err;
    struct btl_mem *m = calloc(1, sizeof *m);
    m->base = base;
    m->len = len;
    m->id = ++state()->next_id;
    rt_list_append(&state()->mems, &m->link);
    fake_net.live_mem++;
    *out = m;
    return 0;
}

static void fake_mem_dereg(struct btl_mem *m)
{
    if (!m->id)
        violation("memory deregistered twice");
    m->id = 0;
    fake_net.live_mem--;
}

static int fake_mem_key(const struct btl_mem *m, void *key)
{
    struct fake_key k = { (struct btl_mem *)(uintptr_t)m, m->id };
    memcpy(key, &k, sizeof k);
    return 0;
}

static int fake_attach(struct btl_peer *p, const void *key, const struct rt_gpu_ptr *near,
                       struct btl_rmem **out)
{
    (void)near;
    int err = wanted_error();
    if (err)
        return err;
    struct fake_rmem *r = calloc(1, sizeof *r);
    r->peer = (struct fake_peer *)p;
    memcpy(&r->key, key, sizeof r->key);
    fake_net.live_rmem++;
    *out = &r->base;
    return 0;
}

static void fake_detach(struct btl_rmem *rmem)
{
    struct fake_rmem *r = (struct fake_rmem *)rmem;
    struct rt_list *pos;
    bool used = false;

    rt_list_each (pos, &((struct fake_btl *)r->peer->base.btl)->ops)
        used = used || rt_container(pos, struct item, link)->rmem == r;
    if (used) {
        violation("memory detached while an operation uses it");
        return; /* leaked on purpose: the operation still reads it */
    }
    fake_net.live_rmem--;
    free(r);
}

static int start(struct btl_rmem *rmem, size_t off, void *local, size_t len, bool get,
                 struct btl_op *op)
{
    struct fake_rmem *r = (struct fake_rmem *)rmem;
    struct fake_btl *b = (struct fake_btl *)r->peer->base.btl;
    int err = wanted_error();

    if (err)
        return err;
    if (state()->dead[r->peer->rank])
        return -RT_EPEER;
    if (r->key.mem->id == r->key.id && (off > r->key.mem->len || len > r->key.mem->len - off))
        return -RT_EINVAL;
    if (refuse())
        return -RT_EAGAIN;
    struct item *i = calloc(1, sizeof *i);
    i->rmem = r;
    i->op = op;
    i->local = local;
    i->off = off;
    i->len = len;
    i->get = get;
    i->due = state()->now + rnd(fake_net.delay_max + 1);
    rt_list_append(&b->ops, &i->link);
    fake_net.live_ops++;
    return 0;
}

static int fake_put(struct btl_rmem *r, size_t off, struct btl_mem *m, const void *src, size_t len,
                    struct btl_op *op)
{
    (void)m;
    return start(r, off, (void *)(uintptr_t)src, len, false, op);
}

static int fake_get(struct btl_rmem *r, size_t off, struct btl_mem *m, void *dst, size_t len,
                    struct btl_op *op)
{
    (void)m;
    return start(r, off, dst, len, true, op);
}

/* Moves the data at the very end, so that a buffer used too early is detected. */
static void op_complete(struct item *i)
{
    const struct btl_mem *m = i->rmem->key.mem;
    struct btl_op *op = i->op;
    int err = 0;

    if (state()->dead[i->rmem->peer->rank]) {
        err = -RT_EPEER;
    } else if (m->id != i->rmem->key.id) {
        violation("a put or get of memory that is no longer registered");
        err = -RT_EINVAL;
    } else if (i->len) {
        char *there = m->base + i->off;
        memcpy(i->get ? i->local : there, i->get ? there : i->local, i->len);
    }
    rt_list_del(&i->link);
    free(i);
    fake_net.live_ops--;
    op->done(op, err);
}

static int ops_step(struct fake_btl *b)
{
    struct rt_list *pos, *next, *last = b->ops.prev;
    int n = 0;

    if (rt_list_empty(&b->ops))
        return 0;
    for (pos = b->ops.next;; pos = next) { /* items added by callbacks wait for the next call */
        bool end = pos == last;
        struct item *i = rt_container(pos, struct item, link);
        next = pos->next;
        if (i->due <= state()->now || state()->dead[i->rmem->peer->rank]) {
            op_complete(i);
            n++;
        }
        if (end)
            return n;
    }
}

static int deliver(struct fake_btl *b, int from)
{
    struct queue *q = &state()->q[from][b->rank];
    int n = 0;

    /* At most the items that were there at the start: an answer to the own process waits for the
     * next call. */
    for (uint32_t left = q->n; left > 0; left--) {
        struct item *i = rt_container(q->items.next, struct item, link);
        if (i->due > state()->now)
            break;
        rt_list_del(&i->link);
        q->n--;
        b->up.recv(b->up.arg, &peer_get(b, from)->base, &i->hdr, i->data, i->len);
        memset(i->data, 0xdb, i->len); /* valid during the call only */
        free(i);
        n++;
    }
    return n;
}

static int tell_losses(struct fake_btl *b)
{
    int n = 0;

    for (int r = 0; r < fake_net.nranks; r++) {
        struct fake_peer *p = b->peers[r];
        if (!state()->dead[r] || !p || p->told)
            continue;
        p->told = true;
        b->up.down(b->up.arg, &p->base, -RT_EPEER);
        n++;
    }
    return n;
}

static int fake_progress(struct btl *btl)
{
    struct fake_btl *b = (struct fake_btl *)btl;
    int n = 0, first = (int)rnd((uint32_t)fake_net.nranks);

    state()->now++;
    for (int i = 0; i < fake_net.nranks; i++)
        n += deliver(b, (first + i) % fake_net.nranks);
    n += ops_step(b);
    return n + tell_losses(b);
}

static int fake_poll(struct btl_peer *p)
{
    state()->now++;
    return deliver((struct fake_btl *)p->btl, ((struct fake_peer *)p)->rank);
}

void fake_net_kill(int rank)
{
    struct state *s = state();

    s->dead[rank] = true;
    for (int r = 0; r < FAKE_RANKS_MAX; r++) {
        items_free(&s->q[rank][r].items);
        items_free(&s->q[r][rank].items);
        s->q[rank][r].n = s->q[r][rank].n = 0;
    }
}

void fake_net_reset(void)
{
    struct state *s = fake_net.state;
    struct rt_list *pos, *next;

    if (s) {
        for (int i = 0; i < FAKE_RANKS_MAX; i++)
            for (int k = 0; k < FAKE_RANKS_MAX; k++)
                items_free(&s->q[i][k].items);
        rt_list_each_safe (pos, next, &s->mems)
            free(rt_container(pos, struct btl_mem, link));
        free(s);
    }
    fake_net = (struct fake_net){ 0 };
}

const struct btl_ops btl_fake_ops = {
    .name = "fake",
    .help = "processes within one test program",
    .open = fake_open,
    .close = fake_close,
    .address = fake_address,
    .add_peer = fake_add_peer,
    .del_peer = fake_del_peer,
    .send = fake_send,
    .mem_reg = fake_mem_reg,
    .mem_dereg = fake_mem_dereg,
    .mem_key = fake_mem_key,
    .attach = fake_attach,
    .detach = fake_detach,
    .put = fake_put,
    .get = fake_get,
    .progress = fake_progress,
    .poll = fake_poll,
};

/* The program's own table, which replaces btl/btl.c. */
const struct btl_ops *const btl_all[] = { &btl_fake_ops, NULL };

const struct btl_ops *btl_find(const char *name)
{
    return strcmp(name, "fake") ? NULL : &btl_fake_ops;
}

/* A test may add transports for its own kinds of memory. */
int btl_check(const struct btl *b)
{
    return b->ops == &btl_fake_ops || !btl_has_messages(b) ? 0 : -RT_EINTERN;
}

size_t btl_node_pair_nbytes(void) { return 4096; }
