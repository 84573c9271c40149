/* SPDX-License-Identifier: BSD-3-Clause */
/* A hand-made peer for the tests of btl/tcp: sockets and records without the transport. */
#ifndef TEST_FAKE_TCP_RAW_PEER_H
#define TEST_FAKE_TCP_RAW_PEER_H

#include "btl/tcp/conn.h"
#include "btl/tcp/rma.h"

/* The instance under test and what it has reported. */
struct raw_world {
    struct btl *b;
    struct tcp_address addr; /* as it publishes it */
    uint32_t received, downs;
    struct btl_hdr hdr; /* of the last message */
    size_t len;
    char data[TCP_LEN_MAX];
};
extern struct raw_world raw;

/* Opens the transport as `rank` of `size` of the job "raw"; false after a failed CHECK. */
bool raw_open(int rank, int size);
void raw_close(void);
/* Calls progress() until the condition holds, for at most `ms`.  Returns whether it holds. */
bool raw_until(bool (*cond)(void *arg), void *arg, int ms);
/* Calls progress() for a while, long enough for everything in flight on loopback. */
void raw_pump(void);
/* A connected socket to the instance. */
int raw_connect(void);
/* Reads exactly len bytes while the instance makes progress; false: the stream has ended before. */
bool raw_read(int fd, void *buf, size_t len);
/* True if the other side closes within a second. */
bool raw_ended(int fd);
void raw_hello(struct tcp_hello *h, uint32_t from, enum tcp_purpose purpose);
/* The handshake as a process of the job does it; returns the answer, or 0 if the stream ended. */
uint32_t raw_shake(int fd, uint32_t from, enum tcp_purpose purpose, const uint8_t *key);
/* A socket that has been accepted as rank `from`; -1 after a failed CHECK. */
int raw_join(uint32_t from, enum tcp_purpose purpose);
/* Writes a frame to buf; returns its length. */
size_t raw_frame(char *buf, enum tcp_kind kind, struct btl_hdr h, const void *payload, size_t len);
void raw_mac(const char *role, const struct tcp_hello *h, const struct tcp_challenge *c,
             uint64_t answer, const uint8_t *key, uint8_t *mac);

#endif
