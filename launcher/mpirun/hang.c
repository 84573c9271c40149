/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks publish waits that are older than a millisecond (runtime/mem/activity.h).  A few times
 * in hang_s this process reads their pages, which costs the ranks nothing.  While a rank waits and
 * nothing has changed for hang_s, it prints a picture, and again at 4, 16 and 64 times hang_s. */
#include "launcher/mpirun/hang.h"
#include "launcher/explain/collect.h"
#include "launcher/mpirun/job_end.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"

#include <stdlib.h>

#define LOOKS 8 /* in hang_s */
#define FIRST_LOOK_MS 250
/* Each report comes at this many times the age of the one before; the last one is the fourth.  A
 * job that continues after a rank was late may often have such phases, so later ones are reported
 * only if they last that much longer. */
#define REPORT_FACTOR 4
#define REPORTS 4

struct launch_hang {
    struct explain_pages *pages;
    struct explain_known *known;
    uint64_t movement, moved_ns; /* and when it was first seen */
    uint64_t look_at_ns, report_at_ns;
    int nreports; /* of this standstill */
    int nlate;    /* reports of late ranks, in a job that continued */
};

static uint64_t limit_ns(void) { return (uint64_t)cfg.hang_s * 1000000000u; }

static uint64_t look_every_ns(void)
{
    uint64_t every = limit_ns() / LOOKS;
    return every > FIRST_LOOK_MS * 1000000u ? every : FIRST_LOOK_MS * 1000000u;
}

static struct launch_hang *hang_new(const struct launch_job *job)
{
    struct launch_hang *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    h->pages = explain_pages_new(job->n);
    h->known = calloc((size_t)job->n + 1, sizeof *h->known);
    if (!h->pages || !h->known) {
        explain_pages_free(h->pages);
        free(h->known);
        free(h);
        return NULL;
    }
    return h;
}

void launch_hang_fini(struct launch_job *job)
{
    if (!job->hang)
        return;
    explain_pages_free(job->hang->pages);
    free(job->hang->known);
    free(job->hang);
    job->hang = NULL;
}

/* False: there is nothing to read here. */
static bool read_ranks(struct launch_job *job)
{
    if (job->head || !job->ranks || !job->n || (!job->hang && !(job->hang = hang_new(job))))
        return false;
    explain_known_of(job, job->hang->known);
    explain_pages_read(job->hang->pages, job->hang->known);
    return true;
}

static void write_json(struct launch_job *job, const struct explain_job *picture,
                       const struct explain_verdict *v)
{
    FILE *f = fopen(job->opts->hang.json, "we");
    if (f)
        explain_json(picture, v, f);
    if (!f || fclose(f) != 0)
        launch_report(job, "could not write %s: %m", job->opts->hang.json);
}

/* `seconds` without progress; < 0: the user has asked. */
static enum explain_kind explain(struct launch_job *job, double seconds, bool stacks)
{
    enum explain_kind kind = EXPLAIN_UNKNOWN;
    struct launch_hang *h = job->hang;
    struct explain_verdict v;
    struct explain_picture *p = explain_picture_take(h->pages, h->known, job->host,
                                                     job->total ? job->total : job->n);
    if (!p)
        return kind;
    struct explain_job *picture = explain_picture_job(p);
    while (explain_picture_look_up(p))
        ;
    picture->seconds = seconds;
    if (explain_judge(picture, &v) == 0) {
        fflush(stdout);
        explain_print(picture, &v, stderr);
        if (*explain_picture_lacks(p))
            fprintf(stderr, "  (%s)\n", explain_picture_lacks(p));
        while (stacks && explain_picture_stack(p, stderr))
            ;
        if (stacks && job->n > EXPLAIN_STACKS)
            fprintf(stderr, "and %d further ranks\n", job->n - EXPLAIN_STACKS);
        if (job->opts->hang.json)
            write_json(job, picture, &v);
        kind = v.kind;
        explain_verdict_fini(&v);
    }
    explain_picture_free(p);
    return kind;
}

void launch_hang_explain(struct launch_job *job)
{
    if (read_ranks(job))
        explain(job, -1, job->opts->hang.stacks);
}

uint64_t launch_hang_at_ns(const struct launch_job *job)
{
    if (!cfg.hang_s || job->opts->display.quiet || job->head || !job->nrunning || job->ending)
        return 0;
    return job->hang ? job->hang->look_at_ns : job->began_ns + look_every_ns();
}

void launch_hang_step(struct launch_job *job)
{
    uint64_t now = rt_now_ns(), at = launch_hang_at_ns(job);
    if (!at || now < at || !read_ranks(job))
        return;
    struct launch_hang *h = job->hang;
    uint64_t movement = explain_pages_movement(h->pages);
    uint64_t oldest = explain_pages_oldest_ns(h->pages);
    h->look_at_ns = now + look_every_ns();
    if (movement != h->movement || !h->moved_ns) {
        h->movement = movement;
        h->moved_ns = now;
        h->nreports = 0;
        h->report_at_ns = now + limit_ns();
        for (int i = 0; i < h->nlate && i < REPORTS; i++)
            h->report_at_ns += (h->report_at_ns - now) * (REPORT_FACTOR - 1);
    }
    if (!oldest || now - oldest < limit_ns() || now < h->report_at_ns || h->nreports == REPORTS)
        return;
    enum launch_hang_action action = job->opts->hang.action;
    enum explain_kind kind = explain(job, (double)(now - h->moved_ns) / 1e9,
                                     action == LAUNCH_HANG_STACKS);
    h->nlate += kind == EXPLAIN_LATE;
    if (action == LAUNCH_HANG_ABORT && kind != EXPLAIN_LATE && kind != EXPLAIN_UNKNOWN) {
        launch_report(job,
                      "ending the %d ranks of this deadlock (--hang-action abort); exit code %d",
                      job->nrunning, LAUNCH_EXIT_TIMEOUT);
        launch_end_begin(job, LAUNCH_EXIT_TIMEOUT);
        return;
    }
    h->nreports++;
    h->report_at_ns = h->moved_ns + (h->report_at_ns - h->moved_ns) * REPORT_FACTOR;
    h->look_at_ns = rt_now_ns() + look_every_ns();
}
