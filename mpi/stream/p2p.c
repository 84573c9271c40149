/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages on streams (design: stream.h).  Short ones are eager.c's.  The sender's host describes
 * the message in a header, which is an ordinary message on the hidden communicator with the user's
 * tag, so matching is MPI's own.  The receiver's host waits for the header.  Then, on the streams:
 *
 *   sender:   ready[slot]; ... wait for done[slot]          (Isend ... Wait; Send: one launch)
 *   receiver: wait for ready[slot]; copy; done[slot]        (Recv, or the Wait of an Irecv)
 *
 * So a receive copies directly from the sender's buffer.  A slot stands for a message in progress
 * to that process: slot 0 for blocking sends, of which a stream has one at a time; another slot for
 * each Isend whose Wait has not been enqueued.
 *
 * Where proxy threads run the collectives (proxy.c), they carry the messages, too, if all streams
 * can hand over to them: as ordinary messages between the buffers, begun when both streams have got
 * there, with any memory and layout.  A short send is over when its data have been copied.
 *
 * Else a send buffer that other processes cannot map goes as an ordinary message.  The sender's
 * host waits for its stream and sends a copy, so that it need not wait for the receiver's host,
 * which may be waiting for another message from this host.  The header notifies the receiver's
 * host, which then waits for its own stream and receives.
 *
 * Ordinary messages use the collective context of the hidden communicator, where tags are sequence
 * numbers.  A captured message keeps its number, so the captured ones have numbers of their own. */
#include <stdlib.h>
#include <string.h>
#include "mpi/base/status.h"
#include "mpi/p2p/api_wait.h"
#include "mpi/p2p/p2p.h"
#include "mpi/p2p/pack_any.h"
#include "mpi/p2p/recv.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/send.h"
#include "mpi/stream/stream.h"

struct header {
    int64_t nbytes;
    uint64_t addr;              /* address of the buffer, for a message to this process itself */
    uint32_t way;               /* enum way */
    uint32_t seq, slot, number; /* number: count of messages in the slot */
    struct wm_xstream_before before;
    char key[COLL_DEV_KEY];
};
enum way {
    MAPPED,  /* the receiver copies from the sender's buffer */
    BY_HOST, /* an ordinary message follows, with tag `seq` */
    EAGER,   /* eager.c */
    HANDED   /* proxy threads carry it as an ordinary message, with tag `seq` */
};
_Static_assert(sizeof(struct header) <= sizeof(((struct wm_xstream_held *)0)->header),
               "a header fits where it is held");

/* State between MPIX_Isend_enqueue or MPIX_Irecv_enqueue and MPIX_Wait_enqueue. */
struct stream_req {
    struct rt_req r; /* first member; complete, with an error, for the ordinary wait calls */
    struct wm_comm *comm;
    struct wm_type *type;
    bool is_send;
    enum way way; /* of a send */
    int peer, slot;
    void *buf;
    MPI_Count count;
    struct wm_xstream_held *held; /* send: owned; receive: `req` is the receive of the header */
};
_Static_assert(sizeof(struct stream_req) <= WM_REQ_MAX, "stream request fits a slab slot");

static struct wm_domain *domain_of(const struct wm_xstream_call *k) { return k->s->comm->dom; }

static struct wm_msg header_message(const struct wm_xstream_call *k, void *header, int peer,
                                    int tag)
{
    return (struct wm_msg){ .buf = header,
                            .count = sizeof(struct header),
                            .layout = &wm_type_get(MPI_BYTE)->layout,
                            .comm = k->s->ctl,
                            .peer = peer,
                            .tag = tag,
                            .prompt = true };
}

static struct wm_msg data_message(const struct wm_xstream_call *k, const void *buf, MPI_Count count,
                                  const struct wm_type *t, int peer, uint32_t seq)
{
    return (struct wm_msg){ .buf = buf,
                            .count = count,
                            .layout = &t->layout,
                            .comm = k->s->ctl,
                            .peer = peer,
                            .tag = (int)(seq & 0xffffff),
                            .coll = true };
}

