/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans of collectives without arithmetic.  p ranks, n bytes contributed by each rank (alltoall:
 * the block of a pair); "in" and "out": bytes over the links of the busiest rank.  The rank with
 * the data stores them, unless one rank would have to start many short copies: stores to other
 * devices are faster than loads from them and start sooner (rows PUT and PEER of
 * runtime/gpu/cost.def).
 *
 * In one direction engines move long blocks (383 GB/s, two H200, 256 MiB).  In both directions at
 * once kernels store at 300 to 358 GB/s each way, engines at 295, or at 373 into results in large
 * pages (run.c).  With large pages engines move alltoall and allgather: of two ranks at once, of
 * more one destination after another (four H200: 380 GB/s, but 286 if a rank's engines put to all
 * at the same time).  If devices have links to each other, all destinations at the same time; see
 * plan_engine.c.
 *
 * An engine that copies within the device is not available for the links.  So where kernels move
 * the other blocks, an engine copies a rank's own long block, and in a gather the other way round.
 * An alltoall's short blocks of one length are one step.
 *
 * bcast: the root stores all to all, (p-1) n out.  Long, and more than two ranks: in chunks; the
 * root scatters each chunk among the others and posts, and their kernels store their parts of the
 * chunk to each other: n (1 + (p-2)/(p-1)/chunks).  The root uses engines; engines share a link
 * badly with other engines (four H200, 256 MiB: 211 GB/s if the others use engines, too).
 *
 * gather: every rank stores its block at the root, (p-1) n in at the root.
 *
 * scatter: the root stores long blocks, the others fetch short blocks; (p-1) n out at the root.
 *
 * allgather, alltoall: every rank stores to every other rank; (p-1) n in and out.
 *
 * alltoall in place: two ranks swap their blocks; each moves one half of the bytes, which it alone
 * accesses at both ends.  There is no barrier, and both halves are moved at the same time; (p-1) n
 * in and out.  A kernel swaps; without kernels a rank fetches the other's bytes into scratch,
 * stores its own bytes there, and copies the scratch to their place.
 *
 * Where steps run one after another (on a stream) and devices have direct links, one kernel stores
 * the blocks to several ranks, whatever their length, so that all links are in use. */
#include "coll/gpu/plan_int.h"
#include "runtime/base/err.h"
#include "runtime/gpu/kernel.h"

static int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- bcast ---- */

/* Number of chunks; 0: storing all to all costs less. */
static int bcast_chunks(int64_t nbytes, int p)
{
    int64_t chunks = nbytes / coll_gpu_limits.engine_chunk;
    chunks = chunks < 1 ? 1 : min_of(chunks, 64);
    int64_t tail = nbytes / chunks * (p - 2) /
                   /* transfer of the last chunk after the root's part */
                   (p - 1);
    return nbytes + tail + 2 * coll_gpu_limits.step < (p - 1) * nbytes ? (int)chunks : 0;
}

/* Numbers of the ranks without the root. */
static int leaf_of(int rank, int root) { return rank - (rank > root); }
static int rank_of(int leaf, int root) { return leaf + (leaf >= root); }

struct cut {
    int64_t nbytes;
    int chunks, leaves, root;
};

static struct coll_gpu_part leaf_part(const struct cut *c, int chunk, int leaf)
{
    int64_t from = coll_gpu_cut(c->nbytes, c->chunks, chunk),
            len = coll_gpu_cut(c->nbytes, c->chunks, chunk + 1) - from,
            at = coll_gpu_cut(len, c->leaves, leaf);
    return (struct coll_gpu_part){ from + at, coll_gpu_cut(len, c->leaves, leaf + 1) - at };
}

/* The puts of two chunks are in progress at a time. */
static void bcast_scatter(struct coll_gpu_make *m, const struct cut *c)
{
    int put[2][COLL_GPU_RANKS_MAX];
    for (int leaf = 0; leaf < c->leaves; leaf++)
        put[0][leaf] = put[1][leaf] = -1;
    for (int k = 0; k < c->chunks; k++) {
        for (int leaf = 0; leaf < c->leaves; leaf++) {
            struct coll_gpu_part b = leaf_part(c, k, leaf);
            int *last = &put[k & 1][leaf];
            *last = coll_gpu_copy(
                m, coll_gpu_peer(m, COLL_GPU_RECV, rank_of(leaf, c->root), b.off, b.len),
                coll_gpu_peer(m, COLL_GPU_SEND, c->root, b.off, b.len), b.len, *last);
        }
        coll_gpu_post(m);
    }
}

