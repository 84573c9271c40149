/* SPDX-License-Identifier: BSD-3-Clause */
/* A hand-made peer for the tests of btl/tcp: see tcp_raw_peer.h.  It has its own code for the
 * handshake, so that an error in the transport's code is not repeated. */
#include "test/fake/tcp_raw_peer.h"
#include "btl/tcp/handshake.h"
#include "test/check.h"
#include "test/fake/btl_pair.h"
#include "test/patience.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

struct raw_world raw;

static void on_recv(void *arg, struct btl_peer *from, const struct btl_hdr *h, const void *data,
                    size_t len)
{
    (void)arg;
    (void)from;
    CHECK(len <= sizeof raw.data);
    raw.hdr = *h;
    raw.len = len;
    memcpy(raw.data, data, len);
    raw.received++;
}

static void on_down(void *arg, struct btl_peer *peer, int err)
{
    (void)arg;
    (void)peer;
    raw.downs += err != 0; /* 0: an orderly end */
}

bool raw_open(int rank, int size)
{
    struct btl_up up = { on_recv, on_down, &raw, 0 };
    memset(&raw, 0, sizeof raw);
    fake_boot_as("raw", rank, size);
    CHECK_EQ(btl_tcp_ops.open(&up, &raw.b, 1), 1);
    if (!raw.b)
        return false;
    CHECK(btl_tcp_ops.address(raw.b, &raw.addr, sizeof raw.addr) > 0);
    return true;
}

void raw_close(void) { btl_tcp_ops.close(raw.b); }

bool raw_until(bool (*cond)(void *arg), void *arg, int ms)
{
    struct watch watch = watch_begin();
    while (!cond(arg)) {
        if (watch_over(&watch, (uint64_t)ms * 1000000u))
            return false;
        raw.b->ops->sleep_fd(raw.b, &(int){ 0 }); /* poll now */
        raw.b->ops->progress(raw.b);
        usleep(20);
    }
    return true;
}

static bool never(void *arg)
{
    int *n = arg;
    return ++*n > 20;
}

void raw_pump(void)
{
    int n = 0;
    raw_until(never, &n, 1000);
}

int raw_connect(void)
{
    struct sockaddr_in a = { .sin_family = AF_INET,
                             .sin_port = htons(raw.addr.port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    CHECK(fd >= 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* each write is a packet */
    return fd;
}

struct reading {
    int fd;
    char *buf;
    size_t len, have;
    bool ended;
};

static bool read_on(void *arg)
{
    struct reading *r = arg;
    ssize_t n = recv(r->fd, r->buf + r->have, r->len - r->have, MSG_DONTWAIT);
    if (n > 0)
        r->have += (size_t)n;
    r->ended = r->len && (n == 0 || (n < 0 && errno != EAGAIN));
    return r->ended || r->have == r->len;
}

bool raw_read(int fd, void *buf, size_t len)
{
    struct reading r = { fd, buf, len, 0, false };
    return raw_until(read_on, &r, 5000) && !r.ended;
}

bool raw_ended(int fd)
{
    char buf[256];
    struct reading r = { fd, buf, sizeof buf, 0, false };
    return raw_until(read_on, &r, 2000) && r.ended;
}

void raw_hello(struct tcp_hello *h, uint32_t from, enum tcp_purpose purpose)
{
    *h = (struct tcp_hello){ .order = TCP_ORDER,
                             .job = tcp_own_name().job,
                             .purpose = purpose,
                             .from = from,
                             .to = (uint32_t)rt_boot.rank,
                             .token = ((struct btl_tcp *)raw.b)->token };
    memcpy(h->magic, TCP_MAGIC, 8);
    for (size_t i = 0; i < sizeof h->nonce; i++)
        h->nonce[i] = (uint8_t)(i * 7 + from);
}

void raw_mac(const char *role, const struct tcp_hello *h, const struct tcp_challenge *c,
             uint64_t answer, const uint8_t *key, uint8_t *mac)
{
    char text[16 + sizeof *h + sizeof *c + 8] = { 0 };
    memcpy(text, role, strlen(role));
    memcpy(text + 16, h, sizeof *h);
    memcpy(text + 16 + sizeof *h, c, sizeof *c);
    memcpy(text + 16 + sizeof *h + sizeof *c, &answer, 8);
    rt_hmac(key, RT_SHA256_LEN, text, sizeof text, mac);
}

uint32_t raw_shake(int fd, uint32_t from, enum tcp_purpose purpose, const uint8_t *key)
{
    struct tcp_hello h;
    struct tcp_challenge c;
    struct tcp_proof p;
    struct tcp_verdict v;
    uint8_t mac[RT_SHA256_LEN];

    raw_hello(&h, from, purpose);
    CHECK_EQ(send(fd, &h, sizeof h, MSG_NOSIGNAL), sizeof h);
    if (!raw_read(fd, &c, sizeof c))
        return 0;
    raw_mac("connector", &h, &c, 0, key, p.mac);
    CHECK_EQ(send(fd, &p, sizeof p, MSG_NOSIGNAL), sizeof p);
    if (!raw_read(fd, &v, sizeof v))
        return 0;
    raw_mac("listener", &h, &c, v.answer, key, mac);
    CHECK(!memcmp(mac, v.mac, sizeof mac));
    return v.answer;
}

int raw_join(uint32_t from, enum tcp_purpose purpose)
{
    int fd = raw_connect();
    uint32_t answer = raw_shake(fd, from, purpose, raw.addr.key);
    CHECK_EQ(answer, TCP_ACCEPTED);
    return answer == TCP_ACCEPTED ? fd : -1;
}

size_t raw_frame(char *buf, enum tcp_kind kind, struct btl_hdr h, const void *payload, size_t len)
{
    struct tcp_frame f = { tcp_word(kind, len), h };
    memset(buf, 0, tcp_frame_len(len));
    memcpy(buf, &f, sizeof f);
    if (len)
        memcpy(buf + tcp_head(len), payload, len);
    return tcp_frame_len(len);
}
