/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective algorithms over a team.  mpi/ fills in a team from a communicator.  An algorithm sees
 * only ranks, layouts and this interface, so a unit test can run it over a fake team.
 *
 * One implementation serves blocking, nonblocking and persistent calls: start() posts the first
 * steps and sets task->step; the progress loop calls step() until it returns nonzero.  A blocking
 * call is start + wait. */
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
struct coll_gpu;  /* device-memory state of coll/gpu */
struct coll_hier; /* the hosts of the ranks: coll/hier */
struct coll_alg;

/* A contiguous range of this rank's device memory that the other ranks of the team may map during a
 * call. */
#define COLL_DEV_KEY 32
struct coll_dev_mem {
    struct rt_gpu_ptr at;
    void *reg;      /* owned by the team */
    uint64_t turns; /* rt_gpu_turns_of(at.g) */
    char key[COLL_DEV_KEY];
};
/* Another rank's range, mapped for the copies and kernels of one device. */
struct coll_dev_map {
    void *ptr;
    void *att; /* owned by the team */
};

enum coll_ended { COLL_LIVES, COLL_ENDED_LEFT /* after leaving MPI */, COLL_ENDED_DIED };

struct coll_team_ops {
    /* Starts a message in the team's collective context.  *out completes later and is freed with
     * release().  -RT_E... on failure. */
    int (*isend)(struct coll_team *t, const void *buf, int64_t n, const struct rt_layout *l,
                 int dst, int tag, struct rt_req **out);
    int (*irecv)(struct coll_team *t, void *buf, int64_t n, const struct rt_layout *l, int src,
                 int tag, struct rt_req **out);
    void (*release)(struct coll_team *t, struct rt_req *r);
    /* Sends poison in place of isend(): the matching receive ends with -RT_EREMOTE.  There is no
     * request to wait for. */
    int (*send_poison)(struct coll_team *t, int dst, int tag);
    /* Memory in the node segment for a team on one node: offset and pointer.  shm_alloc returns
     * SIZE_MAX if there is no memory.  The caller publishes the offset to the other ranks.
     * shm_at: `rank` has published it; a block that is not in the segment ends the job.
     * NULL-able. */
    size_t (*shm_alloc)(struct coll_team *t, size_t nbytes);
    void (*shm_free)(struct coll_team *t, size_t off, size_t nbytes);
    void *(*shm_at)(struct coll_team *t, int rank, size_t off, size_t nbytes);
    void (*shm_wake)(struct coll_team *t,
                     int rank); /* wakes `rank` if it sleeps; call it after a store */
    /* Copies from or to private memory of another rank on this node: the whole length, or -RT_E...;
     * -RT_ENOTSUP if the system does not permit it.  NULL-able. */
    int (*peer_read)(struct coll_team *t, int rank, void *to, uint64_t from, size_t nbytes);
    int (*peer_write)(struct coll_team *t, int rank, uint64_t to, const void *from, size_t nbytes);
    /* Device memory; either all of these are NULL or none is.  dev_describe: registers [p, p + len)
     * and returns a key that every rank of the team can attach; out->at: the allocation, if the
     * caller has found it (`g` NULL: not); -RT_ENOTSUP: host memory, memory
     * that cannot be shared, or a rank to which the descriptor of the memory cannot be sent;
     * -RT_EADDR: the buffer is invalid.  dev_attach: maps a rank's range for g's device, from a
     * cache; -RT_ENOTSUP, -RT_EUNREACH: no such mapping is possible; -RT_EPEER, -RT_EGPU. */
    int (*dev_describe)(struct coll_team *t, const void *p, size_t len, struct coll_dev_mem *out);
    void (*dev_release)(struct coll_team *t, struct coll_dev_mem *m);
    int (*dev_attach)(struct coll_team *t, int rank, const void *key, const struct rt_gpu_ptr *near,
                      struct coll_dev_map *out);
    void (*dev_detach)(struct coll_team *t, struct coll_dev_map *m);
    /* Unpins and repins the mappings between calls that use the same ranges.  dev_unpin: unpins the
     * attached ones (`att`) of n mappings; they may be unmapped from now on, and must later be
     * repinned or detached.  dev_repin: repins all of them; false: at least one has been unmapped,
     * and all must be detached. */
    void (*dev_unpin)(struct coll_team *t, struct coll_dev_map *m, int n);
    bool (*dev_repin)(struct coll_team *t, struct coll_dev_map *m, int n);
    /* Serves a call with device buffers that no device plan serves: starts the task with
     * coll_begin_device(), or replaces the buffers in k->args by host memory, starts the task with
     * coll_begin_host() and has it copy back at its end. */
    int (*stage)(struct coll_team *t, struct coll_task *k);
    /* The device whose memory holds all buffers of this rank's call, without gaps, if the device's
     * kernels can do the operation; otherwise NULL.  For teams on several hosts; NULL-able. */
    struct rt_gpu *(*device)(struct coll_team *t, const struct coll_args *a);
    /* Whether a rank on this node has left MPI or its process has ended; whether and how the
     * process has ended: as far as is known (runtime/mem/deaths.h).  NULL-able. */
    bool (*gone)(struct coll_team *t, int rank);
    enum coll_ended (*ended)(struct coll_team *t, int rank);
    /* Whether calls of the team must end (coll_revocations).  NULL-able. */
    bool (*revoked)(struct coll_team *t);
    /* The ranks are of several jobs: only rank 0 can free memory that it has allocated. */
    bool one_owner;
    /* Stores for each rank the number of its host: the same on all ranks, less than the team's
     * size.  0; -RT_ENOENT: unknown, then on all ranks; -RT_ENOMEM.  NULL-able. */
    int (*nodes)(struct coll_team *t, int *out);
    /* The first call of a team that is `unsure`: finds out whether the ranks of this host share
     * memory, which may wait for them, and unprepares the team if not. */
    void (*settle)(struct coll_team *t);
    /* For a team of some ranks of another team: the rank there.  NULL: not such a team. */
    int (*whole_rank)(const struct coll_team *t, int rank);
};

