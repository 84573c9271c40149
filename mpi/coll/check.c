/* SPDX-License-Identifier: BSD-3-Clause */
/* WEFT_CHECK: how notes reach rank 0 of their communicator, and how rank 0 handles them.  All state
 * is used under the domain's lock.  A note is an ordinary message on the collective context with
 * its own tag.  Rank 0 posts no receive for it: a task that never ends searches the unexpected
 * messages at every progress.  After rank 0 has freed a communicator, it keeps the object until it
 * has the last note of every rank. */
#include "mpi/coll/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "mpi/check/left.h"
#include "mpi/check/report.h"
#include "mpi/coll/check_end.h"
#include "mpi/coll/check_int.h"
#include "mpi/coll/call.h"
#include "mpi/coll/check_note.h"
#include "mpi/coll/exch.h"
#include "mpi/p2p/engine.h"
#include "mpi/p2p/progress.h"
#include "mpi/p2p/recv.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/send.h"
#include "mpi/p2p/wait.h"
#include "runtime/base/clock.h"

#define TAG_NOTE WM_TAG_CHECK
#define TAG_END (WM_TAG_CHECK + 1)
#define TEXT 512

/* How long an abort waits for rank 0 to report a disagreement: far longer than a note takes. */
#define PATIENCE_NS 2000000000u
#define LOOK_US 10000             /* its longest sleep */
static _Thread_local bool failed; /* the last collective call of this thread */

static struct {
    struct rt_list all; /* struct wm_check of the communicators in which this process is rank 0 */
    struct coll_task task;
    bool running; /* since the first such communicator */
} state;

static const char *where(const struct wm_check *k, char *buf, size_t len)
{
    return k->object[0] ? k->object : check_comm_name(k->comm, buf, len);
}

static _Noreturn void disagree(const struct wm_check *k, const char *call, uint32_t number,
                               const char *what)
{
    char name[MPI_MAX_OBJECT_NAME + 64];
    log_error(MPI, "WEFT_CHECK: %s%scollective call %u on %s: %s", call, *call ? ", " : "",
              number + 1, where(k, name, sizeof name), what);
    rt_boot_abort(1, "WEFT_CHECK has found collective calls that disagree");
}

/* ---- rank 0 ---- */

static struct check_open *open_call(struct wm_check *k, uint32_t number)
{
    struct rt_list *l;
    rt_list_each (l, &k->open) {
        struct check_open *o = rt_container(l, struct check_open, link);
        if (o->number == number)
            return o;
        if (o->number > number)
            break;
    }
    struct check_open *o = calloc(1, sizeof *o + (size_t)k->comm->size * sizeof o->by_rank[0]);
    if (!o)
        check_no_memory();
    o->number = number;
    rt_list_append(l, &o->link); /* before the first call with a higher number */
    return o;
}

static void open_free(struct wm_check *k, struct check_open *o)
{
    for (int i = 0; i < k->comm->size; i++)
        free(o->by_rank[i]);
    rt_list_del(&o->link);
    free(o);
}

/* Compares a note with that of the lowest rank that has reported; with the notes of all ranks if
 * the data differ from pair to pair. */
static void compare(const struct wm_check *k, const struct check_open *o,
                    const struct check_note *a)
{
    char text[TEXT];
    if (check_differ(a, a, text, sizeof text))
        disagree(k, a->name, a->number, text);
    for (int i = 0; i < k->comm->size; i++) {
        const struct check_note *b = o->by_rank[i];
        if (!b || a == b)
            continue;
        bool above = a->rank > b->rank; /* the text must not depend on the order of arrival */
        if (check_differ(above ? a : b, above ? b : a, text, sizeof text))
            disagree(k, strcmp(a->name, b->name) ? "" : a->name, a->number, text);
        if (a->has & CHECK_UNIFORM || !a->has)
            return;
    }
}

