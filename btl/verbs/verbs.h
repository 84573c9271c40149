/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA between hosts: declarations for the files of btl/verbs.
 *
 * One instance drives all rails (device and port) of this process.  A connection to a peer is set
 * up when it is first used.  It has a few *lanes*: reliable queue pairs, each between a local rail
 * and a rail of the peer.  Lane 0 carries all messages; every lane carries pieces of puts and gets.
 * First messages go by SEND into receive buffers that all peers share (SRQ).  A peer that sends
 * often gets a *ring* in the receiver's memory, which the peer fills with RDMA writes and the
 * receiver polls.  Both are limited by credits: cumulative counts that the receiver writes into the
 * sender's *home*, a line of registered memory.
 *
 * Connection setup uses datagrams (handshake.c).  The engine serialises calls on the instance.
 *
 * Memory of a connected peer: its struct, `depth` entries in each lane's send queue, and as many
 * receive buffers as its window; with a ring, also the ring at the receiver and its mirror at the
 * sender. */
#ifndef BTL_VERBS_VERBS_H
#define BTL_VERBS_VERBS_H

#include "btl/verbs/ops.h"
#include "runtime/base/atomic.h"
#include "runtime/base/list.h"
#include "runtime/ib/ib.h"

#define VERBS_RAILS 4 /* at most; a key of 32 bytes has room for as many remote keys */
#define VERBS_LANES 8
#define VERBS_KEY 32 /* bytes of the secret in an address */

struct verbs;
struct verbs_peer;
struct verbs_lane;

/* Header of a message, in a receive buffer and in a ring.  The high half of the word is the
 * complement of the low half, so a word of which only a part has arrived is recognised. */
struct verbs_head {
    uint32_t word; /* length and flags, VERBS_W_... */
    struct btl_hdr hdr;
};
#define VERBS_W_LEN 0x3fffu
#define VERBS_W_CTL 0x4000u  /* hdr.ctx is an enum verbs_ctl */
#define VERBS_W_SKIP 0x8000u /* no message: continue at the start of the ring */
enum verbs_ctl {
    VERBS_CTL_RING,    /* payload: struct verbs_ring_key: the ring for all further messages */
    VERBS_CTL_RING_ON, /* the last message by SEND; further messages are in the ring */
    VERBS_CTL_BYE,     /* goodbye: the sender may end now */
    VERBS_CTL_EVENT    /* read your home: from iWARP, whose writes make no events */
};
struct verbs_ring_key {
    uint64_t addr;
    uint32_t rkey, nbytes;
};
static inline uint32_t verbs_word(uint32_t low) { return low | (~low & 0xffffu) << 16; }
static inline bool verbs_word_whole(uint32_t w) { return (w >> 16) == (~w & 0xffffu); }

/* A line of registered memory that one peer writes: how many of this process's messages the peer
 * has taken.  Each count is stored with its complement, as above. */
struct verbs_home {
    uint32_t sends, sends_not; /* messages by SEND */
    uint32_t ring, ring_not;   /* bytes of the ring */
    /* Number of the peer's last sleep.  After the first write into its ring after that, send an
     * event. */
    uint32_t asleep, asleep_not;
    uint32_t pad[10];
};

/* Registered memory that the transport allocates for itself. */
struct verbs_area {
    void *base;
    size_t nbytes;
    struct ibv_mr *mr; /* without relaxed ordering, because records and counts rely on the order of
                        * writes */
    void *bufs;        /* malloc'ed descriptions of the area's buffers, or NULL */
};

struct verbs_sbuf { /* buffer that holds a message for SEND */
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
    bool told_full;           /* logged: no more memory can be registered */
    struct verbs_area *areas;
    int nareas;
    struct verbs_home *free_homes; /* linked by their first words */
    struct verbs_dgram *dgram;     /* used by handshake.c */
    bool cm;                       /* queue pairs are connected by rdma_cm, datagrams use UDP */
};

/* A posted work request with a completion, in the order of the lane. */
struct verbs_mark {
    uint32_t posted; /* lane->posted after it */
    uint32_t stage;  /* the mirror's bytes before this position have been sent */
    struct verbs_sbuf *sbuf;
    struct verbs_xfer *xfer;
    uint32_t nbytes; /* of the xfer */
    uint32_t arms;   /* nonzero: its completion shows that the peer has been notified of the sleep
                      * with this number */
};

struct verbs_lane {
    struct verbs_peer *peer;
    struct verbs_rail *rail;
    struct ibv_qp *qp;
    uint8_t index, remote_rail;
    uint32_t id; /* in verbs.lanes */
    uint32_t psn;
    uint32_t depth, max_inline;
    uint32_t posted, done, signalled; /* counts of work requests; `signalled`: the number of the
                                       * last one with a mark */
    uint32_t done_seen;               /* `done` when keep_alive() last read it */
    uint32_t rma_bytes;               /* of puts and gets in progress */
    struct verbs_mark *marks;         /* ring of `depth` */
    uint32_t mark_head, mark_tail;
    uint32_t next_qpn; /* chain in verbs.by_qpn: id + 1 of the next lane */
    struct rdma_cm_id *cm;
    bool up; /* the queue pair is connected */
};

