/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared-memory transport: opening and closing, peers, messages.  For every ordered pair of
 * local ranks the node segment holds a ring (btl/shm/ring.h) with one writer and one reader; the
 * ring takes memory with the first message.  The ring of another lane is a block of the segment.
 * The engine serialises calls on the instance; no locks. */
#include "btl/shm/shm.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/mem/deaths.h"

#include <stdlib.h>

/* Messages taken from one ring before the next ring or the engine gets a turn: a few hundred
 * nanoseconds, for which one busy sender delays the others. */
#define DRAIN_MAX 32

static struct btl_shm *shm_of(struct btl_shm_peer *p) { return (struct btl_shm *)p->base.btl; }

/* A quarter of the area of the segment, which blocks with a fallback leave free, holds the rings of
 * all lanes, if each rank talks to each other one on all of them. */
#define LANE_RINGS_NBYTES (16u << 20)

static int shm_lanes(void)
{
    return (int)(LANE_RINGS_NBYTES / sizeof(struct ring_mem)) / rt_node.size + 1;
}
_Static_assert(sizeof(struct shm_home) +
                       (LANE_RINGS_NBYTES / sizeof(struct ring_mem) / 32 * 33 + 2) *
                           sizeof(uint64_t) <=
                   SHM_HOME_NBYTES,
               "the home of a lane, where there are lanes");

static size_t home_nbytes(const struct btl_shm *b)
{
    int n = b->nwords + (b->up.lane ? rt_node.size : 0);
    return sizeof(struct shm_home) + (size_t)n * sizeof(uint64_t);
}

/* Where rank `from` stores the offset of its ring to the owner of the home. */
static uint64_t *ring_off(const struct btl_shm *b, struct shm_home *home, int from)
{
    return &home->active[b->nwords + from];
}

/* p has ended: progress() delivers its last messages and notifies the engine. */
static void lose(struct btl_shm_peer *p)
{
    p->lost = true;
    btl_shm_need_work(p);
}

/* Loses the peers that are known to have ended. */
static void take_ended(struct btl_shm *b)
{
    b->nended = rt_node.nended;
    for (int r = 0; r < rt_node.size; r++)
        if (b->peers[r] && !b->peers[r]->lost && rt_node_has_ended(r))
            lose(b->peers[r]);
    for (struct btl_shm_peer *p = b->guests; p; p = p->next)
        if (p->other && p->other->ended && !p->lost)
            lose(p);
}

/* The peer of this local rank, made when it is first needed. */
static int peer_get(struct btl_shm *b, int rank, struct btl_shm_peer **out)
{
    if (!b->peers[rank]) {
        struct btl_shm_peer *p = aligned_alloc(RT_CACHE_LINE, sizeof *p);
        if (!p)
            return -RT_ENOMEM;
        *p = (struct btl_shm_peer){ .base = { .btl = &b->base,
                                              .proc = { 0, rt_boot.local_procs[rank] } },
                                    .rank = rank,
                                    .home = shm_home_of(rank, b->up.lane) };
        bool own = b->up.lane == 0;
        ring_tx_init(&p->tx, own ? rt_node_pair(rt_node.rank, rank) : NULL, &rt_node.bells[rank]);
        ring_rx_init(&p->rx, own ? rt_node_pair(rank, rt_node.rank) : NULL);
        rt_list_init(&p->work);
        rt_list_init(&p->xfers);
        b->peers[rank] = p;
        if (rt_node_has_ended(rank))
            lose(p);
    }
    *out = b->peers[rank];
    return 0;
}

void btl_shm_rx_add(struct btl_shm *b, struct btl_shm_peer *p)
{
    p->rx_on = true;
    b->rx[b->nrx++] = p;
}

/* Adds ranks that have opened their ring to this process to the poll list. */
static void senders_add(struct btl_shm *b, int word, uint64_t bits)
{
    uint64_t fresh = bits & ~b->seen[word];

    while (fresh) {
        struct btl_shm_peer *p;
        int rank = word * 64 + __builtin_ctzll(fresh);
        if (rank < rt_node.size) { /* a bit beyond is of no rank */
            if (peer_get(b, rank, &p) < 0)
                return; /* out of memory: the bit stays unseen, so the next call tries again */
            if (b->up.lane)
                p->rx.mem = rt_node_at(*ring_off(b, b->home, rank));
            btl_shm_rx_add(b, p);
        }
        b->seen[word] |= fresh & -fresh;
        fresh &= fresh - 1;
    }
}

