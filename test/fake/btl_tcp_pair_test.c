/* SPDX-License-Identifier: BSD-3-Clause */
/* btl/tcp between processes: simultaneous connects, immediate exit, death of a peer, listeners that
 * do not belong to the job.  Processes made with fork(); addresses are passed in shared memory. */
#include "btl/tcp/disconnect.h"
#include "btl/tcp/rma.h"
#include "runtime/base/atomic.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "test/check.h"
#include "test/fake/btl_pair.h"
#include "test/patience.h"
#include "test/unit/capture.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define RANKS 4
#define TIMEOUT_S 60

static struct board {
    uint32_t len[RANKS]; /* stored last; 0: not published yet */
    uint32_t count;      /* of a barrier */
    uint32_t stage;      /* of a_put_that_is_forgotten */
    char blob[RANKS][1024];
} * board;

static struct {
    struct btl *b;
    struct btl_peer *peer[RANKS];
    uint32_t next[RANKS];           /* number of the next message from each rank */
    uint32_t received, downs, ends; /* downs: lost peers; ends: those that have ended normally */
    int down_err;
} t;

static void on_recv(void *arg, struct btl_peer *from, const struct btl_hdr *h, const void *data,
                    size_t len)
{
    (void)arg;
    CHECK(from->proc.rank < RANKS && h->src == from->proc.rank);
    CHECK_EQ(h->tag, t.next[from->proc.rank]);
    for (size_t i = 0; i < len; i++)
        if (((const uint8_t *)data)[i] != (uint8_t)(h->tag + (int32_t)i)) {
            CHECK_MSG(false, "byte %zu of message %d differs", i, h->tag);
            break;
        }
    t.next[from->proc.rank]++;
    t.received++;
}

static void on_down(void *arg, struct btl_peer *peer, int err)
{
    (void)arg;
    (void)peer;
    t.downs += err != 0;
    t.ends += err == 0;
    t.down_err = err;
}

static void look(void)
{
    t.b->ops->sleep_fd(t.b, &(int){ 0 });
    t.b->ops->progress(t.b);
}

static void barrier(int n)
{
    static uint32_t generation;
    rt_fetch_add(&board->count, 1u);
    generation += (uint32_t)n;
    while (rt_load_acquire(&board->count) < generation) {
        if (t.b)
            look();
        usleep(50);
    }
}

/* Opens the transport and waits for the others' addresses. */
static bool start(int rank, int n)
{
    struct btl_up up = { on_recv, on_down, NULL, 0 };
    check_failed_case = 0;
    memset(&t, 0, sizeof t);
    CHECK_EQ(btl_tcp_ops.open(&up, &t.b, 1), 1);
    if (!t.b)
        return false;
    int len = t.b->ops->address(t.b, board->blob[rank], sizeof board->blob[0]);
    rt_store_release(&board->len[rank], (uint32_t)len);
    for (int r = 0; r < n; r++) {
        struct rt_proc proc = { 0, (uint32_t)r };
        while (!rt_load_acquire(&board->len[r]))
            usleep(50);
        if (r != rank)
            CHECK_EQ(t.b->ops->add_peer(t.b, &proc, board->blob[r], board->len[r], &t.peer[r]), 0);
        if (t.peer[r])
            t.peer[r]->up = &t; /* set as by the engine, so that this peer is notified */
    }
    return !check_failed_case;
}

/* Sends message number `tag` to rank r; the caller handles -RT_EAGAIN. */
static int send_one(int r, int tag, size_t len)
{
    static uint8_t buf[TCP_LEN_MAX];
    struct btl_hdr h = { 0, tag, (uint32_t)rt_boot.rank };
    for (size_t i = 0; i < len; i++)
        buf[i] = (uint8_t)(tag + (int)i);
    return t.b->ops->send(t.peer[r], &h, buf, len);
}

