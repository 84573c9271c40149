/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives of a team whose ranks share memory.  Called under the domain's lock; no function here
 * blocks.
 *
 * The area.  Each rank owns one progress word and COLL_NODE_SLOTS lines; no other rank writes them,
 * but in linear.c a root.
 * A line is a cache line with an epoch and up to 56 bytes.  Larger contributions go to cells and to
 * blocks (two halves, which each call divides as it needs).  The cells of a rank are 16 KiB: 16 of
 * 1 KiB for calls of up to 512 bytes, 4 of 4 KiB for longer ones.  Rank 0 allocates cells and
 * blocks when they are first needed.
 *
 * Epochs.  The team's node calls are numbered 1, 2, ...; all ranks start them in the same order, so
 * the numbers agree.  A rank works on one call at a time, in order; `turn` is the last call that it
 * has finished.  Progress words only grow:
 *
 *    (e - 1) << 24 | s   the rank has done s steps of call e
 *    e << 24             the rank has finished call e and will not read its memory again
 *
 * Why no memory is overwritten too early.  Call e uses slot e % SLOTS, and e determines which of
 * the cells of its length.  Before a rank writes a line, or a KiB of its cells, that it last wrote
 * in call x, it checks that all ranks have finished x.  Mostly the rank knows this already: a rank
 * that has seen all ranks' lines of call e knows that all ranks have started e, and so have
 * finished e - 1 (`seen`).  Only a rank that runs ahead through rooted calls, in which it waits for
 * no rank, reads the progress words, when it has used all slots.  There is no deadlock: in call e a
 * rank waits in this way only for ranks that have not finished an earlier call, so the rank with
 * the lowest call never waits.  Calls in blocks write their small data to their slot, too, so this
 * rule holds whatever kind of call wrote the memory last.
 *
 * Blocks are reused in the same way.  They are two halves.  A call in pieces puts its pieces into
 * the two halves in turn; block.c and move.c describe the use of the pieces.  `half` is the half in
 * which the next call begins.  When this rank has finished call busy[h], other ranks may still be
 * using half h for that call, but for no later one.  Before a rank writes into a half for the first
 * time in a call, it checks that all ranks have finished busy[h], whatever kind of call that was
 * and however that call had divided the half.  From piece 2 on, the call's own steps show when a
 * half is free.  `half` is the same on all ranks, because only facts known to all ranks change it;
 * `busy` is private to each rank.
 *
 * Poison (coll_task.lost).  A rank that has lost its input continues as if it had not, so that no
 * state in shared memory depends on the loss.  It publishes the poison where other ranks look
 * anyway: beside the epoch of its line, or, for a call in pieces, in the cache line of its progress
 * word, before it stores the word for the first step; `lost` is written by the same rules as
 * `direct`.  So calls without poison need no further cache line or store.  Every rank reads
 * directly from each rank on which its result depends, so it sees the poison.
 *
 * Wake-up.  A rank that stores a value on which other ranks may sleep rings all their doorbells;
 * each costs one relaxed load. */
#ifndef COLL_NODE_NODE_H
#define COLL_NODE_NODE_H

#include "coll/coll.h"
#include "runtime/base/atomic.h"
#include "runtime/base/err.h"

/* COLL_NODE_HALF and the other limits of node.def. */
#define ALG(kind, name, alg, needs)
#define RULE(from, kinds, facts, bytes, to, why)
#define LIMIT(name, unit, value, what, measured) COLL_NODE_##name = (value),
enum coll_node_limit {
#include "coll/node/node.def"
};
#undef ALG
#undef RULE
#undef LIMIT

/* Calls that a root may run ahead before it waits for the other ranks.  Where ranks share a core,
 * each rank gets the core once while the root makes this number of broadcasts or reductions: a
 * broadcast of 8 bytes to 8 ranks on 2 cores takes 3.7 us with 4 slots, 1.3 with 8, 1.0 with 16,
 * 0.7 with 32.  The lines take 1 or 2 KiB a rank and communicator. */
