/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of the library inside a process of the application. */
#ifndef RT_BASE_THREAD_H
#define RT_BASE_THREAD_H

#include <pthread.h>

/* Starts a thread in which all signals are blocked: signal handlers of the application run in its
 * own threads only, and a pipe without a reader does not kill the process by SIGPIPE.  `attr` may
 * be NULL.  0 or an errno value. */
int rt_thread_start(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *), void *arg);

#endif
