/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts of btl/tcp whose target notifies its user when the data have come.  There is no
 * acknowledgement, so the side that may still lose data has to detect it.  One side is the
 * transport, the other is hand-made. */
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "test/check.h"
#include "test/fake/tcp_raw_peer.h"
#include "test/unit/capture.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define LEN 4096
static char window[LEN], data[LEN];
static struct btl_mem *mem;
static struct tcp_key key;
static int fd, lane; /* of the hand-made side, rank 1 */

static struct told {
    struct btl_op op;
    int calls, err;
} told;

static void tell(struct btl_op *op, int err)
{
    struct told *t = (struct told *)op;
    t->calls++;
    t->err = err;
}

static struct btl_tcp *tcp(void) { return (struct btl_tcp *)raw.b; }
static struct tcp_peer *one(void) { return tcp_peer_find(tcp(), (struct rt_proc){ 0, 1 }); }

static bool is_lost(void *arg)
{
    const struct tcp_peer *p = tcp_peer_find(tcp(), (struct rt_proc){ 0, *(uint32_t *)arg });
    return p && p->lost;
}

static bool has_told(void *arg)
{
    (void)arg;
    return told.calls > 0;
}

/* Connects as rank 1, which is expected to fill the window. */
static bool begin(void)
{
    struct rt_proc proc = { 0, 1 };
    struct btl_peer *p = NULL;
    told = (struct told){ .op = { tell } };
    memset(window, 0x5a, sizeof window);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(1 + i % 83);
    if (!raw_open(0, 4))
        return false;
    fd = raw_join(1, TCP_FOR_MAIN);
    lane = raw_join(1, TCP_FOR_LANE);
    raw_pump();
    CHECK_EQ(raw.b->ops->add_peer(raw.b, &proc, NULL, 0, &p), 0);
    if (!p)
        return false;
    p->up = &raw;
    CHECK_EQ(raw.b->ops->mem_reg(raw.b, window, LEN, NULL, &mem), 0);
    raw.b->ops->expect(mem, p, &told.op);
    CHECK_EQ(raw.b->ops->mem_key(mem, &key), 0);
    return true;
}

static void end(void)
{
    raw.b->ops->mem_dereg(mem);
    CHECK_EQ(one()->awaited, 0);
    close(fd);
    close(lane);
    raw_close();
}

/* A piece on a lane; only `sent` of its `len` bytes are sent. */
static void piece(int to, uint64_t off, uint64_t len, uint64_t sent)
{
    struct tcp_lane_frame f = { TCP_LANE_MAGIC, 1, key.region, key.gen, off, len, { 0 } };
    CHECK_EQ(send(to, &f, sizeof f, MSG_NOSIGNAL), sizeof f);
    if (sent)
        CHECK_EQ(send(to, data + off % LEN, sent, MSG_NOSIGNAL), sent);
}

static void short_put(uint64_t off, size_t len)
{
    static char payload[8 + LEN], frame[LEN + 256];
    struct btl_hdr h = { 0, (int32_t)key.region, key.gen };
    memcpy(payload, &off, 8);
    memcpy(payload + 8, data + off, len);
    size_t n = raw_frame(frame, TCP_PUT, h, payload, 8 + len);
    CHECK_EQ(send(fd, frame, n, MSG_NOSIGNAL), n);
}

