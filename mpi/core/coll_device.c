/* SPDX-License-Identifier: BSD-3-Clause */
/* Device buffers in collective calls that are carried out in host memory.  Each side of the call,
 * sent or received, is a list of blocks (coll_blocks.c).  A side with device memory is replaced by
 * host memory in which its blocks lie one after the other, packed; the algorithms see that, with
 * contiguous layouts of the same size and basic type, and displacements to match.  So it does not
 * matter how far apart the user's blocks are, and what this process does never depends on the other
 * processes' memory.  Blocks that are input are copied in first, those that the call defines are
 * copied out at the end; what lies between blocks is never touched.
 *
 * The exceptions are operations that must see elements as they are, with their gaps: functions of
 * the user and pairs whose C types have a hole.  For those the host memory is a mirror of the one
 * block that a reduction has, from its first to its last byte.
 *
 * A stage belongs to one run of a task.  All copies of a side are under way at once when the host
 * memory is pinned, which it is up to a staging buffer's length; the algorithm is begun at once, so
 * that calls are numbered in their order, and makes its first step when the input is there.  A
 * failed copy does not keep the others waiting: the algorithm runs, and the error is this
 * process's. */
#include "mpi/core/coll_device.h"
#include <stdlib.h>
#include <sys/mman.h>
#include "mpi/core/coll_blocks.h"
#include "mpi/p2p/device.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/layout/gpu.h"

/* Mirrors from this length on are only reserved: elements of absolute addresses may span more than
 * the machine has. */
#define RESERVE_FROM (64u << 20)
/* Data with gaps go to and from a mirror in pieces. */
#define PIECE (1 << 20)
/* What user functions may expect of a buffer's alignment holds for host memory, too. */
#define ALIGN 16

struct stage;

struct piece { /* a block's copy */
    struct rt_gpu_op op;
    struct stage *s;
    struct rt_gpu *g; /* NULL: host memory, or data in several allocations */
    int64_t off;      /* in the side's host memory */
};

struct side {
    int n;                /* blocks; 0: the side is not staged */
    struct piece *pieces; /* [n] */
    char *mem;            /* packed blocks; or the mirror of block 0, owned */
    bool mirror;
    int64_t low;             /* mirror: offset of its first byte from the block's address */
    size_t len;              /* bytes of mem */
    struct rt_layout l, *ls; /* of all blocks; w forms: of each */
    const struct rt_layout **types;
    int64_t *displs;
};

enum phase { COPY_IN, RUN, COPY_OUT };

struct stage {
    struct coll_args user; /* as the call gave them; vectors and layouts are the call's */
    struct wm_comm *comm;
    struct side side[2];
    struct rt_gpu_stage *pinned; /* owned; NULL: `plain` */
    char *plain;                 /* owned */
    int npending;                /* copies under way */
    int err;                     /* of a copy */
    bool abandoned;              /* messages may still be under way into this memory */
    enum phase phase;
    int (*step)(struct coll_task *k); /* the algorithm's own */
    void (*cleanup)(struct coll_task *k);
    struct rt_req *msg[2]; /* a team of one: what it sends itself */
};

/* ---- looking ---- */

static bool is_device(const struct wm_block *b)
{
    return b->l && wm_on_device((const void *)b->at, b->n, b->l, wm_block_nbytes(b));
}

/* One block tells for all of a buffer; absolute addresses may lie in several. */
static bool side_is_device(const struct coll_args *a, const struct wm_comm *c, enum wm_side which)
{
    bool absolute = !(which == WM_RECV ? a->rbuf : a->sbuf);
    for (int i = 0, n = wm_blocks_of(a, c, which); i < n; i++) {
        struct wm_block b = wm_block_at(a, c, which, i);
        if (is_device(&b))
            return true;
        if (b.l && wm_block_nbytes(&b) && !absolute)
            return false;
    }
    return false;
}

static int check_side(const struct coll_args *a, const struct wm_comm *c, enum wm_side which)
{
    struct rt_gpu_ptr at;
    bool scattered;
    int err = 0;
    for (int i = 0, n = wm_blocks_of(a, c, which); i < n && err >= 0; i++) {
        struct wm_block b = wm_block_at(a, c, which, i);
        if (is_device(&b))
            err = wm_dev_query((const void *)b.at, b.n, b.l, &at, &scattered);
    }
    return err;
}

