/* SPDX-License-Identifier: BSD-3-Clause */
/* Caches and clocks of a simulated machine: see node_costs.h.
 *
 * A line has the cores that have a copy.  A core that reads a line without a copy gets it from the
 * nearest core that has one, a core that writes it takes all other copies away.  Reads that do not
 * wait for data overlap: each delays the next ones by a part of its latency (OVERLAP) or by its
 * share of the rate, and the rank by its whole latency.  Stores leave in order and delay the rank
 * only by their share of the rate.  Copies of one line are made one after another (COPY_NS), and a
 * core gives away the lines that only it has one after another (GIVE_NS).  A rank that waits for a
 * store has the line one latency after the store, and has lost POLL_NS by then. */
#include "test/fake/node_costs.h"

#include <math.h>
#include <stdlib.h>
#include <ucontext.h>
#include "test/check.h"

enum { CORES_MAX = 192, WORDS = CORES_MAX / 64 };
#define OVERLAP 2.5  /* reads of one core in flight; fitted, see node_model_test.c */
#define COPY_NS 12.0 /* from one copy of a line to the next; fitted */
#define GIVE_NS 4.0  /* 64 bytes at 16 bytes per ns */
#define POLL_NS 15.0 /* a branch that was predicted wrongly, and the way back to the poll */
#define HIT_NS 0.7
#define OWN_RATE 50.0 /* bytes per ns, from and to the private cache */
#define ADD_RATE 20.0 /* of a sum */
#define WALK_NS 30.0  /* of a page: the part in which readers of one process wait for each other */
#define PAGE 4096
#define STACK ((size_t)256 << 10) /* of a rank */

struct line {
    uint64_t has[WORDS]; /* cores with a copy */
    double stored, busy; /* the last store is visible from here on; copies may be made */
};

struct clock {
    double issue, done, store, gives, walks;
    bool awake; /* a line that it has loaded has changed since its turn began */
    bool sleeps, ended;
    ucontext_t at;
    char *stack;
};

int cost_rank;
static struct {
    const struct cost_machine *m;
    int n;
    const char *shm;
    size_t nlines;
    struct line *lines;
    struct clock ranks[CORES_MAX];
    ucontext_t main;
    double slack,
        until; /* cost_run(); the running rank stops when its clock is later than `until` */
    bool (*turn)(int rank);
} s;

void cost_begin(const struct cost_machine *m, int nranks, const char *shm, size_t len)
{
    memset(&s, 0, sizeof s);
    s.m = m;
    s.n = nranks;
    s.shm = shm;
    s.nlines = len / RT_CACHE_LINE;
    s.lines = calloc(s.nlines, sizeof *s.lines);
    CHECK(s.lines && nranks <= CORES_MAX);
    s.until = INFINITY;
}

void cost_end(void)
{
    for (int r = 0; r < s.n; r++)
        free(s.ranks[r].stack);
    free(s.lines);
    s.nlines = 0;
}

double cost_clock(int rank)
{
    const struct clock *c = &s.ranks[rank];
    return c->issue > c->done ? c->issue : c->done;
}

void cost_meet(void)
{
    double last = 0;
    for (int r = 0; r < s.n; r++)
        last = cost_clock(r) > last ? cost_clock(r) : last;
    for (int r = 0; r < s.n; r++)
        s.ranks[r].issue = s.ranks[r].done = last;
}

/* The ranks take turns, each in a context of its own: a rank that gets ahead of the others stops in
 * the middle, so that all accesses happen nearly in the order of their times. */

static void stop(void) { swapcontext(&s.ranks[cost_rank].at, &s.main); }

static void stop_if_ahead(void)
{
    if (cost_clock(cost_rank) > s.until)
        stop();
}

static void run_rank(void)
{
    struct clock *c = &s.ranks[cost_rank];
    for (c->awake = false; !s.turn(cost_rank); c->awake = false) {
        c->sleeps = !c->awake;
        stop();
    }
    c->ended = true;
    stop();
}

/* The rank whose clock is behind all others', of those that can run; -1: none can.  *then: the next
 * clock. */
