/* SPDX-License-Identifier: BSD-3-Clause */
/* Stream-ordered communication: objects, and what their files share.  docs/STREAMS.md is for users.
 *
 * A stream communicator belongs to a CUDA stream in each of its processes.  Calls *_enqueue put
 * communication on it.  The hosts of the processes exchange keys of buffers while they make the
 * calls, by ordinary messages on a hidden communicator (`ctl`), and never wait for a device; the
 * devices meet when the streams get there.
 *
 * Each process has a block of flags in its device's memory, which all the others map (struct
 * wm_xstream_block); only others write the flags, so that polling them does not use the links.
 * weft_meet (runtime/gpu/kernel.h) signals and waits, one warp, beside the kernels that move data.
 * Epochs are counters in device memory that this kernel increments, so the flags need no reset, and
 * a captured call may be launched any number of times.
 *
 * Why no epoch is taken for another.  All of a communicator's work in one process runs in the order
 * of one stream (graphs, too: that is demanded of the user), so its counters advance in that order.
 *
 * In meetings all processes take part, one after another.  Numbers only grow, so it does not matter
 * that another process is ahead.
 *
 * Of messages sender and receiver agree on a slot when they match, on the host.  In one slot the
 * sender begins a message only when its wait for the end of the last one has been enqueued before,
 * and the receiver enqueues them in the same order (it compares numbers, and another order, in
 * which the streams would wait for each other, is an error), so both sides' counters of a slot
 * count the same messages.
 *
 * After a failure in any process a communicator is unusable in all of them: every later call is an
 * error.  The process that fails makes the others' kernels leave: it stores to `abort` in their
 * words (a system call, no device needed), or where the system does not permit that, to `poison` in
 * their blocks, by its device.  A message on `ctl` ends the waits of their hosts.
 *
 * Communicators of several hosts, or of more than WM_XSTREAM_RANKS processes, have no flags of
 * others: a thread of each process runs their collectives (proxy.c).
 *
 * Where devices do not reach each other, or one of the buffers is not contiguous device memory,
 * the host waits for the stream and then makes the ordinary call; this cannot be captured.
 *
 * Life.  MPI_Comm_free leaves the state to a list while its work goes on, and to the end of MPI
 * when some of it was captured.  MPI_Finalize waits a while for what is on the streams, then tells
 * the kernels to give up.  Under the domain's lock, but for the functions of MPI itself. */
#ifndef WM_XSTREAM_STREAM_H
#define WM_XSTREAM_STREAM_H

#include "coll/coll.h"
#include "mpi/coll/call.h"
#include "mpi/core/comm.h"
#include "mpi/datatype/type.h"
#include "runtime/base/err.h"
#include "runtime/gpu/stream_ops.h"

struct wm_xstream {
    struct rt_obj obj;
    void *cuda;          /* cudaStream_t */
    bool is_cuda, freed; /* freed: only communicators still hold it */
};
extern struct rt_slab wm_xstream_slab;

#define WM_XSTREAM_RANKS RT_GPU_MEET_MAX
#define WM_XSTREAM_SCRATCH 8
#define WM_XSTREAM_SLOTS 32 /* of messages to one process; 0: blocking sends */

/* In device memory.  Counters belong to this process; words [r] of the others' arrays are written
 * by rank r. */
struct wm_xstream_block {
    uint32_t poison; /* somebody has given up */
    uint32_t runs, meetings, pad[29];
    uint32_t met[WM_XSTREAM_RANKS], pad2[16];
    uint32_t sent[WM_XSTREAM_RANKS][WM_XSTREAM_SLOTS];     /* counters by destination, */
    uint32_t received[WM_XSTREAM_RANKS][WM_XSTREAM_SLOTS]; /* by source */
    uint32_t ready[WM_XSTREAM_RANKS][WM_XSTREAM_SLOTS];    /* by the sender: data may be read */
    uint32_t done[WM_XSTREAM_RANKS][WM_XSTREAM_SLOTS];     /* by the receiver: has been read */
};

/* A buffer of another process, mapped until the stream has got beyond a ticket. */
struct wm_xstream_map {
    struct wm_xstream_map *next;
    uint32_t ticket;
    bool captured; /* in a graph: stays */
    int rank;
    char key[COLL_DEV_KEY];
    struct coll_dev_map map;
};

