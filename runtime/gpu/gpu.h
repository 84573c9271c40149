/* SPDX-License-Identifier: BSD-3-Clause */
/* GPUs, as the rest of the library sees them: classification of addresses, copies that complete
 * later, staging memory, sharing memory with other processes.  For other folders; the files of
 * runtime/gpu include the headers that they need.
 *
 * runtime/gpu is the only code that calls the CUDA driver, which is opened when a process first
 * needs it: nothing is linked against it, and MPI_Init touches no GPU.
 *
 * Thread rule: any thread may call rt_gpu_is_device() without a lock; everything else, unless
 * stated, is called under the domain's lock.  done() is called from rt_gpu_progress() only. */
#ifndef RT_GPU_GPU_H
#define RT_GPU_GPU_H

#include "runtime/base/clock.h"
#include "runtime/gpu/address.h"
#include "runtime/gpu/atomic.h"
#include "runtime/gpu/classify.h"
#include "runtime/gpu/context.h"
#include "runtime/gpu/copy.h"
#include "runtime/gpu/dev.h"
#include "runtime/gpu/devices.h"
#include "runtime/gpu/driver.h"
#include "runtime/gpu/fold.h"
#include "runtime/gpu/images.h"
#include "runtime/gpu/ipc.h"
#include "runtime/gpu/life.h"
#include "runtime/gpu/links.h"
#include "runtime/gpu/model.h"
#include "runtime/gpu/rdma.h"
#include "runtime/gpu/stage.h"

#endif