static int message_error(int err, int peer)
{
    return err == -RT_EADDR ? wm_dev_fault()
                            : wm_err_rt(err, "a message between this process and rank %d", peer);
}

/* ---- sending ---- */

/* Whether the receiver's device can read the buffer; if so, fills in `out`, and `h` holds the
 * description. */
static int describe(struct wm_xstream_call *k, const void *buf, MPI_Count count,
                    const struct wm_type *t, struct wm_xstream_held *h, struct header *out)
{
    struct coll_team *team = &k->s->comm->team;
    int64_t nbytes = count * t->layout.size;
    out->nbytes = nbytes;
    out->addr = (uintptr_t)buf;
    if (!k->s->mapped || !t->layout.contig)
        return -RT_ENOTSUP;
    if (nbytes == 0)
        return 0;
    if (team->size == 1) {
        struct wm_mem mem;
        int err = wm_resolve(buf, count, &t->layout, nbytes, &mem);
        return err >= 0 && mem.kind == WM_MEMORY_HOST ? -RT_ENOTSUP : err;
    }
    int err = team->ops->dev_describe(team, buf, (size_t)nbytes, &h->mem);
    if (err >= 0)
        memcpy(out->key, h->mem.key, sizeof out->key);
    return err;
}

static int take_slot(struct wm_xstream_call *k, int dest, bool blocks, int *slot)
{
    uint32_t used = k->s->slots[dest] | 1u;
    *slot = 0;
    if (blocks)
        return MPI_SUCCESS;
    if (used == UINT32_MAX)
        return wm_err(MPI_ERR_OTHER,
                      "%d sends to rank %d have been enqueued and not waited for; call "
                      "MPIX_Wait_enqueue for some first",
                      WM_XSTREAM_SLOTS - 1, dest);
    *slot = __builtin_ctz(~used);
    k->s->slots[dest] |= 1u << *slot;
    return MPI_SUCCESS;
}

/* Launches the flag operations of a message to `dest`. */
static int launch_send(struct wm_xstream_call *k, int dest, int slot, bool begin, bool end)
{
    struct rt_gpu_meet m;
    int me = k->s->comm->rank;
    wm_xstream_meet_init(k, &m, wm_xstream_own(k->s, sent[dest][slot]), begin);
    if (begin)
        m.signal[m.nsignal++] = wm_xstream_at(k->s, dest, ready[me][slot]);
    if (end)
        m.wait[m.nwait++] = wm_xstream_own(k->s, done[dest][slot]);
    int err = wm_xstream_meet(k, &m, true);
    return err < 0 ? wm_err_rt(err, "enqueuing a send to rank %d", dest) : MPI_SUCCESS;
}

/* Sends the header; `h` holds it until it has left. */
static int announce(struct wm_xstream_call *k, struct wm_xstream_held *h, const struct header *head,
                    int dest, int tag)
{
    memcpy(h->header, head, sizeof *head);
    struct wm_msg m = header_message(k, h->header, dest, tag);
    int err = wm_p2p_isend(&m, WM_STANDARD, &h->req);
    return err < 0 ? message_error(err, dest) : MPI_SUCCESS;
}

/* Numbers of messages that are captured, and of the others. */
#define CAPTURED_SEQ 0x800000u

static uint32_t next_seq(struct wm_xstream_call *k, int dest)
{
    uint32_t seq = k->s->seq[dest]++ & (CAPTURED_SEQ - 1);
    return k->capturing ? seq | CAPTURED_SEQ : seq;
}

static void copy_sent(struct rt_req *r, void *copy)
{
    (void)r;
    free(copy);
}

