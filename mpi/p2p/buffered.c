/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffered mode (MPI-5.0 section 3.6): an attached buffer holds the messages that could not be sent
 * at once.  A buffer is attached to a communicator, to a session or to the process; the latter two
 * serve communicators without a buffer of their own.
 *
 * Segments lie in the user's buffer, each behind its header, in the order of their addresses; a new
 * segment takes the first gap that fits.  With MPI_BUFFER_AUTOMATIC the segments come from malloc.
 *
 * The messages of one buffer may be of several lanes (lane.h).  So buffers have a lock of their
 * own, which is taken last.  Their flushes are of lane 0; the end of a message of another lane
 * wakes the threads that wait for one. */
#include "mpi/p2p/buffered.h"
#include <stdlib.h>
#include "mpi/api/bodies.h"
#include "mpi/base/session.h"
#include "mpi/datatype/type.h"
#include "mpi/p2p/flow.h"
#include "mpi/p2p/lane.h"
#include "mpi/p2p/pack_any.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/send.h"
#include "mpi/p2p/wait.h"
#include "runtime/base/err.h"
#include "runtime/mem/segment.h"

struct wm_bbuf {
    char *base; /* the user's; NULL with `automatic` */
    int64_t nbytes;
    bool automatic;
    uint64_t order; /* segments made so far */
    struct rt_list segs;
    struct rt_list flushes; /* running nonblocking flushes */
};

struct seg {             /* with its alignment, at most OVERHEAD bytes */
    struct rt_list link; /* struct wm_bbuf.segs */
    struct wm_bbuf *owner;
    size_t nbytes; /* whole segment, header included */
    uint64_t order;
};
#define SEG_ALIGN ((size_t)16)
/* The least MPI_BSEND_OVERHEAD of all ABIs (mpi/foreign): Intel MPI's.  The standard's is 512. */
#define OVERHEAD 88
_Static_assert(sizeof(struct seg) + 3 * SEG_ALIGN <= OVERHEAD && OVERHEAD <= MPI_BSEND_OVERHEAD,
               "overhead promised by the ABIs");

struct flush { /* request of MPI_Buffer_iflush: done when no segment older than `mark` is left */
    struct rt_req r; /* first member */
    struct rt_list link;
    uint64_t mark;
};
_Static_assert(sizeof(struct flush) <= WM_REQ_MAX, "flush request fits a slab slot");

/* Of all buffers: their segments, their flushes, and the pointers to them. */
static struct rt_lock lock = RT_LOCK_INIT;

static const struct rt_layout byte_layout = {
    .size = 1, .extent = 1, .true_extent = 1, .contig = true
};

static size_t align_up(size_t n) { return (n + SEG_ALIGN - 1) & ~(SEG_ALIGN - 1); }

static char *seg_data(struct seg *s) { return (char *)s + align_up(sizeof *s); }

static struct seg *place(struct wm_bbuf *b, void *at, size_t need, struct rt_list *before)
{
    struct seg *s = at;
    *s = (struct seg){ .owner = b, .nbytes = need, .order = b->order++ };
    rt_list_append(before, &s->link);
    return s;
}

static struct seg *seg_new(struct wm_bbuf *b, size_t nbytes)
{
    size_t need = align_up(sizeof(struct seg)) + align_up(nbytes);
    if (b->automatic) {
        void *at = malloc(need);
        return at ? place(b, at, need, &b->segs) : NULL;
    }
    char *at = (char *)(uintptr_t)align_up((uintptr_t)b->base), *end = b->base + b->nbytes;
    struct rt_list *l;
    rt_list_each (l, &b->segs) {
        struct seg *s = rt_container(l, struct seg, link);
        if ((char *)s - at >= (int64_t)need)
            return place(b, at, need, l);
        at = (char *)s + s->nbytes;
    }
    return end - at >= (int64_t)need ? place(b, at, need, &b->segs) : NULL;
}

static bool drained(const struct wm_bbuf *b, uint64_t mark)
{
    struct rt_list *l;
    rt_list_each (l, &b->segs)
        if (rt_container(l, struct seg, link)->order < mark)
            return false;
    return true;
}

static void seg_free(struct seg *s, const struct wm_domain *d)
{
    rt_lock(&lock);
    struct wm_bbuf *b = s->owner;
    rt_list_del(&s->link);
    if (b->automatic)
        free(s);
    struct rt_list *l, *tmp;
    rt_list_each_safe (l, tmp, &b->flushes) {
        struct flush *f = rt_container(l, struct flush, link);
        if (!drained(b, f->mark))
            continue;
        rt_list_del(l);
        rt_req_finish(&f->r, 0);
        if (f->r.flags & RT_REQ_DETACHED)
            wm_req_release(&f->r);
    }
    rt_unlock(&lock);
    if (rt_unlikely(d->lane))
        rt_bell_ring_self();
}

static void sent(struct rt_req *r, void *arg)
{
    seg_free(arg, ((const struct wm_preq *)r)->dom);
    wm_req_release(r);
}

