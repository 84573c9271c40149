/* SPDX-License-Identifier: BSD-3-Clause */
/* btl/cuda between two processes over the fake driver, with several devices: several in one
 * process, one shared by several processes, devices without access to each other or not visible;
 * lost contexts; calls that the driver refuses. */
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "test/fake/cuda_case.h"
#include "test/unit/capture.h"

#include <unistd.h>

/* One process with two devices: a mapping may be used by copies of either. */
static int own_devices(int rank, void *arg)
{
    static const int want[MEM_HOWS] = {
        0, -RT_EUNREACH, -RT_EUNREACH, -RT_EUNREACH, -RT_EUNREACH, 0
    };
    bool access = !arg;
    struct btl_peer *self;
    struct rt_proc me = { 0, (uint32_t)rank };
    struct btl_mem *m;
    struct btl_rmem *r;
    cu_device d;
    cu_ctx first, second;

    setenv("FAKE_CUDA_PEER", access ? "1" : "0", 1);
    if (pair_start(rank, 0) < 0 || tp->ops->add_peer(tp, &me, NULL, 0, &self) < 0)
        return 1;
    cu.ctx_get_current(&first);
    CHECK_EQ(cu.device_get(&d, 1), CU_OK);
    CHECK_EQ(cu.primary_ctx_retain(&second, d), CU_OK);
    for (int how = 0; how < MEM_HOWS; how++) {
        struct rt_gpu_ptr at;
        cu.ctx_set_current(first);
        cu_ptr p = mem_make((enum mem_how)how, 0, LEN);
        mem_fill(p, LEN, 5);
        cu.ctx_set_current(second);
        cu_ptr q = mem_make(LEGACY, 1, LEN);
        CHECK_EQ(rt_gpu_query((void *)(uintptr_t)p, LEN, &at), 0);
        CHECK_EQ(tp->ops->mem_reg(tp, (void *)(uintptr_t)p, LEN, &at, &m), 0);
        CHECK_EQ(tp->ops->mem_key(m, words->key[rank]), 0);
        int err = attach_key(self, words->key[rank], q, &r);
        CHECK_MSG(err == (access || how == MANAGED ? want[how] : -RT_EUNREACH), "%s: %d",
                  mem_names[how], err);
        if (err == 0) {
            CHECK_EQ(get_now(r, 0, q, LEN), 0);
            CHECK_MSG(mem_is(q, LEN, 5), "%s", mem_names[how]);
            tp->ops->detach(r);
        }
        tp->ops->mem_dereg(m);
    }
    meet(rank);
    tp->ops->del_peer(self);
    return verdict();
}

static void own_memory_of_another_device(void)
{
    if (ndevices > 1)
        CHECK_EQ(pair_run("own-devices", own_devices, NULL), 0);
    if (is_fake && ndevices > 1)
        CHECK_EQ(pair_run("own-apart", own_devices, (void *)1), 0);
}

/* ---- calls that the driver refuses ---- */

static cu_result refuse_open(cu_ptr *p, struct cu_ipc h, unsigned flags)
{
    (void)p, (void)h, (void)flags;
    ncalls_open++;
    return CU_ERROR_OUT_OF_MEMORY;
}

static cu_result refuse_import(cu_handle *h, void *fd, int type)
{
    (void)h, (void)fd, (void)type;
    return CU_ERROR_OUT_OF_MEMORY;
}

static cu_result refuse_reserve(cu_ptr *p, size_t n, size_t align, cu_ptr at, unsigned long long f)
{
    (void)p, (void)n, (void)align, (void)at, (void)f;
    return CU_ERROR_OUT_OF_MEMORY;
}

static cu_result refuse_map(cu_ptr p, size_t n, size_t off, cu_handle h, unsigned long long f)
{
    (void)p, (void)n, (void)off, (void)h, (void)f;
    return CU_ERROR_OUT_OF_MEMORY;
}

static cu_result refuse_access(cu_ptr p, size_t n, const struct cu_access *a, size_t na)
{
    (void)p, (void)n, (void)a, (void)na;
    return CU_ERROR_INVALID_VALUE;
}

enum { OPEN, IMPORT, RESERVE, MAP, ACCESS, NO_VMM, NREFUSED };
static const enum mem_how refused_how[NREFUSED] = { LEGACY, VMM, VMM, VMM, VMM, VMM };

