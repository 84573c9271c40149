/* SPDX-License-Identifier: BSD-3-Clause */
/* The state and the place of other processes (launcher/explain/process.c, place.c, dw.c): of
 * children that block, compute, are stopped, have ended, or may not be examined.  Parts that need
 * libdw, debug information or ptrace are left out where the machine has none, with a line. */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "launcher/explain/source.h"
#include "launcher/explain/process.h"
#include "runtime/base/err.h"
#include "test/check.h"
#include "test/patience.h"

/* What a child shows to this process. */
static struct {
    volatile int ready, line;
    volatile pid_t tid;
    volatile uint64_t address;
} * shown;

static char program[4096];

/* ---- what children do ---- */

/* Blocks, and shows where it returns to. */
static __attribute__((noinline)) void block(int line)
{
    static int ends[2];
    char byte;
    if (pipe(ends))
        _exit(1);
    shown->line = line;
    shown->address = (uintptr_t)__builtin_return_address(0);
    shown->ready = 1;
    if (read(ends[0], &byte, 1) < 0)
        _exit(1);
}

static __attribute__((noinline)) void user_function(void)
{
    block(__LINE__);
    shown->ready = 2; /* no tail call */
}

void MPI_Probe(void);
__attribute__((noinline)) void MPI_Probe(void)
{
    block(__LINE__);
    shown->ready = 2;
}

static void compute(void)
{
    for (shown->ready = 1;;)
        shown->line++;
}

static void *thread_main(void *arg)
{
    shown->tid = (pid_t)syscall(SYS_gettid);
    compute();
    return arg;
}

static void compute_beside(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, thread_main, NULL) == 0)
        pthread_join(thread, NULL);
}

static void block_hidden(void)
{
    prctl(PR_SET_DUMPABLE, 0);
    user_function();
}

static void end_at_once(void) { shown->ready = 1; }

/* ---- children ---- */

static pid_t begin(void (*does)(void))
{
    memset(shown, 0, sizeof *shown);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        does();
        _exit(0);
    }
    siginfo_t ended = { 0 };
    while (!shown->ready && waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT | WNOHANG) == 0 &&
           !ended.si_pid)
        usleep(1000);
    CHECK(shown->ready);
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static struct explain_process reading(pid_t pid, pid_t tid)
{
    struct explain_process p;
    explain_process_read(pid, tid, &p);
    return p;
}

/* Whether it is in that state.  A kernel may hide in which system call a process is blocked. */
static bool is(const struct explain_process *p, enum process_state state)
{
    return p->state == state ||
           (state == PROCESS_BLOCKED && p->state == PROCESS_SLEEPING && !*p->call);
}

/* A child reports shortly before it is in that state. */
static struct explain_process reach(pid_t pid, enum process_state state)
{
    struct explain_process p = reading(pid, 0);
    for (int i = 0; i < 10000 && !is(&p, state); i++, p = reading(pid, 0))
        usleep(1000);
    CHECK_MSG(is(&p, state), "state %d, call \"%s\", expected %d", p.state, p.call, state);
    return p;
}

/* False: the machine has no libdw, and says which package has it. */
static bool opens(struct explain_source *s, pid_t pid)
{
    int err = explain_source_open(s, pid, RT_DW_SO);
    if (err != -RT_ENOTSUP) {
        CHECK_MSG(err == 0, "open: %d: %s", err, s->why);
        return err == 0;
    }
    CHECK(strstr(s->why, "libdw1"));
    printf("# left out: %s\n", s->why);
    return false;
}

/* Checks a line, if this program has debug information. */
static void check_line(const struct explain_place *p, int line)
{
    if (!p->file[0]) {
        printf("# left out: this program has no debug information\n");
        return;
    }
    CHECK_STR(p->file, "explain_source_test.c");
    CHECK_EQ(p->line, line);
}

/* The stack of a child from outside; 0: ptrace is forbidden here. */
static int walk(struct explain_source *s, pid_t pid, uint64_t *stack, int max)
{
    int n = explain_source_stack(s, pid, stack, max);
    if (n == -RT_EPERM) {
        CHECK(strstr(s->why, "forbids ptrace"));
        printf("# left out: %s\n", s->why);
        return 0;
    }
    CHECK_MSG(n > 1, "stack: %d: %s", n, s->why);
    return n > 0 ? n : 0;
}

/* ---- cases ---- */

static void place_of_addresses(void)
{
    struct explain_source s;
    struct explain_place p;
    pid_t pid = begin(user_function);
    if (opens(&s, pid)) {
        uint64_t address = shown->address, nowhere = 16;
        CHECK(explain_place_find(&s, &address, 1, &p));
        CHECK_STR(p.function, "user_function");
        CHECK_STR(p.module, strrchr(program, '/') + 1);
        CHECK(!p.python && !p.call[0]);
        check_line(&p, shown->line);
        CHECK(explain_place_find(&s, &nowhere, 1, &p) && !p.file[0]);
        CHECK_STR(p.function, "?");
        CHECK(!explain_place_find(&s, NULL, 0, &p));
        explain_source_close(&s);
    }
    end(pid);
}

