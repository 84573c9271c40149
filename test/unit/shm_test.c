/* SPDX-License-Identifier: BSD-3-Clause */
/* btl/shm when things go wrong: a peer that is killed during a send to it, a peer that has left,
 * data for memory that is no longer registered, a full ring, a full file system; and page faults.
 * test/fake/btl_test covers the normal case. */
#include "btl/all/all.h"
#include "btl/btl.h"
#include "btl/shm/shm.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/mem/deaths.h"
#include "runtime/base/idle.h"
#include "runtime/mem/segment.h"
#include "test/check.h"
#include "test/fake/btl_pair.h"
#include "test/patience.h"
#include "test/unit/capture.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIMEOUT_S 20
#define BIG (64u << 20)

static struct btl *b;
static struct btl_peer *peer;
static int received, downs, op_calls, op_err;
static char last[BTL_KEY_MAX];

static void on_recv(void *arg, struct btl_peer *from, const struct btl_hdr *h, const void *data,
                    size_t len)
{
    (void)arg;
    (void)h;
    CHECK(from == peer);
    memcpy(last, data, len < sizeof last ? len : sizeof last);
    received++;
}

static void on_down(void *arg, struct btl_peer *p, int err)
{
    (void)arg;
    CHECK(p == peer);
    CHECK_EQ(err, -RT_EPEER);
    downs++;
}

static void on_done(struct btl_op *op, int err)
{
    (void)op;
    op_calls++;
    op_err = err;
}

/* The other rank never comes; a transport would wait for it. */
static bool no_peer;

static int open_pair(int rank)
{
    static const struct btl_up up = { on_recv, on_down, NULL, 0 };
    struct rt_proc other = { 0, (uint32_t)!rank };

    if (rt_node_open(btl_node_pair_nbytes()) < 0)
        return -1;
    if (no_peer)
        rt_node.bells[!rank].alive = 1;
    if (btl_shm_ops.open(&up, &b, 1) != 1)
        return -1;
    return b->ops->add_peer(b, &other, NULL, 0, &peer);
}

static int send(const void *buf, size_t len)
{
    return b->ops->send(peer, &(struct btl_hdr){ 1, 2, 3 }, buf, len);
}

static void wait_received(int n)
{
    while (received < n)
        if (b->ops->progress(b) == 0)
            usleep(100);
}

/* Sends until the peer is found to be lost, with the engine's looks; returns the milliseconds that
 * took, or -1. */
static int send_until_lost(void)
{
    struct watch watch = watch_begin();
    int err;

    while ((err = send("x", 1)) == 0 || err == -RT_EAGAIN)
        if (rt_deaths_look(), watch_over(&watch, 5000000000u))
            return -1;
    int ms = (int)(watch_own(watch) / 1000000);
    b->ops->progress(b);
    b->ops->progress(b);
    return err == -RT_EPEER && downs == 1 && send("x", 1) == -RT_EPEER ? ms : -1;
}

/* No rank may end before: the other one would create its own segment, and not remove it. */
static void await_other(void)
{
    while (!rt_load_acquire(&rt_node.bells[!rt_node.rank].alive))
        usleep(100);
}

static void die(void)
{
    await_other();
    kill(getpid(), SIGKILL);
}

static int killed_receiver(int rank, void *arg)
{
    (void)arg;
    if (open_pair(rank) < 0)
        return 1;
    if (rank == 1) {
        send("hello", 5);
        die();
    }
    wait_received(1);
    int ms = send_until_lost();
    return ms >= 0 && ms < 1000 ? 0 : 2;
}

static void a_killed_receiver_is_noticed(void)
{
    CHECK_EQ(fake_run_ranks("killed", 2, killed_receiver, NULL, TIMEOUT_S), 128 + SIGKILL);
}

static int finished_receiver(int rank, void *arg)
{
    (void)arg;
    if (open_pair(rank) < 0)
        return 1;
    if (rank == 1) {
        send("hello", 5);
        b->ops->close(b);
        rt_node_close();
        sleep(1); /* the process stays alive */
        return 0;
    }
    wait_received(1); /* messages sent before it left arrive */
    return send_until_lost() >= 0 ? 0 : 2;
}

static void a_finished_receiver_is_noticed(void)
{
    CHECK_EQ(fake_run_ranks("finished", 2, finished_receiver, NULL, TIMEOUT_S), 0);
}

static int has_cma(int rank, void *arg)
{
    (void)arg;
    if (open_pair(rank) < 0)
        return 1;
    await_other();
    return !((const struct btl_shm *)b)->cma;
}

/* Sends the peer the key of `buf`, BIG bytes. */
static void offer(char *buf)
{
    struct btl_mem *m;
    char key[BTL_KEY_MAX];
    b->ops->mem_reg(b, buf, BIG, NULL, &m);
    b->ops->mem_key(m, key);
    send(key, sizeof key);
}

