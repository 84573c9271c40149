/* SPDX-License-Identifier: BSD-3-Clause */
/* runtime/ib with a device (the RDMA rig, or a machine that has one).  The device itself shows
 * whether a registration is valid, by writing to the memory and reading from it over a queue pair
 * that is connected to itself.  A stale registration would reach pages that were at the address
 * before. */
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/ib/ib.h"
#include "test/check.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LEN ((size_t)64 << 10)

static struct rt_ib_rail rail[4];
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct rt_ib_mr *mine; /* registration of `page` */
static char *page;

static void connect_to_self(void)
{
    struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
                                     .sq_sig_all = 1,
                                     .cap = { 4, 1, 1, 1, 0 } };
    struct rt_ib_addr self;
    init.send_cq = init.recv_cq = cq = rt_ib->create_cq(rail->ctx, 8, NULL, NULL, 0);
    qp = rt_ib->create_qp(rail->pd, &init);
    CHECK(cq && qp);
    struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
                             .port_num = rail->port,
                             .qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE };
    CHECK_EQ(rt_ib->modify_qp(qp, &a,
                              IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
             0);
    a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
                              .path_mtu = IBV_MTU_1024,
                              .dest_qp_num = qp->qp_num,
                              .max_dest_rd_atomic = 1,
                              .min_rnr_timer = 12 };
    rt_ib_addr(rail, &self);
    rt_ib_ah_attr(rail, &self, 0, 0, &a.ah_attr);
    CHECK_EQ(rt_ib->modify_qp(qp, &a,
                              IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
             0);
    a = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1
    };
    CHECK_EQ(rt_ib->modify_qp(qp, &a,
                              IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
             0);
}

/* One operation of the device between `page` and memory at p; returns its status. */
static int device_moves(enum ibv_wr_opcode op, const struct rt_ib_mr *mr, char *p)
{
    struct ibv_sge s = { (uintptr_t)page, 64, mine->lkey };
    struct ibv_send_wr *bad, wr = { .sg_list = &s, .num_sge = 1, .opcode = op };
    struct ibv_wc wc;
    wr.wr.rdma.remote_addr = (uintptr_t)p;
    wr.wr.rdma.rkey = mr->rkey;
    if (ibv_post_send(qp, &wr, &bad))
        return -1;
    for (time_t end = time(NULL) + 30; time(NULL) < end; sched_yield())
        if (ibv_poll_cq(cq, 1, &wc) > 0)
            return (int)wc.status;
    return -2;
}

/* Registers p, lets the device write to each of its pages and read from them, and deregisters
 * it. */
static bool is_true(char *p, size_t len)
{
    static char fill = 1;
    struct rt_ib_mr *mr;
    int err = rt_ib_reg(rail, p, len, NULL, &mr);
    CHECK_EQ(err, 0);
    if (err)
        return false;
    bool ok = mr->writable && !mr->gpu;
    for (size_t off = 0; ok && off + 64 <= len; off += 16384) {
        memset(page, ++fill, 64);
        p[off] = 0;
        ok = device_moves(IBV_WR_RDMA_WRITE, mr, p + off) == 0 && p[off] == fill &&
             p[off + 63] == fill;
        p[off] = (char)~fill;
        ok = ok && device_moves(IBV_WR_RDMA_READ, mr, p + off) == 0 && page[0] == (char)~fill;
    }
    rt_ib_dereg(mr);
    return ok;
}

static char *map_at(void *where, size_t len)
{
    char *p = mmap(where, len, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | (where ? MAP_FIXED : 0), -1, 0);
    CHECK(p != MAP_FAILED);
    return p;
}

static void unmapped_moved_emptied(void)
{
    char *p = map_at(NULL, LEN);
    CHECK(is_true(p, LEN) && is_true(p + 100, LEN - 100));
    munmap(p, LEN);
    map_at(p, LEN);
    CHECK(is_true(p, LEN));
    map_at(p + LEN / 2, LEN / 2);
    CHECK(is_true(p, LEN));
    madvise(p, LEN, MADV_DONTNEED);
    CHECK(is_true(p, LEN));
    char *q = map_at(NULL, LEN);
    q = mremap(p, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, q);
    CHECK(q != MAP_FAILED && is_true(q, LEN));
    map_at(p, LEN);
    CHECK(is_true(p, LEN) && is_true(q, LEN));
    munmap(p, LEN);
    munmap(q, LEN);
}

static void from_malloc(void)
{
    for (int i = 0; i < 40; i++) {
        size_t len = (size_t)(20 + i % 7 * 40) << 10;
        char *p = malloc(len);
        CHECK(is_true(p, len));
        free(p);
        if (i % 3 == 0)
            malloc_trim(0);
    }
}

