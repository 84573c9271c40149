/* SPDX-License-Identifier: BSD-3-Clause */
/* The message engine over a transport made of queues: three engines in one process, random traffic
 * of every size and mode, with refusals (-RT_EAGAIN), late deliveries, refused gets and lost peers.
 * Every payload is checked, and every pair's order.  A failure prints its seed; TEST_SEED=n runs
 * that seed alone. */
#include "mpi/api/bodies.h"
#include "mpi/datatype/type.h"
#include "mpi/p2p/choose.h"
#include "mpi/p2p/part.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/recv.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/send.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/boot/boot.h"
#include "runtime/mem/segment.h"
#include "test/check.h"
#include "test/fake/p2p_world.h"
#include "test/unit/capture.h"

enum { MSGS = 400, MAX_LEN = 5000 };

/* ---- messages ---- */

static struct rt_layout bytes_layout, strided; /* strided: 3 of every 5 bytes */

struct xfer {
    struct rt_req *req;
    char *buf;
    int src, dst, tag, seq, len;
    bool scattered;
    size_t nbytes;
};

static char pattern(int src, int seq, int i)
{
    return (char)(src * 37 + seq * 11 + i * 7 + (i >> 8));
}

static void fill(struct xfer *x)
{
    x->nbytes = x->scattered ? (size_t)x->len / 3 * 5 : (size_t)x->len;
    x->buf = malloc(x->nbytes + 64);
    memset(x->buf, 0x5a, x->nbytes + 64);
    for (int i = 0; i < x->len; i++)
        x->buf[x->scattered ? i / 3 * 5 + i % 3 : i] = pattern(x->src, x->seq, i);
}

static void post_send(struct xfer *x)
{
    fill(x);
    struct wm_msg m = { .buf = x->buf,
                        .count = x->scattered ? x->len / 3 : x->len,
                        .layout = x->scattered ? &strided : &bytes_layout,
                        .comm = &comm[x->src],
                        .peer = x->dst,
                        .tag = x->tag };
    CHECK_EQ(wm_p2p_isend(&m, rnd(4) ? WM_STANDARD : WM_SYNCHRONOUS, &x->req), 0);
}

static void post_recv(struct xfer *x, int src, int tag)
{
    x->nbytes = x->scattered ? MAX_LEN / 3 * 5 : MAX_LEN;
    x->buf = malloc(x->nbytes + 64);
    memset(x->buf, 0x33, x->nbytes + 64);
    struct wm_msg m = { .buf = x->buf,
                        .count = x->scattered ? MAX_LEN / 3 : MAX_LEN,
                        .layout = x->scattered ? &strided : &bytes_layout,
                        .comm = &comm[x->dst],
                        .peer = src,
                        .tag = tag };
    CHECK_EQ(wm_p2p_irecv(&m, &x->req), 0);
}

/* Checks that x has received src's message seq: status, every byte, and nothing beyond. */
static void check_recv(const struct xfer *x, const struct xfer *sent)
{
    CHECK_EQ(x->req->err, 0);
    CHECK_EQ(x->req->status.src, sent->src);
    CHECK_EQ(x->req->status.tag, sent->tag);
    CHECK_EQ(x->req->status.len, sent->len);
    int bad = 0;
    for (int i = 0; i < sent->len; i++)
        bad += x->buf[x->scattered ? i / 3 * 5 + i % 3 : i] != pattern(sent->src, sent->seq, i);
    CHECK_MSG(!bad, "%d of %d bytes differ in message %d of rank %d", bad, sent->len, sent->seq,
              sent->src);
    size_t end = x->scattered ? (size_t)(sent->len + 2) / 3 * 5 : (size_t)sent->len;
    for (size_t i = end; i < x->nbytes + 64; i++)
        bad += x->buf[i] != 0x33;
    CHECK_MSG(!bad, "bytes beyond the message were written");
}

static struct xfer sends[MSGS], recvs[MSGS];

enum style { EXACT, ANY_BOTH, ANY_SOURCE_EXACT_TAG };

static bool takes(const struct xfer *r, const struct xfer *s, enum style style)
{
    return r->dst == s->dst && (style == ANY_BOTH || r->tag == s->tag) &&
           (style != EXACT || r->src == s->src);
}

static bool everything_done(void)
{
    for (int i = 0; i < MSGS; i++)
        if (!rt_req_done(sends[i].req) || !rt_req_done(recvs[i].req))
            return false;
    return true;
}

/* The send that matched receive r: by source and tag, the oldest that is not used yet. */
static int landed(const struct xfer *r, const bool *used)
{
    for (int i = 0; i < MSGS; i++)
        if (!used[i] && sends[i].src == r->req->status.src && sends[i].dst == r->dst &&
            sends[i].tag == r->req->status.tag)
            return i;
    return -1;
}

