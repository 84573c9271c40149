/* SPDX-License-Identifier: BSD-3-Clause */
/* Device buffers in collective calls.  Each side of the call, sent or received, is a list of
 * blocks.  A side with device memory gets a mirror: host memory that stands for the user's
 * addresses from its first to its last byte, and the algorithms see that, with the same layouts.
 * So what this process does never depends on the other processes' memory.  Blocks that are input
 * are copied in before each start, those that the call defines are copied out at the end; what
 * lies between blocks is never touched.  Slow, but every collective and form of it works.
 *
 * A stage belongs to one call or persistent request.  Under the domain's lock. */
#include "mpi/core/coll_device.h"
#include <stdlib.h>
#include <sys/mman.h>
#include "mpi/p2p/device.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

/* Mirrors from this length on are only reserved: blocks that are far apart, such as those of
 * absolute addresses, may span more than the machine has. */
#define RESERVE_FROM (64u << 20)
/* Data with gaps are packed in between, in pieces. */
#define PIECE (1 << 20)
/* What user functions may expect of a buffer's alignment holds for the mirror, too. */
#define MIRROR_ALIGN 16u

struct block {
    const struct rt_layout *l;
    int64_t n;
    uintptr_t at; /* the user's */
};

struct side {
    char *mirror;  /* owned; NULL: host memory, which is used itself */
    uintptr_t low; /* the user's address that `mirror` stands for */
    size_t len;
    bool in, out; /* what is copied */
};

enum { SEND, RECV };

struct wm_coll_stage {
    struct coll_args user; /* as the call gave them; vectors and layouts are the call's */
    const struct wm_comm *comm;
    struct side side[2];
    char *packed;                     /* owned; NULL: no block has gaps */
    int (*step)(struct coll_task *k); /* of the task that is being followed */
};

/* ---- which blocks a call has ---- */

static bool is_vector(enum coll_kind kind, int which)
{
    switch (kind) {
    case COLL_ALLTOALLV:
    case COLL_ALLTOALLW:
    case COLL_NEIGHBOR_ALLTOALLV:
    case COLL_NEIGHBOR_ALLTOALLW:
        return true;
    case COLL_GATHERV:
    case COLL_ALLGATHERV:
    case COLL_NEIGHBOR_ALLGATHERV:
        return which == RECV;
    default:
        return kind == COLL_SCATTERV && which == SEND;
    }
}

/* Equal blocks side by side, one a process; a neighbour that does not exist has none. */
static bool is_row(enum coll_kind kind, int which)
{
    if (kind == COLL_ALLTOALL || kind == COLL_NEIGHBOR_ALLTOALL)
        return true;
    return which == RECV
               ? kind == COLL_GATHER || kind == COLL_ALLGATHER || kind == COLL_NEIGHBOR_ALLGATHER
               : kind == COLL_SCATTER;
}

/* Whether this process uses the buffer at all. */
static bool is_used(const struct wm_coll_stage *s, int which)
{
    const struct coll_args *a = &s->user;
    if (a->kind == COLL_BARRIER || (which == RECV ? a->rbuf : a->sbuf) == COLL_IN_PLACE)
        return false;
    if (a->kind == COLL_REDUCE && which == RECV)
        return wm_call_root(s->comm, a->root);
    return which == RECV ? a->rtype || a->rtypes : a->stype || a->stypes;
}

static int nblocks(const struct wm_coll_stage *s, int which)
{
    const struct coll_args *a = &s->user;
    if (!is_used(s, which))
        return 0;
    if (!is_vector(a->kind, which) && !(a->neighbors && is_row(a->kind, which)))
        return 1;
    if (a->neighbors)
        return which == RECV ? a->neighbors->nsources : a->neighbors->ndestinations;
    return s->comm->remote->size;
}

/* Elements of a side that is one block.  Of a vector that is reduced and scattered the receive
 * side is this process's part; in place all of it is input. */
static int64_t elements(const struct wm_coll_stage *s, int which, bool input)
{
    const struct coll_args *a = &s->user;
    bool whole = which == SEND || (input && a->sbuf == COLL_IN_PLACE);
    int64_t n = which == RECV ? a->rcount : a->scount;
    if (a->kind == COLL_REDUCE_SCATTER) {
        n = whole ? 0 : a->rcounts[s->comm->rank];
        for (int i = 0; whole && i < s->comm->size; i++)
            n += a->rcounts[i];
        return n;
    }
    if (a->kind == COLL_REDUCE_SCATTER_BLOCK)
        return whole ? a->rcount * s->comm->size : a->rcount;
    return is_row(a->kind, which) ? n * s->comm->remote->size : n;
}

