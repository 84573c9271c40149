/* SPDX-License-Identifier: BSD-3-Clause */
/* Board: how the ranks of a team on one host agree on calls and meet in them, in shared memory.
 * Called under the domain's lock; no function here blocks.
 *
 * Calls are numbered from 1, alike on all ranks.  On each call every rank votes: yes, with data for
 * the other ranks, or no.  One veto is enough.  A veto is one store, and a rank that vetoes waits
 * for no rank.  If all ranks have voted yes, they meet in the call: each rank publishes the phases
 * that it has reached and waits until all ranks have reached them.  A call may be carried out
 * several times; each time is a round.
 *
 * No other rank writes a rank's line and entries.  A board has two rows of entries, each with its
 * own numbers: calls that end soon, and calls that stay (persistent calls).  Call e of a row of n
 * entries uses entry e % n of every rank.
 *
 *    line.voted     the row's last call on which the rank has voted; grows by one
 *    entry.number   the last call on which the rank has voted yes in this entry
 *    entry.base     the last round in which the rank has used the entry before that vote
 *    entry.at       COLL_BOARD_AT(round, phase) and flags; only grows
 *
 * To vote yes on e, a rank writes its data, then base, then number, then voted, with release.  To
 * read a vote on e, a rank waits until voted is e or more; number == e then means yes, any other
 * value no.  The first round of the call is the largest base of all ranks plus one, so a rank's
 * `at` never decreases.
 *
 * Rule.  A rank votes yes in an entry only if the entry is free: the previous call in it was
 * vetoed, or this rank has left that call and all ranks have published a phase of its last round.
 * In its last round a rank waits for all ranks at END before it leaves, or, where a call has no
 * common end, it publishes READY and leaves.
 *
 * Why all ranks decide alike.  Let some rank read q's vote on call e.  If q voted yes, number is e
 * until q votes yes on a later call in the entry.  If e was vetoed by r, r's number never becomes
 * e, so every rank that still reads the votes finds this veto, whatever it reads of q.  Otherwise
 * all ranks have published a phase of e before q votes yes again; they do so after they have read
 * the votes.
 *
 * Why no data are read too late.  A rank reads data after the votes and before it publishes its
 * first phase.  By the rule no rank writes its entry again before that.
 *
 * Why no phase is overwritten too early.  `at` first changes in a later call when all ranks have
 * voted yes on that call, so all have left this one.  In a later round of the same call it changes
 * when the rank has seen all ranks at END of this round.  A rank that still waits for END then
 * finds a larger round, which means END without flags: after a flag no rank begins another round.
 *
 * Entries of a rank are allocated at its first yes vote and belong to the team.  Where only rank 0
 * can free memory (coll_team_ops.one_owner), it allocates all of them before the board is used, or
 * none.  The lines belong to the team's block, which is freed when all ranks have left the team.
 *
 * If the rank that another rank waits for has gone (runtime/mem/deaths.h), the wait ends, with an
 * error unless it was for a free entry.  Each store on which other ranks may
 * sleep is followed by a wake-up. */
#ifndef COLL_BOARD_H
#define COLL_BOARD_H

#include "coll/coll.h"
#include "runtime/base/atomic.h"
#include "runtime/mem/segment.h"

enum coll_board_row { COLL_BOARD_CALLS, COLL_BOARD_STAYING, COLL_BOARD_ROWS };
#define COLL_BOARD_NCALLS 4    /* calls of a team that end soon and are in progress at once */
#define COLL_BOARD_NSTAYING 64 /* calls of a team that stay */

/* A phase: READY, each further phase one more, at last END. */
#define COLL_BOARD_READY 1u
#define COLL_BOARD_END 0xfffffu
#define COLL_BOARD_AT(round, phase) ((uint64_t)(round) << 24 | (uint64_t)(phase) << 4)
/* Flags beside a phase.  After one of them the call has no further round. */
/* The rank cannot carry out the call on devices, and has written nothing. */
#define COLL_BOARD_DECLINED 1u
#define COLL_BOARD_FAILED 2u
#define COLL_BOARD_MISMATCH 4u /* with FAILED: the ranks' arguments do not agree */
#define COLL_BOARD_FLAGS 7u

struct coll_board_line {
    _Alignas(RT_CACHE_LINE) uint64_t voted[COLL_BOARD_ROWS];
    uint64_t entries[COLL_BOARD_ROWS]; /* offset + 1 in the team's memory; 0: none yet */
    uint64_t open;                     /* calls with a yes vote that the rank has not left */
};
struct coll_board_head {
    _Alignas(RT_CACHE_LINE) uint32_t used; /* a rank has voted yes at least once, so ranks may
                                            * sleep */
};
struct coll_board_entry { /* the call's data follow */
    _Alignas(RT_CACHE_LINE) uint64_t number, base, at;
    uint32_t version; /* of the data; for the caller, written before a yes vote */
};

