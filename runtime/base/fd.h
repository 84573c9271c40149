/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors.  Any thread. */
#ifndef RT_BASE_FD_H
#define RT_BASE_FD_H

#include <stdbool.h>
#include <sys/socket.h>

/* accept4(2) with close-on-exec; `addr` and `len` may be NULL.  By accept(2) where a seccomp filter
 * of a container knows only that call. */
int rt_accept(int listener, struct sockaddr *addr, socklen_t *len, bool nonblocking);
/* The system call that is refused and without which PMIx's threads would wait for ever; NULL: none.
 * errno says why. */
const char *rt_fd_refused(void);

#endif
