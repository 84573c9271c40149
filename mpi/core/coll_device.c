/* SPDX-License-Identifier: BSD-3-Clause */
/* Device buffers in collective calls.  Each side of the call, sent or received, is a list of
 * blocks; a side with device memory gets a host mirror of the addresses from its first to its last
 * byte, and the algorithms see that.  Blocks are copied in before a start, those to be received,
 * too, because some are input as well or stay as they are; the latter are copied back at the end.
 * What lies between blocks is never touched.  Slow, but every collective and form of it works.
 * Under the domain's lock. */
#include "mpi/core/coll_device.h"
#include <stdlib.h>
#include "mpi/p2p/device.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"

struct block {
    const struct rt_layout *l;
    int64_t n;
    uintptr_t at; /* the user's */
};

struct side {
    int nblocks;
    struct block *blocks; /* owned */
    char *mirror;         /* owned; NULL: host memory, which is used itself */
    uintptr_t low;        /* the user's address that `mirror` stands for */
};

struct wm_coll_stage {
    struct side send, recv;
    int (*step)(struct coll_task *k); /* of the task that is being followed */
};

/* ---- which blocks a call has ---- */

static int64_t total(const int64_t *counts, int n)
{
    int64_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += counts[i];
    return sum;
}

static int entries(const struct wm_call *call, bool recv)
{
    const struct coll_neighbors *nb = call->args.neighbors;
    if (nb)
        return recv ? nb->nsources : nb->ndestinations;
    return call->comm->remote->size;
}

/* Blocks of equal counts: whether there is one an entry. */
static bool one_each(enum coll_kind kind, bool recv)
{
    if (kind == COLL_ALLTOALL || kind == COLL_NEIGHBOR_ALLTOALL)
        return true;
    return recv ? kind == COLL_GATHER || kind == COLL_ALLGATHER || kind == COLL_NEIGHBOR_ALLGATHER
                : kind == COLL_SCATTER;
}

/* Elements of a side without displacements. */
static int64_t elements(const struct wm_call *call, bool recv)
{
    const struct coll_args *a = &call->args;
    bool whole = !recv || a->sbuf == COLL_IN_PLACE; /* of a vector that is scattered */
    if (a->kind == COLL_REDUCE_SCATTER)
        return whole ? total(a->rcounts, call->comm->size) : a->rcounts[call->comm->rank];
    if (a->kind == COLL_REDUCE_SCATTER_BLOCK)
        return whole ? a->rcount * call->comm->size : a->rcount;
    return (recv ? a->rcount : a->scount) * (one_each(a->kind, recv) ? entries(call, recv) : 1);
}

/* Whether the call uses the side's buffer in this process. */
static bool is_used(const struct wm_call *call, bool recv)
{
    const struct coll_args *a = &call->args;
    const void *buf = recv ? a->rbuf : a->sbuf;
    if (a->kind == COLL_BARRIER || buf == COLL_IN_PLACE)
        return false;
    if (a->kind == COLL_REDUCE && recv)
        return wm_call_root(call->comm, a->root);
    return recv ? a->rtype || a->rtypes : a->stype || a->stypes;
}

static int list_blocks(const struct wm_call *call, bool recv, struct side *s)
{
    const struct coll_args *a = &call->args;
    const int64_t *counts = recv ? a->rcounts : a->scounts,
                  *displs = recv ? a->rdispls : a->sdispls;
    const struct rt_layout *const *types = recv ? a->rtypes : a->stypes;
    const struct rt_layout *type = recv ? a->rtype : a->stype;
    uintptr_t buf = (uintptr_t)(recv ? a->rbuf : a->sbuf);
    if (!is_used(call, recv))
        return 0;
    bool vector = counts && displs;
    s->nblocks = vector ? entries(call, recv) : 1;
    s->blocks = calloc((size_t)s->nblocks + 1, sizeof *s->blocks);
    if (!s->blocks)
        return -RT_ENOMEM;
    if (!vector)
        s->blocks[0] = (struct block){ type, elements(call, recv), buf };
    for (int i = 0; vector && i < s->nblocks; i++) {
        const struct rt_layout *l = types ? types[i] : type;
        int64_t off = types ? displs[i] : displs[i] * type->extent;
        s->blocks[i] = (struct block){ l, l ? counts[i] : 0, buf + (uintptr_t)off };
    }
    return 0;
}

/* ---- mirrors ---- */

static int64_t block_nbytes(const struct block *b) { return b->n > 0 ? b->n * b->l->size : 0; }

