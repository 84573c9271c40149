/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls that are timed, of doubles, summed where they reduce; see tune.h. */
#include "coll/node/node.h"
#include "coll/select.h"
#include "test/bench/tune/tune.h"
#include <stdlib.h>
#include "runtime/base/clock.h"

enum { SAMPLES = 200, LEAST = 5 };

bool tune_can_call(enum coll_kind kind)
{
    return kind < COLL_NEIGHBOR_ALLGATHER && kind != COLL_ALLTOALLW && kind != COLL_GATHERV &&
           kind != COLL_SCATTERV && kind != COLL_ALLTOALLV;
}

bool tune_has_sizes(enum coll_kind kind) { return kind != COLL_BARRIER; }

/* Doubles in a block of such a call: the size of a reduce_scatter is that of the whole vector. */
static int64_t block(enum coll_kind kind, int nranks, int64_t bytes)
{
    int64_t n = bytes / (int64_t)sizeof(double);

    if (kind == COLL_REDUCE_SCATTER || kind == COLL_REDUCE_SCATTER_BLOCK)
        n = n > nranks ? n / nranks : 1;
    return n;
}

size_t tune_room(enum coll_kind kind, int nranks, int64_t bytes)
{
    bool one = kind == COLL_BCAST || kind == COLL_REDUCE || kind == COLL_ALLREDUCE ||
               kind == COLL_SCAN || kind == COLL_EXSCAN;
    size_t n = (size_t)block(kind, nranks, bytes) * sizeof(double);

    return one ? n : n * (size_t)nranks;
}

const struct coll_alg *tune_choice(const struct tune_call *c, int64_t bytes)
{
    struct coll_team team = {
        .rank = c->rank, .size = c->size, .one_node = c->node, .limits = &coll_node_limits
    };
    struct rt_op op = { .code = RT_OP_SUM, .commutes = true };
    int64_t n = block(c->kind, c->size, bytes), counts[TUNE_RANKS_MAX];
    struct rt_layout l = { .size = sizeof(double),
                           .extent = sizeof(double),
                           .true_extent = sizeof(double),
                           .contig = true,
                           .elem = RT_ELEM_F64 };
    const char *why;

    if (c->gpu)
        return coll_choose_gpu(c->kind, c->size, bytes, c->direct, &why);
    for (int i = 0; i < c->size; i++)
        counts[i] = n;
    struct coll_args a = { .kind = c->kind,
                           .scount = n,
                           .rcount = n,
                           .stype = &l,
                           .rtype = &l,
                           .op = &op,
                           .scounts = counts,
                           .rcounts = counts,
                           .mem = RT_MEM_HOST };
    return coll_choose(&team, &a, c->node, &why);
}

static void prepare(const struct tune_call *c, int n)
{
    for (int r = 0; r < c->size; r++) {
        c->counts[r] = n;
        c->displs[r] = r * n;
    }
}

static void call(const struct tune_call *c, int n)
{
    MPI_Datatype t = MPI_DOUBLE;

    switch (c->kind) {
    case COLL_BCAST:
        MPI_Bcast(c->rbuf, n, t, 0, c->comm);
        break;
    case COLL_REDUCE:
        MPI_Reduce(c->sbuf, c->rbuf, n, t, MPI_SUM, 0, c->comm);
        break;
    case COLL_ALLREDUCE:
        MPI_Allreduce(c->sbuf, c->rbuf, n, t, MPI_SUM, c->comm);
        break;
    case COLL_GATHER:
        MPI_Gather(c->sbuf, n, t, c->rbuf, n, t, 0, c->comm);
        break;
    case COLL_SCATTER:
        MPI_Scatter(c->sbuf, n, t, c->rbuf, n, t, 0, c->comm);
        break;
    case COLL_ALLGATHER:
        MPI_Allgather(c->sbuf, n, t, c->rbuf, n, t, c->comm);
        break;
    case COLL_ALLGATHERV:
        MPI_Allgatherv(c->sbuf, n, t, c->rbuf, c->counts, c->displs, t, c->comm);
        break;
    case COLL_ALLTOALL:
        MPI_Alltoall(c->sbuf, n, t, c->rbuf, n, t, c->comm);
        break;
    case COLL_REDUCE_SCATTER:
        MPI_Reduce_scatter(c->sbuf, c->rbuf, c->counts, t, MPI_SUM, c->comm);
        break;
    case COLL_REDUCE_SCATTER_BLOCK:
        MPI_Reduce_scatter_block(c->sbuf, c->rbuf, n, t, MPI_SUM, c->comm);
        break;
    case COLL_SCAN:
        MPI_Scan(c->sbuf, c->rbuf, n, t, MPI_SUM, c->comm);
        break;
    case COLL_EXSCAN:
        MPI_Exscan(c->sbuf, c->rbuf, n, t, MPI_SUM, c->comm);
        break;
    default:
        MPI_Barrier(c->comm);
        break;
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Each call starts together; what counts is the rank that takes longest, and of all calls the
 * median. */
double tune_time(const struct tune_call *c, int64_t bytes)
{
    int n = (int)block(c->kind, c->size, bytes), times = 0;
    double us[SAMPLES], most[SAMPLES];
    uint64_t begun = rt_now_ns();

    prepare(c, n);
    call(c, n);
    call(c, n);
    if (c->rank == 0) {
        double each = (double)(rt_now_ns() - begun) * 1e-9 / 2;
        double fit = each > 0 ? c->seconds / each : SAMPLES;
        times = fit < LEAST ? LEAST : fit > SAMPLES ? SAMPLES : (int)fit;
    }
    MPI_Bcast(&times, 1, MPI_INT, 0, c->comm);
    for (int i = 0; i < times; i++) {
        MPI_Barrier(c->comm);
        begun = rt_now_ns();
        call(c, n);
        us[i] = (double)(rt_now_ns() - begun) * 1e-3;
    }
    MPI_Allreduce(us, most, times, MPI_DOUBLE, MPI_MAX, c->comm);
    qsort(most, (size_t)times, sizeof most[0], by_value);
    return most[times / 2];
}
