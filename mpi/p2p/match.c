/* SPDX-License-Identifier: BSD-3-Clause */
/* The four bucket tables of matching (match.h).  Called under the domain's lock.  The tables
 * contain links only; requests and stored messages belong to the callers.  A table grows to four
 * times its size when its entries outnumber its buckets: 10^5 unexpected messages cost a few
 * rehashes, never a long chain of different keys. */
#include "mpi/p2p/match.h"
#include <stdlib.h>
#include "runtime/base/err.h"

#define FIRST_BUCKETS 64u /* 5 tables of 1 KiB: what a small job touches */

static struct rt_list *buckets_new(uint32_t n)
{
    struct rt_list *b = malloc(n * sizeof *b);
    for (uint32_t i = 0; b && i < n; i++)
        rt_list_init(&b[i]);
    return b;
}

static struct wm_unex *unex_of(struct rt_list *link, int form)
{
    return (struct wm_unex *)((char *)link - offsetof(struct wm_unex, link) -
                              (size_t)form * sizeof *link);
}

/* Moves every entry of a table to the larger one.  The order of entries with the same key is kept,
 * because buckets are walked in order. */
static void rehash_posted(struct rt_list *from, uint32_t n, struct rt_list *to, uint32_t mask)
{
    for (uint32_t i = 0; i < n; i++) {
        struct rt_list *p, *tmp;
        rt_list_each_safe (p, tmp, &from[i]) {
            struct wm_posted *r = rt_container(p, struct wm_posted, link);
            rt_list_del(p);
            rt_list_append(&to[wm_key_hash(&r->key) & mask], p);
        }
    }
}

static void rehash_unex(struct rt_list *from, uint32_t n, struct rt_list *to, uint32_t mask,
                        int form)
{
    for (uint32_t i = 0; i < n; i++) {
        struct rt_list *p, *tmp;
        rt_list_each_safe (p, tmp, &from[i]) {
            struct wm_key k = wm_key_as(&unex_of(p, form)->key, form);
            rt_list_del(p);
            rt_list_append(&to[wm_key_hash(&k) & mask], p);
        }
    }
}

/* Out of memory leaves the tables as they are: longer chains, still correct. */
void wm_match_grow(struct wm_match *m)
{
    uint32_t n = m->nbuckets * 4;
    struct rt_list *posted = buckets_new(n), *unex[WM_FORMS];
    bool ok = posted;
    for (int f = 0; f < WM_FORMS; f++) {
        unex[f] = buckets_new(n);
        ok = ok && unex[f];
    }
    if (!ok) {
        free(posted);
        for (int f = 0; f < WM_FORMS; f++)
            free(unex[f]);
        return;
    }
    rehash_posted(m->posted, m->nbuckets, posted, n - 1);
    free(m->posted);
    m->posted = posted;
    for (int f = 0; f < WM_FORMS; f++) {
        rehash_unex(m->unex[f], m->nbuckets, unex[f], n - 1, f);
        free(m->unex[f]);
        m->unex[f] = unex[f];
    }
    m->nbuckets = n;
}

int wm_match_init(struct wm_match *m)
{
    *m = (struct wm_match){ .nbuckets = FIRST_BUCKETS };
    m->posted = buckets_new(m->nbuckets);
    bool ok = m->posted;
    for (int f = 0; f < WM_FORMS; f++) {
        m->unex[f] = buckets_new(m->nbuckets);
        ok = ok && m->unex[f];
    }
    if (ok)
        return 0;
    wm_match_fini(m);
    return -RT_ENOMEM;
}

void wm_match_fini(struct wm_match *m)
{
    free(m->posted);
    for (int f = 0; f < WM_FORMS; f++)
        free(m->unex[f]);
    *m = (struct wm_match){ 0 };
}

void wm_match_store(struct wm_match *m, struct wm_unex *u)
{
    if (rt_unlikely(m->nunex >= m->nbuckets))
        wm_match_grow(m);
    m->nunex++;
    for (int f = 0; f < WM_FORMS; f++) {
        struct wm_key k = wm_key_as(&u->key, f);
        rt_list_append(&m->unex[f][wm_key_hash(&k) & (m->nbuckets - 1)], &u->link[f]);
    }
}

struct wm_unex *wm_match_find(struct wm_match *m, const struct wm_key *want)
{
    if (!m->nunex)
        return NULL;
    int form = wm_key_form(want);
    struct rt_list *head = &m->unex[form][wm_key_hash(want) & (m->nbuckets - 1)], *p;
    rt_list_each (p, head) {
        struct wm_unex *u = unex_of(p, form);
        struct wm_key k = wm_key_as(&u->key, form);
        if (wm_key_equal(&k, want))
            return u;
    }
    return NULL;
}

struct wm_unex *wm_match_find_that(struct wm_match *m, const struct wm_key *exact,
                                   bool (*is)(const struct wm_unex *u, const void *arg),
                                   const void *arg)
{
    struct rt_list *head = &m->unex[WM_FORM_EXACT][wm_key_hash(exact) & (m->nbuckets - 1)], *p;
    rt_list_each (p, head) {
        struct wm_unex *u = unex_of(p, WM_FORM_EXACT);
        if (wm_key_equal(&u->key, exact) && is(u, arg))
            return u;
    }
    return NULL;
}

void wm_match_each(const struct wm_match *m, void (*fn)(const struct wm_unex *u, void *arg),
                   void *arg)
{
    struct rt_list *p;
    for (uint32_t i = 0; m->nunex && i < m->nbuckets; i++)
        rt_list_each (p, &m->unex[WM_FORM_EXACT][i])
            fn(unex_of(p, WM_FORM_EXACT), arg);
}

void wm_match_remove(struct wm_match *m, struct wm_unex *u)
{
    m->nunex--;
    for (int f = 0; f < WM_FORMS; f++)
        rt_list_del(&u->link[f]);
}
