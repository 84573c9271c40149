/* SPDX-License-Identifier: BSD-3-Clause */
/* Queries about device buffers, extensions with the names of MPICH and Open MPI, and the release of
 * device memory; declared at the end of mpi.h.  Any thread, at any time, also before MPI_Init and
 * after MPI_Finalize. */
#include "mpi/api/bind.h"
#include "mpi/p2p/domain.h"
#include "runtime/gpu/dev.h"

WM_EXPORT int PMPIX_GPU_query_support(int gpu_type, int *is_supported)
{
    static const char call[] = "MPIX_GPU_query_support";
    if (rt_unlikely(!is_supported))
        return wm_raise_comm(NULL, wm_bad_null("argument 2 (is_supported)", MPI_ERR_ARG), call);
    if (rt_unlikely(gpu_type < MPIX_GPU_SUPPORT_CUDA || gpu_type > MPIX_GPU_SUPPORT_HIP))
        return wm_raise_comm(NULL,
                             wm_err(MPI_ERR_ARG,
                                    "argument 1 (gpu_type) is %d, which is none of "
                                    "MPIX_GPU_SUPPORT_CUDA, ..._ZE and ..._HIP",
                                    gpu_type),
                             call);
    *is_supported = gpu_type == MPIX_GPU_SUPPORT_CUDA && wm_has_gpu();
    return MPI_SUCCESS;
}
WM_WEAK(MPIX_GPU_query_support);

WM_EXPORT int PMPIX_Query_cuda_support(void) { return wm_has_gpu(); }
WM_WEAK(MPIX_Query_cuda_support);

/* Devices of other vendors are not supported; the functions exist so that programs that call them
 * link. */
WM_EXPORT int PMPIX_Query_ze_support(void) { return 0; }
WM_WEAK(MPIX_Query_ze_support);

WM_EXPORT int PMPIX_Query_hip_support(void) { return 0; }
WM_WEAK(MPIX_Query_hip_support);

WM_EXPORT int PMPIX_Query_rocm_support(void) { return 0; }
WM_WEAK(MPIX_Query_rocm_support);

/* Waits for the device, as cudaFree does; does nothing while work on a stream may wait for another
 * process, because that wait might never end. */
WM_EXPORT int PMPIX_GPU_release(void)
{
    struct wm_domain *d = rt_load_acquire(&wm_main_domain);
    if (!d)
        return MPI_SUCCESS;
    rt_lock(&d->lock);
    rt_gpu_run_deferred();
    rt_unlock(&d->lock);
    return MPI_SUCCESS;
}
WM_WEAK(MPIX_GPU_release);
