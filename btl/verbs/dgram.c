/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams over unreliable queue pairs or UDP.  dgram.h names the callers. */
#include "btl/verbs/dgram.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define GRH 40 /* bytes before every received datagram */
/* Datagrams between two polls; further ones are lost, and the sender repeats them. */
#define RECVS 32
#define SENDS 32
#define SLOT 512
#define ID_RECV 0x100
_Static_assert(VERBS_DGRAM_MAX + GRH <= SLOT, "a datagram fits into a slot");

struct verbs_dgram {
    const struct rt_ib_rail *ib;
    int sock; /* UDP; -1: the queue pair is used */
    uint32_t port;
    struct ibv_comp_channel *chan, *own_chan;
    struct ibv_cq *cq;
    uint32_t events; /* of `cq`, taken and not yet acknowledged */
    struct ibv_qp *qp;
    struct verbs_area area;   /* copy; RECVS slots, then SENDS */
    struct ibv_ah *ah[SENDS]; /* of the datagram in a send slot; NULL: the slot is free */
    uint8_t sl, tclass;
};

/* ---- UDP ---- */

unsigned verbs_sockaddr(const struct rt_ib_rail *ib, const struct rt_ib_addr *at, uint32_t port,
                        struct sockaddr_storage *out)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)out;
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    memset(out, 0, sizeof *out);
    if (!memcmp(at->gid, mapped, sizeof mapped)) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)port);
        memcpy(&v4->sin_addr, at->gid + 12, 4);
        return sizeof *v4;
    }
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons((uint16_t)port);
    memcpy(&v6->sin6_addr, at->gid, 16);
    if (at->gid[0] == 0xfe && (at->gid[1] & 0xc0) == 0x80) /* link-local */
        v6->sin6_scope_id = if_nametoindex(ib->ifname);
    return sizeof *v6;
}