/* Facts of coll/node: whether a call fits the shared memory of a team (COLL_NEED_CELL and
 * COLL_NEED_BLOCK); a rank that has ended and for which calls in shared memory would wait for ever:
 * it has died, or has left MPI without taking part in the call that this rank has reached; -1:
 * none. */
struct coll_limits {
    bool (*cell)(const struct coll_team *t, const struct coll_args *a, int64_t bytes);
    bool (*block)(const struct coll_team *t, const struct coll_args *a, int64_t bytes);
    int (*lost)(struct coll_team *t);
    /* The call that this rank has reached has failed, so no later call gets its turn. */
    void (*fail)(struct coll_team *t);
};

/* Values in place of measured ones, for one team; 0: none.  The same on all ranks.  Set when the
 * team is made; teams of some of its ranks have them, too. */
struct coll_override {
    int64_t chain_trip; /* bytes: TRIP of algo/bcast.c */
    int64_t device_min; /* bytes: DEVICE_MIN of hier/on_device.c */
    int l3_ranks;       /* ranks on an L3 cache: node/grid.c */
    int node_way; /* 1 + COLL_NODE_STAGED or COLL_NODE_DIRECT, for all long calls: node/pace.c */
};

/* Where the ranks of a team are; set by the team's first call (coll/hier). */
enum coll_hosts {
    COLL_HOSTS_NONE,    /* not on several hosts, or each on a host of its own */
    COLL_HOSTS_ORDERED, /* on several hosts, those of each host are consecutive */
    COLL_HOSTS_MIXED
};

struct coll_team {
    const struct coll_team_ops *ops;
    void *arg; /* the communicator, for ops */
    int rank, size;
    bool one_node; /* all ranks share a node segment */
    bool unsure;   /* as far as is known: ops->settle() */
    bool failed;   /* a call has failed here, so messages may be left */
    uint32_t seq;  /* collective calls so far, the same on all ranks; gives tags and epochs */
    /* Calls so far of the kinds that coll/gpu votes on, on a team with a node, and persistent calls
     * created; the same on all ranks, including ranks without devices. */
    uint64_t gate_calls, gate_inits;
    struct coll_node *node;           /* owned by coll/node; NULL when not set up */
    const struct coll_limits *limits; /* with `node` */
    struct coll_override override;
    uint8_t first_row[COLL_KINDS]; /* coll_select_prepare() */
    /* Owned by coll/gpu; NULL: device buffers are always staged.  For a team on several hosts: the
     * vote of this host's ranks. */
    struct coll_gpu *gpu;
    const struct coll_alg *device_part; /* with `gpu`: for calls of a schedule */
    enum coll_hosts hosts;
    struct coll_hier *hier; /* owned by coll/hier; NULL: all on one host, or an intercommunicator */
    /* For an intercommunicator: rank and size are those of the local group, messages go to ranks of
     * the remote group, and `local` is a team of the local group for messages within it.
     * algo/inter.c has the algorithms. */
    struct coll_team *local; /* not owned; NULL: an intracommunicator */
    int remote_size;         /* 0: an intracommunicator */
};

