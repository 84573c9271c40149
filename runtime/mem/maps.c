/* SPDX-License-Identifier: BSD-3-Clause */
/* The kind of mapping of an address range, from /proc/self/maps: by its ioctl (Linux 6.11, 1 us for
 * each mapping), or else by its text (75 us for 300 mappings).  Allocates nothing.  Any thread. */
#include "runtime/mem/watch.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* As in linux/fs.h since 6.11; older headers lack it. */
struct query {
    uint64_t nbytes, flags, addr;
    uint64_t start, end, vma_flags, page_nbytes, offset, inode;
    uint32_t dev_major, dev_minor, name_nbytes, build_id_nbytes;
    uint64_t name, build_id;
};
#define QUERY _IOWR('f', 17, struct query)
#define QUERY_SHARED 8u

/* Whether the mapping at `addr` is private and anonymous; *end: its end.  -1: the kernel does not
 * support the query. */
static int query_one(int fd, uintptr_t addr, uintptr_t *end)
{
    struct query q = { .nbytes = sizeof q, .addr = addr };
    if (ioctl(fd, QUERY, &q) < 0)
        return -1;
    *end = (uintptr_t)q.end;
    return !(q.vma_flags & QUERY_SHARED) && q.inode == 0 && q.start <= addr && q.end > addr;
}

/* One line: "start-end perms offset dev inode path".  True: private and anonymous. */
static bool parse(const char *line, uintptr_t *start, uintptr_t *end)
{
    char perms[8];
    uint64_t inode;
    *start = *end = 0;
    return sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %7s %*x %*x:%*x %" SCNu64, start, end, perms,
                  &inode) == 4 &&
           perms[3] == 'p' && inode == 0;
}

/* Next address after the mapping in the line: its end, if it covers addr and is private and
 * anonymous; `addr`, if it lies below; 0: the search ends. */
static uintptr_t follow(const char *line, uintptr_t addr)
{
    uintptr_t start, end;
    bool good = parse(line, &start, &end);
    if (end <= addr)
        return addr;
    return good && start <= addr ? end : 0;
}

static bool by_text(int fd, uintptr_t addr, uintptr_t end)
{
    char text[8192];
    size_t have = 0;
    for (off_t at = 0;;) {
        ssize_t n = pread(fd, text + have, sizeof text - 1 - have, at);
        if (n <= 0)
            return false;
        at += n;
        have += (size_t)n;
        text[have] = '\0';
        char *line = text, *next;
        for (; (next = strchr(line, '\n')); line = next + 1) {
            *next = '\0';
            addr = follow(line, addr);
            if (addr == 0 || addr >= end)
                return addr != 0;
        }
        have = (size_t)(text + have - line);
        if (have == sizeof text - 1)
            return false; /* longer than any path */
        memmove(text, line, have);
    }
}

bool rt_maps_anonymous(int fd, uintptr_t start, uintptr_t end)
{
    uintptr_t at = start, next;
    while (at < end) {
        int good = query_one(fd, at, &next);
        if (good < 0)
            return by_text(fd, start, end);
        if (!good)
            return false;
        at = next;
    }
    return true;
}
