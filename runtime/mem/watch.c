/* SPDX-License-Identifier: BSD-3-Clause */
/* The watch over memory; watch.h explains it.
 *
 * The thread must not wait for other threads: a thread that unmaps watched memory waits for it,
 * perhaps inside free() with the allocator's lock.  So the thread takes no lock, allocates nothing,
 * and passes ranges on in a ring with one writer and one reader.  The kernel lets the other thread
 * continue when the event is read, shortly before it is in the ring; during that time `now` is odd,
 * and the reader waits.
 *
 * The descriptor belongs to this process only.  If a child kept it open, closing it here would not
 * end the watch, and a munmap() of this process would wait for a reader forever. */
#include "runtime/mem/watch.h"
#include "runtime/base/err.h"
#include "runtime/base/idle.h"
#include "runtime/base/log.h"
#include "runtime/base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

#define RING 1024u /* events between two calls of rt_watch_next(); more are reported as ALL */
#define FEATURES (UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE)
#define STACK_NBYTES (256u << 10) /* includes thread-local variables of other libraries */

struct rt_watch_seq rt_watch_seq;
uint32_t rt_watch_seen;

static struct {
    int fd, stop, maps; /* userfaultfd; eventfd that ends the thread; /proc/self/maps */
    bool open;
    bool dead; /* this process is a child of the process that opened the watch */
    bool has_atfork;
    pthread_t thread;
    uint32_t head;   /* written by the thread */
    uint32_t lost;   /* set by the thread, cleared by the reader */
    uint32_t broken; /* set by the thread: the program has closed its descriptors */
    _Alignas(RT_CACHE_LINE) uint32_t tail; /* written by the reader */
    struct range {
        uintptr_t start, end;
    } ring[RING];
    char why_not[200];
} watch = { .fd = -1, .stop = -1, .maps = -1 };

/* ---- the thread ---- */

static void push(uint64_t start, uint64_t end)
{
    uint32_t head = watch.head;
    if (head - rt_load_acquire(&watch.tail) == RING) {
        rt_store_release(&watch.lost, 1);
        return;
    }
    watch.ring[head % RING] = (struct range){ (uintptr_t)start, (uintptr_t)end };
    rt_store_release(&watch.head, head + 1);
}

static void note(const struct uffd_msg *m)
{
    if (m->event == UFFD_EVENT_UNMAP || m->event == UFFD_EVENT_REMOVE)
        push(m->arg.remove.start, m->arg.remove.end);
    if (m->event != UFFD_EVENT_REMAP)
        return;
    push(m->arg.remap.from, m->arg.remap.from + m->arg.remap.len);
    push(m->arg.remap.to, m->arg.remap.to + m->arg.remap.len); /* the kernel watches the new range,
                                                                * too */
}

static void *run(void *arg)
{
    (void)arg;
    prctl(PR_SET_NAME, "weft-watch");
    for (;;) {
        struct pollfd p[2] = { { .fd = watch.fd, .events = POLLIN },
                               { .fd = watch.stop, .events = POLLIN } };
        struct uffd_msg m[16];
        ssize_t n;
        bool ended = poll(p, 2, -1) < 0 && errno != EINTR;
        rt_fetch_add(&rt_watch_seq.now, 1u);
        rt_fence(); /* odd before the event is read: pairs with the rt_watch_quiet() of the waiting
                     * thread */
        while ((n = read(watch.fd, m, sizeof m)) > 0)
            for (size_t i = 0; i < (size_t)n / sizeof *m; i++)
                note(&m[i]);
        if (ended || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            ended = true;
            rt_store_release(&watch.broken, 1);
        }
        rt_fetch_add(&rt_watch_seq.now, 1u);
        if (ended || p[1].revents)
            return NULL;
    }
}

/* ---- opening ---- */

