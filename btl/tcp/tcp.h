/* SPDX-License-Identifier: BSD-3-Clause */
/* TCP between processes, on one host or many: what the files of btl/tcp share.
 *
 * Every process has one listening socket and one epoll descriptor.  A peer is reached by one main
 * connection, which carries messages in order, and by lanes, which carry the data of puts, so that
 * no message waits behind a large one.  Both are made when first needed: the main connection by the
 * side that sends first, the lanes by the side that made the main one (the other may not be able
 * to, behind a firewall).  When both connect at once, the connection that the lower rank made
 * stays.
 *
 * Memory: a peer that was never talked to costs nothing; a connected one costs its struct, those of
 * its connections and its address, about 700 bytes, up to 1 KiB of queue once something has waited
 * there, and what the kernel keeps for a socket.  Arriving data share one buffer,
 * except for the part of a frame that is not there yet. */
#ifndef BTL_TCP_TCP_H
#define BTL_TCP_TCP_H

#include <netinet/in.h>
#include "btl/btl.h"
#include "btl/region.h"
#include "btl/tcp/frames.h"
#include "runtime/base/list.h"

#define TCP_ADDRS_MAX 16 /* addresses that a process publishes */
#define TCP_LANES_MAX 4  /* lanes to a peer, on as many networks */
#define TCP_HALF_MAX 64  /* unauthenticated connections that are held at a time */
#define TCP_BUCKETS 256u /* of the table of peers */

union tcp_sockaddr {
    struct sockaddr sa;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
};

struct tcp_if {        /* one usable address of this host, as published */
    uint8_t family;    /* 4 or 6 */
    uint8_t prefix;    /* length of the network's part */
    uint16_t index;    /* of the interface: several addresses may be of one */
    uint32_t mb_per_s; /* of the interface; 0: not known */
    uint8_t addr[16];
};

struct tcp_address { /* the blob; only naddrs of the addresses are published */
    uint8_t version; /* TCP_ADDRESS_VERSION */
    uint8_t naddrs;
    uint16_t port;
    uint32_t zero;
    uint64_t place; /* host and network namespace: equal, and loopback leads there */
    uint8_t key[RT_SHA256_LEN];
    struct tcp_if ifs[TCP_ADDRS_MAX];
};
#define TCP_ADDRESS_VERSION 1

struct tcp_route { /* one way to a peer */
    union tcp_sockaddr to, from;
    bool same_net;  /* the two are neighbours: `from` is worth binding to */
    uint16_t index; /* of the peer's interface */
    uint32_t score;
};

/* The life of a connection; the records of frames.h in between. */
enum tcp_state {
    TCP_CONNECTING, /* connect() is under way */
    TCP_WAIT_CHALLENGE,
    TCP_WAIT_VERDICT,
    TCP_WAIT_HELLO,
    TCP_WAIT_PROOF,
    TCP_UP,
    TCP_CLOSED /* its memory goes at the end of the pass */
};

struct tcp_shake { /* of a connection that is not up yet */
    struct tcp_hello hello;
    struct tcp_challenge challenge;
    union {
        struct tcp_proof proof;
        struct tcp_verdict verdict;
    };
    uint32_t have; /* bytes of the record that is expected */
};

struct tcp_in { /* the frame that is arriving on a main connection */
    char *part; /* its first bytes: `small`, or allocated */
    uint32_t have, need, room;
    _Alignas(8) char small[64];
};

struct tcp_out { /* what the kernel did not take yet */
    char *buf;
    size_t head, tail, room;
};

struct tcp_piece_in { /* the piece of a put that is arriving on a lane */
    struct tcp_lane_frame frame;
    uint32_t have; /* bytes of `frame` */
    uint64_t pos;  /* bytes of the data */
};

struct tcp_xfer;
struct tcp_piece_out { /* the piece that is leaving; xfer NULL: none */
    struct tcp_lane_frame frame;
    struct tcp_xfer *xfer;
    uint64_t pos; /* bytes of the frame and the data that have left */
};

