/* SPDX-License-Identifier: BSD-3-Clause */
/* Symbols, source lines and stacks by libdw.  It reads the files that the process maps; lines need
 * their debug information, in the files or in separate ones that are found by build ID.  None is
 * fetched from a server (debuginfod): that may take minutes.
 *
 * A thread is stopped by ptrace here, not by libdw, which would wait without a limit for a thread
 * in an uninterruptible system call, and take the exit status of a rank that ends meanwhile. */
#include "launcher/explain/source.h"
#include "launcher/abi/abi.h"
#include "runtime/base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A thread stops at once, unless it waits uninterruptibly or the machine is very busy. */
#define STOP_MS 500

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int fail(struct explain_source *s, int error, const char *what)
{
    if (error == EPERM || error == EACCES)
        return snprintf(s->why, sizeof s->why, "%s", what), -RT_EPERM;
    if (error == ENOENT || error == ESRCH)
        return snprintf(s->why, sizeof s->why, "process %d has ended", (int)s->pid), -RT_ENOENT;
    snprintf(s->why, sizeof s->why, "process %d cannot be examined: %s", (int)s->pid,
             strerror(error));
    return error == ENOMEM ? -RT_ENOMEM : -RT_ESYS;
}

/* ---- the files of a process ---- */

/* Opens a file by the path that the process knows: it may be in a container. */
static int find_elf(struct dwfl_module *mod, void **userdata, const char *name, uint64_t base,
                    char **file_p, void **elf_p)
{
    struct explain_source *s = *userdata;
    struct stat st;
    char *path = NULL;
    /* Devices are mapped, too, and opening one may have effects. */
    if (name[0] == '/' && asprintf(&path, "/proc/%d/root%s", (int)s->pid, name) >= 0 &&
        stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) {
            *file_p = path;
            return fd;
        }
    }
    free(path);
    return s->dw.dwfl_linux_proc_find_elf(mod, userdata, name, base, file_p, elf_p);
}

static int set_source(struct dwfl_module *mod, void **userdata, const char *name, uint64_t base,
                      void *arg)
{
    (void)mod, (void)name, (void)base;
    *userdata = arg;
    return 0;
}

int explain_source_open(struct explain_source *s, pid_t pid, const char *so)
{
    *s = (struct explain_source){ .pid = pid };
    if (!rt_dw_open(so, &s->dw, s->why, sizeof s->why))
        return -RT_ENOTSUP;
    s->callbacks = (struct dw_callbacks){
        .find_elf = find_elf,
        .find_debuginfo = s->dw.dwfl_build_id_find_debuginfo,
    };
    s->dwfl = s->dw.dwfl_begin(&s->callbacks);
    int error = s->dwfl ? s->dw.dwfl_linux_proc_report(s->dwfl, pid) : ENOMEM;
    if (!error && s->dw.dwfl_report_end(s->dwfl, NULL, NULL) == 0) {
        s->dw.dwfl_getmodules(s->dwfl, set_source, s, 0);
        return 0;
    }
    explain_source_close(s);
    return fail(s, error > 0 ? error : ENOMEM,
                "no source lines: the process belongs to another user or is not dumpable "
                "(PR_SET_DUMPABLE)");
}

void explain_source_close(struct explain_source *s)
{
    if (s->dwfl)
        s->dw.dwfl_end(s->dwfl);
    s->dwfl = NULL;
}

/* ---- stacks ---- */

struct walk {
    struct explain_source *s;
    pid_t tid;
    uint64_t *stack;
    int n, max;
    int error;
};

static int add_frame(struct dwfl_frame *frame, void *arg)
{
    struct walk *w = arg;
    bool exact; /* the program counter of a thread or of a signal's frame: no return address */
    uint64_t pc;
    if (w->n == w->max || !w->s->dw.dwfl_frame_pc(frame, &pc, &exact))
        return 1; /* DWARF_CB_ABORT */
    w->stack[w->n++] = pc + exact;
    return 0;
}

