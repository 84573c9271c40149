/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that runs out on one rank in a collective: the call ends on all ranks, a rank that
 * succeeds has the right result, and the communicator stays usable.  Every allocation of every
 * call fails once, on each rank in turn, in blocking, nonblocking and persistent calls.
 *     coll_nomem CALL [rank=N from=N [only]]
 *     coll_nomem list
 * Arguments and output are those of nomem, for nomem.py. */
#include "test/mpi/mpitest.h"
#include "test/mpi/nomem_walk.h"

enum form { BLOCKING, NONBLOCKING, PERSISTENT, FORMS };
static const char *const forms[FORMS] = { "blocking", "nonblocking", "persistent" };
#define LENGTHS 2
static const int lengths[LENGTHS] = { 3, 30000 }; /* eager; rendezvous, and pieces */
#define MOST 30000
#define RANKS 8

static MPI_Comm parent, comm, cart, pair, half;
static MPI_Datatype gaps; /* every other int */
static MPI_Op first;      /* the operand of the lowest rank: does not commute */
static int in[RANKS * MOST], out[2 * RANKS * MOST], n;
static enum form form;
static int counts[RANKS], displs[RANKS], bytes[RANKS];
static MPI_Aint places[RANKS];
static MPI_Datatype types[RANKS];

static int value(int rank, int i) { return 1000 * rank + i % 101; }

static void lowest(void *a, void *b, int *len, MPI_Datatype *type)
{
    (void)type;
    memcpy(b, a, (size_t)*len * sizeof(int));
}

static int sum(int i, int ranks)
{
    int s = 0;
    for (int r = 0; r < ranks; r++)
        s += value(r, i);
    return s;
}

static bool holds(const int *at, int rank, int from)
{
    for (int i = 0; i < n; i++)
        if (at[i] != value(rank, from + i))
            return false;
    return true;
}

static bool holds_sum(int from, int ranks)
{
    for (int i = 0; i < n; i++)
        if (out[i] != sum(from + i, ranks))
            return false;
    return true;
}

/* Block r of each rank, at this rank. */
static bool holds_blocks(int from)
{
    for (int r = 0; r < mt_size; r++)
        if (!holds(out + r * n, r, from))
            return false;
    return true;
}

static void fill(void)
{
    for (int i = 0; i < mt_size * n; i++)
        in[i] = value(mt_rank, i);
    memset(out, 0xff, sizeof out);
    for (int r = 0; r < mt_size; r++) {
        counts[r] = n;
        displs[r] = r * n;
        bytes[r] = r * n * (int)sizeof(int);
        places[r] = bytes[r];
        types[r] = MPI_INT;
    }
}

/* A call in its three forms, and whether its result is right. */
#define CALL(fn, Name, name, c, good, ...) \
    static int fn(MPI_Request *r) \
    { \
        return form == BLOCKING      ? MPI_##Name(__VA_ARGS__, c) \
               : form == NONBLOCKING ? MPI_I##name(__VA_ARGS__, c, r) \
                                     : MPI_##Name##_init(__VA_ARGS__, c, MPI_INFO_NULL, r); \
    } \
    static bool fn##_good(void) { return good; }

CALL(bcast, Bcast, bcast, comm, mt_rank == 1 || holds(out, 1, 0), mt_rank == 1 ? in : out, n,
     MPI_INT, 1)
CALL(bcast_gaps, Bcast, bcast, comm,
     mt_rank == 0 || (out[0] == value(0, 0) && (n < 4 || out[2] == value(0, 2))),
     mt_rank == 0 ? in : out, n / 2, gaps, 0)
CALL(reduce, Reduce, reduce, comm, mt_rank != mt_size - 1 || holds_sum(0, mt_size), in, out, n,
     MPI_INT, MPI_SUM, mt_size - 1)
CALL(reduce_user, Reduce, reduce, comm, mt_rank != 0 || holds(out, 0, 0), in, out, n, MPI_INT,
     first, 0)
CALL(allreduce, Allreduce, allreduce, comm, holds_sum(0, mt_size), in, out, n, MPI_INT, MPI_SUM)
CALL(allreduce_user, Allreduce, allreduce, comm, holds(out, 0, 0), in, out, n, MPI_INT, first)
CALL(gather, Gather, gather, comm, mt_rank != 0 || holds_blocks(0), in, n, MPI_INT, out, n, MPI_INT,
     0)
CALL(gatherv, Gatherv, gatherv, comm, mt_rank != mt_size - 1 || holds_blocks(0), in, n, MPI_INT,
     out, counts, displs, MPI_INT, mt_size - 1)
