/* SPDX-License-Identifier: BSD-3-Clause */
/* What btl/tcp writes on a connection.  All numbers are in the byte order of the machine; a field
 * of the first record shows whether both machines have the same order.
 *
 * A connection begins with four records of fixed length.  C is the side that connects, L the side
 * that listens:
 *     C: hello      both ranks, the purpose of the connection, a nonce
 *     L: challenge  a nonce
 *     C: proof      HMAC of both with the key that L has published
 *     L: verdict    accepted or not, and L's own HMAC
 * Frames follow.  On the main connection a frame is a header of 16 bytes, the payload, and zeros up
 * to a multiple of 8.  If the payload has TCP_LONG bytes or more, zeros up to byte 64 precede it,
 * and the frame ends at a multiple of 64.  On a lane a frame is a struct tcp_lane_frame and the
 * data of one piece of a put, which are read directly into their destination.
 *
 * Reason for 64: the kernel copies a frame into pages, and a frame usually begins at the start of a
 * page.  If the offset of the payload in its page is 1 to 31 bytes larger than the offset of the
 * user's buffer in its page, each load appears to depend on the store before it, and the copy takes
 * 2.4 times as long (64 KiB: 34 us instead of 14, EPYC with FSRM).  A header of 16 bytes causes
 * this for buffers at the start of a page, a header of 32 bytes for buffers that malloc() places 16
 * bytes after it. */
#ifndef BTL_TCP_FORMAT_H
#define BTL_TCP_FORMAT_H

#include "btl/btl.h"
#include "runtime/base/hmac.h"

#define TCP_ADDRS_MAX 16 /* addresses that a process publishes */

struct tcp_if {        /* one usable address of a host */
    uint8_t family;    /* 4 or 6 */
    uint8_t prefix;    /* length of the network prefix */
    uint16_t index;    /* of the interface: it may have several addresses */
    uint32_t mb_per_s; /* of the interface; 0: unknown */
    uint8_t addr[16];
};

struct tcp_address { /* the address of a process; only naddrs of `ifs` are published */
    uint8_t version; /* TCP_ADDRESS_VERSION */
    uint8_t naddrs;
    uint16_t port;
    uint32_t zero;
    uint64_t place; /* host and network namespace: processes of one place connect by loopback */
    uint8_t key[RT_SHA256_LEN];
    struct tcp_if ifs[TCP_ADDRS_MAX];
};
#define TCP_ADDRESS_VERSION 1

#define TCP_MAGIC "wefttcp5" /* the last character is the version */
#define TCP_ORDER 0x01020304u

enum tcp_purpose { TCP_FOR_MAIN = 1, TCP_FOR_LANE };

struct tcp_hello {
    char magic[8];
    uint32_t order;    /* TCP_ORDER */
    uint32_t purpose;  /* enum tcp_purpose */
    uint32_t from, to; /* ranks */
    uint64_t job;      /* id of the connector's job: runtime/boot/jobs.h */
    uint64_t token;    /* HMAC of the name of the listener's job with its key */
    uint8_t nonce[32];
};

struct tcp_challenge {
    char magic[8];
    uint8_t nonce[32];
};

struct tcp_proof {
    uint8_t mac[RT_SHA256_LEN];
};

enum tcp_answer {
    TCP_ACCEPTED = 1,
    TCP_BUSY,    /* refused now: another connection may be in use or in setup */
    TCP_GIVEN_UP /* refused for ever: the listener has lost the connector before */
};
struct tcp_verdict {
    uint32_t answer; /* enum tcp_answer */
    uint32_t zero;
    uint8_t mac[RT_SHA256_LEN];
};

_Static_assert(sizeof(struct tcp_hello) + sizeof(struct tcp_proof) <= 128,
               "bytes read before the connector is authenticated");

enum tcp_kind {
    TCP_MSG = 1, /* of the engine: header and payload */
    TCP_PUT,     /* a short put: header {0, region, generation}, payload the offset and the data */
    TCP_ACK,     /* header {put, low half, high half of a number of bytes}: these have arrived */
    TCP_WANT_LANE, /* open a lane: only the side that made the main connection can */
    TCP_BYE        /* goodbye: nothing more is sent, an orderly end */
};

struct tcp_frame {
    uint32_t word; /* enum tcp_kind in the upper byte, length of the payload in the others */
    struct btl_hdr hdr;
};
#define TCP_LEN_MAX (64u << 10) /* largest payload of a frame */
#define TCP_LONG 1024u          /* a payload of this length or more begins and ends at a multiple */
#define TCP_HEAD_LONG 64u       /* of this */
static inline uint32_t tcp_word(enum tcp_kind kind, size_t len)
{
    return (uint32_t)kind << 24 | (uint32_t)len;
}
static inline uint32_t tcp_word_len(uint32_t word) { return word & 0xffffffu; }
static inline uint32_t tcp_word_kind(uint32_t word) { return word >> 24; }
/* Offset of the payload in its frame; length of the frame. */
static inline size_t tcp_head(size_t len)
{
    return len < TCP_LONG ? sizeof(struct tcp_frame) : TCP_HEAD_LONG;
}
static inline size_t tcp_frame_len(size_t len)
{
    size_t align = len < TCP_LONG ? 8 : TCP_HEAD_LONG;
    return tcp_head(len) + ((len + align - 1) & ~(align - 1));
}

struct tcp_lane_frame {
    uint32_t magic; /* TCP_LANE_MAGIC */
    uint32_t put;   /* number of the put, for the acknowledgement */
    uint32_t region, gen;
    uint64_t off, len;
    uint32_t zero[8]; /* the data begin at byte 64 */
};
#define TCP_LANE_MAGIC 0x70757421u

struct tcp_key { /* what mem_key() writes */
    uint32_t region, gen;
    uint64_t len;
};

#endif