/* Rank 1 registers, sends the key, receives a part of the put and is killed. */
static int killed_in_put(int rank, void *large)
{
    struct btl_op op = { on_done };
    struct btl_rmem *r;
    char *buf = malloc(BIG);

    rt_cfg_set("shm_large", large, RT_CFG_CMD);
    if (!buf || open_pair(rank) < 0)
        return 1;
    if (rank == 1) {
        offer(buf);
        for (int i = 0; i < 3; i++)
            b->ops->progress(b);
        die();
    }
    wait_received(1);
    memset(buf, 1, BIG);
    CHECK_EQ(b->ops->attach(peer, last, NULL, &r), 0);
    usleep(100000); /* the parent has reaped it by now */
    int err = b->ops->put(r, 0, NULL, buf, BIG, &op);
    CHECK_EQ(err, 0);
    struct watch watch = watch_begin();
    while (!downs && !watch_over(&watch, 1000000000u)) {
        rt_deaths_look();
        b->ops->progress(b);
    }
    CHECK_EQ(downs, 1);
    CHECK_EQ(op_calls, 1);
    CHECK_EQ(op_err, -RT_EPEER);
    CHECK_EQ(b->ops->put(r, 0, NULL, buf, 8, &op), -RT_EPEER);
    b->ops->detach(r);
    b->ops->del_peer(peer);
    b->ops->close(b);
    return check_failed_case;
}

static void a_put_to_a_killed_process_fails(void)
{
    CHECK_EQ(fake_run_ranks("put-copy", 2, killed_in_put, "copy", TIMEOUT_S), 128 + SIGKILL);
    CHECK_EQ(fake_run_ranks("put-cma", 2, killed_in_put, "cma", TIMEOUT_S), 128 + SIGKILL);
}

/* Rank 1 does not call the transport while rank 0 puts, for which streaming would need a core. */
static int crowded_put(int rank, void *arg)
{
    struct btl_op op = { on_done };
    struct btl_rmem *r;
    char *buf = calloc(1, BIG);
    (void)arg;

    rt_idle_configure(2, 2);
    if (!buf || open_pair(rank) < 0)
        return 1;
    if (rank == 1) {
        offer(buf);
        while (!rt_load_acquire(&buf[BIG - 1]))
            usleep(1000);
        send("done", 4);
        return 0;
    }
    wait_received(1);
    memset(buf, 1, BIG);
    CHECK_EQ(b->ops->attach(peer, last, NULL, &r), 0);
    rt_idle_configure(4, 2); /* as after meeting another job */
    CHECK_EQ(b->ops->put(r, 0, NULL, buf, BIG, &op), 0);
    wait_received(2);
    while (!op_calls)
        b->ops->progress(b);
    CHECK_EQ(op_err, 0);
    return check_failed_case;
}

static void a_put_with_more_processes_than_cores(void)
{
    if (fake_run_ranks("crowded", 2, has_cma, NULL, TIMEOUT_S) == 0)
        CHECK_EQ(fake_run_ranks("crowded", 2, crowded_put, NULL, TIMEOUT_S), 0);
}

/* Rank 1 deregisters and registers other memory before the data arrive: nothing may be written. */
static int late_chunks(int rank, void *arg)
{
    static char buf[100000];
    struct btl_op op = { on_done };
    struct btl_mem *m;
    struct btl_rmem *r;
    char key[BTL_KEY_MAX];
    (void)arg;

    if (open_pair(rank) < 0)
        return 1;
    if (rank == 1) {
        b->ops->mem_reg(b, buf, sizeof buf, NULL, &m);
        b->ops->mem_key(m, key);
        b->ops->mem_dereg(m);
        b->ops->mem_reg(b, buf, sizeof buf, NULL, &m); /* the same slot of the table */
        send(key, sizeof key);
        wait_received(1);
        for (size_t i = 0; i < sizeof buf; i++)
            if (buf[i])
                return 2;
        return 0;
    }
    wait_received(1);
    memset(buf, 1, sizeof buf);
    b->ops->attach(peer, last, NULL, &r);
    if (b->ops->put(r, 0, NULL, buf, sizeof buf, &op) < 0)
        return 3;
    while (!op_calls)
        b->ops->progress(b);
    while (send("end", 3) == -RT_EAGAIN)
        b->ops->progress(b);
    return op_err ? 4 : 0;
}

static void chunks_for_other_memory_are_dropped(void)
{
    CHECK_EQ(fake_run_ranks("late", 2, late_chunks, NULL, TIMEOUT_S), 0);
}

/* A ring that does not fit on the file system: an error with advice; small messages still work. */
static int full(int rank, void *arg)
{
    static char dir[] = "/dev/shm/weft-shm-test", page[4096];
    (void)arg;

    mkdir(dir, 0700);
    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("weft-test", dir, "tmpfs", 0, "size=100k") < 0)
        return 77;
    cfg.shm_dir = dir;
    no_peer = true;
    if (open_pair(rank) < 0)
        return 1;
    for (int i = 0; i < 100; i++)
        if (send(page, 48) < 0)
            return 2;
    capture_begin();
    int err = send(page, sizeof page);
    const char *text = capture_end();
    if (err != -RT_ENOSPC || !strstr(text, "is full") || !strstr(text, "WEFT_SHM_DIR"))
        return 3;
    return send(page, 48) < 0 ? 4 : 0;
}

