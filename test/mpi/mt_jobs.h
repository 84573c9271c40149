/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a test program over processes of two jobs.  MT_SPAWN=N in the environment: the processes of
 * the program's job start N more of the same program with the same arguments, and mt_world has all
 * of them. */
#ifndef TEST_MPI_MT_JOBS_H
#define TEST_MPI_MT_JOBS_H

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static MPI_Comm mt_world, mt_other_job = MPI_COMM_NULL;

/* The path of this program: libtool's script, which sets the path of the library. */
static inline void mt_program(char *path, size_t len)
{
    ssize_t n = readlink("/proc/self/exe", path, len - 1);
    path[n > 0 ? n : 0] = '\0';
    char *libs = strstr(path, "/.libs/");
    if (libs)
        memmove(libs, libs + 6, strlen(libs + 6) + 1);
}

/* The arguments of this process, without the first. */
static inline char **mt_arguments(void)
{
    static char text[4096], *argv[64];
    FILE *f = fopen("/proc/self/cmdline", "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    int argc = 0;
    for (size_t at = strlen(text) + 1; at < n && argc < 63; at += strlen(text + at) + 1)
        argv[argc++] = text + at;
    if (f)
        fclose(f);
    return argv;
}

static inline void mt_join_jobs(void)
{
    const char *n = getenv("MT_SPAWN");
    char path[4096];
    mt_world = MPI_COMM_WORLD;
    if (!n)
        return;
    MPI_Comm_get_parent(&mt_other_job);
    bool child = mt_other_job != MPI_COMM_NULL;
    mt_program(path, sizeof path);
    if (!child)
        MPI_Comm_spawn(path, mt_arguments(), atoi(n), MPI_INFO_NULL, 0, MPI_COMM_WORLD,
                       &mt_other_job, MPI_ERRCODES_IGNORE);
    MPI_Intercomm_merge(mt_other_job, child, &mt_world);
}

static inline void mt_part_jobs(void)
{
    if (mt_other_job == MPI_COMM_NULL)
        return;
    MPI_Comm_free(&mt_world);
    MPI_Comm_disconnect(&mt_other_job);
}

#endif
