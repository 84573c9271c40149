/* SPDX-License-Identifier: BSD-3-Clause */
/* Between two barriers the steps of all ranks are executed in a random order that respects only
 * `after`.  Every byte range that a step reads or writes must lie in a range of its rank's view, or
 * in its rank's scratch.  Of any two steps that access the same byte, at least one of them writing,
 * one must wait for the other; any other such pair between the same barriers is a race. */
#include "test/unit/coll_gpu_run.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/err.h"
#include "runtime/gpu/kernel.h"
#include "runtime/reduce/gpu_codes.h"

struct plan_access {
    uintptr_t from, to;
    int rank, step;
    bool writes;
};

static char wrong[200];
#define WRONG(...) (snprintf(wrong, sizeof wrong, __VA_ARGS__), wrong)

static int below(struct plan_world *w, int n) { return (int)((w->draw() >> 20) % (uint64_t)n); }

static void *grown(void *p, size_t nbytes)
{
    p = realloc(p, nbytes);
    if (!p)
        abort();
    return p;
}

/* ---- the world ---- */

void plan_world_begin(struct plan_world *w, int size, uint64_t (*draw)(void))
{
    w->size = size;
    w->draw = draw;
    w->reduces = false;
    w->background = below(w, 4) == 0;
    w->large_pages = below(w, 4) > 0;
    w->direct = below(w, 2) > 0;
    w->in_order = w->background && below(w, 2) > 0;
    w->nmoves = 0;
    w->in_turns = below(w, 3) == 0;
    int ndevices = 1 + below(w, 3);
    for (int i = 0; i < size; i++) {
        w->device[i] = below(w, ndevices);
        struct plan_rank *r = &w->rank[i];
        if (!r->mem) {
            r->mem = grown(NULL, PLAN_ARENA);
            r->before = grown(NULL, PLAN_ARENA);
            r->want = grown(NULL, PLAN_ARENA);
        }
        r->used = 0;
    }
}

void plan_world_end(struct plan_world *w)
{
    for (int i = 0; i < PLAN_RANKS; i++) {
        struct plan_rank *r = &w->rank[i];
        free(r->mem);
        free(r->before);
        free(r->want);
        free(r->sync);
        coll_gpu_free_plan(&r->plan);
    }
    free(w->move);
    free(w->access);
}

char *plan_alloc(struct plan_world *w, int rank, int64_t len, int align)
{
    struct plan_rank *r = &w->rank[rank];
    size_t at = r->used + 1 + (size_t)below(w, 3 * align);
    at = (at + (size_t)align - 1) / (size_t)align * (size_t)align;
    r->used = at + (size_t)len + 16;
    if (r->used > PLAN_ARENA)
        abort();
    return r->mem + at;
}

void plan_expect(struct plan_world *w, char *to, char *from, int64_t len)
{
    if (w->nmoves == w->room) {
        w->room = w->room ? 2 * w->room : 64;
        w->move = grown(w->move, (size_t)w->room * sizeof *w->move);
    }
    w->move[w->nmoves++] = (struct plan_move){ to, from, len };
}

/* The same place in the initial contents, or in the expected ones. */
static char *as(struct plan_world *w, const char *p, bool want)
{
    for (int i = 0; i < w->size; i++) {
        struct plan_rank *r = &w->rank[i];
        if (p >= r->mem && p < r->mem + PLAN_ARENA)
            return (want ? r->want : r->before) + (p - r->mem);
    }
    abort();
}

