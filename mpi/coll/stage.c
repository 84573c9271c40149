/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives with device buffers that are carried out in host memory.  Each side of the call, sent
 * or received, is a list of blocks (coll/args.h).  A side with device memory is replaced by host
 * memory that holds its blocks packed, one after the other.  The algorithms work on the packed
 * blocks, with contiguous layouts of the same size and basic type, and matching displacements.  So
 * the distance between the user's blocks does not matter, and the actions of this process never
 * depend on the memory of other processes.  Input blocks are copied in first; blocks that the call
 * defines are copied out at the end.  The memory between blocks is never touched.
 *
 * The exceptions are operations that must get the elements with their gaps: user functions, and
 * pairs whose C types have a hole.  For them the host memory is a mirror of the only block of a
 * reduction, from its first to its last byte.
 *
 * All copies of a side run at the same time, because the memory is pinned unless it is very long.
 * All other copies, of very long memory and of mirrors, go in parts through a pipeline
 * (mpi/p2p/pipe.h): while the device fills or empties some rooms, the CPU copies another.  No
 * thread waits for the device.  Data in several allocations, and all data where no memory can be
 * pinned, are copied a part or two for each poll, so the domain's lock is never held for more. */
#include "mpi/coll/stage.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "coll/blank.h"
#include "mpi/p2p/device.h"
#include "runtime/base/err.h"
#include "runtime/base/reserve.h"
#include "runtime/layout/pack_gpu.h"

/* Mirrors of this length or more only reserve address space: elements of absolute addresses may
 * span more than the memory of the machine. */
#define RESERVE_FROM (64u << 20)
/* Longer memory is not pinned, because the amount of pinned memory is limited, and is copied
 * through pinned pieces.  Where no memory can be pinned, shorter memory takes that path, too. */
#define PINNED_MAX (32u << 20)
/* The alignment that user functions may expect of a buffer, for host memory too. */
#define ALIGN 16

struct wm_stage_piece {
    struct rt_gpu_op op;
    struct wm_stage *s;
    enum wm_memory memory;
    struct rt_gpu *g;
    int64_t off; /* in the side's host memory */
    /* For a copy in parts: */
    struct wm_stage_piece *next; /* in the list of waiting copies */
    struct coll_block b;
    char *here; /* packed; a mirror: where the block's address would be */
    bool mirror;
    int64_t begun, nbytes;
    bool in;
};

int wm_block_resolve(const struct coll_block *b, struct wm_mem *out)
{
    out->kind = WM_MEMORY_HOST;
    return b->l ? wm_resolve(b->at, b->n, b->l, coll_block_nbytes(b), out) : 0;
}

/* The side's first block in device memory, of which *mem and *err are set, or -1.  One block
 * represents the whole buffer; with absolute addresses, blocks may lie in several buffers. */
static int first_on_device(const struct coll_args *a, const struct coll_team *t,
                           enum coll_side which, struct wm_mem *mem, int *err)
{
    bool absolute = !(which == COLL_RECV ? a->rbuf : a->sbuf);
    for (int i = 0, n = coll_args_uses(t, a, which); i < n; i++) {
        struct coll_block b = coll_args_use(t, a, which, i).b;
        *err = wm_block_resolve(&b, mem);
        if (*err < 0 || mem->kind != WM_MEMORY_HOST)
            return i;
        if (coll_block_nbytes(&b) && !absolute)
            return -1;
    }
    return -1;
}

bool wm_side_on_device(const struct coll_args *a, const struct coll_team *t, enum coll_side which)
{
    struct wm_mem mem;
    int err;
    return first_on_device(a, t, which, &mem, &err) >= 0;
}

/* ---- host memory ---- */

/* Whether the operation must see whole elements. */
static bool needs_mirror(const struct coll_args *a)
{
    return a->op && !a->rtype->contig &&
           (a->op->code == RT_OP_USER || !rt_elem_packs(a->rtype->elem));
}

static struct rt_layout packed_layout(const struct rt_layout *l)
{
    return (struct rt_layout){
        .size = l->size, .extent = l->size, .true_extent = l->size, .contig = true, .elem = l->elem
    };
}

