/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives of several hosts on device memory, over a driver, the fake one or a real one.  The
 * ranks of a host vote; the parts among them go from device to device, or by messages if memory
 * cannot be shared.  Programs of many calls, several in progress at once, against a naive
 * reference.  The messages between hosts must be the same as for host memory.  All ranks are in
 * this process and on one device. */
#include <stdlib.h>
#include <string.h>
#include "coll/hier/hier.h"
#include "coll/hier/on_device.h"
#include "coll/sched_gpu.h"
#include "coll/select.h"
#include "runtime/base/err.h"
#include "runtime/gpu/gpu.h"
#include "runtime/gpu/gpu_int.h"
#include "test/check.h"
#include "test/fake/coll_fake.h"
#include "test/fake/coll_room.h"

#define ROOM ((size_t)256 << 20)
#define SHM_ROOM (24u << 20)
#define NCALLS 24
#define RANKS_MAX 9

static struct fake *now;
/* How often ranks veto, and memory cannot be described or mapped, in 64ths. */
static struct {
    unsigned no, no_describe, no_attach;
} odds;
static int ayes, nstaged, nmaps, nregs, nattached;
static cu_result (*mem_alloc)(cu_ptr *, size_t);

/* ---- the team's operations ---- */

static int describe(struct coll_team *t, const void *p, size_t len, struct coll_dev_mem *out)
{
    (void)t;
    if (fake_random(now, 64) < odds.no_describe)
        return -RT_ENOTSUP;
    int err = rt_gpu_query(p, len, &out->at);
    if (err < 0)
        return err;
    memset(out->key, 0, sizeof out->key);
    memcpy(out->key, &p, sizeof p);
    out->reg = out;
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
    (void)t;
    (void)near;
    CHECK(rank < t->size);
    if (fake_random(now, 64) < odds.no_attach)
        return -RT_ENOTSUP;
    memcpy(&out->ptr, key, sizeof out->ptr);
    out->att = out->ptr;
    nmaps++;
    nattached++;
    return 0;
}

static void detach(struct coll_team *t, struct coll_dev_map *m)
{
    (void)t;
    (void)m;
    nmaps--;
}

static void unpin(struct coll_team *t, struct coll_dev_map *m, int n)
{
    for (int i = 0; i < n; i++) {
        if (m[i].att)
            detach(t, &m[i]);
        m[i].att = NULL;
    }
}

static bool repin(struct coll_team *t, struct coll_dev_map *m, int n)
{
    (void)t;
    (void)m;
    (void)n;
    return false;
}

static struct rt_gpu *device(struct coll_team *t, const struct coll_args *a)
{
    (void)t;
    (void)a;
    if (fake_random(now, 64) < odds.no)
        return NULL;
    ayes++;
    return coll_room_gpu;
}

/* All ranks of a host come here, or none. */
static int stage(struct coll_team *t, struct coll_task *k)
{
    (void)t;
    nstaged++;
    rt_cuda.mem_alloc = mem_alloc;
    k->messages = true;
    return coll_begin_device(k, coll_room_gpu);
}

static bool turn(struct fake *f)
{
    bool busy = rt_gpu_nactive > 0;
    if (busy)
        rt_gpu_progress();
    for (int r = 0; busy && r < fake_team(f, 0)->size; r++)
        fake_wake(f, r);
    return busy;
}

static const struct fake_more more = { .ops = { .dev_describe = describe,
                                                .dev_release = release,
                                                .dev_attach = attach,
                                                .dev_detach = detach,
                                                .dev_unpin = unpin,
                                                .dev_repin = repin,
                                                .device = device,
                                                .stage = stage },
                                       .turn = turn };

/* ---- programs ---- */

static const char *const maps[] = { "0011", "0001", "0112", "0101", "000111", "001122", "02102" };

static int parse(const char *text, int *node_of)
{
    int n = 0;
    for (; text[n]; n++)
        node_of[n] = text[n] - '0';
    return n;
}

