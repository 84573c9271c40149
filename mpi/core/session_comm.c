/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators from groups alone (MPI-5.0 sections 7.4.2 and 7.6.2).  Agreements go over a hidden
 * communicator of all processes of the job.  Its context id is reserved in every process, so it
 * needs no agreement.  The user's string picks the tag of the messages.  The processes also compare
 * their strings, so that calls which do not belong together fail. */
#include "mpi/core/session_comm.h"
#include "mpi/api/bodies.h"
#include "mpi/coll/team.h"
#include "mpi/core/comm.h"
#include "mpi/core/commnew.h"
#include "mpi/core/ctx.h"
#include "mpi/core/errh.h"
#include "mpi/core/group.h"
#include "mpi/core/inter.h"
#include "mpi/core/session.h"
#include "mpi/p2p/domain.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct wm_comm *job; /* all processes by their rank; NULL until first needed */

static int job_create(struct wm_comm **out)
{
    struct wm_group *g;
    int err = wm_group_create_run((struct rt_proc){ 0, 0 }, rt_boot.size, &g);
    if (err)
        return err;
    err = wm_comm_create_local(g, WM_CTX_JOB, wm_main_domain, out);
    wm_group_unref(g); /* the communicator has its own reference */
    if (err)
        return err;
    (*out)->no_handle = true;
    wm_coll_team_plain(*out);
    return MPI_SUCCESS;
}

/* A process that cannot create this communicator ends the job: it has no means to notify the other
 * processes, which wait in the same call. */
static struct wm_comm *job_get(void)
{
    pthread_mutex_lock(&mutex);
    if (!job && job_create(&job))
        rt_boot_abort(1, "out of memory for the communicator by which all processes of the job "
                         "agree");
    struct wm_comm *c = job;
    pthread_mutex_unlock(&mutex);
    return c;
}

void wm_session_rest(void)
{
    pthread_mutex_lock(&mutex);
    if (job) {
        rt_lock(&wm_main_domain->lock);
        job->ctx = 0; /* never released: the id is reserved */
        wm_comm_unref(job);
        rt_unlock(&wm_main_domain->lock);
    }
    job = NULL;
    pthread_mutex_unlock(&mutex);
}

#define HASH_START 0xcbf29ce484222325u
static uint64_t hash(uint64_t h, const void *data, size_t len)
{
    for (const unsigned char *p = data; len--; p++)
        h = (h ^ *p) * 0x100000001b3u; /* FNV-1a */
    return h;
}

static uint64_t hash_members(const struct wm_group *g)
{
    uint64_t h = HASH_START;
    for (int i = 0; i < g->size; i++) {
        struct rt_proc p = wm_group_proc(g, i);
        h = hash(h, &p, sizeof p);
    }
    return h;
}

/* What every participant sends about its call, with one part of the string at a time. */
#define PART 192
struct call {
    char part[PART];
    uint64_t group; /* hash of its members in order */
    uint32_t len;   /* of the whole string */
    uint32_t differs;
    int32_t err; /* error class of a process that has failed; 0: none */
};
_Static_assert(sizeof(struct call) <= WM_EXCH_MAX, "can be combined");

/* Recursive doubling: after each step, all participants that have exchanged values, directly or
 * not, hold the same value. */
static void call_merge(void *inout, const void *in)
{
    struct call *a = inout;
    const struct call *b = in;
    a->err = a->err > b->err ? a->err : b->err;
    a->differs |= b->differs || a->group != b->group || a->len != b->len ||
                  memcmp(a->part, b->part, PART);
}

/* Whether all participants make the same call: they agree on the answer after each part of the
 * string.  `failed`: an error of this process, which becomes one of all. */
static int meet(const struct wm_exch *x, const char *stringtag, uint64_t group, int failed)
{
    size_t len = strlen(stringtag);
    struct call c;
    int err = 0;
    for (size_t at = 0; at <= len && !err; at += PART) {
        size_t n = len - at < PART ? len - at : PART;
        c = (struct call){ .group = group, .len = (uint32_t)len, .err = failed };
        memcpy(c.part, stringtag + at, n);
        err = wm_exch_combine(x, &c, sizeof c, call_merge);
        if (!err && c.err)
            return failed ? failed
                          : wm_err(c.err,
                                   "another process failed in this call; its own message says why");
        if (!err && c.differs)
            return wm_err(MPI_ERR_ARG,
                          "the processes do not make the same call: their groups, or their "
                          "strings, here \"%.100s\", differ",
                          stringtag);
    }
    return err ? wm_err_rt(err, "meeting the other processes of the group") : MPI_SUCCESS;
}

