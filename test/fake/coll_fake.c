/* SPDX-License-Identifier: BSD-3-Clause */
/* See coll_fake.h. fake_destroy() frees all memory of the fake. */
#include "test/fake/coll_fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "coll/begin.h"
#include "coll/sched.h"
#include "coll/sched_gpu.h"
#include "coll/start/start.h"
#include "coll/start/team.h"
#include "runtime/base/err.h"
#include "runtime/layout/pack_gpu.h"

#define WINDOW_MAX 8
#define FREED (64u << 10) /* bytes overwritten in a freed block; all would cost too many pages */

struct fake_req {
    struct rt_req req;
    struct rt_list link; /* queue of the pair */
    int tag, owner;
    int64_t there; /* the time when it has arrived */
    char *packed;  /* eager send: the data; otherwise NULL, and read from buf on delivery */
    const void *sbuf;
    void *rbuf;
    int64_t n;
    const struct rt_layout *l;
    bool released, poisoned;
};

struct pair {
    struct rt_list sends, recvs;
}; /* [src * size + dst] */

struct rank {
    struct coll_team team, local; /* `local` is used by a team between two groups */
    struct coll_task tasks[WINDOW_MAX];
    struct coll_task *fixed; /* persistent calls; NULL: none */
    int *order;              /* the order in which they are started */
    int first, next;         /* calls [first, next) are in progress */
    int errors;
    bool awake;
};

const struct fake_more *fake_more;
struct coll_override fake_override;

struct fake {
    struct coll_team_ops ops;
    bool (*turn)(struct fake *f);
    int size;
    int split; /* ranks of the first group; 0: one group */
    unsigned seed;
    unsigned long long random;
    struct rank *ranks;
    struct pair *pairs;
    char *shm;
    size_t shm_used, shm_len;
    const int *node_of; /* NULL: no hosts */
    int64_t now;
    struct wire {
        int64_t out, in; /* busy until this time */
    } * wires;           /* of the hosts */
    int nodes;
    int64_t start, way;
    double byte;
    struct fake_cost cost;
    struct rt_gpu *gpu; /* NULL: all buffers are host memory */
    int err;
    bool tolerant;
    int loser;     /* whose input is poisoned; -1: none */
    bool repeats;  /* after -RT_ENOMEM */
    bool blocking; /* no call is in the background */
};

void fake_blocking(struct fake *f) { f->blocking = true; }

void fake_repeat(struct fake *f) { f->repeats = true; }

void fake_tolerate(struct fake *f) { f->tolerant = true; }

void fake_lose(struct fake *f, int rank) { f->loser = rank; }

struct fake_cost fake_cost(const struct fake *f) { return f->cost; }

int fake_errors(const struct fake *f, int rank) { return f->ranks[rank].errors; }

unsigned fake_random(struct fake *f, unsigned below)
{
    f->random = f->random * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(f->random >> 33) % below;
}

/* The fake's rank that a team belongs to, and the fake's rank that the team calls `peer`. */
static int self_of(const struct coll_team *t)
{
    const struct fake *f = t->arg;
    return (int)(((const char *)t - (const char *)f->ranks) / (ptrdiff_t)sizeof(struct rank));
}

static int peer_of(const struct coll_team *t, int peer)
{
    const struct fake *f = t->arg;
    bool second = self_of(t) >= f->split;
    return (f->split && second == !t->local ? f->split : 0) + peer;
}

static struct fake_req *req_new(struct coll_team *t, int tag, int64_t n, const struct rt_layout *l)
{
    struct fake_req *q = calloc(1, sizeof *q);
    q->tag = tag;
    q->n = n;
    q->l = l;
    q->owner = self_of(t);
    return q;
}

static void packed(struct fake *f, int64_t n, const struct rt_layout *l, const void *buf, char *to)
{
    int64_t len = n * l->size;
    if (!f->gpu)
        rt_layout_pack(l, n, buf, 0, to, len);
    else if (len && l->contig)
        f->err |= rt_gpu_copy_now(f->gpu, to, buf, (size_t)len);
    else if (len)
        f->err |= rt_layout_gpu_pack_now(f->gpu, l, n, buf, 0, to, len);
}

static void unpacked(struct fake *f, int64_t n, const struct rt_layout *l, void *buf, char *from)
{
    int64_t len = n * l->size;
    if (!f->gpu)
        rt_layout_unpack(l, n, buf, 0, from, len);
    else if (len && l->contig)
        f->err |= rt_gpu_copy_now(f->gpu, buf, from, (size_t)len);
    else if (len)
        f->err |= rt_layout_gpu_unpack_now(f->gpu, l, n, buf, 0, from, len);
}

