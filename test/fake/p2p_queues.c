/* SPDX-License-Identifier: BSD-3-Clause */
/* See p2p_queues.h. */
#include "test/fake/p2p_queues.h"

#include <stdlib.h>
#include <string.h>
#include "runtime/base/err.h"
#include "test/check.h"

struct knobs knobs;
unsigned long seed;
struct endpoint *eps[N];
size_t awaited_bytes;
int opening;
static const struct btl_ops queues_ops;

unsigned rnd(unsigned n)
{
    seed = seed * 6364136223846793005ul + 1442695040888963407ul;
    return (unsigned)(seed >> 33) % n;
}

static bool chance(int pct) { return (int)rnd(100) < pct; }

struct item {
    struct item *next;
    struct btl_hdr hdr;
    size_t len;
    char data[];
};
struct fmem {
    char *base;
    size_t len;
    struct btl_op *filled;
    bool live; /* else deregistered: data that still come for it are dropped */
    struct fmem *next;
};
static struct fmem *mems; /* all of them: keys name them until the last transport is closed */
struct frmem {
    struct btl_rmem base;
    struct endpoint *self, *far;
    struct fmem *mem;
    char *at;
};

static struct endpoint *ep_of(struct btl *b) { return (struct endpoint *)b; }

static int f_open(const struct btl_up *up, struct btl **out, int max)
{
    (void)max;
    struct endpoint *e = calloc(1, sizeof *e);
    e->base.ops = &queues_ops;
    e->base.caps = (struct btl_caps){ .flags = (knobs.put ? BTL_PUT : 0u) |
                                               (knobs.get ? BTL_GET : 0u) |
                                               (knobs.choose ? BTL_CHOOSE : 0u) |
                                               (knobs.expect ? BTL_EXPECT : 0u),
                                      .send_mem = RT_MEM_HOST_BITS,
                                      .rma_mem = RT_MEM_HOST_BITS,
                                      .eager_max = EAGER,
                                      .early_max = knobs.early ? knobs.early : knobs.expect * EAGER,
                                      .key_len = sizeof(void *),
                                      .latency_ns = 100,
                                      .mb_per_s = 1000,
                                      .put_mb_per_s = knobs.put ? 100 : 0,
                                      .get_mb_per_s = knobs.get ? 200 : 0 };
    e->up = *up;
    e->rank = opening;
    for (int i = 0; i < N; i++)
        e->last[i] = &e->first[i];
    eps[opening] = e;
    *out = &e->base;
    return 1;
}

static void op_free(struct pending_op *p)
{
    free(p->copy);
    free(p);
}

static void mems_free(void)
{
    for (struct fmem *m = mems, *next; m; m = next) {
        next = m->next;
        free(m);
    }
    mems = NULL;
}

static void f_close(struct btl *b)
{
    struct endpoint *e = ep_of(b);
    for (int i = 0; i < N; i++)
        for (struct item *m = e->first[i], *next; m; m = next) {
            next = m->next;
            free(m);
        }
    for (struct pending_op *p = e->ops, *next; p; p = next) {
        next = p->next;
        op_free(p);
    }
    eps[e->rank] = NULL;
    free(e);
    for (int i = 0; i < N; i++)
        if (eps[i])
            return;
    mems_free();
}

static int f_address(struct btl *b, void *buf, size_t len)
{
    (void)b;
    (void)buf;
    (void)len;
    return 0;
}

static int f_add_peer(struct btl *b, const struct rt_proc *proc, const void *addr, size_t len,
                      struct btl_peer **out)
{
    (void)addr;
    (void)len;
    struct endpoint *e = ep_of(b);
    struct fpeer *p = &e->peers[proc->rank];
    p->base.btl = b;
    p->base.proc = *proc;
    p->far = eps[proc->rank];
    *out = &p->base;
    return 0;
}

static void f_del_peer(struct btl_peer *p) { p->up = NULL; }

static int f_send(struct btl_peer *bp, const struct btl_hdr *h, const void *buf, size_t len)
{
    struct endpoint *e = ep_of(bp->btl), *far = ((struct fpeer *)bp)->far;
    CHECK(len <= EAGER);
    if (e->cut[bp->proc.rank] || !eps[bp->proc.rank])
        return -RT_EPEER;
    if (chance(knobs.eagain_pct))
        return -RT_EAGAIN;
    struct item *m = malloc(sizeof *m + len);
    *m = (struct item){ .hdr = *h, .len = len };
    memcpy(m->data, buf, len);
    *far->last[e->rank] = m;
    far->last[e->rank] = &m->next;
    return 0;
}

static int f_reg(struct btl *b, void *base, size_t len, const struct rt_gpu_ptr *at,
                 struct btl_mem **out)
{
    (void)b;
    (void)at;
    struct fmem *m = malloc(sizeof *m);
    *m = (struct fmem){ .base = base, .len = len, .live = true, .next = mems };
    mems = m;
    *out = (struct btl_mem *)m;
    return 0;
}