struct coll_board { /* this rank's view; private memory */
    struct coll_team *team;
    struct coll_board_head *head;
    struct coll_board_line *line, *own; /* [size]; this rank's */
    size_t data;                        /* bytes of data of an entry */
    size_t stride;                      /* of the entries of a row */
    struct {
        char **at;      /* [size]: entries; NULL: not known yet */
        bool no_memory; /* this rank vetoes every call */
    } row[COLL_BOARD_ROWS];
    struct {
        bool taken;
        uint64_t left; /* this `at` of all ranks frees the entry; 0: it is free */
    } mine[COLL_BOARD_NCALLS + COLL_BOARD_NSTAYING];
};

struct coll_board_call { /* a call as this rank sees it */
    struct coll_board *board;
    enum coll_board_row row;
    int slot;      /* entry in the row, */
    size_t offset; /* and where it begins */
    uint64_t number, round;
    bool yes;              /* this rank has voted yes and has not left */
    bool agreed;           /* so have all ranks */
    bool met;              /* in this round all ranks have been seen at some phase */
    int counted;           /* ranks that have voted yes, or have reached the target phase */
    uint32_t target;       /* the phase that the ranks must reach */
    uint32_t phase, flags; /* of this rank */
    uint32_t seen;         /* flags of all ranks in this round */
    int err;               /* the reason for FAILED: the caller's, or -RT_EPEER */
};

size_t coll_board_nbytes(int size); /* of zeroed shared memory */
/* Allocates and frees the entries of all ranks, in rank 0 only. */
void coll_board_alloc(struct coll_team *t, void *shared, size_t data);
void coll_board_free(struct coll_team *t, void *shared, size_t data);
/* `data`: bytes of data of an entry.  0 or -RT_ENOMEM.  Before use: attach. */
int coll_board_init(struct coll_board *b, struct coll_team *t, size_t data);
void coll_board_attach(struct coll_board *b, void *shared);
void coll_board_fini(struct coll_board *b);     /* when no rank reads the entries any more */
void coll_board_absent(void *shared, int rank); /* vetoes all calls in advance */

void coll_board_wake(struct coll_board *b);
static inline void coll_board_has_stored(struct coll_board *b)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* its counterpart is the sleeper's membarrier */
    if (rt_unlikely(rt_node.fence_needed))   /* where membarrier is missing */
        rt_fence();
    if (rt_unlikely(rt_load_relaxed(&b->head->used)))
        coll_board_wake(b);
}
/* Votes no; the call needs nothing more. */
static inline void coll_board_veto(struct coll_board *b, enum coll_board_row row, uint64_t number)
{
    rt_store_release(&b->own->voted[row], number);
    coll_board_has_stored(b);
}

void coll_board_begin(struct coll_board_call *c, struct coll_board *b, enum coll_board_row row,
                      uint64_t number);
/* Whether this rank may vote yes.  1: yes, it may now write its data and the version; 0: not yet,
 * the entry is in use; -RT_ENOMEM. */
int coll_board_enter(struct coll_board_call *c);
char *coll_board_find(const struct coll_board_call *c, int rank);
/* A rank's entry; NULL: it has none.  Another rank's data are valid from the agreement to this
 * rank's first phase. */
static inline struct coll_board_entry *coll_board_entry(const struct coll_board_call *c, int rank)
{
    char *row = c->board->row[c->row].at[rank];
    if (rt_unlikely(!row) && !(row = coll_board_find(c, rank)))
        return NULL;
    return (struct coll_board_entry *)(row + c->offset);
}
void coll_board_yes(struct coll_board_call *c); /* after coll_board_enter() has returned 1 */
/* 1: all ranks have voted yes.  0: not yet.  -RT_ENOTSUP: vetoed.  -RT_EPEER: rank `counted` has
 * gone. */
int coll_board_all_yes(struct coll_board_call *c);
/* Begins another round; the first one begins with the agreement. */
void coll_board_again(struct coll_board_call *c);
/* Publishes that this rank has reached the phase, and its flags. */
void coll_board_publish(struct coll_board_call *c, uint32_t phase);
/* Whether all ranks have reached the phase; `seen` has their flags.  A rank that has gone counts as
 * FAILED. */
bool coll_board_all_at(struct coll_board_call *c, uint32_t phase);
void coll_board_leave(struct coll_board_call *c);

#endif
