/* SPDX-License-Identifier: BSD-3-Clause */
/* Doorbells: how a waiting process sleeps and is woken.  The sleeper stores `asleep` and orders
 * this store before its last poll with membarrier(2), which makes every other registered process
 * execute a fence.  So a process that rings needs no fence of its own between storing its data and
 * reading `asleep`.  Any thread may ring, and several threads of a process may sleep on its bell: a
 * ring wakes all of them, because each has armed it before its own last poll.
 *
 * A process whose transports have descriptors sleeps in poll(2), which cannot wait for a futex.  So
 * it also has a datagram socket, to which ringing processes send an empty message; one thread of a
 * process at a time sleeps so. */
#include "runtime/mem/segment_int.h"

#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/lock.h"
#include "runtime/base/log.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* Longest sleep of a process that has no bell socket. */
#define POLL_DEAF_US 1000

static struct rt_bell *my_bell(void) { return &rt_node.bells[rt_node.rank]; }

static uint32_t awake_state(void) { return rt_node_private.membarrier ? 0 : RT_BELL_FENCE; }

static bool registered(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

void rt_node_register(void) { (void)registered(); }

void rt_bell_init(void)
{
    /* a process alone in the segment is never rung and need not register */
    rt_node_private.membarrier = rt_node_private.alone || registered();
    rt_node.fence_needed = !rt_node_private.membarrier;
    rt_store_release(&my_bell()->asleep, awake_state());
}

void rt_bell_open(void)
{
    uint32_t awake = 0;
    if (!rt_node_private.alone)
        return;
    rt_node_private.membarrier = registered();
    rt_node.fence_needed = !rt_node_private.membarrier;
    rt_node_private.alone = false;
    rt_cas(&my_bell()->asleep, &awake, awake_state());
}

void rt_bell_fini(void)
{
    if (rt_node_private.bell_fd > 0)
        close(rt_node_private.bell_fd);
    rt_node_private.bell_fd = 0;
}

/* The socket of this process, created at first use; its name is in the abstract namespace and
 * disappears with the socket.  -1: none, logged once. */
static int bell_socket(void)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    int fd = rt_load_acquire(&rt_node_private.bell_fd), none = 0;

    if (fd)
        return fd;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    /* bound without a name, it gets one of five digits from the kernel */
    if (fd < 0 || bind(fd, (struct sockaddr *)&name, sizeof name.sun_family) < 0) {
        log_warn(MEM, "no wake-up socket (%m); a sleeping rank may respond late");
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    if (!rt_cas(&rt_node_private.bell_fd, &none, fd)) {
        if (fd >= 0)
            close(fd);
        return none;
    }
    return fd;
}

/* Called by the thread that will sleep: another thread may have created the socket to ring with,
 * and this thread must not sleep before the name can be read. */
static void publish_name(void)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    socklen_t len = sizeof name;
    int fd = bell_socket();

    if (fd >= 0 && !my_bell()->socket[0] && getsockname(fd, (struct sockaddr *)&name, &len) == 0)
        memcpy(my_bell()->socket, name.sun_path + 1, sizeof my_bell()->socket - 1);
}

/* The name has the length chosen by the kernel, without a terminating zero. */
static bool send_to(int fd, const struct rt_bell *b)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    size_t len = strnlen(b->socket, sizeof b->socket);

    memcpy(name.sun_path + 1, b->socket, len);
    return !len || sendto(fd, "", 0, 0, (struct sockaddr *)&name,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)) >= 0;
}

/* Messages that their receivers have not read yet fill the buffer of the socket from which they
 * were sent, after a few hundred.  Another socket has room, and may be closed before they are read.
 */
static void ring_socket(const struct rt_bell *b)
{
    int fd = bell_socket();

    if (fd < 0 || send_to(fd, b) || errno != EAGAIN)
        return;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    send_to(fd, b);
    close(fd);
}

