/* SPDX-License-Identifier: BSD-3-Clause */
/* WEFT_CHECK in MPI_Finalize: reports the requests, messages and communicators that this process
 * leaves over; the job continues.  Called under the domain's lock. */
#include "mpi/coll/check_end.h"
#include <stdio.h>
#include <string.h>
#include "mpi/check/made.h"
#include "mpi/check/report.h"
#include "mpi/check/uses.h"
#include "mpi/coll/check_int.h"
#include "mpi/p2p/engine.h"
#include "mpi/p2p/recv.h"
#include "mpi/p2p/request.h"
#include "runtime/base/log.h"

struct count {
    int pending, unseen, active, persistent;
    char first[4][360]; /* descriptions, in the order of the counters above */
};

/* As much of a communicator's name as fits in a line. */
#define WHERE "%.80s"

static bool is_p2p(const struct rt_req *r)
{
    return !strcmp(r->ops->name, "send") || !strcmp(r->ops->name, "receive");
}

static void describe_p2p(const struct wm_preq *q, const char *where, char *out, size_t len)
{
    char peer[32] = "any rank", tag[32] = "any tag";
    if (q->peer_rank != MPI_ANY_SOURCE)
        snprintf(peer, sizeof peer, "rank %d", q->peer_rank);
    if (q->tag != MPI_ANY_TAG)
        snprintf(tag, sizeof tag, "tag %d", q->tag);
    snprintf(out, len, "a %s, %s, %s, on " WHERE, q->r.ops->name, peer, tag, where);
}

/* Describes a request in the user's terms. */
static void describe(const struct rt_req *r, char *out, size_t len)
{
    char where[MPI_MAX_OBJECT_NAME + 64] = "", from[180];
    const struct wm_comm *c = r->ops->owner ? r->ops->owner(r) : NULL;
    if (c)
        check_comm_name(c, where, sizeof where);
    if (is_p2p(r))
        describe_p2p((const struct wm_preq *)r, where, out, len);
    else
        snprintf(out, len, "a %s%s" WHERE, r->ops->name, c ? " on " : "", where);
    size_t used = strlen(out);
    snprintf(out + used, len - used, "%s", check_use_from(r, from, sizeof from));
}

/* Messages of collectives are not the user's messages. */
static bool internal(const struct rt_req *r)
{
    return (r->flags & (RT_REQ_STATIC | RT_REQ_DETACHED)) ||
           (is_p2p(r) && ((const struct wm_preq *)r)->coll);
}

static void count_one(void *obj, void *arg)
{
    const struct rt_req *r = obj;
    struct count *n = arg;
    const struct wm_comm *c = r->ops && r->ops->owner ? r->ops->owner(r) : NULL;
    if (!r->ops || internal(r) || (c && c->session))
        return;
    bool persistent = r->flags & RT_REQ_PERSISTENT, active = r->flags & RT_REQ_ACTIVE;
    int *which = persistent ? (active ? &n->active : &n->persistent)
                            : (rt_req_done(r) ? &n->unseen : &n->pending);
    if ((*which)++ == 0)
        describe(r, n->first[which - &n->pending], sizeof n->first[0]);
}

/* The program cannot find out that the data of such a receive are there. */
static void count_freed(void *obj, void *arg)
{
    const struct rt_req *r = obj;
    struct count *n = arg;
    if (!r->ops || !is_p2p(r) || !(r->flags & RT_REQ_DETACHED) || rt_req_done(r))
        return;
    const struct wm_preq *q = (const struct wm_preq *)r;
    if (!q->coll && q->kind != WM_PREQ_SEND && n->pending++ == 0)
        describe(r, n->first[0], sizeof n->first[0]);
}

static void say(int n, const char *first, const char *what)
{
    if (n)
        log_warn(MPI, "WEFT_CHECK: %d request%s %s in MPI_Finalize; the first is %s", n,
                 n == 1 ? "" : "s", what, first);
}

static void report_requests(void)
{
    struct count n = { 0 };
    rt_slab_each(&wm_request_slab, count_one, &n);
    say(n.pending, n.first[0], "not complete");
    say(n.unseen, n.first[1], "complete but never waited for or tested");
    say(n.active, n.first[2], "persistent and still active");
    say(n.persistent, n.first[3], "persistent and not freed");
}

struct owner {
    uint32_t ctx;
    bool session;
};

static void look_at(void *obj, void *arg)
{
    const struct wm_comm *c = obj;
    struct owner *o = arg;
    if (c->ctx == o->ctx && (c->session || c->ctx == WM_CTX_JOB))
        o->session = true;
}

/* Whether the context belongs to a communicator of a session, which outlives the world model. */
static bool of_session(uint32_t ctx)
{
    struct owner o = { .ctx = ctx };
    rt_slab_each(&wm_comm_slab, look_at, &o);
    return o.session;
}

static void report_comm(void *obj, void *arg)
{
    char where[MPI_MAX_OBJECT_NAME + 64], by[200];
    const struct wm_comm *c = obj;
    (void)arg;
    if (c->session || c->no_handle)
        return;
    const char *made = wm_check_made_by(c, by, sizeof by);
    log_warn(MPI, "WEFT_CHECK: %s is not freed in MPI_Finalize%s%s",
             check_comm_name(c, where, sizeof where), *made ? "; it is from" : "",
             *made ? strstr(made, " from") + strlen(" from") : "");
}

void check_report_messages(struct wm_domain *d)
{
    static bool reported;
    const struct wm_match *m = &d->match;
    const struct wm_stored *first = NULL;
    int n = 0;
    for (uint32_t i = 0; i < m->nbuckets; i++) {
        struct rt_list *l;
        rt_list_each (l, &m->unex[WM_FORM_EXACT][i]) {
            struct wm_unex *u = rt_container(l, struct wm_unex, link[WM_FORM_EXACT]);
            if (u->key.ctx & 1 || of_session(u->key.ctx)) /* a collective context is odd */
                continue;
            if (n++ == 0)
                first = rt_container(u, struct wm_stored, unex);
        }
    }
    if (n && !reported)
        log_warn(MPI,
                 "WEFT_CHECK: %d message%s not been received; the first is from rank %d, tag %d, "
                 "%lld bytes, context %u",
                 n, n == 1 ? " has" : "s have", first->unex.key.src, first->unex.key.tag,
                 (long long)wm_stored_len(first), first->unex.key.ctx);
    reported = reported || n;
}

void check_report_freed(void)
{
    struct count n = { 0 };
    rt_slab_each(&wm_request_slab, count_freed, &n);
    say(n.pending, n.first[0], "freed by MPI_Request_free and not complete");
}

void check_report_leaks(struct wm_domain *d)
{
    report_requests();
    check_report_messages(d);
    rt_slab_each(&wm_comm_slab, report_comm, NULL);
}
