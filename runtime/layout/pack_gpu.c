/* SPDX-License-Identifier: BSD-3-Clause */
/* Packing and unpacking device memory.  A layout becomes groups of pieces (gpu_table.h), which one
 * launch of a kernel moves, or the copy engine if there are no kernels.  Few groups are passed as
 * parameters of the kernel; more are in a cached table.  A layout that would need a very large
 * table is moved by blocks, one launch for each block that the range touches.  Under the domain's
 * lock. */
#include "runtime/layout/pack_gpu.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/gpu/pieces.h"
#include "runtime/layout/gpu_table.h"
#include <stdlib.h>
#include <string.h>

/* What to move: packed bytes [pos, pos + len) of repetitions of a list of blocks. */
struct range {
    const struct rt_blocks *b;
    uint64_t user; /* address of the origin of the first repetition; may be 0 */
    int64_t size, extent;
    int64_t pos, len;
    char *packed;
};

struct way {
    struct rt_gpu *g;
    enum rt_gpu_kernel k;
    bool device; /* the packed data are device memory */
};

static struct way way_of(struct rt_gpu *g, enum rt_gpu_kernel k, const struct rt_layout *l,
                         const void *packed)
{
    return (struct way){ g, k, !l->contig && rt_gpu_is_device(packed) };
}

/* A part of the caller's operation, which takes several device operations, or needs a table until
 * it is done. */
struct part {
    struct rt_gpu_op op; /* first member */
    struct job *job;
    struct rt_table *table; /* or NULL */
};
struct job {
    struct part first; /* only its last part frees the job */
    bool first_used;
    struct rt_gpu_op *op; /* the caller's */
    int left;             /* parts in progress, and one while parts are being made */
    int err;
};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- one launch ---- */

#define THREADS 256
/* Least that a block moves: 512 bytes for each warp, 16 for each lane. */
#define BLOCK_NBYTES 4096
#define BLOCKS_PER_SM 4 /* as many as run at the same time */
#define BLOCKS_HOST 32  /* enough for PCIe; leaves the rest of the device to the application */

static unsigned blocks_for(const struct way *w, int64_t len)
{
    int64_t most = rt_gpu_most_blocks(w->g, BLOCKS_PER_SM);

    if (!w->device)
        most = least(most, BLOCKS_HOST);
    return (unsigned)least((len + BLOCK_NBYTES - 1) / BLOCK_NBYTES, most > 0 ? most : 1);
}

/* The piece that contains byte `pos` of an element; returns the bytes left in it. */
static int64_t find_run(const struct rt_groups *groups, int64_t pos, int64_t *left)
{
    uint32_t low = 0, high = groups->n;
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        if (groups->v[mid].first <= pos)
            low = mid;
        else
            high = mid;
    }
    const struct rt_gpu_group *w = &groups->v[low];
    int64_t rep = (pos - w->first) / w->len, in = (pos - w->first) - rep * w->len;
    *left = w->len - in;
    return w->off + rep * w->stride + in;
}

/* The largest unit, at most 16, that divides all addresses and lengths. */
static uint32_t unit_of(const struct range *r, uint64_t bits)
{
    bits |= r->user | (uint64_t)(uintptr_t)r->packed | (uint64_t)r->pos | (uint64_t)r->len | 16;
    if (r->pos + r->len > r->size)
        bits |= (uint64_t)r->extent;
    return (uint32_t)(bits & -bits);
}

static void copy(const struct way *w, uint64_t user, char *packed, int64_t len,
                 struct rt_gpu_op *op)
{
    char *at = (char *)(uintptr_t)user;
    bool pack = w->k == RT_GPU_PACK;
    rt_gpu_copy(w->g, pack ? packed : at, pack ? at : packed, (size_t)len, op);
}

/* Starts an ordinary copy if the range is one piece.  False: it is not. */
static bool copy_alone(const struct way *w, const struct range *r, const struct rt_groups *groups,
                       struct rt_gpu_op *op)
{
    int64_t run, at = find_run(groups, r->pos, &run);
    if (run < r->len)
        return false;
    copy(w, r->user + (uint64_t)at, r->packed, r->len, op);
    return true;
}

static struct rt_gpu_pack params_of(const struct range *r, const struct rt_groups *groups)
{
    return (struct rt_gpu_pack){ .unit = unit_of(r, groups->bits),
                                 .packed = (uintptr_t)r->packed,
                                 .user = r->user,
                                 .pos = r->pos,
                                 .len = r->len,
                                 .size = r->size,
                                 .extent = r->extent,
                                 .ngroups = groups->n };
}

/* Starts the range, which begins in its first repetition.  The groups are in `table`, or they are
 * few. */
static void launch(const struct way *w, const struct range *r, const struct rt_groups *groups,
                   const void *table, struct rt_gpu_op *op)
{
    if (copy_alone(w, r, groups, op))
        return;
    struct rt_gpu_pack p = params_of(r, groups);
    if (table)
        p.table = (uintptr_t)table;
    else
        memcpy(p.inline_groups, groups->v, groups->n * sizeof *groups->v);
    rt_gpu_launch(w->g, w->k, blocks_for(w, r->len), THREADS, &p, sizeof p, op);
}