int wm_xstream_send_copy(const struct wm_msg *data)
{
    int64_t nbytes = data->count * data->layout->size;
    void *copy = malloc(nbytes ? (size_t)nbytes : 1);
    struct wm_msg m = *data;
    struct rt_req *r;
    if (!copy)
        return wm_err(MPI_ERR_NO_MEM, "no memory for a message of %lld bytes", (long long)nbytes);
    m.buf = copy;
    m.count = nbytes;
    m.layout = &wm_type_get(MPI_BYTE)->layout;
    int err = wm_move_now(&(struct wm_packing){
        data->layout, data->count, (char *)(uintptr_t)data->buf, 0, copy, nbytes, true });
    if (err >= 0)
        err = wm_p2p_isend(&m, WM_STANDARD, &r);
    if (err < 0) {
        free(copy);
        return message_error(err, data->peer);
    }
    if (rt_req_done(r)) {
        err = wm_req_error(r);
        free(copy);
        wm_req_release(r);
        return err;
    }
    r->flags |= RT_REQ_DETACHED;
    r->notify = copy_sent;
    r->arg = copy;
    return MPI_SUCCESS;
}

static int send_by_host(struct wm_xstream_call *k, const struct wm_msg *data,
                        struct wm_xstream_held *h, struct header *head, int tag)
{
    int err = wm_xstream_settle(k, "the send buffer is not contiguous memory of a device that the "
                                   "receiver can reach");
    if (err)
        return err;
    head->way = BY_HOST;
    head->seq = (uint32_t)data->tag;
    err = announce(k, h, head, data->peer, tag);
    return err ? err : wm_xstream_send_copy(data);
}

struct sending {
    const void *buf;
    MPI_Count count;
    struct wm_type *t;
    int dest, tag;
};

/* A message that the receiver's device copies. */
static int send_mapped(struct wm_xstream_call *k, const struct sending *a, bool blocks,
                       struct wm_xstream_held *h, struct header *head)
{
    int slot, err = take_slot(k, a->dest, blocks, &slot);
    if (err)
        return err;
    head->slot = (uint32_t)slot;
    head->number = k->s->nsent[a->dest][slot];
    err = announce(k, h, head, a->dest, a->tag);
    if (err) {
        k->s->slots[a->dest] &= ~(1u << slot); /* no process knows of it */
        return err;
    }
    k->s->nsent[a->dest][slot]++;
    return launch_send(k, a->dest, slot, true, blocks);
}

static int send_eager(struct wm_xstream_call *k, const struct sending *a, bool blocks,
                      const struct wm_xstream_eager *e, struct wm_xstream_held *h,
                      struct header *head)
{
    head->way = EAGER;
    head->slot = (uint32_t)e->slot;
    head->number = e->number;
    int err = announce(k, h, head, a->dest, a->tag);
    if (!err)
        err = wm_xstream_eager_send(k, a->buf, a->dest, e);
    if (err || blocks)
        wm_xstream_eager_give(k->s, a->dest, e->slot);
    return err;
}

/* Proxy threads: longer sends hold their stream until they have been received. */
#define COPIED_MOST (64 << 10)

/* In slot 0 are the messages for whose receive the sender's stream waits. */
static int send_handed(struct wm_xstream_call *k, const struct sending *a, bool blocks,
                       struct wm_xstream_held *h, struct header *head)
{
    bool copies = head->nbytes <= COPIED_MOST;
    head->way = HANDED;
    head->seq = next_seq(k, a->dest);
    head->slot = blocks && !copies ? 0 : 1;
    head->number = head->slot ? 0 : k->s->nsent[a->dest][0];
    int err = announce(k, h, head, a->dest, a->tag);
    if (err)
        return err;
    if (!head->slot)
        k->s->nsent[a->dest][0]++;
    struct wm_proxy_message m = { data_message(k, a->buf, a->count, a->t, a->dest, head->seq), a->t,
                                  true, copies };
    return wm_proxy_message(k, &m, blocks ? NULL : &h->end);
}

