/* SPDX-License-Identifier: BSD-3-Clause */
/* See pmi.h.  The wire protocol of PMI 1.1: a line of NAME=VALUE words each way.  Values have no
 * spaces and a greatest length, so ours are hexadecimal, and cut into several where they are
 * longer: the value of a key starts with the number of bytes in all, and what does not fit is the
 * value of "KEY.1", "KEY.2" and so on.  A key is put once and never changed, which Hydra refuses.
 */
#include "runtime/boot/pmi.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/boot/launched.h"
#include "runtime/boot/store.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_LEN 4096 /* of a request or an answer */
#define VALUE_MAX 1023    /* longest value, where the launcher allows as much */
#define VALUE_MIN 64      /* a launcher that allows less is refused */
#define LENGTH_DIGITS 8   /* number of bytes in all, at the start of the first value */

static struct {
    int fd; /* -1: left, or never opened */
    size_t value_max;
    char kvsname[256]; /* of this job's store */
    char in[LINE_MAX_LEN];
    size_t nin; /* bytes in `in`, from its start */
} pmi = { .fd = -1 };

static int lost(const char *what, const char *why)
{
    log_error(BOOT,
              "the launcher's PMI connection (PMI_FD=%d) failed in \"%.60s\": %s; is the launcher "
              "still running?",
              pmi.fd, what, why);
    return -RT_EBOOT;
}

static int write_all(const char *text, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t n = write(pmi.fd, text + at, len - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return lost(text, strerror(errno));
        at += (size_t)n;
    }
    return 0;
}

/* Reads one line without its end into `line`. */
static int read_line(const char *what, char line[LINE_MAX_LEN])
{
    for (;;) {
        char *end = memchr(pmi.in, '\n', pmi.nin);
        if (end) {
            size_t len = (size_t)(end - pmi.in);
            memcpy(line, pmi.in, len);
            line[len] = '\0';
            pmi.nin -= len + 1;
            memmove(pmi.in, end + 1, pmi.nin);
            return 0;
        }
        if (pmi.nin == sizeof pmi.in)
            return lost(what, "its answer is too long");
        ssize_t n = read(pmi.fd, pmi.in + pmi.nin, sizeof pmi.in - pmi.nin);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return lost(what, n < 0 ? strerror(errno) : "the launcher has closed it");
        pmi.nin += (size_t)n;
    }
}

/* The value of NAME=VALUE in a line; NULL: there is none.  It ends at a space or at the end. */
static const char *word(const char *line, const char *name)
{
    size_t len = strlen(name);
    for (const char *p = line; p; p = strchr(p, ' ')) {
        p += strspn(p, " ");
        if (!strncmp(p, name, len) && p[len] == '=')
            return p + len + 1;
    }
    return NULL;
}

static bool word_is(const char *line, const char *name, const char *value)
{
    const char *w = word(line, name);
    size_t len = strlen(value);
    return w && !strncmp(w, value, len) && (w[len] == ' ' || !w[len]);
}

/* Sends a line and reads the answer, whose command must be `cmd`.  -RT_ENOENT: the launcher's
 * return code is not 0. */
static int ask(const char *request, const char *cmd, char line[LINE_MAX_LEN])
{
    if (pmi.fd < 0) {
        log_error(BOOT, "this rank has left the launcher's PMI already, in its last MPI_Finalize; "
                        "ranks that it has not communicated with before are out of its reach now");
        return -RT_EBOOT;
    }
    int err = write_all(request, strlen(request));
    if (!err)
        err = read_line(request, line);
    if (err)
        return err;
    if (!word_is(line, "cmd", cmd)) {
        log_error(BOOT, "the launcher's PMI answers \"%.200s\" to \"%.60s\", expected cmd=%s", line,
                  request, cmd);
        return -RT_EBOOT;
    }
    return !word(line, "rc") || word_is(line, "rc", "0") ? 0 : -RT_ENOENT;
}

static int refused(const char *what, const char *line)
{
    log_error(BOOT, "the launcher's PMI refuses %s: \"%.200s\"", what, line);
    return -RT_EBOOT;
}

/* ---- values ---- */

static char digit(unsigned n) { return (char)(n < 10 ? '0' + n : 'a' + n - 10); }