static int check_tag(const char *stringtag)
{
    size_t n = strlen(stringtag);
    if (n < MPI_MAX_STRINGTAG_LEN)
        return MPI_SUCCESS;
    return wm_err(MPI_ERR_ARG,
                  "argument stringtag: the string has %zu characters, at most %d are allowed", n,
                  MPI_MAX_STRINGTAG_LEN - 1);
}

/* Checks all arguments that this process can check alone. */
static int check_call(const struct wm_group *group, const char *stringtag, const struct wm_errh *e)
{
    int err = check_tag(stringtag);
    if (!err)
        err = wm_errh_check(e, WM_ERRH_COMM);
    if (!err && group->size && group->rank == MPI_UNDEFINED)
        err = wm_err(MPI_ERR_GROUP, "this process is not in the group, whose members alone call");
    for (int i = 0; !err && i < group->size; i++)
        if (wm_group_proc(group, i).ns != 0)
            err = wm_err(MPI_ERR_GROUP, "rank %d of the group belongs to another job", i);
    return err;
}

/* Checks that all members make the same call, and agrees on a context for `c`, or on the error that
 * s->err says.  `extra` is added to the hash: further arguments that must be the same. */
static int agree(struct wm_comm *base, const struct wm_group *group, const char *stringtag,
                 uint64_t extra, struct wm_ctx_search *s, struct wm_comm *c, struct wm_comm **out)
{
    uint64_t members = hash_members(group);
    uint64_t h = hash(extra ^ members, stringtag, strlen(stringtag));
    const int ntags = WM_TAG_CALL - WM_TAG_COMM;
    struct wm_exch x = { .comm = base,
                         .members = group,
                         .n = group->size,
                         .me = group->rank,
                         .tag = WM_TAG_COMM + (int)(h % (uint64_t)ntags) };
    rt_lock(&base->dom->lock);
    int err = meet(&x, stringtag, members, 0);
    rt_unlock(&base->dom->lock);
    if (err) {
        if (c)
            wm_comm_free(c);
        return err;
    }
    s->order = (uint64_t)base->ctx << 32 | (uint32_t)(h >> 32);
    return wm_comm_agree(&x, s, c, true, out);
}

static int dress(struct wm_comm *c, const struct wm_info *info, struct wm_errh *errhandler)
{
    wm_errh_ref(errhandler);
    wm_errh_unref(c->errh);
    c->errh = errhandler;
    return wm_comm_set_info(c, info);
}

/* A complete communicator of the group, of which the calling process is a member. */
static int create(struct wm_comm *base, struct wm_group *group, const char *stringtag,
                  uint64_t extra, const struct wm_info *info, struct wm_errh *errhandler,
                  struct wm_comm **out)
{
    struct wm_ctx_search s = { 0 };
    struct wm_comm *c = NULL;
    s.err = wm_comm_prepare(base, group, NULL, NULL, &c);
    if (!s.err)
        s.err = dress(c, info, errhandler);
    if (s.err && c) {
        wm_comm_free(c);
        c = NULL;
    }
    return agree(base, group, stringtag, extra, &s, c, out);
}

int wm_api_comm_create_from_group(struct wm_group *group, const char *stringtag,
                                  struct wm_info *info, struct wm_errh *errhandler,
                                  struct wm_comm **newcomm)
{
    *newcomm = NULL;
    int err = check_call(group, stringtag, errhandler);
    if (err || !group->size)
        return err;
    return create(job_get(), group, stringtag, HASH_START, info, errhandler, newcomm);
}

/* ---- intercommunicators ---- */

