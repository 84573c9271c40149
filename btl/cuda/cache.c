/* SPDX-License-Identifier: BSD-3-Clause */
/* Other processes' memory, mapped here.  Mapping takes milliseconds, so a mapping stays until its
 * exporter has freed the memory, or until cfg.gpu_mappings others were used after it.  It belongs
 * to a slot and generation of the exporter's table and to the context whose copies use it.  What
 * could not be mapped is remembered alike, so that it is not tried with each message.  Unmapping
 * waits for the device, so it happens only when there is a reason.  Called with the instance
 * serialised by the engine. */
#include "btl/cuda/cuda.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

#include <stdlib.h>
#include <unistd.h>

#define BUCKETS 256u

struct cuda_imports {
    struct rt_list lru; /* all, the one used last at the end */
    struct rt_list bucket[BUCKETS];
    int n;
    uint64_t nended; /* imports that were dropped, or found stale while in use */
    bool told;       /* that all were in use */
};

static struct rt_list *bucket_of(struct cuda_imports *c, int rank, uint32_t slot)
{
    return &c->bucket[((uint32_t)rank * 31 + slot) % BUCKETS];
}

static int imports_open(struct btl_cuda *b)
{
    struct cuda_imports *c = calloc(1, sizeof *c);

    if (!c)
        return -RT_ENOMEM;
    rt_list_init(&c->lru);
    for (uint32_t i = 0; i < BUCKETS; i++)
        rt_list_init(&c->bucket[i]);
    b->imports = c;
    return 0;
}

static void import_drop(struct cuda_imports *c, struct cuda_import *i)
{
    if (i->m)
        rt_gpu_unimport(i->m);
    rt_list_del(&i->lru);
    rt_list_del(&i->hash);
    c->n--;
    c->nended++;
    free(i);
}

void btl_cuda_imports_close(struct btl_cuda *b)
{
    while (!rt_list_empty(&b->imports->lru))
        import_drop(b->imports, rt_container(b->imports->lru.next, struct cuda_import, lru));
    free(b->imports);
    b->imports = NULL;
}

void btl_cuda_imports_drop(struct btl_cuda *b, int rank)
{
    struct rt_list *l, *next;

    if (!b->imports)
        return;
    rt_list_each_safe (l, next, &b->imports->lru) {
        struct cuda_import *i = rt_container(l, struct cuda_import, lru);
        if (i->rank == rank && !i->refs)
            import_drop(b->imports, i);
    }
}

/* Of no more use: the exporter has freed the memory, or our context has gone. */
static bool stale(const struct cuda_import *i)
{
    return rt_load_relaxed(&cuda_table_of(i->rank)->slot[i->slot].gen) != i->gen ||
           (i->m && !rt_gpu_import_alive(i->m));
}

static void drop_stale(struct cuda_imports *c)
{
    struct rt_list *l, *next;

    rt_list_each_safe (l, next, &c->lru) {
        struct cuda_import *i = rt_container(l, struct cuda_import, lru);
        if (!stale(i))
            continue;
        c->nended++;
        if (!i->refs)
            import_drop(c, i);
    }
}

/* Makes room for one more.  -RT_ENOTSUP: all are in use. */
static int make_room(struct cuda_imports *c)
{
    struct rt_list *l, *next;

    drop_stale(c);
    rt_list_each_safe (l, next, &c->lru) {
        struct cuda_import *i = rt_container(l, struct cuda_import, lru);
        if (c->n < cfg.gpu_mappings)
            break;
        if (!i->refs)
            import_drop(c, i);
    }
    if (c->n < cfg.gpu_mappings)
        return 0;
    if (!c->told)
        log_info(BTL,
                 "%d mappings of other processes' GPU memory are in use at once; more messages go "
                 "through staging buffers; see WEFT_GPU_MAPPINGS",
                 c->n);
    c->told = true;
    return -RT_ENOTSUP;
}

/* What the exporter says of the slot. */
static int slot_read(int rank, const struct cuda_key *k, struct rt_gpu_export *out)
{
    const struct cuda_slot *s = &cuda_table_of(rank)->slot[k->slot];

    if (rt_load_acquire(&s->gen) != k->gen || !k->gen)
        return -RT_ENOTSUP;
    *out = s->e;
    rt_fence(); /* the copy before the second look */
    if (rt_load_relaxed(&s->gen) != k->gen)
        return -RT_ENOTSUP;
    return k->off > out->len || k->len > out->len - k->off ? -RT_EINVAL : 0;
}

/* The descriptor that belongs to the slot.  When it is not there the exporter is asked to send it
 * again, for the next message. */