/* The communicator's own buffer, else that of the session from which the communicator descends,
 * else the process's (MPI-5.0 section 3.6). */
static struct wm_bbuf *buffer_of(const struct wm_comm *part)
{
    const struct wm_comm *c = wm_lane_whole(part);
    if (c->bbuf)
        return c->bbuf;
    return c->session && c->session->bbuf ? c->session->bbuf : c->dom->bbuf;
}

/* NULL: no buffer, or no room in it. */
static struct seg *find_room(const struct wm_comm *c, int64_t nbytes)
{
    rt_lock(&lock);
    struct wm_bbuf *b = buffer_of(c);
    struct seg *s = b ? seg_new(b, (size_t)nbytes) : NULL;
    rt_unlock(&lock);
    return s;
}

/* A segment with the packed message; -RT_EBUFFER: no room. */
static int seg_fill(const struct wm_msg *m, int64_t nbytes, const struct wm_mem *mem,
                    struct seg **out)
{
    struct seg *s = find_room(m->comm, nbytes);
    if (!s) {
        wm_progress(m->comm->dom); /* finished segments may make room */
        s = find_room(m->comm, nbytes);
    }
    if (!s)
        return -RT_EBUFFER;
    int err = wm_move(mem, &(struct wm_packing){ m->layout, m->count, (char *)(uintptr_t)m->buf, 0,
                                                 seg_data(s), nbytes, true });
    if (err < 0)
        seg_free(s, m->comm->dom);
    else
        *out = s;
    return err < 0 ? err : 0;
}

int wm_p2p_bsend(const struct wm_msg *m, struct wm_type *type)
{
    (void)type; /* packed before return: the type may be freed at once */
    struct wm_peer *p;
    int64_t nbytes = wm_nbytes(m->count, m->layout);
    if (nbytes < 0)
        return (int)nbytes;
    if (m->peer == MPI_PROC_NULL)
        return rt_unlikely(m->comm->ft.revoked) ? -RT_EREVOKED : 0;
    int err = wm_comm_peer(m->comm, m->peer, &p);
    if (err < 0)
        return err;
    wm_flow_before_send(m->comm->dom, p, m->coll);
    struct wm_mem mem;
    err = wm_resolve(m->buf, m->count, m->layout, nbytes, &mem);
    if (err < 0)
        return err;
    if (m->layout->contig && mem.kind == WM_MEMORY_HOST && !p->blocked && !p->stopped &&
        nbytes <= p->eager_max) {
        struct btl_hdr hdr = wm_hdr(WM_EAGER, wm_ctx(m->comm, m->coll), m->tag, m->comm->rank);
        err = p->send(p->eager, &hdr, m->buf, (size_t)nbytes);
        if (err == 0) {
            wm_count_eager(m->comm->dom, nbytes);
            wm_flow_sent(p, nbytes);
        }
        if (err != -RT_EAGAIN)
            return err;
    }
    struct seg *s;
    err = seg_fill(m, nbytes, &mem, &s);
    if (err < 0)
        return err;
    struct wm_msg copy = { .buf = seg_data(s),
                           .count = nbytes,
                           .layout = &byte_layout,
                           .comm = m->comm,
                           .peer = m->peer,
                           .tag = m->tag,
                           .coll = m->coll };
    struct rt_req *r;
    err = wm_p2p_isend(&copy, WM_STANDARD, &r);
    if (err < 0 || rt_req_done(r)) {
        seg_free(s, m->comm->dom);
        if (err >= 0)
            wm_req_release(r);
        return err;
    }
    r->notify = sent;
    r->arg = s;
    return 0;
}

/* Another thread may have detached the buffer meanwhile. */
static bool is_flushed(void *arg)
{
    struct wm_bbuf *const *slot = arg;
    rt_lock(&lock);
    bool flushed = !*slot || rt_list_empty(&(*slot)->segs);
    rt_unlock(&lock);
    return flushed;
}

static void flush(struct wm_domain *d, struct wm_bbuf **slot)
{
    wm_domain_until(d, is_flushed, slot, WM_WHAT_CALL);
}

/* Whether the CPU cannot access the buffer, in which it writes the segments and from which it
 * sends. */
static bool is_beyond_the_cpu(const void *buffer)
{
    struct wm_mem mem;
    rt_lock(&wm_main_domain->lock);
    int err = wm_resolve_bytes(buffer, buffer != MPI_BUFFER_AUTOMATIC, &mem);
    rt_unlock(&wm_main_domain->lock);
    return err < 0 || (mem.kind != WM_MEMORY_HOST && mem.at.kind != RT_MEM_MANAGED);
}

