/* SPDX-License-Identifier: BSD-3-Clause */
/* Making distributed graphs (MPI-5.0 section 8.5.4).  Arguments differ between the processes, so
 * the bindings leave most of them to the checks here, before the agreement.  Edges travel as
 * records; where a process meets several edges between the same two nodes, both ends have them in
 * the order of (process that gave it, place in its list), so they mean the same edges.  Called
 * without the domain's lock. */
#include "mpi/api/bodies.h"
#include "mpi/coll/call.h"
#include "mpi/p2p/domain.h"
#include "mpi/topo/make.h"
#include "mpi/topo/order.h"
#include <stdlib.h>

/* A graph of more edges in all is not reordered, because each process would have to gather all
 * edges. */
#define REORDER_EDGES_MAX (1 << 20)

enum side { AT_SOURCE = 1, AT_DESTINATION = 2 }; /* whose list the record belongs to */

struct record {
    int from, to, weight, sides;
};
#define RECORD_INTS ((int)(sizeof(struct record) / sizeof(int)))

struct records {
    struct record *v; /* malloc'ed */
    int n;
};

/* One list of edges as an argument. */
struct list {
    int n;
    const int *ranks, *weights;
    int number; /* of the argument with the ranks */
    const char *name, *weights_name;
    int weights_number;
};

static int check_length(int number, const char *name, int n)
{
    if (n >= 0)
        return MPI_SUCCESS;
    return wm_err(MPI_ERR_ARG, "argument %d (%s) is %d, expected at least 0", number, name, n);
}

static int check_pointer(int number, const char *name, int n, const void *p)
{
    if (p || n == 0)
        return MPI_SUCCESS;
    return wm_err(MPI_ERR_ARG, "argument %d (%s) is a null pointer, expected an array of %d",
                  number, name, n);
}

static int check_ranks(const struct wm_comm *c, int number, const char *name, int n, const int *v)
{
    int err = check_pointer(number, name, n, v);
    for (int i = 0; i < n && !err; i++)
        if (v[i] < 0 || v[i] >= c->size)
            err = wm_err(MPI_ERR_RANK, "argument %d (%s): rank %d at [%d] is outside 0..%d", number,
                         name, v[i], i, c->size - 1);
    return err;
}

static int check_weights(int number, const char *name, int n, const int *v)
{
    if (v == MPI_UNWEIGHTED || n == 0)
        return MPI_SUCCESS;
    if (v == MPI_WEIGHTS_EMPTY)
        return wm_err(MPI_ERR_ARG, "argument %d (%s) is MPI_WEIGHTS_EMPTY, but there are %d edges",
                      number, name, n);
    int err = check_pointer(number, name, n, v);
    for (int i = 0; i < n && !err; i++)
        if (v[i] < 0)
            err = wm_err(MPI_ERR_ARG, "argument %d (%s): weight %d at [%d] is negative", number,
                         name, v[i], i);
    return err;
}

static int check_list(const struct wm_comm *c, const struct list *l)
{
    int err = check_ranks(c, l->number, l->name, l->n, l->ranks);
    return err ? err : check_weights(l->weights_number, l->weights_name, l->n, l->weights);
}

static int new_records(int64_t n, struct records *out)
{
    out->n = 0;
    out->v = n > INT32_MAX / RECORD_INTS ? NULL : malloc(((size_t)n + 1) * sizeof *out->v);
    return out->v ? MPI_SUCCESS : wm_err(MPI_ERR_NO_MEM, "no memory for %lld edges", (long long)n);
}

static void add(struct records *r, int from, int to, const int *weights, int i, int sides)
{
    int weight = weights == MPI_UNWEIGHTED ? 1 : weights[i];
    r->v[r->n++] = (struct record){ from, to, weight, sides };
}

/* The topology of node `me`, from records among which are all of its own. */
static int build(const struct records *r, int me, bool weighted, struct wm_topo **out)
{
    struct wm_topo shape = { .kind = MPI_DIST_GRAPH, .weighted = weighted };
    for (int i = 0; i < r->n; i++) {
        shape.indegree += r->v[i].to == me && r->v[i].sides & AT_DESTINATION;
        shape.outdegree += r->v[i].from == me && r->v[i].sides & AT_SOURCE;
    }
    struct wm_topo *t = *out = wm_topo_new(&shape);
    if (!t)
        return wm_err(MPI_ERR_NO_MEM, "no memory for %d neighbours",
                      shape.indegree + shape.outdegree);
    for (int i = 0, in = 0, o = 0; i < r->n; i++) {
        const struct record *e = &r->v[i];
        if (e->to == me && e->sides & AT_DESTINATION) {
            t->sources[in] = e->from;
            if (weighted)
                t->sourceweights[in] = e->weight;
            in++;
        }
        if (e->from == me && e->sides & AT_SOURCE) {
            t->destinations[o] = e->to;
            if (weighted)
                t->destweights[o] = e->weight;
            o++;
        }
    }
    return MPI_SUCCESS;
}

