/* SPDX-License-Identifier: BSD-3-Clause */
/* The progress domain: everything that a message touches.  No state of the data path is global.
 * The first domain is made when MPI is first used (MPI_Init or MPI_Session_init), and has
 * everything but the messages of communicators that belong to other ones (lane.h).
 *
 * Thread rule: every field is used under `lock` (a no-op unless MPI_THREAD_MULTIPLE).  A thread
 * that waits releases the lock between polls.  Callbacks of transports, requests and tasks run
 * under the lock. */
#ifndef WM_P2P_DOMAIN_H
#define WM_P2P_DOMAIN_H

#include "btl/btl.h"
#include "coll/coll.h"
#include "mpi/p2p/match.h"
#include "mpi/p2p/stats.h"
#include "runtime/base/idle.h"
#include "runtime/base/list.h"
#include "runtime/base/lock.h"

#define WM_BTL_MAX 8
#define WM_LANES_MAX 16

struct wm_comm;
struct wm_msg;
struct wm_preq;
struct wm_sleeper;
struct wm_wait;
struct rt_wait_note; /* runtime/mem/activity.h */

/* A process as the engine sees it: one per (domain, process), made when first addressed or when its
 * first message arrives.  A small send reads the first line only. */
struct wm_peer {
    struct btl_peer *eager; /* transport for messages and control */
    int (*send)(struct btl_peer *p, const struct btl_hdr *h, const void *buf,
                size_t len);         /* eager->btl->ops->send */
    int (*poll)(struct btl_peer *p); /* one-source progress; NULL when the transport has none */
    uint32_t eager_max;              /* bytes */
    int32_t budget;      /* flow.h: bytes to send eagerly before this process polls the peer;
                            not positive: take the slow path, always so while `blocked` or
                            `stopped` */
    bool blocked;        /* `pending` is not empty, or the peer is lost */
    uint8_t stopped;     /* no eager messages to the peer: WM_STOPPED_... */
    uint8_t marks;       /* flow.h: sent to the peer and not acknowledged */
    bool sent_stop;      /* this process has asked the peer to stop */
    bool no_get, get_ok; /* a get from this peer was refused: put only; a get has succeeded */
    bool is_self;        /* this process */
    bool is_last;        /* of another host: it is in MPI_Finalize */
    bool dev_looked;     /* `dev` has been set up, or found impossible */
    bool probed;         /* of another job: a probe has named it */
    bool seen_leaving;   /* WEFT_CHECK: mpi/check/left.c */
    /* Back-off: messages to skip before the next attempt, because one has failed: a put of the peer
     * into this process's device memory; a mapping of the peer's device memory here.  Counts and
     * not flags, because success depends on the two devices and on what else is mapped. */
    uint8_t no_dev_put, dev_far;
    int err; /* 0, or -RT_EPEER once lost: every operation fails at once */
    struct rt_proc proc;
    struct rt_list
        pending; /* what met -RT_EAGAIN (struct wm_pend), in order; nothing may overtake it */
    struct rt_list retry;  /* link in the domain's list while `pending` is not empty */
    struct rt_list rndv;   /* rendezvous transfers with this peer (struct wm_preq.link) */
    struct wm_preq *early; /* receive whose first bytes come next; NULL: they are dropped */
    uint8_t no_early; /* back-off: messages to send without early bytes, after the early bytes of
                         one were dropped */
    uint8_t no_key;   /* messages to announce without a key, because the peer wants puts alone */
    struct wm_peer *next; /* hash chain of the domain */
    struct btl_peer *dev; /* transport for device memory, set up when first needed: device.c */
    int nstaged;          /* receives from it in pieces through staging memory */
    int64_t unex_nbytes;  /* memory of its unexpected messages: flow.h */
    int32_t held_budget;  /* saved `budget` while `budget` is 0 and forces the slow path */
};

#define WM_PEER_BUCKETS 256

/* Which way large messages go where a transport leaves the choice (BTL_CHOOSE).  Measured with the
 * first large messages, in duels between the two ways.  A period is the time in which at least one
 * such message is on its way to this process; all messages of a period go the same way. */
