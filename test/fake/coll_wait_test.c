/* SPDX-License-Identifier: BSD-3-Clause */
/* Thousands of calls in progress at once: a call that waits for its turn or for a message is not
 * advanced, so the work grows with the number of calls, not with its square. */
#include <stdlib.h>
#include "coll/begin.h"
#include "coll/node/node.h"
#include "coll/start/start.h"
#include "runtime/base/err.h"
#include "runtime/mem/segment.h"
#include "test/check.h"
#include "test/fake/coll_case.h"
#include "test/fake/coll_fake.h"
#include "test/unit/capture.h"

#define NCALLS 2000

/* A rank with its list of tasks, as the domain has it. */
static struct rank {
    struct coll_team *team;
    struct rt_list tasks;
    struct coll_task calls[NCALLS];
} ranks[3];
static long nadvanced;

static void start(struct rank *r, int i, const struct coll_args *a)
{
    struct coll_task *k = &r->calls[i];
    memset(k, 0, sizeof *k);
    k->background = true;
    CHECK_EQ(coll_start(r->team, a, k), 0);
    if (coll_task_advance(k))
        return;
    k->home = &r->tasks;
    rt_list_append(k->home, &k->link);
}

static void pass(struct rank *r)
{
    struct rt_list *l, *before = &r->tasks;
    while ((l = before->next) != &r->tasks) {
        rt_list_del(l);
        nadvanced++;
        if (coll_task_advance(rt_container(l, struct coll_task, link)) || !rt_list_empty(l))
            continue;
        rt_list_append(before->next, l);
        before = l;
    }
}

static int ndone(const struct rank *r)
{
    int n = 0;
    for (int i = 0; i < NCALLS; i++)
        n += rt_req_done(&r->calls[i].req);
    return n;
}

static void turns(int size)
{
    static struct coll_args args[NCALLS * 3];
    static struct coll_buffers *b[NCALLS];
    struct coll_case c = { .kind = COLL_ALLREDUCE, .size = size, .count = 3 };
    struct fake *f = fake_create(size, 1, true, 16u << 20);
    nadvanced = 0;
    for (int i = 0; i < NCALLS; i++) {
        c.kind = i % 3 ? COLL_ALLREDUCE : COLL_BARRIER;
        b[i] = coll_case_make(&c, &args[i * size]);
    }
    for (int r = 0; r < size; r++) {
        ranks[r].team = fake_team(f, r);
        rt_list_init(&ranks[r].tasks);
        for (int i = 0; i < NCALLS; i++)
            start(&ranks[r], i, &args[i * size + r]);
    }
    for (int round = 0, left = size; round < 2 * NCALLS && left; round++) {
        left = 0;
        for (int r = 0; r < size; r++) {
            pass(&ranks[r]);
            left += !rt_list_empty(&ranks[r].tasks);
        }
    }
    for (int r = 0; r < size; r++) {
        CHECK_EQ(ndone(&ranks[r]), NCALLS);
        CHECK(rt_list_empty(&ranks[r].tasks));
    }
    CHECK_MSG(nadvanced <= 6L * size * NCALLS, "%ld steps for %d calls of %d ranks", nadvanced,
              NCALLS, size);
    for (int i = 0; i < NCALLS; i++) {
        c.kind = i % 3 ? COLL_ALLREDUCE : COLL_BARRIER;
        CHECK_EQ(coll_case_check(&c, &args[i * size], b[i]), 0);
        coll_case_free(&c, b[i]);
    }
    CHECK_EQ(fake_destroy(f), 0);
}

static void calls_wait_for_their_turn(void)
{
    turns(2);
    turns(3);
}

static enum coll_ended has_died(struct coll_team *t, int rank)
{
    return rank != t->rank ? COLL_ENDED_DIED : COLL_LIVES;
}

/* If the call whose turn it is fails, so do all that wait behind it. */
static void a_failed_call_keeps_no_turn(void)
{
    static const struct fake_more more = { .ops = { .ended = has_died } };
    struct coll_case c = { .kind = COLL_ALLREDUCE, .size = 2, .count = 1 };
    struct coll_args args[2];
    struct coll_buffers *b = coll_case_make(&c, args);
    fake_more = &more;
    struct fake *f = fake_create(2, 1, true, 16u << 20);
    struct rank *r = &ranks[0];
    r->team = fake_team(f, 0);
    rt_list_init(&r->tasks);
    for (int i = 0; i < 5; i++)
        start(r, i, &args[0]);
    pass(r);
    pass(r);
    CHECK(r->tasks.next == &r->calls[0].link && r->tasks.prev == &r->calls[0].link);
    rt_node.nended = 1;
    capture_begin();
    for (int i = 0; i < 5; i++)
        pass(r);
    capture_end();
    rt_node.nended = 0;
    for (int i = 0; i < 5; i++)
        CHECK(rt_req_done(&r->calls[i].req) && r->calls[i].req.err == -RT_EPEER);
    CHECK(rt_list_empty(&r->tasks));
    fake_more = NULL;
    fake_destroy(f);
    coll_case_free(&c, b);
}

/* ---- messages ---- */

static struct rt_req receives[NCALLS];
static int nposted, nreleased;

static int isend(struct coll_team *t, const void *buf, int64_t n, const struct rt_layout *l,
                 int dst, int tag, struct rt_req **out)
{
    (void)t, (void)buf, (void)n, (void)l, (void)dst, (void)tag;
    *out = NULL;
    return 0;
}

static int irecv(struct coll_team *t, void *buf, int64_t n, const struct rt_layout *l, int src,
                 int tag, struct rt_req **out)
{
    (void)t, (void)buf, (void)n, (void)l, (void)src, (void)tag;
    *out = &receives[nposted++];
    **out = (struct rt_req){ .done = 0 };
    return 0;
}

static void release(struct coll_team *t, struct rt_req *r)
{
    (void)t, (void)r;
    nreleased++;
}

static void calls_wait_for_messages(void)
{
    static const struct coll_team_ops ops = { .isend = isend, .irecv = irecv, .release = release };
    struct coll_team team = { .ops = &ops, .rank = 1, .size = 2 };
    struct coll_case c = { .kind = COLL_BCAST, .size = 2, .count = 5 };
    struct coll_args args[2];
    struct coll_buffers *b = coll_case_make(&c, args);
    struct rank *r = &ranks[1];
    r->team = &team;
    rt_list_init(&r->tasks);
    for (int i = 0; i < NCALLS; i++)
        start(r, i, &args[1]);
    CHECK_EQ(nposted, NCALLS);
    pass(r);
    CHECK(rt_list_empty(&r->tasks));
    nadvanced = 0;
    for (int i = NCALLS - 1; i >= 0; i--) {
        rt_req_finish(&receives[i], 0);
        pass(r);
    }
    CHECK_EQ(nadvanced, NCALLS);
    CHECK_EQ(nreleased, NCALLS);
    CHECK_EQ(ndone(r), NCALLS);
    coll_case_free(&c, b);
}

int main(void)
{
    RUN(calls_wait_for_their_turn);
    RUN(a_failed_call_keeps_no_turn);
    RUN(calls_wait_for_messages);
    return check_end();
}
