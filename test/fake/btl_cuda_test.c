/* SPDX-License-Identifier: BSD-3-Clause */
/* btl/cuda between two processes over the fake driver: memory of all kinds, the cache of mappings,
 * memory that is freed and reused, lost descriptors, devices that do not reach each other, a peer
 * that is killed. */
#include "btl/all/all.h"
#include "btl/cuda/cuda.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/mem/deaths.h"
#include "test/fake/btl_pair.h"
#include "test/fake/cuda_case.h"
#include "test/unit/capture.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

/* Mappings that have been closed, including those whose close was deferred. */
static int nclosed(void)
{
    rt_gpu_run_deferred();
    return ncalls_close;
}

#define POISON 0xa5

static int nfds(void)
{
    int n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* ---- kinds of memory ---- */

static const struct piece {
    size_t off, len, to;
} pieces[] = {
    { 0, 0, 0 }, { 0, 1, 3 }, { 7, 8, 1 }, { 1, 4095, 2 }, { 13, 65537, 5 }, { 3, LEN - 3, 1 },
};
#define NPIECES (sizeof pieces / sizeof pieces[0])

/* Rank 1 reads pieces of rank 0's memory, then writes to them. */
static void move_pieces(struct btl_rmem *r, cu_ptr dst, int how)
{
    for (size_t i = 0; i < NPIECES; i++) {
        const struct piece *p = &pieces[i];
        cu.memset_d8(dst, POISON, LEN + 16);
        CHECK_EQ(get_now(r, p->off, dst + 8 + p->to, p->len), 0);
        cu_ptr want = mem_make(LEGACY, 0, LEN);
        mem_fill(want, LEN, 7u + (unsigned)how);
        unsigned char *a = malloc(LEN), *c = malloc(LEN);
        cu.memcpy_now((cu_ptr)(uintptr_t)a, want + p->off, p->len);
        cu.memcpy_now((cu_ptr)(uintptr_t)c, dst + 8 + p->to, p->len);
        CHECK_MSG(!memcmp(a, c, p->len), "%s: %zu bytes at %zu differ", mem_names[how], p->len,
                  p->off);
        CHECK(mem_all(dst, 8 + p->to, POISON));
        CHECK(mem_all(dst + 8 + p->to + p->len, 16 - 8 - p->to, POISON));
        free(a);
        free(c);
        cu.mem_free(want);
    }
    CHECK_EQ(get_now(r, 1, dst, LEN), -RT_EINVAL);
    CHECK_EQ(get_now(r, LEN + 1, dst, 0), -RT_EINVAL);
    mem_fill(dst, LEN, 900);
    CHECK_EQ(put_now(r, 5, dst, LEN - 5), 0);
}

static int each_kind(int rank, void *arg)
{
    int how = *(int *)arg;
    struct btl_mem *m;
    struct btl_rmem *r, *again;

    if (pair_start(rank, rank) < 0) /* a different device for each rank */
        return 1;
    cu_ptr p = mem_make((enum mem_how)how, rank, LEN + 64);
    CHECK(p != 0);
    meet(rank);
    if (rank == 0) {
        mem_fill(p + 3, LEN, 7u + (unsigned)how);
        CHECK_EQ(give_key(p + 3, LEN, 0, &m), 0);
        CHECK_EQ(tp->ops->mem_offer(peer, m), 0);
        CHECK_EQ(ncalls_fd, how != LEGACY); /* sent once */
    }
    meet(rank);
    if (rank == 1) {
        cu_ptr dst = mem_make(LEGACY, 1, LEN + 64);
        CHECK_EQ(attach(0, dst, &r), 0);
        CHECK_EQ(attach(0, dst, &again), 0);
        CHECK(r->ptr == again->ptr && r->ptr);
        CHECK_EQ(ncalls_open, 1);
        tp->ops->detach(again);
        move_pieces(r, dst, how);
        tp->ops->detach(r);
        CHECK_EQ(nclosed(), 0); /* stays mapped */
    }
    meet(rank);
    if (rank == 0) {
        CHECK(mem_is(p + 8, LEN - 5, 900));
        tp->ops->mem_dereg(m);
    }
    return verdict();
}

static void memory_of_each_kind_is_read_and_written(void)
{
    for (int how = 0; how < MEM_HOWS; how++)
        if (EXPORTABLE(how))
            CHECK_EQ(pair_run("kind", each_kind, &how), 0);
}

static int not_exported(int rank, void *arg)
{
    struct btl_mem *m;
    (void)arg;

    if (pair_start(rank, 0) < 0)
        return 1;
    meet(rank);
    capture_begin();
    for (int how = 0; how < MEM_HOWS; how++) {
        cu_ptr p = mem_make((enum mem_how)how, 0, LEN);
        CHECK_EQ(give_key(p, LEN, 0, &m), EXPORTABLE(how) ? 0 : -RT_ENOTSUP);
        if (EXPORTABLE(how))
            tp->ops->mem_dereg(m);
    }
    int host = 1;
    CHECK_EQ(tp->ops->mem_reg(tp, &host, sizeof host, NULL, &m), -RT_ENOTSUP);
    const char *text = capture_end();
    CHECK_MSG(!*text, "%s", text);
    meet(rank);
    return verdict();
}

static void what_cannot_be_exported_is_refused_silently(void)
{
    CHECK_EQ(pair_run("refused", not_exported, NULL), 0);
}

/* Memory exported to no other process: a key that was not offered, and a key of the own process. */
static int own_memory(int rank, void *arg)
{
    struct btl_peer *self;
    struct rt_proc me = { 0, (uint32_t)rank };
    struct btl_mem *m;
    struct btl_rmem *r;
    (void)arg;

    if (pair_start(rank, rank) < 0 || tp->ops->add_peer(tp, &me, NULL, 0, &self) < 0)
        return 1;
    for (int how = 0; how < MEM_HOWS; how++) {
        cu_ptr p = mem_make((enum mem_how)how, rank, LEN), q = mem_make(LEGACY, rank, LEN);
        mem_fill(p, LEN, 5);
        struct rt_gpu_ptr at;
        CHECK_EQ(rt_gpu_query((void *)(uintptr_t)p, LEN, &at), 0);
        CHECK_EQ(tp->ops->mem_reg(tp, (void *)(uintptr_t)p, LEN, &at, &m), 0);
        CHECK_EQ(tp->ops->mem_offer(self, m), 0);
        CHECK_EQ(tp->ops->mem_key(m, words->key[rank]), 0);
        CHECK_EQ(attach(rank, q, &r), -RT_ENOTSUP); /* not usable by another process */
        CHECK_EQ(attach_key(self, words->key[rank], q, &r), 0);
        CHECK(r->ptr == (void *)(uintptr_t)p);
        CHECK_EQ(get_now(r, 0, q, LEN), 0);
        CHECK(mem_is(q, LEN, 5));
        tp->ops->detach(r);
        tp->ops->mem_dereg(m);
        CHECK_EQ(tp->ops->attach(self, words->key[rank], NULL, &r), -RT_ENOTSUP);
    }
    meet(rank);
    tp->ops->del_peer(self);
    return verdict();
}

static void own_memory_needs_no_export(void) { CHECK_EQ(pair_run("own", own_memory, NULL), 0); }

/* ---- the cache ---- */

/* More mappings than the initial table holds, used in turn: each is mapped once.  When the memory
 * has been freed, progress alone unmaps them; a mapping in use is unmapped when its use ends. */
#define IN_TURN 1700 /* three chunks of slots */
static int in_turn(int rank, void *arg)
{
    static struct btl_mem *m[IN_TURN];
    static cu_ptr p[IN_TURN];
    struct btl_rmem *r;
    (void)arg;

    if (pair_start(rank, 0) < 0)
        return 1;
    meet(rank);
    cu_ptr dst = mem_make(LEGACY, 0, 512);
    for (int i = 0; rank == 0 && i < IN_TURN; i++) {
        p[i] = mem_make(LEGACY, 0, 512);
        mem_fill(p[i], 512, (unsigned)i);
    }
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < IN_TURN; i++) {
            if (rank == 0)
                CHECK_EQ(give_key(p[i], 512, 0, &m[i]), 0);
            meet(rank);
            if (rank == 1) {
                CHECK_EQ(attach(0, dst, &r), 0);
                CHECK_EQ(get_now(r, 0, dst, 512), 0);
                CHECK(mem_is(dst, 512, (unsigned)i));
                if (round == 0 || i + 1 < IN_TURN)
                    tp->ops->detach(r);
            }
            meet(rank);
            if (rank == 0)
                tp->ops->mem_dereg(m[i]);
        }
    if (rank == 1) {
        CHECK_EQ(ncalls_open, IN_TURN);
        CHECK_EQ(nclosed(), 0);
    }
    meet(rank);
    for (int i = 0; rank == 0 && i < IN_TURN; i++)
        if (i % 2)
            mem_free(LEGACY, p[i], 512);
    for (uint32_t i = 0; rank == 0 && i < 100 * IN_TURN; i++)
        tp->ops->progress(tp);
    meet(rank);
    if (rank == 1) {
        CHECK_EQ(nclosed(), IN_TURN / 2 - 1); /* the last one is in use */
        tp->ops->detach(r);
        tp->ops->progress(tp);
        CHECK_EQ(nclosed(), IN_TURN / 2);
        CHECK_EQ(ncalls_open, IN_TURN);
        tp->ops->del_peer(peer);
        CHECK_EQ(nclosed(), ncalls_open); /* no mapping is left */
    }
    meet(rank);
    return verdict();
}

