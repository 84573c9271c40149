/* SPDX-License-Identifier: BSD-3-Clause */
/* The C side of sentinels.F90: replaces MPI_Comm_spawn and its twin as a tool would, and opens the
 * plug-ins named on the command line, whose entries are given with them: FILE:NAME. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int MPI_Comm_spawn(const char *command, char *argv[], int maxprocs, MPI_Info info, int root,
                   MPI_Comm comm, MPI_Comm *intercomm, int errcodes[])
{
    (void)command, (void)maxprocs, (void)info, (void)root, (void)comm;
    *intercomm = MPI_COMM_NULL;
    return argv == MPI_ARGV_NULL && errcodes == MPI_ERRCODES_IGNORE ? MPI_SUCCESS : MPI_ERR_ARG;
}

int MPI_Comm_spawn_multiple(int count, char *commands[], char **argvs[], const int maxprocs[],
                            const MPI_Info info[], int root, MPI_Comm comm, MPI_Comm *intercomm,
                            int errcodes[])
{
    (void)count, (void)commands, (void)maxprocs, (void)info, (void)root, (void)comm;
    *intercomm = MPI_COMM_NULL;
    return argvs == MPI_ARGVS_NULL && errcodes == MPI_ERRCODES_IGNORE ? MPI_SUCCESS : MPI_ERR_ARG;
}

/* Whether C's constants are the addresses that Fortran passes; *bad is 0 after both calls if so. */
void c_ignored_(const void *status, FINT *bad)
{
    *bad = status != MPI_F_STATUS_IGNORE || status != MPI_F08_STATUS_IGNORE;
}
void c_all_ignored_(const void *statuses, FINT *bad)
{
    *bad += statuses != MPI_F_STATUSES_IGNORE || statuses != MPI_F08_STATUSES_IGNORE;
}

/* Calls NAME(bad) of a plug-in, which stays open: `file` is FILE:NAME with blanks behind it. */
void plugin_(const char *file, FINT *bad, size_t len)
{
    char path[512];
    snprintf(path, sizeof path, "%.*s", (int)len, file);
    path[strcspn(path, " ")] = '\0';
    char *name = strrchr(path, ':');
    *name++ = '\0';
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void (*entry)(FINT *) = so ? (void (*)(FINT *))dlsym(so, name) : NULL;
    if (entry) {
        entry(bad);
    } else {
        fprintf(stderr, "%s\n", dlerror());
        ++*bad;
    }
}