enum wm_way { WM_WAY_PUT, WM_WAY_SHARED, WM_WAYS };
struct wm_choice {
    bool decided;
    uint8_t way; /* of the current or next block; once decided, of all messages */
    uint8_t wins[WM_WAYS];
    uint8_t duels;
    /* A period: messages under way at the same time. */
    bool spoilt;         /* it does not count: an error, or messages of different lengths */
    int running, begun;  /* unfinished messages; all */
    int64_t len, nbytes; /* of its first message; of all */
    uint64_t start_ns;
    /* A block: periods of one way and about one length. */
    int64_t block_len; /* 0: none yet */
    int in_block,
        misses; /* messages so far; periods of other lengths since the last that counted */
    double ns, block_bytes; /* of its periods that count */
    double seen; /* nanoseconds a byte of the last block, of the other way; 0: none yet */
    /* A decision. */
    uint32_t since;     /* messages since then */
    uint64_t opened_ns; /* its trials began */
    uint64_t until_ns;  /* it holds */
};

#define WM_FINS_MAX 11 /* a message of 48 bytes: the payload of one slot of the ring of btl/shm */

struct wm_domain {
    _Alignas(RT_CACHE_LINE) struct rt_lock lock; /* alone in its line: others poll it */
    _Alignas(RT_CACHE_LINE) struct wm_preq
        *hot; /* the blocking receive in progress; counts as the receive posted last */
    struct wm_match match;
    struct wm_stats *stats;
    struct wm_stats own_stats; /* used where other processes cannot read them: create.c */
    uint64_t nshown;           /* messages that wm_progress_show() has counted */
    struct btl *btl[WM_BTL_MAX];
    int nbtl;
    int lane;         /* lane.h */
    int32_t budget;   /* a whole one: flow.h */
    bool has_fds;     /* some transports' events make descriptors readable */
    uint32_t npasses; /* of progress; other lanes read it */
    uint32_t napart;  /* of rt_node, when transports to other hosts were last opened for it */
    struct {
        struct rt_list sleepers;    /* threads that are asleep in a wait: wait.c */
        struct rt_list guests;      /* the same, for requests of several lanes: wait_lanes.c */
        struct wm_sleeper *watcher; /* the waiting thread that sleeps on the bell; NULL: none */
        int nawake;                 /* threads in waits that are awake */
        int nelsewhere;             /* the same of other lanes: the sum of visits.nawake */
        struct wm_wait *poller;     /* one of these, which makes progress for them; NULL: none */
        bool among_lanes;           /* wait_lanes.c applies */
        unsigned nwaits;            /* waits of the program that were not over at once */
    } wait;
    struct { /* of other lanes, by progress.c */
        int next;
        uint32_t npasses[WM_LANES_MAX]; /* when they were last visited */
        int nawake[WM_LANES_MAX];
    } visits;
    struct wm_choice choice;
    struct rt_list tasks;   /* collective tasks to advance (struct coll_task.link) */
    struct rt_list retry;   /* peers with pending messages */
    struct rt_list streams; /* sends under way chunk by chunk (struct wm_preq.posted.link) */
    struct wm_peer *peers[WM_PEER_BUCKETS];
    struct {
        struct wm_preq *preq[2];  /* by kind, WM_PREQ_SEND and _RECV: kept out of the slab, so that
                                     none is cleared twice */
        struct wm_stored *stored; /* nodes for short unexpected messages */
        struct wm_pieces *pieces;
        struct wm_dev *dev;
    } spare;
    struct {
        struct rt_list recvs, inits; /* partitioned receives and sends without a match */
        struct rt_list sends;        /* all partitioned sends of this process */
        int tag;                     /* the next internal tag of these */
    } part;
    struct {
        void *heap; /* idle buffers of staging.c, linked by their first words */
        int nheap;
        struct rt_list queue; /* receives that wait for memory (struct wm_preq.posted.link) */
        bool room;            /* one of these may continue */
    } staging;
    struct {         /* FIN_GET messages that become one FIN_GETS */
        bool gather; /* wm_progress() is in rt_gpu_progress() and will then send it */
        struct wm_peer *to;
        uint32_t n, req[WM_FINS_MAX]; /* requests */
    } fins;
    unsigned ndev_started; /* nonblocking messages of device memory */
    struct wm_bbuf *bbuf;  /* buffer of MPI_Buffer_attach: buffered.c; NULL = none */
    /* Progress calls it when it finds no event; NULL unless targets have been asked to give sends
     * back (cancel.c). */
    void (*look_cancelled)(struct wm_domain *d);
    uint64_t cancel_ns; /* time since which one of these targets posts no more receives; 0: none */
    /* Set by create.c, for files before send.c and recv.c: the upcalls of transports, also for a
     * loss that the engine finds out; a message, or the receive of one; MPI_Cancel of a send. */
    struct btl_up up;
    int (*start_message)(const struct wm_msg *m, bool send, struct rt_req **out);
    int (*cancel_send)(struct wm_preq *q);
    /* Set by mpi/rma for its windows: a message of WM_RMA_MESSAGE has arrived; a process is
     * lost; `left`: it was in MPI_Finalize. */
    void (*rma)(struct wm_domain *d, struct wm_peer *from, const struct btl_hdr *h,
                const void *data, size_t len);
    void (*rma_down)(struct wm_domain *d, struct wm_peer *p, bool left);
    void (*rma_held)(struct rt_wait_note *n); /* writes the locks that this process holds */
    struct {                                  /* failed.c */
        uint32_t ntaken;                      /* deaths that have been taken from the list */
        uint64_t due_ns;   /* when connections to these that have not ended are given up; 0: none */
        uint32_t nretired; /* contexts that are never used again */
        uint32_t nagreeing; /* agreements of mpi/ft/agree.c in progress */
    } failed;
    /* Set by mpi/ft: there are new deaths in the list (`any`), or an agreement is in progress; a
     * message of WM_FT has arrived. */
    void (*ft_deaths)(struct wm_domain *d, bool any);
    void (*ft)(struct wm_domain *d, struct wm_peer *from, const void *data, size_t len);
    bool flow_due; /* collectives have used up a peer's budget: poll before the next one */
};

