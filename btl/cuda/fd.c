/* SPDX-License-Identifier: BSD-3-Clause */
/* Passes file descriptors between processes.  Each process listens on a Unix socket whose abstract
 * name the kernel has chosen; the process's table holds the name.  A process that has a descriptor
 * for another one connects and sends it with the number of its slot, without waiting.  Both ends
 * check the user id of the other, because abstract names have no permissions.  The engine
 * serialises calls on the instance. */
#include "btl/cuda/cuda.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/boot/jobs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MAGIC 0x77637565u
#define BACKLOG 128
/* Descriptors that no message has used yet, or will use, hold at most this part of those that the
 * process may have open. */
#define KEEP_PART 4

struct note { /* sent with the descriptors of a slot */
    uint32_t magic, slot, gen, nfds;
    struct rt_name from;
};

union control {
    struct cmsghdr head;
    char room[CMSG_SPACE(RT_GPU_PARTS * sizeof(int))];
};

struct got {
    struct rt_list link; /* oldest first */
    struct rt_proc from;
    uint32_t slot, gen;
    struct rt_gpu_fds fds;
};

struct conn {
    struct rt_list link;
    int fd;
};

struct cuda_socket {
    int listener;
    struct rt_list conns, got;
    rlim_t ngot, most; /* descriptors kept, and how many may be */
};

static bool same_user(int sock)
{
    struct ucred who;
    socklen_t len = sizeof who;

    return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 && who.uid == geteuid();
}

int btl_cuda_socket_open(struct btl_cuda *b)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    socklen_t len = sizeof name.sun_family; /* without a name the kernel chooses one */
    struct rlimit files = { .rlim_cur = 0 };
    struct cuda_socket *s = calloc(1, sizeof *s);

    if (!s)
        return -RT_ENOMEM;
    rt_list_init(&s->conns);
    rt_list_init(&s->got);
    getrlimit(RLIMIT_NOFILE, &files);
    s->most = files.rlim_cur / KEEP_PART;
    s->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->listener < 0 || bind(s->listener, (struct sockaddr *)&name, len) < 0 ||
        listen(s->listener, BACKLOG) < 0)
        goto err_close;
    len = sizeof name;
    if (getsockname(s->listener, (struct sockaddr *)&name, &len) < 0)
        goto err_close;
    len -= offsetof(struct sockaddr_un, sun_path);
    if (len > sizeof b->table->name)
        goto err_close;
    memcpy(b->table->name, name.sun_path, len);
    b->table->name_len = len;
    rt_store_release(&b->table->open, 1u);
    b->socket = s;
    return 0;
err_close:
    log_info(BTL, "no Unix socket (%m): peers cannot map memory from cuMemCreate");
    if (s->listener >= 0)
        close(s->listener);
    free(s);
    return 0;
}

static void conn_close(struct conn *c)
{
    close(c->fd);
    rt_list_del(&c->link);
    free(c);
}

/* The descriptors that it still has are closed. */
static void got_drop(struct cuda_socket *s, struct got *g, int n)
{
    rt_list_del(&g->link);
    rt_gpu_fds_close(&g->fds);
    free(g);
    s->ngot -= (rlim_t)n;
}

void btl_cuda_socket_close(struct btl_cuda *b)
{
    struct cuda_socket *s = b->socket;

    for (int i = 0; i < b->npeers; i++)
        if (b->peers[i] && b->peers[i]->sock >= 0)
            close(b->peers[i]->sock);
    if (!s)
        return;
    rt_store_release(&b->table->open, 0u);
    while (!rt_list_empty(&s->conns))
        conn_close(rt_container(s->conns.next, struct conn, link));
    while (!rt_list_empty(&s->got)) {
        struct got *g = rt_container(s->got.next, struct got, link);
        got_drop(s, g, g->fds.n);
    }
    close(s->listener);
    free(s);
    b->socket = NULL;
}

