/* SPDX-License-Identifier: BSD-3-Clause */
/* State that is kept from call to call: this rank's descriptor, and the mappings of the ranges in
 * the others' descriptors (ranges.h).
 *
 * Programs repeat calls.  So results are kept with the call's struct while its arguments are the
 * same: this rank's descriptor, copies of the others' descriptors, and the addresses at which their
 * ranges were mapped.  A descriptor has a version, which changes whenever the memory or the
 * arguments change; with an unchanged version readers need not read it again.  The kept results
 * hold no memory: each call queries the memory of its buffers again and repins its mappings;
 * between calls they are unpinned, so that they may be unmapped.  If nothing has changed, the plan
 * is unchanged, too (coll_gpu_run.planned).  Under the domain's lock. */
#include "coll/gpu/gate.h"

#include <stdlib.h>
#include <string.h>
#include "coll/gpu/plan_int.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/base/reserve.h"
#include "runtime/gpu/kernel.h"

static bool is_persistent(const struct coll_gpu_call *c) { return c->on.row == COLL_BOARD_STAYING; }

static int make_room(struct coll_gpu_call *c)
{
    struct coll_team *t = c->gate->board.team;
    size_t n = (size_t)t->size;
    if (!c->maps.map && !(c->maps.map = calloc(n, COLL_GPU_RANGES * sizeof *c->maps.map)))
        return -RT_ENOMEM;
    if (!c->maps.version && !(c->maps.version = calloc(n, sizeof *c->maps.version)))
        return -RT_ENOMEM;
    return coll_gpu_ranges_init(&c->ranges, t, 0, coll_gpu_post_nbytes(t->size));
}

/* ---- mappings ---- */

static int nmaps(const struct coll_gpu_call *c)
{
    return c->maps.map ? COLL_GPU_RANGES * c->gate->board.team->size : 0;
}

static void detach_all(struct coll_gpu_call *c)
{
    struct coll_team *t = c->gate->board.team;
    c->maps.unpinned = false;
    for (int i = 0; i < nmaps(c); i++)
        if (c->maps.map[i].att) {
            t->ops->dev_detach(t, &c->maps.map[i]);
            c->maps.map[i].att = NULL;
        }
}

static bool repin_all(struct coll_gpu_call *c)
{
    struct coll_team *t = c->gate->board.team;
    c->maps.unpinned = false;
    return t->ops->dev_repin(t, c->maps.map, nmaps(c));
}

/* ---- whether a call is the same ---- */

static struct coll_gpu_shape shape_of(const struct rt_layout *l)
{
    return l ? (struct coll_gpu_shape){ l->size, l->lb, l->true_lb, l->extent, l->elem, l->contig }
             : (struct coll_gpu_shape){ .size = -1 };
}

static bool same_shape(const struct coll_gpu_shape *s, const struct rt_layout *l)
{
    if (!l)
        return s->size < 0;
    return s->size == l->size && s->lb == l->lb && s->true_lb == l->true_lb &&
           s->extent == l->extent && s->elem == l->elem && s->contig == l->contig;
}

/* The choice of WEFT_COLL is for links of every kind. */
static enum coll_gpu_way way_of(const struct coll_team *t, const struct coll_args *a)
{
    return a->kind == COLL_ALLREDUCE
               ? coll_gpu_asked_way(t->size, coll_gpu_vector(a, t->size).len, false)
               : COLL_GPU_AUTO;
}

bool coll_gpu_knows(const struct coll_gpu_call *c, const struct coll_task *k)
{
    const struct coll_gpu_asked *q = &c->maps.asked;
    const struct coll_args *a = &k->args;
    return q->known && q->kind == a->kind && q->sbuf == a->sbuf && q->rbuf == a->rbuf &&
           q->scount == a->scount && q->rcount == a->rcount && q->root == a->root && !a->scounts &&
           !a->rcounts && q->op == (a->op ? (int)a->op->code : -1) &&
           same_shape(&q->stype, a->stype) && same_shape(&q->rtype, a->rtype) &&
           q->background == k->background && q->way == way_of(c->gate->board.team, a);
}

/* Types and operations may be freed, so their properties are stored.  Vectors of counts belong to
 * the user and may change, so such calls are not recognised. */
static void note_asked(struct coll_gpu_call *c)
{
    const struct coll_task *k = c->task;
    const struct coll_args *a = &k->args;
    c->maps.asked = (struct coll_gpu_asked){ .known = !a->scounts && !a->rcounts,
                                             .background = k->background,
                                             .kind = a->kind,
                                             .root = a->root,
                                             .op = a->op ? (int)a->op->code : -1,
                                             .way = way_of(c->gate->board.team, a),
                                             .sbuf = a->sbuf,
                                             .rbuf = a->rbuf,
                                             .scount = a->scount,
                                             .rcount = a->rcount,
                                             .stype = shape_of(a->stype),
                                             .rtype = shape_of(a->rtype) };
}

void coll_gpu_unlearn(struct coll_gpu_call *c)
{
    c->maps.asked.known = c->run.planned = false;
    detach_all(c);
    for (int r = 0; c->maps.version && r < c->gate->board.team->size; r++)
        c->maps.version[r] = 0;
}

