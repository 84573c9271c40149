/* SPDX-License-Identifier: BSD-3-Clause */
/* Device buffers in the message engine: engines in one process over the fake transport, a transport
 * for device memory made here in which every refusal can be injected, and the fake driver, whose
 * memory the CPU cannot touch.  Every pair of buffers, and the failures in each state; the data,
 * the memory around them and leftovers are checked.  A failure prints its seed; TEST_SEED=n runs
 * that seed alone. */
#include "mpi/api/bodies.h"
#include "mpi/datatype/type.h"
#include "mpi/p2p/buffered.h"
#include "mpi/p2p/create.h"
#include "mpi/p2p/pack_any.h"
#include "mpi/p2p/device.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/recv.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/send.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/gpu/cu.h"
#include "test/check.h"
#include "test/fake/btl_fake.h"
#include "test/patience.h"
#include <sched.h>

enum { N = 3, ROOM = 52 << 20 }; /* device memory in large pages */

static uint64_t seed;
static unsigned rnd(unsigned n)
{
    seed = seed * 6364136223846793005ul + 1442695040888963407ul;
    return (unsigned)(seed >> 33) % n;
}
static bool chance(unsigned pct) { return rnd(100) < pct; }

/* ---- the transport for device memory ---- */

static struct {
    unsigned no_export, no_offer, no_attach, no_get, bad_get; /* percent; no_get also for puts */
    int live_mem, live_rmem, gets, puts;
} maps;

struct mmem {
    char *base;
    size_t len;
};
struct mrmem {
    struct btl_rmem base;
    struct mmem far;
    struct rt_gpu *g;
};
struct mop {
    struct rt_gpu_op op;
    struct btl_op *up;
    bool bad;
};
static struct btl_peer map_peers[N];
static struct btl map_btls[N];
static const struct btl_ops map_ops;

static int m_open(const struct btl_up *up, struct btl **out, int max)
{
    (void)up, (void)max;
    struct btl *b = &map_btls[fake_net.me];
    b->ops = &map_ops;
    b->caps = (struct btl_caps){ .flags = BTL_GET | BTL_PUT,
                                 .put_mb_per_s = 1,
                                 .rma_mem = RT_MEM_DEVICE_BITS,
                                 .key_len = sizeof(struct mmem),
                                 .latency_ns = 1,
                                 .mb_per_s = 1,
                                 .get_mb_per_s = 1 };
    *out = b;
    return 1;
}

static void m_close(struct btl *b) { (void)b; }

static int m_address(struct btl *b, void *buf, size_t len)
{
    (void)b, (void)buf, (void)len;
    return 0;
}

static int m_add_peer(struct btl *b, const struct rt_proc *proc, const void *addr, size_t len,
                      struct btl_peer **out)
{
    (void)addr, (void)len;
    *out = &map_peers[proc->rank];
    **out = (struct btl_peer){ .btl = b, .proc = *proc };
    return 0;
}

static void m_del_peer(struct btl_peer *p) { (void)p; }

static int m_reg(struct btl *b, void *base, size_t len, const struct rt_gpu_ptr *at,
                 struct btl_mem **out)
{
    (void)b;
    CHECK((uintptr_t)base >= at->base && (uintptr_t)base + len <= at->base + at->len);
    if (at->kind == RT_MEM_MANAGED || chance(maps.no_export))
        return -RT_ENOTSUP;
    struct mmem *m = malloc(sizeof *m);
    *m = (struct mmem){ base, len };
    maps.live_mem++;
    *out = (struct btl_mem *)m;
    return 0;
}

static void m_dereg(struct btl_mem *m)
{
    maps.live_mem--;
    free(m);
}

static int m_key(const struct btl_mem *m, void *key)
{
    memcpy(key, m, sizeof(struct mmem));
    return 0;
}

static int m_offer(struct btl_peer *p, struct btl_mem *m)
{
    (void)p, (void)m;
    return chance(maps.no_offer) ? -RT_EAGAIN : 0;
}