static void bcast_exchange(struct coll_gpu_make *m, const struct cut *c, int chunk)
{
    int me = leaf_of(m->rank, c->root), n = 0;
    struct coll_gpu_part b = leaf_part(c, chunk, me);
    char *dst[COLL_GPU_RANKS_MAX];
    for (int i = 1; i < c->leaves; i++)
        dst[n++] = coll_gpu_peer(m, COLL_GPU_RECV, rank_of((me + i) % c->leaves, c->root), b.off,
                                 b.len);
    coll_gpu_fan_out(m, coll_gpu_peer(m, COLL_GPU_RECV, m->rank, b.off, b.len), b.len, dst, n,
                     INT64_MAX);
}

static void bcast_flat(struct coll_gpu_make *m, int64_t nbytes, int root)
{
    char *dst[COLL_GPU_RANKS_MAX];
    int n = 0;
    if (!coll_gpu_works_for(m, root))
        return;
    for (int i = 1; i < m->size; i++)
        dst[n++] = coll_gpu_peer(m, COLL_GPU_RECV, (root + i) % m->size, 0, nbytes);
    coll_gpu_fan_out(m, coll_gpu_peer(m, COLL_GPU_SEND, root, 0, nbytes), nbytes, dst, n,
                     coll_gpu_in_turns(m) ? INT64_MAX : coll_gpu_together_max(m));
}

void coll_gpu_plan_bcast(struct coll_gpu_make *m)
{
    const struct coll_args *a = m->v->a;
    struct cut c = { a->rcount * a->rtype->size, 0, m->size - 1, a->root };
    if (m->size > 2 && !m->v->background && !coll_gpu_in_turns(m))
        c.chunks = bcast_chunks(c.nbytes, m->size);
    if (!c.chunks)
        bcast_flat(m, c.nbytes, c.root);
    if (m->rank == c.root && c.chunks) {
        bcast_scatter(m, &c);
        return;
    }
    for (int i = 0; i < c.chunks; i++) /* without effect, but all ranks make the same number */
        coll_gpu_post(m);
    for (int i = 0; i < c.chunks; i++) {
        coll_gpu_await(m, i + 1);
        bcast_exchange(m, &c, i);
    }
}

/* ---- blocks ---- */

/* The blocks that a rank stores to itself and to the others. */
struct blocks {
    char *dst[COLL_GPU_RANKS_MAX], *src[COLL_GPU_RANKS_MAX];
    int64_t len[COLL_GPU_RANKS_MAX];
    int to[COLL_GPU_RANKS_MAX], n;
    bool alike; /* all have the same length */
};

static void add_block(struct blocks *b, int to, char *dst, char *src, int64_t len)
{
    b->dst[b->n] = dst;
    b->src[b->n] = src;
    b->len[b->n] = len;
    b->to[b->n] = to;
    b->alike = b->n ? b->alike && len == b->len[0] : true;
    b->n++;
}

/* Moves all blocks in one kernel, so that the blocks to all ranks are in progress at the same time;
 * false: each block is better a step of its own. */
static bool bring_together(struct coll_gpu_make *m, const struct blocks *b)
{
    if (!m->v->kernels || b->n < 2 || !b->alike || b->len[0] > coll_gpu_together_max(m))
        return false;
    for (int from = 0; from < b->n; from += RT_GPU_FOLD_PLACES) {
        int n = b->n - from;
        struct rt_gpu_fold *f = coll_gpu_fold_step(m, -1);
        if (!f)
            break;
        f->nsrc = f->ndst = (uint8_t)(n < RT_GPU_FOLD_PLACES ? n : RT_GPU_FOLD_PLACES);
        for (int i = 0; i < f->nsrc; i++) {
            f->src[i] = b->src[from + i];
            f->dst[i] = b->dst[from + i];
        }
        coll_gpu_as_copy(f, b->len[0]);
        if (f->nsrc > 1)
            f->code = RT_GPU_FOLD_EACH;
    }
    return true;
}

/* ---- gather, scatter ---- */

static void bring(struct coll_gpu_make *m, int to, char *dst, char *src, int64_t len)
{
    if (to == m->rank)
        coll_gpu_kernel_copy(m, dst, src, len);
    else
        coll_gpu_copy(m, dst, src, len, -1);
}

