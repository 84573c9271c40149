/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives of a team whose ranks share memory.  Called under the domain's lock; nothing here
 * blocks.
 *
 * The area.  Every rank owns, and alone writes, one progress word and COLL_NODE_SLOTS lines: a
 * line is a cache line with an epoch and up to 56 bytes.  Larger contributions go to cells (one
 * page a slot and rank) and to blocks (two halves that every call divides as it needs); that memory
 * is allocated by rank 0 when it is first needed.
 *
 * Epochs.  The team's node calls are numbered 1, 2, ...; all ranks start them in the same order,
 * so numbers agree.  A rank works on one call at a time, in order: `turn` is the last one it has
 * finished.  Progress words only grow:
 *
 *     (e - 1) << 24 | s   the rank has done s steps of call e
 *
 *     e << 24             the rank has finished call e and will not look at its memory again
 *
 * Why nothing is overwritten too early.  Call e uses slot e % SLOTS.  Before a rank writes a slot
 * that it last wrote in call x, it makes sure that all ranks have finished x.  That is mostly
 * known for nothing: whoever has seen all ranks' lines of call e knows that all have started e and
 * so finished e - 1 (`seen`).  Only a rank that runs ahead through rooted calls, where it waits
 * for nobody, reads the progress words, once in SLOTS calls.  No deadlock: a wait in call e is
 * only for ranks that have not finished a call before e, and the rank with the lowest call never
 * waits for this.  Calls in blocks use their slot too, for what is small: one
 * rule for all, whatever kind of call wrote the slot last.
 *
 * Blocks are reused in the same way.  They are two halves; a call that works in pieces puts piece s
 * into the half it begins with or the other, in turn, and what it does with them is in block.c and
 * move.c.  `half` is where the next call begins, `busy[h]` the last call in which somebody may
 * still be at work in half h when this rank has finished it.  Before a rank writes into a half in
 * a call for the first time it makes sure that all have finished busy[h], whatever kind of call
 * that was and however it had divided the half; from piece 2 on the call's own steps say when.
 * `half` is the same on all ranks, because only facts known to all change it; `busy` is each
 * rank's own knowledge.
 *
 * Void data (coll_task.lost).  Who has lost its input carries on as if it had not, so that nothing
 * in shared memory depends on it, and says so where the others look anyway: beside the epoch of its
 * line, or, of a call in pieces, in the line of its progress word, before the word for the first
 * step; `lost` is written by the rules for `direct`.  So calls in which nothing is lost cost no
 * line and no store more.  Every rank reads directly from those that it depends on, hence knows.
 *
 * Waking.  A rank that stores something which others may sleep on rings them all; that is a
 * relaxed load each. */
#ifndef COLL_NODE_NODE_H
#define COLL_NODE_NODE_H

#include "coll/coll.h"
#include "runtime/base/atomic.h"
#include "runtime/base/err.h"

#define COLL_NODE_SLOTS 4   /* calls a root may run ahead before it looks at the others' progress */
#define COLL_NODE_LINE 56   /* payload of a line */
#define COLL_NODE_CELL 4096 /* payload of a cell: a page, so unused ones are never touched */
#define COLL_NODE_STEP_BITS 24
#define COLL_NODE_VOID ((uint64_t)1 << 63) /* in a line's epoch: what the rank tells is void */

struct coll_node_line {
    _Alignas(RT_CACHE_LINE) char data[COLL_NODE_LINE];
    uint64_t epoch;
};
struct coll_node_prog {
    _Alignas(RT_CACHE_LINE) uint64_t word;
    uint64_t probe;     /* address of coll_node_magic in the rank's own memory, once attached */
    uint64_t land[2];   /* for the call that uses half h: where a reader wants its data put; or 0 */
    uint8_t direct[2];  /* for that call: its blocks hold addresses instead of data */
    uint8_t reads_peers; /* COLL_NODE_READS_...: whether it can read all ranks' memory */
    uint64_t lost[2];    /* the last call that used half h with this rank's blocks void */
};
_Static_assert(sizeof(struct coll_node_prog) == RT_CACHE_LINE, "one line");
enum { COLL_NODE_READS_UNKNOWN, COLL_NODE_READS_NONE, COLL_NODE_READS_ALL };
extern const uint64_t coll_node_magic;

/* Offset + 1 of memory that rank 0 allocated later: 0 not yet, UINT64_MAX refused. */
struct coll_node_head {
    _Alignas(RT_CACHE_LINE) uint64_t cells, blocks;
    uint64_t crowded; /* ranks outnumber cores, as rank 0 sees it; written before `blocks` */
};

