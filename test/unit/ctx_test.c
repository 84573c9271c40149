/* SPDX-License-Identifier: BSD-3-Clause */
/* The search for context ids: this process and one other member, whose offers the test
 * generates. */
#include "mpi/base/comm.h"
#include "mpi/core/ctx.h"
#include "runtime/base/err.h"
#include "test/check.h"

enum { FIRST = WM_CTX_BRIDGE / 2 + 1 }; /* the first id that is free */
enum { IDS = 1 << 20, WINDOW = 64 * WM_CTX_WORDS };
static uint64_t other_used[IDS / 64];
static uint32_t other_first; /* window where the other member's search starts */

static int nrounds;

static struct wm_ctx_offer other_offer(uint32_t window)
{
    struct wm_ctx_offer o = { .window = window };
    for (uint32_t i = 0; i < WM_CTX_WORDS && window < IDS / WINDOW; i++)
        o.free[i] = ~other_used[window * WM_CTX_WORDS + i];
    return o;
}

/* Returns the id, or a negative error. */
static int64_t find(void)
{
    struct wm_ctx_search s = { 0 };
    uint32_t ctx = 0, theirs = other_first;
    int err = 0;
    wm_ctx_join(&s);
    while (!err && !ctx) {
        wm_ctx_round(&s);
        struct wm_ctx_offer o = other_offer(theirs);
        wm_ctx_merge(&s.offer, &o);
        err = wm_ctx_settle(&s, &ctx);
        theirs = s.window;
        nrounds++;
    }
    wm_ctx_leave(&s);
    return err < 0 ? (int64_t)err : (int64_t)(ctx / 2);
}

static void begin(void)
{
    wm_ctx_init();
    memset(other_used, 0, sizeof other_used);
    other_used[0] = 0xf;
    other_first = 0;
    nrounds = 0;
}

/* Every other id belongs to one of the two members: no window is full in either member. */
static void many_with_different_members(void)
{
    enum { N = 20000 };
    begin();
    for (int i = 0; i < N; i++) {
        int64_t id = find();
        CHECK_EQ(id, i + FIRST);
        other_first = (uint32_t)(id / WINDOW);
        if (i % 2) {
            wm_comm_release_ctx((uint32_t)(2 * id));
            other_used[id / 64] |= 1ull << id % 64;
        }
    }
    CHECK_MSG(nrounds <= N + N / WINDOW + 1, "%d rounds for %d ids", nrounds, N);
    for (int64_t id = FIRST; id < N + FIRST; id += 2)
        wm_comm_release_ctx((uint32_t)(2 * id));
}

static void lowest_that_was_given_back(void)
{
    begin();
    for (int i = 0; i < 3 * WINDOW; i++)
        CHECK_EQ(find(), i + FIRST);
    wm_comm_release_ctx(2 * 100);
    CHECK_EQ(find(), 100);
    CHECK_EQ(find(), 3 * WINDOW + FIRST);
    for (int64_t id = FIRST; id <= 3 * WINDOW + FIRST; id++)
        wm_comm_release_ctx((uint32_t)(2 * id));
}

/* The other member's search starts after the last window; an id is found nevertheless. */
static void begins_again(void)
{
    begin();
    other_first = IDS / WINDOW;
    CHECK_EQ(find(), FIRST);
    wm_comm_release_ctx(2 * FIRST);
}

static void all_used(void)
{
    begin();
    for (int i = FIRST; i < IDS; i++)
        if (find() != i) {
            CHECK_MSG(false, "id %d is another", i);
            return;
        }
    CHECK_EQ(find(), -RT_ENOSPC);
    wm_comm_release_ctx(2 * 77);
    CHECK_EQ(find(), 77);
}

int main(void)
{
    RUN(many_with_different_members);
    RUN(lowest_that_was_given_back);
    RUN(begins_again);
    RUN(all_used);
    return check_end();
}