/* By the first path that is possible. */
static int send_by_any(struct wm_xstream_call *k, const struct sending *a, bool blocks,
                       struct wm_xstream_held *h, struct header *head)
{
    struct wm_xstream_eager e;
    head->nbytes = a->count * a->t->layout.size;
    head->before = wm_xstream_before(k->s, a->dest);
    if (k->s->proxied && k->s->hands)
        return send_handed(k, a, blocks, h, head);
    int rc = a->t->layout.contig ? wm_xstream_eager_take(k, a->buf, head->nbytes, a->dest, &e) : 0;
    if (rc > 0)
        return send_eager(k, a, blocks, &e, h, head);
    if (rc == 0)
        rc = describe(k, a->buf, a->count, a->t, h, head);
    if (rc == -RT_EADDR)
        return wm_dev_fault();
    if (rc >= 0)
        return send_mapped(k, a, blocks, h, head);
    struct wm_msg data = data_message(k, a->buf, a->count, a->t, a->dest, next_seq(k, a->dest));
    return send_by_host(k, &data, h, head, a->tag);
}

/* Everything but the wait, for which `slot` and `way` are.
 *
 * Returns when the header has left this process.  Behind this call the program may wait inside of
 * the driver, which holds a launch until there is room in the stream.  The room comes when the
 * receiver has received earlier messages, and this process makes no progress meanwhile. */
static int send_begin(struct wm_xstream_call *k, const struct sending *a, bool blocks,
                      struct wm_xstream_held **held, int *slot, enum way *way)
{
    struct wm_xstream_held *h = calloc(1, sizeof *h);
    struct header head = { .way = MAPPED };
    if (!h)
        return wm_err(MPI_ERR_NO_MEM, "no memory for a message");
    int err = send_by_any(k, a, blocks, h, &head);
    *slot = (int)head.slot;
    *way = (enum way)head.way;
    wm_xstream_await_sent(k->s, h->req);
    if (err && !h->req)
        wm_xstream_unhold(k->s, h);
    else if (err)
        wm_xstream_hold(k, h);
    else
        *held = h;
    return err;
}

static int send_now(struct wm_xstream_call *k, const struct sending *a)
{
    struct wm_xstream_held *h;
    enum way way;
    int slot, err = send_begin(k, a, true, &h, &slot, &way);
    if (!err)
        wm_xstream_hold(k, h);
    return err;
}

/* ---- receiving ---- */

/* A copy to memory that is not pinned would wait for the stream inside the driver, with the lock
 * held; the other process may need this host before the stream can continue. */
static int copy_contiguous(struct wm_xstream_call *k, void *buf, const void *from, size_t n)
{
    int err = k->capturing || rt_gpu_copies_async(buf) ? 0 : wm_xstream_wait_idle(k);
    return err < 0 ? err : rt_gpu_copy_on(k->g, k->stream, buf, from, n);
}

/* Copies the data into a buffer with gaps, after waiting for the stream. */
static int copy_by_host(struct wm_xstream_call *k, void *buf, MPI_Count count,
                        const struct wm_type *t, const void *from, int64_t nbytes)
{
    void *packed = calloc(1, (size_t)nbytes);
    if (!packed)
        return wm_err(MPI_ERR_NO_MEM, "no memory for a message of %lld bytes", (long long)nbytes);
    int err = copy_contiguous(k, packed, from, (size_t)nbytes);
    if (err >= 0)
        err = wm_xstream_wait_idle(k);
    if (err >= 0)
        err = wm_move_now(&(struct wm_packing){ &t->layout, count, buf, 0, packed, nbytes, false });
    free(packed);
    return err == -RT_EADDR ? wm_dev_fault()
           : err < 0        ? wm_err_rt(err, "receiving a message of %lld bytes", (long long)nbytes)
                            : MPI_SUCCESS;
}