static void full_file_system(void)
{
    /* Rank 0 of two; rank 1 never comes, which does not matter here. */
    int rc = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        fake_boot_as("full", 0, 2);
        alarm(TIMEOUT_S);
        _exit(full(0, NULL));
    }
    waitpid(pid, &rc, 0);
    rmdir("/dev/shm/weft-shm-test");
    if (WIFEXITED(rc) && WEXITSTATUS(rc) == 77)
        printf("# full_file_system: skipped, no permission to mount\n");
    else
        CHECK_EQ(rc, 0);
}

static long page_faults(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_minflt;
}

/* Only the first message beyond the slots pays for the pages of the ring. */
static int first_lap(int rank, void *arg)
{
    static char page[4096] = { 1 };
    (void)arg;

    if (open_pair(rank) < 0)
        return 1;
    await_other();
    if (rank == 1)
        return 0;
    if (send(page, sizeof page) < 0)
        return 2;
    long before = page_faults();
    for (size_t left = RING_BYTES / sizeof page - 1; left; left--)
        if (send(page, sizeof page) < 0)
            return 3;
    long faults = page_faults() - before;
    if (faults > 8) /* of 31 pages; a sanitizer has some of its own */
        printf("# %ld page faults in the first lap\n", faults);
    return faults > 8 ? 4 : 0;
}

static void the_first_lap_has_no_page_faults(void)
{
    struct utsname u;
    int major = 0, minor = 0;

    uname(&u);
    if (sscanf(u.release, "%d.%d", &major, &minor) == 2 && major * 100 + minor >= 514)
        CHECK_EQ(fake_run_ranks("lap", 2, first_lap, NULL, TIMEOUT_S), 0);
}

/* The ring is full, so rank 0 sleeps as the engine does; only returned credits can wake it. */
static int send_asleep(const void *buf, size_t len)
{
    for (;;) {
        uint32_t armed = rt_bell_arm(false);
        int err = send(buf, len);
        if (err == -RT_EAGAIN)
            rt_bell_sleep(armed, 10 * (int)PATIENCE * TIMEOUT_S * 1000000);
        rt_bell_disarm(false);
        if (err != -RT_EAGAIN)
            return err;
    }
}

static int full_ring(int rank, void *arg)
{
    static char buf[4096];
    size_t len = *(const size_t *)arg;
    int n = 0, err;

    if (open_pair(rank) < 0)
        return 1;
    while (!rt_load_acquire(&rt_node.bells[!rank].alive))
        usleep(100);
    if (rank == 1) {
        while (!(rt_load_acquire(&rt_node.bells[0].asleep) & RT_BELL_ASLEEP))
            usleep(1000);
        usleep(50000); /* it is in the kernel by now */
        while (last[0] != 'e')
            if (b->ops->progress(b) == 0)
                usleep(100);
        return 0;
    }
    while ((err = send(buf, len)) == 0)
        n++;
    if (err != -RT_EAGAIN || n < 16)
        return 2;
    buf[0] = 'e';
    return send_asleep(buf, len) ? 3 : 0; /* a lost wake-up shows as a timeout */
}

static void credits_wake_the_sender(void)
{
    static size_t small = 8, large = 4096; /* full slots; full byte ring */

    CHECK_EQ(fake_run_ranks("slots", 2, full_ring, &small, TIMEOUT_S), 0);
    CHECK_EQ(fake_run_ranks("bytes", 2, full_ring, &large, TIMEOUT_S), 0);
}

static int alone(int rank, void *arg)
{
    static const struct btl_up up = { on_recv, on_down, NULL, 0 };
    (void)rank;
    (void)arg;
    if (rt_node_open(btl_node_pair_nbytes()) < 0)
        return 1;
    return btl_shm_ops.open(&up, &b, 1) == 0 ? 0 : 2;
}

static void one_rank_has_no_shared_memory(void)
{
    CHECK_EQ(fake_run_ranks("alone", 1, alone, NULL, TIMEOUT_S), 0);
}

int main(void)
{
    rt_cfg_load();
    RUN(a_killed_receiver_is_noticed);
    RUN(a_finished_receiver_is_noticed);
    RUN(a_put_to_a_killed_process_fails);
    RUN(a_put_with_more_processes_than_cores);
    RUN(chunks_for_other_memory_are_dropped);
    RUN(the_first_lap_has_no_page_faults);
    RUN(credits_wake_the_sender);
    RUN(full_file_system);
    RUN(one_rank_has_no_shared_memory);
    return check_end();
}
