/* SPDX-License-Identifier: BSD-3-Clause */
/* The node segment: several processes attach one file, see each other's bytes, wake each other, and
 * leave no file name behind; a full, missing or foreign directory is an error, not a signal. */
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/boot/boot.h"
#include "runtime/mem/deaths.h"
#include "runtime/mem/segment_int.h"
#include "test/check.h"
#include "test/unit/capture.h"

#include <dirent.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAIR_NBYTES 5000 /* deliberately not a multiple of a page */
#define LIMIT_S 100      /* of a rank; protects against hanging */
#define LONG_US (2 * LIMIT_S * 1000000)

static char dir[] = "/dev/shm/weft-node-test-XXXXXX";

static void boot_as(const char *nspace, int rank, int size)
{
    snprintf(rt_boot.nspace, sizeof rt_boot.nspace, "%s", nspace);
    rt_boot.local_rank = rt_boot.rank = rank;
    rt_boot.local_size = rt_boot.size = size;
}

/* Runs fn(rank) in n processes; true if all return 0. */
static bool run_ranks(const char *nspace, int n, int (*fn)(int rank))
{
    bool ok = true;
    int st;

    fflush(stdout);
    for (int r = 0; r < n; r++)
        if (fork() == 0) {
            boot_as(nspace, r, n);
            alarm(LIMIT_S);
            _exit(fn(r));
        }
    while (wait(&st) > 0)
        ok = ok && WIFEXITED(st) && WEXITSTATUS(st) == 0;
    return ok;
}

static bool name_exists(const char *nspace)
{
    char path[512];
    rt_node_name(nspace, 0, path, sizeof path);
    return access(path, F_OK) == 0;
}

static void wait_for(uint32_t *word, uint32_t value)
{
    while (rt_load_acquire(word) != value)
        usleep(100);
}

static int exchange(int rank)
{
    if (rt_node_open(PAIR_NBYTES) < 0)
        return 1;
    for (int to = 0; to < rt_node.size; to++) {
        char *p = rt_node_pair(rank, to);
        if (rt_node_reserve(p, PAIR_NBYTES) < 0)
            return 2;
        p[PAIR_NBYTES - 1] = (char)(10 * rank + to);
        rt_store_release((uint32_t *)(void *)p, 1u);
    }
    for (int from = 0; from < rt_node.size; from++) {
        char *p = rt_node_pair(from, rank);
        rt_node_reserve(p, PAIR_NBYTES);
        wait_for((uint32_t *)(void *)p, 1u);
        if (p[PAIR_NBYTES - 1] != 10 * from + rank)
            return 3;
    }
    rt_node_close();
    return 0;
}

static void attach_and_exchange(void)
{
    for (int i = 0; i < 10; i++) /* repeated, because the creation race has many outcomes */
        CHECK(run_ranks("exchange", 6, exchange));
    CHECK(!name_exists("exchange"));
}

static int open_only(int rank)
{
    (void)rank;
    if (rt_node_open(PAIR_NBYTES) < 0)
        return 1;
    rt_node_close();
    return 0;
}

/* Rank 0 of 2 attaches and dies; both ranks of the next job with that name must get a new file. */
static void stale_file_is_replaced(void)
{
    int st;

    if (fork() == 0) {
        boot_as("stale", 0, 2);
        if (rt_node_open(PAIR_NBYTES) < 0)
            _exit(1);
        *(char *)rt_node_pair(0, 0) = 1;
        kill(getpid(), SIGKILL);
    }
    wait(&st);
    CHECK(WIFSIGNALED(st));
    CHECK(name_exists("stale"));
    CHECK(run_ranks("stale", 2, open_only));
    CHECK(!name_exists("stale"));
}

static int left[2]; /* pipe: rank 0 has left */

/* A rank that leaves before the others attach leaves its bytes for them. */
static int late(int rank)
{
    char byte = 0;
    if (rank && read(left[0], &byte, 1) != 1)
        return 1;
    if (rt_node_open(PAIR_NBYTES) < 0)
        return 1;
    char *p = rt_node_pair(0, 1);
    if (rank == 0) {
        rt_node_reserve(p, 1);
        *p = 77;
        rt_node_close();
        return write(left[1], &byte, 1) == 1 ? 0 : 3;
    }
    return *p == 77 && rt_node_gone(0) && !rt_node_gone(1) ? 0 : 2;
}

