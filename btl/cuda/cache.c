/* SPDX-License-Identifier: BSD-3-Clause */
/* Mappings of other processes' memory.  Making a mapping takes milliseconds; keeping it costs only
 * entries in the driver's tables.  So a mapping stays until its exporter has found the memory
 * freed, and the number of mappings is not limited.  When the driver has no memory for another
 * mapping, all unused mappings are unmapped.  A mapping belongs to a slot and generation of the
 * exporter's table, and to the context whose copies use it; it is found by the slot's number.  A
 * failure to map is stored, too, so that it is not repeated for each message.  The engine
 * serialises calls on the instance. */
#include "btl/cuda/cuda.h"
#include "runtime/base/err.h"

#include <stdlib.h>

/* Whether the mapping is useless: the exporter has freed the memory, or is a peer no more, or this
 * process's context has gone. */
static bool stale(const struct cuda_import *i)
{
    return !i->peer->table || rt_load_relaxed(&i->slot->gen) != i->gen ||
           (i->m && !rt_gpu_import_alive(i->m));
}

static void import_drop(struct btl_cuda *b, struct cuda_import **link)
{
    struct cuda_import *i = *link;

    if (i->m)
        rt_gpu_unimport(i->m);
    *link = i->next;
    i->peer->nleft--;
    b->nended++;
    free(i);
}

/* Unmaps unused mappings: all of them (`all`), or only stale ones. */
static void drop_unused(struct btl_cuda *b, struct btl_cuda_peer *p, bool all)
{
    for (uint32_t s = 0; s < p->nimports; s++)
        for (struct cuda_import **l = &p->imports[s]; *l;) {
            bool ended = stale(*l);
            if ((ended || all) && !(*l)->refs) {
                import_drop(b, l);
                continue;
            }
            (*l)->ended = ended;
            b->nended += ended;
            l = &(*l)->next;
        }
}

void btl_cuda_imports_drop(struct btl_cuda *b, struct btl_cuda_peer *p)
{
    drop_unused(b, p, true);
    btl_cuda_peer_free(b, p);
}

void btl_cuda_imports_close(struct btl_cuda *b, struct btl_cuda_peer *p)
{
    for (uint32_t s = 0; s < p->nimports; s++)
        while (p->imports[s])
            import_drop(b, &p->imports[s]);
    free(p->imports);
    p->imports = NULL;
    p->nimports = 0;
}

static void drop_freed(struct btl_cuda *b, struct btl_cuda_peer *p)
{
    uint32_t ended = rt_load_acquire(&p->table->ended);

    if (rt_likely(ended == p->ended_seen))
        return;
    p->ended_seen = ended;
    drop_unused(b, p, false);
}

void btl_cuda_imports_look(struct btl_cuda *b, bool contexts)
{
    for (int i = 0; i < b->npeers; i++) {
        struct btl_cuda_peer *p = b->peers[i];
        if (p && !p->table) {
            btl_cuda_imports_drop(b, p);
        } else if (p && p->nimports) {
            p->ended_seen -= contexts; /* makes drop_freed() examine the imports */
            drop_freed(b, p);
        }
    }
}

/* Reads the exporter's description of the slot. */
static int slot_read(const struct cuda_slot *s, const struct cuda_key *k, struct rt_gpu_export *out)
{
    if (!s || rt_load_acquire(&s->gen) != k->gen || !k->gen)
        return -RT_ENOTSUP;
    *out = s->e;
    rt_fence(); /* the copy before the second read */
    if (rt_load_relaxed(&s->gen) != k->gen)
        return -RT_ENOTSUP;
    return k->off > out->len || k->len > out->len - k->off ? -RT_EINVAL : 0;
}

/* The descriptors of the slot.  If they are missing, asks the exporter to send them again, for the
 * next message. */
static struct rt_gpu_fds descriptors(struct btl_cuda *b, struct btl_cuda_peer *p,
                                     const struct cuda_key *k)
{
    struct rt_gpu_fds fds = btl_cuda_fds_take(b, p->base.proc, k->slot, k->gen);

    if (!fds.n) {
        btl_cuda_fds_drain(b);
        fds = btl_cuda_fds_take(b, p->base.proc, k->slot, k->gen);
    }
    if (!fds.n && p->other)
        rt_fetch_add(&p->table->again_jobs, 1u);
    else if (!fds.n)
        rt_fetch_or(&p->table->again[rt_node.rank / 64 % (int)CUDA_RANK_WORDS],
                    (uint64_t)1 << (rt_node.rank % 64));
    return fds;
}

/* Maps the memory.  When the driver has no memory, unmaps all unused mappings and tries again. */
static int try_import(struct btl_cuda *b, struct cuda_import *i, const struct rt_gpu_export *e,
                      const struct rt_gpu_fds *fds)
{
    void *base = NULL;
    uint64_t was = b->nended;
    int err = rt_gpu_import(i->g, e, fds, &i->m, &base);

    if (err == -RT_ENOMEM) {
        for (int n = 0; n < b->npeers; n++)
            if (b->peers[n])
                drop_unused(b, b->peers[n], true);
        if (b->nended != was)
            err = rt_gpu_import(i->g, e, fds, &i->m, &base);
    }
    i->base = base;
    i->len = e->len;
    return err;
}

