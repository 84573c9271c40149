/* SPDX-License-Identifier: BSD-3-Clause */
/* Half a round trip of one cache line between two processes on the first two processors that this
 * one may use, in microseconds: the least of several short measurements.  No MPI.  bench-compare
 * uses it to find out whether the processors of a virtual machine share a cache at that moment. */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 2000u /* 0.1 to 2 ms */
#define TURNS 5
#define LIMIT_US 5e6 /* the partner has no processor */

struct line {
    _Alignas(128) _Atomic uint32_t value;
};

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void stay_on(int cpu)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static int second_of(const cpu_set_t *set, int *first)
{
    *first = -1;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, set))
            continue;
        if (*first >= 0)
            return cpu;
        *first = cpu;
    }
    return -1;
}

/* Passes the line to and fro; false: the partner does not answer. */
static bool rounds(struct line *mine, struct line *theirs, bool leads, uint32_t base)
{
    double began = now_us();
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        if (leads)
            atomic_store_explicit(&mine->value, base + i, memory_order_release);
        for (uint32_t n = 1; atomic_load_explicit(&theirs->value, memory_order_acquire) != base + i;
             n++)
            if (n % 4096 == 0 && now_us() - began > LIMIT_US)
                return false;
        if (!leads)
            atomic_store_explicit(&mine->value, base + i, memory_order_release);
    }
    return true;
}

static double measure(struct line *mine, struct line *theirs, bool leads)
{
    double least = -1;
    for (uint32_t turn = 0; turn <= TURNS; turn++) {
        double began = now_us();
        if (!rounds(mine, theirs, leads, turn * ROUNDS))
            return -1;
        double us = (now_us() - began) / ROUNDS / 2;
        if (turn && (least < 0 || us < least)) /* the first turn warms up */
            least = us;
    }
    return least;
}

int main(void)
{
    cpu_set_t set;
    int first, second;
    if (sched_getaffinity(0, sizeof set, &set) || (second = second_of(&set, &first)) < 0) {
        fprintf(stderr, "core_pair: needs two processors\n");
        return 77;
    }
    struct line *lines = mmap(NULL, 2 * sizeof *lines, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (lines == MAP_FAILED) {
        perror("core_pair: mmap");
        return 1;
    }
    pid_t child = fork();
    if (child < 0) {
        perror("core_pair: fork");
        return 1;
    }
    stay_on(child ? first : second);
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(measure(lines + 1, lines, false) < 0);
    }
    double us = measure(lines, lines + 1, true);
    waitpid(child, NULL, 0);
    if (us < 0) {
        fprintf(stderr, "core_pair: processor %d does not run\n", second);
        return 1;
    }
    printf("%.4f\n", us);
    return 0;
}
