/* SPDX-License-Identifier: BSD-3-Clause */
/* Agreement on context ids among some ranks of a communicator. */
#ifndef WM_CORE_CTX_H
#define WM_CORE_CTX_H

#include "mpi/core/exch.h"

/* The ids that every process starts with. */
#define WM_CTX_WORLD 2u
#define WM_CTX_SELF 4u
#define WM_CTX_JOB 6u /* of mpi/core/session_comm.c: agreements without a communicator */

/* Finds an id that is free in all participants and takes it.  `order` distinguishes agreements of
 * this process that go on at the same time in several threads: the same in all participants,
 * different for different agreements.  Under the domain's lock; waits.  MPI_SUCCESS or what
 * wm_err() returned. */
int wm_ctx_agree(const struct wm_exch *x, uint64_t order, uint32_t *ctx);
void wm_ctx_init(void);

struct wm_ctx_search;
/* The same with all that a search holds.  With two groups, among the processes of both. */
int wm_ctx_find(const struct wm_exch *x, struct wm_ctx_search *s, uint32_t *ctx);
/* Among all processes of `c`, without the domain's lock. */
int wm_comm_find_ctx(struct wm_comm *c, struct wm_ctx_search *s, uint32_t *ctx);

/* The same in steps, for nonblocking calls: round, combination of the offers by wm_ctx_merge,
 * settle, until there is an id; leave in any case.  An agreement lends bits only after a round has
 * shown that all participants take part (`met`): otherwise one that waits for a late member would
 * hold up all others. */
#define WM_CTX_WORDS 16 /* of a window: 1024 ids, so one round is nearly always enough */

struct wm_ctx_offer {
    uint32_t window; /* the highest that anybody asks for */
    uint32_t busy;   /* a process could not lend its bits */
    int32_t err;     /* as in wm_ctx_search; of any participant */
    uint32_t pad;
    uint64_t check, block;       /* sums of those in wm_ctx_search */
    uint64_t free[WM_CTX_WORDS]; /* of that window */
};

/* Nonblocking agreements under way in this process; under the domain's lock.  While there are any,
 * a blocking one must not lend its bits before all participants are there. */
extern unsigned wm_ctx_idups;

struct wm_ctx_search {
    /* Set by the caller. */
    uint64_t order;
    int want;    /* ids: 1, or 2 for an intercommunicator; 0 is 1 */
    int32_t err; /* error class: this process has failed and takes part only to notify the others,
                    all of which fail, too; 0: it has not */
    uint64_t check; /* the sum over all participants must be 0, else MPI_ERR_GROUP on all */
    uint64_t block; /* offset + 1 of shared memory from the one that has it, else 0 */
    /* The search's own. */
    uint32_t window;
    bool begun, again; /* `window` is set; the search has begun a second time */
    bool met, owner;   /* all members are here; this one has lent its bits */
    struct wm_ctx_search *next;
    struct wm_ctx_offer offer;
};

void wm_ctx_round(struct wm_ctx_search *s);
void wm_ctx_merge(void *inout, const void *in);
/* Fills `want` ids.  0 with *ctx 0: another round; -RT_ENOSPC when all ids are used. */
int wm_ctx_settle(struct wm_ctx_search *s, uint32_t *ctx);
void wm_ctx_join(struct wm_ctx_search *s);
void wm_ctx_leave(struct wm_ctx_search *s);

#endif
