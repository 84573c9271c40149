/* SPDX-License-Identifier: BSD-3-Clause */
/* From a call of the API to an operation: checks, positions and file pointers, statuses, requests.
 * A nonblocking operation of one rank is a job of runtime/io; progress calls its task, which checks
 * whether the job has ended.  The task of an operation that the ranks carry out together advances
 * the operation's steps (cop.h). */
#include "mpi/io/op.h"
#include "coll/begin.h"
#include "coll/coll.h"
#include "mpi/api/bodies.h"
#include "mpi/base/comm.h"
#include "mpi/core/helper.h"
#include "mpi/core/life.h"
#include "mpi/base/status.h"
#include "mpi/io/calls.h"
#include "mpi/io/datarep.h"
#include "mpi/io/indep.h"
#include "mpi/io/open.h"
#include "mpi/io/shared.h"
#include "mpi/io/twophase.h"
#include "mpi/p2p/api_wait.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/request.h"
#include "runtime/base/log.h"
#include <stdlib.h>

static int check_mode(const struct wm_access *a)
{
    int amode = a->file->amode;
    if (a->write && amode & MPI_MODE_RDONLY)
        return wm_err(MPI_ERR_READ_ONLY, "the file was opened with MPI_MODE_RDONLY");
    if (!a->write && amode & MPI_MODE_WRONLY)
        return wm_err(MPI_ERR_ACCESS, "the file was opened with MPI_MODE_WRONLY");
    if (a->where < WM_SHARED && amode & MPI_MODE_SEQUENTIAL)
        return wm_err(MPI_ERR_UNSUPPORTED_OPERATION,
                      "the file was opened with MPI_MODE_SEQUENTIAL; only the calls with shared "
                      "file pointers are allowed");
    return MPI_SUCCESS;
}

/* Bytes of data of the access. */
static int measure(const struct wm_access *a, struct wm_iop *op)
{
    const struct wm_view *v = op->view;
    int err = MPI_SUCCESS;
    op->item = a->type->layout.size;
    if (v->rep)
        err = wm_datarep_size(v->rep, a->type, &op->item);
    if (err)
        return err;
    if (__builtin_mul_overflow(a->count, op->item, &op->nbytes))
        return wm_err(MPI_ERR_COUNT, "%lld elements of %lld bytes are more than 63 bits can count",
                      (long long)a->count, (long long)op->item);
    if (v->esize && op->nbytes % v->esize)
        return wm_err(MPI_ERR_TYPE, "the data are %lld bytes, not whole etypes of %lld bytes",
                      (long long)op->nbytes, (long long)v->esize);
    if (op->nbytes && !v->file->size)
        return wm_err(MPI_ERR_ARG, "the view is empty: no data can be read or written through it");
    return MPI_SUCCESS;
}

/* The position of etype number `at`. */
static int locate(struct wm_iop *op, int64_t at)
{
    int64_t end;
    if (at < 0)
        return wm_err(MPI_ERR_ARG, "offset is %lld; it must not be negative", (long long)at);
    if (__builtin_mul_overflow(at, op->view->esize, &op->pos) ||
        __builtin_add_overflow(op->pos, op->nbytes, &end))
        return wm_err(MPI_ERR_ARG, "offset is %lld, beyond the largest file", (long long)at);
    return MPI_SUCCESS;
}

/* Determines the position in the file, and moves the file pointer by the number of etypes
 * requested, not by the number that will be read (MPI-5.0 section 14.4.1).  `err`: of this rank's
 * arguments; a collective call is still completed with the others. */
static int claim(const struct wm_access *a, struct wm_iop *op, int err)
{
    struct wm_file *f = a->file;
    int64_t at = a->offset, n = err || !op->view->esize ? 0 : op->nbytes / op->view->esize;
    if (a->where == WM_ORDERED) {
        int failed = wm_shared_ordered(f, n, &at);
        err = err ? err : failed;
    } else if (a->where == WM_SHARED && !err) {
        err = wm_shared_add(f, n, &at);
    }
    if (err || a->where != WM_OWN)
        return err ? err : locate(op, at);
    wm_file_lock(f);
    err = locate(op, f->pos);
    f->pos += err ? 0 : n;
    wm_file_unlock(f);
    return err;
}

/* Resolves the user's buffer.  MPI_SUCCESS or an error class. */
static int resolve(struct wm_iop *op)
{
    wm_file_lock(op->file);
    int err = wm_resolve(op->buf, op->count, op->mem, op->count * op->mem->size, &op->where);
    wm_file_unlock(op->file);
    return err < 0 ? wm_iop_error(op, err) : MPI_SUCCESS;
}

