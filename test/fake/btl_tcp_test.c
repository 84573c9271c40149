/* SPDX-License-Identifier: BSD-3-Clause */
/* Input to btl/tcp from outside the job: unauthenticated connections, wrong keys, floods, invalid
 * frames, frames cut at every byte.  Each must end in a closed connection and a log line, never in
 * a message, a write to memory, or a crash.  One process: the transport under test and a hand-made
 * peer. */
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "test/check.h"
#include "btl/tcp/addr.h"
#include "test/fake/tcp_raw_peer.h"
#include "test/unit/capture.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static struct btl_tcp *tcp(void) { return (struct btl_tcp *)raw.b; }
static struct tcp_peer *peer_of(uint32_t rank)
{
    return tcp_peer_find(tcp(), (struct rt_proc){ 0, rank });
}

static uint32_t rnd(void)
{
    static uint32_t seed = 20261121;
    seed = seed * 1664525 + 1013904223;
    return seed >> 8;
}

static void nothing_happened(void)
{
    raw_pump();
    CHECK_EQ(raw.received, 0);
    CHECK_EQ(raw.downs, 0);
    CHECK_EQ(tcp()->nhalf_in, 0);
}

static void garbage_on_the_port(void)
{
    char junk[1000];
    if (!raw_open(0, 4))
        return;
    for (size_t i = 0; i < sizeof junk; i++)
        junk[i] = (char)rnd();
    capture_begin();
    int fd = raw_connect();
    CHECK_EQ(send(fd, junk, sizeof junk, MSG_NOSIGNAL), sizeof junk);
    CHECK(raw_ended(fd));
    close(fd);
    const char *text = capture_end();
    CHECK_MSG(strstr(text, "127.0.0.1"), "the warning does not name the address: %s", text);
    CHECK(strstr(text, "does not speak this protocol") != NULL);
    capture_begin();
    for (int i = 0; i < 20; i++) { /* logged once per host */
        fd = raw_connect();
        CHECK(send(fd, "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL) == 18);
        CHECK(raw_ended(fd));
        close(fd);
    }
    CHECK_STR(capture_end(), "");
    nothing_happened();
    raw_close();
}

static void wrong_key(void)
{
    uint8_t key[RT_SHA256_LEN];
    if (!raw_open(0, 4))
        return;
    memcpy(key, raw.addr.key, sizeof key);
    key[31] ^= 1;
    capture_begin();
    int fd = raw_connect();
    CHECK_EQ(raw_shake(fd, 1, TCP_FOR_MAIN, key), 0);
    CHECK(raw_ended(fd));
    close(fd);
    CHECK(strstr(capture_end(), "does not know the key") != NULL);
    nothing_happened();
    CHECK(!peer_of(1));
    raw_close();
}

/* Data after the proof must not be taken for messages before the proof has been checked. */
static void wrong_key_with_data(void)
{
    struct {
        struct tcp_hello h;
        struct tcp_proof p;
        char frame[24];
    } all;
    if (!raw_open(0, 4))
        return;
    memset(&all, 0, sizeof all);
    raw_hello(&all.h, 1, TCP_FOR_MAIN);
    raw_frame(all.frame, TCP_MSG, (struct btl_hdr){ 0, 0, 0 }, "12345678", 8);
    capture_begin();
    int fd = raw_connect();
    CHECK_EQ(send(fd, &all, sizeof all, MSG_NOSIGNAL), sizeof all);
    CHECK(raw_ended(fd));
    close(fd);
    capture_end();
    nothing_happened();
    raw_close();
}

static void wrong_hellos(void)
{
    if (!raw_open(0, 4))
        return;
    capture_begin();
    for (int i = 0; i < 8; i++) {
        struct tcp_hello h;
        raw_hello(&h, 1, TCP_FOR_MAIN);
        if (i == 0)
            h.from = 4; /* not a rank of the job */
        else if (i == 1)
            h.from = 0; /* the process's own rank */
        else if (i == 2)
            h.to = 2;
        else if (i == 3)
            h.token ^= 1;
        else if (i == 4)
            h.order = 0x04030201;
        else if (i == 5)
            h.purpose = 3;
        else if (i == 6)
            h.purpose = 0;
        else
            h.magic[7]++;
        int fd = raw_connect();
        CHECK_EQ(send(fd, &h, sizeof h, MSG_NOSIGNAL), sizeof h);
        CHECK(raw_ended(fd));
        close(fd);
    }
    capture_end();
    nothing_happened();
    raw_close();
}

static void cut_at_every_byte_of_the_handshake(void)
{
    struct tcp_hello h;
    struct tcp_proof p = { { 0 } };
    struct tcp_challenge c;
    if (!raw_open(0, 4))
        return;
    capture_begin();
    raw_hello(&h, 1, TCP_FOR_MAIN);
    for (size_t n = 0; n < sizeof h + sizeof p && !check_failed_case; n++) {
        int fd = raw_connect();
        size_t first = n < sizeof h ? n : sizeof h;
        CHECK_EQ(send(fd, &h, first, MSG_NOSIGNAL), first);
        if (first == sizeof h) {
            CHECK(raw_read(fd, &c, sizeof c));
            raw_mac("connector", &h, &c, 0, raw.addr.key, p.mac);
            CHECK_EQ(send(fd, &p, n - first, MSG_NOSIGNAL), n - first);
        }
        if (n % 2)
            raw_pump();
        close(fd);
    }
    nothing_happened();
    capture_end();
    CHECK(!peer_of(1));
    raw_close();
}

static bool no_half(void *arg)
{
    (void)arg;
    return tcp()->nhalf_in == 0;
}

/* The limit is five seconds; the test moves the clock instead of waiting. */
static void silence_ends(void)
{
    if (!raw_open(0, 4))
        return;
    int fd = raw_connect();
    raw_pump();
    CHECK_EQ(tcp()->nhalf_in, 1);
    struct rt_list *pos;
    rt_list_each (pos, &tcp()->half)
        rt_container(pos, struct tcp_conn, link)->since_ns -= 5100000000u;
    capture_begin();
    CHECK(raw_ended(fd));
    CHECK(strstr(capture_end(), "in time") != NULL);
    close(fd);
    nothing_happened();
    raw_close();
}

/* Hundreds of silent connections: a bounded number is kept open, and a process of the job can
 * connect. */
static void half_open_flood(void)
{
    int fds[300];
    if (!raw_open(0, 4))
        return;
    capture_begin();
    for (int i = 0; i < 300; i++)
        fds[i] = raw_connect();
    raw_pump();
    CHECK_MSG(tcp()->nhalf_in <= 64, "%d unauthenticated connections are held at once",
              tcp()->nhalf_in);
    CHECK(tcp()->nhalf_in >= 32);
    int fd = raw_join(1, TCP_FOR_MAIN);
    char frame[24];
    size_t n = raw_frame(frame, TCP_MSG, (struct btl_hdr){ 1, 2, 3 }, "12345678", 8);
    CHECK_EQ(send(fd, frame, n, MSG_NOSIGNAL), n);
    raw_pump();
    CHECK_EQ(raw.received, 1);
    for (int i = 0; i < 300; i++)
        close(fds[i]);
    CHECK(raw_until(no_half, NULL, 5000));
    capture_end();
    close(fd);
    raw_close();
}

/* A process of the job behind such connections in the kernel's queue waits only for their turns,
 * whether they are silent or send the start of a hello. */
static void a_flood_delays_no_peer(void)
{
    int fds[300];
    struct tcp_hello h;
    struct tcp_challenge c;
    if (!raw_open(0, 4))
        return;
    capture_begin();
    for (int i = 0; i < 300; i++) {
        fds[i] = raw_connect();
        CHECK(i % 2 || send(fds[i], TCP_MAGIC, 8, MSG_NOSIGNAL) == 8);
    }
    int fd = raw_connect();
    raw_hello(&h, 1, TCP_FOR_MAIN);
    CHECK_EQ(send(fd, &h, sizeof h, MSG_NOSIGNAL), sizeof h);
    for (int i = 0; i < 40; i++) {
        raw.b->ops->sleep_fd(raw.b, &(int){ 0 });
        raw.b->ops->progress(raw.b);
        CHECK(tcp()->nhalf_in <= 64);
    }
    CHECK_EQ(recv(fd, &c, sizeof c, MSG_DONTWAIT), sizeof c);
    for (int i = 0; i < 300; i++)
        close(fds[i]);
    close(fd);
    CHECK(raw_until(no_half, NULL, 5000));
    capture_end();
    raw_close();
}

static bool got_message(void *arg) { return raw.received >= *(uint32_t *)arg; }

/* A sequence of frames, cut into two writes at every byte, arrives unchanged. */
static void frames_cut_at_every_byte(void)
{
    static char stream[12288];
    static const size_t lens[] = { 0, 1, 7, 8, 48, 49, 100, 300, 1023, 1024, 5000 };
    size_t total = 0;
    if (!raw_open(0, 4))
        return;
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        char payload[5000];
        memset(payload, (int)(i + 1), sizeof payload);
        total += raw_frame(stream + total, TCP_MSG,
                           (struct btl_hdr){ 7, (int)i, (uint32_t)lens[i] }, payload, lens[i]);
    }
    int fd = raw_join(1, TCP_FOR_MAIN);
    uint32_t want = 0;
    for (size_t cut = 0; cut <= total && !check_failed_case; cut += cut < 700 ? 1 : 13) {
        CHECK_EQ(send(fd, stream, cut, MSG_NOSIGNAL), cut);
        tcp()->next_look_ns = 0;
        raw.b->ops->progress(raw.b);
        CHECK_EQ(send(fd, stream + cut, total - cut, MSG_NOSIGNAL), total - cut);
        want += sizeof lens / sizeof lens[0];
        CHECK(raw_until(got_message, &want, 2000));
        CHECK_EQ(raw.received, want);
        CHECK_EQ(raw.len, 5000);
        CHECK(raw.hdr.ctx == 7 && raw.hdr.tag == 10 && raw.hdr.src == 5000);
        CHECK(raw.data[0] == 11 && raw.data[4999] == 11);
    }
    CHECK_EQ(raw.downs, 0);
    close(fd);
    raw_close();
}

/* For 1 KiB or more the payload starts at byte 64 of its frame, which ends at a multiple of 64. */
static void long_frames_are_aligned(void)
{
    static const size_t lens[] = { 1023, 1024, 5001, TCP_LEN_MAX };
    static char data[TCP_LEN_MAX], got[TCP_LEN_MAX + 128];
    struct rt_proc one = { 0, 1 };
    struct btl_peer *peer = NULL;
    if (!raw_open(0, 4))
        return;
    int fd = raw_join(1, TCP_FOR_MAIN);
    raw_pump();
    CHECK_EQ(raw.b->ops->add_peer(raw.b, &one, NULL, 0, &peer), 0);
    peer->up = &raw;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(1 + i % 251);
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        struct btl_hdr h = { 1, 2, 3 };
        size_t head = lens[i] < 1024 ? 16 : 64,
               end = lens[i] < 1024 ? 1040 : head + (lens[i] + 63) / 64 * 64;
        CHECK_EQ(raw.b->ops->send(peer, &h, data, lens[i]), 0);
        memset(got, 0x5a, sizeof got);
        CHECK(raw_read(fd, got, end));
        CHECK(memcmp(got + head, data, lens[i]) == 0);
        for (size_t k = 16; k < end; k++)
            if (k < head || k >= head + lens[i])
                CHECK_EQ(got[k], 0);
    }
    close(fd);
    raw_close();
}