static void send_now(int r, int tag, size_t len)
{
    int err;
    while ((err = send_one(r, tag, len)) == -RT_EAGAIN)
        look();
    CHECK_EQ(err, 0);
}

static void receive(uint32_t n, int ms)
{
    struct watch watch = watch_begin();
    while (t.received < n && !watch_over(&watch, (uint64_t)ms * 1000000u))
        look();
    CHECK_EQ(t.received, n);
}

static int in_ranks(int n, int (*fn)(int rank, void *arg), void *arg)
{
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        return 1;
    int rc = fake_run_ranks("tcp-pair", n, fn, arg, TIMEOUT_S);
    munmap(board, sizeof *board);
    return rc;
}

/* All send at once, to all; no message may be lost, duplicated or out of order, and one connection
 * of each pair stays.  Then all leave at once. */
static int all_at_once(int rank, void *arg)
{
    enum { N = 60 };
    int rounds = *(int *)arg;
    for (int round = 0; round < rounds; round++) {
        rt_store_relaxed(&board->len[rank], 0u);
        barrier(RANKS);
        if (!start(rank, RANKS))
            return 1;
        barrier(RANKS);
        for (int i = 0; i < N; i++)
            for (int r = 0; r < RANKS; r++)
                if (r != rank)
                    send_now(r, i, (size_t)(i * 37) % 3000);
        receive(N * (RANKS - 1), 10000);
        barrier(RANKS); /* no process leaves before all have counted */
        const struct btl_tcp *b = (const struct btl_tcp *)t.b;
        int nconns = 0;
        struct rt_list *pos;
        rt_list_each (pos, &b->conns)
            nconns++;
        CHECK_EQ(nconns, RANKS - 1);
        CHECK_EQ(t.downs, 0);
        barrier(RANKS);
        if (check_failed_case)
            return 2;
        t.b->ops->close(t.b);
        t.b = NULL;
    }
    return 0;
}

static void simultaneous_connects(void)
{
    int rounds = 25;
    capture_begin();
    int rc = in_ranks(RANKS, all_at_once, &rounds);
    CHECK_STR(capture_end(), "");
    CHECK_EQ(rc, 0);
}

/* Rank 0 sends until the transport refuses, and leaves; rank 1 is late. */
static int leave_at_once(int rank, void *arg)
{
    uint32_t *sent = arg;
    if (!start(rank, 2))
        return 1;
    if (rank == 0) {
        int i = 0;
        while (send_one(1, i, i % 2 ? 60000 : 11) == 0)
            i++;
        for (int k = 0; k < 2000; k++) /* connects, and fills the kernel's buffers */
            look();
        while (send_one(1, i, i % 2 ? 60000 : 11) == 0)
            i++;
        rt_store_release(sent, (uint32_t)i);
        fake_btl_end(t.b);
        return check_failed_case;
    }
    for (int k = 0; k < 200; k++) { /* lets rank 0 connect, nothing else */
        const struct tcp_peer *p = (const struct tcp_peer *)t.peer[0];
        look();
        if (p->up)
            break;
        usleep(1000);
    }
    sleep(1);
    while (!rt_load_acquire(sent))
        look();
    receive(*sent, 20000);
    for (int k = 0; k < 50000 && !((struct tcp_peer *)t.peer[0])->lost; k++) {
        look();
        usleep(100);
    }
    CHECK_EQ(t.ends, 1);
    CHECK_MSG(*sent > 8, "%u messages were taken", *sent);
    struct btl_hdr h = { 0 };
    CHECK_EQ(t.b->ops->send(t.peer[0], &h, NULL, 0), -RT_EPEER);
    look();
    CHECK_EQ(t.downs + t.ends, 1); /* the engine is notified once */
    t.b->ops->close(t.b);
    return check_failed_case;
}

static void nothing_is_lost_when_the_sender_leaves(void)
{
    uint32_t *sent = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    capture_begin();
    int rc = in_ranks(2, leave_at_once, sent);
    CHECK_STR(capture_end(), "");
    CHECK_EQ(rc, 0);
    munmap(sent, 4096);
}

