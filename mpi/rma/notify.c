/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts with notification: a put that increments a counter of the target, chosen by a number, once
 * its data are in the target's memory.  The counters lie in the target's control block.  Origins
 * that reach the memory increment the counter themselves and wake the target; for messages the
 * target does.  MPI procedures: mpi/api/notify.c. */
#include "mpi/rma/notify.h"
#include "mpi/p2p/engine.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/wait.h"
#include "mpi/rma/progress.h"
#include "mpi/rma/target.h"
#include "runtime/mem/segment.h"

static uint32_t *word_of(struct wm_rma_ctl *ctl, int note)
{
    struct wm_rma_note *n = &wm_rma_notes_of(ctl, rt_node.size)[(note - 1) / 2];
    return (note - 1) % 2 == WM_RMA_NOTE_HERE ? &n->here : &n->on_stream;
}

void wm_rma_notify(struct wm_rma_ctl *ctl, int note)
{
    rt_fetch_add(word_of(ctl, note), 1u); /* the data before the notification */
    rt_bell_ring_self();                  /* another thread may sleep in the wait */
}

void wm_rma_notify_target(struct wm_rma *r, const struct wm_rma_target *t, int note)
{
    if (t->rank == r->comm->rank) {
        wm_rma_notify(r->shared.ctl, note);
        return;
    }
    rt_fetch_add(word_of(t->ctl, note), 1u);
    rt_bell_ring(t->local);
}

int wm_rma_note_check(const struct wm_rma *r, const char *arg, int number)
{
    if (rt_likely((unsigned)number < (unsigned)r->shared.nnotes))
        return MPI_SUCCESS;
    return wm_err(MPI_ERR_ARG,
                  "%s: %d is no notification of this window; the numbers are 0..%d (hint "
                  "weft_notifications at its creation)",
                  arg, number, r->shared.nnotes - 1);
}

uint32_t wm_rma_note_count(const struct wm_rma *r, int note)
{
    return rt_load_acquire(word_of(r->shared.ctl, note));
}

struct await {
    const struct wm_rma *r;
    int note;
    uint32_t count;
};

static bool have_come(void *arg)
{
    const struct await *a = arg;
    return wm_rma_note_count(a->r, a->note) >= a->count;
}

static void take(struct wm_rma *r, int note, uint32_t count)
{
    rt_fetch_add(word_of(r->shared.ctl, note), -count);
}

/* Nothing runs between the last look at the counter and take(): other threads of the process wait
 * for the lock, and other processes only increment. */
int wm_rma_note_await(struct wm_rma *r, int note, uint32_t count)
{
    struct await a = { r, note, count };
    int err = wm_rma_until(r, have_come, &a);
    if (!err)
        take(r, note, count);
    return err;
}

int wm_rma_note_poll(struct wm_rma *r, int note, uint32_t count, bool *came)
{
    struct await a = { r, note, count };
    if (!have_come(&a))
        wm_progress(r->dom);
    *came = have_come(&a);
    if (*came)
        take(r, note, count);
    return *came || !r->dead ? MPI_SUCCESS : wm_rma_dead(r);
}