static void make_plan(enum style style)
{
    static const int lens[] = {
        0, 1, 8, 48, 49, 200, 290, 293, 299, 300, 301, 600, 1200, 4096, 4998
    };
    for (int i = 0; i < MSGS; i++) {
        int len = lens[rnd(sizeof lens / sizeof *lens)];
        bool scattered = rnd(4) == 0;
        sends[i] = (struct xfer){ .src = (int)rnd(N),
                                  .dst = (int)rnd(N),
                                  .tag = (int)rnd(3),
                                  .seq = i,
                                  .len = scattered ? len / 3 * 3 : len,
                                  .scattered = scattered };
        recvs[i] = (struct xfer){
            .src = sends[i].src, .dst = sends[i].dst, .tag = sends[i].tag, .scattered = rnd(4) == 0
        };
        (void)style;
    }
}

static void run_traffic(struct knobs k, enum style style)
{
    world_up(k);
    make_plan(style);
    int s = 0, r = 0;
    while (s < MSGS || r < MSGS) {
        if (s < MSGS && (r == MSGS || rnd(2)))
            post_send(&sends[s++]);
        else if (style == EXACT)
            post_recv(&recvs[r], recvs[r].src, recvs[r].tag), r++;
        else
            post_recv(&recvs[r], MPI_ANY_SOURCE, style == ANY_BOTH ? MPI_ANY_TAG : recvs[r].tag),
                r++;
        if (rnd(3) == 0)
            pump();
    }
    for (int i = 0; i < 200000 && !everything_done(); i++)
        pump();
    CHECK_MSG(everything_done(), "traffic did not finish");
    static bool used[MSGS];
    memset(used, 0, sizeof used);
    for (int i = 0; i < MSGS && !check_failed_case;
         i++) { /* in posted order: each tag's messages must be in order */
        int from = landed(&recvs[i], used);
        CHECK(from >= 0);
        if (from < 0)
            break;
        CHECK(takes(&recvs[i], &sends[from], style));
        used[from] = true;
        check_recv(&recvs[i], &sends[from]);
    }
    for (int i = 0; i < MSGS && !check_failed_case; i++) {
        CHECK_EQ(sends[i].req->err, 0);
        wm_req_release(sends[i].req);
        wm_req_release(recvs[i].req);
        free(sends[i].buf);
        free(recvs[i].buf);
    }
    if (!check_failed_case)
        world_down();
}

static unsigned long first_seed = 1, last_seed = 12;

static void all_seeds(struct knobs k)
{
    for (unsigned long s = first_seed; s <= last_seed && !check_failed_case; s++) {
        seed = s;
        run_traffic(k, (enum style)(s % 3));
        if (check_failed_case)
            printf("# seed %lu; run again with TEST_SEED=%lu\n", s, s);
    }
}

static void put_only(void) { all_seeds((struct knobs){ .put = true }); }
static void get_only(void) { all_seeds((struct knobs){ .get = true }); }
static void both_halves(void)
{
    all_seeds((struct knobs){ .put = true, .get = true, .late_pct = 30 });
}
static void refusals(void)
{
    all_seeds((struct knobs){ .put = true, .get = true, .eagain_pct = 40, .late_pct = 50 });
}
static void get_refused(void)
{
    all_seeds((struct knobs){
        .put = true, .get = true, .get_refused = true, .eagain_pct = 20, .late_pct = 20 });
}

/* The transport notifies the receiver of the data; messages sent after a put arrive before its
 * data. */
static void awaited_puts(void)
{
    all_seeds((struct knobs){ .put = true, .expect = true });
    all_seeds((struct knobs){ .put = true, .expect = true, .eagain_pct = 40, .late_pct = 50 });
    all_seeds((struct knobs){ .put = true, .get = true, .expect = true, .late_pct = 30 });
}

/* Early bytes: parts of messages and whole messages, in one message of the transport or several. */
static void early_messages(void)
{
    for (size_t early = EAGER; early < 8 * EAGER; early += 3 * EAGER / 2) {
        all_seeds((struct knobs){ .put = true, .early = early });
        all_seeds((struct knobs){ .put = true, .early = early, .eagain_pct = 40, .late_pct = 50 });
        all_seeds((struct knobs){
            .put = true, .get = true, .choose = true, .early = early, .late_pct = 20 });
        all_seeds((struct knobs){ .put = true, .expect = true, .early = early, .late_pct = 30 });
    }
}

/* ---- single cases ---- */