static int next(double *then)
{
    int first = -1;
    *then = INFINITY;
    for (int r = 0; r < s.n; r++) {
        if (s.ranks[r].ended || s.ranks[r].sleeps)
            continue;
        const double at = cost_clock(r);
        if (first < 0 || at < cost_clock(first)) {
            *then = first < 0 ? *then : cost_clock(first);
            first = r;
        } else if (at < *then) {
            *then = at;
        }
    }
    return first;
}

/* Apart: getcontext() may return twice, as far as compilers know. */
static void make_context(struct clock *c)
{
    c->ended = c->sleeps = false;
    if (!c->stack)
        c->stack = malloc(STACK);
    getcontext(&c->at);
    c->at.uc_stack.ss_sp = c->stack;
    c->at.uc_stack.ss_size = STACK;
    makecontext(&c->at, run_rank, 0);
}

bool cost_run(bool (*turn)(int rank), double slack)
{
    s.turn = turn;
    s.slack = slack;
    for (int r = 0; r < s.n; r++)
        make_context(&s.ranks[r]);
    for (;;) {
        cost_rank = next(&s.until);
        if (cost_rank < 0)
            break;
        s.until += slack;
        swapcontext(&s.main, &s.ranks[cost_rank].at);
    }
    for (int r = 0; r < s.n; r++)
        if (!s.ranks[r].ended)
            return false;
    s.until = INFINITY;
    return true;
}

void cost_spend(double ns) { s.ranks[cost_rank].issue += ns; }

uint64_t cost_now(void) { return (uint64_t)cost_clock(cost_rank); }

/* ---- lines ---- */

static struct line *line_of(const void *p)
{
    const char *at = p;
    if (at < s.shm || at >= s.shm + s.nlines * RT_CACHE_LINE)
        return NULL;
    return &s.lines[(size_t)(at - s.shm) / RT_CACHE_LINE];
}

static bool has(const struct line *l, int r) { return l->has[r / 64] >> (r % 64) & 1; }

static bool has_any(const struct line *l, int from, int to)
{
    for (int w = from / 64; w * 64 < to; w++) {
        uint64_t bits = l->has[w];
        if (from > w * 64)
            bits &= ~(uint64_t)0 << (from - w * 64);
        if (to < w * 64 + 64)
            bits &= ((uint64_t)1 << (to - w * 64)) - 1;
        if (bits)
            return true;
    }
    return false;
}

/* The first level at which another core than `r` has a copy; -1: none has. */
static int nearest(const struct line *l, int r)
{
    for (int i = 0, from = r, to = r + 1; i < COST_LEVELS && s.m->level[i].cores; i++) {
        const int first = r / s.m->level[i].cores * s.m->level[i].cores,
                  end = first + s.m->level[i].cores < s.n ? first + s.m->level[i].cores : s.n;
        if (has_any(l, first, from) || has_any(l, to, end))
            return i;
        from = first;
        to = end;
    }
    return -1;
}

/* The last level at which another core has one. */
static int farthest(const struct line *l, int r)
{
    int from = 0, to = s.n;
    for (int i = COST_LEVELS - 1; i >= 0; i--) {
        if (!s.m->level[i].cores)
            continue;
        const int below = i ? s.m->level[i - 1].cores : 1, first = r / below * below;
        if (has_any(l, from, first) || (first + below < to && has_any(l, first + below, to)))
            return i;
        from = first;
        to = first + below < to ? first + below : to;
    }
    return -1;
}

/* The only core that has a copy; -1: more than one. */
static int holder(const struct line *l)
{
    int at = -1;
    for (int w = 0; w < WORDS; w++) {
        if (!l->has[w])
            continue;
        if (at >= 0 || l->has[w] & (l->has[w] - 1))
            return -1;
        at = w * 64 + __builtin_ctzll(l->has[w]);
    }
    return at;
}

static double most(double a, double b) { return a > b ? a : b; }

/* stream: one of many lines, which the processor fetches before they are asked for */
static void read_line(struct line *l, bool stream)
{
    struct clock *c = &s.ranks[cost_rank];
    const int near = has(l, cost_rank) ? -1 : nearest(l, cost_rank);
    if (near < 0) {
        c->issue += stream ? RT_CACHE_LINE / OWN_RATE : HIT_NS;
        l->has[cost_rank / 64] |= (uint64_t)1 << (cost_rank % 64);
        return;
    }
    const double ns = s.m->level[near].line, part = RT_CACHE_LINE / s.m->level[near].rate;
    const int only = holder(l);
    const bool waits = l->stored > c->issue;
    double start = most(c->issue, most(l->stored, l->busy));
    if (only >= 0) {
        start = most(start, s.ranks[only].gives);
        s.ranks[only].gives = start + GIVE_NS;
    }
    l->busy = start + COPY_NS;
    l->has[cost_rank / 64] |= (uint64_t)1 << (cost_rank % 64);
    c->done = most(c->done, start + ns);
    c->issue = waits ? start + ns + POLL_NS : c->issue + most(part, stream ? part : ns / OVERLAP);
}