/* Stops a thread.  *signal_p: what PTRACE_DETACH must deliver.  Returns 0 or an errno. */
static int stop(pid_t tid, int *signal_p)
{
    if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) || ptrace(PTRACE_INTERRUPT, tid, NULL, NULL))
        return errno;
    for (int i = 0; i < STOP_MS * 10; i++) {
        siginfo_t si = { 0 };
        /* Takes no status: an exit is the launcher's to reap. */
        if (waitid(P_PID, (id_t)tid, &si, WSTOPPED | WEXITED | WNOWAIT | WNOHANG | __WALL))
            return errno;
        if (si.si_pid && si.si_code != CLD_TRAPPED && si.si_code != CLD_STOPPED)
            return ESRCH;
        if (si.si_pid) {
            *signal_p = si.si_status >> 8 == PTRACE_EVENT_STOP ? 0 : si.si_status & 0x7f;
            return 0;
        }
        nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
    }
    return ETIMEDOUT;
}

/* Runs as a thread of its own, because the kernel releases all that a thread traces when it ends:
 * also one that has not stopped, which PTRACE_DETACH refuses. */
static void *walk_main(void *arg)
{
    struct walk *w = arg;
    int sig = 0;
    w->error = stop(w->tid, &sig);
    if (w->error)
        return NULL;
    /* -1 may also mean that the outermost frames cannot be read. */
    if (w->s->dw.dwfl_getthread_frames(w->s->dwfl, w->tid, add_frame, w) && !w->n)
        w->error = ENOTSUP;
    ptrace(PTRACE_DETACH, w->tid, NULL, (void *)(intptr_t)sig);
    return NULL;
}

static int forbidden(struct explain_source *s)
{
    int scope = 0;
    FILE *f = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    if (f && fscanf(f, "%d", &scope) != 1)
        scope = 0;
    if (f)
        fclose(f);
    int err = fail(s, EPERM,
                   "no stack: the kernel forbids ptrace (a container without "
                   "CAP_SYS_PTRACE, another user's process, or a debugger is attached)");
    if (scope > 0)
        snprintf(s->why, sizeof s->why,
                 "no stack: the kernel forbids ptrace "
                 "(kernel.yama.ptrace_scope is %d)",
                 scope);
    return err;
}

int explain_source_stack(struct explain_source *s, pid_t tid, uint64_t *stack, int max)
{
    struct walk w = { .s = s, .tid = tid, .stack = stack, .max = max };
    pthread_t thread;
    if (!s->attached)
        s->attached = s->dw.dwfl_linux_proc_attach(s->dwfl, s->pid, true) == 0;
    if (pthread_create(&thread, NULL, walk_main, &w) == 0)
        pthread_join(thread, NULL);
    else
        w.error = EAGAIN;
    if (!w.error)
        return w.n;
    if (w.error == EPERM || w.error == EACCES)
        return forbidden(s);
    if (w.error == ETIMEDOUT) {
        snprintf(s->why, sizeof s->why, "no stack: thread %d waits uninterruptibly in the kernel",
                 (int)tid);
        return -RT_ETIMEOUT;
    }
    if (w.error != ENOTSUP)
        return fail(s, w.error, "");
    snprintf(s->why, sizeof s->why, "no stack of thread %d: its frames cannot be read", (int)tid);
    return -RT_ENOTSUP;
}

/* ---- places ---- */

struct frame {
    struct dwfl_module *mod;       /* NULL: in no file */
    const char *module, *function; /* "?": unknown */
    uint64_t pc;                   /* in the instruction that called */
};