static void senders_look(struct btl_shm *b)
{
    uint64_t n = rt_load_acquire(&b->home->nposts);
    if (rt_unlikely(n != b->posts_seen))
        btl_shm_posts_take(b, n);
    for (int w = 0; w < b->nwords; w++) {
        /* pairs with the sender's rt_fetch_or() in btl_shm_tx_open() */
        uint64_t bits = rt_load_acquire(&b->home->active[w]);
        if (rt_unlikely(bits != b->seen[w]))
            senders_add(b, w, bits);
    }
}

/* The ring to p on a lane other than 0, whole. */
static int lane_tx_open(struct btl_shm *b, struct btl_shm_peer *p)
{
    struct ring_tx *t = &p->tx;

    if (t->slots_open)
        return 0;
    int err = rt_node_reserve(p->home, home_nbytes(b));
    if (err < 0)
        return err;
    size_t off = rt_node_alloc(sizeof(struct ring_mem));
    if (off == SIZE_MAX)
        return -RT_ENOSPC;
    t->mem = rt_node_at(off);
    rt_node_populate(t->mem, sizeof *t->mem);
    *ring_off(b, p->home, rt_node.rank) = off;
    rt_fetch_or(&p->home->active[rt_node.rank / 64], (uint64_t)1 << (rt_node.rank % 64));
    t->slots_open = t->bytes_open = true;
    t->limit = RING_SLOTS;
    t->bytes_limit = RING_BYTES;
    return 0;
}

int btl_shm_tx_open(struct btl_shm_peer *p, bool bytes)
{
    struct btl_shm *b = shm_of(p);
    struct ring_tx *t = &p->tx;
    int err;

    if (p->rank < 0)
        return btl_shm_guest_open(p);
    if (b->up.lane)
        return lane_tx_open(b, p);
    if (!t->slots_open) {
        err = rt_node_reserve(t->mem, offsetof(struct ring_mem, bytes));
        if (err < 0)
            return err;
        /* The reader may not have attached yet, so its home is reserved here, too. */
        err = rt_node_reserve(p->home, home_nbytes(b));
        if (err < 0)
            return err;
        rt_fetch_or(&p->home->active[rt_node.rank / 64], (uint64_t)1 << (rt_node.rank % 64));
        t->slots_open = true;
        t->limit = RING_SLOTS;
    }
    if (bytes && !t->bytes_open) {
        err = rt_node_reserve(t->mem->bytes, RING_BYTES);
        if (err < 0)
            return err;
        /* now, not in the first lap: there a 64-byte message would take half as long again */
        rt_node_populate(t->mem->bytes, RING_BYTES);
        t->bytes_open = true;
        t->bytes_limit = RING_BYTES;
    }
    return 0;
}

void btl_shm_need_work(struct btl_shm_peer *p)
{
    if (rt_list_empty(&p->work))
        rt_list_append(&shm_of(p)->work, &p->work);
}

static bool has_gone(const struct btl_shm_peer *p)
{
    return p->rank < 0 ? rt_others_gone(p->other) : rt_node_gone(p->rank);
}

int btl_shm_blocked(struct btl_shm_peer *p)
{
    if (!p->lost && has_gone(p)) {
        log_info(BTL, "rank %u%s has ended; messages sent to it are lost", p->base.proc.rank,
                 rt_boot_of_job(p->base.proc.ns));
        lose(p);
    }
    return p->lost ? -RT_EPEER : -RT_EAGAIN;
}

static int send_slow(struct btl_shm_peer *p, const struct btl_hdr *h, const void *buf, size_t len)
{
    bool bytes = len > RING_INLINE;

    if (p->lost)
        return -RT_EPEER;
    if (!p->tx.slots_open || (bytes && !p->tx.bytes_open)) {
        int err = btl_shm_tx_open(p, bytes);
        if (err < 0)
            return err;
        if (ring_push(&p->tx, h, buf, len) == 0) {
            rt_bell_ring_at(p->tx.bell);
            return 0;
        }
    }
    return btl_shm_blocked(p);
}