static void place_of_a_stack(void)
{
    struct explain_source s;
    struct explain_place p;
    char text[4096], few[64];
    uint64_t stack[32];
    pid_t pid = begin(user_function);
    reach(pid, PROCESS_BLOCKED);
    int n = opens(&s, pid) ? walk(&s, pid, stack, 32) : 0;
    if (n) {
        CHECK(explain_place_find(&s, stack, n, &p));
        CHECK_MSG(!strncmp(p.function, "block", 5), "%s", p.function); /* or a clone of it */
        explain_place_text(&s, stack, n, text, sizeof text);
        const char *user = strstr(text, " user_function");
        CHECK_MSG(user && strstr(user, " main") && text[strlen(text) - 1] == '\n', "%s", text);
        explain_place_text(&s, stack, n, few, sizeof few);
        CHECK(strlen(few) < sizeof few && !strncmp(few, text, strlen(few)));
        CHECK_EQ(walk(&s, pid, stack, 2), 2);
        reach(pid, PROCESS_BLOCKED); /* it runs on */
    }
    explain_source_close(&s);
    end(pid);
}

/* A second name of this program like that of an MPI library: all its frames are the library's. */
static void place_in_mpi(void)
{
    struct explain_source s;
    struct explain_place p;
    char path[4200], line[64] = "", text[2048];
    snprintf(path, sizeof path, "%.*s/libmpi_abi.so.explain_source_test",
             (int)(strrchr(program, '/') - program), program);
    unlink(path); /* of a test that was interrupted */
    if (link(program, path)) {
        printf("# left out: %s cannot be made\n", path);
        return;
    }
    int go[2];
    CHECK_EQ(pipe(go), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(go[1], 1);
        execl(path, path, "probe", NULL);
        _exit(1);
    }
    close(go[1]);
    CHECK(read(go[0], line, sizeof line - 1) > 0);
    uint64_t address = strtoull(line, NULL, 16);
    if (opens(&s, pid)) {
        CHECK(!explain_place_find(&s, &address, 1, &p));
        CHECK_STR(p.call, "MPI_Probe");
        explain_place_text(&s, &address, 1, text, sizeof text);
        CHECK_MSG(strstr(text, "MPI_Probe") && strstr(text, "in libmpi_abi.so."), "%s", text);
        explain_source_close(&s);
    }
    end(pid);
    close(go[0]);
    unlink(path);
}

static void blocked(void)
{
    pid_t pid = begin(user_function);
    struct explain_process before = reach(pid, PROCESS_BLOCKED);
    /* "read", or "pipe_read" of the kernel.  At first it may wait for a page. */
    for (int i = 0; i < 10000 && *before.call && !strstr(before.call, "read"); i++) {
        usleep(1000);
        before = reading(pid, 0);
    }
    CHECK_MSG(is(&before, PROCESS_BLOCKED) && (!*before.call || strstr(before.call, "read")),
              "state %d, call \"%s\"", before.state, before.call);
    CHECK(before.nthreads >= 1); /* a sanitizer may add one */
    usleep(100000);
    struct explain_process after = reading(pid, 0);
    CHECK(explain_process_share(&before, &after) < 0.5);
    end(pid);
}

/* A share of the time in which the machine had a core for it. */
static void check_computes(pid_t pid, pid_t tid)
{
    struct watch w = watch_begin();
    struct explain_process before = reading(pid, tid), after = before;
    for (int i = 0; i < 3000 && after.cpu_ns - before.cpu_ns < 200000000u; i++) {
        usleep(10000);
        after = reading(pid, tid);
    }
    CHECK_EQ(after.state, PROCESS_RUNNING);
    CHECK((double)(after.cpu_ns - before.cpu_ns) > 0.5 * (double)watch_own(w));
    CHECK(explain_process_share(&before, &after) > 0);
}

static void computing(void)
{
    struct explain_process a = { .cpu_ns = 5, .at_ns = 1000 }, b = { .cpu_ns = 755, .at_ns = 2000 };
    CHECK(explain_process_share(&a, &b) > 0.74 && explain_process_share(&a, &b) < 0.76);
    CHECK(explain_process_share(&b, &a) < 0.01);
    pid_t pid = begin(compute);
    check_computes(pid, 0);
    end(pid);
}

