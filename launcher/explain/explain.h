/* SPDX-License-Identifier: BSD-3-Clause */
/* Why a job makes no progress: from what each rank published about its waits (activity.h) and what
 * its host knows about the process, to one verdict, a text of at most 12 lines, and JSON.  Pure
 * functions: the caller collects; only explain_print() and explain_json() write, to a file. */
#ifndef LAUNCHER_EXPLAIN_EXPLAIN_H
#define LAUNCHER_EXPLAIN_EXPLAIN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/mem/activity.h"

#define EXPLAIN_ANY_TAG (-2) /* MPI_ANY_TAG of the ABI */

/* What a process does besides its published waits.  If its main thread publishes no wait, the state
 * is that of the main thread; otherwise, of a thread that runs.  A thread that spins in a published
 * wait does not count as running. */
enum explain_state {
    EXPLAIN_IN_MPI,    /* nothing: all its threads wait in MPI, or for each other */
    EXPLAIN_RUNNING,   /* it uses a core outside MPI */
    EXPLAIN_SLEEPING,  /* nanosleep and the like */
    EXPLAIN_BLOCKED,   /* in the system call `detail` */
    EXPLAIN_STOPPED,   /* by SIGSTOP, or by a debugger */
    EXPLAIN_ENDED,     /* `status` is that of waitpid() */
    EXPLAIN_UNREADABLE /* `detail` is the reason */
};

struct explain_wait {
    struct rt_wait_note note; /* the caller has checked that its strings end */
    const char *place;        /* of the call in the program: "halo.c:88"; "": unknown */
    const char *function;     /* in which the call is; "": unknown */
};

/* All strings belong to the caller.  Those that are unknown are "", never NULL. */
struct explain_rank {
    int rank; /* of the job */
    const char *host;
    int pid;
    enum explain_state state;
    const char *detail;
    int status;
    bool runs;             /* a thread of it is on a core, or ready to run */
    double cpu;            /* share of a core that `state` uses, 0 to 1; < 0: unknown */
    const char *place;     /* of the innermost frame of the program that has a source line */
    const char *function;  /* the same frame */
    uint64_t now_ns;       /* clock of its host when the rank was read: hosts differ */
    bool published;        /* its page was read: the fields below are valid */
    uint32_t use;          /* rt_activity.state: 0 not in MPI yet, 1 in use, 2 it has left MPI */
    uint32_t nhidden;      /* waits of further threads, without a note */
    uint64_t left_ns;      /* when the last published wait ended; 0: there was none */
    const char *last_call; /* its procedure */
    struct rt_activity_faults faults; /* the caller has checked that its strings end */
    const struct explain_wait *waits; /* the notes that are in use */
    int nwaits;
};

struct explain_job {
    const struct explain_rank *ranks; /* those that could be read, each once, in any order */
    int nranks;
    int total;      /* ranks of the job; those that are not in ranks[] are unknown */
    double seconds; /* without progress; < 0: not measured, the picture was asked for */
};

enum explain_kind {
    EXPLAIN_UNKNOWN,
    EXPLAIN_LATE,      /* ranks are outside MPI: no deadlock is proven */
    EXPLAIN_GONE,      /* ranks have ended, or are in MPI_Finalize, and others wait for them */
    EXPLAIN_CYCLE,     /* of sends and receives */
    EXPLAIN_UNMATCHED, /* a message that matches nothing */
    EXPLAIN_MISMATCH,  /* one collective of a communicator has different calls, roots or sizes */
    EXPLAIN_NUMBER,    /* ranks have made a different number of collective calls */
    EXPLAIN_ORDER,     /* collectives of several communicators are called in different orders */
    EXPLAIN_MISSED,    /* a rank waits elsewhere, and others wait for it in a collective */
    EXPLAIN_LOCK,      /* a rank holds the lock of a window */
    EXPLAIN_STREAM,    /* a rank has not enqueued its part of a call on a stream */
    EXPLAIN_PARTS,     /* a partitioned message with partitions that are not marked ready */
    EXPLAIN_PSCW       /* groups of post and start, or of complete and wait, differ */
};

/* A rank's wait, or its part of one. */
struct explain_ref {
    const struct explain_rank *rank; /* NULL: none */
    const struct explain_wait *wait;
    const struct rt_wait_item *item; /* the request or message; NULL: the wait as a whole */
};

struct explain_verdict {
    enum explain_kind kind;
    int nwait;          /* ranks that wait, directly or through others, for `roots` */
    int *roots, nroots; /* ranks for which others wait, ascending; CYCLE, ORDER: around the cycle */
    bool knot;          /* CYCLE: each of the roots waits for any of them, in no order */
    /* CYCLE, ORDER, MISSED, LOCK, STREAM, PARTS, PSCW: the
     * wait that shows the fault, and that of the rank
     * for which it waits.  GONE: a wait for the roots.  MISMATCH: two waits that differ.  NUMBER:
     * the waits of a rank that has made fewer calls, and of one that has made more.  UNMATCHED: the
     * request, and the message that is there, with its sender.  LATE, UNKNOWN: the rank that has
     * been outside MPI for the longest time, or its wait for something that is no rank. */
    struct explain_ref a, b;
};

/* ---- judge.c ---- */

/* Judges in time linear in ranks and waits, apart from sorting.  -RT_ENOMEM. */
int explain_judge(const struct explain_job *job, struct explain_verdict *out);
void explain_verdict_fini(struct explain_verdict *v);

/* ---- wait.c ---- */

/* Whether the ranks of a communicator are all in the note. */
bool explain_comm_known(const struct rt_wait_comm *c);
/* Its i-th rank, as a rank of the job. */
int explain_comm_member(const struct rt_wait_comm *c, int i);
/* Orders communicators; 0: the same one.  Disjoint ones may have the same context. */
int explain_comm_cmp(const struct rt_wait_comm *a, const struct rt_wait_comm *b);
/* Why the same collective of a communicator differs between two ranks: "calls", "roots", "sizes";
 * NULL: it does not. */
const char *explain_coll_differs(const struct rt_wait_note *a, const struct rt_wait_note *b);
/* No rank leaves the collective before all have entered it. */
bool explain_coll_meets(const struct rt_wait_note *n);
/* The call only looks whether something has arrived: its caller may do other things as well. */
bool explain_polls(const struct rt_wait_note *n);
bool explain_is_lock(const struct rt_wait_note *n);
/* The rank in the wait `n` holds the lock that `asked` waits for. */
bool explain_holds(const struct rt_wait_note *n, const struct rt_wait_note *asked);
/* The wait is older than the ranks of a job need for one step of a collective without data. */
bool explain_is_old(const struct explain_rank *r, const struct rt_wait_note *n);
bool explain_is_enqueue(const struct rt_wait_note *n); /* the call enqueues on a stream */
bool explain_is_partitioned(const struct rt_wait_note *n);
bool explain_is_pscw(const struct rt_wait_note *n);
bool explain_in_finalize(const struct rt_wait_note *n);
/* The rank does something outside MPI that may end a wait. */
bool explain_is_outside(const struct explain_rank *r);
/* The rank sends and receives nothing more. */
bool explain_is_gone(const struct explain_rank *r);

/* ---- print.c, json.c ---- */

/* At most 12 lines. */
void explain_print(const struct explain_job *job, const struct explain_verdict *v, FILE *f);
void explain_json(const struct explain_job *job, const struct explain_verdict *v, FILE *f);

#endif
