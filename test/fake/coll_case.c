/* SPDX-License-Identifier: BSD-3-Clause */
/* See coll_case.h.  An element is two 32-bit words.  For the predefined operation it is a pair of
 * unsigned sums; for the user operation a piece of a hashed string (hash, power), whose
 * concatenation is associative but not commutative. */
#include "test/fake/coll_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "test/fake/neighbor_case.h"

#define FILL 0xa5
#define GUARD 32

struct word2 {
    uint32_t h, p;
};

struct coll_buffers {
    char **send, **recv; /* [size], with guards on both sides */
    int64_t send_len, recv_len;
    int64_t *counts, *displs; /* v forms: [size * size] and [size * size], by rank; in elements */
    int64_t *byte_displs;     /* w form */
    const struct rt_layout **types;
    struct neighbor_buffers *neighbor; /* neighbourhood collectives: all their buffers */
};

static const int64_t gap_off[] = { 0 };
static const struct rt_blocks gap = { .n = 1, .size = 8, .high = 8, .piece = 8, .off = gap_off };
static const struct rt_layout tight_sum = {
    .size = 8, .extent = 8, .true_extent = 8, .elem = RT_ELEM_U32, .contig = true
};
static const struct rt_layout gappy_sum = { .size = 8,
                                            .extent = 12,
                                            .true_extent = 8,
                                            .elem = RT_ELEM_U32,

                                            .blocks = &gap };
static const struct rt_layout tight_any = {
    .size = 8, .extent = 8, .true_extent = 8, .elem = RT_ELEM_NONE, .contig = true
};
static const struct rt_layout gappy_any = { .size = 8,
                                            .extent = 12,
                                            .true_extent = 8,
                                            .elem = RT_ELEM_NONE,

                                            .blocks = &gap };

static struct word2 concat(struct word2 a, struct word2 b)
{
    return (struct word2){ a.h * b.p + b.h, a.p * b.p };
}

static void user_concat(const struct rt_op *op, const void *in, void *inout, int64_t n,
                        const struct rt_layout *l)
{
    (void)op;
    for (int64_t i = 0; i < n; i++) {
        struct word2 a, b;
        memcpy(&a, (const char *)in + i * l->extent, 8);
        memcpy(&b, (char *)inout + i * l->extent, 8);
        b = concat(a, b);
        memcpy((char *)inout + i * l->extent, &b, 8);
    }
}

static const struct rt_op op_user = { .code = RT_OP_USER, .user = user_concat };
static const struct rt_op op_sum = { .code = RT_OP_SUM, .commutes = true };

static const struct rt_layout *layout_of(const struct coll_case *c)
{
    if (c->user_op)
        return c->gaps ? &gappy_any : &tight_any;
    return c->gaps ? &gappy_sum : &tight_sum;
}

/* Element e that rank src contributes for rank dst. */
static struct word2 value(const struct coll_case *c, int src, int dst, int64_t e)
{
    uint32_t x = (uint32_t)src * 2654435761u ^ (uint32_t)dst * 40503u ^ (uint32_t)e * 2246822519u ^
                 c->salt * 3266489917u;
    x ^= x >> 15;
    return (struct word2){ x * 2246822519u, (x >> 7 | 1) * 31 };
}

static struct word2 combine(const struct coll_case *c, struct word2 a, struct word2 b)
{
    return c->user_op ? concat(a, b) : (struct word2){ a.h + b.h, a.p + b.p };
}

/* Elements sent from i to j in a v form: symmetric, so that in place works, and sometimes 0. */
static int64_t count_v(const struct coll_case *c, int i, int j)
{
    return (i + j) % 4 * c->count / 2;
}

static bool is_reduction(enum coll_kind k)
{
    return k == COLL_REDUCE || k == COLL_ALLREDUCE || k == COLL_REDUCE_SCATTER ||
           k == COLL_REDUCE_SCATTER_BLOCK || k == COLL_SCAN || k == COLL_EXSCAN;
}

static bool is_alltoall(enum coll_kind k)
{
    return k == COLL_ALLTOALL || k == COLL_ALLTOALLV || k == COLL_ALLTOALLW;
}

static bool is_v(enum coll_kind k)
{
    return k == COLL_GATHERV || k == COLL_SCATTERV || k == COLL_ALLGATHERV || k == COLL_ALLTOALLV ||
           k == COLL_ALLTOALLW || k == COLL_REDUCE_SCATTER;
}

/* Elements of the block between i and j, and its place in the larger buffer of rank r (r only
 * matters for alltoall). */
