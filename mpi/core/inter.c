/* SPDX-License-Identifier: BSD-3-Clause */
/* Creating intercommunicators of two groups, and extracting one group of an intercommunicator
 * (MPI-5.0 section 7.6.2).  The two leaders check everything that can be wrong before their groups
 * take part, so that a wrong call ends with the same error on all processes.  Any thread; takes the
 * domain's lock. */
#include "mpi/core/inter.h"
#include "mpi/api/bodies.h"
#include "mpi/core/commnew.h"
#include "mpi/core/ctx.h"
#include "mpi/core/group.h"
#include "mpi/p2p/domain.h"
#include "runtime/base/err.h"
#include "runtime/boot/jobs.h"
#include <stdlib.h>
#include <string.h>

int (*wm_inter_meet)(const struct wm_exch *x);

/* Orders of agreements between two groups lie above those of MPI_Comm_idup. */
#define ORDER_BASE 0xc0000000u

/* A leader sends it to the other leader, then, with other contents, to its own group. */
struct hello {
    int32_t err;    /* error class; 0: none */
    int32_t n;      /* size of its group; to the own group: size of the other group */
    uint32_t ctx;   /* of the local communicator */
    uint32_t first; /* rank in its job of the first process of its group */
    uint64_t order; /* of the agreement; only to the own group */
    uint32_t mixed; /* there may be processes that have not met; only to the own group */
    uint32_t zero;
};

static uint64_t order_of(const struct hello *a, const struct hello *b)
{
    const struct hello *lo = a->ctx < b->ctx ? a : b, *hi = lo == a ? b : a;
    uint32_t rest = hi->ctx * 2654435761u ^ (a->first + b->first) * 40503u;
    return (uint64_t)lo->ctx << 32 | ORDER_BASE | (rest & ~ORDER_BASE);
}

static int overlap(const struct wm_group *a, const struct rt_name *b, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < a->size; j++)
            if (rt_boot_name(wm_group_proc(a, j)).job == b[i].job &&
                wm_group_proc(a, j).rank == b[i].rank)
                return wm_err(MPI_ERR_COMM,
                              "rank %d of the remote group is in the local group, too; the groups "
                              "must have no process in common",
                              i);
    return MPI_SUCCESS;
}

static bool several_jobs(const struct rt_name *names, int n, uint64_t job)
{
    for (int i = 0; i < n; i++)
        if (names[i].job != job)
            return true;
    return false;
}

/* The two leaders' part: *names (malloc'ed) are the processes of the other group.  Returns an error
 * class, or 0.  A leader without memory notifies the other leader. */
static int meet(const struct wm_exch *x, const struct wm_group *group, struct hello *hello,
                struct rt_name **names)
{
    struct hello mine = { .n = group->size, .ctx = x->comm->ctx }, his;
    mine.first = wm_group_proc(group, 0).rank;
    int32_t ok, his_ok;
    int err = wm_exch_swap(x, &mine, sizeof mine, &his, sizeof his);
    if (err)
        return wm_err_rt(err, "meeting the leader of the other group");
    struct rt_name *own = malloc((size_t)group->size * sizeof *own);
    *names = malloc((size_t)his.n * sizeof **names);
    ok = own && *names;
    err = wm_exch_swap(x, &ok, sizeof ok, &his_ok, sizeof his_ok);
    if (!err && ok && his_ok) {
        for (int i = 0; i < group->size; i++)
            own[i] = rt_boot_name(wm_group_proc(group, i));
        err = wm_exch_swap(x, own, group->size * (int64_t)sizeof **names, *names,
                           his.n * (int64_t)sizeof **names);
    }
    if (err || !ok || !his_ok)
        free(own);
    if (err)
        return wm_err_rt(err, "exchanging groups with the other leader");
    if (!ok || !his_ok)
        return wm_err(MPI_ERR_NO_MEM, "no memory for the groups at a leader");
    hello->n = his.n;
    hello->order = order_of(&mine, &his);
    hello->mixed = x->across->ctx != WM_CTX_BRIDGE && /* else mpi/dynamic has just met them */
                   (several_jobs(*names, his.n, own[0].job) ||
                    several_jobs(own, mine.n, own[0].job));
    free(own);
    return overlap(group, *names, his.n);
}

