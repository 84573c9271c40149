/* SPDX-License-Identifier: BSD-3-Clause */
/* The guard: a small process that outlives an mpirun or an agent killed with SIGKILL and cleans up
 * after it.  It ends the process groups of the ranks (the kernel kills the ranks themselves, but
 * not what a shell script has started) and removes the files of the job.  It reads process numbers
 * from a pipe.  If the pipe ends without a FAREWELL, its parent has died.
 *
 * A frozen agent does not notice that its head has gone.  So the guard also watches the agent's
 * channel, without reading.  If the other side has closed the channel and the agent does not act,
 * the guard acts instead. */
#include "launcher/host/guard.h"
#include "launcher/job.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAREWELL 0 /* record that is no process number: the parent ends normally */

/* Longest time that an agent needs to end its ranks after its head has gone. */
#define FROZEN_MS 5000

static struct {
    int fd;
    pid_t pid;
} guard = { -1, -1 };

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    remove(path);
    return 0;
}

void launch_store_name(const char *segment, char *path, size_t len)
{
    snprintf(path, len, "%s.pmix", segment);
}

void launch_remove_files(const char *segment)
{
    const char *name = strrchr(segment, '/') + 1;
    size_t folder_len = (size_t)(name - segment), len = strlen(name);
    char path[8192];
    struct dirent *e;

    unlink(segment);
    snprintf(path, sizeof path, "%.*s", (int)folder_len, segment);
    DIR *folder = opendir(path);
    while (folder && (e = readdir(folder)))
        if (!strncmp(e->d_name, name, len) && e->d_name[len] == '.') {
            snprintf(path, sizeof path, "%.*s%s", (int)folder_len, segment, e->d_name);
            nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
        }
    if (folder)
        closedir(folder);
}

/* Waits until the parent writes or ends.  False: the parent's channel is closed, and the parent has
 * not ended in time. */
static bool wait_for_parent(int fd, int channel)
{
    struct pollfd fds[2] = { { .fd = fd, .events = POLLIN },
                             { .fd = channel, .events = POLLRDHUP } };
    int n;
    do
        n = poll(fds, 2, -1);
    while (n < 0 && errno == EINTR);
    if (n > 0 && !fds[0].revents)
        do
            n = poll(fds, 1, FROZEN_MS);
        while (n < 0 && errno == EINTR);
    return n > 0;
}

/* Reads until the pipe ends.  A positive number is a new process group; a negative number is a
 * group that has ended. */
static void watch(int fd, int channel, pid_t *groups, const char *segment)
{
    pid_t p, parent = getppid();
    int n = 0;

    while (wait_for_parent(fd, channel) && read(fd, &p, sizeof p) == sizeof p) {
        if (p == FAREWELL)
            return;
        if (p > 0) {
            groups[n++] = p;
            continue;
        }
        for (int i = 0; i < n; i++)
            if (groups[i] == -p)
                groups[i--] = groups[--n];
    }
    for (int i = 0; i < n; i++)
        kill(-groups[i], SIGKILL);
    if (channel >= 0 && getppid() == parent)
        kill(parent, SIGKILL);
    launch_remove_files(segment);
}

/* Gives up everything inherited from mpirun: signals of its terminal, and its streams, whose
 * readers would otherwise see no end of file. */
static _Noreturn void run_guard(int fd, int channel, pid_t *groups, const char *segment)
{
    static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGUSR1, SIGUSR2, SIGPIPE };
    setpgid(0, 0);
    prctl(PR_SET_NAME, "mpirun-guard");
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
        signal(ignored[i], SIG_IGN);
    for (int i = 0; i < 3; i++)
        close(i);
    watch(fd, channel, groups, segment);
    _exit(0);
}

int launch_guard_start(const struct launch_job *job, const char *segment, int channel_in,
                       int channel_out)
{
    int fds[2];
    pid_t *groups = malloc((size_t)job->n * sizeof *groups);

    if (!groups || pipe2(fds, O_CLOEXEC) < 0) {
        launch_say(job, "could not make the guard's pipe: %s", strerror(errno));
        free(groups);
        return LAUNCH_EXIT_FAIL;
    }
    guard.pid = fork();
    if (guard.pid == 0) {
        close(fds[1]);
        if (channel_out >= 0 && channel_out != channel_in)
            close(channel_out); /* this process closes it; the guard must not keep it open */
        run_guard(fds[0], channel_in, groups, segment);
    }
    free(groups);
    close(fds[0]);
    guard.fd = fds[1];
    if (guard.pid > 0)
        return 0;
    launch_say(job, "could not start the guard process: %s", strerror(errno));
    return LAUNCH_EXIT_FAIL;
}

/* A full pipe, or one without a reader, is no reason to end a job. */
static void write_record(pid_t p)
{
    if (guard.fd >= 0 && write(guard.fd, &p, sizeof p) < 0 && errno == EPIPE) {
        close(guard.fd);
        guard.fd = -1;
    }
}

void launch_guard_add(pid_t group) { write_record(group); }

void launch_guard_drop(pid_t group) { write_record(-group); }

void launch_guard_stop(void)
{
    write_record(FAREWELL);
    if (guard.fd >= 0)
        close(guard.fd);
    if (guard.pid > 0)
        while (waitpid(guard.pid, NULL, 0) < 0 && errno == EINTR) {
        }
    guard.fd = guard.pid = -1;
}
