/* SPDX-License-Identifier: BSD-3-Clause */
/* A communicator as collective algorithms see it: messages on its collective context, and shared
 * memory in the node segment, among all its processes or among those of each host.  Among processes
 * of several jobs on one host each allocates in its own job's segment.  Teams are made and ended
 * under the lock of lane 0, which wm_coll_team_share() takes, and used under that of their
 * communicator's lane. */
#include <stdlib.h>
#include "coll/start/team.h"
#include "mpi/coll/exch.h"
#include "mpi/coll/device.h"
#include "mpi/coll/team.h"
#include "mpi/base/comm.h"
#include "mpi/p2p/lane.h"
#include "mpi/p2p/malformed.h"
#include "mpi/p2p/p2p.h"
#include "mpi/p2p/recv.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/send.h"
#include "runtime/base/err.h"
#include "runtime/base/reserve.h"
#include "runtime/boot/dead.h"
#include "runtime/boot/jobs.h"
#include "runtime/mem/deaths.h"
#include "runtime/mem/others.h"
#include "runtime/mem/peer.h"

_Static_assert(COLL_TAG_END <= WM_TAG_COMM, "tags of collectives and of new communicators differ");

/* Shared memory of a communicator or persistent call that this process has freed while other
 * processes may still be reading: freed when they have finished. */
struct leaving {
    struct coll_team team; /* first member */
    size_t off, nbytes;
    bool own; /* of a persistent call */
    struct leaving *next;
    struct rt_proc here[]; /* its ranks on this host */
};
static struct leaving *leaving; /* under the domain's lock */

/* Persistent calls with shared memory of their own whose rank 0 is this process: at most 4 MiB each
 * for up to 64 ranks (COLL_NODE_HALF).  Further ones use messages. */
#define OWN_MOST 64
static int nown;

static struct wm_msg message(struct coll_team *t, const void *buf, int64_t n,
                             const struct rt_layout *l, int peer, int tag)
{
    return (struct wm_msg){ .buf = buf,
                            .count = n,
                            .layout = l,
                            .comm = wm_on_lane(t->arg),
                            .peer = peer,
                            .tag = tag,
                            .coll = true };
}

static int team_isend(struct coll_team *t, const void *buf, int64_t n, const struct rt_layout *l,
                      int dst, int tag, struct rt_req **out)
{
    struct wm_msg m = message(t, buf, n, l, dst, tag);
    return wm_p2p_isend(&m, WM_STANDARD, out);
}

static int team_irecv(struct coll_team *t, void *buf, int64_t n, const struct rt_layout *l, int src,
                      int tag, struct rt_req **out)
{
    struct wm_msg m = message(t, buf, n, l, src, tag);
    return wm_p2p_irecv(&m, out);
}

static void team_release(struct coll_team *t, struct rt_req *r)
{
    (void)t;
    wm_req_release(r);
}

static int team_send_poison(struct coll_team *t, int dst, int tag)
{
    struct wm_msg m = message(t, NULL, 0, NULL, dst, tag);
    return wm_p2p_send_poison(&m);
}

static size_t team_shm_alloc(struct coll_team *t, size_t nbytes)
{
    (void)t;
    return rt_node_alloc(nbytes);
}

static void team_shm_free(struct coll_team *t, size_t off, size_t nbytes)
{
    (void)t;
    rt_node_free(off, nbytes);
}

/* A block of a segment of `len` bytes, whose offset a rank has published. */
static void *block_at(const struct coll_team *t, int rank, char *base, size_t len, size_t off,
                      size_t nbytes)
{
    const struct wm_comm *c = t->arg;
    struct rt_proc from = wm_group_proc(c->group, rank);
    if (off > len || nbytes > len - off)
        wm_malformed(&from, "%zu bytes at offset %zu of a segment of %zu", nbytes, off, len);
    return base + off;
}

static void *team_shm_at(struct coll_team *t, int rank, size_t off, size_t nbytes)
{
    return block_at(t, rank, rt_node.base, rt_node.nbytes, off, nbytes);
}

static int local_rank(const struct coll_team *t, int rank)
{
    const struct wm_comm *c = t->arg;
    return rt_boot_local(wm_group_proc(c->group, rank).rank);
}

static void team_shm_wake(struct coll_team *t, int rank) { rt_bell_ring(local_rank(t, rank)); }

/* Another job's process; NULL: of this job. */
static struct rt_other *other_of(const struct coll_team *t, int rank)
{
    const struct wm_comm *c = t->arg;
    return rt_others_find(wm_group_proc(c->group, rank));
}

