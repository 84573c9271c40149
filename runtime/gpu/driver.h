/* SPDX-License-Identifier: BSD-3-Clause */
/* The CUDA driver in this process: whether it is loaded, captures, and what its errors mean.
 * rt_cuda_...() are for runtime/gpu and tests. */
#ifndef RT_GPU_DRIVER_H
#define RT_GPU_DRIVER_H

#include <stdbool.h>

/* Whether this process has loaded the driver; with `load`, loads it.  OLD: functions are missing;
 * only attributes of addresses can be queried, so that device memory is refused with an error and
 * not accessed.  Any thread. */
enum rt_gpu_driver { RT_GPU_DRIVER_NONE, RT_GPU_DRIVER_READY, RT_GPU_DRIVER_OLD };
enum rt_gpu_driver rt_gpu_driver(bool load);
/* Between these two calls a capture forbids no driver call to this thread; nested pairs cost
 * nothing.  Each call of class GUARDED or WAITS (cu.h) has such a pair of its own, so this is
 * for a caller that makes several.  Any thread. */
int rt_gpu_capture_relax(void);
void rt_gpu_capture_restore(int was);

/* Called when the driver lacks memory: whether some has been freed.  Set by dev.c. */
extern bool (*rt_cuda_make_room)(void);
/* Fills the table from a libcuda that this process has loaded already, or, with `load`, loads it.
 * 0, or -RT_ENOENT; a repeated call is cheap.  Initialises nothing. */
int rt_cuda_open(bool load);
/* A call has returned r, a cu_result.  Logs it with the driver's name and text of the error;
 * returns -RT_EGPU, or -RT_ENOMEM for the device's memory. */
int rt_cuda_error(int r, const char *what);

/* What an error of the driver is about.  Every decision about errors starts here. */
enum rt_cuda_fault {
    RT_CUDA_FINE,    /* none, or a stream or event that is not ready */
    RT_CUDA_CALL,    /* this call alone, or an error of a kernel, which later calls return, too */
    RT_CUDA_CAPTURE, /* a capture of any stream: never a failure of the context */
    RT_CUDA_GONE     /* the context does not exist any more */
};
enum rt_cuda_fault rt_cuda_fault(int r);

void rt_cuda_forget(void); /* for tests: the table is empty, the next open starts again */

#endif
