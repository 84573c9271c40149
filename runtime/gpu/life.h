/* SPDX-License-Identifier: BSD-3-Clause */
/* Start and end of the use of devices.
 *
 * MPI_Init calls rt_gpu_init() after the settings are read and before the first buffer can be
 * classified.  MPI_Finalize (the last user of the library, when no operation of the engine is left
 * and every import has been released) calls rt_gpu_fini(), also from atexit.  rt_gpu_init() may
 * follow again.  Everything except rt_gpu_is_device() runs under the domain's lock. */
#ifndef RT_GPU_LIFE_H
#define RT_GPU_LIFE_H

#include <stddef.h>

void rt_gpu_init(void); /* sets rt_gpu_watch; costs an access(2) */
/* Called when something is set up that messages may use later: prepares the calling thread's
 * current context, if there is one, because that takes long and waits for the device (streams,
 * kernels).  A context that no such call has seen is prepared by its first message. */
void rt_gpu_prepare(void);
/* Memory of the device of the calling thread's current context, which other processes can map.
 * -RT_ENOTSUP: the thread has no context; -RT_ENOMEM, not logged; -RT_EGPU. */
int rt_gpu_take(size_t len, void **out);
void rt_gpu_give(void *p); /* freed later: the free waits for the device */
/* Waits for operations in progress and frees everything; tolerates that the application has
 * destroyed its contexts already. */
void rt_gpu_fini(void);

#endif
