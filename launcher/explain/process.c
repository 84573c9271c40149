/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads /proc/PID/stat, syscall and wchan.  The last two need the right to trace the process. */
#include "launcher/explain/process.h"
#include "runtime/base/clock.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALL(name) \
    { \
        SYS_##name, #name \
    }
/* System calls in which programs wait. */
static const struct {
    long number;
    const char *name;
} calls[] = {
    CALL(read),        CALL(write),      CALL(readv),         CALL(writev),
    CALL(pread64),     CALL(pwrite64),   CALL(ppoll),         CALL(pselect6),
    CALL(epoll_pwait), CALL(futex),      CALL(nanosleep),     CALL(clock_nanosleep),
    CALL(wait4),       CALL(waitid),     CALL(recvfrom),      CALL(recvmsg),
    CALL(sendto),      CALL(sendmsg),    CALL(accept),        CALL(accept4),
    CALL(connect),     CALL(openat),     CALL(close),         CALL(fsync),
    CALL(fdatasync),   CALL(ftruncate),  CALL(fallocate),     CALL(flock),
    CALL(fcntl),       CALL(ioctl),      CALL(munmap),        CALL(io_getevents),
    CALL(msgrcv),      CALL(semtimedop), CALL(rt_sigsuspend), CALL(rt_sigtimedwait),
#ifdef SYS_poll /* newer architectures have only their successors */
    CALL(poll),        CALL(select),     CALL(epoll_wait),    CALL(pause),
    CALL(open),
#endif
};

/* Reads the first line of /proc/PID/task/TID/NAME, or of /proc/PID/NAME if tid is 0. */
static bool read_line(pid_t pid, pid_t tid, const char *name, char *line, int len)
{
    char path[80];
    if (tid)
        snprintf(path, sizeof path, "/proc/%d/task/%d/%s", (int)pid, (int)tid, name);
    else
        snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    FILE *f = fopen(path, "re");
    bool good = f && fgets(line, len, f);
    if (f)
        fclose(f);
    return good;
}

/* The state's letter and the processor time; '\0': it has gone. */
static char read_stat(pid_t pid, pid_t tid, uint64_t *cpu_ns)
{
    char line[1024], state = '\0';
    unsigned long user = 0, kernel = 0;
    const char *rest; /* behind the name, which may contain anything */
    if (!read_line(pid, tid, "stat", line, sizeof line) || !(rest = strrchr(line, ')')))
        return '\0';
    sscanf(rest + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &state, &user, &kernel);
    if (cpu_ns)
        *cpu_ns = (uint64_t)(user + kernel) * (1000000000u / (unsigned long)sysconf(_SC_CLK_TCK));
    return state;
}

/* Names the system call in which the thread waits. */
static void read_call(pid_t pid, pid_t tid, char *call, size_t len)
{
    char line[256];
    long number = -1;
    if (read_line(pid, tid, "syscall", line, sizeof line) && sscanf(line, "%ld", &number) == 1)
        for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
            if (calls[i].number == number) {
                snprintf(call, len, "%s", calls[i].name);
                return;
            }
    if (read_line(pid, tid, "wchan", line, sizeof line) && strcmp(line, "0"))
        snprintf(call, len, "%.*s", (int)strcspn(line, "\n"), line);
    else if (number >= 0)
        snprintf(call, len, "system call %ld", number);
}

/* Counts the threads.  A main thread that has ended leaves its place to `*first_p`, the first one
 * that lives. */
static void read_threads(pid_t pid, struct explain_process *out, pid_t *first_p)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *d = opendir(path);
    for (const struct dirent *e; d && (e = readdir(d));) {
        pid_t tid = (pid_t)atoi(e->d_name);
        char state = tid > 0 ? read_stat(pid, tid, NULL) : '\0';
        if (!state)
            continue;
        out->nthreads++;
        out->nrunning += state == 'R';
        if (!*first_p && state != 'Z' && state != 'X')
            *first_p = tid;
    }
    if (d)
        closedir(d);
}

void explain_process_read(pid_t pid, pid_t tid, struct explain_process *out)
{
    pid_t first = tid;
    *out = (struct explain_process){ .at_ns = rt_now_ns() };
    char state = read_stat(pid, tid, &out->cpu_ns);
    read_threads(pid, out, &first);
    if (state == 'Z' && !tid && first)
        state = read_stat(pid, first, NULL);
    out->uninterruptible = state == 'D';
    switch (state) {
    case '\0':
        break;
    case 'R':
        out->state = PROCESS_RUNNING;
        break;
    case 'T':
        out->state = PROCESS_STOPPED;
        break;
    case 't':
        out->state = PROCESS_TRACED;
        break;
    case 'Z':
    case 'X':
        out->state = PROCESS_ZOMBIE;
        break;
    default:
        read_call(pid, first, out->call, sizeof out->call);
        out->state = *out->call && !strstr(out->call, "nanosleep") ? PROCESS_BLOCKED
                                                                   : PROCESS_SLEEPING;
    }
}

double explain_process_share(const struct explain_process *before,
                             const struct explain_process *after)
{
    if (after->at_ns <= before->at_ns || after->cpu_ns <= before->cpu_ns)
        return 0;
    return (double)(after->cpu_ns - before->cpu_ns) / (double)(after->at_ns - before->at_ns);
}
