/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective algorithms over a team.  A team is what mpi/ fills in from a communicator; an
 * algorithm sees ranks, layouts and this interface only, so it runs in a unit test over a fake
 * team.
 *
 * One implementation serves blocking, nonblocking and persistent calls: start() posts the first
 * steps and sets task->step; the progress loop calls step() until it answers done.  Blocking is
 * start + wait. */
#ifndef COLL_COLL_H
#define COLL_COLL_H

#include <stddef.h>
#include <stdint.h>
#include "coll/args.h"
#include "runtime/base/list.h"
#include "runtime/base/req.h"
#include "runtime/layout/layout.h"
#include "runtime/base/memkind.h"
#include "runtime/gpu/gpu.h"
#include "runtime/reduce/reduce.h"

struct coll_team;
struct coll_task;
struct coll_node; /* shared-memory state of coll/node */
struct coll_gpu;  /* that of coll/gpu */
struct coll_hier; /* how the ranks lie on hosts: coll/hier */

/* One contiguous range of this rank's device memory that the team's other ranks may map for the
 * length of a call. */
#define COLL_DEV_KEY 32
struct coll_dev_mem {
    struct rt_gpu_ptr at;
    bool looked; /* set by the caller: as in struct coll_args */
    void *reg; /* the team's own */
    char key[COLL_DEV_KEY];
};
/* Another rank's range, mapped for copies and kernels of one device. */
struct coll_dev_map {
    void *ptr;
    void *att; /* the team's own */
};

struct coll_team_ops {
    /* Starts a message on the team's collective context; *out is done later, freed with release().
     * -RT_E... on failure. */
    int (*isend)(struct coll_team *t, const void *buf, int64_t n, const struct rt_layout *l,
                 int dst, int tag, struct rt_req **out);
    int (*irecv)(struct coll_team *t, void *buf, int64_t n, const struct rt_layout *l, int src,
                 int tag, struct rt_req **out);
    void (*release)(struct coll_team *t, struct rt_req *r);
    /* In place of isend() where the data are void: the receive ends with -RT_EREMOTE.  Nothing is
     * left to wait for. */
    int (*tell_void)(struct coll_team *t, int dst, int tag);
    /* Shared memory for all ranks of a team on one node: offset + pointer, agreed by the caller
     * over messages; NULL-able. */
    size_t (*shm_alloc)(struct coll_team *t, size_t nbytes);
    void (*shm_free)(struct coll_team *t, size_t off, size_t nbytes);
    void *(*shm_at)(struct coll_team *t, size_t off);
    void (*shm_wake)(struct coll_team *t,
                     int rank); /* after a store to shared memory that `rank` may sleep on */
    /* Copies from, or to, private memory of another rank on this node; the whole length or
     * -RT_E..., -RT_ENOTSUP where the system does not permit it.  NULL-able. */
    int (*peer_read)(struct coll_team *t, int rank, void *to, uint64_t from, size_t nbytes);
    int (*peer_write)(struct coll_team *t, int rank, uint64_t to, const void *from, size_t nbytes);
    /* Device memory; NULL-able, all or none.  dev_describe: what [p, p + len) is, and a key that
     * every rank of the team can attach: -RT_ENOTSUP when it is host memory, cannot be shared, or a
     * rank cannot be given what it needs; -RT_EADDR as wm_dev_open().  dev_attach: maps a rank's
     * range for g's device, from a cache: -RT_ENOTSUP, -RT_EUNREACH: not this way; -RT_EPEER,
     * -RT_EGPU. */
    int (*dev_describe)(struct coll_team *t, const void *p, size_t len, struct coll_dev_mem *out);
    void (*dev_release)(struct coll_team *t, struct coll_dev_mem *m);
    int (*dev_attach)(struct coll_team *t, int rank, const void *key, const struct rt_gpu_ptr *near,
                      struct coll_dev_map *out);
    void (*dev_detach)(struct coll_team *t, struct coll_dev_map *m);
    /* Between calls that use the same ranges.  dev_park: of n maps those that are attached (`att`)
     * may be unmapped from now on, and wait to be retaken or detached.  dev_retake: all of them are
     * as they were; false: all have to be detached. */
    void (*dev_park)(struct coll_team *t, struct coll_dev_map *m, int n);
    bool (*dev_retake)(struct coll_team *t, struct coll_dev_map *m, int n);
    /* A call with device buffers that the team does not carry out from device to device: starts the
     * task by coll_begin_device(), or puts host memory in the buffers' place in k->args, starts it
     * by coll_begin_host() and makes it copy back at its end. */
    int (*stage)(struct coll_team *t, struct coll_task *k);
    /* The device in whose memory, without gaps, all is that this rank passes in the call, if its
     * kernels do the operation; else NULL.  Of a team on several hosts; NULL-able. */
    struct rt_gpu *(*device)(struct coll_team *t, const struct coll_args *a);
    /* Whether a rank's process is no more (a system call); NULL-able. */
    bool (*gone)(struct coll_team *t, int rank);
    /* Stores for each rank a number of the host that it is on, the same on all ranks, below the
     * number of processes in the job.  0; -RT_ENOENT: not known, on any rank; -RT_ENOMEM.
     * NULL-able. */
    int (*nodes)(struct coll_team *t, int *out);
};