void rt_bell_wake(struct rt_bell *b)
{
    rt_fence(); /* for owners without membarrier: the data before this second read */
    uint32_t state = rt_load_relaxed(&b->asleep);
    /* Cleared before the call, so that other processes do not ring while the owner wakes up; and
     * before `word` changes, so that a thread of the owner which arms again meanwhile sees a
     * changed word.  If another state is found, another process wakes all threads that have armed
     * before, or one more thread of the owner has armed: the others still have to be woken. */
    do
        if (!(state & RT_BELL_ASLEEP))
            return;
    while (!rt_cas(&b->asleep, &state, state & RT_BELL_FENCE));
    rt_fetch_add(&b->word, 1u);
    if (state & RT_BELL_POLLS)
        ring_socket(b);
    if (!(state & RT_BELL_POLLS) || state & RT_BELL_SHARED)
        syscall(SYS_futex, &b->word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void rt_node_barrier(void)
{
    if (rt_node_private.membarrier && !rt_node_private.alone)
        syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
    rt_fence();
}

bool rt_node_fences(int r)
{
    return rt_node.bells && rt_load_acquire(&rt_node.bells[r].asleep) & RT_BELL_FENCE;
}

/* The threads of this process that have armed, and whether one of them polls.  A ring clears
 * `asleep` and leaves these. */
static struct {
    struct rt_lock lock;
    uint32_t n;
    bool polls;
} armed_by = { .lock = RT_LOCK_INIT };

uint32_t rt_bell_arm(bool polls)
{
    struct rt_bell *b = my_bell();
    /* Read before arming: each later wake-up then makes the word differ from this value. */
    uint32_t word = rt_load_acquire(&b->word);

    if (polls)
        publish_name();
    rt_lock(&armed_by.lock);
    armed_by.n++;
    armed_by.polls |= polls;
    /* the name of the socket before `asleep` */
    rt_store_release(&b->asleep, awake_state() | RT_BELL_ASLEEP |
                                     (armed_by.polls ? RT_BELL_POLLS : 0) |
                                     (armed_by.n > 1 ? RT_BELL_SHARED : 0));
    rt_unlock(&armed_by.lock);
    rt_node_barrier(); /* `asleep` before the caller's last poll */
    return word;
}

bool rt_bell_rung(uint32_t armed) { return rt_load_acquire(&my_bell()->word) != armed; }

/* While others have armed, `asleep` stays as it is: a needless ring is harmless. */
void rt_bell_disarm(bool polls)
{
    rt_lock(&armed_by.lock);
    armed_by.n -= armed_by.n > 0;
    if (polls)
        armed_by.polls = false;
    if (!armed_by.n)
        rt_store_relaxed(&my_bell()->asleep, awake_state());
    rt_unlock(&armed_by.lock);
}

/* A process that rings changes `word` and then calls the kernel.  If the owner sees the change
 * before that call and sleeps again, the call ends the second sleep, for which nothing has rung. */
bool rt_bell_sleep(uint32_t armed, int timeout_us)
{
    uint64_t end = rt_now_ns() + (uint64_t)timeout_us * 1000u, now;

    while (!rt_bell_rung(armed)) {
        uint64_t left = timeout_us >= 0 && (now = rt_now_ns()) < end ? end - now : 0;
        struct timespec t = { (time_t)(left / 1000000000u), (long)(left % 1000000000u) };
        if (timeout_us >= 0 && !left)
            return false;
        syscall(SYS_futex, &my_bell()->word, FUTEX_WAIT, armed, timeout_us < 0 ? NULL : &t, NULL,
                0);
    }
    return true;
}

bool rt_bell_poll(uint32_t armed, struct pollfd *p, int nfds, int timeout_us)
{
    int fd = bell_socket(), n = 0;
    char none;

    p[0] = (struct pollfd){ .fd = fd, .events = POLLIN };
    if (fd < 0 && (timeout_us < 0 || timeout_us > POLL_DEAF_US))
        timeout_us = POLL_DEAF_US;
    if (!rt_bell_rung(armed))
        n = poll(p, (nfds_t)nfds + 1, timeout_us < 0 ? -1 : (timeout_us + 999) / 1000);
    while (fd >= 0 && recv(fd, &none, sizeof none, MSG_DONTWAIT) >= 0)
        ;
    return n > 0 || rt_bell_rung(armed);
}
