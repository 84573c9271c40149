/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps, on both sides alike:
 *
 *     1  each process opens the transports that reach other jobs; the root collects all cards
 *        (runtime/boot/jobs.h)
 *     2  the roots connect and exchange the cards of their groups
 *     3  each process gets the other group's cards, keeps them, and maps the memory of processes on
 *        its host (runtime/mem/others.h)
 *     4  the roots notify each other that their groups are ready, and whether all have mapped it
 *     5  MPI_Intercomm_create over a communicator of the two roots
 *
 * From step 3 on the processes are peers like any others.  A failure in steps 1 to 4 is reported by
 * all processes of both groups; wm_inter_connect() does so in step 5.
 *
 * MPI_Intercomm_create uses steps 1 to 4 if processes of its two groups have not met.  Its leaders
 * are the roots, and their connection is the peer communicator. */
#include "mpi/dynamic/link.h"
#include "mpi/base/err.h"
#include "mpi/coll/exch.h"
#include "mpi/coll/team.h"
#include "mpi/core/comm.h"
#include "mpi/core/group.h"
#include "mpi/core/inter.h"
#include "mpi/dynamic/port.h"
#include "mpi/p2p/domain.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/hmac.h"
#include "runtime/boot/jobs.h"
#include "runtime/mem/others.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CARD_MAX (1u << 20)  /* bytes */
#define GROUP_MAX (1u << 22) /* processes */
#define NOTIFY_S 5           /* after a failure: both sides usually call within this time */

struct cards { /* of a group, by rank */
    char *at;
    uint32_t n, stride, root;
};

/* What the roots exchange first. */
struct intro {
    uint32_t n, stride; /* of the cards; n 0: the group has failed */
    uint32_t root;      /* which card is the root's */
    uint32_t accepts, tag;
    uint32_t uid, any_user; /* the root's user; whether it permits another one */
    uint32_t zero;
};

struct result { /* of the root, to its group */
    int32_t err;
    uint32_t n, stride, tag;
};

struct meeting {
    struct wm_comm *comm;
    struct wm_exch x;             /* of the group; x.leader is the root */
    const struct wm_exch *across; /* over the peer communicator; NULL: over fd */
    struct cards theirs;
    /* at the root */
    struct cards mine;
    int fd;
    bool accepts;
    uint32_t tag;
    struct wm_comm *bridge;
};

static bool is_root(const struct meeting *m) { return m->x.me == m->x.leader; }

/* Between the roots. */
static int swap(const struct meeting *m, const void *out, size_t n_out, void *in, size_t n_in)
{
    struct wm_domain *d = m->comm->dom;
    if (!m->across)
        return wm_port_swap(d, m->fd, out, n_out, in, n_in);
    rt_lock(&d->lock);
    int err = wm_exch_swap(m->across, out, (int64_t)n_out, in, (int64_t)n_in);
    rt_unlock(&d->lock);
    return err;
}

static int elsewhere(void)
{
    return wm_err(MPI_ERR_OTHER, "another process failed in this call; its own message says why");
}

static int far_failed(void)
{
    return wm_err(MPI_ERR_PORT, "the other side failed; its own message says why");
}

static int lost_root(int err)
{
    return wm_err_rt(err, "receiving from the root, which connects to the other side");
}

/* ---- 1: the cards of the group ---- */

struct longest {
    uint64_t len;
    uint32_t failed, zero;
};

static void merge_longest(void *inout, const void *in)
{
    struct longest *a = inout;
    const struct longest *b = in;
    a->len = a->len > b->len ? a->len : b->len;
    a->failed |= b->failed;
}

/* Under the domain's lock. */
static int collect(struct meeting *m)
{
    struct wm_comm *comm = m->comm;
    const struct wm_exch *x = &m->x;
    void *card = NULL;
    size_t len = 0;
    wm_part_sweep(NULL);
    int err = wm_domain_open_jobs(comm->dom);
    if (!err)
        err = rt_boot_card(&card, &len);
    struct longest l = { len, err < 0, 0 };
    int xerr = wm_exch_combine(x, &l, sizeof l, merge_longest);
    char *mine = NULL;
    if (!err && !xerr && !l.failed) {
        m->mine = (struct cards){ calloc((size_t)comm->size, l.len), (uint32_t)comm->size,
                                  (uint32_t)l.len, (uint32_t)x->leader };
        mine = calloc(1, l.len);
        if (!m->mine.at || !mine)
            RT_BUG("out of memory: the cards of %d processes", comm->size);
        memcpy(mine, card, len);
        xerr = wm_exch_allgather(x, mine, (int64_t)l.len, m->mine.at);
    }
    free(mine);
    free(card);
    if (err || xerr)
        return wm_err_rt(err ? err : xerr, "preparing to meet processes of another job");
    return l.failed ? elsewhere() : MPI_SUCCESS;
}

/* ---- 2: the roots ---- */

static int broken(int err)
{
    return wm_err(MPI_ERR_PORT, "the connection with the root of the other side failed: %s",
                  rt_err_text(err));
}

