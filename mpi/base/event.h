/* SPDX-License-Identifier: BSD-3-Clause */
/* How the library raises events of the tool information interface.  The code where an
 * event may happen contains
 *     if (rt_unlikely(wm_event_wanted(WM_EVENT_X)))
 *         wm_event_raise(WM_EVENT_X, &(struct wm_event_data){ ... });
 * Called under the domain's lock; the callback runs at once. */
#ifndef WM_BASE_EVENT_H
#define WM_BASE_EVENT_H

#include <stdbool.h>
#include <stdint.h>
#include "runtime/base/atomic.h"

enum wm_event_type {
    WM_EVENT_UNEXPECTED, /* a message arrived before its receive: source, tag, context; bytes */
    WM_EVENT_RENDEZVOUS, /* a large message was announced: destination, tag, context; bytes */
    WM_EVENT_PEER_LOST,  /* rank in its namespace, namespace */
    WM_EVENT_COLL,       /* a collective began: kind, algorithm, ranks; bytes */
    WM_EVENTS
};

struct wm_event_data {
    int v[3];
    int64_t bytes;
};

extern uint32_t wm_events_on; /* bit per type that has a registration */

static inline bool wm_event_wanted(enum wm_event_type t)
{
    return rt_load_relaxed(&wm_events_on) >> t & 1;
}
/* Set by mpi/tool before the first bit. */
extern void (*wm_event_raise)(enum wm_event_type t, const struct wm_event_data *data);

#endif