/* Numbers to be summed and multiplied stay finite: small integers and fractions. */
static void fill(struct plan_world *w)
{
    for (int i = 0; i < w->size; i++) {
        struct plan_rank *r = &w->rank[i];
        for (size_t j = 0; j + 8 <= r->used; j += 8) {
            uint64_t v = w->draw();
            memcpy(r->mem + j, &v, 8);
        }
        for (int64_t j = 0; w->reduces && j < (int64_t)(r->used / 8); j++) {
            float f[2] = { (float)below(w, 1000) / 7, (float)below(w, 1000) / 3 };
            double d = 0.5 + below(w, 1000) / 1000.0;
            if (w->elem == RT_ELEM_F32 || w->elem == RT_ELEM_C32)
                memcpy(r->mem + 8 * j, f, 8);
            else if (w->elem == RT_ELEM_F64 || w->elem == RT_ELEM_C64)
                memcpy(r->mem + 8 * j, &d, 8);
            else if (w->elem == RT_ELEM_F32_I32)
                f[0] = (float)below(w, 3), memcpy(r->mem + 8 * j, f, 4);
            else if (w->elem == RT_ELEM_I32_I32)
                memset(r->mem + 8 * j, below(w, 3), 4);
        }
        memcpy(r->before, r->mem, r->used);
        memcpy(r->want, r->mem, r->used);
    }
}

static void expect(struct plan_world *w)
{
    for (int i = 0; i < w->nmoves; i++) {
        struct plan_move *m = &w->move[i];
        if (m->len)
            memcpy(as(w, m->to, true), as(w, m->from, false), (size_t)m->len);
    }
    rt_reduce_fn *fn = w->reduces ? rt_reduce_find(w->opcode, w->elem) : NULL;
    for (int i = 0; i < w->size && fn; i++) {
        if (w->first[i] >= w->last[i] || !w->len[i])
            continue;
        char *out = as(w, w->output[i], true);
        memcpy(out, as(w, w->input[w->first[i]], false) + w->off[i], (size_t)w->len[i]);
        for (int j = w->first[i] + 1; j < w->last[i]; j++)
            fn(out, as(w, w->input[j], false) + w->off[i], out, w->len[i] / w->elem_len);
    }
}

/* ---- plans ---- */

static bool works(const struct coll_gpu_step *s)
{
    return s->verb == COLL_GPU_FOLD || s->verb == COLL_GPU_COPY;
}

static size_t unit_len(const struct plan_rank *r, int i)
{
    size_t unit = (size_t)coll_gpu_limits.unit, from = (size_t)i * unit;
    return from >= r->own.scratch ? 0 : r->own.scratch - from < unit ? r->own.scratch - from : unit;
}

static bool has_nothing(const struct plan_rank *r) { return !r->own.at[0] && !r->own.at[1]; }

/* The first rank with memory on the device of rank i. */
static int worker_of(const struct plan_world *w, int i)
{
    int j = w->in_turns && !has_nothing(&w->rank[i]) ? 0 : i;
    while (j < i && (w->device[j] != w->device[i] || has_nothing(&w->rank[j])))
        j++;
    return j;
}

static const char *make_plan(struct plan_world *w, int rank)
{
    struct plan_rank *r = &w->rank[rank];
    char *at[COLL_GPU_RANGES][PLAN_RANKS];
    size_t len[COLL_GPU_RANGES][PLAN_RANKS];
    uint64_t word[PLAN_RANKS];
    const uint64_t *offsets[PLAN_RANKS];
    bool nothing = has_nothing(r);
    int worker[PLAN_RANKS];
    for (int i = 0; i < w->size; i++) {
        struct plan_rank *o = &w->rank[i];
        for (int k = 0; k < COLL_GPU_RANGES; k++) {
            at[k][i] = (char *)(uintptr_t)o->own.at[k];
            if (nothing && at[k][i])
                at[k][i] = (char *)2; /* must never be used */
            len[k][i] = o->own.len[k];
        }
        word[i] = o->own.word;
        worker[i] = worker_of(w, i);
        offsets[i] = o->own.publishes ? o->offsets : NULL;
    }
    bool kernels = below(w, 4) > 0;
    if (kernels && r->own.swaps)
        r->own.scratch = 0;
    if (r->own.scratch > (COLL_GPU_PLACES + 1) * (size_t)coll_gpu_limits.unit)
        return WRONG("rank %d wants %zu bytes of scratch", rank, r->own.scratch);
    for (int i = 0; i < PLAN_UNITS; i++) {
        size_t n = unit_len(r, i);
        r->unit[i] = n ? grown(NULL, n) : NULL;
        if (n)
            memset(r->unit[i], below(w, 256), n);
    }
    struct coll_gpu_view v = {
        rank,        w->size, &r->a,   { at[0], at[1] }, { len[0], len[1] }, word,
        offsets,     r->unit, kernels, w->large_pages,   w->direct,          w->background,
        w->in_order, worker
    };
    int err = coll_gpu_make_plan(&v, &r->plan);
    if (err)
        return WRONG("rank %d has no plan: %s", rank, rt_err_text(err));
    for (int i = 0; nothing && i < r->plan.n; i++)
        if (works(&r->plan.step[i]))
            return WRONG("rank %d has nothing and step %d does something", rank, i);
    return NULL;
}