/* ---- several launches, and tables ---- */

/* The job that is used if there is no memory for a new one. */
static struct job reserve;
static bool reserve_used;

static struct job *job_new(struct rt_gpu_op *op)
{
    struct job *job = malloc(sizeof *job);
    if (!job) {
        while (reserve_used)
            rt_gpu_progress();
        reserve_used = true;
        job = &reserve;
    }
    *job = (struct job){ .op = op, .left = 1 };
    return job;
}

static void part_done(struct rt_gpu_op *op, int err)
{
    struct part *part = (struct part *)op;
    struct job *job = part->job;
    if (part->table)
        rt_table_put(part->table);
    if (part != &job->first)
        free(part);
    job->err = job->err ? job->err : err;
    if (--job->left)
        return;
    struct rt_gpu_op *up = job->op;
    err = job->err;
    if (job == &reserve)
        reserve_used = false;
    else
        free(job);
    up->done(up, err);
}

static struct part *part_new(struct job *job)
{
    struct part *part = job->first_used ? malloc(sizeof *part) : &job->first;
    if (!part) {
        log_error(GPU, "no memory for the description of a copy");
        job->err = -RT_ENOMEM;
        return NULL;
    }
    job->first_used = true;
    *part = (struct part){ .op.done = part_done, .job = job };
    job->left++;
    return part;
}

/* No further parts follow.  rt_gpu_progress() calls done(), even if there were no parts. */
static void job_end(struct rt_gpu *g, struct job *job)
{
    if (--job->left)
        return;
    job->left = 1;
    job->first_used = true;
    job->first = (struct part){ .op.done = part_done, .job = job };
    rt_gpu_copy(g, NULL, NULL, 0, &job->first.op);
}

/* ---- layouts ---- */

/* Changes the range so that it begins in its first repetition. */
static void normalise(struct range *r)
{
    int64_t e = r->pos / r->size;
    r->user += (uint64_t)(e * r->extent);
    r->pos -= e * r->size;
}

/* While the list is repetitions of one smaller list, uses the smaller list. */
static void peel(struct range *r)
{
    normalise(r);
    while (r->b->b && r->b->n == 1 && r->b->b[0].sub) {
        const struct rt_block *b = &r->b->b[0];
        int64_t whole;
        bool goes_on = !__builtin_mul_overflow(b->stride, b->nrep, &whole) && whole == r->extent;
        if (!goes_on && r->pos + r->len > r->size)
            return;
        r->user += (uint64_t)b->off;
        r->size = b->len;
        r->extent = b->stride;
        r->b = b->sub;
        normalise(r);
    }
}

/* Moves by blocks [from, to) of the range's list.  -RT_ENOSPC: too many for a table; all other
 * results are stored in the job. */
static int move_blocks(const struct way *w, const struct range *r, uint32_t from, uint32_t to,
                       struct job *job)
{
    struct rt_table *table;
    int err = rt_table_get(w->g, r->b, from, to, &table);
    if (err == -RT_ENOSPC)
        return err;
    if (err) {
        job->err = err;
        return 0;
    }
    if (table->stage) {
        struct part *part = part_new(job);
        if (part) {
            part->table = table;
            launch(w, r, &table->groups, table->stage->p, &part->op);
            return 0;
        }
    } else {
        const struct rt_gpu_pack p = params_of(r, &table->groups);
        job->err = rt_gpu_pieces_now(w->g, w->k, &p, table->groups.v, w->device);
    }
    rt_table_put(table);
    return 0;
}

static void move_range(const struct way *w, struct range r, struct job *job);

/* Moves one repetition of a list that is too long for a table: groups of blocks that fit, or one
 * block that repeats a list. */
static void move_cut(const struct way *w, const struct range *r, struct job *job)
{
    const struct rt_blocks *b = r->b;
    for (uint32_t from = 0, to; from < b->n && !job->err; from = to) {
        int64_t n = 0, begin = b->first ? b->first[from] : from * b->piece, end;
        if (!b->b) {
            to = (uint32_t)least(b->n, from + (int64_t)RT_TABLE_MAX);
        } else {
            for (to = from; to < b->n; to++) {
                int64_t more = rt_groups_of_block(&b->b[to], RT_TABLE_MAX);
                if (more > (int64_t)RT_TABLE_MAX - n)
                    break;
                n += more;
            }
        }
        bool alone = to == from; /* one block alone is too large */
        to += alone;
        end = b->first ? b->first[to] : to * b->piece;
        if (end <= r->pos || begin >= r->pos + r->len)
            continue;
        struct range some = *r;
        some.pos = r->pos > begin ? r->pos : begin;
        some.len = least(end, r->pos + r->len) - some.pos;
        some.packed += some.pos - r->pos;
        if (alone) {
            const struct rt_block *k = &b->b[from];
            some = (struct range){ k->sub,     r->user + (uint64_t)k->off, k->len,
                                   k->stride,  some.pos - begin,           some.len,
                                   some.packed };
            move_range(w, some, job);
        } else {
            int err = move_blocks(w, &some, from, to, job);
            rt_assert(!err);
            (void)err;
        }
    }
}

