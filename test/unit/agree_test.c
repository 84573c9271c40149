/* SPDX-License-Identifier: BSD-3-Clause */
/* The agreement of coll/ft/agree.c on a simulated network.  A search visits every order in which
 * processes start, messages arrive and deaths are noticed, and every point at which a process dies,
 * also in the middle of sending to several.  In each state the values decided so far must be
 * equal; where nothing can happen any more, all living processes must have decided.  States that
 * have been visited are known by a hash of 64 bits.  With more processes the orders are bounded: of
 * the possible steps the first is taken, except at a few points, where it is any; random walks
 * follow. */
#include "coll/ft/agree.h"

#include "test/check.h"

enum { N_MAX = 5, QUEUE = 5, BLOCK = 320 };

struct packet {
    uint32_t len;
    _Alignas(8) char data[24];
};
struct queue {
    int n;
    struct packet of[QUEUE];
};
struct world {
    int ncrashes, ndelays;
    bool started[N_MAX], dead[N_MAX], noticed[N_MAX][N_MAX]; /* [by][of] */
    struct queue from[N_MAX][N_MAX];
    _Alignas(8) char block[N_MAX][BLOCK];
};

static struct {
    int n, max_crashes;
    int max_delays; /* how often a step is not the first possible one; -1: no limit */
    bool all_start; /* at once */
    uint64_t *seen; /* hash table of visited states */
    size_t room, nseen, nends;
    bool full;
} search;

static struct agree *agree_of(struct world *w, int i)
{
    return (struct agree *)(void *)w->block[i];
}

/* ---- the value: a bit for each contribution and for each known death, and how many contributions
 * have been added, each once ---- */

static void merge(void *inout, const void *in, size_t len)
{
    uint64_t *a = inout, b;
    (void)len;
    memcpy(&b, in, sizeof b);
    *a = ((*a | b) & 0xffffffffu) + (*a & ~0xffffffffull) + (b & ~0xffffffffull);
}

static void add_dead(void *inout, size_t len, int rank)
{
    (void)len;
    *(uint64_t *)inout |= 0x100u << rank;
}

static struct world *now; /* the state in which messages are sent */
static int sender;

static void send(void *arg, int to, const struct agree_msg *m, size_t len)
{
    struct queue *q = &now->from[sender][to];
    (void)arg;
    if (q->n == QUEUE || len > sizeof q->of[0].data) {
        printf("# queue of %d messages is full\n", q->n);
        exit(1);
    }
    memset(&q->of[q->n], 0, sizeof q->of[0]);
    q->of[q->n].len = (uint32_t)len;
    memcpy(q->of[q->n++].data, m, len);
}

static const struct agree_ops ops = { send, merge, add_dead };

/* ---- steps of the world ---- */

static void start(struct world *w, int i)
{
    uint64_t mine = 1ull << 32 | 1u << i;
    uint8_t dead[N_MAX];
    for (int k = 0; k < search.n; k++)
        dead[k] = w->noticed[i][k];
    now = w;
    sender = i;
    w->started[i] = true;
    agree_start(agree_of(w, i), &ops, NULL, search.n, i, sizeof mine, &mine, dead);
}

static void deliver(struct world *w, int from, int to)
{
    struct queue *q = &w->from[from][to];
    struct packet p = q->of[0];
    q->n--;
    memmove(q->of, q->of + 1, (size_t)q->n * sizeof q->of[0]);
    memset(&q->of[q->n], 0, sizeof q->of[0]);
    now = w;
    sender = to;
    CHECK(agree_take(agree_of(w, to), from, (const struct agree_msg *)(const void *)p.data, p.len));
}

static void notice(struct world *w, int by, int of)
{
    w->noticed[by][of] = true;
    now = w;
    sender = by;
    if (w->started[by])
        agree_died(agree_of(w, by), of);
}

static void crash(struct world *w, int i)
{
    w->dead[i] = true;
    w->ncrashes++;
    for (int k = 0; k < search.n; k++)
        memset(&w->from[k][i], 0, sizeof w->from[k][i]);
}

/* The possible steps are numbered; runs the one of this number if it is possible. */
enum { START, DELIVER, NOTICE, CRASH, LOSE, STEPS };

static bool step(struct world *w, int number)
{
    int what = number / (N_MAX * N_MAX), a = number / N_MAX % N_MAX, b = number % N_MAX;
    if (a >= search.n || b >= search.n)
        return false;
    switch (what) {
    case START:
        if (b || w->started[a] || w->dead[a])
            return false;
        start(w, a);
        return true;
    case DELIVER:
        if (!w->from[a][b].n || w->dead[b] || !w->started[b])
            return false;
        deliver(w, a, b);
        return true;
    case NOTICE:
        if (a == b || w->dead[a] || !w->dead[b] || w->noticed[a][b])
            return false;
        notice(w, a, b);
        return true;
    case CRASH:
        if (b || w->dead[a] || w->ncrashes == search.max_crashes)
            return false;
        crash(w, a);
        return true;
    default: /* the last message of a dead process was not sent any more */
        if (!w->dead[a] || !w->from[a][b].n)
            return false;
        memset(&w->from[a][b].of[--w->from[a][b].n], 0, sizeof w->from[a][b].of[0]);
        return true;
    }
}

/* ---- checks ---- */