#define COLL_NODE_SLOTS 16
#define COLL_NODE_LINE 56   /* payload of a line */
#define COLL_NODE_CELL 4096 /* largest payload of a cell */
/* Bytes of a rank's cells, and the length of its small cells, which hold half of that: a processor
 * that reads a cell also fetches lines behind it, which then cost the writer of the next cell an
 * invalidation each (2 KiB in cells of 2 KiB: 0.51 us instead of 0.35, 2 cores without a shared
 * cache).  So longer payloads have a page.  A page for each slot would gain nothing: 16 cells with
 * the same place in a first-level cache are slower, and such a call takes long enough to pay for a
 * look at the progress words in each fourth call. */
#define COLL_NODE_CELLS (4 * COLL_NODE_CELL)
#define COLL_NODE_CELL_MIN (COLL_NODE_CELLS / COLL_NODE_SLOTS)
#define COLL_NODE_STEP_BITS 24
#define COLL_NODE_POISON ((uint64_t)1 << 63) /* in a line's epoch: the line's data are poisoned */

struct coll_node_line {
    _Alignas(RT_CACHE_LINE) char data[COLL_NODE_LINE];
    uint64_t epoch;
};
struct coll_node_prog {
    _Alignas(RT_CACHE_LINE) uint64_t word;
    uint64_t probe;      /* address of coll_node_magic in the rank's own memory; 0 until it has
                          * attached */
    uint64_t land[2];    /* for the call that uses half h: where others shall put this rank's data;
                          * or 0; unless each has its own place (move.c) */
    uint32_t room[2];    /* bytes there; COLL_NODE_ROOM_MAX: this number or more */
    uint8_t direct[2];   /* for that call: the rank's blocks hold addresses instead of data; or
                          * COLL_NODE_READER_ALONE: addresses, and it copies none itself */
    uint8_t reads_peers; /* COLL_NODE_READS_...: whether the rank can read all ranks' memory */
    uint8_t left;        /* the rank has freed the team, or has died: it does not use the area */
    uint32_t prefers;    /* one of two ranks: calls in which it wants to read directly (pace.c) */
    uint64_t lost[2];    /* the last call in half h in which this rank's blocks were poisoned */
};
_Static_assert(sizeof(struct coll_node_prog) == RT_CACHE_LINE, "one line");
#define COLL_NODE_ROOM_MAX UINT32_MAX
#define COLL_NODE_READER_ALONE 2
enum { COLL_NODE_READS_UNKNOWN, COLL_NODE_READS_NONE, COLL_NODE_READS_ALL };
extern const uint64_t coll_node_magic;

/* Whether ranks outnumber cores; LEVELS: enough cores, on several L3 caches. */
enum {
    COLL_NODE_ROOM_UNKNOWN,
    COLL_NODE_ROOM_ENOUGH,
    COLL_NODE_ROOM_LEVELS,
    COLL_NODE_ROOM_CROWDED
};

/* Offset + 1 of memory that rank 0 allocates later; 0: not yet, UINT64_MAX: out of memory. */
struct coll_node_head {
    _Alignas(2 * RT_CACHE_LINE) uint64_t cells, blocks;
    uint64_t room; /* COLL_NODE_ROOM_..., as rank 0 sees it */
    /* Of linear.c: the last rank of the queue, and its call, << COLL_NODE_STEP_BITS. */
    _Alignas(RT_CACHE_LINE) uint64_t queue;
};

/* The two transfer modes of a call, and the pace (pace.c) of each as a writer has measured it: ns
 * for COLL_NODE_PACED_MIN bytes; 0: not yet. */
