/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine's messages and puts.  The first one to a peer starts connection setup. */
#include "btl/tcp/send.h"
#include "btl/tcp/accept.h"
#include "btl/tcp/connect.h"
#include "btl/tcp/out.h"
#include "btl/tcp/rma.h"
#include "runtime/base/atomic.h"
#include "runtime/base/err.h"

#include <stdlib.h>

/* Longest put that is sent as a frame of the main connection, where messages wait for it. */
#define SHORT_MAX (32u << 10)

/* A frame has been queued. */
static inline void need_connection(struct tcp_peer *p)
{
    if (rt_unlikely(!p->up) && !p->main && !p->retry_ns)
        tcp_connect_first(p);
}

int tcp_send_head(struct btl_peer *peer, const struct btl_hdr *h, const void *head, size_t head_len,
                  const void *buf, size_t len)
{
    struct tcp_peer *p = (struct tcp_peer *)peer;
    int err = tcp_frame_send(p, TCP_MSG, h, head, head_len, buf, len, false);
    if (rt_unlikely(err == -RT_EPEER))
        tcp_need_work(p); /* progress() notifies the engine, if it has not yet */
    if (rt_likely(err == 0))
        need_connection(p);
    return err;
}

int tcp_send(struct btl_peer *peer, const struct btl_hdr *h, const void *buf, size_t len)
{
    return tcp_send_head(peer, h, NULL, 0, buf, len);
}

static int put_short(struct tcp_peer *p, struct tcp_xfer *x)
{
    struct btl_hdr h = { 0, (int32_t)x->key.region, x->key.gen };
    int err = tcp_frame_send(p, TCP_PUT, &h, &x->off, sizeof x->off, x->src, x->len, false);
    if (err == 0) {
        need_connection(p);
        tcp_xfer_finish(tcp_instance(p), x, 0);
    }
    return err;
}

int tcp_put(struct btl_rmem *rmem, size_t off, struct btl_mem *m, const void *src, size_t len,
            struct btl_op *op)
{
    (void)m;
    struct tcp_rmem *r = (struct tcp_rmem *)rmem;
    struct tcp_peer *p = r->peer;

    if (p->lost)
        return -RT_EPEER;
    if (off > r->key.len || len > r->key.len - off)
        return -RT_EINVAL;
    struct tcp_xfer *x = malloc(sizeof *x);
    if (!x)
        return -RT_ENOMEM;
    *x = (struct tcp_xfer){
        .op = op, .key = r->key, .src = src, .off = off, .len = len, .awaited = rmem->awaited
    };
    rt_list_init(&x->link);
    if (len <= SHORT_MAX) {
        int err = put_short(p, x);
        if (err < 0)
            free(x);
        return err;
    }
    x->id = ++((struct btl_tcp *)p->base.btl)->next_put;
    rt_list_append(&p->xfers, &x->link);
    ((struct btl_tcp *)p->base.btl)->stirred = true;
    tcp_lanes_feed(p);
    if (!p->nlanes)
        tcp_lanes_open(p);
    return 0;
}
