/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi/p2p/match.c against a list that is searched from its start: every mixture of exact and
 * wildcard receives and messages must match in the same way.  Also the cost of 10^5 waiting
 * messages, counted in steps, not in time. */
#include "mpi/p2p/match.h"
#include "test/check.h"

enum { KEYS = 3, OPS = 20000 };

struct recv {
    struct wm_posted p;
    int id;
};
struct msg {
    struct wm_unex u;
    int id;
};

static struct wm_match m;
static struct recv *recvs[OPS];
static struct msg *msgs[OPS];
static int nrecvs, nmsgs;
static unsigned seed;

static unsigned rnd(unsigned n)
{
    seed = seed * 1103515245u + 12345u;
    return (seed >> 16) % n;
}

static int matches(const struct wm_key *want, const struct wm_key *k)
{
    return want->ctx == k->ctx && (want->src == WM_MATCH_ANY || want->src == k->src) &&
           (want->tag == WM_MATCH_ANY || want->tag == k->tag);
}

static struct wm_key random_key(int wildcards)
{
    struct wm_key k = { .ctx = 2 + 2 * rnd(2), .src = (int)rnd(KEYS), .tag = (int)rnd(KEYS) };
    if (wildcards && rnd(3) == 0)
        k.src = WM_MATCH_ANY;
    if (wildcards && rnd(3) == 0)
        k.tag = WM_MATCH_ANY;
    return k;
}

/* Removes the first receive of the naive list that matches the message; -1 if none does. */
static int naive_arrive(const struct wm_key *k)
{
    for (int i = 0; i < nrecvs; i++)
        if (matches(&recvs[i]->p.key, k)) {
            int id = recvs[i]->id;
            memmove(recvs + i, recvs + i + 1, (size_t)(--nrecvs - i) * sizeof *recvs);
            return id;
        }
    return -1;
}

static int naive_find(const struct wm_key *want)
{
    for (int i = 0; i < nmsgs; i++)
        if (matches(want, &msgs[i]->u.key))
            return i;
    return -1;
}

static void arrive(int id)
{
    struct wm_key k = random_key(0);
    struct wm_posted *p = wm_match_arrive(&m, &k);
    int want = naive_arrive(&k), got = p ? rt_container(p, struct recv, p)->id : -1;
    CHECK_EQ(got, want);
    if (p) {
        free(rt_container(p, struct recv, p));
        return;
    }
    struct msg *s = calloc(1, sizeof *s);
    s->u.key = k;
    s->id = id;
    wm_match_store(&m, &s->u);
    msgs[nmsgs++] = s;
}

static void post(int id)
{
    struct wm_key k = random_key(1);
    struct wm_unex *u = wm_match_find(&m, &k);
    int i = naive_find(&k), got = u ? rt_container(u, struct msg, u)->id : -1;
    CHECK_EQ(got, i < 0 ? -1 : msgs[i]->id);
    if (u) {
        wm_match_remove(&m, u);
        free(rt_container(u, struct msg, u));
        memmove(msgs + i, msgs + i + 1, (size_t)(--nmsgs - i) * sizeof *msgs);
        return;
    }
    struct recv *r = calloc(1, sizeof *r);
    r->p.key = k;
    r->id = id;
    wm_match_post(&m, &r->p);
    recvs[nrecvs++] = r;
}

static void drain(void)
{
    while (nrecvs) {
        wm_match_unpost(&m, &recvs[--nrecvs]->p);
        free(recvs[nrecvs]);
    }
    while (nmsgs) {
        wm_match_remove(&m, &msgs[--nmsgs]->u);
        free(msgs[nmsgs]);
    }
    CHECK_EQ(m.nposted_all, 0);
    CHECK_EQ(m.nunex, 0);
}

static void same_as_naive(void)
{
    for (unsigned s = 1; s <= 5; s++) {
        seed = s;
        CHECK_EQ(wm_match_init(&m), 0);
        for (int i = 0; i < OPS && !check_failed_case; i++)
            rnd(2) ? arrive(i) : post(i);
        if (check_failed_case)
            printf("# seed %u\n", s);
        drain();
        wm_match_fini(&m);
    }
}

/* Distinct tags spread over the buckets, whose number grows with them. */
static void many_messages(void)
{
    enum { N = 100000 };
    static struct msg many[N];
    CHECK_EQ(wm_match_init(&m), 0);
    for (int i = 0; i < N; i++) {
        many[i].u.key = (struct wm_key){ .ctx = 2, .src = 1, .tag = i };
        wm_match_store(&m, &many[i].u);
    }
    CHECK(m.nbuckets >= N / 4);
    for (int i = N - 1; i >= 0; i--) { /* worst order for a list */
        struct wm_unex *u = wm_match_find(
            &m, &(struct wm_key){ .ctx = 2, .src = WM_MATCH_ANY, .tag = i });
        CHECK(u == &many[i].u);
        wm_match_remove(&m, u);
    }
    wm_match_fini(&m);
}

static void cancelled_receive_is_gone(void)
{
    struct recv a = { .id = 1 }, b = { .id = 2 };
    CHECK_EQ(wm_match_init(&m), 0);
    a.p.key = b.p.key = (struct wm_key){ .ctx = 2, .src = WM_MATCH_ANY, .tag = 5 };
    wm_match_post(&m, &a.p);
    wm_match_post(&m, &b.p);
    wm_match_unpost(&m, &a.p);
    CHECK(wm_match_arrive(&m, &(struct wm_key){ .ctx = 2, .src = 0, .tag = 5 }) == &b.p);
    CHECK(!wm_match_arrive(&m, &(struct wm_key){ .ctx = 2, .src = 0, .tag = 5 }));
    wm_match_fini(&m);
}

static bool has_id(const struct wm_unex *u, const void *id)
{
    return rt_container(u, struct msg, u)->id == *(const int *)id;
}

/* One of several messages with the same key is found and removed; the others keep their order. */
static void a_certain_message(void)
{
    struct msg s[8] = { 0 };
    struct wm_key k = { .ctx = 2, .src = 1, .tag = 5 }, any = k;
    any.tag = WM_MATCH_ANY;
    CHECK_EQ(wm_match_init(&m), 0);
    for (int i = 0; i < 8; i++) {
        s[i].u.key = (struct wm_key){ .ctx = 2, .src = 1, .tag = i % 4 == 3 ? 6 : 5 };
        s[i].id = i;
        wm_match_store(&m, &s[i].u);
    }
    for (int i = 0; i < 8; i++)
        CHECK(wm_match_find_that(&m, &k, has_id, &i) == (i % 4 == 3 ? NULL : &s[i].u));
    wm_match_remove(&m, &s[1].u);
    CHECK(!wm_match_find_that(&m, &k, has_id, &(int){ 1 }));
    for (int i = 0; i < 8; i++) {
        if (i == 1)
            continue;
        CHECK(wm_match_find(&m, &any) == &s[i].u);
        wm_match_remove(&m, &s[i].u);
    }
    wm_match_fini(&m);
}

int main(void)
{
    RUN(same_as_naive);
    RUN(many_messages);
    RUN(cancelled_receive_is_gone);
    RUN(a_certain_message);
    return check_end();
}
