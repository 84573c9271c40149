/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to mpi/p2p: partitioned communication (design: top of part.c).  Under the lock of the
 * lane, unless a function says otherwise. */
#ifndef WM_P2P_PART_H
#define WM_P2P_PART_H

#include "mpi/p2p/engine.h"

/* One message of a channel: a partition of the sender. */
struct wm_piece {
    struct wm_part *part;
    char *bounce; /* receive that divides elements of a non-contiguous type: owned until done */
    bool ready;   /* send: MPI_Pready has been called for it; atomic */
    bool sent;    /* under the lock */
    struct wm_piece *next; /* in wm_part.marked */
};

struct wm_part {          /* request of MPI_Psend_init or MPI_Precv_init */
    struct rt_req r;      /* first member */
    struct rt_list link;  /* receive: wm_domain.part.recvs until it is matched; send: part.sends */
    struct wm_key key;    /* communicator's context, source and tag, by which sides are matched */
    struct wm_comm *comm; /* referenced; NULL in a receive that was freed before it was matched */
    struct wm_type *type; /* referenced, or NULL (predefined) */
    char *buf;
    const struct rt_layout *layout;
    int64_t count;  /* elements in a partition */
    int64_t nbytes; /* packed bytes in a partition */
    int partitions; /* on this side */
    int peer_rank;
    bool is_recv, matched;
    int left; /* unfinished pieces */
    int fail; /* first error, reported at completion */
    int npieces;
    struct wm_piece *pieces; /* owned */
    int tag;                 /* of the first piece on the collective context; the others follow */
    /* Send, atomic: the pieces that threads have marked and that are not sent yet, the last one
     * first.  The thread that finds NULL sends until nothing is left; meanwhile the list ends with
     * `sending` of part.c. */
    struct wm_piece *marked;

    /* Receive.  Both sides count in units: bytes, or for an empty message as many units as make the
     * partitions of both sides whole. */
    int64_t in_nbytes, in_units,
        own_units; /* of a partition: the sender's bytes, the sender's units, this side's units */
    int64_t *missing; /* owned: units to come, by partition of this side */
};

/* Sent to the receiver when the partitioned send is made. */
struct wm_part_init {
    int64_t nbytes; /* of a partition */
    int32_t partitions;
    int32_t tag;
};

/* A partitioned send that has found no receive yet. */
struct wm_part_early {
    struct rt_list link; /* wm_domain.part.inits, in order of arrival */
    struct wm_key key;
    struct wm_part_init init;
};

extern const struct rt_req_ops wm_psend_ops, wm_precv_ops;

/* Completes a new request: the sender publishes its partitions to the receiver; the receiver looks
 * for its sender. 0 or -RT_E... */
int wm_part_open(struct wm_part *p);
/* Marks partition i ready, without a lock; false: it was marked before in this operation. */
bool wm_part_mark(struct wm_part *p, int i);
/* Sends partition i, which this thread has marked; called without a lock.  If another thread is in
 * this function, that thread sends it.  The request reports failures at its completion. */
void wm_part_send(struct wm_part *p, int i);
/* Both for one partition, unless the request is complete: where no other thread sends, with the
 * two locked instructions of the lock alone.  (Two threads that mark a partition at once may both
 * get true; it is sent once.) */
bool wm_part_ready(struct wm_part *p, int i);
/* Whether partition i of an active receive is in the buffer; without a lock. */
bool wm_part_arrived(const struct wm_part *p, int i);

/* `describe` of both kinds of requests. */
void wm_part_describe(const struct rt_req *r, struct rt_wait_note *n);

/* A WM_PART_INIT has arrived; a peer is lost; the domain is destroyed. */
void wm_on_part_init(struct wm_domain *d, const struct btl_peer *from, const struct wm_key *k,
                     const void *data);
/* Ends the receives of a communicator that wait for their match. */
void wm_part_fail_comm(struct wm_domain *d, const struct wm_comm *c, int err);
void wm_part_fail_peer(struct wm_domain *d, const struct wm_peer *p, int err);
void wm_part_fini(struct wm_domain *d);

#endif