static int64_t block_n(const struct coll_case *c, int r, int other)
{
    if (!is_v(c->kind))
        return c->count;
    return is_alltoall(c->kind) ? count_v(c, r, other) : count_v(c, other, 0);
}

static int64_t block_at(const struct coll_case *c, int r, int other)
{
    int64_t at = 0;
    if (!is_v(c->kind))
        return other * c->count;
    for (int i = 0; i < other; i++)
        at += block_n(c, r, i) + (c->kind != COLL_REDUCE_SCATTER); /* one element between blocks */
    return at;
}

static int64_t all_n(const struct coll_case *c, int r) { return block_at(c, r, c->size); }

/* Whether send and receive buffers are as long as the blocks of all ranks; otherwise as one
 * block. */
static bool sends_all(enum coll_kind k)
{
    return is_alltoall(k) || k == COLL_SCATTER || k == COLL_SCATTERV || k == COLL_REDUCE_SCATTER ||
           k == COLL_REDUCE_SCATTER_BLOCK;
}

static bool receives_all(const struct coll_case *c)
{
    enum coll_kind k = c->kind;
    bool reduces = k == COLL_REDUCE_SCATTER || k == COLL_REDUCE_SCATTER_BLOCK;
    return is_alltoall(k) || k == COLL_GATHER || k == COLL_GATHERV || k == COLL_ALLGATHER ||
           k == COLL_ALLGATHERV || (c->in_place && reduces);
}

/* Not much longer than a rank needs: otherwise a sanitizer spends most of its time on fresh
 * pages. */
static int64_t buffer_len(const struct coll_case *c, bool all)
{
    int64_t most = c->kind == COLL_BARRIER ? 0 : c->count;
    for (int r = 0; c->kind != COLL_BARRIER && r < c->size; r++) {
        int64_t n = all ? all_n(c, r) : block_n(c, r, r);
        most = n > most ? n : most;
    }
    return 2 * GUARD + most * layout_of(c)->extent;
}

/* Elements [first, first + n) that src contributes for dst, to buf from element `at` on.  This
 * function and the comparison take most of the time of the tests. */
static void put(const struct coll_case *c, char *buf, int64_t at, int src, int dst, int64_t first,
                int64_t n)
{
    int64_t extent = layout_of(c)->extent;
    for (int64_t e = 0; e < n; e++) {
        struct word2 v = value(c, src, dst, first + e);
        memcpy(buf + (at + e) * extent, &v, 8);
    }
}

/* Writes rank r's contribution into a buffer shaped like the send (or, in place, the receive)
 * buffer. */
static void fill_input(const struct coll_case *c, int r, char *buf, bool in_recv)
{
    bool blocks = is_alltoall(c->kind) ||
                  ((c->kind == COLL_SCATTER || c->kind == COLL_SCATTERV) && r == c->root);
    if (blocks) {
        for (int j = 0; j < c->size; j++)
            put(c, buf, block_at(c, r, j), r, j, 0, block_n(c, r, j));
        return;
    }
    bool gathers = c->kind == COLL_GATHER || c->kind == COLL_GATHERV || c->kind == COLL_ALLGATHER ||
                   c->kind == COLL_ALLGATHERV;
    int64_t n = c->count, at = 0;
    if (gathers) {
        n = block_n(c, r, r);
        at = in_recv ? block_at(c, r, r) : 0;
    } else if (c->kind == COLL_REDUCE_SCATTER || c->kind == COLL_REDUCE_SCATTER_BLOCK) {
        n = all_n(c, r);
    }
    put(c, buf, at, r, 0, 0, n);
}

/* Whether this rank passes MPI_IN_PLACE, and for which buffer. */
static bool in_place_recv(const struct coll_case *c, int r)
{
    return c->in_place && (c->kind == COLL_SCATTER || c->kind == COLL_SCATTERV) && r == c->root;
}

static bool in_place_send(const struct coll_case *c, int r)
{
    bool root_only = c->kind == COLL_REDUCE || c->kind == COLL_GATHER || c->kind == COLL_GATHERV;
    bool never = c->kind == COLL_BARRIER || c->kind == COLL_BCAST || c->kind == COLL_SCATTER ||
                 c->kind == COLL_SCATTERV;
    return c->in_place && !never && (!root_only || r == c->root);
}

