/* SPDX-License-Identifier: BSD-3-Clause */
/* Which device memory another process can use, determined by trial, with the functions that
 * messages use.  Two new processes are started, because a process that has used CUDA cannot
 * continue after fork(): the first makes memory of each kind on each device, fills and exports it;
 * the second maps it for each device, copies and compares.  Their log is kept; its last line is the
 * reason of a failure.  One thread. */
#include "launcher/info/gpus.h"
#include "runtime/base/cfg.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/gpu/gpu.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Creating a context takes up to a second for each device and process. */
#define LIMIT_NS 60000000000u
#define BLOCK ((size_t)2 << 20)
#define CHECKED 4097 /* bytes that are compared, an odd number */

const char *const info_share_names[INFO_SHARES] = { "cudaMalloc", "VMM" };
static const enum rt_gpu_share shares[INFO_SHARES] = { RT_GPU_SHARE_LEGACY, RT_GPU_SHARE_VMM };

struct offer { /* from the exporting process; a descriptor may accompany it */
    int from, kind, err;
    char why[160];
    struct rt_gpu_export e;
    uint64_t addr;
};

/* ---- reasons ---- */

static int log_fd = -1;

static void keep_log(void)
{
    log_fd = memfd_create("weft_info", 0);
    if (log_fd >= 0)
        dup2(log_fd, STDERR_FILENO);
    rt_log_configure("gpu:info");
}

static void clear_log(void)
{
    if (log_fd >= 0 && !ftruncate(log_fd, 0))
        lseek(log_fd, 0, SEEK_SET);
}

/* The cause in the last line of the log, "[prefix] what failed: cause; what happens instead"; NULL:
 * no cause. */
static const char *logged(char *text, size_t len)
{
    ssize_t n = log_fd >= 0 ? pread(log_fd, text, len - 1, 0) : 0;
    while (n > 0 && text[n - 1] == '\n')
        n--;
    text[n > 0 ? n : 0] = '\0';
    char *line = strrchr(text, '\n'), *end;
    line = line ? line + 1 : text;
    if (*line == '[' && (end = strstr(line, "] ")))
        line = end + 2;
    if ((end = strstr(line, "; ")))
        *end = '\0';
    for (char *p; (p = strstr(line, ": "));)
        line = p + 2;
    return *line ? line : NULL;
}

/* A cause that is logged only once is the reason for all later failures of this kind. */
static void reason(int err, int kind, char *why, size_t len)
{
    static char last[INFO_SHARES][160];
    char text[1024];
    const char *cause = logged(text, sizeof text);
    if (cause)
        snprintf(last[kind], sizeof last[kind], "%.150s", cause);
    snprintf(why, len, "%s",
             last[kind][0]         ? last[kind]
             : err == -RT_ENOTSUP  ? "the driver does not export it"
             : err == -RT_EUNREACH ? "the driver does not map it"
                                   : rt_err_text(err));
}

/* ---- the process that makes and exports memory ---- */

static void pattern(unsigned char *p, int from, int kind)
{
    uint64_t x = 88172645463325252u + (unsigned)(from * INFO_SHARES + kind);
    for (int i = 0; i < CHECKED; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        p[i] = (unsigned char)x;
    }
}

static int prepare(struct offer *o, struct rt_gpu_fds *fds)
{
    unsigned char data[CHECKED];
    struct rt_gpu *g;
    struct rt_gpu_ptr ptr;
    void *p = NULL;
    int err = rt_gpu_primary(o->from, &g);
    if (!err)
        err = rt_gpu_alloc(g, shares[o->kind], BLOCK, &p);
    if (err)
        return err;
    pattern(data, o->from, o->kind);
    err = rt_gpu_copy_now(g, p, data, CHECKED);
    if (!err)
        err = rt_gpu_query(p, CHECKED, &ptr);
    if (!err)
        err = rt_gpu_export_mem(&ptr, &o->e, fds);
    o->addr = (uintptr_t)p;
    return err;
}

static int send_offer(int sock, const struct offer *o, int fd)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = { 0 };
    struct iovec v = { (void *)(uintptr_t)o, sizeof *o };
    struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
    if (fd >= 0) {
        m.msg_control = control.bytes;
        m.msg_controllen = sizeof control.bytes;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    return sendmsg(sock, &m, MSG_NOSIGNAL) < 0 ? -RT_EINTERN : 0;
}

static int export_all(int sock)
{
    int n = rt_gpu_count();
    for (int i = 0; i < n * INFO_SHARES && i < INFO_GPUS * INFO_SHARES; i++) {
        struct offer o = { .from = i / INFO_SHARES, .kind = i % INFO_SHARES };
        struct rt_gpu_fds fds = { .n = 0 };
        clear_log();
        o.err = prepare(&o, &fds);
        if (o.err)
            reason(o.err, o.kind, o.why, sizeof o.why);
        int err = send_offer(sock, &o, fds.n ? fds.fd[0] : -1); /* one mapping */
        rt_gpu_fds_close(&fds);
        if (err)
            return 1;
    }
    /* The memory must exist until the other process has examined all of it and closed its end. */
    shutdown(sock, SHUT_WR);
    char end;
    return read(sock, &end, 1) != 0;
}

/* ---- the process that imports it ---- */

