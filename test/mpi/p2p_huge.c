/* SPDX-License-Identifier: BSD-3-Clause */
/* One message of 2 GiB + 1 bytes: beyond what an int counts.  Needs 5 GB; the program skips itself
 * when there is less. For `make check-all` at two ranks. */
#include "test/mpi/mpitest.h"

#define HUGE_BYTES ((size_t)2 * 1024 * 1024 * 1024 + 1)

static bool enough_memory(void)
{
    char line[128];
    long kib = 0;
    FILE *f = fopen("/proc/meminfo", "r");

    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "MemAvailable: %ld kB", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib > 6 * 1024 * 1024L;
}

#if MPI_VERSION >= 4
/* Words are enough to see a wrong offset, and quick to write. */
static void fill_words(uint64_t *p, size_t n, uint64_t key)
{
    size_t i;

    for (i = 0; i < n; i++)
        p[i] = i * 0x9e3779b97f4a7c15u + key;
}

static size_t words_differ(const uint64_t *p, size_t n, uint64_t key)
{
    size_t i = 0;

    while (i < n && p[i] == i * 0x9e3779b97f4a7c15u + key)
        i++;
    return i;
}
#endif

static void two_gib_and_one(void)
{
#if MPI_VERSION >= 4
    size_t words = HUGE_BYTES / 8;
    unsigned char *buf;
    MPI_Count n = -1;
    MPI_Status st;

    if (mt_size != 2) {
        mt_skip("for two ranks");
        return;
    }
    buf = mt_alloc(HUGE_BYTES);
    if (mt_rank == 0) {
        fill_words((uint64_t *)(void *)buf, words, 3);
        buf[HUGE_BYTES - 1] = 0x5a;
        OK(MPI_Send_c(buf, (MPI_Count)HUGE_BYTES, MPI_BYTE, 1, 1, mt_comm));
    } else {
        OK(MPI_Recv_c(buf, (MPI_Count)HUGE_BYTES, MPI_BYTE, 0, 1, mt_comm, &st));
        OK(MPI_Get_count_c(&st, MPI_BYTE, &n));
        CHECK_EQ(n, HUGE_BYTES);
        CHECK_EQ(words_differ((uint64_t *)(void *)buf, words, 3), words);
        CHECK_EQ(buf[HUGE_BYTES - 1], 0x5a);
        CHECK(mt_guard_intact(buf, HUGE_BYTES));
    }
    free(buf);
#else
    mt_skip("large counts are new in MPI-4.0");
#endif
}

int main(int argc, char **argv)
{
    if (!enough_memory())
        check_skip("less than 6 GiB of memory available");
    mt_init(argc, argv);
    MT_RUN(two_gib_and_one);
    return mt_end();
}