void fake_wire(struct fake *f, int64_t start, double byte, int64_t way)
{
    f->start = start;
    f->byte = byte;
    f->way = way;
}

/* Sets when a message between hosts arrives. */
static void leave_host(struct fake *f, struct fake_req *q, int dst)
{
    q->there = f->now;
    if (!f->node_of || f->node_of[q->owner] == f->node_of[dst])
        return;
    int64_t len = q->n * q->l->size, takes = (int64_t)((double)len * f->byte);
    struct wire *from = &f->wires[f->node_of[q->owner]], *to = &f->wires[f->node_of[dst]];
    from->out = (from->out > f->now ? from->out : f->now) + f->start + takes;
    to->in += takes;
    q->there = from->out + f->way > to->in ? from->out + f->way : to->in;
    to->in = q->there;
    f->cost.messages++;
    f->cost.bytes += len;
}

static int fake_isend(struct coll_team *t, const void *buf, int64_t n, const struct rt_layout *l,
                      int dst, int tag, struct rt_req **out)
{
    struct fake *f = t->arg;
    struct fake_req *q = req_new(t, tag, n, l);
    q->sbuf = buf;
    if (fake_random(f, 2)) {
        q->packed = malloc((size_t)(n * l->size) + 1);
        packed(f, n, l, buf, q->packed);
        q->req.done = 1;
    }
    leave_host(f, q, peer_of(t, dst));
    rt_list_append(&f->pairs[self_of(t) * f->size + peer_of(t, dst)].sends, &q->link);
    *out = &q->req;
    return 0;
}

static int fake_send_poison(struct coll_team *t, int dst, int tag)
{
    static char nothing;
    struct rt_req *r;
    fake_isend(t, &nothing, 0, &coll_bytes, dst, tag, &r);
    struct fake_req *q = (struct fake_req *)r;
    q->poisoned = true;
    q->released = true;
    return 0;
}

static int fake_irecv(struct coll_team *t, void *buf, int64_t n, const struct rt_layout *l, int src,
                      int tag, struct rt_req **out)
{
    struct fake *f = t->arg;
    struct fake_req *q = req_new(t, tag, n, l);
    q->rbuf = buf;
    rt_list_append(&f->pairs[peer_of(t, src) * f->size + self_of(t)].recvs, &q->link);
    *out = &q->req;
    return 0;
}

static void req_free(struct fake_req *q)
{
    free(q->packed);
    free(q);
}

/* An eager send may be released before it is delivered. */
static void fake_release(struct coll_team *t, struct rt_req *r)
{
    struct fake_req *q = (struct fake_req *)r;
    (void)t;
    if (rt_list_empty(&q->link))
        req_free(q);
    else
        q->released = true;
}

static void finish(struct fake *f, struct fake_req *q)
{
    rt_list_del(&q->link);
    q->req.done = 1;
    f->ranks[q->owner].awake = true;
    if (q->released)
        req_free(q);
}

/* Delivers the oldest receive of a pair if its message has arrived. */
static bool deliver(struct fake *f, struct pair *p)
{
    struct rt_list *s, *r;
    rt_list_each (r, &p->recvs) {
        struct fake_req *rq = rt_container(r, struct fake_req, link);
        rt_list_each (s, &p->sends) {
            struct fake_req *sq = rt_container(s, struct fake_req, link);
            if (sq->tag != rq->tag)
                continue;
            if (sq->there > f->now)
                break;
            f->cost.time = f->now;
            int64_t len = sq->n * sq->l->size;
            if (sq->poisoned) {
                rq->req.err = -RT_EREMOTE;
            } else if (!rq->rbuf && len > 0) {
                rq->req.err = -RT_ETRUNC; /* a rank that has lost its own data drops the message */
            } else if (len != rq->n * rq->l->size) {
                printf("# %lld bytes meet a receive of %lld\n", (long long)len,
                       (long long)(rq->n * rq->l->size));
                f->err = -RT_ETRUNC;
            } else {
                char *data = sq->packed ? sq->packed : malloc((size_t)len + 1);
                if (!sq->packed)
                    packed(f, sq->n, sq->l, sq->sbuf, data);
                unpacked(f, rq->n, rq->l, rq->rbuf, data);
                if (!sq->packed)
                    free(data);
            }
            finish(f, sq);
            finish(f, rq);
            return true;
        }
    }
    return false;
}

static size_t fake_shm_alloc(struct coll_team *t, size_t nbytes)
{
    struct fake *f = t->arg;
    size_t off = (f->shm_used + 4095) & ~(size_t)4095;
    if (off + nbytes > f->shm_len)
        return SIZE_MAX;
    f->shm_used = off + nbytes;
    return off;
}

