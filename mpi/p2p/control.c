/* SPDX-License-Identifier: BSD-3-Clause */
/* Control messages, and the queue behind a full ring, which send.c empties.  Called under the
 * domain's lock.
 *
 * Order: messages to one peer leave in the order of the calls.  Once something is queued for a peer
 * (peer->blocked), all that follows is queued behind it. */
#include "mpi/p2p/control.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/base/reserve.h"

static void enqueue(struct wm_domain *d, struct wm_peer *p, struct wm_pend *w)
{
    rt_list_append(&p->pending, &w->link);
    p->blocked = true;
    wm_peer_hold(p);
    wm_stat_add(&d->stats->retries, 1);
    if (rt_list_empty(&p->retry))
        rt_list_append(&d->retry, &p->retry);
}

int wm_pend(struct wm_domain *d, struct wm_peer *p, struct btl_hdr hdr, const void *data,
            uint32_t len, struct wm_preq *q)
{
    struct wm_pend *w = rt_reserve_alloc(sizeof *w + len);
    if (!w) {
        log_error(MPI, "out of memory: %u bytes for a message to rank %u", len, p->proc.rank);
        return -RT_ENOMEM;
    }
    w->hdr = hdr;
    w->len = len;
    w->req = q;
    if (len)
        memcpy(w->data, data, len);
    if (q)
        q->pend = w;
    enqueue(d, p, w);
    return 0;
}

int wm_try_ctl(struct wm_domain *d, struct wm_peer *p, struct btl_hdr hdr, const void *data,
               uint32_t len)
{
    if (p->err)
        return p->err;
    if (!p->blocked) {
        int err = p->send(p->eager, &hdr, data, len);
        if (err != -RT_EAGAIN)
            return err;
    }
    return wm_pend(d, p, hdr, data, len, NULL);
}

void wm_ctl_failed(const struct wm_peer *p, int err)
{
    if (err == -RT_EPEER)
        return;
    log_error(MPI, "control message to rank %u: %s", p->proc.rank, rt_err_text(err));
    rt_boot_abort(1, "a control message could not be sent");
}

void wm_send_ctl(struct wm_domain *d, struct wm_peer *p, struct btl_hdr hdr, const void *data,
                 uint32_t len)
{
    int err = wm_try_ctl(d, p, hdr, data, len);
    if (err < 0)
        wm_ctl_failed(p, err);
}

void wm_pend_rma(struct wm_preq *q)
{
    if (wm_pend(q->dom, q->peer, wm_hdr(WM_CTS, 0, 0, 0), NULL, 0, q) < 0)
        q->op.done(&q->op, -RT_ENOMEM);
}
