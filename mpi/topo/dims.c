/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Dims_create (MPI-5.0 section 8.5.2).  "As close to each other as possible" is taken to mean:
 * the least difference between the largest and the smallest of the dimensions that are free, and
 * among these choices the least largest one, then the least second largest, and so on.  No state;
 * any thread. */
#include "mpi/api/bodies.h"
#include "mpi/base/mpi_int.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Divisors of numbers below 2^31; 2095133040 has this many. */
#define DIVISORS_MAX 1600

struct search {
    int ndivisors;
    int divisors[DIVISORS_MAX]; /* of the number to be cut, ascending */
    int n;                      /* factors wanted */
    int *trial, *best;          /* non-increasing */
    int best_spread;            /* of `best`; INT_MAX: none yet */
};

/* The largest b with b^k <= n. */
static int root(int n, int k)
{
    int low = 1, high = n;
    while (low < high) {
        int mid = low + (high - low + 1) / 2;
        int64_t p = 1;
        for (int i = 0; i < k && p <= n; i++)
            p *= mid;
        if (p <= n)
            low = mid;
        else
            high = mid - 1;
    }
    return low;
}

/* Chooses the factor number `at` of `rest`, none larger than `most`.  Trials come in ascending
 * lexical order, so a later one replaces an earlier one only when its spread is really less; and a
 * spread is at least the largest factor less the root of what is left. */
static void choose(struct search *s, int at, int rest, int most)
{
    int left = s->n - at;
    if (left == 1) {
        if (rest > most)
            return;
        s->trial[at] = rest;
        int spread = s->trial[0] - rest;
        if (spread < s->best_spread) {
            s->best_spread = spread;
            memcpy(s->best, s->trial, (size_t)s->n * sizeof *s->best);
        }
        return;
    }
    int low = root(rest, left); /* the largest factor is at least this */
    for (int i = 0; i < s->ndivisors && s->divisors[i] <= most; i++) {
        int d = s->divisors[i];
        if (d < low || rest % d)
            continue;
        s->trial[at] = d;
        if (s->trial[0] - root(rest / d, left - 1) >= s->best_spread) {
            if (at == 0)
                break; /* larger first factors only leave smaller last ones */
            continue;
        }
        choose(s, at + 1, rest / d, d);
    }
}

static void list_divisors(struct search *s, int n)
{
    for (int d = 1; (int64_t)d * d <= n; d++)
        if (n % d == 0)
            s->divisors[s->ndivisors++] = d;
    for (int i = s->ndivisors - 1; i >= 0; i--) {
        int d = n / s->divisors[i];
        if (d > s->divisors[s->ndivisors - 1])
            s->divisors[s->ndivisors++] = d;
    }
}

static int prime_factors(int n)
{
    int found = 0;
    for (int p = 2; (int64_t)p * p <= n; p++)
        for (; n % p == 0; n /= p)
            found++;
    return found + (n > 1);
}

/* With more dimensions than prime factors at least one is 1, and more of them change nothing: they
 * are 1 too. */
static int cut(int n, int parts, int out[])
{
    int trial[32]; /* a number below 2^31 has at most 30 prime factors */
    int wide = prime_factors(n) + 1;
    if (wide > parts)
        wide = parts;
    struct search *s = malloc(sizeof *s);
    if (!s)
        return wm_err(MPI_ERR_NO_MEM, "no memory to factor %d", n);
    *s = (struct search){ .n = wide, .trial = trial, .best = out, .best_spread = INT_MAX };
    list_divisors(s, n);
    choose(s, 0, n, n);
    for (int i = wide; i < parts; i++)
        out[i] = 1;
    free(s);
    return MPI_SUCCESS;
}

int wm_api_dims_create(int nnodes, int ndims, int dims[])
{
    int64_t fixed = 1;
    int nfree = 0;
    if (nnodes < 1)
        return wm_err(MPI_ERR_ARG, "nnodes is %d, expected at least 1", nnodes);
    for (int i = 0; i < ndims; i++) {
        if (dims[i] < 0)
            return wm_err(MPI_ERR_DIMS, "dims[%d] is %d, expected a size, or 0 to choose one", i,
                          dims[i]);
        nfree += dims[i] == 0;
        if (dims[i] && fixed <= nnodes)
            fixed *= dims[i];
    }
    if (fixed > nnodes || nnodes % fixed)
        return wm_err(MPI_ERR_DIMS, "%d nodes cannot be divided by the dimensions that are given",
                      nnodes);
    if (nfree == 0)
        return MPI_SUCCESS;
    int *chosen = malloc((size_t)nfree * sizeof *chosen);
    if (!chosen)
        return wm_err(MPI_ERR_NO_MEM, "no memory for %d dimensions", nfree);
    int err = cut((int)(nnodes / fixed), nfree, chosen);
    for (int i = 0, at = 0; i < ndims && !err; i++)
        if (dims[i] == 0)
            dims[i] = chosen[at++];
    free(chosen);
    return err;
}