static void truncated(struct knobs k, int len, int room)
{
    world_up(k);
    char out[MAX_LEN], in[MAX_LEN + 8];
    struct rt_req *s, *r;
    memset(out, 7, sizeof out);
    memset(in, 1, sizeof in);
    struct wm_msg sm = {
        .buf = out, .count = len, .layout = &bytes_layout, .comm = &comm[0], .peer = 1, .tag = 3
    };
    struct wm_msg rm = {
        .buf = in, .count = room, .layout = &bytes_layout, .comm = &comm[1], .peer = 0, .tag = 3
    };
    CHECK_EQ(wm_p2p_irecv(&rm, &r), 0);
    CHECK_EQ(wm_p2p_isend(&sm, WM_SYNCHRONOUS, &s), 0);
    pump_until(r);
    pump_until(s);
    CHECK_EQ(r->err, -RT_ETRUNC);
    CHECK_EQ(s->err, 0); /* not an error for the sender */
    CHECK_EQ(r->status.len, room);
    for (int i = 0; i < len; i++)
        CHECK_EQ(in[i], i < room ? 7 : 1);
    wm_req_release(r);
    wm_req_release(s);
    world_down();
}

static void truncation(void)
{
    struct knobs both = { .put = true, .get = true }, told = { .put = true, .expect = true };
    struct knobs early = { .put = true, .early = 10 * EAGER };
    truncated(both, 100, 10);
    truncated(both, 100, 0);
    truncated(both, 4000, 3999);
    truncated(told, 4000, 3999);
    truncated(told, EAGER + 1, EAGER);
    truncated(told, EAGER + 1, 0);
    truncated(both, 4000, 0);
    truncated(early, 2000, 1999);
    truncated(early, 4000, 3999);
}

/* One message from 0 to 1; returns how many of its bytes were put on request. */
static size_t one_awaited(bool late, bool scattered)
{
    struct xfer s = { .src = 0, .dst = 1, .tag = 3, .len = 3000 }, r = s;
    size_t before = awaited_bytes;
    r.scattered = scattered;
    if (!late)
        post_recv(&r, 0, 3);
    post_send(&s);
    for (int i = 0; late && i < 20; i++)
        pump();
    if (late)
        post_recv(&r, 0, 3);
    pump_until(s.req);
    pump_until(r.req);
    check_recv(&r, &s);
    wm_req_release(s.req);
    wm_req_release(r.req);
    free(s.buf);
    free(r.buf);
    return awaited_bytes - before;
}

/* The first bytes are sent without a request, unless the last ones sent that way were of no use. */
static void early_bytes(void)
{
    struct wm_peer *p;
    seed = 9;
    world_up((struct knobs){ .put = true, .expect = true });
    CHECK_EQ(wm_comm_peer(&comm[0], 1, &p), 0);
    CHECK_EQ(one_awaited(false, false), 3000 - EAGER);
    CHECK_EQ(one_awaited(true, false), 3000);
    CHECK_EQ(p->no_early, 31);
    for (int i = 30; i > 0; i--)
        CHECK_EQ(one_awaited(false, false), 3000);
    CHECK_EQ(p->no_early, 1);
    CHECK_EQ(one_awaited(false, false), 3000 - EAGER);
    CHECK_EQ(one_awaited(false, true), 0); /* a stream */
    CHECK_EQ(p->no_early, 31);
    world_down();
}

/* A message that is early as a whole ends for the sender with the match. */
static void early_as_a_whole(void)
{
    struct wm_peer *p;
    seed = 9;
    world_up((struct knobs){ .put = true, .expect = true, .early = 3000 });
    CHECK_EQ(wm_comm_peer(&comm[0], 1, &p), 0);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(one_awaited(false, false), 0);
    CHECK_EQ(one_awaited(true, false), 3000);
    CHECK_EQ(p->no_early, 31);
    world_down();
}

/* ---- non-contiguous messages, streamed and in pieces ---- */

enum { BIG = 1400001 }; /* a multiple of 3: whole items of `strided`; three pieces */

struct big {
    char *out, *in;
    struct rt_req *s, *r;
};

static struct wm_msg big_msg(char *buf, bool scattered, int len, int at)
{
    return (struct wm_msg){ .buf = buf,
                            .count = scattered ? len / 3 : len,
                            .layout = scattered ? &strided : &bytes_layout,
                            .comm = &comm[at],
                            .peer = !at,
                            .tag = 3 };
}

static void big_start(struct big *b, bool from, bool to, int len, int room)
{
    b->out = malloc(BIG / 3 * 5);
    b->in = malloc(BIG / 3 * 5);
    memset(b->in, 0x33, BIG / 3 * 5);
    for (int i = 0; i < BIG / 3 * 5; i++)
        b->out[i] = 0x5a;
    for (int i = 0; i < len; i++)
        b->out[from ? i / 3 * 5 + i % 3 : i] = pattern(1, 2, i);
    struct wm_msg sm = big_msg(b->out, from, len, 0), rm = big_msg(b->in, to, room, 1);
    bool late = rnd(2);
    if (!late)
        CHECK_EQ(wm_p2p_irecv(&rm, &b->r), 0);
    CHECK_EQ(wm_p2p_isend(&sm, rnd(2) ? WM_STANDARD : WM_SYNCHRONOUS, &b->s), 0);
    for (unsigned i = rnd(5); late && i; i--)
        pump();
    if (late)
        CHECK_EQ(wm_p2p_irecv(&rm, &b->r), 0);
}

