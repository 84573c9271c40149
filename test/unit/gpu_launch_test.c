/* SPDX-License-Identifier: BSD-3-Clause */
/* How kernels are launched: runtime/gpu/launch.c over the device of gpu_copy_dev.h, with graphs,
 * without, and with graphs that the driver refuses; which launches are marked as near; and how
 * often copies query the addresses of their ends. */
#include "test/unit/gpu_copy_dev.h"
#include "test/check.h"
#include "runtime/base/ticks.h"
#include "runtime/base/cfg.h"
#include "runtime/gpu/place.h"

static char *here, *there, *host; /* device memory, another device's, pinned */
#define ROOM (8u << 20)
static struct rt_gpu_op ops[40];
static int ndone;

static void is_done(struct rt_gpu_op *op, int err)
{
    (void)op;
    CHECK_EQ(err, 0);
    ndone++;
}

static struct rt_gpu *start(void)
{
    struct rt_gpu *g = dev_open(true, true);
    here = dev_mem(0, ROOM);
    there = dev_mem(1, ROOM);
    host = dev_mem(-1, ROOM);
    memset(here, 0, ROOM);
    for (unsigned i = 0; i < ROOM / sizeof i; i++) {
        memcpy(there + i * sizeof i, &i, sizeof i);
        memcpy(host + i * sizeof i, &i, sizeof i);
    }
    return g;
}

static void finish(struct rt_gpu *g)
{
    dev_close(g);
    free(host);
    CHECK_EQ(rt_gpu_nactive, 0);
}

static void copy(struct rt_gpu *g, int i, bool near, void *dst)
{
    ops[i].done = is_done;
    (near ? rt_gpu_copy_near : rt_gpu_copy)(g, dst, there + 64, 8, &ops[i]);
}

/* Sums the words of both other places to `here`. */
static void sum(struct rt_gpu *g, int i, bool near, size_t n)
{
    struct rt_gpu_fold f = { .type = RT_GPU_I32,
                             .code = RT_GPU_FOLD_SUM,
                             .nsrc = 2,
                             .ndst = 1,
                             .near = near,
                             .count = n,
                             .src = { there, host },
                             .dst = { here } };
    ops[i].done = is_done;
    rt_gpu_fold(g, &f, &ops[i]);
}

