/* SPDX-License-Identifier: BSD-3-Clause */
/* Lets a rank of a test kill itself during its calls. */
#ifndef TEST_GPU_VICTIM_H
#define TEST_GPU_VICTIM_H

#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Prints the time, for the test that measures how long the job takes to end. */
static void die(int sig)
{
    char line[64];
    struct timespec t;
    int n;

    (void)sig;
    clock_gettime(CLOCK_MONOTONIC, &t);
    n = snprintf(line, sizeof(line), "fault at %lld.%09ld\n", (long long)t.tv_sec, t.tv_nsec);
    if (write(1, line, (size_t)n) < 0)
        _exit(9);
    kill(getpid(), SIGKILL);
}

/* After 200 ms: some calls have completed by then, and one is in progress. */
static void die_soon(void)
{
    struct itimerval t = { { 0, 0 }, { 0, 200000 } };

    signal(SIGALRM, die);
    setitimer(ITIMER_REAL, &t, NULL);
}

#endif