static int import_map(struct btl_cuda *b, struct btl_cuda_peer *p, const struct cuda_key *k,
                      struct cuda_import *i)
{
    struct rt_gpu_export e;
    struct rt_gpu_fds fds;
    int err = slot_read(i->slot, k, &e);

    fds.n = 0;
    if (err < 0)
        return err;
    if (e.how != RT_GPU_SHARE_LEGACY) {
        fds = descriptors(b, p, k);
        if (!fds.n)
            return -RT_ENOTSUP;
    }
    err = try_import(b, i, &e, &fds);
    if (fds.n && (err == -RT_EAGAIN || err == -RT_ENOMEM))
        btl_cuda_fds_keep(b, p->base.proc, k->slot, k->gen, &fds);
    rt_gpu_fds_close(&fds);
    if (err < 0 && btl_cuda_gone(p))
        return -RT_EPEER;
    if (err == -RT_EAGAIN) /* not possible now; not stored, so the next message tries again */
        return -RT_ENOTSUP;
    if (err != -RT_EUNREACH && err != -RT_ENOTSUP && err != -RT_ENOMEM)
        return err;
    i->err = err;
    i->tried = b->nended;
    return 0;
}

/* Makes p->imports long enough for the slot. */
static int make_room(struct btl_cuda_peer *p, uint32_t slot)
{
    uint32_t n = p->nimports ? p->nimports : 64;

    while (n <= slot)
        n *= 2;
    if (n == p->nimports)
        return 0;
    struct cuda_import **more = realloc(p->imports, n * sizeof(struct cuda_import *));
    if (!more)
        return -RT_ENOMEM;
    for (uint32_t s = p->nimports; s < n; s++)
        more[s] = NULL;
    p->imports = more;
    p->nimports = n;
    return 0;
}

static int import_make(struct btl_cuda *b, struct btl_cuda_peer *p, const struct cuda_key *k,
                       struct rt_gpu *g, struct cuda_import **out)
{
    if (btl_cuda_gone(p)) /* a driver may keep the memory of a dead process for a while */
        return -RT_EPEER;
    const struct cuda_slot *slot = cuda_slot_at(p->segment, p->table, k->slot);
    int err = slot ? make_room(p, k->slot) : -RT_ENOTSUP;
    if (err < 0)
        return err;
    struct cuda_import *i = calloc(1, sizeof *i);
    if (!i)
        return -RT_ENOMEM;
    *i = (struct cuda_import){ .peer = p, .slot = slot, .gen = k->gen, .g = g };
    err = import_map(b, p, k, i);
    if (err < 0) {
        free(i);
        return err;
    }
    i->next = p->imports[k->slot];
    p->imports[k->slot] = i;
    p->nleft++;
    *out = i;
    return 0;
}

static struct cuda_import *find(struct btl_cuda *b, const struct btl_cuda_peer *p,
                                const struct cuda_key *k, const struct rt_gpu *g)
{
    struct cuda_import **l = k->slot < p->nimports ? &p->imports[k->slot] : NULL;

    for (; l && *l; l = &(*l)->next) {
        struct cuda_import *i = *l;
        if (i->gen != k->gen || i->g != g || (i->m && !rt_gpu_import_alive(i->m)))
            continue;
        if (rt_likely(i->err != -RT_ENOMEM) || i->tried == b->nended)
            return i;
        import_drop(b, l); /* a mapping has been unmapped since, so there may be memory */
        return NULL;
    }
    return NULL;
}

int btl_cuda_import_get(struct btl_cuda *b, struct btl_cuda_peer *p, const struct cuda_key *k,
                        struct rt_gpu *g, struct cuda_import **out)
{
    int err;

    if (k->slot == CUDA_NO_SLOT)
        return -RT_ENOTSUP; /* not exported */
    drop_freed(b, p);
    struct cuda_import *i = find(b, p, k, g);
    if (!i && (err = import_make(b, p, k, g, &i)) < 0)
        return err;
    if (i->err)
        return i->err == -RT_ENOMEM ? -RT_ENOTSUP : i->err;
    if (k->off > i->len || k->len > i->len - k->off)
        return -RT_EINVAL;
    i->refs++;
    *out = i;
    return 0;
}

bool btl_cuda_import_again(struct btl_cuda *b, struct cuda_import *i, uint64_t ended)
{
    if (b->nended != ended)
        return false; /* i may have been freed */
    if (rt_load_relaxed(&i->peer->table->ended) != i->peer->ended_seen)
        return false;
    i->refs++;
    return true;
}

void btl_cuda_import_put(struct cuda_import *i)
{
    if (--i->refs || rt_likely(!i->ended))
        return;
    /* makes the next progress() find the stale mapping */
    i->peer->ended_seen--;
    ((struct btl_cuda *)i->peer->base.btl)->freed_seen--;
}
