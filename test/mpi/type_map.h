/* SPDX-License-Identifier: BSD-3-Clause */
/* Random datatypes and their typemaps, found the slow way: by walking what MPI_Type_get_contents_c
 * says about every constructor, down to basic types.  For tests of datatypes; a program that
 * includes it defines tm_seed. */
#ifndef TEST_MPI_TYPE_MAP_H
#define TEST_MPI_TYPE_MAP_H

#include "test/mpi/mpitest.h"

#define TM_MAX 6000 /* bytes of data in one item */

struct tm_map {
    MPI_Aint off[TM_MAX]; /* of each byte of data, in packed order */
    int n;
};

static unsigned tm_state;

static int tm_rnd(int n) { return (int)(mt_random(&tm_state) % (unsigned)n); }

static void tm_walk(MPI_Datatype t, MPI_Aint at, struct tm_map *m);

static void tm_blocks(MPI_Datatype t, MPI_Aint at, MPI_Count n, struct tm_map *m)
{
    MPI_Count lb, extent;
    MPI_Type_get_extent_c(t, &lb, &extent);
    for (MPI_Count i = 0; i < n; i++)
        tm_walk(t, at + i * extent, m);
}

static void tm_subarray(const int *v, MPI_Datatype t, MPI_Aint at, struct tm_map *m)
{
    int nd = v[0], at_dim[8] = { 0 };
    const int *size = v + 1, *sub = v + 1 + nd, *start = v + 1 + 2 * nd;
    bool c_order = v[1 + 3 * nd] == MPI_ORDER_C, more = true;
    MPI_Count lb, extent;
    MPI_Type_get_extent_c(t, &lb, &extent);
    while (more) {
        MPI_Aint item = 0;
        for (int k = 0; k < nd; k++) { /* slowest first */
            int d = c_order ? k : nd - 1 - k;
            item = item * size[d] + start[d] + at_dim[d];
        }
        tm_walk(t, at + item * extent, m);
        more = false;
        for (int k = nd - 1; k >= 0 && !more; k--) {
            int d = c_order ? k : nd - 1 - k;
            more = ++at_dim[d] < sub[d];
            if (!more)
                at_dim[d] = 0;
        }
    }
}

/* Whether element g of a dimension belongs to the process at coordinate `at`. */
static bool tm_mine(int g, int gsize, int dist, int darg, int psize, int at)
{
    if (dist == MPI_DISTRIBUTE_NONE)
        return true;
    if (dist == MPI_DISTRIBUTE_BLOCK)
        return g / (darg == MPI_DISTRIBUTE_DFLT_DARG ? (gsize + psize - 1) / psize : darg) == at;
    return g / (darg == MPI_DISTRIBUTE_DFLT_DARG ? 1 : darg) % psize == at;
}

static void tm_darray(const int *v, MPI_Datatype t, MPI_Aint at, struct tm_map *m)
{
    int rank = v[1], nd = v[2], coord[8], total = 1;
    const int *gsize = v + 3, *dist = gsize + nd, *darg = dist + nd, *psize = darg + nd;
    bool c_order = psize[nd] == MPI_ORDER_C;
    MPI_Count lb, extent;
    MPI_Type_get_extent_c(t, &lb, &extent);
    for (int d = nd - 1; d >= 0; d--) {
        coord[d] = rank % psize[d];
        rank /= psize[d];
        total *= gsize[d];
    }
    for (int item = 0; item < total; item++) {
        bool mine = true;
        for (int k = nd - 1, left = item; k >= 0; k--) { /* fastest first */
            int d = c_order ? k : nd - 1 - k;
            mine = mine && tm_mine(left % gsize[d], gsize[d], dist[d], darg[d], psize[d], coord[d]);
            left /= gsize[d];
        }
        if (mine)
            tm_walk(t, at + item * extent, m);
    }
}

