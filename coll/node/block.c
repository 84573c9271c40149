/* SPDX-License-Identifier: BSD-3-Clause */
/* node_block of allreduce and reduce, and of long scans and exscans of more than two ranks: every
 * rank reduces a slice.  Larger vectors go through the halves of shared memory in pieces, as a
 * pipeline of steps.
 *
 * Step s copies piece s of the input in, reduces this rank's slice of piece s - 1 over all ranks,
 * and copies the result of piece s - 2 out.  Before a step, all ranks have done the step before it.
 * Pieces alternate between the two halves; each half has a row for every rank's input and one for
 * the result.  Input: piece s overwrites piece s - 2, which all ranks have reduced by step s - 1.
 * Result: step s writes piece s - 1 over piece s - 3, which all ranks have copied out by step s -
 * 1.  Cost: m/piece + 2 synchronisations; for the reduction each rank reads and writes m/p.  Best
 * if ranks outnumber cores, where messages cost context switches.
 *
 * A scan needs no row for the result: the result of each rank replaces its input.  Only the rank
 * itself copies into its row and out of it, and it copies piece s - 2 out before it copies piece s
 * in.
 *
 * At the end some ranks may still copy the last result out.  All ranks have finished with the other
 * half, because the last step began after all ranks had done the step before it.  node.h covers the
 * use of the halves by earlier calls.
 *
 * Two ranks with a core each exchange their whole vectors instead (ring.c).  In a reduce of ranks
 * that outnumber cores the root alone works, as move.c has it: 8 ranks on 2 cores, 256 KiB and 1
 * MiB, median of 4 turns on a busy machine in us by slices and by the root 2148 and 239, 6620 and
 * 4200.  With more ranks per core slices win again (16 ranks, 1 MiB: 10 671 and 11 693). */
#include "coll/node/block.h"

#include <string.h>
#include "coll/node/choose.h"
#include "coll/node/line.h"
#include "coll/sched.h"
#include "runtime/base/err.h"

/* Bytes.  Two sums of this length stay in a first-level cache. */
#define EXSCAN_PART 4096

static int64_t piece_len(const struct coll_node *n)
{
    int64_t len = (int64_t)n->half_len / (n->team->size + 1) & ~(int64_t)(RT_CACHE_LINE - 1);
    return n->crowded || len < COLL_NODE_SLICE_PIECE ? len : COLL_NODE_SLICE_PIECE;
}

static char *input_row(const struct coll_node *n, int rank, int64_t i)
{
    return coll_node_half(n, i) + rank * piece_len(n);
}

static char *result_row(const struct coll_node *n, int64_t i)
{
    return input_row(n, n->team->size, i);
}

/* Copies in the input that other ranks reduce; the rank's own slice only if it cannot be read in
 * place. */
static void share_input(const struct coll_node *n, const struct coll_args *a, struct coll_piece p,
                        int64_t i)
{
    const void *in = coll_input(a);
    char *half = input_row(n, n->team->rank, i);
    struct coll_piece own = coll_node_slice(n, p);
    if (!a->rtype->contig || own.len == 0) {
        coll_piece_in(in, a->rcount, a->rtype, p, half);
        return;
    }
    int64_t after = own.at + own.len;
    struct coll_piece rest = { p.at + after, p.len - after };
    coll_piece_in(in, a->rcount, a->rtype, (struct coll_piece){ p.at, own.at }, half);
    coll_piece_in(in, a->rcount, a->rtype, rest, half + after);
}

/* Where this rank reads its slice of a rank's input. */
static const char *slice_input(const struct coll_node *n, const struct coll_args *a,
                               struct coll_piece p, int64_t i, int rank, int64_t lo)
{
    if (rank == n->team->rank && a->rtype->contig)
        return (const char *)coll_input(a) + p.at + lo;
    return input_row(n, rank, i) + lo;
}

struct source { /* of a slice: piece i, from byte `lo` */
    const struct coll_node *n;
    const struct coll_args *a;
    struct coll_piece p;
    int64_t i, lo;
};

static const void *source_of(const void *arg, int rank)
{
    const struct source *s = arg;
    return slice_input(s->n, s->a, s->p, s->i, rank, s->lo);
}

static void reduce_slice(const struct coll_node *n, const struct coll_args *a, struct coll_piece p,
                         int64_t i, struct coll_piece own)
{
    const struct source s = { n, a, p, i, own.at };
    coll_node_ask(n, source_of, &s, own.len);
    coll_node_fold(a, source_of, &s, n->team->size, result_row(n, i) + own.at, own.len);
}

/* Puts each rank's result of a scan or exscan in place of its input.  In an exscan, where a rank's
 * input is needed after its result, a part at a time; rank 0 has no result. */
