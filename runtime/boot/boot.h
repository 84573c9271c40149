/* SPDX-License-Identifier: BSD-3-Clause */
/* A process's rank and job, and values that its peers have published: the PMIx client, or a store
 * of the program (store.h), or a singleton if no PMIx server has started this process.  No function
 * exchanges data among all ranks: values are put and committed, and fetched from one peer when they
 * are first needed. Called by one thread at a time. */
#ifndef RT_BOOT_BOOT_H
#define RT_BOOT_BOOT_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Any process.  `ns` is an index in this process's table of namespaces (jobs.h); 0 is its own. */
struct rt_proc {
    uint32_t ns, rank;
};

struct rt_boot {
    char nspace[256]; /* PMIx namespace; "singleton-<host>-<pid>-<random>" without a server */
    char host[256];   /* as the launcher names it, otherwise gethostname(2) */
    int rank, size;   /* in the job */
    int local_rank, local_size; /* among the job's processes on this host */
    int node, nnodes;           /* index of this host in the job, and number of hosts */
    /* Job ranks on this host in local-rank order, which is ascending; local_size of them. */
    uint32_t *local_procs;
    int appnum, universe_size;
    bool singleton;
    /* Cores that this host's processes of the job may use in total; >= 1. */
    int ncpus;
    char *cpulist; /* value of RT_BOOT_KEY_CPUS; NULL: not published */
};
extern struct rt_boot rt_boot; /* read-only after rt_boot_init() */

/* Job-level PMIx key with which mpirun publishes `ncpus`.  A bound rank would see only its own
 * core. */
#define RT_BOOT_KEY_NCPUS "weft.ncpus"
/* Job-level PMIx key with which mpirun publishes the hardware threads of this host that the job may
 * use, "0-3,8".  Empty: the ranks are not bound. */
#define RT_BOOT_KEY_CPUS "weft.cpus"
/* Hardware threads for a thread of the library that works beside the calling thread: those of the
 * whole job on this host except the caller's own.  False: there are no others, or they are unknown;
 * the thread keeps the binding that it inherits (cpus.c). */
bool rt_boot_cpus(cpu_set_t *out);
/* The number of hardware threads of the L3 cache to which the calling thread is bound.  0: it is
 * bound to none, or the kernel does not show it. */
int rt_boot_l3_cpus(void);

/* The number of a job rank's host, equal in all processes: hosts are numbered by their lowest
 * ranks, which may differ from rt_boot.node.  The first call reads the numbers of all ranks
 * (nodes.c); they are kept until rt_boot_fini(), 8 bytes for each run of ranks on one host.
 * -RT_ENOENT: the server does not publish it, to any process (logged once); -RT_ENOMEM. */
int rt_boot_node_of(uint32_t rank);
void rt_boot_nodes_fini(void); /* called by rt_boot_fini() */

/* Usable before rt_boot_init(), too: the number of processes of this program that the launcher had
 * to start, 0: unknown; the launcher's name of this host, NULL: unknown. */
int rt_boot_maxprocs(void);
const char *rt_boot_host_name(void);
/* Environment of started processes (MPI_Comm_spawn): the port at which their parents accept.  The
 * second call returns it in malloc'ed memory, NULL if there is none, and removes the variable:
 * programs that this process starts itself have no parent. */
#define RT_BOOT_PARENT_PORT "WEFT_PARENT_PORT"
char *rt_boot_take_parent(void);
/* Connects to the PMIx server named in the environment, or becomes a singleton.  -RT_EBOOT,
 * -RT_ENOMEM or -RT_ESYS after logging the cause.  After rt_boot_leave() it connects again and
 * rt_boot is unchanged. */
int rt_boot_init(void);
/* Local rank of a job rank; -1: it is on another host. */
int rt_boot_local(uint32_t rank);
/* Notifies the server that this process may now end normally.  No fence.  rt_boot stays valid;
 * published values do not. */
void rt_boot_leave(void);
/* The same, and frees rt_boot. */
void rt_boot_fini(void);

/* Publishes `len` bytes under `key`; visible to other processes after rt_boot_commit().
 * -RT_ENOMEM; -RT_EBOOT, logged. */
int rt_boot_put(const char *key, const void *val, size_t len);
int rt_boot_commit(void); /* 0; -RT_EBOOT, logged */
/* Fetches a peer's value into malloc'ed *val; waits until the peer has committed it.  -RT_ENOENT:
 * there is no such process, or it has committed its values without this one; -RT_ETIMEOUT: after
 * timeout_s seconds (0: no limit, or 60 s with a server that does not wait for the peer);
 * -RT_ENOMEM; -RT_EBOOT, logged. */
