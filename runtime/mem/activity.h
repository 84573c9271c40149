/* SPDX-License-Identifier: BSD-3-Clause */
/* What each process does in MPI, in a page of the node segment, so that mpirun and weft_info can
 * say who waits for whom without an answer of the processes.  A thread publishes a wait only when
 * it is older than RT_ACTIVITY_NS, so calls that end sooner write nothing and read no clock.
 *
 * One process writes a page; any process that can open the segment reads it at any time.  A reader
 * copies a note and compares its version, as with a sequence lock: it never delays the writer.
 * Times are of CLOCK_MONOTONIC, which all processes of a host share. */
#ifndef RT_MEM_ACTIVITY_H
#define RT_MEM_ACTIVITY_H

#include "runtime/base/atomic.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RT_ACTIVITY_NS 1000000u
#define RT_ACTIVITY_NOTES 3  /* threads whose waits are published; further ones are counted */
#define RT_ACTIVITY_REQS 6   /* unfinished requests of a wait that are named */
#define RT_ACTIVITY_UNEX 8   /* unexpected messages that are named */
#define RT_ACTIVITY_STACK 14 /* return addresses */
#define RT_ACTIVITY_RUNS 4
#define RT_ACTIVITY_HELD 4 /* locks of windows that are named */
#define RT_ACTIVITY_COUNTERS 64
#define RT_ACTIVITY_FAILED 8  /* dead ranks that are named */
#define RT_ACTIVITY_REVOKED 4 /* revoked communicators that are named */

enum rt_wait_kind {
    RT_WAIT_OTHER, /* known by its call alone */
    RT_WAIT_RECV,
    RT_WAIT_SEND,
    RT_WAIT_PROBE,
    RT_WAIT_COLL,     /* a collective of `comm`: number, what, root, nbytes */
    RT_WAIT_REQS,     /* more than one request */
    RT_WAIT_TARGET,   /* a process of a window: a lock, PSCW, a flush */
    RT_WAIT_FINALIZE, /* what other processes still need */
    /* A partitioned send of which this process has not marked all partitions ready, and a
     * partitioned receive: what: the missing partitions, number: how many, root: of how many. */
    RT_WAIT_READY,
    RT_WAIT_PARTS,
    RT_WAIT_ENTRY, /* a process that has not called MPI_Init */
    RT_WAIT_START, /* `number` processes that the launcher has not started yet */
    RT_WAIT_KINDS,
};

/* Special values of `world` below. */
#define RT_WAIT_ANY (-1)     /* MPI_ANY_SOURCE */
#define RT_WAIT_FOREIGN (-2) /* a process of another job */
#define RT_WAIT_NOBODY (-3)  /* not waiting for one process */

/* One message or request. */
struct rt_wait_item {
    uint32_t kind;   /* enum rt_wait_kind */
    uint32_t ctx;    /* of its communicator */
    int32_t peer;    /* rank in the communicator; MPI_ANY_SOURCE as the ABI has it */
    int32_t world;   /* the same process as a rank of the job, or RT_WAIT_... */
    int32_t tag;     /* MPI_ANY_TAG as the ABI has it */
    uint32_t queued; /* of a send: bytes for its process that wait for room, because the process
                      * does not read; 0: none */
    int64_t nbytes;  /* of a receive: of its buffer */
};

/* A communicator.  Its ranks are `nruns` rows of ranks of the job; 0: too irregular for a note. */
struct rt_wait_comm {
    uint32_t ctx; /* 0: the wait has no communicator */
    int32_t size, rank;
    uint32_t nruns;
    struct {
        int32_t first, stride, count;
    } runs[RT_ACTIVITY_RUNS];
    char name[28]; /* as MPI_Comm_set_name(), cut; "": none */
};

/* One wait of one thread. */
struct rt_wait_note {
    uint32_t version; /* odd: being written */
    uint32_t tid;
    uint64_t since_ns;  /* the wait's begin; 0: the note is free */
    uint64_t polled_ns; /* 0: a wait.  Else a loop of calls that poll, such as MPI_Iprobe, and this
                         * is the time of its last look: the loop may have ended since then */
    char call[32];      /* the MPI procedure: "MPI_Recv"; "": unknown */
    struct rt_wait_item item;
    struct rt_wait_comm comm;
    /* RT_WAIT_COLL: the position in the communicator's sequence of collectives.  Ranks of one
     * communicator that wait at equal numbers are in the same call, or ought to be. */
    uint64_t number;
    char what[20];  /* kind of collective, "allreduce"; of RT_WAIT_TARGET: "lock", "flush" */
    int32_t root;   /* rank in the communicator; -1: none */
    uint32_t nreqs; /* unfinished requests of the wait, of which `reqs` names the first */
    uint32_t nunex; /* unexpected messages of the process */
    struct rt_wait_item reqs[RT_ACTIVITY_REQS], unex[RT_ACTIVITY_UNEX];
    uint32_t nstack;
    uint32_t nheld; /* locks of windows that the process holds, of which `held` names the first */
    struct {
        uint32_t ctx;  /* of the window's communicator */
        int32_t world; /* the target as a rank of the job; RT_WAIT_ANY: MPI_Win_lock_all */
    } held[RT_ACTIVITY_HELD];
    /* Return addresses, from the MPI procedure outwards: stack[0] is in the MPI procedure's caller,
     * unless that is another library of this installation. */
    uint64_t stack[RT_ACTIVITY_STACK];
};

