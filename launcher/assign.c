/* SPDX-License-Identifier: BSD-3-Clause */
/* Which rank runs on which host of a job over several.  Pure functions of the options and of what
 * the hosts' agents have told; where on its host a rank goes is place.c's there.  Main thread. */
#include "launcher/launch.h"

#include <stdlib.h>

static int slots_of(const struct launch_host *h)
{
    return h->slots_given ? h->slots : h->nobj[LAUNCH_CORE] > 0 ? h->nobj[LAUNCH_CORE] : 1;
}

static int count_ranks(struct launch_job *job, int capacity)
{
    const struct launch_opts *o = job->opts;
    int n = 0;
    for (int i = 0; i < o->napps; i++) {
        struct launch_app *app = &o->apps[i];
        if (!app->n)
            app->n = o->napps > 1 ? 1 : capacity;
        app->first = n;
        n += app->n;
    }
    return n;
}

/* Fills each host's slots in turn, and goes round again with what is left. */
int launch_assign(struct launch_job *job)
{
    const struct launch_opts *o = job->opts;
    int capacity = 0, node = 0, here = 0, app = 0;

    for (int h = 0; h < job->nhosts; h++)
        capacity += slots_of(&job->hosts[h]);
    job->n = job->total = count_ranks(job, capacity);
    job->ranks = calloc((size_t)job->n, sizeof *job->ranks);
    if (!job->ranks) {
        launch_say(job, "no memory for %d ranks", job->n);
        return LAUNCH_EXIT_FAIL;
    }
    for (int r = 0; r < job->n; r++, here++) {
        if (here >= slots_of(&job->hosts[node])) {
            node = (node + 1) % job->nhosts;
            here = 0;
        }
        while (r >= o->apps[app].first + o->apps[app].n)
            app++;
        job->ranks[r] = (struct launch_rank){ .rank = r, .app = app, .node = node };
        job->hosts[node].nranks++;
    }
    return 0;
}