static unsigned word(const char *p)
{
    unsigned v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* One launch of each kind: the polling kernel, a batch, a reduction, a pack. */
static void launch_each(struct rt_gpu *g)
{
    char *to = here + ROOM / 2 + 4096, *packed = here + ROOM / 2;
    struct rt_gpu_pack p = { .packed = (uintptr_t)packed, .user = (uintptr_t)there, .len = 8 };
    memset(here, 0, ROOM);
    ndone = 0;
    for (int i = 0; i < 30; i++)
        copy(g, i, false, to + 64 * i);
    sum(g, 30, false, 1 << 20);
    ops[31].done = is_done;
    rt_gpu_launch(g, RT_GPU_PACK, 1, 32, &p, sizeof p, &ops[31]);
    dev_settle();
    CHECK_EQ(ndone, 32);
    for (int i = 0; i < 30; i++)
        CHECK(!memcmp(to + 64 * i, there + 64, 8));
    for (unsigned i = 0; i < 1 << 20; i += 1000)
        CHECK_EQ(word(here + 4 * i), 2 * i);
    CHECK(!memcmp(packed, there, 8));
}

static int count_launches(void)
{
    int n = 0;
    for (int k = 0; k < RT_GPU_KERNELS; k++)
        n += dev.nlaunch[k];
    return n;
}

static void kernels_go_by_graphs(void)
{
    struct rt_gpu *g = start();
    CHECK_EQ(dev.ngraphs, MOVE_BATCHES + MOVE_LAUNCHES + 1);
    for (int i = 0; i < 10; i++) {
        launch_each(g);
        dev_linger_leave();
    }
    CHECK_EQ(dev.nplain, 0);
    CHECK(dev.nlaunch[RT_GPU_LINGER] >= 10 && dev.nlaunch[RT_GPU_BATCH] >= 10);
    CHECK_EQ(dev.nlaunch[RT_GPU_FOLD_4], 10);
    CHECK_EQ(dev.nlaunch[RT_GPU_PACK], 10);
    finish(g);
    CHECK_EQ(dev.ngraphs, 0);
}

static void kernels_without_graphs(void)
{
    for (dev_graphs = DEV_FEW_GRAPHS; dev_graphs <= DEV_NO_GRAPHS; dev_graphs++) {
        struct rt_gpu *g = start();
        CHECK_EQ(dev.ngraphs, 0);
        launch_each(g);
        CHECK(dev.nplain > 3);
        CHECK_EQ(dev.nplain, count_launches());
        finish(g);
    }
    dev_graphs = DEV_GRAPHS;
}

/* An old driver cannot change a node's function: that kernel is launched without a graph, others
 * with one. */
static void graphs_that_are_refused(void)
{
    static const int which[] = { RT_GPU_LINGER, RT_GPU_BATCH, RT_GPU_FOLD_4, RT_GPU_PACK };
    for (int i = 0; i < 4; i++) {
        struct rt_gpu *g = start();
        dev.no_set = which[i] + 1;
        launch_each(g);
        CHECK(dev.nlaunch[which[i]] > 0);
        CHECK_EQ(dev.nplain, dev.nlaunch[which[i]]);
        dev.no_set = 0;
        dev_linger_leave();
        launch_each(g); /* not tried again */
        CHECK_EQ(dev.nplain, dev.nlaunch[which[i]]);
        finish(g);
    }
    struct rt_gpu *g = start();
    dev.no_set = -1;
    launch_each(g);
    CHECK_EQ(dev.nplain, count_launches());
    finish(g);
}

/* A batch is near if all its copies are. */
static void near_batches(void)
{
    struct rt_gpu *g = start();
    cfg.gpu_linger_us = 0;
    for (int far = -1; far < 4; far++) {
        ndone = 0;
        copy(g, 10, false, here + 8192); /* a batch runs, and the others collect */
        for (int i = 0; i < 4; i++)
            copy(g, i, i != far, here + 64 * i);
        dev_settle();
        CHECK_EQ(dev.batch_n, 4);
        CHECK_EQ(dev.batch_near, far < 0);
        CHECK_EQ(ndone, 5);
    }
    finish(g);
}

/* Launched, and in the ring. */
static void near_reductions(void)
{
    struct rt_gpu *g = start();
    for (int near = 0; near < 2; near++) {
        sum(g, 0, near, 1 << 20);
        dev_settle();
        CHECK_EQ(dev.fold_near, near);
        dev.nnear = 0;
        sum(g, 0, near, 2);
        dev_settle();
        CHECK_EQ(dev.nnear, near);
        CHECK_EQ(dev.nfolds, near + 1);
    }
    finish(g);
}

/* Copies that form one operation: up to five in the ring, with as many blocks as their total length
 * justifies.  This test's device adds, whatever the operation. */
static void copies_together(void)
{
    struct rt_gpu *g = start();
    for (unsigned n = 2; n <= 7; n++) {
        struct rt_gpu_fold f = { .type = RT_GPU_U64,
                                 .code = RT_GPU_FOLD_EACH,
                                 .nsrc = (uint8_t)n,
                                 .ndst = (uint8_t)n,
                                 .count = 1 };
        for (unsigned i = 0; i < n; i++) {
            f.src[i] = host + 64 * i;
            f.dst[i] = (i ? there : here) + 64 * i;
        }
        ops[0].done = is_done;
        dev.nfolds = dev.nlaunch[RT_GPU_FOLD_BITS] = ndone = 0;
        rt_gpu_fold(g, &f, &ops[0]);
        dev_settle();
        CHECK_EQ(ndone, 1);
        CHECK_EQ(dev.nfolds, n <= RT_GPU_RING_PLACES / 2);
        CHECK_EQ(dev.nlaunch[RT_GPU_FOLD_BITS], n > RT_GPU_RING_PLACES / 2);
    }
    dev_linger_leave();
    for (int way = 0; way < 2; way++) { /* one block is enough for two of 8 KiB, but not for five */
        struct rt_gpu_fold f = { .type = RT_GPU_U64,
                                 .code = RT_GPU_FOLD_EACH,
                                 .nsrc = way ? 5 : 2,
                                 .ndst = way ? 5 : 2,
                                 .count = 1024 };
        for (unsigned i = 0; i < f.nsrc; i++) {
            f.src[i] = here + 65536 * i;
            f.dst[i] = there + 65536 * i;
        }
        rt_gpu_fold(g, &f, &ops[0]);
        dev_settle();
        CHECK_EQ(dev.linger_grid, way ? WEFT_LINGER_MANY : 1);
        dev_linger_leave();
    }
    finish(g);
}

/* Up to RT_GPU_RING_WIDE sources are processed in units of 16 bytes, if they are long enough. */
static void units_in_the_ring(void)
{
    static const size_t lens[] = { 256, 272, 4096 };
    struct rt_gpu *g = start();
    const struct move_linger *l = &g->move->linger;
    for (unsigned i = 0; i < 15; i++) {
        size_t len = lens[i % 3], shift = i % 2 ? 4 : 0;
        struct rt_gpu_fold f = { .type = RT_GPU_I32,
                                 .code = RT_GPU_FOLD_SUM,
                                 .nsrc = (uint8_t)(2 + i / 3),
                                 .ndst = 1,
                                 .count = len / 4 };
        for (unsigned s = 0; s < f.nsrc; s++)
            f.src[s] = there + 65536 * s + shift;
        f.dst[0] = here;
        ops[0].done = is_done;
        dev.nfolds = 0;
        rt_gpu_fold(g, &f, &ops[0]);
        dev_settle();
        CHECK_EQ(dev.nfolds, 1);
        unsigned want = shift ? 4 : len <= RT_GPU_RING_SHORT || f.nsrc > RT_GPU_RING_WIDE ? 8 : 16;
        CHECK_EQ(RT_GPU_RING_UNIT(l->ring[l->posted % RT_GPU_RING_SLOTS].fold), want);
    }
    finish(g);
}

/* ---- kernels that do not start ---- */

static int nkernels(void) { return dev.nlaunch[RT_GPU_LINGER] + dev.nlaunch[RT_GPU_BATCH]; }

/* Copies of 100 bytes, each to a page of its own. */
static void many(struct rt_gpu *g, int n)
{
    ndone = 0;
    for (int i = 0; i < n; i++) {
        ops[i].done = is_done;
        rt_gpu_copy(g, here + 4096 * i, there + 4096 * i, 100, &ops[i]);
    }
}

static void are_there(int n)
{
    CHECK_EQ(ndone, n);
    for (int i = 0; i < n; i++)
        CHECK_EQ(memcmp(here + 4096 * i, there + 4096 * i, 100), 0);
    memset(here, 0x5a, ROOM);
}

/* Only the streams of the engines continue. */
static void engines_alone(void)
{
    for (int i = 0; i < 200000000 && rt_gpu_nactive; i++) {
        rt_gpu_progress();
        for (int s = 0; s <= DEV_NOW; s++)
            while (dev_step(s))
                ;
    }
}

static void late_kernels(bool linger)
{
    int n = linger ? 2 : 40;
    struct rt_gpu *g = start();
    cfg.gpu_linger_us = linger ? 200 : 0;
    many(g, n);
    CHECK(nkernels() > 0);
    engines_alone();
    CHECK_EQ(dev.ncopies, n);
    are_there(n);
    int launched = nkernels();
    many(g, 2); /* meanwhile no other one is launched */
    engines_alone();
    are_there(2);
    CHECK_EQ(nkernels(), launched);
    CHECK_EQ(dev.nrecalled, 0);
    dev_run(); /* what starts late copies nothing */
    CHECK(dev.nrecalled > 0);
    for (size_t i = 0; i < ROOM; i++)
        if (here[i] != 0x5a) {
            CHECK_MSG(false, "a kernel that was recalled has written byte %zu", i);
            break;
        }
    for (int i = 0; i < 1000 && g->move->no_kernels; i++) {
        many(g, 1);
        dev_settle();
    }
    CHECK(!g->move->no_kernels);
    int ncopies = dev.ncopies;
    many(g, 1); /* by a kernel again */
    dev_settle();
    are_there(1);
    CHECK(nkernels() > launched);
    CHECK_EQ(dev.ncopies, ncopies);
    finish(g);
}

/* Reductions alone use the ring again, too: no copy comes that asks. */
static void reductions_after_a_late_kernel(void)
{
    struct rt_gpu *g = start();
    sum(g, 0, false, 2);
    for (int i = 0; i < 200000000 && !g->move->no_kernels; i++) {
        rt_gpu_progress();
        dev_step(DEV_NOW);
    }
    CHECK(g->move->no_kernels);
    dev_settle();
    CHECK_EQ(dev.nrecalled, 1);
    CHECK_EQ(dev.nfolds, 0); /* launched for itself */
    sum(g, 0, false, 2);
    dev_settle();
    CHECK_EQ(dev.nfolds, 1);
    finish(g);
}

static struct rt_gpu_recall *word_of(const struct move_recall *r)
{
    return (struct rt_gpu_recall *)(uintptr_t)r->word;
}

/* Adds 5 to the first word of `here`; the old value goes to the second word. */
static void add_five(struct rt_gpu *g, int i)
{
    struct rt_gpu_atomic a = { .type = RT_GPU_I32,
                               .code = RT_GPU_FOLD_SUM,
                               .given = RT_GPU_GIVEN_SRC,
                               .count = 1,
                               .dst = (uintptr_t)here,
                               .src = 5,
                               .old = (uintptr_t)here + 4 };
    ops[i].done = is_done;
    rt_gpu_atomic(g, &a, &ops[i]);
}

/* An atomic change is posted while the polling kernel cannot start: it is carried out once, by a
 * launch of its own, and not again by the kernel that starts late. */
static void changes_after_a_late_kernel(void)
{
    struct rt_gpu *g = start();
    memset(here, 0, 64);
    ndone = 0;
    add_five(g, 0);
    for (int i = 0; i < 200000000 && !g->move->no_kernels; i++) {
        rt_gpu_progress();
        dev_step(DEV_NOW);
    }
    CHECK(g->move->no_kernels);
    dev_settle();
    CHECK_EQ(ndone, 1);
    CHECK_EQ(dev.nrecalled, 1);
    CHECK_EQ(dev.nchanges, 0);
    CHECK_EQ(dev.nlaunch[RT_GPU_ATOMIC], 1);
    CHECK_EQ(word(here), 5);
    CHECK_EQ(word(here + 4), 0);
    add_five(g, 0); /* by the polling kernel again */
    dev_settle();
    CHECK_EQ(dev.nchanges, 1);
    CHECK_EQ(dev.nlaunch[RT_GPU_ATOMIC], 1);
    CHECK_EQ(word(here), 10);
    CHECK_EQ(word(here + 4), 5);

    /* recalled although it has started: the kernel leaves before it has taken the second change */
    struct move_linger *l = &g->move->linger;
    dev_linger_leave();
    add_five(g, 0);
    word_of(&l->recall)->recalled = l->launch;
    add_five(g, 1);
    dev_settle();
    CHECK_EQ(dev.nrecalled, 2);
    CHECK_EQ(dev.nlaunch[RT_GPU_ATOMIC] + dev.nchanges, 4);
    CHECK_EQ(word(here), 20);
    CHECK_EQ(word(here + 4), 15);
    finish(g);
}

static void a_late_polling_kernel(void) { late_kernels(true); }
static void late_batches(void) { late_kernels(false); }

/* ---- kernels recalled before they start, at their start, while they run, at their end ---- */

enum { NPAGES = 40, PAGE = 4096, NENGINES = DEV_NOW + 1 };
static bool in_use[NPAGES];
static size_t lens[NPAGES];
static int nwrong;
static unsigned seed;

static unsigned random_below(unsigned n)
{
    seed = seed * 1103515245u + 12345u;
    return (seed >> 12) % n;
}

static bool is_untouched(const char *p)
{
    size_t i = 0;
    while (i < PAGE && p[i] == 0x5a)
        i++;
    return i == PAGE;
}

/* Both pages change their contents now, so that a later read or write of a kernel is seen. */
static void page_done(struct rt_gpu_op *op, int err)
{
    size_t i = (size_t)(op - ops);
    char *dst = here + PAGE * i, *src = there + PAGE * i;
    nwrong += err || memcmp(dst, src, lens[i]) != 0;
    memset(src, 0x33, PAGE);
    memset(dst, 0x5a, PAGE);
    in_use[i] = false;
}

static void page_start(struct rt_gpu *g, unsigned i)
{
    char *dst = here + (size_t)PAGE * i, *src = there + (size_t)PAGE * i;
    nwrong += !is_untouched(dst);
    memset(src, (int)random_below(250), PAGE);
    in_use[i] = true;
    lens[i] = 1 + random_below(PAGE);
    ops[i].done = page_done;
    rt_gpu_copy(g, dst, src, lens[i], &ops[i]);
}

/* The host recalls a kernel, sees that it has started, and continues as before. */
static void recall_late(struct rt_gpu *g)
{
    struct move_recall *r = &g->move->late.batch[random_below(MOVE_BATCHES)];
    struct move_linger *l = &g->move->linger;
    if (random_below(2) && l->running && !l->recalled)
        word_of(&l->recall)->recalled = l->launch;
    else if (word_of(r)->started != r->before)
        word_of(r)->recalled = r->number;
}

/* `full`: no kernel starts or continues. */
static void one_thing(struct rt_gpu *g, bool full)
{
    unsigned i = random_below(NPAGES);
    switch (random_below(6)) {
    case 0:
        if (!in_use[i])
            page_start(g, i);
        break;
    case 1:
        for (unsigned n = random_below(150); n > 0; n--)
            rt_gpu_progress();
        break;
    case 2:
        if (!full && dev_linger(1) && random_below(8) == 0)
            dev_linger_leave();
        break;
    default: /* of one stream: most of a batch, or the begin of one */
        i = random_below(full ? NENGINES : (unsigned)dev_nstreams());
        for (unsigned n = random_below(12); n > 0 && dev_step((int)i); n--)
            ;
        if (random_below(4) == 0)
            recall_late(g);
    }
}

static void recall_at_random(bool linger)
{
    uint64_t rate = rt_ticks_per_ms;
    struct rt_gpu *g = start();
    bool full = false;
    cfg.gpu_linger_us = linger ? 200 : 0;
    rt_ticks_per_ms = 0; /* looks after every 64 polls */
    dev.by_steps = true;
    memset(here, 0x5a, ROOM);
    seed = 1;
    nwrong = 0;
    for (int i = 0; i < 200000; i++) {
        if (random_below(300) == 0)
            full = !full;
        one_thing(g, full);
    }
    dev_settle();
    for (unsigned i = 0; i < NPAGES; i++)
        nwrong += !is_untouched(here + (size_t)PAGE * i);
    CHECK_EQ(nwrong, 0);
    CHECK(dev.nrecalled > 100 && dev.ncopies > 100);
    CHECK(dev.nparted > 10 || linger);
    CHECK(nkernels() > 1000);
    rt_ticks_per_ms = rate;
    finish(g);
}

static void polling_recalled_at_random(void) { recall_at_random(true); }
static void batches_recalled_at_random(void) { recall_at_random(false); }

static void engines_when_told(void)
{
    cfg.gpu_engines = true;
    struct rt_gpu *g = start();
    many(g, 40);
    dev_settle();
    are_there(40);
    CHECK_EQ(nkernels(), 0);
    CHECK_EQ(dev.ncopies, 40);
    cfg.gpu_engines = false;
    finish(g);
}

/* A copy within the device, to a place between untouched bytes. */
static void within(struct rt_gpu *g, size_t n, int copies, int by_rows)
{
    char *from = here + 64, *to = here + 64 + ROOM / 2;
    memcpy(from, host + n, n);
    to[-1] = to[n] = 7;
    dev.ncopies = dev.nrows = 0;
    ops[0].done = is_done;
    rt_gpu_copy(g, to, from, n, &ops[0]);
    dev_settle();
    CHECK_MSG(!memcmp(to, host + n, n) && to[-1] == 7 && to[n] == 7, "%zu bytes", n);
    CHECK_MSG(dev.ncopies == copies, "%zu bytes: %d copies", n, dev.ncopies);
    CHECK_MSG(dev.nrows == by_rows, "%zu bytes: %d copies by rows", n, dev.nrows);
}

/* Each half of an even length is one copy of two rows; of an odd length, there are two. */
static void through_the_host_in_turns(void)
{
    struct rt_gpu *g = start();
    g->shared = g->in_turns = true;
    within(g, 1, 2, 0);
    for (size_t n = 2; n < 300; n++)
        within(g, n, n % 2 ? 4 : 2, n % 2 ? 4 : 2);
    within(g, RT_GPU_BY_HOST + 1, 4, 4);
    within(g, 2 << 20, 2, 2);
    within(g, (2 << 20) + 1, 1, 0);
    g->in_turns = false; /* MPS */
    within(g, 1, 1, 0);
    within(g, 100, 1, 0);
    CHECK_EQ(nkernels(), 0);
    finish(g);
}

/* Of copies from the host, short ones are two rows. */
static void from_host_in_turns(void)
{
    static const size_t each[] = { 1, 2, 3, 4095, 65534, 65535, 65536, 100000 };
    struct rt_gpu *g = start();
    g->shared = g->in_turns = true;
    for (int i = 0; i < 8; i++) {
        size_t n = each[i];
        bool rows = n > 1 && n < 65536;
        char *to = here + 64;
        to[-1] = to[n] = 7;
        dev.ncopies = dev.nrows = 0;
        ops[0].done = is_done;
        rt_gpu_copy(g, to, host + i, n, &ops[0]);
        dev_settle();
        CHECK_MSG(!memcmp(to, host + i, n) && to[-1] == 7 && to[n] == 7, "%zu bytes", n);
        CHECK_MSG(dev.ncopies == 1 + (rows && n % 2), "%zu bytes: %d copies", n, dev.ncopies);
        CHECK_MSG(dev.nrows == (rows ? dev.ncopies : 0), "%zu bytes: %d by rows", n, dev.nrows);
    }
    finish(g);
}

/* In pieces that leave room in the buffer. */
static void through_the_host_when_told(void)
{
    cfg.gpu_engines = true;
    struct rt_gpu *g = start();
    within(g, RT_GPU_STAGE_LARGE - 4096, 2, 2);
    within(g, RT_GPU_STAGE_LARGE - 4097, 4, 4);
    within(g, RT_GPU_STAGE_LARGE - 4095, 4, 2); /* the last byte alone */
    within(g, RT_GPU_STAGE_LARGE - 128, 4, 4);
    cfg.gpu_engines = false;
    finish(g);
}

/* Of copies that wait together, only short ones go through the host. */
static void crowds_in_turns(void)
{
    static const size_t each[] = { 8, RT_GPU_BY_HOST, RT_GPU_BY_HOST + 2 };
    struct rt_gpu *g = start();
    g->shared = g->in_turns = true;
    for (int i = 0; i < 3; i++) {
        dev.ncopies = dev.nrows = 0;
        for (size_t k = 0; k < 16; k++) {
            ops[k].done = is_done;
            rt_gpu_copy(g, here + ROOM / 2 + k * each[i], here + k * each[i], each[i], &ops[k]);
        }
        dev_settle();
        if (i < 2)
            CHECK_EQ(dev.nrows, 32);
        else
            CHECK_MSG(dev.nrows <= 2, "%d", dev.nrows);
    }
    finish(g);
}

/* Wherever the two ends are, a repeated copy queries neither again. */
static void ends_are_queried_once(void)
{
    struct rt_gpu *g = start();
    for (uintptr_t apart = 1; apart <= 256; apart++) {
        const char *dst = here + (apart << 30), *src = dst + (apart << 21);
        move_link(g->move, dst, src);
        int before = dev.nplaces;
        for (int i = 0; i < 100; i++)
            move_link(g->move, dst, src);
        CHECK_MSG(dev.nplaces == before, "%d queries at a distance of %u granules",
                  dev.nplaces - before, (unsigned)apart);
    }
    finish(g);
}

int main(void)
{
    RUN(kernels_go_by_graphs);
    RUN(kernels_without_graphs);
    RUN(graphs_that_are_refused);
    RUN(near_batches);
    RUN(near_reductions);
    RUN(copies_together);
    RUN(units_in_the_ring);
    RUN(a_late_polling_kernel);
    RUN(late_batches);
    RUN(reductions_after_a_late_kernel);
    RUN(changes_after_a_late_kernel);
    RUN(polling_recalled_at_random);
    RUN(batches_recalled_at_random);
    RUN(engines_when_told);
    RUN(through_the_host_in_turns);
    RUN(from_host_in_turns);
    RUN(through_the_host_when_told);
    RUN(crowds_in_turns);
    RUN(ends_are_queried_once);
    return check_end();
}
