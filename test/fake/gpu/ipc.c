/* SPDX-License-Identifier: BSD-3-Clause */
/* Fake CUDA driver: legacy handles.  A handle names the exporter's memfd, which other processes
 * open through /proc; the inode shows whether the descriptor has been reused.  There are no files
 * in a file system, so none is left behind.  As on a device, mapped memory stays valid after the
 * exporter frees it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "test/fake/gpu/fake.h"

#define IPC_MAGIC 0x1bc4a9d1e5u

struct named { /* struct cu_ipc */
    uint64_t magic;
    int pid, fd;
    uint64_t inode, off, len, id;
};

cu_result cuIpcGetMemHandle(struct cu_ipc *h, cu_ptr p)
{
    struct named n = { .magic = IPC_MAGIC, .pid = getpid() };
    struct fake_mem *m;
    struct stat st;
    cu_ctx c;
    int err = fake_enter_ctx("cuIpcGetMemHandle", &c);

    if (err)
        return err;
    pthread_mutex_lock(&fake.lock);
    m = fake_mem_find(p);
    if (!m || m->kind != FAKE_DEVICE || fstat(m->phys->fd, &st))
        err = CU_ERROR_INVALID_VALUE;
    else {
        n.fd = m->phys->fd;
        n.inode = (uint64_t)st.st_ino;
        n.off = m->off;
        n.len = m->len;
        n.id = m->arena ? m->arena->id : m->id;
    }
    pthread_mutex_unlock(&fake.lock);
    memset(h, 0, sizeof(*h));
    memcpy(h, &n, sizeof(n));
    return err;
}

static struct fake_mem *opened_before(cu_ctx c, const struct named *n)
{
    uint64_t id = n->id << 22 | (uint64_t)n->pid;
    struct fake_mem *m;

    for (m = fake_mem_next(0); m; m = fake_mem_next(m->base + 1))
        if (m->kind == FAKE_IPC && m->ctx == c && m->ipc_id == id && m->off == n->off)
            break;
    return m;
}

static struct fake_phys *adopt(const struct named *n)
{
    struct fake_phys *p = NULL;
    struct stat st;
    char path[64];
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", n->pid, n->fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    if (!fstat(fd, &st) && (uint64_t)st.st_ino == n->inode)
        p = fake_phys_adopt(fd, "device");
    close(fd);
    return p;
}

/* As the real driver (H100, driver 580): memory that is freed and allocated again at the same place
 * of a block is the same memory, and is not opened with another length while it is open. */
static int open_handle(cu_ctx c, const struct named *n, cu_ptr *out)
{
    struct fake_mem *m = opened_before(c, n);
    struct fake_phys *phys;
    uint64_t va;

    if (m && m->len != n->len)
        return CU_ERROR_ALREADY_MAPPED;
    if (m) {
        m->nopen++;
        *out = m->base;
        return 0;
    }
    phys = adopt(n);
    if (!phys || n->off + n->len > phys->len) {
        fake_phys_unref(phys);
        return CU_ERROR_INVALID_VALUE;
    }
    if (phys->dev != c->dev && !fake.peer) {
        fake_phys_unref(phys);
        return CU_ERROR_PEER_ACCESS_UNSUPPORTED;
    }
    va = fake_va_take(n->len);
    m = va ? fake_mem_add(va, n->len, FAKE_IPC, phys, n->off) : NULL;
    if (!m)
        return CU_ERROR_OUT_OF_MEMORY;
    m->ctx = c;
    m->access = 1u << c->dev;
    m->nopen = 1;
    m->ipc_id = n->id << 22 | (uint64_t)n->pid;
    *out = va;
    return 0;
}

cu_result cuIpcOpenMemHandle_v2(cu_ptr *p, struct cu_ipc h, unsigned flags)
{
    struct named n;
    cu_ctx c;
    int err = fake_enter_ctx("cuIpcOpenMemHandle_v2", &c);

    if (err)
        return err;
    memcpy(&n, &h, sizeof(n));
    if (n.magic != IPC_MAGIC || flags & ~CU_IPC_LAZY_PEER_ACCESS)
        return CU_ERROR_INVALID_VALUE;
    if (n.pid == getpid())
        return CU_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&fake.lock);
    err = open_handle(c, &n, p);
    pthread_mutex_unlock(&fake.lock);
    return err;
}

cu_result cuIpcCloseMemHandle(cu_ptr p)
{
    struct fake_mem *m;
    cu_ctx c;
    int err = fake_enter_ctx("cuIpcCloseMemHandle", &c);

    if (err)
        return err;
    fake_ctx_wait(c);
    pthread_mutex_lock(&fake.lock);
    m = fake_mem_find(p);
    if (!m || m->kind != FAKE_IPC || m->base != p)
        err = CU_ERROR_INVALID_VALUE;
    else if (--m->nopen == 0)
        fake_mem_free(m);
    pthread_mutex_unlock(&fake.lock);
    return err;
}
