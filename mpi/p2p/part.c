/* SPDX-License-Identifier: BSD-3-Clause */
/* Partitioned communication (MPI-5.0 chapter 4).  Called under the lock of the communicator's lane,
 * which several threads that mark partitions do not wait for (wm_part_send()).
 *
 * Matching.  MPI_Psend_init sends one control message, WM_PART_INIT, with the user's tag: how many
 * partitions of how many bytes, and which internal tags they will use.  The receiver matches it
 * with its MPI_Precv_init calls by (communicator, source, tag), in the order in which both were
 * made, in two lists that ordinary messages and probes do not search.  The receiver does not
 * answer.  Either side may start, and the sender may send, before the receive has been made.
 *
 * Data.  Each partition of the sender is one ordinary message on the collective context, with a tag
 * of its own from WM_TAG_PART on, sent by MPI_Pready: small ones eagerly, large ones straight into
 * the receiver's buffer, as all messages.  The receiver, once started and matched, posts one
 * receive for each, at the place of the sender's partition in the packed order of the receiver's
 * buffer.  The partitions of both sides need not agree: a partition of the receiver has arrived
 * when all its units have.  If a sender's partition ends inside an element of a non-contiguous
 * type, it is received into a separate buffer and unpacked.  Restarts use the same tags; messages
 * of one tag stay in order. */
#include "mpi/p2p/part.h"
#include <stdlib.h>
#include "mpi/datatype/type.h"
#include "mpi/p2p/control.h"
#include "mpi/p2p/malformed.h"
#include "mpi/p2p/pack_any.h"
#include "mpi/p2p/recv.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/send.h"
#include "runtime/base/err.h"

#define TAGS (WM_TAG_COMM - WM_TAG_PART)

_Static_assert(COLL_TAG_END <= WM_TAG_PART, "tags of collectives and of partitions differ");
_Static_assert(sizeof(struct wm_part) <= WM_REQ_MAX, "partitioned request fits a slab slot");

static const struct rt_layout byte_layout = {
    .size = 1, .extent = 1, .true_extent = 1, .contig = true
};

/* ---- completion ---- */

static void finish_one(struct wm_part *p, int err)
{
    if (err && !p->fail)
        p->fail = err;
    if (--p->left == 0)
        rt_req_finish(&p->r, p->fail);
}

/* Units [lo, hi) have arrived: counts them for the partitions of this side. */
static void arrive(struct wm_part *p, int64_t lo, int64_t hi)
{
    if (!p->own_units)
        return;
    for (int64_t j = lo / p->own_units; j < p->partitions && j * p->own_units < hi; j++) {
        int64_t from = j * p->own_units, to = from + p->own_units;
        int64_t n = (to < hi ? to : hi) - (from > lo ? from : lo);
        rt_store_release(&p->missing[j], p->missing[j] - n); /* after the data */
    }
}

static void piece_done(struct wm_piece *piece, int err, int64_t len)
{
    struct wm_part *p = piece->part;
    int64_t i = piece - p->pieces;
    if (piece->bounce) {
        if (!err || err == -RT_ETRUNC) {
            int bad = wm_move_now(&(struct wm_packing){ p->layout, p->count * p->partitions, p->buf,
                                                        i * p->in_nbytes, piece->bounce, len,
                                                        false });
            err = bad < 0 ? bad : err;
        }
        free(piece->bounce);
        piece->bounce = NULL;
    }
    if (p->is_recv && !err)
        arrive(p, i * p->in_units, (i + 1) * p->in_units);
    finish_one(p, err);
}

static void message_done(struct rt_req *r, void *arg)
{
    int err = r->err;
    int64_t len = r->status.len;
    wm_req_release(r);
    piece_done(arg, err, len);
}

static void watch(struct rt_req *r, struct wm_piece *piece)
{
    if (rt_req_done(r)) {
        message_done(r, piece);
        return;
    }
    r->notify = message_done;
    r->arg = piece;
}

/* ---- receiving ---- */

/* Where the sender's partition i goes: straight into the buffer if it is whole elements. */
static int place(struct wm_part *p, int i, struct wm_msg *m)
{
    int64_t total = p->nbytes * p->partitions, off = (int64_t)i * p->in_nbytes;
    if (off > total)
        off = total;
    int64_t n = p->in_nbytes < total - off ? p->in_nbytes : total - off, size = p->layout->size;
    m->layout = &byte_layout;
    m->count = n;
    m->buf = p->buf;
    if (n == 0)
        return 0;
    if (p->layout->contig) {
        m->buf = p->buf + off;
    } else if (off % size == 0 && n % size == 0) {
        m->layout = p->layout;
        m->count = n / size;
        m->buf = p->buf + off / size * p->layout->extent;
    } else {
        m->buf = p->pieces[i].bounce = malloc((size_t)n);
    }
    return m->buf ? 0 : -RT_ENOMEM;
}

