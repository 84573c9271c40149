/* SPDX-License-Identifier: BSD-3-Clause */
/* See coll_devices.h. */
#include "test/fake/coll_devices.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "coll/begin.h"
#include "coll/gpu/gate.h"
#include "runtime/base/err.h"
#include "runtime/gpu/kernel.h"
#include "test/check.h"

#define NJOBS 4096
#define DEVICE(rank) ((struct rt_gpu *)(uintptr_t)(1 + (rank))) /* only compared */

struct fake_devices dev;
struct fake_place fake_places[FAKE_PLACES];

/* ---- the places of memory ---- */

#define NHELD 4096
static struct held { /* described and not released */
    const char *p;
    size_t len;
    struct rt_gpu *g;
} held[NHELD];
static int nheld;

static const struct held *holder(const char *p)
{
    for (int i = 0; i < nheld; i++)
        if (p >= held[i].p && p < held[i].p + held[i].len)
            return &held[i];
    return NULL;
}

/* Memory that is said to be on g must not be another rank's. */
static void check_near(const struct rt_gpu *g, const char *dst)
{
    const struct held *h = holder(dst);
    CHECK(!h || h->g == g);
    for (int i = 0; i < FAKE_PLACES; i++)
        CHECK(!fake_places[i].seen || dst < fake_places[i].seen ||
              dst >= fake_places[i].seen + FAKE_PLACE_LEN);
    dev.nnear++;
}

/* ---- devices ---- */

static struct job {
    struct rt_gpu_op *op;
    bool is_fold;
    struct rt_gpu_fold fold;
} jobs[NJOBS];

static void fold_u32(const struct rt_gpu_fold *f)
{
    for (size_t i = 0; i < f->count; i++) {
        uint32_t sum = 0, x;
        for (int s = 0; s < f->nsrc; s++) {
            memcpy(&x, (const char *)f->src[s] + 4 * i, 4);
            if (s && f->prefixes)
                memcpy((char *)f->dst[s - 1] + 4 * i, &sum, 4);
            sum += x;
        }
        for (int d = f->prefixes ? f->ndst - 1 : 0; d < f->ndst; d++)
            memcpy((char *)f->dst[d] + 4 * i, &sum, 4);
    }
}

static void fold_copy(const struct rt_gpu_fold *f)
{
    for (int d = 0; d < f->ndst; d++)
        if (f->dst[d] != f->src[0])
            memcpy(f->dst[d], f->src[0], f->count * rt_gpu_type_nbytes(f->type));
}

static bool has_kernels(struct rt_gpu *g)
{
    (void)g;
    dev.nplans++;
    return true;
}

static bool can_fold(struct rt_gpu *g, unsigned type, unsigned code)
{
    (void)g;
    return code == RT_GPU_FOLD_COPY || (code == RT_GPU_FOLD_SUM && type == RT_GPU_U32);
}

static struct job *job_new(struct rt_gpu_op *op)
{
    if (dev.njobs == NJOBS)
        abort();
    jobs[dev.njobs].op = op;
    return &jobs[dev.njobs++];
}

static void start_fold(struct rt_gpu *g, const struct rt_gpu_fold *f, struct rt_gpu_op *op)
{
    struct job *j = job_new(op);
    for (int d = 0; f->near && d < f->ndst; d++)
        check_near(g, f->dst[d]);
    j->is_fold = true;
    j->fold = *f;
}

static void start_copy(struct rt_gpu *g, void *dst, const void *src, size_t len,
                       struct rt_gpu_op *op)
{
    struct job *j = job_new(op);
    (void)g;
    j->is_fold = false;
    op->dst = dst;
    op->src = src;
    op->len = len;
}

static void start_copy_near(struct rt_gpu *g, void *dst, const void *src, size_t len,
                            struct rt_gpu_op *op)
{
    check_near(g, dst);
    start_copy(g, dst, src, len, op);
}

static bool lies_on(const struct rt_gpu *g, const struct rt_gpu_ptr *p)
{
    return p->kind != RT_MEM_MANAGED && p->g == g;
}

static bool direct(struct rt_gpu *g) { return (uintptr_t)g % 64 < dev.odds.direct; }

static int take(struct rt_gpu *g, bool host, size_t nbytes, struct rt_gpu_stage **out)
{
    struct rt_gpu_stage *s = malloc(sizeof *s + nbytes);
    (void)host;
    s->p = (char *)(s + 1);
    s->len = nbytes;
    s->g = g;
    *out = s;
    dev.nregs++;
    return 0;
}

static void give(struct rt_gpu_stage *s)
{
    free(s);
    dev.nregs--;
}

/* Sometimes returns different memory than before. */
static int query(const void *p, size_t len, struct rt_gpu_ptr *out)
{
    const struct held *h = holder(p);
    (void)len;
    memset(out, 0, sizeof *out);
    out->g = h ? h->g : NULL;
    out->id = fake_random(dev.now, 64) < dev.odds.freed;
    return 0;
}

static const struct coll_gpu_engine engine = { has_kernels, can_fold, start_fold,
                                               start_copy,  NULL,     take,
                                               give,        query,    start_copy_near,
                                               lies_on,     direct };

/* Ends one job at random. */
static bool device_turn(struct fake *f)
{
    if (!dev.njobs || fake_random(f, 3))
        return dev.njobs > 0;
    int i = (int)fake_random(f, (unsigned)dev.njobs);
    struct job j = jobs[i];
    jobs[i] = jobs[--dev.njobs];
    int err = fake_random(f, 64) < dev.odds.fail ? -RT_EGPU : 0;
    if (err < 0)
        ;
    else if (!j.is_fold)
        memmove(j.op->dst, j.op->src, j.op->len);
    else if (j.fold.code == RT_GPU_FOLD_COPY)
        fold_copy(&j.fold);
    else
        fold_u32(&j.fold);
    j.op->done(j.op, err);
    for (int r = 0; r < fake_team(f, 0)->size; r++)
        fake_wake(f, r);
    return true;
}