static void big_end(struct big *b)
{
    wm_req_release(b->s);
    wm_req_release(b->r);
    free(b->out);
    free(b->in);
}

static void big_pump(const struct big *b)
{
    for (int i = 0; i < 400000 && !(rt_req_done(b->s) && rt_req_done(b->r)); i++)
        pump();
    CHECK(rt_req_done(b->s) && rt_req_done(b->r));
}

static void big_case(struct knobs k, bool from, bool to, int len, int room)
{
    struct big b;
    int got = len < room ? len : room, bad = 0;
    world_up(k);
    big_start(&b, from, to, len, room);
    big_pump(&b);
    CHECK_EQ(b.s->err, 0);
    CHECK_EQ(b.r->err, len > room ? -RT_ETRUNC : 0);
    CHECK_EQ(b.r->status.len, got);
    for (int i = 0; i < got; i++)
        bad += b.in[to ? i / 3 * 5 + i % 3 : i] != pattern(1, 2, i);
    for (int i = to ? (got + 2) / 3 * 5 : got; i < BIG / 3 * 5; i++)
        bad += b.in[i] != 0x33;
    for (int i = 0; to && i < got / 3; i++)
        bad += b.in[5 * i + 3] != 0x33 || b.in[5 * i + 4] != 0x33;
    CHECK_MSG(!bad, "%d bytes differ; seed %lu, sender %d, receiver %d, %d of %d", bad, seed, from,
              to, len, room);
    big_end(&b);
    world_down();
}

/* Both directions, to both kinds of ends; with refusals and late deliveries; into buffers that are
 * too small. */
static void streams(struct knobs k)
{
    static const int lens[] = { 303, 3000, 300000, 600000, BIG };
    for (int i = 0; i < 5; i++)
        for (int ends = 1; ends < 4; ends++) {
            big_case(k, ends & 1, ends & 2, lens[i], lens[i]);
            big_case(k, ends & 1, ends & 2, lens[i], BIG);
            big_case(k, ends & 1, ends & 2, lens[i], lens[i] / 6 * 3);
        }
}

static void chunks(void)
{
    seed = 5;
    streams((struct knobs){ .put = true });
    streams((struct knobs){ .put = true, .get = true, .eagain_pct = 30, .late_pct = 30 });
}

static void pieces(void)
{
    seed = 6;
    streams((struct knobs){ .put = true, .get = true, .choose = true });
    streams((struct knobs){
        .put = true, .get = true, .choose = true, .eagain_pct = 30, .late_pct = 30 });
    streams((struct knobs){
        .put = true, .get = true, .choose = true, .get_refused = true, .late_pct = 10 });
}

/* The peer is lost halfway: both ends are notified, nothing hangs and nothing is left. */
static void lost_in_the_middle(struct knobs k, bool from, bool to)
{
    struct big b;
    world_up(k);
    big_start(&b, from, to, BIG, BIG);
    for (unsigned n = rnd(40); n; n--)
        pump();
    eps[0]->cut[1] = eps[1]->cut[0] = true;
    eps[0]->up.down(eps[0]->up.arg, &eps[0]->peers[1].base, -RT_EPEER);
    eps[1]->up.down(eps[1]->up.arg, &eps[1]->peers[0].base, -RT_EPEER);
    big_pump(&b);
    CHECK_MSG(!b.s->err || b.s->err == -RT_EPEER, "send: %d", b.s->err);
    CHECK_MSG(!b.r->err || b.r->err == -RT_EPEER, "receive: %d", b.r->err);
    CHECK(rt_list_empty(&dom[0]->streams) && rt_list_empty(&dom[1]->streams));
    big_end(&b);
    for (int n = 0; n < N; n++)
        CHECK_EQ(comm[n].obj.refs, 1 << 20); /* pieces released their references too */
    world_drop();
}

static void lost_in_stream(void)
{
    rt_log_levels[RT_LOG_MPI] = 0;
    for (int i = 0; i < 60; i++) {
        struct knobs k = { .put = true, .get = i & 1, .choose = i & 1, .late_pct = 40 };
        seed = (unsigned long)i;
        lost_in_the_middle(k, i & 2, !(i & 2) || (i & 4));
    }
}

