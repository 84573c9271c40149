/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports memory of this process that is unmapped, moved, emptied or mapped over, so that its
 * registrations are forgotten before the addresses get another meaning.
 *
 * Method.  Ranges are registered with userfaultfd(2) for its events only (no page is protected, so
 * no access is delayed).  The kernel delays munmap(), mremap(), madvise(MADV_DONTNEED, _FREE,
 * _REMOVE), brk() and mmap(MAP_FIXED) of such a range until a thread of Weft has read the event.
 * So after any of these calls has returned, rt_watch_next() returns the range.  The measured cost
 * is 10 us for such a call on a watched range and, if all cores are busy, a context switch to that
 * thread.
 *
 * rt_watch_add() refuses memory of which the kernel would not report every change: shared memory
 * that is detached (shmdt), and mapped files that are truncated or punched.  So only private
 * anonymous memory is watched: heap, large malloc, stacks, zeroed program data.  Guard pages
 * installed inside a message buffer (MADV_GUARD_INSTALL) are not reported either, but no program
 * does this.  A program that closes the descriptor ends the watch; this is noticed shortly after
 * the next such call.
 *
 * There is one watch for the process with one consumer; the caller serialises all calls.  After
 * fork() the child's watch is dead: it always reports RT_WATCH_ALL. */
#ifndef RT_MEM_WATCH_H
#define RT_MEM_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include "runtime/base/atomic.h"

/* Starts the thread.  -RT_ENOTSUP: the system does not allow it; rt_watch_why_not() returns the
 * reason and what to do. */
int rt_watch_open(void);
void rt_watch_close(void);
const char *rt_watch_why_not(void);
/* Whether this process is a child, by fork(), of the process that opened the watch. */
bool rt_watch_is_child(void);

/* Watches [start, end), whole pages.  False: it is not completely private anonymous memory, or
 * cannot be watched; then nothing is watched. */
bool rt_watch_add(uintptr_t start, uintptr_t end);
/* Stops watching.  Ranges are not counted: the caller excludes what it still needs. */
void rt_watch_remove(uintptr_t start, uintptr_t end);

enum rt_watch_report { RT_WATCH_NONE, RT_WATCH_RANGE, RT_WATCH_ALL };
/* The next range that has changed.  ALL: too many changes, or a fork: every range may have
 * changed. */
enum rt_watch_report rt_watch_next(uintptr_t *start, uintptr_t *end);
/* Whether there may be a change; loads a line that rarely changes. */
extern struct rt_watch_seq {
    _Alignas(RT_CACHE_LINE) uint32_t now; /* odd while the thread reads and stores events */
} rt_watch_seq;
extern uint32_t rt_watch_seen; /* `now` when rt_watch_next() last returned none */
static inline bool rt_watch_quiet(void)
{
    return rt_likely(rt_load_acquire(&rt_watch_seq.now) == rt_watch_seen);
}

/* Whether all of [start, end) is mapped, private and anonymous: maps.c.  False if unknown.  fd: an
 * open /proc/self/maps. */
bool rt_maps_anonymous(int fd, uintptr_t start, uintptr_t end);

#endif
