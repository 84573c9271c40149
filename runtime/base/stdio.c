/* SPDX-License-Identifier: BSD-3-Clause */
/* Flushes stdio before a process ends without exit().  fflush() waits for the lock of a stream,
 * which a thread may never release, and for room in a pipe, which may have no reader.  So a new
 * thread flushes, and the caller waits for it for a limited time.  Any thread. */
#include "runtime/base/stdio.h"
#include "runtime/base/thread.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>

#define LIMIT_S 1 /* a reader empties a pipe within this time */

/* Flushes stdout first: fflush(NULL) would wait at a locked stream before it reaches the others. */
static void *flush(void *arg)
{
    fflush(stdout);
    fflush(NULL);
    return arg;
}

void rt_stdio_flush(void)
{
    struct timespec until;
    pthread_t thread;

    if (rt_thread_start(&thread, NULL, flush, NULL))
        return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LIMIT_S;
    pthread_timedjoin_np(thread, NULL, &until);
}
