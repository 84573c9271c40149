/* SPDX-License-Identifier: BSD-3-Clause */
/* The decision between independent access and the two-phase exchange, by one reduction of the
 * bounds of each rank's access.  All ranks come to the same plan. */
#include "mpi/io/plan.h"
#include "mpi/base/comm.h"
#include "mpi/coll/team.h"
#include "mpi/io/hints.h"
#include <limits.h>
#include <stdlib.h>

/* An access whose bytes are so far apart that most windows would be empty is no work for
 * aggregators: more than MANY rounds over more than SPARSE times the bytes. */
#define MANY 16
#define SPARSE 64

/* The largest unit of marks: a file system's block. */
#define UNIT_MOST 4096

/* Without a hint, aggregators move pieces shorter than FINE bytes, if a rank has at least SOME of
 * them and the ranks' data fill half of the range.  A call of the system for each piece costs more
 * than the exchange.  README.md has the figures.  They read only for blocking calls of ranks on one
 * host.  Otherwise a rank reads many pieces at once, with the gaps, and a nonblocking read is a job
 * of its own, which needs no progress. */
#define FINE 8192
#define SOME 64

/* On the only host, all ranks aggregate, up to LOCAL: so they have equal work and wait little for
 * each other.  Their windows of a round are at most TOGETHER bytes, which stay in the caches, and a
 * window is at most MOST, because an aggregator has two and its core's own cache often 1 MiB; but
 * at least LEAST: a short call costs as much again for the file system as for the copy.
 * Aggregators on several hosts exchange messages, which take longer; so they have WINDOW bytes. */
#define LOCAL 8
#define TOGETHER (2 << 20)
#define MOST (512 << 10)
#define LEAST (256 << 10)
#define WINDOW (1 << 20)

/* Shorter stripes are no domains of their own: there would be too many rounds. */
#define SHORT (256 << 10)

bool wm_plan_wanted(const struct wm_file *f, bool write, bool later)
{
    enum wm_choice3 choice = write ? f->hints->cb_write : f->hints->cb_read;
    bool usable = f->comm->size > 1 && !f->atomic && !f->view->rep;
    bool fine = f->view->piece < FINE && (write || (!later && wm_coll_team_in_node(f->comm)));
    return usable && (choice == WM_ENABLE || (choice == WM_AUTOMATIC && fine));
}

const char *wm_plan_summary(void)
{
    return "aggregators write pieces below 8 KiB of views with gaps and, on one host, read them; "
           "each rank does all else itself, unless romio_cb_write or romio_cb_read = enable";
}

/* ---- aggregators ---- */

/* The host number of each rank; returns the number of hosts.  If the hosts are not known: one. */
static int find_hosts(const struct wm_comm *c, int *host)
{
    struct coll_team *t = (struct coll_team *)(uintptr_t)&c->team;
    int most = 0, err = t->ops->nodes ? t->ops->nodes(t, host) : -RT_ENOENT;
    for (int i = 0; i < c->size; i++) {
        host[i] = err < 0 ? 0 : host[i];
        most = host[i] > most ? host[i] : most;
    }
    return most + 1;
}

/* How many ranks aggregate without a hint: one on each host; LOCAL on the only host; if the file
 * has stripes, one for each target, or a number that gives each target as many. */
static int useful(const struct wm_file *f, int nhosts)
{
    int ntargets = f->fs.stripes.n, n = f->comm->size;
    if (ntargets <= 1)
        return nhosts > 1 || ntargets ? nhosts : LOCAL;
    if (nhosts >= ntargets)
        return nhosts / ntargets * ntargets;
    if (n >= ntargets)
        return ntargets;
    while (ntargets % n)
        n--;
    return n < nhosts ? nhosts : n;
}

/* Bytes of a window of each of `naggs` aggregators: whole blocks, because a unit of the marks
 * divides them. */
static int64_t window_of(const struct wm_file *f, int nhosts, int naggs)
{
    if (f->hints->cb_buffer_size)
        return f->hints->cb_buffer_size;
    if (nhosts > 1 || f->fs.stripes.n > 1)
        return WINDOW;
    int64_t part = TOGETHER / naggs / UNIT_MOST * UNIT_MOST;
    return part < LEAST ? LEAST : part > MOST ? MOST : part;
}

/* The first rank of each host, then the second of each, and so on, up to the hint's number.
 * nth[]: a number for each rank; seen[]: for each host, all 0. */
static int choose(const struct wm_file *f, const int *host, int *nth, int *seen, int *out)
{
    int size = f->comm->size, nhosts = 0, n = 0;
    for (int i = 0; i < size; i++) {
        nth[i] = seen[host[i]]++;
        nhosts += nth[i] == 0;
    }
    int most = f->hints->cb_nodes ? f->hints->cb_nodes : useful(f, nhosts);
    most = most < size ? most : size;
    f->hints->window = window_of(f, nhosts, most);
    for (int k = 0; n < most; k++)
        for (int i = 0; i < size && n < most; i++)
            if (nth[i] == k)
                out[n++] = i;
    return n;
}

