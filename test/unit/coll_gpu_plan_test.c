/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans of device collectives.  The plans of all ranks, made in one process for random calls, are
 * executed on host memory by test/unit/coll_gpu_run.c, which also looks for races.  Afterwards
 * every byte of every rank must be what the call defines, or unchanged. */
#include <inttypes.h>
#include "runtime/base/err.h"
#include "runtime/gpu/kernel.h"
#include "runtime/reduce/gpu_codes.h"
#include "test/check.h"
#include "test/unit/coll_gpu_run.h"

static uint64_t seed = 1;

static uint64_t draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static int below(int n) { return (int)((draw() >> 20) % (uint64_t)n); }
static bool rarely(int n) { return below(n) == 0; }

/* ---- layouts ---- */

#define BASIC(nbytes, e) \
    { \
        .size = nbytes, .extent = nbytes, .true_extent = nbytes, .contig = true, .elem = e \
    }
/* The types as which a block of 24 bytes may be sent or received. */
static const struct rt_layout moved[] = { BASIC(1, RT_ELEM_BYTE), BASIC(2, RT_ELEM_I16),
                                          BASIC(4, RT_ELEM_F32),  BASIC(8, RT_ELEM_F64),
                                          BASIC(12, RT_ELEM_F32), BASIC(24, RT_ELEM_NONE) };
static const struct rt_layout *any_layout(void) { return &moved[below(6)]; }

struct arith {
    struct rt_layout l;
    enum rt_opcode op;
};
/* Sums of floats reveal the order of operands. */
static const struct arith ariths[] = {
    { BASIC(4, RT_ELEM_F32), RT_OP_SUM },        { BASIC(8, RT_ELEM_F64), RT_OP_PROD },
    { BASIC(4, RT_ELEM_I32), RT_OP_SUM },        { BASIC(1, RT_ELEM_U8), RT_OP_BXOR },
    { BASIC(2, RT_ELEM_I16), RT_OP_MAX },        { BASIC(8, RT_ELEM_F32_I32), RT_OP_MINLOC },
    { BASIC(16, RT_ELEM_C64), RT_OP_SUM },       { BASIC(8, RT_ELEM_I64), RT_OP_SUM },
    { BASIC(8, RT_ELEM_I32_I32), RT_OP_MAXLOC },
};

/* ---- a random call ---- */

static const int sizes[] = { 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 9, 16, 17, 17, 33 };

/* Lengths around those at which data are cut. */
static int64_t any_count(int most)
{
    switch (below(6)) {
    case 0:
        return below(4);
    case 1:
        return below(40);
    case 2:
        return most > 32 ? most / 32 * 32 - 2 + below(4) : below(most + 1);
    default:
        return below(most + 1);
    }
}

