/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranges of device memory in a call: the descriptor of a rank's own ranges, and the mappings of the
 * ranges in the others' descriptors.
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

static struct coll_gpu_post *copy_of(const struct coll_gpu_call *c, int rank)
{
    return (struct coll_gpu_post *)(c->maps.posts +
                                    (size_t)rank * coll_gpu_post_nbytes(c->gate->board.team));
}

static int make_room(struct coll_gpu_call *c)
{
    size_t n = (size_t)c->gate->board.team->size;
    if (c->maps.offsets)
        return 0;
    for (int w = 0; w < COLL_GPU_RANGES; w++) {
        if (!c->maps.map[w])
            c->maps.map[w] = calloc(n, sizeof *c->maps.map[w]);
        if (!c->maps.at[w])
            c->maps.at[w] = calloc(n, sizeof *c->maps.at[w]);
        if (!c->maps.len[w])
            c->maps.len[w] = calloc(n, sizeof *c->maps.len[w]);
        if (!c->maps.map[w] || !c->maps.at[w] || !c->maps.len[w])
            return -RT_ENOMEM;
    }
    if (!c->maps.word && !(c->maps.word = calloc(n, sizeof *c->maps.word)))
        return -RT_ENOMEM;
    if (!c->maps.version && !(c->maps.version = calloc(n, sizeof *c->maps.version)))
        return -RT_ENOMEM;
    if (!c->maps.posts && !(c->maps.posts = calloc(n, coll_gpu_post_nbytes(c->gate->board.team))))
        return -RT_ENOMEM;
    c->maps.offsets = calloc(n, sizeof *c->maps.offsets);
    return c->maps.offsets ? 0 : -RT_ENOMEM;
}

/* ---- mappings ---- */

static void detach_all(struct coll_gpu_call *c)
{
    struct coll_team *t = c->gate->board.team;
    c->maps.unpinned = false;
    for (int w = 0; w < COLL_GPU_RANGES && c->maps.map[w]; w++)
        for (int r = 0; r < t->size; r++)
            if (c->maps.map[w][r].att) {
                t->ops->dev_detach(t, &c->maps.map[w][r]);
                c->maps.map[w][r].att = NULL;
            }
}

/* For the next call, which may be the same. */
static void unpin_all(struct coll_gpu_call *c)
{
    struct coll_team *t = c->gate->board.team;
    c->maps.unpinned = true;
    for (int w = 0; w < COLL_GPU_RANGES; w++)
        t->ops->dev_unpin(t, c->maps.map[w], t->size);
}

static bool repin_all(struct coll_gpu_call *c)
{
    struct coll_team *t = c->gate->board.team;
    bool all = true;
    c->maps.unpinned = false;
    for (int w = 0; w < COLL_GPU_RANGES && all; w++)
        all = t->ops->dev_repin(t, c->maps.map[w], t->size);
    return all;
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
    struct coll_team *t = c->gate->board.team;
    for (int w = 0; w < COLL_GPU_RANGES; w++)
        if (c->maps.mem[w].reg) {
            t->ops->dev_release(t, &c->maps.mem[w]);
            c->maps.mem[w].reg = NULL;
        }
    while (c->maps.nscratch)
        coll_gpu_engine->give(c->maps.scratch[--c->maps.nscratch]);
    c->maps.near = NULL;
}

bool coll_gpu_has_kernels(const struct coll_gpu_call *c)
{
    struct rt_gpu *g = c->maps.near ? c->maps.near->g : NULL;
    return g && coll_gpu_engine->kernels(g) &&
           coll_gpu_engine->can_fold(g, RT_GPU_U8, RT_GPU_FOLD_COPY) &&
           coll_gpu_engine->can_fold(g, RT_GPU_U8, RT_GPU_FOLD_EACH);
}

static int take_scratch(struct coll_gpu_call *c)
{
    size_t left = c->maps.own.swaps && coll_gpu_has_kernels(c) ? 0 : c->maps.own.scratch;
    for (size_t n; left; left -= n) {
        n = left < COLL_GPU_SCRATCH_UNIT ? left : COLL_GPU_SCRATCH_UNIT;
        if (c->maps.nscratch == COLL_GPU_UNITS)
            return -RT_ENOTSUP;
        int err = coll_gpu_engine->take(c->maps.near->g, false, n,
                                        &c->maps.scratch[c->maps.nscratch]);
        if (err < 0)
            return err;
        c->maps.scratch_at[c->maps.nscratch] = c->maps.scratch[c->maps.nscratch]->p;
        c->maps.nscratch++;
    }
    return 0;
}

