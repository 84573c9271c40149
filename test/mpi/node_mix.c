/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives of the node segment in random order, of random kind, size, root and form, on two
 * communicators, some of them nonblocking with several under way: what one call leaves in shared
 * memory must not be seen by another, whichever way the data went.  All ranks draw the same
 * numbers.  Arguments: seed, number of calls. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WINDOW 3
#define LONGEST 300000 /* bytes of a block; fewer where blocks are personal */

static int rank, size, bad;
static unsigned long long state;

static unsigned draw(unsigned below)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(state >> 33) % below;
}

enum kind {
    BCAST,
    REDUCE,
    ALLREDUCE,
    GATHER,
    SCATTER,
    ALLGATHER,
    ALLTOALL,
    GATHERV,
    SCATTERV,
    ALLGATHERV,
    ALLTOALLV,
    REDUCE_SCATTER,
    REDUCE_SCATTER_BLOCK,
    SCAN,
    EXSCAN,
    BARRIER,
    KINDS
};

struct call {
    enum kind kind;
    int n, root, in_place, nonblocking, salt; /* n: ints of a block */
    MPI_Comm comm;
    MPI_Request req;
    int *in, *out, *counts, *displs;
};

/* Word i of what rank `from` has for rank `to`. */
static int word(const struct call *c, int from, int to, int i)
{
    return (int)((unsigned)from * 7919u + (unsigned)to * 104729u + (unsigned)i * 31u +
                 (unsigned)c->salt * 1299709u);
}

/* Words that go from rank i to rank j in the v forms. */
static int words(const struct call *c, int i, int j) { return (i * 3 + j) % 4 * (c->n / 3); }

static int is_v(enum kind k) { return (k >= GATHERV && k <= ALLTOALLV) || k == REDUCE_SCATTER; }

/* Ints of block `i` of this rank's vector of blocks. */
static int block_n(const struct call *c, int i)
{
    switch (c->kind) {
    case GATHERV:
    case ALLGATHERV:
    case REDUCE_SCATTER:
        return words(c, i, 0);
    case SCATTERV:
        return words(c, 0, i);
    default:
        return c->n;
    }
}

static void make(struct call *c)
{
    size_t all = (size_t)(c->n + 1) * (size_t)(size + 1) * 2 * sizeof(int);
    c->in = malloc(all);
    c->out = malloc(all);
    c->counts = calloc(4 * (size_t)size, sizeof(int));
    c->displs = c->counts + size;
    memset(c->out, 0xee, all);
    for (int i = 0, at = 0, at2 = 0; i < size; i++) {
        int n = c->kind == ALLTOALLV ? words(c, rank, i) : block_n(c, i);
        c->counts[i] = n;
        c->displs[i] = at;
        at += n + (is_v(c->kind) && c->kind != REDUCE_SCATTER);
        c->counts[2 * size + i] = words(c, i, rank); /* alltoallv: words received */
        c->counts[3 * size + i] = at2;
        at2 += words(c, i, rank) + 1;
    }
}

static void fill(struct call *c)
{
    int *own = c->in;
    switch (c->kind) {
    case BARRIER:
        return;
    case BCAST:
        own = c->out;
        for (int i = 0; rank == c->root && i < c->n; i++)
            own[i] = word(c, rank, 0, i);
        return;
    case SCATTER:
    case SCATTERV:
    case ALLTOALL:
    case ALLTOALLV:
        own = c->in_place && c->kind == ALLTOALL ? c->out : c->in;
        for (int j = 0; j < size; j++)
            for (int i = 0; i < c->counts[j]; i++)
                own[c->displs[j] + i] = word(c, rank, j, i);
        return;
    case ALLGATHER:
        if (c->in_place)
            own = c->out + rank * c->n;
        break;
    case ALLREDUCE:
    case SCAN:
    case REDUCE_SCATTER_BLOCK:
        own = c->in_place ? c->out : c->in;
        break;
    case REDUCE:
        own = c->in_place && rank == c->root ? c->out : c->in;
        break;
    default:
        break;
    }
    int n = is_v(c->kind) ? c->counts[rank] : c->n;
    if (c->kind == REDUCE_SCATTER)
        n = c->displs[size - 1] + c->counts[size - 1];
    if (c->kind == REDUCE_SCATTER_BLOCK)
        n = size * c->n;
    for (int i = 0; i < n; i++)
        own[i] = word(c, rank, 0, i);
}