struct verbs_tx_ring { /* the writer's side of the peer's ring; positions are byte counts */
    char *mirror; /* NULL: no ring; registered memory with the same bytes at the same offsets */
    uint32_t lkey, rkey, nbytes;
    uint64_t addr;
    bool on;               /* RING_ON has been sent: all messages use the ring */
    uint32_t head, posted; /* end of the records in the mirror; end of the posted records */
    uint32_t left;         /* the mirror is free up to here */
    uint32_t taken;        /* by the peer, as last read */
    uint32_t marked;       /* `posted` at the last mark requested */
};
struct verbs_rx_ring {
    char *mem; /* NULL: no ring offered */
    uint32_t nbytes, tail;
    bool on; /* RING_ON has arrived */
};

struct verbs_addr_rail { /* a rail, in addresses and in datagrams */
    struct rt_ib_addr at;
    uint32_t ud_qpn, alive_port; /* datagram port of handshake.c; of the thread in alive.c */
    /* of rdma_cm; 0: rdma_cm is not used.  Otherwise the two ports above are UDP ports. */
    uint32_t cm_port;
};
struct verbs_addr {
    uint32_t magic, ud_qkey;
    uint8_t version, nrails, qps, rd_atomic;
    uint8_t pad[4];
    uint8_t key[VERBS_KEY];
    struct verbs_addr_rail rails[VERBS_RAILS];
};
#define VERBS_MAGIC 0x76656674u
#define VERBS_VERSION 4

enum verbs_state {
    VERBS_NEW,    /* connection setup has not begun */
    VERBS_ASKING, /* HELLO sent; the peer's HELLO, or its `seen`, is missing */
    VERBS_UP,
    VERBS_DOWN
};

struct verbs_peer {
    struct btl_peer base;
    struct verbs_peer *next; /* hash chain */
    uint8_t state;           /* enum verbs_state */
    bool has_addr;           /* `addr` is the peer's; else only its rails are known, from a HELLO */
    bool has_theirs, has_ours; /* the peer's queue pairs are known here; ours are known there */
    bool bye;                  /* the peer has said that it may end now, */
    uint64_t bye_ns;           /* then */
    uint32_t bye_at;           /* `posted` of lane 0 when we have said so; 0 = not yet */
    uint32_t wanted;           /* the same before we said so: what is after it nobody misses */
    uint64_t leave_ns;         /* verbs.leave_ns when `wanted` was stored */
    bool told;                 /* the engine knows of `err` */
    bool parted;               /* only what came after our goodbye has failed */
    int err;                   /* 0, or why nothing goes any more */
    char why[160];             /* the same in words, until told */
    int nlanes, lanes_up;
    uint32_t cm_failures;      /* tries that have failed */
    uint32_t heard, heard_old; /* HELLOs that have come; had when we asked last */
    uint32_t answers_ms;       /* time in which each time we asked a HELLO came */
    struct verbs_lane *lanes;  /* VERBS_LANES at most, made with the connection */
    struct verbs_addr addr;
    uint8_t nonce[16], their_nonce[16];
    uint64_t home_addr; /* theirs, that we write */
    uint32_t home_rkey;
    struct verbs_home *home; /* ours, that they write */
    uint32_t home_own_rkey;
    uint32_t sends, sends_taken; /* messages by SEND: sent; taken by the peer */
    uint32_t recvs, recvs_told;  /* received; told, */
    uint32_t tell_every;         /* so many: half of what the peer has under way, or this process
                                    has room for */
    uint32_t ring_told;
    struct verbs_tx_ring tx;
    struct verbs_rx_ring rx;
    bool ring_wanted, ring_on_due; /* an offer, or its acceptance, waits for room */
    /* Sleep: the number told to the peer, and whether it will send an event; the number of the
     * peer's that it has been woken from. */
    uint32_t sleep, woken;
    bool arming, armed, wake_due;
    struct verbs_ring_key ring_offer;
    struct rt_list xfers;   /* puts and gets under way */
    struct rt_list work;    /* in verbs.work while progress() has to look at this peer */
    struct rt_list ringing; /* in verbs.rings: its ring is polled */
    struct rt_list held;    /* in verbs.held: of its ring not all is posted */
    struct rt_list asking;  /* in verbs.asking */
    uint64_t ask_ns;        /* when the next datagram is due */
    uint32_t ask_wait_ms;
    uint32_t silent_ms;    /* asked, without a sign that the process is there */
    uint32_t pings, pongs; /* last question whether it is there; last one answered */
    uint32_t stuck;        /* looks in a row at requests that do not end, without an answer */
    uint64_t look_ns;      /* when the next look is due */
    uint8_t alive_key[VERBS_KEY];
    bool ask_noted;
};

