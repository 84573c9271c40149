/* SPDX-License-Identifier: BSD-3-Clause */
/* Strings and temporary memory of the Fortran entry points, and the facts about a communicator that
 * determine the length of an array.  Any thread. */
#include "mpi/fortran/fort.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void give_up(const char *why)
{
    fprintf(stderr, "Weft MPI: a Fortran call cannot be carried out: %s\n", why);
    PMPI_Abort(MPI_COMM_WORLD, MPI_ERR_ARG);
    abort();
}

void *wf_alloc(size_t nbytes)
{
    void *p = malloc(nbytes);
    if (!p)
        give_up("no memory to convert its arguments");
    return p;
}

void *wf_tmp_alloc(struct wf_tmp *t, size_t nbytes)
{
    t->heap = true;
    return t->p = wf_alloc(nbytes);
}

void wf_tmp_release(struct wf_tmp *t)
{
    free(t->p);
    t->heap = false;
}

int wf_too_large(wf_int x)
{
    char text[128];
    snprintf(
        text, sizeof text,
        "the argument %lld does not fit C's int, and this procedure has no form for large counts",
        (long long)x);
    give_up(text);
    return 0;
}

char *wf_string_in(struct wf_tmp *t, const char *x, size_t len, bool both)
{
    while (len > 0 && x[len - 1] == ' ')
        len--;
    while (both && len > 0 && *x == ' ')
        x++, len--;
    char *s = wf_tmp_get(t, len + 1);
    memcpy(s, x, len);
    s[len] = '\0';
    return s;
}

void wf_string_done(char *x, size_t len, const char *s)
{
    size_t n = strlen(s);
    memcpy(x, s, n < len ? n : len);
    if (n < len)
        memset(x + n, ' ', len - n);
}

/* ---- further addresses of the special variables ---- */

struct wf_more *wf_more;

int wf_more_find(const void *p, int none)
{
    for (struct wf_more *m = __atomic_load_n(&wf_more, __ATOMIC_ACQUIRE); m; m = m->next)
        if (p && __atomic_load_n(&m->at, __ATOMIC_RELAXED) == p)
            return (int)m->cell;
    return none;
}

void *wf_more_buf(const void *p)
{
    switch (wf_more_find(p, WF_NCELLS)) {
    case WF_BOTTOM:
        return MPI_BOTTOM;
    case WF_INPLACE:
        return MPI_IN_PLACE;
    case WF_AUTOMATIC:
        return MPI_BUFFER_AUTOMATIC;
    default:
        return (void *)(uintptr_t)p;
    }
}

/* ---- lengths of arrays ---- */

int wf_ndims(wf_int comm)
{
    int n = 0;
    return PMPI_Cartdim_get(wf_h(MPI_Comm, comm), &n) == MPI_SUCCESS ? n : 0;
}

int wf_peers(wf_int comm)
{
    int inter = 0, n = 0;
    if (PMPI_Comm_test_inter(wf_h(MPI_Comm, comm), &inter) != MPI_SUCCESS)
        return 0;
    if (inter)
        PMPI_Comm_remote_size(wf_h(MPI_Comm, comm), &n);
    else
        PMPI_Comm_size(wf_h(MPI_Comm, comm), &n);
    return n;
}

int wf_degree(wf_int comm, bool out)
{
    int kind = MPI_UNDEFINED, in_degree = 0, out_degree = 0, weighted, rank;
    if (PMPI_Topo_test(wf_h(MPI_Comm, comm), &kind) != MPI_SUCCESS)
        return 0;
    switch (kind) {
    case MPI_CART:
        return 2 * wf_ndims(comm);
    case MPI_GRAPH:
        PMPI_Comm_rank(wf_h(MPI_Comm, comm), &rank);
        PMPI_Graph_neighbors_count(wf_h(MPI_Comm, comm), rank, &in_degree);
        return in_degree;
    case MPI_DIST_GRAPH:
        PMPI_Dist_graph_neighbors_count(wf_h(MPI_Comm, comm), &in_degree, &out_degree, &weighted);
        return out ? out_degree : in_degree;
    default:
        return 0;
    }
}

int wf_sum(const wf_int *x, int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += (int)x[i];
    return sum;
}
