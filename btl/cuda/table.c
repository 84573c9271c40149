/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocations that this process exports.  Each has one slot of a table that peers read; the table
 * grows with the number of allocations.  A slot stores the allocation's id (rt_gpu_ptr.id).  A
 * freed allocation is detected by comparing ids: at each use of its address, when a new export
 * overlaps it, and in turn by progress().  Its slot then gets another generation, by which
 * importers see that their mapping is stale, and the importers are notified.  Called with the
 * instance serialised by the engine. */
#include "btl/cuda/cuda.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <stdlib.h>
#include <string.h>

/* Exports tested for freed memory before a new export.  A test asks the driver once, 0.1 us, which
 * is little compared with the time for which peers map the new export. */
#define LOOKS_PER_EXPORT 64u

struct cuda_export {          /* private state of a slot in this process */
    struct cuda_export *next; /* in the bucket if alive, otherwise in the free list */
    struct cuda_slot *shared;
    uint32_t slot, gen;
    int refs; /* registrations; their keys may still be used */
    bool alive, has_fd;
    struct rt_gpu_ptr at;
    /* Bit n: peer number n has a key and the descriptor; nsent_to words, allocated when needed. */
    uint64_t *sent_to;
    uint32_t nsent_to;
};

struct cuda_exports {
    struct cuda_export *chunk[CUDA_CHUNKS]; /* as in the table */
    struct cuda_export *free;
    struct cuda_export **bucket; /* by address; as many as slots, a power of two */
    uint32_t nbuckets;
    uint32_t nslots, nused; /* slots in the allocated chunks; slots that were ever used */
    uint32_t gen;           /* of the last export; never reused */
    uint32_t looked;        /* slot tested last */
    bool reported;          /* logged: there is no room for another chunk */
};

struct btl_mem {
    struct btl_cuda *b;
    struct rt_gpu_ptr at;
    uintptr_t addr;
    size_t len;
    struct cuda_export *x; /* NULL: not exported, usable in this process only */
    struct btl_mem *next;
};

static struct cuda_export **bucket_of(struct cuda_exports *e, uintptr_t base)
{
    /* Allocations are aligned to 512 bytes. */
    return &e->bucket[(base >> 9 ^ base >> 19) & (e->nbuckets - 1)];
}

static struct cuda_export *export_at(struct cuda_exports *e, uint32_t slot)
{
    uint32_t k = cuda_chunk_of(&slot);
    return &e->chunk[k][slot];
}

void btl_cuda_exports_close(struct btl_cuda *b)
{
    struct cuda_exports *e = b->exports;

    for (struct btl_mem *m = b->free_mems, *next; m; m = next) {
        next = m->next;
        free(m);
    }
    b->free_mems = NULL;
    for (uint32_t s = 0; e && s < e->nused; s++)
        free(export_at(e, s)->sent_to);
    for (uint32_t k = 0; e && k < CUDA_CHUNKS; k++)
        free(e->chunk[k]);
    if (e)
        free(e->bucket);
    free(e);
    b->exports = NULL;
}

/* ---- growing ---- */

/* Makes the shared part of a chunk, which peers read when a key names one of its slots. */
static int chunk_share(struct cuda_table *t, uint32_t k)
{
    size_t nbytes = ((size_t)CUDA_SLOTS << k) * sizeof(struct cuda_slot);

    if (k == 0)
        return rt_node_reserve(t->slot, nbytes);
    if (t->chunk[k])
        return 0; /* from the library's last initialisation */
    size_t off = rt_node_try_alloc(nbytes, true);
    if (off == SIZE_MAX)
        return -RT_ENOSPC;
    rt_store_release(&t->chunk[k], off);
    return 0;
}

