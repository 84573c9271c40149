/* SPDX-License-Identifier: BSD-3-Clause */
/* Assignment of ranks to hosts.  For each program of the command line in turn: first the number of
 * its ranks on each of its hosts, then their rank numbers.  All are pure functions of the options
 * and of what the hosts have reported, so that tests run them with recorded hosts.  place.c on each
 * host assigns cores.  Main thread. */
#include "launcher/job.h"
#include "launcher/options/assign.h"
#include "launcher/options/hosts.h"
#include "launcher/options/options.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* A host that the current program may use. */
struct candidate {
    struct launch_host *host;
    int node;
    int most; /* limit of --host for ranks of this program; 0: none */
    int n;    /* ranks of this program until now */
};

struct deal {
    const struct launch_opts *o;
    const struct launch_placement *p; /* of o */
    struct launch_host *hosts;
    struct candidate *c; /* hosts of the current program */
    int nc;
    int napp; /* number of the current program */
};

static bool is_unit(enum launch_obj obj)
{
    return obj == LAUNCH_CORE || obj == LAUNCH_HWTHREAD || obj == LAUNCH_UNSET;
}

static int clip(long n) { return n > INT_MAX / 4 ? INT_MAX / 4 : (int)n; }

/* Objects to map by on that host; 0: its agent has not reported yet. */
static int objects_of(const struct launch_placement *p, const struct launch_host *h)
{
    if (is_unit(p->map))
        return h->nobj[p->hwthreads ? LAUNCH_HWTHREAD : LAUNCH_CORE];
    return p->map == LAUNCH_NODE ? 1 : h->nobj[p->map];
}

/* Ranks that fit on a host without oversubscription; -1: its agent has not reported yet. */
static int slots_of(const struct launch_placement *p, const struct launch_host *h)
{
    int units = h->nobj[p->hwthreads ? LAUNCH_HWTHREAD : LAUNCH_CORE];
    if (h->slots_given)
        return h->slots;
    return units == 0 ? -1 : units >= p->pe ? units / p->pe : 1;
}

/* Ranks that the mapping puts on a host in the first round.  ppr was requested by the user, so it
 * may exceed the slots unless that is forbidden. */
static int capacity(const struct launch_placement *p, const struct launch_host *h)
{
    int slots = slots_of(p, h), n = slots;
    if (p->ppr) {
        int objects = objects_of(p, h);
        n = objects ? clip((long)p->ppr * objects) : -1;
        if (p->no_oversubscribe && n > slots)
            n = slots;
    }
    return h->max_slots && n > h->max_slots ? h->max_slots : n;
}

/* Room for one more rank of this program: within the capacity, or beyond it if `over`. */
static int room(const struct deal *d, const struct candidate *c, bool over)
{
    int most = over ? INT_MAX : capacity(d->p, c->host);
    if (c->host->max_slots && c->host->max_slots < most)
        most = c->host->max_slots;
    int left = most - c->host->nranks;
    if (!over && c->most && !d->p->ppr && c->most - c->n < left)
        left = c->most - c->n;
    return left > 0 ? left : 0;
}

static long room_of_all(const struct deal *d)
{
    long sum = 0;
    for (int i = 0; i < d->nc; i++)
        sum += room(d, &d->c[i], false);
    return sum;
}

static int set_candidates(struct deal *d, const struct launch_app *app, int nhosts)
{
    d->nc = app->npicks ? app->npicks : nhosts;
    d->c = calloc((size_t)d->nc + 1, sizeof *d->c);
    if (!d->c)
        return launch_usage("out of memory");
    for (int i = 0; i < d->nc; i++) {
        int node = app->npicks ? app->picks[i].host : i;
        d->c[i] = (struct candidate){ .host = &d->hosts[node],
                                      .node = node,
                                      .most = app->npicks ? app->picks[i].slots : 0 };
    }
    return 0;
}

static int take(struct candidate *c, int n)
{
    c->n += n;
    c->host->nranks += n;
    return n;
}

/* Whether the hosts share the ranks evenly: they do if --host names them without slots.  If the
 * user has given slots, or the hosts come from a file or an allocation, one host is filled after
 * the other. */
static bool shares_evenly(const struct deal *d)
{
    for (int i = 0; i < d->nc; i++)
        if (!d->c[i].host->named || d->c[i].host->slots_given || d->c[i].most)
            return false;
    return !d->p->ppr;
}

/* The fewest ranks on any host with room. */
static int lowest(const struct deal *d, bool over)
{
    int least = INT_MAX;
    for (int i = 0; i < d->nc; i++)
        if (room(d, &d->c[i], over) && d->c[i].host->nranks < least)
            least = d->c[i].host->nranks;
    return least;
}

/* One round over the hosts: at most `each` ranks on each host; 0: as many as fit.  Ranks that
 * exceed the slots are distributed in proportion to the slots while this leaves no remainder, then
 * one by one. */
