/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a peer: all its connections are closed, and all its puts end with an error.  The
 * engine serialises calls on the instance. */
#include "btl/tcp/disconnect.h"
#include "btl/tcp/rma.h"
#include "runtime/base/clock.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <stdlib.h>

static void close_all(struct tcp_peer *p)
{
    tcp_xfers_fail(p, -RT_EPEER);
    while (p->nlanes)
        tcp_conn_close(p->lanes[p->nlanes - 1]);
    if (p->main)
        tcp_conn_close(p->main);
    free(p->out.buf);
    p->out = (struct tcp_out){ 0 };
    free(p->routes);
    p->routes = NULL;
    p->nroutes = p->route = 0;
    p->retry_ns = p->losing_ns = 0;
}

static void notify(struct tcp_peer *p, int err)
{
    struct btl_tcp *b = tcp_instance(p);
    if (p->notified)
        return;
    p->notified = true;
    if (p->base.up && !b->closing)
        b->up.down(b->up.arg, &p->base, err);
}

void tcp_peer_notify(struct tcp_peer *p) { notify(p, -RT_EPEER); }

void tcp_peer_lost(struct tcp_peer *p, const char *why)
{
    if (p->lost)
        return;
    log_at(BTL, tcp_instance(p)->closing || cfg.ft ? RT_LOG_INFO : RT_LOG_ERROR,
           "tcp: rank %u is lost: %s", p->base.proc.rank, why);
    p->lost = true;
    close_all(p);
    tcp_peer_notify(p);
}

/* An orderly end is an error only for operations that are still in progress. */
void tcp_peer_left(struct tcp_peer *p)
{
    int fault = tcp_lanes_drain(p);
    if (fault)
        tcp_peer_lost(p, tcp_lane_fault(fault));
    if (p->lost)
        return;
    bool wanted = !rt_list_empty(&p->xfers) || p->out.tail > p->out.head || p->awaited;
    p->lost = true;
    close_all(p);
    if (wanted)
        log_info(BTL, "tcp: rank %u ended while messages were incomplete", p->base.proc.rank);
    notify(p, wanted ? -RT_EPEER : 0);
}

void tcp_peer_losing(struct tcp_peer *p, int err)
{
    p->last_errno = err;
    if (!p->losing_ns)
        p->losing_ns = rt_now_ns();
    tcp_need_work(p);
}
