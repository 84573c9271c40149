/* SPDX-License-Identifier: BSD-3-Clause */
/* What btl/tcp writes on a connection.  All numbers are in the byte order of the machine: the first
 * word of a connection shows when the two differ.
 *
 * A connection begins with four records of fixed length, C the side that connects:
 *     C: hello      who, to whom, for what, a nonce
 *     L: challenge  a nonce
 *     C: proof      HMAC of both with the key that L has published
 *     L: verdict    accepted or not, and L's own HMAC
 * After that come frames.  On the main connection a frame is 16 bytes, then `len` bytes, then
 * zeros up to a multiple of 8; when len is TCP_LONG or more, zeros up to byte 64 come before the
 * payload, and it ends at a multiple of 64.  On a lane it is struct tcp_lane_frame and the data of
 * one piece of a put, which go straight to their place.
 *
 * Why 64: the kernel copies a frame to pages that mostly begin with it.  Where the payload's offset
 * in its page is 1 to 31 bytes larger than the user's buffer's in its own, each load looks as if it
 * depended on the store before it, and the copy takes 2.4 times as long (64 KiB: 34 us instead of
 * 14, EPYC with FSRM).  16 bytes before the payload do that to buffers that begin a page, 32 to
 * those that malloc() places 16 bytes into one. */
#ifndef BTL_TCP_FRAMES_H
#define BTL_TCP_FRAMES_H

#include "btl/btl.h"
#include "runtime/base/hmac.h"

#define TCP_MAGIC "wefttcp4" /* the last letter is the version */
#define TCP_ORDER 0x01020304u

enum tcp_purpose { TCP_FOR_MAIN = 1, TCP_FOR_LANE };

struct tcp_hello {
    char magic[8];
    uint32_t order;    /* TCP_ORDER */
    uint32_t purpose;  /* enum tcp_purpose */
    uint32_t from, to; /* ranks */
    uint64_t token;    /* of L's key and the name of the job, which only the job knows */
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
    TCP_BUSY,    /* now; the connection that stays may be another one */
    TCP_GIVEN_UP /* for good: it has lost the connector before */
};
struct tcp_verdict {
    uint32_t answer; /* enum tcp_answer */
    uint32_t zero;
    uint8_t mac[RT_SHA256_LEN];
};

_Static_assert(sizeof(struct tcp_hello) + sizeof(struct tcp_proof) <= 128,
               "what is read before the other side has proved itself");

enum tcp_kind {
    TCP_MSG = 1, /* the engine's: hdr and payload */
    TCP_PUT,     /* a short put: hdr is {0, region, generation}, payload the offset and the data */
    TCP_ACK,     /* hdr is {put, bytes low, bytes high}: these are in their place */
    TCP_WANT_LANE, /* open one: only the side that made the main connection can */
    TCP_BYE        /* nothing more will come, in order */
};

struct tcp_frame {
    uint32_t word; /* enum tcp_kind in the upper byte, length of the payload below */
    struct btl_hdr hdr;
};
#define TCP_LEN_MAX (64u << 10) /* most payload of a frame */
#define TCP_LONG 1024u          /* from this on a payload begins and ends at multiples of */
#define TCP_HEAD_LONG 64u       /* this */
static inline uint32_t tcp_word(enum tcp_kind kind, size_t len)
{
    return (uint32_t)kind << 24 | (uint32_t)len;
}
static inline uint32_t tcp_word_len(uint32_t word) { return word & 0xffffffu; }
static inline uint32_t tcp_word_kind(uint32_t word) { return word >> 24; }
/* Where the payload begins in its frame, and the bytes of the whole. */
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
    uint32_t put;   /* names the put in the acknowledgement */
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