static int m_attach(struct btl_peer *p, const void *key, const struct rt_gpu_ptr *near,
                    struct btl_rmem **out)
{
    (void)p;
    if (chance(maps.no_attach))
        return chance(50) ? -RT_EUNREACH : -RT_EGPU;
    struct mrmem *r = calloc(1, sizeof *r);
    memcpy(&r->far, key, sizeof r->far);
    r->g = near->g;
    maps.live_rmem++;
    *out = &r->base;
    return 0;
}

static void m_detach(struct btl_rmem *r)
{
    maps.live_rmem--;
    free(r);
}

static void m_got(struct rt_gpu_op *op, int err)
{
    struct mop *o = rt_container(op, struct mop, op);
    struct btl_op *up = o->up;
    bool bad = o->bad;
    free(o);
    up->done(up, bad ? -RT_EGPU : err);
}

static int start(struct mrmem *r, size_t off, char *dst, const char *src, size_t len,
                 struct btl_op *up)
{
    CHECK(off + len <= r->far.len);
    if (chance(maps.no_get))
        return chance(50) ? -RT_EAGAIN : -RT_EGPU;
    struct mop *o = malloc(sizeof *o);
    *o = (struct mop){ .op.done = m_got, .up = up, .bad = chance(maps.bad_get) };
    rt_gpu_copy(r->g, dst, src, len, &o->op);
    return 0;
}

static int m_get(struct btl_rmem *rmem, size_t off, struct btl_mem *m, void *dst, size_t len,
                 struct btl_op *up)
{
    struct mrmem *r = (struct mrmem *)rmem;
    (void)m;
    maps.gets++;
    return start(r, off, dst, r->far.base + off, len, up);
}

static int m_put(struct btl_rmem *rmem, size_t off, struct btl_mem *m, const void *src, size_t len,
                 struct btl_op *up)
{
    struct mrmem *r = (struct mrmem *)rmem;
    (void)m;
    maps.puts++;
    return start(r, off, r->far.base + off, src, len, up);
}

static int m_progress(struct btl *b)
{
    (void)b;
    return 0;
}

static const struct btl_ops map_ops = { .name = "maps",
                                        .help = "for tests",
                                        .open = m_open,
                                        .close = m_close,
                                        .address = m_address,
                                        .add_peer = m_add_peer,
                                        .del_peer = m_del_peer,
                                        .mem_reg = m_reg,
                                        .mem_dereg = m_dereg,
                                        .mem_key = m_key,
                                        .mem_offer = m_offer,
                                        .attach = m_attach,
                                        .detach = m_detach,
                                        .get = m_get,
                                        .put = m_put,
                                        .progress = m_progress };

/* ---- engines ---- */

static const struct btl_ops *const with_maps[] = { &map_ops, &btl_fake_ops, NULL };
static const struct btl_ops *const without_maps[] = { &btl_fake_ops, NULL };
static struct wm_domain *dom[N];
static struct wm_comm comm[N];
static struct wm_group group;
static struct rt_proc procs[N];

static void world_up(bool mapped, unsigned eagain)
{
    fake_net = (struct fake_net){ .nranks = N,
                                  .seed = rnd(1u << 30),
                                  .delay_max = rnd(3),
                                  .eagain_percent = eagain,
                                  .eager_max = 300 };
    memset(&maps, 0, sizeof maps);
    group = (struct wm_group){ .size = N, .procs = procs };
    for (int i = 0; i < N; i++) {
        procs[i] = (struct rt_proc){ 0, (uint32_t)i };
        fake_net.me = i;
        CHECK_EQ(wm_domain_create_over(mapped ? with_maps : without_maps, &dom[i]), 0);
        comm[i] = (struct wm_comm){ .obj = { .refs = 1 << 20 },
                                    .rank = i,
                                    .size = N,
                                    .ctx = 2,
                                    .group = &group,
                                    .remote = &group,
                                    .dom = dom[i],
                                    .peers = calloc(N, sizeof *comm[i].peers) };
    }
    wm_main_domain = dom[0];
}

static void pump(void)
{
    for (int i = 0; i < N; i++)
        wm_progress(dom[i]);
}