static void lost_while_awaited(void)
{
    rt_log_levels[RT_LOG_MPI] = 0;
    for (int i = 0; i < 60; i++) {
        seed = (unsigned long)i;
        lost_in_the_middle((struct knobs){ .put = true, .expect = true, .late_pct = 80 }, false,
                           false);
    }
}

static void choice_of_ways(void)
{
    all_seeds((struct knobs){
        .put = true, .get = true, .choose = true, .eagain_pct = 20, .late_pct = 20 });
}

/* n messages of one size from rank 0 to rank 1. */
static void equal_messages(int n)
{
    enum { LEN = 64 * 1024 };
    static char out[LEN], in[LEN];
    for (int i = 0; i < n; i++) {
        struct rt_req *s, *r;
        memset(out, i + 1, LEN);
        struct wm_msg m = {
            .buf = out, .count = LEN, .layout = &bytes_layout, .comm = &comm[0], .peer = 1, .tag = 3
        };
        CHECK_EQ(wm_p2p_isend(&m, WM_STANDARD, &s), 0);
        m = (struct wm_msg){
            .buf = in, .count = LEN, .layout = &bytes_layout, .comm = &comm[1], .peer = 0, .tag = 3
        };
        CHECK_EQ(wm_p2p_irecv(&m, &r), 0);
        pump_until(r);
        pump_until(s);
        CHECK(!memcmp(in, out, LEN));
        wm_req_release(r);
        wm_req_release(s);
    }
}

/* Consecutive messages of one size decide which path later messages take, until the decision is
 * old. */
static void choice_is_made(void)
{
    world_up((struct knobs){ .put = true, .get = true, .choose = true });
    struct wm_choice *c = &dom[1]->choice;
    for (int again = 0; again < 3; again++) {
        for (int i = 0; i < 60 && !c->decided; i++)
            equal_messages(1);
        CHECK(c->decided);
        CHECK_EQ(c->wins[c->way], 2);
        CHECK_EQ(c->running, 0);
        CHECK(!dom[0]->choice.decided); /* it received nothing */
        c->until_ns = UINT64_MAX;
        equal_messages(40);
        CHECK(c->decided);
        CHECK(c->since >= 40);
        c->until_ns = 0;
        for (int i = 0; i < 40 && c->decided; i++)
            equal_messages(1);
        CHECK(!c->decided);
    }
    world_down();
}

/* A receiver that has measured that put alone is faster reports it, and the sender then sends early
 * bytes, although the sender has measured nothing. */
static void choice_is_reported(void)
{
    struct wm_peer *p;
    world_up((struct knobs){ .put = true, .get = true, .choose = true, .early = 64 * 1024 });
    CHECK_EQ(wm_comm_peer(&comm[0], 1, &p), 0);
    equal_messages(1);
    CHECK_EQ(p->no_key, 0);
    dom[1]->choice = (struct wm_choice){ .decided = true,
                                         .way = WM_WAY_PUT,
                                         .until_ns = UINT64_MAX };
    equal_messages(1);
    CHECK_EQ(p->no_key, 31);
    equal_messages(4);
    CHECK_EQ(p->no_key, 27); /* no further answer: the messages were early as a whole */
    dom[1]->choice = (struct wm_choice){ .decided = false };
    equal_messages(28);
    CHECK_EQ(p->no_key, 0);
    world_down();
}

/* The trials, with messages that take as long as is said here. */
static void timed_message(struct wm_domain *d, enum wm_way slow)
{
    bool counts;
    enum wm_way way = wm_choice_begin(d, 1 << 20, &counts);
    uint64_t end = rt_now_ns() + (way == slow ? 100000u : 5000u);
    while (rt_now_ns() < end)
        continue;
    if (counts)
        wm_choice_end(d, 1 << 20, false);
}

/* The way that has become faster is taken in the end, and a sender that has it sends no key. */
static void choice_follows(void)
{
    static struct wm_domain d;
    for (int i = 0; i < 4; i++) {
        enum wm_way slow = i % 2 ? WM_WAY_PUT : WM_WAY_SHARED;
        int n = 0;
        while ((!d.choice.decided || d.choice.way == slow) && n++ < 10000) {
            d.choice.until_ns = 0; /* each decision is old at once */
            timed_message(&d, slow);
        }
        CHECK(n < 10000);
        d.choice.until_ns = UINT64_MAX;
        CHECK_EQ(wm_choice_put_alone(&d), slow == WM_WAY_SHARED);
    }
}

static void cancelled_receive(void)
{
    world_up((struct knobs){ .put = true });
    char in[8];
    struct rt_req *r;
    struct wm_msg rm = {
        .buf = in, .count = 8, .layout = &bytes_layout, .comm = &comm[1], .peer = 0, .tag = 3
    };
    CHECK_EQ(wm_p2p_irecv(&rm, &r), 0);
    CHECK_EQ(r->ops->cancel(r), 0);
    CHECK(rt_req_done(r));
    CHECK(r->status.cancelled);
    wm_req_release(r);
    world_down();
}

