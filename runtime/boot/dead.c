/* SPDX-License-Identifier: BSD-3-Clause */
/* See dead.h.  Readers take no lock: an entry is complete before the count includes it, and entries
 * do not move, because the list is made of blocks, each twice as long as the one before. */
#include "runtime/boot/dead.h"
#include "runtime/base/cfg.h"
#include "runtime/base/log.h"
#include "runtime/boot/jobs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <pmix.h>

#define FIRST 64u /* entries of the first block */
#define NBLOCKS 26

uint32_t rt_dead_count, rt_dead_unmet;
void (*rt_dead_notify)(void);

static struct {
    pthread_mutex_t lock; /* of writers */
    struct rt_proc *block[NBLOCKS];
    char nspace[256]; /* of this job */
    struct rt_name *unmet;
    uint32_t nunmet;
} dead = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* The block of entry i; its index in the block. */
static int block_of(uint32_t i, uint32_t *at)
{
    int b = 31 - __builtin_clz(i / FIRST + 1);
    *at = i - FIRST * ((1u << b) - 1);
    return b;
}

struct rt_proc rt_dead_at(uint32_t i)
{
    uint32_t at;
    int b = block_of(i, &at);
    return dead.block[b][at];
}

bool rt_dead_has(struct rt_proc p)
{
    for (uint32_t i = 0, n = rt_dead(); i < n; i++) {
        struct rt_proc q = rt_dead_at(i);
        if (q.rank == p.rank && q.ns == p.ns)
            return true;
    }
    return false;
}

static void add(struct rt_proc p)
{
    uint32_t at;
    int b = block_of(rt_dead_count, &at);
    if (!dead.block[b])
        dead.block[b] = malloc((FIRST << b) * sizeof *dead.block[b]);
    if (!dead.block[b])
        log_error(BOOT, "no memory to note that rank %u has died; calls may wait for it", p.rank);
    else if (!rt_dead_has(p)) {
        dead.block[b][at] = p;
        rt_store_release(&rt_dead_count, rt_dead_count + 1);
    }
}

void rt_dead_add(struct rt_proc p)
{
    if (!cfg.ft)
        return;
    pthread_mutex_lock(&dead.lock);
    add(p);
    pthread_mutex_unlock(&dead.lock);
}

/* In another job, perhaps one that this process has not met yet. */
static void add_unmet(const char *nspace, uint32_t rank)
{
    struct rt_name n = { rt_boot_job_id(nspace), rank, 0 };
    pthread_mutex_lock(&dead.lock);
    struct rt_name *more = realloc(dead.unmet, (dead.nunmet + 1) * sizeof *more);
    if (!more) {
        log_error(BOOT, "no memory to note that rank %u of %s has died; calls may wait for it",
                  rank, nspace);
    } else {
        dead.unmet = more;
        more[dead.nunmet++] = n;
        rt_store_release(&rt_dead_unmet, rt_dead_unmet + 1);
    }
    pthread_mutex_unlock(&dead.lock);
}

void rt_dead_meet(void)
{
    struct rt_proc p;
    if (!cfg.ft)
        return;
    pthread_mutex_lock(&dead.lock);
    uint32_t left = 0;
    rt_store_relaxed(&rt_dead_unmet, 0u);
    for (uint32_t i = 0; i < dead.nunmet; i++)
        if (rt_boot_proc(dead.unmet[i], &p) < 0)
            dead.unmet[left++] = dead.unmet[i];
        else
            add(p);
    dead.nunmet = left;
    pthread_mutex_unlock(&dead.lock);
}

static void on_death(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[],
                     size_t ninfo, pmix_info_t results[], size_t nresults,
                     pmix_event_notification_cbfunc_fn_t cbfunc, void *cbdata)
{
    (void)id, (void)status, (void)info, (void)ninfo, (void)results, (void)nresults;
    bool own = !strcmp(source->nspace, dead.nspace);
    if (!own)
        add_unmet(source->nspace, source->rank);
    else if (source->rank < (pmix_rank_t)rt_boot.size && source->rank != (pmix_rank_t)rt_boot.rank)
        rt_dead_add((struct rt_proc){ 0, source->rank });
    if (rt_dead_notify)
        rt_dead_notify();
    if (cbfunc)
        cbfunc(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, cbdata);
}

/* Without a callback the call returns when the server has answered, with the handler's number. */
void rt_dead_open(void)
{
    pmix_status_t code = PMIX_ERR_PROC_TERM_WO_SYNC;
    if (!cfg.ft || rt_boot.singleton)
        return;
    snprintf(dead.nspace, sizeof dead.nspace, "%s", rt_boot.nspace);
    pmix_status_t rc = PMIx_Register_event_handler(&code, 1, NULL, 0, on_death, NULL, NULL);
    if (rc < 0)
        log_warn(BOOT,
                 "the PMIx server does not notify this process of deaths: %s; a death is noticed "
                 "when a connection ends",
                 PMIx_Error_string(rc));
}
