/* SPDX-License-Identifier: BSD-3-Clause */
/* node_cut: reduce_scatter and reduce_scatter_block of more than two ranks with a core each, from a
 * page on.  As in block.c each rank reduces a slice, here its own block, into its own buffer; so no
 * result goes through shared memory.
 *
 * Step s combines part s - 1 of this rank's block out of all ranks' rows, and then copies part s of
 * the other ranks' blocks into this rank's row.  Before a step, all ranks have done the step before
 * it.  Parts alternate between the two halves: part s overwrites part s - 2, which all ranks have
 * combined in step s - 1.  A rank without a block leaves when its last part is in its row.
 *
 * In place, the result overwrites input: part s of the result lies where no part later than s of
 * any block lies, and these have been copied in.  Only this rank's own input, which others do not
 * read, is otherwise not copied.
 *
 * Cost: m / part + 1 synchronisations; a rank copies m and reads m. */
#include "coll/node/block.h"
#include "coll/node/choose.h"
#include "coll/node/line.h"
#include "coll/sched.h"

struct cut {        /* how the call is divided; the same on all ranks, but for `own` */
    int64_t part;   /* bytes */
    int64_t nparts; /* of the longest block */
    int64_t row;    /* bytes of a rank's row */
};

static int64_t count_of(const struct coll_args *a, int rank)
{
    return a->rcounts ? a->rcounts[rank] : a->rcount;
}

/* Blocks without data have no place in a row. */
static struct cut cut_of(const struct coll_node *n, const struct coll_args *a)
{
    const int size = n->team->size;
    struct cut c = { .row = (int64_t)n->half_len / size & ~(int64_t)(RT_CACHE_LINE - 1) };
    int64_t longest = 0, nblocks = 0;
    for (int r = 0; r < size; r++) {
        int64_t len = count_of(a, r) * a->rtype->size;
        longest = len > longest ? len : longest;
        nblocks += len > 0;
    }
    c.part = c.row / (nblocks ? nblocks : 1) & ~(int64_t)(RT_CACHE_LINE - 1);
    c.nparts = coll_pieces(longest, c.part);
    return c;
}

static char *row_of(const struct coll_node *n, const struct cut *c, int rank, int64_t s)
{
    return coll_node_half(n, s) + rank * c->row;
}

/* Part s of a block that begins at byte `at` of the packed input. */
static struct coll_piece part_at(const struct coll_args *a, const struct cut *c, int rank,
                                 int64_t at, int64_t s)
{
    struct coll_piece p = coll_piece_of(count_of(a, rank) * a->rtype->size, c->part, s);
    p.at += at;
    return p;
}

/* Whether this rank's own input is combined out of its row, too. */
static bool stages_own(const struct coll_node *n, const struct coll_args *a)
{
    return !a->rtype->contig || (a->sbuf == COLL_IN_PLACE && n->team->rank > 0);
}

static void copy_in(const struct coll_node *n, const struct coll_args *a, const struct cut *c,
                    int64_t s)
{
    const int size = n->team->size, rank = n->team->rank;
    char *to = row_of(n, c, rank, s);
    const int64_t total = coll_args_parts(a, size);
    int64_t at = 0;
    for (int r = 0; r < size; r++) {
        struct coll_piece p = part_at(a, c, r, at, s);
        if (p.len > 0 && (r != rank || stages_own(n, a)))
            coll_piece_in(coll_input(a), total, a->rtype, p, to);
        to += count_of(a, r) > 0 ? c->part : 0;
        at += count_of(a, r) * a->rtype->size;
    }
}

struct source {
    const struct coll_node *n;
    const struct cut *c;
    const char *own; /* NULL: in its row */
    int64_t s, at;
};

static const void *source_of(const void *arg, int rank)
{
    const struct source *s = arg;
    if (s->own && rank == s->n->team->rank)
        return s->own;
    return row_of(s->n, s->c, rank, s->s) + s->at;
}

static void combine(struct coll_node *n, struct coll_task *k, const struct cut *c, int64_t s)
{
    const struct coll_args *a = &k->args;
    const int rank = n->team->rank;
    const struct coll_piece p = part_at(a, c, rank, coll_args_parts(a, rank) * a->rtype->size, s);
    struct source from = { .n = n, .c = c, .s = s };
    if (p.len <= 0)
        return;
    for (int r = 0; r < rank; r++)
        from.at += count_of(a, r) > 0 ? c->part : 0;
    if (!stages_own(n, a))
        from.own = (const char *)coll_input(a) + p.at;
    char *out = a->rtype->contig ? (char *)a->rbuf + s * c->part : coll_node_scratch(n);
    if (!out) {
        coll_task_lose(k, -RT_ENOMEM);
        return;
    }
    coll_node_ask(n, source_of, &from, p.len);
    coll_node_fold(a, source_of, &from, n->team->size, out, p.len);
    if (!a->rtype->contig)
        coll_piece_out(a->rbuf, count_of(a, rank), a->rtype,
                       (struct coll_piece){ s * c->part, p.len }, out);
}

static void work(struct coll_node *n, struct coll_task *k, const void *plan, int64_t s)
{
    const struct cut *c = plan;
    if (s > 0)
        combine(n, k, c, s - 1);
    if (s < c->nparts)
        copy_in(n, &k->args, c, s);
}

int coll_node_cut_step(struct coll_task *k)
{
    struct coll_node *n = k->team->node;
    if (!coll_node_my_turn(n, k))
        return 0;
    const struct cut c = cut_of(n, &k->args);
    const bool none = count_of(&k->args, n->team->rank) == 0;
    return coll_node_go_in_step(n, k,
                                &(struct coll_node_steps){ .work = work,
                                                           .plan = &c,
                                                           .npieces = c.nparts,
                                                           .nsteps = c.nparts + !none,
                                                           .leaves_early = none });
}