/* All ranks have reported a call that ends an epoch of a window. */
static void compare_accesses(const struct wm_check *k, const struct check_open *o)
{
    char text[TEXT];
    const void **all = malloc((size_t)k->comm->size * sizeof *all);
    if (!all)
        check_no_memory();
    bool any = false;
    for (int i = 0; i < k->comm->size; i++)
        any |= (all[i] = check_accesses_of(o->by_rank[i])) != NULL;
    if (any && check_accesses_conflict(all, k->comm->size, text, sizeof text))
        disagree(k, o->by_rank[0]->name, o->number, text);
    free(all);
}

/* Called when all ranks have freed the communicator. */
static void finish(struct wm_check *k)
{
    if (k->over)
        return;
    k->over = true;
    rt_list_del(&k->link);
    wm_comm_unref(k->comm);
}

/* Takes ownership of the note.  May free `k`. */
static void take(struct wm_check *k, struct check_note *a)
{
    if (k->over || a->rank < 0 || a->rank >= k->comm->size) {
        free(a);
        return;
    }
    struct check_open *o = open_call(k, a->number);
    free(o->by_rank[a->rank]);
    o->by_rank[a->rank] = a;
    compare(k, o, a);
    if (++o->nseen < k->comm->size)
        return;
    bool last = a->has & CHECK_LAST;
    compare_accesses(k, o);
    open_free(k, o);
    if (last)
        finish(k);
}

struct arriving {
    struct wm_check *k;
    struct check_note *note;
};

static void arrived(struct rt_req *r, void *arg)
{
    struct arriving *in = arg;
    if (!r->err && !in->k->over)
        take(in->k, in->note);
    else
        free(in->note);
    free(in);
}

/* Receives one note that has arrived; false if there is none. */
static bool receive(struct wm_check *k)
{
    struct wm_comm *c = k->comm;
    struct wm_key want = { .ctx = wm_ctx(c, true), .src = WM_MATCH_ANY, .tag = TAG_NOTE };
    struct wm_unex *u = wm_match_find(&c->dom->match, &want);
    if (!u)
        return false;
    int64_t len = wm_stored_len(rt_container(u, struct wm_stored, unex));
    struct arriving *in = malloc(sizeof *in);
    struct rt_req *r;
    if (!in || !(in->note = malloc((size_t)len)))
        check_no_memory();
    in->k = k;
    struct wm_msg m = { .buf = in->note,
                        .count = len,
                        .layout = &wm_type_get(MPI_BYTE)->layout,
                        .comm = c,
                        .peer = u->key.src,
                        .tag = TAG_NOTE,
                        .coll = true };
    if (wm_p2p_irecv(&m, &r) < 0)
        check_no_memory();
    if (rt_req_done(r)) {
        arrived(r, in);
        wm_req_release(r);
    } else {
        r->flags |= RT_REQ_DETACHED;
        r->notify = arrived;
        r->arg = in;
    }
    return true;
}

static void receive_all(void)
{
    struct rt_list *l, *tmp;
    rt_list_each_safe (l, tmp, &state.all) {
        struct wm_check *k = rt_container(l, struct wm_check, link);
        wm_comm_ref(k->comm); /* the last rank's last note drops a reference */
        struct wm_comm *c = k->comm;
        while (!k->over && receive(k))
            ;
        wm_comm_unref(c);
    }
}

static int look(struct coll_task *t)
{
    (void)t;
    receive_all();
    return 0;
}

/* ---- every rank ---- */

static void sent(struct rt_req *r, void *arg)
{
    (void)r;
    free(arg);
}

static void send(struct wm_comm *c, struct check_note *a)
{
    struct wm_msg m = { .buf = a,
                        .count = (int64_t)check_note_nbytes(a),
                        .layout = &wm_type_get(MPI_BYTE)->layout,
                        .comm = c,
                        .peer = 0,
                        .tag = TAG_NOTE,
                        .coll = true };
    struct rt_req *r;
    if (wm_p2p_isend(&m, WM_STANDARD, &r) < 0) {
        free(a); /* rank 0 has failed, which other errors report */
    } else if (rt_req_done(r)) {
        free(a);
        wm_req_release(r);
    } else {
        r->flags |= RT_REQ_DETACHED;
        r->notify = sent;
        r->arg = a;
    }
}

