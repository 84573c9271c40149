/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared-memory files beside the node segment, for windows of one-sided communication, which may be
 * larger than the segment's area.  One process creates the file, others of the same host and job
 * open it; then the name is removed.  Each process reserves the parts that it uses, which also
 * places their pages near that process. */
#ifndef RT_MEM_SHARE_H
#define RT_MEM_SHARE_H

#include <stddef.h>
#include <stdint.h>

struct rt_share {
    char *base;           /* start of the mapping; NULL: not mapped */
    size_t nbytes, align; /* `base` is a multiple of `align`, a power of two */
    int fd;               /* -1: private memory of the only process */
    char path[560];       /* "": no name */
};

/* Sparse memory for this process alone.  -RT_ENOMEM, -RT_ESYS, logged at level info, as are all
 * errors of this file. */
int rt_share_alone(struct rt_share *s, size_t nbytes, size_t align);
/* Creates and maps the file; `a` and `b` name it within the job and host.  -RT_ENOMEM, -RT_ENOSPC,
 * -RT_EPERM, -RT_ESYS. */
int rt_share_create(struct rt_share *s, uint32_t a, int b, size_t nbytes, size_t align);
/* Opens and maps a file that another process has created with the same arguments.  The same errors;
 * -RT_EPEER: the creator has removed it, because it could not complete its call. */
int rt_share_open(struct rt_share *s, uint32_t a, int b, size_t nbytes, size_t align);
/* Allocates the pages of [off, off + nbytes), so that a full file system is -RT_ENOSPC here and not
 * SIGBUS later.  -RT_ESYS: another error. */
int rt_share_reserve(const struct rt_share *s, size_t off, size_t nbytes);
/* The creator: removes the name once all have opened the file. */
void rt_share_unlink(struct rt_share *s);
/* Closes the descriptor; nothing can be reserved any more. */
void rt_share_seal(struct rt_share *s);
void rt_share_close(struct rt_share *s);

#endif