struct coll_team {
    const struct coll_team_ops *ops;
    void *arg; /* the communicator, for ops */
    int rank, size;
    bool one_node; /* all ranks share a node segment */
    uint32_t seq;  /* collective calls so far, the same on all ranks: makes tags and epochs */
    /* Of the kinds that coll/gpu agrees about, on a team with a node: calls so far, and persistent
     * calls that have been made; the same on all ranks, also on those without devices. */
    uint64_t gate_calls, gate_inits;
    struct coll_node *node; /* owned by coll/node; NULL when not set up */
    /* Owned by coll/gpu; NULL: device buffers are always staged.  Of a team on several hosts: where
     * this host's ranks vote. */
    struct coll_gpu *gpu;
    struct coll_hier *hier; /* owned by coll/hier; NULL: not a group on several hosts */
    /* An intercommunicator's team: rank and size are those of the local group, messages go to ranks
     * of the remote one, and `local` is a team of the local group, for messages among it.  The
     * algorithms are those of algo/inter.c. */
    struct coll_team *local; /* not owned; NULL: an intracommunicator */
    int remote_size;         /* 0: an intracommunicator */
};

struct coll_alg;
struct coll_task {
    struct rt_req req; /* completion; first member */
    struct coll_team *team;
    struct coll_args args; /* copied at start; persistent calls restart from it */
    const struct coll_alg *alg;
    uint32_t seq; /* this call's number in the team */
    int tag;      /* of its messages */
    bool background; /* nobody drives it until its owner waits for it; set before the start */
    bool messages; /* ranks may start it in different orders: messages only */
    /* -RT_E...: what this rank puts in, or has received, is void, as a device has failed; 0: not so
     * far.  The algorithm goes on, so that nobody waits in vain, tells those to whom it gives
     * anything, and the call ends with this.  Set by coll_task_lose(). */
    int lost;
    /* Advances without blocking: 0 = not finished, 1 = finished, -RT_E... = failed. */
    int (*step)(struct coll_task *k);
    void (*cleanup)(
        struct coll_task *k); /* frees `state`; called once after finish or failure; NULL-able */
    void *state;              /* the algorithm's own */
    void *up;                 /* what ops->stage() needs of the call */
    struct coll_wide *wide;   /* of a call that sends floats for 16-bit ones; wide.c */
    /* While an algorithm over messages starts: the device that shall do its copies and reductions,
     * and have its temporaries; NULL: the CPU. */
    struct rt_gpu *gpu;
    struct coll_gpu_call *fixed; /* of a persistent call on device memory; coll/gpu's */
    struct rt_list link;      /* on the domain's list of active tasks */
};

#define COLL_NEED_COMMUTES 1u /* op must commute */
#define COLL_NEED_POW2 2u     /* team size a power of two */
#define COLL_NEED_ONE_NODE 4u /* team->node present */
#define COLL_NEED_PEER_MAP 8u /* device memory of all ranks mapped */
#define COLL_NEED_CUDA_BUFFERS 16u
#define COLL_NEED_BUILTIN_OP 32u /* predefined op on a basic type */
#define COLL_NEED_CONTIG 64u     /* contiguous layouts */
#define COLL_NEED_CELL 128u      /* what one rank contributes fits a cell of coll/node */
#define COLL_NEED_BLOCK 256u     /* shared memory holds pieces of it that are worth their step */
#define COLL_NEED_NODES 512u     /* several hosts, and on one of them more than one rank */
#define COLL_NEED_NODE_ORDER 1024u /* op commutes, or the ranks of each host follow each other */

struct coll_alg { /* one row an algorithm; const array at the end of its file; select.c lists the
                     arrays */
    const char *name, *help;
    enum coll_kind kind;
    uint32_t need;
    int (*start)(struct coll_team *t, const struct coll_args *a, struct coll_task *task);
};

/* Shared memory for a team on one node, or for the local one of a split team, whose size counts:
 * the caller gets coll_node_nbytes() zeroed bytes from shm_alloc on one rank, tells the others the
 * offset, and every rank attaches the whole team; no message is sent.
 * 0 when a team of this size has no use for it.  The block stays the caller's; what the team
 * allocates later is freed by rank 0's coll_team_fini(). */