/* Makes as many buckets as slots and inserts the live exports. */
static int rehash(struct cuda_exports *e, uint32_t n)
{
    struct cuda_export **all = calloc(n, sizeof(struct cuda_export *));

    if (!all)
        return -RT_ENOMEM;
    free(e->bucket);
    e->bucket = all;
    e->nbuckets = n;
    for (uint32_t s = 0; s < e->nused; s++) {
        struct cuda_export *x = export_at(e, s), **l = bucket_of(e, x->at.base);
        if (!x->alive)
            continue;
        x->next = *l;
        *l = x;
    }
    return 0;
}

/* Adds a chunk when all slots are in use. */
static int exports_grow(struct btl_cuda *b)
{
    struct cuda_exports *e = b->exports;
    uint32_t in_chunk = e->nslots, k = cuda_chunk_of(&in_chunk), n = CUDA_SLOTS << k;
    int err = k + 1 < CUDA_CHUNKS ? chunk_share(b->table, k) : -RT_ENOSPC;

    if (err < 0 && !e->reported)
        log_info(BTL,
                 "no shared memory to describe more than %u allocations of GPU memory; others go "
                 "through staging buffers",
                 e->nslots);
    e->reported = e->reported || err < 0;
    if (err < 0)
        return -RT_ENOTSUP;
    struct cuda_export *x = calloc(n, sizeof *x);
    if (!x || rehash(e, n) < 0) {
        free(x);
        return -RT_ENOMEM;
    }
    e->chunk[k] = x;
    for (uint32_t i = n; i-- > 0;) { /* the lowest slot is used first */
        x[i].slot = e->nslots + i;
        x[i].shared = cuda_slot_at(rt_node.base, b->table, x[i].slot);
        x[i].next = e->free;
        e->free = &x[i];
    }
    e->nslots += n;
    return 0;
}

/* ---- memory that has been freed ---- */

static bool was_sent_to(const struct cuda_export *x, int number)
{
    uint32_t word = (uint32_t)number / 64;

    return word < x->nsent_to && x->sent_to[word] >> (number % 64) & 1;
}

/* Notifies the peers that have a key: they must test their mappings. */
static void tell(const struct btl_cuda *b, const struct cuda_export *x)
{
    for (int i = 0; x->sent_to && i < b->npeers; i++)
        if (was_sent_to(x, i)) {
            rt_fetch_add(&b->peers[i]->table->freed, 1u);
            rt_bell_ring_at(b->peers[i]->bell);
        }
}

static void untell(struct cuda_export *x)
{
    free(x->sent_to);
    x->sent_to = NULL;
    x->nsent_to = 0;
}

static void slot_free(struct cuda_exports *e, struct cuda_export *x)
{
    x->next = e->free;
    e->free = x;
}

/* The allocation has been freed or replaced: stores another generation for the importers. */
static void export_end(struct btl_cuda *b, struct cuda_export *x)
{
    struct cuda_export **l = bucket_of(b->exports, x->at.base);

    if (!x->alive)
        return;
    while (*l != x)
        l = &(*l)->next;
    *l = x->next;
    x->alive = false;
    rt_store_release(&x->shared->gen, 0u);
    rt_store_release(&b->table->ended, b->table->ended + 1);
    tell(b, x);
    untell(x);
    if (!x->refs)
        slot_free(b->exports, x);
}

/* Ends the export if its allocation has been freed. */
static void export_look(struct btl_cuda *b, struct cuda_export *x)
{
    if (x->alive && !rt_gpu_is_still(&x->at))
        export_end(b, x);
}

void btl_cuda_exports_look(struct btl_cuda *b, uint32_t n)
{
    struct cuda_exports *e = b->exports;

    for (uint32_t i = 0; i < n && i < e->nused; i++) {
        e->looked = e->looked + 1 < e->nused ? e->looked + 1 : 0;
        export_look(b, export_at(e, e->looked));
    }
}

/* Ends exports that overlap a new one: their memory must have been freed.  Except that buffers of
 * several mappings may have mappings in common. */
