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
 * all processes of both groups; wm_inter_connect() does so in step 5. */
#include "mpi/dynamic/link.h"
#include "mpi/base/err.h"
#include "mpi/coll/exch.h"
#include "mpi/coll/team.h"
#include "mpi/core/comm.h"
#include "mpi/core/group.h"
#include "mpi/core/inter.h"
#include "mpi/dynamic/port.h"
#include "mpi/p2p/domain.h"
#include "runtime/base/err.h"
#include "runtime/base/hmac.h"
#include "runtime/boot/jobs.h"
#include "runtime/mem/others.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CARD_MAX (1u << 20)  /* bytes */
#define GROUP_MAX (1u << 22) /* processes */

struct cards { /* of a group, by rank */
    char *at;
    uint32_t n, stride, root;
};

/* What the roots exchange first. */
struct intro {
    uint32_t n, stride; /* of the cards */
    uint32_t root;      /* which card is the root's */
    uint32_t accepts, tag, zero;
};

struct result { /* of the root, to its group */
    int32_t err;
    uint32_t n, stride, tag;
};

static struct wm_exch exchange(struct wm_comm *comm, int root)
{
    struct wm_exch x = wm_exch_all(comm, WM_TAG_COMM);
    x.leader = root;
    return x;
}

static int elsewhere(void)
{
    return wm_err(MPI_ERR_OTHER, "another process failed in this call; its own message says why");
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

static int collect(struct wm_comm *comm, const struct wm_exch *x, struct cards *out)
{
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
        *out = (struct cards){ calloc((size_t)comm->size, l.len), (uint32_t)comm->size,
                               (uint32_t)l.len, (uint32_t)x->leader };
        mine = calloc(1, l.len);
        if (!out->at || !mine)
            RT_BUG("out of memory: the cards of %d processes", comm->size);
        memcpy(mine, card, len);
        xerr = wm_exch_allgather(x, mine, (int64_t)l.len, out->at);
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

/* Exchanges the cards over fd. */
static int swap_cards(struct wm_domain *d, int fd, const struct cards *mine, bool accepts,
                      struct cards *theirs, uint32_t *tag)
{
    struct intro a = { mine->n, mine->stride, mine->root, accepts, 0, 0 }, b;
    int err = rt_random(&a.tag, sizeof a.tag);
    if (!err)
        err = wm_port_swap(d, fd, &a, sizeof a, &b, sizeof b);
    if (err)
        return broken(err);
    if (b.n < 1 || b.n > GROUP_MAX || b.stride > CARD_MAX || b.root >= b.n ||
        b.accepts == a.accepts)
        return wm_err(MPI_ERR_PORT, "the other side is another version of Weft, or none");
    *tag = (accepts ? a.tag : b.tag) & 0x7fffffff;
    *theirs = (struct cards){ malloc((size_t)b.n * b.stride), b.n, b.stride, b.root };
    if (!theirs->at)
        return wm_err(MPI_ERR_NO_MEM, "no memory for the cards of %u processes", b.n);
    err = wm_port_swap(d, fd, mine->at, (size_t)mine->n * mine->stride, theirs->at,
                       (size_t)b.n * b.stride);
    return err ? broken(err) : MPI_SUCCESS;
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
static int spread(const struct wm_exch *x, struct result *r, struct cards *theirs, int32_t *far)
{
    int err = wm_exch_bcast(x, r, sizeof *r);
    if (err)
        return wm_err_rt(err, "receiving from the root, which connects to the other side");
    if (r->err)
        return x->me == x->leader ? r->err
                                  : wm_err(r->err, "the root failed; its own message says why");
    if (x->me != x->leader)
        *theirs = (struct cards){ malloc((size_t)r->n * r->stride), r->n, r->stride, 0 };
    if (!theirs->at)
        RT_BUG("out of memory: the cards of %u processes", r->n);
    err = wm_exch_bcast(x, theirs->at, (int64_t)r->n * r->stride);
    struct verdict v = { 0 };
    int kept = err ? wm_err_rt(err, "receiving from the root, which connects to the other side")
                   : keep(theirs, &v.far);
    v.failed = kept != MPI_SUCCESS;
    err = wm_exch_combine(x, &v, sizeof v, merge_verdicts);
    *far = v.far;
    return kept       ? kept
           : err      ? wm_err_rt(err, "receiving from the root, which connects to the other side")
           : v.failed ? elsewhere()
                      : MPI_SUCCESS;
}

/* ---- 4 and 5 ---- */

/* Whether both sides are ready; at the root, then at all.  far: of this side, then of both. */
static int agree(struct wm_comm *comm, const struct wm_exch *x, int fd, int err, int32_t *far)
{
    struct verdict mine = { err, *far }, theirs = { 0 };
    if (x->me == x->leader) {
        int serr = wm_port_swap(comm->dom, fd, &mine, sizeof mine, &theirs, sizeof theirs);
        if (!err && serr)
            mine.failed = broken(serr);
        else if (!err && theirs.failed)
            mine.failed = wm_err(MPI_ERR_PORT, "the other side failed; its own message says why");
        mine.far |= theirs.far;
    }
    rt_lock(&comm->dom->lock);
    int xerr = wm_exch_bcast(x, &mine, sizeof mine);
    rt_unlock(&comm->dom->lock);
    *far = mine.far;
    if (xerr)
        return wm_err_rt(xerr, "receiving from the root, which connects to the other side");
    if (err || !mine.failed || x->me == x->leader)
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
static int bridge(struct wm_domain *d, struct rt_proc other, bool accepts, struct wm_comm **out)
{
    struct rt_proc *pair = malloc(2 * sizeof *pair);
    if (!pair)
        return wm_err(MPI_ERR_NO_MEM, "no memory for a group of two");
    pair[accepts ? 0 : 1] = (struct rt_proc){ 0, (uint32_t)rt_boot.rank };
    pair[accepts ? 1 : 0] = other;
    struct wm_group *g;
    int err = wm_group_create(pair, 2, &g);
    if (err)
        return err;
    err = wm_comm_create_local(g, WM_CTX_BRIDGE, d, out);
    wm_group_unref(g);
    if (err)
        return err;
    (*out)->no_handle = true;
    wm_coll_team_plain(*out);
    return MPI_SUCCESS;
}

static void unbridge(struct wm_comm *b)
{
    struct wm_domain *d = b->dom;
    rt_lock(&d->lock);
    b->ctx = 0; /* never released: the id is reserved */
    wm_comm_unref(b);
    rt_unlock(&d->lock);
}

static int join_groups(struct wm_comm *comm, int root, bool accepts, const struct cards *theirs,
                       uint32_t tag, struct wm_comm **out)
{
    struct wm_comm *b = NULL;
    if (comm->rank == root) {
        int err = bridge(comm->dom, proc_of(theirs, theirs->root), accepts, &b);
        if (err) /* check_peer() notifies the group; the other root waits for a message */
            b = NULL;
    }
    int err = wm_inter_connect(comm, root, b, accepts ? 1 : 0, (int)tag, out);
    if (b)
        unbridge(b);
    return err;
}

int wm_link(struct wm_comm *comm, int root, const struct wm_dial *how, struct wm_comm **out)
{
    struct wm_exch x = exchange(comm, root);
    struct cards mine = { 0 }, theirs = { 0 };
    struct result r = { 0 };
    int fd = -1;
    int32_t far = 0;
    rt_lock(&comm->dom->lock);
    int err = collect(comm, &x, &mine);
    rt_unlock(&comm->dom->lock);
    if (err)
        goto out;
    if (comm->rank == root) {
        r.err = how->dial(how, &fd);
        if (!r.err)
            r.err = swap_cards(comm->dom, fd, &mine, how->accepts, &theirs, &r.tag);
        r.n = theirs.n;
        r.stride = theirs.stride;
    }
    rt_lock(&comm->dom->lock);
    err = spread(&x, &r, &theirs, &far);
    rt_unlock(&comm->dom->lock);
    if (!r.err)
        err = agree(comm, &x, fd, err, &far);
    if (!r.err)
        settle(comm->dom, &theirs, !err && !far);
    if (!err)
        err = join_groups(comm, root, how->accepts, &theirs, r.tag, out);
out:
    if (fd >= 0)
        close(fd);
    free(mine.at);
    free(theirs.at);
    return err;
}
