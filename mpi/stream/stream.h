/* SPDX-License-Identifier: BSD-3-Clause */
/* Stream-ordered communication: objects, and declarations that its files share. docs/STREAMS.md is
 * for users.
 *
 * A stream communicator belongs to a CUDA stream in each of its processes.  The *_enqueue calls put
 * communication on that stream.  A short collective is one kernel, and the hosts exchange nothing
 * (push.c); a short message is one kernel at either side (eager.c).  For other calls the hosts of
 * the processes exchange keys of buffers by ordinary messages on a hidden communicator (`ctl`)
 * while the calls are made, and never wait for a device. The devices synchronise when the streams
 * reach the calls.  For this each process has a block of flags in its device's memory, which all
 * other processes map (struct wm_xstream_block).  Only other processes write the flags, so polling
 * them does not use the links.  The kernel weft_meet (runtime/gpu/kernel.h), one warp, signals and
 * waits, between the kernels that move data.  Epochs are counters in device memory that weft_meet
 * increments, so the flags need no reset, and a captured call may be launched any number of times.
 *
 * Why epochs cannot be confused.  All of a communicator's work in one process runs in the order of
 * one stream (also for graphs; the user must ensure it), so its counters advance in that order.  In
 * barriers all processes take part, one barrier after another.  Numbers only grow, so it does not
 * matter that another process is ahead.  For messages, sender and receiver agree on a slot when
 * they match, on the host.  In one slot the sender starts a message only after it has enqueued the
 * wait for the end of the previous message.  The receiver enqueues the messages of a slot in the
 * same order.  It compares numbers; another order, in which the streams would wait for each other,
 * is an error.  So both sides' counters of a slot count the same messages.
 *
 * After a failure in any process a communicator is unusable in all of them: every later call is an
 * error.  The process that fails makes the others' kernels leave: it stores to `abort` in their
 * words (a system call, no device needed).  If the system does not permit that, its device stores
 * to `poison` in their blocks.  A message on `ctl` ends the waits of their hosts.
 *
 * Communicators of several hosts, or of more than WM_XSTREAM_RANKS processes, share no flags: a
 * thread of each process runs their collectives (proxy.c).  So it does where processes take turns
 * on a device; their messages and windows use the flags.  If devices do not reach each other, or a
 * buffer is not contiguous device memory, the host waits for the stream and then makes the ordinary
 * call; such a call cannot be captured.
 *
 * Life.  MPI_Comm_free moves the state to a list while its work continues; if some of the work was
 * captured, the state stays until the end of MPI.  MPI_Finalize waits a while for the work on the
 * streams, then makes the kernels give up.
 *
 * Under the domain's lock, except the MPI procedures themselves. */
#ifndef WM_XSTREAM_STREAM_H
#define WM_XSTREAM_STREAM_H

#include "coll/coll.h"
#include "mpi/coll/call.h"
#include "mpi/base/comm.h"
#include "mpi/datatype/type.h"
#include "mpi/p2p/p2p.h"
#include "mpi/rma/op.h"
#include "runtime/base/err.h"
#include "runtime/gpu/push.h"
#include "runtime/gpu/stream_ops.h"

struct wm_xstream {
    struct rt_obj obj;
    void *cuda;          /* cudaStream_t */
    bool is_cuda, freed; /* freed: only communicators still reference it */
};
extern struct rt_slab wm_xstream_slab;

#define WM_XSTREAM_RANKS RT_GPU_MEET_MAX
#define WM_XSTREAM_SCRATCH 8 /* pieces of COLL_GPU_SCRATCH_UNIT bytes */
#define WM_XSTREAM_SLOTS 32  /* per destination process; 0: blocking sends */
#define WM_XSTREAM_EAGER 8   /* slots for short messages, per pair of processes */
#define WM_XSTREAM_EAGER_ROOM ((size_t)4 << 20) /* bytes of all of them in an inbox */

/* In device memory.  The counters belong to this process; the other processes write the flags: rank
 * r writes the words [r] of the arrays. */