static int check_peer(const struct wm_comm *peer, int peer_leader)
{
    if (!peer)
        return wm_err(MPI_ERR_COMM,
                      "argument peer_comm: not a communicator, which the leader of the "
                      "group must give");
    int n = peer->remote->size;
    if (peer_leader < 0 || peer_leader >= n)
        return wm_err(MPI_ERR_RANK, "argument remote_leader: %d is not a rank of peer_comm, 0..%d",
                      peer_leader, n - 1);
    return MPI_SUCCESS;
}

/* The processes behind `n` names, malloc'ed. */
static int find_procs(const struct rt_name *names, int n, struct rt_proc **procs)
{
    *procs = malloc((size_t)n * sizeof **procs);
    if (!*procs)
        return wm_err(MPI_ERR_NO_MEM, "no memory for a remote group of %d processes", n);
    for (int i = 0; i < n; i++)
        if (rt_boot_proc(names[i], &(*procs)[i]) < 0)
            return wm_err(MPI_ERR_GROUP,
                          "rank %d of the remote group is a process of another job that this "
                          "process has not met",
                          i);
    return MPI_SUCCESS;
}

static void merge_flags(void *inout, const void *in)
{
    *(uint32_t *)inout |= *(const uint32_t *)in;
}

/* If processes of the groups have not met, all of both groups meet now. */
static int acquaint(const struct wm_exch *x, const struct rt_name *names, int n)
{
    uint32_t unknown = 0;
    for (int i = 0; i < n; i++)
        unknown |= rt_boot_proc(names[i], &(struct rt_proc){ 0 }) < 0;
    int err = wm_exch_combine(x, &unknown, sizeof unknown, merge_flags);
    if (err)
        return wm_err_rt(err, "finding processes that have not met");
    if (!unknown || !wm_inter_meet)
        return MPI_SUCCESS;
    rt_unlock(&x->comm->dom->lock);
    err = wm_inter_meet(x);
    rt_lock(&x->comm->dom->lock);
    return err;
}

/* The leader's names to its group, in parts, so that a process without memory for them (*names is
 * NULL) takes part, too. */
static int spread_names(const struct wm_exch *x, int n, struct rt_name *names)
{
    struct rt_name part[256];
    int err = 0;
    for (int i = 0, len; i < n && !err; i += len) {
        len = n - i < (int)(sizeof part / sizeof *part) ? n - i : (int)(sizeof part / sizeof *part);
        err = wm_exch_bcast(x, names ? names + i : part, len * (int64_t)sizeof *part);
    }
    return err;
}

/* The leader's part first; then all of its group know the number of the other group's processes and
 * the order of the agreement. */
static int learn(const struct wm_exch *x, const struct wm_group *group, struct hello *h,
                 struct rt_name **names)
{
    int err = MPI_SUCCESS;
    bool leader = x->me == x->leader;
    *h = (struct hello){ 0 };
    if (leader) {
        err = check_peer(x->across, x->far);
        h->err = err = err ? err : meet(x, group, h, names);
    }
    int berr = wm_exch_bcast(x, h, sizeof *h);
    if (berr)
        return wm_err_rt(berr, "receiving from the leader of the local group");
    if (!h->err || leader)
        return err;
    return wm_err(h->err, "the leader of the local group failed; its own message says why");
}

/* The remote group.  The names are known before the agreement, in which a process that does not
 * know one of them makes all fail. */
static int introduce(const struct wm_exch *x, const struct wm_comm *local, const struct hello *h,
                     struct rt_name *names, struct wm_group **out)
{
    struct rt_proc *procs = NULL;
    if (x->me != x->leader)
        names = malloc((size_t)h->n * sizeof *names);
    int berr = spread_names(x, h->n, names);
    int err = berr     ? wm_err_rt(berr, "receiving the remote group")
              : !names ? wm_err(MPI_ERR_NO_MEM, "no memory for the names of %d processes", h->n)
                       : MPI_SUCCESS;
    int known = berr || !h->mixed ? MPI_SUCCESS : acquaint(x, names, names ? h->n : 0);
    err = err ? err : known;
    if (!err)
        err = find_procs(names, h->n, &procs);
    free(names);
    if (err) {
        free(procs);
        return err;
    }
    err = wm_group_create(procs, h->n, out);
    if (!err)
        wm_group_set_session(*out, local->session);
    return err;
}