static void mappings_stay_until_the_memory_is_freed(void)
{
    CHECK_EQ(pair_run("in-turn", in_turn, NULL), 0);
}

/* No memory for another mapping: unused mappings are closed, those in use stay. */
static int no_memory(int rank, void *arg)
{
    struct btl_rmem *held, *r;
    (void)arg;

    if (pair_start(rank, 0) < 0)
        return 1;
    meet(rank);
    if (rank == 0)
        many_make(LEGACY, 3);
    meet(rank);
    cu_ptr dst = mem_make(LEGACY, 0, 4096);
    if (rank == 1) {
        read_many(0, dst);
        CHECK_EQ(attach(1, dst, &held), 0);
        room_for_mappings = 0;
        CHECK_EQ(attach(2, dst, &r), -RT_ENOTSUP);
        CHECK_EQ(nclosed(), 1);
        room_for_mappings = true;
        CHECK_EQ(attach(2, dst, &r), -RT_ENOTSUP); /* nothing has been unmapped since */
        CHECK_EQ(get_now(held, 0, dst, 4096), 0);
        tp->ops->detach(held);
    }
    meet(rank);
    if (rank == 0) {
        mem_free(LEGACY, many[1], 4096);
        for (int i = 0; i < 1000; i++)
            tp->ops->progress(tp);
    }
    meet(rank);
    if (rank == 1) {
        CHECK_EQ(nclosed(), 2);
        read_many(2, dst);
    }
    meet(rank);
    if (rank == 0)
        many_drop(3);
    return verdict();
}