static void close_all(void)
{
    int *fds[] = { &watch.fd, &watch.stop, &watch.maps };
    for (int i = 0; i < 3; i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
}

static void in_child(void)
{
    if (!watch.open)
        return;
    close_all();
    watch.dead = true;
    rt_watch_seq.now = 2; /* the thread that may have left it odd does not exist here */
    rt_watch_seen = 1;
}

static int refuse(const char *what, const char *advice)
{
    snprintf(watch.why_not, sizeof watch.why_not, "%s: %s%s%s", what, strerror(errno),
             *advice ? "; " : "", advice);
    log_debug(MEM, "registrations of host memory are not kept: %s", watch.why_not);
    close_all();
    return -RT_ENOTSUP;
}

static int open_fd(void)
{
    int flags = O_CLOEXEC | O_NONBLOCK;
    watch.fd = (int)syscall(SYS_userfaultfd, flags | UFFD_USER_MODE_ONLY);
    if (watch.fd < 0 && errno == EINVAL) /* before Linux 5.11 */
        watch.fd = (int)syscall(SYS_userfaultfd, flags);
    if (watch.fd < 0)
        return refuse("userfaultfd", errno == EPERM ? "in a container, allow userfaultfd in its "
                                                      "seccomp profile"
                                                    : "needs Linux 5.7 with CONFIG_USERFAULTFD");
    struct uffdio_api api = { .api = UFFD_API, .features = FEATURES };
    if (ioctl(watch.fd, UFFDIO_API, &api) < 0)
        return refuse("userfaultfd events", "needs Linux 5.7");
    if (!(api.features & UFFD_FEATURE_PAGEFAULT_FLAG_WP)) {
        errno = ENOTSUP;
        return refuse("userfaultfd without faults", "needs Linux 5.7 on x86-64, 6.10 on arm64");
    }
    return 0;
}

static int start_thread(void)
{
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_NBYTES);
    int err = rt_thread_start(&watch.thread, &attr, run, NULL);
    pthread_attr_destroy(&attr);
    errno = err;
    return err ? refuse("a thread", "") : 0;
}

int rt_watch_open(void)
{
    if (watch.open || watch.dead)
        return watch.dead || rt_load_acquire(&watch.broken) ? -RT_ENOTSUP : 0;
    int err = open_fd();
    if (err)
        return err;
    watch.maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (watch.maps < 0)
        return refuse("/proc/self/maps", "");
    watch.stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (watch.stop < 0)
        return refuse("eventfd", "");
    if (!watch.has_atfork && (errno = pthread_atfork(NULL, NULL, in_child)))
        return refuse("pthread_atfork", "");
    watch.has_atfork = true;
    watch.head = watch.tail = watch.lost = watch.broken = 0;
    if ((err = start_thread()))
        return err;
    watch.open = true;
    watch.why_not[0] = '\0';
    return 0;
}

void rt_watch_close(void)
{
    uint64_t one = 1;
    if (!watch.open)
        return;
    watch.open = false;
    if (watch.dead)
        return;
    if (watch.broken) { /* the numbers may belong to other files now */
        pthread_join(watch.thread, NULL);
        watch.fd = watch.stop = watch.maps = -1;
        return;
    }
    /* Until the descriptor is closed, no thread reads events; closing it releases waiting
     * threads. */
    if (write(watch.stop, &one, sizeof one) == (ssize_t)sizeof one)
        pthread_join(watch.thread, NULL);
    close_all();
}

const char *rt_watch_why_not(void) { return watch.why_not; }

bool rt_watch_is_child(void) { return watch.dead; }

/* ---- ranges ---- */

bool rt_watch_add(uintptr_t start, uintptr_t end)
{
    if (!watch.open || watch.dead || rt_load_acquire(&watch.broken))
        return false;
    struct uffdio_register r = { .range = { start, end - start }, .mode = UFFDIO_REGISTER_MODE_WP };
    if (ioctl(watch.fd, UFFDIO_REGISTER, &r) < 0)
        return false;
    /* checked while the range is watched already: later changes are reported */
    if (rt_maps_anonymous(watch.maps, start, end))
        return true;
    rt_watch_remove(start, end);
    return false;
}

void rt_watch_remove(uintptr_t start, uintptr_t end)
{
    struct uffdio_range r = { start, end - start };
    if (watch.open && !watch.dead)
        ioctl(watch.fd, UFFDIO_UNREGISTER, &r); /* fails if nothing is mapped any more */
}

enum rt_watch_report rt_watch_next(uintptr_t *start, uintptr_t *end)
{
    uint32_t now;
    if (watch.dead)
        return RT_WATCH_ALL;
    struct rt_idle idle = { 0 };
    while ((now = rt_load_acquire(&rt_watch_seq.now)) & 1)
        rt_idle_pause(&idle, 1); /* as long as a read(2) takes */
    if (rt_load_acquire(&watch.broken)) {
        snprintf(watch.why_not, sizeof watch.why_not, "the program has closed Weft's descriptors");
        return RT_WATCH_ALL;
    }
    if (rt_load_acquire(&watch.lost)) {
        rt_swap(&watch.lost, 0u);
        rt_store_release(&watch.tail, rt_load_acquire(&watch.head));
        return RT_WATCH_ALL;
    }
    uint32_t tail = watch.tail;
    if (tail == rt_load_acquire(&watch.head)) {
        rt_watch_seen = now;
        return RT_WATCH_NONE;
    }
    struct range r = watch.ring[tail % RING];
    rt_store_release(&watch.tail, tail + 1);
    *start = r.start;
    *end = r.end;
    return RT_WATCH_RANGE;
}
