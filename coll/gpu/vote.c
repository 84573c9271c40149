/* SPDX-License-Identifier: BSD-3-Clause */
/* Votes: how the ranks of one of several hosts agree that they carry out their part of a call on
 * their devices (coll/hier).  The words, their order and what follows from it are those of gate.c,
 * for the whole team's calls but with this host's ranks only; no keys go with them.
 *
 * A rank says yes when its schedule is there, with all its memory; that runs when all have said
 * yes, else it goes.  Votes are decided in order, and a schedule gives its calls their numbers when
 * it begins to run, so those come in the same order on all ranks of the host.
 *
 * Why nothing is overwritten too early.  A vote has no end at which all meet.  So a rank that has
 * found out that all have said yes says that, and yes[s] is used again when all have. */
#include "coll/gpu/gpu.h"

#include "coll/hier/hier.h"

bool coll_gpu_vote(struct coll_gpu_call *c)
{
    struct coll_task *k = c->task;
    int (*step)(struct coll_task *) = k->step;
    bool yes = coll_hier_on_device(k);
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
