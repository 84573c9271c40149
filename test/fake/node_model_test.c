/* SPDX-License-Identifier: BSD-3-Clause */
/* The predicted times of coll/node on machines that are not at hand: its code runs over simulated
 * costs (node_costs.h), beside a flat and a binomial way of each kind over the same costs.  Fails
 * where coll/node takes longer than kinds[].most times the better of the two; the goal is MOST.
 * The costs are fitted to the 32 cores of docs/BENCHMARKS.md: 29 times of 2 to 32 ranks are between
 * 0.3 and 2.2 of the measured ones, the mean is 0.8.
 *
 * A time is from the common start of a call: the mean of the ranks, as benchmarks measure it, and
 * the last rank, which other ranks may wait for, count the same.
 * With an argument it prints the times of a machine: part of its name, and a kind or nothing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "coll/begin.h"
#include "coll/node/choose.h"
#include "coll/start/start.h"
#include "coll/start/team.h"
#include "test/check.h"
#include "test/fake/coll_fake.h"
#include "test/fake/node_costs.h"

enum { RANKS_MAX = 192 };
#define MOST 1.2
#define CALL_NS 70.0           /* from MPI to the first step and back */
#define VOLUME_MAX (1ll << 20) /* of a call: bytes that all ranks receive */
#define ROOM (20u << 20)
enum { IN_A_ROW = 4 }; /* calls that are measured: every fourth one waits for a cell */

static const int64_t sizes[] = { 8, 4096, 64, 512, 16384, 65536, 262144, 1048576 };
static const int counts[] = { 3, 16, 64, 2, 4, 8, 24, 32, 56, 96, 112, 128, 144, 192 };
/* Without an argument only the first ones. */
enum { SOME_MACHINES = 3, SOME_SIZES = 2, SOME_COUNTS = 3, SIZES = 8, COUNTS = 14 };
/* How much longer than the better of the other ways a call takes today: of 8 B, and of any length.
 * A way that gains lowers its number. */
static const struct {
    enum coll_kind kind;
    double small, most;
    const char *why;
} kinds[] = {
    { COLL_BARRIER, 1.4, 1.4, "16 to 32 ranks on small L3 caches: two rounds, one would do" },
    { COLL_BCAST, 1.2, 1.6, "4 KiB: the root waits for all ranks at every fourth call" },
    { COLL_REDUCE, 1.4, 3.0,
      "from 4 KiB on the root adds all data; the mean of the ranks is less" },
    { COLL_ALLREDUCE, 1.5, 1.5, "8 B, 16 ranks: as barrier" },
    { COLL_GATHER, 2.5, 2.5, "8 B: the root reads all lines" },
    { COLL_GATHERV, 2.5, 2.5, "8 B: as gather" },
    { COLL_SCATTER, 1.2, 1.2, "" },
    { COLL_SCATTERV, 1.2, 1.2, "" },
    { COLL_ALLGATHER, 2.0, 2.0, "8 B: p lines, a log of p messages would do" },
    { COLL_ALLGATHERV, 2.0, 2.0, "as allgather" },
    { COLL_ALLTOALL, 2.0, 2.0, "as allgather" },
    { COLL_ALLTOALLV, 1.2, 1.4, "" },
    { COLL_REDUCE_SCATTER_BLOCK, 3.0, 3.0, "as allgather" },
    { COLL_SCAN, 2.2, 2.2, "as allgather" },
    { COLL_EXSCAN, 2.2, 2.2, "as allgather" },
};
enum { NKINDS = sizeof kinds / sizeof *kinds };

static char *buffers; /* of all ranks; never touched but for short data */

/* Bytes that all ranks receive, with blocks of `len`. */
static int64_t volume(enum coll_kind kind, int n, int64_t len)
{
    switch (kind) {
    case COLL_BARRIER:
        return 0;
    case COLL_GATHER:
    case COLL_GATHERV:
    case COLL_SCATTER:
    case COLL_SCATTERV:
    case COLL_REDUCE:
    case COLL_BCAST:
    case COLL_REDUCE_SCATTER_BLOCK:
        return n * len;
    default:
        return (int64_t)n * n * len;
    }
}

/* ---- coll/node ---- */

static struct {
    struct fake *f;
    struct coll_task tasks[RANKS_MAX];
    double ends[RANKS_MAX], starts;
    int n;
    bool good;
} run;