static void tm_derived(int combiner, const int *v, const MPI_Aint *a, const MPI_Datatype *t,
                       MPI_Aint at, struct tm_map *m)
{
    MPI_Count lb, extent;
    MPI_Type_get_extent_c(t[0], &lb, &extent);
    switch (combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED:
        tm_walk(t[0], at, m);
        break;
    case MPI_COMBINER_CONTIGUOUS:
        tm_blocks(t[0], at, v[0], m);
        break;
    case MPI_COMBINER_VECTOR:
        for (int i = 0; i < v[0]; i++)
            tm_blocks(t[0], at + i * v[2] * extent, v[1], m);
        break;
    case MPI_COMBINER_HVECTOR:
        for (int i = 0; i < v[0]; i++)
            tm_blocks(t[0], at + i * a[0], v[1], m);
        break;
    case MPI_COMBINER_INDEXED:
        for (int i = 0; i < v[0]; i++)
            tm_blocks(t[0], at + v[1 + v[0] + i] * extent, v[1 + i], m);
        break;
    case MPI_COMBINER_HINDEXED:
        for (int i = 0; i < v[0]; i++)
            tm_blocks(t[0], at + a[i], v[1 + i], m);
        break;
    case MPI_COMBINER_INDEXED_BLOCK:
        for (int i = 0; i < v[0]; i++)
            tm_blocks(t[0], at + v[2 + i] * extent, v[1], m);
        break;
    case MPI_COMBINER_HINDEXED_BLOCK:
        for (int i = 0; i < v[0]; i++)
            tm_blocks(t[0], at + a[i], v[1], m);
        break;
    case MPI_COMBINER_STRUCT:
        for (int i = 0; i < v[0]; i++)
            tm_blocks(t[i], at + a[i], v[1 + i], m);
        break;
    case MPI_COMBINER_SUBARRAY:
        tm_subarray(v, t[0], at, m);
        break;
    case MPI_COMBINER_DARRAY:
        tm_darray(v, t[0], at, m);
        break;
    default:
        CHECK_MSG(false, "combiner %d is none that this test knows", combiner);
    }
}

static void tm_walk(MPI_Datatype t, MPI_Aint at, struct tm_map *m)
{
    int ni, na, nt, combiner, v[128];
    MPI_Aint a[64];
    MPI_Datatype types[64];
    OK(MPI_Type_get_envelope(t, &ni, &na, &nt, &combiner));
    if (combiner == MPI_COMBINER_NAMED) {
        int nbytes, second = 0; /* the hole of a pair */
        MPI_Type_size(t, &nbytes);
        if (t == MPI_SHORT_INT)
            second = 2;
        for (int i = 0; i < nbytes && m->n < TM_MAX; i++)
            m->off[m->n++] = at + i + (t == MPI_SHORT_INT && i >= second ? 2 : 0);
        return;
    }
    CHECK_MSG(ni <= 128 && na <= 64 && nt <= 64, "%d integers, %d addresses, %d types", ni, na, nt);
    OK(MPI_Type_get_contents(t, ni, na, nt, v, a, types));
    tm_derived(combiner, v, a, types, at, m);
    for (int i = 0; i < nt; i++) {
        int k, l, n, named;
        MPI_Type_get_envelope(types[i], &k, &l, &n, &named);
        if (named != MPI_COMBINER_NAMED)
            MPI_Type_free(&types[i]);
    }
}

static MPI_Datatype tm_basic(void)
{
    static const MPI_Datatype all[] = { MPI_CHAR,  MPI_SHORT,  MPI_INT,       MPI_DOUBLE,
                                        MPI_FLOAT, MPI_DOUBLE, MPI_SHORT_INT, MPI_INT64_T };
    return all[tm_rnd(8)];
}

