/* SPDX-License-Identifier: BSD-3-Clause */
/* The records with which a connection begins (format.h).  Each side proves that it knows the key
 * which the listener has published to its job.  The proofs cover nonces of both sides, so a
 * recorded proof is useless.  Until the peer has proved this, no byte after its records is read.
 * This file reads, writes and checks records; accept.c decides what follows. */
#include "btl/tcp/handshake.h"
#include "runtime/base/err.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct signed_text { /* the input of the HMACs */
    char role[16];   /* differs between the sides, so that one side's proof is not valid as the
                      * other's */
    struct tcp_hello hello;
    struct tcp_challenge challenge;
    uint64_t answer; /* of the verdict; 0 in the proof */
};

static void sign(const struct tcp_shake *s, const char *role, uint64_t answer, const uint8_t *key,
                 uint8_t *mac)
{
    struct signed_text t = { .hello = s->hello, .challenge = s->challenge, .answer = answer };
    memcpy(t.role, role, strlen(role));
    rt_hmac(key, RT_SHA256_LEN, &t, sizeof t, mac);
}

/* The record that the connection expects in its state. */
static void *expected(struct tcp_conn *c, size_t *len)
{
    struct tcp_shake *s = c->shake;
    switch (c->state) {
    case TCP_WAIT_HELLO:
        *len = sizeof s->hello;
        return &s->hello;
    case TCP_WAIT_PROOF:
        *len = sizeof s->proof;
        return &s->proof;
    case TCP_WAIT_CHALLENGE:
        *len = sizeof s->challenge;
        return &s->challenge;
    default:
        *len = sizeof s->verdict;
        return &s->verdict;
    }
}

enum tcp_shook tcp_shake_read(struct tcp_conn *c)
{
    size_t len;
    char *to = expected(c, &len);
    ssize_t n = recv(c->fd, to + c->shake->have, len - c->shake->have, 0);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return TCP_SHAKE_MORE;
    if (n <= 0) {
        if (n == 0)
            errno = 0;
        return TCP_SHAKE_END;
    }
    c->has_data = true;
    c->shake->have += (uint32_t)n;
    /* An invalid record is recognised by its first bytes. */
    if (c->state == TCP_WAIT_HELLO || c->state == TCP_WAIT_CHALLENGE) {
        size_t look = c->shake->have < 8 ? c->shake->have : 8;
        if (memcmp(to, TCP_MAGIC, look))
            return TCP_SHAKE_BAD;
    }
    if (c->shake->have < len)
        return TCP_SHAKE_MORE;
    c->shake->have = 0;
    return TCP_SHAKE_NEXT;
}

/* These are the first bytes on the connection, so the kernel takes all of them unless the
 * connection is broken. */
static int write_all(struct tcp_conn *c, const void *buf, size_t len)
{
    ssize_t n = send(c->fd, buf, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n == (ssize_t)len)
        return 0;
    if (n >= 0)
        errno = ENOBUFS;
    return -RT_ESYS;
}

uint64_t tcp_shake_token(const uint8_t *key, uint32_t ns)
{
    uint8_t mac[RT_SHA256_LEN];
    uint64_t token;
    const char *name = rt_boot_nspace(ns);
    rt_hmac(key, RT_SHA256_LEN, name, strlen(name), mac);
    memcpy(&token, mac, sizeof token);
    return token;
}

int tcp_shake_send_hello(struct tcp_conn *c, struct rt_proc to)
{
    struct tcp_hello *h = &c->shake->hello;
    *h = (struct tcp_hello){ .order = TCP_ORDER,
                             .purpose = c->purpose,
                             .from = (uint32_t)rt_boot.rank,
                             .to = to.rank,
                             .job = tcp_own_name().job,
                             .token = tcp_shake_token(c->peer->addr->key, to.ns) };
    memcpy(h->magic, TCP_MAGIC, sizeof h->magic);
    int err = rt_random(h->nonce, sizeof h->nonce);
    return err < 0 ? err : write_all(c, h, sizeof *h);
}

bool tcp_shake_hello_ok(const struct btl_tcp *b, const struct tcp_hello *h)
{
    return h->order == TCP_ORDER && (h->purpose == TCP_FOR_MAIN || h->purpose == TCP_FOR_LANE) &&
           h->to == (uint32_t)rt_boot.rank && h->token == b->token &&
           (h->job != tcp_own_name().job || (h->from < (uint32_t)rt_boot.size && h->from != h->to));
}

int tcp_shake_send_challenge(struct tcp_conn *c)
{
    struct tcp_challenge *h = &c->shake->challenge;
    memcpy(h->magic, TCP_MAGIC, sizeof h->magic);
    int err = rt_random(h->nonce, sizeof h->nonce);
    return err < 0 ? err : write_all(c, h, sizeof *h);
}

int tcp_shake_send_proof(struct tcp_conn *c, const uint8_t *key)
{
    struct tcp_proof p;
    sign(c->shake, "connector", 0, key, p.mac);
    return write_all(c, &p, sizeof p);
}

bool tcp_shake_proof_ok(const struct tcp_conn *c)
{
    uint8_t mac[RT_SHA256_LEN];
    sign(c->shake, "connector", 0, c->tcp->key, mac);
    return rt_hmac_equal(mac, c->shake->proof.mac);
}

int tcp_shake_send_verdict(struct tcp_conn *c, enum tcp_answer answer)
{
    struct tcp_verdict v = { .answer = answer };
    sign(c->shake, "listener", answer, c->tcp->key, v.mac);
    return write_all(c, &v, sizeof v);
}

bool tcp_shake_verdict_ok(const struct tcp_conn *c, const uint8_t *key)
{
    const struct tcp_verdict *v = &c->shake->verdict;
    uint8_t mac[RT_SHA256_LEN];
    sign(c->shake, "listener", v->answer, key, mac);
    return rt_hmac_equal(mac, v->mac) && v->answer >= TCP_ACCEPTED && v->answer <= TCP_GIVEN_UP;
}
