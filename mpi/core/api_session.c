/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions: opening, closing, queries, process sets (MPI-5.0 section 11.3).  Any thread.
 * session_comm.c creates communicators from groups of sessions. */
#include "mpi/api/bodies.h"
#include "mpi/base/comm.h"
#include "mpi/core/errh.h"
#include "mpi/core/group.h"
#include "mpi/core/idup.h"
#include "mpi/core/info.h"
#include "mpi/core/life.h"
#include "mpi/core/session.h"
#include "mpi/p2p/domain.h"
#include "mpi/p2p/progress.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/mem/segment.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int wanted_level(const struct wm_info *info, int *level)
{
    const char *text = wm_info_find(info, "thread_level");
    /* The default that the standard advises: a session does not know what other users of MPI there
     * are. */
    *level = text ? wm_thread_level_of(text) : MPI_THREAD_MULTIPLE;
    if (*level >= 0)
        return MPI_SUCCESS;
    return wm_err(MPI_ERR_INFO_VALUE,
                  "argument 1 (info): thread_level is \"%s\", which is none of the names "
                  "MPI_THREAD_SINGLE, ..._FUNNELED, ..._SERIALIZED and ..._MULTIPLE",
                  text);
}

int wm_api_session_init(struct wm_info *info, struct wm_errh *errhandler,
                        struct wm_session **session)
{
    int level, err = wm_errh_check(errhandler, WM_ERRH_SESSION);
    if (!err)
        err = wanted_level(info, &level);
    if (!err)
        err = wm_life_enter(level, &level);
    if (err)
        return err;
    struct wm_session *s = rt_slab_alloc(&wm_session_slab);
    if (!s) {
        wm_life_leave("MPI_Session_init");
        return wm_err(MPI_ERR_NO_MEM, "no memory for another session");
    }
    const char *kinds = wm_info_find(info, "mpi_memory_alloc_kinds");
    wm_memory_kinds(kinds ? kinds : cfg.memory_alloc_kinds, s->kinds, sizeof s->kinds);
    s->thread_level = level;
    wm_errh_ref(errhandler);
    s->errh = errhandler;
    *session = s;
    return MPI_SUCCESS;
}

struct count {
    const struct wm_session *s;
    unsigned n;
};

static void count_comm(void *obj, void *arg)
{
    const struct wm_comm *c = obj;
    struct count *k = arg;
    if (c->session != k->s || c->no_handle)
        return;
    k->n++;
    log_debug(MPI, "left: a communicator of %d processes, context %u, %d references", c->size,
              c->ctx, c->obj.refs);
}

/* Messages in flight may reference a communicator that the user has freed; wait this long for
 * them. */
#define LEFT_NS 50000000u

/* Warns of communicators derived from the session.  The user should have freed them, and no longer
 * can. */
static void report_left(const struct wm_session *s)
{
    struct count k = { .s = s };
    uint64_t begin = rt_now_ns();
    do {
        k.n = 0;
        rt_lock(&wm_main_domain->lock);
        wm_progress(wm_main_domain);
        rt_slab_each(&wm_comm_slab, count_comm, &k);
        rt_unlock(&wm_main_domain->lock);
    } while (k.n && rt_now_ns() - begin < LEFT_NS);
    if (k.n)
        log_warn(MPI, "%u communicator%s of the session %s still alive in MPI_Session_finalize",
                 k.n, k.n == 1 ? "" : "s", k.n == 1 ? "is" : "are");
}

int wm_api_session_finalize(struct wm_session *session)
{
    void *addr;
    MPI_Count size;
    if (session->bbuf)
        wm_api_session_detach_buffer(session, &addr, &size);
    wm_comm_finish_dropped(wm_main_domain);
    if (cfg.check_leaks)
        report_left(session);
    rt_store_relaxed(&session->closed, true);
    wm_session_unref(session);
    wm_life_leave("MPI_Session_finalize");
    return MPI_SUCCESS;
}

int wm_api_session_get_info(struct wm_session *session, struct wm_info **info_used)
{
    struct wm_info *i = NULL;
    int err = wm_info_create(&i);
    if (err)
        return err;
    err = wm_info_put(i, "thread_level", wm_thread_level_name(session->thread_level));
    if (!err)
        err = wm_info_put(i, "mpi_memory_alloc_kinds", session->kinds);
    if (err)
        wm_info_destroy(i);
    else
        *info_used = i;
    return err;
}