static void a_driver_without_memory_unmaps_what_is_unused(void)
{
    CHECK_EQ(pair_run("no-memory", no_memory, NULL), 0);
}

static cu_ptr memory_on(int dev, size_t len)
{
    cu_ctx was, c;
    cu_device d;
    cu.ctx_get_current(&was);
    CHECK_EQ(cu.device_get(&d, dev), CU_OK);
    CHECK_EQ(cu.primary_ctx_retain(&c, d), CU_OK);
    cu.ctx_set_current(c);
    cu_ptr p = mem_make(LEGACY, dev, len);
    cu.ctx_set_current(was);
    return p;
}

/* A descriptor is sent once; for another device of the importer it is sent again. */
static int lost_descriptor(int rank, void *how)
{
    struct btl_rmem *r;
    char key[BTL_KEY_MAX];

    if (pair_start(rank, 0) < 0)
        return 1;
    meet(rank);
    if (rank == 0)
        many_make(*(enum mem_how *)how, 2);
    meet(rank);
    cu_ptr dst = mem_make(LEGACY, 0, 4096), other = 0;
    if (rank == 1) {
        read_many(0, dst);
        read_many(1, dst);
        other = memory_on(1, 4096);
        CHECK_EQ(attach(0, other, &r), -RT_ENOTSUP);
        CHECK_EQ(ncalls_open, 2);
    }
    meet(rank);
    if (rank == 0) {
        CHECK_EQ(tp->ops->mem_offer(peer, many_mem[0]), 0); /* the next message */
        memcpy(key, words->key[0], sizeof key);
        tp->ops->mem_key(many_mem[0], words->key[0]);
        CHECK(!memcmp(key, words->key[0], sizeof key));
    }
    meet(rank);
    if (rank == 1)
        read_many(0, other);
    meet(rank);
    if (rank == 0)
        many_drop(2);
    return verdict();
}

