/* SPDX-License-Identifier: BSD-3-Clause */
/* Work on streams of the application.  From the call on, the driver owns the kernels and copies;
 * this file keeps nothing.  A graph that is captured takes them like the application's own.  Under
 * the domain's lock. */
#include "runtime/gpu/stream_ops.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/gpu/gpu_int.h"

static bool have_functions(void)
{
    return rt_cuda.stream_get_ctx && rt_cuda.stream_is_capturing &&
           rt_cuda.thread_exchange_capture_mode;
}

int rt_gpu_stream_of(void *stream, struct rt_gpu **out)
{
    cu_ctx ctx = NULL;
    if (!rt_gpu_watch || rt_cuda_open(false) || !have_functions()) {
        log_info(GPU, "no CUDA stream can be used: %s",
                 !rt_gpu_watch ? "there is no device, or the setting gpu is off"
                               : "no driver of CUDA 11.2 or newer is loaded in this process");
        return -RT_ENOTSUP;
    }
    cu_result r = rt_cuda.stream_get_ctx(stream, &ctx);
    if (r != CU_OK || !ctx) {
        const char *name = NULL;
        rt_cuda.get_error_name(r, &name);
        log_info(GPU, "%p is no CUDA stream of this process: cuStreamGetCtx answered %s", stream,
                 name ? name : "an unknown error");
        return -RT_EINVAL;
    }
    return rt_gpu_of(ctx, -1, out);
}

bool rt_gpu_can_meet(const struct rt_gpu *g) { return g->fn[RT_GPU_MEET] != NULL; }

/* The result of a call on g: 0 or -RT_EGPU, logged. */
static int answer(struct rt_gpu *g, cu_result r, const char *what)
{
    if (r == CU_OK)
        return 0;
    if (rt_gpu_check_lost(g, r))
        return rt_gpu_gone(g);
    rt_cuda_error(r, what);
    return -RT_EGPU;
}

int rt_gpu_stream_capturing(struct rt_gpu *g, void *stream)
{
    int status = CU_CAPTURE_NONE, in = rt_gpu_enter(g);
    if (in < 0)
        return g->lost ? rt_gpu_gone(g) : in;
    cu_result r = rt_cuda.stream_is_capturing(stream, &status);
    rt_gpu_leave(in);
    int err = answer(g, r, "cuStreamIsCapturing on the stream of a communicator");
    return err ? err : status != CU_CAPTURE_NONE;
}

int rt_gpu_stream_idle(struct rt_gpu *g, void *stream)
{
    int in = rt_gpu_enter(g);
    if (in < 0)
        return g->lost ? rt_gpu_gone(g) : in;
    cu_result r = rt_cuda.stream_query(stream);
    rt_gpu_leave(in);
    return r == CU_ERROR_NOT_READY ? 0
           : r == CU_OK            ? 1
                                   : answer(g, r, "cuStreamQuery on the stream of a communicator");
}

int rt_gpu_meet_on(struct rt_gpu *g, void *stream, const struct rt_gpu_meet *m)
{
    struct rt_gpu_meet copy = *m;
    void *params[] = { &copy };
    int in = rt_gpu_enter(g);
    if (in < 0)
        return g->lost ? rt_gpu_gone(g) : in;
    cu_result r = rt_cuda.launch_kernel(g->fn[RT_GPU_MEET], 1, 1, 1, 32, 1, 1, 0, stream, params,
                                        NULL);
    rt_gpu_leave(in);
    return answer(g, r, "starting a kernel on the stream of a communicator");
}

/* The device's attribute is of no use: it describes older functions, which an option of the kernel
 * module enables. */
bool rt_gpu_can_hand(void) { return rt_cuda.stream_write_value32 && rt_cuda.stream_wait_value32; }

int rt_gpu_hand_on(struct rt_gpu *g, void *stream, const struct rt_gpu_hand *h)
{
    cu_ptr word = (cu_ptr)(uintptr_t)h->word, then = (cu_ptr)(uintptr_t)h->then;
    cu_result r = CU_OK;
    int in = rt_gpu_enter(g);
    if (in < 0)
        return g->lost ? rt_gpu_gone(g) : in;
    if (h->begins)
        r = rt_cuda.stream_write_value32(stream, word, h->here, 0);
    if (r == CU_OK && h->ends)
        r = rt_cuda.stream_wait_value32(stream, word, h->here + 1, CU_WAIT_VALUE_GEQ);
    if (r == CU_OK && then)
        r = rt_cuda.stream_write_value32(stream, then, h->value, 0);
    rt_gpu_leave(in);
    return answer(g, r, "enqueuing a wait for the host on the stream of a communicator");
}

/* Between kernels on a stream, a short copy is fastest as another kernel; a kernel cannot write
 * pageable memory of the host. */
static bool kernel_copies(struct rt_gpu *g, const void *dst, size_t len)
{
    return rt_gpu_choose(RT_GPU_LINK_PEER, len, false, true) == RT_GPU_WAY_BATCH &&
           rt_gpu_is_device(dst) && rt_gpu_can_fold(g, RT_GPU_U8, RT_GPU_FOLD_COPY);
}

bool rt_gpu_copies_async(const void *dst)
{
    uint32_t type = 0;
    int attribute = CU_PTR_MEMORY_TYPE;
    void *value = &type;
    return rt_cuda.pointer_get_attributes(1, &attribute, &value, (cu_ptr)(uintptr_t)dst) == CU_OK &&
           type != 0;
}

int rt_gpu_copy_on(struct rt_gpu *g, void *stream, void *dst, const void *src, size_t len)
{
    if (len == 0)
        return 0;
    if (kernel_copies(g, dst, len))
        return rt_gpu_fold_on(g, stream,
                              &(struct rt_gpu_fold){ .type = RT_GPU_U8,
                                                     .code = RT_GPU_FOLD_COPY,
                                                     .nsrc = 1,
                                                     .ndst = 1,
                                                     .count = len,
                                                     .src = { src },
                                                     .dst = { dst } });
    int in = rt_gpu_enter(g);
    if (in < 0)
        return g->lost ? rt_gpu_gone(g) : in;
    cu_result r = rt_cuda.memcpy_async((cu_ptr)(uintptr_t)dst, (cu_ptr)(uintptr_t)src, len, stream);
    rt_gpu_leave(in);
    return answer(g, r, "starting a copy on the stream of a communicator");
}

bool rt_gpu_alive(struct rt_gpu *g)
{
    int in = rt_gpu_enter(g);
    if (in >= 0)
        rt_gpu_leave(in);
    return in >= 0 && !g->lost;
}
