/* SPDX-License-Identifier: BSD-3-Clause */
/* See neighbor_case.h.  The graph follows from the case's salt: a grid of one or two dimensions,
 * each periodic or not; a random multigraph with self-loops; or all to all.  For each received
 * block, the reference looks up its sender and its index among the sender's blocks. */
#include "test/fake/neighbor_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILL 0xa5
#define GUARD 32

struct rank_data {
    struct coll_neighbors nb;
    int *sources, *destinations;
    int64_t *scounts, *sdispls, *rcounts, *rdispls; /* elements; bytes for the w form */
    const struct rt_layout **types;
    char *send, *recv, *want, *sent;
    int64_t send_len, recv_len;
};

struct neighbor_buffers {
    struct rank_data *ranks;
};

static const int64_t gap_off[] = { 0 };
static const struct rt_blocks gap = { .n = 1, .size = 8, .high = 8, .piece = 8, .off = gap_off };
static const struct rt_layout tight = {
    .size = 8, .extent = 8, .true_extent = 8, .elem = RT_ELEM_U64, .contig = true
};
static const struct rt_layout gappy = {
    .size = 8, .extent = 12, .true_extent = 8, .elem = RT_ELEM_U64, .blocks = &gap
};

bool neighbor_case_is(enum coll_kind k)
{
    return k >= COLL_NEIGHBOR_ALLGATHER && k <= COLL_NEIGHBOR_ALLTOALLW;
}

static bool is_v(enum coll_kind k)
{
    return k != COLL_NEIGHBOR_ALLGATHER && k != COLL_NEIGHBOR_ALLTOALL;
}

static bool is_allgather(enum coll_kind k)
{
    return k == COLL_NEIGHBOR_ALLGATHER || k == COLL_NEIGHBOR_ALLGATHERV;
}

static uint32_t hash(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t x = a * 2654435761u ^ b * 40503u ^ c * 2246822519u;
    x ^= x >> 15;
    return x * 2246822519u >> 8;
}

/* Rank of the neighbour in a grid of size / d1 times d1; -1 beyond a non-periodic edge. */
static int grid_neighbor(const struct coll_case *c, int rank, int slot)
{
    int d1 = c->size % 2 == 0 && c->size > 2 ? 2 : 1, dims[2] = { c->size / d1, d1 };
    int at[2] = { rank / d1, rank % d1 }, dim = slot / 2, step = slot % 2 ? 1 : -1;
    bool periodic = c->salt >> 2 * dim & 1;
    at[dim] += step;
    if (!periodic && (at[dim] < 0 || at[dim] >= dims[dim]))
        return -1;
    at[dim] = (at[dim] + dims[dim]) % dims[dim];
    return at[0] * d1 + at[1];
}

static int multiplicity(const struct coll_case *c, int from, int to)
{
    if (c->salt % 4 == 3)
        return 1;
    uint32_t h = hash((uint32_t)from + 1, (uint32_t)to + 1, c->salt) % 16;
    return h < 9 ? 0 : h < 14 ? 1 : 2;
}

static bool is_grid(const struct coll_case *c) { return c->salt % 4 < 2; }

static void make_lists(const struct coll_case *c, int r, struct rank_data *d)
{
    int in = 0, out = 0, room = is_grid(c) ? 4 : 2 * c->size;
    d->sources = calloc((size_t)room, sizeof(int));
    d->destinations = calloc((size_t)room, sizeof(int));
    for (int i = 0; is_grid(c) && i < 4; i++)
        d->sources[in++] = d->destinations[out++] = grid_neighbor(c, r, i);
    for (int i = 0; !is_grid(c) && i < 2 * c->size; i++) { /* second copies come last */
        int other = i % c->size, copy = i / c->size;
        if (multiplicity(c, other, r) > copy)
            d->sources[in++] = other;
        if (multiplicity(c, r, c->size - 1 - other) > copy)
            d->destinations[out++] = c->size - 1 - other;
    }
    d->nb = (struct coll_neighbors){ in, out, d->sources, d->destinations, is_grid(c) };
}

/* The index under which the source of block `slot` of rank r sends that block. */
static int sent_as(const struct coll_case *c, const struct neighbor_buffers *b, int r, int slot)
{
    const struct rank_data *d = &b->ranks[r], *s = &b->ranks[d->sources[slot]];
    if (is_grid(c))
        return slot ^ 1;
    int nth = 0;
    for (int i = 0; i < slot; i++)
        nth += d->sources[i] == d->sources[slot];
    for (int i = 0; i < s->nb.ndestinations; i++)
        if (s->destinations[i] == r && nth-- == 0)
            return i;
    printf("# the test's graph is wrong\n");
    abort();
}

static int64_t sent_n(const struct coll_case *c, int from, int slot)
{
    if (c->kind == COLL_NEIGHBOR_ALLGATHERV)
        return (int64_t)(from % 3) * c->count / 2;
    return is_v(c->kind) ? (from + slot) % 4 * c->count / 2 : c->count;
}

