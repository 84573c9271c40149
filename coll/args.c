/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes which blocks a collective call reads and writes, from the table of kinds
 * (coll/kinds.def).  Pure functions of the arguments; any thread. */
#include "coll/args.h"
#include "coll/coll.h"

const char *const coll_kind_names[COLL_KINDS] = {
#define KIND(kind, name, send, recv, bytes, traits) [COLL_##kind] = name,
#include "coll/kinds.def"
#undef KIND
};

const struct coll_form coll_forms[COLL_KINDS] = {
#define KIND(kind, name, send, recv, bytes, traits) \
    [COLL_##kind] = { { COLL_SIDE_##send, COLL_SIDE_##recv }, COLL_BYTES_##bytes, traits },
#include "coll/kinds.def"
#undef KIND
};

static bool is_root(const struct coll_team *t, const struct coll_args *a)
{
    return a->root == (t->local ? COLL_ROOT : t->rank);
}

/* ---- lengths ---- */

static int64_t sum(const int64_t *v, int n)
{
    int64_t s = 0;
    for (int i = 0; i < n; i++)
        s += v[i];
    return s;
}

int64_t coll_args_parts(const struct coll_args *a, int n)
{
    return a->rcounts ? sum(a->rcounts, n) : a->rcount * n;
}

/* Whether the receive arguments give the lengths; otherwise the send arguments do. */
static bool measured_by_recv(const struct coll_args *a)
{
    return coll_is(a->kind, COLL_IS_FROM_ROOT) ? a->rbuf != COLL_IN_PLACE
                                               : a->sbuf == COLL_IN_PLACE;
}

int64_t coll_args_bytes(const struct coll_team *t, const struct coll_args *a)
{
    switch ((enum coll_measure)coll_forms[a->kind].bytes) {
    case COLL_BYTES_VECTOR:
        return a->rcount * a->rtype->size;
    case COLL_BYTES_BLOCK:
        return measured_by_recv(a) ? a->rcount * a->rtype->size : a->scount * a->stype->size;
    case COLL_BYTES_SUM:
        return coll_args_parts(a, t->size) * a->rtype->size;
    case COLL_BYTES_MEAN: /* the remote group's counts differ from the local ones */
        return (t->remote_size ? 0 : sum(a->rcounts, t->size)) * a->rtype->size / t->size;
    default:
        return 0;
    }
}

bool coll_args_have_nothing(const struct coll_team *t, const struct coll_args *a)
{
    const struct coll_form *f = &coll_forms[a->kind];
    int64_t n = 0;
    if (f->bytes != COLL_BYTES_UNKNOWN || f->shape[COLL_RECV] == COLL_SIDE_NONE ||
        f->traits & COLL_IS_NEIGHBOR)
        return false;
    if (f->traits & COLL_IS_ROOTED)
        return t->rank != a->root && (f->traits & COLL_IS_TO_ROOT ? a->scount : a->rcount) == 0;
    for (int i = 0; i < t->size; i++)
        n |= (a->scounts ? a->scounts[i] : 0) | a->rcounts[i];
    return n == 0;
}

bool coll_args_in_place(const struct coll_args *a, int rank)
{
    unsigned traits = coll_forms[a->kind].traits;
    if (traits & COLL_IS_FROM_ROOT)
        return rank == a->root && a->rbuf == COLL_IN_PLACE;
    if (traits & COLL_IS_TO_ROOT && rank != a->root)
        return false;
    return a->sbuf == COLL_IN_PLACE || (traits & COLL_IS_REDUCTION && a->sbuf == a->rbuf);
}

/* ---- the arguments' blocks ---- */

/* with absolute addresses `buf` is NULL: no pointer arithmetic */
static char *plus(const void *buf, int64_t nbytes)
{
    return (char *)((uintptr_t)buf + (uintptr_t)nbytes);
}

/* A block of a v form. */
static struct coll_block block_apart(const struct coll_args *a, bool recv, int i)
{
    const struct rt_layout *l = recv ? a->rtype : a->stype;
    const void *buf = recv ? a->rbuf : a->sbuf;
    if (!l)
        return (struct coll_block){ 0 };
    return (struct coll_block){ plus(buf, (recv ? a->rdispls : a->sdispls)[i] * l->extent),
                                (recv ? a->rcounts : a->scounts)[i], l };
}

struct coll_block coll_args_block(const struct coll_args *a, enum coll_side side, int i)
{
    enum coll_shape shape = coll_shape(a->kind, side);
    bool recv = side == COLL_RECV;
    if (shape == COLL_SIDE_VECTORS)
        return block_apart(a, recv, i);
    struct coll_block b = coll_args_side(a, side);
    switch (shape) {
    case COLL_SIDE_NONE:
        return (struct coll_block){ 0 };
    case COLL_SIDE_ONE:
        if (coll_shape(a->kind, COLL_SEND) == COLL_SIDE_CUT && a->rcounts)
            b.n = a->rcounts[i];
        break;
    case COLL_SIDE_CUT:
        b.at = plus(b.at, coll_args_parts(a, i) * b.l->extent);
        b.n = a->rcounts ? a->rcounts[i] : a->rcount;
        break;
    case COLL_SIDE_ROW:
        b.at = b.n ? plus(b.at, i * b.n * b.l->extent) : b.at;
        break;
    case COLL_SIDE_TYPES:
        b.l = (recv ? a->rtypes : a->stypes)[i];
        b.n = b.l ? (recv ? a->rcounts : a->scounts)[i] : 0;
        b.at = plus(b.at, (recv ? a->rdispls : a->sdispls)[i]);
        break;
    default:
        break;
    }
    return b;
}

/* ---- between two ranks ---- */

struct coll_block coll_args_sent(const struct coll_team *t, const struct coll_args *a, int to)
{
    const struct coll_block none = { 0 };
    const struct coll_form *f = &coll_forms[a->kind];
    bool self = to == t->rank;
    if (f->traits & COLL_IS_FROM_ROOT) {
        bool bcast = f->shape[COLL_SEND] == COLL_SIDE_NONE;
        if (t->rank != a->root || (self && (bcast || a->rbuf == COLL_IN_PLACE)))
            return none;
        return coll_args_block(a, bcast ? COLL_RECV : COLL_SEND, to);
    }
    if ((f->traits & COLL_IS_TO_ROOT && to != a->root) ||
        (f->traits & COLL_IS_PREFIX && to < t->rank + !!(f->traits & COLL_IS_EXCLUSIVE)))
        return none;
    if (a->sbuf != COLL_IN_PLACE || f->traits & COLL_IS_REDUCTION)
        return coll_args_block(a, COLL_SEND, to);
    if (self)
        return none;
    return coll_args_block(a, COLL_RECV, f->shape[COLL_SEND] == COLL_SIDE_ONE ? t->rank : to);
}

struct coll_block coll_args_received(const struct coll_team *t, const struct coll_args *a, int from)
{
    const struct coll_form *f = &coll_forms[a->kind];
    bool root = t->rank == a->root, bcast = f->shape[COLL_SEND] == COLL_SIDE_NONE;
    if ((f->traits & COLL_IS_FROM_ROOT &&
         (from != a->root || (root && (bcast || a->rbuf == COLL_IN_PLACE)))) ||
        (f->traits & COLL_IS_TO_ROOT && !root) ||
        (f->traits & COLL_IS_PREFIX && from + !!(f->traits & COLL_IS_EXCLUSIVE) > t->rank))
        return (struct coll_block){ 0 };
    return coll_args_block(a, COLL_RECV, f->shape[COLL_RECV] == COLL_SIDE_ONE ? t->rank : from);
}

/* ---- the user's buffers ---- */

/* Whether ranks (the root, or all) collect blocks; an in-place call then has each rank's own block
 * in its final place. */
static bool collects(enum coll_kind kind)
{
    return coll_shape(kind, COLL_SEND) == COLL_SIDE_ONE &&
           coll_shape(kind, COLL_RECV) >= COLL_SIDE_ROW;
}

/* Whether this rank uses the buffer. */
static bool is_used(const struct coll_team *t, const struct coll_args *a, enum coll_side side)
{
    const struct coll_form *f = &coll_forms[a->kind];
    if (f->shape[side] == COLL_SIDE_NONE ||
        (side == COLL_RECV ? a->rbuf : a->sbuf) == COLL_IN_PLACE)
        return false;
    if (f->traits & (side == COLL_RECV ? COLL_IS_TO_ROOT : COLL_IS_FROM_ROOT))
        return is_root(t, a);
    if (f->traits & COLL_IS_TO_ROOT && t->local && a->root < 0) /* the root's group sends nothing */
        return false;
    return side == COLL_RECV ? a->rtype || a->rtypes : a->stype || a->stypes;
}

/* Whether one block of an in-place row is this rank's own. */
static bool is_cut(const struct coll_args *a, enum coll_side side)
{
    return coll_shape(a->kind, side) == COLL_SIDE_ROW &&
           (a->neighbors || a->sbuf == COLL_IN_PLACE || a->rbuf == COLL_IN_PLACE);
}

static int npeers(const struct coll_team *t, const struct coll_args *a, enum coll_side side)
{
    if (a->neighbors)
        return side == COLL_RECV ? a->neighbors->nsources : a->neighbors->ndestinations;
    return t->local ? t->remote_size : t->size;
}

int coll_args_uses(const struct coll_team *t, const struct coll_args *a, enum coll_side side)
{
    if (!is_used(t, a, side))
        return 0;
    return coll_is_apart(a->kind, side) || is_cut(a, side) ? npeers(t, a, side) : 1;
}

/* Received data replace the contents of the buffer.  So a receive buffer is also input only if the
 * call is in place, or at the root of a broadcast. */
static void set_ways(const struct coll_team *t, const struct coll_args *a, enum coll_side side,
                     int i, struct coll_use *u)
{
    const struct coll_form *f = &coll_forms[a->kind];
    bool bcast_root = f->shape[COLL_SEND] == COLL_SIDE_NONE && is_root(t, a),
         in_place = a->sbuf == COLL_IN_PLACE, gathers = collects(a->kind),
         own = in_place && gathers && i == t->rank;
    if (side == COLL_SEND) {
        /* the root of an in-place scatter keeps its part */
        u->in = a->rbuf != COLL_IN_PLACE || i != t->rank;
        return;
    }
    u->in = bcast_root || (in_place && (!gathers || (own && !(f->traits & COLL_IS_TO_ROOT))));
    u->out = !bcast_root && !own && !(f->traits & COLL_IS_EXCLUSIVE && t->rank == 0);
}

struct coll_use coll_args_use(const struct coll_team *t, const struct coll_args *a,
                              enum coll_side side, int i)
{
    const struct coll_neighbors *nb = a->neighbors;
    const bool cut = coll_shape(a->kind, COLL_SEND) == COLL_SIDE_CUT;
    struct coll_use u = { 0 };
    if (coll_is_apart(a->kind, side) || is_cut(a, side)) {
        u.b = coll_args_block(a, side, i);
        if (nb && (side == COLL_RECV ? nb->sources : nb->destinations)[i] < 0)
            u.b.n = 0;
    } else {
        u.b = coll_args_side(a, side);
        if (coll_shape(a->kind, side) == COLL_SIDE_ROW)
            u.b.n *= npeers(t, a, side);
    }
    u.defined = u.b.n;
    if (cut) {
        u.defined = a->rcounts ? a->rcounts[t->rank] : a->rcount;
        u.b.n = side == COLL_SEND || a->sbuf == COLL_IN_PLACE ? coll_args_parts(a, t->size)
                                                              : u.defined;
    }
    set_ways(t, a, side, i, &u);
    return u;
}

/* ---- what ranks compare ---- */

/* For a block sent and a block received whose lengths must be equal. */
static uint64_t mix_block(uint64_t h, const struct coll_team *t, const struct coll_args *a)
{
    const struct coll_form *f = &coll_forms[a->kind];
    bool root = t->rank == a->root, in_place = coll_args_in_place(a, t->rank),
         sends = f->traits & COLL_IS_FROM_ROOT ? root : !in_place,
         receives = f->traits & COLL_IS_FROM_ROOT ? !in_place
                                                  : !(f->traits & COLL_IS_TO_ROOT) || root;
    int64_t s = sends ? a->scount * a->stype->size : 0,
            r = receives ? a->rcount * a->rtype->size : s;
    h = coll_args_mix(h, r);
    return sends && s != r ? coll_args_mix(h, t->rank + 1) : h;
}

uint64_t coll_args_signature(const struct coll_team *t, const struct coll_args *a)
{
    const struct coll_form *f = &coll_forms[a->kind];
    uint64_t h = coll_args_mix(coll_args_mix(0, a->kind), t->size);
    if (f->traits & COLL_IS_ROOTED)
        h = coll_args_mix(h, a->root);
    switch ((enum coll_measure)f->bytes) {
    case COLL_BYTES_BLOCK:
        return mix_block(h, t, a);
    case COLL_BYTES_VECTOR:
        return coll_args_mix(h, a->rcount * a->rtype->size);
    case COLL_BYTES_SUM:
    case COLL_BYTES_MEAN:
        for (int i = 0; i < t->size; i++)
            h = coll_args_mix(h, (a->rcounts ? a->rcounts[i] : a->rcount) * a->rtype->size);
        if (f->bytes == COLL_BYTES_MEAN && a->sbuf != COLL_IN_PLACE &&
            a->scount * a->stype->size != a->rcounts[t->rank] * a->rtype->size)
            h = coll_args_mix(h, t->rank + 1);
        return h;
    default:
        return h;
    }
}
