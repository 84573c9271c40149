/* SPDX-License-Identifier: BSD-3-Clause */
/* Context ids.  Each process keeps a bit for every id; a new communicator takes the lowest id that
 * is free in all its members, found by combining a window of bits over them.  All state is used
 * under the domain's lock.
 *
 * Several threads may make communicators at once, and their members overlap in any way.  A process
 * lends its bits to one agreement at a time; the others take part with nothing to offer and try
 * again.  The one with the lowest order has precedence, so the agreement that is lowest of all gets
 * every member's bits in its next round: no deadlock. */
#include "mpi/core/ctx.h"
#include "mpi/p2p/domain.h"
#include <string.h>

#define NIDS \
    (1u << 20) /* ids; contexts are 2 * id and 2 * id + 1.  As many as there are communicator \
                  handles */
#define WORDS \
    16 /* of a window: 1024 ids, so one round is nearly always enough; 144 bytes a message */
#define NWORDS (NIDS / 64)
#define NWINDOW (NWORDS / WORDS)

static uint64_t used[NWORDS]; /* bit set: taken.  Zero pages, touched as ids are used */

struct waiter {
    uint64_t order;
    struct waiter *next;
};
static struct waiter *waiters; /* agreements going on in this process */
static bool lent;              /* one of them has the bits */

struct offer {
    uint32_t window;      /* the highest that anybody asks for */
    uint32_t busy;        /* somebody could not lend its bits */
    uint64_t free[WORDS]; /* of that window */
};

static void offer_merge(void *inout, const void *in)
{
    struct offer *a = inout;
    const struct offer *b = in;
    if (a->window != b->window) {
        if (a->window < b->window)
            a->window = b->window;
        memset(a->free, 0,
               sizeof a->free); /* comparing different ids: next round, with the higher window */
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
    for (const struct waiter *w = waiters; w; w = w->next)
        if (w->order < order)
            return false;
    return true;
}

static void waiter_remove(struct waiter *me)
{
    struct waiter **p = &waiters;
    while (*p != me)
        p = &(*p)->next;
    *p = me->next;
}

static uint32_t take_lowest(const struct offer *o)
{
    for (uint32_t i = 0; i < WORDS; i++) {
        if (o->free[i]) {
            uint32_t bit = (uint32_t)__builtin_ctzll(o->free[i]), word = o->window * WORDS + i;
            used[word] |= 1ull << bit;
            return 2 * (64 * word + bit);
        }
    }
    return 0;
}

/* One round; *ctx stays 0 when there has to be another one, with *window. */
static int round_of(const struct wm_exch *x, uint64_t order, uint32_t *window, uint32_t *ctx)
{
    struct offer o = { .window = *window };
    while (o.window < NWINDOW && window_full(o.window))
        o.window++;
    bool owner = !lent && o.window < NWINDOW && lowest_waiter(order);
    if (owner) {
        lent = true;
        for (uint32_t i = 0; i < WORDS; i++)
            o.free[i] = ~used[o.window * WORDS + i];
    } else {
        o.busy = o.window < NWINDOW;
    }
    int err = wm_exch_combine(x, &o, sizeof o, offer_merge);
    if (owner)
        lent = false;
    if (err)
        return wm_err_rt(err, "agreeing on a context id for a new communicator");
    if (o.window >= NWINDOW)
        return wm_err(MPI_ERR_OTHER,
                      "all %u communicators are in use; free some with MPI_Comm_free", NIDS);
    *ctx = take_lowest(&o); /* nothing is free in the offer unless every process lent its bits */
    *window = o.busy ? o.window : o.window + 1;
    return MPI_SUCCESS;
}

int wm_ctx_agree(const struct wm_exch *x, uint64_t order, uint32_t *ctx)
{
    struct waiter me = { order, waiters };
    uint32_t window = 0;
    int err = MPI_SUCCESS;
    waiters = &me;
    *ctx = 0;
    while (!err && !*ctx)
        err = round_of(x, order, &window, ctx);
    waiter_remove(&me);
    return err;
}

int wm_comm_agree_ctx(struct wm_comm *c, uint32_t *ctx)
{
    struct wm_exch x = { .comm = c, .n = c->size, .me = c->rank, .tag = WM_TAG_COMM };
    rt_lock(&c->dom->lock);
    int err = wm_ctx_agree(&x, (uint64_t)c->ctx << 32, ctx);
    rt_unlock(&c->dom->lock);
    return err;
}

void wm_comm_release_ctx(uint32_t ctx) { used[ctx / 2 / 64] &= ~(1ull << (ctx / 2 % 64)); }

void wm_ctx_init(void)
{
    memset(used, 0, sizeof used[0] * WORDS);
    used[0] = 1u | 1u << WM_CTX_WORLD / 2 | 1u << WM_CTX_SELF / 2; /* id 0 is never used */
}