struct verbs_xfer {
    struct rt_list link;
    struct verbs_peer *peer;
    struct btl_op *op; /* borrowed until done() */
    bool get;
    bool order;       /* the destination is device memory, whose data must be ordered at the end */
    bool flushing;    /* `flush` is in use */
    uint8_t no_rails; /* bits: local rails that cannot register `local` */
    uint8_t rails;    /* bits: rails with data not yet ordered (get: local; put: remote) */
    int err;
    char *local;
    size_t len, pos;  /* pos: bytes posted so far */
    uint32_t flying;  /* work requests in progress */
    uint64_t *before; /* of an atomic operation: destination of its result, which arrives in
                       * `local` */
    uint64_t remote;  /* address */
    uint32_t rkey[VERBS_RAILS];
    struct btl_mem *mem;              /* the engine's registration of `local`, or NULL: then */
    struct rt_ib_mr *mr[VERBS_RAILS]; /* registrations of this transfer */
    struct rt_ib_flush flush;
};

#define VERBS_BUCKETS 256

struct verbs {
    struct btl base;
    struct btl_up up;
    int nrails;
    struct verbs_rail rails[VERBS_RAILS];
    struct rt_ib_rail ib[VERBS_RAILS];
    struct verbs_addr addr; /* this process's */
    struct verbs_alive *alive;
    struct verbs_cm *cm; /* NULL: no rail connects by rdma_cm */
    struct verbs_peer *peers[VERBS_BUCKETS];
    struct verbs_lane **lanes; /* by id, nlanes of them; NULL: the peer has gone */
    uint32_t nlanes;
    uint32_t by_qpn[VERBS_BUCKETS]; /* id + 1 of the first lane */
    struct rt_list work, rings, asking, held;
    bool holding;        /* between verbs_hold() and verbs_release() */
    struct rt_list mems; /* all memory registered by the engine */
    int nrings;
    uint32_t polls;
    uint64_t alive_ns; /* when keep_alive() next looks at peers */
    uint64_t leave_ns; /* when this process began to leave; 0: it is not leaving */
    int sleep_fd;
    bool closing;
};

/* wr_id of a receive: the address of its verbs_rbuf.  Of a send: bit 0, a lane's id in bits 1 to
 * 31, and in the high half how many requests the lane had posted with it. */
#define VERBS_ID_LANE 1u

/* dev.c: rails */
int verbs_rails_open(struct verbs *v);
void verbs_rails_close(struct verbs *v);
void verbs_rail_events(struct verbs_rail *r); /* writes the events to the log */
/* Takes the pending events of a channel, and counts each in the context of its queue.  The events
 * are acknowledged when the queue is destroyed, because each acknowledgement takes a lock. */
void verbs_events_take(struct ibv_comp_channel *chan);
int verbs_area_make(struct verbs_rail *r, size_t nbytes, struct verbs_area **out);
struct verbs_home *verbs_home_take(struct verbs_rail *r, uint32_t *rkey);
struct verbs_sbuf *verbs_sbuf_take(struct verbs_rail *r);
static inline void verbs_sbuf_give(struct verbs_rail *r, struct verbs_sbuf *s)
{
    s->next = r->sbufs;
    r->sbufs = s;
}
void verbs_rbuf_give(struct verbs_rail *r, struct verbs_rbuf *b);
void verbs_srq_fill(struct verbs_rail *r);

/* lane.c: queue pairs */
/* Whether any rail of `a` can reach any rail of `b`. */
bool verbs_rails_reach(const struct verbs_addr *a, const struct verbs_addr *b);
int verbs_lanes_make(struct verbs_peer *p);
struct verbs_qp_info {
    uint32_t qpn, psn;
};
int verbs_lanes_connect(struct verbs_peer *p, const struct verbs_qp_info *theirs);
int verbs_lane_reset(struct verbs_lane *l);  /* to the state after creation; not connected */
void verbs_lanes_stop(struct verbs_peer *p); /* to the error state, which flushes all requests */
void verbs_lanes_free(struct verbs_peer *p);
struct verbs_lane *verbs_lane_of(struct verbs *v, const struct verbs_rail *r, uint32_t qpn);
/* Posts a work request; `mark` not NULL: with a completion.  -RT_EAGAIN if the queue is full. */
int verbs_lane_post(struct verbs_lane *l, struct ibv_send_wr *wr, const struct verbs_mark *mark);
/* Posts an empty write whose completion shows that all earlier requests are done. */
void verbs_lane_flush(struct verbs_lane *l);
bool verbs_lane_has_room(const struct verbs_lane *l, uint32_t n);
int verbs_rail_poll(struct verbs_rail *r);