enum { COLL_NODE_STAGED, COLL_NODE_DIRECT };
struct coll_node_pace {
    uint32_t ns[2];
    uint32_t calls; /* since the other mode was tried */
    uint16_t tries; /* further calls in which it is tried, */
    uint16_t way;   /* and the mode of the last call */
};
#define COLL_NODE_PACES 11    /* one pace for each doubling of the length */
#define COLL_NODE_PACE_ROWS 8 /* and for each kind of call */

/* How a call in pieces divides the blocks, and the progress of this rank; see move.c. */
struct coll_node_plan {
    int64_t piece;   /* bytes of a piece of one block */
    int cols;        /* blocks per writer: one, or one for each rank */
    int rows;        /* rows of a piece in a half, including rows for results */
    int64_t places;  /* places for a piece of all ranks in a half; used in turn */
    int reader;      /* a rank that has a block to read from this rank */
    bool one_writer; /* only the root writes */
    int64_t pieces;  /* of the whole call; -1 if not all ranks know */
    int64_t cycle;   /* of a long call of two ranks: bytes of a half that such calls use in turn */
    int64_t steps, out_pieces, in_pieces;
    int64_t own_copied; /* bytes copied of this rank's data for itself */
    bool own_done;      /* nothing is left of them */
    bool reads_all;     /* this rank reads from all others */
    bool own_staged;    /* a reduction reads this rank's input from its block, not from the user's
                         * buffer */
    bool reading;       /* the writing part of this step is done */
    bool direct;        /* this rank's blocks hold addresses */
    bool follows;       /* rank 1 of two: its blocks will hold addresses if those of rank 0 do */
    bool leads; /* rank 0 of two: it publishes its first step, for which rank 1 may wait, even if
                 * wrong arguments give it no block for rank 1 */
    bool lands; /* this rank publishes where others shall put its data */
    int share;  /* the reader copies share / 2 of data that moves directly */
    bool any_direct, any_staged; /* how this rank has read blocks so far */
    bool pushed;                 /* this rank has copied its share into a reader's buffer */
    bool pulled;                 /* the reader's share of rank n->next has been copied */
    bool written;                /* this rank's line of the call is written; now it reads */
    bool due;                    /* rank n->next has a small block that was not there yet */
    bool large;                  /* some of this rank's blocks are too large for lines and cells */
    int nread;                   /* ranks whose lines have been read */
    int err;                     /* of a copy between processes */
    const char *acc; /* of a reduction: the combined data of the ranks before n->next, */
    int nsources;    /* or, if they are combined at the end, the number of these ranks */
    int64_t known;   /* ring.c: steps that the ranks waited for had done when last read */
    bool swaps;      /* pieces of two ranks for each other lie in one place in turn, see move.c */
};