static void a_lost_descriptor_comes_again(void)
{
    enum mem_how how = VMM;
    if (ndevices < 2)
        return;
    CHECK_EQ(pair_run("lost-fd", lost_descriptor, &how), 0);
}

/* The library has rested and released its contexts, while the program has kept its memory: the
 * export still exists, and its descriptor has to be sent again. */
static int rested(int rank, void *how)
{
    struct rt_proc other = { 0, (uint32_t)!rank };
    struct btl_rmem *r;
    void *in_its_place = NULL;

    if (pair_start(rank, 0) < 0)
        return 1;
    meet(rank);
    if (rank == 0)
        many_make(*(enum mem_how *)how, 1);
    meet(rank);
    cu_ptr dst = mem_make(LEGACY, 0, 4096);
    if (rank == 1)
        read_many(0, dst);
    meet(rank);
    if (rank == 0)
        many_drop(1);
    tp->ops->del_peer(peer);
    rt_gpu_fini();
    in_its_place = malloc(sizeof(struct rt_gpu));
    memset(in_its_place, 0xff, sizeof(struct rt_gpu));
    rt_gpu_init();
    CHECK_EQ(tp->ops->add_peer(tp, &other, NULL, 0, &peer), 0);
    for (int round = 0; round < 2; round++) {
        if (rank == 0)
            CHECK_EQ(give_key(many[0], 4096, 0, &many_mem[0]), 0);
        meet(rank);
        if (rank == 1 && round == 0)
            CHECK_EQ(attach(0, dst, &r), -RT_ENOTSUP);
        else if (rank == 1)
            read_many(0, dst);
        meet(rank);
        if (rank == 0)
            many_drop(1);
    }
    free(in_its_place);
    return verdict();
}

static void memory_that_outlives_a_rest(void)
{
    enum mem_how how = VMM;
    CHECK_EQ(pair_run("rested", rested, &how), 0);
}

/* The memory is freed, and another allocation gets its address. */
static int freed(int rank, void *how)
{
    enum mem_how kind = *(enum mem_how *)how;
    struct btl_mem *m;
    struct btl_rmem *r;
    struct cuda_key k;

    if (pair_start(rank, 0) < 0)
        return 1;
    meet(rank);
    cu_ptr p = 0, dst = rank ? mem_make(LEGACY, 0, LEN) : 0;
    for (unsigned round = 0; round < 4; round++) {
        if (rank == 0) {
            cu_ptr last = p;
            p = mem_make(kind, 0, LEN);
            if (round && is_fake)
                CHECK_MSG(p == last, "%s is not given again", mem_names[kind]);
            mem_fill(p, LEN, 30 + round);
            CHECK_EQ(give_key(p, LEN, 0, &m), 0);
            memcpy(words->key[1], words->key[0], BTL_KEY_MAX); /* needed later */
        }
        meet(rank);
        if (rank == 1) {
            CHECK_EQ(attach(0, dst, &r), 0);
            CHECK_EQ(get_now(r, 0, dst, LEN), 0);
            CHECK_MSG(mem_is(dst, LEN, 30 + round), "%s, round %u", mem_names[kind], round);
            tp->ops->detach(r);
            CHECK_EQ(ncalls_open, round + 1);
            CHECK_EQ(nclosed(), round); /* the freed memory is unmapped */
        }
        meet(rank);
        if (rank == 0) {
            tp->ops->mem_dereg(m);
            mem_free(kind, p, LEN);
        }
        meet(rank);
    }
    if (rank == 0) { /* another export shows that the last one has also gone */
        cu_ptr other = mem_make(VMM, 0, LEN);
        CHECK_EQ(give_key(other, LEN, 0, &m), 0);
    }
    meet(rank);
    memcpy(&k, words->key[1], sizeof k);
    CHECK(cuda_slot_at(rt_node.base, cuda_table_of(0), k.slot)->gen != k.gen);
    return verdict();
}

/* ---- several mappings side by side ---- */

#define PART ((size_t)2 << 20)

