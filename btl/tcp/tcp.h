/* SPDX-License-Identifier: BSD-3-Clause */
/* TCP between processes, on one host or several: the instance of btl/tcp.
 *
 * Every process has one listening socket and one epoll descriptor.  A peer is reached by one main
 * connection, which carries messages in order, and by lanes, which carry the data of puts, so that
 * no message waits behind a large put.  Both are made when they are first needed.  The side that
 * sends first makes the main connection.  The same side makes the lanes, because a firewall may
 * keep the other side from connecting.  If both sides connect at once, the connection that the
 * lower rank made is kept.
 *
 * Memory: a peer that was never addressed costs nothing.  A connected peer costs its struct, the
 * structs of its connections and its address, about 700 bytes; once a frame has waited, up to 1 KiB
 * of send queue; and the kernel's memory for a socket.  All connections read into one buffer; only
 * an incomplete frame is copied.
 *
 * A file calls only files before it: addr, conn, handshake, out, rma, disconnect, connect, accept,
 * in, send, timers, tcp.  `make check-layers` checks this. */
#ifndef BTL_TCP_TCP_H
#define BTL_TCP_TCP_H

#include <netinet/in.h>
#include "btl/region.h"
#include "btl/tcp/format.h"
#include "runtime/base/list.h"

#define TCP_HALF_MAX 64     /* accepted connections that are held before they are authenticated */
#define TCP_BUCKETS 256u    /* of the table of peers */
#define TCP_RX (256u << 10) /* bytes read by one call: four of the longest frames */

struct tcp_conn;
struct tcp_peer;

union tcp_sockaddr {
    struct sockaddr sa;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
};

struct btl_tcp {
    struct btl base;
    struct btl_up up;
    int epoll, listener;
    int half_epoll; /* of the listener and of connections in setup; watched by `epoll` */
    bool listening; /* `half_epoll` watches the listener */
    bool closing;   /* no more upward calls */
    uint8_t key[RT_SHA256_LEN];
    uint64_t token; /* in hellos to this process */
    uint64_t place;
    uint16_t port;
    int nifs;
    struct tcp_if ifs[TCP_ADDRS_MAX];
    struct tcp_peer *peers[TCP_BUCKETS];
    struct rt_list half, conns, dead; /* connections: in setup, up, closed */
    struct rt_list work;              /* peers with running timers */
    struct rt_list finished;          /* puts whose done() is due */
    struct rt_list corked;            /* peers with frames that are sent at the end of the pass */
    unsigned corking; /* not 0, during a pass or between hold() and release(): short frames are
                       * collected */
    struct tcp_conn *burst; /* connection whose last frame was long, if progress() was not called
                             * since */
    bool burst_holds;       /* the ends of its frames wait for the next frame: out.c */
    uint64_t long_ns;       /* when that frame was written */
    uint64_t patience_ns;   /* how long a first message waits for its connection */
    int nhalf_in;           /* accepted connections in `half` */
    uint64_t timeout_ns, next_check_ns;
    uint64_t last_event_ns, next_look_ns; /* progress() polls epoll at next_look_ns or later, */
    bool stirred;                         /* or at once if a call has made work since */
    uint32_t next_put;
    struct btl_regions regions;
    char *rx; /* TCP_RX bytes, in which all main connections receive */
    int nwarned;
    union tcp_sockaddr warned[8]; /* addresses that a warning has named */
};

extern const struct btl_ops btl_tcp_ops;

#endif
