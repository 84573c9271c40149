/* SPDX-License-Identifier: BSD-3-Clause */
/* Long device collectives, planned but not executed: their plans do not send more data over the
 * busiest rank's links than the headers of the planning files state. */
#include <inttypes.h>
#include "coll/gpu/plan_int.h"
#include "test/check.h"

static const struct rt_layout floats = {
    .size = 4, .extent = 4, .true_extent = 4, .contig = true, .elem = RT_ELEM_F32
};
static const struct rt_op sum = { .code = RT_OP_SUM, .commutes = true };

#define PLAN_RANKS 17
#define PLAN_UNITS (COLL_GPU_PLACES + 1)

/* These addresses are never accessed: each rank's start at a multiple of 1 TiB. */
#define PLACE(rank) ((uintptr_t)((rank) + 1) << 40)
#define RECV_AT ((uintptr_t)1 << 38)
#define SCRATCH_AT ((uintptr_t)1 << 39)

struct links {
    int64_t in[PLAN_RANKS], out[PLAN_RANKS];
    int nsteps; /* of the rank with the most steps */
    int widest; /* destinations of a step */
    int nfirst; /* rank 0's copies to other ranks without a predecessor */
};
static bool direct, in_order;

static void carry(struct links *l, int rank, const void *p, size_t len, bool writes)
{
    int owner = (int)((uintptr_t)p >> 40) - 1;
    if (owner == rank)
        return;
    l->in[writes ? owner : rank] += (int64_t)len;
    l->out[writes ? rank : owner] += (int64_t)len;
}

static void carry_step(struct links *l, int rank, const struct coll_gpu_step *s)
{
    size_t nbytes = s->fold.count *
                    (s->verb == COLL_GPU_FOLD ? rt_gpu_type_nbytes(s->fold.type) : 0);
    if (s->verb == COLL_GPU_COPY) {
        carry(l, rank, s->copy.src, s->copy.len, false);
        carry(l, rank, s->copy.dst, s->copy.len, true);
    } else if (s->verb == COLL_GPU_FOLD) {
        for (int i = 0; i < s->fold.nsrc; i++)
            carry(l, rank, s->fold.src[i], nbytes, false);
        for (int i = 0; i < s->fold.ndst; i++)
            carry(l, rank, s->fold.dst[i], nbytes, true);
    }
}

/* Plans of a call whose vectors, or blocks, are n bytes long. */
static int plan_links(enum coll_kind kind, int size, int64_t n, bool in_place, struct links *l)
{
    struct coll_gpu_own own[PLAN_RANKS];
    struct coll_args a[PLAN_RANKS];
    uint64_t word[PLAN_RANKS], no_offsets[PLAN_RANKS];
    char *at[COLL_GPU_RANGES][PLAN_RANKS];
    size_t len[COLL_GPU_RANGES][PLAN_RANKS];
    int err = 0;
    *l = (struct links){ 0 };
    for (int i = 0; i < size && !err; i++) {
        struct coll_team t = { .rank = i, .size = size };
        char *mine = (char *)PLACE(i), *result = mine + RECV_AT;
        a[i] = (struct coll_args){ .kind = kind,
                                   .sbuf = in_place ? COLL_IN_PLACE : mine,
                                   .rbuf = result,
                                   .scount = n / 4,
                                   .rcount = n / 4,
                                   .stype = &floats,
                                   .rtype = &floats };
        if (coll_is(kind, COLL_IS_REDUCTION))
            a[i].op = &sum;
        err = coll_gpu_own(&t, &a[i], &own[i], no_offsets);
        word[i] = own[i].word;
        for (int k = 0; k < COLL_GPU_RANGES; k++) {
            at[k][i] = (char *)(uintptr_t)own[i].at[k];
            len[k][i] = own[i].len[k];
        }
    }
    for (int i = 0; i < size && !err; i++) {
        struct coll_gpu_plan p = { 0 };
        char *unit[PLAN_UNITS];
        for (int k = 0; k < PLAN_UNITS; k++)
            unit[k] = (char *)(PLACE(i) + SCRATCH_AT) + k * coll_gpu_limits.unit;
        struct coll_gpu_view v = {
            i,    size, &a[i],     { at[0], at[1] }, { len[0], len[1] }, word,     NULL,
            unit, true, !in_order, direct,           in_order,           in_order, NULL
        };
        bool awaited = false;
        err = coll_gpu_make_plan(&v, &p);
        for (int j = 0; j < p.n; j++) {
            const struct coll_gpu_step *s = &p.step[j];
            carry_step(l, i, s);
            int wide = s->verb == COLL_GPU_FOLD ? s->fold.ndst : s->verb == COLL_GPU_COPY;
            l->widest = wide > l->widest ? wide : l->widest;
            if (i == 0 && s->verb == COLL_GPU_AWAIT)
                awaited = true;
            l->nfirst += i == 0 && s->verb == COLL_GPU_COPY && s->after < 0 && !awaited &&
                         (uintptr_t)s->copy.dst >> 40 != 1;
        }
        l->nsteps = p.n > l->nsteps ? p.n : l->nsteps;
        coll_gpu_free_plan(&p);
    }
    return err;
}