static void refuse(int which)
{
    struct rt_cuda *c = &rt_cuda;
    c->ipc_open_mem_handle = which == OPEN ? refuse_open : c->ipc_open_mem_handle;
    c->mem_import_from_shareable_handle = which == IMPORT ? refuse_import
                                                          : c->mem_import_from_shareable_handle;
    c->mem_address_reserve = which == RESERVE ? refuse_reserve : c->mem_address_reserve;
    c->mem_map = which == MAP ? refuse_map : c->mem_map;
    c->mem_set_access = which == ACCESS   ? refuse_access
                        : which == NO_VMM ? NULL
                                          : c->mem_set_access;
}

static int driver_refuses(int rank, void *arg)
{
    int which = *(int *)arg;
    struct rt_cuda whole;
    struct btl_mem *m;
    struct btl_rmem *r;

    if (pair_start(rank, 0) < 0)
        return 1;
    meet(rank);
    whole = rt_cuda;
    cu_ptr p = mem_make(refused_how[which], 0, LEN), q = mem_make(refused_how[which], 0, LEN);
    if (rank == 0) {
        mem_fill(q, LEN, 12);
        CHECK_EQ(give_key(p, LEN, 0, &m), 0);
        CHECK_EQ(give_key(q, LEN, 1, &m), 0);
    }
    meet(rank);
    if (rank == 1) {
        refuse(which);
        p = mem_make(LEGACY, 0, LEN);
        CHECK(!mem_is(p, LEN, 12) && attach(2, p, &r) < 0); /* its context is in use from here */
        rt_log_configure("gpu:info");
        capture_begin();
        CHECK_EQ(attach(0, p, &r), -RT_ENOTSUP);
        const char *text = capture_end();
        CHECK_MSG(strstr(text, "could not be mapped") && strstr(text, "staged"), "%s", text);
        capture_begin();
        CHECK_EQ(attach(0, p, &r), -RT_ENOTSUP); /* not tried again */
        CHECK(!*capture_end());
        CHECK_EQ(ncalls_open, which == OPEN || which == MAP || which == ACCESS);
        rt_cuda = whole;
        CHECK_EQ(attach(0, p, &r), -RT_ENOTSUP);
        CHECK_EQ(attach(1, p, &r), 0); /* another allocation */
        CHECK_EQ(get_now(r, 0, p, LEN), 0);
        CHECK(mem_is(p, LEN, 12));
        tp->ops->detach(r);
    }
    meet(rank);
    if (rank == 0) { /* an exporter without the functions */
        refuse(which);
        int err = give_key(mem_make(refused_how[which], 0, LEN), LEN, 2, &m);
        CHECK_EQ(err, which == NO_VMM ? -RT_ENOTSUP : 0);
    }
    meet(rank);
    return verdict();
}

static void what_the_driver_refuses_goes_another_way(void)
{
    for (int which = 0; which < NREFUSED; which++)
        CHECK_EQ(pair_run("refuses", driver_refuses, &which), 0);
}

/* ---- devices ---- */

static int no_access(int rank, void *arg)
{
    struct btl_mem *m;
    struct btl_rmem *r;
    (void)arg;

    setenv("FAKE_CUDA_PEER", "0", 1);
    if (pair_start(rank, rank) < 0)
        return 1;
    meet(rank);
    if (rank == 0) {
        CHECK_EQ(give_key(mem_make(LEGACY, 0, LEN), LEN, 0, &m), 0);
        CHECK_EQ(give_key(mem_make(VMM, 0, LEN), LEN, 1, &m), 0);
    }
    meet(rank);
    if (rank == 1) {
        cu_ptr dst = mem_make(LEGACY, 1, LEN);
        CHECK_EQ(tp->ops->attach(peer, words->key[0], NULL, &r), -RT_ENOTSUP);
        rt_log_configure("gpu:info");
        capture_begin();
        CHECK_EQ(attach(0, dst, &r), -RT_EUNREACH);
        const char *text = capture_end();
        CHECK_MSG(strstr(text, "device 1") && strstr(text, "device 0") && strstr(text, "staged"),
                  "%s", text);
        capture_begin();
        for (int i = 0; i < 6; i++)
            CHECK_EQ(attach(i % 2, dst, &r), -RT_EUNREACH);
        CHECK(!*capture_end()); /* logged once */
        CHECK_EQ(ncalls_open, 0);
    }
    meet(rank);
    return verdict();
}

static void devices_without_access_are_told_apart(void)
{
    if (is_fake && ndevices > 1)
        CHECK_EQ(pair_run("no-access", no_access, NULL), 0);
}

