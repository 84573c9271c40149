/* SPDX-License-Identifier: BSD-3-Clause */
/* See peer.h.  When btl/shm opens, it grants the peers access under Yama. */
#include "runtime/mem/peer.h"
#include "runtime/mem/activity.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"

enum { LARGE_AUTO, LARGE_CMA, LARGE_COPY }; /* cfg.shm_large */

/* Tried on this process itself.  A filter may refuse one of the two calls, and to one process of
 * several; an access that can read but not write would fail in the middle of an operation. */
static bool can_move(void)
{
    uint64_t word = 0, copy = 0;
    struct iovec here = { &copy, sizeof copy }, there = { &word, sizeof word };
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == sizeof copy &&
           process_vm_writev(getpid(), &here, 1, &there, 1, 0) == sizeof copy;
}

bool rt_peer_offered(void)
{
    static uint32_t known; /* 0: not tried, 1: no, 2: yes */
    if (!rt_load_relaxed(&known))
        rt_store_relaxed(&known, 1u + can_move());
    return rt_load_relaxed(&known) == 2;
}

const char *rt_peer_obstacle(const struct rt_bell *of)
{
    if (cfg.shm_large == LARGE_COPY)
        return "setting shm_large";
    if (!rt_bell_same_pids(of))
        return "it is in another PID namespace";
    return rt_peer_offered() ? NULL
                             : "the system refuses process_vm_readv or _writev; weft_info --doctor";
}

/* The process's pid, or -RT_ENOTSUP. */
static pid_t pid_of(const struct rt_bell *of)
{
    if (rt_peer_obstacle(of))
        return -RT_ENOTSUP;
    return (pid_t)rt_load_acquire(&of->pid);
}

static ssize_t step(pid_t pid, const struct iovec *here, const struct iovec *there, int n,
                    bool write)
{
    ssize_t k = write ? process_vm_writev(pid, here, 1, there, (unsigned long)n, 0)
                      : process_vm_readv(pid, here, 1, there, (unsigned long)n, 0);
    if (k > 0) {
        rt_activity_moved((uint64_t)k);
        return k;
    }
    return k < 0 && errno == ESRCH ? -RT_EPEER : -RT_ENOTSUP;
}

static int copy(const struct rt_bell *of, void *here, uint64_t there, size_t nbytes, bool write)
{
    pid_t pid = pid_of(of);
    if (pid < 0)
        return pid;
    for (size_t done = 0; done < nbytes;) {
        struct iovec l = { (char *)here + done, nbytes - done };
        struct iovec r = { (void *)(uintptr_t)(there + done), nbytes - done };
        ssize_t n = step(pid, &l, &r, 1, write);
        if (n < 0)
            return (int)n;
        done += (size_t)n;
    }
    return 0;
}

int rt_peer_read(const struct rt_bell *of, void *to, uint64_t from, size_t nbytes)
{
    return copy(of, to, from, nbytes, false);
}

int rt_peer_write(const struct rt_bell *of, uint64_t to, const void *from, size_t nbytes)
{
    return copy(of, (void *)(uintptr_t)from, to, nbytes, true);
}

int rt_peer_move(const struct rt_bell *of, void *here, size_t nbytes, const struct iovec *there,
                 int n, bool write)
{
    pid_t pid = pid_of(of);
    if (pid < 0)
        return pid;
    if (n == 1) /* long pieces may take several calls */
        return copy(of, here, (uint64_t)(uintptr_t)there->iov_base, nbytes, write);
    struct iovec l = { here, nbytes };
    ssize_t k = step(pid, &l, there, n, write);
    size_t done = k > 0 ? (size_t)k : 0;
    if (k < 0 || done == nbytes)
        return k < 0 ? (int)k : 0;
    for (int i = 0; i < n; i++) { /* a call that was cut short: piece by piece */
        int err = copy(of, here, (uint64_t)(uintptr_t)there[i].iov_base, there[i].iov_len, write);
        if (err < 0)
            return err;
        here = (char *)here + there[i].iov_len;
    }
    return 0;
}
