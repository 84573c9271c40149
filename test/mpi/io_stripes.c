/* SPDX-License-Identifier: BSD-3-Clause */
/* A file with stripes, as Lustre reports them (iofake.h): hints of a new file, what
 * MPI_File_get_info returns, and which targets the aggregators of a collective access reach. */
#include "test/mpi/iofake.h"
#include "test/mpi/iotest.h"

#define STRIPE (256 << 10)
#define PIECE 4096
#define ROWS 300

static void play(unsigned stripe_nbytes, unsigned n)
{
    io_fake_reset();
    io_fake.lustre = true;
    io_fake.stripe_nbytes = stripe_nbytes;
    io_fake.nstripes = n;
}

static MPI_File open_with(const char *hint[][2], int n)
{
    MPI_Info info;
    MPI_File f = MPI_FILE_NULL;
    MPI_Info_create(&info);
    for (int i = 0; i < n; i++)
        MPI_Info_set(info, hint[i][0], hint[i][1]);
    OK(MPI_File_open(mt_comm, io_name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                     info, &f));
    MPI_Info_free(&info);
    return f;
}

static int in_use(MPI_File f, const char *key)
{
    char text[MPI_MAX_INFO_VAL + 1] = "-1";
    int len = sizeof text, flag;
    MPI_Info info;
    OK(MPI_File_get_info(f, &info));
    MPI_Info_get_string(info, key, &len, text, &flag);
    MPI_Info_free(&info);
    return flag ? atoi(text) : -1;
}

static void new_file(void)
{
    const char *hint[][2] = { { "striping_factor", "3" }, { "striping_unit", "1000000" } };
    play(STRIPE, 4);
    MPI_File f = open_with(hint, 2);
    CHECK_EQ(io_fake.asked_n, mt_rank ? 0 : 3); /* by the process that creates the file */
    CHECK_EQ(io_fake.asked_nbytes, mt_rank ? 0 : 1048576);
    CHECK_EQ(in_use(f, "striping_factor"), 4); /* what the file has, not what was asked for */
    CHECK_EQ(in_use(f, "striping_unit"), STRIPE);
    OK(MPI_File_close(&f));
    play(STRIPE, 4);
    f = open_with(NULL, 0);
    CHECK_EQ(io_fake.asked_n, 0);
    OK(MPI_File_close(&f));
}

/* One host: as many aggregators as targets, or a divisor of the number of targets. */
static void aggregators(void)
{
    int most = 0;
    if (!mt_one_host()) {
        mt_skip("needs all processes on one host");
        return;
    }
    for (unsigned targets = 1; targets <= 9; targets++) {
        play(STRIPE, targets);
        MPI_File f = open_with(NULL, 0);
        for (int k = 1; k <= mt_size; k++)
            most = targets % (unsigned)k == 0 ? k : most;
        CHECK_EQ(in_use(f, "cb_nodes"), most);
        OK(MPI_File_close(&f));
        most = 0;
    }
}

/* Interleaved pieces, which aggregators write: every byte is where it belongs, and an aggregator
 * reaches its own targets only. */
static void access_all(const char *buffer, unsigned stripe, unsigned ntargets, const char *nodes)
{
    const char *hint[][2] = { { "romio_cb_write", "enable" },
                              { "romio_cb_read", "enable" },
                              { "cb_buffer_size", buffer },
                              { "cb_nodes", nodes } };
    static unsigned char mine[ROWS * PIECE], back[ROWS * PIECE];
    size_t n, wrong = 0;
    MPI_Datatype piece, row;
    MPI_Status st;
    play(stripe, ntargets);
    MPI_File f = open_with(hint, 4);
    MPI_Type_contiguous(PIECE, MPI_BYTE, &piece);
    MPI_Type_create_resized(piece, 0, PIECE * mt_size, &row);
    MPI_Type_commit(&row);
    OK(MPI_File_set_view(f, 1000 + PIECE * mt_rank, MPI_BYTE, row, "native", MPI_INFO_NULL));
    mt_fill(mine, sizeof mine, (unsigned)mt_rank + 7);
    OK(MPI_File_write_at_all(f, 0, mine, sizeof mine, MPI_BYTE, &st));
    io_check_count(&st, MPI_BYTE, sizeof mine);
    unsigned naggs = (unsigned)(atoi(nodes) < mt_size ? atoi(nodes) : mt_size);
    unsigned each = naggs < ntargets ? ntargets / naggs : 1;
    if (stripe >= STRIPE && (ntargets % naggs == 0 || naggs % ntargets == 0))
        CHECK_MSG(__builtin_popcountll(io_fake.targets) <= (int)each,
                  "rank %d has written to targets 0x%llx", mt_rank,
                  (unsigned long long)io_fake.targets);
    OK(MPI_File_read_at_all(f, 0, back, sizeof back, MPI_BYTE, &st));
    io_check_count(&st, MPI_BYTE, sizeof back);
    CHECK(!memcmp(mine, back, sizeof mine));
    MPI_Barrier(mt_comm);
    unsigned char *all = io_load(&n);
    CHECK_EQ((long)n, 1000 + (long)sizeof mine * mt_size);
    for (size_t i = 0; i < sizeof mine && n >= sizeof mine * (size_t)mt_size; i++)
        wrong += all[1000 + (i / PIECE * (size_t)mt_size + (size_t)mt_rank) * PIECE + i % PIECE] !=
                 mine[i];
    CHECK_EQ((long)wrong, 0);
    free(all);
    OK(MPI_File_close(&f));
    MPI_Type_free(&piece);
    MPI_Type_free(&row);
}

static void domains(void)
{
    static const char *const buffers[] = { "100000", "262144", "1048576" };
    for (int i = 0; i < 3; i++) {
        access_all(buffers[i], STRIPE, 4, "1");
        access_all(buffers[i], STRIPE, 4, "2");
        access_all(buffers[i], STRIPE, 2, "4");
        access_all(buffers[i], STRIPE, 5, "3"); /* no divisor: domains of several stripes */
        access_all(buffers[i], 65536, 4, "2");
        access_all(buffers[i], 1 << 20, 3, "3");
    }
}

int main(int argc, char **argv)
{
    io_init(argc, argv);
    MT_RUN(new_file);
    MT_RUN(aggregators);
    MT_RUN(domains);
    io_fake_reset();
    return io_end();
}