/* Each process sees a different device as its number 0. */
static int masks(int rank, void *arg)
{
    struct btl_mem *m;
    struct btl_rmem *r;
    static const enum mem_how kinds[] = { LEGACY, VMM };
    (void)arg;

    setenv("CUDA_VISIBLE_DEVICES", rank ? "1" : "0", 1);
    ndevices = 1;
    if (pair_start(rank, 0) < 0)
        return 1;
    meet(rank);
    cu_ptr dst = mem_make(LEGACY, 0, LEN);
    for (int i = 0; i < 2; i++) {
        if (rank == 0) {
            cu_ptr p = mem_make(kinds[i], 0, LEN);
            mem_fill(p, LEN, 50u + (unsigned)i);
            CHECK_EQ(give_key(p, LEN, i, &m), 0);
        }
        meet(rank);
        int err = rank ? attach(i, dst, &r) : -RT_EUNREACH;
        CHECK(err == 0 || err == -RT_EUNREACH);
        if (err == 0) {
            CHECK_EQ(get_now(r, 0, dst, LEN), 0);
            CHECK(mem_is(dst, LEN, 50u + (unsigned)i));
            tp->ops->detach(r);
        }
        if (rank)
            words->seen[i] = err;
        meet(rank);
    }
    CHECK_EQ(words->seen[0], 0); /* handles may open nevertheless */
    return verdict();
}

static void devices_that_are_not_visible(void)
{
    if (ndevices > 1)
        CHECK_EQ(pair_run("masks", masks, NULL), 0);
}

static struct rt_gpu *gpu_of(cu_ptr p)
{
    struct rt_gpu_ptr at;
    return rt_gpu_query((void *)(uintptr_t)p, 1, &at) == 0 ? at.g : NULL;
}

static int same_device(int rank, void *dev)
{
    bool same = *(int *)dev == 0;
    struct btl_mem *m;

    if (pair_start(rank, rank ? *(int *)dev : 0) < 0)
        return 1;
    meet(rank);
    cu_ptr p = mem_make(LEGACY, 0, LEN);
    if (rank == 0) {
        CHECK_EQ(give_key(p, LEN, 0, &m), 0);
        CHECK(!gpu_of(p)->shared);
    }
    meet(rank);
    if (rank == 1)
        CHECK(gpu_of(p) != NULL); /* it exports nothing, but uses the device */
    meet(rank);
    meet(rank);
    CHECK_EQ(gpu_of(p)->shared, same);
    meet(rank);
    return verdict();
}

static void ranks_on_one_device_know_it(void)
{
    int dev = 0;
    CHECK_EQ(pair_run("same", same_device, &dev), 0);
    dev = 1;
    if (ndevices > 1)
        CHECK_EQ(pair_run("apart", same_device, &dev), 0);
}

/* The importer's context is destroyed and created again; so are its mappings. */
static int context_lost(int rank, void *arg)
{
    cu_device d;
    cu_ctx c;
    (void)arg;

    if (pair_start(rank, 0) < 0)
        return 1;
    meet(rank);
    if (rank == 0)
        many_make(LEGACY, 2);
    meet(rank);
    if (rank == 1) {
        cu.device_get(&d, 0);
        cu.ctx_create(&c, 0, d);
        read_many(0, mem_make(LEGACY, 0, 4096));
        cu.ctx_destroy(c);
        usleep(2000);
        cu.primary_ctx_retain(&c, d);
        cu.ctx_set_current(c);
        read_many(0, mem_make(LEGACY, 0, 4096));
        read_many(1, mem_make(LEGACY, 0, 4096));
        CHECK_EQ(ncalls_open, 3);
        rt_gpu_fini(); /* the library rests and resumes; the transport stays open */
        rt_gpu_init();
        read_many(0, mem_make(LEGACY, 0, 4096));
    }
    meet(rank);
    if (rank == 0)
        many_drop(2);
    return verdict();
}

static void contexts_come_and_go(void) { CHECK_EQ(pair_run("context", context_lost, NULL), 0); }

int main(void)
{
    rt_cfg_load();
    pair_look();
    RUN(own_memory_of_another_device);
    RUN(what_the_driver_refuses_goes_another_way);
    RUN(devices_without_access_are_told_apart);
    RUN(devices_that_are_not_visible);
    RUN(ranks_on_one_device_know_it);
    RUN(contexts_come_and_go);
    return check_end();
}
