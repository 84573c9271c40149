/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the ranks of a team are, and the teams of some of its ranks.  A rank knows from the
 * beginning which ranks share its host's segment.  It looks the others up at the first collective,
 * because that costs one look-up for each rank.  Memory: the ranks of this host, and a number for
 * each host; two numbers for each rank only if the ranks of a host are not consecutive. */

#include "coll/hier/team.h"
#include <stdlib.h>
#include <string.h>
#include "coll/sched_gpu.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/base/reserve.h"

/* ---- operations of a sub-team ---- */

static int whole_rank(const struct coll_team *t, int rank)
{
    const struct coll_sub *b = (const struct coll_sub *)t;
    if (b->ranks)
        return b->ranks[rank];
    if (rank == b->root_node)
        return b->root;
    int i = b->rail == COLL_HIER_LAST ? coll_hier_count(b->h, rank) - 1 : b->rail;
    return coll_hier_rank(b->h, rank, i);
}

static struct coll_team *whole(const struct coll_team *t)
{
    return ((const struct coll_sub *)t)->h->up;
}

static int sub_isend(struct coll_team *t, const void *buf, int64_t n, const struct rt_layout *l,
                     int dst, int tag, struct rt_req **out)
{
    struct coll_team *up = whole(t);
    return up->ops->isend(up, buf, n, l, whole_rank(t, dst), tag, out);
}

static int sub_irecv(struct coll_team *t, void *buf, int64_t n, const struct rt_layout *l, int src,
                     int tag, struct rt_req **out)
{
    struct coll_team *up = whole(t);
    return up->ops->irecv(up, buf, n, l, whole_rank(t, src), tag, out);
}

static void sub_release(struct coll_team *t, struct rt_req *r)
{
    whole(t)->ops->release(whole(t), r);
}

static int sub_send_poison(struct coll_team *t, int dst, int tag)
{
    return whole(t)->ops->send_poison(whole(t), whole_rank(t, dst), tag);
}

static size_t sub_shm_alloc(struct coll_team *t, size_t nbytes)
{
    return whole(t)->ops->shm_alloc(whole(t), nbytes);
}

static void sub_shm_free(struct coll_team *t, size_t off, size_t nbytes)
{
    whole(t)->ops->shm_free(whole(t), off, nbytes);
}

static void *sub_shm_at(struct coll_team *t, int rank, size_t off, size_t nbytes)
{
    return whole(t)->ops->shm_at(whole(t), whole_rank(t, rank), off, nbytes);
}

static void sub_shm_wake(struct coll_team *t, int rank)
{
    whole(t)->ops->shm_wake(whole(t), whole_rank(t, rank));
}

static int sub_peer_read(struct coll_team *t, int rank, void *to, uint64_t from, size_t nbytes)
{
    return whole(t)->ops->peer_read(whole(t), whole_rank(t, rank), to, from, nbytes);
}

static int sub_peer_write(struct coll_team *t, int rank, uint64_t to, const void *from,
                          size_t nbytes)
{
    return whole(t)->ops->peer_write(whole(t), whole_rank(t, rank), to, from, nbytes);
}

/* Device memory of the ranks that the sub-team names. */
static int sub_dev_describe(struct coll_team *t, const void *p, size_t len,
                            struct coll_dev_mem *out)
{
    return whole(t)->ops->dev_describe(t, p, len, out);
}

static void sub_dev_release(struct coll_team *t, struct coll_dev_mem *m)
{
    whole(t)->ops->dev_release(t, m);
}

static int sub_dev_attach(struct coll_team *t, int rank, const void *key,
                          const struct rt_gpu_ptr *near, struct coll_dev_map *out)
{
    return whole(t)->ops->dev_attach(t, rank, key, near, out);
}

static void sub_dev_detach(struct coll_team *t, struct coll_dev_map *m)
{
    whole(t)->ops->dev_detach(t, m);
}

static void sub_dev_unpin(struct coll_team *t, struct coll_dev_map *m, int n)
{
    whole(t)->ops->dev_unpin(t, m, n);
}

static bool sub_dev_repin(struct coll_team *t, struct coll_dev_map *m, int n)
{
    return whole(t)->ops->dev_repin(t, m, n);
}