static int check_intro(const struct meeting *m, const struct intro *mine, const struct intro *b)
{
    if (!b->n)
        return far_failed();
    if (b->n > GROUP_MAX || b->stride > CARD_MAX || b->root >= b->n ||
        (!m->across && b->accepts == mine->accepts))
        return wm_err(MPI_ERR_PORT, "the other side is another version of Weft, or none");
    if (b->uid != mine->uid && !(b->any_user && mine->any_user))
        return wm_err(MPI_ERR_PORT,
                      "the other side is a process of user %u, this process one of user %u; "
                      "WEFT_CONNECT_ANY_USER=1 in both jobs permits that",
                      b->uid, mine->uid);
    return MPI_SUCCESS;
}

/* Exchanges the cards.  After a failure of the group, only notifies the other root. */
static int swap_cards(struct meeting *m, bool failed)
{
    const struct cards *c = &m->mine;
    struct intro b, a = { .n = failed ? 0 : c->n,
                          .stride = c->stride,
                          .root = c->root,
                          .accepts = m->accepts,
                          .uid = (uint32_t)geteuid(),
                          .any_user = cfg.connect_any_user };
    int err = rt_random(&a.tag, sizeof a.tag);
    if (!err)
        err = swap(m, &a, sizeof a, &b, sizeof b);
    if (err || failed)
        return err ? broken(err) : MPI_SUCCESS;
    err = check_intro(m, &a, &b);
    if (err)
        return err;
    m->tag = (m->accepts ? a.tag : b.tag) & 0x7fffffff;
    m->theirs = (struct cards){ malloc((size_t)b.n * b.stride), b.n, b.stride, b.root };
    if (!m->theirs.at && m->across) /* the other leader would wait for the cards */
        RT_BUG("out of memory: the cards of %u processes", b.n);
    if (!m->theirs.at)
        return wm_err(MPI_ERR_NO_MEM, "no memory for the cards of %u processes", b.n);
    err = swap(m, c->at, (size_t)c->n * c->stride, m->theirs.at, (size_t)b.n * b.stride);
    return err ? broken(err) : MPI_SUCCESS;
}

/* The root's group has failed in step 1: the other side learns it at once, if it calls in time. The
 * text of the failure stays that of the first error. */
static int notify(struct meeting *m, const struct wm_dial *how, int err)
{
    char text[512];
    snprintf(text, sizeof text, "%s", wm_err_detail());
    struct wm_dial late = how ? *how : (struct wm_dial){ 0 };
    late.limit_s = NOTIFY_S;
    if (!how || late.dial(&late, &m->fd) == MPI_SUCCESS)
        swap_cards(m, true);
    return wm_err(err, "%s", text);
}

/* ---- 3: the other group ---- */

/* What a group reports when it has the cards; a member's failure counts for all. */
struct verdict {
    int32_t failed; /* in the group: whether; between the roots: the error */
    int32_t far;    /* memory of a process of this host could not be mapped */
};

/* Of the i-th card. */
static struct rt_proc proc_of(const struct cards *c, uint32_t i)
{
    struct rt_proc p = { 0 };
    rt_boot_meet(c->at + (size_t)i * c->stride, &p); /* known: no memory needed */
    return p;
}

static int keep(const struct cards *c, int32_t *far)
{
    for (uint32_t i = 0; i < c->n; i++) {
        const char *card = c->at + (size_t)i * c->stride;
        struct rt_proc p;
        if (rt_boot_card_len(card, c->stride) < 0)
            return wm_err(MPI_ERR_PORT,
                          "rank %u of the other side has no valid card: is it "
                          "another version of Weft?",
                          i);
        if (rt_boot_meet(card, &p) < 0)
            return wm_err(MPI_ERR_NO_MEM, "no memory for the card of a process");
        *far |= rt_others_map(p) < 0;
    }
    return MPI_SUCCESS;
}

static void merge_verdicts(void *inout, const void *in)
{
    struct verdict *a = inout;
    const struct verdict *b = in;
    a->failed |= b->failed;
    a->far |= b->far;
}

/* The root's result and the cards, to all; all keep them.  Under the domain's lock. */
static int spread(struct meeting *m, struct result *r, int32_t *far)
{
    const struct wm_exch *x = &m->x;
    struct cards *theirs = &m->theirs;
    int err = wm_exch_bcast(x, r, sizeof *r);
    if (err)
        return lost_root(err);
    if (r->err)
        return x->me == x->leader ? r->err
                                  : wm_err(r->err, "the root failed; its own message says why");
    if (x->me != x->leader)
        *theirs = (struct cards){ malloc((size_t)r->n * r->stride), r->n, r->stride, 0 };
    if (!theirs->at)
        RT_BUG("out of memory: the cards of %u processes", r->n);
    err = wm_exch_bcast(x, theirs->at, (int64_t)r->n * r->stride);
    struct verdict v = { 0 };
    int kept = err ? lost_root(err) : keep(theirs, &v.far);
    v.failed = kept != MPI_SUCCESS;
    err = wm_exch_combine(x, &v, sizeof v, merge_verdicts);
    *far = v.far;
    return kept ? kept : err ? lost_root(err) : v.failed ? elsewhere() : MPI_SUCCESS;
}

