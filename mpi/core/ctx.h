/* SPDX-License-Identifier: BSD-3-Clause */
/* Agreement on context ids among some ranks of a communicator. */
#ifndef WM_CORE_CTX_H
#define WM_CORE_CTX_H

#include "mpi/coll/exch.h"

struct wm_ctx_search;
/* Finds ids that are free in all participants and takes them; with two groups: among the processes
 * of both.  Under the domain's lock; waits.  Returns MPI_SUCCESS or what wm_err() returned. */
int wm_ctx_find(const struct wm_exch *x, struct wm_ctx_search *s, uint32_t *ctx);
/* Releases an id that this process has taken.  Under the domain's lock. */
void wm_comm_release_ctx(uint32_t ctx);
uint32_t wm_ctx_used(void); /* ids that are taken */
/* At the first start of the library: all ids but the reserved ones are free. */
void wm_ctx_init(void);

/* wm_ctx_find() in steps, for nonblocking calls: round, combination of the offers by wm_ctx_merge,
 * settle; repeated until there is an id.  Always ends with leave.  An agreement lends bits only
 * after one round has shown that all participants take part (`met`).  Otherwise an agreement that
 * waits for a late member would delay all others. */
#define WM_CTX_WORDS 16 /* of a window: 1024 ids, so one round is nearly always enough */

struct wm_ctx_offer {
    uint32_t window;             /* the highest window that a process offers */
    uint32_t busy;               /* not 0: a process could not lend its bits */
    int32_t err;                 /* as in wm_ctx_search; of any failed participant */
    uint32_t lanes;              /* mpi/core/lanes.h */
    uint64_t check, block;       /* sums of those in wm_ctx_search */
    uint64_t free[WM_CTX_WORDS]; /* of that window */
};

/* Nonblocking agreements in progress in this process; under the domain's lock.  While there are
 * any, a blocking agreement must not lend its bits before all participants are there. */
extern unsigned wm_ctx_idups;

struct wm_ctx_search {
    /* Set by the caller.  `order` distinguishes agreements that run at the same time in several
     * threads of this process: the same in all participants, different for different agreements. */
    uint64_t order;
    int want;    /* number of ids: 1, or 2 for an intercommunicator; 0 means 1 */
    int32_t err; /* error class: this process has failed and takes part only to notify the others,
                    which then fail too; 0: no failure */
    uint64_t check; /* the sum over all participants must be 0, else MPI_ERR_GROUP on all */
    bool users;     /* wm_comm_create_checked(): the communicator may be of any lane */
    uint32_t lanes; /* what wm_lanes_offer() returns; 0: the communicator is of lane 0 */
    uint64_t block; /* offset + 1 of shared memory, set by the process that allocated it; else 0 */
    /* Private to the search. */
    uint32_t window;
    bool begun, again; /* `window` is set; the search has started a second time */
    bool met, owner;   /* all members take part; this search has the bits of this process */
    struct wm_ctx_search *next;
    struct wm_ctx_offer offer;
};

void wm_ctx_round(struct wm_ctx_search *s);
void wm_ctx_merge(void *inout, const void *in);
/* Fills `want` ids.  Returns 0 with *ctx 0: another round is needed; -RT_ENOSPC: all ids are in
 * use. */
int wm_ctx_settle(struct wm_ctx_search *s, uint32_t *ctx);
/* Enters the search in the list of agreements that may lend bits: all participants take part. */
void wm_ctx_join(struct wm_ctx_search *s);
void wm_ctx_leave(struct wm_ctx_search *s);

#endif
