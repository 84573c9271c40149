/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory runs out on one rank in a collective access through aggregators: every allocation of every
 * call fails once, on each rank in turn.  Either the call succeeds on all ranks, or all get an
 * error; none hangs.
 *     io_nomem CALL [rank=N from=N [only]]
 *     io_nomem list
 * As nomem.c; nomem.py runs both. */
#include "test/mpi/iotest.h"
#include "test/mpi/nomem_walk.h"

#define PIECE 64
#define PIECES 256

static char buf[PIECE * PIECES];

static MPI_File fresh(void)
{
    MPI_Datatype row;
    MPI_Info info;
    MPI_File f;

    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_read", "enable");
    MPI_Info_set(info, "cb_buffer_size", "4096");
    OK(MPI_File_open(mt_comm, io_name, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &f));
    MPI_Info_free(&info);
    MPI_Type_vector(PIECES, PIECE, PIECE * mt_size, MPI_BYTE, &row);
    MPI_Type_commit(&row);
    OK(MPI_File_set_view(f, PIECE * mt_rank, MPI_BYTE, row, "native", MPI_INFO_NULL));
    MPI_Type_free(&row);
    return f;
}

/* ---- the calls ---- */

static int write_at_all(MPI_File f)
{
    return MPI_File_write_at_all(f, 0, buf, sizeof buf, MPI_BYTE, MPI_STATUS_IGNORE);
}

static int read_at_all(MPI_File f)
{
    return MPI_File_read_at_all(f, 0, buf, sizeof buf, MPI_BYTE, MPI_STATUS_IGNORE);
}

static int iwrite_at_all(MPI_File f)
{
    MPI_Request r;
    int rc = MPI_File_iwrite_at_all(f, 0, buf, sizeof buf, MPI_BYTE, &r);
    return rc ? rc : MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static const struct {
    const char *name;
    int (*access)(MPI_File f);
} calls[] = { { "write_at_all", write_at_all },
              { "read_at_all", read_at_all },
              { "iwrite_at_all", iwrite_at_all } };
#define NCALLS (sizeof calls / sizeof *calls)
static size_t current;

/* ---- the walk ---- */

/* The largest number of all ranks. */
static int most(int v)
{
    nomem_behind(MPI_Allreduce(MPI_IN_PLACE, &v, 1, MPI_INT, MPI_MAX, mt_comm));
    return v;
}

/* A file for each allocation: the first access allocates most.  If a rank cannot take part in a
 * collective call, the file is lost.  Returns whether the victim allocated as often as `nth`. */
static bool attempt(int victim, long nth)
{
    static char name[96];
    int class = 0, reached = 0;
    MPI_File f = fresh();

    snprintf(name, sizeof name, "%s rank=%d from=%ld only", calls[current].name, victim, nth);
    mt_case = name;
    if (mt_rank == 0) {
        printf("# at %s\n", name);
        fflush(stdout);
    }
    MPI_Barrier(mt_comm);
    if (mt_rank == victim)
        nomem_arm(nth);
    int rc = calls[current].access(f);
    if (mt_rank == victim)
        reached = nomem_disarm() >= nth;
    MPI_Error_class(rc, &class);
    CHECK_EQ(most(class != MPI_SUCCESS), -most(-(class != MPI_SUCCESS)));
    CHECK(!class || class == MPI_ERR_NO_MEM || class == MPI_ERR_PROC_ABORTED);
    bool lost = most(class == MPI_ERR_PROC_ABORTED);
    CHECK_EQ(calls[current].access(f) != MPI_SUCCESS, lost);
    CHECK_EQ(MPI_File_close(&f) != MPI_SUCCESS, lost);
    return most(reached);
}

static void walk(void) { nomem_walk(calls[current].name, attempt); }

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
    io_init(1, argv);
    mt_run(walk, which);
    return io_end();
}