/* The first domain, lane 0; NULL until MPI is first used. */
extern struct wm_domain *wm_main_domain;

/* Opens the transports of the table that cfg.btl names, and publishes their addresses.  0 or
 * -RT_E...; -RT_EUNREACH when none opens. */
int wm_domain_open(struct wm_domain *d, const struct btl_ops *const *all);
/* The same for a lane other than 0: the transports that lane 0 uses within the host. */
int wm_domain_open_lane(struct wm_domain *d);
/* The same for transports that reach processes of other jobs, where they are not open yet.
 * -RT_EUNREACH, logged: cfg.btl excludes them. */
int wm_domain_open_jobs(struct wm_domain *d);
/* The same after ranks of this host have turned out not to share memory with this one: they are
 * reached like those of other hosts. */
void wm_domain_open_apart(struct wm_domain *d);
/* Before this process stops polling: looks for such ranks, which may wait for its addresses. */
void wm_domain_seek_apart(struct wm_domain *d);

/* The engine's view of a rank, or -RT_E...; fills comm->peers. */
int wm_comm_peer(struct wm_comm *c, int rank, struct wm_peer **out);
/* Finds or makes the peer; -RT_EUNREACH when no transport reaches it (logged once, with the
 * transports that were tried). */
int wm_domain_peer(struct wm_domain *d, struct rt_proc proc, struct wm_peer **out);
/* The peer if it has been found or made; else NULL. */
struct wm_peer *wm_domain_known(struct wm_domain *d, struct rt_proc proc);
/* The process at the other end has connected first, by this connection. -RT_EUNREACH, logged: it is
 * known by another transport already. */
int wm_domain_adopt(struct wm_domain *d, struct btl_peer *bp, struct wm_peer **out);
/* The peer's connection for device memory; NULL: none.  A transport that moves nothing else comes
 * first; else the one that carries the messages, if it accepts device memory. */
struct btl_peer *wm_domain_find_dev(struct wm_domain *d, struct wm_peer *p);
static inline struct btl_peer *wm_domain_dev(struct wm_domain *d, struct wm_peer *p)
{
    return p->dev_looked ? p->dev : wm_domain_find_dev(d, p);
}
/* Device memory moves like host memory; after wm_domain_dev(). */
static inline bool wm_dev_by_net(const struct wm_peer *p) { return p->dev && p->dev == p->eager; }
/* The transport for device memory is set up again when next needed. */
void wm_domain_drop_dev(struct wm_peer *p);
/* The same for all processes of a job, which is no longer connected.  False: not for all, because
 * some have unfinished messages. */
bool wm_domain_part(struct wm_domain *d, uint32_t ns);

bool wm_peer_shares_memory(const struct wm_peer *p); /* it publishes its end there */
bool wm_peer_is_leaving(const struct wm_peer *p);    /* it has published that */
bool wm_peer_is_last(const struct wm_peer *p);       /* it posts no more receives */
bool wm_peer_has_left(const struct wm_peer *p);      /* it does nothing more in MPI */
/* Whether there is a connection to the process, or a message waits for one.  A receive or a probe
 * alone makes none, so this process does not notice the end of such a process. */
bool wm_peer_has_spoken(const struct wm_peer *p);

#endif