static void world_down(void)
{
    for (int i = 0; i < 300; i++)
        pump();
    for (int i = 0; i < N; i++) {
        CHECK_EQ(comm[i].obj.refs, 1 << 20);
        CHECK_EQ(dom[i]->match.nposted_all, 0);
        CHECK_EQ(dom[i]->match.nunex, 0);
        CHECK(rt_list_empty(&dom[i]->streams) && rt_list_empty(&dom[i]->staging.queue));
        for (int p = 0; p < N; p++)
            CHECK(!comm[i].peers[p] ||
                  (rt_list_empty(&comm[i].peers[p]->rndv) && comm[i].peers[p]->nstaged == 0));
    }
    CHECK_EQ(rt_gpu_nactive, 0);
    CHECK_EQ(maps.live_mem, 0);
    CHECK_EQ(maps.live_rmem, 0);
    CHECK_EQ(fake_net.live_mem, 0);
    CHECK_EQ(fake_net.live_rmem, 0);
    CHECK_EQ(fake_net.violations, 0);
    for (int i = 0; i < N; i++)
        wm_domain_destroy(dom[i]);
    for (int i = 0; i < N; i++)
        free(comm[i].peers);
    fake_net_reset();
}

/* ---- buffers ---- */

static struct rt_layout byte_layout, strided; /* strided: 3 of every 5 bytes */
static char *host[2], *device[2], *check;

enum kind { HOST, HOST_GAPS, DEV, DEV_GAPS, KINDS };
struct end {
    enum kind kind;
    int at;      /* the engine */
    int which;   /* buffer */
    int64_t len; /* bytes of data */
    unsigned shift;
    struct rt_req *r;
};

static bool gaps(const struct end *e) { return e->kind & 1; }
static bool on_device(const struct end *e) { return e->kind >= DEV; }
static int64_t place(const struct end *e, int64_t i) { return gaps(e) ? i / 3 * 5 + i % 3 : i; }
static char *user(const struct end *e)
{
    return (on_device(e) ? device : host)[e->which] + e->shift;
}
static char pattern(int64_t i) { return (char)(i * 7 + (i >> 8) * 13 + (i >> 16)); }

static void write_device(char *to, const char *from, size_t n)
{
    CHECK_EQ(rt_cuda.memcpy_async((cu_ptr)(uintptr_t)to, (cu_ptr)(uintptr_t)from, n, NULL), CU_OK);
    CHECK_EQ(rt_cuda.stream_synchronize(NULL), CU_OK);
}

static size_t span_of(const struct end *e) { return (size_t)place(e, e->len + 3) + 64; }

/* Fills with poison; if `full`, also with the message. */
static void fill(const struct end *e, bool full)
{
    char *to = on_device(e) ? check : host[e->which];
    memset(to, 0x33, span_of(e) + e->shift);
    for (int64_t i = 0; full && i < e->len; i++)
        to[e->shift + (size_t)place(e, i)] = pattern(i);
    if (on_device(e))
        write_device(device[e->which], to, span_of(e) + e->shift);
}

static struct wm_msg msg(const struct end *e, int peer, int tag)
{
    return (struct wm_msg){ .buf = user(e),
                            .count = gaps(e) ? e->len / 3 : e->len,
                            .layout = gaps(e) ? &strided : &byte_layout,
                            .comm = &comm[e->at],
                            .peer = peer,
                            .tag = tag };
}

/* The first `got` bytes are the message's, gaps and all other bytes unchanged; with `any`, each
 * byte may also be unchanged. */
static void verify(const struct end *e, int64_t got, const char *what)
{
    const char *at = host[e->which];
    if (on_device(e)) {
        write_device(check, device[e->which], span_of(e) + e->shift);
        at = check;
    }
    int64_t bad = 0, first = -1, next = 0;
    for (int64_t i = -(int64_t)e->shift; i < (int64_t)span_of(e); i++) {
        bool data = i >= 0 && next < got && i == place(e, next);
        char want = data ? pattern(next++) : 0x33;
        if (at[i + e->shift] != want && bad++ == 0)
            first = i;
    }
    CHECK_MSG(!bad, "%lld bytes differ from byte %lld on: %s", (long long)bad, (long long)first,
              what);
}