static int deal_round(struct deal *d, int left, int each, bool over)
{
    bool even = shares_evenly(d);
    int dealt = 0, level = even ? lowest(d, over) : INT_MAX;
    long all = 0;
    for (int i = 0; i < d->nc; i++)
        all += slots_of(d->p, d->c[i].host);
    for (int i = 0; i < d->nc && dealt < left; i++) {
        int slots = slots_of(d->p, d->c[i].host), here = room(d, &d->c[i], over);
        int most = even || each ? 1 : !over ? INT_MAX : left >= all ? slots : 1;
        if (d->c[i].host->nranks > level)
            continue;
        here = here < most ? here : most;
        dealt += take(&d->c[i], here < left - dealt ? here : left - dealt);
    }
    return dealt;
}

/* Distributes ranks within the slots, then beyond them in rounds.  Returns the ranks that do not
 * fit. */
static int deal_ranks(struct deal *d, int left, bool may_exceed)
{
    int each = d->p->map == LAUNCH_NODE && !d->p->ppr, dealt;
    for (int over = 0; over <= (may_exceed ? 1 : 0); over++)
        do {
            dealt = deal_round(d, left, each, over != 0);
            left -= dealt;
        } while (left > 0 && dealt > 0);
    return left;
}

/* ---- ranks that do not fit ---- */

static bool slots_were_given(const struct deal *d)
{
    for (int i = 0; i < d->nc; i++)
        if (d->c[i].host->slots_given || d->c[i].most)
            return true;
    return false;
}

/* "a 4, b 2 and 17 more" */
static void name_slots(const struct deal *d, char *text, size_t len)
{
    enum { SHOWN = 8 };
    size_t at = 0;
    *text = '\0';
    for (int i = 0; i < d->nc && i < SHOWN && at < len; i++)
        at += (size_t)snprintf(text + at, len - at, "%s%.64s %d", i ? ", " : "", d->c[i].host->name,
                               capacity(d->p, d->c[i].host));
    if (d->nc > SHOWN && at < len)
        snprintf(text + at, len - at, " and %d more host%s", d->nc - SHOWN,
                 d->nc == SHOWN + 1 ? "" : "s");
}

static const char *object_name(enum launch_obj obj)
{
    static const char *const names[] = { "node",     "package", "NUMA node", "L3 cache", "L2 cache",
                                         "L1 cache", "core",    "core",      "core" };
    return names[obj];
}

static int does_not_fit(const struct deal *d, int n, int left, bool may_exceed)
{
    char text[1024], program[64] = "", per[80] = "";
    const char *advice = may_exceed  ? "max_slots is a limit that --oversubscribe does not lift"
                         : d->p->ppr ? "a smaller -n or more hosts would fit"
                         : d->p->no_oversubscribe ? "--nooversubscribe forbids more"
                                                  : "--oversubscribe allows more ranks than slots";
    name_slots(d, text, sizeof text);
    if (d->o->napps > 1)
        snprintf(program, sizeof program, " of program %d", d->napp);
    if (d->p->ppr)
        snprintf(per, sizeof per, "%d for each %s makes ", d->p->ppr,
                 d->p->hwthreads && is_unit(d->p->map) ? "hardware thread"
                                                       : object_name(d->p->map));
    return launch_usage(
        "%d rank%s%s requested, but %s%d slot%s on %d host%s (%s)%s; %s; nothing was "
        "started",
        n, n == 1 ? "" : "s", program,
        *per            ? per
        : n - left == 1 ? "there is "
                        : "there are ",
        n - left, n - left == 1 ? "" : "s", d->nc, d->nc == 1 ? "" : "s", text,
        d->napp ? " left by the programs before" : "", advice);
}

/* ---- rank numbers ---- */

/* Numbers the ranks round robin over the hosts, or host by host. */
static int number_ranks(struct launch_job *job, struct deal *d, int first, int n)
{
    const struct launch_placement *p = d->p;
    bool in_turn = p->order == LAUNCH_NODE ||
                   (p->order == LAUNCH_UNSET && p->map == LAUNCH_NODE && !p->ppr);
    struct launch_rank *ranks = realloc(job->ranks, (size_t)(first + n) * sizeof *ranks);
    if (!ranks)
        return launch_usage("no memory for %d ranks", first + n);
    job->ranks = ranks;
    for (int r = first; r < first + n;)
        for (int i = 0; i < d->nc; i++)
            for (int k = in_turn && d->c[i].n ? 1 : d->c[i].n; k > 0; k--, d->c[i].n--, r++)
                ranks[r] = (struct launch_rank){ .rank = r, .app = d->napp, .node = d->c[i].node };
    return 0;
}

/* Number of ranks of a program for which the user gave none. */
static int default_n(const struct deal *d)
{
    if (d->o->napps > 1)
        return 1;
    if (d->o->resources.default_n && !d->p->ppr)
        return d->o->resources.default_n;
    long n = room_of_all(d);
    return n > 0 ? clip(n) : 1;
}