/* Retries after releasing mappings of earlier calls, which may conflict with this one. */
static int map_sent(struct wm_xstream_call *k, int from, const char *key, void **data)
{
    int err = wm_xstream_map(k, from, key, data);
    if (wm_xstream_unmappable(err) && !k->capturing && wm_xstream_wait_idle(k) >= 0) {
        wm_xstream_sweep(k->s, false);
        err = wm_xstream_map(k, from, key, data);
    }
    return err;
}

/* Copies n bytes of device memory into the receive buffer. */
static int copy_out(struct wm_xstream_call *k, void *buf, MPI_Count count, const struct wm_type *t,
                    int from, const void *data, int64_t n)
{
    if (!t->layout.contig && k->capturing)
        return wm_err(MPI_ERR_UNSUPPORTED_OPERATION,
                      "a receive into a buffer with gaps cannot be captured in a graph; receive "
                      "into a contiguous one");
    if (!t->layout.contig)
        return copy_by_host(k, buf, count, t, data, n);
    int err = copy_contiguous(k, buf, data, (size_t)n);
    return err < 0 ? wm_err_rt(err, "enqueuing a receive from rank %d", from) : MPI_SUCCESS;
}

static int copy_in(struct wm_xstream_call *k, void *buf, MPI_Count count, const struct wm_type *t,
                   int from, const struct header *h)
{
    int64_t room = count * t->layout.size, n = h->nbytes < room ? h->nbytes : room;
    void *data = (void *)(uintptr_t)h->addr;
    int err = 0;
    if (n == 0)
        return MPI_SUCCESS;
    if (from != k->s->comm->rank)
        err = map_sent(k, from, h->key, &data);
    if (err < 0)
        return wm_err_rt(err, "mapping the buffer that rank %d sends", from);
    return copy_out(k, buf, count, t, from, data, n);
}

/* The message is taken out of its slot even if it cannot be stored to the buffer; that error
 * concerns this process only. */
static int recv_eager(struct wm_xstream_call *k, void *buf, MPI_Count count,
                      const struct wm_type *t, int from, const struct header *h)
{
    struct wm_xstream_comm *s = k->s;
    struct wm_xstream_eager e = { (int)(h->slot % WM_XSTREAM_EAGER), h->number, h->nbytes };
    int64_t room = count * t->layout.size, n = h->nbytes < room ? h->nbytes : room;
    int direct = n == 0 ? 1 : t->layout.contig ? wm_xstream_direct(k, buf, n) : 0;
    int rc = direct == 0 ? wm_xstream_take_scratch(s, (size_t)n) : direct;
    if (direct > 0)
        return wm_xstream_eager_recv(k, buf, n, from, &e);
    void *scratch = rc < 0 ? NULL : s->scratch[0]->p;
    int err = wm_xstream_eager_recv(k, scratch, scratch ? n : 0, from, &e);
    if (err)
        return err;
    return rc == -RT_EADDR ? wm_dev_fault()
           : rc < 0        ? wm_err_rt(rc, "enqueuing a receive from rank %d", from)
                           : copy_out(k, buf, count, t, from, scratch, n);
}

/* Signals the sender even if the copy fails; that error concerns this process only. */
static int recv_mapped(struct wm_xstream_call *k, void *buf, MPI_Count count,
                       const struct wm_type *t, int from, const struct header *h)
{
    struct rt_gpu_meet m;
    struct wm_xstream_comm *s = k->s;
    int me = s->comm->rank, slot = (int)h->slot % WM_XSTREAM_SLOTS;
    s->nreceived[from][slot]++;
    wm_xstream_meet_init(k, &m, wm_xstream_own(s, received[from][slot]), 1);
    m.wait[m.nwait++] = wm_xstream_own(s, ready[from][slot]);
    int rc = wm_xstream_meet(k, &m, false);
    if (rc < 0)
        return wm_err_rt(rc, "enqueuing a receive from rank %d", from);
    int err = copy_in(k, buf, count, t, from, h);
    wm_xstream_meet_init(k, &m, wm_xstream_own(s, received[from][slot]), 0);
    m.signal[m.nsignal++] = wm_xstream_at(s, from, done[me][slot]);
    rc = wm_xstream_meet(k, &m, true);
    return err      ? err
           : rc < 0 ? wm_err_rt(rc, "enqueuing a receive from rank %d", from)
                    : MPI_SUCCESS;
}