#define CALL(name, ...) \
    (c->nonblocking ? MPI_I##name(__VA_ARGS__, c->comm, &c->req) \
                    : MPI_X##name(__VA_ARGS__, c->comm))
#define MPI_Xbcast MPI_Bcast
#define MPI_Xreduce MPI_Reduce
#define MPI_Xallreduce MPI_Allreduce
#define MPI_Xgather MPI_Gather
#define MPI_Xscatter MPI_Scatter
#define MPI_Xallgather MPI_Allgather
#define MPI_Xalltoall MPI_Alltoall
#define MPI_Xgatherv MPI_Gatherv
#define MPI_Xscatterv MPI_Scatterv
#define MPI_Xallgatherv MPI_Allgatherv
#define MPI_Xalltoallv MPI_Alltoallv
#define MPI_Xreduce_scatter MPI_Reduce_scatter
#define MPI_Xreduce_scatter_block MPI_Reduce_scatter_block
#define MPI_Xscan MPI_Scan
#define MPI_Xexscan MPI_Exscan

static void start(struct call *c)
{
    int n = c->n;
    const void *in = c->in_place ? MPI_IN_PLACE : c->in;
    const void *root_in = rank == c->root ? in : c->in;
    switch (c->kind) {
    case BCAST:
        CALL(bcast, c->out, n, MPI_INT, c->root);
        return;
    case REDUCE:
        CALL(reduce, root_in, c->out, n, MPI_INT, MPI_SUM, c->root);
        return;
    case ALLREDUCE:
        CALL(allreduce, in, c->out, n, MPI_INT, MPI_SUM);
        return;
    case GATHER:
        CALL(gather, c->in, n, MPI_INT, c->out, n, MPI_INT, c->root);
        return;
    case SCATTER:
        CALL(scatter, c->in, n, MPI_INT, c->out, n, MPI_INT, c->root);
        return;
    case ALLGATHER:
        CALL(allgather, in, n, MPI_INT, c->out, n, MPI_INT);
        return;
    case ALLTOALL:
        CALL(alltoall, in, n, MPI_INT, c->out, n, MPI_INT);
        return;
    case GATHERV:
        CALL(gatherv, c->in, c->counts[rank], MPI_INT, c->out, c->counts, c->displs, MPI_INT,
             c->root);
        return;
    case SCATTERV:
        CALL(scatterv, c->in, c->counts, c->displs, MPI_INT, c->out, c->counts[rank], MPI_INT,
             c->root);
        return;
    case ALLGATHERV:
        CALL(allgatherv, c->in, c->counts[rank], MPI_INT, c->out, c->counts, c->displs, MPI_INT);
        return;
    case ALLTOALLV:
        CALL(alltoallv, c->in, c->counts, c->displs, MPI_INT, c->out, c->counts + 2 * size,
             c->counts + 3 * size, MPI_INT);
        return;
    case REDUCE_SCATTER:
        CALL(reduce_scatter, c->in, c->out, c->counts, MPI_INT, MPI_SUM);
        return;
    case REDUCE_SCATTER_BLOCK:
        CALL(reduce_scatter_block, in, c->out, n, MPI_INT, MPI_SUM);
        return;
    case SCAN:
        CALL(scan, in, c->out, n, MPI_INT, MPI_SUM);
        return;
    case EXSCAN:
        CALL(exscan, c->in, c->out, n, MPI_INT, MPI_SUM);
        return;
    default:
        if (c->nonblocking)
            MPI_Ibarrier(c->comm, &c->req);
        else
            MPI_Barrier(c->comm);
        return;
    }
}

/* n words at `got` are those, from word `first` on, that rank `from` has for `to`; from < 0: the
 * sum over ranks [0, -from). */
static void expect(const struct call *c, const int *got, int n, int from, int to, int first)
{
    for (int i = 0; i < n; i++) {
        unsigned want = 0;
        if (from >= 0)
            want = (unsigned)word(c, from, to, first + i);
        for (int r = 0; r < -from; r++)
            want += (unsigned)word(c, r, to, first + i);
        if ((unsigned)got[i] == want)
            continue;
        if (bad++ < 3)
            printf("not ok - rank %d: kind %d of %d ints, root %d%s%s: word %d from %d is %x, "
                   "expected %x\n",
                   rank, (int)c->kind, c->n, c->root, c->in_place ? ", in place" : "",
                   c->nonblocking ? ", nonblocking" : "", i, from, (unsigned)got[i], want);
        return;
    }
}

static void check(const struct call *c)
{
    switch (c->kind) {
    case BARRIER:
        return;
    case BCAST:
        expect(c, c->out, c->n, c->root, 0, 0);
        return;
    case REDUCE:
        expect(c, c->out, rank == c->root ? c->n : 0, -size, 0, 0);
        return;
    case ALLREDUCE:
        expect(c, c->out, c->n, -size, 0, 0);
        return;
    case SCAN:
        expect(c, c->out, c->n, -rank - 1, 0, 0);
        return;
    case EXSCAN:
        expect(c, c->out, rank ? c->n : 0, -rank, 0, 0);
        return;
    case SCATTER:
    case SCATTERV:
        expect(c, c->out, c->counts[rank], c->root, rank, 0);
        return;
    case REDUCE_SCATTER:
    case REDUCE_SCATTER_BLOCK:
        expect(c, c->out, c->counts[rank], -size, 0, c->displs[rank]);
        return;
    case ALLTOALLV:
        for (int r = 0; r < size; r++)
            expect(c, c->out + c->counts[3 * size + r], c->counts[2 * size + r], r, rank, 0);
        return;
    case GATHER:
    case GATHERV:
        if (rank != c->root)
            return;
        /* fall through */
    default:
        for (int r = 0; r < size; r++)
            expect(c, c->out + c->displs[r], c->counts[r], r, c->kind == ALLTOALL ? rank : 0, 0);
        return;
    }
}

static void finish(struct call *c)
{
    if (!c->in)
        return;
    if (c->nonblocking)
        MPI_Wait(&c->req, MPI_STATUS_IGNORE);
    check(c);
    free(c->in);
    free(c->out);
    free(c->counts);
    c->in = NULL;
}

static int draw_n(enum kind k)
{
    static const int lengths[] = { 1, 3, 20, 900, 4000, 20000, LONGEST / 4 };
    int n = lengths[draw(7)];
    int personal = k == ALLTOALL || k == ALLTOALLV || k == REDUCE_SCATTER_BLOCK;
    return personal && size > 4 && n > 20000 ? 20000 : n + (int)draw(3);
}

int main(int argc, char **argv)
{
    struct call calls[WINDOW] = { { 0 } };
    MPI_Comm comms[2];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    int ncalls = argc > 2 ? atoi(argv[2]) : 150;
    comms[0] = MPI_COMM_WORLD;
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    for (int i = 0; i < ncalls; i++) {
        struct call *c = &calls[i % WINDOW];
        finish(c);
        c->kind = (enum kind)draw(KINDS);
        c->n = draw_n(c->kind);
        c->root = (int)draw((unsigned)size);
        c->in_place = (int)draw(2);
        c->nonblocking = (int)draw(3) == 0;
        c->salt = i;
        c->comm = comms[draw(8) == 0];
        make(c);
        fill(c);
        unsigned late = draw(16), us = draw(400);
        if ((int)late == rank)
            usleep(us);
        start(c);
    }
    for (int i = 0; i < WINDOW; i++)
        finish(&calls[(ncalls + i) % WINDOW]);
    MPI_Comm_free(&comms[1]);
    int all = 0;
    MPI_Allreduce(&bad, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s 1 - %d calls among %d ranks\n1..1\n", all ? "not ok" : "ok", ncalls, size);
    MPI_Finalize();
    return all != 0;
}