static bool both_done(const struct end *s, const struct end *r)
{
    return rt_req_done(s->r) && rt_req_done(r->r);
}

static void pump_until(const struct end *s, const struct end *r)
{
    struct watch watch = watch_begin();
    for (int i = 0; !both_done(s, r) && (i % 1000 || !watch_over(&watch, 40000000000u)); i++) {
        pump();
        if (rt_gpu_nactive)
            sched_yield(); /* lets the fake driver's threads run */
    }
    CHECK(both_done(s, r));
}

/* ---- every pair of buffers ---- */

static const char *case_name(const struct end *s, const struct end *r)
{
    static const char *const names[] = { "host", "host with gaps", "device", "device with gaps" };
    static char text[160];
    snprintf(text, sizeof text, "%s to %s, %lld of %lld bytes, rank %d to %d, seed %llu",
             names[s->kind], names[r->kind], (long long)r->len, (long long)s->len, s->at, r->at,
             (unsigned long long)seed);
    return text;
}

static bool named; /* receives name their source */

static void begin(struct end *s, struct end *r)
{
    bool late = rnd(2), any = rnd(4) == 0 && !named;
    struct wm_msg sm = msg(s, r->at, 3), rm = msg(r, any ? MPI_ANY_SOURCE : s->at, 3);
    fill(s, true);
    fill(r, false);
    if (any)
        rm.tag = MPI_ANY_TAG;
    if (!late)
        CHECK_EQ(wm_p2p_irecv(&rm, &r->r), 0);
    CHECK_EQ(wm_p2p_isend(&sm, rnd(3) ? WM_STANDARD : WM_SYNCHRONOUS, &s->r), 0);
    for (unsigned i = late ? rnd(6) : 0; i; i--)
        pump();
    if (late)
        CHECK_EQ(wm_p2p_irecv(&rm, &r->r), 0);
}

static void finish(struct end *s, struct end *r)
{
    int64_t got = s->len < r->len ? s->len : r->len;
    pump_until(s, r);
    const char *what = case_name(s, r);
    CHECK_MSG(s->r->err == 0, "send: %s; %s", rt_err_text(s->r->err), what);
    CHECK_MSG(r->r->err == (s->len > r->len ? -RT_ETRUNC : 0), "receive: %s; %s",
              rt_err_text(r->r->err), what);
    CHECK_EQ(r->r->status.len, got);
    CHECK_EQ(r->r->status.src, s->at);
    CHECK_EQ(r->r->status.tag, 3);
    verify(r, got, what);
    wm_req_release(s->r);
    wm_req_release(r->r);
}

struct knobs {
    bool mapped;
    unsigned eagain, no_export, no_offer, no_attach, no_get;
};

static void one(const struct knobs *k, struct end s, struct end r)
{
    world_up(k->mapped, k->eagain);
    maps.no_export = k->no_export;
    maps.no_offer = k->no_offer;
    maps.no_attach = k->no_attach;
    maps.no_get = k->no_get;
    begin(&s, &r);
    finish(&s, &r);
    world_down();
}

static uint64_t only_seed;

static void pairs(struct knobs k)
{
    static const int64_t lens[] = { 3, 249, 300, 4002, 40002, 600000 };
    for (unsigned i = 0; i < sizeof lens / sizeof *lens; i++)
        for (unsigned p = 0; p < KINDS * KINDS && !check_failed_case; p++) {
            uint64_t first = 1000 * i + p;
            if (only_seed && only_seed != first)
                continue;
            seed = first;
            int64_t len = lens[i], other = rnd(3) ? len : rnd(2) ? len + 30 : len / 6 * 3;
            struct end s = { p % KINDS, 1, 0, len, rnd(20), NULL };
            struct end r = { p / KINDS, 2, 1, other, rnd(20), NULL };
            if (rnd(4) == 0)
                s.at = r.at = 0; /* to the own process */
            one(&k, s, r);
            if (check_failed_case)
                printf("# run again with TEST_SEED=%llu\n", (unsigned long long)first);
        }
}

