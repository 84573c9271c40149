/* SPDX-License-Identifier: BSD-3-Clause */
/* The report of weft_ping: tables, and the pairs and hosts that are slower than the others.  No
 * MPI: a test calls it with tables of its own. */
#include "launcher/ping/ping.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int ping_rounds(int n) { return n < 2 ? 0 : n + n % 2 - 1; }

/* The circle method: all ranks but the last are placed on a circle of m places.  In round r, the
 * ranks whose places add up to r are paired; the rank that would be paired with itself is paired
 * with the last rank. */
int ping_partner(int n, int r, int me)
{
    int m = ping_rounds(n), other;
    if (me == m) /* the last rank; it does not exist if n is odd */
        other = r % 2 ? (r + m) / 2 : r / 2;
    else {
        other = (r + m - me) % m;
        if (other == me)
            other = m;
    }
    return other < n ? other : -1;
}

/* A figure of a pair; if the two directions differ, the worse one. */
enum figure { LATENCY, BANDWIDTH };

static const struct ping_cell *cell(const struct ping_table *t, int i, int j)
{
    const struct ping_cell *c = &t->cell[(size_t)i * (size_t)t->n + (size_t)j];
    return t->missing[i] ? &t->cell[(size_t)j * (size_t)t->n + (size_t)i] : c;
}

static bool unknown(const struct ping_table *t, int i, int j)
{
    return t->missing[i] && t->missing[j];
}

static bool reached(const struct ping_table *t, int i, int j)
{
    return !unknown(t, i, j) && cell(t, i, j)->ok && cell(t, j, i)->ok;
}

