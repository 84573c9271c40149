/* SPDX-License-Identifier: BSD-3-Clause */
/* What this process exports: each allocation once, in a slot of the table that peers read.  A slot
 * belongs to an allocation by its number (rt_gpu_ptr.id), which is compared at each use of its
 * address; one that has been freed is found out then, or when another export is made, and its slot
 * gets another generation, by which importers see that their mapping is stale.  With all slots
 * taken the one that was unused for longest is used again.  Called with the instance serialised by
 * the engine. */
#include "btl/cuda/cuda.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUCKETS 1024u
#define LOOK_EVERY 64u /* offers; a look costs as much as a query, 0.1 to 0.3 us */

struct cuda_export {     /* what belongs to a slot, private to this process */
    struct rt_list lru;  /* in idle, the one used last at the end, while refs is 0 */
    struct rt_list hash; /* by address, while alive */
    uint32_t gen;
    int refs; /* registrations; their keys may be under way */
    bool alive, has_fd;
    struct rt_gpu_ptr at;
    uint64_t *sent; /* bit r: local rank r has been sent the descriptor; made when needed */
};

struct cuda_exports {
    struct cuda_export x[CUDA_SLOTS];
    struct rt_list idle; /* of cuda_export.lru: those that may be used for another allocation */
    struct rt_list bucket[BUCKETS];
    uint32_t gen;            /* of the last export: never used again */
    uint32_t nused, noffers; /* slots that have ever been used; keys given away */
    bool told;               /* that the table was full */
};

struct btl_mem {
    struct btl_cuda *b;
    struct rt_gpu_ptr at;
    uintptr_t addr;
    size_t len;
    struct cuda_export *x; /* NULL: not exported, good for oneself only */
    struct btl_mem *next;
};

static struct rt_list *bucket_of(struct cuda_exports *e, uintptr_t base)
{
    return &e->bucket[(base >> 9 ^ base >> 19) % BUCKETS]; /* allocations begin at 512 bytes */
}

static struct cuda_slot *slot_of(struct btl_cuda *b, const struct cuda_export *x)
{
    return &b->table->slot[x - b->exports->x];
}

static size_t nwords(void) { return ((size_t)rt_node.size + 63) / 64; }

static int exports_open(struct btl_cuda *b)
{
    struct cuda_exports *e = calloc(1, sizeof *e);

    if (!e)
        return -RT_ENOMEM;
    rt_list_init(&e->idle);
    for (uint32_t i = 0; i < BUCKETS; i++)
        rt_list_init(&e->bucket[i]);
    for (uint32_t i = 0; i < CUDA_SLOTS; i++) {
        rt_list_init(&e->x[i].hash);
        rt_list_init(&e->x[i].lru);
        rt_list_append(&e->idle, &e->x[i].lru);
    }
    int err = rt_node_reserve(b->table, sizeof *b->table);
    if (err < 0) {
        free(e);
        return err;
    }
    b->exports = e;
    return 0;
}

void btl_cuda_exports_close(struct btl_cuda *b)
{
    for (struct btl_mem *m = b->free_mems, *next; m; m = next) {
        next = m->next;
        free(m);
    }
    for (uint32_t i = 0; b->exports && i < CUDA_SLOTS; i++)
        free(b->exports->x[i].sent);
    free(b->exports);
    b->exports = NULL;
}

/* The allocation is no more, or not this one: importers see another generation. */
static void export_end(struct btl_cuda *b, struct cuda_export *x)
{
    if (!x->alive)
        return;
    x->alive = false;
    rt_store_release(&slot_of(b, x)->gen, 0u);
    rt_store_release(&b->table->ended, b->table->ended + 1);
    rt_list_del(&x->hash);
    if (x->refs)
        return;
    rt_list_del(&x->lru); /* free slots are used first */
    rt_list_append(b->exports->idle.next, &x->lru);
}

/* Ends the export when its allocation has been freed. */
static void export_look(struct btl_cuda *b, struct cuda_export *x)
{
    struct rt_gpu_ptr now;

    if (x->alive && (rt_gpu_query((const void *)x->at.base, 0, &now) < 0 || now.id != x->at.id ||
                     now.base != x->at.base))
        export_end(b, x);
}

/* Mappings that peers keep of freed memory hold it, so all are looked at before another one is
 * exported, and one now and then while there are messages. */
static void exports_look(struct btl_cuda *b)
{
    for (uint32_t i = 0; i < b->exports->nused; i++)
        export_look(b, &b->exports->x[i]);
}

static void exports_look_at_one(struct btl_cuda *b)
{
    struct cuda_exports *e = b->exports;

    if (++e->noffers % LOOK_EVERY == 0)
        export_look(b, &e->x[e->noffers / LOOK_EVERY % e->nused]);
}

