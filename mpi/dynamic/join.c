/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Comm_join (MPI-5.0 section 11.10.5): two processes with a connected socket become an
 * intercommunicator.  Both send a hello; then the socket serves wm_link() as the connection of the
 * roots.  Each message is read to its last byte and no further, so that the socket holds nothing
 * afterwards.  If a process has no transport that reaches other jobs, both return MPI_SUCCESS and
 * MPI_COMM_NULL.  Any thread, without the domain's lock; waits. */
#include "mpi/api/bodies.h"
#include "mpi/base/comm.h"
#include "mpi/dynamic/link.h"
#include "mpi/dynamic/port.h"
#include "mpi/p2p/domain.h"
#include "runtime/base/err.h"
#include "runtime/base/hmac.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

struct hello {
    char magic[8];
    uint8_t random[15]; /* the greater one is the accepting side */
    uint8_t able;       /* 0, or 1: transports that reach other jobs are open */
};
static const char magic[8] = "weftjoin"; /* without a zero at the end */

static int check_socket(int fd)
{
    int type = 0;
    struct sockaddr_storage peer;
    socklen_t len = sizeof type, peer_len = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len))
        return wm_err(MPI_ERR_ARG, "argument fd: %d is not a socket: %s", fd, strerror(errno));
    if (type != SOCK_STREAM)
        return wm_err(MPI_ERR_ARG, "argument fd: socket %d is not of type SOCK_STREAM", fd);
    if (getpeername(fd, (struct sockaddr *)&peer, &peer_len))
        return wm_err(MPI_ERR_ARG, "argument fd: socket %d is not connected: %s", fd,
                      strerror(errno));
    return MPI_SUCCESS;
}

/* Waits without limit, until the other process calls MPI_Comm_join. */
static int recv_hello(struct wm_domain *d, int fd, struct hello *h)
{
    switch (wm_port_record(d, fd, magic, h, sizeof *h, 0)) {
    case 0:
        return MPI_SUCCESS;
    case -RT_EPEER:
        return wm_err(MPI_ERR_OTHER,
                      "argument fd: the other process has closed the socket before it joined");
    case -RT_EINVAL:
        return wm_err(MPI_ERR_OTHER,
                      "argument fd: the socket held other data than those of a call of "
                      "MPI_Comm_join at its other end");
    default:
        return wm_err(MPI_ERR_OTHER, "argument fd: the socket failed: %s", strerror(errno));
    }
}

/* *able: both processes can be connected; *accepts: this one is the accepting side. */
static int greet(struct wm_domain *d, int fd, bool *able, bool *accepts)
{
    struct hello mine = { .able = 0 }, other;
    int err = rt_random(mine.random, sizeof mine.random);
    if (err)
        return wm_err_rt(err, "greeting the other process");
    memcpy(mine.magic, magic, sizeof magic);
    rt_lock(&d->lock);
    mine.able = wm_domain_open_jobs(d) == 0;
    rt_unlock(&d->lock);
    err = wm_port_swap(d, fd, &mine, sizeof mine, NULL, 0);
    if (err)
        return wm_err(MPI_ERR_OTHER, "argument fd: the socket failed: %s", strerror(errno));
    err = recv_hello(d, fd, &other);
    if (err)
        return err;
    int order = memcmp(mine.random, other.random, sizeof mine.random);
    if (!order)
        return wm_err(MPI_ERR_OTHER, "argument fd: the other end of the socket returns what it "
                                     "receives");
    *able = mine.able && other.able == 1;
    *accepts = order > 0;
    return MPI_SUCCESS;
}

/* A descriptor of its own, because wm_link() closes it. */
static int dial_given(const struct wm_dial *how, int *fd)
{
    *fd = fcntl(how->fd, F_DUPFD_CLOEXEC, 0);
    if (*fd < 0)
        return wm_err(MPI_ERR_OTHER, "no descriptor for the socket: %s", strerror(errno));
    return MPI_SUCCESS;
}

int wm_api_comm_join(int fd, struct wm_comm **intercomm)
{
    struct wm_dial how = { .dial = dial_given, .fd = fd };
    bool able = false;
    *intercomm = NULL;
    int err = check_socket(fd);
    if (!err)
        err = greet(wm_comm_self->dom, fd, &able, &how.accepts);
    if (err)
        return err;
    if (able)
        return wm_link(wm_comm_self, 0, &how, intercomm);
    log_warn(MPI, "MPI_Comm_join gives MPI_COMM_NULL: one of the processes has no transport that "
                  "reaches other jobs; see WEFT_BTL");
    return MPI_SUCCESS;
}