static bool sub_gone(struct coll_team *t, int rank)
{
    struct coll_team *up = whole(t);
    return up->ops->gone && up->ops->gone(up, whole_rank(t, rank));
}

static enum coll_ended sub_ended(struct coll_team *t, int rank)
{
    struct coll_team *up = whole(t);
    return up->ops->ended ? up->ops->ended(up, whole_rank(t, rank)) : COLL_LIVES;
}

static bool sub_revoked(struct coll_team *t)
{
    struct coll_team *up = whole(t);
    return up->ops->revoked && up->ops->revoked(up);
}

/* A part of a schedule on the device that does not go from device to device goes by messages,
 * because calls in shared memory would begin in another order on each rank.  The other ranks wait
 * for this rank's messages; if there is no memory on the device, these messages are poisoned. */
static int sub_stage(struct coll_team *t, struct coll_task *k)
{
    (void)t;
    k->messages = true;
    int err = k->lost ? k->lost : coll_begin_device(k, k->gpu);
    if (rt_likely(err >= 0))
        return err;
    coll_task_lose(k, err);
    return coll_begin_device(k, NULL);
}

static const struct coll_team_ops sub_ops = {
    .isend = sub_isend,
    .irecv = sub_irecv,
    .release = sub_release,
    .send_poison = sub_send_poison,
    .shm_alloc = sub_shm_alloc,
    .shm_free = sub_shm_free,
    .shm_at = sub_shm_at,
    .shm_wake = sub_shm_wake,
    .peer_read = sub_peer_read,
    .peer_write = sub_peer_write,
    .dev_describe = sub_dev_describe,
    .dev_release = sub_dev_release,
    .dev_attach = sub_dev_attach,
    .dev_detach = sub_dev_detach,
    .dev_unpin = sub_dev_unpin,
    .dev_repin = sub_dev_repin,
    .gone = sub_gone,
    .ended = sub_ended,
    .revoked = sub_revoked,
    .stage = sub_stage,
    .whole_rank = whole_rank,
};

static void sub_set(struct coll_sub *b, const struct coll_hier *h, int rank, int size)
{
    *b = (struct coll_sub){ .h = h, .root_node = -1 };
    b->team = (struct coll_team){
        .ops = &sub_ops, .arg = h->up->arg, .rank = rank, .size = size, .override = h->up->override
    };
}

/* ---- life ---- */

int coll_hier_create(struct coll_team *t, const int *ranks, int n)
{
    struct coll_hier *h = calloc(1, sizeof *h);
    int *list = malloc((size_t)n * sizeof *list), self = 0;
    if (!h || !list) {
        free(h);
        free(list);
        return -RT_ENOMEM;
    }
    memcpy(list, ranks, (size_t)n * sizeof *list);
    while (list[self] != t->rank)
        self++;
    h->up = t;
    sub_set(&h->local, h, self, n);
    h->local.team.one_node = true;
    h->local.ranks = list;
    t->hier = h;
    return 0;
}

void coll_hier_destroy(struct coll_hier *h)
{
    rt_reserve_free((int *)h->local.ranks);
    rt_reserve_free(h->start);
    rt_reserve_free(h->order);
    rt_reserve_free(h->node_of);
    free(h);
}

/* ---- where all ranks are ---- */

int coll_hier_node(const struct coll_hier *h, int rank)
{
    if (h->node_of)
        return h->node_of[rank];
    int lo = 0, hi = h->nnodes;
    while (hi - lo > 1) {
        int mid = (lo + hi) / 2;
        *(h->start[mid] <= rank ? &lo : &hi) = mid;
    }
    return lo;
}

/* Numbers hosts by their lowest ranks, in place, and counts them.  -RT_ENOMEM. */
static int number_nodes(int *node_of, int size)
{
    int most = 0, n = 0;
    for (int r = 0; r < size; r++)
        most = node_of[r] > most ? node_of[r] : most;
    int *number = rt_reserve_alloc(((size_t)most + 1) * sizeof *number);
    if (!number)
        return -RT_ENOMEM;
    memset(number, -1, ((size_t)most + 1) * sizeof *number);
    for (int r = 0; r < size; r++) {
        if (number[node_of[r]] < 0)
            number[node_of[r]] = n++;
        node_of[r] = number[node_of[r]];
    }
    rt_reserve_free(number);
    return n;
}

