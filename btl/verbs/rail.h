/* SPDX-License-Identifier: BSD-3-Clause */
/* A rail: one port of a device, with its completion queue, its shared receive queue (SRQ) and the
 * memory that the transport registers for itself. */
#ifndef BTL_VERBS_RAIL_H
#define BTL_VERBS_RAIL_H

#include "btl/verbs/format.h"

struct verbs;
struct verbs_dgram;

/* Registered memory that the transport allocates for itself. */
struct verbs_area {
    void *base;
    size_t nbytes;
    struct ibv_mr *mr; /* without relaxed ordering, because records and counts rely on the order of
                        * writes */
    void *bufs;        /* malloc'ed descriptions of the area's buffers, or NULL */
};

struct verbs_sbuf { /* buffer that holds a message for SEND, or a short put or get */
    struct verbs_sbuf *next;
    uint32_t lkey;
    char *data;
};
struct verbs_rbuf { /* receive buffer */
    struct verbs_rbuf *next;
    uint32_t lkey;
    char *data;
};

struct verbs_rail {
    struct verbs *v;
    struct rt_ib_rail *ib;
    int index;
    struct ibv_comp_channel *chan;
    struct ibv_cq *cq;
    uint32_t events; /* of `cq`, taken and not yet acknowledged */
    int cq_room;     /* entries of `cq` that no request in progress may need */
    struct ibv_srq *srq;
    int srq_max, srq_posted, srq_want; /* depth; buffers posted; buffers that should be posted */
    struct verbs_rbuf *idle_rbufs;     /* not posted */
    int nidle;
    struct verbs_sbuf *sbufs; /* free */
    int nsbufs, sbufs_max;    /* allocated; limit of that */
    bool full_logged;         /* logged: no more memory can be registered */
    struct verbs_area *areas;
    int nareas;
    struct verbs_home *free_homes; /* linked by their first words */
    struct verbs_dgram *dgram;     /* used by handshake.c */
    bool cm;                       /* queue pairs are connected by rdma_cm, datagrams use UDP */
};

int verbs_rails_open(struct verbs *v); /* returns the number of rails, or -RT_E... */
void verbs_rails_close(struct verbs *v);
void verbs_rail_events(struct verbs_rail *r); /* writes the events to the log */
/* Takes the pending events of a channel, and counts each in the context of its queue.  The events
 * are acknowledged when the queue is destroyed, because each acknowledgement takes a lock. */
void verbs_events_take(struct ibv_comp_channel *chan);
/* Allocates and registers zeroed memory, which is kept until the rail is closed.  0 or -RT_ENOMEM,
 * of which a failed registration is logged once. */
int verbs_area_make(struct verbs_rail *r, size_t nbytes, struct verbs_area **out);
/* NULL: no memory. */
struct verbs_home *verbs_home_take(struct verbs_rail *r, uint32_t *rkey);
struct verbs_sbuf *verbs_sbuf_take(struct verbs_rail *r); /* NULL: all are in use */
static inline void verbs_sbuf_give(struct verbs_rail *r, struct verbs_sbuf *s)
{
    s->next = r->sbufs;
    r->sbufs = s;
}
void verbs_rbuf_give(struct verbs_rail *r, struct verbs_rbuf *b);
/* Posts receive buffers up to srq_want; with too little memory lowers srq_want. */
void verbs_srq_fill(struct verbs_rail *r);

#endif
