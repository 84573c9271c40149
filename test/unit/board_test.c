/* SPDX-License-Identifier: BSD-3-Clause */
/* The board of coll/board.h: each rank is a thread that votes, meets and leaves at its own pace,
 * with several calls in progress.  Every vote and flag is a function of rank and call, so each rank
 * knows the result that it must see. */
#include "coll/board.h"

#include <pthread.h>
#include <sched.h>
#include "runtime/base/err.h"
#include "runtime/gpu/gpu.h"
#include "runtime/mem/deaths.h"
#include "test/check.h"

enum { MOST = 5, WINDOW = 6, CALLS = 4000, STAY = 150, ROUNDS = 4, MEMORY = 1 << 20 };

static struct {
    int size;
    bool ends; /* calls end at END; otherwise ranks leave after READY */
    _Alignas(RT_CACHE_LINE) char lines[4096], memory[MEMORY];
    size_t used;
    int wrong; /* results that differ from the expected ones */
    bool full;
    int gone; /* a rank that has exited; -1: none */
} world;

/* ---- the team ---- */

static size_t shm_alloc(struct coll_team *t, size_t nbytes)
{
    (void)t;
    size_t off = world.full ? SIZE_MAX : rt_fetch_add(&world.used, nbytes);
    if (off != SIZE_MAX && off + nbytes > MEMORY)
        abort();
    return off;
}

static void shm_free(struct coll_team *t, size_t off, size_t nbytes)
{
    (void)t, (void)off, (void)nbytes;
}

static void *shm_at(struct coll_team *t, int rank, size_t off, size_t nbytes)
{
    (void)t, (void)rank, (void)nbytes;
    return world.memory + off;
}

static void shm_wake(struct coll_team *t, int rank) { (void)t, (void)rank; }

static bool gone(struct coll_team *t, int rank)
{
    (void)t;
    return rank == world.gone;
}

static const struct coll_team_ops ops = { .shm_alloc = shm_alloc,
                                          .shm_free = shm_free,
                                          .shm_at = shm_at,
                                          .shm_wake = shm_wake,
                                          .gone = gone };

static void reset(int size)
{
    memset(&world, 0, sizeof world);
    world.size = size;
    world.gone = -1;
}

static void open_rank(struct coll_board *b, struct coll_team *t, int rank)
{
    *b = (struct coll_board){ 0 };
    *t = (struct coll_team){ .ops = &ops, .rank = rank, .size = world.size };
    CHECK_EQ(coll_board_init(b, t, 2 * sizeof(uint64_t)), 0);
    coll_board_attach(b, world.lines);
}

/* ---- what each rank does ---- */

static unsigned hash(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t h = (a * 1000003 + b) * 1000003 + c + 12345;
    h = (h ^ h >> 31) * 0x9e3779b97f4a7c15u;
    return (unsigned)(h >> 33);
}

static bool votes_yes(uint64_t number, int rank) { return hash(number, (uint64_t)rank, 1) % 8; }

static bool all_vote_yes(uint64_t number)
{
    bool all = true;
    for (int r = 0; r < world.size; r++)
        all = all && votes_yes(number, r);
    return all;
}

static uint32_t flags_of(uint64_t number, int round, int rank)
{
    return hash(number, (uint64_t)rank, 2 + (uint64_t)round) % 24 ? 0 : COLL_BOARD_DECLINED;
}

static uint32_t all_flags(uint64_t number, int round)
{
    uint32_t all = 0;
    for (int r = 0; r < world.size; r++)
        all |= flags_of(number, round, r);
    return all;
}

static void expect(bool right)
{
    if (!right)
        rt_fetch_add(&world.wrong, 1);
}

static uint64_t *data_of(const struct coll_board_call *c, int rank)
{
    return (uint64_t *)(coll_board_entry(c, rank) + 1);
}

static void write_data(const struct coll_board_call *c, int rank)
{
    data_of(c, rank)[0] = c->number;
    data_of(c, rank)[1] = c->number * 7 + (uint64_t)rank;
}

static void read_data(const struct coll_board_call *c)
{
    for (int r = 0; r < world.size; r++)
        expect(data_of(c, r)[0] == c->number && data_of(c, r)[1] == c->number * 7 + (uint64_t)r);
}

struct act {
    struct coll_board_call on;
    enum { FREE, WAITS, VOTED, AGREED, LAST } state;
};

/* Votes when the call's turn has come and its entry is free. */
static bool try_vote(struct act *a, struct coll_board *b)
{
    int rank = b->team->rank;
    if (b->own->voted[COLL_BOARD_CALLS] + 1 != a->on.number)
        return false;
    if (!votes_yes(a->on.number, rank)) {
        coll_board_veto(b, COLL_BOARD_CALLS, a->on.number);
        return true;
    }
    int may = coll_board_enter(&a->on);
    if (may == 0)
        return false;
    expect(may == 1);
    write_data(&a->on, rank);
    coll_board_yes(&a->on);
    return true;
}

