/* SPDX-License-Identifier: BSD-3-Clause */
/* Flushes stdio before a process ends without exit().  fflush() waits for the lock of a stream,
 * which a thread may never give up, and for room in a pipe, which may have no reader: a thread of
 * its own flushes, and the caller waits for that thread for a limited time.  Any thread. */
#include "runtime/base/stdio.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>

#define LIMIT_S 1 /* a pipe with a reader is emptied in this time */

/* stdout first: a locked stream keeps those behind it from being flushed. */
static void *flush(void *arg)
{
    fflush(stdout);
    fflush(NULL);
    return arg;
}

void rt_stdio_flush(void)
{
    struct timespec until;
    sigset_t all, old;
    pthread_t thread;

    /* The application's handlers run in its own threads only, and a pipe without a reader is no
     * reason to die of SIGPIPE. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int err = pthread_create(&thread, NULL, flush, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (err)
        return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LIMIT_S;
    pthread_timedjoin_np(thread, NULL, &until);
}
