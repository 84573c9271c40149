/* SPDX-License-Identifier: BSD-3-Clause */
/* What a process of this host is doing, as the kernel sees it.  Reads /proc only: the process is
 * not disturbed and need not answer.  Any thread. */
#ifndef LAUNCHER_EXPLAIN_PROCESS_H
#define LAUNCHER_EXPLAIN_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum process_state {
    PROCESS_GONE,
    PROCESS_RUNNING,  /* on a core, or ready to run */
    PROCESS_SLEEPING, /* for a time, or in a system call that cannot be read */
    PROCESS_BLOCKED,  /* in the system call `call` */
    PROCESS_STOPPED,  /* by a signal: SIGSTOP, SIGTSTP */
    PROCESS_TRACED,   /* held by a debugger */
    PROCESS_ZOMBIE    /* it has ended and its parent has not noticed */
};

struct explain_process {
    enum process_state state; /* of the thread; of a process: of its main thread */
    bool uninterruptible;     /* not even SIGKILL ends the wait: a device or a file server */
    /* The system call, "futex".  Where the kernel does not show it, the kernel's function in which
     * the thread waits, "pipe_read"; "": that is not shown either. */
    char call[40];
    int nthreads, nrunning; /* of the process; those that are PROCESS_RUNNING */
    uint64_t cpu_ns;        /* processor time of the thread; of a process: of all its threads */
    uint64_t at_ns;         /* rt_now_ns() of this reading */
};

/* tid 0: the process as a whole.  A process that may not be read is PROCESS_GONE. */
void explain_process_read(pid_t pid, pid_t tid, struct explain_process *out);
/* Cores in use between two readings: 1.0 is one core.  The kernel counts in steps of 10 ms. */
double explain_process_share(const struct explain_process *before,
                             const struct explain_process *after);

#endif
