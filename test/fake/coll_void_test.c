/* SPDX-License-Identifier: BSD-3-Clause */
/* Every algorithm when one rank's input is poisoned, as after a failed copy from its device:
 * nothing hangs, no message is left over, and each rank has an error or the right result.  The next
 * call is right on all ranks.  On one host, on several, by messages, and by persistent calls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "coll/algo/algo.h"
#include "coll/algo/bcast.h"
#include "coll/select.h"
#include "runtime/base/log.h"
#include "test/check.h"
#include "test/fake/coll_case.h"
#include "test/fake/coll_fake.h"

#define SHM_ROOM (24u << 20)
#define RANKS_MAX 12
#define LARGE_COUNT 1000 /* with more than two ranks only one rank's input is poisoned */

/* A team, and the calls on it. */
struct setting {
    const char *map; /* the hosts of the ranks; NULL: one host */
    int size;
    bool shared, fixed;
};

static struct fake *create(const struct setting *s, unsigned seed)
{
    static int node_of[RANKS_MAX];
    for (int r = 0; s->map && r < s->size; r++)
        node_of[r] = s->map[r] - '0';
    return s->map ? fake_create_nodes(s->size, seed, node_of, s->shared ? SHM_ROOM : 0)
                  : fake_create(s->size, seed, s->shared, SHM_ROOM);
}

/* ---- poisoned input ---- */

static int spoilt, at_buffer; /* two buffers per rank */

static char *spoil(char *buf, int64_t len)
{
    for (int64_t i = 32; at_buffer / 2 == spoilt && i < len - 32; i++)
        buf[i] = (char)(buf[i] ^ 0x5a);
    at_buffer++;
    return buf;
}

/* Whether other ranks' results may depend on the rank's input. */
static bool contributes(const struct coll_case *c, int rank)
{
    switch (c->kind) {
    case COLL_BCAST:
    case COLL_SCATTER:
    case COLL_SCATTERV:
        return rank == c->root;
    default:
        return true;
    }
}

/* One call in which the input of `loser` is poisoned, -1: no rank's.  Returns how many ranks had
 * errors. */
static int call(struct fake *f, const struct setting *s, struct coll_case *c, const char *alg,
                int loser)
{
    struct coll_args args[RANKS_MAX];
    struct coll_buffers *b = coll_case_make(c, args);
    bool excused[RANKS_MAX] = { 0 };
    int before[RANKS_MAX], nerrors = 0;

    at_buffer = 0;
    spoilt = loser;
    if (loser >= 0)
        coll_case_each(c, b, spoil, NULL);
    for (int r = 0; r < s->size; r++)
        before[r] = fake_errors(f, r);
    fake_lose(f, loser);
    int err = s->fixed ? fake_run_fixed(f, args, 1, 1, 1) : fake_run(f, args, 1, 1);
    for (int r = 0; r < s->size; r++) {
        excused[r] = fake_errors(f, r) > before[r];
        nerrors += excused[r];
    }
    c->excused = excused;
    int bad = coll_case_check(c, args, b);
    CHECK_MSG(!err && !bad && (loser < 0 || excused[loser]) && (loser >= 0 || !nerrors),
              "%s:%s%s%s ranks %d root %d count %lld%s%s%s%s%s rank %d has lost: result %d, "
              "%d errors",
              coll_kind_names[c->kind], alg, s->map ? " map " : "", s->map ? s->map : "", s->size,
              c->root, (long long)c->count, c->in_place ? " in place" : "", c->gaps ? " gaps" : "",
              c->user_op ? " user op" : "", s->shared ? "" : " no memory",
              s->fixed ? " persistent" : "", loser, err, nerrors);
    coll_case_free(c, b);
    c->excused = NULL;
    return nerrors;
}

