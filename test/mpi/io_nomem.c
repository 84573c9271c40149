/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory runs out on one rank in a collective access through aggregators: the first, second, ...
 * allocation of its call fails.  Either the call succeeds on all ranks, or all get an error; none
 * hangs. */
#include <stdbool.h>
#include "test/mpi/iotest.h"
#include "test/mpi/nomem_alloc.h"

#define PIECE 64
#define PIECES 256
#define WALK 40 /* allocations; a call by aggregators makes about as many */

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

enum call { WRITE, READ, IWRITE, CALLS };

static int access_all(MPI_File f, enum call call, char *buf)
{
    MPI_Request r;

    if (call == READ)
        return MPI_File_read_at_all(f, 0, buf, PIECE * PIECES, MPI_BYTE, MPI_STATUS_IGNORE);
    if (call == WRITE)
        return MPI_File_write_at_all(f, 0, buf, PIECE * PIECES, MPI_BYTE, MPI_STATUS_IGNORE);
    int rc = MPI_File_iwrite_at_all(f, 0, buf, PIECE * PIECES, MPI_BYTE, &r);
    return rc ? rc : MPI_Wait(&r, MPI_STATUS_IGNORE);
}

/* The largest number of all ranks. */
static int most(int v)
{
    MPI_Allreduce(MPI_IN_PLACE, &v, 1, MPI_INT, MPI_MAX, mt_comm);
    return v;
}

/* A file for each call: the first access allocates most.  If a rank cannot take part in a
 * collective call, the file is lost. */
static void walk(enum call call)
{
    static char buf[PIECE * PIECES];
    int failed = 0;

    for (int i = 1; i <= WALK; i++) {
        int class = 0;
        MPI_File f = fresh();
        if (mt_rank == mt_size - 1)
            nomem_arm(i);
        int rc = access_all(f, call, buf);
        nomem_disarm();
        MPI_Error_class(rc, &class);
        CHECK_EQ(most(class != MPI_SUCCESS), -most(-(class != MPI_SUCCESS)));
        CHECK(!class || class == MPI_ERR_NO_MEM || class == MPI_ERR_PROC_ABORTED);
        bool lost = most(class == MPI_ERR_PROC_ABORTED);
        failed += class != MPI_SUCCESS;
        rc = access_all(f, call, buf);
        CHECK_EQ(rc != MPI_SUCCESS, lost);
        rc = MPI_File_close(&f);
        CHECK_EQ(rc != MPI_SUCCESS, lost);
    }
    CHECK(failed > 0);
}

static void writing(void) { walk(WRITE); }
static void reading(void) { walk(READ); }
static void nonblocking(void) { walk(IWRITE); }

int main(int argc, char **argv)
{
    if (!nomem_works())
        return 77;
    io_init(argc, argv);
    MT_RUN(writing);
    MT_RUN(reading);
    MT_RUN(nonblocking);
    return io_end();
}