static int peer_read(struct coll_team *t, int peer, void *to, uint64_t from, size_t len)
{
    if (len <= 8)
        memcpy(to, (const void *)(uintptr_t)from, len);
    cost_peer(peer, len);
    cost_write(to, (const char *)to >= buffers ? 0 : len);
    (void)t;
    return 0;
}

static int peer_write(struct coll_team *t, int peer, uint64_t to, const void *from, size_t len)
{
    (void)t, (void)to, (void)from;
    cost_peer(peer, len);
    return 0;
}

static void shm_wake(struct coll_team *t, int rank)
{
    (void)t, (void)rank;
    cost_spend(0.5);
}

static const struct fake_more model_more = {
    .ops = { .peer_read = peer_read, .peer_write = peer_write, .shm_wake = shm_wake },
};

static bool turn(int rank)
{
    struct coll_task *k = &run.tasks[rank];
    if (!coll_task_advance(k))
        return false;
    run.good = run.good && !k->req.err;
    run.ends[rank] = cost_clock(rank) - run.starts;
    return true;
}

/* One call of all ranks; returns whether all have ended. */
static bool call(enum coll_kind kind, int64_t len, double slack)
{
    static const struct rt_layout f64 = {
        .size = 8, .extent = 8, .true_extent = 8, .contig = true, .elem = RT_ELEM_F64
    };
    static const struct rt_op sum = { .code = RT_OP_SUM, .commutes = true };
    static int64_t nums[RANKS_MAX], displs[RANKS_MAX];
    const int64_t num = len / 8;
    cost_meet();
    run.starts = cost_clock(0);
    for (int r = 0; r < run.n; r++) {
        nums[r] = num;
        displs[r] = r * num;
    }
    for (int r = 0; r < run.n; r++) {
        char *own = buffers + (size_t)r * 2 * (size_t)VOLUME_MAX;
        const struct coll_args a = { .kind = kind,
                                     .mem = RT_MEM_HOST,
                                     .sbuf = own,
                                     .rbuf = own + VOLUME_MAX,
                                     .scount = num,
                                     .rcount = num,
                                     .stype = &f64,
                                     .rtype = &f64,
                                     .op = &sum,
                                     .scounts = nums,
                                     .rcounts = nums,
                                     .sdispls = displs,
                                     .rdispls = displs };
        struct coll_args b = a;
        b.op = coll_is(kind, COLL_IS_REDUCTION) ? &sum : NULL;
        if (kind == COLL_REDUCE_SCATTER_BLOCK || !coll_is_apart(kind, COLL_SEND))
            b.scounts = b.sdispls = NULL;
        if (kind == COLL_REDUCE_SCATTER_BLOCK || !coll_is_apart(kind, COLL_RECV))
            b.rcounts = b.rdispls = NULL;
        cost_rank = r;
        cost_spend(CALL_NS);
        memset(&run.tasks[r], 0, sizeof run.tasks[r]);
        if (coll_start(fake_team(run.f, r), &b, &run.tasks[r]) != 0)
            return false;
    }
    run.good = true;
    return cost_run(turn, slack) && run.good;
}

/* Of the ranks of a call: the mean, as benchmarks measure, and the last. */
struct span {
    double mean, last;
};

static struct span span_of(void)
{
    struct span t = { 0 };
    for (int r = 0; r < run.n; r++) {
        t.last = run.ends[r] > t.last ? run.ends[r] : t.last;
        t.mean += run.ends[r] / run.n;
    }
    return t;
}

static bool begin(const struct cost_machine *m, int n, int node_way)
{
    run.n = n;
    fake_more = &model_more;
    fake_override = (struct coll_override){
        .node_way = node_way,
        .l3_ranks = m->level[0].cores,
    };
    run.f = fake_create(n, 1, true, ROOM);
    const char *shm = (const char *)fake_team(run.f, 0)->node->head;
    cost_begin(m, n, shm, ((coll_team_nbytes(n) + 4095) & ~(size_t)4095) + ROOM);
    return true;
}

static void end(void)
{
    cost_end();
    fake_destroy(run.f);
    fake_more = NULL;
}

/* Short calls are measured when all slots have been used. */
static int before(int n, int64_t len) { return n * len <= 65536 ? COLL_NODE_SLOTS + 2 : 4; }

/* Long calls need not be exact to the line. */
static double slack_of(int64_t len) { return len <= 4096 ? 0 : len <= 65536 ? 200 : 1000; }