static MPI_Datatype tm_array(MPI_Datatype old)
{
    int nd = 1 + tm_rnd(3), g[3], d[3], arg[3], p[3],
        order = tm_rnd(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
    int size = 1, sub[3], start[3];
    bool dist = tm_rnd(2);
    MPI_Datatype t = MPI_DATATYPE_NULL;
    for (int i = 0; i < nd; i++) {
        static const int kinds[] = { MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC,
                                     MPI_DISTRIBUTE_NONE };
        g[i] = 1 + tm_rnd(6);
        sub[i] = 1 + tm_rnd(g[i]);
        start[i] = tm_rnd(g[i] - sub[i] + 1);
        d[i] = kinds[tm_rnd(3)];
        p[i] = d[i] == MPI_DISTRIBUTE_NONE ? 1 : 1 + tm_rnd(3);
        arg[i] = tm_rnd(2)                      ? MPI_DISTRIBUTE_DFLT_DARG
                 : d[i] == MPI_DISTRIBUTE_BLOCK ? (g[i] + p[i] - 1) / p[i] + tm_rnd(2)
                                                : 1 + tm_rnd(3);
        size *= p[i];
    }
    if (dist)
        OK(MPI_Type_create_darray(size, tm_rnd(size), nd, g, d, arg, p, order, old, &t));
    else
        OK(MPI_Type_create_subarray(nd, g, sub, start, order, old, &t));
    return t;
}

static MPI_Datatype tm_grow(MPI_Datatype old)
{
    MPI_Datatype t = MPI_DATATYPE_NULL, types[8];
    MPI_Count lb, extent;
    int n = tm_rnd(6), len[8], disp[8];
    MPI_Aint addr[8], at = 0;
    MPI_Type_get_extent_c(old, &lb, &extent);
    for (int i = 0; i < 8; i++) {
        MPI_Count l, e;
        types[i] = tm_rnd(2) ? old : tm_basic();
        MPI_Type_get_extent_c(types[i], &l, &e);
        len[i] = tm_rnd(4);
        disp[i] = i * 4 + tm_rnd(2);
        addr[i] = at;
        at += (e > extent ? e : extent) * 4 + 8 * tm_rnd(3);
    }
    switch (tm_rnd(11)) {
    case 0:
        OK(MPI_Type_contiguous(n, old, &t));
        break;
    case 1:
        OK(MPI_Type_vector(n, len[0], len[0] + tm_rnd(3), old, &t));
        break;
    case 2:
        OK(MPI_Type_create_hvector(n, len[0], (len[0] * extent) + 4 * tm_rnd(5), old, &t));
        break;
    case 3:
        OK(MPI_Type_indexed(n, len, disp, old, &t));
        break;
    case 4:
        OK(MPI_Type_create_hindexed(n, len, addr, old, &t));
        break;
    case 5:
        OK(MPI_Type_create_indexed_block(n, len[0], disp, old, &t));
        break;
    case 6:
        OK(MPI_Type_create_hindexed_block(n, len[0], addr, old, &t));
        break;
    case 7:
        OK(MPI_Type_create_struct(n, len, addr, types, &t));
        break;
    case 8:
        OK(MPI_Type_create_resized(old, 4 * tm_rnd(3), extent + 4 * tm_rnd(5), &t));
        break;
    case 9:
        OK(MPI_Type_dup(old, &t));
        break;
    default:
        t = tm_array(old);
    }
    return t;
}

/* A committed derived type with at most TM_MAX bytes of data that lie in 0..reach-1. */
static MPI_Datatype tm_random(MPI_Count reach)
{
    for (;;) {
        MPI_Datatype t, old = tm_basic();
        int depth = 1 + tm_rnd(4);
        bool derived = false;
        MPI_Count size, lb, extent;
        for (int i = 0; i < depth; i++) {
            t = tm_grow(old);
            if (derived)
                MPI_Type_free(&old);
            derived = true;
            old = t;
            MPI_Type_size_c(old, &size);
            MPI_Type_get_true_extent_c(old, &lb, &extent);
            if (size > TM_MAX || lb < 0 || lb + extent > reach)
                break;
        }
        if (size <= TM_MAX && lb >= 0 && lb + extent <= reach) {
            OK(MPI_Type_commit(&t));
            return t;
        }
        MPI_Type_free(&t);
    }
}

#endif