static void set_args(const struct coll_case *c, struct coll_buffers *b, int r, struct coll_args *a)
{
    const struct rt_layout *l = layout_of(c);
    int64_t *counts = b->counts + r * c->size, *displs = b->displs + r * c->size,
            *bytes = b->byte_displs + r * c->size;
    *a = (struct coll_args){ .kind = c->kind,
                             .root = c->root,
                             .stype = l,
                             .rtype = l,
                             .scount = c->count,
                             .rcount = c->count,
                             .sbuf = in_place_send(c, r) ? COLL_IN_PLACE : b->send[r] + GUARD,
                             .rbuf = in_place_recv(c, r) ? COLL_IN_PLACE : b->recv[r] + GUARD,
                             .op = is_reduction(c->kind) ? (c->user_op ? &op_user : &op_sum)
                                                         : NULL };
    for (int i = 0; i < c->size; i++) {
        counts[i] = block_n(c, r, i);
        displs[i] = block_at(c, r, i);
        bytes[i] = displs[i] * l->extent;
        b->types[i] = l;
    }
    if (!is_v(c->kind))
        return;
    bool w = c->kind == COLL_ALLTOALLW, a2a = is_alltoall(c->kind);
    if (a2a || c->kind == COLL_SCATTERV) {
        a->scounts = counts;
        a->sdispls = w ? bytes : displs;
    }
    if (c->kind != COLL_SCATTERV) {
        a->rcounts = counts;
        a->rdispls = w ? bytes : displs;
    }
    if (w)
        a->stypes = a->rtypes = b->types;
    a->scount = c->kind == COLL_SCATTERV ? 0 : block_n(c, r, r);
    a->rcount = c->kind == COLL_SCATTERV ? block_n(c, r, r) : 0;
}

struct coll_buffers *coll_case_make(const struct coll_case *c, struct coll_args *args)
{
    size_t p = (size_t)c->size;
    struct coll_buffers *b = calloc(1, sizeof *b);
    if (neighbor_case_is(c->kind)) {
        b->neighbor = neighbor_case_make(c, args);
        return b;
    }
    b->send_len = buffer_len(c, sends_all(c->kind));
    b->recv_len = buffer_len(c, receives_all(c));
    b->send = calloc(p, sizeof *b->send);
    b->recv = calloc(p, sizeof *b->recv);
    b->counts = calloc(p * p, sizeof *b->counts);
    b->displs = calloc(p * p, sizeof *b->displs);
    b->byte_displs = calloc(p * p, sizeof *b->byte_displs);
    b->types = calloc(p, sizeof *b->types);
    for (int r = 0; r < c->size; r++) {
        b->send[r] = malloc((size_t)b->send_len);
        b->recv[r] = malloc((size_t)b->recv_len);
        memset(b->send[r], FILL, (size_t)b->send_len);
        memset(b->recv[r], FILL, (size_t)b->recv_len);
        set_args(c, b, r, &args[r]);
        if (c->kind == COLL_BARRIER)
            continue;
        if (c->kind == COLL_BCAST ? r == c->root : in_place_send(c, r))
            fill_input(c, r, b->recv[r] + GUARD, true);
        else if (c->kind != COLL_BCAST)
            fill_input(c, r, b->send[r] + GUARD, false);
    }
    return b;
}

void coll_case_each(const struct coll_case *c, struct coll_buffers *b, coll_case_fn *fn,
                    struct coll_args *args)
{
    for (int r = 0; r < c->size; r++) {
        char *send = fn(b->send[r], b->send_len), *recv = fn(b->recv[r], b->recv_len);
        if (args && args[r].sbuf != COLL_IN_PLACE)
            args[r].sbuf = send + GUARD;
        if (args && args[r].rbuf != COLL_IN_PLACE)
            args[r].rbuf = recv + GUARD;
    }
}

void coll_case_free(const struct coll_case *c, struct coll_buffers *b)
{
    if (b->neighbor)
        neighbor_case_free(c, b->neighbor);
    for (int r = 0; b->send && r < c->size; r++) {
        free(b->send[r]);
        free(b->recv[r]);
    }
    free(b->send);
    free(b->recv);
    free(b->counts);
    free(b->displs);
    free(b->byte_displs);
    free(b->types);
    free(b);
}

/* ---- expected results ---- */

/* The contributions of the lower ranks to a reduction, for all elements of all blocks. */
struct folded {
    struct word2 *v;
    int64_t n;
};

static void fold(const struct coll_case *c, struct folded *f, int r)
{
    for (int64_t e = 0; e < f->n; e++)
        f->v[e] = r ? combine(c, f->v[e], value(c, r, 0, e)) : value(c, 0, 0, e);
}