/* Runs a collective of ints over the old communicator. */
static int run(struct wm_comm *c, struct coll_args *a)
{
    a->stype = a->rtype = &wm_type_get(MPI_INT)->layout;
    struct wm_domain *d = wm_coll_domain(c);
    rt_lock(&d->lock);
    int err = wm_coll_run(c, a);
    rt_unlock(&d->lock);
    if (err == -RT_ENOMEM)
        rt_boot_abort(1,
                      "out of memory to exchange the edges of a graph; the other processes would "
                      "wait");
    return err ? wm_err_rt(err, "exchanging the edges of a graph among %d processes", c->size)
               : MPI_SUCCESS;
}

/* Whether all processes have what the next exchange needs; an error of one is an error of all. */
static int all_ready(struct wm_comm *c, int err)
{
    return wm_topo_agree(c, err, &(struct wm_topo_vote){ 0 });
}

/* Displacements of blocks one behind the other; returns the sum. */
static int64_t stack(int n, const int64_t *counts, int64_t *displs)
{
    int64_t at = 0;
    for (int i = 0; i < n; i++) {
        displs[i] = at;
        at += counts[i];
    }
    return at;
}

/* All processes' records in every process, in the order of the ranks. */
static int gather(struct wm_comm *c, const struct records *mine, struct records *all)
{
    int p = c->size, n = mine->n;
    int *ns = malloc((size_t)p * sizeof *ns);
    int64_t *counts = malloc(2 * (size_t)p * sizeof *counts);
    int err = ns && counts ? MPI_SUCCESS : wm_err(MPI_ERR_NO_MEM, "no memory for %d counts", 2 * p);
    struct coll_args a = {
        .kind = COLL_ALLGATHER, .sbuf = &n, .scount = 1, .rbuf = ns, .rcount = 1
    };
    err = all_ready(c, err);
    if (!err)
        err = run(c, &a);
    for (int i = 0; i < p && !err; i++)
        counts[i] = (int64_t)ns[i] * RECORD_INTS;
    if (!err)
        err = all_ready(c, new_records(stack(p, counts, counts + p) / RECORD_INTS, all));
    if (!err) {
        all->n = (int)((counts[2 * p - 1] + counts[p - 1]) / RECORD_INTS);
        a = (struct coll_args){ .kind = COLL_ALLGATHERV,
                                .sbuf = mine->v,
                                .scount = (int64_t)n * RECORD_INTS,
                                .rbuf = all->v,
                                .rcounts = counts,
                                .rdispls = counts + p };
        err = run(c, &a);
    }
    free(ns);
    free(counts);
    return err;
}

/* Copies of the records for the owners of both ends, sorted by owner; counts[] in ints. */
static int address(int p, const struct records *mine, int64_t *counts, int64_t *displs,
                   struct records *out)
{
    int err = new_records(2 * (int64_t)mine->n, out);
    for (int i = 0; i < p; i++)
        counts[i] = 0;
    for (int i = 0; i < mine->n && !err; i++) {
        counts[mine->v[i].from] += RECORD_INTS;
        if (mine->v[i].to != mine->v[i].from)
            counts[mine->v[i].to] += RECORD_INTS;
    }
    stack(p, counts, displs);
    for (int i = 0; i < mine->n && !err; i++) {
        const struct record *e = &mine->v[i];
        out->v[displs[e->from] / RECORD_INTS] = *e;
        displs[e->from] += RECORD_INTS;
        if (e->to != e->from) {
            out->v[displs[e->to] / RECORD_INTS] = *e;
            displs[e->to] += RECORD_INTS;
        }
    }
    for (int i = 0; i < p; i++)
        displs[i] -= counts[i];
    return err;
}

