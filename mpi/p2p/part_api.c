/* SPDX-License-Identifier: BSD-3-Clause */
/* Bodies of partitioned communication (MPI-5.0 chapter 4); any thread, several may mark partitions
 * of one request at a time. */
#include "mpi/api/bodies.h"
#include "mpi/datatype/type.h"
#include "mpi/p2p/part.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/send.h"
#include "mpi/p2p/wait.h"

#define PARTITIONS_MAX 0x1000000 /* leaves tags for 16 such requests */

static int check(int partitions, MPI_Count count, const struct wm_type *t)
{
    int64_t n = wm_nbytes(count, &t->layout), all;
    if (partitions <= 0 || partitions > PARTITIONS_MAX)
        return wm_err(MPI_ERR_ARG, "argument 2 (partitions): %d, expected 1 to %d", partitions,
                      PARTITIONS_MAX);
    if (n < 0 || __builtin_mul_overflow(n, (int64_t)partitions, &all))
        return wm_err(MPI_ERR_COUNT,
                      "%d partitions of %lld elements: the number of bytes overflows 63 bits",
                      partitions, (long long)count);
    return MPI_SUCCESS;
}

/* The caller has filled `side`, except what is derived here. */
static int make(const struct wm_part *side, struct wm_type *t, MPI_Request *request)
{
    struct wm_comm *c = side->comm;
    int err = check(side->partitions, side->count, t);
    if (err)
        return err;
    struct wm_part *p = wm_req_alloc(side->is_recv ? &wm_precv_ops : &wm_psend_ops);
    if (!p)
        return wm_err(MPI_ERR_NO_MEM, "no memory for a partitioned request");
    struct rt_req r = p->r;
    *p = *side;
    p->r = r;
    p->r.flags = RT_REQ_PERSISTENT;
    p->r.done = 1;
    rt_list_init(&p->link);
    p->key.ctx = c->ctx;
    p->key.src = p->is_recv ? p->peer_rank : c->rank;
    p->layout = &t->layout;
    p->nbytes = wm_nbytes(side->count, &t->layout);
    rt_lock(&c->dom->lock);
    wm_comm_ref(c);
    if (!t->predefined) {
        p->type = t;
        wm_type_ref(t);
    }
    err = wm_part_open(p);
    if (err < 0)
        wm_req_release(&p->r);
    else
        *request = wm_req_handle(&p->r);
    rt_unlock(&c->dom->lock);
    return err < 0 ? wm_err_rt(err, "could not prepare %d partitions for rank %d", side->partitions,
                               side->peer_rank)
                   : MPI_SUCCESS;
}

int wm_api_psend_init(const void *buf, int partitions, MPI_Count count, struct wm_type *datatype,
                      int dest, int tag, struct wm_comm *comm, struct wm_info *info,
                      MPI_Request *request)
{
    (void)info; /* no hints are defined */
    struct wm_part side = { .comm = wm_on_lane(comm),
                            .buf = (char *)(uintptr_t)buf,
                            .partitions = partitions,
                            .count = count,
                            .peer_rank = dest,
                            .key.tag = tag };
    return make(&side, datatype, request);
}

int wm_api_precv_init(void *buf, int partitions, MPI_Count count, struct wm_type *datatype,
                      int source, int tag, struct wm_comm *comm, struct wm_info *info,
                      MPI_Request *request)
{
    (void)info;
    struct wm_part side = { .comm = wm_on_lane(comm),
                            .buf = buf,
                            .partitions = partitions,
                            .count = count,
                            .peer_rank = source,
                            .key.tag = tag,
                            .is_recv = true };
    return make(&side, datatype, request);
}

/* ---- marking ---- */

/* The partitions that a call names: a list, or a range from low on. */
struct which {
    const int *list;
    int low, n;
};

static int at(const struct which *w, int i) { return w->list ? w->list[i] : w->low + i; }