static void decide(struct act *a)
{
    int rc = a->on.yes ? coll_board_all_yes(&a->on) : -RT_ENOTSUP;
    if (rc == 0)
        return;
    expect(rc == (all_vote_yes(a->on.number) ? 1 : -RT_ENOTSUP));
    if (rc < 0) {
        coll_board_leave(&a->on);
        a->state = FREE;
        return;
    }
    read_data(&a->on);
    a->on.flags = world.ends ? flags_of(a->on.number, 0, a->on.board->team->rank) : 0;
    coll_board_publish(&a->on, COLL_BOARD_READY);
    a->state = AGREED;
}

static void go_on(struct act *a)
{
    if (a->state == AGREED && !world.ends) {
        coll_board_leave(&a->on);
        a->state = FREE;
    } else if (a->state == AGREED && coll_board_all_at(&a->on, COLL_BOARD_READY)) {
        coll_board_publish(&a->on, COLL_BOARD_END);
        a->state = LAST;
    } else if (a->state == LAST && coll_board_all_at(&a->on, COLL_BOARD_END)) {
        expect(a->on.seen == all_flags(a->on.number, 0));
        coll_board_leave(&a->on);
        a->state = FREE;
    }
}

static void advance(struct act *a, struct coll_board *b)
{
    if (a->state == WAITS && try_vote(a, b))
        a->state = VOTED;
    if (a->state == VOTED)
        decide(a);
    if (a->state >= AGREED)
        go_on(a);
}

static void *calls_of(void *rank_p)
{
    struct coll_board b;
    struct coll_team t;
    struct act act[WINDOW] = { 0 };
    int rank = (int)(intptr_t)rank_p;
    uint64_t made = 0, active = 1;
    open_rank(&b, &t, rank);
    for (unsigned turn = 0; made < CALLS || active; turn++) {
        active = 0;
        for (int i = 0; i < WINDOW; i++) {
            if (act[i].state == FREE && made < CALLS) {
                coll_board_begin(&act[i].on, &b, COLL_BOARD_CALLS, ++made);
                act[i].state = WAITS;
            }
            advance(&act[i], &b);
            active += act[i].state != FREE;
        }
        if (hash(turn, (uint64_t)rank, 99) % 4 == 0)
            sched_yield();
    }
    expect(b.own->open == 0);
    free(b.row[0].at);
    return NULL;
}

/* ---- calls that stay ---- */

static bool arrive(struct coll_board_call *c, int round, int rank)
{
    c->flags |= flags_of(c->number, round, rank);
    coll_board_publish(c, COLL_BOARD_READY);
    while (!coll_board_all_at(c, COLL_BOARD_READY))
        sched_yield();
    expect(c->seen == all_flags(c->number, round));
    if (c->seen)
        return false;
    coll_board_publish(c, COLL_BOARD_END);
    while (!coll_board_all_at(c, COLL_BOARD_END))
        sched_yield();
    expect(!c->seen);
    return true;
}

static void *staying_of(void *rank_p)
{
    struct coll_board b;
    struct coll_team t;
    int rank = (int)(intptr_t)rank_p;
    open_rank(&b, &t, rank);
    for (uint64_t n = 1; n <= STAY * 4; n++) {
        struct coll_board_call c;
        coll_board_begin(&c, &b, COLL_BOARD_STAYING, n);
        /* no rank uses an entry again before it has left it, so it is free at once */
        if (!votes_yes(n, rank) || coll_board_enter(&c) != 1) {
            expect(!votes_yes(n, rank));
            coll_board_veto(&b, COLL_BOARD_STAYING, n);
            continue;
        }
        write_data(&c, rank);
        coll_board_yes(&c);
        int rc;
        while (!(rc = coll_board_all_yes(&c)))
            sched_yield();
        expect((rc > 0) == all_vote_yes(n));
        if (rc > 0)
            read_data(&c);
        for (int round = 0; rc > 0 && round < ROUNDS && arrive(&c, round, rank); round++)
            coll_board_again(&c);
        coll_board_leave(&c);
    }
    expect(b.own->open == 0);
    free(b.row[0].at);
    return NULL;
}

static void run_threads(void *(*body)(void *))
{
    pthread_t thread[MOST];
    for (int r = 0; r < world.size; r++)
        CHECK_EQ(pthread_create(&thread[r], NULL, body, (void *)(intptr_t)r), 0);
    for (int r = 0; r < world.size; r++)
        pthread_join(thread[r], NULL);
    CHECK_EQ(world.wrong, 0);
}