/* The rank in the whole team of a rank of a sub-team; in any other team the same rank. */
static inline int coll_team_whole_rank(const struct coll_team *t, int rank)
{
    return t->ops->whole_rank ? t->ops->whole_rank(t, rank) : rank;
}

struct coll_task {
    struct rt_req req; /* completion; first member */
    struct coll_team *team;
    struct coll_args args; /* copied at start; persistent calls restart from it */
    const struct coll_alg *alg;
    int64_t bytes;   /* coll_args_bytes(), in the choice of `alg`; 0 on an intercommunicator */
    uint32_t seq;    /* number of this call in the team */
    int tag;         /* of this call's messages */
    bool background; /* its owner does not call progress for it before waiting for it; set before
                      * the start */
    bool messages;   /* ranks may start the call in different orders: use messages only; not set for
                      * a persistent call whose team is its own */
    bool copying;    /* waits for copies of this process, not for other ranks */
    /* Nonzero (-RT_E...): a device has failed, and data that this rank contributes or has received
     * are poisoned.  The algorithm continues, so that no rank hangs, sends poison in place of data,
     * and the call ends with this error.  Set by coll_task_lose(). */
    int lost;
    /* Advances without blocking: 0 = not finished, 1 = finished, -RT_E... = failed. */
    int (*step)(struct coll_task *k);
    /* Frees `state`; called once, after completion or failure; NULL-able. */
    void (*cleanup)(struct coll_task *k);
    void *state;            /* owned by the algorithm */
    void *up;               /* owned by ops->stage() */
    struct coll_wide *wide; /* of a call whose messages carry floats in place of 16-bit floats;
                             * wide.c */
    /* While an algorithm over messages starts: the device for its copies, reductions and
     * temporaries; NULL: the CPU. */
    struct rt_gpu *gpu;
    struct coll_gpu_call *fixed; /* of a persistent call on device memory; owned by coll/gpu */
    /* The domain's list of tasks to advance, or another one: a step that has nothing to do until an
     * event of this process may move the task there, and the event moves it back to `home`.
     * `home`: NULL while the task's owner advances it. */
    struct rt_list link, *home;
};

#define COLL_NEED_COMMUTES 1u /* op must commute */
#define COLL_NEED_POW2 2u     /* team size a power of two */
#define COLL_NEED_ONE_NODE 4u /* team->node is set */
#define COLL_NEED_PEER_MAP 8u /* all ranks' device memory can be mapped */
#define COLL_NEED_CUDA_BUFFERS 16u
#define COLL_NEED_BUILTIN_OP 32u /* predefined op on a basic type */
#define COLL_NEED_CONTIG 64u     /* contiguous layouts */
#define COLL_NEED_CELL 128u      /* a rank's contribution fits a cell of coll/node */
#define COLL_NEED_BLOCK 256u /* shared memory holds pieces large enough to be worth a step each */
#define COLL_NEED_NODES 512u /* several hosts, at least one with more than one rank */
#define COLL_NEED_NODE_ORDER 1024u /* op commutes, or the ranks of each host are consecutive */

/* one row per algorithm, in a const array at the end of its file; start/algs.c lists the arrays */
struct coll_alg {
    const char *name, *help;
    enum coll_kind kind;
    uint32_t need;
    int (*start)(struct coll_team *t, const struct coll_args *a, struct coll_task *task);
};

/* Tags of a team's messages: less than COLL_TAG_CALLS; persistent calls: from COLL_TAG_PERSISTENT
 * to COLL_TAG_END. */
#define COLL_TAG_CALLS 0x20000000
#define COLL_TAG_PERSISTENT 0x40000000
#define COLL_TAG_END 0x60000000

/* From here on this rank contributes poison.  The first error is kept. */
static inline void coll_task_lose(struct coll_task *k, int err)
{
    if (!k->lost)
        k->lost = err;
}

#endif
