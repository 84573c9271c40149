/* SPDX-License-Identifier: BSD-3-Clause */
/* Rails: a completion queue and a shared receive queue for each port in use, and the
 * transport's registered memory.  Buffers are allocated in blocks and kept until the end. */
#include "btl/verbs/verbs.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HOMES 512      /* allocated at a time: 32 KiB */
#define RBUFS 32       /* receive buffers allocated at a time */
#define SBUFS 32       /* staging buffers allocated at a time */
#define SBUFS_MAX 1024 /* of a rail; senders wait for more */
#define POST_CHAIN 16  /* receive buffers posted in one call */
/* Receive buffers before the first connection, for messages that arrive before the connection has
 * added its own buffers. */
#define RBUFS_FIRST 32
/* Most requests in progress, over all peers of a rail: the completion queue must have room for
 * them. */
#define CQ_SENDS 8192

int verbs_area_make(struct verbs_rail *r, size_t nbytes, struct verbs_area **out)
{
    struct verbs_area *more = realloc(r->areas, ((size_t)r->nareas + 1) * sizeof *more);
    if (!more)
        return -RT_ENOMEM;
    r->areas = more;
    struct verbs_area *a = &more[r->nareas];
    /* Pages of their own: a child after fork() must not share them with data that it writes. */
    a->nbytes = (nbytes + 4095) & ~(size_t)4095;
    a->base = mmap(NULL, a->nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (a->base == MAP_FAILED)
        return -RT_ENOMEM;
    madvise(a->base, a->nbytes, MADV_DONTFORK);
    a->mr = rt_ib->reg_mr(r->ib->pd, a->base, a->nbytes,
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (!a->mr) {
        if (!r->full_logged)
            log_warn(BTL, "%s does not register %zu bytes of buffers: %m; see ulimit -l",
                     r->ib->dev, a->nbytes);
        r->full_logged = true;
        munmap(a->base, a->nbytes);
        return -RT_ENOMEM;
    }
    a->bufs = NULL;
    r->nareas++;
    *out = a;
    return 0;
}

struct verbs_home *verbs_home_take(struct verbs_rail *r, uint32_t *rkey)
{
    /* A free home holds the link and the key of its block in its first words. */
    struct free_home {
        struct verbs_home *next;
        uint32_t rkey;
    };
    if (!r->free_homes) {
        struct verbs_area *a;
        if (verbs_area_make(r, HOMES * sizeof(struct verbs_home), &a) < 0)
            return NULL;
        struct verbs_home *h = a->base;
        for (int i = 0; i < HOMES; i++) {
            struct free_home *f = (struct free_home *)(void *)&h[i];
            f->next = r->free_homes;
            f->rkey = a->mr->rkey;
            r->free_homes = &h[i];
        }
    }
    struct verbs_home *h = r->free_homes;
    struct free_home *f = (struct free_home *)(void *)h;
    *rkey = f->rkey;
    r->free_homes = f->next;
    memset(h, 0, sizeof *h);
    h->sends_not = h->ring_not = h->asleep_not = ~0u;
    return h;
}

static size_t buf_nbytes(void)
{
    return (sizeof(struct verbs_head) + (size_t)cfg.verbs_eager + 63) & ~(size_t)63;
}

static int sbufs_make(struct verbs_rail *r)
{
    struct verbs_area *a;
    struct verbs_sbuf *s = calloc(SBUFS, sizeof *s);
    if (!s || verbs_area_make(r, SBUFS * buf_nbytes(), &a) < 0) {
        free(s);
        return -RT_ENOMEM;
    }
    a->bufs = s;
    for (int i = 0; i < SBUFS; i++) {
        s[i].data = (char *)a->base + (size_t)i * buf_nbytes();
        s[i].lkey = a->mr->lkey;
        verbs_sbuf_give(r, &s[i]);
    }
    r->nsbufs += SBUFS;
    return 0;
}

struct verbs_sbuf *verbs_sbuf_take(struct verbs_rail *r)
{
    if (!r->sbufs && r->nsbufs < r->sbufs_max && sbufs_make(r) < 0)
        /* uses only existing buffers, of which rail_open() has allocated the first */
        r->sbufs_max = r->nsbufs;
    struct verbs_sbuf *s = r->sbufs;
    if (s)
        r->sbufs = s->next;
    return s;
}

void verbs_rbuf_give(struct verbs_rail *r, struct verbs_rbuf *b)
{
    b->next = r->idle_rbufs;
    r->idle_rbufs = b;
    r->nidle++;
    r->srq_posted--;
}

static int rbufs_make(struct verbs_rail *r)
{
    struct verbs_area *a;
    struct verbs_rbuf *b = calloc(RBUFS, sizeof *b);
    if (!b || verbs_area_make(r, RBUFS * buf_nbytes(), &a) < 0) {
        free(b);
        return -RT_ENOMEM;
    }
    a->bufs = b;
    for (int i = 0; i < RBUFS; i++) {
        b[i].data = (char *)a->base + (size_t)i * buf_nbytes();
        b[i].lkey = a->mr->lkey;
        b[i].next = r->idle_rbufs;
        r->idle_rbufs = &b[i];
    }
    r->nidle += RBUFS;
    return 0;
}

/* Posts idle buffers in chains, because a call costs as much as several buffers. */
void verbs_srq_fill(struct verbs_rail *r)
{
    while (r->srq_posted < r->srq_want) {
        struct ibv_recv_wr wr[POST_CHAIN], *bad;
        struct ibv_sge sge[POST_CHAIN];
        int n = 0;
        if (!r->nidle && rbufs_make(r) < 0) {
            /* no more until another process connects */
            r->srq_want = r->srq_posted;
            return;
        }
        for (struct verbs_rbuf *b = r->idle_rbufs;
             b && n < POST_CHAIN && r->srq_posted + n < r->srq_want; b = b->next, n++) {
            sge[n] = (struct ibv_sge){ (uintptr_t)b->data, (uint32_t)buf_nbytes(), b->lkey };
            wr[n] = (struct ibv_recv_wr){
                .wr_id = (uintptr_t)b, .sg_list = &sge[n], .num_sge = 1, .next = &wr[n + 1]
            };
        }
        wr[n - 1].next = NULL;
        int err = ibv_post_srq_recv(r->srq, wr, &bad), taken = 0;
        for (struct ibv_recv_wr *w = wr; w && (!err || w != bad); w = w->next, taken++)
            r->idle_rbufs = r->idle_rbufs->next;
        r->nidle -= taken;
        r->srq_posted += taken;
        if (err) {
            log_debug(BTL, "%s takes no more receive buffers: %s", r->ib->dev, strerror(err));
            r->srq_want = r->srq_posted;
        }
    }
}

static int at_most(int a, int b) { return a < b ? a : b; }

static int rail_open(struct verbs_rail *r)
{
    const struct ibv_device_attr *a = &r->ib->attr;
    const char *what = "a completion channel";
    int ncqe = a->max_cqe - 1, nrecvs = at_most((int)cfg.verbs_srq, a->max_srq_wr);
    struct ibv_srq_init_attr si = { .attr = { .max_wr = (uint32_t)at_most(nrecvs, ncqe / 2),
                                              .max_sge = 1 } };
    r->chan = rt_ib->create_comp_channel(r->ib->ctx);
    if (!r->chan || fcntl(r->chan->fd, F_SETFL, O_NONBLOCK) < 0)
        goto err;
    what = "a completion queue";
    r->srq_max = (int)si.attr.max_wr;
    ncqe = at_most(ncqe, r->srq_max + CQ_SENDS);
    r->cq = rt_ib->create_cq(r->ib->ctx, ncqe, &r->events, r->chan, 0);
    if (!r->cq)
        goto err;
    r->cq_room = ncqe - r->srq_max;
    what = "a shared receive queue";
    r->srq = rt_ib->create_srq(r->ib->pd, &si);
    if (!r->srq)
        goto err;
    r->srq_want = at_most(RBUFS_FIRST, r->srq_max);
    verbs_srq_fill(r);
    r->sbufs_max = SBUFS_MAX;
    if (r->srq_posted && sbufs_make(r) == 0)
        return 0;
    what = "buffers";
    errno = ENOMEM;
err:
    log_warn(BTL, "%s port %d cannot create %s: %m; the port is not used", r->ib->dev, r->ib->port,
             what);
    return -RT_ESYS;
}

static void rail_close(struct verbs_rail *r)
{
    if (r->srq)
        rt_ib->destroy_srq(r->srq);
    if (r->cq) {
        rt_ib->ack_cq_events(r->cq, r->events);
        rt_ib->destroy_cq(r->cq);
    }
    if (r->chan)
        rt_ib->destroy_comp_channel(r->chan);
    for (int i = 0; i < r->nareas; i++) {
        rt_ib->dereg_mr(r->areas[i].mr);
        munmap(r->areas[i].base, r->areas[i].nbytes);
        free(r->areas[i].bufs);
    }
    free(r->areas);
    memset(r, 0, sizeof *r);
}

void verbs_events_take(struct ibv_comp_channel *chan)
{
    struct ibv_cq *cq;
    void *count;
    while (rt_ib->get_cq_event(chan, &cq, &count) == 0)
        ++*(uint32_t *)count;
}

/* Logs asynchronous events of the device.  Only failures of the port or the device are warnings;
 * other errors show in completions. */
void verbs_rail_events(struct verbs_rail *r)
{
    struct ibv_async_event e;
    struct pollfd fd = { .fd = r->ib->ctx->async_fd, .events = POLLIN };
    while (poll(&fd, 1, 0) == 1 && rt_ib->get_async_event(r->ib->ctx, &e) == 0) {
        bool news = e.event_type == IBV_EVENT_PORT_ERR || e.event_type == IBV_EVENT_DEVICE_FATAL;
        log_at(BTL, news ? RT_LOG_WARN : RT_LOG_DEBUG, "%s: %s", r->ib->dev,
               rt_ib->event_type_str(e.event_type));
        rt_ib->ack_async_event(&e);
    }
}

int verbs_rails_open(struct verbs *v)
{
    int n = rt_ib_open(v->ib, VERBS_RAILS);
    for (int i = 0; i < n; i++) {
        struct verbs_rail *r = &v->rails[v->nrails];
        r->v = v;
        r->ib = &v->ib[i];
        r->index = v->nrails;
        if (rail_open(r) < 0)
            rail_close(r);
        else
            v->nrails++;
    }
    return n < 0 ? n : v->nrails;
}

void verbs_rails_close(struct verbs *v)
{
    for (int i = 0; i < v->nrails; i++)
        rail_close(&v->rails[i]);
    v->nrails = 0;
    rt_ib_close();
}