/* ---- the bytes that a step accesses ---- */

static bool inside(uintptr_t from, uintptr_t to, const void *p, size_t len)
{
    return p && from >= (uintptr_t)p && to <= (uintptr_t)p + len;
}

static const char *touch(struct plan_world *w, int rank, int step, const void *p, size_t len,
                         bool writes)
{
    uintptr_t from = (uintptr_t)p, to = from + len;
    bool ok = false;
    for (int i = 0; i < PLAN_UNITS; i++)
        ok = ok || inside(from, to, w->rank[rank].unit[i], unit_len(&w->rank[rank], i));
    for (int i = 0; i < w->size && !ok; i++) {
        const struct coll_gpu_own *o = &w->rank[i].own;
        ok = inside(from, to, o->at[COLL_GPU_RECV], o->len[COLL_GPU_RECV]) ||
             (!writes && inside(from, to, o->at[COLL_GPU_SEND], o->len[COLL_GPU_SEND]));
    }
    if (!ok || !len)
        return WRONG("rank %d, step %d: %zu bytes %s where nothing is", rank, step, len,
                     writes ? "written" : "read");
    if (w->naccess == w->access_room) {
        w->access_room = w->access_room ? 2 * w->access_room : 256;
        w->access = grown(w->access, (size_t)w->access_room * sizeof *w->access);
    }
    w->access[w->naccess++] = (struct plan_access){ from, to, rank, step, writes };
    return NULL;
}

static size_t fold_nbytes(const struct rt_gpu_fold *f)
{
    return f->count * rt_gpu_type_nbytes(f->type);
}

/* Several ranges to as many; two may be exchanged, otherwise no destination is a source. */
static bool is_each(const struct rt_gpu_fold *f)
{
    bool swap = f->nsrc == 2 && f->src[0] == f->dst[1] && f->src[1] == f->dst[0];
    for (int i = 0; i < f->nsrc * f->ndst && !swap; i++)
        if (f->dst[i / f->nsrc] == f->src[i % f->nsrc])
            return false;
    return f->nsrc > 1 && f->ndst == f->nsrc;
}

/* A destination is not a source that is read after the destination was written. */
static bool is_prefixes(const struct rt_gpu_fold *f)
{
    for (int i = 0; i < f->ndst; i++)
        for (int j = 0; j < f->nsrc; j++)
            if (f->dst[i] == f->src[j] && j != i && j != i + 1)
                return false;
    return f->nsrc > 1 && f->ndst == f->nsrc;
}

