/* SPDX-License-Identifier: BSD-3-Clause */
/* Why a job ends (launcher/mpirun/job_end.c): what is reported about ranks whose last messages
 * arrive after their end was seen.  Time advances here only when a test lets it. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "launcher/abi/abi.h"
#include "launcher/host/server.h"
#include "launcher/host/spawn.h"
#include "launcher/job.h"
#include "launcher/mpirun/deaths.h"
#include "launcher/mpirun/family.h"
#include "launcher/mpirun/job_end.h"
#include "launcher/mpirun/head.h"
#include "launcher/mpirun/forward.h"
#include "test/check.h"

enum { N = 3 };
static struct launch_rank ranks[N];
static struct launch_app app;
static struct launch_opts opts;
static struct launch_job job;
static char said[2048];

void launch_io_print(const char *text) { snprintf(said, sizeof said, "%s", text); }
void launch_io_drain(struct launch_job *j, struct launch_rank *r) { (void)j, (void)r; }
void launch_signal_local(const struct launch_job *j, int sig) { (void)j, (void)sig; }
static int published[8], npublished;
void launch_server_died(const char *nspace, int rank)
{
    (void)nspace;
    published[npublished++] = rank;
}
void head_died(struct head *h, const char *nspace, int rank) { (void)h, (void)nspace, (void)rank; }
void family_died(struct launch_job *j, const char *nspace, int rank)
{
    (void)j, (void)nspace, (void)rank;
}
void head_signal(struct head *h, int sig) { (void)h, (void)sig; }

static uint64_t now_ns = 1000000000u;

/* Replaces the C library's function. */
int clock_gettime(clockid_t id, struct timespec *t)
{
    (void)id;
    *t = (struct timespec){ (time_t)(now_ns / 1000000000u), (long)(now_ns % 1000000000u) };
    return 0;
}

static void begin(void)
{
    static char *argv[] = { "program", NULL };

    memset(ranks, 0, sizeof ranks);
    app = (struct launch_app){ .argv = { argv, 1 } };
    opts = (struct launch_opts){ .apps = &app, .napps = 1 };
    job = (struct launch_job){ .opts = &opts, .n = N, .total = N, .ranks = ranks, .nrunning = N };
    for (int i = 0; i < N; i++) {
        ranks[i] = (struct launch_rank){ .rank = i, .pid = 1000 + i, .running = true };
        launch_end_event(&job, &(struct launch_event){ .kind = LAUNCH_CONNECTED, .rank = i });
    }
    *said = '\0';
}

static void loses_connection(int rank)
{
    now_ns += 1000;
    launch_end_event(&job, &(struct launch_event){ .kind = LAUNCH_LOST, .rank = rank });
}

static void leaves(int rank) /* with code 0 */
{
    ranks[rank].running = false;
    ranks[rank].reported = true;
    job.nrunning--;
    launch_end_exited(&job, &ranks[rank]);
}

static void goodbye(int rank)
{
    launch_end_event(&job, &(struct launch_event){ .kind = LAUNCH_FINALIZED, .rank = rank });
}

static void wait_long(void)
{
    for (int i = 0; i < 100 && job.suspect && !job.ending; i++) {
        now_ns += 10000000;
        launch_end_check(&job);
    }
}

static void late_goodbyes_are_heard(void)
{
    begin();
    for (int i = 0; i < N; i++)
        leaves(i);
    launch_end_check(&job); /* all have ended: no reason to wait */
    CHECK(!job.ending);
    for (int i = 0; i < N; i++)
        goodbye(i);
    wait_long();
    CHECK(!job.ending && !job.suspect && !*said);
}

static void the_one_without_is_named(void)
{
    for (int silent = 0; silent < N; silent++) {
        char name[24];
        begin();
        for (int i = 0; i < N; i++)
            leaves(i);
        for (int i = 0; i < N; i++)
            if (i != silent)
                goodbye(i);
        wait_long();
        CHECK(!job.ending); /* PMIx may not have read its goodbye yet */
        loses_connection(silent);
        wait_long();
        snprintf(name, sizeof name, "rank %d ", silent);
        CHECK(job.ending);
        CHECK_EQ(job.exit_code, LAUNCH_EXIT_FAIL);
        CHECK_MSG(strstr(said, name) && strstr(said, "without calling MPI_Finalize"), "%s", said);
    }
}

/* PMIx reads the end of a rank's connection before the rank itself ends. */
static void the_lost_one_is_named_at_its_end(void)
{
    begin();
    loses_connection(1);
    CHECK(!job.suspect);
    leaves(1);
    wait_long();
    CHECK(job.ending);
    CHECK_EQ(job.exit_code, LAUNCH_EXIT_FAIL);
    CHECK_MSG(strstr(said, "rank 1 "), "%s", said);
}