/* ---- this rank's buffers ---- */

static void release_own(struct coll_gpu_call *c)
{
    coll_gpu_ranges_release(&c->ranges);
    coll_gpu_staging_give(c);
    while (c->maps.nscratch)
        coll_gpu_engine->give(c->maps.scratch[--c->maps.nscratch]);
}

bool coll_gpu_has_kernels(const struct coll_gpu_call *c)
{
    struct rt_gpu *g = c->ranges.near ? c->ranges.near->g : NULL;
    return g && coll_gpu_engine->kernels(g) &&
           coll_gpu_engine->can_fold(g, RT_GPU_U8, RT_GPU_FOLD_COPY) &&
           coll_gpu_engine->can_fold(g, RT_GPU_U8, RT_GPU_FOLD_EACH);
}

static int take_scratch(struct coll_gpu_call *c)
{
    size_t left = c->ranges.own.swaps && coll_gpu_has_kernels(c) ? 0 : c->ranges.own.scratch;
    for (size_t n; left; left -= n) {
        n = left < COLL_GPU_SCRATCH_UNIT ? left : COLL_GPU_SCRATCH_UNIT;
        if (c->maps.nscratch == COLL_GPU_UNITS)
            return -RT_ENOTSUP;
        int err = coll_gpu_engine->take(c->ranges.near->g, false, n,
                                        &c->maps.scratch[c->maps.nscratch]);
        if (err < 0)
            return err;
        c->maps.scratch_at[c->maps.nscratch] = c->maps.scratch[c->maps.nscratch]->p;
        c->maps.nscratch++;
    }
    return 0;
}

/* Least bytes of a rank for which a call uses messages if memory cannot be mapped.  Model: for
 * shorter calls, copies in and out at 50 GB/s and reductions by CPUs at 10 GB/s cost less than two
 * messages in pieces, of about 50 us each.  Where host copies are slower, messages would be faster
 * for shorter calls, too; only the speed depends on this value. */
#define MESSAGES_MIN (1u << 20)

/* Persistent calls and calls of a schedule use messages anyway after a veto. */
static bool may_go_by_messages(const struct coll_gpu_call *c)
{
    return !is_persistent(c) && !c->booked &&
           c->ranges.own.len[COLL_GPU_SEND] + c->ranges.own.len[COLL_GPU_RECV] >= MESSAGES_MIN;
}

/* 1: device memory that others cannot map. */
static int describe_range(struct coll_gpu_call *c, enum coll_gpu_range w, bool *other)
{
    struct coll_gpu_ranges *r = &c->ranges;
    struct rt_gpu_ptr *at = &r->mem[w].at;
    if (c->found)
        *at = c->found[w];
    else
        at->g = NULL;
    int err = c->maps.far ? coll_gpu_engine->query(r->own.at[w], r->own.len[w], at)
                          : coll_gpu_range_register(r, w);
    if (c->maps.far ? err >= 0 : err == -RT_ENOTSUP && at->g) {
        if (!may_go_by_messages(c))
            return -RT_ENOTSUP;
        if (c->maps.far || coll_gpu_staging_take(c, w) < 0)
            return 1;
        err = coll_gpu_range_register(r, w);
    }
    *other |= err > 0;
    return err < 0 ? err : 0;
}

/* Tested only where plans differ: of more than two ranks. */
static bool has_direct_links(const struct coll_gpu_call *c)
{
    return !c->maps.far && c->ranges.near && c->gate->board.team->size > 2 &&
           coll_gpu_engine->direct(c->ranges.near->g);
}

/* Describes the memory of the ranges; *other: it differs from the descriptor.  If a rank has a
 * receive buffer, that buffer's device does the work. */
static int describe_memory(struct coll_gpu_call *c, struct coll_gpu_post *post, bool *other)
{
    struct coll_gpu_ranges *r = &c->ranges;
    uint32_t pages = 0, apart = 0;
    for (int w = 0; w < COLL_GPU_RANGES; w++) {
        if (!r->own.at[w])
            continue;
        int err = describe_range(c, (enum coll_gpu_range)w, other);
        if (err < 0)
            return err;
        apart |= (uint32_t)err;
        pages |= (uint32_t)rt_gpu_in_large_pages(&r->mem[w].at) << w;
        r->near = &r->mem[w].at;
    }
    if (c->maps.far && !r->near)
        return -RT_ENOTSUP;
    uint32_t direct = has_direct_links(c);
    *other |= pages != post->pages || apart != post->apart || direct != post->direct ||
              (r->near ? r->near->g : NULL) != c->maps.asked.g;
    post->pages = pages;
    post->direct = direct;
    post->apart = apart;
    return 0;
}