/* Four long frames are slightly more than one read takes: the last one starts far into the shared
 * buffer, and its rest is read after it. */
static void a_long_frame_across_two_reads(void)
{
    enum { FRAMES = 4 };
    static char stream[FRAMES * (TCP_LEN_MAX + 128)], data[TCP_LEN_MAX];
    size_t total = 0, sent = 0;
    int there = 0;
    if (!raw_open(0, 4))
        return;
    int fd = raw_join(1, TCP_FOR_MAIN);
    raw_pump();
    int in = peer_of(1)->main->fd;
    tcp_set_option(in, SOL_SOCKET, SO_RCVBUF, 1 << 20);
    for (int i = 0; i < FRAMES; i++) {
        for (size_t k = 0; k < sizeof data; k++)
            data[k] = (char)(k % 251 + k / 8192 + (size_t)i);
        total += raw_frame(stream + total, TCP_MSG, (struct btl_hdr){ 7, i, 0 }, data, sizeof data);
    }
    CHECK(total > TCP_RX && total - TCP_RX < TCP_LEN_MAX / 2);
    for (int ms = 0; ms < 5000 && (size_t)there < total; ms++, usleep(1000)) {
        ssize_t n = send(fd, stream + sent, total - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        sent += n > 0 ? (size_t)n : 0;
        CHECK(ioctl(in, FIONREAD, &there) == 0);
    }
    CHECK_EQ(there, total);
    tcp()->next_look_ns = 0;
    raw.b->ops->progress(raw.b); /* one pass */
    CHECK_EQ(raw.received, FRAMES);
    CHECK_EQ(raw.hdr.tag, FRAMES - 1);
    CHECK_EQ(raw.len, sizeof data);
    CHECK(memcmp(raw.data, data, sizeof data) == 0);
    close(fd);
    raw_close();
}

/* ---- bursts ---- */

/* Whether the kernel's state is what the transport assumes. */
static bool holds(void)
{
    int nodelay = -1;
    socklen_t len = sizeof nodelay;
    int fd = peer_of(1)->main->fd;
    CHECK_EQ(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &nodelay, &len), 0);
    CHECK_EQ(nodelay == 0, tcp()->burst_holds);
    return nodelay == 0;
}