static void scan_slice(const struct coll_node *n, const struct coll_args *a, struct coll_piece p,
                       int64_t i, struct coll_piece own)
{
    _Alignas(RT_CACHE_LINE) char sums[2][EXSCAN_PART];
    const int size = n->team->size;
    const bool before = coll_is(a->kind, COLL_IS_EXCLUSIVE);
    const int64_t part = before ? EXSCAN_PART : own.len, elem = rt_elem_nbytes(a->rtype->elem);
    rt_reduce_fn *fn = rt_reduce_find(a->op->code, a->rtype->elem);
    for (int64_t at = own.at, end = own.at + own.len; at < end; at += part) {
        const int64_t len = end - at < part ? end - at : part;
        const char *acc = slice_input(n, a, p, i, 0, at);
        char *first = input_row(n, 0, i) + at;
        if (!before && acc != first)
            memcpy(first, acc, (size_t)len);
        for (int r = 1; r < size; r++) {
            char *out = input_row(n, r, i) + at, *sum = before ? sums[r % 2] : out;
            if (!before || r + 1 < size)
                fn(acc, slice_input(n, a, p, i, r, at), sum, len / elem);
            if (before)
                memcpy(out, acc, (size_t)len);
            acc = sum;
        }
    }
}

static void reduce_piece(const struct coll_node *n, const struct coll_args *a, struct coll_piece p,
                         int64_t i)
{
    struct coll_piece own = coll_node_slice(n, p);
    if (coll_is(a->kind, COLL_IS_PREFIX))
        scan_slice(n, a, p, i, own);
    else if (own.len > 0)
        reduce_slice(n, a, p, i, own);
}

/* Where this rank finds its result of piece i, or NULL. */
static const char *result_of(const struct coll_node *n, const struct coll_args *a, int64_t i)
{
    int rank = n->team->rank;
    if (coll_is(a->kind, COLL_IS_PREFIX))
        return rank == 0 && coll_is(a->kind, COLL_IS_EXCLUSIVE) ? NULL : input_row(n, rank, i);
    return a->kind == COLL_ALLREDUCE || rank == a->root ? result_row(n, i) : NULL;
}

void coll_node_note_poison(const struct coll_node *n, struct coll_task *k)
{
    int to = coll_is(k->args.kind, COLL_IS_PREFIX) ? n->team->rank : n->team->size;
    for (int r = 0; r < to; r++)
        if (rt_unlikely(coll_node_is_poisoned(n, r, n->turn + 1)))
            coll_task_lose(k, -RT_EREMOTE);
}

/* Whether all ranks have done `steps` steps of call e; n->next is 0 at first. */
static bool all_at(struct coll_node *n, uint64_t e, int64_t steps)
{
    for (; n->next < n->team->size; n->next++)
        if (!coll_node_at(n, n->next, e, steps))
            return false;
    return true;
}

int coll_node_go_in_step(struct coll_node *n, struct coll_task *k, const struct coll_node_steps *p)
{
    const uint64_t e = n->turn + 1;
    for (int64_t s; (s = n->step) < p->nsteps;) {
        if (s == 0 ? !coll_node_half_free(n, 0) : !all_at(n, e, s))
            return 0;
        if (rt_unlikely(k->lost) && s == 0)
            coll_node_poison(n, e);
        if (s == 1) {
            coll_node_all_started(n, e);
            coll_node_note_poison(n, k);
        }
        p->work(n, k, p->plan, s);
        n->step++;
        n->next = 0;
        if (n->step < p->nsteps) /* the end of the call publishes the last step */
            coll_node_publish(n, e, n->step);
    }
    coll_node_leave_blocks(n, p->npieces, !p->leaves_early);
    return coll_node_end(n);
}

/* plan: the length of a piece */
static void work(struct coll_node *n, struct coll_task *k, const void *plan, int64_t s)
{
    const struct coll_args *a = &k->args;
    const int64_t bytes = a->rcount * a->rtype->size;
    const int64_t len = *(const int64_t *)plan, npieces = coll_pieces(bytes, len);
    if (s > 0 && s <= npieces)
        reduce_piece(n, a, coll_piece_of(bytes, len, s - 1), s - 1);
    if (s >= 2 && result_of(n, a, s - 2))
        coll_node_take_result(n, a, coll_piece_of(bytes, len, s - 2), result_of(n, a, s - 2));
    if (s < npieces)
        share_input(n, a, coll_piece_of(bytes, len, s), s);
}

int coll_node_slice_step(struct coll_task *k)
{
    struct coll_node *n = k->team->node;
    if (!coll_node_my_turn(n, k))
        return 0;
    const int64_t bytes = k->args.rcount * k->args.rtype->size;
    const int64_t len = piece_len(n), npieces = coll_pieces(bytes, len);
    return coll_node_go_in_step(
        n, k,
        &(struct coll_node_steps){
            .work = work, .plan = &len, .npieces = npieces, .nsteps = npieces + 2 });
}
