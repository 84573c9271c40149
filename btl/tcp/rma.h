/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory, and the pieces of puts on lanes. */
#ifndef BTL_TCP_RMA_H
#define BTL_TCP_RMA_H

#include "btl/tcp/conn.h"

struct tcp_xfer {        /* a put in progress */
    struct rt_list link; /* in peer->xfers or tcp->finished */
    struct btl_op *op;   /* borrowed until done() */
    struct tcp_key key;
    const char *src;
    uint64_t off, len, cut, acked; /* cut: bytes that lanes have taken */
    uint32_t id;
    bool awaited; /* the target notifies its user; `acked` counts what the kernel has taken */
    int err;
};

struct tcp_rmem {
    struct btl_rmem base;
    struct tcp_peer *peer;
    struct tcp_key key;
};

void tcp_rma_close(struct btl_tcp *b);
int tcp_mem_reg(struct btl *b, void *base, size_t len, const struct rt_gpu_ptr *at,
                struct btl_mem **out);
void tcp_mem_dereg(struct btl_mem *m);
int tcp_mem_key(const struct btl_mem *m, void *key);
void tcp_expect(struct btl_mem *m, struct btl_peer *from, struct btl_op *op);
int tcp_attach(struct btl_peer *p, const void *key, const struct rt_gpu_ptr *near,
               struct btl_rmem **out);
void tcp_detach(struct btl_rmem *r);

/* At the origin: done() is called in the next pass, with err. */
void tcp_xfer_finish(struct btl_tcp *b, struct tcp_xfer *x, int err);
int tcp_finished(struct btl_tcp *b);              /* calls done() where it is due */
void tcp_xfers_fail(struct tcp_peer *p, int err); /* finishes all puts to the peer */
void tcp_xfers_drop(struct tcp_peer *p);          /* forgets them, without done() */
int tcp_lane_write(struct tcp_conn *c);           /* returns events */
void tcp_lanes_feed(struct tcp_peer *p);          /* gives pieces to idle lanes */
/* 0 or -RT_EINVAL: no put waits for this acknowledgement. */
int tcp_ack_in(struct tcp_peer *p, const struct btl_hdr *h);

/* At the target: a short put; the next data of a lane.  tcp_put_in(): 0 or a fault of the peer
 * (-RT_EINVAL, -RT_EPERM).  tcp_lane_read() returns the number of events; -RT_EPEER: the lane has
 * ended (errno; 0: closed); another error: a fault of the peer. */
int tcp_put_in(struct tcp_peer *p, const struct tcp_frame *f, const char *payload, size_t len);
int tcp_lane_read(struct tcp_conn *c);
/* Reads what a peer has put before its orderly end: the data are in this process's kernel.  0, or
 * an error for tcp_lane_fault(). */
int tcp_lanes_drain(struct tcp_peer *p);
const char *tcp_lane_fault(int err); /* for the log */

#endif