struct tcp_conn {
    struct btl_tcp *tcp;
    struct tcp_peer *peer; /* NULL until the other side has proved itself */
    int fd;
    enum tcp_state state;
    enum tcp_purpose purpose;
    uint32_t events;         /* what epoll watches */
    struct rt_list link;     /* in tcp->half, ->conns or ->dead */
    uint64_t since_ns;       /* when it came into `half` */
    uint64_t stalled_ns;     /* since when nothing has been acknowledged; 0: all is well */
    uint64_t mute_ns;        /* since when no packet has come of those that should */
    struct tcp_shake *shake; /* until it is up */
    union {
        struct tcp_in in;             /* main */
        struct tcp_piece_in piece_in; /* lane */
    };
    struct tcp_piece_out piece_out; /* lane */
    uint32_t segs_in;               /* packets that had come when timers.c last looked */
    bool heard;                     /* any byte has come */
    bool long_read;                 /* the last read brought much: poll() asks epoll */
};

struct tcp_peer {
    struct btl_peer base;
    struct tcp_peer *next; /* in the table */
    struct tcp_conn *main; /* up, or on its way up */
    bool up;               /* the main connection is up */
    bool connector;        /* this side made it */
    bool bye_in, bye_out;  /* goodbye received; sent: nothing more comes */
    bool lost, told;       /* it has gone; the engine has been notified */
    bool lanes_wanted;     /* they have been asked for */
    bool lanes_missed;     /* the other side has asked, while this one had not seen theirs end */
    uint8_t nlanes;
    uint32_t awaited; /* regions that this peer is to fill: data that no lane may lose */
    struct tcp_conn *lanes[TCP_LANES_MAX];
    struct tcp_address *addr; /* NULL: the peer connected first */
    struct tcp_route *routes; /* best first; while connecting */
    int nroutes, route;
    uint64_t first_try_ns, retry_ns, losing_ns; /* 0: does not apply */
    int last_errno;                             /* of the last attempt */
    struct tcp_out out;
    uint32_t dropped;     /* puts up to this number may be acknowledged, but are forgotten */
    struct rt_list cork;  /* in tcp->corked */
    struct rt_list xfers; /* puts that are not done */
    struct rt_list work;  /* in tcp->work: has a running timer (retry, loss) */
};

struct tcp_xfer {
    struct rt_list link; /* in peer->xfers, or in tcp->finished */
    struct btl_op *op;   /* lent until done() */
    struct tcp_key key;
    const char *src;
    uint64_t off, len, cut, acked; /* cut: bytes that lanes have taken */
    uint32_t id;
    bool awaited; /* the target notifies its user: `acked` is what the kernel has taken */
    int err;
};

struct btl_tcp {
    struct btl base;
    struct btl_up up;
    int epoll, listener;
    int half_epoll; /* of the listener and of connections that are not up; watched by `epoll` */
    bool listening; /* the listener is watched */
    bool closing;   /* no more upward calls */
    uint8_t key[RT_SHA256_LEN];
    uint64_t token; /* of hellos to this process */
    uint64_t place;
    uint16_t port;
    int nifs;
    struct tcp_if ifs[TCP_ADDRS_MAX];
    struct tcp_peer *peers[TCP_BUCKETS];
    struct rt_list half, conns, dead; /* connections: not up, up, closed */
    struct rt_list work;              /* peers with running timers */
    struct rt_list finished;          /* puts whose done() is due */
    struct rt_list corked;            /* peers with frames that leave at the end of the pass */
    bool corking;                     /* in a pass */
    struct tcp_conn *burst; /* where the last frame was long, and progress() not called since */
    bool burst_holds;       /* ends of its frames wait for the next one: frames.c */
    uint64_t long_ns;       /* when that frame was written */
    uint64_t patience_ns;   /* how long a first message waits for its connection */
    int nhalf_in;           /* accepted ones in `half` */
    uint64_t timeout_ns, next_check_ns;
    uint64_t last_event_ns, next_look_ns; /* progress() asks epoll no earlier, */
    bool stirred;                         /* unless something has happened since */
    uint32_t next_put;
    struct btl_regions regions;
    char *rx; /* TCP_RX bytes, for all main connections */
    int nwarned;
    union tcp_sockaddr warned[8]; /* addresses that a warning has named */
};
#define TCP_RX (256u << 10)