static void early_leaver_keeps_the_file(void)
{
    CHECK_EQ(pipe(left), 0);
    CHECK(run_ranks("late", 2, late));
    CHECK(!name_exists("late"));
    close(left[0]);
    close(left[1]);
}

static int twice(int rank)
{
    if (rank)
        return 0;
    if (rt_node_open(PAIR_NBYTES) < 0)
        return 1;
    capture_begin();
    int err = rt_node_open(PAIR_NBYTES);
    const char *text = capture_end();
    return err == -RT_EEXIST && strstr(text, "started twice") ? 0 : 2;
}

static void same_rank_twice_is_refused(void)
{
    char path[512];

    CHECK(run_ranks("twice", 2, twice));
    rt_node_name("twice", 0, path, sizeof path);
    CHECK_EQ(unlink(path), 0);
}

static int blocks(int rank)
{
    (void)rank;
    if (rt_node_open(PAIR_NBYTES) < 0)
        return 1;
    for (int i = 0; i < 200; i++) {
        size_t nbytes = 1 + (size_t)(i * 7919 % 300000);
        size_t off = rt_node_alloc(nbytes);
        if (off == SIZE_MAX || off % 4096)
            return 2;
        char *p = rt_node_at(off);
        for (size_t k = 0; k < nbytes; k += 4096)
            if (p[k])
                return 3; /* not zero, or another process has it too */
        memset(p, rank + 1, nbytes);
        if (i % 16 == 0)
            usleep(100);
        if (p[nbytes - 1] != rank + 1 || p[0] != rank + 1)
            return 4;
        rt_node_free(off, nbytes);
    }
    rt_node_close(); /* if all others had died, a rank that comes late would begin anew */
    return 0;
}

static void blocks_are_zero_and_exclusive(void) { CHECK(run_ranks("blocks", 4, blocks)); }

static void blocks_run_out_and_come_back(void)
{
    boot_as("alone", 0, 1);
    CHECK_EQ(rt_node_open(PAIR_NBYTES), 0);
    size_t a = rt_node_alloc(40u << 20), b = rt_node_alloc(24u << 20);
    CHECK(a != SIZE_MAX && b != SIZE_MAX && a != b);
    capture_begin();
    CHECK(rt_node_alloc(1) == SIZE_MAX);
    const char *said = capture_end();
    CHECK(strstr(said, "no room for a block of 1 bytes") && strstr(said, "are slower: free "));
    capture_begin(); /* checking once is enough */
    CHECK_EQ(rt_node_alloc(SIZE_MAX / 4), SIZE_MAX);
    CHECK(strstr(capture_end(), "no room") == NULL);
    rt_node_free(b, 24u << 20);
    CHECK(rt_node_alloc(24u << 20) == b);
    capture_begin();
    CHECK(rt_node_alloc((size_t)1 << 60) == SIZE_MAX);
    capture_end();
    rt_node_close();
}

static size_t memory_of_segment(void)
{
    struct stat st;
    return fstat(rt_node_private.fd, &st) == 0 ? (size_t)st.st_blocks * 512 : SIZE_MAX;
}

/* A freed block keeps its memory, which its next owner gets clean if it wants. */
static void freed_blocks_keep_memory(void)
{
    const size_t nbytes = 3 * NODE_GRANULE + 5;
    boot_as("alone", 0, 1);
    CHECK_EQ(rt_node_open(PAIR_NBYTES), 0);
    size_t off = rt_node_alloc(nbytes);
    memset(rt_node_at(off), 7, nbytes);
    size_t before = memory_of_segment();
    rt_node_free(off, nbytes);
    CHECK_EQ(memory_of_segment(), before);
    CHECK_EQ(node_head()->kept, 4);
    CHECK_EQ(rt_node_used(), 0);
    CHECK_EQ(rt_node_try_alloc(nbytes, false), off);
    CHECK_EQ(*(char *)rt_node_at(off), 7);
    rt_node_free(off, nbytes);
    /* longer than what is kept: clean, with new memory behind the old */
    CHECK_EQ(rt_node_alloc(5 * NODE_GRANULE), off);
    for (size_t i = 0; i < 5 * NODE_GRANULE; i++)
        if (((char *)rt_node_at(off))[i])
            CHECK_EQ(i, SIZE_MAX);
    CHECK_EQ(node_head()->kept, 0);
    CHECK_EQ(memory_of_segment(), before + 2 * NODE_GRANULE - 4096);
    CHECK_EQ(node_head()->emptied, 0); /* no registration of this memory has become invalid */
    rt_node_free(off, 5 * NODE_GRANULE);
    rt_node_trim();
    CHECK_EQ(node_head()->kept, 0);
    CHECK(memory_of_segment() < before);
    CHECK_EQ(node_head()->emptied, 1);
    rt_node_close();
}

