/* SPDX-License-Identifier: BSD-3-Clause */
/* Spawns in the first mpirun.  If there are too few slots while a job is ending, a spawn waits for
 * the slots of that job: it is tried again when a job has ended, and at the end of its time. */
#include "launcher/mpirun/family_state.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"

#include <stdlib.h>

/* How long a spawn waits for the slots of a job that is ending.  A job ends within milliseconds, or
 * within a second on a machine with far more processes than cores; a job that was only disconnected
 * may run on, and then the error is late by this. */
#define ENDING_NS 5000000000u

/* A spawn for which there are too few slots while a job is ending. */
struct waiting {
    struct waiting *next;
    struct asker asker;
    struct launch_list words;
    uint64_t until_ns; /* then too few slots are an error */
};

/* A job that has been disconnected from all others is usually about to end. */
static bool is_ending(const struct family *f, const struct member *m)
{
    for (int i = 0; i < f->nedges; i++)
        if (f->edges[i].a == m->number || f->edges[i].b == m->number)
            return m->ending;
    return m->met || m->ending;
}

static bool will_slots_be_free(const struct family *f)
{
    const struct member *m = f->members;
    while (m && !is_ending(f, m))
        m = m->next;
    return m != NULL;
}

/* -RT_EAGAIN: there are too few slots, and `may_wait` is set. */
static int start_member(struct launch_job *job, const struct asker *from,
                        const struct launch_list *words, bool may_wait)
{
    struct family *f = job->family;
    if (job->ending || (from->via && from->via->ending))
        return -RT_ESPAWN;
    struct member *m = calloc(1, sizeof *m);
    if (!m)
        return -RT_ENOMEM;
    m->number = f->njobs + 1;
    m->asker = *from;
    int err = member_start(job, m, words, may_wait);
    if (err) {
        free(m);
        return err;
    }
    f->njobs++;
    m->next = f->members;
    f->members = m;
    return 0;
}

static void free_waiting(struct waiting *w)
{
    launch_list_fini(&w->words);
    free(w);
}

static int wait_for_slots(struct family *f, const struct asker *from,
                          const struct launch_list *words)
{
    struct waiting *w = calloc(1, sizeof *w), **p = &f->waiting;
    int err = w ? 0 : -RT_ENOMEM;
    for (int i = 0; i < words->n && !err; i++)
        err = launch_list_add(&w->words, words->v[i]) ? -RT_ENOMEM : 0;
    if (err) {
        if (w)
            free_waiting(w);
        return err;
    }
    w->asker = *from;
    w->until_ns = rt_now_ns() + ENDING_NS;
    while (*p)
        p = &(*p)->next;
    *p = w;
    return 0;
}

void spawns_ask(struct launch_job *job, const struct asker *from, const struct launch_list *words)
{
    int err = start_member(job, from, words, will_slots_be_free(job->family));
    if (err == -RT_EAGAIN)
        err = wait_for_slots(job->family, from, words);
    if (err)
        family_answer(job, from, err, NULL);
}

void spawns_step(struct launch_job *job)
{
    struct family *f = job->family;
    struct waiting **p = &f->waiting;
    bool again = f->slots_freed;
    f->slots_freed = false;
    while (*p) {
        struct waiting *w = *p;
        bool late = rt_now_ns() >= w->until_ns;
        int err = -RT_EAGAIN;
        if (again || late || w->asker.gone)
            err = w->asker.gone
                      ? -RT_ESPAWN
                      : start_member(job, &w->asker, &w->words, !late && will_slots_be_free(f));
        if (err == -RT_EAGAIN) {
            p = &w->next;
            continue;
        }
        if (err)
            family_answer(job, &w->asker, err, NULL);
        *p = w->next;
        free_waiting(w);
    }
}

uint64_t spawns_step_at_ns(const struct family *f)
{
    return f->waiting ? f->waiting->until_ns : 0; /* the first waits longest */
}

void spawns_forget(struct family *f, const struct member *m)
{
    for (struct waiting *w = f->waiting; w; w = w->next)
        w->asker.gone |= w->asker.via == m;
    f->slots_freed = true;
}

void spawns_fini(struct family *f)
{
    while (f->waiting) {
        struct waiting *w = f->waiting;
        f->waiting = w->next;
        free_waiting(w);
    }
}