/* The records that name this process at one end, in the order of the ranks that gave them. */
static int exchange(struct wm_comm *c, const struct records *mine, struct records *in)
{
    int p = c->size;
    struct records out = { 0 };
    int64_t *v = malloc(4 * (size_t)p * sizeof *v);
    int ints = (int)(sizeof *v / sizeof(int));
    int err = v ? address(p, mine, v, v + p, &out)
                : wm_err(MPI_ERR_NO_MEM, "no memory for the counts of %d processes", p);
    err = all_ready(c, err);
    if (err) {
        free(out.v);
        free(v);
        return err;
    }
    int64_t *sc = v, *sd = v + p, *rc = v + 2 * p, *rd = v + 3 * p;
    struct coll_args a = {
        .kind = COLL_ALLTOALL, .sbuf = sc, .scount = ints, .rbuf = rc, .rcount = ints
    };
    err = run(c, &a);
    if (!err)
        err = all_ready(c, new_records(stack(p, rc, rd) / RECORD_INTS, in));
    if (!err) {
        in->n = (int)((rd[p - 1] + rc[p - 1]) / RECORD_INTS);
        a = (struct coll_args){ .kind = COLL_ALLTOALLV,
                                .sbuf = out.v,
                                .scounts = sc,
                                .sdispls = sd,
                                .rbuf = in->v,
                                .rcounts = rc,
                                .rdispls = rd };
        err = run(c, &a);
    }
    free(out.v);
    free(v);
    return err;
}

/* The order of the processes for the whole graph; NULL: as they are. */
static int reorder_all(struct wm_comm *c, const struct records *all, int **order)
{
    int p = c->size, n = 0;
    int *v = calloc((size_t)p + 2 * (size_t)all->n + 1, sizeof *v);
    if (!v)
        return wm_topo_order(c, NULL, order);
    struct wm_adj g = { .n = p, .index = v, .edges = v + p, .weights = v + p + all->n };
    for (int i = 0; i < all->n; i++)
        if (all->v[i].sides & AT_SOURCE)
            v[all->v[i].from]++;
    for (int i = 0; i < p; i++) { /* counts become starts; storing the edges makes them ends */
        int count = v[i];
        v[i] = n;
        n += count;
    }
    for (int i = 0; i < all->n; i++) {
        const struct record *e = &all->v[i];
        if (!(e->sides & AT_SOURCE))
            continue;
        int at = v[e->from]++;
        v[p + at] = e->to;
        v[p + all->n + at] = e->weight;
    }
    int err = wm_topo_order(c, &g, order);
    free(v);
    return err;
}

static int find(const int *order, int n, int rank)
{
    for (int i = 0; order && i < n; i++)
        if (order[i] == rank)
            return i;
    return rank;
}

/* Makes the communicator once all processes have found their arguments right. */
static int create(struct wm_comm *c, const struct records *mine, bool weighted, bool reorder,
                  const struct wm_topo_vote *vote, bool adjacent, struct wm_comm **out)
{
    struct records got = { 0 };
    const struct records *use = mine;
    struct wm_topo *t = NULL;
    int *order = NULL, err = MPI_SUCCESS;
    if (reorder && vote->total <= REORDER_EDGES_MAX) {
        err = gather(c, mine, &got);
        if (!err)
            err = reorder_all(c, &got, &order);
        use = &got;
    } else if (!adjacent) {
        err = exchange(c, mine, &got);
        use = &got;
    }
    if (!err)
        err = build(use, find(order, c->size, c->rank), weighted, &t);
    if (!err)
        t->symmetric = vote->balance == 0;
    err = wm_topo_make(c, c->size, order, t, err, out);
    free(order);
    free(got.v);
    return err;
}

/* Number of edges from the degrees; the checks that this needs come with it. */
static int count_edges(int n, const int sources[], const int degrees[], int *total_p)
{
    int64_t total = 0;
    int err = check_length(2, "n", n);
    if (!err)
        err = check_pointer(3, "sources", n, sources);
    if (!err)
        err = check_pointer(4, "degrees", n, degrees);
    for (int i = 0; i < n && !err; i++) {
        if (degrees[i] < 0)
            err = wm_err(MPI_ERR_ARG, "argument 4 (degrees): degree %d at [%d] is negative",
                         degrees[i], i);
        else
            total += degrees[i];
    }
    if (!err && total > INT32_MAX / RECORD_INTS)
        err = wm_err(MPI_ERR_ARG, "argument 4 (degrees): %lld edges from one process are too many",
                     (long long)total);
    *total_p = (int)total;
    return err;
}