int wm_inter_connect(struct wm_comm *local, int leader, struct wm_comm *peer, int peer_leader,
                     int tag, struct wm_comm **out)
{
    struct wm_exch x = { .comm = local,
                         .n = local->size,
                         .me = local->rank,
                         .tag = WM_TAG_COMM,
                         .two = true,
                         .leader = leader,
                         .across = peer,
                         .far = peer_leader,
                         .far_tag = WM_TAG_INTER + tag % (WM_TAG_CHECK - WM_TAG_INTER) };
    struct rt_name *names = NULL;
    struct hello h;
    struct wm_group *remote = NULL;
    struct wm_comm *c = NULL;
    rt_lock(&local->dom->lock);
    int err = learn(&x, local->group, &h, &names);
    if (err) {
        rt_unlock(&local->dom->lock);
        free(names);
        return err;
    }
    struct wm_ctx_search s = { .order = h.order, .want = 2 };
    s.err = introduce(&x, local, &h, names, &remote);
    rt_unlock(&local->dom->lock);
    if (!s.err)
        s.err = wm_comm_prepare(local, local->group, remote, NULL, &c);
    wm_group_unref(remote);
    return wm_comm_agree(&x, &s, c, false, out);
}

int wm_api_intercomm_create(struct wm_comm *local_comm, int local_leader, struct wm_comm *peer_comm,
                            int remote_leader, int tag, struct wm_comm **newintercomm)
{
    if (local_comm->inter)
        return wm_err(MPI_ERR_COMM,
                      "argument local_comm: an intercommunicator, expected an intracommunicator");
    return wm_inter_connect(local_comm, local_leader, peer_comm, remote_leader, tag, newintercomm);
}

/* Whether the local group is the lower group: the one whose first process has the lower name.  Both
 * groups decide alike which group is lower. */
static bool local_is_lower(const struct wm_comm *c)
{
    struct rt_name a = rt_boot_name(wm_group_proc(c->group, 0)),
                   b = rt_boot_name(wm_group_proc(c->remote, 0));
    return a.job != b.job ? a.job < b.job : a.rank < b.rank;
}

/* Whether the local group comes first.  The processes combine four bits.  Bit 0: a process of the
 * lower group passes high = false; bit 1: a process of that group passes true; bits 2 and 3: the
 * same for the other group. */
static int local_first(struct wm_comm *c, int high, bool *first)
{
    bool lower = local_is_lower(c);
    uint32_t bits = 1u << ((high ? 1 : 0) + (lower ? 0 : 2));
    struct wm_exch x = wm_exch_all(c);
    rt_lock(&c->dom->lock);
    int err = wm_exch_combine(&x, &bits, sizeof bits, merge_flags);
    rt_unlock(&c->dom->lock);
    if (err)
        return wm_err_rt(err, "exchanging the values of high");
    if ((bits & 3) == 3 || bits >> 2 == 3)
        return wm_err(MPI_ERR_ARG,
                      "argument high: true at some processes of a group and false at others; "
                      "all processes of a group must give the same");
    bool equal = (bits & 3) == bits >> 2;
    *first = equal ? lower : !high;
    return MPI_SUCCESS;
}

static int union_group(const struct wm_group *a, const struct wm_group *b, struct wm_group **out)
{
    struct rt_proc *procs = malloc(((size_t)a->size + (size_t)b->size) * sizeof *procs);
    if (!procs)
        return wm_err(MPI_ERR_NO_MEM, "no memory for a group of %d processes", a->size + b->size);
    wm_group_list(a, procs);
    wm_group_list(b, procs + a->size);
    int err = wm_group_create(procs, a->size + b->size, out);
    if (!err)
        wm_group_set_session(*out, a->session);
    return err;
}

int wm_api_intercomm_merge(struct wm_comm *intercomm, int high, struct wm_comm **newintracomm)
{
    struct wm_ctx_search s = { 0 };
    struct wm_group *g = NULL;
    struct wm_comm *c = NULL;
    bool first = false;
    if (!intercomm->inter)
        return wm_err(MPI_ERR_COMM,
                      "argument intercomm: an intracommunicator, expected an intercommunicator");
    int err = local_first(intercomm, high, &first);
    if (err)
        return err;
    s.err = first ? union_group(intercomm->group, intercomm->remote, &g)
                  : union_group(intercomm->remote, intercomm->group, &g);
    if (!s.err)
        s.err = wm_comm_prepare(intercomm, g, NULL, NULL, &c);
    wm_group_unref(g);
    return wm_comm_agree_all(intercomm, &s, c, true, newintracomm);
}