/* Receives and drops data that cannot be delivered, so that the sender does not hang. */
static int drain(struct wm_xstream_call *k, int from, const struct header *h, int err)
{
    const struct wm_type *bytes = wm_type_get(MPI_BYTE);
    void *p = malloc(h->nbytes ? (size_t)h->nbytes : 1);
    struct wm_msg m = data_message(k, p, h->nbytes, bytes, from, h->seq);
    struct rt_req *r;
    if (p && wm_p2p_irecv(&m, &r) >= 0)
        wm_req_wait(domain_of(k), r, MPI_STATUS_IGNORE);
    free(p);
    return err;
}

static int recv_handed(struct wm_xstream_call *k, void *buf, MPI_Count count, struct wm_type *t,
                       int from, const struct header *h)
{
    struct wm_proxy_message m = { data_message(k, buf, count, t, from, h->seq), t, false, false };
    k->s->nreceived[from][0] += h->slot == 0;
    return wm_proxy_message(k, &m, NULL);
}

static int recv_by_host(struct wm_xstream_call *k, void *buf, MPI_Count count,
                        const struct wm_type *t, int from, const struct header *h)
{
    struct wm_msg m = data_message(k, buf, count, t, from, h->seq);
    struct rt_req *r;
    if (k->capturing)
        return drain(
            k, from, h,
            wm_err(MPI_ERR_UNSUPPORTED_OPERATION,
                   "this receive cannot be captured in a graph: the sender's buffer is not "
                   "contiguous memory of a device that this one can reach"));
    int err = wm_xstream_settle(k, "");
    int rc = err ? 0 : wm_p2p_irecv(&m, &r);
    if (err || rc < 0)
        return drain(k, from, h, err ? err : message_error(rc, from));
    return wm_req_wait(domain_of(k), r, MPI_STATUS_IGNORE);
}

/* Whether the sender's stream reaches the message without a later receive of this process. */
static bool is_next(const struct wm_xstream_comm *s, int from, const struct header *h)
{
    if (h->way == HANDED && h->slot)
        return wm_xstream_in_order(s, from, &h->before);
    uint32_t so_far = h->way == EAGER ? s->naccepted[from][h->slot % WM_XSTREAM_EAGER]
                                      : s->nreceived[from][h->slot % WM_XSTREAM_SLOTS];
    return so_far == h->number && wm_xstream_in_order(s, from, &h->before);
}

static int out_of_order(int from)
{
    return wm_err(
        MPI_ERR_OTHER,
        "rank %d has enqueued another send before this one, and its stream waits until that "
        "message is received; receive in the order of the sends, or use MPIX_Isend_enqueue",
        from);
}

/* The header has arrived. */
static int recv_data(struct wm_xstream_call *k, void *buf, MPI_Count count, struct wm_type *t,
                     const struct rt_status *st, const struct header *h, MPI_Status *status)
{
    int64_t room = count * t->layout.size;
    int err = h->way == BY_HOST            ? recv_by_host(k, buf, count, t, st->src, h)
              : !is_next(k->s, st->src, h) ? out_of_order(st->src)
              : h->way == HANDED
                  ? recv_handed(k, buf, count, t, st->src, h)
                  : (h->way == EAGER ? recv_eager : recv_mapped)(k, buf, count, t, st->src, h);
    wm_status_set(status, st->src, st->tag, h->nbytes < room ? h->nbytes : room, false);
    if (!err && h->nbytes > room)
        err = wm_err(MPI_ERR_TRUNCATE,
                     "the message from rank %d with tag %d has %lld bytes, the receive buffer room "
                     "for %lld; receive with a larger count",
                     st->src, st->tag, (long long)h->nbytes, (long long)room);
    return err;
}

