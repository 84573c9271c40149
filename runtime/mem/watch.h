/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports memory of this process that is unmapped, moved, emptied or mapped over, so that what was
 * registered of it is forgotten before the addresses mean something else.
 *
 * How.  Ranges are registered with userfaultfd(2) for its events only (no page is ever protected,
 * so no access is delayed).  The kernel holds up munmap(), mremap(), madvise(MADV_DONTNEED, _FREE,
 * _REMOVE), brk() and mmap(MAP_FIXED) of such a range until its event has been read, which a thread
 * of ours does; so after any of these calls has returned, rt_watch_next() gives the range.  The
 * price is 10 us more for such a call on a watched range, measured, and where all cores are busy a
 * turn of that thread.
 *
 * What it cannot report is refused by rt_watch_add(): the kernel reports nothing when shared memory
 * is detached (shmdt), or a mapped file is cut or punched.  So only private anonymous memory is
 * watched: heap, large malloc, stacks, zeroed program data.  Not reported, either, but nothing that
 * a program does to a message buffer: guard pages laid into the middle of it (MADV_GUARD_INSTALL).
 * A program that closes our descriptor ends the watch; that is noticed at the next such call, a
 * moment after it.
 *
 * One process-wide watch, one consumer; all calls are serialised by the caller.
 * After fork() the child's is dead: it reports RT_WATCH_ALL for ever. */
#ifndef RT_MEM_WATCH_H
#define RT_MEM_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include "runtime/base/atomic.h"

/* Starts the thread.  -RT_ENOTSUP: the system does not allow it; rt_watch_why_not() says why and
 * what to do. */
int rt_watch_open(void);
void rt_watch_close(void);
const char *rt_watch_why_not(void);
/* This is a child, by fork(), of the process that opened the watch. */
bool rt_watch_is_child(void);

/* Watches [start, end), whole pages.  False: it is not all private anonymous memory, or cannot be
 * watched; then nothing is. */
bool rt_watch_add(uintptr_t start, uintptr_t end);
/* Stops watching.  Ranges are not counted: the caller leaves out what it still needs. */
void rt_watch_remove(uintptr_t start, uintptr_t end);

enum rt_watch_told { RT_WATCH_NONE, RT_WATCH_RANGE, RT_WATCH_ALL };
/* The next range that has changed.  ALL: too many, or a fork; everything may have. */
enum rt_watch_told rt_watch_next(uintptr_t *start, uintptr_t *end);
/* Whether there may be one; a load of a line that rarely changes. */
extern struct rt_watch_seq {
    _Alignas(RT_CACHE_LINE) uint32_t now; /* odd while the thread reads and notes events */
} rt_watch_seq;
extern uint32_t rt_watch_seen; /* `now` when rt_watch_next() last found nothing */
static inline bool rt_watch_quiet(void)
{
    return rt_likely(rt_load_acquire(&rt_watch_seq.now) == rt_watch_seen);
}

/* Whether [start, end) is mapped, private and anonymous throughout: maps.c.  False when in doubt.
 * fd: an open /proc/self/maps. */
bool rt_maps_anonymous(int fd, uintptr_t start, uintptr_t end);

#endif
