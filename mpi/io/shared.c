/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared file pointer.  If all ranks are on one host, the pointer is a word in the node
 * segment.  Otherwise the pointer is a word in a window of rank 0, which the ranks change by
 * MPI_Fetch_and_op; the window's helper thread serves other hosts, or, if it has none, rank 0 when
 * it calls MPI.  No auxiliary file is created. */
#include "mpi/io/shared.h"
#include "mpi/api/bodies.h"
#include "mpi/base/comm.h"
#include "mpi/coll/team.h"
#include "mpi/datatype/type.h"
#include "mpi/op/op.h"
#include "runtime/mem/segment.h"
#include <stdlib.h>

/* In the node segment, with a cache line of its own. */
struct word {
    _Alignas(64) int64_t at; /* atomic */
    int32_t users; /* ranks that have not closed the file; the last frees the word; atomic */
};

struct wm_shared {
    struct word *word;  /* NULL: use `win` */
    size_t off;         /* of the word in the node segment */
    struct wm_win *win; /* of rank 0's number; locked by all ranks until it is freed */
};

/* ---- collectives over a number or two ---- */

static int bcast(struct wm_file *f, int root, int64_t *v, int n)
{
    struct coll_args a = { .kind = COLL_BCAST, .root = root };
    return wm_file_numbers(f, &a, v, n);
}

/* The sum of what the ranks up to this one pass. */
static int scan(struct wm_file *f, int64_t *v)
{
    struct coll_args a = { .kind = COLL_SCAN,
                           .sbuf = COLL_IN_PLACE,
                           .op = &wm_op_get(MPI_SUM)->op };
    return wm_file_numbers(f, &a, v, 1);
}

/* ---- opening and closing ---- */

static int open_window(struct wm_file *f, int64_t at)
{
    int64_t *mine;
    int err = wm_api_win_allocate(f->comm->rank ? 0 : sizeof *mine, 1, NULL, f->comm, &mine,
                                  &f->shared->win);
    if (err)
        return err;
    if (!f->comm->rank)
        *mine = at;
    err = wm_file_agree(f, MPI_SUCCESS); /* the number before the first access to it */
    return err ? err : wm_api_win_lock_all(MPI_MODE_NOCHECK, f->shared->win);
}

int wm_shared_open(struct wm_file *f, int64_t at)
{
    int64_t v = 0;
    f->shared = calloc(1, sizeof *f->shared);
    int err = wm_file_agree(f, f->shared ? MPI_SUCCESS
                                         : wm_err(MPI_ERR_NO_MEM, "no memory for a file"));
    if (err)
        return err;
    struct wm_shared *s = f->shared;
    if (wm_coll_team_in_node(f->comm) && !f->comm->rank) {
        size_t off = rt_node_alloc(sizeof *s->word);
        v = off == SIZE_MAX ? 0 : (int64_t)off; /* 0: no room; a window may still find some */
    }
    if (v)
        *(struct word *)rt_node_at((size_t)v) = (struct word){ .at = at, .users = f->comm->size };
    if (wm_coll_team_in_node(f->comm))
        err = bcast(f, 0, &v, 1);
    if (!err && !v)
        return open_window(f, at);
    s->off = (size_t)v;
    s->word = err ? NULL : rt_node_at(s->off);
    return err;
}

bool wm_shared_is_local(const struct wm_file *f) { return !f->shared || !f->shared->win; }

int wm_shared_close(struct wm_file *f)
{
    struct wm_shared *s = f->shared;
    int err = MPI_SUCCESS;
    if (!s)
        return err;
    if (s->word && rt_fetch_add(&s->word->users, -1) == 1)
        rt_node_free(s->off, sizeof *s->word);
    if (s->win) {
        err = wm_api_win_unlock_all(s->win);
        err = err ? err : wm_api_win_free(s->win);
    }
    free(s);
    f->shared = NULL;
    return err;
}

/* ---- the number ---- */

int wm_shared_add(struct wm_file *f, int64_t n, int64_t *old)
{
    struct wm_shared *s = f->shared;
    if (s->word) {
        *old = rt_fetch_add(&s->word->at, n);
        return MPI_SUCCESS;
    }
    int err = wm_api_fetch_and_op(&n, old, wm_type_get(MPI_INT64_T), 0, 0, wm_op_get(MPI_SUM),
                                  s->win);
    return err ? err : wm_api_win_flush(0, s->win);
}

int wm_shared_set(struct wm_file *f, int err, int64_t at)
{
    int64_t old;
    if (!f->comm->rank && !err)
        err = wm_shared_add(f, 0, &old);
    if (!f->comm->rank && !err)
        err = wm_shared_add(f, at - old, &old);
    return wm_file_agree(f, f->comm->rank ? MPI_SUCCESS : err);
}

/* The last rank knows the sum; it moves the pointer and broadcasts where it was. */
int wm_shared_ordered(struct wm_file *f, int64_t n, int64_t *at)
{
    int64_t end = n, v[2] = { 0 };
    int last = f->comm->size - 1, err = scan(f, &end);
    if (err)
        return err;
    if (f->comm->rank == last)
        v[1] = err = wm_shared_add(f, end, &v[0]);
    int failed = bcast(f, last, v, 2);
    err = err ? err : failed;
    if (!err && v[1])
        err = wm_err((int)v[1], "the last process could not move the shared pointer");
    *at = v[0] + end - n;
    return err;
}
