/* SPDX-License-Identifier: BSD-3-Clause */
/* The transport contract of btl/btl.h as a test.  It runs over every transport that opens on this
 * machine and, for shared memory, over each way of moving large data.  Every case is symmetric:
 * each process sends to its peer and expects the same from it.  So a transport for messages to the
 * own process runs the same cases in one process; the others use two processes. */
#include "btl/all/all.h"
#include "btl/btl.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/mem/segment.h"
#include "test/check.h"
#include "test/fake/btl_conformance.h"
#include "test/fake/btl_pair.h"
#include "test/unit/capture.h"

#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#define TIMEOUT_S 60
#define LEN_MAX (1u << 16)
#define WINDOW ((size_t)3 << 20) /* remote memory of a process */
#define GUARD 0x5a

enum { CTX_SEQ, CTX_ECHO, CTX_KEY, CTX_PUT, CTX_END };

static struct {
    int rank;
    struct btl *b;
    struct btl_peer *peer;
    uint32_t sent, received; /* of the numbered messages: tag is the number, src the length */
    uint32_t echoes;
    uint32_t ends; /* CTX_END messages received */
    uint32_t met;  /* `received` when the last CTX_END came */
    int delayed;   /* answers that got EAGAIN in an upcall */
    bool answer;
    char key[BTL_KEY_MAX];
    uint32_t keys_seen, keys_used;
    char *window; /* registered, WINDOW + 2 guards of 64 bytes */
    uint32_t puts_seen;
} t;

/* Replaces runtime/boot: the addresses of both processes, in shared memory. */
static struct blackboard {
    uint32_t len[2]; /* stored last; 0: not published yet */
    char blob[2][1024];
    uint32_t turn; /* the process that may use the windows below; 2: both have */
    char window[2][8192];
} * board;

static char pattern(uint32_t seed, size_t i) { return (char)(seed * 131 + i * 17 + (i >> 8) * 5); }

static void fill(char *buf, uint32_t seed, size_t len)
{
    for (size_t i = 0; i < len; i++)
        buf[i] = pattern(seed, i);
}

static bool filled(const char *buf, uint32_t seed, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (buf[i] != pattern(seed, i))
            return false;
    return true;
}

static void put_arrived(const struct btl_hdr *h, const char *data);

static int answer_echo(void)
{
    struct btl_hdr h = { CTX_ECHO, 0, 8 };
    char buf[8] = "echoecho";
    return t.b->ops->send(t.peer, &h, buf, 8);
}

static void on_recv(void *arg, struct btl_peer *from, const struct btl_hdr *h, const void *data,
                    size_t len)
{
    CHECK(arg == &t);
    CHECK(!t.peer || from == t.peer);
    CHECK_EQ(h->src, len);
    if (h->ctx == CTX_SEQ) {
        CHECK_EQ(h->tag, t.received);
        CHECK_MSG(filled(data, (uint32_t)h->tag, len), "payload of message %d, %zu bytes, differs",
                  h->tag, len);
        t.received++;
    } else if (h->ctx == CTX_ECHO) {
        CHECK(!memcmp(data, "echoecho", 8));
        t.echoes++;
        if (t.answer && answer_echo() == -RT_EAGAIN)
            t.delayed++;
    } else if (h->ctx == CTX_KEY) {
        memcpy(t.key, data, len);
        t.keys_seen++;
    } else if (h->ctx == CTX_PUT) {
        put_arrived(h, data);
    } else {
        uint32_t sent;
        memcpy(&sent, data, sizeof sent);
        CHECK_EQ(t.received, sent); /* everything sent before has arrived, and nothing else */
        t.met = t.received;
        t.ends++;
    }
}

static void on_down(void *arg, struct btl_peer *peer, int err)
{
    (void)arg;
    (void)peer;
    CHECK_MSG(err == 0, "the peer was reported lost: %s", rt_err_text(err));
}

static void send_now(uint32_t ctx, int tag, const void *buf, size_t len)
{
    struct btl_hdr h = { ctx, tag, (uint32_t)len };
    int err;

    while ((err = t.b->ops->send(t.peer, &h, buf, len)) == -RT_EAGAIN)
        t.b->ops->progress(t.b);
    CHECK_EQ(err, 0);
}