/* Maps new memory at one part of a buffer. */
static void map_part(cu_ptr at)
{
    const struct cu_alloc_prop prop = { .type = CU_ALLOCATION_PINNED,
                                        .handle_types = CU_HANDLE_POSIX_FD,
                                        .location = { CU_LOCATION_DEVICE, 0 } };
    const struct cu_access a = { { CU_LOCATION_DEVICE, 0 }, CU_ACCESS_READWRITE };
    cu_handle h;
    CHECK_EQ(cu.mem_create(&h, PART, &prop, 0), CU_OK);
    CHECK_EQ(cu.mem_map(at, PART, 0, h, 0), CU_OK);
    CHECK_EQ(cu.mem_set_access(at, PART, &a, 1), CU_OK);
    CHECK_EQ(cu.mem_release(h), CU_OK);
}

/* Rank 1 reads the buffer of a key, which has been filled from this seed, and writes another one.
 */
static void use_key(int k, cu_ptr dst, size_t len, unsigned seed, bool write)
{
    struct btl_rmem *r;
    CHECK_EQ(attach(k, dst, &r), 0);
    CHECK_EQ(get_now(r, 0, dst, len), 0);
    CHECK_MSG(mem_is(dst, len, seed), "key %d", k);
    mem_fill(dst, len, seed + 1);
    if (write)
        CHECK_EQ(put_now(r, 0, dst, len), 0);
    tp->ops->detach(r);
}

/* Two buffers of three mappings each, of which they share two; then the last mapping is replaced.
 */
static int over_seams(int rank, void *arg)
{
    enum { A, B, B_AGAIN };
    const size_t len = 2 * PART;
    struct btl_mem *m[3];
    struct btl_rmem *r;
    cu_ptr p = 0, dst = 0;
    (void)arg;
    if (pair_start(rank, 0) < 0)
        return 1;
    meet(rank);
    if (rank == 0) {
        CHECK_EQ(cu.mem_address_reserve(&p, 4 * PART, 0, 0, 0), CU_OK);
        for (size_t i = 0; i < 4; i++)
            map_part(p + i * PART);
        mem_fill(p + PART / 2, len, 50);
        CHECK_EQ(give_key(p + PART / 2, len, A, &m[A]), 0);
    } else {
        dst = mem_make(LEGACY, 0, len);
    }
    meet(rank);
    if (rank == 1) {
        use_key(A, dst, len, 50, true);
        CHECK_EQ(ncalls_open, 3);
    }
    meet(rank);
    if (rank == 0) {
        CHECK(mem_is(p + PART / 2, len, 51));
        mem_fill(p + PART + 99, len, 60);
        CHECK_EQ(give_key(p + PART + 99, len, B, &m[B]), 0);
    }
    meet(rank);
    if (rank == 1) {
        use_key(B, dst, len, 60, true);
        CHECK_EQ(attach(A, dst, &r), 0); /* still mapped */
        tp->ops->detach(r);
        CHECK_EQ(ncalls_open, 6);
        CHECK_EQ(nclosed(), 0);
    }
    meet(rank);
    if (rank == 0) {
        CHECK(mem_is(p + PART + 99, len, 61));
        CHECK_EQ(cu.mem_unmap(p + 3 * PART, PART), CU_OK);
        map_part(p + 3 * PART);
        mem_fill(p + PART + 99, len, 70);
        CHECK_EQ(give_key(p + PART + 99, len, B_AGAIN, &m[B_AGAIN]), 0);
    }
    meet(rank);
    if (rank == 1) {
        CHECK_EQ(attach(B, dst, &r), -RT_ENOTSUP);
        use_key(B_AGAIN, dst, len, 70, false);
        CHECK_EQ(ncalls_open, 9);
        CHECK_EQ(nclosed(), 3);
        CHECK_EQ(attach(A, dst, &r), 0);
        tp->ops->detach(r);
        CHECK_EQ(ncalls_open, 9);
    }
    meet(rank);
    for (int i = A; rank == 0 && i <= B_AGAIN; i++)
        tp->ops->mem_dereg(m[i]);
    return verdict();
}

static void buffers_of_several_mappings(void) { CHECK_EQ(pair_run("seams", over_seams, NULL), 0); }

/* An unpinned mapping is repinned unchanged.  It does not keep a mapping of freed memory, and is
 * then refused; detached, it does not count. */
