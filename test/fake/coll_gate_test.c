/* SPDX-License-Identifier: BSD-3-Clause */
/* The gate of device collectives: programs of many calls, several under way, in which each rank
 * passes host or device memory at random, ranks drift apart, ranges cannot be described or mapped,
 * and devices work at any time and in any order, as far as a plan leaves it open.  Device memory is
 * plain memory here; what matters is who reads and writes it when. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "coll/gpu/gpu.h"
#include "runtime/base/err.h"
#include "runtime/gpu/kernel.h"
#include "test/check.h"
#include "test/fake/coll_case.h"
#include "test/fake/coll_fake.h"

#define NCALLS 60
#define SHM_ROOM (16u << 20)
#define NJOBS 4096
#define DEVICE ((struct rt_gpu *)1) /* only compared */

static const int64_t counts[] = { 0, 1, 6, 7, 90, 512, 3000, 40000 };

/* How often things go the other way, in 64ths. */
static struct odds {
    unsigned host, no_describe, no_attach, freed, fail, no_memory;
} odds;
static int unreachable; /* so many mappings are refused for good */
static int ndevice, nstaged; /* calls of ranks */
static int nregs, nmaps;     /* that are there */

/* ---- devices ---- */

static struct job {
    struct rt_gpu_op *op;
    bool is_fold;
    struct rt_gpu_fold fold;
} jobs[NJOBS];
static int njobs;
static struct fake *now; /* the one fake at a time */

static void fold_u32(const struct rt_gpu_fold *f)
{
    for (size_t i = 0; i < f->count; i++) {
        uint32_t sum = 0, x;
        for (int s = 0; s < f->nsrc; s++) {
            memcpy(&x, (const char *)f->src[s] + 4 * i, 4);
            sum += x;
        }
        for (int d = 0; d < f->ndst; d++)
            memcpy((char *)f->dst[d] + 4 * i, &sum, 4);
    }
}

static void fold_copy(const struct rt_gpu_fold *f)
{
    for (int d = 0; d < f->ndst; d++)
        if (f->dst[d] != f->src[0])
            memcpy(f->dst[d], f->src[0], f->count * rt_gpu_type_nbytes(f->type));
}

static bool has_kernels(struct rt_gpu *g)
{
    (void)g;
    return true;
}

static bool can_fold(struct rt_gpu *g, unsigned type, unsigned code)
{
    (void)g;
    return code == RT_GPU_FOLD_COPY || (code == RT_GPU_FOLD_SUM && type == RT_GPU_U32);
}

static struct job *job_new(struct rt_gpu_op *op)
{
    if (njobs == NJOBS)
        abort();
    jobs[njobs].op = op;
    return &jobs[njobs++];
}

static void start_fold(struct rt_gpu *g, const struct rt_gpu_fold *f, struct rt_gpu_op *op)
{
    struct job *j = job_new(op);
    (void)g;
    j->is_fold = true;
    j->fold = *f;
}

static void start_copy(struct rt_gpu *g, void *dst, const void *src, size_t len,
                       struct rt_gpu_op *op)
{
    struct job *j = job_new(op);
    (void)g;
    j->is_fold = false;
    op->dst = dst;
    op->src = src;
    op->len = len;
}

static int take(struct rt_gpu *g, bool host, size_t nbytes, struct rt_gpu_stage **out)
{
    struct rt_gpu_stage *s = malloc(sizeof *s + nbytes);
    (void)host;
    s->p = (char *)(s + 1);
    s->len = nbytes;
    s->g = g;
    *out = s;
    nregs++;
    return 0;
}

static void give(struct rt_gpu_stage *s)
{
    free(s);
    nregs--;
}

/* Now and then the memory is another than it was. */
static int query(const void *p, size_t len, struct rt_gpu_ptr *out)
{
    (void)p;
    (void)len;
    memset(out, 0, sizeof *out);
    out->g = DEVICE;
    out->id = fake_random(now, 64) < odds.freed;
    return 0;
}

static const struct coll_gpu_engine engine = { has_kernels, can_fold, start_fold, start_copy, NULL,
                                               take,        give,     query };