static void fake_shm_free(struct coll_team *t, size_t off, size_t nbytes)
{
    size_t some = nbytes < FREED ? nbytes : FREED;
    memset(((struct fake *)t->arg)->shm + off, 0xee, some);
}

static void *fake_shm_at(struct coll_team *t, int rank, size_t off, size_t nbytes)
{
    (void)rank, (void)nbytes;
    return ((struct fake *)t->arg)->shm + off;
}

void fake_wake(struct fake *f, int rank) { f->ranks[rank].awake = true; }

/* For operations that only ranks of one host may use. */
static void check_host(const struct coll_team *t, int rank)
{
    const struct fake *f = t->arg;
    if (f->node_of && f->node_of[t->rank] != f->node_of[rank]) {
        printf("# rank %d reaches into rank %d on another host\n", t->rank, rank);
        abort();
    }
}

static int fake_nodes(struct coll_team *t, int *out)
{
    const struct fake *f = t->arg;
    memcpy(out, f->node_of, (size_t)f->size * sizeof *out);
    return 0;
}

static void fake_shm_wake(struct coll_team *t, int rank)
{
    check_host(t, rank);
    ((struct fake *)t->arg)->ranks[rank].awake = true;
}

/* In every fourth team one rank is not permitted to read other ranks' memory. */
static int fake_peer_read(struct coll_team *t, int rank, void *to, uint64_t from, size_t nbytes)
{
    const struct fake *f = t->arg;
    check_host(t, rank);
    if (f->seed % 4 == 3 && t->rank == f->size - 1)
        return -RT_ENOTSUP;
    memcpy(to, (const void *)(uintptr_t)from, nbytes);
    return 0;
}

static int fake_peer_write(struct coll_team *t, int rank, uint64_t to, const void *from,
                           size_t nbytes)
{
    check_host(t, rank);
    memcpy((void *)(uintptr_t)to, from, nbytes);
    return 0;
}

static int fake_stage(struct coll_team *t, struct coll_task *k)
{
    return coll_begin_device(k, ((struct fake *)t->arg)->gpu);
}

static const struct coll_team_ops fake_ops = {
    .isend = fake_isend,
    .irecv = fake_irecv,
    .release = fake_release,
    .send_poison = fake_send_poison,
    .shm_alloc = fake_shm_alloc,
    .shm_free = fake_shm_free,
    .shm_at = fake_shm_at,
    .shm_wake = fake_shm_wake,
    .peer_read = fake_peer_read,
    .peer_write = fake_peer_write,
    .stage = fake_stage,
};

static void add_more(struct fake *f, const struct fake_more *more)
{
    if (more->ops.shm_wake)
        f->ops.shm_wake = more->ops.shm_wake;
    if (more->ops.peer_read)
        f->ops.peer_read = more->ops.peer_read;
    if (more->ops.peer_write)
        f->ops.peer_write = more->ops.peer_write;
    f->ops.dev_describe = more->ops.dev_describe;
    f->ops.dev_release = more->ops.dev_release;
    f->ops.dev_attach = more->ops.dev_attach;
    f->ops.dev_detach = more->ops.dev_detach;
    f->ops.dev_unpin = more->ops.dev_unpin;
    f->ops.dev_repin = more->ops.dev_repin;
    f->ops.stage = more->ops.stage;
    f->ops.ended = more->ops.ended;
    f->ops.device = more->ops.device;
    f->ops.gone = more->ops.gone;
    f->turn = more->turn;
}