void coll_gpu_plan_gather(struct coll_gpu_make *m)
{
    const struct coll_args *a = m->v->a;
    int root = a->root;
    if (m->rank == root && a->kind == COLL_GATHERV) /* the others cannot check this */
        for (int i = 0; i < m->size; i++)
            if ((i != root || !m->in_place) &&
                m->v->len[COLL_GPU_SEND][i] != (size_t)coll_gpu_part(a, COLL_GPU_RECV, i).len)
                m->err = -RT_ETRUNC;
    if (coll_gpu_in_turns(m)) {
        coll_gpu_plan_in_turns(m);
        return;
    }
    if (m->in_place)
        return;
    int64_t len = a->scount * a->stype->size;
    if (len <= 0)
        return;
    int64_t off = a->kind == COLL_GATHERV ? coll_gpu_published(m, root, m->rank) : m->rank * len;
    bring(m, root, coll_gpu_peer(m, COLL_GPU_RECV, root, off, len),
          coll_gpu_peer(m, COLL_GPU_SEND, m->rank, 0, len), len);
}

/* Both ends know a block's length, so they agree on the rank that moves it. */
static bool is_long(int64_t len) { return len > coll_gpu_limits.kernel_max; }

static void scatter_from_root(struct coll_gpu_make *m, const struct coll_args *a)
{
    int64_t low = INT64_MAX;
    struct blocks all;
    all.n = 0;
    for (int i = 0; i < m->size; i++) {
        struct coll_gpu_part b = coll_gpu_part(a, COLL_GPU_SEND, i);
        low = b.len > 0 && b.off < low ? b.off : low;
    }
    for (int i = 0; i < m->size; i++) {
        int to = (m->rank + i) % m->size;
        struct coll_gpu_part b = coll_gpu_part(a, COLL_GPU_SEND, to);
        if (to == m->rank ? m->in_place : m->v->len[COLL_GPU_RECV][to] != (size_t)b.len)
            m->err = to == m->rank ? m->err : -RT_ETRUNC;
        else if (coll_gpu_in_turns(m))
            continue;
        else if (b.len > 0 && (to == m->rank || is_long(b.len)))
            add_block(&all, to, coll_gpu_peer(m, COLL_GPU_RECV, to, 0, b.len),
                      coll_gpu_peer(m, COLL_GPU_SEND, m->rank, b.off - low, b.len), b.len);
    }
    if (bring_together(m, &all))
        return;
    for (int i = 0; i < all.n; i++)
        bring(m, all.to[i], all.dst[i], all.src[i], all.len[i]);
}

void coll_gpu_plan_scatter(struct coll_gpu_make *m)
{
    const struct coll_args *a = m->v->a;
    if (m->rank == a->root)
        scatter_from_root(m, a);
    if (coll_gpu_in_turns(m))
        coll_gpu_plan_in_turns(m);
    if (coll_gpu_in_turns(m) || m->rank == a->root)
        return;
    int64_t len = a->rcount * a->rtype->size;
    if (len <= 0 || is_long(len))
        return;
    int64_t off = a->kind == COLL_SCATTERV ? coll_gpu_published(m, a->root, m->rank)
                                           : m->rank * len;
    coll_gpu_copy(m, coll_gpu_peer(m, COLL_GPU_RECV, m->rank, 0, len),
                  coll_gpu_peer(m, COLL_GPU_SEND, a->root, off, len), len, -1);
}

/* ---- allgather, alltoall ---- */

/* Copies a rank's own block while engines move the others, one after another. */
static void bring_own(struct coll_gpu_make *m, char *dst, const char *src, int64_t len)
{
    if (m->size > 2 && coll_gpu_engines_move(m, len))
        coll_gpu_kernel_copy(m, dst, src, len);
    else
        coll_gpu_copy(m, dst, src, len, -1);
}

void coll_gpu_plan_allgather(struct coll_gpu_make *m)
{
    const struct coll_args *a = m->v->a;
    const bool vector = a->kind == COLL_ALLGATHERV;
    if (coll_gpu_in_turns(m)) {
        coll_gpu_plan_in_turns(m);
        return;
    }
    int64_t len = coll_gpu_part(a, COLL_GPU_RECV, m->rank).len;
    char *dst[COLL_GPU_RANKS_MAX], *src = coll_gpu_peer(m, COLL_GPU_SEND, m->rank, 0, len);
    if (len <= 0)
        return;
    for (int i = m->in_place; i < m->size; i++) { /* the first is this rank */
        int to = coll_gpu_other(m, i);
        int64_t off = vector ? coll_gpu_published(m, to, m->rank) : m->rank * len;
        dst[i] = coll_gpu_peer(m, COLL_GPU_RECV, to, off, len);
    }
    if (!coll_gpu_engines_move(m, len)) {
        coll_gpu_fan_out(m, src, len, dst + m->in_place, m->size - m->in_place, INT64_MAX);
        return;
    }
    for (int i = 1, after = -1; i < m->size; i++)
        after = coll_gpu_copy(m, dst[i], src, len, m->v->direct ? -1 : after);
    if (!m->in_place)
        bring_own(m, dst[0], src, len);
}