static int from_digit(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Bytes that piece i holds; the first has the length, too. */
static size_t room(int i) { return (pmi.value_max - (i ? 0 : LENGTH_DIGITS)) / 2; }

static void piece_key(const char *key, int i, char text[96])
{
    if (i)
        snprintf(text, 96, "%.80s.%d", key, i);
    else
        snprintf(text, 96, "%.80s", key);
}

static int put_piece(const char *key, int i, const unsigned char *val, size_t len, size_t whole)
{
    char request[LINE_MAX_LEN], line[LINE_MAX_LEN], name[96], text[VALUE_MAX + 1];
    size_t at = 0;
    piece_key(key, i, name);
    if (!i)
        at = (size_t)snprintf(text, sizeof text, "%0*zx", LENGTH_DIGITS, whole);
    for (size_t k = 0; k < len; k++) {
        text[at++] = digit(val[k] >> 4);
        text[at++] = digit(val[k] & 15);
    }
    text[at] = '\0';
    snprintf(request, sizeof request, "cmd=put kvsname=%s key=%s value=%s\n", pmi.kvsname, name,
             text);
    int err = ask(request, "put_result", line);
    return err == -RT_ENOENT ? refused(name, line) : err;
}

static int put(void *arg, const char *key, const void *val, size_t len)
{
    size_t at = 0;
    int err = 0;
    (void)arg;
    for (int i = 0; !err && (!i || at < len); i++) {
        size_t n = len - at < room(i) ? len - at : room(i);
        err = put_piece(key, i, (const unsigned char *)val + at, n, len);
        at += n;
    }
    return err;
}

/* Gets the bytes of a piece that the caller has room for. */
static int get_piece(const char *key, int i, unsigned char *val, size_t max, size_t *whole)
{
    char request[LINE_MAX_LEN], line[LINE_MAX_LEN], name[96];
    piece_key(key, i, name);
    snprintf(request, sizeof request, "cmd=get kvsname=%s key=%s\n", pmi.kvsname, name);
    int err = ask(request, "get_result", line);
    const char *text = err ? NULL : word(line, "value");
    if (err == -RT_ENOENT || (!err && !text))
        return refused(name, line);
    if (err)
        return err;
    if (!i) {
        char length[LENGTH_DIGITS + 1];
        snprintf(length, sizeof length, "%s", text);
        if (strlen(length) < LENGTH_DIGITS)
            return refused(name, line);
        *whole = strtoul(length, NULL, 16);
        text += LENGTH_DIGITS;
        max = max < *whole ? max : *whole;
    }
    max = max < room(i) ? max : room(i);
    for (size_t k = 0; k < max; k++) {
        int high = from_digit(text[2 * k]), low = high < 0 ? -1 : from_digit(text[2 * k + 1]);
        if (low < 0)
            return refused(name, line);
        val[k] = (unsigned char)(high << 4 | low);
    }
    return 0;
}

/* Values are there since the last barrier, so nothing is waited for. */
static int get(void *arg, const char *key, void *val, size_t max, size_t *len, int timeout_ms)
{
    size_t at = 0;
    (void)arg, (void)timeout_ms;
    int err = get_piece(key, 0, val, max, len);
    for (int i = 1; !err && (at += room(i - 1)) < *len && at < max; i++)
        err = get_piece(key, i, (unsigned char *)val + at, (*len < max ? *len : max) - at, NULL);
    return err;
}

static int barrier(void *arg)
{
    char line[LINE_MAX_LEN];
    (void)arg;
    int err = ask("cmd=barrier_in\n", "barrier_out", line);
    return err == -RT_ENOENT ? refused("a barrier", line) : err;
}

/* ---- start and end ---- */

static void leave(void *arg)
{
    char line[LINE_MAX_LEN];
    (void)arg;
    if (pmi.fd < 0)
        return;
    (void)ask("cmd=finalize\n", "finalize_ack", line);
    close(pmi.fd);
    pmi.fd = -1;
}

/* There is no answer: the launcher ends this process. */
static void end_job(void *arg, int code)
{
    char request[64];
    (void)arg;
    snprintf(request, sizeof request, "cmd=abort exitcode=%d\n", code);
    if (pmi.fd >= 0)
        (void)write_all(request, strlen(request));
}

static int start(void)
{
    char line[LINE_MAX_LEN];
    int err = ask("cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init", line);
    if (err == -RT_ENOENT || (!err && !word_is(line, "pmi_version", "1")))
        return refused("version 1.1", line);
    if (!err)
        err = ask("cmd=get_maxes\n", "maxes", line);
    if (err)
        return err;
    const char *longest = word(line, "vallen_max");
    long max = longest ? strtol(longest, NULL, 10) - 1 : 0;
    if (max < VALUE_MIN)
        return refused("values of 64 bytes", line);
    pmi.value_max = max < VALUE_MAX ? (size_t)max : VALUE_MAX;
    err = ask("cmd=get_my_kvsname\n", "my_kvsname", line);
    const char *name = err ? NULL : word(line, "kvsname");
    if (!err && !name)
        return refused("the name of the job", line);
    if (!err)
        snprintf(pmi.kvsname, sizeof pmi.kvsname, "%.*s", (int)strcspn(name, " "), name);
    return err;
}

int rt_pmi_open(void)
{
    struct rt_launched by;
    rt_launched_find(&by);
    pmi.fd = by.pmi_fd;
    pmi.nin = 0;
    (void)fcntl(pmi.fd, F_SETFD, FD_CLOEXEC); /* programs that this one starts are not ranks */
    int err = start();
    if (err)
        return err == -RT_ENOENT ? -RT_EBOOT : err;
    rt_store_set(&(struct rt_store){ .rank = (int)by.rank,
                                     .size = (int)by.size,
                                     .timeout_s = INT_MAX / 1000,
                                     .put = put,
                                     .get = get,
                                     .barrier = barrier,
                                     .leave = leave,
                                     .abort = end_job });
    return 0;
}