/* Reads while the transport makes no progress; false: some bytes do not arrive. */
static bool read_alone(int fd, size_t len)
{
    static char sink[TCP_LEN_MAX];
    struct timeval limit = { .tv_sec = 10 };
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    while (len) {
        ssize_t n = recv(fd, sink, len < sizeof sink ? len : sizeof sink, 0);
        if (n <= 0)
            return false;
        len -= (size_t)n;
    }
    return true;
}

/* Sends n long frames without a pause; returns their length in bytes. */
static size_t burst(struct btl_peer *peer, int n)
{
    static const char data[TCP_LEN_MAX];
    struct btl_hdr h = { 0 };
    for (int i = 0; i < n; i++) {
        CHECK_EQ(raw.b->ops->send(peer, &h, data, sizeof data), 0);
        CHECK_EQ(holds(), i > 0);
        tcp()->long_ns = rt_now_ns(); /* this process may have been off its core meanwhile */
    }
    return (size_t)n * tcp_frame_len(sizeof data);
}

/* The end of a long frame may be held back for the next frame of its burst, but not beyond a
 * progress call or a short frame; it arrives if neither follows. */
static void ends_of_frames_wait_in_bursts_only(void)
{
    struct btl_hdr h = { 0 };
    struct rt_proc one = { 0, 1 };
    struct btl_peer *peer = NULL;
    if (!raw_open(0, 4))
        return;
    int fd = raw_join(1, TCP_FOR_MAIN);
    raw_pump();
    CHECK_EQ(raw.b->ops->add_peer(raw.b, &one, NULL, 0, &peer), 0);
    peer->up = &raw;
    tcp_set_option(peer_of(1)->main->fd, SOL_SOCKET, SO_SNDBUF, 1 << 20);
    tcp_set_option(fd, SOL_SOCKET, SO_RCVBUF, 1 << 20);

    size_t len = burst(peer, 3); /* no frame follows */
    CHECK(read_alone(fd, len));
    CHECK(holds());

    raw.b->ops->progress(raw.b); /* progress, of either kind */
    CHECK(!holds());
    len = burst(peer, 2);
    raw.b->ops->poll(peer);
    CHECK(!holds());
    CHECK(read_alone(fd, len));

    len = burst(peer, 2);
    CHECK_EQ(raw.b->ops->send(peer, &h, "12345678", 8), 0); /* a short frame */
    CHECK(!holds());
    CHECK(read_alone(fd, len + tcp_frame_len(8)));

    len = burst(peer, 2);
    tcp()->long_ns -= 1000000; /* a pause: the next frame starts another burst */
    len += burst(peer, 2);
    CHECK(read_alone(fd, len));

    raw.b->ops->progress(raw.b);
    burst(peer, 2); /* the connection ends during a burst */
    tcp_conn_close(peer_of(1)->main);
    CHECK(!tcp()->burst && !tcp()->burst_holds);
    close(fd);
    raw_close();
}

