/* SPDX-License-Identifier: BSD-3-Clause */
/* When a process of the tree considers a child silent: after host_timeout_s during which the
 * process itself was polling.  Time in which the process was not running, because it was stopped or
 * its machine stood still, in one piece or in several, does not count. */
#include "launcher/tree/tree.h"
#include "runtime/base/clock.h"
#include "test/check.h"

#include <fcntl.h>
#include <unistd.h>

#define SECOND 1000000000ull
#define TIMEOUT_S 40 /* long compared with the test's own time, short compared with the uptime */

static struct tree_conf conf = { .timeout_s = TIMEOUT_S, .radix = 2, .via = TREE_SSH };

static struct tree_child child_in(enum tree_state state)
{
    struct tree_child c = { .state = state,
                            .first = 1,
                            .end = 2,
                            .host = "n1",
                            .err_fd = -1,
                            .polled_in = -1,
                            .polled_err = -1,
                            .exited = true };
    int in[2], out[2];
    CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    frame_open(&c.chan, in[0], out[1]); /* the other ends stay open and silent */
    c.since_ns = c.heard_ns = c.spoke_ns = rt_now_ns();
    return c;
}

static char why_lost[256];

static void take_loss(void *arg, const struct tree_child *c, const char *why)
{
    (void)arg, (void)c;
    snprintf(why_lost, sizeof why_lost, "%s", why);
}

static struct tree tree_with(struct tree_child *c)
{
    *why_lost = '\0';
    return (struct tree){
        .conf = &conf, .children = c, .n = 1, .stepped_ns = rt_now_ns(), .lost = take_loss
    };
}

/* Advances the time by this number of seconds until the next step. */
static void pass(struct tree *t, unsigned seconds)
{
    t->stepped_ns -= seconds * SECOND;
    t->children->heard_ns -= seconds * SECOND;
    t->children->since_ns -= seconds * SECOND;
    tree_step(t, NULL);
}

static void test_stood_still(enum tree_state state, unsigned seconds, int times)
{
    struct tree_child c = child_in(state);
    struct tree t = tree_with(&c);
    for (int i = 0; i < times; i++)
        pass(&t, seconds);
    CHECK_EQ(c.state, state);
    CHECK_STR(why_lost, "");
    frame_close(&c.chan);
}

/* Steps as often as poll() permits. */
static void test_silent(enum tree_state state)
{
    struct tree_child c = child_in(state);
    struct tree t = tree_with(&c);
    unsigned wait_s = (unsigned)tree_timeout_ms(&t) / 1000, seconds = 0;
    while (!*why_lost && seconds < 2 * TIMEOUT_S) {
        pass(&t, wait_s);
        seconds += wait_s;
    }
    CHECK(seconds >= TIMEOUT_S - wait_s && seconds <= TIMEOUT_S + 2 * wait_s);
    CHECK(strstr(why_lost, "host_timeout_s") != NULL);
    frame_close(&c.chan);
}

static void stood_still_once(void)
{
    test_stood_still(TREE_UP, 4 * TIMEOUT_S, 1);
    test_stood_still(TREE_STARTING, 4 * TIMEOUT_S, 1);
}

static void stood_still_again_and_again(void)
{
    test_stood_still(TREE_UP, TIMEOUT_S * 45 / 100, 5);
    test_stood_still(TREE_STARTING, TIMEOUT_S * 45 / 100, 5);
}

static void silent(void)
{
    test_silent(TREE_UP);
    test_silent(TREE_STARTING);
}

int main(void)
{
    RUN(stood_still_once);
    RUN(stood_still_again_and_again);
    RUN(silent);
    return check_end();
}