CALL(scatter, Scatter, scatter, comm, holds(out, 0, mt_rank *n), in, n, MPI_INT, out, n, MPI_INT, 0)
CALL(scatterv, Scatterv, scatterv, comm, holds(out, 1, mt_rank *n), in, counts, displs, MPI_INT,
     out, n, MPI_INT, 1)
CALL(allgather, Allgather, allgather, comm, holds_blocks(0), in, n, MPI_INT, out, n, MPI_INT)
CALL(allgatherv, Allgatherv, allgatherv, comm, holds_blocks(0), in, n, MPI_INT, out, counts, displs,
     MPI_INT)
CALL(alltoall, Alltoall, alltoall, comm, holds_blocks(mt_rank *n), in, n, MPI_INT, out, n, MPI_INT)
CALL(alltoallv, Alltoallv, alltoallv, comm, holds_blocks(mt_rank *n), in, counts, displs, MPI_INT,
     out, counts, displs, MPI_INT)
CALL(alltoallw, Alltoallw, alltoallw, comm, holds_blocks(mt_rank *n), in, counts, bytes, types, out,
     counts, bytes, types)
CALL(alltoall_in_place, Alltoall, alltoall, comm, holds(in, 0, mt_rank *n), MPI_IN_PLACE, n,
     MPI_INT, in, n, MPI_INT)
CALL(reduce_scatter, Reduce_scatter, reduce_scatter, comm, holds_sum(mt_rank *n, mt_size), in, out,
     counts, MPI_INT, MPI_SUM)
CALL(reduce_scatter_block, Reduce_scatter_block, reduce_scatter_block, comm,
     holds_sum(mt_rank *n, mt_size), in, out, n, MPI_INT, MPI_SUM)
CALL(scan, Scan, scan, comm, holds_sum(0, mt_rank + 1), in, out, n, MPI_INT, MPI_SUM)
CALL(exscan, Exscan, exscan, comm, mt_rank == 0 || holds_sum(0, mt_rank), in, out, n, MPI_INT,
     MPI_SUM)
CALL(neighbor_allgatherv, Neighbor_allgatherv, neighbor_allgatherv, cart,
     holds(out + n, (mt_rank + 1) % mt_size, 0), in, n, MPI_INT, out, counts, displs, MPI_INT)
CALL(neighbor_alltoallw, Neighbor_alltoallw, neighbor_alltoallw, cart,
     holds(out + n, (mt_rank + 1) % mt_size, 0), in, counts, places, types, out, counts, places,
     types)
CALL(inter_allreduce, Allreduce, allreduce, pair, mt_rank == 0 || holds(out, 0, 0), in, out, n,
     MPI_INT, MPI_SUM)
CALL(inter_allgather, Allgather, allgather, pair, mt_rank == 0 || holds(out, 0, 0), in, n, MPI_INT,
     out, n, MPI_INT)
CALL(inter_bcast, Bcast, bcast, pair, mt_rank == 0 || holds(out, 0, 0), mt_rank == 0 ? in : out, n,
     MPI_INT, mt_rank == 0 ? MPI_ROOT : 0)

static int barrier(MPI_Request *r)
{
    return form == BLOCKING      ? MPI_Barrier(comm)
           : form == NONBLOCKING ? MPI_Ibarrier(comm, r)
                                 : MPI_Barrier_init(comm, MPI_INFO_NULL, r);
}
static bool barrier_good(void) { return true; }

/* ---- the walk ---- */

static const struct {
    const char *name;
    int (*start)(MPI_Request *r);
    bool (*good)(void);
} calls[] = {
#define ROW(fn) \
    { \
#fn, fn, fn##_good \
    }
    ROW(barrier),
    ROW(bcast),
    ROW(bcast_gaps),
    ROW(reduce),
    ROW(reduce_user),
    ROW(allreduce),
    ROW(allreduce_user),
    ROW(gather),
    ROW(gatherv),
    ROW(scatter),
    ROW(scatterv),
    ROW(allgather),
    ROW(allgatherv),
    ROW(alltoall),
    ROW(alltoallv),
    ROW(alltoallw),
    ROW(alltoall_in_place),
    ROW(reduce_scatter),
    ROW(reduce_scatter_block),
    ROW(scan),
    ROW(exscan),
    ROW(neighbor_allgatherv),
    ROW(neighbor_alltoallw),
    ROW(inter_allreduce),
    ROW(inter_allgather),
    ROW(inter_bcast),
};
#define NCALLS (sizeof calls / sizeof calls[0])

