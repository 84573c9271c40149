/* SPDX-License-Identifier: BSD-3-Clause */
/* Where in its sources a process of this host is, found from outside: the process need not answer.
 * Calls on one source are serialised by the caller.  The debug information of a large program costs
 * time and memory, so a source is kept for the questions of one picture and then closed. */
#ifndef LAUNCHER_EXPLAIN_SOURCE_H
#define LAUNCHER_EXPLAIN_SOURCE_H

#include "runtime/base/dw.h"

struct explain_source { /* must not move while it is open */
    pid_t pid;
    struct dwfl *dwfl; /* NULL: not open */
    struct rt_dw dw;
    struct dw_callbacks callbacks;
    bool attached;
    char why[200]; /* of the last failed call: the reason, for the user */
};

/* The innermost frame of the user's code: outside the MPI library, the C library, and their shims.
 * Frames without source lines are passed over if an outer frame has one. */
struct explain_place {
    char function[64]; /* "?": unknown */
    char file[64];     /* "solve.c"; "": without source lines */
    int line;
    char module[64]; /* the program or library that the frame is in: "libsolve.so.3" */
    char call[32];   /* the MPI procedure that the frame called, "MPI_Recv"; "": unknown or none */
    /* CPython's interpreter runs the frame: the place that the user knows is in its Python code. */
    bool python;
};

/* `so`: RT_DW_SO.  0; -RT_ENOTSUP without the library, -RT_EPERM, -RT_ENOENT: it has gone,
 * -RT_ENOMEM, -RT_ESYS: s->why says why.  Then the other functions must not be called. */
int explain_source_open(struct explain_source *s, pid_t pid, const char *so);
void explain_source_close(struct explain_source *s);

/* Walks the stack of a thread, innermost frame first: `stack` gets up to `max` return addresses;
 * the innermost one is made from the program counter.  Returns their number, or -RT_EPERM,
 * -RT_ETIMEOUT (the thread waits uninterruptibly), -RT_ENOENT, -RT_ENOTSUP, with s->why.
 * The thread stands still for about a millisecond.  A system call in which it waits may then fail
 * with EINTR, as after a debugger (signal(7) lists epoll_wait and a few others), so this is for
 * threads that have been seen to hang. */
int explain_source_stack(struct explain_source *s, pid_t tid, uint64_t *stack, int max);

/* The place of return addresses, innermost first.  False: no frame is the user's. */
bool explain_place_find(struct explain_source *s, const uint64_t *stack, int n,
                        struct explain_place *out);
/* All frames, a line each: "#2 step (solve.c:88) in solver".  Whole lines only. */
void explain_place_text(struct explain_source *s, const uint64_t *stack, int n, char *text,
                        size_t len);

#endif