static bool is_lost(void *arg)
{
    const struct tcp_peer *p = peer_of(*(uint32_t *)arg);
    return p && p->lost;
}

/* Writing these bytes ends the connection of rank 1, and no message results. */
static void ends_rank_1(const void *bytes, size_t len, const char *says)
{
    uint32_t one = 1;
    if (!raw_open(0, 4))
        return;
    capture_begin();
    int fd = raw_join(1, TCP_FOR_MAIN);
    CHECK_EQ(send(fd, bytes, len, MSG_NOSIGNAL), len);
    CHECK(raw_until(is_lost, &one, 2000));
    const char *text = capture_end();
    CHECK_MSG(strstr(text, says), "the log does not say \"%s\": %s", says, text);
    CHECK_EQ(raw.received, 0);
    close(fd);
    raw_close();
}

static void frames_that_are_none(void)
{
    static const uint32_t words[] = { 0,          1,          0xffffffff, 0x06000000, 0x00000010,
                                      0x01010041, 0x01ffffff, 0x02010009, 0x03000001, 0x05000008 };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct tcp_frame f = { words[i], { 0 } };
        ends_rank_1(&f, sizeof f, "invalid frame");
    }
    struct tcp_frame put = { tcp_word(TCP_PUT, 3), { 0 } };
    char both[sizeof put + 8] = { 0 };
    memcpy(both, &put, sizeof put);
    ends_rank_1(both, sizeof both, "invalid frame"); /* too short for its offset */
}