static struct wm_check *check_of(struct wm_comm *c)
{
    struct wm_check *k = c->check;
    if (k)
        return k;
    k = c->check = calloc(1, sizeof *k);
    if (!k)
        check_no_memory();
    k->comm = c;
    rt_list_init(&k->link);
    rt_list_init(&k->open);
    if (c->rank)
        return k;
    if (!state.running) {
        rt_list_init(&state.all);
        state.task.step = look;
        state.running = true;
        wm_domain_add_task(c->dom, &state.task);
    }
    wm_comm_ref(c);
    rt_list_append(&state.all, &k->link);
    return k;
}

/* The communicator that is checked; for an intercommunicator its local group. */
static struct wm_comm *members(struct wm_comm *c)
{
    struct wm_comm *m = c->inter ? c->local : c;
    return m && m->size > 1 ? m : NULL;
}

void wm_check_access(struct wm_comm *comm, int target, int kind, int64_t low, int64_t high)
{
    struct wm_comm *c = members(comm);
    if (c)
        check_access_add(&check_of(c)->accesses, target, (enum check_access_kind)kind, low, high);
}

/* Frees `a` if it makes a longer note. */
static struct check_note *with_accesses(struct wm_check *k, struct check_note *a)
{
    size_t len = check_note_nbytes(a), more;
    struct check_note *all = check_accesses_take(&k->accesses, len, &more);
    if (!all)
        return a;
    memcpy(all, a, len);
    all->nmore = (int64_t)more;
    free(a);
    return all;
}

static void submit(struct wm_comm *c, struct check_note *a)
{
    if (!a)
        check_no_memory();
    struct wm_check *k = check_of(c);
    if (k->freed) { /* MPI_Comm_free has failed: no further call is compared */
        free(a);
        return;
    }
    k->freed = a->has & CHECK_LAST;
    a = with_accesses(k, a);
    a->rank = c->rank;
    a->number = k->calls++;
    if (c->rank)
        send(c, a);
    else
        take(k, a);
}

void wm_check_call(const struct wm_call *call)
{
    struct wm_comm *c = members(call->comm);
    failed = false;
    if (!c || call->args.kind > COLL_EXSCAN)
        return;
    rt_lock(&c->dom->lock);
    submit(c, check_note_make(call));
    rt_unlock(&c->dom->lock);
}

static void submit_named(struct wm_comm *c, const char *name, bool last)
{
    struct check_note *a = check_note_named(name);
    if (a && last)
        a->has |= CHECK_LAST;
    submit(c, a);
}

void wm_check_named(struct wm_comm *comm, const char *name)
{
    struct wm_comm *c = comm ? members(comm) : NULL;
    if (!c)
        return;
    bool last = !strcmp(name, "MPI_Comm_free") || !strcmp(name, "MPI_Comm_disconnect") ||
                !strcmp(name, "MPI_Win_free") || !strcmp(name, "MPI_File_close");
    if (last && (comm == wm_comm_world || comm == wm_comm_self))
        return; /* the call itself reports this error */
    rt_lock(&c->dom->lock);
    submit_named(c, name, last);
    rt_unlock(&c->dom->lock);
}

void wm_check_object(struct wm_comm *comm, const char *kind, const char *name, const char *call)
{
    struct wm_comm *c = members(comm);
    if (!c)
        return;
    rt_lock(&c->dom->lock);
    struct wm_check *k = check_of(c);
    if (name && *name)
        snprintf(k->object, sizeof k->object, "%s \"%.100s\"", kind, name);
    else
        snprintf(k->object, sizeof k->object, "a %s of %d processes without a name", kind, c->size);
    rt_unlock(&c->dom->lock);
    wm_check_named(c, call);
}