static void mapped(void) { pairs((struct knobs){ .mapped = true }); }
static void refused_messages(void) { pairs((struct knobs){ .mapped = true, .eagain = 40 }); }
static void not_mapped(void) { pairs((struct knobs){ .mapped = false, .eagain = 10 }); }
static void not_exportable(void) { pairs((struct knobs){ .mapped = true, .no_export = 60 }); }
static void not_offered(void) { pairs((struct knobs){ .mapped = true, .no_offer = 60 }); }
static void not_attached(void) { pairs((struct knobs){ .mapped = true, .no_attach = 60 }); }
static void get_not_started(void) { pairs((struct knobs){ .mapped = true, .no_get = 60 }); }

/* Several pieces in device memory. */
static void long_ones(void)
{
    static const enum kind ends[][2] = { { DEV_GAPS, DEV_GAPS },
                                         { DEV, DEV_GAPS },
                                         { DEV_GAPS, HOST } };
    for (unsigned p = 0; p < sizeof ends / sizeof *ends; p++) {
        seed = p;
        struct end s = { ends[p][0], 1, 0, 9000003, rnd(20), NULL };
        struct end r = { ends[p][1], 2, 1, 9000003, rnd(20), NULL };
        one(&(struct knobs){ .mapped = true }, s, r);
    }
}

/* ---- the path that is taken ---- */

static void direct(void)
{
    struct end s = { DEV, 1, 0, 100000, 1, NULL }, r = { DEV, 2, 1, 100000, 2, NULL };
    world_up(true, 0);
    begin(&s, &r);
    finish(&s, &r);
    CHECK_EQ(maps.gets, 1);
    CHECK_EQ(dom[1]->stats->device, 1);
    CHECK_EQ(dom[1]->stats->device_bytes, 100000);
    CHECK_EQ(dom[1]->stats->staged_bytes, 0);
    CHECK_EQ(dom[2]->stats->staged_bytes, 0);
    s.kind = DEV_GAPS;
    s.len = r.len = 99999;
    begin(&s, &r);
    finish(&s, &r);
    CHECK_EQ(maps.gets, 2); /* of the data packed on the device */
    CHECK_EQ(dom[1]->stats->staged_bytes, 99999);
    CHECK_EQ(dom[2]->stats->staged_bytes, 0);
    s.kind = DEV;
    s.len = r.len = 1500000;
    begin(&s, &r);
    finish(&s, &r);
    CHECK_EQ(maps.gets, 2); /* long messages are written by the sender */
    CHECK_EQ(maps.puts, 1);
    maps.no_get = 100;
    begin(&s, &r); /* neither path */
    finish(&s, &r);
    CHECK_EQ(maps.puts, 2);
    CHECK_EQ(maps.gets, 3);
    CHECK(dom[2]->stats->staged_bytes >= 1500000);
    world_down();
}

/* The longest messages are written by the sender, too, if the receiver's memory is in large
 * pages. */
static void who_copies_the_longest(void)
{
    struct end s = { DEV, 1, 0, (48 << 20) + 1, 1, NULL }, r = { DEV, 2, 1, s.len, 2, NULL };
    cu_ptr p;
    world_up(true, 0);
    begin(&s, &r);
    finish(&s, &r);
    CHECK_EQ(maps.puts, 1);
    CHECK_EQ(maps.gets, 0);
    char *whole = device[1];
    CHECK_EQ(rt_cuda.mem_alloc(&p, ROOM + 4096), CU_OK);
    device[1] = (char *)(uintptr_t)p;
    begin(&s, &r);
    finish(&s, &r);
    CHECK_EQ(maps.puts, 1);
    CHECK_EQ(maps.gets, 1);
    device[1] = whole;
    CHECK_EQ(rt_cuda.mem_free(p), CU_OK);
    world_down();
}

/* What failed once may work later, for other devices or with fewer mappings. */
static void a_refused_put_is_tried_again(void)
{
    struct end s = { DEV, 1, 0, 512 << 10, 1, NULL }, r = { DEV, 2, 1, 512 << 10, 2, NULL };
    world_up(true, 0);
    maps.no_attach = 100;
    for (int i = 0; i < 257; i++) {
        begin(&s, &r);
        finish(&s, &r);
        maps.no_attach = 0;
        CHECK_EQ(maps.puts, i < 256 ? 0 : 1);
    }
    world_down();
}

