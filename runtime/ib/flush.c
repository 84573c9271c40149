/* SPDX-License-Identifier: BSD-3-Clause */
/* Orders data that arrive in a GPU's memory.  If neither the platform nor the CUDA driver orders
 * the data, the adapter reads back a byte of that GPU's memory: a device's reads come after its
 * earlier writes.  The read uses a queue pair that is connected to itself, one per device, made
 * when it is first needed.  One read is in progress at a time; it serves all flushes requested
 * before it was posted.  The caller serialises all calls. */
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/gpu/gpu.h"
#include "runtime/ib/rail.h"

#include <stdlib.h>
#include <string.h>

#define DEPTH 2 /* of the queues; one read is in progress */
#define GPUS 64 /* GPUs whose order is stored */
/* 4.096 us << 14 = 67 ms, 7 times: the packets do not leave the adapter. */
#define TIMEOUT 14
#define RETRIES 7

struct loop {
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr; /* of `landing` */
    struct rt_list waiting, flying;
    bool broken;
    char landing[64]; /* destination of the byte; never read */
};

int rt_ib_nflushes;

static struct {
    struct loop *loop[RT_IB_DEVICES];
    uint8_t order[GPUS]; /* enum rt_gpu_order + 1; 0: unknown */
} flush;

/* ---- the queue pair ---- */

