/* SPDX-License-Identifier: BSD-3-Clause */
#include "test/fake/coll_room.h"
#include "runtime/base/cfg.h"
#include "runtime/gpu/gpu_int.h"
#include "test/check.h"

struct rt_gpu *coll_room_gpu;
static cu_ptr room;
static size_t nroom, used;
static int entered;

int coll_room_open(size_t nbytes)
{
    rt_cfg_set("gpu", "on", RT_CFG_CMD);
    rt_gpu_init();
    if (rt_gpu_count() == 0)
        check_skip(rt_gpu_why_not());
    if (rt_gpu_primary(0, &coll_room_gpu) || !rt_gpu_has_kernels(coll_room_gpu))
        check_skip("no kernels: built without nvcc");
    entered = rt_gpu_enter(coll_room_gpu);
    if (entered < 0 || rt_cuda.mem_alloc(&room, nbytes) != CU_OK)
        return -1;
    nroom = nbytes;
    return 0;
}

void coll_room_close(void)
{
    rt_cuda.mem_free(room);
    rt_gpu_leave(entered);
    rt_gpu_fini();
}

static char *next_place(int64_t len)
{
    char *p = (char *)(uintptr_t)room + used;
    used += ((size_t)len + 255) & ~(size_t)255;
    CHECK(used <= nroom);
    return p;
}

char *coll_room_in(char *buf, int64_t len)
{
    char *p = next_place(len);
    CHECK_EQ(rt_gpu_copy_now(coll_room_gpu, p, buf, (size_t)len), 0);
    return p;
}

char *coll_room_out(char *buf, int64_t len)
{
    char *p = next_place(len);
    CHECK_EQ(rt_gpu_copy_now(coll_room_gpu, buf, p, (size_t)len), 0);
    return p;
}

void coll_room_rewind(void) { used = 0; }