/* Fills in the operation. */
static int prepare(const struct wm_access *a, struct wm_iop *op)
{
    struct wm_file *f = a->file;
    *op = (struct wm_iop){ .file = f,
                           .write = a->write,
                           .buf = a->buf,
                           .mem = &a->type->layout,
                           .type = a->type,
                           .count = a->count };
    wm_file_lock(f);
    op->view = f->view;
    wm_view_ref(op->view);
    wm_file_unlock(f);
    int err = check_mode(a);
    if (!err)
        err = measure(a, op);
    if (rt_unlikely(rt_gpu_watch) && !err)
        err = resolve(op);
    err = claim(a, op, err);
    if (err)
        wm_view_unref(op->view);
    return err;
}

int wm_io_run(const struct wm_access *a, MPI_Status *status)
{
    struct wm_iop op;
    int err = prepare(a, &op);
    if (err)
        return err;
    int rc = wm_indep_run(&op);
    err = rc < 0 ? wm_iop_error(&op, rc) : MPI_SUCCESS;
    wm_status_set(status, MPI_ANY_SOURCE, MPI_ANY_TAG, op.moved, false);
    wm_view_unref(op.view);
    return err;
}

/* ---- requests ---- */

struct io_req {
    struct coll_task task; /* first member: its req is the request */
    struct wm_type *type;  /* referenced; NULL: refused */
    struct io_work *work;
};
_Static_assert(sizeof(struct io_req) <= WM_REQ_MAX, "file request fits a slab slot");

struct io_work {
    struct wm_file *file; /* referenced */
    struct wm_iop op;
    struct rt_io_job job; /* of one rank */
    int err;
    bool together;
    bool helped;       /* by the thread of mpi/core/helper.h, until it has ended */
    struct wm_cop cop; /* if together */
};

static void req_release(struct rt_req *r)
{
    struct io_req *q = (struct io_req *)r;
    if (q->type)
        wm_type_unref(q->type);
    if (q->work->op.view)
        wm_view_unref(q->work->op.view);
    bool kept = q->work->together && q->work->file->dead;
    wm_file_unref(q->work->file);
    if (!kept)
        free(q->work);
    rt_slab_free(&wm_request_slab, q);
}

static void *req_owner(const struct rt_req *r)
{
    return ((const struct io_req *)r)->work->file->comm;
}

static int req_error(const struct rt_req *r)
{
    const struct io_work *w = ((const struct io_req *)r)->work;
    return w->together ? wm_cop_error(&w->cop) : wm_iop_error(&w->op, r->err);
}

static const struct rt_req_ops req_ops = {
    .name = "file access", .release = req_release, .owner = req_owner, .error = req_error
};

/* After the request completes: releases a request whose handle the user has freed. */
static void req_done(struct rt_req *r, void *arg)
{
    (void)arg;
    if (r->flags & RT_REQ_DETACHED)
        wm_req_release(r);
}

static void run_job(struct rt_io_job *job)
{
    struct io_work *w = rt_container(job, struct io_work, job);
    w->err = wm_indep_run(&w->op);
}

static int step(struct coll_task *k)
{
    struct io_work *w = ((struct io_req *)k)->work;
    if (!rt_load_acquire(&w->job.done)) /* pairs with the release of the job thread */
        return 0;
    k->req.status.len = w->op.moved;
    return w->err < 0 ? w->err : 1;
}

static int step_together(struct coll_task *k)
{
    struct io_work *w = ((struct io_req *)k)->work;
    if (!wm_cop_advance(&w->cop))
        return 0;
    if (w->helped)
        wm_helper_end();
    k->req.status.len = w->op.moved;
    return w->cop.err ? -RT_EIO : 1; /* req_error() has the error */
}

/* Under the lock, as launch(). */
static struct io_req *make_req(struct wm_file *f, struct wm_type *type, struct io_work *w)
{
    struct io_req *q = wm_req_alloc(&req_ops);
    if (!q)
        return NULL;
    wm_file_ref(f);
    if (type)
        wm_type_ref(type);
    q->type = type;
    q->work = w;
    w->file = f;
    w->together = w->helped = false;
    q->task.step = step;
    q->task.cleanup = NULL;
    q->task.req.notify = req_done;
    q->task.req.status = (struct rt_status){ .src = MPI_ANY_SOURCE, .tag = MPI_ANY_TAG };
    return q;
}