static void end_overlapping(struct btl_cuda *b, const struct rt_gpu_ptr *at)
{
    for (uint32_t s = 0; s < b->exports->nused; s++) {
        struct cuda_export *x = export_at(b->exports, s);
        bool both = at->kind == RT_MEM_CUDA_VMM && x->at.kind == RT_MEM_CUDA_VMM;
        if (x->alive && x->at.base < at->base + at->len && at->base < x->at.base + x->at.len &&
            !(both && rt_gpu_is_still(&x->at)))
            export_end(b, x);
    }
}

/* ---- exports ---- */

static int exports_open(struct btl_cuda *b)
{
    if (!b->exports && !(b->exports = calloc(1, sizeof *b->exports)))
        return -RT_ENOMEM;
    return b->exports->nslots ? 0 : exports_grow(b);
}

/* Puts the allocation into a slot.  *fds: its descriptors, which the caller owns. */
static int export_make(struct btl_cuda *b, const struct rt_gpu_ptr *at, struct cuda_export **out,
                       struct rt_gpu_fds *fds)
{
    struct cuda_exports *e = b->exports;
    struct rt_gpu_export what;

    end_overlapping(b, at);
    btl_cuda_exports_look(b, LOOKS_PER_EXPORT);
    int err = e->free ? 0 : exports_grow(b);
    if (err == 0)
        err = rt_gpu_export_mem(at, &what, fds);
    if (err < 0)
        return err;
    struct cuda_export *x = e->free;
    struct cuda_slot *s = x->shared;
    e->free = x->next;
    e->nused = x->slot < e->nused ? e->nused : x->slot + 1;
    if (++e->gen == 0)
        e->gen = 1;
    x->gen = e->gen;
    x->alive = true;
    x->has_fd = fds->n > 0;
    x->at = *at;
    struct cuda_export **l = bucket_of(e, at->base);
    x->next = *l;
    *l = x;
    rt_fence(); /* store generation 0 before overwriting the contents of the slot */
    s->e = what;
    rt_store_release(&s->gen, x->gen);
    *out = x;
    return 0;
}

/* The export of the allocation, with a reference for the caller. */
static int export_get(struct btl_cuda *b, const struct rt_gpu_ptr *at, struct cuda_export **out,
                      struct rt_gpu_fds *fds)
{
    int err;

    if (at->kind != RT_MEM_CUDA && at->kind != RT_MEM_CUDA_VMM)
        return -RT_ENOTSUP;
    if ((!b->exports || !b->exports->nslots) && (err = exports_open(b)) < 0)
        return err;
    for (struct cuda_export *x = *bucket_of(b->exports, at->base); x; x = x->next)
        if (x->at.base == at->base && x->at.id == at->id && x->at.len == at->len) {
            x->refs++;
            x->at = *at; /* its context may have been released and retained since */
            *out = x;
            return 0;
        }
    err = export_make(b, at, out, fds);
    if (err == 0)
        (*out)->refs++;
    return err;
}

static void export_put(struct btl_cuda *b, struct cuda_export *x)
{
    if (--x->refs == 0 && !x->alive)
        slot_free(b->exports, x);
}

void btl_cuda_exports_forget(struct btl_cuda *b, const struct btl_cuda_peer *p, bool fds)
{
    for (uint32_t s = 0; b->exports && s < b->exports->nused; s++) {
        struct cuda_export *x = export_at(b->exports, s);
        if (was_sent_to(x, p->number) && (x->has_fd || !fds))
            x->sent_to[p->number / 64] &= ~((uint64_t)1 << (p->number % 64));
    }
}

/* If peers have lost a descriptor, they get all descriptors again.  A local rank has a bit to
 * report this; processes of other jobs have a counter. */
static void look_again(struct btl_cuda *b, const struct btl_cuda_peer *p)
{
    uint64_t bit = (uint64_t)1 << (p->number % 64), *again;
    uint32_t n = rt_load_relaxed(&b->table->again_jobs);

    if (rt_unlikely(n != b->again_seen)) {
        b->again_seen = n;
        for (int i = rt_node.size; i < b->npeers; i++)
            if (b->peers[i])
                btl_cuda_exports_forget(b, b->peers[i], true);
    }
    again = &b->table->again[(size_t)p->number / 64 % CUDA_RANK_WORDS];
    if (!p->other && rt_unlikely(rt_load_relaxed(again) & bit)) {
        rt_fetch_and(again, ~bit);
        btl_cuda_exports_forget(b, p, true);
    }
}