static int take_offer(int sock, struct offer *o, int *fd)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec v = { o, sizeof *o };
    struct msghdr m = { .msg_iov = &v,
                        .msg_iovlen = 1,
                        .msg_control = control.bytes,
                        .msg_controllen = sizeof control.bytes };
    *fd = -1;
    ssize_t n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
    struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
    if (c && c->cmsg_type == SCM_RIGHTS)
        memcpy(fd, CMSG_DATA(c), sizeof *fd);
    return n == (ssize_t)sizeof *o;
}

static int use(const struct offer *o, int fd, int to)
{
    unsigned char want[CHECKED], got[CHECKED] = { 0 };
    struct rt_gpu *g;
    struct rt_gpu_import *m;
    void *base;
    const struct rt_gpu_fds fds = { .n = fd >= 0, .fd = { fd } };
    int err = rt_gpu_primary(to, &g);
    if (!err)
        err = rt_gpu_import(g, &o->e, &fds, &m, &base);
    if (err)
        return err;
    pattern(want, o->from, o->kind);
    err = rt_gpu_copy_now(g, got, (char *)base + (o->addr - o->e.base), CHECKED);
    if (!err && memcmp(want, got, CHECKED)) {
        log_error(GPU, "the data read is not the data written");
        err = -RT_EGPU;
    }
    rt_gpu_unimport(m);
    return err;
}

static int import_all(int sock, int results)
{
    int n = rt_gpu_count(), fd;
    struct offer o;
    while (take_offer(sock, &o, &fd)) {
        for (int to = 0; to < n && to < INFO_GPUS; to++) {
            struct info_shared s = { .from = o.from, .to = to, .kind = o.kind };
            clear_log();
            int err = o.err ? o.err : use(&o, fd, to);
            s.works = !err;
            if (o.err)
                memcpy(s.why, o.why, sizeof s.why);
            else if (err && !info_gpus()->access[to][o.from])
                snprintf(s.why, sizeof s.why, "device %d has no access to device %d", to, o.from);
            else if (err)
                reason(err, o.kind, s.why, sizeof s.why);
            if (write(results, &s, sizeof s) != (ssize_t)sizeof s)
                return 1;
        }
        if (fd >= 0)
            close(fd);
    }
    return 0;
}

int info_share_child(const char *role, const char *sock, const char *results)
{
    if (rt_cfg_load() < 0)
        return 1;
    keep_log();
    rt_gpu_init();
    int s = (int)strtol(sock, NULL, 10), r = (int)strtol(results, NULL, 10);
    return !strcmp(role, "to") ? import_all(s, r) : export_all(s);
}

/* ---- weft_info itself ---- */

static pid_t begin(const char *role, int sock, int results)
{
    char a[16], b[16];
    snprintf(a, sizeof a, "%d", sock);
    snprintf(b, sizeof b, "%d", results);
    pid_t pid = fork();
    if (pid == 0) {
        fcntl(sock, F_SETFD, 0);
        if (results >= 0)
            fcntl(results, F_SETFD, 0);
        execl("/proc/self/exe", "weft_info", "--share", role, a, b, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static void end(pid_t pid, char *how, size_t len)
{
    int status = 0;
    if (pid < 0)
        return;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFSIGNALED(status))
        snprintf(how, len, "the process that tried it was ended by signal %d", WTERMSIG(status));
    else if (WEXITSTATUS(status) && !how[0])
        snprintf(how, len, "the process that tried it failed with status %d", WEXITSTATUS(status));
}

/* Reads the next result.  False: the pipe is closed, or the time is over. */
static bool next_result(int fd, uint64_t until, struct info_shared *s)
{
    uint64_t now = rt_now_ns();
    struct pollfd p = { .fd = fd, .events = POLLIN };
    return now < until && poll(&p, 1, (int)((until - now) / 1000000u) + 1) > 0 &&
           read(fd, s, sizeof *s) == (ssize_t)sizeof *s;
}

static void collect(info_share_table *all)
{
    static bool seen[INFO_GPUS][INFO_GPUS][INFO_SHARES];
    int sock[2], results[2];
    char how[160] = "";
    struct info_shared s;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock) < 0)
        return;
    if (pipe2(results, O_CLOEXEC) < 0) {
        close(sock[0]);
        close(sock[1]);
        return;
    }
    pid_t from = begin("from", sock[0], -1), to = begin("to", sock[1], results[1]);
    close(sock[0]);
    close(sock[1]);
    close(results[1]);
    uint64_t until = rt_now_ns() + LIMIT_NS;
    while (next_result(results[0], until, &s)) {
        (*all)[s.from][s.to][s.kind] = s;
        seen[s.from][s.to][s.kind] = true;
    }
    close(results[0]);
    if (rt_now_ns() >= until && from > 0 && to > 0) {
        kill(from, SIGKILL);
        kill(to, SIGKILL);
    }
    end(to, how, sizeof how);
    end(from, how, sizeof how);
    for (int i = 0; i < INFO_GPUS * INFO_GPUS * INFO_SHARES; i++)
        if (!(&seen[0][0][0])[i])
            snprintf((&(*all)[0][0][0])[i].why, sizeof s.why, "%s", how[0] ? how : "not tried");
}

const info_share_table *info_share(void)
{
    static info_share_table all;
    static bool done;
    if (!done)
        collect(&all);
    done = true;
    return (const info_share_table *)&all;
}
