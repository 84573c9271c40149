/* SPDX-License-Identifier: BSD-3-Clause */
/* Agreements of the members of a communicator, which survive deaths, also on a revoked one.  Under
 * the domain's lock. */
#ifndef WM_FT_AGREE_H
#define WM_FT_AGREE_H

#include "mpi/ft/ft.h"

#define WM_FT_EXTRA 168 /* bytes: a wm_ctx_offer */

/* What the members agree on, combined over all contributions.  `sets` are two sets of members, a
 * bit for each: those that a contributor knows to be dead, or that have died before they
 * contributed; and those whose death all contributors have acknowledged. */
struct wm_ft_value {
    int32_t flag; /* bitwise AND */
    int32_t err;  /* the largest: an error class */
    _Alignas(8) char extra[WM_FT_EXTRA];
    uint64_t sets[];
};

/* One agreement, in the caller's memory until it is over.  The agreements of a communicator follow
 * each other in the order of the calls.  All members have the same order, so each that contributes
 * to an agreement knows the values of the earlier ones. */
struct wm_ft_call {
    int32_t flag, err;                          /* contribution */
    const void *extra;                          /* of WM_FT_EXTRA bytes, NULL: zeros */
    void (*merge)(void *inout, const void *in); /* of `extra`, NULL: none */
    void (*done)(struct wm_ft_call *k); /* inside of wm_ft_agree() or of progress; NULL-able */
    const struct wm_ft_value *value; /* NULL: not yet; valid until the next agreement of `comm` */
    struct wm_comm *comm;
    bool more; /* several agreements, until wm_ft_agree_leave(); no other one between */
    struct wm_ft_call *next; /* private, also: */
    struct agreement *waits; /* not begun */
};
/* The next agreement of call->comm.  -RT_ENOMEM: the others wait. */
int wm_ft_agree(struct wm_ft_call *call);
/* Ends a call with `more`, if it has an agreement. */
void wm_ft_agree_leave(struct wm_ft_call *call);
/* The same, and waits. */
int wm_ft_agree_wait(struct wm_ft_call *call);
/* Whether a member, by its place in ft.h, is in the set of the dead. */
bool wm_ft_failed(const struct wm_ft_value *v, int i);
/* Whether a member is dead whose death not all have acknowledged. */
bool wm_ft_unacked(const struct wm_comm *c, const struct wm_ft_value *v);

void wm_ft_on_agree(struct wm_domain *d, struct wm_peer *from, const struct wm_ft_head *h,
                    const void *data, size_t len);
void wm_ft_agree_deaths(struct wm_domain *d); /* after deaths, and now and then */

#endif
