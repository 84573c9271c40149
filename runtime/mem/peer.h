/* SPDX-License-Identifier: BSD-3-Clause */
/* Access to private memory of other processes on this host, named by their doorbells, by
 * process_vm_readv and process_vm_writev.  Any thread.  The other process takes no part in the
 * access, so it must have agreed before that the memory stays valid. */
#ifndef RT_MEM_PEER_H
#define RT_MEM_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include "runtime/mem/segment.h"

/* Whether the system offers both calls to this process. */
bool rt_peer_offered(void);
/* Why the functions below return -RT_ENOTSUP for that process without a trial; NULL: they try, and
 * the system decides. */
const char *rt_peer_obstacle(const struct rt_bell *of);

/* 0; -RT_ENOTSUP: not permitted or switched off (cfg.shm_large); -RT_EPEER: the process has
 * gone. */
int rt_peer_read(const struct rt_bell *of, void *to, uint64_t from, size_t nbytes);
int rt_peer_write(const struct rt_bell *of, uint64_t to, const void *from, size_t nbytes);
/* The same between [here, here + nbytes) and `n` pieces of that process's memory, as many as one
 * system call takes (at most 1024), nbytes in all. */
int rt_peer_move(const struct rt_bell *of, void *here, size_t nbytes, const struct iovec *there,
                 int n, bool write);

#endif