static int shm_send(struct btl_peer *peer, const struct btl_hdr *h, const void *buf, size_t len)
{
    struct btl_shm_peer *p = (struct btl_shm_peer *)peer;

    if (rt_unlikely(ring_push(&p->tx, h, buf, len) < 0))
        return send_slow(p, h, buf, len);
    rt_bell_ring_at(p->tx.bell);
    return 0;
}

/* Delivers up to max messages of a ring; an empty ring costs one read. */
static int drain(struct btl_shm *b, struct btl_shm_peer *p, int max)
{
    struct ring_slot *s;
    uint32_t w, published = p->rx.taken_published;
    int n = 0;

    while (n < max && (s = ring_look(&p->rx, &w))) {
        uint32_t len = w & RING_WORD_LEN;
        bool in_bytes = rt_unlikely(w & RING_WORD_CHUNK) || len > RING_INLINE;
        const void *data = rt_likely(!in_bytes) ? s->data : ring_bytes_at(&p->rx, len);

        if (rt_likely(!(w & RING_WORD_CHUNK)))
            b->up.recv(b->up.arg, &p->base, &s->hdr, data, len);
        else
            btl_shm_chunk_in(b, s, data, len);
        ring_take(&p->rx, len, in_bytes);
        if (n++)
            ring_look_ahead(&p->rx);
    }
    if (rt_unlikely(p->rx.taken_published != published))
        /* credits were returned: the writer may sleep until it gets them */
        rt_bell_ring_at(p->tx.bell);
    return n;
}

static bool is_leaving(const struct btl_shm_peer *p)
{
    return p->other ? rt_others_is_leaving(p->other) : rt_node_is_leaving(p->rank);
}

/* Does the work that a peer needs beyond reading its ring. */
static int work_step(struct btl_shm *b, struct btl_shm_peer *p)
{
    int n = btl_shm_xfers_step(p);

    if (rt_list_empty(&p->xfers))
        rt_list_del(&p->work);
    if (p->lost && !p->notified) {
        p->notified = true;
        senders_look(b);
        while (p->rx_on && drain(b, p, DRAIN_MAX) > 0) /* its last messages */
            continue;
        b->up.down(b->up.arg, &p->base, is_leaving(p) ? 0 : -RT_EPEER);
        if (p->other)
            btl_shm_guest_close(p);
        n++;
    }
    return n;
}

static int work(struct btl_shm *b)
{
    struct rt_list *pos, *next;
    int n = 0;

    rt_list_each_safe (pos, next, &b->work)
        n += work_step(b, rt_container(pos, struct btl_shm_peer, work));
    return n;
}

static int shm_poll(struct btl_peer *peer)
{
    struct btl_shm_peer *p = (struct btl_shm_peer *)peer;
    struct btl_shm *b = shm_of(p);
    int n = 0;

    if (rt_unlikely(!p->rx_on)) {
        senders_look(b);
    }
    if (rt_likely(p->rx_on))
        n = drain(b, p, DRAIN_MAX);
    /* A wait for this peer must not stop data that this process has to send, perhaps to this
     * peer. */
    if (rt_unlikely(!rt_list_empty(&b->work)))
        n += work(b);
    return n;
}

static int shm_progress(struct btl *btl)
{
    struct btl_shm *b = (struct btl_shm *)btl;
    int n = 0;

    senders_look(b);
    for (int i = 0; i < b->nrx; i++)
        n += drain(b, b->rx[i], DRAIN_MAX);
    if (rt_unlikely(b->nended != rt_node.nended))
        take_ended(b);
    if (rt_unlikely(!rt_list_empty(&b->work)))
        n += work(b);
    return n;
}

/* While it sleeps, only the descriptors of other jobs' processes report that one has ended. */
static int shm_sleep_fd(struct btl *btl, int *limit_us)
{
    (void)limit_us;
    if (((struct btl_shm *)btl)->up.lane || !rt_others_is_open())
        return -RT_ENOTSUP;
    rt_others_look();
    return rt_others_fd();
}

