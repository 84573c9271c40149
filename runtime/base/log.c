/* SPDX-License-Identifier: BSD-3-Clause */
/* Log lines.  A line is formatted on the stack and written with one write(2) of less than PIPE_BUF
 * bytes, so that lines of several threads and ranks never mix.  Any thread may log.
 * rt_log_identify() and rt_log_configure() are called while the library is single-threaded.
 *
 * Warnings and errors look like "[host:pid rank 3 btl] text".  Other levels contain their name,
 * "[host:pid rank 3 btl debug] text", so that a reader, and test/tool/runtests, can distinguish
 * problems from information. */
#include "runtime/base/log.h"
#include "runtime/base/atomic.h"
#include "runtime/base/err.h"

#include <errno.h>
#include <execinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048 /* below PIPE_BUF (4096), so that the kernel does not split it */
#define BACKTRACE_MAX 32    /* deeper frames belong to the start-up code of the application */

static const char *const comp_names[RT_LOG_COMPS] = {
    [RT_LOG_BASE] = "base", [RT_LOG_BOOT] = "boot", [RT_LOG_TOPO] = "topo",
    [RT_LOG_MEM] = "mem",   [RT_LOG_GPU] = "gpu",   [RT_LOG_BTL] = "btl",
    [RT_LOG_COLL] = "coll", [RT_LOG_MPI] = "mpi",   [RT_LOG_LAUNCH] = "launch",
    [RT_LOG_IB] = "ib",     [RT_LOG_IO] = "io",
};
static const char *const level_names[] = { "error", "warn", "info", "debug", "trace" };
#define LEVELS ((int)(sizeof level_names / sizeof level_names[0]))

uint8_t rt_log_levels[RT_LOG_COMPS] = {
    [0 ... RT_LOG_COMPS - 1] = RT_LOG_WARN,
};

static struct {
    char host[64];
    int rank;
} who = { .rank = -1 };
static int hold_ms; /* atomic, because threads of transports log, too */

void rt_log_identify(const char *host, int rank)
{
    snprintf(who.host, sizeof who.host, "%s", host);
    who.host[strcspn(who.host, ".")] = '\0'; /* the first label identifies the machine */
    who.rank = rank;
}

static int find(const char *const *names, int n, const char *s, size_t len)
{
    for (int i = 0; i < n; i++)
        if (strlen(names[i]) == len && !strncmp(names[i], s, len))
            return i;
    return -1;
}

/* Applies one element of the list, "LEVEL" or "COMP:LEVEL", to `levels`. */
static int configure_one(uint8_t *levels, const char *s, size_t len)
{
    const char *colon = memchr(s, ':', len);
    const char *word = colon ? colon + 1 : s;
    size_t word_len = len - (size_t)(word - s);
    int level = find(level_names, LEVELS, word, word_len);
    if (level < 0) {
        log_error(BASE,
                  "WEFT_LOG: unknown level '%.*s'; levels are error, warn, info, debug "
                  "and trace",
                  (int)word_len, word);
        return -RT_EINVAL;
    }
    if (!colon) {
        memset(levels, level, RT_LOG_COMPS);
        return 0;
    }
    int comp = find(comp_names, RT_LOG_COMPS, s, (size_t)(colon - s));
    if (comp < 0) {
        char all[16 * RT_LOG_COMPS];
        for (int i = 0, n = 0; i < RT_LOG_COMPS; i++)
            n += snprintf(all + n, sizeof all - (size_t)n, "%s%s", i ? ", " : "", comp_names[i]);
        log_error(BASE, "WEFT_LOG: unknown component '%.*s'; components are %s", (int)(colon - s),
                  s, all);
        return -RT_EINVAL;
    }
    levels[comp] = (uint8_t)level;
    return 0;
}

int rt_log_configure(const char *spec)
{
    uint8_t levels[RT_LOG_COMPS];
    memcpy(levels, rt_log_levels, sizeof levels); /* an invalid value leaves the old levels */
    for (const char *s = spec; *s;) {
        size_t len = strcspn(s, ",");
        int err = configure_one(levels, s, len);
        if (err)
            return err;
        s += len + (s[len] == ',');
    }
    memcpy(rt_log_levels, levels, sizeof levels);
    return 0;
}

static int prefix(char *buf, size_t len, const char *comp, enum rt_log_level level)
{
    char host[sizeof who.host], rank[24] = "";
    if (who.host[0])
        memcpy(host, who.host, sizeof host);
    else if (gethostname(host, sizeof host))
        snprintf(host, sizeof host, "?");
    host[sizeof host - 1] = '\0';
    host[strcspn(host, ".")] = '\0';
    if (who.rank >= 0)
        snprintf(rank, sizeof rank, " rank %d", who.rank);
    const char *quiet = level <= RT_LOG_WARN ? "" : level_names[level];
    return snprintf(buf, len, "[%s:%d%s %s%s%s] ", host, (int)getpid(), rank, comp,
                    *quiet ? " " : "", quiet);
}

/* Writes prefix and text as one line.  errno is preserved, for "%m" and for the caller. */
static void put_line(const char *comp, enum rt_log_level level, const char *fmt, va_list ap)
{
    int err = errno;
    char buf[LINE_MAX_BYTES];
    size_t room = sizeof buf - 1; /* for the newline */
    size_t n = (size_t)prefix(buf, room, comp, level);
    errno = err;
    int text = vsnprintf(buf + n, room - n, fmt, ap);
    if (text > 0)
        n += (size_t)text < room - n ? (size_t)text : room - n - 1;
    while (n && buf[n - 1] == '\n')
        n--;
    buf[n++] = '\n';
    while (write(STDERR_FILENO, buf, n) < 0 && errno == EINTR)
        continue;
    errno = err;
}

void rt_log_hold(int ms) { rt_store_relaxed(&hold_ms, ms); }

void rt_log_line(enum rt_log_comp comp, enum rt_log_level level, const char *fmt, ...)
{
    va_list ap;
    int err = errno, ms = level == RT_LOG_ERROR ? rt_swap(&hold_ms, 0) : 0;
    if (ms)
        usleep((useconds_t)ms * 1000);
    errno = err;
    va_start(ap, fmt);
    put_line(comp_names[comp], level, fmt, ap);
    va_end(ap);
}

void rt_bug(const char *file, int line, const char *fmt, ...)
{
    void *frames[BACKTRACE_MAX];
    va_list ap;
    va_start(ap, fmt);
    put_line("bug", RT_LOG_ERROR, fmt, ap);
    va_end(ap);
    rt_log_line(RT_LOG_BASE, RT_LOG_ERROR,
                "defect of Weft at %s:%d; please report it with the backtrace", file, line);
    backtrace_symbols_fd(frames, backtrace(frames, BACKTRACE_MAX), STDERR_FILENO);
    abort();
}