/* addr.c: which addresses this host has, and the ways to another. */
int tcp_ifs_find(struct btl_tcp *b);
/* Bytes of the blob with n addresses. */
size_t tcp_address_len(int naddrs);
/* Copies a blob that has come from elsewhere; -RT_EINVAL when it is none. */
int tcp_address_read(const void *blob, size_t len, struct tcp_address **out);
/* The ways to a process, best first; returns their number.  At most TCP_ADDRS_MAX. */
int tcp_routes(const struct btl_tcp *b, const struct tcp_address *to, struct tcp_route *out);
/* "10.0.0.1:4711", in a static buffer. */
const char *tcp_addr_text(const union tcp_sockaddr *a);
const char *tcp_fd_text(int fd);
bool tcp_is_published(const struct btl_tcp *b, int fd);

/* conn.c: sockets, from nothing to up, and down again. */
static inline struct btl_tcp *tcp_instance(const struct tcp_peer *p)
{
    return (struct btl_tcp *)p->base.btl;
}
/* One that has come from elsewhere, and has not proved itself. */
static inline bool tcp_is_accepted(const struct tcp_conn *c)
{
    return c->state == TCP_WAIT_HELLO || c->state == TCP_WAIT_PROOF;
}
void tcp_set_option(int fd, int level, int name, int value);
struct tcp_conn *tcp_conn_new(struct btl_tcp *b, int fd, enum tcp_state state);
void tcp_conn_up(struct tcp_conn *c, struct tcp_peer *p, bool connector);
/* An attempt has come to nothing: the next way, or the first one again after a while. */
void tcp_attempt_failed(struct tcp_conn *c, int err);
void tcp_given_up(struct tcp_conn *c);
void tcp_listener_watch(struct btl_tcp *b, bool on);
/* The peer has said that nothing more comes, and its connection has ended. */
void tcp_peer_left(struct tcp_peer *p);
void tcp_peer_tell(struct tcp_peer *p);
/* accept.c: until a connection is up. */
int tcp_listen(struct btl_tcp *b);
void tcp_accept(struct btl_tcp *b);
/* Closes what is none of ours, and says so. */
void tcp_stranger(struct tcp_conn *c, const char *what);
/* Begins to connect to p, or tries the next way. */
void tcp_connect(struct tcp_peer *p);
void tcp_lanes_open(struct tcp_peer *p);
/* What has happened on connections that are not up, and on the listener; makes no upward calls. */
int tcp_half_pass(struct btl_tcp *b, int wait_ms);
/* Gives the connection to p a moment to come up, so that the message of a process that leaves MPI
 * after the call has left. */
void tcp_connect_wait(struct tcp_peer *p);
void tcp_conn_watch(struct tcp_conn *c, uint32_t events);
void tcp_conn_close(struct tcp_conn *c);
/* Something has happened on a connection that is not up. */
int tcp_conn_step(struct tcp_conn *c, uint32_t events);
/* A connection that was up has ended: err is errno, 0 for the end of the stream. */
void tcp_conn_broken(struct tcp_conn *c, int err);
/* Marks the peer lost; why is for the log. */
void tcp_peer_lost(struct tcp_peer *p, const char *why);
/* timers.c: attempts that take too long, silent connections, dead peers.  Returns events. */
int tcp_timers(struct btl_tcp *b);
/* Microseconds until it has to be called again, about. */
int tcp_timers_us(const struct btl_tcp *b);
struct tcp_peer *tcp_peer_find(struct btl_tcp *b, uint32_t rank);
struct tcp_peer *tcp_peer_get(struct btl_tcp *b, uint32_t rank);
void tcp_need_work(struct tcp_peer *p);