/* More receives than may be staged at a time, completed from the last to the first. */
static void many(void)
{
    enum { MANY = 50, LEN = 30000 };
    struct end s[MANY], r[MANY];
    for (int mode = 0; mode < 2; mode++) {
        seed = 77;
        world_up(true, 20);
        for (int i = 0; i < MANY; i++) {
            s[i] = (struct end){ mode ? DEV : DEV_GAPS, 1, 0, LEN, 0, NULL };
            r[i] = (struct end){ mode ? HOST : DEV_GAPS, 2, 1, LEN, (unsigned)(i * 2 * LEN), NULL };
        }
        fill(&s[0], true);
        for (int i = MANY - 1; i >= 0; i--)
            fill(&r[i], false);
        struct end all = r[MANY - 1];
        all.shift = 0;
        all.len = MANY * 2 * LEN;
        fill(&all, false);
        for (int i = 0; i < MANY; i++) {
            struct wm_msg sm = msg(&s[i], 2, i), rm = msg(&r[i], 1, i);
            CHECK_EQ(wm_p2p_irecv(&rm, &r[i].r), 0);
            CHECK_EQ(wm_p2p_isend(&sm, WM_STANDARD, &s[i].r), 0);
        }
        for (int i = MANY - 1; i >= 0; i--) {
            pump_until(&s[i], &r[i]);
            CHECK_EQ(r[i].r->err, 0);
            CHECK_EQ(s[i].r->err, 0);
            wm_req_release(s[i].r);
            wm_req_release(r[i].r);
        }
        const char *at = host[1];
        if (!mode) {
            write_device(check, device[1], (size_t)MANY * 2 * LEN);
            at = check;
        }
        int bad = 0;
        for (int i = 0; i < MANY; i++)
            for (int64_t b = 0; b < LEN; b++)
                bad += at[i * 2 * LEN + place(&r[i], b)] != pattern(b);
        CHECK_EQ(bad, 0);
        world_down();
    }
}

/* ---- failures ---- */

/* A get that ends with an error: of a whole message, or of a piece.  Both sides are notified. */
static void get_fails(void)
{
    for (unsigned p = 0; p < 4; p++) {
        struct end s = { DEV + (p & 1), 1, 0, 4500000, 0, NULL };
        struct end r = { DEV + (p >> 1), 2, 1, 4500000, 0, NULL };
        world_up(true, 10);
        maps.bad_get = 100;
        begin(&s, &r);
        pump_until(&s, &r);
        if (p == 0) { /* one put: the sender has seen the error */
            CHECK_EQ(s.r->err, -RT_EGPU);
            CHECK_EQ(r.r->err, -RT_EREMOTE);
        } else { /* pieces by put and by get: either side may be first */
            CHECK(s.r->err == -RT_EGPU || s.r->err == -RT_EREMOTE);
            CHECK(r.r->err == -RT_EGPU || r.r->err == -RT_EREMOTE);
        }
        wm_req_release(s.r);
        wm_req_release(r.r);
        maps.bad_get = 0; /* the next message works */
        begin(&s, &r);
        finish(&s, &r);
        world_down();
    }
}

/* MPI_Finalize has given up a send and released its device; then the receiver's answer comes: a
 * request for a put, for pieces, or notice that it has read the data. */
static void an_answer_after_the_end(void)
{
    for (int way = 0; way < 3; way++) {
        int64_t len = way == 2 ? 1000 : 1500000;
        struct end s = { way == 1 ? DEV_GAPS : DEV, 1, 0, len, 1, NULL };
        struct end r = { DEV, 2, 1, len, 2, NULL };
        world_up(true, 0);
        struct wm_msg sm = msg(&s, 2, 3), rm = msg(&r, 1, 3);
        fill(&s, true);
        fill(&r, false);
        CHECK_EQ(wm_p2p_isend(&sm, WM_STANDARD, &s.r), 0);
        wm_dev_rest(dom[1]);
        CHECK_EQ(wm_p2p_irecv(&rm, &r.r), 0);
        pump_until(&s, &r);
        CHECK_EQ(s.r->err, way == 2 ? 0 : -RT_EGPU);
        CHECK_EQ(r.r->err, way == 2 ? 0 : -RT_EREMOTE);
        if (way == 2)
            verify(&r, len, "read after the end");
        wm_req_release(s.r);
        wm_req_release(r.r);
        world_down();
    }
}

