/* SPDX-License-Identifier: BSD-3-Clause */
/* What to do with a message that no process of this version sends. */
#ifndef WM_P2P_MALFORMED_H
#define WM_P2P_MALFORMED_H

#include "runtime/boot/boot.h"

/* Ends the job with a message that names the sender; `what` is short.  Any thread. */
_Noreturn void wm_malformed(const struct rt_proc *from, const char *what, ...)
    __attribute__((format(printf, 2, 3)));

#endif
