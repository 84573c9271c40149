/* SPDX-License-Identifier: BSD-3-Clause */
/* fault_deny ERROR NAME[,NAME...] PROGRAM ...: runs a program in which the named system calls fail
 * with the error (EPERM, ENOSYS), as under a container's seccomp profile.  fault_deny list: prints
 * the names.  Exit status 77 when the kernel does not accept the filter. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define N(name) \
    { \
#name, SYS_##name \
    }
/* What mpirun and the ranks of a job call, themselves or in PMIx and hwloc, without those that the
 * C library needs to start a program. */
static const struct {
    const char *name;
    int number;
} calls[] = {
    N(accept4),
    N(access),
    N(bind),
    N(chdir),
    N(clone3),
    N(close_range),
    N(connect),
    N(dup2),
    N(epoll_create1),
    N(epoll_ctl),
    N(epoll_wait),
    N(eventfd2),
    N(faccessat2),
    N(fallocate),
    N(fchmod),
    N(fstatfs),
    N(fsync),
    N(ftruncate),
    N(getcwd),
    N(getdents64),
    N(getrandom),
    N(getsockname),
    N(getsockopt),
    N(getxattr),
    N(ioctl),
    N(kill),
    N(lgetxattr),
    N(linkat),
    N(listen),
    N(lseek),
    N(madvise),
    N(membarrier),
    N(memfd_create),
    N(pipe2),
    N(poll),
    N(prctl),
    N(preadv),
    N(prlimit64),
    N(process_vm_readv),
    N(process_vm_writev),
    N(pselect6),
    N(pwritev),
    N(readlink),
    N(recvfrom),
    N(rseq),
    N(sched_getaffinity),
    N(sched_getattr),
    N(sched_setaffinity),
    N(sched_setattr),
    N(sched_yield),
    N(sendto),
    N(set_robust_list),
    N(setpgid),
    N(setsockopt),
    N(shutdown),
    N(signalfd4),
    N(socket),
    N(statfs),
    N(statx),
    N(sysinfo),
    N(uname),
    N(vfork),
    N(wait4),
    N(writev),
};
#define NCALLS (sizeof calls / sizeof calls[0])

static const struct {
    const char *name;
    int number;
} errors[] = { { "EPERM", EPERM }, { "ENOSYS", ENOSYS } };

static int error_of(const char *name)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (!strcmp(errors[i].name, name))
            return errors[i].number;
    return -1;
}

static int call_of(const char *name)
{
    for (size_t i = 0; i < NCALLS; i++)
        if (!strcmp(calls[i].name, name))
            return calls[i].number;
    return -1;
}

/* Two rules for each name.  Returns the number of rules; 0: an unknown name. */
static unsigned short rules_of(char *names, int error, struct sock_filter *out)
{
    unsigned short n = 0;
    char *save;
    out[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                            offsetof(struct seccomp_data, nr));
    for (char *s = strtok_r(names, ",", &save); s; s = strtok_r(NULL, ",", &save)) {
        int call = call_of(s);
        if (call < 0 || n > 2 * NCALLS)
            return 0;
        out[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
        out[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error);
    }
    out[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    return n;
}

int main(int argc, char **argv)
{
    struct sock_filter rules[2 * NCALLS + 4];
    if (argc == 2 && !strcmp(argv[1], "list")) {
        for (size_t i = 0; i < NCALLS; i++)
            puts(calls[i].name);
        return 0;
    }
    int error = argc > 3 ? error_of(argv[1]) : -1;
    unsigned short n = error < 0 ? 0 : rules_of(argv[2], error, rules);
    if (n == 0) {
        fprintf(stderr, "usage: fault_deny EPERM|ENOSYS NAME[,NAME...] PROGRAM ...\n");
        return 2;
    }
    struct sock_fprog filter = { n, rules };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
        return 77;
    execvp(argv[3], argv + 3);
    perror(argv[3]);
    return 127;
}