static int note_sent(const struct btl_cuda *b, struct cuda_export *x, int number)
{
    uint32_t n = ((uint32_t)b->npeers + 63) / 64;

    if (x->nsent_to < n) {
        uint64_t *more = realloc(x->sent_to, n * sizeof *more);
        if (!more)
            return -RT_ENOMEM;
        memset(more + x->nsent_to, 0, (n - x->nsent_to) * sizeof *more);
        x->sent_to = more;
        x->nsent_to = n;
    }
    x->sent_to[number / 64] |= (uint64_t)1 << (number % 64);
    return 0;
}

/* Sends the descriptors of an export; there may be none. */
static int fds_give(struct btl_cuda *b, struct btl_cuda_peer *p, struct cuda_export *x,
                    const struct rt_gpu_fds *fds)
{
    struct rt_gpu_fds own = { .n = 0 };
    int err = 0;

    if (!fds->n) { /* descriptors are not kept: an open descriptor keeps the memory allocated */
        struct rt_gpu_export same;
        err = rt_gpu_export_mem(&x->at, &same, &own);
    }
    if (err == 0)
        err = btl_cuda_fds_send(b, p, x->slot, x->gen, fds->n ? fds : &own);
    rt_gpu_fds_close(&own);
    return err;
}

/* Gives the peer what it needs to map the export, unless it has it already. */
static int give(struct btl_cuda *b, struct btl_cuda_peer *p, struct cuda_export *x,
                const struct rt_gpu_fds *fds)
{
    look_again(b, p);
    if (rt_likely(was_sent_to(x, p->number)))
        return 0;
    int err = btl_cuda_table_reserve(p);
    if (err == 0 && x->has_fd)
        err = fds_give(b, p, x, fds);
    return err < 0 ? err : note_sent(b, x, p->number);
}

/* ---- calls of the contract ---- */

int btl_cuda_mem_reg(struct btl *btl, void *base, size_t len, const struct rt_gpu_ptr *at,
                     struct btl_mem **out)
{
    struct btl_cuda *b = (struct btl_cuda *)btl;

    if (!at)
        return -RT_ENOTSUP; /* host memory */
    struct btl_mem *m = b->free_mems ? b->free_mems : calloc(1, sizeof *m);
    if (!m)
        return -RT_ENOMEM;
    b->free_mems = m->next;
    *m = (struct btl_mem){ .b = b, .at = *at, .addr = (uintptr_t)base, .len = len };
    *out = m;
    return 0;
}

void btl_cuda_mem_dereg(struct btl_mem *m)
{
    if (m->x)
        export_put(m->b, m->x);
    m->next = m->b->free_mems;
    m->b->free_mems = m;
}

/* Exports the memory here, because memory used only by this process need not be exported. */
int btl_cuda_mem_offer(struct btl_peer *peer, struct btl_mem *m)
{
    struct btl_cuda_peer *p = (struct btl_cuda_peer *)peer;
    struct rt_gpu_fds fds;
    int err = 0;

    fds.n = 0;
    if (p->self)
        return 0;
    if (!m->x)
        err = export_get(m->b, &m->at, &m->x, &fds);
    if (err == 0)
        err = give(m->b, p, m->x, &fds);
    rt_gpu_fds_close(&fds);
    return err;
}

int btl_cuda_mem_key(const struct btl_mem *m, void *key)
{
    struct cuda_key k = { .slot = CUDA_NO_SLOT, .len = m->len, .addr = m->addr };

    if (m->x) {
        k.slot = m->x->slot;
        k.gen = m->x->gen;
        k.off = m->addr - m->x->at.base;
    }
    memcpy(key, &k, sizeof k);
    return 0;
}
