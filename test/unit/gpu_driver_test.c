/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding the driver: absent, not loaded, complete, too old; and the errors that result. */
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/gpu/stream_ops.h"
#include "test/check.h"
#include "test/unit/capture.h"
#include "test/unit/gpu_table.h"

#include <sys/mman.h>

static void absent(void)
{
    table_reset();
    table.library = TABLE_ABSENT;
    CHECK_EQ(rt_cuda_open(false), -RT_ENOENT);
    CHECK_EQ(rt_cuda_open(true), -RT_ENOENT);
    CHECK(!rt_cuda.init);
    CHECK_EQ(rt_gpu_count(), 0);
    CHECK_EQ(rt_gpu_driver_version(), 0);
    const char *why = rt_gpu_why_not();
    CHECK_MSG(strstr(why, "/dev/nvidiactl") || strstr(why, "libcuda.so.1"), "why not: %s", why);
}

static void loaded_only_when_asked(void)
{
    table_reset();
    table.library = TABLE_ON_DISK;
    CHECK_EQ(rt_cuda_open(false), -RT_ENOENT);
    CHECK(!rt_cuda.init);
    CHECK_EQ(rt_cuda_open(true), 0);
    CHECK(rt_cuda.init);
    CHECK(rt_cuda.mem_set_access);
    int n = table.ndlopen;
    CHECK_EQ(rt_cuda_open(false), 0);
    CHECK_EQ(rt_cuda_open(true), 0);
    CHECK_EQ(table.ndlopen, n);
    CHECK_EQ(rt_gpu_driver_version(), 13000);
    CHECK_EQ(rt_gpu_count(), 2);
    CHECK(!rt_gpu_why_not());
}

static void optional_functions_may_be_missing(void)
{
    table_reset();
    table.missing = "cuStreamWriteValue32_v2";
    capture_begin();
    CHECK_EQ(rt_cuda_open(false), 0);
    CHECK_STR(capture_end(), "");
    CHECK(!rt_cuda.stream_write_value32);
    table_reset();
    table.missing = "cuDeviceGetUuid_v2";
    CHECK_EQ(rt_cuda_open(false), 0);
    CHECK(rt_cuda.device_get_uuid); /* its older name */
}

/* One warning; device memory is recognised and refused, never accessed. */
static void too_old(void)
{
    char *device = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct rt_gpu_ptr q = { .len = 77 };
    struct rt_gpu *g;
    table_reset();
    table.missing = "cuLaunchKernel";
    table.version = 10020;
    table_add(device, 64, &table.own[0], 0);
    capture_begin();
    CHECK_EQ(rt_cuda_open(false), -RT_ENOENT);
    CHECK_EQ(rt_cuda_open(true), -RT_ENOENT);
    CHECK(rt_gpu_is_device(device));
    CHECK(!rt_gpu_is_device(&q));
    CHECK_EQ(rt_gpu_query(device, 8, &q), -RT_ENOTSUP);
    const char *said = capture_end();
    CHECK_MSG(strstr(said, "cuLaunchKernel") && strstr(said, "10.2"), "said: %s", said);
    CHECK_MSG(said[0] && strchr(said, '\n') == strrchr(said, '\n'), "not one line: %s", said);
    CHECK_EQ(q.len, 77);
    CHECK(!rt_cuda.init && !rt_cuda.mem_alloc); /* a driver is used completely or not at all */
    CHECK_EQ(rt_gpu_count(), 0);
    CHECK_EQ(rt_gpu_driver_version(), 10020);
    CHECK_MSG(strstr(rt_gpu_why_not(), "too old"), "why not: %s", rt_gpu_why_not());
    capture_begin();
    CHECK_EQ(rt_gpu_primary(0, &g), -RT_ENOENT);
    CHECK(strstr(capture_end(), "too old"));
}