static int send_seq(size_t len)
{
    static char buf[LEN_MAX];
    struct btl_hdr h = { CTX_SEQ, (int32_t)t.sent, (uint32_t)len };

    fill(buf, t.sent, len);
    int err = t.b->ops->send(t.peer, &h, buf, len);
    memset(buf, GUARD, len); /* the buffer is free on return */
    if (err == 0)
        t.sent++;
    return err;
}

static void progress_until(const uint32_t *counter, uint32_t value)
{
    while (rt_load_relaxed(counter) < value && !check_failed_case) {
        if (t.b->ops->progress(t.b) == 0)
            rt_relax();
        while (t.delayed && answer_echo() == 0)
            t.delayed--;
    }
}

/* Both sides have received everything that the other sent before, and may continue. */
static void meet(void)
{
    static uint32_t meetings;
    send_now(CTX_END, 0, &t.sent, sizeof t.sent);
    progress_until(&t.ends, ++meetings);
    CHECK(!t.b->ops->connected || t.b->ops->connected(t.peer));
}

static void all_lengths(void)
{
    size_t max = t.b->caps.eager_max;

    CHECK(max <= LEN_MAX);
    for (size_t len = 0; len <= max; len += len < 600 || len + 97 > max ? 1 : 97)
        while (send_seq(len) == -RT_EAGAIN)
            t.b->ops->progress(t.b);
    meet();
}

static void flood_of_mixed_lengths(void)
{
    uint32_t seed = 1;

    for (int i = 0; i < 30000 && !check_failed_case; i++) {
        seed = seed * 1664525 + 1013904223;
        size_t len = seed >> 29 ? (seed >> 10) % 100 : (seed >> 8) % (t.b->caps.eager_max + 1);
        int err;
        while ((err = send_seq(len)) == -RT_EAGAIN)
            t.b->ops->progress(t.b);
        CHECK_EQ(err, 0);
    }
    meet();
}

/* A transport must refuse at some point instead of queueing without limit, and a refused message
 * must have no effect. */
static void refusal_does_nothing(void)
{
    uint32_t n = 0;
    int err;

    while ((err = send_seq(n % 2 ? 8 : t.b->caps.eager_max)) == 0 && n < 1000000)
        n++;
    CHECK_EQ(err, -RT_EAGAIN);
    for (int i = 0; i < 100; i++)
        if (send_seq(t.b->caps.eager_max) != -RT_EAGAIN)
            break;
    meet();
    while (send_seq(16) == -RT_EAGAIN)
        t.b->ops->progress(t.b);
    meet();
}

static void answers_from_upcalls(void)
{
    t.answer = true;
    while (answer_echo() == -RT_EAGAIN)
        t.b->ops->progress(t.b);
    progress_until(&t.echoes, 2000);
    meet(); /* both answer until both have sent enough */
    t.answer = false;
    t.delayed = 0;
    /* One or two echoes may still be in flight; the end message arrives after them. */
    meet();
}

static void poll_is_enough(void)
{
    if (!t.b->ops->poll)
        return;
    uint32_t first = t.met; /* the peer may have started already */
    for (uint32_t i = 1; i <= 500; i++) {
        while (send_seq(i) == -RT_EAGAIN)
            t.b->ops->poll(t.peer);
        while (t.received - first < i && !check_failed_case)
            if (t.b->ops->poll(t.peer) == 0)
                rt_relax();
    }
    meet();
}

/* ---- remote memory ---- */

struct counted_op {
    struct btl_op op;
    int calls, err;
};

static void counted_done(struct btl_op *op, int err)
{
    struct counted_op *c = (struct counted_op *)op;
    c->calls++;
    c->err = err;
}

struct put_note {
    uint64_t off, len;
    uint32_t seed;
};

/* The message that follows a put: the put's data must be visible now, and the bytes around them
 * unchanged. */
static void put_arrived(const struct btl_hdr *h, const char *data)
{
    struct put_note n;

    (void)h;
    memcpy(&n, data, sizeof n);
    char *w = t.window + 64;
    CHECK_MSG(filled(w + n.off, n.seed, n.len),
              "%llu bytes at offset %llu are not there when the next message is",
              (unsigned long long)n.len, (unsigned long long)n.off);
    for (size_t i = 1; i <= 64; i++)
        CHECK(w[(ptrdiff_t)n.off - (ptrdiff_t)i] == GUARD && w[n.off + n.len + i - 1] == GUARD);
    memset(w + n.off, GUARD, n.len);
    t.puts_seen++;
}