struct fake *fake_create(int size, unsigned seed, bool node, size_t shm_room)
{
    struct fake *f = calloc(1, sizeof *f);
    f->ops = fake_ops;
    if (fake_more)
        add_more(f, fake_more);
    f->size = size;
    f->seed = seed;
    f->loser = -1;
    f->random = seed * 2654435761ull + 1;
    f->ranks = calloc((size_t)size, sizeof *f->ranks);
    f->pairs = calloc((size_t)(size * size), sizeof *f->pairs);
    for (int i = 0; i < size * size; i++) {
        rt_list_init(&f->pairs[i].sends);
        rt_list_init(&f->pairs[i].recvs);
    }
    size_t own = (coll_team_nbytes(size) + 4095) & ~(size_t)4095;
    f->shm_len = own + shm_room;
    if (node && size > 1) {
        f->shm = mmap(NULL, f->shm_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (f->shm == MAP_FAILED)
            abort();
        f->shm_used = own;
    }
    for (int r = 0; r < size; r++) {
        f->ranks[r].team = (struct coll_team){ .ops = &f->ops,
                                               .arg = f,
                                               .rank = r,
                                               .size = size,
                                               .one_node = node,
                                               .override = fake_override };
        if (f->shm && coll_team_prepare(&f->ranks[r].team) < 0)
            abort();
        if (f->shm)
            coll_team_attach(&f->ranks[r].team, 0);
    }
    return f;
}

/* Each host's ranks get their own shared memory, as at the creation of a communicator. */
static void share_host(struct fake *f, int node)
{
    int *ranks = calloc((size_t)f->size, sizeof *ranks), n = 0;
    size_t off = SIZE_MAX;
    for (int r = 0; r < f->size; r++)
        if (f->node_of[r] == node)
            ranks[n++] = r;
    if (n > 1 && f->shm)
        off = fake_shm_alloc(&f->ranks[ranks[0]].team, coll_team_nbytes(n));
    for (int i = 0; i < n; i++) {
        struct coll_team *t = &f->ranks[ranks[i]].team;
        if (coll_team_split(t, ranks, n) < 0 || (off != SIZE_MAX && coll_team_prepare(t) < 0))
            abort();
        if (off != SIZE_MAX)
            coll_team_attach(t, off);
    }
    free(ranks);
}

struct fake *fake_create_nodes(int size, unsigned seed, const int *node_of, size_t shm_room)
{
    struct fake *f = fake_create(size, seed, false, shm_room);
    int nodes = 0;
    f->way = 1;
    f->node_of = node_of;
    f->ops.nodes = fake_nodes;
    for (int r = 0; r < size; r++)
        nodes = node_of[r] >= nodes ? node_of[r] + 1 : nodes;
    f->nodes = nodes;
    f->wires = calloc((size_t)nodes, sizeof *f->wires);
    f->shm_len += (size_t)nodes * (coll_team_nbytes(size) + 4096);
    if (shm_room) {
        f->shm = mmap(NULL, f->shm_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (f->shm == MAP_FAILED)
            abort();
    }
    for (int i = 0; i < nodes; i++)
        share_host(f, i);
    return f;
}

void fake_use_device(struct fake *f, struct rt_gpu *g) { f->gpu = g; }

struct fake *fake_create_inter(int p, int q, unsigned seed)
{
    struct fake *f = fake_create(p + q, seed, false, 0);
    f->split = p;
    for (int i = 0; i < p + q; i++) {
        struct rank *k = &f->ranks[i];
        k->team.rank = i < p ? i : i - p;
        k->team.size = i < p ? p : q;
        k->local = k->team;
        k->team.local = &k->local;
        k->team.remote_size = i < p ? q : p;
    }
    return f;
}

int fake_destroy(struct fake *f)
{
    int left = 0;
    for (int i = 0; i < f->size * f->size; i++) {
        struct rt_list *l, *tmp;
        rt_list_each_safe (l, tmp, &f->pairs[i].sends) {
            req_free(rt_container(l, struct fake_req, link));
            left++;
        }
        rt_list_each_safe (l, tmp, &f->pairs[i].recvs) {
            req_free(rt_container(l, struct fake_req, link));
            left++;
        }
    }
    for (int r = f->size - 1; r >= 0; r--)
        coll_team_fini(&f->ranks[r].team);
    if (f->shm)
        munmap(f->shm, f->shm_len);
    free(f->wires);
    free(f->pairs);
    free(f->ranks);
    free(f);
    return left;
}

struct coll_team *fake_team(struct fake *f, int rank) { return &f->ranks[rank].team; }

static struct coll_task *task_of(struct rank *k, int i)
{
    return k->fixed ? &k->fixed[k->order[i]] : &k->tasks[i % WINDOW_MAX];
}

static int start(struct fake *f, struct rank *k, const struct coll_args *args, int i)
{
    struct coll_task *t = task_of(k, i);
    int rank = (int)(k - f->ranks), err;
    if (k->fixed) {
        t->req.done = 0;
        err = coll_restart(t);
    } else {
        memset(t, 0, sizeof *t);
        t->background = !f->blocking && fake_random(f, 4) == 0;
        err = coll_start(&k->team, &args[i * f->size + rank], t);
    }
    if (rank == f->loser) /* like a failed copy */
        coll_task_lose(t, -RT_EGPU);
    return err;
}

/* One turn of a rank: starts what it may, advances what is in progress.  Returns whether anything
 * happened. */
static bool rank_turn(struct fake *f, struct rank *k, const struct coll_args *args, int ncalls,
                      int window)
{
    bool moved = rt_gpu_nactive > 0; /* one of its tasks may end what another waits for */
    while (k->next < ncalls && k->next < k->first + window) {
        int err = start(f, k, args, k->next);
        if (err == -RT_ENOMEM && f->repeats)
            return true;
        if (err < 0) {
            f->err = err;
            return true;
        }
        k->next++;
        moved = true;
        if (fake_random(f, 2))
            break;
    }
    for (int i = k->first; i < k->next; i++) {
        struct coll_task *t = task_of(k, i);
        if (t->req.done)
            continue;
        moved |= coll_task_advance(t);
        if (t->req.done && t->req.err == -RT_ENOMEM && f->repeats) {
            k->next = i;
            return true;
        }
        k->errors += t->req.done && t->req.err < 0;
        if (t->req.done && t->req.err < 0 && !f->tolerant)
            f->err = t->req.err;
    }
    while (k->first < k->next && task_of(k, k->first)->req.done)
        k->first++;
    return moved || rt_gpu_nactive; /* no rank wakes a rank whose device has finished */
}

/* Advances the time if nothing can happen before messages between hosts arrive; returns whether any
 * are in flight. */
static bool time_passes(struct fake *f)
{
    int64_t next = INT64_MAX;
    for (int i = 0; i < f->size * f->size; i++) {
        struct rt_list *l;
        rt_list_each (l, &f->pairs[i].sends) {
            int64_t there = rt_container(l, struct fake_req, link)->there;
            next = there > f->now && there < next ? there : next;
        }
    }
    f->now = next < INT64_MAX ? next : f->now;
    return next < INT64_MAX;
}

int fake_run(struct fake *f, const struct coll_args *args, int ncalls, int window)
{
    f->now = 0;
    f->cost = (struct fake_cost){ 0 };
    if (f->wires)
        memset(f->wires, 0, (size_t)f->nodes * sizeof *f->wires);
    window = window > WINDOW_MAX ? WINDOW_MAX : window;
    for (int r = 0; r < f->size; r++) {
        f->ranks[r].first = f->ranks[r].next = 0;
        f->ranks[r].awake = true;
    }
    for (;;) {
        int unfinished = 0, runnable = 0;
        bool moved = false;
        for (int i = 0, first = (int)fake_random(f, (unsigned)f->size); i < f->size; i++) {
            struct rank *k = &f->ranks[(first + i) % f->size];
            if (k->first == ncalls)
                continue;
            unfinished++;
            runnable += k->awake;
            if (!k->awake || fake_random(f, 4) == 0) /* sometimes a rank that could run does not */
                continue;
            k->awake = rank_turn(f, k, args, ncalls, window);
            moved |= k->awake;
            if (fake_random(f, 8) == 0)
                break;
        }
        if (f->err || !unfinished)
            return f->err;
        bool delivered = false;
        for (int i = 0, n = f->size * f->size, at = (int)fake_random(f, (unsigned)n);
             i < n && !delivered; i++)
            if (runnable == 0 || fake_random(f, 3) == 0)
                delivered = deliver(f, &f->pairs[(at + i) % n]);
        delivered |= f->turn && f->turn(f);
        if (!moved && !delivered && runnable == 0 && !time_passes(f))
            return -1;
    }
}

/* Each rank's own order among the calls that may be in progress at the same time. */
static void shuffle(struct fake *f, int *order, int n, int window)
{
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int i = 0; i < n; i++) {
        int from = i / window * window, to = from + window < n ? from + window : n;
        int j = from + (int)fake_random(f, (unsigned)(to - from)), swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
}

int fake_run_fixed(struct fake *f, const struct coll_args *args, int ncalls, int window, int rounds)
{
    int err = 0;
    for (int r = 0; r < f->size; r++) {
        struct rank *k = &f->ranks[r];
        k->fixed = calloc((size_t)ncalls, sizeof *k->fixed);
        k->order = calloc((size_t)ncalls, sizeof *k->order);
        for (int i = 0; i < ncalls; i++)
            coll_prepare(&k->team, &args[i * f->size + r], &k->fixed[i]);
    }
    for (int i = 0; i < rounds && !err; i++) {
        for (int r = 0; r < f->size; r++)
            shuffle(f, f->ranks[r].order, ncalls, window);
        err = fake_run(f, args, ncalls, window);
    }
    for (int r = 0; r < f->size; r++) {
        struct rank *k = &f->ranks[r];
        for (int i = 0; i < ncalls; i++)
            coll_unprepare(&k->fixed[i]);
        free(k->fixed);
        free(k->order);
        k->fixed = NULL;
    }
    return err;
}
