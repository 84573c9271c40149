/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives on device memory that a program repeats: state that is kept from call to call is used
 * while nothing has changed, and only then. */
#include <string.h>
#include "coll/gpu/gate.h"
#include "coll/select.h"
#include "coll/start/start.h"
#include "test/check.h"
#include "test/fake/coll_devices.h"

#define SHM_ROOM (1u << 20)

struct again {
    enum coll_kind kind;
    int count, root, out; /* out: where the result is stored */
    bool in_place;
};
static struct rt_layout again_type; /* the type of all calls */

static void set_type(int64_t nbytes)
{
    again_type = (struct rt_layout){ .size = nbytes,
                                     .extent = nbytes,
                                     .true_extent = nbytes,
                                     .elem = nbytes == 4 ? RT_ELEM_U32 : RT_ELEM_U64,
                                     .contig = true };
}

static uint32_t *again_in(const struct again *c, int r)
{
    bool overwritten = c->in_place || c->kind == COLL_BCAST;
    int64_t block = c->kind == COLL_ALLGATHER && c->in_place ? r * c->count * again_type.size : 0;
    return (uint32_t *)(void *)(fake_places[r].own + (overwritten ? c->out : 0) + block);
}

static void again_args(const struct again *c, struct coll_args *args)
{
    static const struct rt_op sum = { .code = RT_OP_SUM, .commutes = true };
    for (int r = 0; r < FAKE_PLACES; r++) {
        args[r] = (struct coll_args){ .kind = c->kind, .root = c->root, .mem = RT_MEM_CUDA };
        args[r].sbuf = c->in_place && (c->kind != COLL_REDUCE || r == c->root)
                           ? COLL_IN_PLACE
                           : (const void *)again_in(c, r);
        args[r].rbuf = fake_places[r].own + c->out;
        args[r].rcount = c->count;
        args[r].scount = c->kind == COLL_ALLGATHER ? c->count : 0;
        args[r].stype = args[r].rtype = &again_type;
        args[r].op = c->kind == COLL_ALLREDUCE || c->kind == COLL_REDUCE ? &sum : NULL;
    }
}

/* Word i of rank r's result. */
static uint32_t again_result(const struct again *c, uint32_t in[FAKE_PLACES][32], int i)
{
    int words = c->count * (int)again_type.size / 4;
    if (c->kind == COLL_BCAST)
        return in[c->root][i];
    if (c->kind == COLL_ALLGATHER)
        return in[i / words][i % words];
    return in[0][i] + in[1][i] + in[2][i];
}

static void run_again(struct fake *f, const struct again *c, int round)
{
    struct coll_args args[FAKE_PLACES];
    uint32_t in[FAKE_PLACES][32];
    int words = c->count * (int)again_type.size / 4;
    int all = c->kind == COLL_ALLGATHER ? FAKE_PLACES * words : words;
    again_args(c, args);
    for (int r = 0; r < FAKE_PLACES; r++) {
        memset(fake_places[r].own, 0xee, FAKE_PLACE_LEN);
        for (int i = 0; i < words; i++)
            again_in(c, r)[i] = in[r][i] = fake_random(f, 1u << 30);
    }
    CHECK_EQ(fake_run(f, args, 1, 1), 0);
    for (int r = 0; r < FAKE_PLACES; r++) {
        const uint32_t *out = (const uint32_t *)(const void *)(fake_places[r].own + c->out);
        for (int i = 0; i < all && (c->kind != COLL_REDUCE || r == c->root); i++)
            CHECK_MSG(out[i] == again_result(c, in, i), "round %d, %s of %d, rank %d, word %d",
                      round, coll_kind_names[c->kind], c->count, r, i);
        CHECK_EQ(out[all], 0xeeeeeeee);
    }
}

/* The same call, or one with a single change: another count, root, place, another type at the same
 * address, or memory that has moved. */
static void nearly_the_same(void)
{
    static const enum coll_kind kinds[] = { COLL_ALLREDUCE, COLL_REDUCE, COLL_BCAST,
                                            COLL_ALLGATHER };
    struct again c = { COLL_ALLREDUCE, 4, 0, 4096, false };
    dev.odds = (struct fake_odds){ 0 };
    struct fake *f = dev.now = fake_create(FAKE_PLACES, 5, true, SHM_ROOM);
    coll_gpu_way = COLL_GPU_AUTO;
    set_type(4);
    fake_places_open();
    for (int i = 0; i < 600 && !check_failed_case; i++) {
        dev.odds.no_describe = dev.odds.no_attach = fake_random(f, 8) ? 0 : 8;
        switch (fake_random(f, 12)) {
        case 0:
            c.kind = kinds[fake_random(f, 4)];
            break;
        case 1:
            c.count = 3 + (int)fake_random(f, 4);
            break;
        case 2:
            c.root = (int)fake_random(f, FAKE_PLACES);
            break;
        case 3:
            c.in_place = !c.in_place;
            break;
        case 4:
            c.out = c.out == 4096 ? 2048 : 4096;
            break;
        case 5:
            set_type(again_type.size ^ 12);
            break;
        case 6:
            fake_place_move(&fake_places[fake_random(f, FAKE_PLACES)], fake_random(f, 2));
            break;
        default:
            break;
        }
        if (c.kind <= COLL_ALLREDUCE && c.kind != COLL_BCAST)
            set_type(4); /* a type that the devices here can add */
        run_again(f, &c, i);
    }
    CHECK_EQ(fake_destroy(f), 0);
    CHECK_EQ(dev.nregs + dev.nmaps + dev.njobs, 0);
    fake_places_close();
}