int wm_coll_look(struct wm_call *call)
{
    struct coll_args *a = &call->args;
    const struct wm_comm *c = call->comm;
    if (a->kind == COLL_BARRIER)
        return 0;
    if (a->neighbors) {
        int err = check_side(a, c, WM_SEND);
        return err < 0 ? err : check_side(a, c, WM_RECV);
    }
    if (side_is_device(a, c, WM_RECV) || side_is_device(a, c, WM_SEND))
        a->mem = RT_MEM_CUDA;
    return 0;
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

static int make_mirror(struct side *side, const struct wm_block *b)
{
    int64_t step = (b->n - 1) * b->l->extent;
    side->mirror = true;
    side->low = b->l->true_lb + (step < 0 ? step : 0);
    side->low -= ((side->low % ALIGN) + ALIGN) % ALIGN;
    /* Kernels of pairs touch whole C structs, the padding behind the last one too. */
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

static void free_mirror(struct side *side)
{
    if (!side->mirror || !side->mem)
        return;
    if (side->len >= RESERVE_FROM)
        munmap(side->mem, side->len);
    else
        free(side->mem);
}

/* Room for what describes a side: pieces, and what replaces the vectors. */
static int alloc_side(struct stage *s, enum wm_side which, int n)
{
    struct side *side = &s->side[which];
    bool apart = wm_blocks_apart(s->user.kind, which), each = s->user.kind == COLL_ALLTOALLW;
    side->n = n;
    side->pieces = calloc((size_t)n, sizeof *side->pieces);
    side->displs = apart ? calloc((size_t)n, sizeof *side->displs) : NULL;
    side->ls = each ? calloc((size_t)n, sizeof *side->ls) : NULL;
    side->types = each ? calloc((size_t)n, sizeof *side->types) : NULL;
    return side->pieces && (!apart || side->displs) && (!each || (side->ls && side->types))
               ? 0
               : -RT_ENOMEM;
}

/* Asks about the block and says where it will lie; *g: a context that can copy, if there is one. */
static int place_block(struct side *side, int i, const struct wm_block *b, struct rt_gpu **g)
{
    struct piece *p = &side->pieces[i];
    int64_t nbytes = b->l ? wm_block_nbytes(b) : 0;
    struct rt_gpu_ptr at;
    bool scattered = true;
    if (nbytes && is_device(b)) {
        int err = wm_dev_query((const void *)b->at, b->n, b->l, &at, &scattered);
        if (err < 0)
            return err;
    }
    p->g = scattered ? NULL : at.g;
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
    return 0;
}

static int make_side(struct stage *s, enum wm_side which, struct rt_gpu **g)
{
    struct side *side = &s->side[which];
    int n = wm_blocks_of(&s->user, s->comm, which);
    int err = n ? alloc_side(s, which, n) : 0;
    for (int i = 0; i < n && !err; i++) {
        struct wm_block b = wm_block_at(&s->user, s->comm, which, i);
        side->pieces[i].s = s;
        err = place_block(side, i, &b, g);
        if (!err && needs_mirror(&s->user))
            err = make_mirror(side, &b);
        else if (b.l)
            side->l = packed_layout(b.l);
    }
    return err;
}

/* One piece of memory for the packed blocks of both sides. */
static int alloc_memory(struct stage *s, struct rt_gpu *g)
{
    size_t send = s->side[WM_SEND].mirror ? 0 : s->side[WM_SEND].len,
           recv = s->side[WM_RECV].mirror ? 0 : s->side[WM_RECV].len;
    size_t second = (send + RT_CACHE_LINE - 1) & ~(size_t)(RT_CACHE_LINE - 1);
    char *mem;
    if (send + recv == 0)
        return 0;
    if (g && second + recv <= RT_GPU_STAGE_LARGE &&
        rt_gpu_stage_take(g, true, second + recv, &s->pinned) >= 0) {
        mem = s->pinned->p;
    } else {
        s->pinned = NULL;
        mem = s->plain = malloc(second + recv);
        if (!mem)
            return -RT_ENOMEM;
    }
    if (send)
        s->side[WM_SEND].mem = mem;
    if (recv)
        s->side[WM_RECV].mem = mem + second;
    return 0;
}

static void destroy(struct stage *s)
{
    for (int i = 0; i < 2; i++) {
        struct side *side = &s->side[i];
        if (!s->abandoned)
            free_mirror(side);
        free(side->pieces);
        free(side->displs);
        free(side->ls);
        free(side->types);
    }
    if (!s->abandoned) {
        if (s->pinned)
            rt_gpu_stage_give(s->pinned);
        free(s->plain);
    }
    free(s);
}

static int create(const struct coll_args *a, struct wm_comm *c, struct stage **out)
{
    struct stage *s = calloc(1, sizeof *s);
    struct rt_gpu *g = NULL;
    if (!s)
        return -RT_ENOMEM;
    s->user = *a;
    s->comm = c;
    bool send = side_is_device(a, c, WM_SEND), recv = side_is_device(a, c, WM_RECV);
    if (a->op && !a->rtype->contig) /* one layout for both */
        send = recv = true;
    int err = send ? make_side(s, WM_SEND, &g) : 0;
    if (recv && !err)
        err = make_side(s, WM_RECV, &g);
    if (!err)
        err = alloc_memory(s, g);
    if (err) {
        destroy(s);
        return err;
    }
    *out = s;
    return 0;
}

/* What the algorithms see instead of the user's buffers. */
static void replace(const struct stage *s, struct coll_args *a)
{
    const struct side *send = &s->side[WM_SEND], *recv = &s->side[WM_RECV];
    a->mem = RT_MEM_HOST;
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
    struct stage *s = rt_container(op, struct piece, op)->s;
    s->npending--;
    if (err < 0)
        s->err = err;
}

/* Between the user's block and a mirror, which is not packed. */
static int copy_mirrored(const struct side *side, const struct wm_block *b, int64_t nbytes, bool in)
{
    char *packed = malloc(PIECE);
    void *user = (void *)b->at, *here = (void *)((uintptr_t)side->mem - (uintptr_t)side->low);
    int err = packed ? 0 : -RT_ENOMEM;
    for (int64_t pos = 0; pos < nbytes && err >= 0; pos += PIECE) {
        int64_t len = nbytes - pos < PIECE ? nbytes - pos : PIECE;
        if (in) {
            err = wm_pack_now(b->l, b->n, user, pos, packed, len);
            if (err >= 0)
                rt_layout_unpack(b->l, b->n, here, pos, packed, len);
        } else {
            rt_layout_pack(b->l, b->n, here, pos, packed, len);
            err = wm_unpack_now(b->l, b->n, user, pos, packed, len);
        }
    }
    free(packed);
    return err;
}

static int copy_block(struct stage *s, const struct side *side, struct piece *p,
                      const struct wm_block *b, int64_t nbytes, bool in)
{
    char *user = (char *)b->at, *here = side->mem + p->off;
    if (side->mirror)
        return copy_mirrored(side, b, nbytes, in);
    if (!p->g || !s->pinned)
        return in ? wm_pack_now(b->l, b->n, user, 0, here, nbytes)
                  : wm_unpack_now(b->l, b->n, user, 0, here, nbytes);
    s->npending++;
    p->op.done = copied;
    if (b->l->contig)
        rt_gpu_copy(p->g, in ? here : user, in ? user : here, (size_t)nbytes, &p->op);
    else if (in)
        rt_layout_gpu_pack(p->g, b->l, b->n, user, 0, here, nbytes, &p->op);
    else
        rt_layout_gpu_unpack(p->g, b->l, b->n, user, 0, here, nbytes, &p->op);
    return 0;
}

static void copy_side(struct stage *s, enum wm_side which, bool in)
{
    const struct side *side = &s->side[which];
    for (int i = 0; i < side->n; i++) {
        struct wm_block b = wm_block_at(&s->user, s->comm, which, i);
        if (!(in ? b.in : b.out) || !b.l)
            continue;
        if (!in)
            b.n = wm_block_defined(&s->user, s->comm, &b);
        int64_t nbytes = wm_block_nbytes(&b);
        int err = nbytes ? copy_block(s, side, &side->pieces[i], &b, nbytes, in) : 0;
        if (err < 0)
            s->err = err;
    }
}

static bool copies_ended(const struct stage *s)
{
    if (s->npending)
        rt_gpu_progress();
    return s->npending == 0;
}

/* ---- tasks ---- */

static int staged_step(struct coll_task *k);
static void staged_cleanup(struct coll_task *k);

/* The algorithm's step, which may change what comes next. */
static int inner_step(struct coll_task *k)
{
    struct stage *s = k->up;
    k->step = s->step;
    k->cleanup = s->cleanup;
    int rc = k->step(k);
    s->step = k->step;
    s->cleanup = k->cleanup;
    k->step = staged_step;
    k->cleanup = staged_cleanup;
    if (rc < 0)
        s->abandoned = true;
    return rc;
}

static int staged_step(struct coll_task *k)
{
    struct stage *s = k->up;
    if (s->phase == COPY_IN) {
        if (!copies_ended(s))
            return 0;
        s->phase = RUN;
    }
    if (s->phase == RUN) {
        int rc = inner_step(k);
        if (rc <= 0)
            return rc;
        if (s->err == 0)
            copy_side(s, WM_RECV, false);
        s->phase = COPY_OUT;
    }
    if (!copies_ended(s))
        return 0;
    return s->err < 0 ? s->err : 1;
}

static void staged_cleanup(struct coll_task *k)
{
    struct stage *s = k->up;
    if (s->cleanup)
        s->cleanup(k);
    k->args = s->user;
    k->up = NULL;
    destroy(s);
}

/* ---- a team of one ---- */

static int alone_step(struct coll_task *k)
{
    struct stage *s = k->up;
    int err = 0;
    for (int i = 0; i < 2; i++)
        if (s->msg[i] && !rt_req_done(s->msg[i]))
            return 0;
    for (int i = 0; i < 2; i++) {
        if (!s->msg[i])
            continue;
        err = s->msg[i]->err < 0 ? s->msg[i]->err : err;
        k->team->ops->release(k->team, s->msg[i]);
    }
    return err < 0 ? err : 1;
}

static void alone_cleanup(struct coll_task *k)
{
    free(k->up);
    k->up = NULL;
}

static int nothing(struct coll_task *k)
{
    (void)k;
    return 1;
}

/* What would be sent to itself is a message, which knows buffers of all kinds. */
static int start_alone(struct coll_team *t, struct coll_task *k)
{
    const struct coll_args *a = &k->args;
    struct wm_comm *c = t->arg;
    k->step = nothing;
    k->cleanup = NULL;
    k->state = NULL;
    k->alg = NULL;
    int err = check_side(a, c, WM_SEND);
    if (err >= 0)
        err = check_side(a, c, WM_RECV);
    if (err < 0 || a->kind == COLL_BCAST || a->kind == COLL_EXSCAN ||
        !wm_blocks_of(a, c, WM_SEND) || !wm_blocks_of(a, c, WM_RECV))
        return err;
    struct wm_block from = wm_block_at(a, c, WM_SEND, 0), to = wm_block_at(a, c, WM_RECV, 0);
    if (!from.l || !to.l)
        return 0;
    struct stage *s = calloc(1, sizeof *s);
    if (!s)
        return -RT_ENOMEM;
    k->up = s;
    err = t->ops->irecv(t, (void *)to.at, to.n, to.l, 0, k->tag, &s->msg[0]);
    if (err >= 0)
        err = t->ops->isend(t, (const void *)from.at, from.n, from.l, 0, k->tag, &s->msg[1]);
    if (err < 0) { /* of memory: a receive that is posted stays so */
        alone_cleanup(k);
        return err;
    }
    k->step = alone_step;
    k->cleanup = alone_cleanup;
    return 0;
}

/* ---- the calls ---- */

static void say_once(enum coll_kind kind)
{
    static bool said;
    if (!said)
        log_info(MPI, "device buffers of collectives, such as %s, are copied through host memory",
                 coll_kind_names[kind]);
    said = true;
}

int wm_coll_stage(struct coll_team *t, struct coll_task *k)
{
    struct stage *s;
    if (t->size == 1 && !t->local)
        return start_alone(t, k);
    int err = create(&k->args, t->arg, &s);
    if (err < 0)
        return err;
    replace(s, &k->args);
    err = coll_begin_host(k);
    if (err < 0) {
        k->args = s->user;
        destroy(s);
        return err;
    }
    say_once(k->args.kind);
    s->step = k->step;
    s->cleanup = k->cleanup;
    k->step = staged_step;
    k->cleanup = staged_cleanup;
    k->up = s;
    copy_side(s, WM_SEND, true);
    copy_side(s, WM_RECV, true);
    return 0;
}

static int copies_wait(struct stage *s)
{
    while (!copies_ended(s))
        ;
    return s->err;
}

int wm_coll_reduce_local(const struct rt_op *op, const void *in, void *inout, int64_t count,
                         const struct rt_layout *l)
{
    struct coll_args a = { .kind = COLL_ALLREDUCE, .sbuf = in, .rbuf = inout, .op = op };
    a.scount = a.rcount = count;
    a.stype = a.rtype = l;
    struct coll_args here = a;
    struct stage *s;
    struct rt_lock *lock = &wm_main_domain->lock;
    int64_t nbytes = count * l->size;
    if (!wm_on_device(in, count, l, nbytes) && !wm_on_device(inout, count, l, nbytes))
        return rt_reduce_apply(op, in, inout, count, l);
    rt_lock(lock);
    int err = create(&a, NULL, &s);
    if (err < 0) {
        rt_unlock(lock);
        return err;
    }
    replace(s, &here);
    copy_side(s, WM_SEND, true);
    s->user.sbuf = COLL_IN_PLACE; /* the result's buffer is input, too */
    copy_side(s, WM_RECV, true);
    err = copies_wait(s);
    rt_unlock(lock); /* the operation may be the user's */
    if (err >= 0)
        err = rt_reduce_apply(op, here.sbuf, here.rbuf, count, here.rtype);
    rt_lock(lock);
    if (err >= 0) {
        copy_side(s, WM_RECV, false);
        err = copies_wait(s);
    }
    destroy(s);
    rt_unlock(lock);
    return err;
}