void wm_check_freed(struct wm_comm *comm)
{
    struct wm_comm *c = members(comm);
    if (c && c->ctx && c->ctx != WM_CTX_JOB)
        submit_named(c, "MPI_Comm_free", true);
}

void wm_check_failed(const struct wm_comm *c)
{
    failed = c->check || (c->local && c->local->check);
}

void wm_check_before_abort(void)
{
    struct wm_domain *d = wm_main_domain;
    struct wm_wait wait = { .internal = true, .limit_us = LOOK_US };
    uint64_t end_ns = rt_now_ns() + PATIENCE_NS;
    if (!failed)
        return;
    rt_lock(&d->lock);
    while (rt_now_ns() < end_ns)
        wm_domain_step(d, &wait);
    wm_domain_left(d, &wait);
    rt_unlock(&d->lock);
}

void wm_check_drop(struct wm_comm *c)
{
    struct wm_check *k = c->check;
    if (!k)
        return;
    struct rt_list *l, *tmp;
    rt_list_each_safe (l, tmp, &k->open)
        open_free(k, rt_container(l, struct check_open, link));
    rt_list_del(&k->link);
    free(k->accesses.v);
    free(k);
    c->check = NULL;
}

/* ---- the end ---- */

static void merge_nothing(void *inout, const void *in)
{
    (void)inout;
    (void)in;
}

/* When it returns, all ranks have sent all their notes, and the notes that have arrived are
 * compared. */
static void meet(struct wm_comm *world)
{
    struct wm_exch x = { .comm = world, .n = world->size, .me = world->rank, .tag = TAG_END };
    char byte = 0;
    wm_exch_combine(&x, &byte, sizeof byte, merge_nothing);
    for (int quiet = 0; quiet < 3;)
        quiet = wm_progress(world->dom) ? 0 : quiet + 1;
}

static bool is_free(const struct check_note *a) { return a->has & CHECK_LAST; }

/* Reports a call that some rank has made and another has not.  The last notes of the ranks of other
 * jobs may not have come: MPI_Finalize waits for its own job only. */
static void incomplete(const struct wm_check *k, const struct check_open *o)
{
    char text[TEXT], name[MPI_MAX_OBJECT_NAME + 64];
    const struct check_note *a = NULL;
    int missing = -1;
    for (int i = k->comm->size - 1; i >= 0; i--)
        if (o->by_rank[i])
            a = o->by_rank[i];
        else if (!wm_group_proc(k->comm->group, i).ns)
            missing = i;
    if (!a || missing < 0)
        return;
    if (is_free(a)) {
        log_warn(MPI, "WEFT_CHECK: rank %d has freed %s, rank %d has not", a->rank,
                 where(k, name, sizeof name), missing);
        return;
    }
    snprintf(text, sizeof text, "rank %d calls %s, rank %d calls MPI_Finalize", a->rank, a->name,
             missing);
    disagree(k, "", o->number, text);
}

static void end(struct wm_check *k)
{
    struct rt_list *l;
    rt_list_each (l, &k->open)
        incomplete(k, rt_container(l, struct check_open, link));
    finish(k);
}

void wm_check_finalize(struct wm_comm *world, bool last)
{
    struct wm_domain *d = world->dom;
    struct rt_list *l, *tmp;
    rt_lock(&d->lock);
    check_report_freed();
    if (world->size > 1) {
        submit_named(world, "MPI_Finalize", true);
        check_report_messages(d);
        if (last)
            check_left_publish(d);
        meet(world);
    }
    if (state.running)
        rt_list_each_safe (l, tmp, &state.all) {
            struct wm_check *k = rt_container(l, struct wm_check, link);
            if (!k->comm->session) /* communicators of sessions live on */
                end(k);
        }
    check_report_leaks(d);
    rt_unlock(&d->lock);
}