/* ---- peers that do not read ---- */

/* Sends to rank `to` until the transport refuses. */
static void close_window(uint32_t to)
{
    static const char data[TCP_LEN_MAX];
    struct rt_proc proc = { 0, to };
    struct btl_peer *peer = NULL;
    struct btl_hdr h = { 0 };
    CHECK_EQ(raw.b->ops->add_peer(raw.b, &proc, NULL, 0, &peer), 0);
    if (!peer)
        return;
    peer->up = &raw;
    for (int again = 0; again < 3; again++, raw_pump())
        while (raw.b->ops->send(peer, &h, data, sizeof data) == 0) {
        }
}

/* Neither rank reads, so the windows are closed, and the kernel probes both ever more rarely.  Rank
 * 1's kernel is otherwise silent, as if its host had been cut off: the rank is lost, although it
 * answered every probe that was sent.  Rank 2 is not calling MPI, and keepalive shows that its host
 * is up. */
static void silence_behind_a_closed_window(void)
{
    uint32_t silent = 1, computes = 2;
    int timeout_s = cfg.net_timeout_s;
    cfg.net_timeout_s = 1;
    if (!raw_open(0, 4))
        return;
    int fd[2] = { raw_join(silent, TCP_FOR_MAIN), raw_join(computes, TCP_FOR_MAIN) };
    tcp_set_option(fd[1], SOL_SOCKET, SO_KEEPALIVE, 1);
    tcp_set_option(fd[1], IPPROTO_TCP, TCP_KEEPIDLE, 1);
    tcp_set_option(fd[1], IPPROTO_TCP, TCP_KEEPINTVL, 1);
    close_window(silent);
    close_window(computes);
    capture_begin();
    for (int i = 0; i < 3000 && !is_lost(&silent); i++) {
        raw_pump();
        usleep(10000);
    }
    CHECK(strstr(capture_end(), "rank 1 is lost") != NULL);
    CHECK(is_lost(&silent));
    CHECK(!is_lost(&computes));
    CHECK_EQ(raw.downs, 1);
    close(fd[0]);
    close(fd[1]);
    raw_close();
    cfg.net_timeout_s = timeout_s;
}

