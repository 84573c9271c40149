/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes of other jobs on this host that share memory with this process.  Each job keeps its own
 * node segment.  A process that meets other jobs puts a descriptor number of its segment into its
 * card; the others open that descriptor under /proc, which the kernel permits to the same user
 * only, and map the segment once for each job.  The file needs no name, so a crash leaves no file.
 *
 * Two processes share memory if the cards name the same kernel, user, PID namespace and network
 * namespace (of the bells' sockets), and if all processes of the meeting have mapped all segments
 * that they need, so both sides reach the same result.  Called by one thread at a time, under the
 * domain's lock. */
#ifndef RT_MEM_OTHERS_H
#define RT_MEM_OTHERS_H

#include "runtime/boot/boot.h"
#include "runtime/mem/segment.h"

struct rt_other { /* a process of another job */
    struct rt_proc proc;
    struct rt_bell *bell;
    char *base; /* its job's segment, mapped here */
    size_t nbytes;
    int rank;   /* its local rank there */
    void *own;  /* the region in which it publishes data: rt_node_pair(rank, rank) there */
    bool ended; /* rt_others_look() has found that */
};

/* Prepares this process's segment for processes of other jobs.  False: it cannot be shared. */
bool rt_others_open(void);
bool rt_others_is_open(void);
/* Adds to this process's card what other jobs need to map the segment; may be repeated.
 * -RT_ENOMEM. */
int rt_others_publish(void);

/* Maps the segment of a process of another job, whose card this process has.  1: it is mapped; 0:
 * the card does not offer shared memory with this process; -RT_E...: the segment could not be
 * mapped, logged. */
int rt_others_map(struct rt_proc p);
/* The result of the meeting, for a process that rt_others_map() has returned 1 for, now or
 * earlier.  False: a process without an earlier `true` is dropped. */
void rt_others_settle(struct rt_proc p, bool shares);
/* NULL: it does not share memory with this process. */
struct rt_other *rt_others_find(struct rt_proc p);

/* Mapped, and rt_others_settle() has not been called yet. */
bool rt_others_meeting(struct rt_proc p);

/* As for ranks of this job: runtime/mem/deaths.h. */
bool rt_others_is_leaving(const struct rt_other *o);
bool rt_others_gone(const struct rt_other *o);
bool rt_others_gone_now(const struct rt_other *o);
/* A descriptor that is readable when one of the processes has ended, until rt_others_look(), which
 * finds all that have and interrupts the waits. */
int rt_others_fd(void);
void rt_others_look(void);
/* Between the two calls the process is not forgotten. */
void rt_others_hold(struct rt_other *o);
void rt_others_release(struct rt_other *o);
/* Calls in_use() with the number of each job of which processes are known here.  If it returns
 * false, those that have ended and are not held are forgotten, and a segment without other
 * processes is unmapped. */
void rt_others_drop(bool (*in_use)(uint32_t ns, const void *arg), const void *arg);
/* Processes of other jobs that share memory with this process and have not ended.  Any thread. */
uint32_t rt_others_count(void);

#endif