/* The first rank of each host, and the number of hosts; whether the ranks of each host are
 * consecutive. */
static bool count_ranks(struct coll_hier *h, const int *node_of, int size)
{
    bool follow = true;
    for (int r = 0; r < size; r++) {
        h->start[node_of[r] + 1]++;
        follow = follow && (r == 0 || node_of[r] >= node_of[r - 1]);
    }
    h->least = size;
    for (int i = 0; i < h->nnodes; i++) {
        int n = h->start[i + 1];
        h->most = n > h->most ? n : h->most;
        h->least = n < h->least ? n : h->least;
        h->start[i + 1] += h->start[i];
    }
    return follow;
}

static int keep_order(struct coll_hier *h, int *node_of, int size)
{
    int *next = rt_reserve_alloc((size_t)h->nnodes * sizeof *next);
    h->order = rt_reserve_alloc((size_t)size * sizeof *h->order);
    if (!next || !h->order) {
        rt_reserve_free(next);
        return -RT_ENOMEM;
    }
    memcpy(next, h->start, (size_t)h->nnodes * sizeof *next);
    for (int r = 0; r < size; r++)
        h->order[next[node_of[r]]++] = r;
    rt_reserve_free(next);
    h->node_of = node_of;
    return 0;
}

/* The ranks of this host by the launcher's map.  They are the ranks that share memory with this
 * rank; or it shares none, because the launcher had not published the local ranks. */
static int check_local(struct coll_hier *h)
{
    struct coll_sub *b = &h->local;
    int n = coll_hier_count(h, h->node), self = 0,
        *list = rt_reserve_alloc((size_t)n * sizeof *list);
    if (!list)
        return -RT_ENOMEM;
    for (int i = 0; i < n; i++) {
        list[i] = coll_hier_rank(h, h->node, i);
        self = list[i] == h->up->rank ? i : self;
    }
    if (b->team.node && (n != b->team.size || memcmp(list, b->ranks, (size_t)n * sizeof *list))) {
        log_error(COLL,
                  "rank %d shares memory with %d processes of the communicator, but the launcher's "
                  "map says that %d are on its host; the map is wrong, start with another launcher",
                  h->up->rank, b->team.size, n);
        rt_reserve_free(list);
        return -RT_EBOOT;
    }
    rt_reserve_free((int *)b->ranks);
    b->ranks = list;
    b->team.size = n;
    b->team.rank = self;
    return 0;
}

static void forget(struct coll_hier *h)
{
    rt_reserve_free(h->start);
    rt_reserve_free(h->order);
    h->start = h->order = h->node_of = NULL;
}

int coll_hier_map(struct coll_hier *h)
{
    struct coll_team *t = h->up;
    int *node_of, err = 0, n;
    node_of = rt_reserve_alloc((size_t)t->size * sizeof *node_of);
    if (!node_of)
        return -RT_ENOMEM;
    n = t->ops->nodes ? t->ops->nodes(t, node_of) : -RT_ENOENT;
    n = n < 0 ? n : number_nodes(node_of, t->size);
    if (n == -RT_ENOENT)
        n = 0;
    h->nnodes = n;
    if (n > 1 && n < t->size) {
        h->node = node_of[t->rank];
        h->start = rt_reserve_zalloc(((size_t)n + 1) * sizeof *h->start);
        err = h->start ? 0 : -RT_ENOMEM;
        if (!err && !count_ranks(h, node_of, t->size))
            err = keep_order(h, node_of, t->size);
        if (!err)
            err = check_local(h);
        if (!err)
            t->hosts = h->order ? COLL_HOSTS_MIXED : COLL_HOSTS_ORDERED;
    }
    if (t->hosts != COLL_HOSTS_NONE)
        log_debug(COLL, "%d ranks on %d hosts, %d to %d on each%s; %d here%s", t->size, n, h->least,
                  h->most, h->order ? ", not in order" : "", h->local.team.size,
                  h->local.team.node ? " share memory" : "");
    h->mapped = err == 0 && n >= 0;
    if (!h->mapped)
        forget(h);
    if (!h->node_of || !h->mapped)
        rt_reserve_free(node_of);
    return n < 0 ? n : err;
}
