/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams of btl/verbs: a port on a rail that sends and receives short datagrams, which may be
 * lost.  It uses an unreliable queue pair or, on rails that connect by rdma_cm, UDP, because iWARP
 * has no unreliable queue pairs.  handshake.c has a port on each rail; the thread of alive.c has
 * another.  A port has one user at a time and shares no state with other ports. */
#ifndef BTL_VERBS_DGRAM_H
#define BTL_VERBS_DGRAM_H

#include "btl/verbs/rail.h"

#define VERBS_DGRAM_MAX 472 /* bytes; fits an MTU of 512 together with the headers */

struct verbs_dgram;
struct sockaddr_storage;

/* Events arrive on `chan`; NULL: on a channel of the port's own.  0; -RT_ENOMEM; -RT_ESYS,
 * logged. */
int verbs_dgram_open(struct verbs_rail *r, struct ibv_comp_channel *chan, uint32_t qkey,
                     struct verbs_dgram **out);
void verbs_dgram_close(struct verbs_dgram *d);
uint32_t verbs_dgram_port(const struct verbs_dgram *d);
/* Whether n datagrams can be sent now. */
bool verbs_dgram_has_room(const struct verbs_dgram *d, int n);
/* 0: sent, but it may still be lost.  Otherwise the datagram is lost: -RT_EAGAIN: no room;
 * -RT_EUNREACH: the system has no route (errno). */
int verbs_dgram_send(struct verbs_dgram *d, const struct rt_ib_addr *to, uint32_t port,
                     uint32_t qkey, const void *data, size_t len);
/* Calls on() for datagrams that have arrived, a limited number per call; returns the number of
 * events.  `data` is aligned to 8 bytes and valid during the call. */
typedef void verbs_dgram_fn(void *arg, const void *data, size_t len);
int verbs_dgram_take(struct verbs_dgram *d, verbs_dgram_fn *on, void *arg);
/* From now on the descriptor becomes readable when a datagram arrives; 0 or an errno. */
int verbs_dgram_arm(struct verbs_dgram *d);
int verbs_dgram_fd(const struct verbs_dgram *d);

/* The IP address in a RoCE or iWARP address, with `port` in host order; returns its length. */
unsigned verbs_sockaddr(const struct rt_ib_rail *ib, const struct rt_ib_addr *at, uint32_t port,
                        struct sockaddr_storage *out);

#endif
