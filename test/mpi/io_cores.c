/* SPDX-License-Identifier: BSD-3-Clause */
/* The threads that write files beside a bound rank use the other cores that mpirun, the parent, may
 * use; if there are none, they have the binding of the rank.  That does not change. */
#include <dirent.h>
#include <sched.h>
#include "test/mpi/iotest.h"

#define NBYTES (1 << 20)

/* The number of a thread with this name; 0: there is none. */
static int find_thread(const char *name)
{
    DIR *d = opendir("/proc/self/task");
    int found = 0;

    for (struct dirent *e; d && !found && (e = readdir(d));) {
        char path[300], text[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", e->d_name);
        FILE *f = fopen(path, "r");
        if (f && fgets(text, sizeof text, f) && !strncmp(text, name, strlen(name)))
            found = atoi(e->d_name);
        if (f)
            fclose(f);
    }
    if (d)
        closedir(d);
    return found;
}

int main(int argc, char **argv)
{
    static char buf[NBYTES];
    cpu_set_t before, after, job, thread;
    MPI_Request r;

    io_init(argc, argv);
    sched_getaffinity(0, sizeof before, &before);
    MPI_File f = io_open(MPI_COMM_WORLD, MPI_MODE_CREATE | MPI_MODE_RDWR);
    OK(MPI_File_iwrite_at(f, (MPI_Offset)mt_rank * NBYTES, buf, NBYTES, MPI_BYTE, &r));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    int tid = find_thread("weft-io");
    CHECK(tid > 0);
    CHECK(sched_getaffinity(tid, sizeof thread, &thread) == 0);
    CHECK(sched_getaffinity(getppid(), sizeof job, &job) == 0);
    CPU_XOR(&job, &job, &before);
    if (CPU_COUNT(&job) == 0)
        job = before;
    CHECK(CPU_EQUAL(&thread, &job));
    sched_getaffinity(0, sizeof after, &after);
    CHECK(CPU_EQUAL(&before, &after));
    OK(MPI_File_close(&f));
    return io_end();
}