static void shm_close(struct btl *btl)
{
    struct btl_shm *b = (struct btl_shm *)btl;

    for (int r = 0; b->peers && r < rt_node.size; r++) {
        if (b->peers[r])
            btl_shm_xfers_drop(b->peers[r]);
        free(b->peers[r]);
    }
    for (struct btl_shm_peer *p = b->guests, *next; p; p = next) {
        next = p->next;
        btl_shm_xfers_drop(p);
        free(p);
    }
    btl_shm_rma_close(b);
    free(b->peers);
    free(b->rx);
    free(b->seen);
    free(b);
}

static int shm_open(const struct btl_up *up, struct btl **out, int max)
{
    if (max < 1 || !rt_node.base || (rt_node.size < 2 && !rt_others_is_open()))
        return 0; /* no peer */
    struct btl_shm *b = calloc(1, sizeof *b);
    int err = -RT_ENOMEM;
    if (!b)
        return err;
    b->up = *up;
    b->nwords = (rt_node.size + 63) / 64;
    b->rx = calloc((size_t)rt_node.size, sizeof *b->rx);
    b->seen = calloc((size_t)b->nwords, sizeof *b->seen);
    b->peers = calloc((size_t)rt_node.size, sizeof *b->peers);
    rt_list_init(&b->work);
    if (!b->rx || !b->seen || !b->peers)
        goto err_close;
    b->home = shm_home_of(rt_node.rank, up->lane);
    err = rt_node_reserve(b->home, home_nbytes(b));
    if (err < 0)
        goto err_close;
    b->base.ops = &btl_shm_ops;
    b->base.caps = (struct btl_caps){
        .send_mem = RT_MEM_HOST_BITS,
        .eager_max = (size_t)cfg.shm_eager,
        .latency_ns = 100,
    };
    btl_shm_rma_open(b, &b->base.caps);
    out[0] = &b->base;
    return 1;
err_close:
    shm_close(&b->base);
    return err;
}

static int shm_address(struct btl *b, void *buf, size_t len)
{
    (void)b;
    (void)buf;
    (void)len;
    return 0; /* peers need only the node segment */
}

static int shm_add_peer(struct btl *btl, const struct rt_proc *proc, const void *addr, size_t len,
                        struct btl_peer **out)
{
    struct btl_shm_peer *p;
    (void)addr;
    (void)len;

    if (proc->ns != 0) {
        if (((struct btl_shm *)btl)->up.lane)
            return -RT_EUNREACH;
        int err = btl_shm_guest_get((struct btl_shm *)btl, *proc, &p);
        if (err == 0)
            *out = &p->base;
        return err;
    }
    int local = proc->rank < (uint32_t)rt_boot.size ? rt_node_local(proc->rank) : -1;
    if (local < 0 || local == rt_node.rank)
        return -RT_EUNREACH;
    int err = peer_get((struct btl_shm *)btl, local, &p);
    if (err == 0)
        *out = &p->base;
    return err;
}

/* Drops the engine's state of the peer.  The ring's state stays and is used if the peer is added
 * again. */
static void shm_del_peer(struct btl_peer *peer)
{
    struct btl_shm_peer *p = (struct btl_shm_peer *)peer;
    btl_shm_xfers_drop(p);
    rt_list_del(&p->work);
    peer->up = NULL;
}

const struct btl_ops btl_shm_ops = {
    .name = "shm",
    .help = "shared memory between the processes of a host",
    .other_jobs = true,
    .open = shm_open,
    .lanes = shm_lanes,
    .close = shm_close,
    .address = shm_address,
    .add_peer = shm_add_peer,
    .del_peer = shm_del_peer,
    .send = shm_send,
    .mem_reg = btl_shm_mem_reg,
    .window_reg = btl_shm_window_reg,
    .mem_dereg = btl_shm_mem_dereg,
    .mem_key = btl_shm_mem_key,
    .attach = btl_shm_attach,
    .detach = btl_shm_detach,
    .put = btl_shm_put,
    .get = btl_shm_get,
    .progress = shm_progress,
    .poll = shm_poll,
    .sleep_fd = shm_sleep_fd,
};
