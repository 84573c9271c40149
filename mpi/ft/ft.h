/* SPDX-License-Identifier: BSD-3-Clause */
/* Fault tolerance of communicators: what its messages have in common, and which members have died.
 * Under the domain's lock. */
#ifndef WM_FT_FT_H
#define WM_FT_FT_H

#include "mpi/base/comm.h"
#include "mpi/p2p/domain.h"

/* The messages of WM_FT begin with this. */
enum wm_ft_kind { WM_FT_REVOKE, WM_FT_AGREE };
struct wm_ft_head {
    uint32_t kind, ctx;
    uint64_t uid;
};

/* A number of the communicator that no other one has which these processes have had: made of the
 * context and of the members, the same in all of them. */
uint64_t wm_ft_uid(struct wm_comm *c);
/* NULL: this process has no such communicator, or has freed it. */
struct wm_comm *wm_ft_find(uint32_t ctx, uint64_t uid);

/* The members of both groups, in an order that is the same in all of them. */
int wm_ft_size(const struct wm_comm *c);
struct rt_proc wm_ft_member(const struct wm_comm *c, int i);
int wm_ft_self(const struct wm_comm *c);

/* Sends to a member, if it lives. */
void wm_ft_send(struct wm_domain *d, struct rt_proc to, const void *data, size_t len);

/* Before the first message may arrive. */
void wm_ft_open(struct wm_domain *d);

#endif
