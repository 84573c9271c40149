/* SPDX-License-Identifier: BSD-3-Clause */
/* Enqueued puts and notifications of windows that were created on a stream communicator.  Such a
 * window owns a hidden stream communicator, whose blocks of flags hold two words for each number of
 * a notification: `came`, which the devices of the origins increment, and `taken`, the sum of what
 * MPIX_Notify_wait_enqueue has waited for.
 *
 *   put:    copy to the target's mapped memory (mpi/rma/map.c)
 *   notify: weft_meet adds 1 to the target's `came`, after the stream's earlier work
 *   wait:   weft_meet adds the count to `taken`, and waits until `came` has reached the sum
 *
 * If not all devices can add to each other's memory, all processes count in the control blocks of
 * the window instead; then, and for data that the stream's device cannot store to the target, the
 * host waits for the stream and makes the ordinary call. */
#include "mpi/p2p/device.h"
#include "mpi/rma/api.h"
#include "mpi/rma/epoch.h"
#include "mpi/rma/flush.h"
#include "mpi/rma/map.h"
#include "mpi/rma/notify.h"
#include "mpi/rma/progress.h"
#include "mpi/rma/target.h"
#include "mpi/stream/stream.h"

static int enter(const struct wm_win *w, struct wm_xstream_call *k)
{
    if (w->stream)
        return wm_xstream_enter(w->stream, k);
    return wm_err(MPI_ERR_WIN, "the window has no stream; create it on a communicator of "
                               "MPIX_Stream_comm_create");
}

/* ---- puts ---- */

/* Where the stream's device stores the data of a put; NULL: it cannot. */
static char *place_of(const struct wm_xstream_call *k, struct wm_rma *r, struct wm_rma_target *t,
                      const struct wm_rma_args *a)
{
    const struct wm_rma_side *o = &a->origin;
    struct wm_mem mem;
    if (!k->s->mapped || !o->type->layout.contig ||
        wm_resolve(o->buf, o->count, &o->type->layout, a->nbytes, &mem) < 0 ||
        mem.kind != WM_MEMORY_DEVICE || mem.at.g != k->g)
        return NULL;
    return wm_rma_map_for_stream(r, t, a, &mem.at);
}

/* Nothing has been enqueued of a part that other processes' streams may wait for. */
static int failed(struct wm_xstream_call *k, int rt_err, int rank)
{
    wm_xstream_broken(k->s);
    return wm_err_rt(rt_err, "enqueuing a put to rank %d", rank);
}

static int notify(struct wm_xstream_call *k, int rank, int number)
{
    struct rt_gpu_meet m;
    wm_xstream_meet_init(k, &m, wm_xstream_own(k->s, meetings), 0);
    m.signal[m.nsignal++] = wm_xstream_at(k->s, rank, came[number]);
    m.adds = 1;
    int err = wm_xstream_meet(k, &m, true);
    return err < 0 ? failed(k, err, rank) : MPI_SUCCESS;
}

static int put_by_host(struct wm_xstream_call *k, struct wm_rma *r, struct wm_rma_target *t,
                       struct wm_rma_args *a)
{
    int err = wm_xstream_settle(k, "the data are not contiguous memory of the stream's device, or "
                                   "that device cannot store to the target's memory");
    if (!err)
        err = wm_rma_put_start(r, a);
    if (!err)
        err = wm_rma_flush(r, t, WM_UNTIL_TARGET);
    rt_fence(); /* stores to the target's memory before what follows */
    return err;
}

static int put_now(struct wm_xstream_call *k, struct wm_rma *r, struct wm_rma_args *a, int number)
{
    struct wm_rma_target *t;
    bool by_device = number < 0 || k->s->adds;
    int err = wm_rma_put_check(r, a, &t);
    if (err)
        return err;
    if (!by_device)
        a->note = wm_rma_note_of(number, WM_RMA_NOTE_ON_STREAM);
    char *there = by_device && a->nbytes ? place_of(k, r, t, a) : NULL;
    if (there) {
        int rc = rt_gpu_copy_on(k->g, k->stream, there, a->origin.buf, (size_t)a->nbytes);
        err = rc < 0 ? failed(k, rc, t->rank) : MPI_SUCCESS;
    } else if (a->nbytes || a->note) {
        err = put_by_host(k, r, t, a);
    }
    return err || number < 0 || !k->s->adds ? err : notify(k, t->rank, number);
}

int wm_xstream_put(struct wm_win *w, struct wm_rma_args *a, int number)
{
    struct wm_xstream_call k;
    int err = enter(w, &k);
    if (err)
        return err;
    if (a->rank != MPI_PROC_NULL)
        err = put_now(&k, w->rma, a, number);
    wm_xstream_leave(&k);
    return err;
}

/* What has been enqueued is complete at the target where the stream's later work begins, and what
 * the host has carried out, when the call returned. */
int wm_xstream_flush(struct wm_win *w, int rank)
{
    struct wm_rma *r = w->rma;
    struct wm_rma_target *t;
    struct wm_xstream_call k;
    int err = enter(w, &k);
    if (err)
        return err;
    if (rank != MPI_PROC_NULL)
        err = wm_rma_named(r, rank, &t);
    if (rank != MPI_PROC_NULL && !err)
        err = wm_rma_may_with(r, WM_MOVE_ENQUEUE, t);
    wm_xstream_leave(&k);
    return err;
}

/* ---- the target ---- */

static int wait_now(struct wm_xstream_call *k, struct wm_rma *r, int number, uint32_t count)
{
    struct rt_gpu_meet m;
    if (!k->s->adds) {
        int err = wm_xstream_settle(k, "the devices cannot add to each other's memory");
        return err ? err
                   : wm_rma_note_await(r, wm_rma_note_of(number, WM_RMA_NOTE_ON_STREAM), count);
    }
    wm_xstream_meet_init(k, &m, wm_xstream_own(k->s, taken[number]), count);
    m.wait[m.nwait++] = wm_xstream_own(k->s, came[number]);
    int rc = wm_xstream_meet(k, &m, true);
    return rc < 0 ? wm_err_rt(rc, "enqueuing a wait for a notification") : MPI_SUCCESS;
}

int wm_xstream_notify_wait(struct wm_win *w, int number, uint32_t count)
{
    struct wm_xstream_call k;
    int err = enter(w, &k);
    if (err)
        return err;
    if (count)
        err = wait_now(&k, w->rma, number, count);
    wm_xstream_leave(&k);
    return err;
}

/* ---- life ---- */

/* Whether the stream has passed everything, and uses no mapping of the window any more.  A capture
 * cannot be queried; what it launches later is the program's to avoid. */
static bool is_idle(struct wm_win *w)
{
    struct wm_xstream_comm *s = w->stream->stream;
    if (!s->g || !rt_gpu_alive(s->g))
        return true;
    int mode = rt_gpu_capture_relax();
    bool idle = rt_gpu_stream_capturing(s->g, s->stream->cuda) != 0 ||
                rt_gpu_stream_idle(s->g, s->stream->cuda) != 0;
    rt_gpu_capture_restore(mode);
    return idle;
}

int wm_xstream_window(struct wm_win *w, struct wm_comm *comm)
{
    int err = wm_xstream_again(comm, &w->stream);
    if (!err)
        w->stream_idle = is_idle;
    return err;
}