/* ---- cases ---- */

static void calls_with_an_end(void)
{
    for (int size = 1; size <= MOST; size += 2) {
        reset(size);
        world.ends = true;
        run_threads(calls_of);
    }
}

static void calls_without_an_end(void)
{
    for (int size = 2; size <= MOST; size++) {
        reset(size);
        run_threads(calls_of);
    }
}

static void calls_that_stay(void)
{
    for (int size = 1; size <= MOST; size += 2) {
        reset(size);
        run_threads(staying_of);
    }
}

/* Two ranks enter call 1 and vote for it; rank 0 has seen both votes. */
static void two_vote_yes(struct coll_board *b, struct coll_team *t, struct coll_board_call *c)
{
    reset(2);
    for (int r = 0; r < 2; r++) {
        open_rank(&b[r], &t[r], r);
        coll_board_begin(&c[r], &b[r], COLL_BOARD_CALLS, 1);
        CHECK_EQ(coll_board_enter(&c[r]), 1);
        coll_board_yes(&c[r]);
    }
    CHECK_EQ(coll_board_all_yes(&c[0]), 1);
}

/* An entry that a rank has left early is used again only when all ranks have read it. */
static void an_entry_left_early(void)
{
    struct coll_board b[2];
    struct coll_team t[2];
    struct coll_board_call c[2], next;
    two_vote_yes(b, t, c);
    coll_board_publish(&c[0], COLL_BOARD_READY);
    coll_board_leave(&c[0]);
    coll_board_begin(&next, &b[0], COLL_BOARD_CALLS, 1 + COLL_BOARD_NCALLS);
    CHECK_EQ(coll_board_enter(&next), 0);
    CHECK_EQ(coll_board_all_yes(&c[1]), 1);
    coll_board_publish(&c[1], COLL_BOARD_READY);
    CHECK_EQ(coll_board_enter(&next), 1);
    coll_board_leave(&c[1]);
    for (int r = 1; r >= 0; r--)
        coll_board_fini(&b[r]);
}

/* A rank that exits ends the others' waits: for its vote, for its phase, and for its entry. */
static void a_rank_that_has_gone(void)
{
    struct coll_board b[2];
    struct coll_team t[2];
    struct coll_board_call c[2], next;
    int rc;
    two_vote_yes(b, t, c);
    world.gone = 1;
    rt_interrupt();
    coll_board_publish(&c[0], COLL_BOARD_READY);
    coll_board_leave(&c[0]);
    coll_board_begin(&next, &b[0], COLL_BOARD_CALLS, 1 + COLL_BOARD_NCALLS);
    while (!(rc = coll_board_enter(&next)))
        sched_yield();
    CHECK_EQ(rc, 1);
    coll_board_yes(&next);
    while (!(rc = coll_board_all_yes(&next)))
        sched_yield();
    CHECK_EQ(rc, -RT_EPEER);
    CHECK_EQ(next.counted, 1);
    c[0].yes = true; /* as if it had not left */
    while (!coll_board_all_at(&c[0], COLL_BOARD_END))
        if (c[0].phase == COLL_BOARD_READY)
            coll_board_publish(&c[0], COLL_BOARD_END);
    CHECK_EQ(c[0].seen, COLL_BOARD_FAILED);
    CHECK_EQ(c[0].err, -RT_EPEER);
    for (int r = 1; r >= 0; r--)
        coll_board_fini(&b[r]);
}

/* Without memory for entries, and without devices, a rank vetoes; the others need no entry of it.
 */
static void ranks_without_entries(void)
{
    struct coll_board b[2];
    struct coll_team t[2];
    struct coll_board_call c[2];
    reset(2);
    for (int r = 0; r < 2; r++) {
        open_rank(&b[r], &t[r], r);
        coll_board_begin(&c[r], &b[r], COLL_BOARD_CALLS, 1);
        world.full = r == 1;
        CHECK_EQ(coll_board_enter(&c[r]), r ? -RT_ENOMEM : 1);
    }
    coll_board_yes(&c[0]);
    CHECK_EQ(coll_board_all_yes(&c[0]), 0);
    coll_board_absent(world.lines, 1);
    CHECK_EQ(coll_board_all_yes(&c[0]), -RT_ENOTSUP);
    coll_board_leave(&c[0]);
    for (int r = 1; r >= 0; r--)
        coll_board_fini(&b[r]);
}

int main(void)
{
    RUN(calls_with_an_end);
    RUN(calls_without_an_end);
    RUN(calls_that_stay);
    RUN(an_entry_left_early);
    RUN(a_rank_that_has_gone);
    RUN(ranks_without_entries);
    return check_end();
}