/* Releases the request. */
static int await_header(struct wm_xstream_call *k, struct rt_req *r, struct rt_status *st)
{
    int rc = wm_xstream_await(k->s, r);
    int err = rc < 0 ? wm_xstream_given_up(k->s) : wm_req_error(r);
    *st = r->status;
    wm_req_release(r);
    return err;
}

static int recv_now(struct wm_xstream_call *k, void *buf, MPI_Count count, struct wm_type *t,
                    int source, int tag, MPI_Status *status)
{
    struct header h;
    struct wm_msg m = header_message(k, &h, source, tag);
    struct rt_req *r;
    int err = wm_p2p_irecv(&m, &r);
    if (err < 0)
        return message_error(err, source);
    struct rt_status st;
    err = await_header(k, r, &st);
    return err ? err : recv_data(k, buf, count, t, &st, &h, status);
}

/* ---- requests ---- */

static void req_release(struct rt_req *r)
{
    struct stream_req *q = (struct stream_req *)r;
    if (q->type)
        wm_type_unref(q->type);
    /* If the program has called an ordinary wait by mistake, the rest of the state is leaked. */
    wm_comm_unref(q->comm);
    rt_slab_free(&wm_request_slab, q);
}

static void *req_owner(const struct rt_req *r) { return ((const struct stream_req *)r)->comm; }

static const struct rt_req_ops stream_ops = {
    .name = "enqueued operation; complete it with MPIX_Wait_enqueue",
    .release = req_release,
    .owner = req_owner
};

static int make_req(struct wm_comm *c, struct wm_type *t, struct stream_req **out)
{
    struct stream_req *q = wm_req_alloc(&stream_ops);
    if (!q)
        return wm_err(MPI_ERR_NO_MEM, "no memory for another request");
    q->r.done = 1;
    q->r.err = -RT_ENOTSUP;
    q->comm = c;
    q->type = t;
    wm_comm_ref(c);
    wm_type_ref(t);
    *out = q;
    return MPI_SUCCESS;
}

int wm_xstream_send(const void *buf, MPI_Count count, struct wm_type *t, int dest, int tag,
                    struct wm_comm *c, MPI_Request *request)
{
    struct sending a = { buf, count, t, dest, tag };
    struct wm_xstream_call k;
    struct stream_req *q = NULL;
    int err = wm_xstream_enter(c, &k);
    if (err)
        return err;
    if (dest == MPI_PROC_NULL) {
        if (request)
            *request = wm_req_handle(wm_req_complete);
    } else if (!request) {
        err = send_now(&k, &a);
    } else if (!(err = make_req(c, t, &q))) {
        q->is_send = true;
        q->peer = dest;
        err = send_begin(&k, &a, false, &q->held, &q->slot, &q->way);
        if (err)
            req_release(&q->r);
        else
            *request = wm_req_handle(&q->r);
    }
    wm_xstream_leave(&k);
    return err;
}

int wm_xstream_recv(void *buf, MPI_Count count, struct wm_type *t, int source, int tag,
                    struct wm_comm *c, MPI_Status *status)
{
    struct wm_xstream_call k;
    int err = wm_xstream_enter(c, &k);
    if (err)
        return err;
    if (source == MPI_PROC_NULL)
        wm_status_set(status, MPI_PROC_NULL, MPI_ANY_TAG, 0, false);
    else
        err = recv_now(&k, buf, count, t, source, tag, status);
    wm_xstream_leave(&k);
    return err;
}

/* Posts the receive of the header at once, so that receives match in the order of these calls. */
static int irecv_begin(struct wm_xstream_call *k, struct stream_req *q, int source, int tag)
{
    q->held = calloc(1, sizeof *q->held);
    if (!q->held)
        return wm_err(MPI_ERR_NO_MEM, "no memory for a message");
    struct wm_msg m = header_message(k, q->held->header, source, tag);
    int err = wm_p2p_irecv(&m, &q->held->req);
    if (err >= 0)
        return MPI_SUCCESS;
    free(q->held);
    return message_error(err, source);
}