/* Fills in what follows from the call's arguments. */
static int describe_call(struct coll_gpu_call *c, struct coll_gpu_post *post)
{
    int err = coll_gpu_own(c->gate->board.team, &c->task->args, &c->maps.own, post->offsets);
    post->has = post->pages = post->direct = 0;
    post->publishes = c->maps.own.publishes;
    post->word = c->maps.own.word;
    for (int w = 0; w < COLL_GPU_RANGES; w++) {
        post->len[w] = c->maps.own.len[w];
        post->has |= (uint32_t)(c->maps.own.at[w] != NULL) << w;
    }
    return err;
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
           c->maps.own.len[COLL_GPU_SEND] + c->maps.own.len[COLL_GPU_RECV] >= MESSAGES_MIN;
}

/* 1: device memory that others cannot map. */
static int describe_range(struct coll_gpu_call *c, int w, struct coll_gpu_post *post, bool *other)
{
    struct coll_team *t = c->gate->board.team;
    struct coll_dev_mem *m = &c->maps.mem[w];
    if (c->found)
        m->at = c->found[w];
    else
        m->at.g = NULL;
    int err = c->maps.far ? coll_gpu_engine->query(c->maps.own.at[w], c->maps.own.len[w], &m->at)
                          : t->ops->dev_describe(t, c->maps.own.at[w], c->maps.own.len[w], m);
    if (c->maps.far ? err >= 0 : err == -RT_ENOTSUP && m->at.g)
        return may_go_by_messages(c) ? 1 : -RT_ENOTSUP;
    if (err < 0)
        return err;
    *other |= memcmp(post->key[w], m->key, COLL_DEV_KEY) != 0;
    memcpy(post->key[w], m->key, COLL_DEV_KEY);
    return 0;
}

/* Tested only where plans differ: of more than two ranks. */
static bool has_direct_links(const struct coll_gpu_call *c)
{
    return !c->maps.far && c->maps.near && c->gate->board.team->size > 2 &&
           coll_gpu_engine->direct(c->maps.near->g);
}

/* Describes the memory of the ranges; *other: it differs from the descriptor.  If a rank has a
 * receive buffer, that buffer's device does the work. */
static int describe_memory(struct coll_gpu_call *c, struct coll_gpu_post *post, bool *other)
{
    uint32_t pages = 0, apart = 0;
    for (int w = 0; w < COLL_GPU_RANGES; w++) {
        int err = c->maps.own.at[w] ? describe_range(c, w, post, other) : 0;
        if (err < 0)
            return err;
        if (!c->maps.own.at[w])
            continue;
        apart |= (uint32_t)err;
        pages |= (uint32_t)rt_gpu_in_large_pages(&c->maps.mem[w].at) << w;
        c->maps.near = &c->maps.mem[w].at;
    }
    if (c->maps.far && !c->maps.near)
        return -RT_ENOTSUP;
    uint32_t direct = has_direct_links(c);
    *other |= pages != post->pages || apart != post->apart || direct != post->direct ||
              (c->maps.near ? c->maps.near->g : NULL) != c->maps.asked.g;
    post->pages = pages;
    post->direct = direct;
    post->apart = apart;
    return 0;
}

static int describe(struct coll_gpu_call *c, struct coll_gpu_post *post)
{
    bool other = !c->maps.known;
    int err = other ? describe_call(c, post) : 0;
    if (err >= 0)
        err = describe_memory(c, post, &other);
    if (err >= 0 && c->maps.own.folds && c->maps.near &&
        !coll_gpu_engine->can_fold(c->maps.near->g, c->maps.own.type, c->maps.own.code))
        err = -RT_ENOTSUP;
    if (err >= 0 && c->maps.near && !post->apart)
        err = take_scratch(c);
    if (err < 0 || !other)
        return err;
    c->gate->version += c->gate->version == UINT32_MAX ? 2 : 1; /* 0: no version */
    c->maps.version[c->gate->board.team->rank] = c->gate->version;
    c->run.planned = false;
    note_asked(c);
    c->maps.asked.g = c->maps.near ? c->maps.near->g : NULL;
    return 0;
}

int coll_gpu_describe(struct coll_gpu_call *c)
{
    int err = make_room(c);
    if (err >= 0)
        err = describe(c, copy_of(c, c->gate->board.team->rank));
    if (err < 0) {
        log_debug(COLL, "%s: device buffers of this rank go through host memory: %s",
                  coll_kind_names[c->task->args.kind], rt_err_text(err));
        release_own(c);
        coll_gpu_unlearn(c);
    }
    return err;
}

static struct coll_gpu_post *post_of(const struct coll_gpu_call *c, int rank)
{
    return (struct coll_gpu_post *)(coll_board_entry(&c->on, rank) + 1);
}

void coll_gpu_put_post(const struct coll_gpu_call *c)
{
    int rank = c->gate->board.team->rank;
    struct coll_board_entry *e = coll_board_entry(&c->on, rank);
    if (c->maps.version[rank] != e->version)
        memcpy(post_of(c, rank), copy_of(c, rank), coll_gpu_post_nbytes(c->gate->board.team));
    rt_store_relaxed(&e->version, c->maps.version[rank]);
}

