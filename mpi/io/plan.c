/* SPDX-License-Identifier: BSD-3-Clause */
/* The decision between independent access and the two-phase exchange, by one reduction of the
 * bounds of each rank's access.  All ranks come to the same plan. */
#include "mpi/io/plan.h"
#include "mpi/base/comm.h"
#include "mpi/io/hints.h"
#include <limits.h>
#include <stdlib.h>

/* An access whose bytes are so far apart that most windows would be empty is no work for
 * aggregators: more than MANY rounds over more than SPARSE times the bytes. */
#define MANY 16
#define SPARSE 64

/* Without a hint, aggregators write pieces shorter than FINE bytes, if a rank has at least SOME of
 * them and the ranks' data fill half of the range.  A call of the system for each piece costs more
 * than the exchange; a reading rank reads many pieces at once, with the gaps.  README.md has the
 * figures. */
#define FINE 2048
#define SOME 64

bool wm_plan_wanted(struct wm_file *f, bool write)
{
    wm_file_lock(f);
    enum wm_choice3 choice = write ? f->hints->cb_write : f->hints->cb_read;
    bool usable = f->comm->size > 1 && !f->atomic && !f->view->rep;
    bool fine = write && f->view->piece < FINE;
    wm_file_unlock(f);
    return usable && (choice == WM_ENABLE || (choice == WM_AUTOMATIC && fine));
}

/* ---- aggregators ---- */

/* The host of each rank, and the number of numbers; all on one host if that is not known. */
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

/* The first rank of each host, then the second of each, and so on, up to the hint's number.
 * `room`: two numbers a rank, one a host. */
static int choose(const struct wm_file *f, const int *host, int *nth, int *seen, int *out)
{
    int size = f->comm->size, nhosts = 0, n = 0;
    for (int i = 0; i < size; i++) {
        nth[i] = seen[host[i]]++;
        nhosts += nth[i] == 0;
    }
    int most = f->hints->cb_nodes ? f->hints->cb_nodes : nhosts;
    most = most < size ? most : size;
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

/* Domains end at multiples of the stripe or block of the file system, so that no two aggregators
 * write to one. */
static void divide(const struct wm_file *f, int64_t buffer, struct wm_plan *p)
{
    int64_t unit = f->fs.stripe > 0 ? f->fs.stripe : f->fs.block > 0 ? f->fs.block : 4096;
    p->low -= p->low % unit;
    p->domain = round_up((p->high - p->low + p->naggs - 1) / p->naggs, unit);
    p->step = buffer < p->domain ? buffer : p->domain;
    p->rounds = (p->domain + p->step - 1) / p->step;
}

void wm_plan_window(const struct wm_plan *p, int i, int64_t round, int64_t *from, int64_t *to)
{
    int64_t begin = p->low + i * p->domain, end = begin + p->domain;
    *from = begin + round * p->step;
    *to = *from + p->step < end ? *from + p->step : end;
    *to = *to < p->high ? *to : p->high;
}

enum { ERR, LOW, HIGH, MOST, MIXED, NVALUES };

int wm_plan_agree(struct wm_file *f, const struct wm_iop *op, int err, struct wm_plan *p)
{
    int64_t v[NVALUES] = { [LOW] = -INT64_MAX }, from, to;
    wm_file_lock(f);
    p->agg = wm_plan_aggregators(f, &p->naggs);
    int64_t buffer = f->hints->cb_buffer_size, piece = f->view->piece;
    bool automatic = f->hints->cb_write == WM_AUTOMATIC;
    wm_file_unlock(f);
    if (!err && !p->agg)
        err = wm_err(MPI_ERR_NO_MEM, "no memory for a collective access to a file");
    if (!err && op->nbytes) {
        wm_view_hull(op->view, op->pos, op->nbytes, &from, &to);
        v[LOW] = -from;
        v[HIGH] = to;
        v[MOST] = op->nbytes;
        v[MIXED] = !op->view->facts.ordered;
    }
    v[ERR] = err;
    int rc = wm_file_max(f, v, NVALUES);
    if (err || rc)
        return err ? err : rc;
    if (v[ERR])
        return wm_err((int)v[ERR], "another process of the file reports this error");
    p->low = -v[LOW];
    p->high = v[HIGH];
    p->rounds = 0;
    p->exchange = !v[MIXED];
    if (!p->exchange || p->low >= p->high)
        return MPI_SUCCESS;
    double span = (double)(p->high - p->low), bytes = (double)v[MOST] * f->comm->size;
    if (span / p->naggs > (double)buffer * MANY && span > bytes * SPARSE)
        p->exchange = false;
    if (op->write && automatic && (span > bytes * 2 || v[MOST] < piece * SOME))
        p->exchange = false;
    if (p->exchange)
        divide(f, buffer, p);
    return MPI_SUCCESS;
}
