/* SPDX-License-Identifier: BSD-3-Clause */
/* Matching of receives with messages, O(1) for exact and for wildcard receives, in MPI order
 * (MPI-5.0 section 3.5).
 *
 * A posted receive waits in one bucket: the one of its exact (context, source, tag) or, with
 * wildcards, of the triple with the wildcard in place.  An arriving message looks into at most four
 * buckets (exact, any source, any tag, both) and takes the receive that was posted first.  An
 * unexpected message waits in all four of its buckets at once, so every form of receive and probe
 * finds the oldest message at the head of one list. */
#ifndef WM_P2P_MATCH_H
#define WM_P2P_MATCH_H

#include <stddef.h>
#include <stdint.h>
#include "runtime/base/atomic.h"
#include "runtime/base/list.h"

#define WM_MATCH_ANY (-1) /* wildcard for src and tag inside keys; real tags and ranks are >= 0 */

struct wm_key {
    uint32_t ctx;
    int32_t src, tag;
};

/* Which of the four forms a key has. */
enum { WM_FORM_EXACT, WM_FORM_ANY_SRC, WM_FORM_ANY_TAG, WM_FORM_ANY_BOTH, WM_FORMS };

struct wm_posted { /* embedded in a receive request */
    struct rt_list link;
    struct wm_key key;
    uint64_t order; /* when it was posted */
};

struct wm_unex { /* embedded in a stored message */
    struct rt_list link[WM_FORMS];
    struct wm_key key; /* exact */
};

struct wm_match {
    struct rt_list *posted; /* nbuckets lists of wm_posted.link */
    struct rt_list *unex[WM_FORMS];
    uint32_t nbuckets;          /* power of two; grows with the number of entries */
    uint32_t nposted[WM_FORMS]; /* posted receives by form: zero skips the bucket */
    uint32_t nposted_all, nunex;
    uint64_t order;
};

int wm_match_init(struct wm_match *m);
void wm_match_fini(struct wm_match *m);
/* Posts a receive (no unexpected message matches it). */
void wm_match_post(struct wm_match *m, struct wm_posted *p);
/* Takes a posted receive back (cancel). */
void wm_match_unpost(struct wm_match *m, struct wm_posted *p);
/* First posted receive that matches an arriving message with exact key, removed; NULL when none. */
struct wm_posted *wm_match_arrive(struct wm_match *m, const struct wm_key *exact);
/* Stores an unexpected message. */
void wm_match_store(struct wm_match *m, struct wm_unex *u);
/* Oldest stored message that a receive with this key (wildcards allowed) matches; stays stored. */
struct wm_unex *wm_match_find(struct wm_match *m, const struct wm_key *want);
void wm_match_remove(struct wm_match *m, struct wm_unex *u);

#endif
