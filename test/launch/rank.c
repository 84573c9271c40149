/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that does what its arguments say, in order, for the tests of the launcher.  It uses
 * runtime/boot, not MPI, so that a failure here is the launcher's.  "R:word": for rank R only.
 *
 *   init fini fence abort=N   the calls of boot.h
 *   exit=N kill=SIG           end so
 *   cut                       close all descriptors but the standard ones
 *   sleep=MS await=PATH      wait so long, or until there is such a file
 *   say=TEXT err=TEXT         on stdout, on stderr; %r is the rank; without a newline
 *   lines=N                   so many numbered lines on stdout
 *   cat                       stdin to stdout
 *   env=NAME cwd cpus size    print that
 *   argv                      prints all words; those that follow mean nothing
 *   heap                      prints the bytes that are allocated
 *   term=MS                   on SIGTERM print a line and exit MS milliseconds later; -1: ignore it
 *   child                     leave a child in the background that sleeps and holds stdout
 *   exchange                  put, get of every rank, compare
 *   late=MS                   the same in two steps, the second MS milliseconds after the first
 *   crowd=MS                  many threads at once get a key each of all ranks, which are put MS
 *                             milliseconds later
 *   miss                      get what the last rank never puts
 *   segment                   make the file of the node segment, as MPI_Init does
 *   publish=NAME              publish a name, for which grow.c can wait */
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/boot/boot.h"
#include "runtime/mem/segment.h"

#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int term_ms;

static void on_term(int sig)
{
    static const char text[] = "terminated\n";
    (void)sig;
    if (write(1, text, sizeof text - 1) < 0)
        _exit(1);
    usleep((useconds_t)term_ms * 1000);
    _exit(0);
}

static int my_rank(void)
{
    const char *rank = getenv("PMIX_RANK") ? getenv("PMIX_RANK") : getenv("PMI_RANK");
    return rank ? (int)strtol(rank, NULL, 10) : 0;
}

static void sleep_ms(long ms)
{
    struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
    nanosleep(&t, NULL);
}

static void say(FILE *f, const char *text)
{
    for (; *text; text++)
        if (!strncmp(text, "%r", 2))
            fprintf(f, "%d", my_rank()), text++;
        else
            fputc(*text, f);
    fflush(f);
}

/* Long lines with a check sum of their own: the rank and the number again at the end. */
static void print_lines(long n)
{
    char fill[64];
    memset(fill, 'a' + my_rank() % 26, sizeof fill - 1);
    fill[sizeof fill - 1] = '\0';
    for (long i = 0; i < n; i++)
        printf("%d %ld %.*s %d %ld\n", my_rank(), i, (int)(i % 60), fill, my_rank(), i);
    fflush(stdout);
}

static void copy_stdin(void)
{
    char buf[4096];
    size_t n;
    while ((n = fread(buf, 1, sizeof buf, stdin)) > 0)
        fwrite(buf, 1, n, stdout);
    fflush(stdout);
}

static void leave_child(void)
{
    if (fork() == 0) {
        sleep_ms(60000);
        _exit(0);
    }
}

static void print_cpus(void)
{
    cpu_set_t set;
    printf("rank %d:", my_rank());
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        for (int i = 0; i < CPU_SETSIZE; i++)
            if (CPU_ISSET(i, &set))
                printf(" %d", i);
    printf(" ncpus %d\n", rt_boot.ncpus);
    fflush(stdout);
}

/* Each rank publishes what only it knows and reads it from all others. */
static int exchange(void)
{
    char mine[32];
    snprintf(mine, sizeof mine, "card of rank %d", rt_boot.rank);
    if (rt_boot_put("test.card", mine, strlen(mine) + 1) < 0 || rt_boot_commit() < 0 ||
        rt_boot_complete() < 0)
        return 1;
    for (int r = 0; r < rt_boot.size; r++) {
        struct rt_proc peer = { 0, (uint32_t)r };
        size_t len;
        void *val;
        snprintf(mine, sizeof mine, "card of rank %d", r);
        if (r == rt_boot.rank)
            continue;
        if (rt_boot_get(peer, "test.card", &val, &len, 10) < 0 || len != strlen(mine) + 1 ||
            strcmp(val, mine))
            return 1;
        free(val);
    }
    struct rt_proc nobody = { 0, (uint32_t)rt_boot.size };
    size_t len;
    void *val;
    return rt_boot_get(nobody, "test.card", &val, &len, 1) == -RT_ENOENT ? 0 : 1;
}

