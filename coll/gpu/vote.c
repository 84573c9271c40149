/* SPDX-License-Identifier: BSD-3-Clause */
/* Votes of the ranks of one of several hosts on whether they carry out their part of a call on
 * their devices (coll/hier).  Flag lines, order and proofs are those of gate.c, for the whole
 * team's calls but with this host's ranks only, and without keys.
 *
 * A rank votes yes when its schedule exists, with all its memory.  The schedule runs when all have
 * voted yes; otherwise it is freed.  Votes are decided in order, and a schedule numbers its calls
 * when it begins to run, so these numbers are in the same order on all ranks of the host.
 *
 * Why no vote is overwritten too early.  A vote has no end at which all ranks meet.  So a rank that
 * has seen all yes votes publishes READY, and yes[s] is used again when all ranks have. */
#include "coll/gpu/gpu.h"

bool coll_gpu_vote(struct coll_gpu_call *c)
{
    struct coll_task *k = c->task;
    int (*step)(struct coll_task *) = k->step;
    bool yes = c->gate->write(k);
    c->step = k->step;
    c->cleanup = k->cleanup;
    c->state = k->state;
    k->step = step;
    k->cleanup = NULL;
    k->state = c;
    return yes;
}

bool coll_gpu_vote_is_known(const struct coll_gpu *g, int slot)
{
    for (int r = 0; r < g->team->size; r++) /* pairs with the release in coll_gpu_say() */
        if (rt_load_acquire(&g->word[r].at[slot]) < COLL_GPU_AT(g->agreed[slot], 0u))
            return false;
    return true;
}

void coll_gpu_vote_won(struct coll_gpu_call *c)
{
    c->gate->agreed[c->slot] = c->number;
    coll_gpu_say(c, COLL_GPU_READY);
}

void coll_gpu_vote_lost(struct coll_gpu_call *c)
{
    c->task->state = c->state;
    if (c->cleanup)
        c->cleanup(c->task);
}