static struct block block_at(const struct wm_coll_stage *s, int which, bool input, int i)
{
    const struct coll_args *a = &s->user;
    const struct coll_neighbors *nb = a->neighbors;
    const int64_t *counts = which == RECV ? a->rcounts : a->scounts,
                  *displs = which == RECV ? a->rdispls : a->sdispls;
    const struct rt_layout *const *types = which == RECV ? a->rtypes : a->stypes;
    struct block b = { .l = which == RECV ? a->rtype : a->stype,
                       .at = (uintptr_t)(which == RECV ? a->rbuf : a->sbuf) };
    if (is_vector(a->kind, which)) {
        b.l = types ? types[i] : b.l;
        b.n = b.l ? counts[i] : 0;
        b.at += (uintptr_t)(types ? displs[i] : displs[i] * b.l->extent);
    } else if (nb && is_row(a->kind, which)) {
        b.n = which == RECV ? a->rcount : a->scount;
        b.at += (uintptr_t)(i * b.n * b.l->extent);
    } else {
        b.n = elements(s, which, input);
        return b;
    }
    if (nb && (which == RECV ? nb->sources : nb->destinations)[i] < 0)
        b.n = 0;
    return b;
}

static int64_t block_nbytes(const struct block *b) { return b->n > 0 ? b->n * b->l->size : 0; }

static void block_span(const struct block *b, uintptr_t *low, uintptr_t *high)
{
    int64_t step = (b->n - 1) * b->l->extent;
    *low = b->at + (uintptr_t)b->l->true_lb + (uintptr_t)(step < 0 ? step : 0);
    *high = *low + (uintptr_t)(step < 0 ? -step : step) + (uintptr_t)b->l->true_extent;
}

/* One block tells for all of a buffer; absolute addresses may lie in several. */
static bool is_device(const struct wm_coll_stage *s, int which)
{
    bool absolute = !(which == RECV ? s->user.rbuf : s->user.sbuf);
    for (int i = 0, n = nblocks(s, which); i < n; i++) {
        struct block b = block_at(s, which, true, i);
        int64_t nbytes = block_nbytes(&b);
        if (wm_on_device((const void *)b.at, b.n, b.l, nbytes))
            return true;
        if (nbytes && !absolute)
            return false;
    }
    return false;
}

/* ---- mirrors ---- */