static struct rt_bell *bell_of(const struct coll_team *t, int rank)
{
    const struct rt_other *o = other_of(t, rank);
    return o ? o->bell : &rt_node.bells[local_rank(t, rank)];
}

static int team_peer_read(struct coll_team *t, int rank, void *to, uint64_t from, size_t nbytes)
{
    return rt_peer_read(bell_of(t, rank), to, from, nbytes);
}

static int team_peer_write(struct coll_team *t, int rank, uint64_t to, const void *from,
                           size_t nbytes)
{
    return rt_peer_write(bell_of(t, rank), to, from, nbytes);
}

struct place {
    uint32_t job;
    int host, rank;
};

static int by_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->job != y->job)
        return x->job < y->job ? -1 : 1;
    return x->host != y->host ? x->host - y->host : x->rank - y->rank;
}

/* Processes of several jobs on one host count as on several hosts: each job has its own segment. */
static int team_nodes(struct coll_team *t, int *out)
{
    const struct wm_comm *c = t->arg;
    struct place *all = rt_reserve_alloc((size_t)t->size * sizeof *all);
    int err = all ? 0 : -RT_ENOMEM;
    for (int i = 0; i < t->size && err >= 0; i++) {
        struct rt_proc p = wm_group_proc(c->group, i);
        err = rt_boot_host(p);
        all[i] = (struct place){ p.ns, err, i };
    }
    if (err >= 0)
        qsort(all, (size_t)t->size, sizeof *all, by_place);
    for (int i = 0, first = 0; i < t->size && err >= 0; i++) {
        if (all[i].job != all[first].job || all[i].host != all[first].host)
            first = i;
        out[all[i].rank] = all[first].rank;
    }
    rt_reserve_free(all);
    return err < 0 ? err : 0;
}

static bool team_gone(struct coll_team *t, int rank)
{
    const struct rt_other *o = other_of(t, rank);
    return o ? rt_others_gone(o) : rt_node_gone(local_rank(t, rank));
}

static enum coll_ended team_ended(struct coll_team *t, int rank)
{
    const struct rt_other *o = other_of(t, rank);
    int r = o ? -1 : local_rank(t, rank);
    if (o ? !o->ended : !rt_node_has_ended(r))
        return COLL_LIVES;
    return (o ? rt_others_is_leaving(o) : rt_node_is_leaving(r)) ? COLL_ENDED_LEFT
                                                                 : COLL_ENDED_DIED;
}

static bool team_revoked(struct coll_team *t)
{
    return ((const struct wm_comm *)t->arg)->ft.revoked;
}

/* What does not depend on where the shared memory is. */
#define COMMON_OPS \
    .isend = team_isend, .irecv = team_irecv, .release = team_release, \
    .send_poison = team_send_poison, .dev_describe = wm_team_dev_describe, \
    .dev_release = wm_team_dev_release, .dev_attach = wm_team_dev_attach, \
    .dev_detach = wm_team_dev_detach, .dev_unpin = wm_team_dev_unpin, \
    .dev_repin = wm_team_dev_repin, .device = wm_coll_device, .nodes = team_nodes, \
    .stage = wm_coll_stage, .peer_read = team_peer_read, .peer_write = team_peer_write, \
    .gone = team_gone, .ended = team_ended, .revoked = team_revoked

/* Whether the launcher has started a process on this host. */
static bool started_here(struct rt_proc p)
{
    return p.ns == 0 && rt_node.base && rt_boot_local(p.rank) >= 0;
}

/* Whether a process shares the node segment of this process.  May wait until the process is in
 * MPI_Init. */
static bool is_here(struct rt_proc p) { return p.ns == 0 && rt_node_local(p.rank) >= 0; }

/* MPI_COMM_WORLD is made in MPI_Init, which waits for no process: that its ranks on this host share
 * memory is an assumption, which every rank of the host checks in its first collective, with the
 * same result.  A host of which two ranks share none counts as one where ranks send messages. */
static void team_settle(struct coll_team *t)
{
    const struct wm_comm *c = t->arg;
    const struct coll_team *local = coll_team_local(t);
    const int *ranks = coll_team_local_ranks(t);
    for (int i = 0; i < local->size; i++)
        if (!is_here(wm_group_proc(c->group, ranks ? ranks[i] : i))) {
            coll_team_unprepare(t);
            t->one_node = false;
            return;
        }
}