static void shared_memory(void)
{
    int id[2] = { shmget(IPC_PRIVATE, LEN, 0600), shmget(IPC_PRIVATE, LEN, 0600) };
    char *p = shmat(id[0], NULL, 0);
    CHECK(is_true(p, LEN));
    shmdt(p);
    CHECK(shmat(id[1], p, 0) == p);
    CHECK(is_true(p, LEN));
    shmdt(p);
    shmctl(id[0], IPC_RMID, NULL);
    shmctl(id[1], IPC_RMID, NULL);
    int fd = memfd_create("test", MFD_CLOEXEC);
    CHECK(ftruncate(fd, (off_t)LEN) == 0);
    p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(is_true(p, LEN));
    CHECK(ftruncate(fd, 0) == 0 && ftruncate(fd, (off_t)LEN) == 0);
    CHECK(is_true(p, LEN));
    munmap(p, LEN);
    close(fd);
}

/* The parent's pages stay the registered ones while a child shares them. */
static void forked(void)
{
    struct rt_ib_mr *mr;
    char *p = map_at(NULL, LEN);
    CHECK(is_true(p, LEN));
    CHECK_EQ(rt_ib_reg(rail, p, LEN, NULL, &mr), 0);
    pid_t pid = fork();
    if (pid == 0) {
        poll(NULL, 0, 500);
        _exit(0);
    }
    memset(p, 9, LEN); /* would be copied if the pages were shared with the child */
    memset(page, 77, 64);
    CHECK_EQ(device_moves(IBV_WR_RDMA_WRITE, mr, p), 0);
    CHECK_EQ(p[0], 77);
    rt_ib_dereg(mr);
    waitpid(pid, NULL, 0);
    CHECK(is_true(p, LEN));
    munmap(p, LEN);
}

static const char constant[8192] = { 5 };

static void constants_and_bad_addresses(void)
{
    struct rt_ib_mr *mr;
    CHECK_EQ(rt_ib_reg(rail, (void *)(uintptr_t)constant, sizeof constant, NULL, &mr), 0);
    CHECK(!mr->writable);
    CHECK_EQ(device_moves(IBV_WR_RDMA_READ, mr, (char *)(uintptr_t)constant), 0);
    CHECK_EQ(page[0], 5);
    rt_ib_dereg(mr);
    CHECK_EQ(rt_ib_reg(rail, (void *)4096, 4096, NULL, &mr), -RT_EINVAL);
}

static int flushed, flush_err;
static void on_flush(struct rt_ib_flush *f, int err)
{
    (void)f;
    flushed++;
    flush_err |= err;
}

/* The queue pair that reads back, with host memory instead of a GPU's. */
static void read_back(void)
{
    struct rt_ib_flush f[5] = { { .done = on_flush },
                                { .done = on_flush },
                                { .done = on_flush },
                                { .done = on_flush },
                                { .done = on_flush } };
    flushed = 0;
    for (int i = 0; i < 5; i++)
        CHECK_EQ(rt_ib_flush(rail, mine, &f[i]), -RT_EAGAIN);
    for (time_t end = time(NULL) + 30; flushed < 5 && time(NULL) < end; sched_yield())
        rt_ib_flush_progress();
    CHECK_EQ(flushed, 5);
    CHECK_EQ(flush_err, 0);
    CHECK_EQ(rt_ib_nflushes, 0);
}

static double us_of(bool again)
{
    struct timespec a, b;
    struct rt_ib_mr *mr;
    char *p = map_at(NULL, 1u << 20);
    memset(p, 1, 1u << 20);
    int n = again ? 1000 : 1;
    if (again && rt_ib_reg(rail, p, 1u << 20, NULL, &mr) == 0)
        rt_ib_dereg(mr);
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int i = 0; i < n; i++)
        if (rt_ib_reg(rail, p, 1u << 20, NULL, &mr) == 0)
            rt_ib_dereg(mr);
    clock_gettime(CLOCK_MONOTONIC, &b);
    munmap(p, 1u << 20);
    return ((double)(b.tv_sec - a.tv_sec) * 1e6 + (double)(b.tv_nsec - a.tv_nsec) / 1e3) / n;
}

static void cached(void)
{
    printf("# 1 MiB: registering takes %.1f us, finding it %.3f us\n", us_of(false), us_of(true));
}

int main(void)
{
    if (rt_cfg_load() < 0)
        return 1;
    int n = rt_ib_open(rail, 4);
    if (n <= 0)
        check_skip(n ? "rt_ib_open failed" : "no RDMA device with an active port");
    page = map_at(NULL, 4096);
    if (rt_ib_reg(rail, page, 4096, NULL, &mine))
        return 1;
    RUN(connect_to_self);
    RUN(unmapped_moved_emptied);
    RUN(from_malloc);
    RUN(shared_memory);
    RUN(forked);
    RUN(constants_and_bad_addresses);
    RUN(read_back);
    RUN(cached);
    rt_ib->destroy_qp(qp);
    rt_ib->destroy_cq(cq);
    rt_ib_dereg(mine);
    rt_ib_close();
    CHECK(rt_ib_open(rail, 1) == 1); /* again */
    rt_ib_close();
    return check_end();
}
