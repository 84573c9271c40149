/* SPDX-License-Identifier: BSD-3-Clause */
/* Context ids.  Each process keeps one bit per id.  A new communicator takes an id that is free in
 * all its members, found by combining windows of bits over them.
 *
 * The search starts in the window where the last search succeeded, or at an id that was released
 * since.  Otherwise a program whose many communicators have different members would search all
 * windows for each new one.  A search that reaches the end starts once more from the first window
 * before it fails.  All state is used under the domain's lock.
 *
 * Several threads may create communicators at once, with arbitrarily overlapping members.  A
 * process lends its bits to one agreement at a time; in its other agreements it offers no id, and
 * they need another round.  The agreement with the lowest order has precedence.  So the lowest of
 * all agreements gets every member's bits in its next round: no deadlock. */
#include "mpi/core/ctx.h"
#include "mpi/core/lanes.h"
#include "mpi/p2p/domain.h"
#include "mpi/p2p/wait.h"
#include "runtime/base/err.h"
#include "runtime/base/lock.h"
#include <string.h>

#define WORDS WM_CTX_WORDS
#define NWORDS (WM_CTX_IDS / 64)
#define NWINDOW (NWORDS / WORDS)

static uint64_t used[NWORDS]; /* bit set: taken.  Costs memory only where ids are used */
static uint32_t first_window; /* where the next search starts */

static struct wm_ctx_search *waiters; /* agreements in progress in this process */
static bool lent;                     /* an agreement has the bits of this process */
_Static_assert(sizeof(struct wm_ctx_offer) <= WM_EXCH_MAX, "an offer can be combined");
unsigned wm_ctx_idups;

void wm_ctx_merge(void *inout, const void *in)
{
    struct wm_ctx_offer *a = inout;
    const struct wm_ctx_offer *b = in;
    a->err = a->err > b->err ? a->err : b->err;
    a->check += b->check;
    a->block += b->block;
    a->lanes = wm_lanes_merge(a->lanes, b->lanes);
    if (a->window != b->window) {
        if (a->window < b->window)
            a->window = b->window;
        memset(a->free, 0,
               sizeof a->free); /* different windows offered: next round with the higher one */
        a->busy = 1;
        return;
    }
    a->busy |= b->busy;
    for (int i = 0; i < WORDS; i++)
        a->free[i] &= b->free[i];
}

static bool window_full(uint32_t w)
{
    for (int i = 0; i < WORDS; i++)
        if (~used[w * WORDS + (uint32_t)i])
            return false;
    return true;
}

static bool lowest_waiter(uint64_t order)
{
    for (const struct wm_ctx_search *w = waiters; w; w = w->next)
        if (w->order < order)
            return false;
    return true;
}

static int count_free(const struct wm_ctx_offer *o)
{
    int n = 0;
    for (int i = 0; i < WORDS; i++)
        n += __builtin_popcountll(o->free[i]);
    return n;
}

static uint32_t take_lowest(struct wm_ctx_offer *o)
{
    for (uint32_t i = 0; i < WORDS; i++) {
        if (o->free[i]) {
            uint32_t bit = (uint32_t)__builtin_ctzll(o->free[i]), word = o->window * WORDS + i;
            used[word] |= 1ull << bit;
            o->free[i] &= o->free[i] - 1;
            return 2 * (64 * word + bit);
        }
    }
    return 0;
}

void wm_ctx_round(struct wm_ctx_search *s)
{
    struct wm_ctx_offer *o = &s->offer;
    if (!s->begun)
        s->window = first_window;
    s->begun = true;
    *o = (struct wm_ctx_offer){
        .window = s->window,
        .err = s->err,
        .lanes = s->lanes,
        .check = s->check,
        .block = s->block,
    };
    while (o->window < NWINDOW && window_full(o->window))
        o->window++;
    s->owner = s->met && !lent && o->window < NWINDOW && lowest_waiter(s->order);
    if (s->owner) {
        lent = true;
        for (uint32_t i = 0; i < WORDS; i++)
            o->free[i] = ~used[o->window * WORDS + i];
    } else {
        o->busy = o->window < NWINDOW;
    }
}

