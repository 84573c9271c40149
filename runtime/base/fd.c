/* SPDX-License-Identifier: BSD-3-Clause */
/* See fd.h. */
#include "runtime/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <unistd.h>

int rt_accept(int listener, struct sockaddr *addr, socklen_t *len, bool nonblocking)
{
    int fd = accept4(listener, addr, len, SOCK_CLOEXEC | (nonblocking ? SOCK_NONBLOCK : 0));
    if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
        return fd;
    fd = (int)syscall(SYS_accept, listener, addr, len); /* accept() itself is mpirun's own */
    if (fd < 0)
        return fd;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (nonblocking)
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return fd;
}

/* PMIx listens with select(), and libevent waits with epoll unless there is none. */
const char *rt_fd_refused(void)
{
    struct epoll_event e;
    struct timeval now = { 0, 0 };
    if (select(0, NULL, NULL, NULL, &now) < 0)
        return "pselect6";
    int fd = epoll_create1(EPOLL_CLOEXEC);
    const char *refused = fd >= 0 && epoll_wait(fd, &e, 1, 0) < 0 ? "epoll_wait" : NULL;
    int why = errno;
    if (fd >= 0)
        close(fd);
    errno = why;
    return refused;
}