/* One job at random ends. */
static bool device_turn(struct fake *f)
{
    if (!njobs || fake_random(f, 3))
        return njobs > 0;
    int i = (int)fake_random(f, (unsigned)njobs);
    struct job j = jobs[i];
    jobs[i] = jobs[--njobs];
    int err = fake_random(f, 64) < odds.fail ? -RT_EGPU : 0;
    if (err < 0)
        ;
    else if (!j.is_fold)
        memmove(j.op->dst, j.op->src, j.op->len);
    else if (j.fold.code == RT_GPU_FOLD_COPY)
        fold_copy(&j.fold);
    else
        fold_u32(&j.fold);
    j.op->done(j.op, err);
    for (int r = 0; r < fake_team(f, 0)->size; r++)
        fake_wake(f, r);
    return true;
}

/* ---- the team's operations ---- */

static int describe(struct coll_team *t, const void *p, size_t len, struct coll_dev_mem *out)
{
    (void)t;
    (void)len;
    if (fake_random(now, 64) < odds.no_describe)
        return -RT_ENOTSUP;
    memset(out, 0, sizeof *out);
    out->at.g = DEVICE;
    out->reg = (void *)(uintptr_t)p;
    memcpy(out->key, &p, sizeof p);
    nregs++;
    return 0;
}

static void release(struct coll_team *t, struct coll_dev_mem *m)
{
    (void)t;
    (void)m;
    nregs--;
}

static int attach(struct coll_team *t, int rank, const void *key, const struct rt_gpu_ptr *near,
                  struct coll_dev_map *out)
{
    (void)rank;
    (void)t;
    (void)near;
    if (unreachable > 0 && unreachable--)
        return -RT_EUNREACH;
    if (fake_random(now, 64) < odds.no_attach)
        return -RT_ENOTSUP;
    memcpy(&out->ptr, key, sizeof out->ptr);
    out->att = out->ptr;
    nmaps++;
    return 0;
}

static void detach(struct coll_team *t, struct coll_dev_map *m)
{
    (void)t;
    (void)m;
    nmaps--;
}

static int stage(struct coll_team *t, struct coll_task *k)
{
    (void)t;
    if (fake_random(now, 64) < odds.no_memory)
        return -RT_ENOMEM;
    nstaged++;
    k->args.mem = RT_MEM_HOST;
    return coll_begin_host(k);
}

static const struct fake_more more = { .ops = { .dev_describe = describe,
                                                .dev_release = release,
                                                .dev_attach = attach,
                                                .dev_detach = detach,
                                                .stage = stage },
                                       .turn = device_turn };

/* ---- programs ---- */

static struct coll_case random_case(struct fake *f, int size, int kind)
{
    struct coll_case c = { .kind = kind < 0 ? (enum coll_kind)fake_random(f, COLL_KINDS)
                                            : (enum coll_kind)kind,
                           .size = size,
                           .root = (int)fake_random(f, (unsigned)size),
                           .salt = fake_random(f, 1000),
                           .in_place = fake_random(f, 2),
                           .gaps = fake_random(f, 16) == 0,
                           .user_op = fake_random(f, 16) == 0 };
    c.count = counts[fake_random(f, size > 4 ? 6 : 8)];
    return c;
}

/* In half of the calls all ranks pass device memory. */
static void choose_memory(struct fake *f, int size, struct coll_args *args)
{
    bool all = fake_random(f, 2);
    for (int r = 0; r < size; r++) {
        args[r].mem = all || fake_random(f, 64) >= odds.host ? RT_MEM_CUDA : RT_MEM_HOST;
        if (args[r].kind == COLL_BARRIER || coll_gpu_has_nothing(fake_team(f, r), &args[r]))
            args[r].mem = RT_MEM_HOST; /* no buffer to tell it by */
    }
}