const int *wm_plan_aggregators(const struct wm_file *f, int *n)
{
    struct wm_hints *h = f->hints;
    int size = f->comm->size;
    if (!h->agg) {
        int *host = malloc((size_t)size * sizeof *host), *nth = malloc((size_t)size * sizeof *nth);
        int *out = malloc((size_t)size * sizeof *out);
        int *seen = host ? calloc((size_t)find_hosts(f->comm, host), sizeof *seen) : NULL;
        if (seen && nth && out) {
            h->naggs = choose(f, host, nth, seen, out);
            h->agg = out;
        } else {
            free(out);
        }
        free(host);
        free(nth);
        free(seen);
    }
    *n = h->agg ? h->naggs : 0;
    return h->agg;
}

/* ---- the plan ---- */

static int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

/* The largest power of two that divides all the numbers of which `bits` is the union. */
static int64_t lowest(int64_t bits) { return bits & -bits; }

/* Whether a domain is one stripe.  The aggregators have the stripes in turn, and each accesses its
 * own targets only, if the number of aggregators divides that of the targets or the reverse:
 * targets lock ranges of their part of the file for one host at a time. */
static bool by_stripes(const struct wm_file *f, int naggs)
{
    int n = f->fs.stripes.n;
    return n > 1 && naggs > 1 && f->fs.stripes.nbytes >= SHORT &&
           (n % naggs == 0 || naggs % n == 0);
}

/* Domains end at multiples of the stripe or block of the file system, so that no two aggregators
 * write to one block. */
static void divide(const struct wm_file *f, int64_t buffer, struct wm_plan *p)
{
    int64_t stripe = f->fs.stripes.nbytes;
    int64_t unit = stripe > 0 ? stripe : f->fs.block > 0 ? f->fs.block : 4096;
    bool turns = by_stripes(f, p->naggs);
    p->low -= p->low % (turns ? unit * p->naggs : unit);
    p->domain = turns ? unit : round_up((p->high - p->low + p->naggs - 1) / p->naggs, unit);
    p->step = buffer < p->domain ? buffer : p->domain;
    int64_t all = p->domain * p->naggs, windows = (p->domain + p->step - 1) / p->step;
    p->rounds = (p->high - p->low + all - 1) / all * windows;
    p->unit = lowest(p->unit | p->low | p->domain | p->step);
}

void wm_plan_window(const struct wm_plan *p, int i, int64_t round, int64_t *from, int64_t *to)
{
    int64_t windows = (p->domain + p->step - 1) / p->step;
    int64_t begin = p->low + (round / windows * p->naggs + i) * p->domain, end = begin + p->domain;
    *from = begin + round % windows * p->step;
    *to = *from + p->step < end ? *from + p->step : end;
    *to = *to < p->high ? *to : p->high;
}

/* It divides the offsets and lengths of all pieces of the access. */
static int64_t unit_of(const struct wm_iop *op)
{
    const struct wm_view *v = op->view;
    int64_t pieces = v->file->contig ? 0 : v->facts.gcd;
    return lowest(UNIT_MOST | v->disp | op->pos | op->nbytes | pieces);
}

/* Values of WM_PLAN_STATE: below MIXED a binary logarithm, above it MIXED and an error class. */
#define MIXED 16

int wm_plan_err(const int64_t *v)
{
    return v[WM_PLAN_STATE] > MIXED ? (int)v[WM_PLAN_STATE] - MIXED : 0;
}

void wm_plan_numbers(const struct wm_iop *op, int err, int64_t *v)
{
    int64_t from, to;
    for (int i = 0; i < WM_PLAN_VALUES; i++)
        v[i] = 0;
    v[WM_PLAN_STATE] = err ? MIXED + err : 0;
    v[WM_PLAN_LOW] = -INT64_MAX;
    if (err || !op || !op->nbytes)
        return;
    wm_view_hull(op->view, op->pos, op->nbytes, &from, &to);
    v[WM_PLAN_LOW] = -from;
    v[WM_PLAN_HIGH] = to;
    v[WM_PLAN_MOST] = op->nbytes;
    v[WM_PLAN_STATE] = op->view->facts.ordered
                           ? __builtin_ctzll((uint64_t)(UNIT_MOST / unit_of(op)))
                           : MIXED;
}

void wm_plan_make(const struct wm_file *f, bool write, const int64_t *v, struct wm_plan *p)
{
    int64_t buffer = f->hints->window, most = v[WM_PLAN_MOST];
    bool automatic = (write ? f->hints->cb_write : f->hints->cb_read) == WM_AUTOMATIC;
    p->low = -v[WM_PLAN_LOW];
    p->high = v[WM_PLAN_HIGH];
    p->rounds = 0;
    p->exchange = v[WM_PLAN_STATE] < MIXED;
    p->unit = p->exchange ? UNIT_MOST >> v[WM_PLAN_STATE] : 0;
    p->dense = false;
    if (!p->exchange || p->low >= p->high)
        return;
    double span = (double)(p->high - p->low), bytes = (double)most * f->comm->size;
    if (span / p->naggs > (double)buffer * MANY && span > bytes * SPARSE)
        p->exchange = false;
    p->dense = span <= bytes * 2;
    if (automatic && (!p->dense || most < f->view->piece * SOME))
        p->exchange = false;
    if (p->exchange)
        divide(f, buffer, p);
}
