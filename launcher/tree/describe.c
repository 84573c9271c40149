/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes and reads the description of a job: see describe.h.  Both directions stand side by side,
 * field by field in the same order.  A new field of launch_opts that agents need is a line in each
 * direction and a new FRAME_VERSION. */
#include "launcher/abi/abi.h"
#include "launcher/strings.h"
#include "launcher/tree/describe.h"
#include "runtime/base/err.h"

#include <stdlib.h>
#include <string.h>

/* ---- lists of strings ---- */

void launch_put_list(struct frame_out *o, char *const *v, size_t n)
{
    frame_put_u32(o, (uint32_t)n);
    for (size_t i = 0; i < n; i++)
        frame_put_str(o, v[i]);
}

void launch_get_list(struct frame_in *i, struct launch_list *l)
{
    size_t n = frame_get_count(i, 5);
    for (size_t k = 0; k < n; k++) {
        const char *text = frame_get_text(i);
        if (!text || launch_list_add(l, text) < 0)
            i->bad = true;
    }
}

static void get_vars(struct frame_in *i, struct launch_list *l)
{
    launch_get_list(i, l);
    for (int k = 0; k < l->n; k++)
        if (!strchr(l->v[k], '='))
            i->bad = true;
}

/* ---- options ---- */

static void put_envs(struct frame_out *o, const struct launch_envs *e)
{
    frame_put_u8(o, e->from);
    launch_put_list(o, e->keep.v, (size_t)e->keep.n);
    launch_put_list(o, e->set.v, (size_t)e->set.n);
}

static void get_envs(struct frame_in *i, struct launch_envs *e)
{
    e->from = (enum launch_env)frame_get_u8(i);
    launch_get_list(i, &e->keep);
    get_vars(i, &e->set);
    if (e->from > LAUNCH_ENV_LIST)
        i->bad = true;
}

static void put_app(struct frame_out *o, const struct launch_app *app)
{
    launch_put_list(o, app->argv.v, (size_t)app->argv.n);
    frame_put_int(o, app->n);
    frame_put_int(o, app->first);
    frame_put_str(o, app->wdir);
    frame_put_str(o, app->search);
    frame_put_u8(o, app->env_given);
    put_envs(o, &app->env);
}

static void get_app(struct frame_in *i, struct launch_app *app)
{
    launch_get_list(i, &app->argv);
    app->n = frame_get_int(i);
    app->first = frame_get_int(i);
    app->wdir = frame_get_str(i);
    app->search = frame_get_str(i);
    app->env_given = frame_get_u8(i);
    get_envs(i, &app->env);
    if (app->argv.n < 1 || app->n < 1 || app->first < 0)
        i->bad = true;
}

static void put_flags(struct frame_out *o, const struct launch_opts *opts)
{
    const struct launch_placement *p = &opts->placement;
    const struct launch_display *d = &opts->display;
    const bool flags[] = { p->hwthreads,
                           p->no_oversubscribe,
                           p->bind_none,
                           p->bind_if_supported,
                           d->bindings,
                           d->map,
                           opts->output.merge_stderr,
                           d->quiet,
                           d->verbose,
                           opts->dry_run,
                           p->oversubscribe };
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        frame_put_u8(o, flags[i]);
}

static void get_flags(struct frame_in *i, struct launch_opts *opts)
{
    struct launch_placement *p = &opts->placement;
    struct launch_display *d = &opts->display;
    bool *const flags[] = { &p->hwthreads,
                            &p->no_oversubscribe,
                            &p->bind_none,
                            &p->bind_if_supported,
                            &d->bindings,
                            &d->map,
                            &opts->output.merge_stderr,
                            &d->quiet,
                            &d->verbose,
                            &opts->dry_run,
                            &p->oversubscribe };
    for (size_t k = 0; k < sizeof flags / sizeof flags[0]; k++)
        *flags[k] = frame_get_u8(i);
}

static void put_opts(struct frame_out *o, const struct launch_opts *opts)
{
    const struct launch_placement *p = &opts->placement;
    put_flags(o, opts);
    frame_put_int(o, p->map);
    frame_put_int(o, p->order);
    frame_put_int(o, p->bind);
    frame_put_int(o, p->ppr);
    frame_put_int(o, p->pe);
    frame_put_int(o, opts->stdin_rank);
    frame_put_int(o, opts->abi);
    put_envs(o, &opts->env);
    frame_put_u32(o, (uint32_t)opts->napps);
    for (int a = 0; a < opts->napps; a++)
        put_app(o, &opts->apps[a]);
}

static enum launch_obj get_obj(struct frame_in *i)
{
    uint32_t v = frame_get_u32(i);
    if (v > LAUNCH_UNSET)
        i->bad = true;
    return i->bad ? LAUNCH_UNSET : (enum launch_obj)v;
}

static void get_opts(struct frame_in *i, struct launch_opts *opts)
{
    struct launch_placement *p = &opts->placement;
    memset(opts, 0, sizeof *opts);
    get_flags(i, opts);
    p->map = get_obj(i);
    p->order = get_obj(i);
    p->bind = get_obj(i);
    p->ppr = frame_get_int(i);
    p->pe = frame_get_int(i);
    opts->stdin_rank = frame_get_int(i);
    opts->abi = frame_get_int(i);
    get_envs(i, &opts->env);
    size_t n = frame_get_count(i, 32);
    opts->apps = calloc(n + 1, sizeof *opts->apps);
    if (opts->abi < ABI_AUTO || opts->abi > ABI_MPICH)
        i->bad = true;
    if (!opts->apps || n < 1 || p->ppr < 0 || p->pe < 1)
        i->bad = true;
    for (size_t a = 0; a < n && !i->bad; a++)
        get_app(i, &opts->apps[opts->napps++]);
}

