/* SPDX-License-Identifier: BSD-3-Clause */
/* What btl/shm does without the message engine: half round trip and message rate of send() and
 * poll(), bandwidth of put(). For tuning the ring; two processes bound to two cores.  Usage:
 * raw_shm [core core
 * [divisor of the repetitions]]. */
#include "btl/all/all.h"
#include "btl/btl.h"
#include "runtime/base/atomic.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/mem/segment.h"
#include "test/fake/btl_pair.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPEATS 5
#define TAG_KEY 7

static int cores[2] = { 0, 1 }, divisor = 1;
static struct btl *b;
static struct btl_peer *peer;
static uint64_t received;
static char sink[1 << 15];
static bool copy_out; /* copy the payload as an engine would */

static char remote_key[BTL_KEY_MAX];

static void on_recv(void *arg, struct btl_peer *from, const struct btl_hdr *h, const void *data,
                    size_t len)
{
    (void)arg;
    (void)from;
    if (h->tag == TAG_KEY)
        memcpy(remote_key, data, len);
    else if (copy_out)
        memcpy(sink, data, len);
    received++;
}

static void on_down(void *arg, struct btl_peer *p, int err)
{
    (void)arg;
    (void)p;
    (void)err;
    exit(3);
}

static void wait_received(uint64_t n)
{
    while (received < n) {
        if (b->ops->poll(peer) == 0)
            rt_relax();
    }
}

static void post_tag(int tag, const void *buf, size_t len)
{
    struct btl_hdr h = { 1, tag, 3 };
    while (b->ops->send(peer, &h, buf, len) == -RT_EAGAIN)
        rt_relax();
}

static void post(const void *buf, size_t len) { post_tag(2, buf, len); }

static double pingpong(int rank, size_t len, int n)
{
    static char buf[1 << 15];
    uint64_t t = rt_now_ns(), base = received;

    for (int i = 1; i <= n; i++) {
        if (rank == 0)
            post(buf, len);
        wait_received(base + (uint64_t)i);
        if (rank == 1)
            post(buf, len);
    }
    return (double)(rt_now_ns() - t) / n / 2;
}

/* Rank 0 sends n messages, rank 1 answers at the end; nanoseconds a message. */
static double stream(int rank, size_t len, int n)
{
    static char buf[1 << 15];
    uint64_t t = rt_now_ns(), base = received;

    if (rank == 0) {
        for (int i = 0; i < n; i++)
            post(buf, len);
        wait_received(base + 1);
    } else {
        wait_received(base + (uint64_t)n);
        post(buf, 0);
    }
    return (double)(rt_now_ns() - t) / n;
}

static int compare(const void *a, const void *c)
{
    double x = *(const double *)a, y = *(const double *)c;
    return x < y ? -1 : x > y;
}

static double median(double *v)
{
    qsort(v, REPEATS, sizeof *v, compare);
    return v[REPEATS / 2];
}

static void report(int rank, const char *what, size_t len, double (*fn)(int, size_t, int), int n)
{
    double v[REPEATS];

    n = n / divisor + 1;
    fn(rank, len, n / 10);
    for (int i = 0; i < REPEATS; i++)
        v[i] = fn(rank, len, n);
    double ns = median(v);
    if (rank == 0)
        printf("%-10s %8zu B  %9.1f ns  %8.2f GB/s\n", what, len, ns, (double)len / ns);
}

static struct btl_rmem *remote;
static char *big;
static int pending;
static void put_done(struct btl_op *op, int err)
{
    (void)op;
    (void)err;
    pending--;
}

static double put_stream(int rank, size_t len, int n)
{
    static struct btl_op op = { put_done };
    uint64_t t = rt_now_ns(), base = received;

    if (rank == 0) {
        for (int i = 0; i < n; i++) {
            pending = 1;
            while (b->ops->put(remote, 0, NULL, big, len, &op) == -RT_EAGAIN)
                b->ops->progress(b);
            while (pending)
                b->ops->progress(b);
        }
        post(big, 0);
        wait_received(base + 1);
    } else {
        while (received < base + 1)
            if (b->ops->progress(b) == 0)
                rt_relax();
        post(big, 0);
    }
    return (double)(rt_now_ns() - t) / n;
}

static void put_once(size_t len)
{
    static struct btl_op op = { put_done };

    pending = 1;
    while (b->ops->put(remote, 0, NULL, big, len, &op) == -RT_EAGAIN)
        b->ops->progress(b);
    while (pending)
        b->ops->progress(b);
    post(big, 0);
}

/* Half round trip of a put and its notification. */
static double put_pingpong(int rank, size_t len, int n)
{
    uint64_t t = rt_now_ns(), base = received;

    for (int i = 1; i <= n; i++) {
        if (rank == 0)
            put_once(len);
        while (received < base + (uint64_t)i)
            if (b->ops->progress(b) == 0)
                rt_relax();
        if (rank == 1)
            put_once(len);
    }
    return (double)(rt_now_ns() - t) / n / 2;
}

#define BIG (16u << 20)

static void puts_bench(int rank)
{
    struct btl_mem *m;
    char key[BTL_KEY_MAX] = { 0 };
    uint64_t base = received;

    big = malloc(BIG);
    memset(big, 1, BIG);
    b->ops->mem_reg(b, big, BIG, NULL, &m);
    b->ops->mem_key(m, key);
    post_tag(TAG_KEY, key, sizeof key);
    wait_received(base + 1);
    b->ops->attach(peer, remote_key, NULL, &remote);
    for (size_t len = 16384; len <= BIG; len *= 4)
        report(rank, "put", len, put_stream, (int)(((size_t)512 << 20) / len / 4 + 4));
    for (size_t len = 8192; len <= BIG / 4; len *= 2)
        report(rank, "put lat", len, put_pingpong, (int)(((size_t)512 << 20) / len / 16 + 4));
    b->ops->detach(remote);
    b->ops->mem_dereg(m);
}

static int run(int rank, void *arg)
{
    (void)arg;
    const struct btl_ops *ops = btl_find("shm");
    struct btl_up up = { on_recv, on_down, NULL, 0 };
    struct rt_proc other = { 0, (uint32_t)!rank };
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cores[rank], &set);
    sched_setaffinity(0, sizeof set, &set);
    if (rt_node_open(btl_node_pair_nbytes()) < 0 || ops->open(&up, &b, 1) != 1 ||
        ops->add_peer(b, &other, NULL, 0, &peer) < 0)
        return 1;
    for (size_t len = 0; len <= 48; len += len ? 40 : 8)
        report(rank, "latency", len, pingpong, 200000);
    copy_out = true;
    for (size_t len = 64; len <= 8192; len *= 4)
        report(rank, "latency", len, pingpong, 50000);
    for (size_t len = 8; len <= 8192; len *= 10)
        report(rank, "stream", len, stream, 500000);
    if (b->caps.flags & BTL_PUT)
        puts_bench(rank);
    ops->close(b);
    rt_node_close();
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4)
        divisor = atoi(argv[3]) > 0 ? atoi(argv[3]) : 1;
    if (argc >= 3) {
        cores[0] = atoi(argv[1]);
        cores[1] = atoi(argv[2]);
    }
    rt_cfg_load();
    return fake_run_ranks("raw-shm", 2, run, NULL, 300);
}
