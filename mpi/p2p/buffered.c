/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffered mode (MPI-5.0 section 3.6): the attached buffer holds the messages that could not leave at once.
 *
 * Segments lie in the user's buffer, each behind its header, in the order of their addresses; a new one takes the first
 * gap that fits.  With MPI_BUFFER_AUTOMATIC the segments come from malloc.  All under the domain's lock. */
#include <stdlib.h>
#include "mpi/api/bodies.h"
#include "mpi/datatype/type.h"
#include "mpi/p2p/engine.h"

struct seg {                      /* at most MPI_BSEND_OVERHEAD bytes with its alignment */
    struct rt_list link;          /* struct wm_domain.bsends */
    size_t nbytes;                /* whole segment, header included */
    bool from_malloc;
};
#define SEG_ALIGN ((size_t)16)
_Static_assert(sizeof(struct seg) + 2 * SEG_ALIGN <= MPI_BSEND_OVERHEAD, "overhead promised by the ABI");

static struct { char *base; int64_t nbytes; bool automatic; } attached;

static const struct rt_layout byte_layout = { .size = 1, .extent = 1, .true_extent = 1, .contig = true };

static size_t align_up(size_t n) { return (n + SEG_ALIGN - 1) & ~(SEG_ALIGN - 1); }

static struct seg *place(char *at, size_t need, struct rt_list *before)
{
    struct seg *s = (struct seg *)(void *)at;
    *s = (struct seg){ .nbytes = need };
    rt_list_append(before, &s->link);
    return s;
}

static struct seg *seg_new(struct wm_domain *d, size_t nbytes)
{
    size_t need = align_up(sizeof(struct seg)) + align_up(nbytes);
    if (attached.automatic) {
        struct seg *s = malloc(need);
        if (s) {
            *s = (struct seg){ .nbytes = need, .from_malloc = true };
            rt_list_append(&d->bsends, &s->link);
        }
        return s;
    }
    if (!attached.base)
        return NULL;
    char *at = (char *)(uintptr_t)align_up((uintptr_t)attached.base), *end = attached.base + attached.nbytes;
    struct rt_list *l;
    rt_list_each(l, &d->bsends) {
        struct seg *s = rt_container(l, struct seg, link);
        if ((char *)s - at >= (int64_t)need)
            return place(at, need, l);
        at = (char *)s + s->nbytes;
    }
    return end - at >= (int64_t)need ? place(at, need, &d->bsends) : NULL;
}

static void seg_free(struct seg *s)
{
    rt_list_del(&s->link);
    if (s->from_malloc)
        free(s);
}

static void sent(struct rt_req *r, void *arg)
{
    seg_free(arg);
    wm_req_release(r);
}

int wm_p2p_bsend(const struct wm_msg *m, struct wm_type *type)
{
    (void)type;                   /* packed before return: the type may be freed at once */
    struct wm_peer *p;
    int64_t nbytes = wm_nbytes(m->count, m->layout);
    if (nbytes < 0)
        return (int)nbytes;
    if (m->peer == MPI_PROC_NULL)
        return 0;
    int err = wm_comm_peer(m->comm, m->peer, &p);
    if (err < 0)
        return err;
    if (m->layout->contig && !p->blocked && nbytes <= p->eager_max) {
        struct btl_hdr hdr = wm_hdr(WM_EAGER, wm_ctx(m->comm, m->coll), m->tag, m->comm->rank);
        err = p->send(p->eager, &hdr, m->buf, (size_t)nbytes);
        if (err != -RT_EAGAIN)
            return err;
    }
    struct seg *s = seg_new(m->comm->dom, (size_t)nbytes);
    if (!s) {
        wm_progress(m->comm->dom);                  /* finished segments may make room */
        s = seg_new(m->comm->dom, (size_t)nbytes);
    }
    if (!s)
        return -RT_ENOSPC;
    char *data = (char *)s + align_up(sizeof *s);
    rt_layout_pack(m->layout, m->count, m->buf, 0, data, nbytes);
    struct wm_msg copy = { .buf = data, .count = nbytes, .layout = &byte_layout, .comm = m->comm, .peer = m->peer,
                           .tag = m->tag, .coll = m->coll };
    struct rt_req *r;
    err = wm_p2p_isend(&copy, WM_STANDARD, &r);
    if (err < 0 || rt_req_done(r)) {
        seg_free(s);
        if (err >= 0)
            wm_req_release(r);
        return err;
    }
    r->notify = sent;
    r->arg = s;
    return 0;
}

static void flush(struct wm_domain *d)
{
    struct rt_idle idle = { 0 };
    while (!rt_list_empty(&d->bsends)) {
        if (wm_progress(d))
            idle = (struct rt_idle){ 0 };
        else
            wm_domain_idle(d, &idle);
    }
}

int wm_api_buffer_attach(void *buffer, MPI_Count size)
{
    if (attached.base || attached.automatic)
        return wm_err(MPI_ERR_BUFFER, "a buffer is attached already; detach it first with MPI_Buffer_detach");
    if (buffer == MPI_BUFFER_AUTOMATIC)
        attached.automatic = true;
    else if (!buffer && size)
        return wm_err(MPI_ERR_BUFFER, "argument 1 (buffer): a null pointer for %lld bytes", (long long)size);
    else {
        attached.base = buffer;
        attached.nbytes = size;
    }
    return MPI_SUCCESS;
}

int wm_api_buffer_detach(void *buffer_addr, MPI_Count *size)
{
    struct wm_domain *d = wm_comm_world->dom;
    rt_lock(&d->lock);
    flush(d);
    rt_unlock(&d->lock);
    void *base = attached.automatic ? MPI_BUFFER_AUTOMATIC : attached.base;
    memcpy(buffer_addr, &base, sizeof base);
    *size = attached.automatic ? 0 : attached.nbytes;
    attached.base = NULL;
    attached.nbytes = 0;
    attached.automatic = false;
    return MPI_SUCCESS;
}

int wm_api_buffer_flush(void)
{
    struct wm_domain *d = wm_comm_world->dom;
    rt_lock(&d->lock);
    flush(d);
    rt_unlock(&d->lock);
    return MPI_SUCCESS;
}