static bool nothing_to_read(int from)
{
    char c;
    return recv(from, &c, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static void told_once_and_without_an_answer(void)
{
    if (!begin())
        return;
    piece(lane, 1000, LEN - 1000, LEN - 1000);
    raw_pump();
    CHECK_EQ(told.calls, 0);
    CHECK_EQ(one()->awaited, 1);
    short_put(0, 600);
    raw_pump();
    CHECK_EQ(told.calls, 0);
    piece(lane, 600, 400, 399);
    raw_pump();
    CHECK_EQ(told.calls, 0);
    CHECK_EQ(send(lane, data + 999, 1, MSG_NOSIGNAL), 1);
    CHECK(raw_until(has_told, NULL, 2000));
    CHECK_EQ(told.calls, 1);
    CHECK_EQ(told.err, 0);
    CHECK_EQ(one()->awaited, 0);
    CHECK(!memcmp(window, data, LEN));
    CHECK(nothing_to_read(fd));
    CHECK_EQ(raw.downs, 0);
    end();
}

/* More data than expected, and another rank's data. */
static void what_was_not_expected(void)
{
    for (uint32_t from = 1; from < 3; from++) {
        if (!begin())
            return;
        capture_begin();
        int fd2 = from == 2 ? raw_join(2, TCP_FOR_MAIN) : -1;
        int lane2 = from == 2 ? raw_join(2, TCP_FOR_LANE) : -1;
        piece(from == 2 ? lane2 : lane, 0, LEN - 1, LEN - 1);
        if (from == 1)
            piece(lane, 0, 2, 2);
        CHECK(raw_until(is_lost, &from, 2000));
        CHECK(*capture_end());
        CHECK_EQ(told.calls, 0);
        CHECK(from == 1 || !one()->lost);
        if (from == 2) {
            close(fd2);
            close(lane2);
        }
        end();
    }
}

/* A lane that ends before awaited data have arrived means a lost rank: the data may have been on
 * that lane. */
static void a_lane_that_ends(void)
{
    uint32_t rank = 1;
    for (int awaited = 0; awaited < 2; awaited++) {
        if (!begin())
            return;
        capture_begin();
        if (!awaited) {
            piece(lane, 0, LEN, LEN);
            CHECK(raw_until(has_told, NULL, 2000));
        }
        shutdown(lane, SHUT_RDWR);
        CHECK_EQ(raw_until(is_lost, &rank, awaited ? 5000 : 1000), awaited);
        CHECK_EQ(raw.downs, awaited);
        CHECK_EQ(told.calls, !awaited);
        CHECK_EQ(*capture_end() != 0, awaited);
        end();
    }
}

/* The sender has said good-bye and closed before anything was read: the data that it put count, and
 * missing data are detected. */
static void the_sender_leaves(void)
{
    uint32_t rank = 1;
    for (uint64_t missing = 0; missing < 2; missing++) {
        char bye[64];
        if (!begin())
            return;
        capture_begin();
        size_t n = raw_frame(bye, TCP_BYE, (struct btl_hdr){ 0 }, NULL, 0);
        piece(lane, 0, LEN, LEN - missing);
        CHECK_EQ(send(fd, bye, n, MSG_NOSIGNAL), n);
        shutdown(fd, SHUT_WR);
        shutdown(lane, SHUT_WR);
        usleep(10000); /* loopback: all of it is in this kernel, and arrives in one pass */
        CHECK(raw_until(is_lost, &rank, 5000));
        CHECK_EQ(told.calls, !missing);
        CHECK_EQ(raw.downs, missing);
        capture_end();
        end();
    }
}

/* At the origin: a put is done when the kernel has the data; acknowledgements do not matter. */
static void done_without_an_acknowledgement(void)
{
    static char big[1 << 20], got[sizeof(struct tcp_lane_frame) + sizeof big];
    struct tcp_key theirs = { .region = 3, .gen = 5, .len = sizeof big };
    struct btl_rmem *r;
    uint32_t rank = 1;
    for (int acked = 0; acked < 2; acked++) {
        struct told out = { .op = { tell } };
        if (!begin())
            return;
        CHECK_EQ(raw.b->ops->attach(&one()->base, &theirs, NULL, &r), 0);
        r->awaited = true;
        if (acked) { /* while the put waits for room: both kernels hold less than it */
            int len = 2000;
            setsockopt(one()->lanes[0]->fd, SOL_SOCKET, SO_SNDBUF, &len, sizeof len);
            setsockopt(lane, SOL_SOCKET, SO_RCVBUF, &len, sizeof len);
        }
        CHECK_EQ(raw.b->ops->put(r, 0, NULL, big, sizeof big, &out.op), 0);
        CHECK_EQ(out.calls, 0); /* not from within the call */
        if (acked) {
            char frame[64];
            size_t n = raw_frame(frame, TCP_ACK, (struct btl_hdr){ tcp()->next_put, 1, 0 }, NULL,
                                 0);
            capture_begin();
            CHECK_EQ(send(fd, frame, n, MSG_NOSIGNAL), n);
            CHECK(raw_until(is_lost, &rank, 2000));
            CHECK(strstr(capture_end(), "invalid frame") != NULL);
            raw_pump();
            CHECK_EQ(out.err, -RT_EPEER);
        } else {
            CHECK(raw_read(lane, got, sizeof got));
            raw_pump();
            CHECK_EQ(out.err, 0);
        }
        CHECK_EQ(out.calls, 1);
        raw.b->ops->detach(r);
        end();
    }
}

int main(void)
{
    rt_cfg_load();
    RUN(told_once_and_without_an_answer);
    RUN(what_was_not_expected);
    RUN(a_lane_that_ends);
    RUN(the_sender_leaves);
    RUN(done_without_an_acknowledgement);
    return check_end();
}