static void make_reduction(struct plan_world *w, enum coll_kind kind)
{
    static struct rt_op op;
    static int64_t counts[PLAN_RANKS];
    const struct arith *ar = &ariths[below(9)];
    int most = w->size > 9 ? 300 : 2500;
    int64_t n = 1 + any_count(most), total = n;
    bool in_place = rarely(2), mixed = rarely(10);
    op = (struct rt_op){ .code = ar->op, .commutes = true };
    if (kind == COLL_REDUCE_SCATTER_BLOCK) {
        n = 1 + any_count(most / w->size);
        total = n * w->size;
    }
    for (int i = 0; i < w->size; i++)
        counts[i] = kind == COLL_REDUCE_SCATTER_BLOCK ? n
                    : rarely(4)                       ? 0
                                                      : any_count(most / w->size);
    if (kind == COLL_REDUCE_SCATTER) {
        counts[below(w->size)]++;
        total = 0;
        for (int i = 0; i < w->size; i++)
            total += counts[i];
    }
    int root = below(w->size);
    for (int i = 0; i < w->size; i++) {
        struct plan_rank *r = &w->rank[i];
        int64_t nbytes = total * ar->l.size;
        bool scatters = kind == COLL_REDUCE_SCATTER || kind == COLL_REDUCE_SCATTER_BLOCK;
        if (mixed)
            in_place = rarely(2);
        bool here = in_place && (kind != COLL_REDUCE || i == root);
        r->a = (struct coll_args){ .kind = kind,
                                   .scount = n,
                                   .rcount = n,
                                   .stype = &ar->l,
                                   .rtype = &ar->l,
                                   .op = &op,
                                   .root = root };
        if (kind == COLL_REDUCE_SCATTER) {
            r->a.rcounts = counts;
            r->a.rcount = 0;
        }
        char *out = plan_alloc(w, i, here || !scatters ? nbytes : counts[i] * ar->l.size, 16);
        char *in = here ? out : plan_alloc(w, i, nbytes, 16);
        r->a.rbuf = kind == COLL_REDUCE && i != root ? NULL : out;
        r->a.sbuf = here ? COLL_IN_PLACE : in;
        w->input[i] = in;
        w->output[i] = out;
        w->first[i] = w->last[i] = 0;
        w->off[i] = 0;
        w->len[i] = nbytes;
        switch (kind) {
        case COLL_REDUCE:
            w->last[i] = i == root ? w->size : 0;
            break;
        case COLL_SCAN:
        case COLL_EXSCAN:
            w->last[i] = i + (kind == COLL_SCAN);
            break;
        default:
            w->last[i] = w->size;
            break;
        }
        for (int j = 0; j < i && scatters; j++)
            w->off[i] += counts[j] * ar->l.size;
        if (scatters)
            w->len[i] = counts[i] * ar->l.size;
    }
    w->reduces = true;
    w->opcode = ar->op;
    w->elem = ar->l.elem;
    w->elem_len = ar->l.size;
}

/* The blocks of a rank's side of a call: their places and, for a vector, counts and
 * displacements. */
struct row {
    char *buf, *at[PLAN_RANKS];
    int64_t counts[PLAN_RANKS], displs[PLAN_RANKS];
    const struct rt_layout *types[PLAN_RANKS], *type;
};

/* `len`: length of each block, a multiple of 24. plain: equal blocks side by side; bytes:
 * displacements are in bytes, every block has its own type. */
