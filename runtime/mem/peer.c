/* SPDX-License-Identifier: BSD-3-Clause */
/* See peer.h.  Whether yama lets peers in is settled by btl/shm when it opens. */
#include "runtime/mem/peer.h"

#include <errno.h>
#include <sys/uio.h>
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/mem/node.h"

enum { LARGE_AUTO, LARGE_CMA, LARGE_COPY }; /* cfg.shm_large */

static int copy(int rank, void *here, uint64_t there, size_t nbytes, bool read)
{
    const struct rt_bell *b = &rt_node.bells[rank], *own = &rt_node.bells[rt_node.rank];
    if (cfg.shm_large == LARGE_COPY || b->pidns != own->pidns)
        return -RT_ENOTSUP;
    for (size_t done = 0; done < nbytes;) {
        struct iovec l = { (char *)here + done, nbytes - done };
        struct iovec r = { (void *)(uintptr_t)(there + done), nbytes - done };
        pid_t pid = (pid_t)rt_load_acquire(&b->pid);
        ssize_t n = read ? process_vm_readv(pid, &l, 1, &r, 1, 0)
                         : process_vm_writev(pid, &l, 1, &r, 1, 0);
        if (n <= 0)
            return n < 0 && errno == ESRCH ? -RT_EPEER : -RT_ENOTSUP;
        done += (size_t)n;
    }
    return 0;
}

int rt_peer_read(int local_rank, void *to, uint64_t from, size_t nbytes)
{
    return copy(local_rank, to, from, nbytes, true);
}

int rt_peer_write(int local_rank, uint64_t to, const void *from, size_t nbytes)
{
    return copy(local_rank, (void *)(uintptr_t)from, to, nbytes, false);
}
