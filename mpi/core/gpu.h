/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether programs may pass device buffers, as far as they can ask. */
#ifndef WM_CORE_GPU_H
#define WM_CORE_GPU_H

#include <stdbool.h>

/* An NVIDIA device and its driver are here and the settings do not forbid their use.  Loads the
 * driver's library, but does not initialise it: a program may still choose its devices.  Any
 * thread, at any time. */
bool wm_gpu_usable(void);

#endif