int rt_boot_get(struct rt_proc peer, const char *key, void **val, size_t *len, int timeout_s);
/* Waits for a value that the peer publishes later than its others, or until the peer has died. */
void rt_boot_await(struct rt_proc peer, const char *key);
/* Asks for a value of a rank of this job, without waiting.  done() is called once, on a thread of
 * PMIx; val is NULL if the rank has not published it.  The question is lent until done(): for the
 * life of the process if no answer comes.  -RT_EBOOT: not asked. */
struct rt_boot_question {
    void (*done)(struct rt_boot_question *q, const void *val, size_t len);
};
int rt_boot_ask(uint32_t rank, const char *key, struct rt_boot_question *q);

/* ---- spawn.c: what the launcher does for running jobs.  -RT_ENOTSUP: there is no launcher, or the
 * launcher does not offer it.  Then the first rt_boot_spawn() starts an mpirun, which serves the
 * later calls. ---- */

/* Names of the launcher, visible to all jobs of one mpirun.  -RT_EEXIST: the name is published
 * already; -RT_ENOENT: the name is unknown; -RT_ETRUNC: the value does not fit in `len` bytes;
 * -RT_EBOOT: another error of the launcher, logged. */
int rt_boot_publish(const char *name, const char *value);
int rt_boot_lookup(const char *name, char *value, size_t len);
int rt_boot_unpublish(const char *name);
/* Notifies the launcher that this job and another one are connected, or are no longer: connected
 * jobs end together when one of them fails.  Namespaces of other launchers are ignored. */
int rt_boot_join(const char *nspace);
int rt_boot_part(const char *nspace);

/* One command of a spawn. */
struct rt_boot_app {
    const char *command;
    char *const *args; /* without the command; NULL: none */
    int n;
    const char *wdir, *path, *soft, *host; /* NULL: not given */
    char *const *env;                      /* NAME=VALUE, NULL at the end */
};
struct rt_boot_spawn {
    const struct rt_boot_app *apps;
    int napps;
    const char *hostfile, *add_host, *map_by; /* NULL: not given */
};
/* Starts a job.  Returns when its processes run; nspace receives its name.  Errors, after a message
 * of the launcher: -RT_ENOFILE: no such program; -RT_ENOSPC: too few slots; -RT_ENOTSUP: the
 * launcher does not spawn and no mpirun was found; -RT_ENOMEM; -RT_ESPAWN: any other. */
int rt_boot_spawn(const struct rt_boot_spawn *what, char nspace[256]);
/* Whether a job that this process has spawned has ended before it was connected by
 * rt_boot_join(). */
bool rt_boot_ended(const char *nspace);
/* The ranks of this job whose processes have ended, malloc'ed: ranges in ascending order,
 * "0-3,7-7". -RT_ENOENT: none has; -RT_ENOTSUP: the launcher is not of Weft; -RT_ENOMEM; -RT_EBOOT.
 */
int rt_boot_ended_ranks(char **list);
void rt_boot_spawn_fini(void); /* called by rt_boot_leave() */

/* Directives of PMIx_Spawn() for which PMIx has no key. */
#define RT_BOOT_KEY_PATH "weft.path"
#define RT_BOOT_KEY_SOFT "weft.soft"
#define RT_BOOT_KEY_NSPACE "weft.nspace" /* the name that the new job shall have */
/* Returned by PMIx_Spawn() as the name of a job that the request has named. */
#define RT_BOOT_SPAWNED "weft.spawned"
/* Names under which rt_boot_join() and rt_boot_part() publish the other job's namespace. */
#define RT_BOOT_KEY_JOIN "weft.join"
#define RT_BOOT_KEY_PART "weft.part"
/* The name under which mpirun publishes to each rank which ranks of its job have ended. */
#define RT_BOOT_KEY_ENDED "weft.ended"
/* Followed by the namespace of a spawned job: the name under which the launcher publishes the
 * number of ranks of each command, "3,1". */
#define RT_BOOT_KEY_COUNTS "weft.counts."

/* The last step of the start.  With a store it waits for all ranks, so that a rank that dies in its
 * start is an error in all others.  The errors of rt_boot_init(). */
int rt_boot_complete(void);
/* A file that rt_boot_abort() removes: without mpirun, no other process would.  "": none. */
void rt_boot_remove_at_abort(const char *path);
/* Barrier over the whole job through the server; slow, not for the data path.  -RT_EBOOT,
 * logged. */
int rt_boot_fence(void);
/* Ends the job: the server kills all its processes; mpirun returns `code`.  Buffered output of
 * stdio is written; handlers of atexit() do not run.  Does not return. */
_Noreturn void rt_boot_abort(int code, const char *msg);

#endif