static const struct coll_team_ops team_ops = {
    COMMON_OPS,
    .settle = team_settle,
    .shm_alloc = team_shm_alloc,
    .shm_free = team_shm_free,
    .shm_at = team_shm_at,
    .shm_wake = team_shm_wake,
};

/* ---- processes of several jobs ---- */

/* An offset in such a team: the rank that has allocated, plus 1, and the offset in its segment. */
#define OWNER_SHIFT 44
#define OFF_MASK (((size_t)1 << OWNER_SHIFT) - 1)

static size_t owned(size_t off, int rank)
{
    return off == SIZE_MAX ? off : off | ((size_t)rank + 1) << OWNER_SHIFT;
}

static size_t jobs_shm_alloc(struct coll_team *t, size_t nbytes)
{
    return owned(rt_node_alloc(nbytes), t->rank);
}

/* Only rank 0 allocates and frees, so the block is in the segment of this process's job. */
static void jobs_shm_free(struct coll_team *t, size_t off, size_t nbytes)
{
    (void)t;
    rt_node_free(off & OFF_MASK, nbytes);
}

static void *jobs_shm_at(struct coll_team *t, int rank, size_t off, size_t nbytes)
{
    size_t owner = (off >> OWNER_SHIFT) - 1;
    const struct rt_other *o = owner < (size_t)t->size ? other_of(t, (int)owner) : NULL;
    return o ? block_at(t, rank, o->base, o->nbytes, off & OFF_MASK, nbytes)
             : block_at(t, rank, rt_node.base, rt_node.nbytes, off & OFF_MASK, nbytes);
}

static void jobs_shm_wake(struct coll_team *t, int rank) { rt_bell_ring_at(bell_of(t, rank)); }

static const struct coll_team_ops jobs_ops = {
    COMMON_OPS,
    .shm_alloc = jobs_shm_alloc,
    .shm_free = jobs_shm_free,
    .shm_at = jobs_shm_at,
    .shm_wake = jobs_shm_wake,
    .one_owner = true,
};

static bool several_jobs(const struct wm_group *g)
{
    if (!g->procs)
        return g->first.ns != 0;
    for (int i = 0; i < g->size; i++)
        if (wm_group_proc(g, i).ns != 0)
            return true;
    return false;
}

static void merge_far(void *inout, const void *in) { *(int32_t *)inout |= *(const int32_t *)in; }

/* Whether all processes share memory with all others.  Each process knows only which processes
 * share memory with itself, so all processes combine their answers. */
static int agree_near(struct wm_comm *c, bool *near)
{
    int32_t far = 0;
    for (int i = 0; i < c->size; i++) {
        struct rt_proc p = wm_group_proc(c->group, i);
        const struct rt_other *o = rt_others_find(p);
        far |= p.ns == 0 ? rt_node_local(p.rank) < 0 : !o || o->ended;
    }
    struct wm_exch x = wm_exch_all(c);
    int err = wm_exch_combine(&x, &far, sizeof far, merge_far);
    *near = !far;
    return err;
}

static void join_jobs(struct coll_team *t)
{
    t->one_node = true;
    t->ops = &jobs_ops;
}

bool wm_coll_team_in_node(const struct wm_comm *c)
{
    return c->team.one_node && c->team.ops == &team_ops;
}

void wm_coll_team_like(struct wm_comm *c, const struct wm_comm *model)
{
    if (model->team.ops == &jobs_ops)
        join_jobs(&c->team);
}

/* ---- creation and end ---- */

static bool is_world(const struct wm_comm *c)
{
    return c->obj.handle == (uint32_t)(uintptr_t)MPI_COMM_WORLD;
}

static bool on_one_node(const struct wm_comm *c)
{
    bool (*counts)(struct rt_proc) = is_world(c) ? started_here : is_here;
    for (int i = 0; i < c->group->size; i++)
        if (!counts(wm_group_proc(c->group, i)))
            return false;
    return true;
}

static void leave(struct coll_team *t, size_t off, size_t nbytes)
{
    coll_team_fini(t);
    if (nbytes)
        rt_node_free(off & OFF_MASK, nbytes);
}

static void leave_last(struct leaving *l)
{
    leave(&l->team, l->off, l->nbytes);
    nown -= l->own && l->nbytes;
    free(l);
}

static void note_deaths(struct leaving *l)
{
    struct coll_team *local = coll_team_local(&l->team);
    for (int i = 0; i < local->size; i++)
        if (rt_dead_has(l->here[i]))
            coll_team_died(&l->team, i);
}