/* ---- ranks and hosts ---- */

int launch_index_hosts(struct launch_job *job, const uint32_t *host_of_rank)
{
    size_t n = (size_t)job->total;
    int node = 0, begin = 0;

    job->host_of = malloc(n * sizeof *job->host_of);
    job->by_host = malloc(n * sizeof *job->by_host);
    if (!job->host_of || !job->by_host)
        return -RT_ENOMEM;
    memcpy(job->host_of, host_of_rank, n * sizeof *job->host_of);
    for (int h = 0; h < job->nhosts; h++)
        job->hosts[h].nranks = 0;
    for (size_t r = 0; r < n; r++)
        job->hosts[job->host_of[r]].nranks++;
    for (int h = 0; h < job->nhosts; h++) {
        struct launch_host *host = &job->hosts[h];
        host->node = host->nranks ? node++ : -1;
        host->begin = begin;
        begin += host->nranks;
        host->nranks = 0;
    }
    for (size_t r = 0; r < n; r++) {
        struct launch_host *host = &job->hosts[job->host_of[r]];
        job->by_host[host->begin + host->nranks++] = (uint32_t)r;
    }
    return 0;
}

static int app_of(const struct launch_opts *opts, int rank)
{
    for (int a = 0; a < opts->napps; a++)
        if (rank >= opts->apps[a].first && rank - opts->apps[a].first < opts->apps[a].n)
            return a;
    return -1;
}

/* Makes the ranks of this host. */
static void make_ranks(struct frame_in *i, struct launch_job *job, const struct launch_opts *opts)
{
    const struct launch_host *own = &job->hosts[job->node];
    job->n = own->nranks;
    job->ranks = calloc((size_t)job->n + 1, sizeof *job->ranks);
    for (int r = 0; r < job->n && job->ranks; r++) {
        int rank = (int)job->by_host[own->begin + r];
        job->ranks[r] = (struct launch_rank){ .rank = rank,
                                              .app = app_of(opts, rank),
                                              .node = job->node };
        if (job->ranks[r].app < 0)
            i->bad = true;
    }
    if (!job->ranks)
        i->bad = true;
}

static void get_hosts(struct frame_in *i, struct launch_job *job)
{
    size_t n = frame_get_count(i, 5);
    job->hosts = calloc(n + 1, sizeof *job->hosts);
    job->nhosts = (int)n;
    for (size_t h = 0; h < n && job->hosts; h++) {
        const char *name = frame_get_text(i);
        job->hosts[h].name = name ? strdup(name) : NULL;
        if (!job->hosts[h].name)
            i->bad = true;
    }
    if (!job->hosts || job->node < 0 || job->node >= job->nhosts)
        i->bad = true;
}

static void get_places(struct frame_in *i, struct launch_job *job, const struct launch_opts *opts)
{
    size_t n = frame_get_count(i, 4);
    uint32_t *hosts = malloc((n + 1) * sizeof *hosts);
    job->total = (int)n;
    if (!hosts || n < 1)
        i->bad = true;
    for (size_t r = 0; r < n && !i->bad; r++) {
        hosts[r] = frame_get_u32(i);
        if (hosts[r] >= (uint32_t)job->nhosts)
            i->bad = true;
    }
    if (!i->bad && launch_index_hosts(job, hosts) < 0)
        i->bad = true;
    free(hosts);
    if (!i->bad)
        make_ranks(i, job, opts);
}

/* ---- the whole description ---- */

void launch_describe(struct frame_out *o, const struct launch_job *job, const char *cwd)
{
    size_t nenv = 0;
    while (job->env[nenv])
        nenv++;
    frame_put_str(o, job->nspace);
    frame_put_str(o, cwd);
    frame_put_int(o, job->universe);
    frame_put_str(o, job->meet_addr);
    frame_put_int(o, job->meet_port);
    put_opts(o, job->opts);
    launch_put_list(o, job->env, nenv);
    frame_put_u32(o, (uint32_t)job->nhosts);
    for (int h = 0; h < job->nhosts; h++)
        frame_put_str(o, launch_bare_name(job->hosts[h].name));
    frame_put_u32(o, (uint32_t)job->total);
    for (int r = 0; r < job->total; r++)
        frame_put_u32(o, (uint32_t)job->ranks[r].node);
}

int launch_understand(struct frame_in *i, struct launch_job *job, struct launch_opts *opts,
                      struct launch_list *env, const char **cwd)
{
    const char *nspace = frame_get_text(i);
    *cwd = frame_get_text(i);
    job->universe = frame_get_int(i);
    const char *addr = frame_get_text(i);
    job->meet_port = frame_get_int(i);
    if (nspace)
        snprintf(job->nspace, sizeof job->nspace, "%s", nspace);
    if (addr)
        snprintf(job->meet_addr, sizeof job->meet_addr, "%s", addr);
    get_opts(i, opts);
    get_vars(i, env);
    if (!i->bad)
        get_hosts(i, job);
    if (!i->bad)
        get_places(i, job, opts);
    if (!frame_in_ok(i))
        return -RT_EINVAL;
    snprintf(job->host, sizeof job->host, "%s", job->hosts[job->node].name);
    return 0;
}