static void f_dereg(struct btl_mem *m) { ((struct fmem *)m)->live = false; }

static int f_key(const struct btl_mem *m, void *key)
{
    memcpy(key, &m, sizeof m);
    return 0;
}

static void f_expect(struct btl_mem *m, struct btl_peer *from, struct btl_op *op)
{
    (void)from;
    ((struct fmem *)m)->filled = op;
}

static int f_attach(struct btl_peer *p, const void *key, const struct rt_gpu_ptr *near,
                    struct btl_rmem **out)
{
    (void)near;
    struct fmem *m;
    memcpy(&m, key, sizeof m);
    struct frmem *r = malloc(sizeof *r);
    *r = (struct frmem){
        .self = ep_of(p->btl), .far = ((struct fpeer *)p)->far, .mem = m, .at = m->base
    };
    *out = &r->base;
    return 0;
}

static void f_detach(struct btl_rmem *r) { free(r); }

static int start_op(struct endpoint *e, struct btl_op *op, char *dst, const char *src, size_t len,
                    int err)
{
    if (chance(knobs.eagain_pct))
        return -RT_EAGAIN;
    struct pending_op *p = malloc(sizeof *p);
    *p = (struct pending_op){
        .next = e->ops, .op = op, .dst = dst, .src = src, .len = len, .err = err
    };
    e->ops = p;
    return 0;
}

/* Done at once at the origin; the data arrive after messages that are sent later. */
static int start_awaited(struct frmem *f, const char *src, size_t len, struct btl_op *op)
{
    int err = start_op(f->self, op, NULL, NULL, 0, 0);
    if (err < 0)
        return err;
    struct pending_op *p = malloc(sizeof *p);
    *p = (struct pending_op){ .next = f->far->ops, .mem = f->mem, .copy = malloc(len), .len = len };
    memcpy(p->copy, src, len);
    awaited_bytes += len;
    f->far->ops = p;
    return 0;
}

static int f_put(struct btl_rmem *r, size_t off, struct btl_mem *m, const void *src, size_t len,
                 struct btl_op *op)
{
    (void)m;
    struct frmem *f = (struct frmem *)r;
    if (r->awaited) {
        CHECK(off == 0 && len == f->mem->len);
        return start_awaited(f, src, len, op);
    }
    return start_op(f->self, op, f->at + off, src, len, 0);
}

static int f_get(struct btl_rmem *r, size_t off, struct btl_mem *m, void *dst, size_t len,
                 struct btl_op *op)
{
    (void)m;
    struct frmem *f = (struct frmem *)r;
    return start_op(f->self, op, dst, f->at + off, len, knobs.get_refused ? -RT_EPERM : 0);
}

static void end_op(struct pending_op *p)
{
    struct fmem *m = p->mem;
    if (m && m->live) {
        memcpy(m->base, p->copy, p->len);
        m->filled->done(m->filled, 0);
    } else if (!m) {
        if (!p->err && p->len)
            memcpy(p->dst, p->src, p->len);
        p->op->done(p->op, p->err);
    }
    op_free(p);
}

static int f_progress(struct btl *b)
{
    struct endpoint *e = ep_of(b);
    int n = 0;
    if (e->rank == 0 && knobs.down_after && --knobs.down_after == 0)
        e->up.down(e->up.arg, &e->peers[1].base, -RT_EPEER);
    for (int i = 0; i < N; i++) {
        struct item *m = e->first[i];
        if (!m || chance(knobs.late_pct))
            continue;
        e->first[i] = m->next;
        if (!m->next)
            e->last[i] = &e->first[i];
        e->peers[i].base.btl = b;
        e->peers[i].base.proc.rank = (uint32_t)i;
        e->peers[i].far = eps[i];
        e->up.recv(e->up.arg, &e->peers[i].base, &m->hdr, m->data, m->len);
        free(m);
        n++;
    }
    struct pending_op *p = e->ops;
    if (p && !chance(knobs.late_pct)) {
        e->ops = p->next;
        end_op(p);
        n++;
    }
    return n;
}

static const struct btl_ops queues_ops = {
    .name = "queues",
    .help = "for tests",
    .open = f_open,
    .close = f_close,
    .address = f_address,
    .add_peer = f_add_peer,
    .del_peer = f_del_peer,
    .send = f_send,
    .mem_reg = f_reg,
    .mem_dereg = f_dereg,
    .mem_key = f_key,
    .expect = f_expect,
    .attach = f_attach,
    .detach = f_detach,
    .put = f_put,
    .get = f_get,
    .progress = f_progress,
};
const struct btl_ops *const queues_table[] = { &queues_ops, NULL };