/* Larger is worse: microseconds, or nanoseconds for each byte. */
static double badness(const struct ping_table *t, enum figure f, int i, int j)
{
    const struct ping_cell *c = cell(t, i, j);
    return f == LATENCY ? c->us : 1e3 / fmin(c->out, c->in);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct spread {
    double best, median, worst, usual;
    long n;
};

/* `usual` is the value with which pairs are compared.  It is the median, the better one of the two
 * middle values, because one slow host of four is in half of the pairs.  With three hosts a slow
 * host is in most pairs, so the best pair is used. */
static struct spread spread(const struct ping_table *t, enum figure f)
{
    struct spread s = { 0 };
    double *v = malloc((size_t)t->n * (size_t)t->n * sizeof *v);
    for (int i = 0; v && i < t->n; i++)
        for (int j = i + 1; j < t->n; j++)
            if (reached(t, i, j))
                v[s.n++] = badness(t, f, i, j);
    if (s.n) {
        qsort(v, (size_t)s.n, sizeof *v, by_size);
        s.best = v[0];
        s.worst = v[s.n - 1];
        s.median = v[(s.n - 1) / 2];
        s.usual = t->n == 3 ? s.best : s.median;
    }
    free(v);
    return s;
}

static bool slow(const struct ping_table *t, enum figure f, const struct spread *s, int i, int j)
{
    return i != j && reached(t, i, j) && badness(t, f, i, j) > PING_SLOW * s->usual;
}

/* Whether more than half of the host's pairs are slow. */
static bool slow_host(const struct ping_table *t, enum figure f, const struct spread *s, int i)
{
    int n = 0, bad = 0;
    for (int j = 0; j < t->n; j++)
        if (j != i && reached(t, i, j)) {
            n++;
            bad += slow(t, f, s, i, j);
        }
    return n > 1 && 2 * bad > n;
}

static double shown(enum figure f, double bad) { return f == LATENCY ? bad : 1e3 / bad; }

static void print_table(const struct ping_table *t, enum figure f, FILE *o)
{
    int width = 10;
    for (int i = 0; i < t->n; i++)
        width = (int)strlen(t->name[i]) + 2 > width ? (int)strlen(t->name[i]) + 2 : width;
    fprintf(o, "\n%s\n%*s",
            f == LATENCY ? "Latency, us:" : "Bandwidth, MB/s, from the host on the left:", width,
            "");
    for (int j = 0; j < t->n; j++)
        fprintf(o, "%*s", width, t->name[j]);
    for (int i = 0; i < t->n; i++) {
        fprintf(o, "\n%*s", width, t->name[i]);
        for (int j = 0; j < t->n; j++) {
            const struct ping_cell *c = cell(t, i, j);
            /* values of a missing row come from the other process, where the directions are
             * reversed */
            double out = t->missing[i] ? c->in : c->out;
            if (i == j || unknown(t, i, j))
                fprintf(o, "%*s", width, i == j ? "-" : "?");
            else if (!reached(t, i, j))
                fprintf(o, "%*s", width, "no");
            else
                fprintf(o, "%*.*f", width, f == LATENCY ? 1 : 0, f == LATENCY ? c->us : out);
        }
    }
    fputc('\n', o);
}

static void name_slow(const struct ping_table *t, enum figure f, const struct spread *s, FILE *o)
{
    const char *what = f == LATENCY ? "latency" : "bandwidth", *unit = f == LATENCY ? "us" : "MB/s";
    for (int i = 0; i < t->n; i++)
        if (slow_host(t, f, s, i)) {
            struct spread own = { .best = INFINITY };
            for (int j = 0; j < t->n; j++)
                if (j != i && reached(t, i, j))
                    own.best = fmin(own.best, badness(t, f, i, j));
            fprintf(o, "slow host: %s: %s %.4g %s at best, usual are %.4g %s\n", t->name[i], what,
                    shown(f, own.best), unit, shown(f, s->usual), unit);
        }
    for (int i = 0; i < t->n; i++)
        for (int j = i + 1; j < t->n; j++)
            if (slow(t, f, s, i, j) && !slow_host(t, f, s, i) && !slow_host(t, f, s, j))
                fprintf(o, "slow pair: %s and %s: %s %.4g %s, usual are %.4g %s\n", t->name[i],
                        t->name[j], what, shown(f, badness(t, f, i, j)), unit, shown(f, s->usual),
                        unit);
}

/* Whether none of the host's pairs is reachable.  With two hosts the fault cannot be assigned to
 * one. */
static bool alone(const struct ping_table *t, int i)
{
    for (int j = 0; j < t->n; j++)
        if (j != i && reached(t, i, j))
            return false;
    return t->n > 2;
}

static long name_unreachable(const struct ping_table *t, FILE *o)
{
    long n = 0;
    for (int i = 0; i < t->n; i++) {
        if (alone(t, i))
            fprintf(o, "unreachable host: %s: no other host exchanges messages with it\n",
                    t->name[i]);
        for (int j = i + 1; j < t->n; j++) {
            bool bad = !reached(t, i, j);
            n += bad;
            if (bad && !alone(t, i) && !alone(t, j))
                fprintf(o, "unreachable pair: %s and %s%s\n", t->name[i], t->name[j],
                        unknown(t, i, j) ? ": neither of them reported" : "");
        }
    }
    return n;
}

/* Prints the number of pairs of each transport. */
static void print_transports(const struct ping_table *t, FILE *o)
{
    struct {
        const char *name;
        long n;
    } by[8] = { 0 };
    int nby = 0;
    for (int i = 0; i < t->n; i++)
        for (int j = i + 1; j < t->n; j++) {
            const char *name = cell(t, i, j)->by;
            int k = 0;
            while (k < nby && strcmp(by[k].name, name) != 0)
                k++;
            if (!reached(t, i, j) || k == 8)
                continue;
            by[k].name = name;
            by[k].n++;
            nby += k == nby;
        }
    fputs("transport ", o);
    for (int k = 0; k < nby; k++)
        fprintf(o, "%s %s (%ld pair%s)", k ? "," : "", by[k].name, by[k].n,
                by[k].n == 1 ? "" : "s");
    fputs(nby ? "\n" : " none\n", o);
}

long ping_report(const struct ping_table *t, FILE *o)
{
    struct spread s[2] = { spread(t, LATENCY), spread(t, BANDWIDTH) };
    long all = (long)t->n * (t->n - 1) / 2;

    fprintf(o, "%d hosts, %ld pair%s measured of %ld\n", t->n, s[0].n, s[0].n == 1 ? "" : "s", all);
    print_transports(t, o);
    if (s[0].n) {
        fprintf(o, "latency    median %.1f us, best %.1f, worst %.1f\n", s[0].median, s[0].best,
                s[0].worst);
        fprintf(o, "bandwidth  median %.0f MB/s, best %.0f, worst %.0f\n",
                shown(BANDWIDTH, s[1].median), shown(BANDWIDTH, s[1].best),
                shown(BANDWIDTH, s[1].worst));
    }
    if (t->n <= PING_MATRIX_MAX) {
        print_table(t, LATENCY, o);
        print_table(t, BANDWIDTH, o);
    }
    fputc('\n', o);
    name_slow(t, LATENCY, &s[0], o);
    name_slow(t, BANDWIDTH, &s[1], o);
    long bad = name_unreachable(t, o);
    if (!bad)
        fputs("all hosts reach each other\n", o);
    return bad;
}