/* ---- 4: both groups are ready ---- */

/* Whether both sides are ready; at the root, then at all.  far: of this side, then of both. */
static int agree(struct meeting *m, int err, int32_t *far)
{
    struct verdict mine = { err, *far }, theirs = { 0 };
    if (is_root(m)) {
        int serr = swap(m, &mine, sizeof mine, &theirs, sizeof theirs);
        if (!err && serr)
            mine.failed = broken(serr);
        else if (!err && theirs.failed)
            mine.failed = far_failed();
        mine.far |= theirs.far;
    }
    rt_lock(&m->comm->dom->lock);
    int xerr = wm_exch_bcast(&m->x, &mine, sizeof mine);
    rt_unlock(&m->comm->dom->lock);
    *far = mine.far;
    if (xerr)
        return lost_root(xerr);
    if (err || !mine.failed || is_root(m))
        return err ? err : mine.failed;
    return wm_err(mine.failed, "the root failed; its own message says why");
}

/* Shared memory with the processes of the other side, or not: the same at all. */
static void settle(struct wm_domain *d, const struct cards *theirs, bool near)
{
    rt_lock(&d->lock);
    for (uint32_t i = 0; theirs->at && i < theirs->n; i++) {
        if (rt_boot_card_len(theirs->at + (size_t)i * theirs->stride, theirs->stride) < 0)
            break; /* keep() has failed here */
        rt_others_settle(proc_of(theirs, i), near);
    }
    rt_unlock(&d->lock);
}

/* The hidden communicator of the two roots, the acceptor first. */
static int bridge(struct meeting *m)
{
    struct rt_proc *pair = malloc(2 * sizeof *pair);
    if (!pair)
        return wm_err(MPI_ERR_NO_MEM, "no memory for a group of two");
    pair[m->accepts ? 0 : 1] = (struct rt_proc){ 0, (uint32_t)rt_boot.rank };
    pair[m->accepts ? 1 : 0] = proc_of(&m->theirs, m->theirs.root);
    struct wm_group *g;
    int err = wm_group_create(pair, 2, &g);
    if (err)
        return err;
    err = wm_comm_create_local(g, WM_CTX_BRIDGE, m->comm->dom, &m->bridge);
    wm_group_unref(g);
    if (err)
        return err;
    m->bridge->no_handle = true;
    wm_coll_team_plain(m->bridge);
    return MPI_SUCCESS;
}

/* Steps 1 to 4.  how: NULL if the roots are connected. */
static int meet(struct meeting *m, const struct wm_dial *how)
{
    struct wm_domain *d = m->comm->dom;
    struct result r = { 0 };
    int32_t far = 0;
    rt_lock(&d->lock);
    int err = collect(m);
    rt_unlock(&d->lock);
    if (err)
        return is_root(m) ? notify(m, how, err) : err;
    if (is_root(m)) {
        r.err = how ? how->dial(how, &m->fd) : MPI_SUCCESS;
        if (!r.err)
            r.err = swap_cards(m, false);
        r.n = m->theirs.n;
        r.stride = m->theirs.stride;
    }
    rt_lock(&d->lock);
    err = spread(m, &r, &far);
    rt_unlock(&d->lock);
    if (r.err)
        return err;
    if (!err && how && is_root(m))
        err = bridge(m);
    err = agree(m, err, &far);
    settle(d, &m->theirs, !err && !far);
    return err;
}

static void meeting_free(struct meeting *m)
{
    struct wm_domain *d = m->comm->dom;
    if (m->fd >= 0)
        close(m->fd);
    if (m->bridge) {
        rt_lock(&d->lock);
        m->bridge->ctx = 0; /* never released: the id is reserved */
        wm_comm_unref(m->bridge);
        rt_unlock(&d->lock);
    }
    free(m->mine.at);
    free(m->theirs.at);
}

/* ---- what calls it ---- */

int wm_link(struct wm_comm *comm, int root, const struct wm_dial *how, struct wm_comm **out)
{
    struct meeting m = { .comm = comm, .x = wm_exch_all(comm), .fd = -1, .accepts = how->accepts };
    m.x.leader = root;
    int err = meet(&m, how);
    if (!err)
        err = wm_inter_connect(comm, root, m.bridge, how->accepts ? 1 : 0, (int)m.tag, out);
    meeting_free(&m);
    return err;
}

/* For MPI_Intercomm_create. */
static int meet_across(const struct wm_exch *x)
{
    struct meeting m = { .comm = x->comm, .x = *x, .across = x, .fd = -1 };
    m.x.two = false;
    int err = meet(&m, NULL);
    meeting_free(&m);
    return err;
}

__attribute__((constructor)) static void hook(void) { wm_inter_meet = meet_across; }
