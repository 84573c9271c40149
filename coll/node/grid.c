/* SPDX-License-Identifier: BSD-3-Clause */
/* node_grid: barrier, and allreduce of small data, among many ranks with a core each, in two
 * rounds over lines and cells.  The ranks stand in a grid of about as many rows as columns; a row
 * is ranks that follow each other.  In the first round a rank reads the lines of its row and writes
 * what they come to into a second line; in the second round it reads one such line of each row.  So
 * it reads 2 (sqrt(p) - 1) lines instead of the p - 1 of node_flat, and a line has as few readers.
 * Rows need not have the same length: of a shorter row the last rank serves the columns that it
 * lacks.  All ranks combine the same sums in the same order.
 *
 * A call takes two numbers, e and e + 1, one for the lines of each round, so the rules of node.h
 * hold for both.  A rank that has seen the second lines knows that all ranks have started e.
 *
 * Rooted calls (node_tree): short broadcasts and reduces, where ranks run on several L3 caches.  A
 * row's leader is its first rank, or the root; it passes data between the root and its row, through
 * one line or cell for each rank and call.  A rank waits for ranks in the same call, or, in
 * coll_node_may_write(), for ranks in an earlier call.  Predicted, us, mean and last rank, 192
 * ranks of 2 x EPYC 9654 (node_model_test.c): a reduce of 8 B 0.24 and 2.3, by node_flat 0.3 and
 * 13.8; a broadcast 1.0 and 1.3, 1.6 and 2.7.  Groups of the ranks of each L3 cache, package and
 * host, of at most 8 members: 0.21 and 1.7, 1.2 and 1.7.  On one L3 cache the root sees 31 lines at
 * once (32 ranks, mesh Xeon, a reduce of 8 B to 4 KiB: 0.7 to 3.2 us by node_flat, 1.0 to 3.1 in
 * two rounds).
 *
 * Cost: 2 a + 2 (sqrt(p) - 1) (line transfer).  If ranks outnumber cores, each rank would have to
 * run twice, and flat.c runs the call. */
#include "coll/node/choose.h"
#include "coll/node/line.h"

/* ---- the grid ---- */

static int begin_of(const struct coll_node *n, int row)
{
    return (int)((int64_t)row * n->team->size / n->rows);
}

static int row_of(const struct coll_node *n, int rank)
{
    return (int)((((int64_t)rank + 1) * n->rows - 1) / n->team->size);
}

static int column_of(const struct coll_node *n, int rank)
{
    return rank - begin_of(n, row_of(n, rank));
}

/* The rank that serves a column in a row. */
static int at(const struct coll_node *n, int row, int column)
{
    int rank = begin_of(n, row) + column, end = begin_of(n, row + 1);
    return rank < end ? rank : end - 1;
}

/* Wakes the ranks that this rank serves in the second round. */
static void wake_readers(const struct coll_node *n)
{
    const int rank = n->team->rank, column = column_of(n, rank);
    const bool last = rank + 1 == begin_of(n, row_of(n, rank) + 1);
    for (int row = 0; row < n->rows; row++) {
        int from = begin_of(n, row) + column, end = begin_of(n, row + 1);
        coll_node_wake_some(n, from, last || from >= end ? end : from + 1);
    }
}

/* ---- the rounds ---- */

struct source { /* the payloads that a rank combines: those of a row; or if `column`, of a column */
    const struct coll_node *n;
    uint64_t e;
    int64_t payload;
    int first; /* of the row, or the column's number */
    bool column;
};

static const void *source_of(const void *arg, int i)
{
    const struct source *s = arg;
    return coll_node_data(s->n, s->e, s->column ? at(s->n, i, s->first) : s->first + i, s->payload);
}

/* Writes this rank's own line.  1: done; 0: not yet; -RT_ENOSPC: no memory for cells. */
static int first_line(struct coll_node *n, const struct coll_task *k, uint64_t e)
{
    const struct coll_args *a = &k->args;
    const int64_t payload = k->bytes;
    int rc = payload <= COLL_NODE_LINE ? 1 : coll_node_cells(n);
    if (rc <= 0)
        return rc;
    if (!coll_node_may_write(n, e, payload <= COLL_NODE_LINE ? 0 : payload))
        return 0;
    if (payload)
        coll_node_pack(coll_node_data(n, e, n->team->rank, payload), coll_input(a), a->rcount,
                       a->rtype);
    coll_node_store_line(n, e, k->lost);
    const int row = row_of(n, n->team->rank);
    coll_node_wake_some(n, begin_of(n, row), begin_of(n, row + 1));
    return 1;
}

/* Reads the row and writes the second line.  False: not yet. */
static bool second_line(struct coll_node *n, struct coll_task *k, uint64_t e)
{
    const int rank = n->team->rank, row = row_of(n, rank);
    const int first = begin_of(n, row), end = begin_of(n, row + 1);
    const int64_t payload = k->bytes;
    for (; n->next < end - first; n->next++)
        if (first + n->next != rank && !coll_node_line_there(n, e, first + n->next, &k->lost))
            return false;
    if (!coll_node_may_write(n, e + 1, payload <= COLL_NODE_LINE ? 0 : payload))
        return false;
    const struct source s = { n, e, payload, first, false };
    if (payload)
        coll_node_fold(&k->args, source_of, &s, end - first,
                       coll_node_data(n, e + 1, rank, payload), payload);
    coll_node_store_line(n, e + 1, k->lost);
    wake_readers(n);
    return true;
}

