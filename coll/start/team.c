/* SPDX-License-Identifier: BSD-3-Clause */
/* Teams: what coll/node, coll/gpu and coll/hier keep for a team, from its creation to its end.
 * Called under the domain's lock. */

#include "coll/start/team.h"
#include "coll/board.h"
#include "coll/gpu/gate.h"
#include "coll/hier/hier.h"
#include "coll/hier/on_device.h"
#include "coll/hier/team.h"
#include "coll/node/node.h"
#include "coll/select.h"
#include "runtime/base/err.h"

/* The shared memory has a part of coll/node and two of coll/gpu: for calls, and for votes.  If all
 * ranks are on this host, the part for votes is not used. */
size_t coll_team_nbytes(int size)
{
    return size < 2 ? 0 : coll_node_nbytes(size) + 2 * coll_board_nbytes(size);
}

static char *board_at(struct coll_team *t, size_t off)
{
    return (char *)t->ops->shm_at(t, 0, off, coll_team_nbytes(t->size)) + coll_node_nbytes(t->size);
}

size_t coll_team_alloc(struct coll_team *t)
{
    size_t off = t->ops->shm_alloc(t, coll_team_nbytes(t->size));
    if (off != SIZE_MAX && t->ops->one_owner && rt_gpu_watch)
        coll_board_alloc(t, board_at(t, off), coll_gpu_post_nbytes(t->size));
    return off;
}

void coll_team_free(struct coll_team *t, size_t off)
{
    if (t->ops->one_owner)
        coll_board_free(t, board_at(t, off), coll_gpu_post_nbytes(t->size));
    t->ops->shm_free(t, off, coll_team_nbytes(t->size));
}

struct coll_team *coll_team_local(struct coll_team *t)
{
    return t->hier ? &t->hier->local.team : t;
}

const int *coll_team_local_ranks(const struct coll_team *t)
{
    return t->hier ? t->hier->local.ranks : NULL;
}

int coll_team_split(struct coll_team *t, const int *ranks, int n)
{
    return coll_hier_create(t, ranks, n);
}

int coll_team_prepare(struct coll_team *whole)
{
    struct coll_team *t = coll_team_local(whole);
    coll_select_prepare(t);
    coll_select_prepare(whole);
    int err = coll_gpu_create(t, t, NULL);
    if (!err && whole != t)
        err = coll_gpu_create(whole, t, coll_hier_on_device);
    return err ? err : coll_node_create(t);
}

int coll_team_own(struct coll_team *own, const struct coll_team *t)
{
    *own = *t;
    own->failed = false;
    own->gpu = NULL;
    own->device_part = NULL;
    own->node = NULL;
    own->limits = NULL;
    return coll_node_create(own);
}

void coll_team_attach(struct coll_team *whole, size_t off)
{
    struct coll_team *t = coll_team_local(whole);
    char *p = t->ops->shm_at(t, 0, off, coll_team_nbytes(t->size));
    char *devices = p + coll_node_nbytes(t->size);
    coll_gpu_attach(t, t, devices);
    if (whole != t)
        coll_gpu_attach(whole, t, devices + coll_board_nbytes(t->size));
    coll_node_attach(t, p);
}

void coll_team_unprepare(struct coll_team *whole)
{
    struct coll_team *t = coll_team_local(whole);
    coll_gpu_fini(t);
    if (whole != t)
        coll_gpu_fini(whole);
    coll_node_fini(t); /* last: others may free the shared memory after this */
}

void coll_team_forget(struct coll_team *t)
{
    coll_gpu_forget(coll_team_local(t));
    if (t->hier)
        coll_gpu_forget(t);
}

void coll_team_fini(struct coll_team *whole)
{
    coll_team_unprepare(whole);
    if (whole->hier)
        coll_hier_destroy(whole->hier);
    whole->hier = NULL;
}

void coll_team_moved(struct coll_team *t)
{
    if (t->node)
        t->node->team = t;
    if (t->gpu && !t->hier)
        t->gpu->board.team = t;
    if (t->hier) {
        t->hier->up = t;
        t->hier->local.team.arg = t->arg;
    }
}

bool coll_team_attached(struct coll_team *whole)
{
    const struct coll_node *n = coll_team_local(whole)->node;
    return n && n->head;
}

void coll_team_died(struct coll_team *whole, int rank)
{
    rt_store_release(&coll_team_local(whole)->node->prog[rank].left, 1);
}

bool coll_team_quiet(struct coll_team *whole)
{
    return !coll_team_attached(whole) || coll_node_left(coll_team_local(whole)->node);
}