/* One side loses the other at any time: its request ends, with an error or with all data. */
static void lost_peer(void)
{
    named = true;
    for (unsigned i = 0; i < 256 && !check_failed_case; i++) {
        seed = i;
        unsigned p = i % (KINDS * KINDS);
        struct end s = { p % KINDS, 1, 0, i & 16 ? 600000 : 3999, 0, NULL };
        struct end r = { p / KINDS, 2, 1, s.len, 0, NULL };
        world_up(i & 64, 20);
        maps.no_export = i & 128 ? 50 : 0;
        begin(&s, &r);
        for (unsigned n = rnd(60); n; n--)
            pump();
        fake_net_kill(1);
        fake_net_kill(2);
        pump_until(&s, &r);
        CHECK_MSG(!s.r->err || s.r->err == -RT_EPEER, "send: %s", rt_err_text(s.r->err));
        CHECK_MSG(!r.r->err || r.r->err == -RT_EPEER, "receive: %s", rt_err_text(r.r->err));
        if (!r.r->err)
            verify(&r, r.len, "lost peer");
        wm_req_release(s.r);
        wm_req_release(r.r);
        world_down();
    }
    named = false;
}

/* ---- invalid buffers ---- */

static void bad_buffers(void)
{
    struct rt_req *r = NULL;
    struct end e = { DEV, 1, 0, 300, 0, NULL };
    world_up(true, 0);
    struct wm_msg m = msg(&e, 2, 3);
    m.count = ROOM + 1;
    CHECK_EQ(wm_p2p_isend(&m, WM_STANDARD, &r), -RT_EADDR);
    CHECK_EQ(wm_dev_fault(), MPI_ERR_BUFFER);
    CHECK(strstr(wm_err_detail(), "allocation of") != NULL);
    CHECK_EQ(wm_p2p_irecv(&m, &r), -RT_EADDR);
    m.layout = &strided;
    m.count = ROOM / 5 + 1;
    CHECK_EQ(wm_p2p_irecv(&m, &r), -RT_EADDR);
    cu_ptr freed;
    CHECK_EQ(rt_cuda.mem_alloc(&freed, 1 << 21), CU_OK);
    CHECK_EQ(rt_cuda.mem_free(freed), CU_OK);
    m = msg(&e, 2, 3);
    m.buf = (const void *)(uintptr_t)freed;
    CHECK_EQ(wm_p2p_isend(&m, WM_STANDARD, &r), -RT_EADDR);
    CHECK_EQ(wm_p2p_irecv(&m, &r), -RT_EADDR);
    m.count = 0; /* with count 0 no memory is touched */
    CHECK_EQ(wm_p2p_isend(&m, WM_STANDARD, &r), 0);
    wm_req_release(r);
    m.comm = &comm[2];
    m.peer = 1;
    CHECK_EQ(wm_p2p_irecv(&m, &r), 0);
    for (int i = 0; i < 1000 && !rt_req_done(r); i++)
        pump();
    CHECK(rt_req_done(r) && !r->err);
    wm_req_release(r);
    world_down();
}

/* A receive that is cancelled, and one whose handle is freed. */
static void cancelled(void)
{
    struct end s = { DEV, 1, 0, 300, 0, NULL }, r = { DEV, 2, 1, 300, 0, NULL };
    world_up(true, 0);
    struct wm_msg rm = msg(&r, 1, 3), sm = msg(&s, 2, 3);
    CHECK_EQ(wm_p2p_irecv(&rm, &r.r), 0);
    CHECK_EQ(r.r->ops->cancel(r.r), 0);
    CHECK(rt_req_done(r.r) && r.r->status.cancelled);
    wm_req_release(r.r);
    fill(&s, true);
    fill(&r, false);
    CHECK_EQ(wm_p2p_irecv(&rm, &r.r), 0);
    r.r->flags |= RT_REQ_DETACHED;
    CHECK_EQ(wm_p2p_isend(&sm, WM_STANDARD, &s.r), 0);
    pump_until(&s, &s);
    wm_req_release(s.r);
    for (int i = 0; i < 100; i++)
        pump();
    verify(&r, 300, "detached");
    world_down();
}

