/* SPDX-License-Identifier: BSD-3-Clause */
/* Log lines: prefix, levels, WEFT_LOG syntax, one write per line, errno kept, the end of
 * rt_bug(). */
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "test/check.h"
#include "test/unit/capture.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

static int lines(const char *s)
{
    int n = 0;
    for (; *s; s++)
        n += *s == '\n';
    return n;
}

static void prefix_and_text(void)
{
    char want[256];
    rt_log_identify("node7.cluster.example", 3);
    capture_begin();
    log_warn(BTL, "ring of rank %d is full", 5);
    snprintf(want, sizeof want, "[node7:%d rank 3 btl] ring of rank 5 is full\n", (int)getpid());
    CHECK_STR(capture_end(), want);
    rt_log_identify("node7", -1);
    capture_begin();
    log_error(BOOT, "%s", "no server");
    snprintf(want, sizeof want, "[node7:%d boot] no server\n", (int)getpid());
    CHECK_STR(capture_end(), want);
}

static void errno_reaches_the_text_and_survives(void)
{
    capture_begin();
    errno = ENOENT;
    log_error(MEM, "could not open: %m");
    CHECK_EQ(errno, ENOENT);
    CHECK(strstr(capture_end(), "could not open: No such file or directory\n") != NULL);
}

static void quiet_levels_print_nothing(void)
{
    capture_begin();
    log_info(BTL, "chatter");
    log_debug(BTL, "chatter");
    CHECK_STR(capture_end(), "");
    CHECK_EQ(rt_log_configure("btl:debug"), 0);
    capture_begin();
    log_debug(BTL, "shown");
    log_debug(COLL, "not shown");
    const char *text = capture_end();
    CHECK(strstr(text, " btl debug] shown\n") != NULL);
    CHECK_EQ(lines(text), 1);
    CHECK_EQ(rt_log_configure("warn"), 0);
}

static void one_error_is_held(void)
{
    uint64_t start = rt_now_ns();
    capture_begin();
    rt_log_hold(50);
    errno = ENOENT;
    log_error(BTL, "later: %m");
    CHECK(rt_now_ns() - start >= 50000000);
    CHECK(strstr(capture_end(), "later: No such file or directory\n") != NULL);
    rt_log_hold(60000); /* longer than the test can take */
    capture_begin();
    log_warn(BTL, "at once");
    rt_log_hold(0);
    log_error(BTL, "at once");
    CHECK_EQ(lines(capture_end()), 2);
}

static void spec_lists(void)
{
    CHECK_EQ(rt_log_configure("error,btl:info,coll:trace"), 0);
    CHECK_EQ(rt_log_levels[RT_LOG_BASE], RT_LOG_ERROR);
    CHECK_EQ(rt_log_levels[RT_LOG_BTL], RT_LOG_INFO);
    CHECK_EQ(rt_log_levels[RT_LOG_COLL], RT_LOG_TRACE);
    CHECK_EQ(rt_log_configure("warn"), 0);
}

static void bad_spec_is_one_line_and_changes_nothing(void)
{
    static const char *const bad[] = {
        "loud", "btl:loud", "bttl:debug", "info,btl:", "info,,debug",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        capture_begin();
        int err = rt_log_configure(bad[i]);
        const char *text = capture_end();
        CHECK_MSG(err == -RT_EINVAL, "'%s' gave %d", bad[i], err);
        CHECK_EQ(lines(text), 1);
        CHECK(strstr(text, "WEFT_LOG") != NULL);
        CHECK_EQ(rt_log_levels[RT_LOG_BASE], RT_LOG_WARN);
    }
}

static void long_line_is_cut_and_ends(void)
{
    static char big[10000];
    memset(big, 'x', sizeof big - 1);
    capture_begin();
    log_error(BASE, "%s", big);
    const char *text = capture_end();
    CHECK_EQ(lines(text), 1);
    CHECK(strlen(text) < 4096);
    CHECK(text[strlen(text) - 1] == '\n');
}

static void bug_prints_and_aborts(void)
{
    int status = 0;
    capture_begin();
    pid_t pid = fork();
    if (!pid)
        RT_BUG("credit %d is negative", -4);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    const char *text = capture_end();
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK(strstr(text, "credit -4 is negative") != NULL);
    CHECK(strstr(text, "log_test.c:") != NULL);
}

int main(void)
{
    RUN(prefix_and_text);
    RUN(errno_reaches_the_text_and_survives);
    RUN(quiet_levels_print_nothing);
    RUN(one_error_is_held);
    RUN(spec_lists);
    RUN(bad_spec_is_one_line_and_changes_nothing);
    RUN(long_line_is_cut_and_ends);
    RUN(bug_prints_and_aborts);
    return check_end();
}