static void write_line(struct line *l, bool stream)
{
    struct clock *c = &s.ranks[cost_rank];
    const int far = farthest(l, cost_rank);
    const double own = stream ? RT_CACHE_LINE / OWN_RATE : HIT_NS;
    const double ns = far < 0 ? 0 : s.m->level[far].line;
    c->issue += far < 0 ? own : most(own, RT_CACHE_LINE / s.m->level[far].rate);
    c->store = most(c->store + own, (stream ? c->issue : cost_clock(cost_rank)) + ns);
    for (int w = 0; w < WORDS && far >= 0; w++)
        for (uint64_t bits = l->has[w]; bits; bits &= bits - 1) {
            struct clock *other = &s.ranks[w * 64 + __builtin_ctzll(bits)];
            if (other == c)
                continue;
            other->awake = true;
            if (other->sleeps && s.slack < INFINITY)
                s.until = cost_clock(cost_rank) + s.slack < s.until
                              ? cost_clock(cost_rank) + s.slack
                              : s.until;
            other->sleeps = false;
        }
    memset(l->has, 0, sizeof l->has);
    l->has[cost_rank / 64] |= (uint64_t)1 << (cost_rank % 64);
    l->stored = c->store;
    l->busy = c->store;
}

void cost_load(const void *p)
{
    struct line *l = line_of(p);
    if (!l)
        return;
    stop_if_ahead();
    read_line(l, false);
}

void cost_store(const void *p)
{
    struct line *l = line_of(p);
    if (!l)
        return;
    stop_if_ahead();
    write_line(l, false);
}

void cost_prefetch(const void *p)
{
    struct line *l = line_of(p);
    if (l)
        read_line(l, true);
}

/* ---- copies ---- */

void cost_read(const void *p, size_t len)
{
    const char *at = p;
    if (len && !line_of(p))
        s.ranks[cost_rank].issue += (double)len / OWN_RATE;
    else
        for (size_t i = 0; i < len; i += RT_CACHE_LINE, stop_if_ahead())
            read_line(line_of(at + i), len > RT_CACHE_LINE);
}

/* What is shorter than a line is written with the epoch beside it, by the store that shows it. */
void cost_write(void *p, size_t len)
{
    char *at = p;
    if (len < RT_CACHE_LINE)
        s.ranks[cost_rank].issue += HIT_NS;
    else if (!line_of(p))
        s.ranks[cost_rank].issue += (double)len / OWN_RATE;
    else
        for (size_t i = 0; i < len; i += RT_CACHE_LINE, stop_if_ahead())
            write_line(line_of(at + i), true);
}

void cost_copy(void *to, const void *from, size_t len)
{
    if (len <= RT_CACHE_LINE)
        memcpy(to, from, len);
    cost_read(from, len);
    cost_write(to, len);
}

void cost_peer(int peer, size_t len)
{
    struct clock *c = &s.ranks[cost_rank], *other = &s.ranks[peer];
    const double pages = (double)(len + PAGE - 1) / PAGE;
    int i = 0;
    while (i < COST_LEVELS - 1 && cost_rank / s.m->level[i].cores != peer / s.m->level[i].cores)
        i++;
    stop_if_ahead();
    const double walk = most(cost_clock(cost_rank) + s.m->call, other->walks);
    other->walks = walk + pages * WALK_NS;
    c->issue = walk + pages * s.m->page + (double)len / s.m->level[i].rate;
}

static void add(const void *a, const void *b, void *out, int64_t n)
{
    const size_t len = (size_t)n * 8;
    cost_read(a, len);
    cost_read(b, len);
    cost_write(out, len);
    s.ranks[cost_rank].issue += (double)len / ADD_RATE;
}

rt_reduce_fn *cost_reduce_find(void) { return add; }