/* Frees the blocks that no process reads any more. */
static void sweep(void)
{
    for (struct leaving **p = &leaving; *p;) {
        struct leaving *l = *p;
        if (rt_unlikely(rt_dead()))
            note_deaths(l);
        if (!coll_team_quiet(&l->team)) {
            p = &l->next;
            continue;
        }
        *p = l->next;
        leave_last(l);
    }
}

uint64_t wm_coll_team_block(struct wm_comm *c)
{
    struct coll_team *t = coll_team_local(&c->team);
    sweep();
    if (!t->one_node || coll_team_nbytes(t->size) == 0 || t->rank != 0)
        return 0;
    return coll_team_alloc(t) + 1; /* SIZE_MAX: no block */
}

void wm_coll_team_attach(struct wm_comm *c, uint64_t block)
{
    c->team_off = block - 1;
    if (block)
        coll_team_attach(&c->team, block - 1);
    else
        coll_team_unprepare(&c->team);
}

void wm_coll_team_unblock(struct wm_comm *c, uint64_t block)
{
    if (block)
        coll_team_free(coll_team_local(&c->team), block - 1);
}

/* Rank 0 of the team, or of each host, allocates the block and broadcasts its place; all attach
 * it. */
static int share_block(struct wm_comm *c)
{
    struct coll_team *t = coll_team_local(&c->team);
    struct wm_exch x = { .comm = c,
                         .ranks = coll_team_local_ranks(&c->team),
                         .n = t->size,
                         .me = t->rank,
                         .tag = WM_TAG_COMM };
    rt_lock(&c->dom->lock);
    uint64_t block = wm_coll_team_block(c);
    int err = wm_exch_bcast(&x, &block, sizeof block);
    if (!err)
        wm_coll_team_attach(c, block);
    rt_unlock(&c->dom->lock);
    return err;
}

void wm_coll_team_plain(struct wm_comm *c)
{
    struct coll_team *t = &c->team;
    *t = (struct coll_team){ .ops = &team_ops, .arg = c, .rank = c->rank, .size = c->size };
    t->one_node = !c->inter && on_one_node(c);
    t->unsure = is_world(c) && !rt_load_acquire(&rt_node.settled);
    if (c->inter) {
        t->local = &c->local->team;
        t->remote_size = c->remote->size;
    }
}

/* The ranks that the launcher has started on this host, ascending; returns how many.  A group of
 * consecutive processes contains a consecutive run of the local processes, so a large group need
 * not be searched. */
static int ranks_here(const struct wm_group *g, int *ranks)
{
    int n = 0;
    for (int i = 0; !g->procs && rt_node.base && i < rt_boot.local_size; i++) {
        uint32_t r = rt_boot.local_procs[i] - g->first.rank;
        if (g->first.ns == 0 && rt_boot.local_procs[i] >= g->first.rank && r < (uint32_t)g->size)
            ranks[n++] = (int)r;
    }
    for (int i = 0; g->procs && i < g->size && n < rt_boot.local_size; i++)
        if (started_here(g->procs[i]))
            ranks[n++] = i;
    return n;
}

static int split(struct wm_comm *c)
{
    int *ranks = malloc((size_t)rt_boot.local_size * sizeof *ranks), n = 0;
    if (!ranks)
        return -RT_ENOMEM;
    n = ranks_here(c->group, ranks);
    bool shared = n > 0; /* without a node segment, a process shares memory with no other */
    for (int i = 0; i < n && shared && !is_world(c); i++)
        shared = is_here(wm_group_proc(c->group, ranks[i]));
    if (!shared)
        ranks[0] = c->rank;
    int err = coll_team_split(&c->team, ranks, shared ? n : 1);
    free(ranks);
    return err;
}

/* Whether some of the processes share a block of memory. */
static bool has_block(struct wm_comm *c)
{
    const struct coll_team *t = coll_team_local(&c->team);
    return !c->inter && t->one_node && coll_team_nbytes(t->size) > 0;
}

/* Allocates all private memory of the team. */
static int allocate(struct wm_comm *c)
{
    int err = c->inter || c->team.one_node ? 0 : split(c);
    if (!err && has_block(c))
        err = coll_team_prepare(&c->team);
    return err ? wm_err_rt(err, "preparing the collectives of a communicator") : MPI_SUCCESS;
}

int wm_coll_team_prepare(struct wm_comm *c, const struct wm_comm *model)
{
    wm_coll_team_plain(c);
    if (model && model->team.ops == &jobs_ops)
        join_jobs(&c->team);
    c->near_unknown = !model && !c->inter && several_jobs(c->group);
    return c->near_unknown ? MPI_SUCCESS : allocate(c);
}

