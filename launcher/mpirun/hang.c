/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks publish waits that are older than a millisecond (runtime/mem/activity.h).  A few times
 * in hang_s this process reads their pages, or asks the agents that do so (head_look.c), which
 * costs the ranks nothing.  While a rank waits and nothing has changed for hang_s, on no host, it
 * prints a picture, and again at 4, 16 and 64 times hang_s.  With WEFT_CHECK it prints a deadlock
 * sooner. */
#include "launcher/mpirun/hang.h"
#include "launcher/explain/collect.h"
#include "launcher/mpirun/head.h"
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
/* WEFT_CHECK: age of a standstill that is reported if it is a deadlock of this host for sure: all
 * ranks sleep, so each has seen all that the others have sent.  No later than a rank notices that a
 * process for which it waits has ended.  Tried again at twice the age, until hang_s. */
#define DEADLOCK_NS 50000000u

/* Why a picture is made. */
enum reason {
    NO_REASON,
    NO_PROGRESS,
    DEADLOCK, /* only if there is one */
    USER,     /* has asked */
    END       /* of --timeout */
};

struct launch_hang {
    struct explain_pages *pages; /* of this host; NULL in a head */
    struct explain_known *known;
    bool looking; /* the current look is not over */
    enum explain_look look;
    enum reason asked, reason;   /* for the next picture; of the current one */
    bool ended;                  /* the picture at the end has been printed */
    uint64_t movement, moved_ns; /* and when it was first seen */
    uint64_t look_at_ns, report_at_ns;
    int nreports;    /* of this standstill */
    uint64_t try_ns; /* age of this standstill at which DEADLOCK is due */
    int nlate;       /* reports of late ranks, in a job that continued */
};

static uint64_t limit_ns(void) { return (uint64_t)cfg.hang_s * 1000000000u; }

/* Whether standstills are reported, and deadlocks ended. */
static bool is_watched(const struct launch_job *job)
{
    return cfg.hang_s && !job->opts->display.quiet && job->nrunning && !job->ending;
}

static bool is_sooner(const struct launch_job *job) { return job->opts->hang.sooner && !job->head; }