static int find(MPI_Request request, const struct rt_req_ops *ops, struct wm_part **out)
{
    struct rt_req *r = wm_req_get(request);
    if (!r || r->ops != ops)
        return wm_err(MPI_ERR_REQUEST, "0x%lx is %s%s, expected a %s",
                      (unsigned long)(uintptr_t)request, r ? "a " : "no live request",
                      r ? r->ops->name : "", ops->name);
    *out = (struct wm_part *)r;
    return MPI_SUCCESS;
}

/* The error handler of its communicator applies. */
static void blame(struct wm_part *p)
{
    struct wm_domain *d = p->comm->dom;
    rt_lock(&d->lock);
    wm_err_attach(p->comm);
    rt_unlock(&d->lock);
}

static int check_index(const struct wm_part *p, int i)
{
    if (i >= 0 && i < p->partitions)
        return MPI_SUCCESS;
    return wm_err(MPI_ERR_ARG, "partition %d does not exist; the request has partitions 0 to %d", i,
                  p->partitions - 1);
}

static int marked_before(int i)
{
    return wm_err(MPI_ERR_ARG, "partition %d was marked ready before in this operation", i);
}

static int check_active(const struct wm_part *p)
{
    if (p->r.flags & RT_REQ_ACTIVE)
        return MPI_SUCCESS;
    return wm_err(MPI_ERR_REQUEST,
                  "the partitioned send is not active; call MPI_Start before MPI_Pready");
}

/* Marks all or, when one of them may not be marked, none. */
static int mark(struct wm_part *p, const struct which *w)
{
    int err = check_active(p), n = 0;
    for (; n < w->n && !err; n++) {
        int i = at(w, n);
        err = check_index(p, i);
        if (!err && !wm_part_mark(p, i))
            err = marked_before(i);
        if (err)
            break;
    }
    while (err && n > 0)
        rt_store_relaxed(&p->pieces[at(w, --n)].ready, false);
    return err;
}

static int ready(MPI_Request request, const struct which *w)
{
    struct wm_part *p = NULL;
    int err = find(request, &wm_psend_ops, &p);
    if (!err && (err = mark(p, w)))
        blame(p);
    /* Done already: its start has met a death or a revocation. */
    for (int n = 0; n < w->n && !err && !rt_req_done(&p->r); n++)
        wm_part_send(p, at(w, n));
    return err;
}

int wm_api_pready(int partition, MPI_Request request)
{
    struct wm_part *p = NULL;
    int err = find(request, &wm_psend_ops, &p);
    if (err)
        return err;
    if ((err = check_active(p)) || (err = check_index(p, partition)) ||
        (!wm_part_ready(p, partition) && (err = marked_before(partition))))
        blame(p);
    return err;
}

int wm_api_pready_range(int partition_low, int partition_high, MPI_Request request)
{
    if (partition_high < partition_low || partition_high - partition_low >= PARTITIONS_MAX)
        return wm_err(MPI_ERR_ARG, "partitions %d to %d are no range", partition_low,
                      partition_high);
    return ready(request,
                 &(struct which){ .low = partition_low, .n = partition_high - partition_low + 1 });
}

int wm_api_pready_list(int length, const int array_of_partitions[], MPI_Request request)
{
    return ready(request, &(struct which){ .list = array_of_partitions, .n = length });
}

int wm_api_parrived(MPI_Request request, int partition, int *flag)
{
    *flag = 1;
    if (request == wm_caller.null)
        return MPI_SUCCESS;
    struct wm_part *p = NULL;
    int err = find(request, &wm_precv_ops, &p);
    if (!err && (err = check_index(p, partition)))
        blame(p);
    if (!err && (p->r.flags & RT_REQ_ACTIVE) && !rt_req_done(&p->r) &&
        !wm_part_arrived(p, partition)) {
        struct wm_domain *d = p->comm->dom;
        rt_lock(&d->lock);
        wm_progress(d);
        *flag = wm_part_arrived(p, partition) || rt_req_done(&p->r);
        rt_unlock(&d->lock);
    }
    wm_domain_polled(*flag);
    return err;
}
