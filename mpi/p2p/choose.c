/* SPDX-License-Identifier: BSD-3-Clause */
/* Which way large messages go: by put alone, or by both sides copying.  Neither is faster
 * everywhere.  On two Zen 5 cores of one L3, streaming through shared memory moves 52 GB/s, and
 * process_vm_readv with writev 25; on a mesh Xeon (16 cores, one L3) it is 9 and 30.  So the
 * receiver times the first messages and keeps the way that wins first.  Called under the domain's
 * lock. */
#include "mpi/p2p/choose.h"
#include "mpi/p2p/engine.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"

/* Bytes.  The time of shorter messages is mostly the handshake and shows little of the copying.
 * Too high on some machine: the messages between take the default way. */
#define MEASURE_MIN (32 * 1024)
/* A win may be an accident, when the sender was late; three of at most five are not. */
#define WINS 3
/* Duels that do not count: the first copies between two processes meet cold caches and page tables,
 * which slow down process_vm_readv most.  Without this, two of three jobs on a Xeon chose
 * wrongly. */
#define WARM_UP 3

enum wm_way wm_choice_begin(struct wm_domain *d, int64_t len)
{
    struct wm_choice *c = &d->choice;
    if (c->decided)
        return c->way;
    if (c->running++ == 0) {
        c->len = len;
        c->nbytes = 0;
        c->spoilt = len < MEASURE_MIN;
        c->start_ns = rt_now_ns();
    }
    c->spoilt = c->spoilt || len != c->len;
    return c->way;
}

static void settle(struct wm_choice *c, double ns_per_byte)
{
    if (c->seen_len == c->len) {
        enum wm_way winner = ns_per_byte < c->seen ? c->way : (enum wm_way) !c->way;
        c->seen_len = 0;
        if (c->duels++ >= WARM_UP && ++c->wins[winner] == WINS) {
            c->decided = true;
            c->way = winner;
            log_info(MPI, "large messages go by %s: won %d of %d trials",
                     winner == WM_WAY_PUT ? "put alone" : "put and get at once", WINS,
                     c->wins[0] + c->wins[1]);
            return;
        }
    } else {
        c->seen_len = c->len;
        c->seen = ns_per_byte;
    }
    c->way = !c->way;
}

void wm_choice_end(struct wm_domain *d, int64_t len, bool failed)
{
    struct wm_choice *c = &d->choice;
    if (c->running == 0)
        return; /* begun before the decision, or not counted */
    c->nbytes += len;
    c->spoilt = c->spoilt || failed;
    if (--c->running || c->decided || c->spoilt)
        return;
    settle(c, (double)(rt_now_ns() - c->start_ns) / (double)c->nbytes);
}