static void kept_memory_is_bounded(void)
{
    const size_t a_nbytes = 40u << 20, b_nbytes = 24u << 20;
    boot_as("alone", 0, 1);
    CHECK_EQ(rt_node_open(PAIR_NBYTES), 0);
    size_t a = rt_node_alloc(a_nbytes), b = rt_node_alloc(b_nbytes);
    CHECK(memory_of_segment() >= a_nbytes + b_nbytes);
    rt_node_free(a, a_nbytes);
    CHECK(memory_of_segment() >= a_nbytes + b_nbytes);
    rt_node_free(b, b_nbytes); /* with it more than 48 MiB */
    CHECK(memory_of_segment() < b_nbytes + (1u << 20));
    CHECK_EQ(node_head()->kept, b_nbytes / NODE_GRANULE); /* what was freed last */
    a = rt_node_alloc(60u << 20);                         /* more than can be kept */
    rt_node_free(a, 60u << 20);
    CHECK(memory_of_segment() < (1u << 20));
    rt_node_close();
}

/* Ping-pong in which both sides always sleep: a lost wake-up shows as a timeout of a rank. polls:
 * asleep in poll(2) on a descriptor that stays silent.  fences: as without membarrier(2). */
static int sleep_in_turn(int rank, bool polls, bool fences)
{
    int quiet[2];
    struct pollfd p[2];
    if (pipe(quiet) < 0)
        return 3;
    p[1] = (struct pollfd){ .fd = quiet[0], .events = POLLIN };
    if (rt_node_open(PAIR_NBYTES) < 0)
        return 1;
    if (fences) {
        rt_node.fence_needed = true;
        rt_node_private.membarrier = false;
        rt_bell_disarm(false);
    }
    uint32_t *out = rt_node_pair(rank, 1 - rank), *in = rt_node_pair(1 - rank, rank);
    rt_node_reserve(out, 4);
    rt_node_reserve(in, 4);
    for (uint32_t i = 1; i <= 500; i++) {
        if (rank == 0) {
            rt_store_release(out, i);
            rt_bell_ring(1);
        }
        while (rt_load_acquire(in) != i) {
            uint32_t w = rt_bell_arm(polls);
            if (rt_load_acquire(in) != i &&
                !(polls ? rt_bell_poll(w, p, 1, LONG_US) : rt_bell_sleep(w, LONG_US)))
                return 4;
            rt_bell_disarm(polls);
        }
        if (rank == 1) {
            rt_store_release(out, i);
            rt_bell_ring(0);
        }
    }
    return 0;
}

static int sleepers(int rank) { return sleep_in_turn(rank, false, false); }
static int pollers(int rank) { return sleep_in_turn(rank, true, false); }
static int both_kinds(int rank) { return sleep_in_turn(rank, rank == 0, false); }
static int fencers(int rank) { return sleep_in_turn(rank, rank == 0, true); }
static int fencer(int rank) { return sleep_in_turn(rank, rank == 0, rank == 0); }

static void no_wakeup_is_lost(void)
{
    CHECK(run_ranks("sleepers", 2, sleepers));
    CHECK(run_ranks("pollers", 2, pollers));
    CHECK(run_ranks("both_kinds", 2, both_kinds));
    CHECK(run_ranks("fencers", 2, fencers));
    CHECK(run_ranks("fencer", 2, fencer));
}

/* Rank 1 makes the call that ends a sleep without a ring, as a process does that was preempted
 * between the two halves of an earlier ring. */