/* persistent: rounds of starts; 0: ordinary calls. */
static void run_program(int size, int kind, int persistent, unsigned seed)
{
    struct coll_case cases[NCALLS];
    struct coll_buffers *b[NCALLS];
    struct coll_args *args = calloc((size_t)size * NCALLS, sizeof *args);
    struct fake *f = now = fake_create(size, seed, true, SHM_ROOM);
    int window = 1 + (int)fake_random(f, 2 * COLL_GPU_SLOTS);
    coll_gpu_way = (enum coll_gpu_way)(seed % COLL_GPU_WAYS);
    if (odds.no_memory) {
        fake_repeat(f);
        window = 1;
    }
    for (int i = 0; i < NCALLS; i++) {
        cases[i] = random_case(f, size, kind);
        cases[i].in_place &= persistent < 2; /* which changes its input */
        b[i] = coll_case_make(&cases[i], &args[i * size]);
        choose_memory(f, size, &args[i * size]);
        for (int r = 0; r < size; r++)
            ndevice += args[i * size + r].mem != RT_MEM_HOST;
    }
    int err = persistent ? fake_run_fixed(f, args, NCALLS, window, persistent)
                         : fake_run(f, args, NCALLS, window);
    CHECK_MSG(!err, "program of %d ranks, kind %d, window %d, seed %u: error %d", size, kind,
              window, seed, err);
    for (int i = 0; i < NCALLS; i++) {
        if (!err && !check_failed_case) {
            int bad = coll_case_check(&cases[i], &args[i * size], b[i]);
            CHECK_MSG(!bad, "call %d, %s of %lld elements, root %d: %d ranks, window %d, seed %u",
                      i, coll_kind_names[cases[i].kind], (long long)cases[i].count, cases[i].root,
                      size, window, seed);
        }
        coll_case_free(&cases[i], b[i]);
    }
    CHECK_EQ(fake_destroy(f), 0);
    CHECK_EQ(njobs, 0);
    CHECK_EQ(nregs, 0);
    CHECK_EQ(nmaps, 0);
    free(args);
}

static void programs(int kind, struct odds o)
{
    odds = o;
    for (unsigned seed = 1; seed <= 24 && !check_failed_case; seed++) {
        run_program(2 + (int)(seed % 5), kind, 0, seed);
        run_program(2 + (int)(seed % 5), kind, 1 + (int)(seed % 3), seed);
    }
    run_program(9, kind, 0, 99);
    run_program(9, kind, 2, 99);
}

static void all_on_devices(void)
{
    ndevice = nstaged = 0;
    programs(COLL_ALLREDUCE, (struct odds){ 0 });
    CHECK_MSG(nstaged < ndevice / 3, "%d of %d calls went through host memory", nstaged, ndevice);
    programs(-1, (struct odds){ 0 });
}

static void hosts_and_devices(void)
{
    programs(COLL_ALLREDUCE, (struct odds){ .host = 12 });
    programs(-1, (struct odds){ .host = 20 });
}

static void what_cannot_be_mapped(void)
{
    programs(COLL_ALLREDUCE,
             (struct odds){ .host = 4, .no_describe = 4, .no_attach = 4, .freed = 2 });
    programs(-1, (struct odds){ .host = 8, .no_describe = 4, .no_attach = 4, .freed = 2 });
}

/* What one call cannot reach, another may. */
static void what_cannot_be_reached(void)
{
    ndevice = nstaged = 0;
    odds = (struct odds){ 0 };
    for (unsigned seed = 1; seed <= 5; seed++) {
        unreachable = 2;
        run_program(3, COLL_ALLREDUCE, 0, seed);
        CHECK_EQ(unreachable, 0);
    }
    CHECK_MSG(nstaged < ndevice / 2, "%d of %d calls went through host memory", nstaged, ndevice);
}

/* Ranks that could not start a call, after they have said yes, too, make it again. */
static void repeated(void)
{
    odds = (struct odds){ .host = 8, .no_describe = 4, .no_attach = 8, .no_memory = 20 };
    for (unsigned seed = 1; seed <= 24 && !check_failed_case; seed++)
        run_program(2 + (int)(seed % 5), -1, 0, seed);
}

/* An owner of the words that has no devices knows all the same when the others have said theirs. */
static void owner_without_devices(void)
{
    struct coll_team t[2] = { { .rank = 0, .size = 2 }, { .rank = 1, .size = 2 } };
    struct coll_args a = { .kind = COLL_ALLREDUCE, .mem = RT_MEM_HOST };
    void *shared = aligned_alloc(RT_CACHE_LINE, coll_gpu_nbytes(2));
    memset(shared, 0, coll_gpu_nbytes(2));
    for (int r = 0; r < 2; r++) {
        t[r].ops = &more.ops;
        rt_gpu_watch = r == 1;
        CHECK_EQ(coll_gpu_attach(&t[r], shared), 0);
    }
    CHECK(coll_gpu_quiet(&t[0], shared));
    t[0].gate_calls++; /* as coll_start() does it */
    CHECK(!coll_gpu_quiet(&t[0], shared));
    CHECK(coll_gpu_pass(t[1].gpu, &a));
    CHECK(coll_gpu_quiet(&t[0], shared));
    t[1].rank = 2; /* it gives nothing back */
    coll_gpu_fini(&t[1]);
    free(shared);
}

