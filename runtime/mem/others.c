/* SPDX-License-Identifier: BSD-3-Clause */
/* See others.h.  A process is watched by a pidfd, which cannot be confused by a PID that is used
 * again. */
#include "runtime/mem/others.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/base/idle.h"
#include "runtime/base/log.h"
#include "runtime/boot/jobs.h"
#include "runtime/mem/deaths.h"
#include "runtime/mem/segment_int.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_open /* Linux 5.3 */
#define SYS_pidfd_open 434
#endif
#define KEY "weft.node"

struct address {   /* in the card */
    char boot[40]; /* of the kernel */
    uint64_t pidns, netns;
    uint32_t uid, pid;
    int32_t fd, rank; /* of the segment in the process; the local rank */
    uint64_t token;
    uint32_t ncpus, zero; /* of its job on this host */
};

struct view { /* a mapped segment */
    struct view *next;
    uint64_t token;
    char *base;
    size_t nbytes;
    struct node_layout at;
    int users;
};

struct seat {
    struct rt_other pub; /* first member */
    struct view *view;
    int pidfd; /* -1: pub.ended */
    bool shares, held;
};

struct job {
    struct seat **seats; /* by rank */
    uint32_t n, nseats;
    uint32_t living, ncpus; /* processes that share memory and have not ended; of the job */
};

static struct {
    bool open, published;
    int epfd;
    struct job *jobs; /* by ns */
    uint32_t njobs;
    struct view *views;
    uint32_t living; /* processes that share memory and have not ended */
    struct address own;
} others = { .epfd = -1 };

/* ---- this process ---- */

static uint64_t namespace_id(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

static bool read_boot_id(char *to, size_t len)
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    size_t n = f ? fread(to, 1, len - 1, f) : 0;
    if (f)
        fclose(f);
    to[n] = '\0';
    return n > 0;
}

bool rt_others_is_open(void) { return others.open; }

bool rt_others_open(void)
{
    struct address *a = &others.own;
    if (others.open || !rt_node.base || rt_node_private.fd < 0 || !node_head()->token)
        return others.open;
    *a = (struct address){ .pidns = rt_node_private.pidns,
                           .netns = namespace_id("/proc/self/ns/net"),
                           .uid = (uint32_t)geteuid(),
                           .pid = (uint32_t)getpid(),
                           .fd = rt_node_private.fd,
                           .rank = rt_node.rank,
                           .token = node_head()->token,
                           .ncpus = (uint32_t)rt_boot.ncpus };
    if (!read_boot_id(a->boot, sizeof a->boot) || !a->pidns || !a->netns)
        return false;
    if (others.epfd < 0)
        others.epfd = epoll_create1(EPOLL_CLOEXEC);
    if (others.epfd < 0)
        return false;
    rt_bell_open();
    others.open = true;
    return true;
}

int rt_others_publish(void)
{
    int err = others.published ? 0 : rt_boot_keep(KEY, &others.own, sizeof others.own);
    others.published = err == 0;
    return err;
}

/* ---- mapping ---- */

static bool same_host(const struct address *a)
{
    const struct address *b = &others.own;
    return !memcmp(a->boot, b->boot, sizeof a->boot) && a->pidns == b->pidns &&
           a->netns == b->netns && a->uid == b->uid;
}

static struct view *view_find(uint64_t token)
{
    struct view *v = others.views;
    while (v && v->token != token)
        v = v->next;
    return v;
}

/* Whether the file is the segment that the address names. */
static bool view_fits(const struct view *v, const struct address *a)
{
    const struct node_head *h = (const struct node_head *)v->base;
    return h->magic == NODE_MAGIC && h->nbytes == v->nbytes && h->token == a->token && h->size &&
           rt_node_layout(h->size, h->pair_nbytes).nbytes == v->nbytes;
}

static int map_segment(int fd, const struct address *a, struct view **out)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
        st.st_size < (off_t)sizeof(struct node_head))
        return -RT_EPERM;
    struct view *v = calloc(1, sizeof *v);
    if (!v)
        return -RT_ENOMEM;
    v->nbytes = (size_t)st.st_size;
    v->token = a->token;
    v->base = mmap(NULL, v->nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (v->base == MAP_FAILED) {
        free(v);
        return -RT_ENOMEM;
    }
    if (!view_fits(v, a)) {
        munmap(v->base, v->nbytes);
        free(v);
        return -RT_EPEER; /* another process has the PID by now */
    }
    const struct node_head *h = (const struct node_head *)v->base;
    v->at = rt_node_layout(h->size, h->pair_nbytes);
    v->next = others.views;
    others.views = v;
    *out = v;
    return 0;
}