static void ignored(struct btl_op *op, int err)
{
    (void)op;
    t.down_err = err;
    t.received = 1;
}

/* Rank 1 is killed during a large put to it. */
static int peer_dies(int rank, void *arg)
{
    static char data[32 << 20];
    (void)arg;
    if (!start(rank, 2))
        return 1;
    if (rank == 1) {
        struct btl_mem *m;
        CHECK_EQ(t.b->ops->mem_reg(t.b, data, sizeof data, NULL, &m), 0);
        CHECK_EQ(m != NULL, 1);
        send_now(0, 0, 8);
        while (!data[100000])
            look();
        raise(SIGKILL);
    }
    receive(1, 5000);
    struct tcp_key key = { .region = 0, .gen = 1, .len = sizeof data };
    struct btl_rmem *r;
    struct btl_op op = { ignored };
    memset(data, 1, sizeof data);
    CHECK_EQ(t.b->ops->attach(t.peer[1], &key, NULL, &r), 0);
    t.received = 0;
    struct watch watch = watch_begin();
    CHECK_EQ(t.b->ops->put(r, 0, NULL, data, sizeof data, &op), 0);
    while ((!t.received || !t.downs) && !watch_over(&watch, 10000000000u))
        look();
    CHECK_EQ(t.downs, 1);
    CHECK_EQ(t.received, 1);
    CHECK_EQ(t.down_err, -RT_EPEER);
    CHECK_EQ(send_one(1, 0, 8), -RT_EPEER);
    t.b->ops->detach(r);
    t.b->ops->close(t.b);
    return check_failed_case;
}

static void a_peer_that_dies_is_reported(void)
{
    capture_begin();
    int rc = in_ranks(2, peer_dies, NULL);
    const char *text = capture_end();
    CHECK_MSG(strstr(text, "rank 1 is lost"), "the log does not say it: %s", text);
    CHECK_EQ(rc, 128 + SIGKILL); /* rank 1's; rank 0 had no failure */
}

/* Rank 0 deletes peer rank 1, with its put, when a piece of the put is half sent, and adds the peer
 * again: a later put must not be taken for the rest.  `arg` is the rank that connects. */
#define ALL (32 << 20)
#define PART (8 << 20)
static struct btl_mem *memory(char *data)
{
    struct btl_mem *m;
    CHECK_EQ(t.b->ops->mem_reg(t.b, data, ALL, NULL, &m), 0);
    return m;
}

/* With a small send buffer in the kernel, which takes parts of pieces. */
static bool half_sent(void)
{
    const struct tcp_peer *p = (const struct tcp_peer *)t.peer[1];
    bool half = false;
    for (int i = 0; i < p->nlanes; i++) {
        tcp_set_option(p->lanes[i]->fd, SOL_SOCKET, SO_SNDBUF, 40000);
        half |= p->lanes[i]->piece_out.xfer && p->lanes[i]->piece_out.pos;
    }
    return half;
}

static void put_forgotten_and_put(char *data)
{
    struct rt_proc proc = { 0, 1 };
    struct tcp_key key = { .region = 0, .gen = 1, .len = ALL };
    struct btl_rmem *r;
    struct btl_op op = { ignored };
    memset(data, 1, ALL);
    CHECK_EQ(t.b->ops->attach(t.peer[1], &key, NULL, &r), 0);
    for (int i = 0; i < 3; i++) /* together more than the kernel buffers */
        CHECK_EQ(t.b->ops->put(r, 0, NULL, data, ALL, &op), 0);
    for (struct watch w = watch_begin(); !half_sent() && !watch_over(&w, 10000000000u);)
        look();
    CHECK(half_sent());
    t.b->ops->detach(r);
    t.b->ops->del_peer(t.peer[1]);
    CHECK_EQ(t.b->ops->add_peer(t.b, &proc, board->blob[1], board->len[1], &t.peer[1]), 0);
    t.peer[1]->up = &t;
    memset(data, 2, ALL);
    t.received = 0;
    CHECK_EQ(t.b->ops->attach(t.peer[1], &key, NULL, &r), 0);
    CHECK_EQ(t.b->ops->put(r, 0, NULL, data, PART, &op), 0);
    rt_store_release(&board->stage, 1u);
    receive(1, 20000); /* counted by ignored() */
    CHECK_EQ(t.down_err, 0);
    t.b->ops->detach(r);
}

