/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a family (family.h), shared by its files: family.c; spawns.c, spawns that may have
 * to wait for slots; member.c, which starts the mpirun of a member. */
#ifndef LAUNCHER_MPIRUN_FAMILY_STATE_H
#define LAUNCHER_MPIRUN_FAMILY_STATE_H

#include "launcher/mpirun/family.h"
#include "launcher/mpirun/names.h"
#include "runtime/boot/frame.h"

struct member;
struct waiting; /* a spawn that waits for slots */

/* The sender of a request, to which the answer goes: a rank of this host, the agent of another
 * host, or the mpirun of a member. */
struct asker {
    struct launch_call *call;
    struct member *via;
    bool gone; /* `via` has ended */
    uint32_t node, number;
    int rank;
};

struct member {
    struct member *next;
    int number; /* of the job; 1 is the first job */
    pid_t pid;
    struct frame_chan chan;
    bool up;      /* its ranks run */
    bool met;     /* it has been connected to another job */
    bool ending;  /* FRAME_QUIT has been sent */
    bool adopted; /* `pid` is the process that has started this mpirun */
    bool left;    /* the adopted process has called MPI_Finalize; with --ft: the job has ended,
                     but neither failed nor been ended */
    uint64_t kill_at_ns; /* when it is killed, after SIGTERM; 0: it is not */
    char nspace[200];
    struct asker asker;
    int app;                 /* program of the command line from which it descends; -1: none */
    struct launch_list uses; /* "HOST=RANKS" */
    hwloc_bitmap_t cpus;     /* to which its ranks on this host are bound; NULL: they are not */
};

/* Two connected jobs; a < b. */
struct edge {
    int a, b;
};

/* A rank that has died (--ft). */
struct family_death {
    char nspace[200];
    int rank;
};

/* A request that this mpirun has passed on to the first one. */
struct passed {
    struct passed *next;
    uint32_t number;
    struct asker asker;
};

struct family {
    struct member *members;
    struct waiting *waiting; /* in the order of their arrival */
    bool slots_freed;        /* since the waiting spawns were last tried */
    int njobs;               /* numbers given to jobs until now */
    struct edge *edges;
    int nedges;
    struct family_death *deaths; /* for jobs that start later; in the first mpirun */
    int ndeaths;
    struct names names;
    bool own_failed;      /* the failure of the own job has been handled */
    struct frame_chan up; /* to the first mpirun; closed in the first mpirun itself */
    bool has_up;
    struct passed *passed;
    uint32_t npassed;
};

/* Sends the answer to a request. */
void family_answer(struct launch_job *job, const struct asker *to, int err,
                   const struct launch_list *words);

/* Starts a job for the request `words`, and answers it if that fails; the member's own messages
 * answer it otherwise. */
void spawns_ask(struct launch_job *job, const struct asker *from, const struct launch_list *words);
/* Tries waiting spawns again. */
void spawns_step(struct launch_job *job);
/* Time at which spawns_step() must be called; 0: at no time. */
uint64_t spawns_step_at_ns(const struct family *f);
/* The member has ended: its slots are free, and its requests need no answer. */
void spawns_forget(struct family *f, const struct member *m);
void spawns_fini(struct family *f);

/* member.c: starts the mpirun of a new job for the request `words`.  Returns 0, or -RT_E... after a
 * message; with `may_wait`, -RT_EAGAIN without a message if there are too few slots. */
int member_start(struct launch_job *job, struct member *m, const struct launch_list *words,
                 bool may_wait);

#endif