/* Checks what only the local leader knows about the other group. */
static int check_remote(const struct wm_group *local, const struct wm_group *remote, int leader)
{
    if (!remote)
        return wm_err(MPI_ERR_GROUP, "argument 3 (remote_group): no live group, which the local "
                                     "leader must give");
    int err = wm_session_check(local->session, remote->session, "arguments 1 and 3: the groups");
    if (err)
        return err;
    if (leader < 0 || leader >= remote->size)
        return wm_err(MPI_ERR_RANK,
                      "argument 4 (remote_leader): %d is not a rank of the remote group, 0..%d",
                      leader, remote->size - 1);
    for (int i = 0; i < remote->size; i++)
        if (wm_group_proc(remote, i).ns != 0)
            return wm_err(MPI_ERR_GROUP, "rank %d of the remote group belongs to another job", i);
    return MPI_SUCCESS;
}

/* The two leaders check that they make the same call.  `failed`: the local group has failed. */
static int leaders_meet(struct wm_comm *base, const struct wm_group *local,
                        const struct wm_group *remote, int remote_leader, const char *stringtag,
                        int failed)
{
    uint64_t h = hash(HASH_START, stringtag, strlen(stringtag));
    int me = (int)wm_group_proc(local, local->rank).rank;
    int other = (int)wm_group_proc(remote, remote_leader).rank;
    if (me == other)
        return wm_err(MPI_ERR_GROUP, "the leaders of both groups are the same process");
    uint64_t both = hash_members(local) + hash_members(remote);
    struct wm_exch x = { .comm = base,
                         .ranks = me < other ? (int[]){ me, other } : (int[]){ other, me },
                         .n = 2,
                         .me = me > other,
                         .tag = WM_TAG_COMM + (int)(h % (uint64_t)(WM_TAG_CALL - WM_TAG_COMM)) };
    rt_lock(&base->dom->lock);
    int err = meet(&x, stringtag, both, failed);
    rt_unlock(&base->dom->lock);
    return err;
}

/* The leader broadcasts the result of its checks to the local group. */
static int share_verdict(struct wm_comm *local, int err)
{
    int32_t worst = err;
    struct wm_exch x = { .comm = local, .n = local->size, .me = local->rank, .tag = WM_TAG_COMM };
    rt_lock(&local->dom->lock);
    int failed = wm_exch_max(&x, &worst);
    rt_unlock(&local->dom->lock);
    if (err || (!failed && !worst))
        return err;
    return failed ? wm_err_rt(failed, "receiving from the leader of the local group")
                  : wm_err(worst, "the leader of the local group failed; its own message says why");
}

int wm_api_intercomm_create_from_groups(struct wm_group *local_group, int local_leader,
                                        struct wm_group *remote_group, int remote_leader,
                                        const char *stringtag, struct wm_info *info,
                                        struct wm_errh *errhandler, struct wm_comm **newintercomm)
{
    struct wm_comm *local, *c = NULL;
    int err = check_call(local_group, stringtag, errhandler);
    if (!err && (local_leader < 0 || local_leader >= local_group->size))
        err = wm_err(MPI_ERR_RANK,
                     "argument 2 (local_leader): %d is not a rank of the local group, 0..%d",
                     local_leader, local_group->size - 1);
    bool leader = !err && local_group->rank == local_leader;
    if (err)
        return err;
    struct wm_comm *base = job_get();
    /* A different start value of the hash than in MPI_Comm_create_from_group distinguishes the two
     * calls.  Error handler and hints are those of the new communicator. */
    int failed = create(base, local_group, stringtag, ~HASH_START, info, errhandler, &local);
    if (leader)
        err = check_remote(local_group, remote_group, remote_leader);
    if (leader && !err)
        err = leaders_meet(base, local_group, remote_group, remote_leader, stringtag, failed);
    if (failed)
        return failed;
    uint64_t h = hash(HASH_START, stringtag, strlen(stringtag));
    err = share_verdict(local, err);
    if (!err)
        err = wm_inter_connect(local, local_leader, base,
                               leader ? (int)wm_group_proc(remote_group, remote_leader).rank : 0,
                               (int)(h % INT32_MAX), &c);
    if (!err) { /* all processes have succeeded, so nothing may fail any more */
        c->info = local->info;
        local->info = NULL;
        *newintercomm = c;
    }
    wm_comm_free(local);
    return err;
}
