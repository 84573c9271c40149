/* SPDX-License-Identifier: BSD-3-Clause */
/* See agree.h.  The protocol needs deaths that are true, and that each living process learns of in
 * the end.  The leader is the lowest rank that is not known to be dead.
 *
 * 1. Each process sends its STATE to its leader: its contribution, or the value that it has
 *    accepted, with the rank of the leader that proposed it (the ballot).
 * 2. When the leader has the state of all that are not dead, it proposes: the accepted value of the
 *    highest ballot, or, if there is none, the combined contributions.
 * 3. A process accepts a proposal unless it knows the leader to be dead, and sends ACK.
 * 4. When all that are not dead have accepted, the value is decided: the leader sends DECIDE.
 *
 * When a leader dies, each process sends its state to the next one, which also asks for it; a
 * process that has decided answers with DECIDE instead.  A message of leader b says that all lower
 * ranks are dead, and the receiver then knows that, too.
 *
 * All decide the same.  Let b be the lowest ballot whose leader has decided, on v.  All processes
 * that were not dead then have accepted (b, v).  A later leader c > b has b for dead, so b had
 * decided or died before; c proposes after it has the state of all living processes, each of which
 * has accepted (b, v) or a proposal of a leader between b and c.  By induction over the ballots
 * from b to c these proposals are v, so the highest ballot in the answers of c is at least b, and
 * its value is v.  A process that has sent its state to c accepts nothing of lower ballots any
 * more, so its answer stays true.  A leader that dies before it decides leaves no decision.
 *
 * All living processes decide.  A process waits for its leader, which waits for the answers of
 * processes that are not known to be dead.  If one of these dies, the waiting process learns of it
 * and waits no longer, or has another leader.  There are at most n leaders.  A process that has
 * decided and left the call keeps the value and answers: until it knows that all living ones have
 * it, because all have contributed to a later agreement.
 *
 * Without deaths: four messages one after the other, 4 (n - 1) in all. */
#include "coll/ft/agree.h"

#include <string.h>

static char *value_of(const struct agree *a) { return (char *)(uintptr_t)a->data; }
static char *gathered(const struct agree *a) { return value_of(a) + a->len; }
static struct agree_msg *message(const struct agree *a)
{
    return (struct agree_msg *)(void *)(gathered(a) + a->len);
}
static uint8_t *dead_of(const struct agree *a)
{
    return (uint8_t *)message(a) + sizeof(struct agree_msg) + a->len;
}
static uint8_t *answered(const struct agree *a) { return dead_of(a) + a->n; }

static size_t rounded(size_t len) { return (len + 7) & ~(size_t)7; }

size_t agree_nbytes(int n, size_t len)
{
    return sizeof(struct agree) + 3 * rounded(len) + sizeof(struct agree_msg) + 2 * (size_t)n;
}

static int leader(const struct agree *a)
{
    int r = 0;
    while (r < a->me && dead_of(a)[r])
        r++;
    return r;
}

static void send(const struct agree *a, int to, enum agree_kind kind, int ballot)
{
    struct agree_msg *m = message(a);
    bool has_value = kind != AGREE_ASK && kind != AGREE_ACK;
    m->kind = kind;
    m->ballot = ballot;
    if (has_value)
        memcpy(m->value, value_of(a), a->len);
    a->ops->send(a->arg, to, m, sizeof *m + (has_value ? a->len : 0));
}

static void send_all(const struct agree *a, enum agree_kind kind)
{
    for (int i = 0; i < a->n; i++)
        if (i != a->me && !dead_of(a)[i])
            send(a, i, kind, a->me);
}

static void expect_answers(struct agree *a)
{
    memset(answered(a), 0, (size_t)a->n);
    answered(a)[a->me] = 1;
}

static bool all_answered(const struct agree *a)
{
    for (int i = 0; i < a->n; i++)
        if (!answered(a)[i] && !dead_of(a)[i])
            return false;
    return true;
}

static void decide(struct agree *a)
{
    a->decided = true;
    if (a->leads)
        send_all(a, AGREE_DECIDE);
}