int wm_ctx_settle(struct wm_ctx_search *s, uint32_t *ctx)
{
    if (s->owner)
        lent = false;
    s->owner = false;
    *ctx = 0;
    int want = s->want ? s->want : 1;
    if (s->offer.window >= NWINDOW) {
        if (s->again)
            return -RT_ENOSPC;
        s->again = true;
        s->window = 0;
    } else if (count_free(&s->offer) >= want) { /* true only if every process lent its bits */
        for (int i = 0; i < want; i++)
            ctx[i] = take_lowest(&s->offer);
        first_window = s->offer.window;
    } else {
        s->window = s->offer.busy ? s->offer.window : s->offer.window + 1;
    }
    if (!s->met && !*ctx)
        wm_ctx_join(s);
    return 0;
}

/* The list links stack frames of callers: each caller calls wm_ctx_leave() before it returns.  Not
 * inline, because gcc 13 then warns of a dangling pointer. */
__attribute__((noinline)) void wm_ctx_join(struct wm_ctx_search *s)
{
    s->met = true;
    s->next = waiters;
    waiters = s;
}

void wm_ctx_leave(struct wm_ctx_search *s)
{
    if (s->owner)
        lent = false;
    s->owner = false;
    for (struct wm_ctx_search **p = &waiters; *p; p = &(*p)->next) {
        if (*p == s) {
            *p = s->next;
            return;
        }
    }
}

static int refused(const struct wm_ctx_search *s)
{
    if (s->err)
        return s->err; /* its error text is set already */
    if (s->offer.err)
        return wm_err(s->offer.err,
                      "another process failed in this call; its own message says why");
    return wm_err(MPI_ERR_GROUP, "the processes name different groups: all members of a group must "
                                 "name it, in the same order");
}

/* This agreement will get the bits of this process in its next round. */
static bool is_next(void *search)
{
    const struct wm_ctx_search *s = search;
    return !s->met || (!lent && lowest_waiter(s->order));
}

int wm_ctx_find(const struct wm_exch *x, struct wm_ctx_search *s, uint32_t *ctx)
{
    int err = 0;
    if (!rt_threaded && !wm_ctx_idups)
        wm_ctx_join(s); /* lending at once cannot delay another agreement */
    *ctx = 0;
    while (!err && !*ctx) {
        wm_ctx_round(s);
        err = wm_exch_combine(x, &s->offer, sizeof s->offer, wm_ctx_merge);
        if (!err && (s->offer.err || s->offer.check)) {
            wm_ctx_leave(s);
            return refused(s);
        }
        if (!err)
            err = wm_ctx_settle(s, ctx);
        if (!err && !*ctx && x->n == 1 && !x->two) /* another agreement must finish first */
            wm_domain_until(x->comm->dom, is_next, s, WM_WHAT_CALL);
    }
    wm_ctx_leave(s);
    return err ? wm_err_rt(err, "agreeing on a context id for a new communicator") : MPI_SUCCESS;
}

void wm_comm_release_ctx(uint32_t ctx)
{
    uint32_t word = ctx / 2 / 64;
    used[word] &= ~(1ull << (ctx / 2 % 64));
    if (word / WORDS < first_window)
        first_window = word / WORDS;
}

uint32_t wm_ctx_used(void)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < NWORDS; i++)
        n += (uint32_t)__builtin_popcountll(used[i]);
    return n;
}

void wm_ctx_init(void)
{
    memset(used, 0, sizeof used[0] * WORDS);
    first_window = 0;
    used[0] = 1u | 1u << WM_CTX_WORLD / 2 | 1u << WM_CTX_SELF / 2 | 1u << WM_CTX_JOB / 2 |
              1u << WM_CTX_BRIDGE / 2;
    /* id 0 is never used */
}
