/* SPDX-License-Identifier: BSD-3-Clause */
/* mpirun --ft.  A rank dies that ends by a signal, with a code other than 0, or without
 * MPI_Finalize; ranks that end after MPI_Finalize have left in good order, whatever their code.
 * The ranks of this host get a PMIx event, those of other hosts a frame from which their agent
 * makes one, and the mpiruns of the other jobs (family.h) a frame from which they do the same. */
#include "launcher/host/server.h"
#include "launcher/mpirun/deaths.h"
#include "launcher/mpirun/family.h"
#include "launcher/mpirun/head.h"
#include "launcher/mpirun/job_end.h"
#include "runtime/base/clock.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define SHOWN 32 /* rows of the table */

void launch_death_publish(struct launch_job *job, const char *nspace, int rank)
{
    if (job->head)
        head_died(job->head, nspace, rank);
    else if (job->nrunning)
        launch_server_died(nspace, rank);
}

static void record(struct launch_job *job, struct launch_rank *r)
{
    r->died = ++job->ndied;
    r->died_ns = rt_now_ns();
    launch_death_publish(job, job->nspace, r->rank);
    family_died(job, job->nspace, r->rank);
}

bool launch_death(struct launch_job *job, struct launch_rank *r)
{
    if (!job->opts->ft || job->ending)
        return false;
    if (r->died || r->finalized)
        return true;
    if (r->status == 0 && !r->connected)
        return false; /* no MPI program: job_end.c judges what the others wait for */
    if (r->status == 0 && !r->lost)
        return true; /* its MPI_Finalize may still be reported; if not, LAUNCH_LOST will be */
    record(job, r);
    return true;
}

bool launch_death_of_hosts(struct launch_job *job, int first, int end)
{
    if (!job->opts->ft || job->ending)
        return false;
    for (int i = 0; i < job->n; i++) {
        struct launch_rank *r = &job->ranks[i];
        if (r->node < first || r->node >= end || r->died || !r->running)
            continue;
        r->status = SIGKILL;
        record(job, r);
    }
    return true;
}

static int by_death(const void *a, const void *b)
{
    const struct launch_rank *const *x = a, *const *y = b;
    return ((*x)->died > (*y)->died) - ((*x)->died < (*y)->died);
}

static void print_row(const struct launch_job *job, const struct launch_rank *r)
{
    char how[96];
    int sig = WIFSIGNALED(r->status) ? WTERMSIG(r->status) : 0;
    if (sig)
        snprintf(how, sizeof how, "signal %d (%s)", sig, strsignal(sig));
    else if (r->status)
        snprintf(how, sizeof how, "exit code %d", WEXITSTATUS(r->status));
    else
        snprintf(how, sizeof how, "exit code 0 without MPI_Finalize");
    launch_report(job, "  rank %-5d %9.3f s  %s, pid %ld, host %s", r->rank,
                  (double)(r->died_ns - job->began_ns) / 1e9, how, (long)r->pid,
                  job->head ? job->hosts[r->node].name : job->host);
}

static int code_of(const struct launch_rank *r)
{
    return WIFSIGNALED(r->status) ? 128 + WTERMSIG(r->status) : WEXITSTATUS(r->status);
}

static int exit_code(const struct launch_job *job, const struct launch_rank *first)
{
    for (int i = 0; i < job->n; i++)
        if (!job->ranks[i].died)
            return code_of(&job->ranks[i]);
    return first && first->status ? code_of(first) : LAUNCH_EXIT_FAIL;
}

int launch_deaths_end(const struct launch_job *job)
{
    const struct launch_rank **dead = calloc((size_t)job->ndied + 1, sizeof *dead);
    int n = 0;
    for (int i = 0; dead && i < job->n; i++)
        if (job->ranks[i].died)
            dead[n++] = &job->ranks[i];
    if (n) {
        qsort(dead, (size_t)n, sizeof *dead, by_death);
        launch_report(job, "%d of %d ranks died; the others continued (--ft):", n, job->n);
    }
    for (int i = 0; i < n && i < SHOWN; i++)
        print_row(job, dead[i]);
    if (n > SHOWN)
        launch_report(job, "  and %d more", n - SHOWN);
    int code = job->ending ? job->exit_code : exit_code(job, n ? dead[0] : NULL);
    free(dead);
    return code;
}