int wm_coll_team_no_share(struct wm_comm *c)
{
    bool unknown = c->near_unknown;
    c->near_unknown = false;
    return unknown ? allocate(c) : MPI_SUCCESS;
}

bool wm_coll_team_in_agreement(struct wm_comm *c)
{
    return !c->near_unknown && !c->team.hier && has_block(c);
}

/* The processes of several jobs find whether they all share memory. */
static int find_near(struct wm_comm *c)
{
    bool near = false;
    c->near_unknown = false;
    rt_lock(&c->dom->lock);
    int err = agree_near(c, &near);
    rt_unlock(&c->dom->lock);
    if (err)
        return wm_err_rt(err, "finding the processes that share memory");
    if (near)
        join_jobs(&c->team);
    if (allocate(c))
        rt_boot_abort(1, "out of memory for a communicator of several jobs, whose other processes "
                         "would wait");
    return MPI_SUCCESS;
}

int wm_coll_team_share(struct wm_comm *c)
{
    int err = c->near_unknown ? find_near(c) : MPI_SUCCESS;
    if (err || !has_block(c))
        return err;
    err = share_block(c);
    return err ? wm_err_rt(err, "preparing the collectives of a communicator") : MPI_SUCCESS;
}

int wm_coll_team_own(struct wm_comm *c)
{
    int err = wm_coll_team_prepare(c, NULL);
    if (err || !has_block(c))
        return err;
    if (coll_team_nbytes(coll_team_local(&c->team)->size) >
        (size_t)rt_node.size * RT_NODE_WORLD_PER_RANK)
        RT_BUG("RT_NODE_WORLD_PER_RANK is too small for collectives");
    wm_coll_team_attach(c, rt_node_world_block() + 1);
    return MPI_SUCCESS;
}

static struct leaving *leaving_new(struct wm_comm *c)
{
    struct coll_team *local = coll_team_local(&c->team);
    struct leaving *l = malloc(sizeof *l + (size_t)local->size * sizeof *l->here);
    if (!l)
        return NULL;
    *l = (struct leaving){ 0 };
    for (int i = 0; i < local->size; i++)
        l->here[i] = wm_group_proc(c->group, coll_team_whole_rank(local, i));
    return l;
}

void wm_coll_team_fini(struct wm_comm *c)
{
    struct coll_team *t = &c->team, *local = coll_team_local(t);
    coll_team_forget(t);
    wm_team_dev_forget(local);
    bool owner = coll_team_attached(t) && local->rank == 0;
    size_t nbytes = owner && !is_world(c) ? coll_team_nbytes(local->size) : 0;
    struct leaving *l = NULL;
    if (owner && !coll_team_quiet(t))
        l = leaving_new(c);
    if (l) {
        l->team = *t;
        l->off = c->team_off;
        l->nbytes = nbytes;
        l->next = leaving;
        l->team.arg = NULL;
        coll_team_moved(&l->team);
        leaving = l;
        t->node = NULL;
        t->gpu = NULL;
        t->hier = NULL;
    } else {
        leave(t, c->team_off, nbytes);
    }
}

/* ---- persistent calls ---- */

bool wm_coll_team_may_own(struct wm_comm *c)
{
    return !c->inter && wm_coll_team_in_node(c) && coll_team_attached(&c->team);
}

struct coll_team *wm_coll_team_own_make(struct wm_comm *c, uint64_t *block)
{
    sweep();
    struct leaving *l = nown < OWN_MOST ? leaving_new(c) : NULL;
    if (!l)
        return NULL;
    l->own = true;
    if (coll_team_own(&l->team, &c->team)) {
        free(l);
        return NULL;
    }
    *block = 0;
    if (c->rank > 0)
        return &l->team;
    l->nbytes = coll_team_nbytes(c->size);
    l->off = rt_node_try_alloc(l->nbytes, true);
    *block = l->off + 1;
    if (*block) {
        nown++;
        return &l->team;
    }
    l->nbytes = 0;
    leave_last(l);
    return NULL;
}

void wm_coll_team_own_end(struct coll_team *t)
{
    struct leaving *l = rt_container(t, struct leaving, team);
    t->arg = NULL;
    if (t->rank > 0 || coll_team_quiet(t)) {
        leave_last(l);
        return;
    }
    l->next = leaving;
    leaving = l;
    sweep();
}