static int describe(struct coll_gpu_call *c)
{
    struct coll_gpu_ranges *r = &c->ranges;
    int rank = c->gate->board.team->rank;
    struct coll_gpu_post *post = coll_gpu_post_of(r, rank);
    bool other = !c->maps.known;
    int err = other ? coll_gpu_ranges_describe(r, &c->task->args) : 0;
    if (err >= 0)
        err = describe_memory(c, post, &other);
    if (err >= 0 && r->own.folds && r->near &&
        !coll_gpu_engine->can_fold(r->near->g, r->own.type, r->own.code))
        err = -RT_ENOTSUP;
    if (err >= 0 && r->near && !post->apart)
        err = take_scratch(c);
    if (err < 0 || !other)
        return err;
    c->gate->version += c->gate->version == UINT32_MAX ? 2 : 1; /* 0: no version */
    c->maps.version[rank] = c->gate->version;
    c->run.planned = false;
    note_asked(c);
    c->maps.asked.g = r->near ? r->near->g : NULL;
    return 0;
}

int coll_gpu_describe(struct coll_gpu_call *c)
{
    int err = make_room(c);
    if (err >= 0)
        err = describe(c);
    if (err < 0) {
        log_debug(COLL, "%s: device buffers of this rank go through host memory: %s",
                  coll_kind_names[c->task->args.kind], rt_err_text(err));
        release_own(c);
        coll_gpu_unlearn(c);
    }
    return err;
}

/* The descriptor in a rank's entry on the board. */
static struct coll_gpu_post *entry_of(const struct coll_gpu_call *c, int rank)
{
    return (struct coll_gpu_post *)(coll_board_entry(&c->on, rank) + 1);
}

void coll_gpu_put_post(const struct coll_gpu_call *c)
{
    int rank = c->gate->board.team->rank;
    struct coll_board_entry *e = coll_board_entry(&c->on, rank);
    if (c->maps.version[rank] != e->version)
        memcpy(entry_of(c, rank), coll_gpu_post_of(&c->ranges, rank), c->ranges.stride);
    rt_store_relaxed(&e->version, c->maps.version[rank]);
}

bool coll_gpu_stands(const struct coll_gpu_call *c)
{
    struct rt_gpu_ptr now;
    for (int w = 0; w < COLL_GPU_RANGES; w++) {
        const struct rt_gpu_ptr *at = &c->ranges.mem[w].at;
        if (c->ranges.mem[w].reg &&
            (coll_gpu_engine->query(c->ranges.own.at[w], c->ranges.own.len[w], &now) < 0 ||
             now.id != at->id || now.base != at->base || now.g != at->g))
            return false;
    }
    return true;
}

/* ---- the other ranks' buffers ---- */

/* Copies a rank's descriptor unless the copy has the same version. */
static void read_post(struct coll_gpu_call *c, int rank)
{
    uint32_t version = rt_load_relaxed(&coll_board_entry(&c->on, rank)->version);
    if (version == c->maps.version[rank])
        return;
    memcpy(coll_gpu_post_of(&c->ranges, rank), entry_of(c, rank), c->ranges.stride);
    c->maps.version[rank] = version;
    c->run.planned = false;
}

static int attach(void *arg, enum coll_gpu_range w, int rank, char **at)
{
    struct coll_gpu_call *c = arg;
    struct coll_team *t = c->gate->board.team;
    struct coll_dev_map *map = &c->maps.map[(int)w * t->size + rank];
    int err = t->ops->dev_attach(t, rank, coll_gpu_post_of(&c->ranges, rank)->key[w],
                                 c->ranges.near, map);
    if (err >= 0)
        *at = map->ptr;
    return err;
}

/* After a failed attempt the call is started a second time, so attempts become rarer. */
static void note_reach(struct coll_gpu *g, int err)
{
    if (err == -RT_EUNREACH || err >= 0)
        coll_gpu_tried(&g->far, err < 0);
}

int coll_gpu_map(struct coll_gpu_call *c)
{
    int size = c->gate->board.team->size;
    for (int r = 0; r < size; r++)
        read_post(c, r);
    for (int r = 0; r < size; r++)
        if (coll_gpu_post_of(&c->ranges, r)->apart)
            return -RT_ENOTSUP;
    if (c->run.planned && c->maps.unpinned && repin_all(c)) {
        note_reach(c->gate, 0);
        return 0; /* the mappings are unchanged */
    }
    detach_all(c);
    if (!c->run.planned)
        coll_gpu_ranges_read(&c->ranges);
    int err = coll_gpu_ranges_attach(&c->ranges, attach, c);
    c->run.planned = c->run.planned && err == 0;
    note_reach(c->gate, err);
    return err;
}

void coll_gpu_release(struct coll_gpu_call *c)
{
    struct coll_team *t = c->gate->board.team;
    if (coll_gpu_is_staged(c)) /* next time the memory may be another */
        c->run.planned = c->maps.asked.known = false;
    if (c->run.planned && !is_persistent(c) && !c->maps.unpinned) {
        c->maps.unpinned = true; /* the next call may be the same */
        t->ops->dev_unpin(t, c->maps.map, nmaps(c));
    } else if (!c->maps.unpinned) {
        detach_all(c);
    }
    release_own(c);
}

void coll_gpu_free(struct coll_gpu_call *c)
{
    detach_all(c);
    free(c->maps.map);
    free(c->maps.version);
    coll_gpu_ranges_fini(&c->ranges);
    free(c->run.op);
    coll_gpu_free_plan(&c->run.plan);
    rt_reserve_free(c);
}
