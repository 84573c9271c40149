/* SPDX-License-Identifier: BSD-3-Clause */
/* What WEFT_CHECK looks at in point-to-point messages: functions of mpi/check, called under the
 * domain's lock.  Messages of collectives are not looked at. */
#ifndef WM_P2P_CHECKS_H
#define WM_P2P_CHECKS_H

#include "mpi/p2p/engine.h"

struct wm_checks {
    /* The signature of a synchronous send, at most 24 bits, for the message; 0: none. */
    uint32_t (*signature)(const struct wm_preq *q);
    /* A message with a signature has found its receive. */
    void (*matched)(const struct wm_preq *q, const struct wm_key *k, uint32_t sig, int64_t nbytes);
    /* The user is about to start an operation; has started one, `blocking`: in a call that waits
     * for it. */
    void (*starting)(const struct wm_msg *m, bool receives);
    void (*started)(struct rt_req *r, bool blocking);
    /* A request with RT_REQ_CHECKED is released. */
    void (*released)(const struct wm_preq *q);
};
extern const struct wm_checks *wm_checks; /* NULL: WEFT_CHECK is off */

/* Standard and ready sends become synchronous, so that a program that relies on buffering hangs in
 * each run. */
static inline enum wm_mode wm_checked_mode(enum wm_mode mode)
{
    return rt_unlikely(wm_checks != NULL) && mode != WM_BUFFERED ? WM_SYNCHRONOUS : mode;
}
static inline void wm_checked_starting(const struct wm_msg *m, bool receives)
{
    if (rt_unlikely(wm_checks != NULL))
        wm_checks->starting(m, receives);
}
static inline void wm_checked_start(struct rt_req *r, bool blocking)
{
    if (rt_unlikely(wm_checks != NULL))
        wm_checks->started(r, blocking);
}
static inline uint32_t wm_checked_signature(const struct wm_preq *q)
{
    return rt_unlikely(wm_checks != NULL) && !q->coll ? wm_checks->signature(q) : 0;
}
static inline void wm_checked_match(const struct wm_preq *q, const struct wm_key *k, uint32_t sig,
                                    int64_t nbytes)
{
    if (rt_unlikely(sig != 0) && wm_checks)
        wm_checks->matched(q, k, sig, nbytes);
}

#endif
