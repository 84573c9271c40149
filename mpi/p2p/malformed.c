/* SPDX-License-Identifier: BSD-3-Clause */
/* See malformed.h.  The sender has been authenticated, so this is no attack: memory or the network
 * is faulty, or the processes run different versions.  Going on would give wrong results. */
#include "mpi/p2p/malformed.h"
#include "runtime/boot/jobs.h"

#include <stdarg.h>
#include <stdio.h>

void wm_malformed(const struct rt_proc *from, const char *what, ...)
{
    char text[112], whole[240]; /* as long as mpirun prints */
    va_list args;
    va_start(args, what);
    vsnprintf(text, sizeof text, what, args);
    va_end(args);
    snprintf(whole, sizeof whole,
             "rank %u%s sent a malformed message: %s; its memory or the network is faulty, or it "
             "runs another version of Weft",
             from->rank, rt_boot_of_job(from->ns), text);
    rt_boot_abort(1, whole);
}