static int unpinned(int rank, void *arg)
{
    struct btl_rmem *r[4], *last;
    (void)arg;

    if (pair_start(rank, 0) < 0)
        return 1;
    meet(rank);
    cu_ptr dst = mem_make(LEGACY, 0, 4096);
    if (rank == 0)
        many_make(LEGACY, 6);
    meet(rank);
    for (int i = 0; rank == 1 && i < 4; i++) {
        CHECK_EQ(attach(i, dst, &r[i]), 0);
        void *at = r[i]->ptr;
        for (int again = 0; again < 3; again++) {
            tp->ops->unpin(r[i]);
            CHECK(tp->ops->repin(r[i]));
        }
        CHECK_EQ(r[i]->ptr, at);
        CHECK_EQ(get_now(r[i], 0, dst, 4096), 0);
        CHECK(mem_is(dst, 4096, 100u + (unsigned)i));
    }
    if (rank == 1) {
        CHECK_EQ(ncalls_open, 4);
        tp->ops->unpin(r[0]);
        tp->ops->unpin(r[2]);
    }
    meet(rank);
    if (rank == 0) { /* one is freed, and this is detected */
        tp->ops->mem_dereg(many_mem[2]);
        mem_free(LEGACY, many[2], 4096);
        CHECK_EQ(give_key(mem_make(LEGACY, 0, 4096), 4096, 2, &many_mem[2]), 0);
    }
    meet(rank);
    if (rank == 1) {
        CHECK_EQ(nclosed(), 1);
        CHECK(!tp->ops->repin(r[0])); /* after any end all mappings are checked once */
        tp->ops->detach(r[0]);
        CHECK_EQ(attach(3, dst, &last), 0);
        CHECK(!tp->ops->repin(r[2]));
        tp->ops->detach(r[2]);
        tp->ops->detach(r[1]);
        tp->ops->detach(r[3]);
        tp->ops->unpin(last);
        CHECK(tp->ops->repin(last));
        tp->ops->detach(last);
        for (int i = 3; i < 6; i++)
            read_many(i, dst);
    }
    meet(rank);
    if (rank == 0)
        many_drop(6);
    return verdict();
}

static void unpinned_memory_is_repinned_or_refused(void)
{
    CHECK_EQ(pair_run("unpinned", unpinned, NULL), 0);
}

/* The same without another export or message: progress on both sides is sufficient. */
static int freed_in_progress(int rank, void *arg)
{
    (void)arg;

    if (pair_start(rank, 0) < 0)
        return 1;
    meet(rank);
    cu_ptr dst = mem_make(LEGACY, 0, 4096);
    if (rank == 0)
        many_make(LEGACY, 3);
    meet(rank);
    for (int i = 0; rank == 1 && i < 3; i++)
        read_many(i, dst);
    meet(rank);
    if (rank == 0) {
        tp->ops->mem_dereg(many_mem[1]);
        mem_free(LEGACY, many[1], 4096);
        for (int i = 0; i < 1000; i++)
            tp->ops->progress(tp);
    }
    meet(rank);
    if (rank == 1) {
        CHECK_EQ(nclosed(), 1);
        read_many(2, dst);
        CHECK_EQ(ncalls_open, 3);
        read_many(0, dst);
        CHECK_EQ(ncalls_open, 3);
    }
    meet(rank);
    return verdict();
}

static void freed_memory_is_noticed(void)
{
    static const enum mem_how kinds[] = { LEGACY, VMM };
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pair_run("freed", freed, (void *)(uintptr_t)&kinds[i]), 0);
    CHECK_EQ(pair_run("freed-in-progress", freed_in_progress, NULL), 0);
}