static void propose(struct agree *a)
{
    for (int i = 0; i < a->n && a->best < 0; i++)
        if (dead_of(a)[i])
            a->ops->died(gathered(a), a->len, i);
    memcpy(value_of(a), gathered(a), a->len);
    a->accepted = a->me;
    a->proposed = true;
    expect_answers(a);
    send_all(a, AGREE_PROPOSE);
}

/* The leader's next step, if all have answered. */
static void advance(struct agree *a)
{
    if (a->leads && !a->decided && !a->proposed && all_answered(a))
        propose(a);
    if (a->leads && !a->decided && a->proposed && all_answered(a))
        decide(a);
}

static void lead(struct agree *a)
{
    a->leads = true;
    a->best = a->accepted;
    memcpy(gathered(a), value_of(a), a->len);
    expect_answers(a);
    if (a->me > 0) /* processes that have decided do not send their state by themselves */
        send_all(a, AGREE_ASK);
    advance(a);
}

/* This process has a leader, perhaps another one than before. */
static void follow(struct agree *a, int before)
{
    int now = leader(a);
    if (a->decided || now == before)
        advance(a);
    else if (now == a->me)
        lead(a);
    else
        send(a, now, AGREE_STATE, a->accepted);
}

void agree_start(struct agree *a, const struct agree_ops *ops, void *arg, int n, int me, size_t len,
                 const void *contribution, const uint8_t *dead)
{
    *a = (struct agree){
        .ops = ops, .arg = arg, .n = n, .me = me, .len = rounded(len), .accepted = -1, .best = -1
    };
    memset(a->data, 0, agree_nbytes(n, len) - sizeof *a);
    memcpy(value_of(a), contribution, len);
    memcpy(dead_of(a), dead, (size_t)n);
    follow(a, -1);
}

void agree_died(struct agree *a, int rank)
{
    int before = leader(a);
    dead_of(a)[rank] = 1;
    follow(a, before);
}

/* Its sender takes `rank` for the leader: all lower ones are dead. */
static void raise_leader(struct agree *a, int rank)
{
    int before = leader(a);
    memset(dead_of(a), 1, (size_t)rank);
    if (rank == a->me)
        follow(a, before);
}

static void gather(struct agree *a, int from, const struct agree_msg *m)
{
    if (a->proposed || answered(a)[from])
        return;
    answered(a)[from] = 1;
    if (m->ballot > a->best) {
        a->best = m->ballot;
        memcpy(gathered(a), m->value, a->len);
    } else if (a->best < 0) {
        a->ops->merge(gathered(a), m->value, a->len);
    }
    advance(a);
}

static void on_state(struct agree *a, int from, const struct agree_msg *m)
{
    if (a->decided) {
        send(a, from, AGREE_DECIDE, a->me);
        return;
    }
    raise_leader(a, a->me);
    gather(a, from, m);
}

/* ASK, PROPOSE */
static void on_leader(struct agree *a, int from, const struct agree_msg *m)
{
    if (a->decided) {
        send(a, from, AGREE_DECIDE, a->me);
        return;
    }
    if (from > a->me || dead_of(a)[from])
        return;
    raise_leader(a, from);
    if (m->kind == AGREE_ASK) {
        send(a, from, AGREE_STATE, a->accepted);
        return;
    }
    a->accepted = from;
    memcpy(value_of(a), m->value, a->len);
    send(a, from, AGREE_ACK, from);
}

bool agree_take(struct agree *a, int from, const struct agree_msg *m, size_t len)
{
    if (len < sizeof *m || m->kind >= AGREE_KINDS || from < 0 || from >= a->n || from == a->me)
        return false;
    bool has_value = m->kind != AGREE_ASK && m->kind != AGREE_ACK;
    if (has_value && len < sizeof *m + a->len)
        return false;
    if (m->kind == AGREE_STATE) {
        on_state(a, from, m);
    } else if (m->kind == AGREE_ACK) {
        if (a->leads && a->proposed && m->ballot == a->me)
            answered(a)[from] = 1;
        advance(a);
    } else if (m->kind == AGREE_DECIDE) {
        bool was = a->decided;
        memcpy(value_of(a), m->value, a->len);
        if (!was)
            decide(a);
    } else {
        on_leader(a, from, m);
    }
    return true;
}

const void *agree_value(const struct agree *a) { return a->decided ? value_of(a) : NULL; }
