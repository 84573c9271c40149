/* SPDX-License-Identifier: BSD-3-Clause */
/* The notes of waits in the node segment: another process reads them whole while they are written,
 * threads have notes of their own, and a process without a segment is an error. */
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/frames.h"
#include "runtime/boot/boot.h"
#include "runtime/mem/activity.h"
#include "runtime/mem/segment.h"
#include "test/check.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAIR_NBYTES 4096
#define NREADS 2000 /* of a note that is in use */
#define NWRITES 50  /* of a note, whose begin takes as long as many of them */
#define LIMIT_S 60

/* A writer, in a process of its own, which says by a byte that it has begun. */
static pid_t start(void (*fn)(void), int size)
{
    int ready[2];
    char c;
    CHECK(pipe(ready) == 0);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(LIMIT_S);
        snprintf(rt_boot.nspace, sizeof rt_boot.nspace, "activity.%d", (int)getpid());
        rt_boot.rank = 40; /* of the job */
        rt_boot.local_rank = 0;
        rt_boot.local_size = size;
        rt_boot.size = size;
        if (size && rt_node_open(PAIR_NBYTES) < 0)
            _exit(1);
        (void)!write(ready[1], "", 1);
        fn();
        _exit(0);
    }
    close(ready[1]);
    CHECK(read(ready[0], &c, 1) == 1);
    close(ready[0]);
    return pid;
}

static void stop(pid_t pid)
{
    char nspace[64], path[512];
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    snprintf(nspace, sizeof nspace, "activity.%d", (int)pid);
    rt_node_name(nspace, 0, path, sizeof path);
    unlink(path);
}

static void fill(struct rt_wait_note *n, uint32_t i)
{
    n->comm.ctx = i;
    n->item.tag = (int32_t)i;
    n->number = i;
    for (int k = 0; k < RT_ACTIVITY_STACK; k++)
        n->stack[k] = i;
    snprintf(n->call, sizeof n->call, "MPI_%u", i);
}

static bool is_whole(const struct rt_wait_note *n)
{
    char call[32];
    uint32_t i = n->comm.ctx;
    bool same = n->item.tag == (int32_t)i && n->number == i;
    for (int k = 0; k < RT_ACTIVITY_STACK; k++)
        same = same && n->stack[k] == i;
    snprintf(call, sizeof call, "MPI_%u", i);
    return same && strcmp(call, n->call) == 0;
}

static void write_all_the_time(void)
{
    for (uint32_t i = 1;; i++) {
        struct rt_wait_note *n = rt_activity_begin(i);
        for (uint32_t k = 0; k < NWRITES; k++) {
            if (k > 0)
                rt_activity_change(n);
            fill(n, i + k);
            rt_activity_publish(n);
            for (int pause = 0; pause < 20; pause++)
                rt_relax();
        }
        rt_activity_end(n, i);
    }
}

static void notes_are_read_whole(void)
{
    pid_t pid = start(write_all_the_time, 3);
    struct rt_activity_view v = { 0 };
    struct rt_activity a;
    int torn = 0, seen = 0;
    CHECK(rt_activity_open(pid, &v) == 0 && v.size == 3);
    if (!v.base)
        return;
    for (int i = 1; i < v.size; i++)
        CHECK(!rt_activity_read(&v, i, &a)); /* not attached */
    while (seen < NREADS) {
        CHECK(rt_activity_read(&v, 0, &a));
        seen += a.notes[0].since_ns != 0;
        torn += a.notes[0].since_ns && !is_whole(&a.notes[0]);
    }
    CHECK(a.rank == 40 && a.pid == (uint32_t)pid && a.state == 1);
    CHECK(torn == 0);
    stop(pid);
    /* the picture stays readable after the death of its owner */
    CHECK(rt_activity_read(&v, 0, &a));
    rt_activity_close(&v);
}

static void *hold(void *arg)
{
    struct rt_wait_note *n = rt_activity_begin(7);
    if (n) {
        snprintf(n->call, sizeof n->call, "MPI_Recv");
        rt_activity_publish(n);
    }
    pthread_barrier_wait(arg);
    pthread_barrier_wait(arg);
    rt_activity_end(n, 9);
    return NULL;
}

/* Five threads wait; three are named, and two are counted. */
static void wait_in_threads(void)
{
    pthread_t t[5];
    pthread_barrier_t b;
    pthread_barrier_init(&b, NULL, 6);
    for (int i = 0; i < 5; i++)
        pthread_create(&t[i], NULL, hold, &b);
    pthread_barrier_wait(&b);
    raise(SIGSTOP);
    pthread_barrier_wait(&b);
    for (int i = 0; i < 5; i++)
        pthread_join(t[i], NULL);
    raise(SIGSTOP);
}

static void threads_have_notes_of_their_own(void)
{
    pid_t pid = start(wait_in_threads, 1);
    struct rt_activity_view v = { 0 };
    struct rt_activity a;
    CHECK(waitpid(pid, NULL, WUNTRACED) == pid);
    CHECK(rt_activity_open(pid, &v) == 0); /* alone on its host: memory without a name */
    if (!v.base)
        return;
    CHECK(rt_activity_read(&v, 0, &a));
    for (int i = 0; i < RT_ACTIVITY_NOTES; i++) {
        CHECK(a.notes[i].since_ns == 7 && strcmp(a.notes[i].call, "MPI_Recv") == 0);
        for (int k = 0; k < i; k++)
            CHECK(a.notes[i].tid != a.notes[k].tid);
    }
    CHECK(a.nhidden == 2);
    kill(pid, SIGCONT);
    CHECK(waitpid(pid, NULL, WUNTRACED) == pid);
    CHECK(rt_activity_read(&v, 0, &a));
    CHECK(!a.notes[0].since_ns && !a.notes[1].since_ns && !a.notes[2].since_ns);
    CHECK(a.nhidden == 0);
    CHECK(a.nwaits == RT_ACTIVITY_NOTES && a.left_ns == 9 && strcmp(a.last_call, "MPI_Recv") == 0);
    stop(pid);
    rt_activity_close(&v);
}

static void do_nothing(void) { pause(); }

static void errors(void)
{
    struct rt_activity_view v = { 0 };
    pid_t pid = start(do_nothing, 0);
    CHECK(rt_activity_open(pid, &v) == -RT_ENOTSUP);
    stop(pid);
    CHECK(rt_activity_open(pid, &v) == -RT_ENOTSUP); /* gone */
    rt_activity_close(&v);
    CHECK(rt_activity_begin(1) == NULL); /* this process has no segment */
}

/* This program exports nothing, so there is no name; its caller is the C library. */
static void frames(void)
{
    uint64_t at[8];
    char call[32] = "x";
    int n = rt_frames(at, 8, call, sizeof call);
    CHECK(n >= 1 && n <= 8 && call[0] == '\0');
    CHECK(rt_frames(at, 1, call, sizeof call) == 1);
}

int main(void)
{
    cfg.shm_dir = "/dev/shm";
    RUN(notes_are_read_whole);
    RUN(threads_have_notes_of_their_own);
    RUN(errors);
    RUN(frames);
    return check_end();
}
