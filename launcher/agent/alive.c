/* SPDX-License-Identifier: BSD-3-Clause */
/* Heartbeats of an agent while its main thread executes an order of the start.  Reading the
 * topology, loading PMIx from a slow file system and starting many ranks may take longer than the
 * parent waits for a silent host, and meanwhile the main thread serves no channel.  So a thread
 * sends FRAME_PING instead.  It writes only while the main thread is busy, because the main thread
 * then only queues frames, and only if no frame is partly written.  After AGENT_PATIENCE the thread
 * stops sending, so that a main thread that hangs is detected. */
#include "launcher/agent/agent.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock; /* guards busy and since_ns; held while a ping is written */
    pthread_t thread;
    bool running, busy;
    uint64_t since_ns; /* start of the order */
    int stop_fd;       /* readable: the thread must end */
} alive = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* A frame without payload is written completely or not at all: the channel is a pipe or a local
 * socket. */
static void ping(void)
{
    uint8_t buf[FRAME_HEADER];
    struct frame_out o = { .buf = buf, .cap = sizeof buf };
    frame_begin(&o, FRAME_PING, (uint32_t)agent.first);
    frame_end(&o);
    if (write(agent.up.out, o.buf, o.len) < 0) {
    } /* the channel is full, or the parent has gone */
}

static void *run(void *arg)
{
    const uint64_t timeout_ns = (uint64_t)agent.conf.timeout_s * 1000000000u;
    struct pollfd stop = { .fd = alive.stop_fd, .events = POLLIN };
    int n, each_ms = agent.conf.timeout_s * 1000 / 4;

    while ((n = poll(&stop, 1, each_ms)) == 0 || (n < 0 && errno == EINTR)) {
        pthread_mutex_lock(&alive.lock);
        if (alive.busy && rt_now_ns() < alive.since_ns + AGENT_PATIENCE * timeout_ns)
            ping();
        pthread_mutex_unlock(&alive.lock);
    }
    return arg;
}

void agent_alive_start(void)
{
    sigset_t all, before;

    alive.stop_fd = eventfd(0, EFD_CLOEXEC);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* only the main thread handles signals */
    alive.running = alive.stop_fd >= 0 && pthread_create(&alive.thread, NULL, run, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!alive.running)
        log_warn(LAUNCH, "could not start the heartbeat thread: "
                         "a slow start may count as a frozen host");
}

void agent_alive_busy(bool busy)
{
    if (!alive.running && !busy)
        return;
    pthread_mutex_lock(&alive.lock);
    alive.busy = busy;
    alive.since_ns = rt_now_ns();
    pthread_mutex_unlock(&alive.lock);
}

void agent_alive_stop(void)
{
    if (alive.running && eventfd_write(alive.stop_fd, 1) == 0) {
        pthread_join(alive.thread, NULL);
        close(alive.stop_fd);
    }
    alive.running = false;
}