/* Persistent calls in which a rank has no data go from device to device. */
static void nothing_persistent(void)
{
    enum { SIZE = 3, LEN = 5 };
    static const struct rt_layout u32 = { .size = 4, .extent = 4, .true_extent = 4,
                                          .elem = RT_ELEM_U32, .contig = true };
    static uint32_t in[SIZE][LEN], out[SIZE * LEN];
    int64_t counts_of[SIZE] = { LEN, 0, LEN }, displs[SIZE] = { 0, LEN, LEN };
    struct coll_args args[SIZE];
    odds = (struct odds){ 0 };
    struct fake *f = now = fake_create(SIZE, 1, true, SHM_ROOM);
    for (int r = 0; r < SIZE; r++) {
        args[r] = (struct coll_args){ .kind = COLL_GATHERV, .sbuf = in[r], .rbuf = out };
        args[r].scount = counts_of[r];
        args[r].rcounts = counts_of;
        args[r].rdispls = displs;
        args[r].stype = args[r].rtype = &u32;
        args[r].mem = counts_of[r] ? RT_MEM_CUDA : RT_MEM_HOST;
        for (int i = 0; i < LEN; i++)
            in[r][i] = (uint32_t)(100 * r + i);
    }
    CHECK_EQ(fake_run(f, args, 1, 1), 0); /* shows that there are devices */
    memset(out, 0, sizeof out);
    nstaged = 0;
    CHECK_EQ(fake_run_fixed(f, args, 1, 1, 2), 0);
    CHECK_EQ(nstaged, 0);
    for (int i = 0; i < 2 * LEN; i++)
        CHECK_EQ(out[i], (uint32_t)(200 * (i / LEN) + i % LEN));
    CHECK_EQ(fake_destroy(f), 0);
    CHECK_EQ(nregs + nmaps + njobs, 0);
}

/* Only the rooted calls that let ranks run ahead. */
static void rooted(void)
{
    programs(COLL_BCAST, (struct odds){ .host = 24 });
    programs(COLL_GATHER, (struct odds){ .host = 24, .no_attach = 2 });
    programs(COLL_REDUCE, (struct odds){ .host = 24 });
}

/* Devices fail: all ranks report it, of the same calls, and go on. */
static void failures(void)
{
    struct coll_case cases[NCALLS];
    struct coll_buffers *b[NCALLS];
    odds = (struct odds){ .host = 4, .no_attach = 1, .fail = 8 };
    for (unsigned seed = 1; seed <= 24 && !check_failed_case; seed++) {
        int size = 2 + (int)(seed % 5), fixed = (int)(seed / 5 % 3), err;
        struct coll_args *args = calloc((size_t)size * NCALLS, sizeof *args);
        struct fake *f = now = fake_create(size, seed, true, SHM_ROOM);
        fake_tolerate(f);
        for (int i = 0; i < NCALLS; i++) {
            cases[i] = random_case(f, size, -1);
            b[i] = coll_case_make(&cases[i], &args[i * size]);
            choose_memory(f, size, &args[i * size]);
        }
        err = fixed ? fake_run_fixed(f, args, NCALLS, 7, fixed) : fake_run(f, args, NCALLS, 7);
        CHECK_MSG(!err, "%d ranks, seed %u: error %d", size, seed, err);
        CHECK_MSG(fake_errors(f, 0) > 0, "%d ranks, seed %u: no errors", size, seed);
        for (int r = 1; r < size; r++)
            CHECK_EQ(fake_errors(f, r), fake_errors(f, 0));
        for (int i = 0; i < NCALLS; i++)
            coll_case_free(&cases[i], b[i]);
        CHECK_EQ(fake_destroy(f), 0);
        CHECK_EQ(njobs, 0);
        CHECK_EQ(nregs, 0);
        CHECK_EQ(nmaps, 0);
        free(args);
    }
}

int main(void)
{
    CHECK_EQ(coll_configure(""), 0);
    rt_gpu_watch = true;
    coll_gpu_engine = &engine;
    fake_more = &more;
    RUN(all_on_devices);
    RUN(hosts_and_devices);
    RUN(what_cannot_be_mapped);
    RUN(what_cannot_be_reached);
    RUN(repeated);
    RUN(owner_without_devices);
    RUN(nothing_persistent);
    RUN(rooted);
    RUN(failures);
    return check_end();
}