static void run_case(const struct setting *s, struct coll_case *c, const char *alg, unsigned seed)
{
    struct fake *f = create(s, seed);
    fake_tolerate(f);
    for (int loser = 0; loser < s->size && !check_failed_case; loser++) {
        if (!contributes(c, loser) || (c->count >= LARGE_COUNT && s->size > 2 && loser != c->root))
            continue;
        call(f, s, c, alg, loser);
        c->salt++;
        if (!check_failed_case)
            call(f, s, c, alg, -1);
    }
    if (check_failed_case)
        return; /* the rest of calls that hang must not be freed */
    CHECK_EQ(fake_destroy(f), 0);
}

/* ---- settings ---- */

static const struct setting settings[] = {
    { .size = 2, .shared = true },
    { .size = 3, .shared = true },
    { .size = 5, .shared = true },
    { .size = 2 },
    { .size = 5 },
    { .size = 8 },
    { .size = 5, .fixed = true },
    { .map = "0011", .size = 4, .shared = true },
    { .map = "0001112", .size = 7, .shared = true },
    { .map = "01201", .size = 5, .shared = true },
    { .map = "0011", .size = 4 },
    { .map = "00111", .size = 5, .shared = true, .fixed = true },
};

static bool fits(const struct setting *s, const struct coll_alg *alg)
{
    bool node = alg->need & COLL_NEED_ONE_NODE, hosts = alg->need & COLL_NEED_NODES;
    if (alg->kind > COLL_EXSCAN || alg->kind == COLL_BARRIER || alg->need & COLL_NEED_CUDA_BUFFERS)
        return false;
    return s->map ? hosts : !hosts && node == s->shared;
}

static void force(const struct coll_alg *alg)
{
    char spec[128];
    snprintf(spec, sizeof spec, "%s:%s", coll_kind_names[alg->kind], alg->name);
    CHECK_EQ(coll_configure(spec), 0);
}

/* One variant for each setting and length, a different one each time. */
static void run_all(const int64_t *counts)
{
    const struct coll_alg *alg;
    unsigned turn = 0;
    for (int i = 0; (alg = coll_alg_at(i)); i++) {
        force(alg);
        for (unsigned j = 0; j < sizeof settings / sizeof settings[0]; j++) {
            const struct setting *s = &settings[j];
            for (int n = 0; counts[n] && fits(s, alg); n++, turn += 3) {
                struct coll_case c = { .kind = alg->kind,
                                       .size = s->size,
                                       .root = (int)turn % s->size,
                                       .count = counts[n],
                                       .in_place = turn & 1,
                                       .gaps = turn & 2,
                                       .user_op = turn & 4 };
                run_case(s, &c, alg->name, turn);
                if (check_failed_case)
                    return;
            }
        }
    }
}

static void small_counts(void)
{
    static const int64_t counts[] = { 1, 2, 7, 100, 0 };
    run_all(counts);
}

/* Enough for several pieces of every pipeline, and for addresses instead of data. */
static void large_counts(void)
{
    static const int64_t counts[] = { 3000, 20001, 0 };
    fake_override.chain_trip = 4096;
    run_all(counts);
    fake_override.chain_trip = 0;
}

/* A reduction in which the two ranks share the work. */
static void large_pairs(void)
{
    const struct setting s = { .size = 2, .shared = true };
    CHECK_EQ(coll_configure("reduce:node_root"), 0);
    for (int root = 0; root < 2; root++) {
        struct coll_case c = { .kind = COLL_REDUCE, .size = 2, .root = root, .count = 300000 };
        run_case(&s, &c, "node_root", 4);
    }
}

/* A scan in which each rank reduces a slice for all. */
static void long_scans(void)
{
    static const enum coll_kind kinds[] = { COLL_SCAN, COLL_EXSCAN };
    const struct setting s = { .size = 3, .shared = true };
    CHECK_EQ(coll_configure("scan:node_block,exscan:node_block"), 0);
    for (int i = 0; i < 2; i++)
        for (int loser = 0; loser < 3; loser++) {
            struct coll_case c = { .kind = kinds[i], .size = 3, .root = loser, .count = 70001 };
            run_case(&s, &c, "node_block", 4);
        }
}

int main(void)
{
    RUN(small_counts);
    RUN(large_counts);
    RUN(large_pairs);
    RUN(long_scans);
    return check_end();
}