int wm_api_dist_graph_create(struct wm_comm *comm_old, int n, const int sources[],
                             const int degrees[], const int destinations[], const int weights[],
                             struct wm_info *info, int reorder, struct wm_comm **comm_dist_graph)
{
    (void)info; /* no hints are known */
    struct records r = { 0 };
    bool weighted = weights != MPI_UNWEIGHTED;
    int err = wm_topo_intra(comm_old);
    if (err)
        return err;
    struct list l = { 0, destinations, weights, 5, "destinations", "weights", 6 };
    err = count_edges(n, sources, degrees, &l.n);
    if (!err)
        err = check_ranks(comm_old, 3, "sources", n, sources);
    if (!err)
        err = check_list(comm_old, &l);
    if (!err)
        err = new_records(l.n, &r);
    for (int i = 0; i < n && !err; i++)
        for (int end = r.n + degrees[i]; r.n < end;)
            add(&r, sources[i], destinations[r.n], weights, r.n, AT_SOURCE | AT_DESTINATION);
    struct wm_topo_vote vote = { .print = (uint64_t)weighted << 1 | (reorder != 0), .total = l.n };
    err = wm_topo_agree(comm_old, err, &vote);
    if (!err)
        err = create(comm_old, &r, weighted, reorder, &vote, false, comm_dist_graph);
    free(r.v);
    return err;
}

/* The same number at both ends of an edge: the sums over all sources and all destinations agree. */
static uint64_t edge_hash(int from, int to)
{
    return wm_topo_print(wm_topo_print(1, 1, &from), 1, &to);
}

int wm_api_dist_graph_create_adjacent(struct wm_comm *comm_old, int indegree, const int sources[],
                                      const int sourceweights[], int outdegree,
                                      const int destinations[], const int destweights[],
                                      struct wm_info *info, int reorder,
                                      struct wm_comm **comm_dist_graph)
{
    (void)info; /* no hints are known */
    struct records r = { 0 };
    struct list in = { indegree, sources, sourceweights, 3, "sources", "sourceweights", 4 },
                out = { outdegree, destinations, destweights, 6, "destinations", "destweights", 7 };
    bool weighted = sourceweights != MPI_UNWEIGHTED;
    int me = comm_old->rank, err = wm_topo_intra(comm_old);
    if (err)
        return err;
    err = check_length(2, "indegree", indegree);
    if (!err)
        err = check_list(comm_old, &in);
    if (!err)
        err = check_length(5, "outdegree", outdegree);
    if (!err)
        err = check_list(comm_old, &out);
    if (!err && weighted != (destweights != MPI_UNWEIGHTED))
        err = wm_err(MPI_ERR_ARG, "only one of argument 4 (sourceweights) and argument 7 "
                                  "(destweights) is MPI_UNWEIGHTED, expected both or none");
    if (!err)
        err = new_records((int64_t)indegree + outdegree, &r);
    struct wm_topo_vote vote = { .print = (uint64_t)weighted << 1 | (reorder != 0) };
    for (int i = 0; i < indegree && !err; i++) {
        add(&r, sources[i], me, sourceweights, i, AT_DESTINATION);
        vote.balance -= edge_hash(sources[i], me);
    }
    for (int i = 0; i < outdegree && !err; i++) {
        add(&r, me, destinations[i], destweights, i, AT_SOURCE);
        vote.balance += edge_hash(me, destinations[i]);
    }
    vote.total = r.n;
    err = wm_topo_agree(comm_old, err, &vote);
    if (!err)
        err = create(comm_old, &r, weighted, reorder, &vote, true, comm_dist_graph);
    free(r.v);
    return err;
}

int wm_api_dist_graph_neighbors_count(struct wm_comm *comm, int *indegree, int *outdegree,
                                      int *weighted)
{
    int err = wm_topo_need(comm, MPI_DIST_GRAPH);
    if (err)
        return err;
    *indegree = comm->topo->indegree;
    *outdegree = comm->topo->outdegree;
    *weighted = comm->topo->weighted;
    return MPI_SUCCESS;
}

/* The first `max` neighbours of one side, and their weights where both sides have them. */
static void copy_out(int max, int n, const int *ranks, const int *weights, int to[],
                     int to_weights[])
{
    bool want = weights && to_weights && to_weights != MPI_UNWEIGHTED &&
                to_weights != MPI_WEIGHTS_EMPTY;
    for (int i = 0; i < n && i < max; i++) {
        to[i] = ranks[i];
        if (want)
            to_weights[i] = weights[i];
    }
}

int wm_api_dist_graph_neighbors(struct wm_comm *comm, int maxindegree, int sources[],
                                int sourceweights[], int maxoutdegree, int destinations[],
                                int destweights[])
{
    const struct wm_topo *t = comm->topo;
    int err = wm_topo_need(comm, MPI_DIST_GRAPH);
    if (err)
        return err;
    copy_out(maxindegree, t->indegree, t->sources, t->weighted ? t->sourceweights : NULL, sources,
             sourceweights);
    copy_out(maxoutdegree, t->outdegree, t->destinations, t->weighted ? t->destweights : NULL,
             destinations, destweights);
    return MPI_SUCCESS;
}