static int attach(struct wm_bbuf **slot, void *buffer, int64_t nbytes, const char *detach)
{
    if (!buffer && nbytes)
        return wm_err(MPI_ERR_BUFFER, "argument buffer: a null pointer for %lld bytes",
                      (long long)nbytes);
    if (is_beyond_the_cpu(buffer))
        return wm_err(MPI_ERR_BUFFER,
                      "argument buffer: %p is device memory; attach host memory, which holds "
                      "messages from device buffers as well",
                      buffer);
    struct wm_bbuf *b = calloc(1, sizeof *b);
    if (!b)
        return wm_err(MPI_ERR_NO_MEM, "no memory to attach a buffer");
    b->automatic = buffer == MPI_BUFFER_AUTOMATIC;
    b->base = b->automatic ? NULL : buffer;
    b->nbytes = b->automatic ? 0 : nbytes;
    rt_list_init(&b->segs);
    rt_list_init(&b->flushes);
    rt_lock(&lock);
    bool taken = *slot != NULL;
    if (!taken)
        *slot = b;
    rt_unlock(&lock);
    if (!taken)
        return MPI_SUCCESS;
    free(b);
    return wm_err(MPI_ERR_BUFFER, "a buffer is attached already; detach it first with %s", detach);
}

/* Waits for the messages in the buffer. */
static int detach(struct wm_domain *d, struct wm_bbuf **slot, void *buffer_addr, MPI_Count *size)
{
    rt_lock(&d->lock);
    flush(d, slot);
    rt_lock(&lock);
    struct wm_bbuf *b = *slot;
    *slot = NULL;
    rt_unlock(&lock);
    rt_unlock(&d->lock);
    void *base = !b ? NULL : b->automatic ? MPI_BUFFER_AUTOMATIC : b->base;
    memcpy(buffer_addr, &base, sizeof base); /* a pointer to the user's pointer, of any type */
    *size = b ? b->nbytes : 0;
    free(b);
    return MPI_SUCCESS;
}

static const struct rt_req_ops flush_ops = { .name = "buffer flush" };

static int iflush(struct wm_domain *d, struct wm_bbuf *const *slot, MPI_Request *request)
{
    rt_lock(&d->lock);
    rt_lock(&lock);
    struct wm_bbuf *b = *slot;
    int err = MPI_SUCCESS;
    if (!b || rt_list_empty(&b->segs)) {
        *request = wm_req_handle(wm_req_complete);
    } else {
        struct flush *f = wm_req_alloc(&flush_ops);
        if (f) {
            f->mark = b->order;
            f->r.status = (struct rt_status){ .src = MPI_ANY_SOURCE, .tag = MPI_ANY_TAG };
            rt_list_append(&b->flushes, &f->link);
            *request = wm_req_handle(&f->r);
        } else {
            err = wm_err(MPI_ERR_NO_MEM, "no memory for a request");
        }
    }
    rt_unlock(&lock);
    rt_unlock(&d->lock);
    return err;
}

int wm_api_buffer_attach(void *buffer, MPI_Count size)
{
    return attach(&wm_main_domain->bbuf, buffer, size, "MPI_Buffer_detach");
}

int wm_api_buffer_detach(void *buffer_addr, MPI_Count *size)
{
    return detach(wm_main_domain, &wm_main_domain->bbuf, buffer_addr, size);
}

int wm_api_buffer_flush(void)
{
    struct wm_domain *d = wm_main_domain;
    rt_lock(&d->lock);
    flush(d, &d->bbuf);
    rt_unlock(&d->lock);
    return MPI_SUCCESS;
}

int wm_api_buffer_iflush(MPI_Request *request)
{
    return iflush(wm_main_domain, &wm_main_domain->bbuf, request);
}

int wm_api_comm_attach_buffer(struct wm_comm *comm, void *buffer, MPI_Count size)
{
    return attach(&comm->bbuf, buffer, size, "MPI_Comm_detach_buffer");
}

int wm_api_comm_detach_buffer(struct wm_comm *comm, void *buffer_addr, MPI_Count *size)
{
    return detach(comm->dom, &comm->bbuf, buffer_addr, size);
}

int wm_api_comm_flush_buffer(struct wm_comm *comm)
{
    rt_lock(&comm->dom->lock);
    flush(comm->dom, &comm->bbuf);
    rt_unlock(&comm->dom->lock);
    return MPI_SUCCESS;
}

int wm_api_comm_iflush_buffer(struct wm_comm *comm, MPI_Request *request)
{
    return iflush(comm->dom, &comm->bbuf, request);
}

int wm_api_session_attach_buffer(struct wm_session *session, void *buffer, MPI_Count size)
{
    return attach(&session->bbuf, buffer, size, "MPI_Session_detach_buffer");
}

int wm_api_session_detach_buffer(struct wm_session *session, void *buffer_addr, MPI_Count *size)
{
    return detach(wm_main_domain, &session->bbuf, buffer_addr, size);
}

int wm_api_session_flush_buffer(struct wm_session *session)
{
    rt_lock(&wm_main_domain->lock);
    flush(wm_main_domain, &session->bbuf);
    rt_unlock(&wm_main_domain->lock);
    return MPI_SUCCESS;
}

int wm_api_session_iflush_buffer(struct wm_session *session, MPI_Request *request)
{
    return iflush(wm_main_domain, &session->bbuf, request);
}
