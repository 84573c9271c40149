/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes soft-RoCE register the memory of the fake CUDA driver, for tests.  Preloaded, it answers
 * the library's lookup of ibv_reg_dmabuf_mr, which soft-RoCE does not have, with a function that
 * maps the descriptor (here a memfd) and registers the mapping's pages under the device's
 * addresses.  All else is libibverbs and the device as they are, so the data really move.  It also
 * inspects posted requests: fake_ib_nread_back counts reads of one byte, which order writes to
 * device memory.  FAKE_IB_REFUSE=1: the adapter has no dma-bufs. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define VISIBLE __attribute__((visibility("default")))

typedef struct ibv_mr *reg_iova2_fn(struct ibv_pd *, void *, size_t, uint64_t, unsigned);
typedef struct ibv_context *open_fn(struct ibv_device *);
typedef void *dlvsym_fn(void *, const char *, const char *);

VISIBLE extern int fake_ib_nread_back, fake_ib_ndmabuf;
int fake_ib_nread_back, fake_ib_ndmabuf;

static reg_iova2_fn *reg_iova2;
static open_fn *open_device;
static int (*post_send)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);

/* The pages stay registered after the mapping is removed. */
static struct ibv_mr *reg_dmabuf(struct ibv_pd *pd, uint64_t off, size_t len, uint64_t iova, int fd,
                                 int access)
{
    off_t begin = lseek(fd, 0, SEEK_CUR) + (off_t)off, page = begin & ~(off_t)4095;
    size_t n = len + (size_t)(begin - page);
    const char *refuse = getenv("FAKE_IB_REFUSE");
    if (refuse && *refuse == '1') {
        errno = EOPNOTSUPP;
        return NULL;
    }
    char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, page);
    if (p == MAP_FAILED)
        return NULL;
    struct ibv_mr *mr = reg_iova2(pd, p + (begin - page), len, iova, (unsigned)access);
    int err = errno;
    munmap(p, n);
    errno = err;
    fake_ib_ndmabuf += mr != NULL;
    return mr;
}

static int counted_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    for (const struct ibv_send_wr *w = wr; w; w = w->next)
        if (w->opcode == IBV_WR_RDMA_READ && w->sg_list->length == 1)
            fake_ib_nread_back++; /* only the engine reads; the thread of btl/verbs also sends */
    return post_send(qp, wr, bad);
}

static struct ibv_context *counted_open(struct ibv_device *d)
{
    struct ibv_context *c = open_device(d);
    if (c) {
        post_send = c->ops.post_send;
        c->ops.post_send = counted_post_send;
    }
    return c;
}

static void *address(const void *fn, size_t nbytes) /* of a function, as dlsym() returns it */
{
    void *p;
    memcpy(&p, fn, nbytes);
    return p;
}

VISIBLE void *dlvsym(void *lib, const char *symbol, const char *version)
{
    static dlvsym_fn *real;
    struct ibv_mr *(*reg)(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int) = reg_dmabuf;
    open_fn *open = counted_open;
    if (!real) {
        void *p = dlsym(RTLD_NEXT, "dlvsym");
        memcpy(&real, &p, sizeof real);
    }
    void *found = real(lib, symbol, version);
    if (!strcmp(symbol, "ibv_reg_mr_iova2"))
        memcpy(&reg_iova2, &found, sizeof reg_iova2);
    if (!strcmp(symbol, "ibv_reg_dmabuf_mr"))
        return address(&reg, sizeof reg);
    if (strcmp(symbol, "ibv_open_device"))
        return found;
    memcpy(&open_device, &found, sizeof open_device);
    return address(&open, sizeof open);
}