static const size_t lengths[] = { 0,
                                  1,
                                  3,
                                  47,
                                  48,
                                  49,
                                  64,
                                  4095,
                                  8192,
                                  8193,
                                  16385,
                                  65537,
                                  (1 << 20) - 1,
                                  (1 << 20) + 3,
                                  (5 << 19) + 7 };
#define NLENGTHS (sizeof lengths / sizeof lengths[0])

static struct btl_mem *window_mem;
static struct btl_rmem *remote;

/* filled_op: passed to expect(), or NULL. */
static void window_open(size_t len, struct btl_op *filled_op)
{
    char key[BTL_KEY_MAX] = { 0 };

    t.window = malloc(len + 128);
    memset(t.window, GUARD, len + 128);
    CHECK_EQ(t.b->ops->mem_reg(t.b, t.window + 64, len, NULL, &window_mem), 0);
    if (filled_op)
        t.b->ops->expect(window_mem, t.peer, filled_op);
    CHECK_EQ(t.b->ops->mem_key(window_mem, key), 0);
    send_now(CTX_KEY, 0, key, t.b->caps.key_len);
    progress_until(&t.keys_seen, ++t.keys_used);
    CHECK_EQ(t.b->ops->attach(t.peer, t.key, NULL, &remote), 0);
}

static void window_close(void)
{
    t.b->ops->detach(remote);
    meet(); /* the peer may write to this window until it has detached */
    t.b->ops->mem_dereg(window_mem);
    free(t.window);
}

static void wait_op(struct counted_op *c)
{
    while (!c->calls && !check_failed_case)
        t.b->ops->progress(t.b);
    CHECK_EQ(c->calls, 1);
    CHECK_EQ(c->err, 0);
}

static void put_is_there_before_the_next_message(void)
{
    if (!(t.b->caps.flags & BTL_PUT))
        return;
    t.puts_seen = 0;
    window_open(WINDOW, NULL);
    char *src = malloc(WINDOW);
    for (uint32_t i = 0; i < NLENGTHS && !check_failed_case; i++) {
        struct put_note n = { 1 + 7 * i, lengths[i], 1000 + i };
        struct counted_op c = { { counted_done }, 0, 0 };
        int err;
        fill(src, n.seed, n.len);
        while ((err = t.b->ops->put(remote, n.off, NULL, src, n.len, &c.op)) == -RT_EAGAIN)
            t.b->ops->progress(t.b);
        CHECK_EQ(err, 0);
        CHECK_EQ(c.calls, 0); /* done() may be called only from inside progress() */
        wait_op(&c);
        memset(src, 0, n.len); /* the buffer belongs to the test again */
        send_now(CTX_PUT, 0, &n, sizeof n);
        /* One put at a time: the peer checks the surrounding bytes. */
        progress_until(&t.puts_seen, i + 1);
        meet();
    }
    free(src);
    window_close();
}

/* Both sides write at the same time; no message follows the data. */
static void awaited_puts_are_told(void)
{
    if (!(t.b->caps.flags & BTL_EXPECT))
        return;
    for (uint32_t i = 0; i < NLENGTHS && !check_failed_case; i++) {
        size_t len = lengths[i], part = len / 3;
        struct counted_op all = { { counted_done }, 0, 0 }, out[2] = { all, all };
        char *src = malloc(len + 1);
        if (len < 2) {
            free(src);
            continue;
        }
        window_open(len, &all.op);
        remote->awaited = true;
        fill(src, i, len);
        for (int k = 0; k < 2; k++) { /* the second part first */
            size_t at = k ? 0 : part, n = k ? part : len - part;
            while (t.b->ops->put(remote, at, NULL, src + at, n, &out[k].op) == -RT_EAGAIN)
                t.b->ops->progress(t.b);
        }
        wait_op(&out[0]);
        wait_op(&out[1]);
        memset(src, 0, len);
        wait_op(&all);
        CHECK(filled(t.window + 64, i, len));
        CHECK(t.window[63] == GUARD && t.window[64 + len] == GUARD);
        free(src);
        window_close();
    }
}

