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
 * A reduction to one root would gain nothing: its root sees 31 lines at once (32 ranks, mesh Xeon,
 * 8 B to 4 KiB: 0.7 to 3.2 us by node_flat, 1.0 to 3.1 in two rounds).  Nor does asking for the
 * data of a cell before the last line is there.
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

static void wake(const struct coll_node *n, int from, int to)
{
    struct coll_team *t = n->team;
    for (int i = from; i < to; i++)
        if (i != t->rank)
            t->ops->shm_wake(t, i);
}

/* Wakes the ranks that this rank serves in the second round. */
static void wake_readers(const struct coll_node *n)
{
    const int rank = n->team->rank, column = column_of(n, rank);
    const bool last = rank + 1 == begin_of(n, row_of(n, rank) + 1);
    for (int row = 0; row < n->rows; row++) {
        int from = begin_of(n, row) + column, end = begin_of(n, row + 1);
        wake(n, from, last || from >= end ? end : from + 1);
    }
}

/* ---- the rounds ---- */

struct source { /* the payloads that a rank combines: those of a row, or of a column */
    const struct coll_node *n;
    uint64_t e;
    int64_t payload;
    int first;
};

static const void *of_row(const void *arg, int i)
{
    const struct source *s = arg;
    return coll_node_data(s->n, s->e, s->first + i, s->payload);
}

static const void *of_column(const void *arg, int row)
{
    const struct source *s = arg;
    return coll_node_data(s->n, s->e, at(s->n, row, s->first), s->payload);
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
    wake(n, begin_of(n, row), begin_of(n, row + 1));
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
    const struct source s = { n, e, payload, first };
    if (payload)
        coll_node_fold(&k->args, of_row, &s, end - first, coll_node_data(n, e + 1, rank, payload),
                       payload);
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
    const struct source s = { n, e + 1, k->bytes, column };
    char *acc = a->rtype->contig ? a->rbuf : tmp;
    coll_node_fold(a, of_column, &s, n->rows, acc, k->bytes);
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