struct wm_xstream_block {
    uint32_t poison; /* a process has given up */
    uint32_t runs, meetings;
    uint32_t pushes, blocks, pad[27]; /* of short collectives: push_kernels.h */
    uint64_t marks[2][WM_XSTREAM_RANKS];
    uint32_t met[WM_XSTREAM_RANKS], pad2[16];
    uint32_t sent[WM_XSTREAM_RANKS][WM_XSTREAM_SLOTS];     /* message counters by destination */
    uint32_t received[WM_XSTREAM_RANKS][WM_XSTREAM_SLOTS]; /* by source */
    uint32_t ready[WM_XSTREAM_RANKS][WM_XSTREAM_SLOTS];    /* from the sender: data may be read */
    uint32_t done[WM_XSTREAM_RANKS][WM_XSTREAM_SLOTS];     /* from the receiver: data read */
    uint32_t passed[WM_XSTREAM_RANKS][WM_XSTREAM_EAGER];   /* short messages by destination */
    uint32_t accepted[WM_XSTREAM_RANKS][WM_XSTREAM_EAGER]; /* by source */
    uint32_t credit[WM_XSTREAM_RANKS][WM_XSTREAM_EAGER];   /* from the receiver */
    /* Of a window's hidden communicator, by number of a notification. */
    uint32_t taken[WM_RMA_NOTES_MOST], pad3[16]; /* by this process, */
    uint32_t came[WM_RMA_NOTES_MOST];            /* from all processes */
};

/* What must stay until the stream has passed a ticket: a mapping, or a message. */
struct wm_xstream_held {
    struct wm_xstream_held *next;
    uint32_t ticket;
    bool captured; /* used by a graph: stays */
    int rank;      /* of the mapped buffer, which has this key */
    char key[COLL_DEV_KEY];
    struct coll_dev_map map; /* att set: must be detached */
    struct coll_dev_mem mem; /* reg set: must be released */
    struct rt_req *req;      /* the header's send request, or NULL */
    struct rt_gpu_hand end;  /* of a message that a proxy thread carries */
    char header[192];        /* of a message (p2p.c) */
};

struct wm_xstream_comm {
    struct rt_list link;        /* in the list of all stream communicators */
    struct wm_comm *comm, *ctl; /* ctl: owned; comm: referenced after MPI_Comm_free */
    struct wm_comm *way;        /* owned; NULL: its collectives use no proxy thread */
    struct wm_xstream *stream;  /* referenced; NULL: MPIX_STREAM_NULL */
    struct rt_gpu *g;           /* NULL: no CUDA stream */
    bool mapped;                /* the same on all processes: devices synchronise, */
    bool takes_turns;           /* mapped, and processes take turns on a device */
    bool hands;                 /* all streams can hand over to host threads: with `proxied`, */
                                /* messages do */
    bool proxied;               /* proxy threads run collectives; neither: hosts wait for streams */
    bool pushes;                /* mapped, and all processes have an inbox: short collectives */
    bool in_turn;               /* several threads of a process may make calls at once */
    bool adds;                  /* mapped, and any device may add to any block */
    bool all_cuda;              /* every process has passed a CUDA stream */
    bool captured, left;        /* work is in a graph; the handle has been freed */
    bool starts;                /* the proxy thread is starting a call, without the lock */
    bool broken;                /* the other processes have been notified */
    struct rt_gpu_stage *block, *words;
    struct coll_dev_mem block_mem;
    struct coll_dev_map peer[WM_XSTREAM_RANKS]; /* all blocks, including this rank's own */
    struct rt_gpu_stage *inbox;                 /* with `pushes` */
    struct coll_dev_mem inbox_mem;
    struct coll_dev_map inbox_of[WM_XSTREAM_RANKS]; /* the other processes' */
    uint64_t words_at[WM_XSTREAM_RANKS];            /* addresses of the words in their processes */
    uint32_t ticket;                                /* of the last work outside captures */
    uint32_t slots[WM_XSTREAM_RANKS];               /* by destination, one bit per slot in use */
    /* Messages so far, counted on this host. */
    uint32_t nsent[WM_XSTREAM_RANKS][WM_XSTREAM_SLOTS],
        nreceived[WM_XSTREAM_RANKS][WM_XSTREAM_SLOTS];
    /* The same for short messages.  eager_slots: one bit per slot that a request has. */
    uint32_t npassed[WM_XSTREAM_RANKS][WM_XSTREAM_EAGER],
        naccepted[WM_XSTREAM_RANKS][WM_XSTREAM_EAGER];
    uint32_t eager_slots[WM_XSTREAM_RANKS], eager_next[WM_XSTREAM_RANKS];
    uint32_t *seq; /* messages sent by the host, by destination */
    struct wm_xstream_held *held;
    struct rt_gpu_stage *scratch[WM_XSTREAM_SCRATCH]; /* scratch memory of collectives */
    int nscratch;
    struct rt_req *failure; /* proxied: receive of the failure message */
    uint32_t failure_word;
    struct wm_proxy_call *calls, *idle_calls; /* on the stream or captured; free for reuse */
    unsigned ncalls;                          /* of `calls`, those not captured */
    struct wm_proxy_room *rooms;              /* memory for their words */
    unsigned room_left;                       /* left in the first of them */
};
extern struct rt_list wm_xstream_comms; /* struct wm_xstream_comm.link, under the domain's lock */