static struct span one_way(const struct cost_machine *m, int n, enum coll_kind kind, int64_t len,
                           int node_way)
{
    bool good = begin(m, n, node_way);
    for (int i = 0; i < before(n, len) && good; i++)
        good = call(kind, len, INFINITY);
    struct span t = { 0 };
    for (int i = 0; i < IN_A_ROW && good; i++) {
        good = call(kind, len, slack_of(len));
        t.mean += span_of().mean / IN_A_ROW;
        t.last += span_of().last / IN_A_ROW;
    }
    end();
    return good ? t : (struct span){ -1, -1 };
}

/* Where ranks measure two ways, pace.c, they have found the faster one. */
static struct span ours(const struct cost_machine *m, int n, enum coll_kind kind, int64_t len)
{
    struct span t = one_way(m, n, kind, len, 1 + COLL_NODE_STAGED);
    if (len < COLL_NODE_PACED_MIN_TWO)
        return t;
    struct span u = one_way(m, n, kind, len, 1 + COLL_NODE_DIRECT);
    return u.mean < t.mean ? u : t;
}

/* ---- the other ways ---- */

/* A way is a program for each rank.  A rank has a place for each round: a flag, and data behind
 * it; up to IN_LINE bytes of data lie beside the flag. */
enum { PUT, POST, WAIT, TAKE, ADD };
struct op {
    int what, rank, round; /* WAIT, TAKE, ADD: of that rank's place, from byte `at` on */
    int64_t len, at;
};
enum { OPS_MAX = 1200, ROUNDS = 10 };
#define IN_LINE 56

static struct {
    struct op *ops; /* [RANKS_MAX][OPS_MAX] */
    int n[RANKS_MAX], next[RANKS_MAX];
    char *area;
    size_t place;
    uint64_t call;
} way;

static void op(int rank, int what, int peer, int round, int64_t len, int64_t at)
{
    CHECK(way.n[rank] < OPS_MAX);
    way.ops[rank * OPS_MAX + way.n[rank]++] = (struct op){
        .what = what, .rank = peer, .round = round, .len = len, .at = at
    };
}

/* Rank `r` writes `len` bytes and shows them. */
static void post(int r, int round, int64_t len)
{
    op(r, PUT, r, round, len, 0);
    op(r, POST, r, round, 0, 0);
}

/* Rank `r` waits for `peer` and takes, or adds, `len` bytes at `at` of its place. */
static void take(int r, int peer, int round, int64_t len, int64_t at, bool adds)
{
    op(r, WAIT, peer, round, 0, 0);
    op(r, adds ? ADD : TAKE, peer, round, len, at);
}

static void flat(enum coll_kind kind, int n, int64_t len)
{
    const bool adds = coll_is(kind, COLL_IS_REDUCTION), row = coll_is_alltoall(kind),
               from = coll_is(kind, COLL_IS_FROM_ROOT), to = coll_is(kind, COLL_IS_TO_ROOT),
               prefix = coll_is(kind, COLL_IS_PREFIX), cut = kind == COLL_REDUCE_SCATTER_BLOCK;
    const int64_t out = row || cut || kind == COLL_SCATTER || kind == COLL_SCATTERV ? n * len : len;
    for (int r = 0; r < n; r++) {
        if (from ? r == 0 : !to || r > 0)
            post(r, 0, out);
        if (from && r > 0)
            take(r, 0, 0, len, kind == COLL_BCAST ? 0 : r * len, false);
        for (int i = 1; i < n && !from && (!to || r == 0); i++)
            if (!prefix || i <= r)
                take(r, (r + n - i) % n, 0, len, row || cut ? r * len : 0, adds);
    }
}

static int low_bit(int r, int n)
{
    int b = 1;
    while (b < n && !(r & b))
        b *= 2;
    return b;
}

/* Up a binomial tree: `sums` partial sums, or all blocks of a subtree. */
static void up(int n, int64_t len, bool sums, int round)
{
    for (int r = 0; r < n; r++) {
        const int own = low_bit(r, n);
        for (int b = 1; b < own; b *= 2)
            if (r + b < n)
                take(r, r + b, round, sums ? len : len * (r + 2 * b < n ? b : n - r - b), 0, sums);
        if (r > 0)
            post(r, round, sums ? len : len * (r + own < n ? own : n - r));
    }
}