static void get_reads_any_piece(void)
{
    if (!(t.b->caps.flags & BTL_GET))
        return;
    window_open(WINDOW, NULL);
    char *dst = malloc(WINDOW + 128);
    fill(t.window + 64, 42, WINDOW);
    meet();
    for (uint32_t i = 0; i < NLENGTHS; i++) {
        size_t off = 3 + 5 * i, len = lengths[i];
        struct counted_op c = { { counted_done }, 0, 0 };
        memset(dst, GUARD, WINDOW + 128);
        int err;
        while ((err = t.b->ops->get(remote, off, NULL, dst + 64, len, &c.op)) == -RT_EAGAIN)
            t.b->ops->progress(t.b);
        CHECK_EQ(err, 0);
        wait_op(&c);
        bool good = dst[63] == GUARD && dst[64 + len] == GUARD;
        for (size_t k = 0; k < len && good; k++)
            good = dst[64 + k] == pattern(42, off + k);
        CHECK_MSG(good, "get of %zu bytes at %zu differs", len, off);
    }
    meet();
    free(dst);
    window_close();
}

static void move(bool put, size_t off, char *buf, size_t len)
{
    struct counted_op c = { { counted_done }, 0, 0 };
    int err;
    do
        err = put ? t.b->ops->put(remote, off, NULL, buf, len, &c.op)
                  : t.b->ops->get(remote, off, NULL, buf, len, &c.op);
    while (err == -RT_EAGAIN && t.b->ops->progress(t.b) >= 0);
    CHECK_EQ(err, 0);
    wait_op(&c);
}

/* Sleeps, because a kernel that emulates the device needs processors. */
static void await_turn(uint32_t turn)
{
    while (rt_load_acquire(&board->turn) < turn && !check_failed_case)
        usleep(1000);
}

/* The ranks take turns; the other one makes no call.  The peer's memory has the data when the put
 * is done. */
static void windows_need_no_help(void)
{
    char key[BTL_KEY_MAX] = { 0 }, buf[sizeof board->window[0]],
         *theirs = board->window[1 - t.rank];
    if (!(t.b->caps.flags & BTL_WINDOW))
        return;
    CHECK_EQ(t.b->ops->window_reg(t.b, board->window[t.rank], sizeof buf, &window_mem), 0);
    CHECK_EQ(t.b->ops->mem_key(window_mem, key), 0);
    send_now(CTX_KEY, 0, key, t.b->caps.key_len);
    progress_until(&t.keys_seen, ++t.keys_used);
    CHECK_EQ(t.b->ops->attach(t.peer, t.key, NULL, &remote), 0);
    meet();
    await_turn((uint32_t)t.rank);
    for (uint32_t i = 1; i < NLENGTHS && lengths[i] + i <= sizeof buf; i++) {
        fill(buf, i, lengths[i]);
        move(true, i, buf, lengths[i]);
        CHECK_MSG(filled(theirs + i, i, lengths[i]), "put of %zu bytes is not there", lengths[i]);
        memset(buf, 0, sizeof buf);
        move(false, i, buf, lengths[i]);
        CHECK_MSG(filled(buf, i, lengths[i]), "get of %zu bytes differs", lengths[i]);
    }
    rt_store_release(&board->turn, (uint32_t)t.rank + 1);
    await_turn(2);
    meet();
    t.b->ops->detach(remote);
    t.b->ops->mem_dereg(window_mem);
}

/* Four puts in progress at once, with messages between them. */
static void puts_and_messages_mix(void)
{
    enum { N = 4 };
    size_t part = WINDOW / N;
    struct counted_op c[N];
    char *src[N];

    if (!(t.b->caps.flags & BTL_PUT))
        return;
    window_open(WINDOW, NULL);
    for (int round = 0; round < 5 && !check_failed_case; round++) {
        for (uint32_t i = 0; i < N; i++) {
            src[i] = malloc(part);
            fill(src[i], i + (uint32_t)round, part - 64 - i);
            c[i] = (struct counted_op){ { counted_done }, 0, 0 };
            while (t.b->ops->put(remote, i * part, NULL, src[i], part - 64 - i, &c[i].op) ==
                   -RT_EAGAIN)
                t.b->ops->progress(t.b);
            for (int k = 0; k < 20; k++)
                while (send_seq((size_t)k * 11) == -RT_EAGAIN)
                    t.b->ops->progress(t.b);
        }
        for (uint32_t i = 0; i < N; i++) {
            wait_op(&c[i]);
            free(src[i]);
        }
        meet();
        for (uint32_t i = 0; i < N; i++)
            CHECK(filled(t.window + 64 + i * part, i + (uint32_t)round, part - 64 - i));
        meet(); /* the next round starts after both have compared */
    }
    window_close();
}

