/* SPDX-License-Identifier: BSD-3-Clause */
/* Every algorithm over messages with device buffers, temporaries and reductions, over a driver, the
 * fake one or a real one: many rank counts, counts and layouts, in and out of place, against a
 * naive reference.  All ranks are in this process and on one device. */
#include <stdio.h>
#include <stdlib.h>
#include "coll/select.h"
#include "runtime/base/err.h"
#include "runtime/gpu/gpu.h"
#include "runtime/gpu/gpu_int.h"
#include "test/check.h"
#include "test/fake/coll_fake.h"
#include "test/fake/coll_room.h"

#define ROOM ((size_t)128 << 20)

static void run_case(const struct coll_case *c, const char *alg, unsigned seed)
{
    struct coll_args *args = calloc((size_t)c->size, sizeof *args);
    struct coll_buffers *b = coll_case_make(c, args);
    struct fake *f = fake_create(c->size, seed, false, 0);
    coll_room_rewind();
    coll_case_each(c, b, coll_room_in, args);
    for (int r = 0; r < c->size; r++)
        args[r].mem = RT_MEM_CUDA;
    fake_use_device(f, coll_room_gpu);
    int err = fake_run(f, args, 1, 1), left = fake_destroy(f);
    coll_room_rewind();
    coll_case_each(c, b, coll_room_out, NULL);
    int bad = coll_case_check(c, args, b);
    CHECK_MSG(!err && !bad && !left && !rt_gpu_nactive,
              "%s:%s ranks %d root %d count %lld%s%s seed %u: error %d, %d messages left",
              coll_kind_names[c->kind], alg, c->size, c->root, (long long)c->count,
              c->in_place ? " in place" : "", c->gaps ? " gaps" : "", seed, err, left);
    coll_case_free(c, b);
    free(args);
}

static bool takes(const struct coll_alg *alg)
{
    return !(alg->need & COLL_NEED_ONE_NODE) && alg->kind > COLL_BARRIER &&
           alg->kind < COLL_NEIGHBOR_ALLGATHER;
}

static bool reduces(enum coll_kind k)
{
    return k == COLL_REDUCE || k == COLL_ALLREDUCE ||
           (k >= COLL_REDUCE_SCATTER && k <= COLL_EXSCAN);
}

static void run_alg(const struct coll_alg *alg, int size, int64_t count)
{
    char spec[128];
    snprintf(spec, sizeof spec, "%s:%s", coll_kind_names[alg->kind], alg->name);
    CHECK_EQ(coll_configure(spec), 0);
    for (unsigned v = 0; v < 4 && !check_failed_case; v++) {
        struct coll_case c = { .kind = alg->kind,
                               .size = size,
                               .root = (int)(v * 5 + 2) % size,
                               .count = count,
                               .in_place = v & 1,
                               .gaps = v & 2,
                               .salt = v };
        if (c.gaps && reduces(c.kind))
            continue; /* these are staged */
        run_case(&c, alg->name, v * 100 + (unsigned)size);
    }
}

static void small_counts(void)
{
    static const int sizes[] = { 2, 3, 4, 5, 8 };
    const struct coll_alg *alg;
    for (int i = 0; (alg = coll_alg_at(i)); i++)
        for (int k = 0; takes(alg) && k < 5; k++) {
            run_alg(alg, sizes[k], 1);
            run_alg(alg, sizes[k], 37);
        }
}

/* Temporaries as long as a staging buffer, and longer ones. */
static void large_counts(void)
{
    const struct coll_alg *alg;
    for (int i = 0; (alg = coll_alg_at(i)); i++)
        if (takes(alg))
            run_alg(alg, 3, 30001);
    run_alg(coll_alg_find(COLL_ALLREDUCE, "recursive_doubling"), 2, 530001);
    run_alg(coll_alg_find(COLL_ALLREDUCE, "ring"), 2, 1060001);
    run_alg(coll_alg_find(COLL_ALLREDUCE, "tree"), 2, 530001);
}

static cu_result none_left(cu_ptr *p, size_t nbytes)
{
    (void)p;
    (void)nbytes;
    return CU_ERROR_OUT_OF_MEMORY;
}

/* The call has not started then, and is staged or repeated. */
static void no_memory(void)
{
    struct coll_case c = { .kind = COLL_ALLREDUCE, .size = 2, .count = 1100001 };
    struct coll_args args[2];
    struct coll_buffers *b = coll_case_make(&c, args);
    cu_result (*alloc)(cu_ptr *, size_t) = rt_cuda.mem_alloc;
    CHECK_EQ(coll_configure("allreduce:recursive_doubling"), 0);
    coll_room_rewind();
    coll_case_each(&c, b, coll_room_in, args);
    args[0].mem = args[1].mem = RT_MEM_CUDA;
    for (int again = 0; again < 2; again++) {
        struct fake *f = fake_create(2, 1, false, 0);
        fake_use_device(f, coll_room_gpu);
        rt_cuda.mem_alloc = again ? alloc : none_left;
        CHECK_EQ(fake_run(f, args, 1, 1), again ? 0 : -RT_ENOMEM);
        CHECK_EQ(fake_destroy(f), 0);
    }
    coll_room_rewind();
    coll_case_each(&c, b, coll_room_out, NULL);
    CHECK_EQ(coll_case_check(&c, args, b), 0);
    coll_case_free(&c, b);
}

int main(void)
{
    if (coll_room_open(ROOM))
        return 1;
    RUN(small_counts);
    RUN(large_counts);
    RUN(no_memory);
    coll_room_close();
    return check_end();
}