bool coll_gpu_stands(const struct coll_gpu_call *c)
{
    struct rt_gpu_ptr now;
    for (int w = 0; w < COLL_GPU_RANGES; w++) {
        const struct rt_gpu_ptr *at = &c->maps.mem[w].at;
        if (c->maps.mem[w].reg &&
            (coll_gpu_engine->query(c->maps.own.at[w], c->maps.own.len[w], &now) < 0 ||
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
    memcpy(copy_of(c, rank), post_of(c, rank), coll_gpu_post_nbytes(c->gate->board.team));
    c->maps.version[rank] = version;
    c->run.planned = false;
}

static void use_posts(struct coll_gpu_call *c)
{
    c->maps.in_place = false;
    c->maps.large_pages = c->maps.direct = true;
    for (int r = 0; r < c->gate->board.team->size; r++) {
        const struct coll_gpu_post *post = copy_of(c, r);
        c->maps.word[r] = post->word;
        c->maps.in_place |= post->word & COLL_GPU_IN_PLACE;
        c->maps.offsets[r] = post->publishes ? post->offsets : NULL;
        c->maps.large_pages &= !(post->has & ~post->pages & 1u << COLL_GPU_RECV);
        c->maps.direct &= post->direct || !post->has;
    }
}

/* The address of ranges on a rank without buffers of its own, which has no device and no work: only
 * whether a range exists matters. */
#define SOMEWHERE ((char *)COLL_GPU_RANGES)

/* *at: the address of the range for this rank; NULL: no range. */
static int attach_range(struct coll_gpu_call *c, int w, int rank, char **at)
{
    struct coll_team *t = c->gate->board.team;
    const struct coll_gpu_post *post = copy_of(c, rank);
    *at = NULL;
    if (!(post->has & 1u << w))
        return 0;
    *at = SOMEWHERE;
    if (!c->maps.near)
        return 0;
    *at = (char *)(uintptr_t)c->maps.own.at[w];
    if (rank == t->rank && c->maps.mem[w].at.g == c->maps.near->g)
        return 0;
    int err = t->ops->dev_attach(t, rank, post->key[w], c->maps.near, &c->maps.map[w][rank]);
    *at = err < 0 ? NULL : c->maps.map[w][rank].ptr;
    return err;
}

/* Back-off: after a failed attempt the call is started a second time, so attempts become rarer. */
static void note_reach(struct coll_gpu *g, int err)
{
    enum { FAR_FIRST = 8, FAR_MOST = 4096 };
    if (err == -RT_EUNREACH)
        g->far = g->far_last = !g->far_last                 ? FAR_FIRST
                               : g->far_last < FAR_MOST / 2 ? 2 * g->far_last
                                                            : FAR_MOST;
    else if (err >= 0)
        g->far_last = 0;
}

int coll_gpu_map(struct coll_gpu_call *c)
{
    int size = c->gate->board.team->size, err = 0;
    for (int r = 0; r < size; r++)
        read_post(c, r);
    for (int r = 0; r < size; r++)
        if (copy_of(c, r)->apart)
            return -RT_ENOTSUP;
    if (c->run.planned && c->maps.unpinned && repin_all(c)) {
        note_reach(c->gate, 0);
        return 0; /* the mappings below are unchanged */
    }
    detach_all(c);
    if (!c->run.planned)
        use_posts(c);
    for (int r = 0; r < size; r++)
        for (int w = 0; w < COLL_GPU_RANGES && err >= 0; w++) {
            char *was = c->maps.at[w][r];
            err = attach_range(c, w, r, &c->maps.at[w][r]);
            c->maps.len[w][r] = copy_of(c, r)->len[w];
            c->run.planned = c->run.planned && err >= 0 && was == c->maps.at[w][r];
        }
    note_reach(c->gate, err);
    return err;
}

void coll_gpu_release(struct coll_gpu_call *c)
{
    if (c->run.planned && !is_persistent(c) && !c->maps.unpinned)
        unpin_all(c);
    else if (!c->maps.unpinned)
        detach_all(c);
    release_own(c);
}

void coll_gpu_free(struct coll_gpu_call *c)
{
    detach_all(c);
    for (int w = 0; w < COLL_GPU_RANGES; w++) {
        free(c->maps.map[w]);
        free(c->maps.at[w]);
        free(c->maps.len[w]);
    }
    free(c->maps.word);
    free(c->maps.version);
    free(c->maps.posts);
    free(c->maps.offsets);
    free(c->run.op);
    coll_gpu_free_plan(&c->run.plan);
    rt_reserve_free(c);
}
