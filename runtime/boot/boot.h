/* SPDX-License-Identifier: BSD-3-Clause */
/* How a process learns its rank and job, and reaches its peers' addresses: the PMIx client, or a
 * singleton when no PMIx server started this process.  Nothing here exchanges data with all ranks:
 * values are put and committed, and fetched from one peer when they are first needed. Called by one
 * thread at a time. */
#ifndef RT_BOOT_BOOT_H
#define RT_BOOT_BOOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A process anywhere: `ns` indexes the table of namespaces (jobs) this process knows; 0 is its
 * own. */
struct rt_proc {
    uint32_t ns, rank;
};

struct rt_boot {
    char nspace[256];           /* PMIx namespace; "singleton-<host>-<pid>" without a server */
    char host[256];             /* as the launcher names it, else gethostname(2) */
    int rank, size;             /* in the job */
    int local_rank, local_size; /* among the job's processes on this host */
    int node, nnodes;           /* index of this host in the job, and how many it has */
    /* Job ranks on this host in local-rank order, which is that of the ranks; local_size. */
    uint32_t *local_procs;
    int appnum, universe_size;
    bool singleton;
    /* Cores this host's processes of the job may use together; >= 1. */
    int ncpus;
};
extern struct rt_boot rt_boot; /* read-only after rt_boot_init() */

/* Job-level PMIx key with which mpirun publishes `ncpus`: it knows the whole machine, a bound rank
 * sees its own core only. */
#define RT_BOOT_KEY_NCPUS "weft.ncpus"

/* The number of a job rank's host, the same in all processes: hosts are numbered by their lowest
 * ranks, which need not be the numbers of rt_boot.node.  Looked up for all ranks when first asked
 * for (nodes.c), kept until rt_boot_fini(), 8 bytes for each run of ranks on one host.  -RT_ENOENT:
 * the server does not say, to anybody, logged once; -RT_ENOMEM. */
int rt_boot_node_of(uint32_t rank);
void rt_boot_nodes_fini(void); /* of rt_boot_fini() */

/* Before rt_boot_init() too: how many processes of this program the launcher had to start, 0
 * when that is not known; the launcher's name of this host, NULL when that is not known. */
int rt_boot_maxprocs(void);
const char *rt_boot_host_name(void);
/* Connects to the PMIx server found in the environment, or becomes a singleton.  -RT_EBOOT with
 * the cause logged.  After rt_boot_leave() it connects again; rt_boot is as it was. */
int rt_boot_init(void);
/* Local rank of a job rank, -1 when it is on another host. */
int rt_boot_local(uint32_t rank);
/* Notifies the server that this process may end now, in order.  No fence.  The facts in rt_boot
 * stay; what was published does not. */
void rt_boot_leave(void);
/* The same, and forgets the facts. */
void rt_boot_fini(void);

/* Publishes `len` bytes under `key`; visible to others after rt_boot_commit(). */
int rt_boot_put(const char *key, const void *val, size_t len);
int rt_boot_commit(void);
/* Fetches a peer's value, waiting until the peer has committed it; malloc'ed into *val.
 * -RT_ENOENT when the peer has committed others and ended without it, -RT_ETIMEOUT after timeout_s
 * seconds (0: the server's own limit). */
int rt_boot_get(struct rt_proc peer, const char *key, void **val, size_t *len, int timeout_s);
/* Barrier over the whole job through the server; slow, not for the data path. */
int rt_boot_fence(void);
/* Ends the job: the server kills every process of it, mpirun returns `code`.  What stdio has
 * buffered is written, handlers of atexit() do not run.  Does not return. */
_Noreturn void rt_boot_abort(int code, const char *msg);

#endif