/* Writes the n elements of a block to buf from element `at` on. */
static void put(const struct coll_case *c, char *buf, int64_t at, int from, int slot, int64_t n)
{
    int64_t extent = (c->gaps ? &gappy : &tight)->extent;
    uint64_t v = (uint64_t)hash((uint32_t)from, (uint32_t)slot, c->salt) << 32;
    for (int64_t e = 0; e < n; e++, v++)
        memcpy(buf + (at + e) * extent, &v, 8);
}

/* Counts and displacements of one side; one element between the blocks. */
static int64_t place(const struct coll_case *c, int n, int64_t *counts, int64_t *displs)
{
    int64_t at = 0;
    for (int i = 0; i < n; i++) {
        displs[i] = at;
        at += counts[i] + is_v(c->kind);
    }
    return at;
}

static void to_bytes(const struct coll_case *c, int n, int64_t *displs, const struct rt_layout *l)
{
    for (int i = 0; c->kind == COLL_NEIGHBOR_ALLTOALLW && i < n; i++)
        displs[i] *= l->extent;
}

static char *filled(int64_t len) { return memset(malloc((size_t)len), FILL, (size_t)len); }

static void make_rank(const struct coll_case *c, struct neighbor_buffers *b, int r,
                      struct coll_args *a)
{
    struct rank_data *d = &b->ranks[r];
    const struct rt_layout *l = c->gaps ? &gappy : &tight;
    int in = d->nb.nsources, out = d->nb.ndestinations, most = in > out ? in : out;
    int64_t *v = calloc(4 * (size_t)most + 1, sizeof *v);
    d->scounts = v;
    d->sdispls = v + most;
    d->rcounts = v + 2 * most;
    d->rdispls = v + 3 * most;
    d->types = calloc((size_t)most + 1, sizeof *d->types);
    for (int i = 0; i < most; i++)
        d->types[i] = l;
    for (int i = 0; i < out; i++)
        d->scounts[i] = sent_n(c, r, i);
    for (int i = 0; i < in; i++)
        d->rcounts[i] = d->sources[i] < 0 ? c->count
                                          : sent_n(c, d->sources[i], sent_as(c, b, r, i));
    int64_t own = is_allgather(c->kind) ? sent_n(c, r, 0) : 0;
    int64_t sends = is_allgather(c->kind) ? own : place(c, out, d->scounts, d->sdispls);
    d->send_len = 2 * GUARD + (sends + 1) * l->extent;
    d->recv_len = 2 * GUARD + (place(c, in, d->rcounts, d->rdispls) + 1) * l->extent;
    d->send = filled(d->send_len);
    d->recv = filled(d->recv_len);
    d->want = filled(d->recv_len);
    put(c, d->send + GUARD, 0, r, 0, own);
    for (int i = 0; !is_allgather(c->kind) && i < out; i++)
        put(c, d->send + GUARD, d->sdispls[i], r, i, d->scounts[i]);
    for (int i = 0; i < in; i++)
        if (d->sources[i] >= 0)
            put(c, d->want + GUARD, d->rdispls[i], d->sources[i],
                is_allgather(c->kind) ? 0 : sent_as(c, b, r, i), d->rcounts[i]);
    d->sent = memcpy(malloc((size_t)d->send_len), d->send, (size_t)d->send_len);
    to_bytes(c, out, d->sdispls, l);
    to_bytes(c, in, d->rdispls, l);
    *a = (struct coll_args){ .kind = c->kind,
                             .neighbors = &d->nb,
                             .sbuf = d->send + GUARD,
                             .rbuf = d->recv + GUARD,
                             .scount = is_allgather(c->kind) ? own : c->count,
                             .rcount = c->count,
                             .stype = l,
                             .rtype = l };
    if (is_v(c->kind)) {
        a->scounts = d->scounts;
        a->sdispls = d->sdispls;
        a->rcounts = d->rcounts;
        a->rdispls = d->rdispls;
    }
    if (c->kind == COLL_NEIGHBOR_ALLTOALLW)
        a->stypes = a->rtypes = d->types;
}

struct neighbor_buffers *neighbor_case_make(const struct coll_case *c, struct coll_args *args)
{
    struct neighbor_buffers *b = calloc(1, sizeof *b);
    b->ranks = calloc((size_t)c->size, sizeof *b->ranks);
    for (int r = 0; r < c->size; r++)
        make_lists(c, r, &b->ranks[r]);
    for (int r = 0; r < c->size; r++)
        make_rank(c, b, r, &args[r]);
    return b;
}

int neighbor_case_check(const struct coll_case *c, const struct neighbor_buffers *b)
{
    for (int r = 0; r < c->size; r++) {
        const struct rank_data *d = &b->ranks[r];
        if (!coll_case_same(r, d->recv, d->want, d->recv_len))
            return 1;
        if (memcmp(d->send, d->sent, (size_t)d->send_len)) {
            printf("# rank %d: the send buffer has been written to\n", r);
            return 1;
        }
    }
    return 0;
}

void neighbor_case_free(const struct coll_case *c, struct neighbor_buffers *b)
{
    for (int r = 0; r < c->size; r++) {
        struct rank_data *d = &b->ranks[r];
        free(d->sources);
        free(d->destinations);
        free(d->scounts);
        free(d->types);
        free(d->send);
        free(d->recv);
        free(d->want);
        free(d->sent);
    }
    free(b->ranks);
    free(b);
}