static int descriptor(struct btl_cuda *b, struct btl_cuda_peer *p, const struct cuda_key *k)
{
    int fd = btl_cuda_fd_take(b, p->rank, k->slot, k->gen);

    if (fd < 0) {
        btl_cuda_fd_drain(b);
        fd = btl_cuda_fd_take(b, p->rank, k->slot, k->gen);
    }
    if (fd < 0)
        rt_fetch_or(&cuda_table_of(p->rank)->again[rt_node.rank / 64 % (int)CUDA_RANK_WORDS],
                    (uint64_t)1 << (rt_node.rank % 64));
    return fd;
}

static int import_map(struct btl_cuda *b, struct btl_cuda_peer *p, const struct cuda_key *k,
                      struct cuda_import *i)
{
    struct rt_gpu_export e;
    void *base;
    int fd = -1, err = slot_read(p->rank, k, &e);

    if (err < 0)
        return err;
    if (e.how != RT_GPU_SHARE_LEGACY && (fd = descriptor(b, p, k)) < 0)
        return -RT_ENOTSUP;
    err = rt_gpu_import(i->g, &e, fd, &i->m, &base);
    if (fd >= 0)
        close(fd);
    if (err < 0 && rt_node_gone(p->rank))
        return -RT_EPEER;
    if (err == -RT_EAGAIN) /* not now, so this is not remembered */
        return -RT_ENOTSUP;
    if (err == -RT_EUNREACH || err == -RT_ENOTSUP) {
        i->err = err;
        return 0;
    }
    if (err < 0)
        return err;
    i->base = base;
    i->len = e.len;
    return 0;
}

static int import_make(struct btl_cuda *b, struct btl_cuda_peer *p, const struct cuda_key *k,
                       struct rt_gpu *g, struct cuda_import **out)
{
    struct cuda_imports *c = b->imports;

    if (rt_node_gone(p->rank)) /* a driver may keep a dead process's memory for a while */
        return -RT_EPEER;
    int err = make_room(c);
    if (err < 0)
        return err;
    struct cuda_import *i = calloc(1, sizeof *i);
    if (!i)
        return -RT_ENOMEM;
    *i = (struct cuda_import){ .rank = p->rank, .slot = k->slot, .gen = k->gen, .g = g };
    err = import_map(b, p, k, i);
    if (err < 0) {
        free(i);
        return err;
    }
    rt_list_append(&c->lru, &i->lru);
    rt_list_append(bucket_of(c, p->rank, k->slot), &i->hash);
    c->n++;
    *out = i;
    return 0;
}

static struct cuda_import *find(struct cuda_imports *c, int rank, const struct cuda_key *k,
                                struct rt_gpu *g)
{
    struct rt_list *l;

    rt_list_each (l, bucket_of(c, rank, k->slot)) {
        struct cuda_import *i = rt_container(l, struct cuda_import, hash);
        if (i->rank == rank && i->slot == k->slot && i->gen == k->gen && i->g == g &&
            (!i->m || rt_gpu_import_alive(i->m)))
            return i;
    }
    return NULL;
}

static void note_use(struct cuda_imports *c, struct cuda_import *i)
{
    rt_list_del(&i->lru);
    rt_list_append(&c->lru, &i->lru);
}

int btl_cuda_import_get(struct btl_cuda *b, struct btl_cuda_peer *p, const struct cuda_key *k,
                        struct rt_gpu *g, struct cuda_import **out)
{
    int err = 0;

    if (k->slot >= CUDA_SLOTS)
        return -RT_ENOTSUP; /* not exported */
    if (!b->imports && (err = imports_open(b)) < 0)
        return err;
    uint32_t ended = rt_load_relaxed(&p->table->ended);
    if (rt_unlikely(ended != p->ended_seen)) {
        p->ended_seen = ended;
        drop_stale(b->imports);
    }
    struct cuda_import *i = find(b->imports, p->rank, k, g);
    if (!i && (err = import_make(b, p, k, g, &i)) < 0)
        return err;
    note_use(b->imports, i);
    if (i->err)
        return i->err;
    if (k->off > i->len || k->len > i->len - k->off)
        return -RT_EINVAL;
    i->refs++;
    *out = i;
    return 0;
}

uint64_t btl_cuda_imports_ended(const struct btl_cuda *b) { return b->imports->nended; }

bool btl_cuda_import_again(struct btl_cuda *b, struct cuda_import *i, uint64_t ended)
{
    if (b->imports->nended != ended)
        return false; /* i may be no more */
    const struct btl_cuda_peer *p = b->peers[i->rank];
    if (rt_load_relaxed(&p->table->ended) != p->ended_seen)
        return false;
    note_use(b->imports, i);
    i->refs++;
    return true;
}

void btl_cuda_import_put(struct cuda_import *i) { i->refs--; }