/* ---- invalid puts ---- */

#define WINDOW 4096
static char window[WINDOW + 128];
static struct btl_mem *mem;
static struct tcp_key key;

static void window_open(void)
{
    memset(window, 0x5a, sizeof window);
    CHECK_EQ(tcp_mem_reg(raw.b, window + 64, WINDOW, NULL, &mem), 0);
    CHECK_EQ(tcp_mem_key(mem, &key), 0);
}

static bool window_untouched(void)
{
    for (size_t i = 0; i < sizeof window; i++)
        if (window[i] != 0x5a)
            return false;
    return true;
}

struct bad_put {
    uint32_t region, gen;
    uint64_t off, len;
};

static void bad_puts(struct bad_put *p)
{
    p[0] = (struct bad_put){ key.region + 1, key.gen, 0, 8 };
    p[1] = (struct bad_put){ UINT32_MAX, key.gen, 0, 8 };
    p[2] = (struct bad_put){ key.region, key.gen + 2, 0, 8 };
    p[3] = (struct bad_put){ key.region, key.gen - 1, 0, 8 };
    p[4] = (struct bad_put){ key.region, key.gen, WINDOW - 7, 8 };
    p[5] = (struct bad_put){ key.region, key.gen, WINDOW + 1, 8 };
    p[6] = (struct bad_put){ key.region, key.gen, UINT64_MAX - 3, 8 };
    p[7] = (struct bad_put){ key.region, key.gen, (uint64_t)-8, 8 };
}
#define NBAD 8

static void puts_outside_on_the_main_connection(void)
{
    for (int i = 0; i < NBAD; i++) {
        struct bad_put bad[NBAD];
        char payload[16], frame[64];
        uint32_t one = 1;
        if (!raw_open(0, 4))
            return;
        window_open();
        bad_puts(bad);
        memcpy(payload, &bad[i].off, 8);
        memset(payload + 8, 1, 8);
        struct btl_hdr h = { 0, (int32_t)bad[i].region, bad[i].gen };
        size_t n = raw_frame(frame, TCP_PUT, h, payload, sizeof payload);
        capture_begin();
        int fd = raw_join(1, TCP_FOR_MAIN);
        CHECK_EQ(send(fd, frame, n, MSG_NOSIGNAL), n);
        CHECK(raw_until(is_lost, &one, 2000));
        CHECK_MSG(*capture_end(), "put %d outside of the memory is not in the log", i);
        CHECK(window_untouched());
        close(fd);
        tcp_mem_dereg(mem);
        raw_close();
    }
}

