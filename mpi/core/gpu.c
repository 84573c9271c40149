/* SPDX-License-Identifier: BSD-3-Clause */
/* What a program may ask about device buffers: extensions with the names of MPICH and Open MPI,
 * declared at the end of mpi.h.  Any thread, at any time, also before MPI_Init and after
 * MPI_Finalize. */
#include "mpi/core/gpu.h"
#include "mpi/api/bind.h"
#include "mpi/core/life.h"
#include "mpi/p2p/domain.h"
#include "runtime/gpu/gpu.h"
#include <pthread.h>

/* Of calls from outside the library; what opens the driver inside holds the domain's lock. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

bool wm_gpu_usable(void)
{
    if (wm_life_settings() != MPI_SUCCESS)
        return false;
    pthread_mutex_lock(&mutex);
    struct wm_domain *d = rt_load_relaxed(&wm_state.users) ? wm_main_domain : NULL;
    if (d)
        rt_lock(&d->lock);
    else
        rt_gpu_init(); /* nobody uses the library yet, or any more */
    bool usable = rt_gpu_watch && rt_gpu_driver_version() > 0;
    if (d)
        rt_unlock(&d->lock);
    pthread_mutex_unlock(&mutex);
    return usable;
}

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
    *is_supported = gpu_type == MPIX_GPU_SUPPORT_CUDA && wm_gpu_usable();
    return MPI_SUCCESS;
}
WM_WEAK(MPIX_GPU_query_support);

WM_EXPORT int PMPIX_Query_cuda_support(void) { return wm_gpu_usable(); }
WM_WEAK(MPIX_Query_cuda_support);

/* Devices of other makers are not supported; programs that ask for all by name link, too. */
WM_EXPORT int PMPIX_Query_ze_support(void) { return 0; }
WM_WEAK(MPIX_Query_ze_support);

WM_EXPORT int PMPIX_Query_hip_support(void) { return 0; }
WM_WEAK(MPIX_Query_hip_support);

WM_EXPORT int PMPIX_Query_rocm_support(void) { return 0; }
WM_WEAK(MPIX_Query_rocm_support);