/* Rank 0 loses rank 1; returns whether this was reported as an error. */
static bool loss_is_told(int err)
{
    capture_begin();
    eps[0]->up.down(eps[0]->up.arg, &eps[0]->peers[1].base, err);
    return strstr(capture_end(), "lost contact with rank 1") != NULL;
}

/* A connection may end without an error if the peer is in MPI_Finalize or beyond, on this host or
 * another, and nothing is in progress with it, or if the peer has left in order: requests that it
 * leaves behind report their error. */
static void lost_peer_in_finalize(void)
{
    static struct rt_bell bells[N];
    static uint32_t procs[N] = { 0, 1, 2 };
    static char buf[3 * EAGER];
    static const struct {
        uint32_t alive; /* of the peer, as in rt_bell */
        bool local, busy, told;
        int err; /* -RT_EPEER, or 0: it has left in order */
    } cases[] = {
        { 1, true, false, true, -RT_EPEER },   { 3, true, false, false, -RT_EPEER },
        { 2, true, false, false, -RT_EPEER },  { 3, true, true, true, -RT_EPEER },
        { 2, true, true, true, -RT_EPEER },    { 1, false, false, true, -RT_EPEER },
        { 3, false, false, false, -RT_EPEER }, { 3, false, true, true, -RT_EPEER },
        { 1, false, true, true, 0 },           { 1, false, false, false, 0 },
        { 3, false, true, false, 0 },          { 2, true, true, false, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct wm_msg m = { .buf = buf,
                            .count = cases[i].busy ? sizeof buf : 8,
                            .layout = &bytes_layout,
                            .comm = &comm[0],
                            .peer = 1,
                            .tag = 3 };
        struct rt_req *r;
        world_up((struct knobs){ .put = true });
        CHECK_EQ(wm_p2p_isend(&m, WM_STANDARD, &r), 0);
        CHECK_EQ(rt_req_done(r), !cases[i].busy);
        if (cases[i].local) {
            rt_node.bells = bells;
            rt_boot.local_procs = procs;
            rt_boot.local_size = N;
        }
        bells[1].alive = cases[i].alive;
        comm[0].peers[1]->is_last = !cases[i].local && cases[i].alive == 3;
        CHECK_MSG(loss_is_told(cases[i].err) == cases[i].told, "case %zu", i);
        CHECK(rt_req_done(r));
        rt_node.bells = NULL;
        wm_req_release(r);
        world_drop();
    }
}

/* The peer is lost with a rendezvous half done and messages queued: all of it ends with -RT_EPEER,
 * nothing hangs. */
static void lost_peer(void)
{
    world_up((struct knobs){ .put = true, .late_pct = 0 });
    static char out[MAX_LEN];
    struct rt_req *big, *queued;
    struct wm_msg m = {
        .buf = out, .count = MAX_LEN, .layout = &bytes_layout, .comm = &comm[0], .peer = 1, .tag = 3
    };
    CHECK_EQ(wm_p2p_isend(&m, WM_STANDARD, &big), 0);
    knobs.eagain_pct = 100;
    m.count = 10;
    CHECK_EQ(wm_p2p_isend(&m, WM_STANDARD, &queued), 0);
    CHECK(!rt_req_done(queued));
    eps[0]->cut[1] = true;
    rt_log_levels[RT_LOG_MPI] = 0;
    CHECK(freopen("/dev/null", "w", stderr) != NULL); /* the loss is reported on stderr */
    eps[0]->up.down(eps[0]->up.arg, &eps[0]->peers[1].base, -RT_EPEER);
    CHECK(rt_req_done(big) && big->err == -RT_EPEER);
    CHECK(rt_req_done(queued) && queued->err == -RT_EPEER);
    CHECK_EQ(wm_p2p_isend(&m, WM_STANDARD, &(struct rt_req *){ NULL }), -RT_EPEER);
    m.peer = 2;
    knobs.eagain_pct = 0;
    struct rt_req *other;
    CHECK_EQ(wm_p2p_isend(&m, WM_STANDARD, &other), 0); /* the other ranks continue */
    CHECK(rt_req_done(other));
    wm_req_release(big);
    wm_req_release(queued);
    world_drop();
}

/* MPI_Probe and MPI_Mprobe of a rank that is lost while they wait. */
static void lost_peer_in_probe(void)
{
    MPI_Message m = MPI_MESSAGE_NULL;
    for (int matched = 0; matched < 2; matched++) {
        world_up((struct knobs){ .put = true });
        struct wm_peer *p;
        CHECK_EQ(wm_comm_peer(&comm[0], 1, &p), 0);
        knobs.down_after = 20;
        int err = matched ? wm_api_mprobe(1, 3, &comm[0], &m, MPI_STATUS_IGNORE)
                          : wm_api_probe(1, 3, &comm[0], MPI_STATUS_IGNORE);
        CHECK_EQ(err, MPI_ERR_PROC_ABORTED);
        CHECK(m == MPI_MESSAGE_NULL);
        CHECK_EQ(knobs.down_after, 0);
        world_drop();
    }
}

/* The send cannot be started: the receive must not stay posted, and a receive that has matched its
 * message completes without the user. */
static void sendrecv_without_send(void)
{
    static char out[MAX_LEN], in[MAX_LEN], late[8];
    for (int matched = 0; matched < 2; matched++) {
        world_up((struct knobs){ .put = true, .get = true });
        struct wm_type *t = wm_type_get(MPI_BYTE);
        struct wm_msg m = { .buf = out,
                            .count = MAX_LEN,
                            .layout = &bytes_layout,
                            .comm = &comm[2],
                            .peer = 0,
                            .tag = 3 };
        struct rt_req *s = NULL, *r = NULL;
        MPI_Request both = MPI_REQUEST_NULL;
        memset(out, 9, sizeof out);
        memset(in, 1, sizeof in);
        if (matched) {
            CHECK_EQ(wm_p2p_isend(&m, WM_STANDARD, &s), 0);
            pump();
        }
        eps[0]->cut[1] = true;
        CHECK_EQ(wm_api_isendrecv(out, 8, t, 1, 5, in, MAX_LEN, t, 2, 3, &comm[0], &both),
                 MPI_ERR_PROC_ABORTED);
        CHECK(both == MPI_REQUEST_NULL);
        CHECK_EQ(dom[0]->match.nposted_all, 0);
        if (matched) {
            pump_until(s);
            wm_req_release(s);
        } else { /* the next receive gets the message */
            m.count = 8;
            CHECK_EQ(wm_p2p_isend(&m, WM_STANDARD, &s), 0);
            m = (struct wm_msg){ .buf = late,
                                 .count = 8,
                                 .layout = &bytes_layout,
                                 .comm = &comm[0],
                                 .peer = 2,
                                 .tag = 3 };
            CHECK_EQ(wm_p2p_irecv(&m, &r), 0);
            pump_until(r);
            CHECK(late[7] == 9 && in[0] == 1);
            wm_req_release(r);
            wm_req_release(s);
        }
        world_down();
    }
}

/* ---- partitions ---- */

static MPI_Request psend(char *buf, int n, int len, int from, int to)
{
    MPI_Request r = MPI_REQUEST_NULL;
    CHECK_EQ(wm_api_psend_init(buf, n, len, wm_type_get(MPI_BYTE), to, 3, &comm[from], NULL, &r),
             0);
    return r;
}

static MPI_Request precv(char *buf, int n, int len, int to, int from)
{
    MPI_Request r = MPI_REQUEST_NULL;
    CHECK_EQ(wm_api_precv_init(buf, n, len, wm_type_get(MPI_BYTE), from, 3, &comm[to], NULL, &r),
             0);
    return r;
}

static void end(MPI_Request *r)
{
    struct rt_req *q = wm_req_get(*r);
    pump_until(q);
    CHECK_EQ(q->err, 0);
    CHECK_EQ(wm_api_wait(r, MPI_STATUS_IGNORE), 0);
}

static void partitions_once(int nsend, int nrecv, int total)
{
    char out[MAX_LEN], in[MAX_LEN];
    MPI_Request r[2];
    world_up((struct knobs){ .put = true, .get = true, .eagain_pct = 20, .late_pct = 30 });
    bool early = rnd(2);
    if (early)
        r[1] = precv(in, nrecv, total / nrecv, 1, 0);
    r[0] = psend(out, nsend, total / nsend, 0, 1);
    if (!early)
        r[1] = precv(in, nrecv, total / nrecv, 1, 0);
    for (int round = 0; round < 3; round++) {
        int first = (int)rnd((unsigned)nsend);
        for (int i = 0; i < total; i++)
            out[i] = pattern(round, 5, i);
        memset(in, 0, sizeof in);
        if (rnd(2))
            CHECK_EQ(wm_api_startall(2, r), 0);
        else
            CHECK_EQ(wm_api_start(&r[0]), 0);
        for (int i = 0; i < nsend; i++, pump())
            CHECK_EQ(wm_api_pready((first + i) % nsend, r[0]), 0);
        if (!(wm_req_get(r[1])->flags & RT_REQ_ACTIVE))
            CHECK_EQ(wm_api_start(&r[1]), 0);
        end(&r[0]);
        end(&r[1]);
        CHECK(!memcmp(in, out, (size_t)total));
    }
    CHECK_EQ(wm_api_request_free(&r[0]), 0);
    CHECK_EQ(wm_api_request_free(&r[1]), 0);
    world_down();
}

static void partitions(void)
{
    for (seed = 1; seed < 20; seed += 7) {
        partitions_once(1, 1, 4000);
        partitions_once(8, 8, 80);
        partitions_once(6, 4, 4800);
        partitions_once(2, 25, 5000);
        partitions_once(50, 3, 1500);
    }
}

static int first_tag(MPI_Request r) { return ((const struct wm_part *)wm_req_get(r))->tag; }

/* A receive without a sender, a receive that waits for partitions, and a send. */
static void lost_peer_of_partitions(void)
{
    char out[8], in[2][8];
    MPI_Request r[4], far;
    world_up((struct knobs){ .put = true });
    far = psend(out, 2, 4, 1, 0);
    r[0] = precv(in[0], 2, 4, 0, 1);
    pump();
    r[1] = precv(in[1], 2, 4, 0, 1);
    r[2] = psend(out, 2, 4, 0, 1);
    dom[0]->part.tag = WM_TAG_COMM - WM_TAG_PART - 1; /* used up: next come those after r[2] */
    r[3] = psend(out, 2, 4, 0, 1);
    CHECK_EQ(first_tag(r[3]), first_tag(r[2]) + 2);
    CHECK_EQ(wm_api_request_free(&r[3]), 0);
    CHECK_EQ(wm_api_startall(3, r), 0);
    CHECK_EQ(wm_api_pready(0, r[2]), 0);
    eps[0]->cut[1] = true;
    knobs.down_after = 1;
    wm_progress(dom[0]);
    CHECK_EQ(wm_api_pready(1, r[2]), 0); /* the wait reports the error */
    for (int i = 0; i < 3; i++) {
        CHECK(rt_req_done(wm_req_get(r[i])));
        CHECK_EQ(wm_api_wait(&r[i], MPI_STATUS_IGNORE), MPI_ERR_PROC_ABORTED);
        CHECK_EQ(wm_api_start(&r[i]), MPI_ERR_PROC_ABORTED);
        CHECK_EQ(wm_api_request_free(&r[i]), 0);
    }
    CHECK_EQ(wm_api_psend_init(out, 1, 1, wm_type_get(MPI_BYTE), 1, 3, &comm[0], NULL, &r[0]),
             MPI_ERR_PROC_ABORTED);
    CHECK_EQ(wm_api_request_free(&far), 0);
    world_drop();
}

static void stale_handles(void)
{
    world_up((struct knobs){ .put = true });
    char in[8];
    struct rt_req *r;
    struct wm_msg rm = {
        .buf = in, .count = 8, .layout = &bytes_layout, .comm = &comm[1], .peer = 0, .tag = 3
    };
    CHECK_EQ(wm_p2p_irecv(&rm, &r), 0);
    MPI_Request h = wm_req_handle(r);
    CHECK(wm_req_get(h) == r);
    r->ops->cancel(r);
    wm_req_release(r);
    CHECK(!wm_req_get(h));
    CHECK_EQ(wm_p2p_irecv(&rm, &r), 0); /* the same memory, another handle */
    CHECK(wm_req_get(wm_req_handle(r)) == r);
    CHECK(wm_req_handle(r) != h);
    r->ops->cancel(r);
    wm_req_release(r);
    world_down();
}

int main(void)
{
    rt_cfg_load();
    if (getenv("TEST_SEED"))
        first_seed = last_seed = strtoul(getenv("TEST_SEED"), NULL, 10);
    rt_layout_basic(&bytes_layout, 1, 1, RT_ELEM_BYTE);
    struct rt_layout three;
    CHECK_EQ(rt_layout_vector(&three, 1, 3, 3, &bytes_layout), 0);
    CHECK_EQ(rt_layout_resized(&strided, 0, 5, &three), 0);
    RUN(put_only);
    RUN(get_only);
    RUN(both_halves);
    RUN(awaited_puts);
    RUN(refusals);
    RUN(get_refused);
    RUN(choice_of_ways);
    RUN(choice_is_made);
    RUN(choice_is_reported);
    RUN(choice_follows);
    RUN(truncation);
    RUN(early_bytes);
    RUN(early_as_a_whole);
    RUN(early_messages);
    RUN(chunks);
    RUN(pieces);
    RUN(cancelled_receive);
    RUN(stale_handles);
    RUN(sendrecv_without_send);
    RUN(partitions);
    RUN(lost_peer);
    RUN(lost_peer_in_finalize);
    RUN(lost_peer_in_probe);
    RUN(lost_peer_of_partitions);
    RUN(lost_in_stream);
    RUN(lost_while_awaited);
    return check_end();
}