/* What must stay until the stream has got beyond a ticket. */
struct wm_xstream_held {
    struct wm_xstream_held *next;
    uint32_t ticket;
    bool captured;
    struct rt_req *req; /* the message that announces it, or NULL */
    bool has_mem;
    struct coll_dev_mem mem;
    char header[128]; /* the message */
};

struct wm_xstream_comm {
    struct rt_list link;        /* of all */
    struct wm_comm *comm, *ctl; /* ctl owned; comm: referenced once it has been left */
    struct wm_comm *way;        /* owned; NULL: its collectives need no proxy thread */
    struct wm_xstream *stream;  /* referenced; NULL: MPIX_STREAM_NULL */
    struct rt_gpu *g;           /* NULL: no CUDA stream */
    bool mapped;                /* on all processes alike: devices meet, */
    bool proxied;               /* or proxy threads do; neither: hosts wait for streams */
    bool all_cuda;              /* every process has given a CUDA stream */
    bool captured, left;
    bool starts; /* the proxy thread starts a call, without the lock */
    bool broken; /* the other processes have been notified */
    struct rt_gpu_stage *block, *words;
    struct coll_dev_mem block_mem;
    bool has_block_mem;
    struct coll_dev_map peer[WM_XSTREAM_RANKS]; /* their blocks; ptr of our own is our own */
    uint64_t words_at[WM_XSTREAM_RANKS];        /* their words, as they address them */
    uint32_t ticket;                            /* of the last work that was not captured */
    uint32_t slots[WM_XSTREAM_RANKS];           /* bit per slot in use, by destination */
    /* Messages so far, on this host. */
    uint32_t nsent[WM_XSTREAM_RANKS][WM_XSTREAM_SLOTS],
        nreceived[WM_XSTREAM_RANKS][WM_XSTREAM_SLOTS];
    uint32_t *seq; /* messages the ordinary way, by destination */
    struct wm_xstream_map *maps;
    struct wm_xstream_held *held;
    struct rt_gpu_stage *scratch[WM_XSTREAM_SCRATCH]; /* what collectives want beside */
    int nscratch;
    struct rt_req *failure; /* proxied: receives what tells that the communicator is unusable */
    uint32_t failure_word;
    struct wm_proxy_call *calls, *idle_calls; /* on the stream, or captured; to be reused */
    struct wm_proxy_room *rooms;              /* memory for their words */
    unsigned room_left;                       /* in the first one */
};
extern struct rt_list wm_xstream_comms; /* struct wm_xstream_comm.link, under the domain's lock */

/* ---- stream.c ---- */
void wm_xstream_ref(struct wm_xstream *s);
void wm_xstream_unref(struct wm_xstream *s);

/* ---- comm.c ---- */

/* One nap of a wait that polls, and has lasted so long; without the lock. */
void wm_xstream_nap(uint64_t since_ns);

/* A call on a stream communicator: checks that it is one and that it works, and looks whether the
 * stream is being captured.  0 with the lock taken and the thread freed of the capture's
 * restrictions, until wm_xstream_leave(); else MPI_SUCCESS is not what it returns, and there is
 * nothing to leave. */
struct wm_xstream_call {
    struct wm_xstream_comm *s;
    struct rt_gpu *g;
    void *stream;
    bool capturing;
    int mode;
    struct wm_xstream_map *maps; /* mapped for this call */
};
int wm_xstream_enter(struct wm_comm *c, struct wm_xstream_call *out);
void wm_xstream_leave(struct wm_xstream_call *k);
/* The host waits for the stream, for calls that go the ordinary way.  MPI_SUCCESS or an error:
 * while the stream is captured, or of the device. */
int wm_xstream_settle(const struct wm_xstream_call *k, const char *why);
int wm_xstream_wait_idle(const struct wm_xstream_call *k); /* without the words; 0 or -RT_EGPU */
/* Addresses in one's own block and in rank r's, for kernels. */
#define wm_xstream_own(s, field) \
    ((uint64_t)(uintptr_t) & ((struct wm_xstream_block *)(s)->block->p)->field)
#define wm_xstream_at(s, r, field) \
    ((uint64_t)(uintptr_t) & ((struct wm_xstream_block *)(s)->peer[r].ptr)->field)
/* A launch of weft_meet with what all have filled in; `last`: of this call, which takes a ticket.
 */
void wm_xstream_meet_init(struct wm_xstream_call *k, struct rt_gpu_meet *m, uint64_t count,
                          uint32_t step);
