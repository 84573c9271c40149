/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared memory beside the node segment, for windows of one-sided communication, which may be
 * larger than the segment's area.  One process creates it, others of the same host and job open it;
 * then the name is removed.  Two kinds:
 *
 *   sparse    memory without a file (memfd_create), which no file system limits.  Its name is a
 *             link that says where the creator's descriptor is under /proc.  Pages cost nothing
 *             until they are touched.  Only if all sparse memory of the job on this host is at
 *             most half of what host and control groups have left (room.h); the other half is
 *             for private memory and other jobs.
 *   reserved  a file in cfg.shm_dir.  Each process reserves the parts that it uses.
 *
 * So memory that is not there is -RT_ENOSPC at the creation, and a touch is never SIGBUS. */
#ifndef RT_MEM_SHARE_H
#define RT_MEM_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rt_share {
    char *base;           /* start of the mapping; NULL: not mapped */
    size_t nbytes, align; /* `base` is a multiple of `align`, a power of two */
    int fd;               /* -1: private memory of the only process */
    size_t promised;      /* the creator of sparse memory: its length */
    bool sparse;
    char path[560]; /* "": no name */
};

/* Sparse memory for this process alone.  -RT_ENOMEM, -RT_ESYS, logged at level info, as are all
 * errors of this file. */
int rt_share_alone(struct rt_share *s, size_t nbytes, size_t align);
/* Creates and maps memory, sparse if wanted and possible; `a` and `b` name it within the job and
 * host.  1: it is sparse, and other processes may be unable to open it; 0: it is a file.
 * -RT_ENOMEM, -RT_ENOSPC, -RT_EPERM, -RT_ESYS. */
int rt_share_create(struct rt_share *s, uint32_t a, int b, size_t nbytes, size_t align,
                    bool sparse);
/* Opens and maps what another process has created with the same arguments.  The same errors;
 * -RT_EPEER: the creator has removed it, because it could not complete its call. */
int rt_share_open(struct rt_share *s, uint32_t a, int b, size_t nbytes, size_t align);
/* Allocates the pages of [off, off + nbytes) of a file, so that a full file system is -RT_ENOSPC
 * here and not SIGBUS later.  -RT_ESYS: another error. */
int rt_share_reserve(const struct rt_share *s, size_t off, size_t nbytes);
/* The creator: removes the name once all have opened the file. */
void rt_share_unlink(struct rt_share *s);
/* Closes the descriptor; nothing can be reserved any more. */
void rt_share_seal(struct rt_share *s);
void rt_share_close(struct rt_share *s);

#endif