static void block_span(const struct block *b, uintptr_t *low, uintptr_t *high)
{
    int64_t step = (b->n - 1) * b->l->extent;
    *low = b->at + (uintptr_t)b->l->true_lb + (uintptr_t)(step < 0 ? step : 0);
    *high = *low + (uintptr_t)(step < 0 ? -step : step) + (uintptr_t)b->l->true_extent;
}

/* From the first to the last byte of all blocks; whether one of them is on a device. */
static bool side_span(const struct side *s, uintptr_t *low, uintptr_t *high)
{
    bool device = false;
    *low = UINTPTR_MAX;
    *high = 0;
    for (int i = 0; i < s->nblocks; i++) {
        const struct block *b = &s->blocks[i];
        uintptr_t from, to;
        if (!block_nbytes(b))
            continue;
        block_span(b, &from, &to);
        *low = from < *low ? from : *low;
        *high = to > *high ? to : *high;
        device = device || wm_on_device((const void *)b->at, b->n, b->l, block_nbytes(b));
    }
    return device;
}

/* `buf` becomes the address at which the mirror's blocks lie as the user's do at his. */
static int make_mirror(struct side *s, uintptr_t *buf)
{
    uintptr_t low, high;
    if (!side_span(s, &low, &high))
        return 0;
    s->mirror = malloc((size_t)(high - low));
    if (!s->mirror)
        return -RT_ENOMEM;
    s->low = low;
    *buf += (uintptr_t)s->mirror - low;
    return 0;
}

static int copy_block(const struct side *s, const struct block *b, bool in)
{
    int64_t nbytes = block_nbytes(b);
    void *user = (void *)b->at, *here = s->mirror + (b->at - s->low);
    if (!nbytes)
        return 0;
    if (b->l->contig)
        return in ? wm_pack_now(b->l, b->n, user, 0, here, nbytes)
                  : wm_unpack_now(b->l, b->n, user, 0, here, nbytes);
    char *packed = malloc((size_t)nbytes);
    if (!packed)
        return -RT_ENOMEM;
    int err = 0;
    if (in) {
        err = wm_pack_now(b->l, b->n, user, 0, packed, nbytes);
        if (err >= 0)
            rt_layout_unpack(b->l, b->n, here, 0, packed, nbytes);
    } else {
        rt_layout_pack(b->l, b->n, here, 0, packed, nbytes);
        err = wm_unpack_now(b->l, b->n, user, 0, packed, nbytes);
    }
    free(packed);
    return err;
}

static int copy_side(const struct side *s, bool in)
{
    int err = 0;
    for (int i = 0; s->mirror && i < s->nblocks && err >= 0; i++)
        err = copy_block(s, &s->blocks[i], in);
    return err;
}

/* ---- the calls ---- */

int wm_coll_stage_in(struct wm_coll_stage *s)
{
    int err = copy_side(&s->send, true);
    return err < 0 ? err : copy_side(&s->recv, true);
}

int wm_coll_stage_out(struct wm_coll_stage *s) { return copy_side(&s->recv, false); }

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
    free(s->send.blocks);
    free(s->recv.blocks);
    free(s->send.mirror);
    free(s->recv.mirror);
    free(s);
}

static void say_once(const struct wm_call *call)
{
    static bool said;
    if (!said)
        log_info(MPI, "device buffers of collectives, such as %s, are copied through host memory",
                 coll_kind_names[call->args.kind]);
    said = true;
}

/* Cheap where all is host memory; vectors are looked at block by block. */
static bool may_be_device(const struct coll_args *a)
{
    return a->sdispls || a->rdispls ||
           (a->stype && wm_on_device(a->sbuf, 1, a->stype, a->stype->size)) ||
           (a->rtype && wm_on_device(a->rbuf, 1, a->rtype, a->rtype->size));
}

int wm_coll_stage_make(struct wm_call *call, struct wm_coll_stage **out)
{
    uintptr_t sbuf = (uintptr_t)call->args.sbuf, rbuf = (uintptr_t)call->args.rbuf;
    *out = NULL;
    if (!may_be_device(&call->args))
        return 0;
    struct wm_coll_stage *s = calloc(1, sizeof *s);
    if (!s)
        return -RT_ENOMEM;
    int err = list_blocks(call, false, &s->send);
    if (!err)
        err = list_blocks(call, true, &s->recv);
    if (!err)
        err = make_mirror(&s->send, &sbuf);
    if (!err)
        err = make_mirror(&s->recv, &rbuf);
    if (err || (!s->send.mirror && !s->recv.mirror)) {
        wm_coll_stage_destroy(s);
        return err;
    }
    say_once(call);
    call->args.sbuf = (const void *)sbuf;
    call->args.rbuf = (void *)rbuf;
    *out = s;
    return 0;
}
