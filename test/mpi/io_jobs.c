/* SPDX-License-Identifier: BSD-3-Clause */
/* One of two jobs that use one file at the same time; io_jobs.py starts both.  Arguments:
 * directory, number of the job, 0 or 1.  The jobs meet in a page of memory that both have mapped.
 */
#include "test/mpi/iotest.h"
#include <sys/file.h>
#include <sys/mman.h>

#define BLOCKS 100
#define BLOCK 64
#define STRIDE 1000
#define LEN (BLOCKS * BLOCK)

static int job;
static int *met; /* ranks 0 that have come to a meeting, of all meetings so far */

/* Returns when all ranks of both jobs have called it as often. */
static void meet(void)
{
    static int calls;
    calls++;
    MPI_Barrier(mt_comm);
    if (mt_rank == 0) {
        __atomic_fetch_add(met, 1, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(met, __ATOMIC_SEQ_CST) < 2 * calls)
            usleep(100);
    }
    MPI_Barrier(mt_comm);
}

static void open_memory(const char *dir)
{
    char name[300];
    snprintf(name, sizeof name, "%s/meet", dir);
    int fd = open(name, O_CREAT | O_RDWR, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
    met = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (met == MAP_FAILED)
        exit(2);
}

static MPI_File open_file(void) { return io_open(mt_comm, MPI_MODE_CREATE | MPI_MODE_RDWR); }

/* All ranks of both jobs write the same strided bytes and read them: each read sees one writer. */
static void atomic_writers(void)
{
    static unsigned char mine[LEN], got[LEN];
    MPI_Datatype t, spread;
    MPI_File f = open_file();
    MPI_Type_contiguous(BLOCK, MPI_BYTE, &t);
    MPI_Type_create_resized(t, 0, STRIDE, &spread);
    MPI_Type_commit(&spread);
    OK(MPI_File_set_view(f, 0, MPI_BYTE, spread, "native", MPI_INFO_NULL));
    OK(MPI_File_set_atomicity(f, 1));
    memset(mine, 1 + mt_rank + job * 100, LEN);
    if (job == 0 && mt_rank == 0)
        OK(MPI_File_write_at(f, 0, mine, LEN, MPI_BYTE, MPI_STATUS_IGNORE));
    meet();
    for (int i = 0; i < 150; i++) {
        if ((i + mt_rank + job) % 3 == 0)
            OK(MPI_File_write_at(f, 0, mine, LEN, MPI_BYTE, MPI_STATUS_IGNORE));
        OK(MPI_File_read_at(f, 0, got, LEN, MPI_BYTE, MPI_STATUS_IGNORE));
        size_t k = 1;
        while (k < LEN && got[k] == got[0])
            k++;
        CHECK_MSG(k == LEN, "read %d: byte %zu is %d, byte 0 is %d", i, k, k < LEN ? got[k] : 0,
                  got[0]);
    }
    meet();
    /* Both jobs have the file open, and neither holds a lock. */
    struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    int fd = open(io_name, O_RDWR);
    CHECK(fd >= 0 && fcntl(fd, F_OFD_GETLK, &all) == 0);
    CHECK_EQ(all.l_type, F_UNLCK);
    close(fd);
    meet();
    OK(MPI_File_close(&f));
    MPI_Type_free(&spread);
    MPI_Type_free(&t);
}

/* Write, sync, meet, sync, read, in turns. */
static void turns(void)
{
    static int mine[1000], got[1000];
    MPI_File f = open_file();
    for (int turn = 0; turn < 20; turn++) {
        bool writes = turn % 2 == job;
        MPI_Offset at = (MPI_Offset)mt_rank * (MPI_Offset)sizeof mine;
        for (int i = 0; i < 1000; i++)
            mine[i] = turn * 100000 + mt_rank * 1000 + i;
        if (writes)
            OK(MPI_File_write_at_all(f, at, mine, 1000, MPI_INT, MPI_STATUS_IGNORE));
        OK(MPI_File_sync(f));
        meet();
        OK(MPI_File_sync(f));
        OK(MPI_File_read_at_all(f, at, got, 1000, MPI_INT, MPI_STATUS_IGNORE));
        CHECK(!memcmp(mine, got, sizeof mine));
        meet();
    }
    OK(MPI_File_close(&f));
}

/* The ranks of one opening share a pointer, two openings do not. */
static void pointers(void)
{
    MPI_File f = open_file();
    MPI_Offset at = -1;
    char c = 'x';
    meet();
    for (int i = 0; i < 50 + job; i++)
        OK(MPI_File_write_shared(f, &c, 1, MPI_BYTE, MPI_STATUS_IGNORE));
    meet();
    OK(MPI_File_get_position_shared(f, &at));
    CHECK_EQ(at, (50 + job) * mt_size);
    OK(MPI_File_close(&f));
    meet();
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    if (argc < 3)
        return 2;
    job = atoi(argv[2]);
    snprintf(io_name, sizeof io_name, "%s/data", argv[1]);
    open_memory(argv[1]);
    MT_RUN(atomic_writers);
    MT_RUN(turns);
    MT_RUN(pointers);
    return mt_end();
}
