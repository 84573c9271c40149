/* SPDX-License-Identifier: BSD-3-Clause */
/* Called under the domain's lock. */
#include "mpi/check/messages.h"
#include <stdio.h>
#include "mpi/check/left.h"
#include "mpi/check/memory.h"
#include "mpi/check/report.h"
#include "mpi/check/uses.h"
#include "mpi/datatype/signature.h"
#include "mpi/p2p/checks.h"
#include "mpi/p2p/request.h"

static uint32_t signature(const struct wm_preq *q)
{
    const struct wm_type *t = wm_type_of_layout(q->layout);
    return t ? wm_sig_brief(t, q->count) : 0;
}

/* "500 MPI_DOUBLE", of the receive. */
static void expected(const struct wm_type *t, int64_t count, char *buf, size_t len)
{
    if (t->basic && t->basic->layout.size)
        snprintf(buf, len, "%lld %s", (long long)(count * t->layout.size / t->basic->layout.size),
                 t->basic->name);
    else
        snprintf(buf, len, "%lld elements of %s%s", (long long)count,
                 t->name[0] ? "datatype " : "a derived datatype", t->name);
}

static void matched(const struct wm_preq *q, const struct wm_key *k, uint32_t sig, int64_t nbytes)
{
    char where[MPI_MAX_OBJECT_NAME + 64], here[160], out[160], in[MPI_MAX_OBJECT_NAME + 64];
    const struct wm_type *t = q->coll ? NULL : wm_type_of_layout(q->layout);
    if (!t || wm_sig_brief_matches(sig, nbytes < q->nbytes ? nbytes : q->nbytes, t, q->count))
        return;
    struct check_place place = check_here();
    wm_sig_brief_text(sig, nbytes, out, sizeof out);
    expected(t, q->count, in, sizeof in);
    check_fail("the datatypes of a message differ: rank %d sends %s with tag %d, rank %d receives "
               "%s in %s, on %s",
               k->src, out, k->tag, q->comm->rank, in, check_place_text(&place, here, sizeof here),
               check_comm_name(q->comm, where, sizeof where));
}

static void peer_text(const struct wm_preq *q, char *buf, size_t len)
{
    char peer[32] = "any rank", tag[32] = "any tag";
    if (q->peer_rank != MPI_ANY_SOURCE)
        snprintf(peer, sizeof peer, "rank %d", q->peer_rank);
    if (q->tag != MPI_ANY_TAG)
        snprintf(tag, sizeof tag, "tag %d", q->tag);
    snprintf(buf, len, "%s %s, %s", q->kind == WM_PREQ_SEND ? "to" : "from", peer, tag);
}

static void starting(const struct wm_msg *m, bool receives)
{
    if (m->peer != MPI_PROC_NULL)
        check_memory(m->buf, m->count, m->layout, receives);
}

static void started(struct rt_req *r, bool blocking)
{
    struct wm_preq *q = wm_preq_named(r->obj.handle);
    if (!q || (r->flags & (RT_REQ_DEVICE | RT_REQ_STATIC)))
        return;
    struct check_use u = { .owner = q,
                           .at = { q->buf, q->count, q->layout },
                           .writes = q->kind != WM_PREQ_SEND,
                           .lasts = !blocking,
                           .sealed = q->kind == WM_PREQ_SEND && !blocking };
    peer_text(q, u.what, sizeof u.what);
    check_left_watch(q->dom);
    check_use_begin(&u);
    r->flags |= RT_REQ_CHECKED;
}

/* Of a request that the user has freed, the library knows the end of the operation before the user
 * does. */
static void released(const struct wm_preq *q)
{
    check_use_end(q, NULL, !(q->r.flags & RT_REQ_DETACHED) && !q->r.err);
}

static const struct wm_checks checks = { .signature = signature,
                                         .matched = matched,
                                         .starting = starting,
                                         .started = started,
                                         .released = released };

void check_messages_init(void) { wm_checks = &checks; }
