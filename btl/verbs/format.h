/* SPDX-License-Identifier: BSD-3-Clause */
/* What processes with btl/verbs exchange: addresses, message headers, and the lines of memory that
 * a peer writes.  All numbers are in the byte order of the machine. */
#ifndef BTL_VERBS_FORMAT_H
#define BTL_VERBS_FORMAT_H

#include "btl/btl.h"
#include "runtime/ib/ib.h"

#define VERBS_RAILS 4 /* at most; a key of 32 bytes has room for as many remote keys */
#define VERBS_LANES 8 /* to one peer, at most */
#define VERBS_KEY 32  /* bytes of the secret in an address */

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

struct verbs_qp_info { /* a queue pair, in datagrams */
    uint32_t qpn, psn;
};

#endif