static int64_t most(const int64_t *v, int n)
{
    int64_t m = 0;
    for (int i = 0; i < n; i++)
        m = v[i] > m ? v[i] : m;
    return m;
}

#define MIB ((int64_t)1 << 20)
#define SLACK 8192 /* blocks are cut at cache lines */

static void links_carry_no_more_than_said(void)
{
    static const struct {
        enum coll_kind kind;
        int size;
        int64_t n;
        bool in_place;
        double vectors; /* vectors of n bytes over the busiest link */
    } rows[] = {
        { COLL_ALLREDUCE, 2, 4096, false, 1 },
        { COLL_ALLREDUCE, 4, 4096, false, 3 }, /* one shot */
        { COLL_ALLREDUCE, 2, 16 * MIB, false, 1 },
        { COLL_ALLREDUCE, 4, 16 * MIB, false, 1.5 },
        { COLL_ALLREDUCE, 4, 16 * MIB, true, 1.5 },
        { COLL_ALLREDUCE, 2, 1024 * MIB, false, 1 },
        { COLL_ALLREDUCE, 4, 1024 * MIB, false, 1.5 },
        { COLL_ALLREDUCE, 8, 1024 * MIB, true, 1.75 },
        { COLL_ALLREDUCE, 17, 64 * MIB, true, 2 - 2. / 17 },
        { COLL_REDUCE, 2, 256 * MIB, false, 1 },
        { COLL_REDUCE, 4, 256 * MIB, false, 1 },
        { COLL_REDUCE_SCATTER_BLOCK, 2, 256 * MIB, false, 1 },
        { COLL_REDUCE_SCATTER_BLOCK, 4, 64 * MIB, false, 3 },
        { COLL_REDUCE_SCATTER_BLOCK, 4, 64 * MIB, true, 3 },
        { COLL_SCAN, 2, 256 * MIB, false, 1 },
        { COLL_SCAN, 4, 256 * MIB, false, 1.5 },
        { COLL_SCAN, 4, 256 * MIB, true, 1.5 },
        { COLL_SCAN, 4, MIB, false, 1.5 },
        { COLL_SCAN, 4, 4096, false, 3 },
        { COLL_EXSCAN, 8, 256 * MIB, true, 1.75 },
        { COLL_BCAST, 2, 256 * MIB, false, 1 },
        { COLL_BCAST, 4, 256 * MIB, false, 1 },
        { COLL_BCAST, 4, 4096, false, 3 },
        { COLL_GATHER, 4, 64 * MIB, false, 3 },
        { COLL_SCATTER, 4, 64 * MIB, false, 3 },
        { COLL_ALLGATHER, 4, 64 * MIB, false, 3 },
        { COLL_ALLGATHER, 4, 64 * MIB, true, 3 },
        { COLL_ALLTOALL, 4, 64 * MIB, false, 3 },
        { COLL_ALLTOALL, 4, 64 * MIB, true, 3 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct links l;
        const char *name = coll_kind_names[rows[i].kind];
        int err = plan_links(rows[i].kind, rows[i].size, rows[i].n, rows[i].in_place, &l);
        int64_t in = most(l.in, rows[i].size), out = most(l.out, rows[i].size),
                said = (int64_t)(rows[i].vectors * (double)rows[i].n) + SLACK;
        CHECK_MSG(!err && in <= said && out <= said,
                  "row %d, %s: error %d, %" PRId64 " in, %" PRId64 " out, %" PRId64 " said", (int)i,
                  name, err, in, out, said);
        CHECK_MSG(l.nsteps < 1000, "row %d, %s: %d steps", (int)i, name, l.nsteps);
        if (rows[i].size > 2 && (rows[i].kind == COLL_SCAN || rows[i].kind == COLL_EXSCAN))
            CHECK_EQ(l.nsteps, 1);
    }
}

/* With a switch, one copy of a rank runs at a time.  With a link between each two devices, no copy
 * waits for another copy's link. */
static void direct_links_all_carry_their_share(void)
{
    static const enum coll_kind kinds[] = { COLL_ALLREDUCE, COLL_ALLGATHER, COLL_ALLTOALL };
    for (int k = 0; k < 3; k++)
        for (int size = 4; size <= 8; size *= 2) {
            struct links l;
            direct = false;
            CHECK_EQ(plan_links(kinds[k], size, 1024 * MIB, false, &l), 0);
            CHECK_EQ(l.nfirst, 1);
            direct = true;
            CHECK_EQ(plan_links(kinds[k], size, 1024 * MIB, false, &l), 0);
            CHECK_EQ(l.nfirst, size - 1);
        }
    links_carry_no_more_than_said();
    direct = false;
}

/* The most destinations of a step that moves n bytes or more to others. */
static int widest(enum coll_kind kind, int size, int64_t n)
{
    struct links l;
    CHECK_EQ(plan_links(kind, size, n, false, &l), 0);
    return l.widest;
}

/* On a stream, one step of a rank is under way at a time. */
static void a_step_uses_all_direct_links(void)
{
    static const enum coll_kind kinds[] = { COLL_BCAST, COLL_SCATTER, COLL_ALLGATHER, COLL_ALLTOALL,
                                            COLL_ALLREDUCE };
    in_order = true;
    for (int k = 0; k < 5; k++)
        for (int size = 4; size <= 8; size *= 2) {
            direct = true;
            CHECK_MSG(widest(kinds[k], size, 64 * MIB) >= size - 1, "%s of %d ranks",
                      coll_kind_names[kinds[k]], size);
            direct = false;
            if (kinds[k] == COLL_BCAST || kinds[k] == COLL_SCATTER || kinds[k] == COLL_ALLTOALL)
                CHECK_EQ(widest(kinds[k], size, 64 * MIB), 1);
        }
    /* What WEFT_COLL asks for is left where it would use one link at a time. */
    for (int d = 0; d < 2; d++) {
        direct = d;
        coll_gpu_way = COLL_GPU_PUT;
        CHECK_EQ(widest(COLL_ALLREDUCE, 4, 64 * MIB), direct ? 4 : 1);
        coll_gpu_way = COLL_GPU_ENGINE;
        CHECK_EQ(widest(COLL_ALLREDUCE, 4, 64 * MIB), 4);
    }
    coll_gpu_way = COLL_GPU_AUTO;
    direct = in_order = false;
}

int main(void)
{
    RUN(links_carry_no_more_than_said);
    RUN(direct_links_all_carry_their_share);
    RUN(a_step_uses_all_direct_links);
    return check_end();
}