static int forget_in_a_piece(int rank, void *arg)
{
    static char data[ALL];
    int connector = *(int *)arg, other = 1 - rank;
    if (!start(rank, 2))
        return 1;
    struct btl_mem *m = rank ? memory(data) : NULL;
    if (rank == connector)
        send_now(other, 0, 8);
    else
        receive(1, 5000);
    barrier(2);
    if (rank == 0) {
        put_forgotten_and_put(data);
    } else {
        while (!rt_load_acquire(&board->stage)) {
            look();
            usleep(1000);
        }
    }
    barrier(2);
    size_t wrong = 0;
    for (int i = 0; rank && i < PART; i++)
        wrong += data[i] != 2;
    CHECK_EQ(wrong, 0);
    CHECK_EQ(t.downs, 0);
    barrier(2);
    if (m)
        t.b->ops->mem_dereg(m);
    t.b->ops->close(t.b);
    return check_failed_case;
}

static void a_put_that_is_forgotten(void)
{
    for (int connector = 0; connector < 2; connector++) {
        capture_begin();
        int rc = in_ranks(2, forget_in_a_piece, &connector);
        CHECK_STR(capture_end(), "");
        CHECK_EQ(rc, 0);
    }
}

/* Rank `late` is outside MPI for longer than an unauthenticated connection may wait, in the
 * handshake of the first lane: rank 1 when it has accepted the lane, rank 0 when it has sent its
 * hello. */
#define OUTSIDE_US 5600000
static void shake_and_put(char *data, bool late)
{
    const struct tcp_peer *p = (const struct tcp_peer *)t.peer[1];
    struct tcp_key key = { .region = 0, .gen = 1, .len = ALL };
    struct btl_rmem *r;
    struct btl_op op = { ignored };
    memset(data, 2, PART);
    t.received = 0;
    CHECK_EQ(t.b->ops->attach(t.peer[1], &key, NULL, &r), 0);
    CHECK_EQ(t.b->ops->put(r, 0, NULL, data, PART, &op), 0);
    while (late && (!p->nlanes || p->lanes[0]->state == TCP_CONNECTING))
        look();
    if (late)
        usleep(OUTSIDE_US);
    receive(1, 20000); /* counted by ignored() */
    CHECK_EQ(t.down_err, 0);
    t.b->ops->detach(r);
}

static int outside_mpi(int rank, void *arg)
{
    static char data[ALL];
    int late = *(int *)arg;
    if (!start(rank, 2))
        return 1;
    struct btl_mem *m = rank ? memory(data) : NULL;
    if (rank == 0)
        send_now(1, 0, 8);
    else
        receive(1, 5000);
    barrier(2);
    if (rank == 0) {
        shake_and_put(data, late == 0);
        rt_store_release(&board->stage, 1u);
    }
    while (rank == 1 && late == 1 && rt_list_empty(&((const struct btl_tcp *)t.b)->half))
        look();
    if (rank == 1 && late == 1)
        usleep(OUTSIDE_US);
    while (rank == 1 && !rt_load_acquire(&board->stage))
        look();
    barrier(2);
    CHECK_EQ(rank == 1 ? data[PART - 1] : 2, 2);
    CHECK_EQ(t.downs, 0);
    barrier(2);
    if (m)
        t.b->ops->mem_dereg(m);
    t.b->ops->close(t.b);
    return check_failed_case;
}