static uint64_t look_every_ns(const struct launch_job *job)
{
    uint64_t every = limit_ns() / LOOKS;
    if (is_sooner(job))
        return DEADLOCK_NS;
    return every > FIRST_LOOK_MS * 1000000u ? every : FIRST_LOOK_MS * 1000000u;
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

/* NULL: there is nothing to look at, or no memory. */
static struct launch_hang *get(struct launch_job *job)
{
    struct launch_hang *h = job->hang;
    if (h || !job->ranks || !job->n || !(h = job->hang = calloc(1, sizeof *h)))
        return h;
    if (job->head)
        return h;
    h->pages = explain_pages_new(job->n);
    h->known = calloc((size_t)job->n + 1, sizeof *h->known);
    if (!h->pages || !h->known)
        launch_hang_fini(job);
    return job->hang;
}

/* ---- a picture ---- */

static bool is_standstill(const struct launch_hang *h)
{
    return h->reason == NO_PROGRESS || h->reason == DEADLOCK;
}

static bool is_deadlock(enum explain_kind kind)
{
    return kind != EXPLAIN_LATE && kind != EXPLAIN_UNKNOWN;
}

static bool any_runs(const struct explain_job *picture)
{
    bool any = false;
    for (int i = 0; i < picture->nranks; i++)
        any = any || picture->ranks[i].runs;
    return any;
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

/* Prints the picture, except for the stacks. */
static enum explain_kind print(struct launch_job *job, struct explain_job *picture,
                               const char *missing, const char *lacks)
{
    struct launch_hang *h = job->hang;
    struct explain_verdict v;
    picture->seconds = is_standstill(h) ? (double)(rt_now_ns() - h->moved_ns) / 1e9 : -1;
    if (explain_judge(picture, &v) < 0)
        return EXPLAIN_UNKNOWN;
    enum explain_kind kind = v.kind;
    if (h->reason == DEADLOCK && (!is_deadlock(kind) || any_runs(picture))) {
        kind = EXPLAIN_UNKNOWN;
    } else {
        fflush(stdout);
        explain_print(picture, &v, stderr);
        if (*missing)
            fprintf(stderr, "  (%s)\n", missing);
        if (*lacks)
            fprintf(stderr, "  (%s)\n", lacks);
        if (job->opts->hang.json)
            write_json(job, picture, &v);
    }
    explain_verdict_fini(&v);
    return kind;
}

static void print_rest_of_stacks(const struct launch_job *job)
{
    if (job->n > EXPLAIN_STACKS)
        fprintf(stderr, "and %d further ranks\n", job->n - EXPLAIN_STACKS);
}

static enum explain_kind explain_here(struct launch_job *job, bool stacks)
{
    struct launch_hang *h = job->hang;
    struct explain_picture *p = explain_picture_take(h->pages, h->known, job->host,
                                                     job->total ? job->total : job->n);
    if (!p)
        return EXPLAIN_UNKNOWN;
    while (explain_picture_look_up(p))
        ;
    enum explain_kind kind = print(job, explain_picture_job(p), "", explain_picture_lacks(p));
    while (stacks && explain_picture_stack(p, stderr))
        ;
    if (stacks)
        print_rest_of_stacks(job);
    explain_picture_free(p);
    return kind;
}

static enum explain_kind explain_far(struct launch_job *job, bool stacks)
{
    char missing[400], lacks[400];
    struct explain_merge *m = head_look_pictures(job->head);
    struct explain_job *picture = m ? explain_merge_job(m) : NULL;
    if (!picture)
        return EXPLAIN_UNKNOWN;
    head_look_missing(job->head, missing, sizeof missing);
    explain_merge_lacks(m, lacks, sizeof lacks);
    enum explain_kind kind = print(job, picture, missing, lacks);
    if (stacks) {
        explain_merge_stacks(m, stderr);
        print_rest_of_stacks(job);
    }
    return kind;
}

/* ---- looks ---- */

static bool wants_stacks(const struct launch_job *job)
{
    const struct launch_hang_opts *o = &job->opts->hang;
    return is_standstill(job->hang) ? o->action == LAUNCH_HANG_STACKS : o->stacks;
}

static void begin(struct launch_job *job, enum explain_look kind)
{
    struct launch_hang *h = job->hang;
    h->look = kind;
    h->looking = !job->head || head_look(job->head, kind) == 0;
    if (!job->head && kind == LOOK_MOVEMENT) {
        explain_known_of(job, h->known);
        explain_pages_read(h->pages, h->known);
    }
    h->look_at_ns = rt_now_ns() + look_every_ns(job);
}

/* The movement of all ranks is known: whether it is time for a picture. */
static enum reason is_due(struct launch_job *job)
{
    struct launch_hang *h = job->hang;
    uint64_t now = rt_now_ns(), age, movement;
    if (job->head) {
        movement = head_look_movement(job->head, &age);
    } else {
        uint64_t oldest = explain_pages_oldest_ns(h->pages);
        movement = explain_pages_movement(h->pages);
        age = oldest ? now - oldest : 0;
    }
    if (movement != h->movement || !h->moved_ns) {
        h->movement = movement;
        h->moved_ns = now;
        h->nreports = 0;
        h->try_ns = DEADLOCK_NS;
        h->report_at_ns = now + limit_ns();
        for (int i = 0; i < h->nlate && i < REPORTS; i++)
            h->report_at_ns += (h->report_at_ns - now) * (REPORT_FACTOR - 1);
    }
    if (!is_watched(job) || h->nreports >= REPORTS)
        return NO_REASON;
    if (age >= limit_ns() && now >= h->report_at_ns)
        return NO_PROGRESS;
    if (!is_sooner(job) || h->nreports || age < h->try_ns || now - h->moved_ns < h->try_ns)
        return NO_REASON;
    h->try_ns *= 2;
    return DEADLOCK;
}

/* A report has been printed. */
static void reported(struct launch_job *job, enum explain_kind kind)
{
    struct launch_hang *h = job->hang;
    if (h->reason == DEADLOCK && !is_deadlock(kind))
        return;
    h->nlate += kind == EXPLAIN_LATE;
    if (job->opts->hang.action == LAUNCH_HANG_ABORT && is_deadlock(kind)) {
        launch_report(job,
                      "ending the %d ranks of this deadlock (--hang-action abort); exit code %d",
                      job->nrunning, LAUNCH_EXIT_TIMEOUT);
        launch_end_begin(job, LAUNCH_EXIT_TIMEOUT);
        return;
    }
    h->nreports++;
    h->report_at_ns = h->moved_ns + (h->report_at_ns - h->moved_ns) * REPORT_FACTOR;
}

/* The look is over. */
static void go_on(struct launch_job *job)
{
    struct launch_hang *h = job->hang;
    h->looking = false;
    if (h->look == LOOK_MOVEMENT) {
        enum reason due = is_due(job);
        h->reason = h->asked ? h->asked : due;
        h->asked = NO_REASON;
        if (h->reason)
            begin(job, wants_stacks(job) ? LOOK_STACKS : LOOK_PICTURE);
        return;
    }
    bool stacks = h->look == LOOK_STACKS;
    if (!is_standstill(h) || is_watched(job)) {
        enum explain_kind kind = job->head ? explain_far(job, stacks) : explain_here(job, stacks);
        if (is_standstill(h))
            reported(job, kind);
    }
    h->ended |= h->reason == END;
    h->look_at_ns = rt_now_ns() + look_every_ns(job);
}

static void end_looks(struct launch_job *job)
{
    struct launch_hang *h = job->hang;
    while (h && h->looking && (!job->head || !head_look_until_ns(job->head)))
        go_on(job);
}

uint64_t launch_hang_at_ns(const struct launch_job *job)
{
    const struct launch_hang *h = job->hang;
    if (h && h->looking && job->head)
        return head_look_until_ns(job->head);
    if (!is_watched(job))
        return 0;
    return h && h->look_at_ns ? h->look_at_ns : job->began_ns + look_every_ns(job);
}

void launch_hang_step(struct launch_job *job)
{
    end_looks(job);
    uint64_t at = launch_hang_at_ns(job);
    struct launch_hang *h = job->hang;
    if (h && h->looking)
        return;
    if ((h && h->asked) || (at && rt_now_ns() >= at && get(job))) {
        begin(job, LOOK_MOVEMENT);
        end_looks(job);
    }
}

void launch_hang_explain(struct launch_job *job)
{
    struct launch_hang *h = get(job);
    if (!h)
        return;
    if (h->asked != END)
        h->asked = USER;
    launch_hang_step(job);
}

bool launch_hang_explained(struct launch_job *job)
{
    struct launch_hang *h = get(job);
    if (!h)
        return true;
    if (h->reason != END)
        h->asked = END;
    launch_hang_step(job);
    return h->ended || !h->looking; /* not looking: no memory */
}