/* PMIx never reports the end of the connection. */
static void the_one_without_is_named_after_a_minute(void)
{
    begin();
    for (int i = 0; i < N; i++)
        leaves(i);
    goodbye(0);
    goodbye(2);
    now_ns += 59000000000u;
    launch_end_check(&job);
    CHECK(!job.ending);
    now_ns += 2000000000u;
    wait_long();
    CHECK(job.ending);
    CHECK_MSG(strstr(said, "rank 1 "), "%s", said);
}

/* A suspicion of another kind is not withdrawn by a goodbye. */
static void a_failure_stays(void)
{
    begin();
    ranks[1].status = 7 << 8;
    leaves(1);
    goodbye(1);
    wait_long();
    CHECK_EQ(job.exit_code, 7);
}

static void aborts(int rank, int code)
{
    launch_end_event(&job,
                     &(struct launch_event){ .kind = LAUNCH_ABORT, .rank = rank, .code = code });
}

static void exits(int rank, int code)
{
    ranks[rank].status = code << 8;
    leaves(rank);
}

/* The end of the peer is the reason, although the abort of the rank that lost it is known first. */
static void the_lost_peer_is_named(void)
{
    begin();
    aborts(0, 58); /* MPI_ERR_PROC_ABORTED */
    exits(0, 58);
    exits(1, 3);
    aborts(2, 58);
    wait_long();
    CHECK_EQ(job.exit_code, 3);
    CHECK_MSG(strstr(said, "rank 1 "), "%s", said);

    begin();
    aborts(0, 58); /* nothing else is ever known */
    exits(0, 58);
    wait_long();
    CHECK_EQ(job.exit_code, 58);

    begin();
    aborts(0, 7); /* an abort of another kind has its own reason */
    exits(0, 7);
    exits(1, 3);
    wait_long();
    CHECK_EQ(job.exit_code, 7);
}

/* PMIx answers the fence of rank 0 when the connection of rank 1 has ended. */
static void the_first_to_leave_is_named(void)
{
    for (int code = 0; code < 8; code += 7)
        for (int late = 0; late < 3; late++) {
            begin();
            loses_connection(1);
            if (late == 0)
                exits(0, 99);
            loses_connection(0);
            if (late > 0)
                exits(0, 99);
            now_ns += late > 1 ? 60000000 : 10000000;
            launch_end_check(&job);
            CHECK(!job.ending);
            exits(1, code);
            wait_long();
            CHECK_EQ(job.exit_code, code ? code : LAUNCH_EXIT_FAIL);
            CHECK_MSG(strstr(said, "rank 1 "), "%s", said);
        }
}

/* The last messages of rank 1 are read after both ranks have ended, and a while later if no rank
 * runs any more. */
static void the_first_to_leave_is_named_late(void)
{
    for (int all = 0; all < 2; all++) {
        begin();
        if (all) {
            leaves(2);
            goodbye(2);
        }
        exits(0, 99);
        exits(1, 0);
        for (int i = 0; i < 2 * all; i++) {
            launch_end_check(&job);
            CHECK(!job.ending);
            now_ns += 100000000;
        }
        loses_connection(1);
        loses_connection(0);
        wait_long();
        CHECK_EQ(job.exit_code, LAUNCH_EXIT_FAIL);
        CHECK_MSG(strstr(said, "rank 1 "), "%s", said);
    }
}

/* PMIx notices the ends of both connections at once, in the other order, before or after the ends
 * of the ranks. */
static void the_silent_of_two_is_named(void)
{
    for (int early = 0; early < 3; early++) {
        begin();
        leaves(2);
        goodbye(2);
        for (int i = 0; i < early; i++)
            loses_connection(i);
        exits(1, 0);
        exits(0, 9);
        for (int i = early; i < 2; i++) {
            launch_end_check(&job);
            loses_connection(i);
        }
        wait_long();
        CHECK_EQ(job.exit_code, LAUNCH_EXIT_FAIL);
        CHECK_MSG(strstr(said, "rank 1 "), "%s", said);
    }
}

/* Long before another leaves with code 0. */
static void the_first_to_fail_is_named(void)
{
    begin();
    loses_connection(0);
    now_ns += 200000000;
    loses_connection(1);
    exits(1, 0);
    launch_end_check(&job);
    exits(0, 9);
    wait_long();
    CHECK_EQ(job.exit_code, 9);
    CHECK_MSG(strstr(said, "rank 0 "), "%s", said);
}

/* Nothing is reported about the connections. */
static void a_failure_of_all_is_reported_in_time(void)
{
    uint64_t began;

    begin();
    began = now_ns;
    for (int i = 0; i < N; i++)
        exits(i, 5);
    wait_long();
    CHECK_EQ(job.exit_code, 5);
    CHECK(now_ns - began < 500000000);
}

/* Rank 1 has closed its connection and continues. */
static void a_failure_is_reported_in_time(void)
{
    uint64_t began;

    begin();
    began = now_ns;
    loses_connection(1);
    exits(0, 5);
    wait_long();
    CHECK_EQ(job.exit_code, 5);
    CHECK(now_ns - began < 500000000);
}