static void post(struct wm_part *p)
{
    p->left++; /* incomplete until the last is posted */
    for (int i = 0; i < p->npieces; i++) {
        struct wm_msg m = {
            .comm = p->comm, .peer = p->peer_rank, .tag = p->tag + i, .coll = true
        };
        struct rt_req *r;
        int err = place(p, i, &m);
        if (!err)
            err = wm_p2p_irecv(&m, &r);
        if (err < 0)
            piece_done(&p->pieces[i], err, 0);
        else
            watch(r, &p->pieces[i]);
    }
    finish_one(p, 0);
}

/* A started receive whose sender is known. */
static void begin(struct wm_part *p)
{
    int64_t total = p->in_units * p->npieces;
    for (int64_t j = 0; j < p->partitions; j++) {
        int64_t from = j * p->own_units, to = from + p->own_units;
        int64_t n = to <= total ? p->own_units : from < total ? total - from : -1;
        rt_store_relaxed(&p->missing[j], n);
    }
    int64_t len = p->in_nbytes * p->npieces, room = p->nbytes * p->partitions;
    p->r.status = (struct rt_status){ .src = p->peer_rank,
                                      .tag = p->key.tag,
                                      .len = len < room ? len : room };
    p->left = p->npieces;
    p->fail = len > room ? -RT_ETRUNC : 0;
    post(p);
}

static bool is_active(const struct wm_part *p)
{
    return (p->r.flags & RT_REQ_ACTIVE) && !rt_req_done(&p->r);
}

static void fail_unmatched(struct wm_part *p, int err)
{
    p->left = 1;
    p->r.status = (struct rt_status){ .src = p->peer_rank, .tag = p->key.tag };
    finish_one(p, err);
}

static void destroy(struct wm_part *p)
{
    rt_list_del(&p->link);
    free(p->pieces);
    free(p->missing);
    rt_slab_free(&wm_request_slab, p);
}

static void match(struct wm_part *p, const struct wm_part_init *init)
{
    rt_list_del(&p->link);
    if (!p->comm) { /* freed before: the sender belongs to this receive and to no other */
        destroy(p);
        return;
    }
    p->tag = init->tag;
    p->npieces = init->partitions;
    p->in_nbytes = init->nbytes;
    p->in_units = init->nbytes ? init->nbytes : p->partitions;
    p->own_units = init->nbytes ? p->nbytes : init->partitions;
    p->pieces = calloc((size_t)p->npieces, sizeof *p->pieces);
    if (!p->pieces) {
        p->npieces = 0;
        p->r.err = -RT_ENOMEM;
        if (is_active(p))
            fail_unmatched(p, -RT_ENOMEM);
        rt_store_release(&p->matched, true);
        return;
    }
    for (int i = 0; i < p->npieces; i++)
        p->pieces[i].part = p;
    if (is_active(p))
        begin(p);
    rt_store_release(&p->matched, true); /* after `missing` */
}

bool wm_part_arrived(const struct wm_part *p, int i)
{
    return rt_load_acquire(&p->matched) && !rt_load_acquire(&p->missing[i]);
}

void wm_on_part_init(struct wm_domain *d, const struct btl_peer *from, const struct wm_key *k,
                     const void *data)
{
    struct wm_part_init init;
    struct rt_list *l;
    memcpy(&init, data, sizeof init);
    if (init.partitions < 0 || init.nbytes < 0)
        wm_malformed(&from->proc, "%d partitions of %lld bytes", (int)init.partitions,
                     (long long)init.nbytes);
    rt_list_each (l, &d->part.recvs) {
        struct wm_part *p = rt_container(l, struct wm_part, link);
        if (wm_key_equal(&p->key, k)) {
            match(p, &init);
            return;
        }
    }
    struct wm_part_early *e = malloc(sizeof *e);
    if (!e)
        rt_boot_abort(1, "out of memory for the start of a partitioned communication");
    *e = (struct wm_part_early){ .key = *k, .init = init };
    rt_list_append(&d->part.inits, &e->link);
}

/* ---- sending ---- */

static struct wm_piece sending; /* the end of a list that a thread is sending */

/* Sends a partition once, even if a wrong program marks it in two threads at once. */
static void send_one(struct wm_part *p, int i)
{
    struct rt_req *r;
    if (rt_unlikely(p->pieces[i].sent))
        return;
    p->pieces[i].sent = true;
    int64_t step = p->count * p->layout->extent;
    struct wm_msg m = { .buf = p->buf + (int64_t)i * step,
                        .count = p->count,
                        .layout = p->layout,
                        .comm = p->comm,
                        .peer = p->peer_rank,
                        .tag = p->tag + i,
                        .coll = true };
    int err = wm_p2p_isend(&m, WM_STANDARD, &r);
    if (err < 0)
        finish_one(p, err);
    else
        watch(r, &p->pieces[i]);
}

