/* SPDX-License-Identifier: BSD-3-Clause */
/* One collective call on buffers of any kind of memory, with the expected value of every byte: used
 * by coll_random and coll_faults.  The receive buffer is poisoned and has guards on both sides that
 * must not be written; the send buffer must stay unchanged.  Two streams of random numbers: `alike`
 * is the same on all ranks and draws everything on which they must agree; `own` draws the rest:
 * kinds of memory, addresses, datatypes of equal signature, places of blocks. */
#ifndef TEST_GPU_COLLCALL_H
#define TEST_GPU_COLLCALL_H

#include "test/gpu/collref.h"
#include "test/gpu/gputest.h"

#define CC_RANKS 16
#define CC_BLOCKS CC_RANKS

uint32_t cc_draw(uint64_t *state, uint32_t n);
extern uint64_t cc_alike_state, cc_own_state;
extern int cc_world_rank;
extern MPI_Comm cc_world; /* of all ranks; MPI_COMM_WORLD, unless the program changes it */
static inline uint32_t cc_alike(uint32_t n) { return cc_draw(&cc_alike_state, n); }
static inline uint32_t cc_own(uint32_t n) { return cc_draw(&cc_own_state, n); }

enum cc_kind {
    CC_BARRIER,
    CC_BCAST,
    CC_REDUCE,
    CC_ALLREDUCE,
    CC_REDUCE_SCATTER,
    CC_REDUCE_SCATTER_BLOCK,
    CC_SCAN,
    CC_EXSCAN,
    CC_GATHER,
    CC_GATHERV,
    CC_SCATTER,
    CC_SCATTERV,
    CC_ALLGATHER,
    CC_ALLGATHERV,
    CC_ALLTOALL,
    CC_ALLTOALLV,
    CC_ALLTOALLW,
    CC_N_ALLGATHER, /* neighbours: rank + 1 and + 2 send to this rank */
    CC_N_ALLGATHERV,
    CC_N_ALLTOALL,
    CC_N_ALLTOALLV,
    CC_N_ALLTOALLW,
    CC_KINDS
};
enum cc_form { CC_BLOCKING, CC_NONBLOCKING, CC_PERSISTENT, CC_ENQUEUED };

struct cc_comm {
    const char *name;
    MPI_Comm h, graph; /* graph: of an intracommunicator's neighbours, or MPI_COMM_NULL */
    bool inter;
    bool copied;          /* freed as soon as its call has been started */
    struct cc_comm *next; /* in the list of copies */
    int me, n;            /* in the local group */
    int nsrc;             /* ranks whose data a call delivers here: the remote group's, or n */
    int side, sides[2];   /* intercommunicator: this rank's side; ranks per side */
    int src[CC_RANKS];    /* their ranks in cc_world */
};
void cc_comm_init(struct cc_comm *c, const char *name, MPI_Comm h, int side);
void cc_comm_free(struct cc_comm *c);
/* A duplicate for one call; cc_comm_release() frees duplicates and leaves other communicators
 * alone. */
const struct cc_comm *cc_comm_copy(const struct cc_comm *c);
void cc_comm_release(const struct cc_comm *c);
void cc_comm_forget(void); /* frees the copies' structs */

struct cc_type { /* has `per` units, at `at`, in `ext` units of memory */
    MPI_Datatype h;
    int per, ext, at[2];
    int unit; /* bytes */
};

struct cc_side {
    unsigned char *before, *after; /* contents of the region before and after, in host memory */
    unsigned char *region, *buf;   /* the region's memory, and the buffer in it */
    size_t at, len;                /* of the buffer in the region, of the region */
    enum gt_kind kind;
    int dev;
    struct cc_block {
        size_t at; /* offset in the buffer, in bytes */
        int n;     /* units */
        const struct cc_type *t;
        uint64_t from, to; /* the ranks whose data these are */
    } block[CC_BLOCKS];
    int nblocks;
};

struct cc_call {
    enum cc_kind kind;
    enum cc_form form;
    const struct cc_comm *comm;
    unsigned id;
    uint64_t key; /* of the contents; changes with every start of a persistent call */
    int root;     /* rank in its group, which is root_side */
    int root_side;
    bool in_place; /* may differ between ranks where MPI allows it */
    int n;         /* units of a block, or elements of a reduction */
    int unit;      /* bytes: log2 */
    const struct cr_type *rt;
    enum cr_code op;
    bool derived; /* types other than basic types */
    enum gt_kind skind, rkind;
    int sdev, rdev;
    /* private to collcall.c */
    bool is_root, sends, gets;
    int root_world;          /* its rank in cc_world, from which data come */
    struct cc_side s, r, in; /* in: blocks that lie in r before the call */
    const struct cc_type *st, *rtype;
    int total, mine, first; /* of a reduction: elements sent, received, first of these */
    int scounts[CC_BLOCKS], sdispls[CC_BLOCKS], rcounts[CC_BLOCKS], rdispls[CC_BLOCKS], one;
    MPI_Aint sfar[CC_BLOCKS], rfar[CC_BLOCKS];
    MPI_Datatype stypes[CC_BLOCKS], rtypes[CC_BLOCKS];
    MPI_Request req;
    bool active;
};

void cc_init(void); /* datatypes; after MPI_Init, gt_need() and cr_init() */
void cc_fini(void);
const char *cc_name(enum cc_kind k);
bool cc_reduces(enum cc_kind k);
bool cc_is_enqueued(enum cc_kind k); /* whether there is such a call */
bool cc_may_be_in_place(const struct cc_call *c);
bool cc_in_place_is_own(const struct cc_call *c); /* ranks need not agree */
/* Lays out the buffers and allocates memory for them. */
void cc_make(struct cc_call *c);
/* Writes the initial contents and computes the expected ones. */
void cc_contents(struct cc_call *c);
/* Makes the call: blocking: completes it; nonblocking: starts it; persistent: creates it; enqueued:
 * puts it on the communicator's stream.  Returns an MPI error code. */
int cc_post(struct cc_call *c);
/* Compares; prints the first wrong byte and returns false if there is one. */
bool cc_right(struct cc_call *c);
void cc_drop(struct cc_call *c);
void cc_describe(const struct cc_call *c, char *text, size_t room);
/* Returns the buffers' kept memory to the driver. */
void cc_forget_memory(void);

#endif
