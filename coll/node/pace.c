/* SPDX-License-Identifier: BSD-3-Clause */
/* Which way is faster: through shared memory or by a copy between processes.  Cores that share a
 * cache pass 25 to 30 GB/s through shared memory.  Cores that share none pass 4 GB/s, and there one
 * copy between processes is faster (move.c, "Direct transfer").  The processors of a virtual
 * machine change between the two cases within seconds, so no topology can decide.  A writer
 * measures the pace of both ways in its long calls, uses the faster one and sometimes tries the
 * other.  There is a pace for each kind of call and each doubling of the length. */
#include "coll/node/choose.h"
#include "runtime/base/clock.h"

/* Calls in a row that try the other way.  One would not do, because the first are slower: system
 * calls that have not been made for a while take up to three times as long (Zen 5).  The first
 * measurement of each way takes the same number of calls. */
#define TRY_CALLS 8
/* And this many calls apart if both ways are equally fast: trying costs a 64th part of the time at
 * most.  With more, changes of the machine would be found later. */
#define TRY_EVERY (64 * TRY_CALLS)
/* Part by which a pace rises at most in a call.  A call that interrupts or a late rank made slow
 * must not count for much: two such calls in a row must not change the way.  When the processors
 * have moved, the way changes after some 60 calls. */
#define RISE_PART 64
/* In calls of two ranks with a root, from PACED_MIN_TWO to twice the last of these lengths, the
 * reader decides about the next calls, because a writer leaves when its data are in shared memory:
 * a broadcast of 32 KiB takes the writer 2 us either way on a mesh Xeon, and its reader 5 or 2. */
#define ROWS_ROOTED 4
#define READER_LENGTHS 5
#define PACE_MAX 1000000u /* ns; a longer time has another cause than the copy */

static struct coll_node_pace *pace_of(struct coll_node *n, enum coll_kind kind, int64_t bytes)
{
    static const uint8_t rows[COLL_KINDS] = {
        [COLL_BCAST] = 0,      [COLL_REDUCE] = 1,         [COLL_SCAN] = 1,
        [COLL_EXSCAN] = 1,     [COLL_GATHER] = 2,         [COLL_GATHERV] = 2,
        [COLL_SCATTER] = 3,    [COLL_SCATTERV] = 3,       [COLL_ALLREDUCE] = 4,
        [COLL_ALLGATHER] = 5,  [COLL_REDUCE_SCATTER] = 7, [COLL_REDUCE_SCATTER_BLOCK] = 7,
        [COLL_ALLGATHERV] = 5, [COLL_ALLTOALL] = 6,       [COLL_ALLTOALLV] = 6,
        [COLL_ALLTOALLW] = 6,
    };
    int i = 0;
    while (i < COLL_NODE_PACES - 1 && bytes >= (int64_t)2 * COLL_NODE_PACED_MIN_TWO << i)
        i++;
    return &n->paces[rows[kind]][i];
}

static int choose_way(struct coll_node_pace *p)
{
    bool known = p->ns[COLL_NODE_STAGED] && p->ns[COLL_NODE_DIRECT];
    int best = known && p->ns[COLL_NODE_DIRECT] < p->ns[COLL_NODE_STAGED];
    uint64_t most = known ? (uint64_t)TRY_EVERY * p->ns[!best] / p->ns[best] : TRY_CALLS;
    if (p->tries > 0) {
        p->tries--;
    } else if (++p->calls <= most) {
        p->way = (uint16_t)best;
    } else {
        p->way = !best;
        p->calls = 0;
        p->tries = TRY_CALLS - 1;
    }
    return p->way;
}

/* The bit in `prefers` for a call in which the reader decides; 0: the writer decides. */
static uint32_t bit_of(const struct coll_node *n, const struct coll_node_pace *p)
{
    int i = (int)(p - n->paces[0]), row = i / COLL_NODE_PACES, length = i % COLL_NODE_PACES;
    bool rooted = row < ROWS_ROOTED && n->team->size == 2;
    return rooted && length < READER_LENGTHS ? 1u << (row * READER_LENGTHS + length) : 0;
}

static void begin(struct coll_node *n, struct coll_node_pace *p, int64_t bytes)
{
    n->paced = p;
    n->paced_bytes = bytes;
    n->paced_since = rt_now_ns();
}

bool coll_node_pace_begin(struct coll_node *n, enum coll_kind kind, int64_t bytes)
{
    struct coll_node_pace *p = pace_of(n, kind, bytes);
    uint32_t bit = bit_of(n, p);
    if (bit) {
        uint32_t wanted = __atomic_load_n(&n->prog[!n->team->rank].prefers, __ATOMIC_RELAXED);
        n->way = wanted & bit ? COLL_NODE_DIRECT : COLL_NODE_STAGED;
    } else {
        begin(n, p, bytes);
        n->way = choose_way(p);
    }
    if (n->team->override.node_way)
        n->way = n->team->override.node_way - 1;
    return n->way == COLL_NODE_DIRECT;
}

void coll_node_pace_read(struct coll_node *n, enum coll_kind kind, int64_t bytes)
{
    struct coll_node_pace *p = pace_of(n, kind, bytes);
    if (!n->paced && bit_of(n, p))
        begin(n, p, bytes);
}

/* A pace falls at once. */
void coll_node_pace_end(struct coll_node *n)
{
    uint32_t *pace = &n->paced->ns[n->way];
    uint64_t ns = (rt_now_ns() - n->paced_since) * COLL_NODE_PACED_MIN / (uint64_t)n->paced_bytes +
                  1;
    uint64_t most = *pace && *pace < PACE_MAX ? *pace + *pace / RISE_PART : PACE_MAX;
    *pace = (uint32_t)(ns < most ? ns : most);
    uint32_t bit = bit_of(n, n->paced), *prefers = &n->prog[n->team->rank].prefers;
    if (bit && choose_way(n->paced) != !!(*prefers & bit))
        __atomic_store_n(prefers, *prefers ^ bit, __ATOMIC_RELAXED);
    n->paced = NULL;
}