static const char *touch_fold(struct plan_world *w, int rank, int step)
{
    const struct rt_gpu_fold *f = &w->rank[rank].plan.step[step].fold;
    const char *what = NULL;
    struct rt_op op = { .code = w->opcode };
    struct rt_reduce_gpu g = { 0, RT_GPU_FOLD_COPY };
    if (w->reduces && rt_reduce_gpu(NULL, &op, w->elem, &g) < 0)
        return WRONG("no such operation");
    if (!f->nsrc || f->nsrc > RT_GPU_FOLD_PLACES || !f->ndst || f->ndst > RT_GPU_FOLD_PLACES ||
        (f->code == RT_GPU_FOLD_EACH   ? !is_each(f)
         : f->code == RT_GPU_FOLD_COPY ? f->nsrc != 1
                                       : f->nsrc < 2 || f->code != g.code || f->type != g.type ||
                                             (f->prefixes && !is_prefixes(f))))
        return WRONG("rank %d, step %d: a fold that is none", rank, step);
    for (int i = 0; i < f->nsrc && !what; i++)
        what = touch(w, rank, step, f->src[i], fold_nbytes(f), false);
    for (int i = 0; i < f->ndst && !what; i++)
        what = touch(w, rank, step, f->dst[i], fold_nbytes(f), true);
    for (int i = 0; i < f->ndst && !what; i++)
        if ((uintptr_t)f->dst[i] % rt_gpu_type_nbytes(f->type))
            what = WRONG("rank %d, step %d: destination %d is not aligned", rank, step, i);
    return what;
}

static bool waits_for(const struct coll_gpu_plan *p, int step, int other)
{
    while (step > other)
        step = p->step[step].after;
    return step == other;
}

/* Whether step x, of any rank, has ended when step y begins. */
static bool before(const struct plan_world *w, const struct plan_access *x,
                   const struct plan_access *y)
{
    if (x->rank == y->rank && waits_for(&w->rank[y->rank].plan, y->step, x->step))
        return true;
    int told = w->rank[x->rank].sync[x->step].next_post;
    return told > 0 && told <= w->rank[y->rank].sync[y->step].awaited;
}

/* A step may read what it writes itself, at exactly the same place. */
static bool race(const struct plan_world *w, const struct plan_access *a,
                 const struct plan_access *b)
{
    if (!a->writes && !b->writes)
        return false;
    if (a->rank == b->rank && a->step == b->step)
        return (a->writes && b->writes) || a->from != b->from;
    return !before(w, a, b) && !before(w, b, a);
}

static int by_place(const void *a, const void *b)
{
    const struct plan_access *x = a, *y = b;
    return x->from < y->from ? -1 : x->from > y->from;
}

static const char *look_for_races(struct plan_world *w)
{
    if (w->naccess)
        qsort(w->access, (size_t)w->naccess, sizeof *w->access, by_place);
    for (int i = 0; i < w->naccess; i++)
        for (int j = i + 1; j < w->naccess && w->access[j].from < w->access[i].to; j++)
            if (race(w, &w->access[i], &w->access[j]))
                return WRONG("step %d of rank %d and step %d of rank %d race", w->access[i].step,
                             w->access[i].rank, w->access[j].step, w->access[j].rank);
    return NULL;
}

/* ---- execution ---- */

static void do_fold(struct plan_world *w, const struct rt_gpu_fold *f)
{
    size_t nbytes = fold_nbytes(f);
    char *acc = grown(NULL, nbytes);
    char *next = grown(NULL, nbytes);
    memcpy(acc, f->src[0], nbytes);
    for (int i = 1; i < f->nsrc; i++) {
        memcpy(next, f->src[i], nbytes);
        if (f->prefixes)
            memcpy(f->dst[i - 1], acc, nbytes);
        rt_reduce_find(w->opcode, w->elem)(acc, next, acc, (int64_t)f->count);
    }
    for (int i = f->prefixes ? f->ndst - 1 : 0; i < f->ndst; i++)
        memcpy(f->dst[i], acc, nbytes);
    free(acc);
    free(next);
}

static void do_each(const struct rt_gpu_fold *f)
{
    size_t nbytes = fold_nbytes(f);
    char *first = grown(NULL, nbytes);
    memcpy(first, f->src[0], nbytes);
    for (int i = 1; i < f->nsrc; i++)
        memmove(f->dst[i], f->src[i], nbytes);
    memcpy(f->dst[0], first, nbytes);
    free(first);
}