/* ---- stream.c ---- */
void wm_xstream_ref(struct wm_xstream *s);
void wm_xstream_unref(struct wm_xstream *s);

/* ---- comm.c ---- */

/* State of a call on a stream communicator.  Enter checks that the communicator has a stream and is
 * usable, and whether the stream is in a capture.  On MPI_SUCCESS the lock is taken, and the thread
 * may make calls that the capture would forbid, until wm_xstream_leave().  On an error there is
 * nothing to leave. */
struct wm_xstream_call {
    struct wm_xstream_comm *s;
    struct rt_gpu *g;
    void *stream;
    bool capturing;
    int mode;
    struct wm_xstream_held *maps; /* mapped for this call */
};
int wm_xstream_enter(struct wm_comm *c, struct wm_xstream_call *out);
void wm_xstream_leave(struct wm_xstream_call *k);
/* The host waits for the stream, for calls that take the ordinary path.  Returns an error during a
 * capture, or if the device fails. */
int wm_xstream_settle(const struct wm_xstream_call *k, const char *why);
int wm_xstream_wait_idle(const struct wm_xstream_call *k); /* no text; 0 or -RT_EGPU */
/* Addresses for kernels, in this process's block and in rank r's. */
#define wm_xstream_own(s, field) \
    ((uint64_t)(uintptr_t) & ((struct wm_xstream_block *)(s)->block->p)->field)
#define wm_xstream_at(s, r, field) \
    ((uint64_t)(uintptr_t) & ((struct wm_xstream_block *)(s)->peer[r].ptr)->field)
/* Prepares a launch of weft_meet with the fields that every launch needs.  In the launch, `last`
 * marks the call's last one, which takes a ticket. */
void wm_xstream_meet_init(struct wm_xstream_call *k, struct rt_gpu_meet *m, uint64_t count,
                          uint32_t step);
int wm_xstream_meet(struct wm_xstream_call *k, struct rt_gpu_meet *m, bool last); /* 0, -RT_E... */
/* The call's last operation; `then` and `value` are only for a captured one. */
int wm_xstream_hand(struct wm_xstream_call *k, struct rt_gpu_hand *h);
/* The same for a launch of weft_push_*, of which the caller fills in the data. */
void wm_xstream_push_init(struct wm_xstream_call *k, struct rt_gpu_push *p);
int wm_xstream_push(struct wm_xstream_call *k, struct rt_gpu_push *p, bool last);
int wm_xstream_message(struct wm_xstream_call *k, struct rt_gpu_message *m);
/* Part of a call could not be enqueued, so the epochs of later calls would differ between
 * processes: makes the communicator unusable and notifies all processes. */
void wm_xstream_broken(struct wm_xstream_comm *s);
int wm_xstream_given_up(const struct wm_xstream_comm *s); /* sets the error of calls on it */
/* Waits for a receive on `ctl`.  0, or -RT_EREMOTE: the communicator has become unusable. */
int wm_xstream_await(struct wm_xstream_comm *s, struct rt_req *r);
/* Waits for a send of such a message; NULL: none.  wm_xstream_sweep() releases it. */
void wm_xstream_await_sent(struct wm_xstream_comm *s, struct rt_req *r);
/* Posts s->failure, once in the life of a communicator.  Returns 0 or -RT_E... */
int wm_xstream_expect_failure(struct wm_xstream_comm *s);
/* Maps rank's buffer.  The mapping is kept until the stream has passed this call's work; if the
 * call enqueues nothing, until the next call.  Returns 0 or -RT_E...; if wm_xstream_unmappable(),
 * the call takes another path. */
