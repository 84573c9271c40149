/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections and peers. */
#ifndef BTL_TCP_CONN_H
#define BTL_TCP_CONN_H

#include "btl/tcp/tcp.h"

#define TCP_LANES_MAX 4 /* lanes to a peer, each on its own network */

/* The life of a connection; the records are those of format.h. */
enum tcp_state {
    TCP_CONNECTING, /* connect() is in progress */
    TCP_WAIT_CHALLENGE,
    TCP_WAIT_VERDICT,
    TCP_WAIT_HELLO,
    TCP_WAIT_PROOF,
    TCP_UP,
    TCP_CLOSED /* freed at the end of the pass */
};

struct tcp_shake { /* of a connection in setup */
    struct tcp_hello hello;
    struct tcp_challenge challenge;
    union {
        struct tcp_proof proof;
        struct tcp_verdict verdict;
    };
    uint32_t have; /* bytes received of the current record */
};

struct tcp_in { /* the incomplete frame of a main connection */
    char *part; /* its first bytes: `small`, or allocated */
    uint32_t have, need, room;
    _Alignas(8) char small[64];
};

struct tcp_out { /* send queue: what the kernel has not taken */
    char *buf;
    size_t head, tail, room;
};

struct tcp_piece_in { /* the piece of a put that a lane receives */
    struct tcp_lane_frame frame;
    uint32_t have; /* bytes received of `frame` */
    uint64_t pos;  /* bytes received of the data */
};

struct tcp_xfer;
struct tcp_piece_out { /* the piece that a lane sends; xfer NULL: none */
    struct tcp_lane_frame frame;
    struct tcp_xfer *xfer;
    uint64_t pos; /* bytes sent of the frame and the data */
};

struct tcp_conn {
    struct btl_tcp *tcp;
    struct tcp_peer *peer; /* NULL: accepted and not yet authenticated */
    int fd;
    enum tcp_state state;
    enum tcp_purpose purpose;
    uint32_t events;         /* that epoll watches */
    struct rt_list link;     /* in tcp->half, ->conns or ->dead */
    uint64_t since_ns;       /* when it was put into `half`, or sent its hello */
    uint64_t stalled_ns;     /* since when nothing has been acknowledged; 0: nothing is due */
    uint64_t silent_ns;      /* since when no packet has arrived although keepalive sends some */
    struct tcp_shake *shake; /* until it is up */
    union {
        struct tcp_in in;             /* main */
        struct tcp_piece_in piece_in; /* lane */
    };
    struct tcp_piece_out piece_out; /* lane */
    uint32_t segs_in;               /* packets received at the last look of timers.c */
    bool has_data;                  /* any byte has arrived */
    bool long_read;                 /* the last read was long: poll() uses epoll */
};

struct tcp_peer {
    struct btl_peer base;
    struct tcp_peer *next; /* in the table */
    struct tcp_conn *main; /* up or in setup */
    bool up;               /* the main connection is up */
    bool connector;        /* this side made it */
    bool bye_in, bye_out;  /* goodbye received; sent, and nothing after it */
    bool lost, notified;   /* the peer has gone; the engine has been notified */
    bool lanes_wanted;     /* the peer has been asked to open lanes */
    bool lanes_missed; /* the peer asked for lanes before this side noticed the end of its own */
    uint8_t lane_failures; /* since a lane was up: attempts that failed in the handshake */
    uint8_t nlanes;
    uint32_t awaited; /* regions that this peer is to fill: a lane must not lose their data */
    struct tcp_conn *lanes[TCP_LANES_MAX];
    struct tcp_address *addr; /* NULL: the peer connected first */
    struct tcp_route *routes; /* best first; during connection setup */
    int nroutes, route;
    uint64_t first_try_ns, retry_ns, losing_ns; /* 0: the timer does not run */
    uint64_t try_ns;                            /* when the last attempt began */
    int last_errno;                             /* of the last attempt */
    struct tcp_out out;
    uint32_t dropped;     /* acknowledgements of puts up to this number are ignored */
    struct rt_list cork;  /* in tcp->corked */
    struct rt_list xfers; /* puts in progress */
    struct rt_list work;  /* in tcp->work: a timer runs (retry, loss) */
};

static inline struct btl_tcp *tcp_instance(const struct tcp_peer *p)
{
    return (struct btl_tcp *)p->base.btl;
}
/* Accepted, and not yet authenticated. */
static inline bool tcp_is_accepted(const struct tcp_conn *c)
{
    return c->state == TCP_WAIT_HELLO || c->state == TCP_WAIT_PROOF;
}
/* The peer, or NULL.  tcp_peer_get() creates it if needed; NULL: no memory. */
struct tcp_peer *tcp_peer_find(struct btl_tcp *b, struct rt_proc proc);
struct tcp_peer *tcp_peer_get(struct btl_tcp *b, struct rt_proc proc);
void tcp_need_work(struct tcp_peer *p); /* a timer of the peer has been started */
void tcp_set_option(int fd, int level, int name, int value);
void tcp_set_options(int fd);
/* A connection in setup, which owns fd.  NULL: no memory; the caller still owns fd. */
struct tcp_conn *tcp_conn_new(struct btl_tcp *b, int fd, enum tcp_state state);
void tcp_conn_watch(struct tcp_conn *c, uint32_t events);
void tcp_conn_close(struct tcp_conn *c);
void tcp_in_drop(struct tcp_conn *c); /* forgets an incomplete frame */
void tcp_listener_watch(struct btl_tcp *b, bool on);

#endif
