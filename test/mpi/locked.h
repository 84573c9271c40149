/* SPDX-License-Identifier: BSD-3-Clause */
/* A limit of the memory that this process may lock, which RDMA would have to register.  It does not
 * bind processes with CAP_IPC_LOCK, as root has, so that is given up first. */
#ifndef TEST_MPI_LOCKED_H
#define TEST_MPI_LOCKED_H

#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline void limit_locked(size_t nbytes)
{
    struct rlimit r = { nbytes, nbytes };
    struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct c[2];

    if (syscall(SYS_capget, &h, c) < 0)
        exit(3);
    c[0].effective &= ~(1u << CAP_IPC_LOCK);
    c[0].permitted &= ~(1u << CAP_IPC_LOCK);
    if (syscall(SYS_capset, &h, c) < 0 || setrlimit(RLIMIT_MEMLOCK, &r) < 0)
        exit(3);
}

/* The ranks that the arguments name; before MPI_Init. */
static inline void limit_locked_of(int argc, char **argv, size_t nbytes)
{
    const char *rank = getenv("PMIX_RANK");
    for (int i = 1; i < argc; i++)
        if (rank && !strcmp(argv[i], rank))
            limit_locked(nbytes);
}

#endif