/* handshake.c: the proofs that a connection begins with. */
enum tcp_shook { TCP_SHAKE_MORE, TCP_SHAKE_NEXT, TCP_SHAKE_BAD, TCP_SHAKE_END };
/* Reads the record that c's state asks for. NEXT: it is complete.  END: the other side has closed,
 * or the connection broke (errno, or 0). */
enum tcp_shook tcp_shake_read(struct tcp_conn *c);
int tcp_shake_send_hello(struct tcp_conn *c, uint32_t to);
/* What a hello to the process with this key shows, so that only processes of its job can send one.
 */
uint64_t tcp_shake_token(const uint8_t *key);
bool tcp_shake_hello_ok(const struct btl_tcp *b, const struct tcp_hello *h);
int tcp_shake_send_challenge(struct tcp_conn *c);
bool tcp_shake_challenge_ok(const struct tcp_conn *c);
int tcp_shake_send_proof(struct tcp_conn *c, const uint8_t *key);
bool tcp_shake_proof_ok(const struct tcp_conn *c);
int tcp_shake_send_verdict(struct tcp_conn *c, enum tcp_answer answer);
bool tcp_shake_verdict_ok(const struct tcp_conn *c, const uint8_t *key);

/* frames.c: frames on main connections. */
int tcp_send(struct btl_peer *peer, const struct btl_hdr *h, const void *buf, size_t len);
/* One frame; `more` goes between header and payload.  always: beyond the limit too, for frames that
 * have no one to retry them. */
int tcp_frame_send(struct tcp_peer *p, enum tcp_kind kind, const struct btl_hdr *h,
                   const void *more, size_t more_len, const void *buf, size_t len, bool always);
int tcp_out_flush(struct tcp_peer *p);
/* Nothing more follows for now: what is held of the last frame leaves. */
void tcp_burst_end(struct btl_tcp *b);
/* Lets out what was held back in this pass. */
void tcp_uncork(struct btl_tcp *b);
int tcp_main_read(struct tcp_conn *c);
void tcp_in_drop(struct tcp_conn *c);

/* rma.c: registered memory, puts and lanes. */
void tcp_rma_close(struct btl_tcp *b);
int tcp_mem_reg(struct btl *b, void *base, size_t len, const struct rt_gpu_ptr *at,
                struct btl_mem **out);
void tcp_mem_dereg(struct btl_mem *m);
int tcp_mem_key(const struct btl_mem *m, void *key);
void tcp_expect(struct btl_mem *m, struct btl_peer *from, struct btl_op *op);
int tcp_attach(struct btl_peer *p, const void *key, const struct rt_gpu_ptr *near,
               struct btl_rmem **out);
void tcp_detach(struct btl_rmem *r);
int tcp_put(struct btl_rmem *r, size_t off, struct btl_mem *m, const void *src, size_t len,
            struct btl_op *op);
int tcp_put_in(struct tcp_peer *p, const struct tcp_frame *f, const char *payload, size_t len);
int tcp_ack_in(struct tcp_peer *p, const struct btl_hdr *h);
int tcp_lane_read(struct tcp_conn *c);
/* The peer has ended in order: what it had put is in this kernel, and has not been read yet. */
void tcp_lanes_drain(struct tcp_peer *p);
int tcp_lane_write(struct tcp_conn *c);
/* Gives waiting puts to lanes that have nothing to do. */
int tcp_lanes_feed(struct tcp_peer *p);
void tcp_xfers_drop(struct tcp_peer *p);
void tcp_xfers_fail(struct tcp_peer *p, int err);
int tcp_finished(struct btl_tcp *b);

extern const struct btl_ops btl_tcp_ops;

#endif