static int to_init(struct ibv_qp *qp, const struct rt_ib_rail *r)
{
    struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
                             .port_num = r->port,
                             .qp_access_flags = IBV_ACCESS_REMOTE_READ };
    return rt_ib->modify_qp(qp, &a,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int to_rtr(struct ibv_qp *qp, const struct rt_ib_rail *r)
{
    struct rt_ib_addr self;
    struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR,
                             .path_mtu = r->mtu,
                             .dest_qp_num = qp->qp_num,
                             .max_dest_rd_atomic = 1,
                             .min_rnr_timer = 12 };
    rt_ib_addr(r, &self);
    rt_ib_ah_attr(r, &self, 0, 0, &a.ah_attr);
    return rt_ib->modify_qp(qp, &a,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct ibv_qp *qp)
{
    struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS,
                             .timeout = TIMEOUT,
                             .retry_cnt = RETRIES,
                             .rnr_retry = RETRIES,
                             .max_rd_atomic = 1 };
    return rt_ib->modify_qp(qp, &a,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static void loop_close(struct loop *l)
{
    if (l->qp)
        rt_ib->destroy_qp(l->qp);
    if (l->cq)
        rt_ib->destroy_cq(l->cq);
    if (l->mr)
        rt_ib->dereg_mr(l->mr);
    free(l);
}

static struct loop *loop_open(const struct rt_ib_rail *r)
{
    struct loop *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    rt_list_init(&l->waiting);
    rt_list_init(&l->flying);
    l->mr = rt_ib->reg_mr(r->pd, l->landing, sizeof l->landing, IBV_ACCESS_LOCAL_WRITE);
    l->cq = rt_ib->create_cq(r->ctx, DEPTH, NULL, NULL, 0);
    struct ibv_qp_init_attr init = {
        .send_cq = l->cq,
        .recv_cq = l->cq,
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1,
        .cap = { .max_send_wr = DEPTH, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
    };
    l->qp = l->mr && l->cq ? rt_ib->create_qp(r->pd, &init) : NULL;
    if (l->qp && !to_init(l->qp, r) && !to_rtr(l->qp, r) && !to_rts(l->qp))
        return l;
    log_error(IB,
              "%s:%u cannot connect a queue pair to itself, which orders what it writes to GPU "
              "memory: %m",
              r->dev, r->port);
    loop_close(l);
    return NULL;
}

/* ---- reads ---- */

static const struct rt_ib_held *held_of(struct rt_list *l)
{
    return rt_container(l, struct rt_ib_flush, link)->held;
}

/* Posts a read for the first waiting flush and for all that wait for the same GPU. */
static int post(struct loop *l)
{
    struct rt_list *pos, *next;
    if (rt_list_empty(&l->waiting) || !rt_list_empty(&l->flying))
        return 0;
    const struct rt_ib_held *h = held_of(l->waiting.next);
    struct ibv_sge to = { (uintptr_t)l->landing, 1, l->mr->lkey };
    struct ibv_send_wr *bad, wr = { .sg_list = &to, .num_sge = 1, .opcode = IBV_WR_RDMA_READ };
    wr.wr.rdma.remote_addr = h->start;
    wr.wr.rdma.rkey = h->mr.rkey;
    int err = ibv_post_send(l->qp, &wr, &bad);
    if (err) {
        log_error(IB, "a read that orders writes to GPU memory: ibv_post_send: %s", strerror(err));
        l->broken = true;
        return -RT_EPEER;
    }
    rt_list_each_safe (pos, next, &l->waiting)
        if (held_of(pos)->ordinal == h->ordinal) {
            rt_list_del(pos);
            rt_list_append(&l->flying, pos);
        }
    return 0;
}

static int finish(struct rt_list *list, int err)
{
    int n = 0;
    struct rt_list mine; /* done() may request another flush */
    rt_list_init(&mine);
    while (!rt_list_empty(list)) {
        struct rt_list *first = list->next;
        rt_list_del(first);
        rt_list_append(&mine, first);
    }
    while (!rt_list_empty(&mine)) {
        struct rt_ib_flush *f = rt_container(mine.next, struct rt_ib_flush, link);
        rt_list_del(&f->link);
        rt_ib_nflushes--;
        n++;
        f->done(f, err);
    }
    return n;
}

static int loop_progress(struct loop *l)
{
    struct ibv_wc wc;
    int n = 0;
    if (!rt_list_empty(&l->flying) && ibv_poll_cq(l->cq, 1, &wc) > 0) {
        if (wc.status != IBV_WC_SUCCESS) {
            log_error(IB, "a read that orders writes to GPU memory failed: %s",
                      rt_ib->wc_status_str(wc.status));
            l->broken = true;
        }
        n += finish(&l->flying, l->broken ? -RT_EPEER : 0);
    }
    if (l->broken || post(l))
        n += finish(&l->waiting, -RT_EPEER);
    return n;
}

int rt_ib_flush_progress(void)
{
    int n = 0;
    for (int i = 0; rt_ib_nflushes && i < RT_IB_DEVICES; i++)
        if (flush.loop[i])
            n += loop_progress(flush.loop[i]);
    return n;
}

/* ---- choosing the method ---- */

static enum rt_gpu_order order_of(int ordinal)
{
    struct rt_gpu_rdma facts;
    if (ordinal < 0 || ordinal >= GPUS)
        return RT_GPU_READ_BACK;
    if (!flush.order[ordinal])
        flush.order[ordinal] =
            (uint8_t)(1 + (rt_gpu_rdma_facts(ordinal, &facts) ? facts.order : RT_GPU_READ_BACK));
    return (enum rt_gpu_order)(flush.order[ordinal] - 1);
}

int rt_ib_flush(const struct rt_ib_rail *r, struct rt_ib_mr *mr, struct rt_ib_flush *f)
{
    const struct rt_ib_held *h = (const struct rt_ib_held *)mr;
    enum rt_gpu_order order = order_of(h->ordinal);
    struct loop **l = &flush.loop[r->device];
    if (order == RT_GPU_ORDERED)
        return 0;
    if (order == RT_GPU_FLUSH && h->g && h->era == rt_gpu_era)
        return rt_gpu_flush_writes(h->g);
    if (!*l && !(*l = loop_open(r)))
        return -RT_ENOTSUP;
    if ((*l)->broken)
        return -RT_EPEER;
    f->held = h;
    rt_list_append(&(*l)->waiting, &f->link);
    rt_ib_nflushes++;
    if (post(*l)) {
        rt_list_del(&f->link);
        rt_ib_nflushes--;
        return -RT_EPEER;
    }
    return -RT_EAGAIN;
}

bool rt_ib_flush_needed(const struct rt_ib_mr *mr)
{
    return mr->gpu && order_of(((const struct rt_ib_held *)mr)->ordinal) != RT_GPU_ORDERED;
}

void rt_ib_flush_cancel(struct rt_ib_flush *f)
{
    rt_list_del(&f->link);
    rt_ib_nflushes--;
}

void rt_ib_flush_close(void)
{
    for (int i = 0; i < RT_IB_DEVICES; i++) {
        if (!flush.loop[i])
            continue;
        finish(&flush.loop[i]->flying, -RT_EPEER);
        finish(&flush.loop[i]->waiting, -RT_EPEER);
        loop_close(flush.loop[i]);
    }
    memset(&flush, 0, sizeof flush);
}