size_t coll_node_nbytes(int size);
int coll_team_attach(struct coll_team *t, size_t off);
void coll_team_fini(struct coll_team *t);
/* The communicator goes, and so will coll_team_fini() when the team is quiet: what is kept of
 * device memory is given back, as long as ops->dev_... can be called. */
void coll_team_forget(struct coll_team *t);
/* A team over several hosts: `ranks`, n of them, ascending, are those that share this host's node
 * segment with this one.  0 or -RT_ENOMEM. */
int coll_team_split(struct coll_team *t, const int *ranks, int n);
/* The team of those ranks, to be attached to memory that they share; the team itself when all are
 * on one host. */
struct coll_team *coll_team_local(struct coll_team *t);
/* The rank in the whole team of a rank of a local one; any other team's is the same. */
int coll_team_whole_rank(const struct coll_team *t, int rank);
/* After the struct has been copied elsewhere. */
void coll_team_moved(struct coll_team *t);
/* Whether no rank will touch the team's shared memory for the calls so far; ask before freeing it.
 */
bool coll_team_quiet(struct coll_team *t);
/* Chooses and starts; the task's req is completed by coll_task_advance().  Task storage is the
 * caller's.  After a failure, of memory, nothing has happened and the call may be repeated. */
int coll_start(struct coll_team *t, const struct coll_args *a, struct coll_task *task);
/* The same for a persistent call, which the ranks may start in different orders: coll_prepare()
 * when it is made, in the same order on all ranks, copies the arguments; coll_restart() each time.
 * Such calls use messages, or what was agreed upon when they were made. */
void coll_prepare(struct coll_team *t, const struct coll_args *a, struct coll_task *task);
int coll_restart(struct coll_task *task);
/* Before the memory of a prepared task, which is not started, is given back. */
void coll_unprepare(struct coll_task *task);
/* Starts the algorithm for host memory of a task whose number and tag are set; for ops->stage(). */
int coll_begin_host(struct coll_task *k);
/* For ops->stage() of a call that goes by messages on all ranks (k->messages, or an algorithm that
 * needs no shared memory): the same algorithm over the user's buffers, which are memory of g's
 * device, as are its temporaries; g does copies and reductions.  -RT_ENOMEM, -RT_ENOTSUP: nothing
 * has begun, it must be staged. */
int coll_begin_device(struct coll_task *k, struct rt_gpu *g);
/* Whether the call's messages carry floats in place of 16-bit floats, on every rank: it has to be
 * staged. */
bool coll_is_wide(const struct coll_task *k);
/* Tags of a team's messages: below this, and of persistent calls between the other two. */
#define COLL_TAG_CALLS 0x20000000
#define COLL_TAG_PERSISTENT 0x40000000
#define COLL_TAG_END 0x60000000
/* What this rank contributes from here on is void.  The first reason counts. */
static inline void coll_task_lose(struct coll_task *k, int err)
{
    if (!k->lost)
        k->lost = err;
}
/* Calls step(); finishes task->req when done.  Returns 1 when it finished now, else 0. */
int coll_task_advance(struct coll_task *task);
/* The algorithm that coll_start() would take, and why (rule text), for weft_info --coll. */
const struct coll_alg *coll_select(const struct coll_team *t, const struct coll_args *a,
                                   const char **why);
/* Checks the WEFT_COLL value: -RT_EINVAL with the nearest valid name logged. */
int coll_configure(const char *spec);
/* Takes the rows of a file before those of coll/tune.def; NULL or "": those only.  The same on all
 * ranks.  -RT_EINVAL, -RT_ESYS, logged with file and line; then only those of tune.def hold. */
int coll_tune_load(const char *path);
/* How device buffers go that need no staging, as WEFT_COLL or a row of the table for CUDA memory
 * says: one of coll_gpu_algs; NULL: neither says anything.  direct: the devices have links of their
 * own to each other. */
const struct coll_alg *coll_choose_gpu(enum coll_kind kind, int nranks, int64_t bytes, bool direct,
                                       const char **why);
/* All algorithms, for info and tests: returns NULL past the end. */
const struct coll_alg *coll_alg_at(int i);
/* By kind and name; NULL when there is none. */
const struct coll_alg *coll_alg_find(enum coll_kind kind, const char *name);
/* The table of choices (coll/tune.def), for info and tests. */
struct coll_tune {
    enum coll_kind kind;
    int mem;
    int min_ranks;
    int64_t min_bytes;
    const char *name, *measured;
};
#define COLL_MEM_ANY (-1) /* else one enum rt_memkind, or */
#define COLL_MEM_CUDA_DIRECT (RT_MEM_KINDS + 1) /* of devices with links of their own */
#define COLL_MEM_CUDA_SWITCH (RT_MEM_KINDS + 2) /* of all other devices */
const struct coll_tune *coll_tune_at(int i);

#endif
