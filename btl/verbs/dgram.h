/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams of btl/verbs: a port on one rail that sends and receives short ones, which may be lost.
 * By an unreliable queue pair, or, on rails that connect by rdma_cm, by UDP: iWARP has no other.
 * The engine has one a rail (handshake.c), the thread that answers for it another (alive.c).  A
 * port has one user at a time and shares nothing with others. */
#ifndef BTL_VERBS_DGRAM_H
#define BTL_VERBS_DGRAM_H

#include "btl/verbs/verbs.h"

#define VERBS_DGRAM_MAX 472 /* bytes; an MTU of 512 takes them, with what is before them */

struct verbs_dgram;
struct sockaddr_storage;

/* Its events come by `chan`; NULL: by a channel of its own. */
int verbs_dgram_open(struct verbs_rail *r, struct ibv_comp_channel *chan, uint32_t qkey,
                     struct verbs_dgram **out);
void verbs_dgram_close(struct verbs_dgram *d);
uint32_t verbs_dgram_port(const struct verbs_dgram *d);
/* Whether so many can be sent now. */
bool verbs_dgram_has_room(const struct verbs_dgram *d, int n);
/* 0, also when it is lost later; else it is as good as lost: -RT_EAGAIN, no room; -RT_EUNREACH, the
 * system knows no way (errno). */
int verbs_dgram_send(struct verbs_dgram *d, const struct rt_ib_addr *to, uint32_t port,
                     uint32_t qkey, const void *data, size_t len);
/* Calls on() for what has arrived, some at a time; the number of events.  `data` is aligned for
 * 8-byte words and valid during the call. */
typedef void verbs_dgram_fn(void *arg, const void *data, size_t len);
int verbs_dgram_take(struct verbs_dgram *d, verbs_dgram_fn *on, void *arg);
/* From now on the descriptor becomes readable when something comes; 0 or an errno. */
int verbs_dgram_arm(struct verbs_dgram *d);
int verbs_dgram_fd(const struct verbs_dgram *d);

/* The IP address that is in a RoCE or iWARP address, `port` in host order; its length. */
unsigned verbs_sockaddr(const struct rt_ib_rail *ib, const struct rt_ib_addr *at, uint32_t port,
                        struct sockaddr_storage *out);

#endif