static int view_get(const struct address *a, struct view **out)
{
    char path[64];
    *out = view_find(a->token);
    if (*out)
        return 0;
    snprintf(path, sizeof path, "/proc/%u/fd/%d", a->pid, a->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? -RT_EPEER : -RT_EPERM;
    int err = map_segment(fd, a, out);
    close(fd);
    return err;
}

static void view_put(struct view *v)
{
    struct view **l = &others.views;
    if (v->users > 0)
        return;
    while (*l != v)
        l = &(*l)->next;
    *l = v->next;
    munmap(v->base, v->nbytes);
    free(v);
}

/* ---- processes ---- */

static struct seat **slot_of(struct rt_proc p)
{
    return p.ns < others.njobs && p.rank < others.jobs[p.ns].n ? &others.jobs[p.ns].seats[p.rank]
                                                               : NULL;
}

static int slot_make(struct rt_proc p)
{
    if (p.ns >= others.njobs) {
        struct job *more = realloc(others.jobs, (p.ns + 1) * sizeof *more);
        if (!more)
            return -RT_ENOMEM;
        memset(more + others.njobs, 0, (p.ns + 1 - others.njobs) * sizeof *more);
        others.jobs = more;
        others.njobs = p.ns + 1;
    }
    struct job *j = &others.jobs[p.ns];
    if (p.rank >= j->n) {
        struct seat **more = realloc(j->seats, (p.rank + 1) * sizeof(struct seat *));
        if (!more)
            return -RT_ENOMEM;
        memset(more + j->n, 0, (p.rank + 1 - j->n) * sizeof(struct seat *));
        j->seats = more;
        j->n = p.rank + 1;
    }
    return 0;
}

/* A process of job j has been met, or has ended.  Processes of several jobs may be bound to the
 * same processors, so those of the host limit the sum. */
static void count_living(struct job *j, int change)
{
    long ncpus = rt_boot.ncpus, most = sysconf(_SC_NPROCESSORS_ONLN);
    j->living += (uint32_t)change;
    rt_store_relaxed(&others.living, others.living + (uint32_t)change);
    for (uint32_t ns = 1; ns < others.njobs; ns++)
        ncpus += others.jobs[ns].living ? others.jobs[ns].ncpus : 0;
    rt_idle_configure(rt_boot.local_size + (int)others.living,
                      (int)(most > 0 && most < ncpus ? most : ncpus));
}

static void seat_free(struct seat *s)
{
    *slot_of(s->pub.proc) = NULL;
    others.jobs[s->pub.proc.ns].nseats--;
    if (s->pidfd >= 0)
        close(s->pidfd);
    s->view->users--;
    view_put(s->view);
    free(s);
}

static void seat_fill(struct seat *s, const struct address *a)
{
    struct view *v = s->view;
    const struct node_head *h = (const struct node_head *)v->base;
    size_t pair = (size_t)a->rank * h->size + (size_t)a->rank;
    s->pub.bell = (struct rt_bell *)(v->base + v->at.bells) + a->rank;
    s->pub.base = v->base;
    s->pub.nbytes = v->nbytes;
    s->pub.rank = a->rank;
    s->pub.own = v->base + v->at.pairs + pair * v->at.pair_nbytes;
}

static int seat_make(struct rt_proc p, const struct address *a)
{
    struct view *v = NULL;
    int err = slot_make(p);
    if (err)
        return err;
    int pidfd = (int)syscall(SYS_pidfd_open, a->pid, 0);
    if (pidfd < 0)
        return errno == ESRCH ? -RT_EPEER : -RT_ENOTSUP;
    err = view_get(a, &v); /* after pidfd_open(): its token proves that the PID was still the
                            * process's */
    if (!err && (a->rank < 0 || (uint32_t)a->rank >= ((struct node_head *)v->base)->size))
        err = -RT_EPEER;
    struct seat *s = err ? NULL : calloc(1, sizeof *s);
    err = err ? err : !s ? -RT_ENOMEM : 0;
    /* Reported once at most until rt_others_settle(), which cannot fail: else one of two processes
     * would believe that they share memory. */
    struct epoll_event e = { .events = EPOLLIN | EPOLLONESHOT, .data.ptr = s };
    if (!err && epoll_ctl(others.epfd, EPOLL_CTL_ADD, pidfd, &e) < 0)
        err = -RT_ESYS;
    if (err) {
        close(pidfd);
        free(s);
        if (v)
            view_put(v);
        return err;
    }
    *s = (struct seat){ .pub.proc = p, .view = v, .pidfd = pidfd };
    v->users++;
    seat_fill(s, a);
    *slot_of(p) = s;
    others.jobs[p.ns].nseats++;
    others.jobs[p.ns].ncpus = a->ncpus;
    return 0;
}

int rt_others_map(struct rt_proc p)
{
    struct address *a = NULL;
    struct seat **slot = slot_of(p);
    size_t len;
    if (slot && *slot)
        return 1;
    if (!others.published || p.ns == 0 || rt_boot_card_get(p, KEY, (void **)&a, &len) < 0)
        return 0;
    bool offered = len == sizeof *a && same_host(a);
    int err = offered ? seat_make(p, a) : 0;
    if (err < 0)
        log_info(MEM,
                 "could not map the shared memory of rank %u%s, process %u: %s; the processes that "
                 "meet use another transport",
                 p.rank, rt_boot_of_job(p.ns), a->pid, rt_err_text(err));
    free(a);
    return err < 0 ? err : offered;
}

void rt_others_settle(struct rt_proc p, bool shares)
{
    struct seat **slot = slot_of(p), *s = slot ? *slot : NULL;
    struct epoll_event e = { .events = EPOLLIN, .data.ptr = s };
    if (!s || s->shares)
        return;
    if (!shares) {
        seat_free(s);
        return;
    }
    epoll_ctl(others.epfd, EPOLL_CTL_MOD, s->pidfd, &e); /* reports an end before now, too */
    s->shares = true;
    count_living(&others.jobs[p.ns], 1);
}

struct rt_other *rt_others_find(struct rt_proc p)
{
    struct seat **slot = slot_of(p);
    return slot && *slot && (*slot)->shares ? &(*slot)->pub : NULL;
}

bool rt_others_meeting(struct rt_proc p)
{
    struct seat **slot = slot_of(p);
    return slot && *slot && !(*slot)->shares;
}

/* ---- their end ---- */

bool rt_others_is_leaving(const struct rt_other *o)
{
    return rt_load_acquire(&o->bell->alive) >= 2;
}

bool rt_others_gone(const struct rt_other *o)
{
    return o->ended || rt_load_acquire(&o->bell->alive) == 2;
}

bool rt_others_gone_now(const struct rt_other *o)
{
    const struct seat *s = (const struct seat *)o;
    struct pollfd p = { .fd = s->pidfd, .events = POLLIN };
    return rt_others_gone(o) || poll(&p, 1, 0) > 0;
}

int rt_others_fd(void) { return others.epfd; }

void rt_others_look(void)
{
    struct epoll_event e;
    while (epoll_wait(others.epfd, &e, 1, 0) == 1) {
        struct seat *s = e.data.ptr;
        if (!s->shares) /* rt_others_settle() has it reported again */
            continue;
        close(s->pidfd); /* which also removes it from epfd */
        s->pidfd = -1;
        s->pub.ended = true;
        rt_node.nended++;
        count_living(&others.jobs[s->pub.proc.ns], -1);
        rt_interrupt();
    }
}

void rt_others_hold(struct rt_other *o) { ((struct seat *)o)->held = true; }
void rt_others_release(struct rt_other *o) { ((struct seat *)o)->held = false; }

void rt_others_drop(bool (*in_use)(uint32_t ns, const void *arg), const void *arg)
{
    for (uint32_t ns = 1; ns < others.njobs; ns++) {
        struct job *j = &others.jobs[ns];
        if (!j->nseats || in_use(ns, arg))
            continue;
        for (uint32_t r = 0; r < j->n; r++)
            if (j->seats[r] && j->seats[r]->pub.ended && !j->seats[r]->held)
                seat_free(j->seats[r]);
    }
}

uint32_t rt_others_count(void) { return rt_load_relaxed(&others.living); }
