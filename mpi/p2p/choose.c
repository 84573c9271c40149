/* SPDX-License-Identifier: BSD-3-Clause */
/* Which way large messages go: by put alone, or by both sides copying.  Neither is faster
 * everywhere.  On two Zen 5 cores of one L3, streaming through shared memory moves 52 GB/s, and
 * process_vm_readv with writev 25; on a mesh Xeon (16 cores, one L3) it is 9 and 30.  So the
 * receiver times the first messages and keeps the way that wins first, for a while: the host
 * of a virtual machine moves its processors between cores, and then the other way may win.  On one
 * such machine 64 KiB took 8.3 us by the way that had won and 4.3 by the other.  Called under the
 * domain's lock. */
#include "mpi/p2p/choose.h"
#include "mpi/p2p/engine.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"

/* Bytes.  The time of shorter messages is mostly the handshake and shows little of the copying.
 * Too high on some machine: the messages between take the default way. */
#define MEASURE_MIN (32 * 1024)
/* Messages of one way in a row, and how many of these do not count.  One message of each way in
 * turn misled two of three jobs on a Zen 5: a stream that follows a copy by the kernel finds cache
 * lines that a stream after a stream does not, and took 5 us for 64 KiB instead of 10. */
#define BLOCK 6
#define SETTLE 3
/* Messages of another length in a row after which a new block begins with that length. */
#define MISSES_MAX 16
/* A win may be an accident, when the sender was late; two of at most three are not. */
#define WINS 2
/* Duels that do not count: the first copies between two processes meet cold caches and page tables,
 * which slow down process_vm_readv most.  Without this, two of three jobs on a Xeon chose
 * wrongly. */
#define WARM_UP 1
/* A decision holds for this multiple of the duration of its trials, within these bounds: in half of
 * the trials the slower way is taken, so that they cost some percent at most even if it takes three
 * times as long.  The least time is about how long processors stay where they are.  The clock is
 * read once in RECHECK_EVERY messages. */
#define HOLDS_TIMES 64u
#define HOLDS_MIN_NS 250000000u
#define HOLDS_MAX_NS 10000000000u
#define RECHECK_EVERY 16u

/* Lengths whose times a byte may be compared. */
static bool alike(int64_t a, int64_t b) { return a < 2 * b && b < 2 * a; }

/* Reopens the trials when the decision is old. */
static void recheck(struct wm_choice *c)
{
    if (++c->since % RECHECK_EVERY)
        return;
    uint64_t now = rt_now_ns();
    if (now < c->until_ns)
        return;
    c->decided = false;
    c->opened_ns = now;
    c->wins[WM_WAY_PUT] = c->wins[WM_WAY_SHARED] = 0;
    c->duels = WARM_UP; /* caches and page tables are warm */
    c->block_len = 0;
    c->seen = 0;
}

static void decide(struct wm_choice *c, enum wm_way winner)
{
    uint64_t now = rt_now_ns(), holds = (now - c->opened_ns) * HOLDS_TIMES;
    holds = holds < HOLDS_MIN_NS ? HOLDS_MIN_NS : holds > HOLDS_MAX_NS ? HOLDS_MAX_NS : holds;
    c->decided = true;
    c->way = winner;
    c->since = 0;
    c->until_ns = now + holds;
    log_info(MPI, "large messages go by %s for %llu ms: won %d of %d trials",
             winner == WM_WAY_PUT ? "put alone" : "put and get at once",
             (unsigned long long)(holds / 1000000), WINS, c->wins[0] + c->wins[1]);
}

bool wm_choice_put_alone(struct wm_domain *d)
{
    struct wm_choice *c = &d->choice;
    if (c->decided)
        recheck(c);
    return c->decided && c->way == WM_WAY_PUT;
}

enum wm_way wm_choice_begin(struct wm_domain *d, int64_t len, bool *counts)
{
    struct wm_choice *c = &d->choice;
    if (c->decided)
        recheck(c);
    *counts = !c->decided;
    if (c->decided)
        return c->way;
    if (!c->opened_ns)
        c->opened_ns = rt_now_ns();
    if (c->running++ == 0) {
        c->len = len;
        c->begun = 0;
        c->nbytes = 0;
        c->spoilt = len < MEASURE_MIN;
        c->start_ns = rt_now_ns();
    }
    c->begun++;
    c->spoilt = c->spoilt || !alike(len, c->len);
    return c->way;
}

/* A block has ended.  Two of different ways are a duel. */
static void settle(struct wm_choice *c, double ns_per_byte)
{
    double other = c->seen;
    c->seen = other > 0 ? 0 : ns_per_byte;
    if (other > 0) {
        enum wm_way winner = ns_per_byte < other ? c->way : (enum wm_way) !c->way;
        if (c->duels++ >= WARM_UP && ++c->wins[winner] == WINS) {
            decide(c, winner);
            return;
        }
    }
    c->way = !c->way;
}

static void block_begin(struct wm_choice *c)
{
    c->block_len = c->len;
    c->in_block = c->misses = 0;
    c->ns = c->block_bytes = 0;
}

/* A period has ended. */
static void period_counts(struct wm_choice *c, uint64_t ns)
{
    if (c->block_len && !alike(c->len, c->block_len)) {
        if (++c->misses < MISSES_MAX)
            return;
        c->block_len = 0;
        c->seen = 0;
    }
    if (!c->block_len)
        block_begin(c);
    c->misses = 0;
    if (c->in_block >= SETTLE) {
        c->ns += (double)ns;
        c->block_bytes += (double)c->nbytes;
    }
    c->in_block += c->begun;
    if (c->in_block < BLOCK || !(c->block_bytes > 0))
        return;
    settle(c, c->ns / c->block_bytes);
    block_begin(c);
}

void wm_choice_end(struct wm_domain *d, int64_t len, bool failed)
{
    struct wm_choice *c = &d->choice;
    c->nbytes += len;
    c->spoilt = c->spoilt || failed;
    if (--c->running == 0 && !c->spoilt)
        period_counts(c, rt_now_ns() - c->start_ns);
}