/* A key of a former use of its slot. */
static int stale_key(int rank, void *arg)
{
    struct btl_mem *m;
    struct btl_rmem *r;
    (void)arg;

    if (pair_start(rank, 0) < 0)
        return 1;
    meet(rank);
    cu_ptr p = mem_make(LEGACY, 0, LEN);
    if (rank == 0) {
        CHECK_EQ(give_key(p, LEN, 0, &m), 0);
        tp->ops->mem_dereg(m);
        mem_free(LEGACY, p, LEN);
        CHECK_EQ(give_key(mem_make(VMM, 0, LEN), LEN, 1, &m), 0);
    }
    meet(rank);
    if (rank == 1) {
        struct cuda_key k;
        CHECK_EQ(attach(0, p, &r), -RT_ENOTSUP);
        memcpy(&k, words->key[1], sizeof k);
        for (uint32_t slot = CUDA_SLOTS; slot; slot *= 2) { /* slots that do not exist */
            k.slot = slot;
            CHECK_EQ(attach_key(peer, &k, p, &r), -RT_ENOTSUP);
        }
        k.slot = CUDA_NO_SLOT - 1;
        CHECK_EQ(attach_key(peer, &k, p, &r), -RT_ENOTSUP);
        memcpy(&k, words->key[1], sizeof k);
        k.off = ~(uint64_t)0 - 8;
        CHECK_EQ(attach_key(peer, &k, p, &r), -RT_EINVAL);
        CHECK_EQ(ncalls_open, 0);
    }
    meet(rank);
    return verdict();
}

static void stale_and_wrong_keys_are_refused(void)
{
    CHECK_EQ(pair_run("stale", stale_key, NULL), 0);
}

/* ---- peers ---- */

static int killed(int rank, void *arg)
{
    struct btl_rmem *r;
    (void)arg;

    if (pair_start(rank, 0) < 0)
        return 1;
    meet(rank);
    if (rank == 0) {
        many_make(LEGACY, 2);
        meet(rank);
        meet(rank);
        kill(getpid(), SIGKILL);
    }
    meet(rank);
    cu_ptr dst = mem_make(LEGACY, 0, 4096);
    CHECK_EQ(attach(0, dst, &r), 0);
    meet(rank);
    while (!rt_node_gone_now(0))
        usleep(1000);
    CHECK_EQ(get_now(r, 0, dst, 4096), 0); /* existing mappings stay valid */
    CHECK(mem_is(dst, 4096, 100));
    struct btl_rmem *other;
    CHECK_EQ(attach(1, dst, &other), -RT_EPEER);
    CHECK_EQ(attach(0, dst, &other), 0);
    tp->ops->detach(other);
    tp->ops->detach(r);
    struct btl_mem *m;
    CHECK_EQ(give_key(mem_make(VMM, 0, LEN), LEN, 3, &m), -RT_ENOTSUP);
    return verdict();
}

static void a_killed_peer_leaves_its_mappings(void)
{
    CHECK_EQ(pair_run("killed", killed, NULL), 128 + SIGKILL);
}

/* A descriptor for a process that has not opened its transport yet. */
static int late_peer(int rank, void *arg)
{
    struct btl_mem *m;
    struct btl_rmem *r;
    (void)arg;

    if (rank == 1)
        meet(rank); /* calls MPI_Init only now */
    if (pair_start(rank, 0) < 0)
        return 1;
    cu_ptr p = mem_make(VMM, 0, LEN);
    if (rank == 0) {
        CHECK_EQ(give_key(p, LEN, 0, &m), -RT_ENOTSUP);
        meet(rank);
    }
    meet(rank);
    if (rank == 0) {
        mem_fill(p, LEN, 77);
        CHECK_EQ(give_key(p, LEN, 0, &m), 0);
    }
    meet(rank);
    if (rank == 1) {
        CHECK_EQ(attach(0, p, &r), 0);
        CHECK_EQ(get_now(r, 0, p, LEN), 0);
        CHECK(mem_is(p, LEN, 77));
        tp->ops->detach(r);
    }
    meet(rank);
    return verdict();
}

static void a_late_peer_gets_descriptors_later(void)
{
    CHECK_EQ(pair_run("late", late_peer, NULL), 0);
}