static bool check(struct world *w, bool at_end)
{
    const uint64_t *first = NULL;
    uint64_t living = 0, dead = 0;
    bool good = true;
    for (int i = 0; i < search.n; i++) {
        const uint64_t *v = w->started[i] ? agree_value(agree_of(w, i)) : NULL;
        living |= w->dead[i] ? 0 : 1u << i;
        dead |= w->dead[i] ? 0x100u << i : 0;
        good = good && (!v || !first || *v == *first) && (v || w->dead[i] || !at_end);
        first = v ? v : first;
    }
    /* contributions of all that live; no death that is none */
    if (first)
        good = good && (*first & living) == living && !(*first >> 8 & 0xff & ~(dead >> 8)) &&
               *first >> 32 == (uint64_t)__builtin_popcountll(*first & 0xff);
    return good;
}

static uint64_t hash(const struct world *w)
{
    const uint64_t *p = (const uint64_t *)(const void *)w;
    uint64_t h = 88172645463325252u;
    for (size_t i = 0; i < sizeof *w / sizeof *p; i++) {
        h = (h ^ p[i]) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    return h | 1u;
}

static bool is_new(const struct world *w)
{
    uint64_t h = hash(w);
    size_t i = h % search.room;
    for (; search.seen[i]; i = (i + 1) % search.room)
        if (search.seen[i] == h)
            return false;
    search.full = search.full || search.nseen > search.room / 4 * 3;
    if (search.full)
        return false;
    search.seen[i] = h;
    search.nseen++;
    return true;
}

static bool visit(const struct world *w, int depth)
{
    bool ends = true;
    for (int i = 0; i < STEPS * N_MAX * N_MAX; i++) {
        struct world next = *w;
        bool is_crash = i / (N_MAX * N_MAX) >= CRASH;
        if (!step(&next, i))
            continue;
        if (search.max_delays >= 0 && !ends && !is_crash && ++next.ndelays > search.max_delays)
            continue;
        ends = ends && is_crash;
        if (!check(&next, false)) {
            printf("# %d processes, depth %d: two values, or a wrong one\n", search.n, depth);
            return false;
        }
        if (is_new(&next) && !visit(&next, depth + 1))
            return false;
    }
    search.nends += ends;
    if (ends && !check((struct world *)(uintptr_t)w, true)) {
        printf("# %d processes, depth %d: a living process waits forever\n", search.n, depth);
        return false;
    }
    return true;
}

static struct world *make(void)
{
    struct world *w = calloc(1, sizeof *w);
    for (int i = 0; search.all_start && i < search.n; i++)
        start(w, i);
    return w;
}

static void orders(int n, int max_crashes, int max_delays, bool all_start)
{
    search.n = n;
    search.max_crashes = max_crashes;
    search.all_start = all_start;
    search.max_delays = max_delays;
    search.room = 1u << 22;
    search.nseen = search.nends = 0;
    search.full = false;
    search.seen = calloc(search.room, sizeof *search.seen);
    struct world *w = make();
    CHECK(visit(w, 0));
    CHECK_MSG(search.full || search.nends > 0, "%d processes: no end was reached", n);
    printf("# %d processes, %d may die: %zu states, %zu ends%s\n", n, max_crashes, search.nseen,
           search.nends, search.full ? ", not all" : "");
    CHECK(!search.full);
    free(w);
    free(search.seen);
}

static void two(void) { orders(2, 1, -1, false); }
static void three(void) { orders(3, 2, -1, false); }
static void four(void) { orders(4, 1, -1, true); }
static void four_with_two_deaths(void) { orders(4, 2, 1, true); }
static void five(void) { orders(5, 1, 1, true); }
static void five_with_two_deaths(void) { orders(5, 2, 0, true); }

static uint32_t random_state = 20261130;
static uint32_t random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

static bool walk(int n)
{
    search.n = n;
    search.max_crashes = (int)(random_next() % (unsigned)n);
    search.all_start = false;
    struct world *w = make();
    int idle = 0;
    bool good = true;
    while (good && idle < 40 * STEPS * N_MAX * N_MAX) {
        int i = (int)(random_next() % (STEPS * N_MAX * N_MAX));
        bool rare = i / (N_MAX * N_MAX) >= CRASH && random_next() % 8;
        bool done = !rare && step(w, i);
        idle = done ? 0 : idle + 1;
        good = !done || check(w, false);
    }
    good = good && check(w, true);
    free(w);
    return good;
}

static void random_walks(void)
{
    for (int i = 0; i < 1000 && !check_failed_case; i++) {
        uint32_t seed = random_state;
        int n = 4 + i % 2;
        CHECK_MSG(walk(n), "walk %d of %d processes, random state %u", i, n, seed);
    }
}

/* Messages that no process sends. */
static void malformed(void)
{
    _Alignas(8) char block[BLOCK], m[24] = { 0 };
    uint64_t mine = 1;
    uint8_t dead[2] = { 0 };
    struct world *w = calloc(1, sizeof *w);
    struct agree *a = (struct agree *)(void *)block;
    struct agree_msg *msg = (struct agree_msg *)(void *)m;
    now = w;
    sender = 0;
    CHECK(agree_nbytes(N_MAX, sizeof mine) <= BLOCK);
    agree_start(a, &ops, NULL, 2, 0, sizeof mine, &mine, dead);
    CHECK(!agree_take(a, 1, msg, 4));
    CHECK(!agree_take(a, 1, msg, sizeof *msg));
    CHECK(!agree_take(a, 2, msg, 16));
    CHECK(!agree_take(a, 0, msg, 16));
    msg->kind = AGREE_KINDS;
    CHECK(!agree_take(a, 1, msg, 16));
    CHECK(!agree_value(a));
    free(w);
}

int main(void)
{
    RUN(malformed);
    RUN(two);
    RUN(three);
    RUN(four);
    RUN(four_with_two_deaths);
    RUN(five);
    RUN(five_with_two_deaths);
    RUN(random_walks);
    return check_end();
}