static void a_lane_between_late_processes(void)
{
    for (int late = 0; late < 2; late++) {
        capture_begin();
        int rc = in_ranks(2, outside_mpi, &late);
        CHECK_STR(capture_end(), "");
        CHECK_EQ(rc, 0);
    }
}

/* Rank 1 has lost rank 0 before rank 0 connects: rank 0 is notified instead of trying for ever. */
static int given_up(int rank, void *arg)
{
    (void)arg;
    if (!start(rank, 2))
        return 1;
    if (rank == 1)
        tcp_peer_lost((struct tcp_peer *)t.peer[0], "closed by the test");
    barrier(2);
    if (rank == 0) {
        send_now(1, 0, 8);
        for (struct watch w = watch_begin(); !t.downs && !watch_over(&w, 20000000000u);)
            look();
        CHECK_EQ(t.downs, 1);
        CHECK_EQ(send_one(1, 1, 8), -RT_EPEER);
    }
    barrier(2);
    t.b->ops->close(t.b);
    return check_failed_case;
}

static void a_peer_that_has_given_up(void)
{
    capture_begin();
    int rc = in_ranks(2, given_up, NULL);
    const char *text = capture_end();
    CHECK_MSG(strstr(text, "rank 1 lost this process"), "the log does not say it: %s", text);
    CHECK_EQ(rc, 0);
}

/* Rank 0 alone, with a rank 1 that has this process's address but another port. */
static bool start_with_peer_at(uint16_t port)
{
    struct tcp_address a;
    struct rt_proc proc = { 0, 1 };
    fake_boot_as("tcp-pair", 0, 2);
    if (!start(0, 1))
        return false;
    memcpy(&a, board->blob[0], board->len[0]);
    a.port = port;
    CHECK_EQ(t.b->ops->add_peer(t.b, &proc, &a, board->len[0], &t.peer[1]), 0);
    t.peer[1]->up = &t;
    return true;
}

/* A bound socket on the loopback address, and its port. */
static int bound_socket(uint16_t *port)
{
    struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof in;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(fd, (struct sockaddr *)&in, len) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&in, &len) == 0);
    *port = ntohs(in.sin_port);
    return fd;
}

/* No process listens at the address: the cause is reported within a few seconds. */
static int nobody_there(int rank, void *arg)
{
    (void)rank, (void)arg;
    uint16_t port;
    int fd = bound_socket(&port); /* a port that is known to be closed */
    if (!start_with_peer_at(port))
        return 1;
    send_now(1, 0, 8);
    struct watch watch = watch_begin();
    while (!t.downs && !watch_over(&watch, 10000000000u))
        look();
    CHECK_EQ(t.downs, 1);
    CHECK_EQ(t.down_err, -RT_EPEER);
    CHECK(watch_own(watch) < 8000000000u);
    close(fd);
    t.b->ops->close(t.b);
    return check_failed_case;
}

static void nobody_listens(void)
{
    capture_begin();
    int rc = in_ranks(1, nobody_there, NULL);
    const char *text = capture_end();
    CHECK_MSG(strstr(text, "Connection refused"), "the log does not say why: %s", text);
    CHECK_EQ(rc, 0);
}

/* Lowers the limit of descriptors so that none is left.  Returns the old limit. */
static struct rlimit use_up_descriptors(void)
{
    struct rlimit was, none;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &was), 0);
    none = was;
    none.rlim_cur = (rlim_t)dup(0);
    close((int)none.rlim_cur);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    return was;
}

/* No descriptor is left for an attempt: the network is not the cause. */
static int no_descriptor(int rank, void *arg)
{
    (void)rank, (void)arg;
    uint16_t port;
    cfg.net_timeout_s = 1;
    bound_socket(&port);
    if (!start_with_peer_at(port))
        return 1;
    use_up_descriptors();
    send_now(1, 0, 8);
    struct watch watch = watch_begin();
    while (!t.downs && !watch_over(&watch, 10000000000u))
        look();
    CHECK_EQ(t.down_err, -RT_EPEER);
    t.b->ops->close(t.b);
    return check_failed_case;
}