static int udp_open(struct verbs_dgram *d)
{
    struct rt_ib_addr at;
    struct sockaddr_storage sa;
    rt_ib_addr(d->ib, &at);
    socklen_t len = verbs_sockaddr(d->ib, &at, 0, &sa);
    d->sock = socket(sa.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (d->sock < 0 || bind(d->sock, (struct sockaddr *)&sa, len) < 0 ||
        getsockname(d->sock, (struct sockaddr *)&sa, &len) < 0)
        return -1;
    d->port = ntohs(((struct sockaddr_in *)(void *)&sa)->sin_port); /* the same offset for IPv6 */
    return 0;
}

static int udp_send(struct verbs_dgram *d, const struct rt_ib_addr *to, uint32_t port,
                    const void *data, size_t len)
{
    struct sockaddr_storage sa;
    socklen_t n = verbs_sockaddr(d->ib, to, port, &sa);
    if (sendto(d->sock, data, len, MSG_NOSIGNAL, (struct sockaddr *)&sa, n) >= 0)
        return 0;
    /* ECONNREFUSED reports an earlier datagram: no process listens at the port, perhaps not yet. */
    return errno == EAGAIN || errno == ECONNREFUSED ? -RT_EAGAIN : -RT_EUNREACH;
}

static int udp_take(struct verbs_dgram *d, verbs_dgram_fn *on, void *arg)
{
    _Alignas(8) char data[SLOT];
    int n = 0;
    for (ssize_t len; n < RECVS && (len = recv(d->sock, data, sizeof data, 0)) >= 0; n++)
        on(arg, data, (size_t)len);
    return n;
}

/* ---- queue pairs ---- */

static char *slot(struct verbs_dgram *d, int i) { return (char *)d->area.base + (size_t)i * SLOT; }

static int post_recv(struct verbs_dgram *d, int i)
{
    struct ibv_sge sge = { (uintptr_t)slot(d, i), SLOT, d->area.mr->lkey };
    struct ibv_recv_wr wr = { .wr_id = ID_RECV + (uint64_t)i, .sg_list = &sge, .num_sge = 1 }, *bad;
    return ibv_post_recv(d->qp, &wr, &bad);
}

static int make_qp(struct verbs_dgram *d, uint32_t qkey)
{
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_UD,
        .send_cq = d->cq,
        .recv_cq = d->cq,
        .cap = { .max_send_wr = SENDS, .max_recv_wr = RECVS, .max_send_sge = 1, .max_recv_sge = 1 }
    };
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = d->ib->port, .qkey = qkey };
    d->qp = rt_ib->create_qp(d->ib->pd, &init);
    if (!d->qp || rt_ib->modify_qp(d->qp, &attr,
                                   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
        return -1;
    for (int i = 0; i < RECVS; i++)
        if (post_recv(d, i))
            return -1;
    attr.qp_state = IBV_QPS_RTR;
    if (rt_ib->modify_qp(d->qp, &attr, IBV_QP_STATE))
        return -1;
    attr.qp_state = IBV_QPS_RTS;
    return rt_ib->modify_qp(d->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) ? -1 : 0;
}

static int ud_open(struct verbs_dgram *d, struct verbs_rail *r, uint32_t qkey)
{
    struct verbs_area *area;
    if (!d->chan) {
        d->chan = d->own_chan = rt_ib->create_comp_channel(r->ib->ctx);
        if (!d->chan || fcntl(d->chan->fd, F_SETFL, O_NONBLOCK) < 0)
            return -1;
    }
    if (verbs_area_make(r, (RECVS + SENDS) * SLOT, &area) < 0)
        return -1;
    d->area = *area;
    d->cq = rt_ib->create_cq(r->ib->ctx, RECVS + SENDS, &d->events, d->chan, 0);
    if (!d->cq || make_qp(d, qkey) < 0)
        return -1;
    d->port = d->qp->qp_num;
    return 0;
}

int verbs_dgram_open(struct verbs_rail *r, struct ibv_comp_channel *chan, uint32_t qkey,
                     struct verbs_dgram **out)
{
    struct verbs_dgram *d = calloc(1, sizeof *d);
    if (!d)
        return -RT_ENOMEM;
    d->ib = r->ib;
    d->sock = -1;
    d->chan = chan;
    d->sl = (uint8_t)cfg.verbs_sl;
    d->tclass = (uint8_t)cfg.verbs_tclass;
    if ((r->cm ? udp_open(d) : ud_open(d, r, qkey)) == 0) {
        *out = d;
        return 0;
    }
    log_error(BTL, "%s port %d cannot open a %s for datagrams: %m", r->ib->dev, r->ib->port,
              r->cm ? "UDP port" : "queue pair");
    verbs_dgram_close(d);
    return -RT_ESYS;
}

void verbs_dgram_close(struct verbs_dgram *d)
{
    if (!d)
        return;
    if (d->sock >= 0)
        close(d->sock);
    if (d->qp)
        rt_ib->destroy_qp(d->qp);
    if (d->cq) {
        rt_ib->ack_cq_events(d->cq, d->events);
        rt_ib->destroy_cq(d->cq);
    }
    if (d->own_chan)
        rt_ib->destroy_comp_channel(d->own_chan);
    for (int i = 0; i < SENDS; i++)
        if (d->ah[i])
            rt_ib->destroy_ah(d->ah[i]);
    free(d);
}

uint32_t verbs_dgram_port(const struct verbs_dgram *d) { return d->port; }

bool verbs_dgram_has_room(const struct verbs_dgram *d, int n)
{
    for (int i = 0; i < SENDS && d->sock < 0; i++)
        n -= !d->ah[i];
    return n <= 0 || d->sock >= 0;
}

int verbs_dgram_send(struct verbs_dgram *d, const struct rt_ib_addr *to, uint32_t port,
                     uint32_t qkey, const void *data, size_t len)
{
    struct ibv_ah_attr attr;
    int i = 0;
    if (d->sock >= 0)
        return udp_send(d, to, port, data, len);
    while (i < SENDS && d->ah[i])
        i++;
    if (i == SENDS)
        return -RT_EAGAIN;
    memset(&attr, 0, sizeof attr);
    rt_ib_ah_attr(d->ib, to, d->sl, d->tclass, &attr);
    d->ah[i] = rt_ib->create_ah(d->ib->pd, &attr);
    if (!d->ah[i])
        return -RT_EUNREACH;
    memcpy(slot(d, RECVS + i), data, len);
    struct ibv_sge sge = { (uintptr_t)slot(d, RECVS + i), (uint32_t)len, d->area.mr->lkey };
    struct ibv_send_wr wr = { .wr_id = (uint64_t)i,
                              .opcode = IBV_WR_SEND,
                              .sg_list = &sge,
                              .num_sge = 1,
                              .send_flags = IBV_SEND_SIGNALED,
                              .wr.ud = { d->ah[i], port, qkey } },
                       *bad;
    if (!ibv_post_send(d->qp, &wr, &bad))
        return 0;
    rt_ib->destroy_ah(d->ah[i]);
    d->ah[i] = NULL;
    return -RT_EAGAIN;
}

int verbs_dgram_take(struct verbs_dgram *d, verbs_dgram_fn *on, void *arg)
{
    struct ibv_wc wc[RECVS + SENDS]; /* room for all: a caller that polls rarely never finds more */
    if (d->sock >= 0)
        return udp_take(d, on, arg);
    int n = ibv_poll_cq(d->cq, RECVS + SENDS, wc);
    for (int i = 0; i < n; i++) {
        if (wc[i].wr_id < ID_RECV) {
            rt_ib->destroy_ah(d->ah[wc[i].wr_id]);
            d->ah[wc[i].wr_id] = NULL;
            continue;
        }
        int k = (int)(wc[i].wr_id - ID_RECV);
        _Alignas(8) char data[SLOT];
        size_t len = wc[i].byte_len > GRH ? wc[i].byte_len - GRH : 0;
        bool good = wc[i].status == IBV_WC_SUCCESS && len <= SLOT - GRH;
        if (good)
            memcpy(data, slot(d, k) + GRH, len);
        post_recv(d, k);
        if (good)
            on(arg, data, len);
    }
    return n > 0 ? n : 0;
}

int verbs_dgram_arm(struct verbs_dgram *d)
{
    if (d->sock >= 0)
        return 0;
    if (d->own_chan)
        verbs_events_take(d->own_chan);
    return ibv_req_notify_cq(d->cq, 0);
}

int verbs_dgram_fd(const struct verbs_dgram *d) { return d->sock >= 0 ? d->sock : d->chan->fd; }