static void does_not_start(void)
{
    table_reset();
    table.init = 803;
    CHECK_EQ(rt_gpu_count(), 0);
    CHECK_MSG(strstr(rt_gpu_why_not(), "803, CUDA_ERROR_OTHER (something else)"), "why not: %s",
              rt_gpu_why_not());
    table.init = 999; /* the driver has no text for it */
    CHECK_MSG(strstr(rt_gpu_why_not(), "999, an unknown error"), "why not: %s", rt_gpu_why_not());
    table.init = CU_ERROR_NO_DEVICE;
    CHECK_MSG(strstr(rt_gpu_why_not(), "CUDA_VISIBLE_DEVICES"), "why not: %s", rt_gpu_why_not());
    table.init = CU_OK;
    table.ndevices = 0;
    CHECK_MSG(strstr(rt_gpu_why_not(), "CUDA_VISIBLE_DEVICES"), "why not: %s", rt_gpu_why_not());
}

static void errors(void)
{
    table_reset();
    rt_cuda_open(false);
    capture_begin();
    CHECK_EQ(rt_cuda_error(CU_ERROR_OUT_OF_MEMORY, "cuMemAlloc"), -RT_ENOMEM);
    CHECK_EQ(rt_cuda_error(700, "copying"), -RT_EGPU);
    const char *said = capture_end();
    CHECK_MSG(strstr(said, "cuMemAlloc: the CUDA driver answered 2, CUDA_ERROR_OUT_OF_MEMORY "
                           "(out of memory)"),
              "said: %s", said);
    CHECK_MSG(strstr(said, "copying: the CUDA driver answered 700, CUDA_ERROR_OTHER"), "said: %s",
              said);
    capture_begin();
    CHECK_EQ(rt_cuda_error(CU_ERROR_DEINITIALIZED, "at the end"), -RT_EGPU);
    CHECK_STR(capture_end(), "");
    rt_cuda_forget();
    capture_begin();
    CHECK_EQ(rt_cuda_error(1, "without a table"), -RT_EGPU);
    CHECK(strstr(capture_end(), "without a table"));
}

/* Calls that a capture forbids do not reach the driver in the thread's own mode. */
static void guarded(void)
{
    cu_stream s = NULL;
    int least, greatest;
    table_reset();
    CHECK_EQ(rt_cuda_open(false), 0);
    table.own[0].alive = true;
    rt_cuda.ctx_push_current(&table.own[0]);
    int n = table.nexchanges;
    CHECK_EQ(rt_cuda.ctx_get_stream_priority_range(&least, &greatest), CU_OK); /* FREE */
    CHECK_EQ(table.nexchanges, n);
    table.need_mode = CU_CAPTURE_RELAXED;
    CHECK_EQ(rt_cuda.stream_create_with_priority(&s, CU_STREAM_NON_BLOCKING, greatest), CU_OK);
    CHECK_EQ(table.nexchanges, n + 2);
    CHECK_EQ(table.mode, 0);
    int was = rt_gpu_capture_relax(); /* one relaxation for several calls */
    CHECK_EQ(rt_cuda.stream_synchronize(s), CU_OK);
    CHECK_EQ(rt_cuda.stream_destroy(s), CU_OK);
    rt_gpu_capture_restore(was);
    CHECK_EQ(table.nexchanges, n + 4);
    CHECK_EQ(table.mode, 0);
    CHECK_EQ(rt_cuda_fault(CU_OK), RT_CUDA_FINE);
    CHECK_EQ(rt_cuda_fault(CU_ERROR_NOT_READY), RT_CUDA_FINE);
    for (int r = 900; r <= 907; r++)
        CHECK_EQ(rt_cuda_fault(r), RT_CUDA_CAPTURE);
    CHECK_EQ(rt_cuda_fault(899), RT_CUDA_CALL);
    CHECK_EQ(rt_cuda_fault(908), RT_CUDA_CALL);
    CHECK_EQ(rt_cuda_fault(700), RT_CUDA_CALL);
    CHECK_EQ(rt_cuda_fault(CU_ERROR_CONTEXT_IS_DESTROYED), RT_CUDA_GONE);
    cu_ctx c;
    rt_cuda.ctx_pop_current(&c);
}

int main(void)
{
    RUN(absent);
    RUN(loaded_only_when_asked);
    RUN(optional_functions_may_be_missing);
    RUN(too_old);
    RUN(does_not_start);
    RUN(errors);
    RUN(guarded);
    table_reset();
    return check_end();
}