static void do_step(struct plan_world *w, const struct coll_gpu_step *s)
{
    if (s->verb == COLL_GPU_FOLD && s->fold.code == RT_GPU_FOLD_EACH)
        do_each(&s->fold);
    else if (s->verb == COLL_GPU_FOLD)
        do_fold(w, &s->fold);
    else
        memcpy(s->copy.dst, s->copy.src, s->copy.len);
}

static bool posts(const struct coll_gpu_step *s)
{
    return s->verb == COLL_GPU_POST || s->verb == COLL_GPU_BARRIER;
}

/* Reads the posts of each step; returns the total number of posts. */
static int read_posts(struct plan_rank *r)
{
    int posted = 0, awaited = 0;
    if (r->plan.n > r->room) {
        r->room = 2 * r->plan.n;
        r->sync = grown(r->sync, (size_t)r->room * sizeof *r->sync);
    }
    for (int i = 0; i < r->plan.n; i++) {
        const struct coll_gpu_step *s = &r->plan.step[i];
        posted += posts(s);
        if (s->verb == COLL_GPU_AWAIT || s->verb == COLL_GPU_BARRIER) {
            bool right = s->verb == COLL_GPU_AWAIT || s->posts == posted;
            awaited = right && s->posts > awaited ? s->posts : awaited;
        }
        r->sync[i] = (struct plan_sync){ .awaited = awaited };
    }
    int number = 0;
    for (int i = 0; i < r->plan.n; i++) {
        const struct coll_gpu_step *s = &r->plan.step[i];
        number += posts(s);
        for (int j = 0; j < i && posts(s); j++) /* the first post that announces its end */
            if (!r->sync[j].next_post && (s->after < 0 || waits_for(&r->plan, s->after, j)))
                r->sync[j].next_post = number;
    }
    return posted;
}

static const char *touch_step(struct plan_world *w, int rank, int step)
{
    const struct plan_rank *r = &w->rank[rank];
    const struct coll_gpu_step *s = &r->plan.step[step];
    if (!works(s) && s->verb != COLL_GPU_POST)
        return NULL;
    if (s->after != -1 && (s->after < 0 || s->after >= step || !works(&r->plan.step[s->after])))
        return WRONG("rank %d, step %d waits for step %d", rank, step, s->after);
    if (!works(s))
        return NULL;
    if (s->verb == COLL_GPU_FOLD)
        return touch_fold(w, rank, step);
    const char *what = touch(w, rank, step, s->copy.src, s->copy.len, false);
    return what ? what : touch(w, rank, step, s->copy.dst, s->copy.len, true);
}

static const char *touch_all(struct plan_world *w)
{
    const char *what = NULL;
    w->naccess = 0;
    for (int i = 0; i < w->size && !what; i++) {
        struct plan_rank *r = &w->rank[i];
        int posted = read_posts(r);
        if (i && posted != w->rank[0].nposts)
            return WRONG("rank %d posts %d times, rank 0 %d times", i, posted, w->rank[0].nposts);
        r->nposts = posted;
        if (r->plan.n && r->sync[r->plan.n - 1].awaited > posted)
            return WRONG("rank %d awaits what never comes", i);
        for (int j = 0; j < r->plan.n && !what; j++)
            what = touch_step(w, i, j);
    }
    return what ? what : look_for_races(w);
}

static int next_post(const struct plan_rank *r)
{
    int i = r->said;
    while (i < r->plan.n && !posts(&r->plan.step[i]))
        i++;
    return i;
}

static bool may_post(const struct plan_rank *r, int i)
{
    int after = r->plan.step[i].after;
    return after >= 0 ? r->sync[after].ended : r->told > i;
}