/* msg.c: messages by SEND and by ring */
int verbs_send(struct btl_peer *peer, const struct btl_hdr *h, const void *buf, size_t len);
int verbs_send_ctl(struct verbs_peer *p, enum verbs_ctl ctl, const void *buf, size_t len);
void verbs_arrived(struct verbs_lane *l, struct verbs_rbuf *b, size_t len);
int verbs_ring_drain(struct verbs_peer *p, int max);
/* Between the two calls, records for a peer's ring are collected; the second call writes them at
 * once. */
static inline void verbs_hold(struct verbs *v) { v->holding = true; }
void verbs_release(struct verbs *v);
void verbs_wake_step(struct verbs_peer *p);
/* Asks the peer for an event after its next write into this process's ring.  True: the peer has
 * been notified. */
bool verbs_arm(struct verbs_peer *p);
void verbs_event_in(struct verbs_lane *l);
bool verbs_all_taken(struct verbs_peer *p); /* all messages by SEND, as far as this process knows */
bool verbs_credits_due(const struct verbs_peer *p);
void verbs_credits_step(struct verbs_peer *p);
void verbs_ring_step(struct verbs_peer *p);

/* rma.c */
int verbs_mem_reg(struct btl *b, void *base, size_t len, const struct rt_gpu_ptr *at,
                  struct btl_mem **out);
void verbs_mem_dereg(struct btl_mem *m);
void verbs_mems_free(struct verbs *v); /* registrations that were not released */
int verbs_mem_key(const struct btl_mem *m, void *key);
int verbs_attach(struct btl_peer *p, const void *key, const struct rt_gpu_ptr *near,
                 struct btl_rmem **out);
void verbs_detach(struct btl_rmem *r);
int verbs_put(struct btl_rmem *r, size_t off, struct btl_mem *m, const void *src, size_t len,
              struct btl_op *op);
int verbs_get(struct btl_rmem *r, size_t off, struct btl_mem *m, void *dst, size_t len,
              struct btl_op *op);
int verbs_amo(struct btl_rmem *r, size_t off, const struct btl_amo *a, struct btl_op *op);
static inline bool verbs_has_atomics(const struct verbs_rail *r)
{
    return r->ib->attr.atomic_cap != IBV_ATOMIC_NONE;
}
void verbs_xfer_landed(struct verbs_lane *l, const struct verbs_mark *m, int err);
int verbs_xfers_step(struct verbs_peer *p);
void verbs_xfers_drop(struct verbs_peer *p); /* without calling done() */
void verbs_xfers_free(struct verbs_peer *p); /* after the queue pairs are destroyed */

/* handshake.c: connection setup */
int verbs_wire_open(struct verbs *v);
void verbs_wire_close(struct verbs *v);
void verbs_wire_start(struct verbs_peer *p);
void verbs_wire_heard(struct verbs_peer *p);   /* a message has arrived on the peer's queue pair */
int verbs_wire_arm(struct verbs *v, int rail); /* enables events for datagrams; 0 or an errno */
void verbs_wire_lane_up(struct verbs_peer *p); /* one more lane is connected */
int verbs_wire_progress(struct verbs *v);

/* alive.c: the thread that answers pings, and pings to other processes */
int verbs_alive_open(struct verbs *v);
void verbs_alive_close(struct verbs *v);
/* The key of pings and pongs, made from the key in the address of the process that is pinged. */
void verbs_alive_key(const uint8_t key[VERBS_KEY], uint8_t out[VERBS_KEY]);
void verbs_alive_ask(const struct verbs_lane *l); /* pings the lane's peer over the lane's rail */
/* Handles a datagram; false: it is not a pong. */
bool verbs_alive_answer(struct verbs *v, const void *data, size_t len);

/* cm.c: lanes of rails that connect by rdma_cm */
bool verbs_cm_wanted(const struct rt_ib_rail *ib);
int verbs_cm_open(struct verbs *v);
void verbs_cm_close(struct verbs *v);
int verbs_cm_fd(const struct verbs *v);    /* readable when there are events; -1: no rail uses
                                            * rdma_cm */
void verbs_cm_start(struct verbs_peer *p); /* starts the setup of each lane that has not started */
void verbs_cm_lane_close(struct verbs_lane *l);
int verbs_cm_progress(struct verbs *v);

/* verbs.c */
int verbs_peer_get(struct verbs *v, struct rt_proc proc, bool make, struct verbs_peer **out);
void verbs_peer_work(struct verbs_peer *p);
/* Marks the connection as failed.  progress() notifies the engine and logs the reason, unless it
 * turns out that the peer has said goodbye. */
void verbs_peer_fail(struct verbs_peer *p, int err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
