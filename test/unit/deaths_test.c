/* SPDX-License-Identifier: BSD-3-Clause */
/* Deaths and departures: each process of a host learns of each death, one process looks for all,
 * and a rank that has left in good order has not died. */
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/boot/dead.h"
#include "runtime/mem/deaths.h"
#include "runtime/mem/segment_int.h"
#include "test/check.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAIR_NBYTES 4096
#define LIMIT_S 100
#define LONG_US (2 * LIMIT_S * 1000000)
enum { MOST = 4, VICTIM = MOST - 1 };

static char dir[] = "/dev/shm/weft-deaths-test-XXXXXX";

static struct shared {
    uint32_t at[MOST]; /* the step that a rank has reached */
    uint32_t nkills;   /* questions to the kernel */
    uint32_t in_look;  /* 1 + the rank that dies in its look; 0: none */
} * shared;

/* In place of the C library's: counts the questions, and a process may die while it asks. */
__attribute__((visibility("default"))) int kill(pid_t pid, int sig)
{
    if (sig == 0)
        rt_fetch_add(&shared->nkills, 1u);
    if (sig == 0 && rt_node.base && shared->in_look == (uint32_t)rt_node.rank + 1)
        _exit(0);
    return (int)syscall(SYS_kill, pid, sig);
}

static void reach(uint32_t step) { rt_store_release(&shared->at[rt_node.rank], step); }

static void await(int rank, uint32_t step)
{
    while (rt_load_acquire(&shared->at[rank]) < step)
        usleep(100);
}

/* Runs fn() in MOST attached processes, and reaps each at once, as a launcher does.  True if all
 * have returned 0; a rank that dies by SIGKILL or in its look counts as well. */
static bool run_ranks(int (*fn)(void))
{
    bool ok = true;
    int st;

    memset(shared, 0, sizeof *shared);
    fflush(stdout);
    for (int r = 0; r < MOST; r++)
        if (fork() == 0) {
            snprintf(rt_boot.nspace, sizeof rt_boot.nspace, "deaths");
            rt_boot.local_rank = rt_boot.rank = r;
            rt_boot.local_size = rt_boot.size = MOST;
            alarm(LIMIT_S);
            if (rt_node_open(PAIR_NBYTES) < 0)
                _exit(1);
            reach(1);
            for (int i = 0; i < MOST; i++)
                await(i, 1);
            _exit(fn());
        }
    while (wait(&st) > 0)
        ok = ok && ((WIFEXITED(st) && WEXITSTATUS(st) == 0) ||
                    (WIFSIGNALED(st) && WTERMSIG(st) == SIGKILL));
    return ok;
}

/* What a wait does: compares, and lets the time pass in between. */
static void until_interrupted(uint32_t seen)
{
    while (rt_interrupts() == seen) {
        rt_deaths_look();
        usleep(1000);
    }
}

static int all_learn(void)
{
    if (rt_node.rank == VICTIM)
        raise(SIGKILL);
    while (!rt_node_has_died(VICTIM))
        until_interrupted(rt_interrupts());
    if (!rt_node_gone(VICTIM) || !rt_node_has_ended(VICTIM) || rt_node_is_leaving(VICTIM) ||
        rt_node.nended != 1)
        return 2;
    reach(2); /* the others end after all have learnt of one death */
    for (int r = 0; r < VICTIM; r++)
        if (await(r, 2), r != rt_node.rank && rt_node_gone(r))
            return 3;
    reach(3);
    for (int r = 0; r < VICTIM; r++)
        await(r, 3);
    return 0;
}

static void a_death_is_seen_by_all(void) { CHECK(run_ranks(all_learn)); }

static int leaves(void)
{
    uint32_t seen = rt_interrupts();
    if (rt_node.rank == VICTIM) {
        rt_node_publish_leaving();
        rt_node_leave();
        for (int r = 0; r < VICTIM; r++)
            await(r, 2);
        return 0;
    }
    until_interrupted(seen);
    if (!rt_node_gone(VICTIM) || !rt_node_is_leaving(VICTIM) || rt_node_has_ended(VICTIM))
        return 2;
    reach(2);
    while (!rt_node_has_ended(VICTIM))
        until_interrupted(rt_interrupts());
    int rc = rt_node_has_died(VICTIM) ? 3 : 0;
    reach(3);
    for (int r = 0; r < VICTIM; r++)
        await(r, 3);
    return rc;
}

static void one_that_leaves_has_not_died(void) { CHECK(run_ranks(leaves)); }

/* The looks of all processes, as many as they like, ask the kernel about each rank once in an
 * interval.  Time in which a process does not run only makes the looks fewer. */
#define INTERVALS 6
#define INTERVAL_US 50000
static int looks_often(void)
{
    for (uint64_t us = 0; us < INTERVALS * INTERVAL_US; us += 500) {
        rt_deaths_look();
        usleep(500);
    }
    reach(2);
    for (int r = 0; r < MOST; r++)
        await(r, 2);
    return 0;
}

