/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that runs out on one rank in a collective call that makes an object: the call must fail on
 * all ranks, or succeed on all ranks, and leave a library that works.  Every allocation of every
 * call fails once, on each rank in turn.
 *     nomem CALL [rank=N from=N [only]]
 *     nomem list
 * CALL: one of the list.  rank=, from=: begins with this allocation of this rank, only: ends there.
 * A process may also end the job with a clear message, so the program prints where it is, and
 * nomem.py continues from there. */
#include "test/mpi/mpitest.h"
#include "test/mpi/nomem_walk.h"

static MPI_Comm parent, cart, pair, half, made_comm;
static MPI_Win made_win;
static MPI_File made_file;
static MPI_Group members, some, mine, others;
static MPI_Info hints;
static char file_name[256];

/* ---- the calls ---- */

static int comm_dup(void) { return MPI_Comm_dup(parent, &made_comm); }
static int comm_dup_cart(void) { return MPI_Comm_dup(cart, &made_comm); }
static int comm_dup_pair(void) { return MPI_Comm_dup(pair, &made_comm); }

static int finish(int err, MPI_Request *r) { return err ? err : MPI_Wait(r, MPI_STATUS_IGNORE); }

static int comm_idup(void)
{
    MPI_Request r;
    return finish(MPI_Comm_idup(parent, &made_comm, &r), &r);
}

static int comm_idup_cart(void)
{
    MPI_Request r;
    return finish(MPI_Comm_idup(cart, &made_comm, &r), &r);
}

static int comm_idup_pair(void)
{
    MPI_Request r;
    return finish(MPI_Comm_idup(pair, &made_comm, &r), &r);
}

static int comm_split(void) { return MPI_Comm_split(parent, mt_rank % 2, -mt_rank, &made_comm); }
static int comm_split_one(void) { return MPI_Comm_split(parent, 0, -mt_rank, &made_comm); }
static int comm_split_pair(void) { return MPI_Comm_split(pair, 0, -mt_rank, &made_comm); }

static int comm_split_type(void)
{
    return MPI_Comm_split_type(parent, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made_comm);
}

static int comm_create(void) { return MPI_Comm_create(parent, members, &made_comm); }
static int comm_create_group(void) { return MPI_Comm_create_group(parent, members, 3, &made_comm); }

static int comm_create_halves(void) { return MPI_Comm_create(parent, some, &made_comm); }

static int comm_from_group(void)
{
    return MPI_Comm_create_from_group(members, "test.nomem", hints, MPI_ERRORS_RETURN, &made_comm);
}

static int cart_create_as(int reorder)
{
    int dims[2] = { 1, mt_size }, periods[2] = { 0, 1 };
    return MPI_Cart_create(parent, 2, dims, periods, reorder, &made_comm);
}

static int cart_create(void) { return cart_create_as(0); }
static int cart_create_reorder(void) { return cart_create_as(1); }

static int cart_sub(void)
{
    int remain[2] = { 0, 1 };
    return MPI_Cart_sub(cart, remain, &made_comm);
}

static int graph_create(void)
{
    int index[64], edges[128];

    for (int i = 0; i < mt_size; i++) {
        index[i] = 2 * i + 2;
        edges[2 * i] = (i + 1) % mt_size;
        edges[2 * i + 1] = (i + mt_size - 1) % mt_size;
    }
    return MPI_Graph_create(parent, mt_size, index, edges, 1, &made_comm);
}

static int dist_graph_as(int reorder)
{
    int degree = 1, to = (mt_rank + 1) % mt_size;
    return MPI_Dist_graph_create(parent, 1, &mt_rank, &degree, &to, MPI_UNWEIGHTED, MPI_INFO_NULL,
                                 reorder, &made_comm);
}

static int dist_graph(void) { return dist_graph_as(0); }
static int dist_graph_reorder(void) { return dist_graph_as(1); }

static int dist_graph_adjacent(void)
{
    int from = (mt_rank + mt_size - 1) % mt_size, to = (mt_rank + 1) % mt_size, weight = 3;
    return MPI_Dist_graph_create_adjacent(parent, 1, &from, &weight, 1, &to, &weight, MPI_INFO_NULL,
                                          1, &made_comm);
}