int wm_xstream_irecv(void *buf, MPI_Count count, struct wm_type *t, int source, int tag,
                     struct wm_comm *c, MPI_Request *request)
{
    struct wm_xstream_call k;
    struct stream_req *q = NULL;
    int err = wm_xstream_enter(c, &k);
    if (err)
        return err;
    if (source == MPI_PROC_NULL) {
        *request = wm_req_handle(wm_req_proc_null);
    } else if (!(err = make_req(c, t, &q))) {
        q->peer = source;
        q->buf = buf;
        q->count = count;
        err = irecv_begin(&k, q, source, tag);
        if (err)
            req_release(&q->r);
        else
            *request = wm_req_handle(&q->r);
    }
    wm_xstream_leave(&k);
    return err;
}

static int finish_send(struct wm_xstream_call *k, struct stream_req *q)
{
    int err = MPI_SUCCESS;
    if (q->way == EAGER)
        wm_xstream_eager_give(k->s, q->peer, q->slot);
    if (q->way == MAPPED) {
        err = launch_send(k, q->peer, q->slot, false, true);
        k->s->slots[q->peer] &= ~(1u << q->slot);
    }
    if (q->way == HANDED && wm_xstream_hand(k, &q->held->end) < 0)
        err = wm_err_rt(-RT_EGPU, "enqueuing the wait for a send to rank %d", q->peer);
    wm_xstream_hold(k, q->held);
    return err;
}

static int finish_recv(struct wm_xstream_call *k, struct stream_req *q, MPI_Status *status)
{
    struct rt_req *r = q->held->req;
    struct header h;
    struct rt_status st;
    int err = await_header(k, r, &st);
    memcpy(&h, q->held->header, sizeof h);
    free(q->held);
    return err ? err : recv_data(k, q->buf, q->count, q->type, &st, &h, status);
}

/* Completes the request, also if it fails, except if the communicator is unusable. */
static int wait_one(struct stream_req *q, MPI_Request *request, MPI_Status *status)
{
    struct wm_domain *d = q->comm->dom;
    struct wm_xstream_call k;
    int err = wm_xstream_enter(q->comm, &k);
    if (!err) {
        wm_status_set_empty(status);
        err = q->is_send ? finish_send(&k, q) : finish_recv(&k, q, status);
        *request = MPI_REQUEST_NULL;
        if (err)
            wm_err_attach(q->comm);
        wm_xstream_leave(&k);
        rt_lock(&d->lock);
        req_release(&q->r);
        rt_unlock(&d->lock);
        return err;
    }
    rt_lock(&d->lock);
    wm_err_attach(q->comm);
    rt_unlock(&d->lock);
    return err;
}

int wm_xstream_wait(MPI_Request *request, MPI_Status *status, int i)
{
    struct rt_req *r = *request == MPI_REQUEST_NULL ? NULL : wm_req_get(*request);
    if (*request == MPI_REQUEST_NULL || (r && (r == wm_req_complete || r == wm_req_proc_null))) {
        wm_status_set_empty(status);
        if (r && r == wm_req_proc_null)
            wm_status_set(status, MPI_PROC_NULL, MPI_ANY_TAG, 0, false);
        *request = MPI_REQUEST_NULL;
        return MPI_SUCCESS;
    }
    if (!r || r->ops != &stream_ops)
        return wm_err(MPI_ERR_REQUEST,
                      "request %d (0x%lx) is %s; only those of MPIX_Isend_enqueue and "
                      "MPIX_Irecv_enqueue can be waited for on a stream",
                      i, (unsigned long)(uintptr_t)*request,
                      r ? "of another kind" : "not a live request");
    return wait_one((struct stream_req *)r, request, status);
}