static void one_looks_for_all(void)
{
    uint64_t begin = rt_now_ns();
    CHECK(run_ranks(looks_often));
    long us = (long)((rt_now_ns() - begin) / 1000);
    long most = (us / INTERVAL_US + 2) * (MOST - 1);
    most += MOST * (MOST - 1) / 2; /* a process that attaches asks about those before it */
    CHECK_MSG(shared->nkills > 0 && shared->nkills <= most, "%u questions, at most %ld expected",
              shared->nkills, most);
}

/* Rank 0 takes the look and dies in it; the others find both. */
static int dies_looking(void)
{
    if (rt_node.rank == VICTIM)
        raise(SIGKILL);
    if (rt_node.rank == 0) {
        shared->in_look = 1;
        for (;;)
            rt_deaths_look();
    }
    while (!rt_node_has_died(0) || !rt_node_has_died(VICTIM))
        until_interrupted(rt_interrupts());
    reach(2);
    await(1, 2);
    await(2, 2);
    return 0;
}

static void a_look_is_taken_over(void) { CHECK(run_ranks(dies_looking)); }

/* A process has marked the death of another one and has died before the others could find that; or
 * the time of the next look is of a process with another clock. */
static int looks_left_undone(void)
{
    uint32_t seen = rt_interrupts();
    if (rt_node.rank == VICTIM)
        raise(SIGKILL);
    if (rt_node.rank == 0) {
        while (!rt_bell_ended(&rt_node.bells[VICTIM]))
            usleep(1000);
        rt_store_release(&rt_node.bells[VICTIM].ended, RT_BELL_ENDED);
        rt_store_relaxed(&node_head()->changes, 0u);
        rt_store_relaxed(&node_head()->look_ns, UINT64_MAX / 2);
        reach(2);
    }
    await(0, 2);
    until_interrupted(seen);
    if (!rt_node_has_died(VICTIM))
        return 2;
    reach(3);
    for (int r = 0; r < VICTIM; r++)
        await(r, 3);
    return 0;
}

static void an_unfinished_look_is_repeated(void) { CHECK(run_ranks(looks_left_undone)); }

/* Rank 0 sleeps without a limit; rank 1 looks. */
static int wakes(void)
{
    if (rt_node.rank == 0) {
        uint32_t armed = rt_bell_arm(false);
        reach(2);
        if (!rt_bell_sleep(armed, LONG_US))
            return 2;
        rt_bell_disarm(false);
        until_interrupted(0);
        reach(3);
        return rt_node_has_died(VICTIM) ? 0 : 3;
    }
    await(0, 2);
    if (rt_node.rank == VICTIM)
        raise(SIGKILL);
    while (rt_load_acquire(&shared->at[0]) < 3) {
        if (rt_node.rank == 1)
            rt_deaths_look();
        usleep(1000);
    }
    return 0;
}

static void a_death_ends_sleeps(void) { CHECK(run_ranks(wakes)); }

/* Events of other kinds, such as a lost connection, use the same number. */
static void others_may_interrupt(void)
{
    uint32_t seen = rt_interrupts();
    rt_interrupt();
    CHECK(rt_interrupts() != seen);
}

/* In a PID namespace that is not the segment's, a process looks itself. */
static int other_namespace(void)
{
    if (rt_node.rank == VICTIM)
        raise(SIGKILL);
    rt_store_relaxed(&node_head()->pidns, 1u);
    while (!rt_node_has_died(VICTIM))
        until_interrupted(rt_interrupts());
    reach(3);
    for (int r = 0; r < VICTIM; r++)
        await(r, 3);
    return rt_load_relaxed(&node_head()->look_ns) ? 2 : 0;
}

static void each_namespace_looks(void) { CHECK(run_ranks(other_namespace)); }

/* runtime/boot/dead.h: in order, each once, with more entries than the first blocks hold; empty
 * without the setting. */
static void the_list_keeps_its_order(void)
{
    enum { NDEAD = 1000 };
    rt_dead_add((struct rt_proc){ 0, 1 });
    CHECK_EQ(rt_dead(), 0);
    cfg.ft = true;
    for (uint32_t twice = 0; twice < 2; twice++)
        for (uint32_t i = 0; i < NDEAD; i++)
            rt_dead_add((struct rt_proc){ i % 3, i });
    cfg.ft = false;
    CHECK_EQ(rt_dead(), NDEAD);
    for (uint32_t i = 0; i < NDEAD && !check_failed_case; i++) {
        struct rt_proc p = rt_dead_at(i);
        CHECK(p.rank == i && p.ns == i % 3 && rt_dead_has(p));
    }
    CHECK(!rt_dead_has((struct rt_proc){ 0, 1 }) && !rt_dead_has((struct rt_proc){ 0, NDEAD }));
}

int main(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || !mkdtemp(dir))
        check_skip("no writable /dev/shm");
    rt_cfg_load();
    cfg.shm_dir = dir;
    RUN(a_death_is_seen_by_all);
    RUN(one_that_leaves_has_not_died);
    RUN(one_looks_for_all);
    RUN(a_look_is_taken_over);
    RUN(an_unfinished_look_is_repeated);
    RUN(a_death_ends_sleeps);
    RUN(others_may_interrupt);
    RUN(each_namespace_looks);
    RUN(the_list_keeps_its_order);
    rmdir(dir);
    return check_end();
}