/* ---- sending ---- */

static int connect_to(struct btl_cuda_peer *p)
{
    struct cuda_table *t = p->table;
    struct sockaddr_un name = { .sun_family = AF_UNIX };

    if (btl_cuda_table_reserve(p) < 0 || !rt_load_acquire(&t->open) || t->name_len > sizeof t->name)
        return -RT_ENOTSUP; /* the peer has not opened yet, or accepts no descriptors */
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (sock < 0)
        return -RT_ENOTSUP;
    memcpy(name.sun_path, t->name, t->name_len);
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + t->name_len);
    if (connect(sock, (struct sockaddr *)&name, len) < 0 || !same_user(sock)) {
        log_info(BTL, "no connection to rank %u%s for file descriptors (%m): staging instead",
                 p->base.proc.rank, rt_boot_of_job(p->base.proc.ns));
        close(sock);
        return -RT_ENOTSUP;
    }
    p->sock = sock;
    return 0;
}

int btl_cuda_fds_send(struct btl_cuda *b, struct btl_cuda_peer *p, uint32_t slot, uint32_t gen,
                      const struct rt_gpu_fds *fds)
{
    struct note n = { MAGIC, slot, gen, (uint32_t)fds->n,
                      rt_boot_name((struct rt_proc){ 0, (uint32_t)rt_boot.rank }) };
    struct iovec body = { &n, sizeof n };
    size_t nbytes = (size_t)fds->n * sizeof(int);
    union control control = {
        .head = { .cmsg_len = CMSG_LEN(nbytes), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS }
    };
    struct msghdr m = { .msg_iov = &body,
                        .msg_iovlen = 1,
                        .msg_control = &control,
                        .msg_controllen = CMSG_SPACE(nbytes) };
    int err = p->sock < 0 ? connect_to(p) : 0;
    (void)b;

    if (err < 0)
        return err;
    memcpy(CMSG_DATA(&control.head), fds->fd, nbytes);
    if (sendmsg(p->sock, &m, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof n) {
        rt_fetch_add(&p->table->fds_sent, 1u);
        return 0;
    }
    if (errno != EAGAIN && errno != ETOOMANYREFS) {
        log_info(BTL, "cannot send a file descriptor to rank %u%s (%m): staging instead",
                 p->base.proc.rank, rt_boot_of_job(p->base.proc.ns));
        close(p->sock);
        p->sock = -1;
    }
    return -RT_ENOTSUP;
}

/* ---- receiving ---- */

/* Takes the descriptors over.  If there is no room, the oldest are closed, then these. */
static void keep(struct cuda_socket *s, struct rt_proc from, uint32_t slot, uint32_t gen,
                 struct rt_gpu_fds *fds)
{
    while (s->ngot && s->ngot + (rlim_t)fds->n > s->most) {
        struct got *old = rt_container(s->got.next, struct got, link);
        got_drop(s, old, old->fds.n);
    }
    struct got *g = (rlim_t)fds->n <= s->most ? calloc(1, sizeof *g) : NULL;
    if (!g) {
        rt_gpu_fds_close(fds);
        return;
    }
    g->from = from;
    g->slot = slot;
    g->gen = gen;
    g->fds = *fds;
    rt_list_append(&s->got, &g->link);
    s->ngot += (rlim_t)fds->n;
    fds->n = 0;
}

/* The descriptors of a message.  The padding of the control message may hold one more than were
 * announced. */
static void the_descriptors(struct msghdr *m, struct rt_gpu_fds *out)
{
    struct cmsghdr *c = CMSG_FIRSTHDR(m);
    int fd;

    out->n = 0;
    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
        return;
    size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof fd;
    for (size_t i = 0; i < n; i++) {
        memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
        if (out->n < RT_GPU_PARTS)
            out->fd[out->n++] = fd;
        else
            close(fd);
    }
}

/* Receives one message.  1: received; 0: none there; -1: the sender has gone. */
static int receive(struct cuda_socket *s, int sock)
{
    struct note n;
    struct iovec body = { &n, sizeof n };
    union control control;
    struct msghdr m = { .msg_iov = &body,
                        .msg_iovlen = 1,
                        .msg_control = &control,
                        .msg_controllen = sizeof control.room };
    struct rt_gpu_fds fds;
    struct rt_proc from;

    ssize_t len = recvmsg(sock, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (len <= 0)
        return len < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
    the_descriptors(&m, &fds);
    bool good = len == (ssize_t)sizeof n && n.magic == MAGIC && n.nfds == (uint32_t)fds.n &&
                fds.n > 0 && rt_boot_proc(n.from, &from) == 0 &&
                (from.ns || rt_boot_local(from.rank) >= 0);
    if (good)
        keep(s, from, n.slot, n.gen, &fds);
    rt_gpu_fds_close(&fds);
    return 1;
}

static void accept_all(struct cuda_socket *s)
{
    int fd;

    while ((fd = rt_accept(s->listener, NULL, NULL, true)) >= 0) {
        struct conn *c = same_user(fd) ? calloc(1, sizeof *c) : NULL;
        if (!c) {
            close(fd);
            continue;
        }
        c->fd = fd;
        rt_list_append(&s->conns, &c->link);
    }
}

/* Whether the exporter has freed the memory, or has ended. */
static bool is_stale(const struct got *g)
{
    const struct rt_other *o = g->from.ns ? rt_others_find(g->from) : NULL;
    const struct cuda_slot *slot;

    if (g->from.ns && !o) /* this process may still be in the meeting that the sender has left */
        return !rt_others_meeting(g->from);
    slot = o ? cuda_slot_at(o->base, cuda_table_of_other(o), g->slot)
             : cuda_slot_at(rt_node.base, cuda_table_of(rt_boot_local(g->from.rank)), g->slot);
    return (o && o->ended) || !slot || rt_load_relaxed(&slot->gen) != g->gen;
}

/* Closes stale descriptors, because a descriptor keeps the memory allocated. */
static void drop_stale(struct cuda_socket *s)
{
    struct rt_list *l, *next;

    rt_list_each_safe (l, next, &s->got) {
        struct got *g = rt_container(l, struct got, link);
        if (is_stale(g))
            got_drop(s, g, g->fds.n);
    }
}

void btl_cuda_fds_drain(struct btl_cuda *b)
{
    struct cuda_socket *s = b->socket;
    struct rt_list *l, *next;

    if (!s)
        return;
    drop_stale(s);
    accept_all(s);
    rt_list_each_safe (l, next, &s->conns) {
        struct conn *c = rt_container(l, struct conn, link);
        int more;
        while ((more = receive(s, c->fd)) > 0)
            continue;
        if (more < 0)
            conn_close(c);
    }
}

void btl_cuda_fds_keep(struct btl_cuda *b, struct rt_proc from, uint32_t slot, uint32_t gen,
                       struct rt_gpu_fds *fds)
{
    keep(b->socket, from, slot, gen, fds);
}

struct rt_gpu_fds btl_cuda_fds_take(struct btl_cuda *b, struct rt_proc from, uint32_t slot,
                                    uint32_t gen)
{
    struct rt_list *l, *next;
    struct rt_gpu_fds fds = { .n = 0 };

    if (!b->socket)
        return fds;
    rt_list_each_safe (l, next, &b->socket->got) {
        struct got *g = rt_container(l, struct got, link);
        int n = g->fds.n;
        if (g->from.ns != from.ns || g->from.rank != from.rank || g->slot != slot)
            continue;
        if (g->gen == gen && !fds.n) {
            fds = g->fds;
            g->fds.n = 0;
        } /* else of an earlier export in this slot, or duplicates */
        got_drop(b->socket, g, n);
    }
    return fds;
}
