/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether programs may pass device buffers, for the query functions. */
#ifndef WM_CORE_GPU_H
#define WM_CORE_GPU_H

#include <stdbool.h>

/* Whether an NVIDIA device and its driver are present and the settings do not disable them.  Loads
 * the driver's library, but does not initialise it: a program may still choose its devices.  Any
 * thread, at any time. */
bool wm_gpu_usable(void);

#endif