/* Plans of repeated calls are kept, also if other calls come in between, and beside persistent
 * calls that are not started.  Of released plans not all are kept. */
static void the_same(void)
{
    enum { FIXED = COLL_GPU_SPARE + 2 };
    static const struct again c[] = { { COLL_ALLREDUCE, 4, 0, 4096, false },
                                      { COLL_BCAST, 4, 1, 2048, false },
                                      { COLL_ALLREDUCE, 4, 0, 4096, true } };
    static struct coll_task fixed[FAKE_PLACES][FIXED];
    struct coll_args args[FAKE_PLACES];
    dev.odds = (struct fake_odds){ 0 };
    struct fake *f = dev.now = fake_create(FAKE_PLACES, 6, true, SHM_ROOM);
    fake_blocking(f);
    set_type(4);
    fake_places_open();
    again_args(&c[0], args);
    for (int r = 0; r < FAKE_PLACES; r++)
        for (int i = 0; i < FIXED; i++)
            coll_prepare(fake_team(f, r), &args[r], &fixed[r][i]);
    dev.nplans = 0;
    for (int i = 0; i < 30; i++)
        run_again(f, &c[i % 3], i);
    CHECK_EQ(dev.nplans, 3 * FAKE_PLACES);
    for (int r = 0; r < FAKE_PLACES; r++)
        for (int i = 0; i < FIXED; i++)
            coll_unprepare(&fixed[r][i]);
    for (int r = 0, n; r < FAKE_PLACES; r++) {
        n = 0;
        for (struct coll_gpu_call *k = fake_team(f, r)->gpu->spare; k; k = k->next)
            n++;
        CHECK_EQ(n, COLL_GPU_SPARE);
    }
    CHECK_EQ(fake_destroy(f), 0);
    CHECK_EQ(dev.nregs + dev.nmaps + dev.njobs, 0);
    fake_places_close();
}

/* A call is recognised by all arguments that its plan depends on. */
static void other_arguments(void)
{
    static const struct again c = { COLL_REDUCE, 4, 1, 4096, false };
    static const struct rt_layout others[] = {
        { .size = 8, .extent = 4, .elem = RT_ELEM_U32, .contig = true },
        { .size = 4, .extent = 8, .elem = RT_ELEM_U32, .contig = true },
        { .size = 4, .extent = 4, .elem = RT_ELEM_F32, .contig = true },
        { .size = 4, .extent = 4, .elem = RT_ELEM_U32, .contig = false },
        { .size = 4, .extent = 4, .elem = RT_ELEM_U32, .contig = true, .lb = 4 },
        { .size = 4, .extent = 4, .elem = RT_ELEM_U32, .contig = true, .true_lb = 4 },
    };
    static const struct rt_op max = { .code = RT_OP_MAX, .commutes = true };
    const int64_t vector[FAKE_PLACES] = { 4, 4, 4 };
    struct coll_args args[FAKE_PLACES];
    dev.odds = (struct fake_odds){ 0 };
    struct fake *f = dev.now = fake_create(FAKE_PLACES, 8, true, SHM_ROOM);
    fake_blocking(f);
    set_type(4);
    fake_places_open();
    run_again(f, &c, 0);
    again_args(&c, args);
    const struct coll_gpu_call *known = fake_team(f, 0)->gpu->spare;
    struct rt_layout same = again_type;
    struct coll_task k = { .args = args[0] };
    k.args.stype = k.args.rtype = &same; /* another address does not matter */
    CHECK(coll_gpu_knows(known, &k));
#define OTHER(field, value) \
    do { \
        struct coll_task o = k; \
        o.field = (value); \
        CHECK_MSG(!coll_gpu_knows(known, &o), "another " #field); \
    } while (0)
    OTHER(background, true);
    OTHER(args.kind, COLL_ALLREDUCE);
    OTHER(args.sbuf, COLL_IN_PLACE);
    OTHER(args.rbuf, fake_places[0].own);
    OTHER(args.scount, 5);
    OTHER(args.rcount, 5);
    OTHER(args.scounts, vector);
    OTHER(args.rcounts, vector);
    OTHER(args.root, 2);
    OTHER(args.op, &max);
    OTHER(args.stype, NULL);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        OTHER(args.stype, &others[i]);
        OTHER(args.rtype, &others[i]);
    }
    CHECK_EQ(fake_destroy(f), 0);
    fake_places_close();
}

int main(void)
{
    CHECK_EQ(coll_configure(""), 0);
    fake_devices_use();
    RUN(nearly_the_same);
    RUN(the_same);
    RUN(other_arguments);
    return check_end();
}
