/* SPDX-License-Identifier: BSD-3-Clause */
/* The records with which a connection begins: mutual authentication. */
#ifndef BTL_TCP_HANDSHAKE_H
#define BTL_TCP_HANDSHAKE_H

#include "btl/tcp/conn.h"

enum tcp_shook { TCP_SHAKE_MORE, TCP_SHAKE_NEXT, TCP_SHAKE_BAD, TCP_SHAKE_END };
/* Reads the record that c's state expects.  NEXT: the record is complete.  END: the peer has closed
 * the connection, or the connection is broken (errno; 0: closed). */
enum tcp_shook tcp_shake_read(struct tcp_conn *c);
int tcp_shake_send_hello(struct tcp_conn *c, uint32_t to);
/* The token in hellos to the process with this key.  Only processes of its job can make it. */
uint64_t tcp_shake_token(const uint8_t *key);
bool tcp_shake_hello_ok(const struct btl_tcp *b, const struct tcp_hello *h);
int tcp_shake_send_challenge(struct tcp_conn *c);
int tcp_shake_send_proof(struct tcp_conn *c, const uint8_t *key);
bool tcp_shake_proof_ok(const struct tcp_conn *c);
int tcp_shake_send_verdict(struct tcp_conn *c, enum tcp_answer answer);
bool tcp_shake_verdict_ok(const struct tcp_conn *c, const uint8_t *key);

#endif
