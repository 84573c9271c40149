/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs as their published waits would look, for tests of the explanations. */
#ifndef TEST_UNIT_EXPLAIN_JOB_H
#define TEST_UNIT_EXPLAIN_JOB_H

#include "launcher/explain/explain.h"
#include "test/check.h"

#define SECOND 1000000000ull

static struct explain_job job;
static struct explain_rank *ranks;
static struct explain_wait *waits;
static int room; /* waits of a rank */
static char text[8192];
static struct explain_verdict verdict;

/* n ranks that wait in MPI for nothing yet, with up to `max` waits each. */
static inline void begin(int n, int max)
{
    free(ranks);
    free(waits);
    ranks = calloc((size_t)n, sizeof *ranks);
    waits = calloc((size_t)n * (size_t)max, sizeof *waits);
    room = max;
    for (int r = 0; r < n; r++)
        ranks[r] = (struct explain_rank){ .rank = r,
                                          .host = "n0",
                                          .pid = 1000 + r,
                                          .detail = "",
                                          .cpu = -1,
                                          .place = "",
                                          .function = "",
                                          .now_ns = 100 * SECOND,
                                          .published = true,
                                          .use = 1,
                                          .last_call = "",
                                          .waits = &waits[(size_t)r * (size_t)max] };
    job = (struct explain_job){ ranks, n, n, 30 };
}

static inline struct rt_wait_note *add(int r, const char *call, int kind, const char *place)
{
    struct explain_wait *w = &waits[(size_t)r * (size_t)room + (size_t)ranks[r].nwaits++];
    struct rt_wait_note *n = &w->note;
    w->place = place;
    w->function = "main";
    n->since_ns = 69 * SECOND;
    snprintf(n->call, sizeof n->call, "%s", call);
    n->item = (struct rt_wait_item){ (uint32_t)kind, 2, -9, RT_WAIT_NOBODY, 0, 0, 0 };
    n->comm = (struct rt_wait_comm){ .ctx = 2, .size = job.total, .rank = r, .nruns = 1 };
    n->comm.runs[0].stride = 1;
    n->comm.runs[0].count = job.total;
    n->root = -1;
    snprintf(n->comm.name, sizeof n->comm.name, "MPI_COMM_WORLD");
    return n;
}

static inline struct rt_wait_item item(int kind, int peer, int tag, int64_t nbytes)
{
    return (struct rt_wait_item){ (uint32_t)kind, 2, peer, peer, tag, 0, nbytes };
}

static inline struct rt_wait_note *recv_from(int r, int peer, int tag)
{
    struct rt_wait_note *n = add(r, "MPI_Recv", RT_WAIT_RECV, "hang.c:15");
    n->item = item(RT_WAIT_RECV, peer, tag, 4);
    return n;
}

static inline struct rt_wait_note *coll(int r, const char *call, const char *what, uint64_t number)
{
    struct rt_wait_note *n = add(r, call, RT_WAIT_COLL, "hang.c:19");
    n->number = number;
    n->item.nbytes = 4;
    snprintf(n->what, sizeof n->what, "%s", what);
    return n;
}

static inline struct rt_wait_note *finalize(int r)
{
    struct rt_wait_note *n = add(r, "MPI_Finalize", RT_WAIT_FINALIZE, "hang.c:50");
    n->comm = (struct rt_wait_comm){ 0 };
    return n;
}

static inline void unexpected(struct rt_wait_note *n, int from, int tag, int64_t nbytes)
{
    n->unex[n->nunex++] = item(RT_WAIT_SEND, from, tag, nbytes);
}

static inline void on_comm(struct rt_wait_note *n, uint32_t ctx, const char *name)
{
    n->comm.ctx = n->item.ctx = ctx;
    snprintf(n->comm.name, sizeof n->comm.name, "%s", name);
}

static inline void computes(int r)
{
    ranks[r].state = EXPLAIN_RUNNING;
    ranks[r].cpu = 1;
    ranks[r].place = "chem.f90:77";
    ranks[r].function = "step_chem";
    ranks[r].last_call = "MPI_Waitall";
    ranks[r].left_ns = 67 * SECOND;
}

/* The text; and each line is shorter than the limit of a screen, and there are at most 12. */
static inline const char *explain(void)
{
    CHECK_EQ(explain_judge(&job, &verdict), 0);
    FILE *f = fmemopen(text, sizeof text, "w");
    explain_print(&job, &verdict, f);
    fclose(f);
    explain_verdict_fini(&verdict);
    int lines = 0;
    for (const char *p = text; *p; p++)
        lines += *p == '\n';
    CHECK_MSG(lines <= 12, "%d lines", lines);
    return text;
}

#endif
