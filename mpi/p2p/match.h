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
    uint32_t nposted[WM_FORMS]; /* posted receives with wildcards by form: zero skips the bucket */
    uint32_t nposted_all, nwild, nunex;
    uint64_t order;
};

int wm_match_init(struct wm_match *m); /* 0 or -RT_ENOMEM */
void wm_match_fini(struct wm_match *m);
/* More buckets; called by the tables themselves. */
void wm_match_grow(struct wm_match *m);
/* Stores an unexpected message. */
void wm_match_store(struct wm_match *m, struct wm_unex *u);
/* Oldest stored message that a receive with this key (wildcards allowed) matches; stays stored. */
struct wm_unex *wm_match_find(struct wm_match *m, const struct wm_key *want);
/* Oldest stored message with this exact key for which is(u, arg) holds; stays stored. */
struct wm_unex *wm_match_find_that(struct wm_match *m, const struct wm_key *exact,
                                   bool (*is)(const struct wm_unex *u, const void *arg),
                                   const void *arg);
void wm_match_remove(struct wm_match *m, struct wm_unex *u);
/* Calls fn for each stored message. */
void wm_match_each(const struct wm_match *m, void (*fn)(const struct wm_unex *u, void *arg),
                   void *arg);

/* The rest is inline, against the usual rule: it runs for every message, and calls between posting
 * and arrival cost a quarter of the message rate. */

/* Three independent products. */
static inline uint32_t wm_key_hash(const struct wm_key *k)
{
    uint32_t h = k->ctx * 0x9e3779b1u ^ (uint32_t)k->src * 0x85ebca6bu ^
                 (uint32_t)k->tag * 0xc2b2ae35u;
    return h ^ h >> 15;
}

static inline bool wm_key_equal(const struct wm_key *a, const struct wm_key *b)
{
    return a->tag == b->tag && a->src == b->src && a->ctx == b->ctx;
}

/* Whether a receive with the key `want` takes a message with the exact key k. */
static inline bool wm_key_matches(const struct wm_key *want, const struct wm_key *k)
{
    return want->ctx == k->ctx && (want->src == k->src || want->src == WM_MATCH_ANY) &&
           (want->tag == k->tag || want->tag == WM_MATCH_ANY);
}

static inline int wm_key_form(const struct wm_key *k)
{
    return (k->src == WM_MATCH_ANY ? WM_FORM_ANY_SRC : 0) |
           (k->tag == WM_MATCH_ANY ? WM_FORM_ANY_TAG : 0);
}

/* The key of a given form that an exact key falls under. */
static inline struct wm_key wm_key_as(const struct wm_key *exact, int form)
{
    struct wm_key k = *exact;
    if (form & WM_FORM_ANY_SRC)
        k.src = WM_MATCH_ANY;
    if (form & WM_FORM_ANY_TAG)
        k.tag = WM_MATCH_ANY;
    return k;
}

/* Posts a receive (no unexpected message matches it). */
static inline void wm_match_post(struct wm_match *m, struct wm_posted *p)
{
    if (rt_unlikely(m->nposted_all >= m->nbuckets))
        wm_match_grow(m);
    p->order = m->order++;
    m->nposted_all++;
    int form = wm_key_form(&p->key);
    if (rt_unlikely(form)) {
        m->nposted[form]++;
        m->nwild++;
    }
    rt_list_append(&m->posted[wm_key_hash(&p->key) & (m->nbuckets - 1)], &p->link);
}

/* Removes a posted receive (cancel, or a match). */
static inline void wm_match_unpost(struct wm_match *m, struct wm_posted *p)
{
    p->link.next->prev = p->link.prev;
    p->link.prev->next = p->link.next;
    m->nposted_all--;
    int form = wm_key_form(&p->key);
    if (rt_unlikely(form)) {
        m->nposted[form]--;
        m->nwild--;
    }
}

static inline struct wm_posted *wm_match_first(const struct wm_match *m, const struct wm_key *k)
{
    struct rt_list *head = &m->posted[wm_key_hash(k) & (m->nbuckets - 1)], *p;
    rt_list_each (p, head) {
        struct wm_posted *r = rt_container(p, struct wm_posted, link);
        if (rt_likely(wm_key_equal(&r->key, k)))
            return r;
    }
    return NULL;
}

/* First posted receive that matches an arriving message with exact key, removed; NULL when none. */
static inline struct wm_posted *wm_match_arrive(struct wm_match *m, const struct wm_key *exact)
{
    struct wm_posted *best = m->nposted_all > m->nwild ? wm_match_first(m, exact) : NULL;
    for (int f = 1; rt_unlikely(m->nwild) && f < WM_FORMS; f++) {
        if (!m->nposted[f])
            continue;
        struct wm_key k = wm_key_as(exact, f);
        struct wm_posted *r = wm_match_first(m, &k);
        if (r && (!best || r->order < best->order))
            best = r;
    }
    if (best)
        wm_match_unpost(m, best);
    return best;
}

#endif