/* Makes posts that are due, and sets how far the list may be executed. */
static bool advance(struct plan_world *w, struct plan_rank *r)
{
    bool any = false;
    while (r->told < r->plan.n && (r->sync[r->told].ended || !works(&r->plan.step[r->told]))) {
        r->told++;
        any = true;
    }
    for (int i; (i = next_post(r)) < r->plan.n && may_post(r, i); any = true) {
        r->said = i + 1;
        r->posted++;
    }
    int all = r->posted;
    for (int i = 0; i < w->size; i++)
        all = w->rank[i].posted < all ? w->rank[i].posted : all;
    while (r->open < r->plan.n && r->sync[r->open].awaited <= all) {
        r->open++;
        any = true;
    }
    return any;
}

/* Executes any step of a rank that is ready. */
static bool advance_step(struct plan_world *w, struct plan_rank *r)
{
    for (int k = 0, from = r->open ? below(w, r->open) : 0; k < r->open; k++) {
        int j = (from + k) % r->open;
        const struct coll_gpu_step *s = &r->plan.step[j];
        if (!works(s) || r->sync[j].ended || (s->after >= 0 && !r->sync[s->after].ended))
            continue;
        do_step(w, s);
        r->sync[j].ended = true;
        return true;
    }
    return false;
}

/* Picks a random rank each time, or runs one rank as long as possible, then the next. */
static const char *run_plans(struct plan_world *w)
{
    const char *what = touch_all(w);
    if (what)
        return what;
    int idle = 0, at = 0;
    bool favour = below(w, 4) == 0;
    for (int i = 0; i < w->size; i++)
        w->rank[i].told = w->rank[i].open = w->rank[i].posted = w->rank[i].said = 0;
    while (idle <= w->size) {
        struct plan_rank *r = &w->rank[favour || idle ? at : below(w, w->size)];
        bool any = advance(w, r), did = advance_step(w, r);
        idle = any || did ? 0 : idle + 1;
        at = idle ? (at + 1) % w->size : at;
    }
    for (int i = 0; i < w->size; i++)
        if (w->rank[i].told < w->rank[i].plan.n)
            return WRONG("rank %d never gets beyond step %d", i, w->rank[i].told);
    return NULL;
}

static const char *compare(struct plan_world *w)
{
    for (int i = 0; i < w->size; i++) {
        const struct plan_rank *r = &w->rank[i];
        if (!memcmp(r->mem, r->want, r->used))
            continue;
        size_t j = 0;
        while (r->mem[j] == r->want[j])
            j++;
        return WRONG("byte %zu of rank %d, %s, is wrong", j, i,
                     r->want[j] == r->before[j] ? "which must not change" : "a result");
    }
    return NULL;
}

static void describe(struct plan_world *w, const char **what)
{
    for (int i = 0; i < w->size && !*what; i++) {
        struct coll_team t = { .rank = i, .size = w->size };
        struct plan_rank *r = &w->rank[i];
        memset(r->unit, 0, sizeof r->unit);
        int err = coll_gpu_own(&t, &r->a, &r->own, r->offsets);
        if (err)
            *what = WRONG("rank %d cannot be described: %s", i, rt_err_text(err));
    }
}

static void free_units(struct plan_world *w)
{
    for (int i = 0; i < w->size; i++)
        for (int k = 0; k < PLAN_UNITS; k++)
            free(w->rank[i].unit[k]);
}

const char *plan_world_plan(struct plan_world *w, int *nerr)
{
    const char *what = NULL, *last = NULL;
    describe(w, &what);
    for (int i = 0; i < w->size && !what; i++) {
        const char *wrong_here = make_plan(w, i);
        *nerr += wrong_here != NULL;
        last = wrong_here ? wrong_here : last;
    }
    free_units(w);
    return what ? what : last;
}

const char *plan_world_run(struct plan_world *w)
{
    const char *what = NULL;
    fill(w);
    expect(w);
    describe(w, &what);
    for (int i = 0; i < w->size && !what; i++)
        what = make_plan(w, i);
    if (!what)
        what = run_plans(w);
    free_units(w);
    return what ? what : compare(w);
}