/* ---- buffered, packed ---- */

static void at_once(void)
{
    enum { LEN = 90000 };
    struct end s = { DEV_GAPS, 1, 0, LEN, 3, NULL }, r = { DEV_GAPS, 2, 1, LEN, 5, NULL };
    static char attached[2 * LEN], packed[LEN];
    world_up(true, 0);
    wm_main_domain = dom[1];
    CHECK_EQ(wm_api_buffer_attach(attached, sizeof attached), 0);
    struct wm_msg rm = msg(&r, 1, 3), sm = msg(&s, 2, 3);
    fill(&s, true);
    fill(&r, false);
    CHECK_EQ(wm_p2p_bsend(&sm, NULL), 0);
    fill(&s, false); /* the data have been copied */
    CHECK_EQ(wm_p2p_irecv(&rm, &r.r), 0);
    pump_until(&r, &r);
    CHECK_EQ(r.r->err, 0);
    verify(&r, LEN, "buffered");
    wm_req_release(r.r);
    void *back;
    MPI_Count n;
    CHECK_EQ(wm_api_buffer_detach(&back, &n), 0);
    fill(&s, true);
    CHECK_EQ(wm_pack_any(sm.layout, sm.count, sm.buf, 0, packed, LEN), 0);
    int bad = 0;
    for (int i = 0; i < LEN; i++)
        bad += packed[i] != pattern(i);
    CHECK_EQ(bad, 0);
    fill(&r, false);
    CHECK_EQ(wm_unpack_any(rm.layout, rm.count, (void *)(uintptr_t)rm.buf, 0, packed, LEN), 0);
    verify(&r, LEN, "unpacked");
    world_down();
}

/* ---- */

static void gpu_up(void)
{
    cu_ctx ctx;
    cu_ptr p;
    if (rt_cuda_open(true) || rt_cuda.init(0) != CU_OK)
        check_skip("no CUDA driver, not even the fake one");
    CHECK_EQ(rt_cuda.primary_ctx_retain(&ctx, 0), CU_OK);
    CHECK_EQ(rt_cuda.ctx_push_current(ctx), CU_OK);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(rt_cuda.mem_alloc(&p, ROOM), CU_OK);
        device[i] = (char *)(uintptr_t)p;
        host[i] = malloc(ROOM);
    }
    check = malloc(ROOM);
}

int main(void)
{
    rt_cfg_load();
    if (getenv("TEST_SEED"))
        only_seed = strtoul(getenv("TEST_SEED"), NULL, 10);
    cfg.btl = (char *)(uintptr_t) "fake";
    rt_boot.rank = 0;
    rt_gpu_init();
    gpu_up();
    rt_layout_basic(&byte_layout, 1, 1, RT_ELEM_BYTE);
    struct rt_layout three;
    CHECK_EQ(rt_layout_vector(&three, 1, 3, 3, &byte_layout), 0);
    CHECK_EQ(rt_layout_resized(&strided, 0, 5, &three), 0);
    if (!only_seed)
        RUN(direct);
    RUN(mapped);
    RUN(refused_messages);
    RUN(not_mapped);
    RUN(not_exportable);
    RUN(not_offered);
    RUN(not_attached);
    RUN(get_not_started);
    if (only_seed)
        return check_end();
    RUN(long_ones);
    RUN(who_copies_the_longest);
    RUN(a_refused_put_is_tried_again);
    RUN(many);
    CHECK(freopen("/dev/null", "w", stderr) != NULL); /* the cases below report errors */
    RUN(get_fails);
    RUN(an_answer_after_the_end);
    RUN(lost_peer);
    RUN(bad_buffers);
    RUN(cancelled);
    RUN(at_once);
    rt_gpu_fini();
    return check_end();
}