/* `buf` becomes the address at which the mirror's blocks lie as the user's do at his. */
static int make_mirror(struct wm_coll_stage *s, int which, uintptr_t *buf)
{
    struct side *side = &s->side[which];
    uintptr_t low = UINTPTR_MAX, high = 0, from, to;
    bool gaps = false;
    for (int i = 0, n = nblocks(s, which); i < n; i++) {
        struct block b = block_at(s, which, true, i);
        if (!block_nbytes(&b))
            continue;
        block_span(&b, &from, &to);
        low = from < low ? from : low;
        high = to > high ? to : high;
        gaps = gaps || !b.l->contig;
    }
    side->low = low - low % MIRROR_ALIGN;
    side->len = (size_t)(high - side->low);
    if (gaps && !s->packed && !(s->packed = malloc(PIECE)))
        return -RT_ENOMEM;
    if (side->len < RESERVE_FROM) {
        side->mirror = malloc(side->len);
    } else {
        void *p = mmap(NULL, side->len, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        side->mirror = p == MAP_FAILED ? NULL : p;
    }
    if (!side->mirror)
        return -RT_ENOMEM;
    *buf += (uintptr_t)side->mirror - side->low;
    return 0;
}

static void free_mirror(struct side *side)
{
    if (side->mirror && side->len >= RESERVE_FROM)
        munmap(side->mirror, side->len);
    else
        free(side->mirror);
}

static int copy_block(const struct wm_coll_stage *s, const struct side *side, const struct block *b,
                      bool in)
{
    int64_t nbytes = block_nbytes(b);
    void *user = (void *)b->at, *here = (void *)((uintptr_t)side->mirror + (b->at - side->low));
    int err = 0;
    if (b->l && b->l->contig && nbytes)
        return in ? wm_pack_now(b->l, b->n, user, 0, here, nbytes)
                  : wm_unpack_now(b->l, b->n, user, 0, here, nbytes);
    for (int64_t pos = 0; pos < nbytes && err >= 0; pos += PIECE) {
        int64_t len = nbytes - pos < PIECE ? nbytes - pos : PIECE;
        if (in) {
            err = wm_pack_now(b->l, b->n, user, pos, s->packed, len);
            if (err >= 0)
                rt_layout_unpack(b->l, b->n, here, pos, s->packed, len);
        } else {
            rt_layout_pack(b->l, b->n, here, pos, s->packed, len);
            err = wm_unpack_now(b->l, b->n, user, pos, s->packed, len);
        }
    }
    return err;
}

/* A buffer that the driver does not know is an error before anything is sent. */
static int check_block(const struct block *b)
{
    struct rt_gpu_ptr at;
    bool scattered;
    const void *user = (const void *)b->at;
    return wm_on_device(user, b->n, b->l, block_nbytes(b))
               ? wm_dev_query(user, b->n, b->l, &at, &scattered)
               : 0;
}

static int copy_side(const struct wm_coll_stage *s, int which, bool in)
{
    const struct side *side = &s->side[which];
    int err = 0, n = side->mirror && (in || side->out) ? nblocks(s, which) : 0;
    for (int i = 0; i < n && err >= 0; i++) {
        struct block b = block_at(s, which, in, i);
        err = in && !side->in ? check_block(&b) : copy_block(s, side, &b, in);
    }
    return err;
}

/* ---- the calls ---- */

/* Received data replace the buffer's, so those are input in place and of a broadcast's root only.
 */
static void set_ways(struct wm_coll_stage *s)
{
    const struct coll_args *a = &s->user;
    bool bcast_root = a->kind == COLL_BCAST && wm_call_root(s->comm, a->root);
    s->side[SEND].in = true;
    s->side[RECV].in = a->sbuf == COLL_IN_PLACE || bcast_root;
    s->side[RECV].out = !bcast_root && !(a->kind == COLL_EXSCAN && s->comm->rank == 0);
}

static void say_once(enum coll_kind kind)
{
    static bool said;
    if (!said)
        log_info(MPI, "device buffers of collectives, such as %s, are copied through host memory",
                 coll_kind_names[kind]);
    said = true;
}

int wm_coll_stage_make(struct wm_call *call, struct wm_coll_stage **out)
{
    struct wm_coll_stage *s, look = { .user = call->args, .comm = call->comm };
    uintptr_t sbuf = (uintptr_t)call->args.sbuf, rbuf = (uintptr_t)call->args.rbuf;
    bool send = is_device(&look, SEND), recv = is_device(&look, RECV);
    *out = NULL;
    if (!send && !recv)
        return 0;
    s = malloc(sizeof *s);
    if (!s)
        return -RT_ENOMEM;
    *s = look;
    set_ways(s);
    int err = send ? make_mirror(s, SEND, &sbuf) : 0;
    if (!err && recv)
        err = make_mirror(s, RECV, &rbuf);
    if (err) {
        wm_coll_stage_destroy(s);
        return err;
    }
    say_once(call->args.kind);
    call->args.sbuf = (const void *)sbuf;
    call->args.rbuf = (void *)rbuf;
    *out = s;
    return 0;
}

int wm_coll_stage_in(struct wm_coll_stage *s)
{
    int err = copy_side(s, SEND, true);
    return err < 0 ? err : copy_side(s, RECV, true);
}

int wm_coll_stage_out(struct wm_coll_stage *s) { return copy_side(s, RECV, false); }

/* The step of a task with a stage: that of its algorithm, and at the end the copies. */
static int follow(struct coll_task *k)
{
    struct wm_coll_stage *s = k->req.arg;
    k->step = s->step;
    int rc = k->step(k);
    s->step = k->step; /* algorithms change it */
    k->step = follow;
    int err = rc > 0 ? wm_coll_stage_out(s) : 0;
    return err < 0 ? err : rc;
}

void wm_coll_stage_follow(struct wm_coll_stage *s, struct coll_task *k)
{
    s->step = k->step;
    k->step = follow;
    k->req.arg = s;
}

void wm_coll_stage_destroy(struct wm_coll_stage *s)
{
    if (!s)
        return;
    free_mirror(&s->side[SEND]);
    free_mirror(&s->side[RECV]);
    free(s->packed);
    free(s);
}

int wm_coll_reduce_local(const struct rt_op *op, const void *in, void *inout, int64_t count,
                         const struct rt_layout *l)
{
    struct wm_call call = { .args = { COLL_ALLREDUCE, in, inout, count, count, l, l, op } };
    struct wm_coll_stage *s;
    struct rt_lock *lock = &wm_main_domain->lock;
    int64_t nbytes = count * l->size;
    if (!wm_on_device(in, count, l, nbytes) && !wm_on_device(inout, count, l, nbytes))
        return rt_reduce_apply(op, in, inout, count, l);
    rt_lock(lock);
    int err = wm_coll_stage_make(&call, &s);
    if (!err && s) {
        s->side[RECV].in = true;
        err = wm_coll_stage_in(s);
    }
    rt_unlock(lock); /* the operation may be the user's */
    if (err >= 0)
        err = rt_reduce_apply(op, call.args.sbuf, call.args.rbuf, count, l);
    if (s) {
        rt_lock(lock);
        if (err >= 0)
            err = wm_coll_stage_out(s);
        wm_coll_stage_destroy(s);
        rt_unlock(lock);
    }
    return err;
}