struct coll_node { /* this rank's view; private memory */
    struct coll_team *team;
    struct coll_node_head *head;
    struct coll_node_prog *prog;  /* [size] */
    struct coll_node_line *lines; /* [COLL_NODE_SLOTS][size], each 1 << apart of them */
    int apart;
    char *cells, *blocks; /* NULL until needed */
    size_t half_len;
    uint64_t started, turn; /* calls started here; last call finished here */
    uint64_t seen;          /* all ranks have finished this call */
    /* Calls in which this rank last wrote the line of a slot, and each part of its cells. */
    uint64_t wrote[COLL_NODE_SLOTS], filled[COLL_NODE_SLOTS];
    uint64_t busy[2]; /* see above */
    int half;
    bool crowded, levels, crowded_known; /* coll_node_crowded_known() */
    bool two_numbers;                    /* the call at `turn` + 1 has the next number, too */
    unsigned facts;                      /* of choose.c; 0: not known yet */
    int rows;                            /* of the grid, see grid.c */
    int top, parent, *below, nbelow;     /* of the last rooted call there; -1: none */
    int reads;                           /* coll_node_reads() when it was last asked */
    char *scratch;                       /* of coll_node_scratch(); NULL until needed */
    char *packed; /* of direct.c and linear.c: this rank's input in the call */
    char *result; /* of direct.c: this rank's block, until it may be stored */
    bool queued;  /* of linear.c: this rank is in the queue, */
    int behind;   /* behind this rank; -1: it is the first */
    bool *direct; /* [size]: the rank's blocks hold addresses in this call, as read with its
                   * first piece */
    struct coll_node_plan plan; /* of the call at `turn` + 1 */
    bool poisoned;              /* in that call in pieces this rank's blocks are poisoned, */
    int lost;                   /* or data that it has read: -RT_EREMOTE */
    struct coll_node_pace paces[COLL_NODE_PACE_ROWS][COLL_NODE_PACES]; /* [kinds of calls] */
    struct coll_node_pace *paced; /* the pace that this call measures; NULL: none */
    uint64_t paced_since;         /* rt_now_ns() */
    int64_t paced_bytes;
    int way;                  /* transfer mode of this call */
    bool one_half;            /* this call uses only the half in which it begins */
    uint64_t ring_pos;        /* bytes that have passed through the rings, the same on all ranks */
    int64_t populated, asked; /* bytes of a half; coll_node_populate() */
    /* Bytes of a line and of a cell for each reader, if the size - 1 readers share them. */
    int64_t line_part, cell_part;
    int64_t step;       /* current step of the call at `turn` + 1 */
    int next;           /* first rank whose data are still missing in this step */
    int hub;            /* of a barrier that starts now, see flat.c */
    bool after_barrier; /* the call started last is a barrier */
    /* Tasks of the domain that wait for their turn, in this order; a task that is not here is
     * advanced. */
    struct rt_list waiting;
    bool failed; /* no task waits here any more */
};

/* coll_node_nbytes: bytes of a team's shared memory.  coll_node_create: allocates t->node; 0 or
 * -RT_ENOMEM.  coll_node_attach: gives it this memory, zeroed, at `p`, and sets t->limits. */
size_t coll_node_nbytes(int size);
int coll_node_create(struct coll_team *t);
void coll_node_attach(struct coll_team *t, char *p);
void coll_node_fini(struct coll_team *t); /* t->node may be NULL */
/* Whether all other ranks have freed the team. */
bool coll_node_left(const struct coll_node *n);
extern const struct coll_limits coll_node_limits;

/* For the files of coll/node. */
uint64_t coll_node_begin(struct coll_node *n, struct coll_task *k); /* numbers the call */
void coll_node_await_turn(struct coll_node *n, struct coll_task *k);
static inline bool coll_node_my_turn(struct coll_node *n, struct coll_task *k)
{
    if (rt_likely(n->turn + 1 == (uint64_t)(uintptr_t)k->state))
        return true;
    coll_node_await_turn(n, k);
    return false;
}
bool coll_node_finished(struct coll_node *n, uint64_t epoch); /* by all ranks; refreshes `seen` */
/* Notes that all ranks have started call e, and so have finished e - 1. */
static inline void coll_node_all_started(struct coll_node *n, uint64_t e)
{
    if (n->seen < e - 1)
        n->seen = e - 1;
}
void coll_node_wake(const struct coll_node *n);
void coll_node_wake_some(const struct coll_node *n, int from, int to); /* ranks [from, to) */
void coll_node_publish(struct coll_node *n, uint64_t epoch, int64_t steps);
int coll_node_end(struct coll_node *n); /* this rank has finished the call; returns 1 */
/* Whether this rank may write its line of call e and a cell for `len` bytes, or no cell (0).  Notes
 * that it does. */
bool coll_node_may_write(struct coll_node *n, uint64_t e, int64_t len);
/* A rank's cell in call e for `len` bytes, at most COLL_NODE_CELL. */
char *coll_node_cell(const struct coll_node *n, uint64_t e, int rank, int64_t len);
/* 1: ready; 0: not yet; -RT_ENOSPC: no memory, on all ranks. */
int coll_node_cells(struct coll_node *n);
int coll_node_blocks(struct coll_node *n);
/* Whether all ranks can read all ranks' memory, COLL_NODE_READS_...; once known, the same on all
 * ranks. */