/* Runs the calls; *cost gets the messages between hosts. */
static int run(const struct coll_case *cases, int n, const char *map, unsigned seed, int window,
               bool on_device, struct fake_cost *cost)
{
    int node_of[RANKS_MAX] = { 0 }, size = parse(map, node_of), bad = 0;
    struct coll_args *args = calloc((size_t)(size * n), sizeof *args);
    struct coll_buffers *b[NCALLS];
    fake_more = on_device ? &more : NULL;
    struct fake *f = now = fake_create_nodes(size, seed, node_of, SHM_ROOM);
    coll_room_rewind();
    for (int i = 0; i < n; i++) {
        b[i] = coll_case_make(&cases[i], &args[i * size]);
        if (on_device)
            coll_case_each(&cases[i], b[i], coll_room_in, &args[i * size]);
        for (int r = 0; on_device && r < size; r++)
            args[i * size + r].mem = RT_MEM_CUDA;
    }
    if (on_device)
        fake_use_device(f, coll_room_gpu);
    int err = fake_run(f, args, n, window);
    *cost = fake_cost(f);
    coll_room_rewind();
    for (int i = 0; i < n; i++) {
        if (on_device)
            coll_case_each(&cases[i], b[i], coll_room_out, NULL);
        bad += !err && coll_case_check(&cases[i], &args[i * size], b[i]);
        coll_case_free(&cases[i], b[i]);
    }
    int left = fake_destroy(f);
    CHECK_MSG(!err && !bad && !left && !nregs && !nmaps && !rt_gpu_nactive,
              "%d calls, the first %s of %lld, on map %s, window %d, seed %u%s: error %d, %d "
              "wrong, %d messages, %d ranges, %d mappings left",
              n, coll_kind_names[cases[0].kind], (long long)cases[0].count, map, window, seed,
              on_device ? "" : " on the host", err, bad, left, nregs, nmaps);
    free(args);
    return err;
}

static struct coll_case random_case(unsigned *state, int size)
{
    static const int64_t counts[] = { 1, 7, 90, 512, 3000, 40000 };
    unsigned v[4];
    for (int i = 0; i < 4; i++) {
        *state = *state * 1103515245u + 12345u;
        v[i] = *state >> 16;
    }
    return (struct coll_case){ .kind = (enum coll_kind)(COLL_BCAST + v[0] % COLL_EXSCAN),
                               .size = size,
                               .root = (int)(v[1] % (unsigned)size),
                               .count = counts[v[2] % 6],
                               .in_place = v[3] & 1,
                               .salt = v[3] >> 1 };
}

static void programs(unsigned no, unsigned no_describe, unsigned no_attach)
{
    odds.no = no;
    odds.no_describe = no_describe;
    odds.no_attach = no_attach;
    for (unsigned seed = 1; seed <= 21 && !check_failed_case; seed++) {
        struct coll_case cases[NCALLS];
        struct fake_cost cost;
        const char *map = maps[seed % 7];
        unsigned state = seed * 77;
        for (int i = 0; i < NCALLS; i++)
            cases[i] = random_case(&state, (int)strlen(map));
        run(cases, NCALLS, map, seed, 1 + (int)(seed % 8), true, &cost);
    }
}

static void all_on_devices(void) { programs(0, 0, 0); }

static void some_say_no(void) { programs(8, 0, 0); }

/* After a unanimous vote: these parts go by messages. */
static void what_cannot_be_mapped(void) { programs(4, 6, 6); }

/* ---- each algorithm ---- */

/* Whether ranks of a host vote on this kind: not if only each rank itself knows the length of its
 * data. */
static bool is_voted(enum coll_kind kind)
{
    return kind != COLL_ALLTOALLV && kind != COLL_ALLTOALLW;
}

/* The number of ranks that are alone on their host, which need not vote. */
static int lone(const char *map)
{
    int n = 0;
    for (const char *p = map; *p; p++)
        n += strchr(map, *p) == strrchr(map, *p);
    return n;
}