bool wm_part_mark(struct wm_part *p, int i) { return !rt_exchange(&p->pieces[i].ready, true); }

/* Sends the marked partitions in the order of their marks.  False: there was none, and the next
 * thread that marks a partition sends it.  Under the lock, which keeps `p` alive if it completes.
 */
static bool send_marked(struct wm_part *p)
{
    struct wm_piece *first = NULL, *last = &sending, *next;
    if (rt_cas(&p->marked, &last, NULL))
        return false;
    last = rt_exchange(&p->marked, &sending);
    for (; last && last != &sending; last = next) {
        next = last->next;
        last->next = first;
        first = last;
    }
    for (; first; first = next) {
        next = first->next; /* a piece that has been sent may be marked again */
        send_one(p, (int)(first - p->pieces));
    }
    return true;
}

/* Whether this thread sends by itself; then it holds the lock. */
static bool is_alone(const struct wm_part *p)
{
    return !rt_threaded || (!rt_load_relaxed(&p->marked) && rt_lock_try(&p->comm->dom->lock));
}

static void pass_on(struct wm_part *p, struct wm_piece *piece)
{
    struct wm_domain *d = p->comm->dom;
    struct wm_piece *last = rt_load_relaxed(&p->marked);
    do
        piece->next = last;
    while (!rt_cas(&p->marked, &last, piece));
    if (last)
        return;
    rt_lock(&d->lock);
    while (send_marked(p))
        continue;
    rt_unlock(&d->lock);
}

void wm_part_send(struct wm_part *p, int i)
{
    if (!is_alone(p)) {
        pass_on(p, &p->pieces[i]);
        return;
    }
    send_one(p, i);
    rt_unlock(&p->comm->dom->lock);
}

bool wm_part_ready(struct wm_part *p, int i)
{
    struct wm_piece *piece = &p->pieces[i];
    if (!is_alone(p)) {
        bool mine = wm_part_mark(p, i);
        if (mine && !rt_req_done(&p->r))
            pass_on(p, piece);
        return mine;
    }
    bool mine = !rt_load_relaxed(&piece->ready);
    rt_store_relaxed(&piece->ready, true);
    if (mine && !rt_req_done(&p->r))
        send_one(p, i);
    rt_unlock(&p->comm->dom->lock);
    return mine;
}

/* ---- the requests ---- */

/* A live send that has one of the n tags from `tag` on; NULL: none. */
static const struct wm_part *holder(const struct wm_domain *d, int tag, int n)
{
    struct rt_list *l;
    rt_list_each (l, &d->part.sends) {
        const struct wm_part *p = rt_container(l, struct wm_part, link);
        if (p->tag < tag + n && tag < p->tag + p->partitions)
            return p;
    }
    return NULL;
}

/* Tags are given out cyclically, without those in use. */
static int take_tags(struct wm_domain *d, int n)
{
    for (int rounds = 0; rounds < 2;) {
        const struct wm_part *p;
        if (n > TAGS - d->part.tag) {
            d->part.tag = 0;
            rounds++;
        } else if ((p = holder(d, WM_TAG_PART + d->part.tag, n)) != NULL) {
            d->part.tag = p->tag + p->partitions - WM_TAG_PART;
        } else {
            d->part.tag += n;
            return WM_TAG_PART + d->part.tag - n;
        }
    }
    return -RT_ENOSPC;
}

static int open_send(struct wm_part *p)
{
    struct wm_domain *d = p->comm->dom;
    p->npieces = p->partitions;
    p->pieces = calloc((size_t)p->npieces, sizeof *p->pieces);
    if (!p->pieces)
        return -RT_ENOMEM;
    for (int i = 0; i < p->npieces; i++)
        p->pieces[i].part = p;
    if (p->peer_rank == MPI_PROC_NULL)
        return 0;
    struct wm_peer *peer;
    int err = wm_comm_peer(p->comm, p->peer_rank, &peer);
    if (err < 0)
        return err;
    p->tag = take_tags(d, p->partitions);
    if (p->tag < 0)
        return p->tag;
    rt_list_append(&d->part.sends, &p->link);
    struct wm_part_init init = { p->nbytes, p->partitions, p->tag };
    struct btl_hdr hdr = wm_hdr(WM_PART_INIT, p->key.ctx, p->key.tag, p->key.src);
    err = wm_try_ctl(d, peer, hdr, &init, sizeof init);
    return err < 0 ? err : 0;
}