/* Folds what is needed for the expected result of rank r; ranks come in order, each once. */
static void fold_before(const struct coll_case *c, struct folded *f, int r)
{
    bool scatters = c->kind == COLL_REDUCE_SCATTER || c->kind == COLL_REDUCE_SCATTER_BLOCK;
    if (!is_reduction(c->kind))
        return;
    if (!f->v) {
        f->n = scatters ? all_n(c, r) : c->count;
        f->v = calloc((size_t)f->n + 1, sizeof *f->v);
    }
    if (c->kind == COLL_SCAN)
        fold(c, f, r);
    else if (c->kind == COLL_EXSCAN && r > 0)
        fold(c, f, r - 1);
    for (int i = 0; c->kind != COLL_SCAN && c->kind != COLL_EXSCAN && r == 0 && i < c->size; i++)
        fold(c, f, i);
}

static void put_folded(const struct coll_case *c, const struct folded *f, char *buf, int64_t first,
                       int64_t n)
{
    int64_t extent = layout_of(c)->extent;
    for (int64_t e = 0; e < n; e++)
        memcpy(buf + e * extent, &f->v[first + e], 8);
}

/* Writes the expected result of rank r over a copy of the initial contents of its receive
 * buffer. */
static void expect(const struct coll_case *c, const struct folded *f, int r, char *buf)
{
    bool root = r == c->root;
    switch (c->kind) {
    case COLL_BARRIER:
        return;
    case COLL_BCAST:
        put(c, buf, 0, c->root, 0, 0, c->count);
        return;
    case COLL_SCATTER:
    case COLL_SCATTERV:
        if (!in_place_recv(c, r))
            put(c, buf, 0, c->root, r, 0, block_n(c, c->root, r));
        return;
    case COLL_GATHER:
    case COLL_GATHERV:
    case COLL_ALLGATHER:
    case COLL_ALLGATHERV:
    case COLL_ALLTOALL:
    case COLL_ALLTOALLV:
    case COLL_ALLTOALLW:
        if ((c->kind == COLL_GATHER || c->kind == COLL_GATHERV) && !root)
            return;
        for (int i = 0; i < c->size; i++)
            put(c, buf, block_at(c, r, i), i, is_alltoall(c->kind) ? r : 0, 0, block_n(c, r, i));
        return;
    case COLL_REDUCE_SCATTER:
    case COLL_REDUCE_SCATTER_BLOCK:
        put_folded(c, f, buf, block_at(c, r, r), block_n(c, r, r));
        return;
    default:
        if ((c->kind != COLL_REDUCE || root) && (c->kind != COLL_EXSCAN || r > 0))
            put_folded(c, f, buf, 0, c->count);
        return;
    }
}

/* Whether the bytes are equal; prints the first difference. */
bool coll_case_same(int r, const char *got, const char *want, int64_t len)
{
    if (!memcmp(got, want, (size_t)len))
        return true;
    int64_t i = 0;
    while (got[i] == want[i])
        i++;
    printf("# rank %d: byte %lld of the receive buffer is %02x, expected %02x\n", r,
           (long long)(i - GUARD), (unsigned char)got[i], (unsigned char)want[i]);
    return false;
}

int coll_case_check(const struct coll_case *c, const struct coll_args *args,
                    const struct coll_buffers *b)
{
    if (b->neighbor)
        return neighbor_case_check(c, b->neighbor);
    int bad = 0;
    struct folded folded = { 0 };
    char *want = malloc((size_t)(b->recv_len > b->send_len ? b->recv_len : b->send_len));
    (void)args;
    for (int r = 0; r < c->size && !bad; r++) {
        memset(want, FILL, (size_t)b->recv_len);
        if (c->kind == COLL_BCAST ? r == c->root : c->kind != COLL_BARRIER && in_place_send(c, r))
            fill_input(c, r, want + GUARD, true);
        fold_before(c, &folded, r);
        expect(c, &folded, r, want + GUARD);
        if (c->excused && c->excused[r])
            continue;
        bad = !coll_case_same(r, b->recv[r], want, b->recv_len);
        memset(want, FILL, (size_t)b->send_len);
        if (c->kind != COLL_BARRIER && c->kind != COLL_BCAST && !in_place_send(c, r))
            fill_input(c, r, want + GUARD, false);
        if (memcmp(want, b->send[r], (size_t)b->send_len)) {
            printf("# rank %d: the send buffer has been written to\n", r);
            bad = 1;
        }
    }
    free(folded.v);
    free(want);
    return bad;
}
