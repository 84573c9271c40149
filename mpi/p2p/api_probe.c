/* SPDX-License-Identifier: BSD-3-Clause */
/* Bodies of probe and matched probe (MPI-5.0 section 3.8). */
#include "mpi/api/bodies.h"
#include "mpi/base/status.h"
#include "mpi/datatype/type.h"
#include "mpi/p2p/describe.h"
#include "mpi/p2p/failed.h"
#include "mpi/p2p/api_wait.h"
#include "mpi/p2p/lane.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/recv.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/send.h"
#include "mpi/p2p/wait.h"

static struct rt_slab message_slab = RT_SLAB(WM_MESSAGE, "message", struct wm_message);

static struct wm_key wanted(const struct wm_comm *c, int source, int tag)
{
    return (struct wm_key){ .ctx = c->ctx,
                            .src = source,
                            .tag = tag == MPI_ANY_TAG ? WM_MATCH_ANY : tag };
}

static struct wm_stored *find(struct wm_comm *c, int source, int tag)
{
    struct wm_key k = wanted(c, source, tag);
    struct wm_unex *u = wm_match_find(&c->dom->match, &k);
    return u ? rt_container(u, struct wm_stored, unex) : NULL;
}

static void describe(const struct wm_stored *s, MPI_Status *status)
{
    wm_status_set(status, s->unex.key.src, s->unex.key.tag, wm_stored_len(s), false);
}

/* A message from any source must not be waited for. */
static bool is_hopeless(struct wm_comm *c, int source)
{
    return source == MPI_ANY_SOURCE && rt_unlikely(rt_dead()) && wm_failed_unacked(c);
}

/* Connects to a named source, so that a process that has never sent anything is polled, too.  Of a
 * lost source, only what has arrived can be found. */
static int prepare(struct wm_comm *c, int source, int tag)
{
    struct wm_peer *p;
    if (rt_unlikely(c->ft.revoked))
        return wm_err_rt(-RT_EREVOKED, "looking for a message");
    if (source < 0)
        return MPI_SUCCESS;
    int err = wm_comm_peer(c, source, &p);
    if (err >= 0 && p->proc.ns)
        p->probed = true;
    if (err >= 0 && p->err && !find(c, source, tag))
        err = p->err;
    if (err == -RT_EPEER)
        return wm_err_gone(c, source, tag);
    return err < 0 ? wm_err_rt(err, "could not look for a message from rank %d", source)
                   : MPI_SUCCESS;
}

static struct wm_stored *look(struct wm_comm *c, int source, int tag)
{
    struct wm_stored *s = find(c, source, tag);
    if (s)
        return s;
    wm_progress(c->dom);
    return find(c, source, tag);
}

struct awaited {
    struct wm_comm *comm;
    int source, tag;
};

/* A message is there, or its source is lost. */
static bool is_there(void *arg)
{
    const struct awaited *a = arg;
    struct wm_comm *c = a->comm;
    return find(c, a->source, a->tag) || c->ft.revoked || is_hopeless(c, a->source) ||
           (a->source >= 0 && c->peers[a->source]->err);
}

static void describe_awaited(const void *of, struct rt_wait_note *n)
{
    const struct awaited *a = of;
    wm_describe_one(n, a->comm, wm_describe_item(RT_WAIT_PROBE, a->comm, a->source, a->tag, 0));
}

/* NULL when the source is lost. */
static struct wm_stored *wait_for(struct wm_comm *c, int source, int tag)
{
    struct awaited a = { c, source, tag };
    struct wm_stored *s = look(c, source, tag);
    if (s)
        return s;
    wm_domain_until(c->dom, is_there, &a, (struct wm_what){ describe_awaited, &a });
    return find(c, source, tag);
}

/* Takes the stored message out of matching and gives it a handle. */
static int claim(struct wm_comm *c, struct wm_stored *s, MPI_Message *message, MPI_Status *status)
{
    struct wm_message *m = rt_slab_alloc(&message_slab);
    if (!m)
        return wm_err(MPI_ERR_NO_MEM, "no memory for a message handle");
    wm_match_remove(&c->dom->match, &s->unex);
    m->stored = s;
    m->comm = c;
    wm_comm_ref(c);
    describe(s, status);
    *message = (MPI_Message)(uintptr_t)m->obj.handle;
    return MPI_SUCCESS;
}