static void move_range(const struct way *w, struct range r, struct job *job)
{
    peel(&r);
    if (move_blocks(w, &r, 0, r.b->n, job) != -RT_ENOSPC)
        return;
    while (r.len && !job->err) { /* by repetitions */
        struct range one = r;
        one.len = least(r.len, r.size - r.pos);
        move_cut(w, &one, job);
        r.pos += one.len;
        r.len -= one.len;
        r.packed += one.len;
        normalise(&r);
    }
}

static void start(const struct way *w, const struct rt_layout *l, uint64_t user, int64_t pos,
                  char *packed, int64_t len, struct rt_gpu_op *op)
{
    if (!len || l->contig) {
        copy(w, user + (uint64_t)pos, packed, len, op);
        return;
    }
    struct range r = { l->blocks, user, l->size, l->extent, pos, len, packed };
    struct rt_gpu_group few[RT_GPU_PACK_INLINE];
    struct rt_groups groups;
    peel(&r);
    if (rt_gpu_has_kernels(w->g) && rt_groups_write(r.b, few, RT_GPU_PACK_INLINE, &groups) == 0) {
        launch(w, &r, &groups, NULL, op);
        return;
    }
    struct job *job = job_new(op);
    move_range(w, r, job);
    job_end(w->g, job);
}

void rt_layout_gpu_pack(struct rt_gpu *g, const struct rt_layout *l, int64_t count, const void *buf,
                        int64_t pos, void *packed, int64_t len, struct rt_gpu_op *op)
{
    const struct way w = way_of(g, RT_GPU_PACK, l, packed);
    rt_assert(pos >= 0 && len >= 0 && pos + len <= count * l->size);
    (void)count;
    start(&w, l, (uintptr_t)buf, pos, packed, len, op);
}

void rt_layout_gpu_unpack(struct rt_gpu *g, const struct rt_layout *l, int64_t count, void *buf,
                          int64_t pos, const void *packed, int64_t len, struct rt_gpu_op *op)
{
    const struct way w = way_of(g, RT_GPU_UNPACK, l, packed);
    rt_assert(pos >= 0 && len >= 0 && pos + len <= count * l->size);
    (void)count;
    start(&w, l, (uintptr_t)buf, pos, (char *)(uintptr_t)packed, len, op);
}

/* ---- synchronous calls ---- */

static int move_now(const struct way *w, const struct rt_layout *l, uint64_t user, int64_t pos,
                    char *packed, int64_t len)
{
    struct rt_gpu_wait wait;
    rt_gpu_wait_begin(&wait);
    start(w, l, user, pos, packed, len, &wait.op);
    return rt_gpu_wait(&wait);
}

/* Uses pinned memory if `packed` is other host memory. */
static int now(const struct way *w, const struct rt_layout *l, uint64_t user, int64_t pos,
               char *packed, int64_t len)
{
    const bool pack = w->k == RT_GPU_PACK;
    struct rt_gpu_stage *stage;
    if (!len)
        return 0;
    if (l->contig) {
        char *at = (char *)(uintptr_t)user + pos;
        return rt_gpu_copy_now(w->g, pack ? packed : at, pack ? at : packed, (size_t)len);
    }
    if (w->device)
        return move_now(w, l, user, pos, packed, len);
    int err = rt_gpu_stage_take(w->g, true, (size_t)least(len, RT_GPU_STAGE_LARGE), &stage);
    if (err)
        return err;
    for (int64_t n; len && !err; pos += n, packed += n, len -= n) {
        n = least(len, (int64_t)stage->len);
        if (!pack)
            memcpy(stage->p, packed, (size_t)n);
        err = move_now(w, l, user, pos, stage->p, n);
        if (pack && !err)
            memcpy(packed, stage->p, (size_t)n);
    }
    rt_gpu_stage_give(stage);
    return err;
}

int rt_layout_gpu_pack_now(struct rt_gpu *g, const struct rt_layout *l, int64_t count,
                           const void *buf, int64_t pos, void *packed, int64_t len)
{
    const struct way w = way_of(g, RT_GPU_PACK, l, packed);
    rt_assert(pos >= 0 && len >= 0 && pos + len <= count * l->size);
    (void)count;
    return now(&w, l, (uintptr_t)buf, pos, packed, len);
}

int rt_layout_gpu_unpack_now(struct rt_gpu *g, const struct rt_layout *l, int64_t count, void *buf,
                             int64_t pos, const void *packed, int64_t len)
{
    const struct way w = way_of(g, RT_GPU_UNPACK, l, packed);
    rt_assert(pos >= 0 && len >= 0 && pos + len <= count * l->size);
    (void)count;
    return now(&w, l, (uintptr_t)buf, pos, (char *)(uintptr_t)packed, len);
}

void rt_layout_gpu_fini(void) { rt_table_drop_all(); }
