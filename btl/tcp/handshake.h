/* SPDX-License-Identifier: BSD-3-Clause */
/* The records with which a connection begins: mutual authentication. */
#ifndef BTL_TCP_HANDSHAKE_H
#define BTL_TCP_HANDSHAKE_H

#include "btl/tcp/conn.h"
#include "runtime/boot/jobs.h"

enum tcp_shook { TCP_SHAKE_MORE, TCP_SHAKE_NEXT, TCP_SHAKE_BAD, TCP_SHAKE_END };
/* Reads the record that c's state expects.  NEXT: the record is complete.  END: the peer has closed
 * the connection, or the connection is broken (errno; 0: closed).  tcp_shake_send_...(): 0 or
 * -RT_ESYS (errno). */
enum tcp_shook tcp_shake_read(struct tcp_conn *c);
int tcp_shake_send_hello(struct tcp_conn *c, struct rt_proc to);
/* The token in hellos to the process of job `ns` with this key.  Only processes of its job, and
 * those that have its card, can make it. */
uint64_t tcp_shake_token(const uint8_t *key, uint32_t ns);
static inline struct rt_name tcp_own_name(void)
{
    return rt_boot_name((struct rt_proc){ 0, (uint32_t)rt_boot.rank });
}
bool tcp_shake_hello_ok(const struct btl_tcp *b, const struct tcp_hello *h);
int tcp_shake_send_challenge(struct tcp_conn *c);
int tcp_shake_send_proof(struct tcp_conn *c, const uint8_t *key);
bool tcp_shake_proof_ok(const struct tcp_conn *c);
int tcp_shake_send_verdict(struct tcp_conn *c, enum tcp_answer answer);
bool tcp_shake_verdict_ok(const struct tcp_conn *c, const uint8_t *key);

#endif