/* The two ways of a call, see ring.c, and their paces as a writer has found them: ns for
 * as many bytes as the shortest such call has. */
enum { COLL_NODE_RING, COLL_NODE_DIRECT };
struct coll_node_pace {
    uint32_t ns[2];
    uint32_t calls; /* since the other way was tried */
};
#define COLL_NODE_PACES 8 /* doublings of the length that are told apart */
/* Two ranks share the work of shorter reductions with no gain: of 128 KiB there are two chunks, and
 * the root alone takes 13.7 us against 14.2 to 15.4 (Zen 4). */
#define COLL_NODE_PAIR_MIN (256 << 10)

/* How a call in pieces has divided the blocks, and how far this rank is; see move.c. */
struct coll_node_plan {
    int64_t piece;   /* bytes of a piece of one block */
    int cols;        /* blocks a writer has: one, or one for each rank */
    int rows;        /* of a piece in a half, those for results included */
    int64_t places;  /* for a piece of all ranks in a half; used in turn */
    int reader;      /* one of those for whom this rank has a block */
    bool one_writer; /* only the root writes */
    int64_t pieces;  /* of the whole call; -1 where not all ranks know */
    int64_t steps, out_pieces, in_pieces;
    int64_t own_copied; /* bytes of what this rank has for itself */
    bool hears_all;  /* this rank reads from all others */
    bool own_staged; /* a reduction reads this rank's input from its block, not from the user's */
    bool reading;    /* in this step the pieces to be written have been */
    bool direct;     /* this rank gives addresses */
    bool pair;       /* a reduction in which two ranks may share the work, see pair.c */
    bool lands;      /* this rank says where others shall put its data */
    int share;       /* of data that moves directly the reader copies share / 2 */
    bool any_direct, any_staged; /* what this rank has read so far */
    bool pushed;     /* this rank has copied its share into the reader's buffer */
    bool pulled;     /* the reader's share of the rank at n->next has been copied */
    bool told;       /* this rank's line of the call is written; what follows is to be read */
    bool large;      /* not all of this rank's blocks go through lines and cells */
    int heard;       /* ranks whose lines have been read */
    int err;         /* of a copy between processes */
    const char *acc; /* of a reduction: what the ranks before n->next add up to, */
    int nsources;    /* or, where they are added up at the end, how many there are */
    int64_t known;   /* ring.c: steps that those waited for have done, as last seen */
};

struct coll_node { /* this rank's view; private memory */
    struct coll_team *team;
    struct coll_node_head *head;
    struct coll_node_prog *prog;  /* [size] */
    struct coll_node_line *lines; /* [COLL_NODE_SLOTS][size] */
    char *cells, *blocks;         /* NULL until needed */
    size_t half_len;
    uint64_t started, turn;          /* calls started here; last call finished here */
    uint64_t seen;                   /* all ranks have finished this call */
    uint64_t wrote[COLL_NODE_SLOTS]; /* call in which this rank last wrote the slot */
    uint64_t busy[2]; /* see above */
    int half;
    bool crowded;
    bool all_read;   /* all ranks can read all ranks' memory */
    char *scratch;   /* of coll_node_scratch(); NULL until needed */
    bool *direct;    /* [size]: in this call the rank gives addresses, as seen at its first piece */
    struct coll_node_plan plan; /* of the call at `turn` + 1 */
    bool gives_void;            /* of that call in pieces: this rank's blocks are void, */
    int lost;                   /* or what it has read: -RT_EREMOTE */
    struct coll_node_pace paces[3][COLL_NODE_PACES]; /* of broadcast, reduce, allreduce */
    struct coll_node_pace *paced; /* what this call's time counts for; NULL */
    uint64_t paced_since;
    int64_t paced_bytes;
    int way;           /* of this call */
    bool one_half;     /* this call uses the half it begins with only */
    uint64_t ring_pos; /* bytes that have passed through the rings, the same on all ranks */
    /* Bytes of a line and of a cell for each reader, where the size - 1 readers share them. */
    int64_t line_part, cell_part;
    int64_t bytes;       /* of node_flat: what the ranks contribute to the call at `turn` + 1 */
    int64_t step;        /* of the call at `turn` + 1: where its step function stands */
    int next;            /* first rank not yet heard from in this step */
};

