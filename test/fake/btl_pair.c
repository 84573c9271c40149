/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes of a job made with fork() and a hand-written rt_boot. */
#include "test/fake/btl_pair.h"
#include "runtime/boot/boot.h"
#include "test/patience.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS_MAX 64
#define GRACE_S 10 /* for the other processes after a failure: they may hang */

static uint32_t identity[RANKS_MAX];

void fake_boot_as(const char *nspace, int rank, int size)
{
    for (uint32_t i = 0; i < RANKS_MAX; i++)
        identity[i] = i;
    snprintf(rt_boot.nspace, sizeof rt_boot.nspace, "%s", nspace);
    snprintf(rt_boot.host, sizeof rt_boot.host, "localhost");
    rt_boot.rank = rt_boot.local_rank = rank;
    rt_boot.size = rt_boot.local_size = size;
    rt_boot.local_procs = identity;
    rt_boot.nnodes = 1;
    rt_boot.ncpus = size;
}

static int status_of(int st) { return WIFSIGNALED(st) ? 128 + WTERMSIG(st) : WEXITSTATUS(st); }

int fake_run_ranks(const char *nspace, int n, int (*fn)(int rank, void *arg), void *arg,
                   int timeout_s)
{
    pid_t pids[RANKS_MAX];
    const char *scale = getenv("TEST_TIMEOUT_SCALE");
    int times = scale && atof(scale) > 1 ? (int)atof(scale) : 1;
    uint64_t limit_ns = (uint64_t)(timeout_s * times) * 1000000000u;
    struct watch watch = watch_begin();
    int bad = 0, left = n;
    bool killed = false, failed = false;

    fflush(stdout);
    for (int r = 0; r < n; r++) {
        pids[r] = fork();
        if (pids[r] == 0) {
            fake_boot_as(nspace, r, n);
            int rc = fn(r, arg);
            fflush(stdout);
            _exit(rc);
        }
    }
    while (left > 0) {
        for (int r = 0; r < n; r++) {
            int st;
            if (pids[r] <= 0 || waitpid(pids[r], &st, WNOHANG) != pids[r])
                continue;
            pids[r] = 0;
            left--;
            if (st && (!bad || bad == 128 + SIGKILL)) {
                bad = status_of(st);
                printf("# %s: rank %d ended with %d\n", nspace, r, bad);
                fflush(stdout);
                if (bad != 128 + SIGKILL && !failed) {
                    failed = true;
                    watch = watch_begin();
                    limit_ns = (uint64_t)(GRACE_S * times) * 1000000000u;
                }
            }
        }
        if (left && !killed && watch_over(&watch, limit_ns)) {
            printf("# %s: %d of %d ranks have no end\n", nspace, left, n);
            fflush(stdout);
            bad = bad && bad != 128 + SIGKILL ? bad : 124;
            for (int r = 0; r < n; r++)
                if (pids[r] > 0)
                    kill(pids[r], SIGKILL);
            killed = true;
        }
        usleep(500);
    }
    return bad;
}