/* ---- the team's operations ---- */

static struct fake_place *place_of(const char *p)
{
    for (int i = 0; i < FAKE_PLACES; i++)
        if (fake_places[i].own && p >= fake_places[i].own &&
            p < fake_places[i].own + FAKE_PLACE_LEN)
            return &fake_places[i];
    return NULL;
}

struct key {
    char *p;
    int number;
};

static int describe(struct coll_team *t, const void *p, size_t len, struct coll_dev_mem *out)
{
    const struct fake_place *place = place_of(p);
    struct key key;
    memset(&key, 0, sizeof key); /* keys are compared, including the padding */
    key.p = (char *)(uintptr_t)p;
    key.number = place ? place->number : 0;
    if (fake_random(dev.now, 64) < dev.odds.no_describe)
        return -RT_ENOTSUP;
    memset(out, 0, sizeof *out);
    out->at.g = DEVICE(t->rank);
    out->reg = (void *)(uintptr_t)p;
    memcpy(out->key, &key, sizeof key);
    dev.nregs++;
    CHECK(nheld < NHELD);
    held[nheld++] = (struct held){ p, len, out->at.g };
    return 0;
}

static void release(struct coll_team *t, struct coll_dev_mem *m)
{
    int i = 0;
    (void)t;
    while (i < nheld && (held[i].p != m->reg || held[i].g != m->at.g))
        i++;
    CHECK(i < nheld);
    held[i] = held[--nheld];
    dev.nregs--;
}

struct mapping {
    bool unpinned;
    const struct fake_place *place;
    const char *seen; /* the place's address when the mapping was made */
    int number;
};

static int attach(struct coll_team *t, int rank, const void *key, const struct rt_gpu_ptr *near,
                  struct coll_dev_map *out)
{
    (void)rank;
    (void)t;
    (void)near;
    if (dev.unreachable > 0 && dev.unreachable--)
        return -RT_EUNREACH;
    if (fake_random(dev.now, 64) < dev.odds.no_attach)
        return -RT_ENOTSUP;
    struct key k;
    memcpy(&k, key, sizeof k);
    const struct fake_place *place = place_of(k.p);
    CHECK_MSG(!place || place->number == k.number, "the key is of memory that has been freed");
    struct mapping *m = malloc(sizeof *m);
    *m = (struct mapping){ .place = place, .number = k.number };
    m->seen = place ? place->seen : NULL;
    out->ptr = place ? place->seen + (k.p - place->own) : k.p;
    out->att = m;
    dev.nmaps++;
    return 0;
}

static void detach(struct coll_team *t, struct coll_dev_map *map)
{
    struct mapping *m = map->att;
    (void)t;
    dev.nmaps -= !m->unpinned;
    free(m);
    map->att = NULL;
}

/* Unpinned mappings do not count. */
static void unpin(struct coll_team *t, struct coll_dev_map *map, int n)
{
    (void)t;
    for (int i = 0; i < n; i++) {
        struct mapping *m = map[i].att;
        if (!m)
            continue;
        CHECK(!m->unpinned);
        m->unpinned = true;
        dev.nmaps--;
    }
}

/* Sometimes a mapping has been removed. */
static bool repin(struct coll_team *t, struct coll_dev_map *map, int n)
{
    (void)t;
    for (int i = 0; i < n; i++) {
        struct mapping *m = map[i].att;
        if (!m)
            continue;
        CHECK(m->unpinned);
        const struct fake_place *p = m->place;
        if ((p && (p->number != m->number || p->seen != m->seen)) || !fake_random(dev.now, 8))
            return false;
        m->unpinned = false;
        dev.nmaps++;
    }
    return true;
}

static int stage(struct coll_team *t, struct coll_task *k)
{
    (void)t;
    if (fake_random(dev.now, 64) < dev.odds.no_memory)
        return -RT_ENOMEM;
    dev.nstaged++;
    k->args.mem = RT_MEM_HOST;
    return coll_begin_host(k);
}

static const struct fake_more more = { .ops = { .dev_describe = describe,
                                                .dev_release = release,
                                                .dev_attach = attach,
                                                .dev_detach = detach,
                                                .dev_unpin = unpin,
                                                .dev_repin = repin,
                                                .stage = stage },
                                       .turn = device_turn };

void fake_devices_use(void)
{
    rt_gpu_watch = true;
    coll_gpu_engine = &engine;
    fake_more = &more;
}

/* ---- memory that moves ---- */

static void *map_place(const struct fake_place *p)
{
    void *at = mmap(NULL, FAKE_PLACE_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

void fake_places_open(void)
{
    for (struct fake_place *p = fake_places; p < fake_places + FAKE_PLACES; p++) {
        p->fd = memfd_create("place", 0);
        CHECK_EQ(ftruncate(p->fd, FAKE_PLACE_LEN), 0);
        p->own = map_place(p);
        p->seen = map_place(p);
    }
}

void fake_places_close(void)
{
    for (struct fake_place *p = fake_places; p < fake_places + FAKE_PLACES; p++) {
        munmap(p->own, FAKE_PLACE_LEN);
        munmap(p->seen, FAKE_PLACE_LEN);
        close(p->fd);
        p->own = NULL;
    }
}

/* The old address stays reserved, so that no other memory gets it. */
void fake_place_move(struct fake_place *p, bool anew)
{
    char *old = p->seen;
    p->number += anew;
    p->seen = map_place(p);
    CHECK_EQ(mprotect(old, FAKE_PLACE_LEN, PROT_NONE), 0);
}