/* Down: the same data for all, or the blocks of a subtree. */
static void down(int n, int64_t len, bool same, int round)
{
    for (int r = 0; r < n; r++) {
        const int own = low_bit(r, n);
        const int64_t all = same ? len : len * (r + own < n ? own : n - r);
        if (r > 0)
            take(r, r - own, round, all, same ? 0 : len * own, false);
        if (own > 1 && r + 1 < n)
            post(r, round, all);
    }
}

static void binomial(enum coll_kind kind, int n, int64_t len)
{
    const bool pow2 = (n & (n - 1)) == 0;
    int round = 0;
    switch (kind) {
    case COLL_BCAST:
        down(n, len, true, 0);
        return;
    case COLL_SCATTER:
    case COLL_SCATTERV:
        down(n, len, false, 0);
        return;
    case COLL_REDUCE:
        up(n, len, true, 0);
        return;
    case COLL_GATHER:
    case COLL_GATHERV:
        up(n, len, false, 0);
        return;
    case COLL_BARRIER:
        for (int b = 1; b < n; b *= 2, round++)
            for (int r = 0; r < n; r++) {
                post(r, round, 0);
                op(r, WAIT, (r + n - b) % n, round, 0, 0);
            }
        return;
    case COLL_ALLREDUCE:
        for (int b = 1; b < n && pow2; b *= 2, round++)
            for (int r = 0; r < n; r++) {
                post(r, round, len);
                take(r, r ^ b, round, len, 0, true);
            }
        if (!pow2) {
            up(n, len, true, 0);
            down(n, len, true, 1);
        }
        return;
    case COLL_ALLGATHER:
    case COLL_ALLGATHERV:
        for (int b = 1; b < n; b *= 2, round++)
            for (int r = 0; r < n; r++) {
                const int64_t part = len * (2 * b < n ? b : n - b);
                post(r, round, round ? part / 2 : len);
                take(r, (r + b) % n, round, part, 0, false);
            }
        return;
    case COLL_ALLTOALL:
    case COLL_ALLTOALLV:
        for (int b = 1; b < n; b *= 2, round++)
            for (int r = 0; r < n; r++) {
                post(r, round, len * n / 2);
                take(r, (r + b) % n, round, len * n / 2, 0, false);
            }
        return;
    case COLL_REDUCE_SCATTER_BLOCK:
        for (int b = n / 2; b > 0 && pow2; b /= 2, round++)
            for (int r = 0; r < n; r++) {
                post(r, round, len * b);
                take(r, r ^ b, round, len * b, 0, true);
            }
        if (!pow2) {
            up(n, len * n, true, 0);
            down(n, len, false, 1);
        }
        return;
    default: /* scans */
        for (int b = 1; b < n; b *= 2, round++)
            for (int r = 0; r < n; r++) {
                if (r + b < n)
                    post(r, round, len);
                if (r >= b)
                    take(r, r - b, round, len, 0, true);
            }
    }
}

static char *place_of(int rank, int round)
{
    const int half = (int)(way.call & 1) * ROUNDS;
    return way.area + ((size_t)rank * 2 * ROUNDS + (size_t)(half + round)) * way.place;
}

/* Goes as far as the other ranks allow; whether the program has ended. */
static bool advance(int r)
{
    for (; way.next[r] < way.n[r]; way.next[r]++) {
        const struct op *o = &way.ops[r * OPS_MAX + way.next[r]];
        char *at = place_of(o->rank, o->round);
        uint64_t *flag = (uint64_t *)(void *)at;
        const size_t len = o->at + o->len > IN_LINE ? (size_t)o->len : 0;
        char *data = at + RT_CACHE_LINE + (o->at & ~(int64_t)(RT_CACHE_LINE - 1));
        if (o->what == WAIT) {
            cost_load(flag);
            if (*flag != way.call)
                return false;
        } else if (o->what == POST) {
            cost_store(flag);
            *flag = way.call;
        } else if (o->what == PUT) {
            cost_read(buffers, len);
            cost_write(data, len);
        } else {
            cost_read(data, len);
            cost_write(buffers, len);
            if (o->what == ADD && len)
                cost_spend((double)len / 20);
        }
    }
    run.ends[r] = cost_clock(r) - run.starts;
    return true;
}