static int intercomm_create(void)
{
    return MPI_Intercomm_create(half, 0, parent, mt_rank == 0, 5, &made_comm);
}

static int intercomm_from_groups(void)
{
    return MPI_Intercomm_create_from_groups(mine, 0, others, 0, "test.nomem.inter", hints,
                                            MPI_ERRORS_RETURN, &made_comm);
}

static int stream_comm(void)
{
    return MPIX_Stream_comm_create(parent, MPIX_STREAM_NULL, &made_comm);
}

static int intercomm_merge(void) { return MPI_Intercomm_merge(pair, mt_rank == 0, &made_comm); }

static char window[256];
static int win_create(void)
{
    return MPI_Win_create(window, sizeof window, 1, MPI_INFO_NULL, parent, &made_win);
}

static int win_allocate(void)
{
    void *base;
    return MPI_Win_allocate(256, 1, MPI_INFO_NULL, parent, &base, &made_win);
}

static int win_allocate_shared(void)
{
    void *base;
    return MPI_Win_allocate_shared(256, 1, MPI_INFO_NULL, cart, &base, &made_win);
}

static int win_create_dynamic(void)
{
    return MPI_Win_create_dynamic(MPI_INFO_NULL, parent, &made_win);
}

static int file_open(void)
{
    return MPI_File_open(parent, file_name, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL,
                         &made_file);
}

/* ---- the walk ---- */

static const struct {
    const char *name;
    int (*make)(void);
} calls[] = {
#define CALL(fn) \
    { \
#fn, fn \
    }
    CALL(comm_dup),
    CALL(comm_dup_cart),
    CALL(comm_dup_pair),
    CALL(comm_idup),
    CALL(comm_idup_cart),
    CALL(comm_idup_pair),
    CALL(comm_split),
    CALL(comm_split_one),
    CALL(comm_split_pair),
    CALL(comm_split_type),
    CALL(comm_create),
    CALL(comm_create_halves),
    CALL(comm_create_group),
    CALL(comm_from_group),
    CALL(cart_create),
    CALL(cart_create_reorder),
    CALL(cart_sub),
    CALL(graph_create),
    CALL(dist_graph),
    CALL(dist_graph_reorder),
    CALL(dist_graph_adjacent),
    CALL(intercomm_create),
    CALL(intercomm_merge),
    CALL(win_create),
    CALL(win_allocate),
    CALL(win_allocate_shared),
    CALL(win_create_dynamic),
    CALL(file_open),
    CALL(intercomm_from_groups),
    CALL(stream_comm),
};
#define NCALLS (sizeof calls / sizeof calls[0])

static size_t current;

static void use(void)
{
    int inter = 0, one = 1, sum = 0, n = -1, found = 0;
    char value[8];

    if (made_comm != MPI_COMM_NULL) {
        OK(MPI_Comm_test_inter(made_comm, &inter));
        OK(inter ? MPI_Comm_remote_size(made_comm, &n) : MPI_Comm_size(made_comm, &n));
        OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, made_comm));
        CHECK_EQ(sum, n);
        MPI_Info info;
        OK(MPI_Comm_get_info(made_comm, &info));
        OK(MPI_Info_get(info, "mpi_assert_no_any_tag", sizeof value - 1, value, &found));
        CHECK_EQ(found, strstr(calls[current].name, "from_group") != NULL);
        MPI_Info_free(&info);
    }
    if (made_win != MPI_WIN_NULL) {
        OK(MPI_Win_fence(0, made_win));
        OK(MPI_Win_fence(0, made_win));
    }
    if (made_file != MPI_FILE_NULL)
        OK(MPI_File_write_at_all(made_file, mt_rank, "x", 1, MPI_BYTE, MPI_STATUS_IGNORE));
}

static void drop(void)
{
    if (made_comm != MPI_COMM_NULL)
        MPI_Comm_free(&made_comm);
    if (made_win != MPI_WIN_NULL)
        MPI_Win_free(&made_win);
    if (made_file != MPI_FILE_NULL)
        MPI_File_close(&made_file);
}