/* Reads the column.  False: not yet. */
static bool read_column(struct coll_node *n, struct coll_task *k, uint64_t e)
{
    _Alignas(RT_CACHE_LINE) char tmp[COLL_NODE_CELL];
    const struct coll_args *a = &k->args;
    const int column = column_of(n, n->team->rank);
    for (; n->next < n->rows; n->next++) {
        int from = at(n, n->next, column);
        if (from != n->team->rank && !coll_node_line_there(n, e + 1, from, &k->lost))
            return false;
    }
    coll_node_all_started(n, e);
    if (!k->bytes)
        return true;
    const struct source s = { n, e + 1, k->bytes, column, true };
    char *acc = a->rtype->contig ? a->rbuf : tmp;
    coll_node_fold(a, source_of, &s, n->rows, acc, k->bytes);
    if (acc == tmp)
        coll_node_unpack(tmp, a->rbuf, a->rcount, a->rtype);
    return true;
}

int coll_node_grid_step(struct coll_task *k)
{
    struct coll_node *n = k->team->node;
    if (!coll_node_my_turn(n, k))
        return 0;
    const uint64_t e = n->turn + 1;
    if (n->step == 0) {
        int rc = first_line(n, k, e);
        if (rc < 0)
            return coll_node_give_up(n, k);
        if (rc == 0)
            return 0;
        n->step = 1;
    }
    if (n->step == 1) {
        if (!second_line(n, k, e))
            return 0;
        n->step = 2;
        n->next = 0;
    }
    return read_column(n, k, e) ? coll_node_end(n) : 0;
}

/* ---- rooted calls ---- */

static int leader(const struct coll_node *n, int row, int root)
{
    return row_of(n, root) == row ? root : begin_of(n, row);
}

/* Finds the rank above this one and the ranks below it, under `root`. */
static void hang(struct coll_node *n, int root)
{
    const int rank = n->team->rank, row = row_of(n, rank), lead = leader(n, row, root);
    if (rt_likely(n->top == root))
        return;
    n->top = root;
    n->parent = rank != lead ? lead : rank != root ? root : -1;
    n->nbelow = 0;
    for (int r = begin_of(n, row); rank == lead && r < begin_of(n, row + 1); r++)
        if (r != rank)
            n->below[n->nbelow++] = r;
    for (int i = 0; rank == root && i < n->rows; i++)
        if (i != row)
            n->below[n->nbelow++] = leader(n, i, root);
}

struct sum { /* this rank's own data, then those of the ranks below it */
    const struct coll_node *n;
    uint64_t e;
    int64_t payload;
    const char *own;
};

static const void *of_sum(const void *arg, int i)
{
    const struct sum *s = arg;
    return i == 0 ? s->own : coll_node_data(s->n, s->e, s->n->below[i - 1], s->payload);
}

/* Combines this rank's data and those below it in `to`, which may be the result. */
static void add_below(const struct coll_node *n, const struct coll_task *k, uint64_t e, char *to)
{
    const struct coll_args *a = &k->args;
    const bool lands = to == a->rbuf;
    const struct sum s = { n, e, k->bytes, lands ? coll_input(a) : to };
    if (!lands)
        coll_node_pack(to, coll_input(a), a->rcount, a->rtype);
    if (n->nbelow)
        coll_node_fold(a, of_sum, &s, 1 + n->nbelow, to, k->bytes);
}

/* Once the lines below, or the parent's, are there: takes the result, and writes this rank's line.
 * False: not yet. */
static bool take_and_give(struct coll_node *n, struct coll_task *k, uint64_t e, bool gives)
{
    _Alignas(RT_CACHE_LINE) char tmp[COLL_NODE_CELL];
    const struct coll_args *a = &k->args;
    const int64_t payload = k->bytes;
    const int parent = n->parent;
    if (gives && !coll_node_may_write(n, e, payload <= COLL_NODE_LINE ? 0 : payload))
        return false;
    char *own = coll_node_data(n, e, n->team->rank, payload);
    if (a->kind == COLL_REDUCE) {
        char *to = parent >= 0 ? own : a->rtype->contig ? a->rbuf : tmp;
        add_below(n, k, e, to);
        if (to == tmp)
            coll_node_unpack(tmp, a->rbuf, a->rcount, a->rtype);
    } else if (parent < 0) {
        coll_node_pack(own, a->rbuf, a->rcount, a->rtype);
    } else {
        const char *from = coll_node_data(n, e, parent, payload);
        if (gives)
            coll_node_pack(own, from, payload, &coll_bytes);
        coll_node_unpack(from, a->rbuf, a->rcount, a->rtype);
    }
    if (gives)
        coll_node_store_line(n, e, k->lost); /* the end of the call wakes the readers */
    return true;
}

int coll_node_tree_step(struct coll_task *k)
{
    struct coll_node *n = k->team->node;
    const bool up = k->args.kind == COLL_REDUCE;
    if (!coll_node_my_turn(n, k))
        return 0;
    const uint64_t e = n->turn + 1;
    if (n->step == 0) {
        int rc = k->bytes <= COLL_NODE_LINE ? 1 : coll_node_cells(n);
        if (rc <= 0)
            return rc < 0 ? coll_node_give_up(n, k) : 0;
        hang(n, k->args.root);
        n->step = 1;
    }
    const int sources = up ? n->nbelow : n->parent >= 0;
    for (; n->next < sources; n->next++)
        if (!coll_node_line_there(n, e, up ? n->below[n->next] : n->parent, &k->lost))
            return 0;
    if (!take_and_give(n, k, e, up ? n->parent >= 0 : n->nbelow > 0))
        return 0;
    return coll_node_end(n);
}