/* Offset of the block of rank `whose` in a rank's result. */
static int64_t alltoall_off(struct coll_gpu_make *m, int rank, int whose, int64_t len)
{
    return m->v->a->kind == COLL_ALLTOALL ? whose * len : coll_gpu_published(m, rank, whose);
}

struct places {
    struct coll_gpu_places p;
    int turn;
    int free_after[COLL_GPU_RANKS_MAX];
};

static void swap_step(struct coll_gpu_make *m, char *mine, char *other, int64_t len)
{
    struct rt_gpu_fold *f = len > 0 ? coll_gpu_fold_step(m, -1) : NULL;
    if (!f)
        return;
    f->nsrc = f->ndst = 2;
    f->src[0] = f->dst[1] = mine;
    f->src[1] = f->dst[0] = other;
    coll_gpu_as_copy(f, len);
    f->code = RT_GPU_FOLD_EACH;
}

static void swap_with(struct coll_gpu_make *m, int peer, struct places *p)
{
    int64_t len = coll_gpu_part(m->v->a, COLL_GPU_RECV, peer).len;
    if (len <= 0)
        return;
    char *mine = coll_gpu_peer(m, COLL_GPU_RECV, m->rank, alltoall_off(m, m->rank, peer, len), len),
         *other = coll_gpu_peer(m, COLL_GPU_RECV, peer, alltoall_off(m, peer, m->rank, len), len);
    struct coll_gpu_swap s = coll_gpu_swap(len, m->rank, peer);
    if (m->v->kernels) {
        swap_step(m, mine + s.from, other + s.from, s.to - s.from);
        return;
    }
    for (int64_t at = s.from; at < s.to && !m->err; at += p->p.len) {
        int64_t n = min_of(s.to - at, p->p.len);
        char *place = coll_gpu_scratch_at(m, p->turn / p->p.per_unit * coll_gpu_limits.unit +
                                                 p->turn % p->p.per_unit * p->p.len);
        int after = coll_gpu_copy(m, place, other + at, n, p->free_after[p->turn]);
        after = coll_gpu_copy(m, other + at, mine + at, n, after);
        p->free_after[p->turn] = coll_gpu_copy(m, mine + at, place, n, after);
        p->turn = (p->turn + 1) % p->p.n;
    }
}

static void alltoall_in_place(struct coll_gpu_make *m)
{
    struct places p = { .p = coll_gpu_swap_places(m->v->a, m->rank, m->size) };
    for (int i = 0; i < COLL_GPU_RANKS_MAX; i++)
        p.free_after[i] = -1;
    for (int i = 1; i < m->size; i++)
        swap_with(m, (m->rank + i) % m->size, &p);
}

static void find_blocks(struct coll_gpu_make *m, struct blocks *b)
{
    const struct coll_args *a = m->v->a;
    struct coll_gpu_part part[COLL_GPU_RANKS_MAX];
    int64_t low = INT64_MAX;
    for (int i = 0; i < m->size; i++) {
        part[i] = coll_gpu_part(a, COLL_GPU_SEND, i);
        low = part[i].len > 0 && part[i].off < low ? part[i].off : low;
    }
    b->n = 0;
    for (int i = 0; i < m->size; i++) {
        int to = coll_gpu_other(m, i);
        int64_t len = part[to].len;
        if (len <= 0)
            continue;
        add_block(b, to,
                  coll_gpu_peer(m, COLL_GPU_RECV, to, alltoall_off(m, to, m->rank, len), len),
                  coll_gpu_peer(m, COLL_GPU_SEND, m->rank, part[to].off - low, len), len);
    }
}

void coll_gpu_plan_alltoall(struct coll_gpu_make *m)
{
    for (int i = 0; i < m->size; i++)
        if (coll_gpu_overwritten(m, i) != m->any_overwritten)
            m->err = -RT_ETRUNC; /* some ranks would swap with ranks that only receive */
    if (m->any_overwritten) {
        alltoall_in_place(m);
        return;
    }
    if (coll_gpu_in_turns(m) && m->v->a->kind == COLL_ALLTOALL) {
        coll_gpu_plan_in_turns(m);
        return;
    }
    struct blocks b;
    find_blocks(m, &b);
    if (bring_together(m, &b))
        return;
    for (int i = 0, after = -1; i < b.n; i++)
        if (b.to[i] == m->rank)
            bring_own(m, b.dst[i], b.src[i], b.len[i]);
        else if (coll_gpu_engines_move(m, b.len[i]))
            after = coll_gpu_copy(m, b.dst[i], b.src[i], b.len[i], m->v->direct ? -1 : after);
        else
            coll_gpu_kernel_copy(m, b.dst[i], b.src[i], b.len[i]);
}