/* What a process knows of faults (mpirun --ft). */
struct rt_activity_faults {
    uint32_t nfailed;
    int32_t failed[RT_ACTIVITY_FAILED]; /* the first, as ranks of the job, or RT_WAIT_FOREIGN */
    uint32_t nrevoked;                  /* communicators, until they are freed */
    struct {
        uint32_t ctx; /* 0: none */
        char name[28];
    } revoked[RT_ACTIVITY_REVOKED]; /* some of these */
};

struct rt_activity {    /* a page of the node segment */
    uint32_t rank;      /* of the job */
    uint32_t pid;       /* 0: not in the pid namespace of the reader */
    uint32_t state;     /* set by rt_activity_read(): `alive` of the rank's bell (segment.h) */
    uint32_t nhidden;   /* waits now that have found no free note */
    uint64_t nwaits;    /* published waits that have ended */
    uint64_t left_ns;   /* when the last of these ended */
    char last_call[32]; /* its procedure */
    uint64_t moved;     /* bytes of parts of long messages so far: a change is progress, too */
    uint64_t ncounters; /* a change of one of the first ones is progress */
    uint64_t counters[RT_ACTIVITY_COUNTERS]; /* of operations and bytes: mpi/p2p/stats.h */
    struct rt_activity_faults faults;
    struct rt_wait_note notes[RT_ACTIVITY_NOTES];
};
#define RT_ACTIVITY_NBYTES 4096u /* of the segment for each rank */
_Static_assert(sizeof(struct rt_activity) <= RT_ACTIVITY_NBYTES, "one page");

/* ---- this process ---- */

/* A free note for this thread, marked as being written and empty but for its call and stack; or
 * NULL: the wait is counted.  rt_activity_publish() shows it; rt_activity_end() takes it back, NULL
 * too, and keeps its call as the last one. */
struct rt_wait_note *rt_activity_begin(uint64_t since_ns);
void rt_activity_publish(struct rt_wait_note *n);
/* Both, for a thread that waits for a rank of the job without the wait object of mpi/p2p: while it
 * connects to this rank it makes no progress. */
struct rt_wait_note *rt_activity_await(enum rt_wait_kind kind, uint32_t rank);
/* The note will be written anew, because what the wait is for has changed. */
void rt_activity_change(struct rt_wait_note *n);
void rt_activity_end(struct rt_wait_note *n, uint64_t now_ns);

/* Memory for RT_ACTIVITY_COUNTERS counters that other processes read; a change of one of the first
 * `nmoving` is progress.  NULL: there is no segment. */
uint64_t *rt_activity_counters(uint64_t nmoving);

/* For `faults`: a process has died, world as in rt_wait_item; a communicator is revoked; it is
 * freed.  One thread at a time. */
void rt_activity_failed(int32_t world);
void rt_activity_revoked(uint32_t ctx, const char *name);
void rt_activity_freed(uint32_t ctx);

/* A part of a long message has moved.  One thread at a time; approximate with more. */
extern RT_HIDDEN uint64_t *rt_activity_bytes;
static inline void rt_activity_moved(uint64_t nbytes)
{
    rt_store_relaxed(rt_activity_bytes, rt_load_relaxed(rt_activity_bytes) + nbytes);
}

/* ---- another process ---- */

/* The segment that process `pid` maps, read-only. */
struct rt_activity_view {
    void *base;
    size_t nbytes;
    int size; /* local ranks */
};
/* -RT_EPERM: the kernel forbids it; -RT_ENOTSUP: it maps no segment of this version; -RT_ESYS. */
int rt_activity_open(pid_t pid, struct rt_activity_view *v);
void rt_activity_close(struct rt_activity_view *v);
/* A consistent copy of the page of local rank r.  A note that kept changing is returned as free.
 * False: this rank has not attached. */
bool rt_activity_read(const struct rt_activity_view *v, int r, struct rt_activity *out);

#endif