static void no_descriptor_is_left(void)
{
    capture_begin();
    int rc = in_ranks(1, no_descriptor, NULL);
    const char *text = capture_end();
    CHECK_MSG(strstr(text, "Too many open files here; raise the limit"), "the log says %s", text);
    CHECK_EQ(rc, 0);
}

/* Rank 0's first attempt fails, and then it is outside MPI for longer than the time limit. */
static int first_attempt_failed(int rank, void *arg)
{
    (void)arg;
    cfg.net_timeout_s = 1;
    if (!start(rank, 2))
        return 1;
    if (rank == 0) {
        struct rlimit was = use_up_descriptors();
        send_now(1, 0, 8);
        CHECK_EQ(setrlimit(RLIMIT_NOFILE, &was), 0);
        usleep(1500000);
    } else {
        receive(1, 20000);
    }
    barrier(2);
    CHECK_EQ(t.downs, 0);
    t.b->ops->close(t.b);
    return check_failed_case;
}

static void a_late_process_tries_again(void)
{
    capture_begin();
    int rc = in_ranks(2, first_attempt_failed, NULL);
    CHECK_STR(capture_end(), "");
    CHECK_EQ(rc, 0);
}

/* A listener at the address does not know the key: it gets no message. */
static int impostor_there(int rank, void *arg)
{
    (void)rank, (void)arg;
    uint16_t port;
    int l = bound_socket(&port), fd = -1;
    listen(l, 8);
    if (!start_with_peer_at(port))
        return 1;
    send_now(1, 0, 8);
    size_t heard = 0;
    struct watch watch = watch_begin();
    struct tcp_challenge c = { .nonce = { 1 } };
    memcpy(c.magic, TCP_MAGIC, sizeof c.magic);
    struct tcp_verdict v = { .answer = TCP_ACCEPTED };
    bool answered = false, judged = false;
    while (!t.downs && !watch_over(&watch, 5000000000u)) {
        char buf[256];
        look();
        if (fd < 0 && (fd = accept4(l, NULL, NULL, SOCK_NONBLOCK)) < 0)
            continue;
        ssize_t n = recv(fd, buf, sizeof buf, 0);
        heard += n > 0 ? (size_t)n : 0;
        if (heard >= sizeof(struct tcp_hello) && !answered)
            answered = send(fd, &c, sizeof c, MSG_NOSIGNAL) > 0;
        if (heard >= sizeof(struct tcp_hello) + sizeof(struct tcp_proof) && !judged)
            judged = send(fd, &v, sizeof v, MSG_NOSIGNAL) > 0;
        if (n == 0)
            break;
    }
    CHECK(judged);
    CHECK_EQ(heard, sizeof(struct tcp_hello) + sizeof(struct tcp_proof));
    close(fd);
    close(l);
    t.b->ops->del_peer(t.peer[1]);
    _exit(check_failed_case); /* not close(), which would try to deliver the message for 30 s */
}

static void a_listener_without_the_key(void)
{
    capture_begin();
    int rc = in_ranks(1, impostor_there, NULL);
    const char *text = capture_end();
    CHECK_MSG(strstr(text, "is not rank 1"), "the log does not say it: %s", text);
    CHECK_EQ(rc, 0);
}

int main(void)
{
    rt_cfg_load();
    RUN(simultaneous_connects);
    RUN(nothing_is_lost_when_the_sender_leaves);
    RUN(a_peer_that_dies_is_reported);
    RUN(a_put_that_is_forgotten);
    RUN(a_lane_between_late_processes);
    RUN(a_peer_that_has_given_up);
    RUN(nobody_listens);
    RUN(no_descriptor_is_left);
    RUN(a_late_process_tries_again);
    RUN(a_listener_without_the_key);
    return check_end();
}
