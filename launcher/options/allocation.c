/* SPDX-License-Identifier: BSD-3-Clause */
/* The hosts that a resource manager has allocated to the job in which mpirun runs, from its
 * environment: Slurm, PBS, LSF. */
#include "launcher/options/hosts.h"
#include "launcher/options/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* NULL also if the variable is empty. */
static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static int add_name(void *arg, const char *name)
{
    return launch_hosts_add(arg, name) < 0 ? launch_usage("out of memory") : 0;
}

/* ---- Slurm ---- */

/* Counts in a variable, into out[n]; false: the variable is not set or does not match the hosts. */
static bool slurm_counts(const char *name, int *out, int n)
{
    const char *text = variable(name);
    if (!text)
        return false;
    if (launch_counts(text, out, n) == n)
        return true;
    fprintf(stderr,
            "mpirun: warning: %s '%s' does not fit the %d hosts of SLURM_JOB_NODELIST; "
            "ignored\n",
            name, text, n);
    return false;
}

/* Whether mpirun runs inside a step (srun --pty, an interactive salloc), where counts of tasks are
 * those of the step, which is mpirun's own. */
static bool in_step(void) { return variable("SLURM_STEP_NODELIST") != NULL; }

/* Slots of a host: the number of tasks requested, or of processors allocated. */
static void slurm_slots(struct launch_alloc *a)
{
    struct launch_hosts *h = &a->hosts;
    int *counts = calloc((size_t)h->n, sizeof *counts), per_task = 1;
    const char *cpus_per_task = variable("SLURM_CPUS_PER_TASK");

    bool tasks = counts && !in_step() && slurm_counts("SLURM_TASKS_PER_NODE", counts, h->n);
    bool given = tasks || (counts && slurm_counts("SLURM_JOB_CPUS_PER_NODE", counts, h->n));
    if (cpus_per_task)
        launch_number(cpus_per_task, 1, LAUNCH_SLOTS_MOST, &per_task);
    if (!in_step())
        a->cpus_per_task = per_task;
    per_task = tasks ? 1 : per_task;
    for (int i = 0; given && i < h->n; i++) {
        int slots = counts[i] / per_task;
        h->v[i].slots = slots > 0 ? slots : 1;
        h->v[i].slots_given = true;
    }
    free(counts);
}

static int find_slurm(struct launch_alloc *a)
{
    const char *nodes = variable("SLURM_JOB_NODELIST"), *job = variable("SLURM_JOB_ID");
    const char *self = variable("SLURMD_NODENAME"), *ntasks = variable("SLURM_NTASKS");

    if (!job || !nodes)
        return 0;
    int code = launch_ranges("SLURM_JOB_NODELIST", nodes, add_name, &a->hosts);
    if (code)
        return code;
    /* Slurm's names may differ from the names of the machines: SLURMD_NODENAME is Slurm's name of
     * this node */
    for (int i = 0; self && i < a->hosts.n; i++)
        a->hosts.v[i].self = launch_same_host(a->hosts.v[i].name, self);
    slurm_slots(a);
    if (ntasks && !in_step())
        launch_number(ntasks, 1, LAUNCH_HOSTS_MOST, &a->n);
    a->slurm = true;
    snprintf(a->name, sizeof a->name, "the Slurm allocation (job %.40s)", job);
    return 0;
}

/* ---- PBS, Torque, SGE-like files: a line for each slot ---- */

static int add_slot(void *arg, const char *where, const struct launch_word *w)
{
    struct launch_hosts *h = arg;
    int i = launch_hosts_add(h, w->name);
    if (i < 0)
        return launch_usage("%s: out of memory", where);
    h->v[i].slots += w->slots ? w->slots : 1;
    h->v[i].slots_given = true;
    return 0;
}

static int find_pbs(struct launch_alloc *a)
{
    const char *file = variable("PBS_NODEFILE"), *job = variable("PBS_JOBID");
    if (!file || !job)
        return 0;
    snprintf(a->name, sizeof a->name, "the PBS allocation (job %.40s)", job);
    return launch_hostfile_read(file, add_slot, &a->hosts);
}

/* ---- LSF: LSB_MCPU_HOSTS is "hostA 2 hostB 4" ---- */

static int find_lsf(struct launch_alloc *a)
{
    const char *p = variable("LSB_MCPU_HOSTS"), *job = variable("LSB_JOBID");
    struct launch_word w = { .slots = 0 };
    char number[16];
    int code = 0;

    if (!p || !job)
        return 0;
    snprintf(a->name, sizeof a->name, "the LSF allocation (job %.40s)", job);
    for (p += strspn(p, " "); *p && !code; p += strspn(p, " ")) {
        size_t len = strcspn(p, " ");
        code = launch_word_parse("LSB_MCPU_HOSTS", p, len, &w);
        p += len + strspn(p + len, " ");
        len = strcspn(p, " ");
        snprintf(number, sizeof number, "%.*s", (int)len, p);
        p += len;
        if (!code && !launch_number(number, 1, LAUNCH_SLOTS_MOST, &w.slots))
            code = launch_usage("LSB_MCPU_HOSTS: %s: '%s' is not a number in 1..%d", w.name, number,
                                LAUNCH_SLOTS_MOST);
        if (!code)
            code = add_slot(&a->hosts, "LSB_MCPU_HOSTS", &w);
    }
    return code;
}

int launch_alloc_find(struct launch_alloc *a)
{
    static int (*const managers[])(struct launch_alloc * a) = { find_slurm, find_pbs, find_lsf };
    int code = 0;
    for (size_t i = 0; i < sizeof managers / sizeof managers[0] && !code && !a->hosts.n; i++)
        code = managers[i](a);
    return code;
}
