/* SPDX-License-Identifier: BSD-3-Clause */
/* The lines of coll/node/linear.c in every order in which the ranks take their steps.  A search
 * visits each state that three calls can reach, after as many calls as fill the slots, so that
 * lines are used again.  A step is one turn of a rank, from where it waited to where it waits next.
 * A rank that ends a call must have its data, and then overwrites its buffers; where no rank can
 * step, all calls must have ended.  A state is a copy of the shared lines and of the ranks' memory;
 * states that have been visited are known by a hash of 64 bits.  Of a block that one process copies
 * from another one, only the first bytes are copied here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "coll/begin.h"
#include "coll/node/node.h"
#include "coll/sched.h"
#include "coll/select.h"
#include "coll/start/start.h"
#include "test/check.h"
#include "test/fake/coll_fake.h"

enum { N_MAX = 4, BEFORE = 7, CALLS = 3, DEPTH = 200, TURNS_MAX = 1000 };
#define ROOM (16u << 20)
#define SEEN_MAX ((size_t)1 << 20)
#define BLOCK_MAX ((size_t)1500 << 10)

struct call {
    enum coll_kind kind;
    int root;
    int64_t len;
};

struct state {
    struct coll_task tasks[CALLS][N_MAX];
    int done[N_MAX]; /* calls that the rank has ended */
    struct coll_node node[N_MAX];
    struct coll_team team[N_MAX];
    uint64_t in[CALLS][N_MAX][N_MAX], out[CALLS][N_MAX][N_MAX]; /* first bytes of each block */
    uint64_t places[2][N_MAX];                                  /* of staged blocks */
    char lines[8192];
};

static struct {
    int n;
    struct fake *f;
    const struct call *calls;
    char *in, *out;
    struct coll_task tasks[CALLS][N_MAX];
    int done[N_MAX];
    uint64_t *seen;
    size_t nseen, nends;
} s;

static int read_head(struct coll_team *t, int peer, void *to, uint64_t from, size_t nbytes)
{
    (void)t, (void)peer;
    memcpy(to, (const void *)(uintptr_t)from, nbytes < 8 ? nbytes : 8);
    return 0;
}

static int write_head(struct coll_team *t, int peer, uint64_t to, const void *from, size_t nbytes)
{
    (void)t, (void)peer;
    memcpy((void *)(uintptr_t)to, from, nbytes < 8 ? nbytes : 8);
    return 0;
}

/* Block i in a rank's buffer of a call. */
static char *block(char *all, int call, int rank, int i)
{
    size_t buffer = (size_t)call * N_MAX + (size_t)rank;
    return all + buffer * N_MAX * BLOCK_MAX + (size_t)i * (size_t)s.calls[call].len;
}

static uint64_t mark(int call, int leaf)
{
    return 0x0101010101010101u * (uint64_t)(1 + call * N_MAX + leaf);
}

static char *place(int half, int rank)
{
    const struct coll_node *n = fake_team(s.f, 0)->node;
    size_t len = n->half_len / (size_t)s.n & ~(size_t)(RT_CACHE_LINE - 1);
    return n->blocks + (size_t)half * n->half_len + (size_t)rank * len;
}

/* ---- states ---- */

static void move(void *state, void *real, size_t len, bool load)
{
    if (load)
        memcpy(real, state, len);
    else
        memcpy(state, real, len);
}

static void copy_state(struct state *to, bool load)
{
    move(to->tasks, s.tasks, sizeof s.tasks, load);
    move(to->done, s.done, sizeof s.done, load);
    for (int r = 0; r < s.n; r++) {
        struct coll_team *t = fake_team(s.f, r);
        move(&to->node[r], t->node, sizeof *t->node, load);
        move(&to->team[r], t, sizeof *t, load);
        for (int h = 0; h < 2; h++)
            move(&to->places[h][r], place(h, r), 8, load);
        for (int c = 0; c < CALLS; c++)
            for (int i = 0; i < s.n; i++) {
                move(&to->in[c][r][i], block(s.in, c, r, i), 8, load);
                move(&to->out[c][r][i], block(s.out, c, r, i), 8, load);
            }
    }
    move(to->lines, fake_team(s.f, 0)->node->head, coll_node_nbytes(s.n), load);
}