static struct span other(const struct cost_machine *m, int n, enum coll_kind kind, int64_t len,
                         void (*write)(enum coll_kind, int, int64_t))
{
    memset(way.n, 0, sizeof way.n);
    write(kind, n, len);
    int64_t longest = 0;
    for (int r = 0; r < n; r++)
        for (const struct op *o = way.ops + r * OPS_MAX, *to = o + way.n[r]; o < to; o++)
            longest = o->len + o->at > longest ? o->len + o->at : longest;
    way.place = ((size_t)longest + 4096 + RT_CACHE_LINE) & ~(size_t)127;
    const size_t nbytes = (size_t)n * 2 * ROUNDS * way.place;
    way.area = mmap(NULL, nbytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(way.area != MAP_FAILED);
    cost_begin(m, n, way.area, nbytes);
    run.n = n;
    for (way.call = 1; way.call <= 4; way.call++) {
        cost_meet();
        run.starts = cost_clock(0);
        memset(way.next, 0, sizeof way.next);
        for (int r = 0; r < n; r++) {
            cost_rank = r;
            cost_spend(CALL_NS);
        }
        CHECK(cost_run(advance, way.call < 4 ? INFINITY : slack_of(len)));
    }
    cost_end();
    munmap(way.area, nbytes);
    return span_of();
}

/* ---- the comparison ---- */

struct row {
    struct span ours, flat, binomial;
};

static struct row predict(const struct cost_machine *m, int n, enum coll_kind kind, int64_t len)
{
    return (struct row){ .ours = ours(m, n, kind, len),
                         .flat = other(m, n, kind, len, flat),
                         .binomial = other(m, n, kind, len, binomial) };
}

static double least(double a, double b) { return a < b ? a : b; }

static double time_of(struct span t) { return (t.mean + t.last) / 2; }

static double ratio(struct row r)
{
    return time_of(r.ours) / least(time_of(r.flat), time_of(r.binomial));
}

/* Not calls that go by messages: an alltoallv of more ranks has too many places in a half. */
static bool wanted(enum coll_kind kind, int n, int64_t len)
{
    if (kind == COLL_BARRIER)
        return len == sizes[0];
    return volume(kind, n, len) <= VOLUME_MAX && (kind != COLL_ALLTOALLV || n <= 32);
}

static void compare(const struct cost_machine *m, enum coll_kind kind, double most, int n,
                    int64_t len, bool show)
{
    struct row r = predict(m, n, kind, len);
    if (show || ratio(r) > MOST)
        printf("# %s, %s, %d ranks, %lld B: %.2f (last %.2f), flat %.2f (%.2f), "
               "binomial %.2f (%.2f) us: %.2f\n",
               m->name, coll_kind_names[kind], n, (long long)len, r.ours.mean / 1e3,
               r.ours.last / 1e3, r.flat.mean / 1e3, r.flat.last / 1e3, r.binomial.mean / 1e3,
               r.binomial.last / 1e3, ratio(r));
    CHECK_MSG(r.ours.mean > 0, "%s of %d ranks does not end", coll_kind_names[kind], n);
    CHECK_MSG(show || ratio(r) <= most, "%s, %s of %lld B, %d ranks: %.2f times the other way",
              m->name, coll_kind_names[kind], (long long)len, n, ratio(r));
}

static const char *only_machine, *only_kind; /* the arguments */

static void predictions(void)
{
    const bool show = only_machine;
    for (int m = 0; cost_machines[m].name && (show || m < SOME_MACHINES); m++)
        for (int k = 0; k < NKINDS; k++)
            for (int c = 0; c < (show ? COUNTS : SOME_COUNTS); c++)
                for (int i = 0; i < (show ? SIZES : SOME_SIZES); i++)
                    if ((!show || strstr(cost_machines[m].name, only_machine)) &&
                        (!only_kind || !strcmp(only_kind, coll_kind_names[kinds[k].kind])) &&
                        counts[c] <= cost_machines[m].cores &&
                        wanted(kinds[k].kind, counts[c], sizes[i]))
                        compare(&cost_machines[m], kinds[k].kind,
                                i ? kinds[k].most : kinds[k].small, counts[c], sizes[i], show);
}

int main(int argc, char **argv)
{
    way.ops = calloc((size_t)RANKS_MAX * OPS_MAX, sizeof *way.ops);
    buffers = mmap(NULL, (size_t)RANKS_MAX * 2 * (size_t)VOLUME_MAX, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(way.ops && buffers != MAP_FAILED);
    only_machine = argc > 1 ? argv[1] : NULL;
    only_kind = argc > 2 ? argv[2] : NULL;
    RUN(predictions);
    return check_end();
}