/* All four calls.  `flag` NULL: blocks; `message` NULL: the message stays where it is. */
static int probe(int source, int tag, struct wm_comm *comm, int *flag, MPI_Message *message,
                 MPI_Status *status)
{
    if (source == MPI_PROC_NULL) {
        if (rt_unlikely(comm->ft.revoked))
            return wm_err_rt(-RT_EREVOKED, "looking for a message");
        if (flag)
            *flag = 1;
        if (message)
            *message = MPI_MESSAGE_NO_PROC;
        wm_status_set(status, MPI_PROC_NULL, MPI_ANY_TAG, 0, false);
        return MPI_SUCCESS;
    }
    comm = wm_on_lane(comm);
    rt_lock(&comm->dom->lock);
    struct wm_stored *s = NULL;
    int err = prepare(comm, source, tag);
    if (!err)
        s = flag ? look(comm, source, tag) : wait_for(comm, source, tag);
    if (s && message)
        err = claim(comm, s, message, status);
    else if (s)
        describe(s, status);
    else if (!err && !comm->ft.revoked && is_hopeless(comm, source))
        err = wm_err_gone(comm, source, tag);
    else if ((!flag || comm->ft.revoked) && !err)
        err = prepare(comm, source, tag); /* the error of the lost source */
    if (flag)
        *flag = s && !err;
    rt_unlock(&comm->dom->lock);
    if (flag)
        wm_domain_polled(s);
    return err;
}

int wm_api_iprobe(int source, int tag, struct wm_comm *comm, int *flag, MPI_Status *status)
{
    return probe(source, tag, comm, flag, NULL, status);
}

int wm_api_probe(int source, int tag, struct wm_comm *comm, MPI_Status *status)
{
    return probe(source, tag, comm, NULL, NULL, status);
}

int wm_api_improbe(int source, int tag, struct wm_comm *comm, int *flag, MPI_Message *message,
                   MPI_Status *status)
{
    return probe(source, tag, comm, flag, message, status);
}

int wm_api_mprobe(int source, int tag, struct wm_comm *comm, MPI_Message *message,
                  MPI_Status *status)
{
    return probe(source, tag, comm, NULL, message, status);
}

static int start(void *buf, MPI_Count count, struct wm_type *t, struct wm_message *m,
                 struct rt_req **out)
{
    struct wm_domain *d = m->comm->dom;
    int64_t nbytes = wm_nbytes(count, &t->layout);
    if (nbytes < 0)
        return wm_err(MPI_ERR_COUNT, "count %lld times the type's size overflows 63 bits",
                      (long long)count);
    struct wm_preq *q = wm_preq_new(d, WM_PREQ_RECV);
    if (!q)
        return wm_err(MPI_ERR_NO_MEM, "no memory for a receive request");
    struct wm_stored *s = m->stored;
    q->coll = false;
    q->comm = m->comm; /* the message's reference moves to the request */
    q->peer_rank = s->unex.key.src;
    q->tag = s->unex.key.tag;
    q->buf = buf;
    q->count = count;
    q->layout = &t->layout;
    q->nbytes = nbytes;
    if (!t->predefined) {
        q->type = t;
        wm_type_ref(t);
    }
    int err = wm_dev_resolve(q, NULL);
    if (rt_unlikely(err < 0)) {
        wm_comm_ref(m->comm); /* stays with the message */
        wm_req_release(&q->r);
        return err == -RT_EADDR ? wm_dev_fault() : wm_err_rt(err, "could not receive the message");
    }
    rt_slab_free(&message_slab, m);
    wm_deliver(q, s->from, s->kind, &s->unex.key, s->data, s->len);
    wm_stored_free(d, s);
    *out = &q->r;
    return MPI_SUCCESS;
}

static int take(void *buf, MPI_Count count, struct wm_type *t, MPI_Message *message,
                struct rt_req **out)
{
    if (*message == MPI_MESSAGE_NO_PROC) {
        *out = wm_req_proc_null;
        *message = MPI_MESSAGE_NULL;
        return MPI_SUCCESS;
    }
    struct wm_message *m = rt_slab_get(&message_slab, (uintptr_t)*message);
    if (!m)
        return wm_err(
            MPI_ERR_REQUEST,
            "message 0x%lx is not a live message of MPI_Mprobe or MPI_Improbe; it was received "
            "before or never matched",
            (unsigned long)(uintptr_t)*message);
    int err = start(buf, count, t, m, out);
    if (err)
        wm_err_attach(m->comm);
    else
        *message = MPI_MESSAGE_NULL;
    return err;
}

/* Of a message without a handle: any. */
static struct wm_domain *domain_of(MPI_Message message)
{
    const struct wm_message *m = rt_slab_get(&message_slab, (uintptr_t)message);
    return m ? m->comm->dom : wm_main_domain;
}

int wm_api_imrecv(void *buf, MPI_Count count, struct wm_type *datatype, MPI_Message *message,
                  MPI_Request *request)
{
    struct wm_domain *d = domain_of(*message);
    struct rt_req *r;
    rt_lock(&d->lock);
    int err = take(buf, count, datatype, message, &r);
    if (!err)
        *request = wm_req_handle(r);
    rt_unlock(&d->lock);
    return err;
}

int wm_api_mrecv(void *buf, MPI_Count count, struct wm_type *datatype, MPI_Message *message,
                 MPI_Status *status)
{
    struct wm_domain *d = domain_of(*message);
    struct rt_req *r;
    rt_lock(&d->lock);
    int err = take(buf, count, datatype, message, &r);
    if (!err)
        err = wm_req_wait(d, r, status);
    rt_unlock(&d->lock);
    return err;
}