/* The second of two values that are committed apart: a peer that asks in between waits for it. */
static int exchange_late(long ms)
{
    void *val = NULL;
    size_t len;
    if (rt_boot_put("test.first", "a", 2) < 0 || rt_boot_commit() < 0)
        return 1;
    sleep_ms(ms);
    if (rt_boot_put("test.second", &rt_boot.rank, sizeof rt_boot.rank) < 0 || rt_boot_commit() < 0)
        return 1;
    for (int r = 0; r < rt_boot.size; r++) {
        struct rt_proc peer = { 0, (uint32_t)r };
        if (r == rt_boot.rank)
            continue;
        if (rt_boot_get(peer, "test.second", &val, &len, 10) < 0 || len != sizeof r ||
            memcmp(val, &r, len))
            return 1;
        free(val);
    }
    return 0;
}

enum { NTHREADS = 8 };

/* A thread that gets the keys of all ranks, in an order of its own; returns NULL if all answers
 * were right. */
static void *ask_all(void *arg)
{
    int i = (int)(intptr_t)arg - 1;
    char key[32];
    snprintf(key, sizeof key, "test.k%d", i);
    for (int k = 0; k < rt_boot.size; k++) {
        struct rt_proc peer = { 0, (uint32_t)((k + i) % rt_boot.size) };
        void *val;
        size_t len;
        if ((int)peer.rank == rt_boot.rank)
            continue;
        int err = rt_boot_get(peer, key, &val, &len, 20);
        int got = !err && len == sizeof got ? *(int *)val : -1;
        if (got != i * 1000 + (int)peer.rank) {
            fprintf(stderr, "rank %d: %s of rank %u: error %d, value %d\n", rt_boot.rank, key,
                    peer.rank, err, got);
            return arg;
        }
        free(val);
    }
    return NULL;
}

static int publish_keys(void)
{
    for (int i = 0; i < NTHREADS; i++) {
        char key[32];
        int val = i * 1000 + rt_boot.rank;
        snprintf(key, sizeof key, "test.k%d", i);
        if (rt_boot_put(key, &val, sizeof val) < 0)
            return 1;
    }
    return rt_boot_commit() < 0;
}

/* All threads ask before anything is there. */
static int exchange_crowd(long ms)
{
    pthread_t threads[NTHREADS];
    int bad;
    for (int i = 0; i < NTHREADS; i++)
        if (pthread_create(&threads[i], NULL, ask_all, (void *)(intptr_t)(i + 1)))
            return 1;
    sleep_ms(ms);
    bad = publish_keys();
    for (int i = 0; i < NTHREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        bad |= wrong != NULL;
    }
    return bad;
}

static int make_segment(void)
{
    char path[4096];
    if (rt_cfg_load() < 0)
        return 1;
    rt_node_name(rt_boot.nspace, rt_boot.node, path, sizeof path);
    FILE *f = fopen(path, "a");
    return !f || fclose(f);
}

static int miss(void)
{
    struct rt_proc last = { 0, (uint32_t)rt_boot.size - 1 };
    void *val;
    size_t len;
    int err = rt_boot.rank + 1 < rt_boot.size ? rt_boot_get(last, "test.nothing", &val, &len, 1)
                                              : -RT_ETIMEOUT;
    if (err != -RT_ETIMEOUT && err != -RT_ENOENT)
        fprintf(stderr, "rank %d: a key that is not there: %d\n", rt_boot.rank, err);
    return err != -RT_ETIMEOUT && err != -RT_ENOENT;
}

