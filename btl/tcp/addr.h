/* SPDX-License-Identifier: BSD-3-Clause */
/* The addresses of this host, and the routes to another process. */
#ifndef BTL_TCP_ADDR_H
#define BTL_TCP_ADDR_H

#include "btl/tcp/tcp.h"

struct tcp_route { /* one way to a peer */
    union tcp_sockaddr to, from;
    bool same_net;  /* both addresses are in one network: bind to `from` */
    uint16_t index; /* of the peer's interface */
    uint32_t score;
};

/* Fills b->ifs, b->nifs and b->place.  0; -RT_ESYS, -RT_EINVAL (cfg.tcp_if matches no address):
 * logged. */
int tcp_ifs_find(struct btl_tcp *b);
/* Length of an address with n interfaces. */
size_t tcp_address_len(int n);
/* Copies an address that a peer has published into memory that the caller frees.  0; -RT_EINVAL:
 * the address is malformed; -RT_ENOMEM. */
int tcp_address_read(const void *blob, size_t len, struct tcp_address **out);
/* The routes to a process, best first, at most TCP_ADDRS_MAX + 1; returns their number. */
int tcp_routes(const struct btl_tcp *b, const struct tcp_address *to, struct tcp_route *out);
/* "10.0.0.1:4711", in a static buffer.  Of a descriptor: the remote address. */
const char *tcp_addr_text(const union tcp_sockaddr *a);
const char *tcp_fd_text(int fd);
/* Whether the local address of fd is one that cfg.tcp_if allows. */
bool tcp_is_published(const struct btl_tcp *b, int fd);

#endif