/* The largest number of a --soft list ("a", "a:b" or "a:b:c", separated by commas) that is at most
 * `most`; 0: none. */
static int soften(const char *soft, int most)
{
    long best = 0;
    for (const char *p = soft; *p; p += strcspn(p, ","), p += *p == ',') {
        long a = 0, b, c = 1;
        int n = sscanf(p, "%ld:%ld:%ld", &a, &b, &c);
        b = n < 2 ? a : b;
        if (n < 1 || c == 0 || (c > 0 ? b < a : b > a))
            continue;
        long low = c > 0 ? a : a - (a - b) / -c * -c, high = c > 0 ? b : a, step = c > 0 ? c : -c;
        high = high < most ? high : most;
        if (high >= low && low + (high - low) / step * step > best)
            best = low + (high - low) / step * step;
    }
    return (int)best;
}

/* Gives the program fewer ranks, if its user accepts fewer.  Returns the ranks that do not fit. */
static int deal_fewer(struct deal *d, struct launch_app *app, int left)
{
    int n = soften(app->soft, app->n - left);
    for (int i = 0; i < d->nc; i++) {
        d->c[i].host->nranks -= d->c[i].n;
        d->c[i].n = 0;
    }
    if (n < 1)
        return left;
    app->n = n;
    return deal_ranks(d, n, false);
}

static int assign_app(struct launch_job *job, struct deal *d)
{
    struct launch_app *app = &d->o->apps[d->napp];
    int code = set_candidates(d, app, job->nhosts);
    if (code)
        return code;
    if (!app->n)
        app->n = default_n(d);
    if (app->soft && soften(app->soft, app->n) > 0)
        app->n = soften(app->soft, app->n);
    app->first = job->n;
    bool may_exceed = !d->p->ppr && !d->p->no_oversubscribe &&
                      (d->p->oversubscribe || !slots_were_given(d));
    int left = deal_ranks(d, app->n, may_exceed);
    if (left && app->soft)
        left = deal_fewer(d, app, left);
    code = left ? does_not_fit(d, app->n, left, may_exceed)
                : number_ranks(job, d, app->first, app->n);
    if (!code)
        job->n = job->total = app->first + app->n;
    free(d->c);
    d->c = NULL;
    return code;
}

/* Cores for each rank, from the processors for each task that Slurm was asked for: the lowest
 * number over all hosts that have reported their cores. */
static void settle_cores(struct launch_placement *p, int cpus_per_rank,
                         const struct launch_host *hosts, int nhosts)
{
    for (int h = 0; h < nhosts && cpus_per_rank > 1; h++) {
        int cores = hosts[h].nobj[LAUNCH_CORE], threads = hosts[h].nobj[LAUNCH_HWTHREAD];
        if (cores < 1 || threads < 1)
            continue;
        int n = p->hwthreads ? cpus_per_rank : (int)((long)cpus_per_rank * cores / threads);
        int most = p->hwthreads ? threads : cores;
        n = n < 1 ? 1 : n > most ? most : n;
        p->pe = h == 0 || n < p->pe ? n : p->pe;
    }
}

int launch_assign(struct launch_job *job)
{
    struct deal d = { .o = job->opts, .p = &job->opts->placement, .hosts = job->hosts };
    int code = 0;

    /* no other thread has the options yet, so they may be changed */
    settle_cores((struct launch_placement *)d.p, job->opts->resources.cpus_per_rank, job->hosts,
                 job->nhosts);
    job->n = job->total = 0;
    for (int h = 0; h < job->nhosts; h++)
        job->hosts[h].nranks = 0;
    for (; d.napp < job->opts->napps && !code; d.napp++)
        code = assign_app(job, &d);
    job->universe = job->opts->resources.spare_slots;
    for (int h = 0; h < job->nhosts; h++)
        job->universe = clip((long)job->universe + slots_of(d.p, &job->hosts[h]));
    if (job->opts->spawned.universe)
        job->universe = job->opts->spawned.universe;
    return code;
}

int launch_assign_ahead(struct launch_opts *o)
{
    struct launch_resources *r = &o->resources;
    struct launch_job job = { .opts = o, .hosts = r->hosts, .nhosts = r->nhosts };
    bool *keep = calloc((size_t)r->nhosts + 1, sizeof *keep);
    int code = keep ? 0 : launch_usage("out of memory");

    for (int h = 0; h < r->nhosts && !code; h++)
        if (capacity(&o->placement, &r->hosts[h]) < 0)
            goto out; /* the agents will report it */
    if (!code)
        code = launch_assign(&job);
    for (int h = 0; h < r->nhosts && !code; h++) {
        keep[h] = r->hosts[h].nranks > 0;
        r->spare_slots = clip((long)r->spare_slots +
                              (keep[h] ? 0 : slots_of(&o->placement, &r->hosts[h])));
    }
    if (!code)
        launch_hosts_keep(o, keep);
    free(job.ranks);
out:
    free(keep);
    return code;
}