static void computing_thread(void)
{
    pid_t pid = begin(compute_beside);
    CHECK(reach(pid, PROCESS_BLOCKED).nthreads >= 2); /* the main thread, in pthread_join() */
    CHECK(reading(pid, 0).nrunning >= 1);
    check_computes(pid, shown->tid);
    struct watch w = watch_begin();
    uint64_t before = reading(pid, 0).cpu_ns, own = reading(pid, pid).cpu_ns;
    while (reading(pid, 0).cpu_ns - before < 100000000u && watch_own(w) < 10000000000u)
        usleep(10000);
    CHECK(reading(pid, 0).cpu_ns - before >= 100000000u);
    CHECK(reading(pid, pid).cpu_ns - own < 50000000u);
    end(pid);
}

static void stopped(void)
{
    struct explain_source s;
    uint64_t stack[32];
    pid_t pid = begin(user_function);
    reach(pid, PROCESS_BLOCKED);
    kill(pid, SIGSTOP);
    reach(pid, PROCESS_STOPPED);
    if (opens(&s, pid))
        walk(&s, pid, stack, 32);
    explain_source_close(&s);
    usleep(10000);
    reach(pid, PROCESS_STOPPED); /* still */
    kill(pid, SIGCONT);
    reach(pid, PROCESS_BLOCKED);
    end(pid);
}

static void ended(void)
{
    struct explain_source s;
    uint64_t stack[4];
    pid_t pid = begin(end_at_once);
    reach(pid, PROCESS_ZOMBIE);
    int err = explain_source_open(&s, pid, RT_DW_SO);
    if (!err)
        CHECK(explain_source_stack(&s, pid, stack, 4) < 0);
    CHECK(s.why[0]);
    explain_source_close(&s);
    CHECK_EQ(waitpid(pid, NULL, 0), pid); /* its status is still there */
    CHECK_EQ(reading(pid, 0).state, PROCESS_GONE);
    err = explain_source_open(&s, pid, RT_DW_SO);
    CHECK(err == -RT_ENOENT || err == -RT_ENOTSUP);
    CHECK(s.why[0]);
}

static void without_libdw(void)
{
    struct explain_source s;
    CHECK_EQ(explain_source_open(&s, getpid(), "libdw-of-none.so.1"), -RT_ENOTSUP);
    CHECK(strstr(s.why, "libdw-of-none.so.1 is missing") && strstr(s.why, "elfutils-libs"));
    explain_source_close(&s);
    CHECK_EQ(explain_source_open(&s, getpid(), "libm.so.6"), -RT_ENOTSUP);
    CHECK(strstr(s.why, "libm.so.6"));
}

/* Runs checks in a child, which loses rights. */
static void apart(void (*checks)(void))
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        checks();
        fflush(stdout);
        _exit(check_failed_case);
    }
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void check_hidden(void)
{
    struct explain_source s;
    if (getuid() == 0 && setuid(65534)) /* root may examine all processes */
        return;
    pid_t pid = begin(block_hidden);
    int err = explain_source_open(&s, pid, RT_DW_SO);
    CHECK(err == -RT_EPERM || err == -RT_ENOTSUP);
    CHECK(strstr(s.why, err == -RT_EPERM ? "not dumpable" : "libdw1"));
    struct explain_process p = reading(pid, 0);
    CHECK(p.state == PROCESS_SLEEPING || p.state == PROCESS_RUNNING || p.state == PROCESS_BLOCKED);
    end(pid);
}

static void not_dumpable(void) { apart(check_hidden); }

/* As in a container whose filter of system calls has no ptrace. */
static void check_filtered(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1 /* EPERM */),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = { sizeof rules / sizeof rules[0], rules };
    struct explain_source s;
    struct explain_place p;
    uint64_t stack[4];
    pid_t pid = begin(user_function);
    if (opens(&s, pid) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0) {
        CHECK_EQ(explain_source_stack(&s, pid, stack, 4), -RT_EPERM);
        CHECK(strstr(s.why, "the kernel forbids ptrace"));
        uint64_t address = shown->address; /* addresses need no ptrace */
        CHECK(explain_place_find(&s, &address, 1, &p));
        CHECK_STR(p.function, "user_function");
    }
    explain_source_close(&s);
    end(pid);
}

static void no_ptrace(void) { apart(check_filtered); }

int main(int argc, char **argv)
{
    shown = mmap(NULL, sizeof *shown, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ssize_t len = readlink("/proc/self/exe", program, sizeof program - 1);
    if (shown == MAP_FAILED || len <= 0)
        return 1;
    if (argc > 1 && !strcmp(argv[1], "probe")) {
        pid_t pid = begin(MPI_Probe); /* gets to know the address in this program's image */
        printf("%llx\n", (unsigned long long)shown->address);
        fflush(stdout);
        end(pid);
        MPI_Probe();
    }
    RUN(place_of_addresses);
    RUN(place_of_a_stack);
    RUN(place_in_mpi);
    RUN(blocked);
    RUN(computing);
    RUN(computing_thread);
    RUN(stopped);
    RUN(ended);
    RUN(without_libdw);
    RUN(not_dumpable);
    RUN(no_ptrace);
    return check_end();
}