int coll_node_reads(struct coll_node *n);
static inline bool coll_node_all_read(struct coll_node *n)
{
    return coll_node_reads(n) == COLL_NODE_READS_ALL;
}
/* Whether n->crowded, ranks outnumber cores, and n->levels, they run on several L3 caches, are
 * known; the same on all ranks. */
bool coll_node_crowded_known(struct coll_node *n);
size_t coll_node_half_len(int size);
/* Private memory of the length of a half; NULL: out of memory. */
char *coll_node_scratch(struct coll_node *n);
/* Whether `rank` has done at least `steps` steps of call e. */
static inline bool coll_node_at(const struct coll_node *n, int rank, uint64_t e, int64_t steps)
{
    uint64_t want = (e - 1) << COLL_NODE_STEP_BITS | (uint64_t)steps;
    /* pairs with the release in coll_node_publish() */
    return rt_load_acquire(&n->prog[rank].word) >= want;
}
/* Whether a line's epoch is that of call e or a later call.  *lost: set if the data are
 * poisoned. */
static inline bool coll_node_has_written(uint64_t epoch, uint64_t e, int *lost)
{
    uint64_t number = epoch & ~COLL_NODE_POISON;
    if (rt_unlikely(number == e && epoch != e && !*lost))
        *lost = -RT_EREMOTE;
    return number >= e;
}
/* Marks this rank's blocks of call e as poisoned.  Call it when the rank may write into the half,
 * before it stores its first progress word of the call. */
static inline void coll_node_poison(struct coll_node *n, uint64_t e)
{
    n->prog[n->team->rank].lost[n->half] = e;
}
/* Whether a rank's blocks are poisoned; call it when the rank has done its first step. */
static inline bool coll_node_is_poisoned(const struct coll_node *n, int rank, uint64_t e)
{
    return n->prog[rank].lost[n->half] == e;
}
/* Start of the half that holds piece i of the call at `turn` + 1. */
static inline char *coll_node_half(const struct coll_node *n, int64_t i)
{
    return n->blocks + (size_t)((n->half ^ (int)i) & 1) * n->half_len;
}
/* Whether this rank may write piece i into its half now; only for the first two pieces of a
 * call. */
static inline bool coll_node_half_free(struct coll_node *n, int64_t i)
{
    return coll_node_finished(n, n->busy[(n->half ^ (int)i) & 1]);
}
/* Notes in which halves other ranks may still be at work: in all halves that the call used, or only
 * in that of the last piece.  pieces < 0: their number is not known to all ranks. */
void coll_node_leave_blocks(struct coll_node *n, int64_t pieces, bool only_last);

/* After a call that moves its blocks through the first `len` bytes of the halves. */
void coll_node_populate(struct coll_node *n, int64_t len);

/* Bytes [at, at + len) of the packed form of a buffer. */
struct coll_piece {
    int64_t at, len;
};
static inline struct coll_piece coll_piece_of(int64_t bytes, int64_t piece, int64_t i)
{
    int64_t at = i * piece, left = bytes - at;
    return (struct coll_piece){ at, left < piece ? left : piece };
}
static inline int64_t coll_pieces(int64_t bytes, int64_t piece)
{
    return (bytes + piece - 1) / piece;
}
/* Copy between a user's buffer and shared memory. */
void coll_piece_in(const void *buf, int64_t n, const struct rt_layout *l, struct coll_piece p,
                   void *to);
void coll_piece_out(void *buf, int64_t n, const struct rt_layout *l, struct coll_piece p,
                    const void *from);
/* Passes the call to an algorithm over messages, as all ranks do; returns as coll_task.step. */
int coll_node_give_up(struct coll_node *n, struct coll_task *k);

#endif