static void launch(struct io_req *q)
{
    struct wm_domain *d = q->work->file->comm->dom;
    if (!coll_task_advance(&q->task))
        wm_domain_add_task(d, &q->task);
}

/* The same with a thread that advances the operation beside the program. */
static void launch_helped(struct io_req *q, bool may)
{
    if (coll_task_advance(&q->task))
        return;
    q->work->helped = may;
    if (may)
        wm_helper_begin();
    wm_domain_add_task(q->work->file->comm->dom, &q->task);
}

static int no_memory(void) { return wm_err(MPI_ERR_NO_MEM, "no memory for an access to a file"); }

/* In atomic mode an access ends before the call returns, so the accesses of a process take effect
 * in the order of its calls: programs read what they are writing before they complete the write.
 * Without the lock: a job that is run here may take it. */
static void start_job(struct io_work *w)
{
    w->job.run = run_job;
    if (w->op.where.kind != WM_MEMORY_HOST)
        wm_life_threads();
    if (w->op.nbytes && !w->file->atomic && wm_iop_may_be_a_job(&w->op) &&
        rt_io_submit(&w->job) >= 0)
        return;
    run_job(&w->job);
    w->job.done = 1;
}

int wm_io_start(const struct wm_access *a, MPI_Request *request)
{
    struct io_work *w = malloc(sizeof *w);
    if (!w)
        return no_memory();
    int err = prepare(a, &w->op);
    if (err) {
        free(w);
        return err;
    }
    wm_file_lock(a->file);
    struct io_req *q = make_req(a->file, a->type, w);
    wm_file_unlock(a->file);
    if (!q) {
        wm_view_unref(w->op.view);
        free(w);
        return no_memory();
    }
    start_job(w);
    wm_file_lock(a->file);
    *request = wm_req_handle(&q->task.req);
    launch(q);
    wm_file_unlock(a->file);
    return MPI_SUCCESS;
}

/* ---- by all ranks ---- */

/* Whether the ranks carry out the access together. */
static bool is_joint(struct wm_file *f, bool write, bool later)
{
    wm_file_lock(f);
    bool wanted = wm_plan_wanted(f, write, later);
    wm_file_unlock(f);
    return wanted;
}

/* `op` NULL: only votes.  The file has memory for it since its opening, because the other ranks
 * wait for a rank without memory. */
static int run_joint(struct wm_file *f, struct wm_iop *op, bool write, int err)
{
    wm_file_lock(f);
    if (f->dead) {
        err = wm_file_err(f, -RT_EPEER, "could not exchange the data of");
    } else {
        wm_twophase_init(f->joint, f, op, write, err);
        err = wm_cop_wait(f->joint);
    }
    wm_file_unlock(f);
    return err;
}

static int refuse(struct wm_file *f, unsigned flags, int err);

/* MPI-5.0 section 14.4.5.  The other ranks may have ended their split access, and are not kept
 * waiting. */
static int check_split(const struct wm_access *a, unsigned later)
{
    unsigned flags = (a->write ? WM_REFUSE_WRITE : 0) | later |
                     (a->where == WM_ORDERED ? WM_REFUSE_ORDERED : 0);
    if (!a->file->split.request)
        return MPI_SUCCESS;
    return refuse(a->file, flags,
                  wm_err(MPI_ERR_IO,
                         "a split collective access of file %s has not been "
                         "ended; end it before the next collective access",
                         a->file->name));
}

/* Counts a collective access.  An error if the ranks have lost each other before. */
static int enter(const struct wm_access *a, enum wm_file_form form)
{
    wm_file_enter_access(a->file, a->write, a->where, form);
    return wm_file_together(a->file);
}

int wm_io_run_all(const struct wm_access *a, MPI_Status *status)
{
    struct wm_iop op;
    int err = enter(a, WM_FILE_WHOLE);
    if (!err)
        err = check_split(a, 0);
    if (err)
        return err;
    if (!is_joint(a->file, a->write, false))
        return wm_io_run(a, status);
    err = prepare(a, &op);
    if (err)
        return run_joint(a->file, NULL, a->write, err);
    err = run_joint(a->file, &op, a->write, MPI_SUCCESS);
    wm_status_set(status, MPI_ANY_SOURCE, MPI_ANY_TAG, op.moved, false);
    wm_view_unref(op.view);
    return err;
}