extern const struct coll_alg coll_node_flat_algs[], coll_node_block_algs[], coll_node_move_algs[];

/* Whether node_flat can carry what this call's ranks contribute. */
bool coll_node_cell_fits(const struct coll_team *t, const struct coll_args *a, int64_t bytes);
/* Whether pieces of this call's blocks are long enough to be worth it. */
bool coll_node_block_fits(const struct coll_team *t, const struct coll_args *a);

/* Shared by the files of coll/node. */
uint64_t coll_node_begin(struct coll_node *n, struct coll_task *k); /* numbers the call */
static inline bool coll_node_my_turn(const struct coll_node *n, const struct coll_task *k)
{
    return n->turn + 1 == (uint64_t)(uintptr_t)k->state;
}
bool coll_node_finished(struct coll_node *n, uint64_t epoch); /* by all ranks; refreshes `seen` */
void coll_node_wake(struct coll_node *n);
void coll_node_publish(struct coll_node *n, uint64_t epoch, int64_t steps);
int coll_node_end(struct coll_node *n); /* the call is finished here; returns 1 */
/* 1 ready, 0 not yet, -RT_ENOSPC: there is none, on any rank. */
int coll_node_cells(struct coll_node *n);
int coll_node_blocks(struct coll_node *n);
/* Whether all ranks can read all ranks' memory, as far as this rank knows; true for good. */
bool coll_node_all_read(struct coll_node *n);
size_t coll_node_half_len(int size);
/* Private memory as long as a half; NULL: none. */
char *coll_node_scratch(struct coll_node *n);
/* Whether rank has done `steps` steps of call e, or more. */
static inline bool coll_node_at(const struct coll_node *n, int rank, uint64_t e, int64_t steps)
{
    uint64_t want = (e - 1) << COLL_NODE_STEP_BITS | (uint64_t)steps;
    /* pairs with the release in coll_node_publish() */
    return rt_load_acquire(&n->prog[rank].word) >= want;
}
/* Whether a line's epoch is that of call e, or of a later one; *lost: the line's data are void. */
static inline bool coll_node_has_told(uint64_t epoch, uint64_t e, int *lost)
{
    uint64_t number = epoch & ~COLL_NODE_VOID;
    if (rt_unlikely(number == e && epoch != e && !*lost))
        *lost = -RT_EREMOTE;
    return number >= e;
}
/* That this rank's blocks of call e are void: before its first word for it, when it may write into
 * the half. */
static inline void coll_node_say_void(struct coll_node *n, uint64_t e)
{
    n->prog[n->team->rank].lost[n->half] = e;
}
/* With the first step of a rank: the same of its blocks. */
static inline bool coll_node_is_void(const struct coll_node *n, int rank, uint64_t e)
{
    return n->prog[rank].lost[n->half] == e;
}
/* Start of the half that holds piece i of the call at `turn` + 1. */
static inline char *coll_node_half(const struct coll_node *n, int64_t i)
{
    return n->blocks + (size_t)((n->half ^ (int)i) & 1) * n->half_len;
}
/* Whether this rank may write into that half now; only for a call's first two pieces. */
static inline bool coll_node_half_free(struct coll_node *n, int64_t i)
{
    return coll_node_finished(n, n->busy[(n->half ^ (int)i) & 1]);
}
/* Notes at the end of a call which halves others may still be at work in: all that it used, or
 * only that of the last piece.  pieces < 0: not known to all ranks. */
void coll_node_leave_blocks(struct coll_node *n, int64_t pieces, bool only_last);

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
/* Between a user's buffer and shared memory. */
void coll_piece_in(const void *buf, int64_t n, const struct rt_layout *l, struct coll_piece p,
                   void *to);
void coll_piece_out(void *buf, int64_t n, const struct rt_layout *l, struct coll_piece p,
                    const void *from);
/* ring.c: start of a call through rings; flat.c, move.c, block.c: the same call another way. */
int coll_node_ring_start(struct coll_team *t, const struct coll_args *a, struct coll_task *k);
int coll_node_flat_instead(struct coll_task *k);
int coll_node_move_instead(struct coll_task *k);
int coll_node_block_instead(struct coll_task *k);
void coll_node_pace_end(struct coll_node *n); /* at a writer, when such a call ends */
extern int coll_node_way; /* for tests: the way of all large calls; -1: the better */
/* Leaves the call to a message algorithm, on all ranks alike. */
int coll_node_give_up(struct coll_node *n, struct coll_task *k);

#endif
