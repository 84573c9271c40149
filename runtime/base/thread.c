/* SPDX-License-Identifier: BSD-3-Clause */
#include "runtime/base/thread.h"
#include <signal.h>

int rt_thread_start(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* a new thread inherits the mask */
    int err = pthread_create(t, attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return err;
}