static int late_wake(int rank)
{
    if (rt_node_open(PAIR_NBYTES) < 0)
        return 1;
    struct rt_bell *bell = &rt_node.bells[0];
    if (rank == 0)
        return rt_bell_sleep(rt_bell_arm(false), LONG_US) ? 0 : 2;
    for (int i = 0; i < 2; i++) /* the second call finds that rank 0 sleeps again */
        while (syscall(SYS_futex, &bell->word, FUTEX_WAKE, 1, NULL, NULL, 0) != 1 &&
               !rt_node_gone_now(0))
            usleep(100);
    rt_bell_ring(0);
    return 0;
}

static void only_a_ring_ends_a_sleep(void) { CHECK(run_ranks("late_wake", 2, late_wake)); }

/* A descriptor that becomes readable ends the sleep; so does a descriptor that is readable
 * already. */
static void descriptors_wake(void)
{
    int fds[2];
    char c;
    struct pollfd p[2];
    boot_as("alone", 0, 1);
    CHECK_EQ(rt_node_open(PAIR_NBYTES), 0);
    CHECK_EQ(pipe(fds), 0);
    p[1] = (struct pollfd){ .fd = fds[0], .events = POLLIN };
    uint64_t t = rt_now_ns();
    CHECK(!rt_bell_poll(rt_bell_arm(true), p, 1, 2000));
    rt_bell_disarm(true);
    CHECK(rt_now_ns() - t >= 2000000);
    CHECK_EQ(write(fds[1], "", 1), 1);
    t = rt_now_ns();
    CHECK(rt_bell_poll(rt_bell_arm(true), p, 1, LONG_US));
    rt_bell_disarm(true);
    CHECK(rt_now_ns() - t < LONG_US * UINT64_C(1000));
    CHECK_EQ(read(fds[0], &c, 1), 1);
    CHECK(!(rt_node.bells[0].asleep & RT_BELL_ASLEEP));
    close(fds[0]), close(fds[1]);
    rt_node_close();
}

/* Two hosts of a job that share a file system have separate segments. */
static void hosts_do_not_meet(void)
{
    char a[512], b[512];
    rt_node_name("job", 0, a, sizeof a);
    rt_node_name("job", 1, b, sizeof b);
    CHECK(strcmp(a, b) != 0);
}

static void sleep_times_out(void)
{
    boot_as("alone", 0, 1);
    CHECK_EQ(rt_node_open(PAIR_NBYTES), 0);
    uint64_t t = rt_now_ns();
    uint32_t armed = rt_bell_arm(false);
    CHECK(!rt_bell_sleep(armed, 2000));
    CHECK(rt_now_ns() - t >= 2000000);
    rt_bell_ring_self();
    CHECK(rt_bell_rung(armed));
    rt_bell_disarm(false);
    CHECK(!(rt_node.bells[0].asleep & RT_BELL_ASLEEP));
    rt_node_close();
}

static void bad_directories(void)
{
    cfg.shm_dir = "/nonexistent/shm";
    boot_as("bad", 0, 2);
    capture_begin();
    CHECK_EQ(rt_node_open(PAIR_NBYTES), -RT_ESYS);
    CHECK(strstr(capture_end(), "WEFT_SHM_DIR") != NULL);
    cfg.shm_dir = dir;
    CHECK(rt_node.base == NULL);

    char path[512];
    rt_node_name("bad", 0, path, sizeof path);
    FILE *f = fopen(path, "w");
    fclose(f);
    chmod(path, 0644);
    capture_begin();
    CHECK_EQ(rt_node_open(PAIR_NBYTES), -RT_EPERM);
    CHECK(strstr(capture_end(), "not a private file") != NULL);
    unlink(path);
}

/* In its own mount namespace, so that a crash leaves no mount behind. */
static int full(int rank)
{
    (void)rank;
    cfg.shm_dir = dir;
    capture_begin();
    int err = rt_node_open(1u << 20);
    if (err == 0)
        err = rt_node_reserve(rt_node_pair(0, 1), 1u << 20);
    const char *text = capture_end();
    if (err != -RT_ENOSPC || !strstr(text, "--shm-size"))
        return 1;
    /* Reserved memory stays usable, a small piece still fits, and allocating a block returns an
     * error. */
    if (rt_node_reserve(rt_node_pair(0, 1), 4096) < 0)
        return 2;
    *(char *)rt_node_pair(0, 1) = 1;
    capture_begin();
    size_t off = rt_node_alloc(1u << 20);
    capture_end();
    if (off != SIZE_MAX)
        return 3;
    /* The memory of freed blocks serves what needs it. */
    off = rt_node_alloc(NODE_GRANULE);
    if (off == SIZE_MAX)
        return 4;
    rt_node_free(off, NODE_GRANULE);
    return node_head()->kept != 1 || rt_node_reserve(rt_node_pair(1, 0), NODE_GRANULE) < 0 ? 5 : 0;
}

