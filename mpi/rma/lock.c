/* SPDX-License-Identifier: BSD-3-Clause */
/* Locks in control blocks, for processes of one host; the owner of a block also takes them on
 * behalf of processes of other hosts.
 *
 * An uncontended lock is one compare-and-swap.  A process that finds the lock held in the other
 * mode, or finds waiters, joins a queue and does not poll: the process that releases the lock
 * grants it to the first waiters and rings their bells.  The queue is changed under a guard, for
 * some tens of nanoseconds.  An exclusive lock of a target takes two words in turn: first the
 * host's word, which MPI_Win_lock_all holds in the other mode, then the target's.  So
 * MPI_Win_lock_all costs one word for all targets of a host. */
#include "mpi/rma/lock.h"
#include "mpi/rma/progress.h"
#include "runtime/base/idle.h"
#include "runtime/mem/deaths.h"

/* Looks at a lock that another process holds before the queue is joined, and pauses between two
 * looks.  A hand-over by the queue costs both processes about a microsecond; most epochs of a few
 * operations end sooner, and all looks together take a few microseconds.  Each look takes the
 * lock's cache line from the holder, hence the pauses.  The order stays fair: no process passes
 * one in the queue. */
#define SPIN_LOOKS 16
#define SPIN_GAP 16

static bool admits(uint32_t word, int mode, bool solo)
{
    if (!(word & WM_RMA_HOLDERS))
        return true;
    return (word & WM_RMA_MODE1) == (mode ? WM_RMA_MODE1 : 0) && !(solo && mode);
}

/* Takes the lock if its state admits that; `queued`: the caller is first in the queue. */
static bool take(struct wm_rma_lock *l, int mode, bool solo, bool queued)
{
    uint32_t w = rt_load_relaxed(&l->word);
    while (admits(w, mode, solo) && (queued || !(w & WM_RMA_QUEUED))) {
        uint32_t next = (w & WM_RMA_QUEUED) | (mode ? WM_RMA_MODE1 : 0) |
                        ((w & WM_RMA_HOLDERS) + 1);
        if (rt_cas(&l->word, &w, next))
            return true;
    }
    return false;
}

static struct wm_rma_node *node_at(const struct wm_rma *r, uint32_t number)
{
    return &wm_rma_ctl_at(r, (int)((number - 1) / WM_RMA_NODES))->node[(number - 1) % WM_RMA_NODES];
}

/* Grants the lock to the first waiters that it admits.  Under the guard. */
static void grant(const struct wm_rma *r, struct wm_rma_lock *l)
{
    while (l->head) {
        uint32_t number = l->head;
        struct wm_rma_node *n = node_at(r, number);
        if (!take(l, n->mode, n->solo, true))
            return;
        l->head = n->next;
        rt_store_release(&n->granted, 1u); /* from here on the node is its owner's again */
        rt_bell_ring((int)((number - 1) / WM_RMA_NODES));
    }
    l->tail = 0;
    rt_fetch_and(&l->word, ~WM_RMA_QUEUED);
}

static uint32_t node_take(const struct wm_rma *r)
{
    for (uint32_t i = 0; i < WM_RMA_NODES; i++) {
        struct wm_rma_node *n = &r->shared.ctl->node[i];
        if (n->used)
            continue;
        n->used = 1;
        n->next = n->granted = 0;
        return (uint32_t)rt_node.rank * WM_RMA_NODES + i + 1;
    }
    return 0;
}

static void node_give(const struct wm_rma *r, uint32_t number) { node_at(r, number)->used = 0; }

static void enqueue(const struct wm_rma *r, struct wm_rma_lock *l, uint32_t number, int mode,
                    bool solo)
{
    struct wm_rma_node *n = node_at(r, number);
    n->mode = (uint16_t)mode;
    n->solo = solo;
    rt_node_hold(&l->guard);
    rt_fetch_or(&l->word, WM_RMA_QUEUED); /* from here on a release comes to grant() */
    if (l->tail)
        node_at(r, l->tail)->next = number;
    else
        l->head = number;
    l->tail = number;
    grant(r, l); /* it may have been released in between */
    rt_store_release(&l->guard, 0u);
}

static void release(const struct wm_rma *r, struct wm_rma_lock *l)
{
    uint32_t before = rt_fetch_add(&l->word, -1u);
    if (rt_likely(!(before & WM_RMA_QUEUED)))
        return;
    rt_node_hold(&l->guard);
    grant(r, l);
    rt_store_release(&l->guard, 0u);
}