static uint64_t add(uint64_t h, const void *p, size_t len)
{
    for (size_t i = 0; i + 8 <= len; i += 8) {
        uint64_t w;
        memcpy(&w, (const char *)p + i, 8);
        h = (h ^ w) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    return h;
}

static uint64_t hash(const struct state *st)
{
    uint64_t h = add(1, st->done, sizeof st->done);
    for (int r = 0; r < s.n; r++)
        for (int c = 0; c < CALLS; c++) {
            const struct coll_task *k = &st->tasks[c][r];
            const uint64_t task[] = { (uint64_t)(uintptr_t)k->step, (uint64_t)(uintptr_t)k->state,
                                      (uint64_t)k->lost };
            h = add(h, task, sizeof task);
        }
    h = add(h, st->node, sizeof st->node[0] * (size_t)s.n);
    h = add(h, st->in, sizeof st->in);
    h = add(h, st->out, sizeof st->out);
    h = add(h, st->places, sizeof st->places);
    return add(h, st->lines, coll_node_nbytes(s.n)) | 1;
}

static bool is_new(uint64_t h)
{
    size_t i = h % SEEN_MAX;
    while (s.seen[i] && s.seen[i] != h)
        i = (i + 1) % SEEN_MAX;
    if (s.seen[i])
        return false;
    s.seen[i] = h;
    return ++s.nseen < SEEN_MAX / 2;
}

/* ---- steps ---- */

/* A rank has ended a call: its data are there, and no other rank accesses its buffers any more. */
static bool end_call(int rank, int call)
{
    const struct call *c = &s.calls[call];
    const bool gathers = c->kind == COLL_GATHER, root = rank == c->root;
    bool good = true;
    for (int i = 0; i < s.n; i++) {
        uint64_t got;
        memcpy(&got, block(s.out, call, rank, i), 8);
        if (gathers ? root : i == 0)
            good = good && got == mark(call, gathers ? i : rank);
        memset(block(s.out, call, rank, i), 0xdd, 8);
        if (gathers ? i == 0 : root)
            memset(block(s.in, call, rank, i), 0xee, 8);
    }
    return good;
}

/* Whether nothing has been written into the buffers of calls that have ended. */
static bool untouched(void)
{
    uint64_t got, want;
    bool good = true;
    memset(&want, 0xdd, sizeof want);
    for (int r = 0; r < s.n; r++)
        for (int c = 0; c < s.done[r]; c++)
            for (int i = 0; i < s.n; i++) {
                memcpy(&got, block(s.out, c, r, i), 8);
                good = good && got == want;
            }
    return good;
}

/* False: the rank ended a call without its data, or with an error. */
static bool turn(int rank)
{
    const int call = s.done[rank];
    struct coll_task *k = &s.tasks[call][rank];
    if (!k->team) {
        const struct call *c = &s.calls[call];
        const struct coll_args a = { .kind = c->kind,
                                     .root = c->root,
                                     .mem = RT_MEM_HOST,
                                     .sbuf = block(s.in, call, rank, 0),
                                     .rbuf = block(s.out, call, rank, 0),
                                     .scount = c->len,
                                     .rcount = c->len,
                                     .stype = &coll_bytes,
                                     .rtype = &coll_bytes };
        if (coll_start(fake_team(s.f, rank), &a, k) != 0)
            return false;
    }
    int rc = coll_task_advance(k);
    if (rc <= 0)
        return rc == 0;
    s.done[rank]++;
    return k->lost == 0 && end_call(rank, call);
}

/* Fills what the ranks send. */
static void fill(void)
{
    memset(s.tasks, 0, sizeof s.tasks);
    memset(s.done, 0, sizeof s.done);
    for (int c = 0; c < CALLS; c++)
        for (int r = 0; r < s.n; r++)
            for (int i = 0; i < s.n; i++) {
                uint64_t m = mark(c, s.calls[c].kind == COLL_GATHER ? r : i);
                memset(block(s.out, c, r, i), 0, 8);
                memcpy(block(s.in, c, r, i), &m, 8);
            }
}

/* Visits what can follow the present state. */
static bool visit(int depth)
{
    struct state *st = calloc(2, sizeof *st);
    bool good = st && depth < DEPTH, moves = false, ended = true;
    if (good)
        copy_state(st, false);
    const uint64_t here = good ? hash(st) : 0;
    for (int r = 0; r < s.n && good; r++) {
        if (s.done[r] == CALLS)
            continue;
        ended = false;
        good = turn(r) && untouched();
        copy_state(st + 1, false);
        const uint64_t next = hash(st + 1);
        moves = moves || next != here;
        if (good && next != here && is_new(next))
            good = visit(depth + 1);
        copy_state(st, true);
    }
    s.nends += ended;
    free(st);
    return good && (moves || ended);
}

static void orders(int n, struct call first, struct call second)
{
    static const struct fake_more more = { .ops = { .peer_read = read_head,
                                                    .peer_write = write_head } };
    const struct call calls[] = { first, second, first };
    const size_t nbytes = (size_t)CALLS * N_MAX * N_MAX * BLOCK_MAX;
    s.n = n;
    s.calls = calls;
    s.nseen = s.nends = 0;
    s.in = calloc(1, nbytes);
    s.out = calloc(1, nbytes);
    s.seen = calloc(SEEN_MAX, sizeof *s.seen);
    CHECK_EQ(coll_configure("gather:node_linear,scatter:node_linear"), 0);
    fake_more = &more;
    s.f = fake_create(n, 1, true, ROOM);
    CHECK(s.in && s.out && s.seen && coll_node_nbytes(n) <= sizeof((struct state *)0)->lines);
    for (int before = 0; before < BEFORE; before++) {
        fill();
        for (int t = 0, ended = 0; ended < n; t++) {
            CHECK(t < TURNS_MAX && (s.done[t % n] || turn(t % n)));
            ended = 0;
            for (int r = 0; r < n; r++)
                ended += s.done[r] > 0;
        }
    }
    fill();
    CHECK_MSG(visit(0) && s.nends > 0 && s.nseen < SEEN_MAX / 2,
              "%d ranks, %s of %lld and %s of %lld: wrong after %zu states", n,
              coll_kind_names[first.kind], (long long)first.len, coll_kind_names[second.kind],
              (long long)second.len, s.nseen);
    printf("# %d ranks, %s of %lld and %s of %lld: %zu states\n", n, coll_kind_names[first.kind],
           (long long)first.len, coll_kind_names[second.kind], (long long)second.len, s.nseen);
    CHECK_EQ(fake_destroy(s.f), 0);
    fake_more = NULL;
    free(s.in);
    free(s.out);
    free(s.seen);
}

/* Inline, staged, in halves, at once. */
static const int64_t lens[] = { 8, 2048, 100 << 10, BLOCK_MAX };

static void three_ranks(void)
{
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            orders(3, (struct call){ (i + j) % 2 ? COLL_GATHER : COLL_SCATTER, i % 3, lens[i] },
                   (struct call){ j / 2 ? COLL_GATHER : COLL_SCATTER, j % 3, lens[j] });
}

/* Two leaves stand in the queue. */
static void four_ranks(void)
{
    orders(4, (struct call){ COLL_GATHER, 0, 100 << 10 }, (struct call){ COLL_SCATTER, 1, 8 });
    orders(4, (struct call){ COLL_SCATTER, 3, 100 << 10 }, (struct call){ COLL_GATHER, 3, 8 });
}

int main(void)
{
    RUN(three_ranks);
    RUN(four_ranks);
    return check_end();
}