static void make_row(struct plan_world *w, int rank, const int64_t *len, bool plain, bool bytes,
                     struct row *out)
{
    int64_t at = 0, where[PLAN_RANKS];
    int order[PLAN_RANKS];
    out->type = any_layout();
    for (int i = 0; i < w->size; i++) {
        int j = plain ? i : below(i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (int i = 0; i < w->size; i++) {
        where[order[i]] = at;
        at += len[order[i]] + (plain || rarely(2) ? 0 : 24 * below(4));
    }
    int64_t back = plain ? 0 : 24 * below((int)(at / 24) + 1);
    char *base = plan_alloc(w, rank, at, 1 << below(5));
    out->buf = base + back;
    for (int i = 0; i < w->size; i++) {
        out->types[i] = bytes ? any_layout() : out->type;
        if (bytes && !len[i] && rarely(2))
            out->types[i] = NULL;
        out->at[i] = base + where[i];
        out->counts[i] = len[i] ? len[i] / out->types[i]->size : 0;
        out->displs[i] = (where[i] - back) / (bytes ? 1 : out->type->size);
    }
}

static void set_row(struct coll_args *a, bool recv, const struct row *r, bool vector, bool bytes)
{
    if (recv) {
        a->rbuf = r->buf;
        a->rtype = bytes ? NULL : r->type;
        a->rcount = vector ? 0 : r->counts[0];
        a->rcounts = vector ? r->counts : NULL;
        a->rdispls = vector ? r->displs : NULL;
        a->rtypes = bytes ? r->types : NULL;
    } else {
        a->sbuf = r->buf;
        a->stype = bytes ? NULL : r->type;
        a->scount = vector ? 0 : r->counts[0];
        a->scounts = vector ? r->counts : NULL;
        a->sdispls = vector ? r->displs : NULL;
        a->stypes = bytes ? r->types : NULL;
    }
}

static struct row send_row[PLAN_RANKS], recv_row[PLAN_RANKS];
static int64_t block[PLAN_RANKS][PLAN_RANKS]; /* from, to */

static void draw_blocks(int size, bool plain, bool symmetric)
{
    int most = size > 9 ? 20 : 150;
    int64_t n = 24 * (1 + any_count(most));
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++)
            block[i][j] = plain ? n : rarely(3) ? 0 : 24 * any_count(most);
    for (int i = 0; i < size; i++)
        for (int j = 0; j < i && symmetric; j++)
            block[i][j] = block[j][i];
}

static void make_alltoall(struct plan_world *w, enum coll_kind kind)
{
    bool plain = kind == COLL_ALLTOALL, bytes = kind == COLL_ALLTOALLW, in_place = rarely(2);
    int64_t in[PLAN_RANKS];
    draw_blocks(w->size, plain, in_place);
    for (int i = 0; i < w->size; i++) {
        struct coll_args *a = &w->rank[i].a;
        *a = (struct coll_args){ .kind = kind };
        for (int j = 0; j < w->size; j++)
            in[j] = block[j][i];
        make_row(w, i, in, plain, bytes, &recv_row[i]);
        set_row(a, true, &recv_row[i], !plain, bytes);
        if (in_place) {
            a->sbuf = COLL_IN_PLACE;
            send_row[i] = recv_row[i];
        } else {
            make_row(w, i, block[i], plain, bytes, &send_row[i]);
            set_row(a, false, &send_row[i], !plain, bytes);
        }
    }
    for (int i = 0; i < w->size; i++)
        for (int j = 0; j < w->size; j++)
            plan_expect(w, recv_row[j].at[i], send_row[i].at[j], block[i][j]);
}

static void one_block(struct plan_world *w, int rank, int64_t len, bool recv, char **at)
{
    struct coll_args *a = &w->rank[rank].a;
    const struct rt_layout *l = any_layout();
    *at = plan_alloc(w, rank, len, 1 << below(5));
    if (recv) {
        a->rbuf = *at;
        a->rtype = l;
        a->rcount = len / l->size;
    } else {
        a->sbuf = *at;
        a->stype = l;
        a->scount = len / l->size;
    }
}

/* gather(v), allgather(v): every rank's block to some ranks. */
static void make_gather(struct plan_world *w, enum coll_kind kind)
{
    bool vector = kind == COLL_GATHERV || kind == COLL_ALLGATHERV,
         all = kind == COLL_ALLGATHER || kind == COLL_ALLGATHERV, in_place = rarely(2);
    int root = below(w->size);
    char *own[PLAN_RANKS];
    draw_blocks(w->size, !vector, false);
    for (int i = 0; i < w->size; i++) {
        struct coll_args *a = &w->rank[i].a;
        *a = (struct coll_args){ .kind = kind, .root = root };
        if (all || i == root) {
            make_row(w, i, block[0], !vector, false, &recv_row[i]);
            set_row(a, true, &recv_row[i], vector, false);
        }
        if (in_place && (all || i == root)) {
            a->sbuf = COLL_IN_PLACE;
            own[i] = recv_row[i].at[i];
        } else {
            one_block(w, i, block[0][i], false, &own[i]);
        }
    }
    for (int i = 0; i < w->size; i++)
        for (int j = 0; j < w->size && (all || i == root); j++)
            plan_expect(w, recv_row[i].at[j], own[j], block[0][j]);
}

static void make_scatter(struct plan_world *w, enum coll_kind kind)
{
    bool vector = kind == COLL_SCATTERV, in_place = rarely(2);
    int root = below(w->size);
    char *own[PLAN_RANKS];
    draw_blocks(w->size, !vector, false);
    for (int i = 0; i < w->size; i++) {
        struct coll_args *a = &w->rank[i].a;
        *a = (struct coll_args){ .kind = kind, .root = root };
        if (i == root) {
            make_row(w, i, block[0], !vector, false, &send_row[i]);
            set_row(a, false, &send_row[i], vector, false);
        }
        if (i == root && in_place)
            a->rbuf = COLL_IN_PLACE;
        else
            one_block(w, i, block[0][i], true, &own[i]);
    }
    for (int i = 0; i < w->size; i++)
        if (i != root || !in_place)
            plan_expect(w, own[i], send_row[root].at[i], block[0][i]);
}

static void make_bcast(struct plan_world *w)
{
    int root = below(w->size);
    char *own[PLAN_RANKS];
    int64_t len = 24 * (1 + any_count(w->size > 9 ? 100 : 1000));
    for (int i = 0; i < w->size; i++) {
        w->rank[i].a = (struct coll_args){ .kind = COLL_BCAST, .root = root };
        one_block(w, i, len, true, &own[i]);
    }
    for (int i = 0; i < w->size; i++)
        if (i != root)
            plan_expect(w, own[i], own[root], len);
}

static void make_call(struct plan_world *w, enum coll_kind kind)
{
    switch (kind) {
    case COLL_BCAST:
        make_bcast(w);
        break;
    case COLL_GATHER:
    case COLL_GATHERV:
    case COLL_ALLGATHER:
    case COLL_ALLGATHERV:
        make_gather(w, kind);
        break;
    case COLL_SCATTER:
    case COLL_SCATTERV:
        make_scatter(w, kind);
        break;
    case COLL_ALLTOALL:
    case COLL_ALLTOALLV:
    case COLL_ALLTOALLW:
        make_alltoall(w, kind);
        break;
    default:
        make_reduction(w, kind);
        break;
    }
}

/* Small limits, so that a few kilobytes are cut like gigabytes. */
static void draw_limits(void)
{
    coll_gpu_limits = (struct coll_gpu_limits){
        .step = 1 << below(16),
        .kernel_max = 1 << below(14),
        .one_shot_extra = rarely(3) ? 0 : 1 << below(16),
        .owner_min = 1 << below(10),
        .engine_min = 1 << below(20),
        .many_min = 1 << below(20),
        .put_min = 1 << below(20),
        .engine_move = 1 << below(20),
        .by_kernel = below(64),
        .engine_chunk = 128 * (1 + below(8)),
        .unit = 256 << below(6),
        .chain = 128 << below(2),
    };
    coll_gpu_way = (enum coll_gpu_way)below(COLL_GPU_WAYS);
}

static int ncases = 20000;
static struct plan_world world;

static void random_calls(void)
{
    struct coll_gpu_limits kept = coll_gpu_limits;
    for (int i = 0; i < ncases; i++) {
        uint64_t from = seed;
        enum coll_kind kind = (enum coll_kind)(COLL_BCAST + below(COLL_EXSCAN));
        int size = sizes[below(i % 4 ? 12 : 16)];
        draw_limits();
        plan_world_begin(&world, size, draw);
        make_call(&world, kind);
        const char *what = plan_world_run(&world);
        CHECK_MSG(!what, "%s: %s among %d ranks; run again with seed %" PRIu64, what,
                  coll_kind_names[kind], size, from);
        if (what)
            break;
    }
    coll_gpu_limits = kept;
    coll_gpu_way = COLL_GPU_AUTO;
}

/* ---- an alltoall of short blocks, and of long ones ---- */

static struct coll_gpu_plan alltoall_of(int size, int64_t len, bool kernels, int rank)
{
    static const struct rt_layout byte = BASIC(1, RT_ELEM_BYTE);
    struct coll_args a = {
        .kind = COLL_ALLTOALL, .scount = len, .rcount = len, .stype = &byte, .rtype = &byte
    };
    char *at[COLL_GPU_RANGES][PLAN_RANKS];
    size_t lens[COLL_GPU_RANGES][PLAN_RANKS];
    uint64_t word[PLAN_RANKS] = { 0 };
    struct coll_gpu_plan p = { 0 };
    for (int i = 0; i < size; i++)
        for (int k = 0; k < COLL_GPU_RANGES; k++) { /* addresses that are never accessed */
            at[k][i] = (char *)((uintptr_t)(2 * i + k + 1) << 32);
            lens[k][i] = (size_t)(size * len);
        }
    struct coll_gpu_view v = { .rank = rank,
                               .size = size,
                               .a = &a,
                               .at = { at[0], at[1] },
                               .len = { lens[0], lens[1] },
                               .word = word,
                               .kernels = kernels,
                               .large_pages = true };
    CHECK_EQ(coll_gpu_make_plan(&v, &p), 0);
    return p;
}

static void short_blocks_go_together(void)
{
    for (int size = 2; size <= 17; size += size < 5 ? 1 : 12) {
        struct coll_gpu_plan p = alltoall_of(size, 8, true, 1);
        CHECK_EQ(p.n, (size + RT_GPU_FOLD_PLACES - 1) / RT_GPU_FOLD_PLACES);
        const struct rt_gpu_fold *f = &p.step[0].fold;
        int n = size < RT_GPU_FOLD_PLACES ? size : RT_GPU_FOLD_PLACES;
        CHECK(p.step[0].verb == COLL_GPU_FOLD && f->code == RT_GPU_FOLD_EACH);
        CHECK_EQ(f->nsrc, n);
        CHECK_EQ(f->ndst, n);
        CHECK_EQ(f->count * rt_gpu_type_nbytes(f->type), 8);
        for (int i = 0; i < n; i++) { /* from rank 1 on */
            int to = size & (size - 1) ? (1 + i) % size : 1 ^ i;
            CHECK(f->src[i] == (char *)((uintptr_t)3 << 32) + 8 * to);
            CHECK(f->dst[i] == (char *)((uintptr_t)(2 * to + 2) << 32) + 8);
        }
        coll_gpu_free_plan(&p);
    }
    for (int way = 0; way < 2; way++) { /* too long; without kernels */
        struct coll_gpu_plan p = alltoall_of(4, way ? 8 : coll_gpu_limits.kernel_max + 8, !way, 0);
        CHECK_EQ(p.n, 4);
        coll_gpu_free_plan(&p);
    }
}

/* Copy engines move them one after the other, each at that time to a different rank than all other
 * ranks' copies; the own block is moved by a kernel. */
static void long_blocks_go_one_after_another(void)
{
    const int64_t len = coll_gpu_limits.engine_move;
    unsigned met[4] = { 0 };
    for (int rank = 0; rank < 4; rank++) {
        struct coll_gpu_plan p = alltoall_of(4, len, true, rank);
        int ncopies = 0, before = -1;
        CHECK_EQ(p.n, 4);
        for (int i = 0; i < p.n; i++) {
            const struct coll_gpu_step *s = &p.step[i];
            if (s->verb != COLL_GPU_COPY) {
                CHECK(s->verb == COLL_GPU_FOLD && s->after == -1);
                continue;
            }
            int to = (int)((uintptr_t)s->copy.dst >> 32) / 2 - 1;
            CHECK(to >= 0 && to < 4 && to != rank);
            CHECK_EQ(s->after, before);
            met[ncopies++] |= 1u << to;
            before = i;
        }
        CHECK_EQ(ncopies, 3);
        coll_gpu_free_plan(&p);
    }
    for (int i = 0; i < 3; i++)
        CHECK_EQ(met[i], 0xf);
}

/* ---- refused calls ---- */

/* The error of every rank's plan if rank 1 passes wrong arguments. */
static void check_refused(enum coll_kind kind, void (*spoil)(struct coll_args *a), bool by_all)
{
    int nerr = 0, size = 3;
    plan_world_begin(&world, size, draw);
    do { /* blocks may be empty */
        plan_world_begin(&world, size, draw);
        make_call(&world, kind);
    } while (kind == COLL_GATHERV && (world.rank[1].a.root != 0 || !world.rank[1].a.scount));
    spoil(&world.rank[1].a);
    const char *what = plan_world_plan(&world, &nerr);
    CHECK_MSG(what && (by_all ? nerr == size : nerr > 0), "%s: %d errors: %s",
              coll_kind_names[kind], nerr, what ? what : "none");
}

static void one_more(struct coll_args *a)
{
    static int64_t counts[PLAN_RANKS];
    if (a->kind == COLL_REDUCE_SCATTER) {
        memcpy(counts, a->rcounts, 3 * sizeof counts[0]);
        counts[2]++;
        a->rcounts = counts;
    }
    a->rcount++;
    a->scount++;
}

static void other_op(struct coll_args *a)
{
    static struct rt_op op;
    op = (struct rt_op){ .code = a->op->code == RT_OP_SUM ? RT_OP_PROD : RT_OP_SUM };
    static const struct rt_layout ints = BASIC(4, RT_ELEM_U32);
    a->rtype = a->stype = &ints;
    a->op = &op;
}

static void other_root(struct coll_args *a)
{
    a->root = (a->root + 1) % 3;
    a->scount = a->rcount;
    a->stype = a->rtype;
    a->sbuf = a->rbuf;
}

static void calls_that_do_not_agree_fail_on_all(void)
{
    static const enum coll_kind counted[] = { COLL_BCAST,
                                              COLL_REDUCE,
                                              COLL_ALLREDUCE,
                                              COLL_GATHER,
                                              COLL_SCATTER,
                                              COLL_ALLGATHER,
                                              COLL_ALLTOALL,
                                              COLL_SCAN,
                                              COLL_EXSCAN,
                                              COLL_REDUCE_SCATTER,
                                              COLL_REDUCE_SCATTER_BLOCK };
    for (size_t i = 0; i < sizeof counted / sizeof counted[0]; i++)
        check_refused(counted[i], one_more, true);
    check_refused(COLL_ALLREDUCE, other_op, true);
    check_refused(COLL_SCAN, other_op, true);
    check_refused(COLL_BCAST, other_root, true);
    check_refused(COLL_GATHERV, one_more, false); /* only the root knows */
}

static int own(struct coll_args a, int size)
{
    struct coll_team t = { .size = size };
    struct coll_gpu_own o;
    uint64_t offsets[COLL_GPU_RANKS_MAX + 1];
    char send[64], recv[64];
    a.sbuf = send;
    a.rbuf = recv;
    a.scount = a.rcount = 2;
    return coll_gpu_own(&t, &a, &o, offsets);
}

static void what_has_no_plan(void)
{
    static const struct rt_layout f32 = BASIC(4, RT_ELEM_F32), ldbl = BASIC(16, RT_ELEM_LDBL),
                                  gap = { .size = 4, .extent = 8, .true_extent = 4 },
                                  pair = { .size = 12,
                                           .extent = 16,
                                           .true_extent = 12,
                                           .elem = RT_ELEM_F64_I32 };
    static const struct rt_op add = { .code = RT_OP_SUM }, user = { .code = RT_OP_USER },
                              loc = { .code = RT_OP_MINLOC };
    struct coll_args all = { .kind = COLL_ALLREDUCE, .stype = &f32, .rtype = &f32, .op = &add },
                     bcast = { .kind = COLL_BCAST, .stype = &f32, .rtype = &f32 };
    CHECK_EQ(own(all, 4), 0);
    CHECK_EQ(own(all, COLL_GPU_RANKS_MAX + 1), -RT_ENOTSUP);
    all.op = &user;
    CHECK_EQ(own(all, 4), -RT_ENOTSUP);
    all.op = &add;
    all.rtype = all.stype = &ldbl;
    CHECK_EQ(own(all, 4), -RT_ENOTSUP);
    all.rtype = all.stype = &gap;
    CHECK_EQ(own(all, 4), -RT_ENOTSUP);
    all.op = &loc;
    all.rtype = all.stype = &pair; /* as C lays it out: kernels support it */
    CHECK_EQ(own(all, 4), 0);
    CHECK_EQ(own(bcast, 4), 0);
    bcast.rtype = &gap;
    CHECK_EQ(own(bcast, 4), -RT_ENOTSUP);
    bcast.rtype = &f32;
    bcast.kind = COLL_NEIGHBOR_ALLGATHER;
    CHECK_EQ(own(bcast, 4), -RT_ENOTSUP);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        seed = strtoull(argv[1], NULL, 0);
        ncases = argc > 2 ? atoi(argv[2]) : 1;
    }
    RUN(random_calls);
    RUN(short_blocks_go_together);
    RUN(long_blocks_go_one_after_another);
    RUN(calls_that_do_not_agree_fail_on_all);
    RUN(what_has_no_plan);
    plan_world_end(&world);
    return check_end();
}
