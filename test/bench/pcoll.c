/* SPDX-License-Identifier: BSD-3-Clause */
/* Persistent collectives: the call is made once for each size, outside the time; timed are
 * MPI_Start and MPI_Wait, with a barrier between two, as in coll.c.  They came with MPI 4.0: with
 * an older MPI the programs build and report that. */
#include "test/bench/coll.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if MPI_VERSION >= 4
#define WORLD MPI_COMM_WORLD, MPI_INFO_NULL

static void allreduce(struct bench *b, int n, MPI_Request *req)
{
    MPI_Allreduce_init(coll_from(b), b->rbuf, n, b->type, b->op, WORLD, req);
}

static void reduce(struct bench *b, int n, MPI_Request *req)
{
    MPI_Reduce_init(coll_from_root(b), b->rbuf, n, b->type, b->op, 0, WORLD, req);
}

static void bcast(struct bench *b, int n, MPI_Request *req)
{
    MPI_Bcast_init(b->rbuf, n, b->type, 0, WORLD, req);
}

static void allgather(struct bench *b, int n, MPI_Request *req)
{
    MPI_Allgather_init(coll_from(b), n, b->type, b->rbuf, n, b->type, WORLD, req);
}

static void alltoall(struct bench *b, int n, MPI_Request *req)
{
    MPI_Alltoall_init(coll_from(b), n, b->type, b->rbuf, n, b->type, WORLD, req);
}

static void gather(struct bench *b, int n, MPI_Request *req)
{
    MPI_Gather_init(coll_from_root(b), n, b->type, b->rbuf, n, b->type, 0, WORLD, req);
}

static void scatter(struct bench *b, int n, MPI_Request *req)
{
    MPI_Scatter_init(b->sbuf, n, b->type, coll_into_root(b), n, b->type, 0, WORLD, req);
}

static void reduce_scatter(struct bench *b, int n, MPI_Request *req)
{
    struct coll_vec v = coll_vec_parts(b, n);

    MPI_Reduce_scatter_init(coll_from(b), b->rbuf, v.counts, b->type, b->op, WORLD, req);
}

static void barrier(struct bench *b, int n, MPI_Request *req)
{
    (void)b;
    (void)n;
    MPI_Barrier_init(WORLD, req);
}

static const struct {
    const char *name;
    void (*init)(struct bench *b, int n, MPI_Request *req);
} inits[] = {
    { "allreduce", allreduce }, { "reduce", reduce },
    { "bcast", bcast },         { "allgather", allgather },
    { "alltoall", alltoall },   { "gather", gather },
    { "scatter", scatter },     { "reduce_scatter", reduce_scatter },
    { "barrier", barrier },
};

/* The request of `count` elements; 0 when there is no such call. */
static bool init(struct bench *b, const char *name, int count, MPI_Request *req)
{
    for (size_t i = 0; i < sizeof inits / sizeof inits[0]; i++) {
        if (!strcmp(inits[i].name, name)) {
            inits[i].init(b, count, req);
            return true;
        }
    }
    return false;
}

static int open_calls(struct bench *b)
{
    (void)b;
    return 0;
}
#else
static bool init(struct bench *b, const char *name, int count, MPI_Request *req)
{
    (void)b;
    (void)name;
    (void)count;
    (void)req;
    return false;
}

static int open_calls(struct bench *b)
{
    if (b->rank == 0)
        fprintf(stderr, "%s: needs MPI 4.0, of which persistent collectives are a part\n",
                b->spec->name);
    return 2;
}
#endif

static void measure(struct bench *b, size_t nbytes, double *v)
{
    const struct coll_kind *kind = b->spec->arg;
    MPI_Request req = MPI_REQUEST_NULL;
    double all = 0, start = bench_now(), made;

    if (!init(b, kind->name, bench_count(b, nbytes), &req))
        MPI_Abort(MPI_COMM_WORLD, 2);
    made = bench_now() - start;
    if (kind->fill)
        kind->fill(b, nbytes);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = -b->skip; i < b->iters; i++) {
        start = bench_now();
        MPI_Start(&req);
        MPI_Wait(&req, MPI_STATUS_IGNORE);
        if (i >= 0)
            all += bench_now() - start;
        if (kind->fill)
            MPI_Barrier(MPI_COMM_WORLD);
    }
    coll_check(b, kind, nbytes);
    MPI_Request_free(&req);
    coll_spread(all / b->iters * 1e6, b->nranks, v);
    v[3] = made * 1e6;
    v[4] = b->iters;
}

int pcoll_main(int argc, char **argv, const char *name)
{
    const struct coll_kind *kind = coll_find(name);
    bool exchange = kind->flags & BENCH_SEND_ALL && kind->flags & BENCH_RECV_ALL;
    char program[60], title[80], help[160];
    struct bench_spec spec = coll_spec;

    snprintf(program, sizeof program, "osu_%s_persistent", name);
    snprintf(title, sizeof title, "%s%s Persistent Latency Test", kind->title,
             exchange ? " Personalized Exchange" : "");
    snprintf(help, sizeof help, "time from start to end of a persistent MPI %s.", kind->title);
    spec.name = program;
    spec.title = title;
    spec.help = help;
    spec.flags = kind->flags;
    spec.cols[3] = (struct bench_col){ "Init(us)", "init_us", 18, 2, true };
    spec.cols[4] = (struct bench_col){ "Iterations", "iterations", 12, 0, true };
    spec.open = open_calls;
    spec.measure = measure;
    spec.arg = kind;
    return bench_main(argc, argv, &spec);
}