int wm_xstream_map(struct wm_xstream_call *k, int rank, const char *key, void **out);
static inline bool wm_xstream_unmappable(int err)
{
    return err == -RT_ENOTSUP || err == -RT_EUNREACH || err == -RT_EAGAIN;
}
/* Releases what the stream has passed; with `every`, everything. */
void wm_xstream_sweep(struct wm_xstream_comm *s, bool every);
/* Keeps `h` (malloc'ed) until the stream has passed the work enqueued so far. */
void wm_xstream_hold(struct wm_xstream_call *k, struct wm_xstream_held *h);
void wm_xstream_unhold(struct wm_xstream_comm *s, struct wm_xstream_held *h); /* or frees it now */

/* Makes another communicator of the same processes on the same stream, without a handle and without
 * proxy threads.  Collective. */
int wm_xstream_again(struct wm_comm *comm, struct wm_comm **out);

/* ---- turn.c: one order of the collectives of all communicators ---- */
struct wm_xstream_turn { /* lives in a call */
    struct rt_list link;
    uint64_t number; /* the proposal, then the agreed number */
    uint32_t ctx;
};
/* Returns the proposal, to be sent with the last note of a call, once all processes are known to
 * make the call. */
uint64_t wm_xstream_turn_propose(struct wm_xstream_turn *t, uint32_t ctx);
/* Waits until it is the call's turn; `largest`: the largest of all proposals. */
void wm_xstream_turn_await(struct wm_domain *d, struct wm_xstream_turn *t, uint64_t largest);
void wm_xstream_turn_end(struct wm_xstream_turn *t);
/* All of this for a call without notes of its own.  `err`: MPI_SUCCESS, or the error class of this
 * process, which cannot take part; then no process's call gets a turn.  MPI_SUCCESS: it is the
 * call's turn, which wm_xstream_turn_end() ends; or the error of this or another process. */
int wm_xstream_turn_take(struct wm_xstream_comm *s, int err, struct wm_xstream_turn *t);

/* ---- proxy.c ---- */
/* Whether the collectives of this communicator need proxy threads, whatever its devices; the same
 * in all its processes. */
bool wm_proxy_serves(const struct wm_comm *c);
/* Called before the first such communicator is created, without the lock, by a thread inside MPI:
 * switches locks on.  False: threads may already be inside without locks. */
bool wm_proxy_permit(void);
/* From here until s is freed the thread serves s; -RT_E... if there can be no thread. */
int wm_proxy_join(struct wm_xstream_comm *s);
void wm_proxy_leave(struct wm_xstream_comm *s);
void wm_proxy_rest(void); /* without the lock: ends the thread */
/* Waits while the stream has many calls to pass. */
void wm_proxy_await_room(struct wm_xstream_comm *s);
/* Enqueues a collective whose arguments have been checked.  MPI_SUCCESS or an error class. */
int wm_proxy_enqueue(struct wm_xstream_call *k, struct wm_call *call);
/* The same for a message that the hosts have matched; its layout is that of `type`.  The thread
 * starts it when the stream reaches the call, where the stream waits for its end, or with `end` at
 * wm_xstream_hand(end).  copies: a send is over when its data have been copied. */
struct wm_proxy_message {
    struct wm_msg m;
    struct wm_type *type;
    bool sends, copies;
};
int wm_proxy_message(struct wm_xstream_call *k, const struct wm_proxy_message *a,
                     struct rt_gpu_hand *end);

/* ---- api.c: start and end of the calls ---- */
/* MPI_SUCCESS, or MPI_ERR_TYPE with its text. */
int wm_xstream_usable(const struct wm_type *t, const char *arg, MPI_Datatype h);
/* Checks that the library is up and the communicator valid; else *err is the result of the call. */
struct wm_comm *wm_xstream_comm_of(MPI_Comm h, const char *arg, const char *call, int *err);
/* Calls the error handler if `err` is an error; returns the result of the call. */
int wm_xstream_raise(struct wm_comm *c, int err, const char *call);

