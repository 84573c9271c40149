/* SPDX-License-Identifier: BSD-3-Clause */
/* Epochs: which call is legal when (MPI-5.0 section 12.5), as one table.  Everything else is
 * MPI_ERR_RMA_SYNC.  Access and exposure epochs are independent of each other, except that a fence
 * opens both. */
#include "mpi/rma/epoch.h"
#include "mpi/rma/target.h"

#define IN(access) (1u << WM_ACCESS_##access)
#define CLOSED (IN(NONE) | IN(OPEN))
#define PASSIVE (IN(LOCK) | IN(LOCK_ALL))

enum exposure { ANY, NOT_EXPOSED, EXPOSED };

static const struct {
    unsigned access; /* the access epochs in which the call is legal */
    enum exposure exposure;
    const char *what;
} moves[WM_MOVES] = {
    [WM_MOVE_FENCE] = { CLOSED | IN(FENCE), NOT_EXPOSED, "MPI_Win_fence" },
    [WM_MOVE_START] = { CLOSED, ANY, "MPI_Win_start" },
    [WM_MOVE_COMPLETE] = { IN(START), ANY, "MPI_Win_complete" },
    [WM_MOVE_POST] = { ~IN(FENCE), NOT_EXPOSED, "MPI_Win_post" },
    [WM_MOVE_WAIT] = { ~0u, EXPOSED, "the end of an exposure epoch" },
    [WM_MOVE_LOCK] = { CLOSED | IN(LOCK), ANY, "MPI_Win_lock" },
    [WM_MOVE_UNLOCK] = { IN(LOCK), ANY, "MPI_Win_unlock" },
    [WM_MOVE_LOCK_ALL] = { CLOSED, ANY, "MPI_Win_lock_all" },
    [WM_MOVE_UNLOCK_ALL] = { IN(LOCK_ALL), ANY, "MPI_Win_unlock_all" },
    [WM_MOVE_FLUSH] = { PASSIVE, ANY, "a flush" },
    [WM_MOVE_OPERATION] = { IN(OPEN) | IN(FENCE) | IN(START) | PASSIVE, ANY,
                            "a communication call" },
    [WM_MOVE_REQUEST] = { PASSIVE, ANY, "a communication call with a request" },
    [WM_MOVE_ENQUEUE] = { PASSIVE, ANY, "an enqueued call" },
    [WM_MOVE_FREE] = { CLOSED, NOT_EXPOSED, "MPI_Win_free" },
};

static const char *const states[WM_ACCESSES] = {
    [WM_ACCESS_NONE] = "no access epoch is open",
    [WM_ACCESS_OPEN] = "MPI_Win_fence was called last",
    [WM_ACCESS_FENCE] = "an epoch of MPI_Win_fence with operations is open",
    [WM_ACCESS_START] = "an epoch of MPI_Win_start is open",
    [WM_ACCESS_LOCK] = "an epoch of MPI_Win_lock is open",
    [WM_ACCESS_LOCK_ALL] = "an epoch of MPI_Win_lock_all is open",
};

int wm_rma_may(const struct wm_rma *r, enum wm_rma_move move)
{
    if (rt_unlikely(!(moves[move].access >> r->epoch.access & 1)))
        return wm_err(MPI_ERR_RMA_SYNC, "%s is not allowed now: %s", moves[move].what,
                      states[r->epoch.access]);
    if (rt_likely(moves[move].exposure == ANY) ||
        (moves[move].exposure == EXPOSED) == r->epoch.exposed)
        return MPI_SUCCESS;
    return wm_err(MPI_ERR_RMA_SYNC,
                  "%s is not allowed now: %s exposure epoch of MPI_Win_post is "
                  "open",
                  moves[move].what, r->epoch.exposed ? "an" : "no");
}

int wm_rma_may_with(struct wm_rma *r, enum wm_rma_move move, const struct wm_rma_target *t)
{
    int err = wm_rma_may(r, move);
    if (err)
        return err;
    if (r->epoch.access == WM_ACCESS_LOCK && !t->epoch.locked && move != WM_MOVE_LOCK)
        return wm_err(MPI_ERR_RMA_SYNC, "rank %d has not been locked", t->rank);
    if (t->epoch.locked && move == WM_MOVE_LOCK)
        return wm_err(MPI_ERR_RMA_SYNC, "rank %d is locked already", t->rank);
    if (r->epoch.access == WM_ACCESS_START && !t->epoch.in_start)
        return wm_err(MPI_ERR_RMA_SYNC, "rank %d is not in the group of MPI_Win_start", t->rank);
    if (r->epoch.access == WM_ACCESS_OPEN && move == WM_MOVE_OPERATION)
        r->epoch.access = WM_ACCESS_FENCE;
    return MPI_SUCCESS;
}

bool wm_rma_ready(const struct wm_rma *r, const struct wm_rma_target *t)
{
    switch (r->epoch.access) {
    case WM_ACCESS_START:
        if (r->epoch.nocheck)
            return true;
        if (t->by_ctl)
            return rt_load_acquire(&r->shared.ctl->from[t->local].posts) != t->epoch.posts_seen;
        return t->epoch.post_seen;
    case WM_ACCESS_LOCK:
        return t->epoch.nocheck ||
               (t->by_ctl ? t->epoch.want.state == WM_WANT_HELD : t->epoch.granted);
    case WM_ACCESS_LOCK_ALL:
        return r->epoch.nocheck ||
               (t->by_ctl ? r->shared.all.state == WM_WANT_HELD : t->epoch.granted);
    default:
        return true;
    }
}
