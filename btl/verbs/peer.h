/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer: the connection to one process, its state by purpose, and its lanes. */
#ifndef BTL_VERBS_PEER_H
#define BTL_VERBS_PEER_H

#include "btl/verbs/verbs.h"

struct verbs_xfer;
struct rdma_cm_id;

/* The life of a connection, in this order.  A failure leads from any state to FAILED or PARTED. */
enum verbs_state {
    VERBS_NEW,    /* connection setup has not begun */
    VERBS_ASKING, /* HELLOs are sent; the peer's queue pairs are not known */
    VERBS_HALF,   /* the peer's queue pairs are known; whether it knows this process's is not */
    VERBS_AGREED, /* both are known; lanes that rdma_cm connects are missing */
    VERBS_UP,
    VERBS_FAILED, /* failed; the engine has not been notified */
    VERBS_PARTED, /* the same, but the peer has all messages sent before this process's goodbye */
    VERBS_DOWN    /* failed; the engine has been notified */
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

/* Connection setup: handshake.c and cm.c. */
struct verbs_setup {
    struct rt_list link; /* in verbs.asking */
    uint8_t nonce[16], their_nonce[16];
    uint64_t ask_ns; /* when the next HELLO is due */
    uint32_t wait_ms;
    uint32_t silent_ms;           /* time asked without a HELLO or a pong */
    uint32_t hellos, hellos_seen; /* HELLOs received; received when the last one was sent */
    uint32_t answers_ms;          /* time in which each HELLO sent was answered */
    uint32_t cm_failures;         /* attempts by rdma_cm that have failed */
    bool connect_due;             /* cm.c must connect the missing lanes */
    bool noted;                   /* logged: the peer is not calling MPI */
};

/* Pings: alive.c. */
struct verbs_liveness {
    uint8_t key[VERBS_KEY];
    uint32_t pings, pongs; /* number of the last ping sent; of the last one answered */
    uint32_t stuck;   /* consecutive looks at which requests had not completed, without a pong */
    uint64_t look_ns; /* when the next look is due */
};

/* The end of the connection: verbs_leave(). */
struct verbs_goodbye {
    uint64_t theirs_ns; /* when the peer's goodbye arrived; 0: no goodbye since its last message */
    uint32_t ours_at;   /* lane 0's `posted` after this process's goodbye; 0: not sent */
    uint32_t wanted;    /* lane 0's `posted` before the goodbye: the peer needs nothing after it */
    uint64_t leave_ns;  /* verbs.leave_ns when `wanted` was stored */
};

/* Flow control of messages: msg.c. */
struct verbs_credits {
    uint32_t sent, taken;        /* messages by SEND: sent; taken by the peer */
    uint32_t received, returned; /* messages by SEND: received; returned to the peer as credits */
    uint32_t every; /* messages after which credits are returned: half of the smaller window */
    uint32_t ring_returned; /* bytes of the receive ring returned */
};

/* Sleep: an event is needed when a ring is written.  VERBS_ARMED: the peer has been notified, and
 * will send an event. */
enum verbs_sleep_state { VERBS_AWAKE, VERBS_ARMING, VERBS_ARMED };
struct verbs_sleep {
    enum verbs_sleep_state state;
    uint32_t number; /* of this process's last sleep */
    uint32_t woken;  /* number of the peer's sleep for which the last event was sent */
    bool wake_due;   /* an event for the peer waits for room */
};

enum verbs_ring_state {
    VERBS_RING_NONE,
    VERBS_RING_DUE,     /* the offer, or its acceptance, waits for room */
    VERBS_RING_OFFERED, /* receiver only */
    VERBS_RING_ON       /* RING_ON has been sent, or has arrived: all messages use the ring */
};
struct verbs_tx_ring { /* the writer's side of the peer's ring; positions are byte counts */
    char *mirror;      /* registered memory with the same bytes at the same offsets */
    uint32_t lkey, rkey, nbytes;
    enum verbs_ring_state state;
    uint64_t addr;
    uint32_t head, posted; /* end of the records in the mirror; end of the posted records */
    uint32_t left;         /* the mirror is free up to here */
    uint32_t taken;        /* by the peer, as last read */
    uint32_t marked;       /* `posted` at the last mark requested */
};
struct verbs_rx_ring {
    char *mem;
    uint32_t nbytes, tail;
    enum verbs_ring_state state;
    uint32_t rkey;
};

struct verbs_homes { /* the lines that hold credits, see struct verbs_home */
    uint64_t addr;   /* the peer's, which this process writes */
    uint32_t rkey;
    uint32_t own_rkey;
    struct verbs_home *own; /* which the peer writes */
};

struct verbs_peer {
    struct btl_peer base;
    struct verbs_peer *next; /* hash chain */
    enum verbs_state state;
    bool has_addr; /* `addr` is the peer's; else only its rails are known, from a HELLO */
    int nlanes, lanes_up;
    struct verbs_lane *lanes; /* VERBS_LANES at most, made with the connection */
    struct verbs_homes home;
    struct verbs_credits credits;
    struct verbs_sleep sleep;
    struct verbs_tx_ring tx;
    struct verbs_rx_ring rx;
    struct rt_list xfers;   /* puts and gets in progress */
    struct rt_list work;    /* in verbs.work while progress() must handle this peer */
    struct rt_list ringing; /* in verbs.rings: its ring is polled */
    struct rt_list held;    /* in verbs.held: not all records in its ring have been posted */
    struct verbs_goodbye bye;
    struct verbs_setup setup;
    struct verbs_liveness live;
    struct verbs_addr addr;
    int err;       /* not 0: the connection has failed */
    char why[160]; /* the reason, for the log */
};

static inline struct verbs *verbs_of(const struct verbs_peer *p)
{
    return (struct verbs *)p->base.btl;
}
static inline bool verbs_is_connecting(const struct verbs_peer *p)
{
    return p->state >= VERBS_ASKING && p->state <= VERBS_AGREED;
}

/* 0; -RT_ENOENT: the peer is not known, and `make` is false; -RT_ENOMEM. */
int verbs_peer_get(struct verbs *v, struct rt_proc proc, bool make, struct verbs_peer **out);
void verbs_peer_work(struct verbs_peer *p); /* adds p to the list that progress() handles */
/* Marks the connection as failed.  progress() notifies the engine and logs the reason, at a lower
 * level if the peer has sent its goodbye. */
void verbs_peer_fail(struct verbs_peer *p, int err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