/* ---- push.c: short collectives, one kernel a process ---- */
/* Whether a call is one; the same on all processes. */
bool wm_xstream_pushes(const struct wm_xstream_comm *s, const struct coll_args *a);
int wm_xstream_push_enqueue(struct wm_xstream_call *k, const struct coll_args *a);
/* The v forms whose lengths not all processes know.  Bytes of the longest block of this process;
 * UINT64_MAX: not such a call. */
uint64_t wm_xstream_push_own_longest(const struct wm_xstream_comm *s, const struct coll_args *a);
bool wm_xstream_push_fits(const struct wm_xstream_comm *s, uint64_t nbytes); /* the same on all */
int wm_xstream_push_blocks(struct wm_xstream_call *k, const struct coll_args *a, uint64_t longest);
/* Whether the stream's device can use these bytes as they are: 1, 0, or -RT_E... */
int wm_xstream_direct(const struct wm_xstream_call *k, const void *at, int64_t nbytes);
/* Scratch memory on the stream's device, which all calls share, because they run one after another:
 * 0, or -RT_E... */
int wm_xstream_take_scratch(struct wm_xstream_comm *s, size_t nbytes);

/* ---- eager.c: short messages, one kernel at either side ---- */
struct wm_xstream_eager {
    int slot;
    uint32_t number; /* of the message in its slot */
    int64_t nbytes;
};
/* Takes a slot for a message to `dest`.  1: done; 0: the message takes another path; or -RT_E... */
int wm_xstream_eager_take(struct wm_xstream_call *k, const void *buf, int64_t nbytes, int dest,
                          struct wm_xstream_eager *out);
/* Gives the slot to later messages, when the send or its wait has been enqueued. */
void wm_xstream_eager_give(struct wm_xstream_comm *s, int dest, int slot);
/* Enqueue the two sides: MPI_SUCCESS, or an error class. */
int wm_xstream_eager_send(struct wm_xstream_call *k, const void *buf, int dest,
                          const struct wm_xstream_eager *e);
int wm_xstream_eager_recv(struct wm_xstream_call *k, void *to, int64_t keep, int from,
                          const struct wm_xstream_eager *e);
/* What the receiver must have received before the sender's stream reaches the next message to it:
 * by slot, and of the blocking sends that are not short. */
struct wm_xstream_before {
    uint32_t eager[WM_XSTREAM_EAGER], blocking;
};
struct wm_xstream_before wm_xstream_before(const struct wm_xstream_comm *s, int dest);
bool wm_xstream_in_order(const struct wm_xstream_comm *s, int from,
                         const struct wm_xstream_before *b);

/* ---- coll.c, p2p.c: the calls of api.c and api_coll.c, with checked arguments ---- */
/* All return MPI_SUCCESS, or an error class with its text. */
int wm_xstream_coll(struct wm_call *call); /* `call` as for a blocking call */
int wm_xstream_send(const void *buf, MPI_Count count, struct wm_type *t, int dest, int tag,
                    struct wm_comm *c, MPI_Request *request); /* NULL: blocks the stream */
int wm_xstream_recv(void *buf, MPI_Count count, struct wm_type *t, int source, int tag,
                    struct wm_comm *c, MPI_Status *status);
int wm_xstream_irecv(void *buf, MPI_Count count, struct wm_type *t, int source, int tag,
                     struct wm_comm *c, MPI_Request *request);
/* `i`: index in an array of requests, for the error text.  The failed request's communicator is
 * attached. */
int wm_xstream_wait(MPI_Request *request, MPI_Status *status, int i);
/* Sends a copy of the data, which this process keeps until the message has left. */
int wm_xstream_send_copy(const struct wm_msg *data);

/* ---- window.c: one-sided calls of windows on stream communicators ---- */
/* A window has been created on `comm`. */
int wm_xstream_window(struct wm_win *w, struct wm_comm *comm);
/* A put with checked arguments; `number`: of its notification; -1: none. */
int wm_xstream_put(struct wm_win *w, struct wm_rma_args *a, int number);
int wm_xstream_flush(struct wm_win *w, int rank);
int wm_xstream_notify_wait(struct wm_win *w, int number, uint32_t count);

#endif