static int open_recv(struct wm_part *p)
{
    struct wm_domain *d = p->comm->dom;
    p->missing = calloc((size_t)p->partitions, sizeof *p->missing);
    if (!p->missing)
        return -RT_ENOMEM;
    if (p->peer_rank == MPI_PROC_NULL)
        return 0;
    struct wm_peer *peer; /* connects, so that the sender is polled */
    int err = wm_comm_peer(p->comm, p->peer_rank, &peer);
    if (err < 0)
        return err;
    if (peer->err)
        return peer->err;
    struct rt_list *l;
    rt_list_each (l, &d->part.inits) {
        struct wm_part_early *e = rt_container(l, struct wm_part_early, link);
        if (!wm_key_equal(&p->key, &e->key))
            continue;
        rt_list_del(l);
        match(p, &e->init);
        free(e);
        return p->r.err;
    }
    rt_list_append(&d->part.recvs, &p->link);
    return 0;
}

int wm_part_open(struct wm_part *p) { return p->is_recv ? open_recv(p) : open_send(p); }

static int part_start(struct rt_req *r)
{
    struct wm_part *p = (struct wm_part *)r;
    bool nowhere = p->peer_rank == MPI_PROC_NULL;
    if (p->matched && !p->pieces)
        return -RT_ENOMEM;
    for (int i = 0; !p->is_recv && i < p->npieces; i++) {
        p->pieces[i].sent = false;
        rt_store_relaxed(&p->pieces[i].ready, false);
    }
    if (!nowhere) {
        const struct wm_peer *peer = p->comm->peers[p->peer_rank];
        int err = peer ? peer->err : -RT_EREVOKED;
        if (err < 0)
            return err;
    }
    r->done = 0;
    r->err = 0;
    r->flags |= RT_REQ_ACTIVE;
    p->fail = 0;
    if (!p->is_recv) {
        r->status = (struct rt_status){ .src = MPI_ANY_SOURCE, .tag = MPI_ANY_TAG };
        p->left = p->npieces;
    } else if (nowhere) {
        r->status = (struct rt_status){ .src = MPI_PROC_NULL, .tag = MPI_ANY_TAG };
        rt_req_finish(r, 0);
    } else if (p->matched) {
        begin(p);
    }
    return 0;
}

/* A receive that is freed before its sender is known continues without the user: it takes the
 * sender's message, so that the next receive does not. */
static void part_release(struct rt_req *r)
{
    struct wm_part *p = (struct wm_part *)r;
    bool waits = p->is_recv && !rt_list_empty(&p->link);
    struct wm_comm *c = p->comm;
    if (p->type)
        wm_type_unref(p->type);
    p->type = NULL;
    p->comm = NULL;
    if (!waits)
        destroy(p);
    wm_comm_unref(c);
}

static void *part_owner(const struct rt_req *r) { return ((const struct wm_part *)r)->comm; }

const struct rt_req_ops wm_psend_ops = { .name = "partitioned send",
                                         .start = part_start,
                                         .release = part_release,
                                         .owner = part_owner,
                                         .describe = wm_part_describe,
                                         .no_free_active = true };
const struct rt_req_ops wm_precv_ops = { .name = "partitioned receive",
                                         .start = part_start,
                                         .release = part_release,
                                         .owner = part_owner,
                                         .describe = wm_part_describe,
                                         .no_free_active = true };

/* ---- the domain ---- */

void wm_part_fail_peer(struct wm_domain *d, const struct wm_peer *peer, int err)
{
    struct rt_list *l, *tmp;
    rt_list_each_safe (l, tmp, &d->part.recvs) {
        struct wm_part *p = rt_container(l, struct wm_part, link);
        if (p->comm && p->comm->peers[p->peer_rank] == peer && is_active(p))
            fail_unmatched(p, err);
    }
}

void wm_part_fail_comm(struct wm_domain *d, const struct wm_comm *c, int err)
{
    struct rt_list *l, *tmp;
    rt_list_each_safe (l, tmp, &d->part.recvs) {
        struct wm_part *p = rt_container(l, struct wm_part, link);
        if (p->comm == c && is_active(p))
            fail_unmatched(p, err);
    }
}

void wm_part_fini(struct wm_domain *d)
{
    struct rt_list *l, *tmp;
    rt_list_each_safe (l, tmp, &d->part.inits)
        free(rt_container(l, struct wm_part_early, link));
    rt_list_each_safe (l, tmp, &d->part.recvs) {
        struct wm_part *p = rt_container(l, struct wm_part, link);
        if (!p->comm)
            destroy(p);
    }
}