static struct frame frame_of(struct explain_source *s, uint64_t address)
{
    struct frame f = { .pc = address - 1 };
    f.mod = s->dw.dwfl_addrmodule(s->dwfl, f.pc);
    if (f.mod) {
        f.module = s->dw.dwfl_module_info(f.mod, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
        f.function = s->dw.dwfl_module_addrname(f.mod, f.pc);
    }
    f.module = f.module ? base_name(f.module) : "?";
    f.function = f.function ? f.function : "?";
    return f;
}

/* The name of the source file and the line; NULL: unknown.  All compilation units are asked in
 * turn: the index .debug_aranges takes longer to read, and clang does not write it. */
static const char *line_of(struct explain_source *s, const struct frame *f, int *line_p)
{
    struct dwarf_die *cu = NULL;
    uint64_t bias = 0;
    while (f->mod && (cu = s->dw.dwfl_module_nextcu(f->mod, cu, &bias)))
        if (s->dw.dwarf_haspc(cu, f->pc - bias) > 0) {
            struct dwarf_line *line = s->dw.dwarf_getsrc_die(cu, f->pc - bias);
            const char *path = line ? s->dw.dwarf_linesrc(line, NULL, NULL) : NULL;
            return path && s->dw.dwarf_lineno(line, line_p) == 0 ? base_name(path) : NULL;
        }
    return NULL;
}

static bool starts_with(const char *text, const char *start)
{
    return !strncmp(text, start, strlen(start));
}

static bool is_mpi(const struct frame *f)
{
    return abi_kind_of_file(f->module) != ABI_NONE || starts_with(f->module, "libweft");
}

/* The C library, the dynamic loader, a sanitizer's functions in front of the C library's, and what
 * calls main(), which a static program contains. */
static bool is_system(const struct frame *f)
{
    return starts_with(f->module, "libc.") || starts_with(f->module, "libc-") ||
           starts_with(f->module, "libpthread") || starts_with(f->module, "ld-") ||
           starts_with(f->module, "[vdso") || strstr(f->function, "__interceptor_") ||
           starts_with(f->function, "__libc_start_") || !strcmp(f->function, "_start");
}

static bool is_python(const struct frame *f)
{
    const char *name = f->module + (starts_with(f->module, "lib") ? 3 : 0);
    return starts_with(name, "python") && (!name[6] || strchr("0123456789.", name[6]));
}

bool explain_place_find(struct explain_source *s, const uint64_t *stack, int n,
                        struct explain_place *out)
{
    struct frame best = { 0 };
    const char *file = NULL, *call = "";
    *out = (struct explain_place){ 0 };
    for (int i = 0; i < n && !file && !out->python; i++) {
        struct frame f = frame_of(s, stack[i]);
        if (is_mpi(&f)) {
            const char *name = f.function + (f.function[0] == 'P');
            call = starts_with(name, "MPI_") || starts_with(name, "MPIX_") ? name : call;
        } else if (!is_system(&f)) {
            out->python = is_python(&f);
            file = out->python ? NULL : line_of(s, &f, &out->line);
            if (file || !best.module)
                best = f;
        }
    }
    snprintf(out->call, sizeof out->call, "%s", call);
    if (!best.module)
        return false;
    snprintf(out->function, sizeof out->function, "%s", best.function);
    snprintf(out->module, sizeof out->module, "%s", best.module);
    snprintf(out->file, sizeof out->file, "%s", file ? file : "");
    return true;
}

void explain_place_text(struct explain_source *s, const uint64_t *stack, int n, char *text,
                        size_t len)
{
    size_t at = 0;
    *text = '\0';
    for (int i = 0; i < n; i++) {
        struct frame f = frame_of(s, stack[i]);
        char place[128] = "";
        int number = 0;
        const char *file = is_system(&f) ? NULL : line_of(s, &f, &number);
        if (file)
            snprintf(place, sizeof place, " (%s:%d)", file, number);
        int used = snprintf(text + at, len - at, "#%d %.128s%s in %.128s\n", i, f.function, place,
                            f.module);
        if ((size_t)used >= len - at) {
            text[at] = '\0';
            return;
        }
        at += (size_t)used;
    }
}