/* ---- error handlers ---- */

int wm_api_session_set_errhandler(struct wm_session *session, struct wm_errh *errhandler)
{
    return wm_errh_set(&session->errh, WM_ERRH_SESSION, errhandler);
}

int wm_api_session_get_errhandler(struct wm_session *session, struct wm_errh **errhandler)
{
    *errhandler = wm_errh_ref_of(&session->errh);
    return MPI_SUCCESS;
}

/* ---- process sets ---- */

enum pset { PSET_WORLD, PSET_SELF, PSET_SHARED, NPSETS };
static const char *const pset_names[NPSETS] = { "mpi://WORLD", "mpi://SELF", "mpi://SHARED" };

/* Scheme and authority of a URI are case-insensitive. */
static int pset_find(const char *name, enum pset *out)
{
    for (int i = 0; i < NPSETS; i++) {
        if (!strcasecmp(name, pset_names[i])) {
            *out = (enum pset)i;
            return MPI_SUCCESS;
        }
    }
    return wm_err(MPI_ERR_ARG,
                  "argument 2 (pset_name): there is no process set \"%.200s\"; "
                  "MPI_Session_get_nth_pset gives the names",
                  name);
}

static int pset_size(enum pset p)
{
    int n = 0;
    for (int i = 0; p == PSET_SHARED && i < rt_boot.local_size; i++)
        n += rt_node_local(rt_boot.local_procs[i]) >= 0;
    return p == PSET_WORLD ? rt_boot.size : p == PSET_SELF ? 1 : n;
}

int wm_api_session_get_num_psets(struct wm_session *session, struct wm_info *info, int *npset_names)
{
    (void)session;
    (void)info; /* no hints are defined */
    *npset_names = NPSETS;
    return MPI_SUCCESS;
}

int wm_api_session_get_nth_pset(struct wm_session *session, struct wm_info *info, int n,
                                int *pset_len, char *pset_name)
{
    (void)session;
    (void)info;
    if (n < 0 || n >= NPSETS)
        return wm_err(MPI_ERR_ARG,
                      "argument 3 (n): process set %d was asked for, there are %d, from 0", n,
                      NPSETS);
    if (*pset_len > 0 && !pset_name)
        return wm_err(MPI_ERR_ARG,
                      "argument 5 (pset_name): the pointer is null, but pset_len is %d", *pset_len);
    if (*pset_len > 0)
        snprintf(pset_name, (size_t)*pset_len, "%s", pset_names[n]);
    *pset_len = (int)strlen(pset_names[n]) + 1;
    return MPI_SUCCESS;
}

int wm_api_session_get_pset_info(struct wm_session *session, const char *pset_name,
                                 struct wm_info **info)
{
    enum pset p = PSET_WORLD;
    char text[16];
    struct wm_info *i = NULL;
    (void)session;
    int err = pset_find(pset_name, &p);
    if (!err)
        err = wm_info_create(&i);
    if (err)
        return err;
    snprintf(text, sizeof text, "%d", pset_size(p));
    err = wm_info_put(i, "mpi_size", text);
    if (err)
        wm_info_destroy(i);
    else
        *info = i;
    return err;
}

int wm_api_group_from_session_pset(struct wm_session *session, const char *pset_name,
                                   struct wm_group **newgroup)
{
    enum pset p = PSET_WORLD;
    int err = pset_find(pset_name, &p);
    if (err)
        return err;
    int n = pset_size(p);
    if (p == PSET_WORLD) {
        err = wm_group_create_run((struct rt_proc){ 0, 0 }, n, newgroup);
        if (!err)
            wm_group_set_session(*newgroup, session);
        return err;
    }
    struct rt_proc *procs = malloc((size_t)n * sizeof *procs);
    if (!procs)
        return wm_err(MPI_ERR_NO_MEM, "no memory for a group of %d processes", n);
    for (int i = 0, k = 0; k < n; i++)
        if (p == PSET_SELF || rt_node_local(rt_boot.local_procs[i]) >= 0)
            procs[k++] = (struct rt_proc){ 0, p == PSET_SELF ? (uint32_t)rt_boot.rank
                                                             : rt_boot.local_procs[i] };
    err = wm_group_create(procs, n, newgroup);
    if (!err)
        wm_group_set_session(*newgroup, session);
    return err;
}
