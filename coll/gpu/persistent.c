/* SPDX-License-Identifier: BSD-3-Clause */
/* Persistent calls on device memory.  When such a call is created, each rank votes yes, with the
 * keys of its ranges, or no, without waiting.  At its first start a rank reads the others' votes,
 * maps their ranges and makes the plan, once.  Each start then only publishes that this rank has
 * arrived, and carries the plan out.  Starts of different calls may come in any order, so each call
 * has an entry of its own.
 *
 * Persistent calls are numbered alike on all ranks (`inits`).  Call P uses entry P % FIXED of each
 * rank's own array; if that entry still belongs to another call, this rank vetoes.  A yes is
 * entry.number == P, written before `inits` is P or more.  After a veto all starts go through host
 * memory.
 *
 * at = AT(n, phase | flags) in the n-th start; READY: the rank has arrived and mapped all ranges.
 * DECLINED (a range that cannot be mapped, memory that has been freed) and FAILED end the call's
 * use of devices on all ranks: a rank that has seen one of them carries out later starts in host
 * memory.
 *
 * Why no flag is overwritten too early.  A rank that has gone on to the next start, or has given
 * the entry to another call, has left start n.  If another rank still waits for its arrival, then
 * the first rank has left without meeting that one, so some rank has declined.  If another rank
 * waits for its END, then the first rank has seen all END flags, and had itself published nothing
 * but END: after DECLINED or FAILED its flags stay, and FAILED keeps the entry for good.  An entry
 * that is given to another call has number 0 before its other fields change, so a rank that reads
 * the old number after `at` has read the old `at`. */
#include "coll/gpu/gpu.h"

#include "coll/select.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

static size_t entry_nbytes(const struct coll_gpu *g)
{
    return sizeof(struct coll_gpu_entry) + coll_gpu_post_nbytes(g);
}

size_t coll_gpu_fixed_nbytes(const struct coll_gpu *g) { return COLL_GPU_FIXED * entry_nbytes(g); }

struct coll_gpu_entry *coll_gpu_entry_of(const struct coll_gpu_call *c, int rank)
{
    struct coll_gpu *g = c->gate;
    char *p = rank == g->team->rank
                  ? g->fixed
                  : g->team->ops->shm_at(g->team, rt_load_relaxed(&g->word[rank].fixed) - 1);
    return (struct coll_gpu_entry *)(p + (size_t)c->slot * entry_nbytes(g));
}

static bool has_entries(struct coll_gpu *g)
{
    struct coll_team *t = g->team;
    if (g->fixed)
        return true;
    size_t off = t->ops->shm_alloc(t, coll_gpu_fixed_nbytes(g));
    if (off == SIZE_MAX)
        return false;
    g->fixed = t->ops->shm_at(t, off);
    rt_store_relaxed(&g->own->fixed, off + 1);
    return true;
}

/* Fills this rank's entry.  False: veto. */
static bool enter(struct coll_gpu_call *c)
{
    struct coll_gpu *g = c->gate;
    struct coll_gpu_entry *e = coll_gpu_entry_of(c, g->team->rank);
    rt_store_relaxed(&e->number, 0);
    rt_fence(); /* see the head of this file */
    if (coll_gpu_describe(c) < 0)
        return false;
    coll_gpu_put_post(c, 0);
    rt_store_relaxed(&e->at, 0);
    rt_store_relaxed(&g->head->devices, 1);
    rt_store_relaxed(&g->own->open, g->own->open + 1);
    g->in_use[c->slot] = true;
    rt_store_release(&e->number, c->init);
    return true;
}

/* As for ordinary calls, a rank without data votes yes if device memory has been seen. */
static bool may_be_device(const struct coll_gpu *g, const struct coll_args *a)
{
    return a->mem != RT_MEM_HOST ||
           (rt_load_relaxed(&g->head->devices) && coll_gpu_has_nothing(g->team, a));
}

/* coll_prepare() has counted the call. */
void coll_gpu_prepare(struct coll_task *k)
{
    struct coll_gpu *g = k->team->gpu;
    uint64_t number = g->team->gate_inits;
    int slot = (int)(number % COLL_GPU_FIXED);
    if (may_be_device(g, &k->args) && !g->far && !g->in_use[slot] &&
        !coll_is_forced(k->team, &k->args, false) && has_entries(g)) {
        struct coll_gpu_call *c = coll_gpu_call_take(g, k);
        if (c) {
            c->init = number;
            c->number = 0;
            c->slot = slot;
            if (enter(c))
                k->fixed = c;
            else
                coll_gpu_call_spare(c);
        }
    }
    rt_store_release(&g->own->inits, number);
    coll_gpu_has_said(g);
}

void coll_gpu_unprepare(struct coll_task *k)
{
    struct coll_gpu_call *c = k->fixed;
    struct coll_gpu *g = c->gate;
    g->in_use[c->slot] = c->seen & COLL_GPU_FAILED;
    rt_store_release(&g->own->open, g->own->open - 1);
    k->fixed = NULL;
    coll_gpu_call_spare(c);
}

/* Until all ranks have arrived, or a rank has declined. */
static int arrived(struct coll_gpu_call *c)
{
    if (!coll_gpu_all_at(c, COLL_GPU_READY))
        return 0;
    if (c->seen & COLL_GPU_FAILED) /* perhaps later: the others wait for this rank's END, too */
        return coll_gpu_end(c);
    return c->seen ? coll_gpu_stage(c) : coll_gpu_carry_out(c);
}

static int arrive(struct coll_gpu_call *c)
{
    if (!(c->flags & (COLL_GPU_DECLINED | COLL_GPU_FAILED)) && !coll_gpu_stands(c))
        c->flags |= COLL_GPU_DECLINED;
    c->go = arrived;
    coll_gpu_say(c, COLL_GPU_READY);
    coll_gpu_wait_a_moment(c, COLL_GPU_READY);
    return arrived(c);
}

/* At the first start: reads the votes of the other ranks. */
static int look(struct coll_gpu_call *c)
{
    struct coll_gpu *g = c->gate;
    bool in_place;
    for (; c->heard < g->team->size; c->heard++) {
        const struct coll_gpu_word *w = &g->word[c->heard];
        bool none = rt_load_acquire(&w->passed) == UINT64_MAX;
        /* pairs with the release in coll_gpu_prepare() */
        if (!none && rt_load_acquire(&w->inits) < c->init) {
            if (!coll_gpu_is_gone(c, c->heard))
                return 0;
            if (rt_load_acquire(&w->inits) < c->init) { /* as all_yes() in gate.c */
                c->seen |= COLL_GPU_FAILED;
                return coll_gpu_over(c, -RT_EPEER);
            }
        }
        if (none || !w->fixed ||
            rt_load_acquire(&coll_gpu_entry_of(c, c->heard)->number) != c->init) {
            c->seen |= COLL_GPU_DECLINED;
            return coll_gpu_stage(c);
        }
    }
    coll_gpu_get_ready(c, &in_place); /* it stores the error */
    return arrive(c);
}

static int fixed_step(struct coll_task *k)
{
    struct coll_gpu_call *c = k->state;
    return c->go(c);
}

int coll_gpu_restart(struct coll_task *k)
{
    struct coll_gpu_call *c = k->fixed;
    c->heard = 0;
    c->target = 0;
    c->look_at = 0;
    c->failed_at = 0;
    c->go = c->number++ ? arrive : look;
    k->alg = &coll_gpu_alg;
    k->state = c;
    k->cleanup = NULL;
    k->step = fixed_step;
    return 0;
}
