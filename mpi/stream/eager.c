/* SPDX-License-Identifier: BSD-3-Clause */
/* Short messages on streams: one kernel at the sender and one at the receiver
 * (runtime/gpu/push_kernels.h has the protocol of the kernels and its proofs).
 *
 * Why hosts match.  A receive returns its status, and a receive with wildcards its source and tag,
 * when the call returns; so the receiver's host waits for the sender's call, as for all messages
 * (p2p.c).  The header that it waits for names a slot of the receiver's inbox and the number of the
 * message in the slot.  A launch of a graph needs no host: the kernels count.
 *
 * Slots.  A sender has WM_XSTREAM_EAGER slots in the inbox of each process, itself included, and
 * takes them in turn.  A send is over for its stream when the data are in the slot; it waits only
 * for the receive of the message that had the slot before.  A nonblocking send keeps its slot until
 * its wait has been enqueued.  So a stream waits nowhere where it would not wait if each send
 * waited for its receive: a message that has the same slot is enqueued behind the earlier send or
 * its wait.
 *
 * Order.  A receiver may take messages in another order than that of the sends, as long as no
 * receive waits for a send behind which the sender's stream waits for a later receive.  The header
 * says what must have been received before (wm_xstream_before); else the receive is an error.
 *
 * Under the domain's lock. */
#include "mpi/stream/stream.h"

/* Bytes of a slot, the same on all processes. */
static size_t room(const struct wm_xstream_comm *s)
{
    size_t each = WM_XSTREAM_EAGER_ROOM / (WM_XSTREAM_EAGER * (size_t)s->comm->size);
    return each - each % RT_GPU_PUSH_ROOM;
}

/* The next free slot; -1: requests have them all. */
static int take_slot(struct wm_xstream_comm *s, int dest)
{
    for (unsigned i = 0; i < WM_XSTREAM_EAGER; i++) {
        unsigned slot = (s->eager_next[dest] + i) % WM_XSTREAM_EAGER;
        if (!(s->eager_slots[dest] & 1u << slot)) {
            s->eager_next[dest] = slot + 1;
            s->eager_slots[dest] |= 1u << slot;
            return (int)slot;
        }
    }
    return -1;
}

int wm_xstream_eager_take(struct wm_xstream_call *k, const void *buf, int64_t nbytes, int dest,
                          struct wm_xstream_eager *out)
{
    struct wm_xstream_comm *s = k->s;
    if (!s->pushes || nbytes > (int64_t)rt_gpu_push_data(room(s)))
        return 0;
    int rc = nbytes ? wm_xstream_direct(k, buf, nbytes) : 1;
    if (rc <= 0)
        return rc;
    int slot = take_slot(s, dest);
    if (slot < 0)
        return 0;
    *out = (struct wm_xstream_eager){ slot, s->npassed[dest][slot], nbytes };
    return 1;
}

void wm_xstream_eager_give(struct wm_xstream_comm *s, int dest, int slot)
{
    s->eager_slots[dest] &= ~(1u << slot);
}

static struct rt_gpu_message message(struct wm_xstream_call *k, int from, int to,
                                     const struct wm_xstream_eager *e)
{
    struct wm_xstream_comm *s = k->s;
    size_t at = 2 * rt_gpu_push_slot() +
                room(s) * ((size_t)from * WM_XSTREAM_EAGER + (size_t)e->slot);
    struct rt_gpu_message m = { .ended = wm_xstream_own(s, blocks),
                                .runs = wm_xstream_own(s, runs),
                                .words = (uint64_t)(uintptr_t)s->words->p,
                                .poison = wm_xstream_own(s, poison),
                                .slot = (uint64_t)(uintptr_t)s->inbox_of[to].ptr + at,
                                .credit = wm_xstream_at(s, from, credit[to][e->slot]),
                                .nbytes = (uint32_t)e->nbytes,
                                .room = (uint32_t)room(s),
                                .nranks = (uint8_t)s->comm->size };
    for (int r = 0; r < s->comm->size; r++)
        m.poison_of[r] = wm_xstream_at(s, r, poison);
    return m;
}

int wm_xstream_eager_send(struct wm_xstream_call *k, const void *buf, int dest,
                          const struct wm_xstream_eager *e)
{
    struct wm_xstream_comm *s = k->s;
    struct rt_gpu_message m = message(k, s->comm->rank, dest, e);
    m.epochs = wm_xstream_own(s, passed[dest][e->slot]);
    m.data = e->nbytes ? (uint64_t)(uintptr_t)buf : 0;
    m.sends = 1;
    s->npassed[dest][e->slot]++;
    int err = wm_xstream_message(k, &m);
    return err < 0 ? wm_err_rt(err, "enqueuing a send to rank %d", dest) : MPI_SUCCESS;
}

int wm_xstream_eager_recv(struct wm_xstream_call *k, void *to, int64_t keep, int from,
                          const struct wm_xstream_eager *e)
{
    struct wm_xstream_comm *s = k->s;
    struct rt_gpu_message m = message(k, from, s->comm->rank, e);
    s->naccepted[from][e->slot]++;
    m.epochs = wm_xstream_own(s, accepted[from][e->slot]);
    m.data = keep ? (uint64_t)(uintptr_t)to : 0;
    m.keep = (uint32_t)keep;
    int err = wm_xstream_message(k, &m);
    return err < 0 ? wm_err_rt(err, "enqueuing a receive from rank %d", from) : MPI_SUCCESS;
}

struct wm_xstream_before wm_xstream_before(const struct wm_xstream_comm *s, int dest)
{
    struct wm_xstream_before b = { .blocking = s->nsent[dest][0] };
    for (int i = 0; i < WM_XSTREAM_EAGER; i++) /* the last message in a slot holds no stream */
        b.eager[i] = s->npassed[dest][i] ? s->npassed[dest][i] - 1 : 0;
    return b;
}

bool wm_xstream_in_order(const struct wm_xstream_comm *s, int from,
                         const struct wm_xstream_before *b)
{
    bool good = (int32_t)(s->nreceived[from][0] - b->blocking) >= 0;
    for (int i = 0; i < WM_XSTREAM_EAGER; i++)
        good = good && (int32_t)(s->naccepted[from][i] - b->eager[i]) >= 0;
    return good;
}