static void run_alg(const struct coll_alg *alg, const char *map, int64_t count)
{
    char spec[128];
    snprintf(spec, sizeof spec, "%s:%s", coll_kind_names[alg->kind], alg->name);
    CHECK_EQ(coll_configure(spec), 0);
    for (unsigned v = 0; v < 2 && !check_failed_case; v++) {
        struct coll_case c = { .kind = alg->kind,
                               .size = (int)strlen(map),
                               .root = (int)(v + 1),
                               .count = count,
                               .in_place = v & 1,
                               .salt = v };
        struct fake_cost host, dev;
        ayes = nstaged = nattached = 0;
        run(&c, 1, map, 1, 1, true, &dev);
        CHECK_MSG(!is_voted(c.kind) || (ayes && nattached && nstaged == lone(map)),
                  "%s:%s on map %s: %d votes, %d stage, %d mappings", coll_kind_names[c.kind],
                  alg->name, map, ayes, nstaged, nattached);
        run(&c, 1, map, 1, 1, false, &host);
        CHECK_MSG(host.messages == dev.messages && host.bytes == dev.bytes,
                  "%s:%s on map %s: %lld messages and %lld bytes between devices' hosts, %lld and "
                  "%lld elsewhere",
                  coll_kind_names[c.kind], alg->name, map, (long long)dev.messages,
                  (long long)dev.bytes, (long long)host.messages, (long long)host.bytes);
    }
}

static void each_algorithm(void)
{
    const struct coll_alg *alg;
    odds.no = odds.no_describe = odds.no_attach = 0;
    for (int i = 0; (alg = coll_alg_at(i)); i++) {
        if (!(alg->need & COLL_NEED_NODES) || alg->kind == COLL_BARRIER)
            continue;
        run_alg(alg, "0011", 37);
        run_alg(alg, "0001", 1);
        run_alg(alg, "0112", 700);
        if (alg->kind == COLL_BCAST || alg->kind == COLL_ALLREDUCE)
            run_alg(alg, "0011", 150001);
    }
    CHECK_EQ(coll_configure(""), 0);
}

/* Short data are copied through host memory. */
static void short_ones_are_staged(void)
{
    struct coll_case c = { .kind = COLL_ALLREDUCE, .size = 4, .count = 1000 };
    struct fake_cost cost;
    fake_override.device_min = 8001;
    ayes = nstaged = 0;
    run(&c, 1, "0011", 1, 1, true, &cost);
    CHECK_EQ(ayes, 0);
    CHECK_EQ(nstaged, 4);
    fake_override.device_min = 1;
}

static cu_result none_left(cu_ptr *p, size_t nbytes)
{
    (void)p;
    (void)nbytes;
    return CU_ERROR_OUT_OF_MEMORY;
}

/* A rank without memory for its schedule vetoes, also while it waits behind another call.
 * Temporaries get longer each time, because existing ones are kept. */
static void no_memory(void)
{
    CHECK_EQ(coll_configure("allreduce:hier"), 0);
    for (unsigned seed = 1; seed <= 3 && !check_failed_case; seed++) {
        struct coll_case cases[3];
        struct fake_cost cost;
        for (int i = 0; i < 3; i++)
            cases[i] = (struct coll_case){ .kind = COLL_ALLREDUCE, .size = 4, .count = 100 };
        cases[1].count = (int64_t)550001 << (seed - 1);
        nstaged = 0;
        rt_cuda.mem_alloc = none_left;
        run(cases, 3, "0011", seed, 3, true, &cost);
        CHECK_MSG(nstaged >= 2, "seed %u: %d calls are staged", seed, nstaged);
    }
    CHECK_EQ(coll_configure(""), 0);
}

int main(void)
{
    if (coll_room_open(ROOM))
        return 1;
    mem_alloc = rt_cuda.mem_alloc;
    fake_override.device_min = 1;
    RUN(each_algorithm);
    RUN(all_on_devices);
    RUN(some_say_no);
    RUN(what_cannot_be_mapped);
    RUN(short_ones_are_staged);
    RUN(no_memory);
    coll_room_close();
    return check_end();
}