/* Puts the allocation into a slot.  *fd: its descriptor, the caller's, or -1. */
static int export_make(struct btl_cuda *b, const struct rt_gpu_ptr *at, struct cuda_export **out,
                       int *fd)
{
    struct cuda_exports *e = b->exports;
    struct rt_gpu_export what;

    exports_look(b);
    if (rt_list_empty(&e->idle)) {
        if (!e->told)
            log_info(BTL,
                     "%u allocations of GPU memory are in use by messages at once; more go through "
                     "staging buffers",
                     CUDA_SLOTS);
        e->told = true;
        return -RT_ENOTSUP;
    }
    int err = rt_gpu_export_mem(at, &what, fd);
    if (err < 0)
        return err;
    struct cuda_export *x = rt_container(e->idle.next, struct cuda_export, lru);
    struct cuda_slot *s = slot_of(b, x);
    export_end(b, x); /* when it is the one that was unused for longest */
    rt_list_del(&x->lru);
    free(x->sent);
    if (++e->gen == 0)
        e->gen = 1;
    x->sent = NULL;
    x->gen = e->gen;
    x->alive = true;
    x->has_fd = *fd >= 0;
    x->at = *at;
    if (x - e->x >= (ptrdiff_t)e->nused)
        e->nused = (uint32_t)(x - e->x) + 1;
    rt_list_append(bucket_of(e, at->base), &x->hash);
    rt_fence(); /* generation 0 before what it belonged to is overwritten */
    s->e = what;
    rt_store_release(&s->gen, x->gen);
    *out = x;
    return 0;
}

/* The export of the allocation, with a reference for the caller. */
static int export_get(struct btl_cuda *b, const struct rt_gpu_ptr *at, struct cuda_export **out,
                      int *fd)
{
    struct rt_list *l;
    int err;

    if (!b->table || at->kind == RT_MEM_MANAGED || !at->single)
        return -RT_ENOTSUP;
    if (!b->exports && (err = exports_open(b)) < 0)
        return err;
    rt_list_each (l, bucket_of(b->exports, at->base)) {
        struct cuda_export *x = rt_container(l, struct cuda_export, hash);
        if (x->at.base != at->base)
            continue;
        if (x->at.id == at->id && x->at.len == at->len) {
            rt_list_del(&x->lru);
            x->refs++;
            x->at = *at; /* its context may have been given back and entered again since */
            *out = x;
            return 0;
        }
        export_end(b, x);
        break;
    }
    err = export_make(b, at, out, fd);
    if (err == 0)
        (*out)->refs++;
    return err;
}

static void export_put(struct btl_cuda *b, struct cuda_export *x)
{
    if (--x->refs)
        return;
    rt_list_append(x->alive ? &b->exports->idle : b->exports->idle.next, &x->lru);
}

/* The peer has lost a descriptor: it gets all of them again. */
static void sent_forget(struct btl_cuda *b, size_t word, uint64_t bit)
{
    for (uint32_t i = 0; i < CUDA_SLOTS; i++)
        if (b->exports->x[i].sent)
            b->exports->x[i].sent[word] &= ~bit;
}

/* Sends the descriptor unless the peer has it; fd may be -1. */
static int fd_give(struct btl_cuda *b, struct btl_cuda_peer *p, struct cuda_export *x, int fd)
{
    size_t word = (size_t)p->rank / 64;
    uint64_t bit = (uint64_t)1 << (p->rank % 64);
    uint64_t *again = &b->table->again[word % CUDA_RANK_WORDS];
    int own = -1, err = 0;

    if (rt_unlikely(rt_load_relaxed(again) & bit)) {
        rt_fetch_and(again, ~bit);
        sent_forget(b, word, bit);
    }
    if (!x->sent && !(x->sent = calloc(nwords(), sizeof *x->sent)))
        return -RT_ENOMEM;
    if (x->sent[word] & bit)
        return 0;
    if (fd < 0) { /* descriptors are not kept: one that is open keeps the memory */
        struct rt_gpu_export same;
        err = rt_gpu_export_mem(&x->at, &same, &own);
        fd = own;
    }
    if (err == 0)
        err = btl_cuda_fd_send(b, p, (uint32_t)(x - b->exports->x), x->gen, fd);
    if (own >= 0)
        close(own);
    if (err == 0)
        x->sent[word] |= bit;
    return err;
}

/* ---- the part of the contract ---- */

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

/* Exported only here, because memory for oneself need not be. */
int btl_cuda_mem_offer(struct btl_peer *peer, struct btl_mem *m)
{
    struct btl_cuda_peer *p = (struct btl_cuda_peer *)peer;
    int fd = -1, err = 0;

    if (p->self)
        return 0;
    if (!m->x)
        err = export_get(m->b, &m->at, &m->x, &fd);
    if (err == 0)
        exports_look_at_one(m->b);
    if (err == 0 && m->x->has_fd)
        err = fd_give(m->b, p, m->x, fd);
    if (fd >= 0)
        close(fd);
    return err;
}

int btl_cuda_mem_key(const struct btl_mem *m, void *key)
{
    struct cuda_key k = { .slot = CUDA_NO_SLOT, .len = m->len, .addr = m->addr };

    if (m->x) {
        k.slot = (uint32_t)(m->x - m->b->exports->x);
        k.gen = m->x->gen;
        k.off = m->addr - m->x->at.base;
    }
    memcpy(key, &k, sizeof k);
    return 0;
}