/* Takes mutexes: before the domain's lock. */
static bool join_helper(struct wm_file *f)
{
    if (!wm_life_threads())
        return false;
    int err = wm_helper_join(WM_CLIENT_FILE, &f->helped);
    if (err)
        log_info(MPI,
                 "could not start a thread for collective access to \"%s\": %s; the ranks exchange "
                 "data while they call MPI",
                 f->name, strerror(err));
    return !err;
}

/* Starts a joint operation; with an error of this rank a vote without a handle.  Returns `err`; -1:
 * no memory. */
static int start_joint(struct wm_file *f, struct wm_type *type, struct io_work *w, bool write,
                       int err, MPI_Request *request)
{
    bool may = join_helper(f);
    wm_file_lock(f);
    struct io_req *q = make_req(f, type, w);
    if (q) {
        w->together = true;
        q->task.step = step_together;
        if (err)
            q->task.req.flags |= RT_REQ_DETACHED;
        else
            *request = wm_req_handle(&q->task.req);
        wm_twophase_init(&w->cop, f, err ? NULL : &w->op, write, err);
        launch_helped(q, may);
    }
    wm_file_unlock(f);
    return q ? err : -1;
}

/* The vote of a rank whose arguments are wrong.  Without memory it waits for the other ranks. */
static int vote(struct wm_file *f, bool write, int err)
{
    struct io_work *w = calloc(1, sizeof *w);
    MPI_Request none;
    if (w && start_joint(f, NULL, w, write, err, &none) == err)
        return err;
    free(w);
    return run_joint(f, NULL, write, err);
}

static int start_all(const struct wm_access *a, enum wm_file_form form, MPI_Request *request)
{
    int err = enter(a, form);
    if (!err)
        err = check_split(a, WM_REFUSE_LATER);
    if (err)
        return err;
    if (!is_joint(a->file, a->write, true))
        return wm_io_start(a, request);
    struct io_work *w = malloc(sizeof *w);
    err = w ? prepare(a, &w->op) : no_memory();
    if (!err && start_joint(a->file, a->type, w, a->write, err, request) == MPI_SUCCESS)
        return MPI_SUCCESS;
    if (!err) {
        err = no_memory();
        wm_view_unref(w->op.view);
    }
    free(w);
    return vote(a->file, a->write, err);
}

int wm_io_start_all(const struct wm_access *a, MPI_Request *request)
{
    return start_all(a, WM_FILE_LATER, request);
}

/* ---- in two halves (MPI-5.0 section 14.4.5): a file has at most one such access ---- */

int wm_io_begin(const struct wm_access *a)
{
    MPI_Request r;
    int err = start_all(a, WM_FILE_BEGIN, &r);
    if (!err)
        a->file->split = (struct wm_split){ r, a->buf, (int)a->where, a->write };
    return err;
}

int wm_io_end(const struct wm_access *a, MPI_Status *status)
{
    struct wm_split *s = &a->file->split;
    if (!s->request || s->where != (int)a->where || s->write != a->write)
        return wm_err(MPI_ERR_IO, s->request
                                      ? "the split collective access in progress was begun by "
                                        "another kind of call"
                                      : "no split collective access of the file has been begun");
    if (s->buf != a->buf)
        return wm_err(MPI_ERR_ARG, "buf is not the buffer that the access was begun with");
    MPI_Request r = s->request;
    s->request = 0;
    return wm_req_wait_handle(r, status);
}

/* ---- refused arguments ---- */

static int refuse(struct wm_file *f, unsigned flags, int err)
{
    bool write = flags & WM_REFUSE_WRITE;
    int64_t at;
    if (flags & WM_REFUSE_ORDERED)
        wm_shared_ordered(f, 0, &at);
    if (!is_joint(f, write, flags & WM_REFUSE_LATER))
        return err;
    return flags & WM_REFUSE_LATER ? vote(f, write, err) : run_joint(f, NULL, write, err);
}

/* Whether the access was to be at an offset is not known here. */
int wm_io_refuse(struct wm_file *f, unsigned flags, int err)
{
    if (!f || f->apart)
        return err;
    wm_file_enter_access(f, flags & WM_REFUSE_WRITE,
                         flags & WM_REFUSE_ORDERED ? WM_ORDERED : WM_OWN,
                         flags & WM_REFUSE_LATER ? WM_FILE_LATER : WM_FILE_WHOLE);
    return refuse(f, flags, err);
}