static int make_mirror(struct wm_stage_side *side, const struct coll_block *b)
{
    int64_t step = (b->n - 1) * b->l->extent;
    side->mirror = side->pieces[0].s->in_parts = true;
    side->low = b->l->true_lb + (step < 0 ? step : 0);
    side->low -= ((side->low % ALIGN) + ALIGN) % ALIGN;
    /* Kernels for pairs access whole C structs, including the padding after the last. */
    int64_t high = (step > 0 ? step : 0) + b->l->true_lb + b->l->true_extent;
    side->len = (size_t)(high - side->low + ALIGN);
    if (side->len < RESERVE_FROM) {
        side->mem = malloc(side->len);
        return side->mem ? 0 : -RT_ENOMEM;
    }
    void *p = mmap(NULL, side->len, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    side->mem = p == MAP_FAILED ? NULL : p;
    return side->mem ? 0 : -RT_ENOMEM;
}

static void free_mirror(struct wm_stage_side *side)
{
    if (!side->mirror || !side->mem)
        return;
    if (side->len >= RESERVE_FROM)
        munmap(side->mem, side->len);
    else
        free(side->mem);
}

/* Allocates the description of a side: pieces, and replacements of the vectors. */
static int alloc_side(struct wm_stage *s, enum coll_side which, int n)
{
    struct wm_stage_side *side = &s->side[which];
    bool apart = coll_is_apart(s->user.kind, which),
         each = coll_shape(s->user.kind, which) == COLL_SIDE_TYPES;
    side->n = n;
    side->pieces = rt_reserve_zalloc((size_t)n * sizeof *side->pieces);
    side->displs = apart ? rt_reserve_zalloc((size_t)n * sizeof *side->displs) : NULL;
    side->ls = each ? rt_reserve_zalloc((size_t)n * sizeof *side->ls) : NULL;
    side->types = each ? rt_reserve_zalloc((size_t)n * sizeof *side->types) : NULL;
    return side->pieces && (!apart || side->displs) && (!each || (side->ls && side->types))
               ? 0
               : -RT_ENOMEM;
}

/* Sets the place in host memory of a block in `mem`; *g: a context that can copy, if there is
 * one. */
static void place_block(struct wm_stage_side *side, int i, const struct coll_block *b,
                        const struct wm_mem *mem, struct rt_gpu **g)
{
    struct wm_stage_piece *p = &side->pieces[i];
    int64_t nbytes = coll_block_nbytes(b);
    p->memory = mem->kind;
    p->g = mem->kind == WM_MEMORY_DEVICE ? mem->at.g : NULL;
    p->s->in_parts = p->s->in_parts || (nbytes && !p->g);
    *g = p->g ? p->g : *g;
    p->off = (int64_t)side->len;
    if (side->types) {
        p->off = (p->off + ALIGN - 1) / ALIGN * ALIGN;
        side->displs[i] = p->off;
        side->ls[i] = b->l ? packed_layout(b->l) : (struct rt_layout){ 0 };
        side->types[i] = b->l ? &side->ls[i] : NULL;
    } else if (side->displs) {
        side->displs[i] = nbytes ? p->off / b->l->size : 0;
    }
    side->len = (size_t)(p->off + nbytes);
}

/* Stages the side if it has device memory, or if `always` is set. */
static int make_side(struct wm_stage *s, enum coll_side which, bool always, struct rt_gpu **g)
{
    struct wm_stage_side *side = &s->side[which];
    struct wm_mem mem;
    int err = 0, first = first_on_device(&s->user, s->team, which, &mem, &err);
    int n = first >= 0 || always ? coll_args_uses(s->team, &s->user, which) : 0;
    if (n && err >= 0)
        err = alloc_side(s, which, n);
    for (int i = 0; i < n && !err; i++) {
        struct coll_block b = coll_args_use(s->team, &s->user, which, i).b;
        side->pieces[i].s = s;
        if (i > 0 || first != 0)
            err = wm_block_resolve(&b, &mem);
        if (err < 0)
            break;
        place_block(side, i, &b, &mem, g);
        if (needs_mirror(&s->user))
            err = make_mirror(side, &b);
        else if (b.l)
            side->l = packed_layout(b.l);
    }
    return err;
}

static const struct wm_pipe_ops pipe_ops;

/* Pinned rooms; where no memory can be pinned, others.  Parts of long data have 1 MiB: the CPU
 * copies one within about 100 us, between two polls of the device. */
static int take_rooms(struct wm_stage *s, struct rt_gpu *g)
{
    size_t len = s->side[COLL_SEND].len + s->side[COLL_RECV].len;
    len = len <= RT_GPU_STAGE_SMALL ? RT_GPU_STAGE_SMALL : RT_GPU_STAGE_LARGE;
    s->part_nbytes = (int64_t)len / WM_STAGING_ROOMS;
    s->pipe = (struct wm_pipe){ .ops = &pipe_ops, .rooms.d = wm_main_domain };
    s->last = &s->first;
    if (g && wm_staging_pinned(&s->pipe.rooms, g, s->part_nbytes, WM_STAGING_ROOMS) >= 0)
        return 0;
    return wm_staging_host(&s->pipe.rooms, s->part_nbytes);
}

/* One allocation for the packed blocks of both sides. */
static int alloc_memory(struct wm_stage *s, struct rt_gpu *g)
{
    size_t send = s->side[COLL_SEND].mirror ? 0 : s->side[COLL_SEND].len,
           recv = s->side[COLL_RECV].mirror ? 0 : s->side[COLL_RECV].len;
    size_t second = (send + RT_CACHE_LINE - 1) & ~(size_t)(RT_CACHE_LINE - 1);
    char *mem;
    if (send + recv == 0)
        return 0;
    bool pin = g && second + recv <= PINNED_MAX;
    if (!pin || rt_gpu_stage_take(g, true, second + recv, &s->pinned) < 0) {
        if (!(s->plain = malloc(second + recv)))
            return -RT_ENOMEM;
        s->in_parts = true;
    }
    mem = s->pinned ? s->pinned->p : s->plain;
    if (send)
        s->side[COLL_SEND].mem = mem;
    if (recv)
        s->side[COLL_RECV].mem = mem + second;
    return 0;
}

void wm_stage_destroy(struct wm_stage *s)
{
    for (int i = 0; i < 2; i++) {
        struct wm_stage_side *side = &s->side[i];
        free_mirror(side);
        rt_reserve_free(side->pieces);
        rt_reserve_free(side->displs);
        rt_reserve_free(side->ls);
        rt_reserve_free(side->types);
    }
    if (s->pinned)
        rt_gpu_stage_give(s->pinned);
    wm_staging_give(&s->pipe.rooms);
    free(s->plain);
    rt_reserve_free(s->blank);
    rt_reserve_free(s);
}

/* Without memory for the data: the call is poisoned, and the algorithm gets blank arguments. */
static int make_blank(struct wm_stage *s)
{
    s->err = -RT_ENOMEM;
    s->blank = rt_reserve_alloc(coll_blank_nbytes(s->team, &s->user));
    return s->blank ? 0 : -RT_ENOMEM;
}

int wm_stage_create(const struct coll_args *a, const struct coll_team *t, struct wm_stage **out)
{
    struct wm_stage *s = rt_reserve_zalloc(sizeof *s);
    struct rt_gpu *g = NULL;
    if (!s)
        return -RT_ENOMEM;
    s->user = *a;
    s->team = t;
    bool both = a->op && !a->rtype->contig; /* both sides must have the same layout */
    int err = make_side(s, COLL_SEND, both, &g);
    if (!err)
        err = make_side(s, COLL_RECV, both, &g);
    if (!err)
        err = alloc_memory(s, g);
    if (!err && s->in_parts)
        err = take_rooms(s, g);
    if (err == -RT_ENOMEM)
        err = make_blank(s);
    if (err) {
        wm_stage_destroy(s);
        return err;
    }
    *out = s;
    return 0;
}

void wm_stage_replace(const struct wm_stage *s, struct coll_args *a)
{
    const struct wm_stage_side *send = &s->side[COLL_SEND], *recv = &s->side[COLL_RECV];
    a->mem = RT_MEM_HOST;
    if (s->blank) {
        coll_blank(s->team, a, s->blank);
        return;
    }
    if (send->n) {
        a->sbuf = send->mirror ? (char *)((uintptr_t)send->mem - (uintptr_t)send->low) : send->mem;
        a->sdispls = send->displs;
        a->stypes = send->types;
        if (a->stype && !a->stype->contig && !send->mirror)
            a->stype = &send->l;
        if (a->op && !a->rtype->contig && !send->mirror)
            a->rtype = &send->l;
    }
    if (recv->n) {
        a->rbuf = recv->mirror ? (char *)((uintptr_t)recv->mem - (uintptr_t)recv->low) : recv->mem;
        a->rdispls = recv->displs;
        a->rtypes = recv->types;
        if (a->rtype && !a->rtype->contig && !recv->mirror)
            a->rtype = &recv->l;
    }
}

/* ---- copies ---- */

static void copied(struct rt_gpu_op *op, int err)
{
    struct wm_stage *s = rt_container(op, struct wm_stage_piece, op)->s;
    s->npending--;
    if (err < 0)
        s->err = err;
}

/* Copies part of a block between the user's memory and pinned packed memory. */
static void start_copy(struct rt_gpu *g, const struct coll_block *b, bool in, int64_t at,
                       char *packed, int64_t len, struct rt_gpu_op *op)
{
    char *user = b->at;
    if (in)
        rt_layout_gpu_pack(g, b->l, b->n, user, at, packed, len, op);
    else
        rt_layout_gpu_unpack(g, b->l, b->n, user, at, packed, len, op);
}

/* The next part of the first waiting copy. */
static bool next_part(struct wm_pipe *pipe, struct wm_slot *t)
{
    struct wm_stage *s = rt_container(pipe, struct wm_stage, pipe);
    struct wm_stage_piece *p = s->first;
    if (!p)
        return false;
    t->m = (struct wm_packing){ .l = p->b.l,
                                .count = p->b.n,
                                .user = p->b.at,
                                .pos = p->begun,
                                .len = p->nbytes - p->begun,
                                .pack = p->in };
    if (t->m.len > s->part_nbytes)
        t->m.len = s->part_nbytes;
    t->memory = p->memory;
    t->g = p->g;
    t->up = p;
    p->begun += t->m.len;
    if (p->begun == p->nbytes && !(s->first = p->next))
        s->last = &s->first;
    return true;
}

/* Copies a part between its room and the host memory of its block. */
static int copy_here(struct wm_pipe *pipe, struct wm_slot *t)
{
    const struct wm_stage_piece *p = t->up;
    const struct wm_packing *m = &t->m;
    (void)pipe;
    if (p->mirror && p->in)
        rt_layout_unpack(m->l, m->count, p->here, m->pos, m->packed, m->len);
    else if (p->mirror)
        rt_layout_pack(m->l, m->count, p->here, m->pos, m->packed, m->len);
    else if (p->in)
        memcpy(p->here + m->pos, m->packed, (size_t)m->len);
    else
        memcpy(m->packed, p->here + m->pos, (size_t)m->len);
    return 1;
}

static const struct wm_pipe_ops pipe_ops = { .next = next_part, .move = copy_here };

static void start_in_parts(struct wm_stage *s, struct wm_stage_piece *p)
{
    p->next = NULL;
    p->begun = 0;
    *s->last = p;
    s->last = &p->next;
    wm_pipe_start(&s->pipe);
}

static void copy_block(struct wm_stage *s, const struct wm_stage_side *side,
                       struct wm_stage_piece *p, const struct coll_block *b, int64_t nbytes,
                       bool in)
{
    p->b = *b;
    p->mirror = side->mirror;
    p->here = side->mirror ? (char *)((uintptr_t)side->mem - (uintptr_t)side->low)
                           : side->mem + p->off;
    p->nbytes = nbytes;
    p->in = in;
    if (!p->g || s->plain || side->mirror) {
        start_in_parts(s, p);
        return;
    }
    s->npending++;
    p->op.done = copied;
    start_copy(p->g, b, in, 0, p->here, nbytes, &p->op);
}

void wm_stage_copy(struct wm_stage *s, enum coll_side which, bool in)
{
    const struct wm_stage_side *side = &s->side[which];
    for (int i = 0; i < side->n; i++) {
        struct coll_use u = coll_args_use(s->team, &s->user, which, i);
        if (!(in ? u.in : u.out))
            continue;
        if (!in)
            u.b.n = u.defined;
        int64_t nbytes = coll_block_nbytes(&u.b);
        if (nbytes)
            copy_block(s, side, &side->pieces[i], &u.b, nbytes, in);
    }
}

bool wm_stage_copied(struct wm_stage *s)
{
    struct wm_pipe *p = &s->pipe;
    if (s->npending || p->running)
        rt_gpu_progress();
    if (p->running)
        wm_pipe_step(p);
    if (p->err)
        s->err = p->err;
    return s->npending == 0 && p->running == 0;
}