static void puts_outside_on_a_lane(void)
{
    for (int i = 0; i < NBAD; i++) {
        struct bad_put bad[NBAD];
        char data[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
        uint32_t one = 1;
        if (!raw_open(0, 4))
            return;
        window_open();
        bad_puts(bad);
        struct tcp_lane_frame f = { TCP_LANE_MAGIC, 1,          bad[i].region, bad[i].gen,
                                    bad[i].off,     bad[i].len, { 0 } };
        capture_begin();
        int fd = raw_join(1, TCP_FOR_MAIN), lane = raw_join(1, TCP_FOR_LANE);
        CHECK_EQ(send(lane, &f, sizeof f, MSG_NOSIGNAL), sizeof f);
        CHECK_EQ(send(lane, data, sizeof data, MSG_NOSIGNAL), sizeof data);
        CHECK(raw_until(is_lost, &one, 2000));
        CHECK_MSG(strstr(capture_end(), "not registered"), "put %d is not in the log", i);
        CHECK(window_untouched());
        close(lane);
        close(fd);
        tcp_mem_dereg(mem);
        raw_close();
    }
}

/* The memory is freed during a put: not one byte more is written. */
static void put_into_memory_that_goes(void)
{
    static char data[WINDOW];
    uint32_t one = 1;
    if (!raw_open(0, 4))
        return;
    window_open();
    memset(data, 1, sizeof data);
    struct tcp_lane_frame f = { TCP_LANE_MAGIC, 1, key.region, key.gen, 0, WINDOW, { 0 } };
    capture_begin();
    int fd = raw_join(1, TCP_FOR_MAIN), lane = raw_join(1, TCP_FOR_LANE);
    CHECK_EQ(send(lane, &f, sizeof f, MSG_NOSIGNAL), sizeof f);
    CHECK_EQ(send(lane, data, 1000, MSG_NOSIGNAL), 1000);
    raw_pump();
    CHECK_EQ(window[64], 1);
    CHECK_EQ(window[64 + 999], 1);
    CHECK_EQ(window[64 + 1000], 0x5a);
    tcp_mem_dereg(mem);
    memset(window, 0x5a, sizeof window);
    CHECK_EQ(send(lane, data, WINDOW - 1000, MSG_NOSIGNAL), WINDOW - 1000);
    CHECK(raw_until(is_lost, &one, 2000));
    capture_end();
    CHECK(window_untouched());
    close(lane);
    close(fd);
    raw_close();
}

/* A process that waits for a message polls that peer only; data on the peer's lanes must come in as
 * well. */
static void poll_reads_lanes(void)
{
    char data[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    if (!raw_open(0, 4))
        return;
    window_open();
    struct tcp_lane_frame f = { TCP_LANE_MAGIC, 1, key.region, key.gen, 0, sizeof data, { 0 } };
    int fd = raw_join(1, TCP_FOR_MAIN), lane = raw_join(1, TCP_FOR_LANE);
    raw_pump();
    struct tcp_peer *p = peer_of(1);
    CHECK(p && p->up && p->nlanes == 1);
    CHECK_EQ(send(lane, &f, sizeof f, MSG_NOSIGNAL), sizeof f);
    CHECK_EQ(send(lane, data, sizeof data, MSG_NOSIGNAL), sizeof data);
    for (int i = 0; p && i < 2000 && window[64] != 1; i++, usleep(1000))
        raw.b->ops->poll(&p->base);
    CHECK_EQ(window[64], 1);
    CHECK_EQ(window[64 + sizeof data], 0x5a);
    close(lane);
    close(fd);
    tcp_mem_dereg(mem);
    raw_close();
}

static void lane_without_a_main_connection(void)
{
    if (!raw_open(0, 4))
        return;
    int fd = raw_connect();
    CHECK_EQ(raw_shake(fd, 1, TCP_FOR_LANE, raw.addr.key), TCP_BUSY);
    CHECK(raw_ended(fd));
    close(fd);
    nothing_happened();
    raw_close();
}

/* Random bytes, valid frames with some bytes changed, on both kinds of connections. */
static void fuzz(void)
{
    static char buf[8192];
    for (int round = 0; round < 300 && !check_failed_case; round++) {
        uint32_t one = 1;
        if (!raw_open(0, 4))
            return;
        window_open();
        capture_begin();
        int fd = raw_join(1, TCP_FOR_MAIN), lane = raw_join(1, TCP_FOR_LANE);
        size_t total = 0;
        while (total < 4096) {
            char payload[200];
            for (size_t i = 0; i < sizeof payload; i++)
                payload[i] = (char)rnd();
            struct btl_hdr h = { rnd(), (int32_t)(rnd() % 3), rnd() % 3 };
            uint64_t off = rnd() % (2 * WINDOW);
            memcpy(payload, &off, 8);
            total += raw_frame(buf + total, rnd() % 4 ? TCP_MSG : 1 + rnd() % 5, h, payload,
                               rnd() % sizeof payload);
        }
        for (uint32_t k = rnd() % 8; k > 0; k--)
            buf[rnd() % total] = (char)rnd();
        for (size_t at = 0; at < total;) {
            size_t n = 1 + rnd() % 1500;
            n = n < total - at ? n : total - at;
            if (send(fd, buf + at, n, MSG_NOSIGNAL) < 0)
                break;
            at += n;
            raw.b->ops->sleep_fd(raw.b, &(int){ 0 });
            raw.b->ops->progress(raw.b);
        }
        struct tcp_lane_frame f = { TCP_LANE_MAGIC, rnd(),        rnd() % 2, rnd() % 4,
                                    rnd() % 8192,   rnd() % 8192, { 0 } };
        if (send(lane, &f, sizeof f, MSG_NOSIGNAL) > 0 && send(lane, buf, 3000, MSG_NOSIGNAL) > 0)
            raw_pump();
        close(fd);
        close(lane);
        raw_until(is_lost, &one, 1);
        capture_end();
        for (int i = 0; i < 64; i++)
            CHECK(window[i] == 0x5a && window[64 + WINDOW + i] == 0x5a);
        tcp_mem_dereg(mem);
        raw_close();
    }
}

static void addresses_that_are_none(void)
{
    struct tcp_address good = { .version = TCP_ADDRESS_VERSION, .naddrs = 2, .port = 1 }, *out;
    char blob[sizeof good];
    size_t len = tcp_address_len(2);
    memcpy(blob, &good, sizeof good);
    CHECK_EQ(tcp_address_read(blob, len, &out), 0);
    free(out);
    for (size_t n = 0; n < sizeof good; n++)
        if (n != len)
            CHECK(tcp_address_read(blob, n, &out) < 0);
    for (int i = 0; i < 20000; i++) {
        for (size_t k = 0; k < sizeof blob; k++)
            blob[k] = (char)rnd();
        blob[0] = rnd() % 2 ? TCP_ADDRESS_VERSION : blob[0];
        size_t n = rnd() % 4 ? tcp_address_len((uint8_t)blob[1] % 20) : rnd() % sizeof blob;
        n = n < sizeof blob ? n : sizeof blob;
        if (tcp_address_read(blob, n, &out) == 0) {
            struct tcp_route r[TCP_ADDRS_MAX + 1];
            struct btl_tcp b = { .nifs = 1, .ifs[0] = { .family = 4, .prefix = 24 } };
            CHECK(tcp_routes(&b, out, r) <= TCP_ADDRS_MAX);
            free(out);
        }
    }
}

int main(void)
{
    rt_cfg_load();
    RUN(garbage_on_the_port);
    RUN(wrong_key);
    RUN(wrong_key_with_data);
    RUN(wrong_hellos);
    RUN(cut_at_every_byte_of_the_handshake);
    RUN(silence_ends);
    RUN(half_open_flood);
    RUN(a_flood_delays_no_peer);
    RUN(frames_cut_at_every_byte);
    RUN(long_frames_are_aligned);
    RUN(a_long_frame_across_two_reads);
    RUN(ends_of_frames_wait_in_bursts_only);
    RUN(frames_that_are_none);
    RUN(silence_behind_a_closed_window);
    RUN(puts_outside_on_the_main_connection);
    RUN(puts_outside_on_a_lane);
    RUN(put_into_memory_that_goes);
    RUN(poll_reads_lanes);
    RUN(lane_without_a_main_connection);
    RUN(fuzz);
    RUN(addresses_that_are_none);
    return check_end();
}
