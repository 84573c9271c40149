/* SPDX-License-Identifier: BSD-3-Clause */
/* Advances collective operations: the queue of a file, calls, jobs, and errors. */
#include "mpi/io/cop.h"
#include "coll/begin.h"
#include "mpi/base/comm.h"
#include "mpi/coll/alive.h"
#include "mpi/coll/call.h"
#include "mpi/io/calls.h"
#include "mpi/p2p/describe.h"
#include "mpi/p2p/pack_any.h"

/* ---- errors ---- */

bool wm_cop_fail(struct wm_cop *c, enum wm_cop_why why, int rt)
{
    if (rt < 0 && !c->err) {
        c->why = why;
        c->rt = rt;
        c->err = wm_err_class(rt);
    }
    return c->err;
}

bool wm_cop_agreed(struct wm_cop *c, int err)
{
    if (err && !c->err) {
        c->why = WM_COP_PEER;
        c->err = err;
    }
    return c->err;
}

int wm_cop_error(const struct wm_cop *c)
{
    const char *verb = c->write ? "write" : "read", *name = c->file->name;
    switch (c->why) {
    case WM_COP_PEER:
        return wm_err(c->err, "another process of the file reports this error");
    case WM_COP_MEMORY:
        return wm_err(c->err, "no memory for a collective access to file %s", name);
    case WM_COP_MESSAGES:
        return wm_err_rt(c->rt, "could not exchange the data of file %s", name);
    case WM_COP_COPY:
        return wm_any_error(c->rt);
    case WM_COP_WINDOW:
        return wm_err_rt(c->rt, "could not %s bytes %lld to %lld of file %s", verb,
                         (long long)c->from, (long long)c->to - 1, name);
    case WM_COP_CALLS:
        return wm_file_calls_error(c->file, c->id, c->v);
    case WM_COP_ALONE:
        return wm_iop_error(c->op, c->rt);
    default:
        return c->err;
    }
}

void wm_cop_end(struct wm_cop *c)
{
    c->next = NULL;
    c->join = true;
}

/* ---- calls ---- */

/* A failed call ends the operation at once: this rank has not got the others' messages.  The others
 * may wait for those of this rank, so the file is lost to them, too. */
static void leave(struct wm_cop *c, int rc)
{
    if (rc == -RT_EREMOTE) /* the data lie in host memory, so the sender has left */
        rc = -RT_EPEER;
    wm_cop_fail(c, WM_COP_MESSAGES, rc);
    wm_file_lose(c->file);
    wm_cop_end(c);
}

void wm_cop_call(struct wm_cop *c, const struct coll_args *a)
{
    struct wm_comm *comm = c->file->comm;
    int rc = c->blocking ? wm_coll_begin(comm, &comm->team, a, &c->call)
                         : wm_coll_post(comm, a, &c->call);
    c->calling = rc >= 0;
    if (rc < 0)
        leave(c, rc);
}

void wm_cop_max(struct wm_cop *c, int n)
{
    const struct coll_args a = { .kind = COLL_ALLREDUCE,
                                 .sbuf = COLL_IN_PLACE,
                                 .rbuf = c->v,
                                 .rcount = n,
                                 .rtype = &wm_type_get(MPI_INT64_T)->layout,
                                 .op = &wm_op_get(MPI_MAX)->op,
                                 .mem = RT_MEM_HOST };
    wm_cop_call(c, &a);
}

void wm_cop_agree(struct wm_cop *c, void (*next)(struct wm_cop *c))
{
    c->v[0] = c->err;
    c->next = next;
    wm_cop_max(c, 1);
}

/* The domain advances the call of a blocking operation. */
static bool call_ended(struct wm_cop *c)
{
    if (!rt_req_done(&c->call.req) && (c->blocking || !coll_task_advance(&c->call)))
        return false;
    c->calling = false;
    if (c->call.req.err < 0)
        leave(c, c->call.req.err);
    return true;
}

/* ---- jobs ---- */

static void run_job(struct rt_io_job *job)
{
    struct wm_cop *c = rt_container(job, struct wm_cop, job);
    c->job_err = c->work(c);
}

static bool job_ended(struct wm_cop *c)
{
    if (!rt_load_acquire(&c->job.done)) /* pairs with the release of the job thread */
        return false;
    c->working = c->join = false;
    wm_cop_fail(c, c->job_why, c->job_err);
    return true;
}

/* Work of a blocking operation may block, and takes the lock itself for device memory. */
static void run_here(struct wm_cop *c)
{
    if (c->blocking)
        wm_file_unlock(c->file);
    run_job(&c->job);
    if (c->blocking)
        wm_file_lock(c->file);
    c->job.done = 1;
}

void wm_cop_work(struct wm_cop *c, int (*work)(struct wm_cop *c), enum wm_cop_why why, bool here)
{
    c->work = work;
    c->job_why = why;
    c->job.run = run_job;
    c->working = true;
    if (!here && rt_io_submit(&c->job) >= 0)
        return;
    bool locks = why == WM_COP_ALONE && rt_threaded && !c->blocking;
    if (locks) { /* it may need the lock, which this thread has */
        c->job_err = -RT_ESYS;
        c->job.done = 1;
    } else {
        run_here(c);
    }
}

/* ---- the queue ---- */

void wm_cop_init(struct wm_cop *c, struct wm_file *f, struct wm_iop *op, bool write, int err)
{
    struct wm_cop **end = &f->cops;
    *c = (struct wm_cop){ .file = f,
                          .op = op,
                          .write = write,
                          .why = err ? WM_COP_OWN : WM_COP_FINE,
                          .err = err,
                          .id = wm_file_call_id(f) };
    while (*end)
        end = &(*end)->after;
    *end = c;
}

/* True: all steps are done. */
static bool run_steps(struct wm_cop *c)
{
    if (c->file->cops != c)
        return false;
    while (c->next || c->calling || c->working) {
        if (c->calling && !call_ended(c))
            return false;
        if (c->join && c->working && !job_ended(c))
            return false;
        c->join = false;
        if (c->next)
            c->next(c);
    }
    c->file->cops = c->after;
    return true;
}

/* A job may still use the user's memory. */
static bool is_lost(struct wm_cop *c)
{
    struct wm_file *f = c->file;
    if (!f->dead && wm_alive_look(f->comm, &c->alive))
        wm_file_lose(f);
    return f->dead && (!c->working || rt_load_acquire(&c->job.done));
}

bool wm_cop_advance(struct wm_cop *c)
{
    if (!c->file->dead && run_steps(c))
        return true;
    if (!is_lost(c))
        return false;
    wm_cop_fail(c, WM_COP_MESSAGES, -RT_EPEER);
    return true;
}

/* What a blocking operation waits for. */
static bool may_advance(void *arg)
{
    struct wm_cop *c = arg;
    if (c->file->cops != c)
        return false;
    return c->calling ? rt_req_done(&c->call.req) : rt_load_acquire(&c->job.done) != 0;
}

static void describe_step(const void *of, struct rt_wait_note *n)
{
    const struct wm_cop *c = of;
    if (c->calling)
        wm_describe_request(&c->call.req, n);
    else
        wm_describe_comm(n, c->file->comm);
}

int wm_cop_wait(struct wm_cop *c)
{
    struct wm_file *f = c->file;
    c->blocking = true;
    c->job.done = 1; /* none */
    while (!wm_cop_advance(c))
        if (wm_alive_until(f->comm, may_advance, c, (struct wm_what){ describe_step, c }) < 0)
            wm_file_lose(f);
    return wm_cop_error(c);
}