static void wrong_ranges_are_refused(void)
{
    struct counted_op c = { { counted_done }, 0, 0 };

    if (!(t.b->caps.flags & BTL_PUT) || t.b->ops == btl_find("self"))
        return; /* messages to the own process need no protection */
    window_open(WINDOW, NULL);
    CHECK_EQ(t.b->ops->put(remote, WINDOW - 1, NULL, t.window, 2, &c.op), -RT_EINVAL);
    CHECK_EQ(t.b->ops->put(remote, WINDOW + 1, NULL, t.window, 0, &c.op), -RT_EINVAL);
    CHECK_EQ(c.calls, 0);
    window_close();
}

static void unreachable_processes(void)
{
    struct btl_peer *p = NULL;

    CHECK_EQ(t.b->ops->add_peer(t.b, &(struct rt_proc){ 7, 0 }, NULL, 0, &p), -RT_EUNREACH);
    CHECK_EQ(t.b->ops->add_peer(t.b, &(struct rt_proc){ 0, 12345 }, NULL, 0, &p), -RT_EUNREACH);
    CHECK(p == NULL);
    /* Adding the same process again returns the same peer. */
    CHECK_EQ(t.b->ops->add_peer(t.b, &t.peer->proc, NULL, 0, &p), 0);
    CHECK(p == t.peer);
}

static void close_with_data_queued(void)
{
    static char src[1 << 16];
    static struct counted_op c = { { counted_done }, 0, 0 };

    for (int i = 0; i < 50; i++)
        send_seq((size_t)i * 10);
    if (t.b->caps.flags & BTL_PUT) {
        window_open(WINDOW, NULL);
        t.b->ops->put(remote, 0, NULL, src, sizeof src, &c.op);
    }
    t.b->ops->del_peer(t.peer);
    fake_btl_end(t.b);
}

/* Adds the peer by its published address, if the transport needs an address. */
static int add_peer(int rank, const struct rt_proc *other)
{
    int len = t.b->ops->address(t.b, board->blob[rank], sizeof board->blob[rank]);
    CHECK(len >= 0);
    if (len == 0)
        return t.b->ops->add_peer(t.b, other, NULL, 0, &t.peer);
    rt_store_release(&board->len[rank], (uint32_t)len);
    while (!rt_load_acquire(&board->len[other->rank]))
        rt_relax();
    return t.b->ops->add_peer(t.b, other, board->blob[other->rank], board->len[other->rank],
                              &t.peer);
}

static bool open_transport(const struct btl_variant *v, int rank)
{
    const struct btl_ops *ops = btl_find(v->btl);
    struct btl_up up = { on_recv, on_down, &t, 0 };
    struct rt_proc other = { 0, (uint32_t)(v->nprocs - 1 - rank) };

    if (v->prepare)
        CHECK(v->prepare());
    CHECK_EQ(rt_node_open(btl_node_pair_nbytes()), 0);
    capture_begin();
    int n = ops->open(&up, &t.b, 1);
    const char *text = capture_end();
    CHECK_EQ(n, 1);
    CHECK(v->says ? strstr(text, v->says) != NULL : !*text);
    if (n != 1)
        return false;
    CHECK_EQ(btl_check(t.b), 0);
    CHECK_EQ(t.b->caps.flags, v->flags);
    CHECK_EQ(add_peer(rank, &other), 0);
    return !check_failed_case;
}

static void (*const cases[])(void) = {
    unreachable_processes,
    all_lengths,
    flood_of_mixed_lengths,
    refusal_does_nothing,
    answers_from_upcalls,
    poll_is_enough,
    put_is_there_before_the_next_message,
    awaited_puts_are_told,
    get_reads_any_piece,
    windows_need_no_help,
    puts_and_messages_mix,
    wrong_ranges_are_refused,
    close_with_data_queued,
};

static int run(int rank, void *arg)
{
    check_failed_case = 0;
    t.rank = rank;
    if (!open_transport(arg, rank))
        return 1;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cases[i]();
        if (check_failed_case)
            return 10 + (int)i; /* the exit status identifies the case */
    }
    rt_node_close();
    return 0;
}

int btl_conformance(const struct btl_variant *v)
{
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        return 1;
    int rc = fake_run_ranks(v->name, v->nprocs, run, (void *)(uintptr_t)v, TIMEOUT_S);
    munmap(board, sizeof *board);
    return rc;
}