int wm_xstream_meet(struct wm_xstream_call *k, struct rt_gpu_meet *m, bool last);
/* Something of a call could not be enqueued, so that later ones would take other epochs than those
 * of the other processes: the communicator is unusable, and all processes are notified. */
void wm_xstream_broken(struct wm_xstream_comm *s);
int wm_xstream_given_up(void); /* what calls on it return */
/* Waits for a receive on `ctl`.  0, or -RT_EREMOTE: the communicator has become unusable. */
int wm_xstream_await(struct wm_xstream_comm *s, struct rt_req *r);
/* Posts s->failure, once for the life of a communicator.  0 or -RT_E... */
int wm_xstream_expect_failure(struct wm_xstream_comm *s);
/* Maps rank's buffer for this call.  0 or -RT_E...; wm_xstream_unmappable(): not this way. */
int wm_xstream_map(struct wm_xstream_call *k, int rank, const char *key, void **out);
static inline bool wm_xstream_unmappable(int err)
{
    return err == -RT_ENOTSUP || err == -RT_EUNREACH || err == -RT_EAGAIN;
}
/* What the call has mapped is used by all that it has enqueued; what it has not enqueued anything
 * for goes with the next call. */
void wm_xstream_keep_maps(struct wm_xstream_call *k);
/* Gives back what the stream has got beyond. */
void wm_xstream_sweep(struct wm_xstream_comm *s);
/* Keeps `h` (malloc'ed) until the work enqueued so far has ended. */
void wm_xstream_hold(struct wm_xstream_call *k, struct wm_xstream_held *h);
/* Called by MPI: a communicator's handle is given up; the last user of MPI leaves. */
void wm_xstream_comm_left(struct wm_comm *c);
void wm_xstream_rest(void);

/* ---- turn.c: one order of the collectives of all communicators ---- */
struct wm_xstream_turn { /* lives in a call */
    struct rt_list link;
    uint64_t number; /* the proposal, later the agreed number */
    uint32_t ctx;
};
/* The proposal, to be sent with the last note of a call that all processes are known to make. */
uint64_t wm_xstream_turn_propose(struct wm_xstream_turn *t, uint32_t ctx);
/* Waits for the turn; `largest`: of all proposals. */
void wm_xstream_turn_await(struct wm_domain *d, struct wm_xstream_turn *t, uint64_t largest);
void wm_xstream_turn_end(struct wm_xstream_turn *t);

/* ---- proxy.c ---- */
/* Whether the collectives of this communicator need proxy threads; of all its processes alike. */
bool wm_proxy_serves(const struct wm_comm *c);
/* Before the first one is made, without the lock, by a thread inside MPI: switches locks on.
 * False: threads may be inside already, without locks. */
bool wm_proxy_permit(void);
/* The thread serves s, -RT_E... when there can be none, until its state goes. */
int wm_proxy_join(struct wm_xstream_comm *s);
void wm_proxy_leave(struct wm_xstream_comm *s);
void wm_proxy_rest(void); /* without the lock: the thread ends */
/* Enqueues a collective whose arguments have been checked. */
int wm_proxy_enqueue(struct wm_xstream_call *k, struct wm_call *call);

/* ---- api.c: what calls begin and end with ---- */
int wm_xstream_usable(const struct wm_type *t, const char *arg, MPI_Datatype h);
/* The library is up and the communicator lives; else *err is what the call returns. */
struct wm_comm *wm_xstream_comm_of(MPI_Comm h, const char *arg, const char *call, int *err);
int wm_xstream_raise(struct wm_comm *c, int err, const char *call);

/* ---- coll.c, p2p.c: what the calls of api.c and api_coll.c do, arguments checked ---- */
int wm_xstream_coll(struct wm_call *call); /* as a blocking call is made ready */
int wm_xstream_send(const void *buf, MPI_Count count, struct wm_type *t, int dest, int tag,
                    struct wm_comm *c, MPI_Request *request); /* NULL: blocks the stream */
int wm_xstream_recv(void *buf, MPI_Count count, struct wm_type *t, int source, int tag,
                    struct wm_comm *c, MPI_Status *status);
int wm_xstream_irecv(void *buf, MPI_Count count, struct wm_type *t, int source, int tag,
                     struct wm_comm *c, MPI_Request *request);
/* `i`: which of an array, for the error, whose communicator is attached. */
int wm_xstream_wait(MPI_Request *request, MPI_Status *status, int i);

#endif