/* The word and mode of the current step of a lock. */
static struct wm_rma_lock *step_of(const struct wm_rma *r, const struct wm_rma_want *w, int *mode,
                                   bool *solo)
{
    bool exclusive = w->kind == WM_WANT_EXCLUSIVE;
    *mode = exclusive;
    *solo = w->state == WM_WANT_SECOND;
    return w->kind == WM_WANT_ALL || w->state == WM_WANT_FIRST ? &wm_rma_leader(r)->all
                                                               : &w->ctl->lock;
}

/* One step without waiting.  True: the word of this step is held. */
static bool acquire(struct wm_rma *r, struct wm_rma_want *w)
{
    bool solo;
    int mode;
    struct wm_rma_lock *l = step_of(r, w, &mode, &solo);
    if (!w->node) {
        if (take(l, mode, solo, false))
            return true;
        w->node = node_take(r);
        if (!w->node)
            return false; /* all in use; the next call tries again */
        enqueue(r, l, w->node, mode, solo);
    }
    if (!rt_load_acquire(&node_at(r, w->node)->granted))
        return false;
    node_give(r, w->node);
    w->node = 0;
    return true;
}

bool wm_rma_want_step(struct wm_rma *r, struct wm_rma_want *w)
{
    while (w->state != WM_WANT_HELD) {
        if (!acquire(r, w))
            return false;
        bool more = w->kind == WM_WANT_EXCLUSIVE && w->state == WM_WANT_FIRST;
        w->state = more ? WM_WANT_SECOND : WM_WANT_HELD;
    }
    return true;
}

bool wm_rma_want(struct wm_rma *r, struct wm_rma_want *w, enum wm_want_kind kind,
                 struct wm_rma_ctl *ctl)
{
    w->kind = (uint8_t)kind;
    w->state = kind == WM_WANT_SHARED ? WM_WANT_SECOND : WM_WANT_FIRST;
    w->ctl = ctl;
    w->node = 0;
    if (rt_likely(wm_rma_want_step(r, w)))
        return true;
    rt_list_append(&r->task.wants, &w->link);
    wm_rma_pump_need(r);
    return false;
}

bool wm_rma_want_now(struct wm_rma *r, struct wm_rma_want *w, enum wm_want_kind kind,
                     struct wm_rma_ctl *ctl)
{
    bool exclusive = kind == WM_WANT_EXCLUSIVE;
    if (exclusive && !take(&wm_rma_leader(r)->all, 1, false, false))
        return false;
    if (!take(&ctl->lock, exclusive, exclusive, false)) {
        if (exclusive)
            release(r, &wm_rma_leader(r)->all);
        return false;
    }
    w->kind = (uint8_t)kind;
    w->state = WM_WANT_HELD;
    w->ctl = ctl;
    w->node = 0;
    return true;
}

/* Whether the lock would be granted now. */
static bool is_open(const struct wm_rma_lock *l, int mode, bool solo)
{
    uint32_t w = rt_load_relaxed(&l->word);
    return !(w & WM_RMA_QUEUED) && admits(w, mode, solo);
}

bool wm_rma_want_soon(struct wm_rma *r, struct wm_rma_want *w, enum wm_want_kind kind,
                      struct wm_rma_ctl *ctl)
{
    bool exclusive = kind == WM_WANT_EXCLUSIVE;
    int looks = rt_idle_oversubscribed() ? 1 : SPIN_LOOKS;
    for (int i = 0; i < looks && !(rt_load_relaxed(&ctl->lock.word) & WM_RMA_QUEUED); i++) {
        if (is_open(&ctl->lock, exclusive, exclusive) && wm_rma_want_now(r, w, kind, ctl))
            return true;
        for (int n = 0; n < SPIN_GAP && looks > 1; n++)
            rt_relax();
    }
    return wm_rma_want(r, w, kind, ctl);
}

void wm_rma_release(struct wm_rma *r, struct wm_rma_want *w)
{
    if (w->kind != WM_WANT_ALL)
        release(r, &w->ctl->lock);
    if (w->kind != WM_WANT_SHARED)
        release(r, &wm_rma_leader(r)->all);
    w->state = WM_WANT_NOTHING;
}
