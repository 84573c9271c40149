/* SPDX-License-Identifier: BSD-3-Clause */
/* Which path processes of other jobs use: shared memory, or none if WEFT_BTL excludes it. */
#ifndef TEST_MPI_DYN_PATH_H
#define TEST_MPI_DYN_PATH_H

#include <stdio.h>
#include <string.h>
#include "test/mpi/mpitest.h"

/* Processes of other jobs that share memory with this one; -1: no such variable. */
static inline int sharing(void)
{
    MPI_T_pvar_session session;
    MPI_T_pvar_handle h;
    unsigned long long v = 0;
    int level, index, n, found;
    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &level) != MPI_SUCCESS)
        return -1;
    MPI_T_pvar_session_create(&session);
    found = MPI_T_pvar_get_index("shm_other_jobs", MPI_T_PVAR_CLASS_LEVEL, &index) == MPI_SUCCESS &&
            MPI_T_pvar_handle_alloc(session, index, NULL, &h, &n) == MPI_SUCCESS;
    if (found) {
        MPI_T_pvar_read(session, h, &v);
        MPI_T_pvar_handle_free(session, &h);
    }
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
    return found ? (int)v : -1;
}

static inline bool shm_is_on(void)
{
    const char *btl = getenv("WEFT_BTL");
    if (getenv("DYN_APART")) /* the other job belongs to another user */
        return false;
    return !btl || strstr(btl, "shm");
}

/* n processes of other jobs are known here, all of this host; some of an earlier job may be
 * ending. */
static inline void check_path(int n)
{
    int now = sharing();
    CHECK_MSG(shm_is_on() ? now >= n : now == 0, "%d processes of other jobs share memory of %d",
              now, n);
}

/* Number of mapped segments: those of other jobs, and this job's own. */
static inline int segments(void)
{
    char line[512], last[64] = "";
    int n = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && fgets(line, sizeof line, f)) {
        const char *inode = strstr(line, ":") ? strchr(strstr(line, ":") + 1, ':') : NULL;
        char now[64] = "";
        if (inode && (strstr(line, "memfd:weft") || strstr(line, "/weft-") || strstr(line, "/#")))
            snprintf(now, sizeof now, "%.20s", inode);
        n += now[0] && strcmp(now, last) != 0;
        snprintf(last, sizeof last, "%s", now);
    }
    if (f)
        fclose(f);
    return n;
}

#endif
