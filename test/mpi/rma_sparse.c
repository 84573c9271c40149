/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of windows that no process has touched costs nothing.  Argument `hidden`: rank 1 has no
 * /proc, so it cannot open memory of other processes there, and windows still work. */
#include "test/mpi/mpitest.h"
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>

#define NBYTES ((MPI_Aint)24 << 20)
#define SPREAD ((size_t)4 << 20) /* touched pages may be huge */

static bool hidden;

/* Of the leak sanitizer, which reads /proc. */
int __lsan_is_turned_off(void);
__attribute__((visibility("default"))) int __lsan_is_turned_off(void) { return hidden; }
static MPI_Win win;

/* Whether the library may promise memory without reserving it. */
static bool has_room(void)
{
    char line[128];
    long kib = 0;
    int strict = '2';
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f) && sscanf(line, "MemAvailable: %ld", &kib) != 1) {
    }
    if (f)
        fclose(f);
    f = fopen("/proc/sys/vm/overcommit_memory", "r");
    if (f) {
        strict = fgetc(f);
        fclose(f);
    }
    return strict != '2' && kib / 8 > (NBYTES >> 10) * mt_size;
}

/* Bytes of [p, p + NBYTES) that have memory, of any process. */
static size_t resident(char *p)
{
    static unsigned char pages[NBYTES / 4096 + 1];
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = 0, in = (uintptr_t)p % page;
    CHECK_EQ(mincore(p - in, (size_t)NBYTES, pages), 0);
    for (size_t i = 0; i < (size_t)NBYTES / page; i++)
        n += pages[i] & 1;
    return n * page;
}

/* Whether no file system is full because of the memory at p: it is not that of a file. */
static bool without_file(const char *p)
{
    char line[512], *name;
    unsigned long low, high;
    FILE *f = fopen("/proc/self/maps", "r");
    bool found = false, file = false;
    while (f && !found && fgets(line, sizeof line, f)) {
        found = sscanf(line, "%lx-%lx", &low, &high) == 2 && low <= (uintptr_t)p &&
                (uintptr_t)p < high;
        name = strchr(line, '/');
        file = name && strncmp(name, "/memfd:", 7) != 0;
    }
    if (f)
        fclose(f);
    return found && !file;
}

static void use(char *p, MPI_Aint n, bool sparse)
{
    int next = (mt_rank + 1) % mt_size, before = (mt_rank + mt_size - 1) % mt_size;
    int empty = mt_size > 2 ? mt_size - 1 : -1; /* this rank has no memory */
    char in = 0, out = (char)(mt_rank + 1);
    if (sparse && n)
        CHECK(without_file(p) && resident(p) <= SPREAD);
    OK(MPI_Win_fence(0, win));
    if (next != empty)
        OK(MPI_Put(&out, 1, MPI_CHAR, next, NBYTES - 1, 1, MPI_CHAR, win));
    OK(MPI_Win_fence(0, win));
    if (n) {
        CHECK_EQ(p[NBYTES - 1], before + 1);
        CHECK_EQ(p[0], 0);
        CHECK_EQ(p[NBYTES / 2], 0);
    }
    if (before != empty)
        OK(MPI_Get(&in, 1, MPI_CHAR, before, NBYTES - 1, 1, MPI_CHAR, win));
    OK(MPI_Win_fence(0, win));
    if (before != empty)
        CHECK_EQ(in, (before + mt_size - 1) % mt_size + 1);
    if (sparse && n)
        CHECK(resident(p) <= 2 * SPREAD);
}

static void allocated(void)
{
    char *p;
    MPI_Aint n = mt_size > 2 && mt_rank == mt_size - 1 ? 0 : NBYTES;
    for (int i = 0; i < 3; i++) {
        OK(MPI_Win_allocate(n, 1, MPI_INFO_NULL, mt_comm, &p, &win));
        use(p, n, !hidden && has_room());
        OK(MPI_Win_free(&win));
    }
}

static void shared(void)
{
    char *p;
    MPI_Aint n = mt_size > 2 && mt_rank == mt_size - 1 ? 0 : NBYTES;
    MPI_Info apart;
    MPI_Info_create(&apart);
    MPI_Info_set(apart, "alloc_shared_noncontig", "true");
    for (int i = 0; i < 4; i++) {
        OK(MPI_Win_allocate_shared(n, 1, i % 2 ? apart : MPI_INFO_NULL, mt_comm, &p, &win));
        use(p, n, !hidden && has_room());
        OK(MPI_Win_free(&win));
    }
    MPI_Info_free(&apart);
}

static void hide_proc(void)
{
    int cannot = 0;
    if (mt_rank == 1)
        cannot = unshare(CLONE_NEWNS) < 0 ||
                 mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
                 mount("weft-test", "/proc", "tmpfs", 0, "size=4k") < 0;
    MPI_Allreduce(MPI_IN_PLACE, &cannot, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (cannot) {
        MPI_Finalize();
        exit(77);
    }
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    hidden = argc > 1 && !strcmp(argv[1], "hidden");
    if (hidden)
        hide_proc();
    MT_RUN(allocated);
    MT_RUN(shared);
    return mt_end();
}
