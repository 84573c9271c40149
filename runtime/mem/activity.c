/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes the notes of this process and reads those of others.  Any thread may call the functions;
 * a note belongs to the thread that has begun it. */
#include "runtime/mem/activity.h"
#include "runtime/base/atomic.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/frames.h"
#include "runtime/mem/segment_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A writer needs less than a microsecond; it may lose its core once. */
#define READ_ATTEMPTS 1000

static uint64_t unseen;
uint64_t *rt_activity_bytes = &unseen;

void rt_activity_attach(struct rt_activity *page)
{
    if (page) {
        page->rank = (uint32_t)rt_boot.rank;
        page->pid = (uint32_t)getpid();
    }
    rt_activity_bytes = page ? &page->moved : &unseen;
}

static struct rt_activity *own_page(void)
{
    return rt_node.base ? rt_node_activity(rt_node.base, &rt_node_private.at, rt_node.rank) : NULL;
}

struct rt_wait_note *rt_activity_begin(uint64_t since_ns)
{
    static _Thread_local uint32_t tid;
    struct rt_activity *page = own_page();
    struct rt_wait_note empty = { .since_ns = since_ns };
    tid = tid ? tid : (uint32_t)syscall(SYS_gettid);
    empty.nstack = (uint32_t)rt_frames(empty.stack, RT_ACTIVITY_STACK, empty.call,
                                       sizeof empty.call);
    for (int i = 0; page && i < RT_ACTIVITY_NOTES; i++) {
        struct rt_wait_note *n = &page->notes[i];
        uint32_t nobody = 0;
        if (!rt_cas(&n->tid, &nobody, tid))
            continue;
        rt_activity_change(n);
        memcpy(&n->since_ns, &empty.since_ns, sizeof *n - offsetof(struct rt_wait_note, since_ns));
        return n;
    }
    if (page)
        rt_fetch_add(&page->nhidden, 1u);
    return NULL;
}

void rt_activity_change(struct rt_wait_note *n)
{
    rt_store_relaxed(&n->version, n->version + 1);
    rt_fence(); /* the odd version before the content */
}

void rt_activity_publish(struct rt_wait_note *n) { rt_store_release(&n->version, n->version + 1); }

struct rt_wait_note *rt_activity_await(enum rt_wait_kind kind, uint32_t rank)
{
    struct rt_wait_note *n = rt_activity_begin(rt_now_ns());
    if (n) {
        n->item = (struct rt_wait_item){ .kind = kind, .world = (int32_t)rank };
        rt_activity_publish(n);
    }
    return n;
}

void rt_activity_end(struct rt_wait_note *n, uint64_t now_ns)
{
    struct rt_activity *page = own_page();
    if (!page)
        return;
    if (!n) {
        rt_fetch_add(&page->nhidden, UINT32_MAX);
        return;
    }
    rt_activity_change(n);
    n->since_ns = 0;
    memcpy(page->last_call, n->call, sizeof page->last_call);
    rt_store_relaxed(&page->left_ns, now_ns);
    rt_fetch_add(&page->nwaits, 1u);
    rt_activity_publish(n);
    rt_store_release(&n->tid, 0u);
}

uint64_t *rt_activity_counters(uint64_t nmoving)
{
    struct rt_activity *page = own_page();
    if (!page)
        return NULL;
    page->ncounters = nmoving;
    return page->counters;
}

void rt_activity_failed(int32_t world)
{
    struct rt_activity *page = own_page();
    uint32_t n = page ? page->faults.nfailed : 0;
    if (!page)
        return;
    if (n < RT_ACTIVITY_FAILED)
        page->faults.failed[n] = world;
    rt_store_release(&page->faults.nfailed, n + 1);
}

void rt_activity_revoked(uint32_t ctx, const char *name)
{
    struct rt_activity *page = own_page();
    struct rt_activity_faults *f = page ? &page->faults : NULL;
    for (int i = 0; f && i < RT_ACTIVITY_REVOKED; i++)
        if (!f->revoked[i].ctx) {
            snprintf(f->revoked[i].name, sizeof f->revoked[i].name, "%s", name);
            rt_store_release(&f->revoked[i].ctx, ctx);
            break;
        }
    if (f)
        f->nrevoked++;
}

void rt_activity_freed(uint32_t ctx)
{
    struct rt_activity *page = own_page();
    struct rt_activity_faults *f = page ? &page->faults : NULL;
    for (int i = 0; f && i < RT_ACTIVITY_REVOKED; i++)
        if (f->revoked[i].ctx == ctx)
            rt_store_release(&f->revoked[i].ctx, 0u);
    if (f)
        f->nrevoked--;
}

/* Whether the file is a node segment; maps it. */
static bool map_segment(int fd, struct rt_activity_view *v)
{
    struct node_head h;
    struct stat st;
    if (pread(fd, &h, sizeof h, 0) != sizeof h || h.magic != NODE_MAGIC || fstat(fd, &st) < 0 ||
        (uint64_t)st.st_size != h.nbytes || !h.size)
        return false;
    struct node_layout at = rt_node_layout(h.size, h.pair_nbytes);
    if (at.nbytes != h.nbytes)
        return false;
    void *base = mmap(NULL, at.pairs, PROT_READ, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return false;
    *v = (struct rt_activity_view){ .base = base, .nbytes = at.pairs, .size = (int)h.size };
    return true;
}

int rt_activity_open(pid_t pid, struct rt_activity_view *v)
{
    char path[64];
    struct dirent *e;
    struct stat st;
    int err = -RT_ENOTSUP;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    if (!dir)
        return errno == EACCES || errno == EPERM ? -RT_EPERM : -RT_ENOTSUP;
    while (err && (e = readdir(dir))) {
        if (fstatat(dirfd(dir), e->d_name, &st, 0) < 0 || !S_ISREG(st.st_mode) ||
            (st.st_mode & 0777) != 0600)
            continue; /* opening other files may block, or have an effect */
        int fd = openat(dirfd(dir), e->d_name, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (map_segment(fd, v))
            err = 0;
        close(fd);
    }
    closedir(dir);
    return err;
}

void rt_activity_close(struct rt_activity_view *v)
{
    if (v->base)
        munmap(v->base, v->nbytes);
    *v = (struct rt_activity_view){ 0 };
}

static void read_note(const struct rt_wait_note *n, struct rt_wait_note *out)
{
    for (int i = 0; i < READ_ATTEMPTS; i++) {
        uint32_t before = rt_load_acquire(&n->version);
        memcpy(out, n, sizeof *out);
        rt_fence(); /* the content before the version */
        if (!(before & 1) && rt_load_relaxed(&n->version) == before)
            return;
    }
    *out = (struct rt_wait_note){ 0 };
}

bool rt_activity_read(const struct rt_activity_view *v, int r, struct rt_activity *out)
{
    const struct node_head *h = v->base;
    struct node_layout at = rt_node_layout(h->size, h->pair_nbytes);
    const struct rt_bell *b = (const struct rt_bell *)((const char *)v->base + at.bells) + r;
    const struct rt_activity *page = rt_node_activity(v->base, &at, r);
    uint32_t alive = rt_load_acquire(&b->alive);
    if (!alive)
        return false;
    memcpy(out, page, offsetof(struct rt_activity, notes));
    for (int i = 0; i < RT_ACTIVITY_NOTES; i++)
        read_note(&page->notes[i], &out->notes[i]);
    out->state = alive;
    if (!b->pidns || b->pidns != rt_node_pidns())
        out->pid = 0;
    return true;
}