static bool attempt(int victim, long nth)
{
    int ends[3] = { 0 }, most[3];
    static char name[96];

    snprintf(name, sizeof name, "%s rank=%d from=%ld only", calls[current].name, victim, nth);
    mt_case = name;
    if (mt_rank == 0) {
        printf("# at %s\n", name);
        fflush(stdout);
    }
    made_comm = MPI_COMM_NULL;
    made_win = MPI_WIN_NULL;
    made_file = MPI_FILE_NULL;
    mt_sync();
    if (mt_rank == victim)
        nomem_arm(nth);
    int err = calls[current].make();
    if (mt_rank == victim)
        ends[0] = nomem_disarm() >= nth;
    ends[1] = err != MPI_SUCCESS;
    ends[2] = err == MPI_SUCCESS;
    nomem_behind(MPI_Allreduce(ends, most, 3, MPI_INT, MPI_MAX, mt_world));
    CHECK_MSG(!most[1] || !most[2], "%s: rank %d %s, others did not", name, mt_rank,
              err ? "failed" : "succeeded");
    if (err) {
        int class = 0, expected = most[0] ? MPI_ERR_NO_MEM : MPI_ERR_RMA_SHARED; /* several hosts */
        MPI_Error_class(err, &class);
        CHECK_MSG(class == expected, "%s: rank %d failed with class %d, expected %d", name, mt_rank,
                  class, expected);
    }
    if (!most[1])
        use();
    if (!(most[1] && most[2]))
        drop();
    return most[0];
}

static void walk(void) { nomem_walk(calls[current].name, attempt); }

/* What the calls start from. */
static void prepare(void)
{
    int dims[2] = { 1, mt_size }, periods[2] = { 0, 0 }, ranks[64], n = 0;

    OK(MPI_Comm_dup(mt_world, &parent));
    OK(MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN));
    /* hwloc, which looks at the machine here, does not stand a failed allocation. */
    OK(MPI_Cart_create(parent, 2, dims, periods, 1, &cart));
    OK(MPI_Comm_split(parent, mt_rank == 0, 0, &half));
    OK(MPI_Intercomm_create(half, 0, parent, mt_rank == 0, 5, &pair));
    OK(MPI_Comm_group(parent, &members));
    OK(MPI_Info_create(&hints));
    OK(MPI_Info_set(hints, "mpi_assert_no_any_tag", "true"));
    for (int i = mt_rank % 2; i < mt_size; i += 2)
        ranks[n++] = i;
    OK(MPI_Group_incl(members, n, ranks, &some));
    OK(MPI_Comm_group(half, &mine));
    OK(MPI_Comm_remote_group(pair, &others));
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    const char *dir = getenv("TMPDIR"); /* of one job: emptied after it */
    snprintf(file_name, sizeof file_name, "%s/weft_nomem.%d", dir ? dir : "/tmp", (int)getpid());
    OK(MPI_Bcast(file_name, sizeof file_name, MPI_CHAR, 0, parent));
}

static void finish_all(void)
{
    MPI_Info_free(&hints);
    MPI_Group_free(&mine);
    MPI_Group_free(&others);
    MPI_Group_free(&some);
    MPI_Group_free(&members);
    MPI_Comm_free(&pair);
    MPI_Comm_free(&half);
    MPI_Comm_free(&cart);
    MPI_Comm_free(&parent);
    if (mt_rank == 0)
        unlink(file_name);
}

int main(int argc, char **argv)
{
    nomem_options(argc, argv);
    const char *which = argc > 1 ? argv[1] : "list";
    while (current < NCALLS && strcmp(which, calls[current].name))
        current++;
    for (size_t i = 0; current == NCALLS && i < NCALLS; i++)
        puts(calls[i].name);
    if (current == NCALLS)
        return strcmp(which, "list") != 0;
    mt_init(argc, argv);
    prepare();
    mt_run(walk, which);
    finish_all();
    return mt_end();
}