/* Rank 0 has left MPI, but the message arrives after the failure of rank 1. */
static void a_failure_beside_a_late_goodbye_is_reported(void)
{
    begin();
    exits(0, 0);
    exits(1, 7);
    goodbye(0);
    wait_long();
    CHECK_EQ(job.exit_code, 7);
    CHECK_MSG(strstr(said, "rank 1 "), "%s", said);
}

static void loaded(int rank, const char *path)
{
    struct launch_event e = { .kind = LAUNCH_LOADED, .rank = rank };
    snprintf(e.text, sizeof e.text, "%s", path);
    ranks[rank].connected = false;
    launch_end_event(&job, &e);
}

static bool advised(const char *path, int abi, const char *advice)
{
    begin();
    opts.abi = abi;
    loaded(1, path);
    launch_end_other(&job);
    return strstr(said, "1 of 3 ranks loaded ") && strstr(said, path) && strstr(said, advice);
}

/* One message at the end, which says what to type; none if the rank connects after all. */
static void another_mpi(void)
{
    CHECK(advised("/usr/lib/libmpi.so.40.30.4", ABI_AUTO, "--abi=ompi"));
    CHECK(advised("/opt/libmpi.so.12.1.13", ABI_AUTO, "--abi=mpich"));
    CHECK(advised("/opt/libmpi.so.12", ABI_NONE, "omit --abi=none"));
    CHECK(advised("/opt/libmpi.so.40", ABI_OMPI, "LD_PRELOAD"));
    CHECK(advised("/opt/libmpi.so.1", ABI_AUTO, "mpicc"));
    begin();
    for (int i = 0; i < N; i++)
        loaded(i, i ? "/second/libmpi.so.40" : "/first/libmpi.so.40");
    CHECK_STR(said, "");
    launch_end_event(&job, &(struct launch_event){ .kind = LAUNCH_CONNECTED, .rank = 2 });
    launch_end_other(&job);
    CHECK(strstr(said, "2 of 3 ranks loaded /first/libmpi.so.40, "));
    begin();
    loaded(0, "/first/libmpi.so.40");
    launch_end_event(&job, &(struct launch_event){ .kind = LAUNCH_CONNECTED, .rank = 0 });
    launch_end_other(&job);
    CHECK_STR(said, "");
}

static void begin_ft(void)
{
    begin();
    opts.ft = true;
    npublished = 0;
}

/* mpirun --ft: deaths are published, and the job continues. */
static void deaths_do_not_end_the_job(void)
{
    begin_ft();
    ranks[2].status = 9; /* SIGKILL */
    leaves(2);
    exits(1, 3);
    wait_long();
    CHECK(!job.ending && !job.suspect);
    CHECK(npublished == 2 && published[0] == 2 && published[1] == 1);
    goodbye(0);
    exits(0, 4);
    CHECK_EQ(job.ndied, 2);
    CHECK_EQ(launch_deaths_end(&job), 4);
    CHECK_MSG(strstr(said, "rank 1 ") && strstr(said, "exit code 3"), "%s", said);
}

/* A rank without MPI_Finalize has died when it is certain that none will be reported. */
static void a_silent_end_is_a_death(void)
{
    begin_ft();
    exits(1, 0);
    exits(2, 0);
    CHECK_EQ(npublished, 0);
    goodbye(2);
    loses_connection(1);
    wait_long();
    CHECK(!job.ending && npublished == 1 && published[0] == 1);
    goodbye(0);
    exits(0, 0);
    CHECK_EQ(launch_deaths_end(&job), 0);
}

static void the_first_death_counts_if_all_die(void)
{
    begin_ft();
    exits(1, 5);
    exits(0, 6);
    exits(2, 7);
    CHECK_EQ(launch_deaths_end(&job), 5);
}

/* MPI_Abort, or an error handler that ends the job, ends it with --ft, too. */
static void an_abort_ends_the_job(void)
{
    begin_ft();
    exits(1, 5);
    aborts(0, 8);
    exits(0, 8);
    wait_long();
    CHECK(job.ending);
    CHECK_EQ(launch_deaths_end(&job), 8);
    CHECK_EQ(job.ndied, 1);
}

int main(void)
{
    RUN(late_goodbyes_are_heard);
    RUN(the_one_without_is_named);
    RUN(the_lost_one_is_named_at_its_end);
    RUN(the_one_without_is_named_after_a_minute);
    RUN(a_failure_stays);
    RUN(the_lost_peer_is_named);
    RUN(the_first_to_leave_is_named);
    RUN(the_first_to_leave_is_named_late);
    RUN(the_silent_of_two_is_named);
    RUN(the_first_to_fail_is_named);
    RUN(a_failure_of_all_is_reported_in_time);
    RUN(a_failure_is_reported_in_time);
    RUN(a_failure_beside_a_late_goodbye_is_reported);
    RUN(another_mpi);
    RUN(deaths_do_not_end_the_job);
    RUN(a_silent_end_is_a_death);
    RUN(the_first_death_counts_if_all_die);
    RUN(an_abort_ends_the_job);
    return check_end();
}
