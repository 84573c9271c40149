/* SPDX-License-Identifier: BSD-3-Clause */
/* For programs that test files: file names, and the bytes of a file read without MPI.  The first
 * argument is the directory of the files: tmp, the default, is $TMPDIR; shm, for files in memory,
 * is $WEFT_SHM_DIR; anything else is a path.  runtests gives each test its own of both, so that no
 * test finds the file that a killed one left under the same process id. */
#ifndef TEST_MPI_IOTEST_H
#define TEST_MPI_IOTEST_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "test/mpi/mpitest.h"

static char io_name[256];

static inline const char *io_directory(const char *arg)
{
    bool shm = !strcmp(arg, "shm");
    const char *dir;

    if (!shm && strcmp(arg, "tmp"))
        return arg;
    dir = getenv(shm ? "WEFT_SHM_DIR" : "TMPDIR");
    return dir && *dir ? dir : shm ? "/dev/shm" : "/tmp";
}

/* A name that all ranks share and no other program has: hosts may differ in $TMPDIR. */
static inline void io_setup(int argc, char **argv)
{
    snprintf(io_name, sizeof io_name, "%s/weft-io-%d", io_directory(argc > 1 ? argv[1] : "tmp"),
             (int)getpid());
    MPI_Bcast(io_name, sizeof io_name, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static inline void io_init(int argc, char **argv)
{
    mt_init(argc, argv);
    io_setup(argc, argv);
}

static inline int io_end(void)
{
    if (mt_rank == 0)
        unlink(io_name);
    return mt_end();
}

static inline MPI_File io_open(MPI_Comm comm, int amode)
{
    MPI_File f = MPI_FILE_NULL;

    OK(MPI_File_open(comm, io_name, amode, MPI_INFO_NULL, &f));
    return f;
}

/* Rank 0 makes the file anew: n bytes of one value. */
static inline void io_make(size_t n, unsigned char value)
{
    if (mt_rank == 0) {
        unsigned char *p = malloc(n + 1);
        int fd = open(io_name, O_CREAT | O_TRUNC | O_WRONLY, 0666);

        memset(p, value, n + 1);
        CHECK(fd >= 0 && write(fd, p, n) == (ssize_t)n);
        close(fd);
        free(p);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The bytes of the file as the system has them; the caller frees them. */
static inline unsigned char *io_load(size_t *n)
{
    int fd = open(io_name, O_RDONLY);
    struct stat st;
    unsigned char *p;

    *n = 0;
    if (fd < 0 || fstat(fd, &st) < 0)
        return calloc(1, 1);
    p = malloc((size_t)st.st_size + 1);
    if (read(fd, p, (size_t)st.st_size) == st.st_size)
        *n = (size_t)st.st_size;
    close(fd);
    return p;
}

static inline void io_check_size(MPI_File f, MPI_Offset expected)
{
    MPI_Offset n = -1;

    OK(MPI_File_get_size(f, &n));
    CHECK_EQ(n, expected);
}

/* The count of a status, in elements of a type. */
static inline void io_check_count(const MPI_Status *st, MPI_Datatype type, int expected)
{
    int n = -2;

    OK(MPI_Get_count(st, type, &n));
    CHECK_EQ(n, expected);
}

#endif
