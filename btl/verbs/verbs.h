/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA between hosts: the instance of btl/verbs.
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
 * sender.
 *
 * A file calls only files before it: format, rail, dgram, peer, lane, alive, handshake, msg, rma,
 * poll, cm, verbs.  `make check-layers` checks this. */
#ifndef BTL_VERBS_VERBS_H
#define BTL_VERBS_VERBS_H

#include "btl/verbs/rail.h"
#include "runtime/base/list.h"

struct verbs_lane;
struct verbs_peer;
struct verbs_xfer;
struct verbs_alive;
struct verbs_cm;

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
    struct verbs_lane **lanes; /* by id, nlanes of them, kept until the end */
    uint32_t nlanes;
    uint32_t by_qpn[VERBS_BUCKETS]; /* id + 1 of the first lane */
    struct rt_list work, rings, asking, held;
    bool holding;        /* between verbs_hold() and verbs_release() */
    struct rt_list mems; /* all memory registered by the engine */
    struct verbs_xfer *spare_xfer;
    int nrings;
    uint32_t polls;
    uint64_t alive_ns; /* when keep_alive() next looks at peers */
    uint64_t leave_ns; /* when this process began to leave; 0: it is not leaving */
    int sleep_fd;
    bool closing;
};

#endif