/* More descriptors than fit in the sockets: none is lost permanently, no process waits. */
static int many_descriptors(int rank, void *arg)
{
    enum { N = 300, LAST = KEYS };
    static struct btl_mem *m[N];
    struct btl_rmem *r;
    (void)arg;

    if (pair_start(rank, 0) < 0)
        return 1;
    meet(rank);
    cu_ptr dst = mem_make(LEGACY, 0, 4096);
    for (int i = 0; rank == 0 && i < N; i++) {
        cu_ptr p = mem_make(VMM, 0, 4096);
        mem_fill(p, 4096, 100u + (unsigned)i);
        int err = give_key(p, 4096, i % LAST, &m[i]);
        CHECK(err == 0 || err == -RT_ENOTSUP); /* full: this message takes another path */
        if (i < LAST)
            CHECK_EQ(err, 0);
    }
    meet(rank);
    if (rank == 0) {
        for (int i = 0; i < LAST; i++)
            CHECK_EQ(tp->ops->mem_key(m[i], words->key[i]), 0);
    }
    meet(rank);
    for (int i = 0; rank == 1 && i < LAST; i++) {
        int err = attach(i, dst, &r); /* early ones may have been dropped */
        CHECK(err == 0 || err == -RT_ENOTSUP);
        if (err == 0)
            tp->ops->detach(r);
    }
    meet(rank);
    for (int i = 0; rank == 0 && i < LAST; i++)
        CHECK_EQ(tp->ops->mem_offer(peer, m[i]), 0);
    meet(rank);
    for (int i = 0; rank == 1 && i < LAST; i++)
        read_many(i, dst);
    meet(rank);
    return verdict();
}

static void many_descriptors_at_once(void)
{
    CHECK_EQ(pair_run("many-fds", many_descriptors, NULL), 0);
}

/* Descriptors of messages that took another path are dropped when the memory is freed. */
static int unused_descriptors(int rank, void *arg)
{
    struct btl_mem *m;
    int before = 0;
    (void)arg;

    if (pair_start(rank, 0) < 0)
        return 1;
    mem_make(VMM, 0, LEN); /* memory that the driver opens for its own use */
    meet(rank);
    for (int i = 0; i < 6; i++) {
        if (rank == 0) {
            cu_ptr p = mem_make(VMM, 0, LEN);
            CHECK_EQ(give_key(p, LEN, 0, &m), 0);
            tp->ops->mem_dereg(m);
            mem_free(VMM, p, LEN);
        }
        meet(rank);
        if (i == 0)
            before = nfds();
        meet(rank);
    }
    if (rank == 1)
        CHECK_EQ(nfds(), before);
    return verdict();
}

static void unused_descriptors_are_closed(void)
{
    CHECK_EQ(pair_run("unused-fds", unused_descriptors, NULL), 0);
}

static void nothing_opens_without_a_gpu(void)
{
    static const struct btl_up up;
    struct btl *none = NULL;

    CHECK(!rt_gpu_watch);
    CHECK_EQ(btl_cuda_ops.open(&up, &none, 1), 0);
    CHECK(!btl_cuda_ops.send && btl_find("cuda") == &btl_cuda_ops);
}

static void only_who_sends_offers_messages(void)
{
    struct btl fake = { &btl_cuda_ops,
                        { .flags = BTL_PUT | BTL_GET,
                          .rma_mem = RT_MEM_DEVICE_BITS,
                          .key_len = 8,
                          .latency_ns = 1,
                          .mb_per_s = 1,
                          .put_mb_per_s = 1,
                          .get_mb_per_s = 1 } };

    CHECK(!btl_has_messages(&fake));
    CHECK_EQ(btl_check(&fake), 0);
    capture_begin();
    fake.caps.eager_max = 64;
    CHECK_EQ(btl_check(&fake), -RT_EINTERN);
    fake.caps = (struct btl_caps){ .latency_ns = 1, .mb_per_s = 1 };
    CHECK_EQ(btl_check(&fake), -RT_EINTERN);
    const char *text = capture_end();
    CHECK(strstr(text, "without a function to send") && strstr(text, "neither messages nor"));
}

int main(void)
{
    rt_cfg_load();
    pair_look();
    RUN(nothing_opens_without_a_gpu);
    RUN(only_who_sends_offers_messages);
    RUN(memory_of_each_kind_is_read_and_written);
    RUN(what_cannot_be_exported_is_refused_silently);
    RUN(buffers_of_several_mappings);
    RUN(own_memory_needs_no_export);
    RUN(mappings_stay_until_the_memory_is_freed);
    RUN(a_driver_without_memory_unmaps_what_is_unused);
    RUN(unpinned_memory_is_repinned_or_refused);
    RUN(a_lost_descriptor_comes_again);
    RUN(memory_that_outlives_a_rest);
    RUN(freed_memory_is_noticed);
    RUN(stale_and_wrong_keys_are_refused);
    RUN(a_killed_peer_leaves_its_mappings);
    RUN(a_late_peer_gets_descriptors_later);
    RUN(many_descriptors_at_once);
    RUN(unused_descriptors_are_closed);
    return check_end();
}