static void full_file_system(void)
{
    int st;

    fflush(stdout);
    if (fork() == 0) {
        if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("weft-test", dir, "tmpfs", 0, "size=128k") < 0)
            _exit(77);
        boot_as("full", 0, 2);
        _exit(full(0));
    }
    wait(&st);
    CHECK(WIFEXITED(st));
    if (WEXITSTATUS(st) == 77)
        printf("# full_file_system: skipped, no permission to mount\n");
    else
        CHECK_EQ(WEXITSTATUS(st), 0);
}

/* The segment does not need /proc. */
static void without_proc(void)
{
    int st;

    fflush(stdout);
    if (fork() == 0) {
        if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("weft-test", "/proc", "tmpfs", 0, "size=4k") < 0)
            _exit(77);
        _exit(run_ranks("no_proc", 2, exchange) && !name_exists("no_proc") ? 0 : 1);
    }
    wait(&st);
    CHECK(WIFEXITED(st));
    if (WEXITSTATUS(st) == 77)
        printf("# without_proc: skipped, no permission to mount\n");
    else
        CHECK_EQ(WEXITSTATUS(st), 0);
}

/* One process wakes many that have not read earlier wake-ups; each is woken. */
static void many_are_woken(void)
{
    enum { MANY = 800 };
    static struct rt_bell bells[MANY];
    struct pollfd fds[MANY];
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    int woken = 0;

    for (int i = 0; i < MANY; i++) {
        socklen_t len = sizeof name;
        fds[i] = (struct pollfd){ .fd = socket(AF_UNIX, SOCK_DGRAM, 0), .events = POLLIN };
        name.sun_family = AF_UNIX;
        CHECK_EQ(bind(fds[i].fd, (struct sockaddr *)&name, sizeof name.sun_family), 0);
        CHECK_EQ(getsockname(fds[i].fd, (struct sockaddr *)&name, &len), 0);
        memcpy(bells[i].socket, name.sun_path + 1, sizeof bells[i].socket - 1);
        bells[i].asleep = RT_BELL_ASLEEP | RT_BELL_POLLS;
    }
    for (int i = 0; i < MANY; i++)
        rt_bell_wake(&bells[i]);
    CHECK(poll(fds, MANY, 0) >= 0);
    for (int i = 0; i < MANY; i++) {
        woken += fds[i].revents == POLLIN;
        close(fds[i].fd);
    }
    CHECK_EQ(woken, MANY);
    rt_bell_fini();
}

static void nothing_left_behind(void)
{
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && (e = readdir(d));)
        CHECK_MSG(e->d_name[0] == '.', "%s was left behind", e->d_name);
    closedir(d);
    CHECK_EQ(rmdir(dir), 0);
}

int main(void)
{
    if (!mkdtemp(dir))
        check_skip("no writable /dev/shm");
    rt_cfg_load();
    cfg.shm_dir = dir;
    RUN(attach_and_exchange);
    RUN(stale_file_is_replaced);
    RUN(early_leaver_keeps_the_file);
    RUN(same_rank_twice_is_refused);
    RUN(blocks_are_zero_and_exclusive);
    RUN(blocks_run_out_and_come_back);
    RUN(freed_blocks_keep_memory);
    RUN(kept_memory_is_bounded);
    RUN(no_wakeup_is_lost);
    RUN(only_a_ring_ends_a_sleep);
    RUN(sleep_times_out);
    RUN(descriptors_wake);
    RUN(many_are_woken);
    RUN(hosts_do_not_meet);
    RUN(bad_directories);
    RUN(full_file_system);
    RUN(without_proc);
    RUN(nothing_left_behind);
    return check_end();
}
