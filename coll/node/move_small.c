/* SPDX-License-Identifier: BSD-3-Clause */
/* Small blocks of kinds whose ranks have blocks of different lengths, through lines and cells: see
 * move.c. */

#include "coll/node/move.h"
#include "coll/node/line.h"

/* One block for all readers, or one for each reader. */
static bool one_block(enum coll_kind k) { return coll_shape(k, COLL_SEND) == COLL_SIDE_ONE; }

/* Whether a block of that length is small; writer and reader get the same answer. */
static bool is_small(const struct coll_node *n, enum coll_kind k, int64_t len)
{
    int64_t most = one_block(k) ? COLL_NODE_CELL : n->cell_part;
    return len <= most && most > 0 && coll_move_has_small(k);
}

struct coll_block coll_move_out(const struct coll_team *t, const struct coll_args *a, int to)
{
    struct coll_block b = coll_args_sent(t, a, to);
    return to != t->rank && is_small(t->node, a->kind, coll_move_nbytes(b))
               ? (struct coll_block){ 0 }
               : b;
}

struct coll_block coll_move_in(const struct coll_team *t, const struct coll_args *a, int from)
{
    struct coll_block b = coll_args_received(t, a, from);
    return from != t->rank && is_small(t->node, a->kind, coll_move_nbytes(b))
               ? (struct coll_block){ 0 }
               : b;
}

/* The place of the small block of `from` for `to` in call e. */
static char *small_place(const struct coll_node *n, enum coll_kind k, uint64_t e, int from, int to,
                         int64_t len)
{
    bool one = one_block(k);
    int64_t part = one ? COLL_NODE_LINE : n->line_part, col = one ? 0 : to - (to > from);
    if (len <= part)
        return coll_node_line(n, e, from)->data + col * part;
    return coll_node_cell(n, e, from, COLL_NODE_CELL) + col * n->cell_part;
}

static bool may_write(const struct coll_args *a, int rank)
{
    return !coll_is(a->kind, COLL_IS_ROOTED) ||
           (rank == a->root) == coll_is(a->kind, COLL_IS_FROM_ROOT);
}

static bool may_read(const struct coll_args *a, int rank)
{
    return !coll_is(a->kind, COLL_IS_ROOTED) || !may_write(a, rank);
}

static void write_small(struct coll_node *n, const struct coll_args *a, uint64_t e, int to,
                        struct coll_block d)
{
    int64_t len = coll_move_nbytes(d);
    if (len > 0 && is_small(n, a->kind, len))
        coll_node_pack(small_place(n, a->kind, e, n->team->rank, to, len), d.at, d.n, d.l);
    else if (len > 0)
        n->plan.large = true;
}

/* Writes this rank's small blocks: one for all readers, or one for each.  False: not yet.  Stores
 * the epoch even without blocks, so that a reader that wrongly expects a block does not wait
 * forever. */
static bool write_own(struct coll_node *n, const struct coll_args *a, uint64_t e)
{
    const struct coll_team *t = n->team;
    if (!may_write(a, t->rank))
        return true;
    if (one_block(a->kind)) {
        int to = coll_is(a->kind, COLL_IS_TO_ROOT) ? a->root : t->rank == 0;
        struct coll_block d = coll_args_sent(t, a, to);
        if (!coll_node_may_write(n, e, coll_move_nbytes(d) <= COLL_NODE_LINE ? 0 : COLL_NODE_CELL))
            return false;
        write_small(n, a, e, to, d);
    } else {
        if (!coll_node_may_write(n, e, COLL_NODE_CELL))
            return false;
        for (int to = 0; to < t->size; to++)
            if (to != t->rank)
                write_small(n, a, e, to, coll_args_sent(t, a, to));
    }
    coll_node_store_line(n, e, n->poisoned);
    coll_node_wake(n);
    return true;
}

/* Takes the other ranks' small blocks out.  False: not all are there yet. */
static bool read_small(struct coll_node *n, const struct coll_args *a, uint64_t e)
{
    const struct coll_team *t = n->team;
    for (; n->next < t->size; n->next++, n->plan.due = false) {
        int from = n->next;
        if (n->plan.due && !coll_node_line_there(n, e, from, &n->lost))
            return false;
        struct coll_block d = { 0 };
        if (from != t->rank && may_write(a, from))
            d = coll_args_received(t, a, from);
        int64_t len = coll_move_nbytes(d);
        if (len <= 0)
            continue;
        if (!is_small(n, a->kind, len)) {
            n->plan.large = true;
            continue;
        }
        if (!n->plan.due && !coll_node_line_there(n, e, from, &n->lost)) {
            n->plan.due = true;
            return false;
        }
        n->plan.nread++;
        coll_node_unpack(small_place(n, a->kind, e, from, t->rank, len), d.at, d.n, d.l);
    }
    return true;
}

int coll_move_small_write(struct coll_node *n, const struct coll_args *a, uint64_t e)
{
    struct coll_node_plan *p = &n->plan;
    int rc = coll_node_cells(n);
    if (rc <= 0)
        return rc;
    p->large = false;
    p->nread = 0;
    if (!write_own(n, a, e))
        return 0;
    p->written = true;
    p->due = false;
    n->next = 0;
    return 1;
}

int coll_move_small_read(struct coll_node *n, const struct coll_args *a, uint64_t e)
{
    struct coll_node_plan *p = &n->plan;
    if (may_read(a, n->team->rank) && !read_small(n, a, e))
        return 0;
    n->next = 0;
    if (p->nread == n->team->size - 1)
        coll_node_all_started(n, e);
    p->written = false;
    return p->large ? 1 : 2;
}
