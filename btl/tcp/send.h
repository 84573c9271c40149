/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine's messages and puts. */
#ifndef BTL_TCP_SEND_H
#define BTL_TCP_SEND_H

#include "btl/btl.h"

int tcp_send(struct btl_peer *peer, const struct btl_hdr *h, const void *buf, size_t len);
int tcp_send_head(struct btl_peer *peer, const struct btl_hdr *h, const void *head, size_t head_len,
                  const void *buf, size_t len);
int tcp_put(struct btl_rmem *r, size_t off, struct btl_mem *m, const void *src, size_t len,
            struct btl_op *op);

#endif