static int boot_init(void)
{
    if (rt_cfg_load() < 0 || rt_boot_init() < 0)
        return 1;
    rt_log_identify(rt_boot.host, rt_boot.rank);
    return rt_boot.rank == my_rank() &&
                   rt_boot.local_procs[rt_boot.local_rank] == (uint32_t)rt_boot.rank &&
                   rt_boot_local((uint32_t)rt_boot.rank) == rt_boot.local_rank && rt_boot.ncpus > 0
               ? 0
               : 1;
}

/* Value of "name=value" when the word has this name, else NULL; "" when there is no value. */
static const char *value_of(const char *word, const char *name)
{
    size_t len = strlen(name);
    return strncmp(word, name, len) ? NULL
           : word[len] == '='       ? word + len + 1
           : word[len]              ? NULL
                                    : "";
}

static void print_words(int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        printf("<%s>%s", argv[i], i + 1 < argc ? " " : "\n");
    exit(0);
}

/* By the signal's default action: sanitizers catch some. */
static void die_by(int sig)
{
    signal(sig, SIG_DFL);
    raise(sig);
    sleep_ms(10000); /* SIGKILL need not have arrived yet */
}

static int act(const char *w, int argc, char **argv)
{
    const char *v;
    if (value_of(w, "init"))
        return boot_init();
    if (value_of(w, "fini"))
        rt_boot_fini();
    else if (value_of(w, "fence"))
        return rt_boot_fence() < 0;
    else if (value_of(w, "exchange"))
        return exchange();
    else if (value_of(w, "segment"))
        return make_segment();
    else if (value_of(w, "miss"))
        return miss();
    else if ((v = value_of(w, "late")))
        return exchange_late(strtol(v, NULL, 10));
    else if ((v = value_of(w, "crowd")))
        return exchange_crowd(strtol(v, NULL, 10));
    else if ((v = value_of(w, "publish")))
        return rt_boot_publish(v, "1") < 0;
    else if ((v = value_of(w, "abort")))
        rt_boot_abort((int)strtol(v, NULL, 10), "as the test wanted");
    else if (value_of(w, "cut"))
        close_range(3, ~0U, 0); /* as programs do that make themselves daemons */
    else if ((v = value_of(w, "exit")))
        _exit((int)strtol(v, NULL, 10));
    else if ((v = value_of(w, "kill")))
        die_by((int)strtol(v, NULL, 10));
    else if ((v = value_of(w, "sleep")))
        sleep_ms(strtol(v, NULL, 10));
    else if ((v = value_of(w, "await")))
        while (access(v, F_OK) < 0)
            sleep_ms(10);
    else if ((v = value_of(w, "say")))
        say(stdout, v);
    else if ((v = value_of(w, "err")))
        say(stderr, v);
    else if ((v = value_of(w, "lines")))
        print_lines(strtol(v, NULL, 10));
    else if (value_of(w, "heap"))
        printf("%zu\n", mallinfo2().uordblks);
    else if (value_of(w, "cat"))
        copy_stdin();
    else if ((v = value_of(w, "env")))
        printf("%d %s=%s\n", my_rank(), v, getenv(v) ? getenv(v) : "(unset)");
    else if (value_of(w, "cwd"))
        printf("%s\n", getcwd((char[4096]){ 0 }, 4096));
    else if (value_of(w, "cpus"))
        print_cpus();
    else if (value_of(w, "size"))
        printf("%d of %d, local %d of %d, app %d, universe %d\n", rt_boot.rank, rt_boot.size,
               rt_boot.local_rank, rt_boot.local_size, rt_boot.appnum, rt_boot.universe_size);
    else if (value_of(w, "argv"))
        print_words(argc, argv);
    else if (value_of(w, "child"))
        leave_child();
    else if ((v = value_of(w, "term"))) {
        term_ms = (int)strtol(v, NULL, 10);
        signal(SIGTERM, term_ms < 0 ? SIG_IGN : on_term);
    } else {
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        char *end, *word = argv[i];
        long r = strtol(word, &end, 10);
        if (end != word && *end == ':') {
            if (r != my_rank())
                continue;
            word = end + 1;
        }
        fflush(stdout);
        if (act(word, argc, argv)) {
            fprintf(stderr, "rank %d: %s failed\n", my_rank(), word);
            return 99;
        }
    }
    return 0;
}
