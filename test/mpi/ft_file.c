/* SPDX-License-Identifier: BSD-3-Clause */
/* mpirun --ft: the last rank dies inside MPI_File_open, where it opens the file.  The others have
 * an error, and keep no communicator, context or descriptor of the file. */
#include "test/mpi/ft_test.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>

static bool dies;

/* Replaces the C library's function, also for the library of MPI. */
__attribute__((visibility("default"))) int open(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    int mode = flags & O_CREAT ? va_arg(more, int) : 0;
    va_end(more);
    if (dies)
        ft_die();
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
__attribute__((alias("open"), visibility("default"))) int open64(const char *path, int flags, ...);

static int descriptors_of(const char *name)
{
    char at[512], path[64];
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof path, "/proc/self/fd/%.20s", e->d_name);
        ssize_t len = readlink(path, at, sizeof at - 1);
        at[len > 0 ? len : 0] = '\0';
        n += strstr(at, name) != NULL;
    }
    closedir(d);
    return n;
}

int main(int argc, char **argv)
{
    char name[64];
    int provided, alive[64], pid = (int)getpid();
    MPI_File f = MPI_FILE_NULL;
    MPI_Comm c;
    ft_init(argc, argv);
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &c));
    MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN);
    OK(MPI_Bcast(&pid, 1, MPI_INT, 0, c));
    snprintf(name, sizeof name, "/tmp/weft-ft-file-%d", pid);
    int comms = (int)ft_level("objects_communicators"),
        contexts = (int)ft_level("objects_contexts");
    dies = mt_rank == mt_size - 1;
    FAILS(MPI_File_open(c, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f),
          MPIX_ERR_PROC_FAILED);
    CHECK(f == MPI_FILE_NULL);
    CHECK_EQ((int)ft_level("objects_communicators"), comms);
    CHECK_EQ((int)ft_level("objects_contexts"), contexts);
    CHECK_EQ(descriptors_of(name), 0);
    if (mt_rank == 0)
        unlink(name);
    OK(MPI_Comm_free(&c));
    for (int i = 0; i < mt_size - 1; i++)
        alive[i] = i;
    return ft_end("a death while a file is opened", 0, alive, mt_size - 1);
}