static size_t current;

static int run(void)
{
    MPI_Request r = MPI_REQUEST_NULL;
    int err = calls[current].start(&r);
    if (form == PERSISTENT && !err)
        err = MPI_Start(&r);
    if (form != BLOCKING && !err)
        err = MPI_Wait(&r, MPI_STATUS_IGNORE);
    if (r != MPI_REQUEST_NULL)
        MPI_Request_free(&r);
    return err;
}

/* Communicators are new each time, so allocations of a first call are met as well. */
static void make(void)
{
    int periods = 1;
    OK(MPI_Comm_dup(parent, &comm));
    OK(MPI_Cart_create(parent, 1, &mt_size, &periods, 0, &cart));
    OK(MPI_Comm_split(parent, mt_rank == 0, 0, &half));
    OK(MPI_Intercomm_create(half, 0, parent, mt_rank == 0, 5, &pair));
    MPI_Comm_set_errhandler(pair, MPI_ERRORS_RETURN);
}

static void use(MPI_Comm c)
{
    int one = 1, got = 0, ranks;
    MPI_Comm_remote_size(pair, &ranks);
    OK(MPI_Allreduce(&one, &got, 1, MPI_INT, MPI_SUM, c));
    CHECK_EQ(got, c == pair ? ranks : mt_size);
}

static void drop(void)
{
    MPI_Comm_free(&pair);
    MPI_Comm_free(&half);
    MPI_Comm_free(&cart);
    MPI_Comm_free(&comm);
}

/* Returns whether the victim allocated as often as `nth`. */
static bool attempt(int victim, long nth)
{
    static char name[96];
    int hit = 0, class = MPI_SUCCESS;

    snprintf(name, sizeof name, "%s.%s.%d rank=%d from=%ld only", calls[current].name, forms[form],
             n, victim, nth);
    mt_case = name;
    if (mt_rank == 0) {
        printf("# at %s\n", name);
        fflush(stdout);
    }
    make();
    fill();
    mt_sync();
    if (mt_rank == victim)
        nomem_arm(nth);
    int err = run();
    if (mt_rank == victim)
        hit = nomem_disarm() >= nth;
    if (err)
        MPI_Error_class(err, &class);
    nomem_behind(MPI_Bcast(&hit, 1, MPI_INT, victim, mt_world));
    CHECK_MSG(hit || !err, "%s: rank %d failed with class %d, and there was memory", name, mt_rank,
              class);
    CHECK_MSG(err || calls[current].good(), "%s: rank %d has a wrong result", name, mt_rank);
    CHECK_MSG(mt_rank != victim || !err || class == MPI_ERR_NO_MEM || class == MPI_ERR_OTHER,
              "%s: rank %d failed with class %d", name, mt_rank, class);
    use(comm);
    use(cart);
    use(pair);
    drop();
    return hit;
}

static void walk(void) { nomem_walk(calls[current].name, attempt); }

/* Connects all processes: libpmix, which looks up addresses, does not stand a failed allocation. */
static void connect_all(void)
{
    for (int r = 0; r < mt_size; r++)
        OK(MPI_Sendrecv(in, MOST, MPI_INT, r, 7, out, MOST, MPI_INT, r, 7, parent,
                        MPI_STATUS_IGNORE));
}

/* CALL.FORM.LENGTH; false: no such call. */
static bool choose(const char *which)
{
    char name[64];
    for (current = 0; current < NCALLS; current++)
        for (int f = 0; f < FORMS * LENGTHS; f++) {
            form = (enum form)(f / LENGTHS);
            n = lengths[f % LENGTHS];
            snprintf(name, sizeof name, "%s.%s.%d", calls[current].name, forms[form], n);
            if (!which)
                puts(name);
            else if (!strcmp(which, name))
                return true;
        }
    return !which;
}

int main(int argc, char **argv)
{
    nomem_options(argc, argv);
    if (argc < 2 || !strcmp(argv[1], "list"))
        return !choose(NULL);
    if (!choose(argv[1]))
        return 1;
    mt_init(argc, argv);
    OK(MPI_Comm_dup(mt_world, &parent));
    OK(MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN));
    connect_all();
    OK(MPI_Type_vector(2, 1, 2, MPI_INT, &gaps));
    OK(MPI_Type_commit(&gaps));
    OK(MPI_Op_create(lowest, 0, &first));
    mt_run(walk, argv[1]);
    MPI_Op_free(&first);
    MPI_Type_free(&gaps);
    MPI_Comm_free(&parent);
    return mt_end();
}
