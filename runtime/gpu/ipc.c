/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory of one process in another: an exporter describes an allocation, an importer maps
 * it.  There are two kinds of memory and two ways: a handle of 64 bytes (cuMemAlloc), a descriptor
 * of the allocation (VMM), or of each of several that are mapped side by side, as PyTorch's
 * expandable segments are; the importer maps them side by side as well.  Memory that cannot be
 * exported is found by querying attributes, never by a call that fails: tools that watch the driver
 * report failed calls as errors of the application.
 *
 * Memory of pools is never exported, though the driver could.  It demands that importers free it
 * before the exporter does, and the application frees without a word to the library.  Where imports
 * were freed later, processes died inside libcuda (H200, driver 580).
 *
 * An import belongs to the context in which it was mapped and ends with that context.  Under the
 * domain's lock, like all of runtime/gpu. */
#include "runtime/gpu/ipc.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/gpu/address.h"
#include "runtime/gpu/context.h"
#include "runtime/gpu/driver.h"
#include "runtime/gpu/gpu_int.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEVICES_MAX 64

struct rt_gpu_import {
    struct rt_list link; /* in the list of all */
    struct rt_gpu *g;    /* NULL: its context has gone, and so has the mapping */
    struct rt_gpu_deferred deferred;
    bool unused; /* its unmapping is deferred */
    enum rt_gpu_share how;
    cu_ptr base;
    size_t len, part;
    uint8_t handle[64]; /* rt_gpu_export.handle */
};

static struct {
    struct rt_list imports;        /* next NULL until first used */
    uint8_t uuid[DEVICES_MAX][16]; /* of the devices that this process sees */
    int ndevices;                  /* -1: not queried yet; see devices_look() */
    /* A bit for each of this process's devices: reported already. */
    uint64_t reported_apart, reported_unseen, reported_refused;
} my = { .ndevices = -1 };

static const uint8_t no_uuid[16];

static void lists_init(void)
{
    if (!my.imports.next)
        rt_list_init(&my.imports);
}

static bool vmm_works(void)
{
    return rt_cuda.mem_retain_allocation_handle && rt_cuda.mem_release &&
           rt_cuda.mem_export_to_shareable_handle && rt_cuda.mem_import_from_shareable_handle &&
           rt_cuda.mem_address_reserve && rt_cuda.mem_address_free && rt_cuda.mem_map &&
           rt_cuda.mem_unmap && rt_cuda.mem_set_access;
}

static const char *name_of(cu_result r)
{
    const char *name = NULL;
    if (rt_cuda.get_error_name(r, &name) != CU_OK || !name)
        name = "unknown error";
    return name;
}

/* ---- export ---- */

void rt_gpu_fds_close(struct rt_gpu_fds *f)
{
    while (f->n > 0)
        close(f->fd[--f->n]);
}

static bool fd_allowed(uintptr_t at)
{
    uint64_t types = 0;
    int attribute = CU_PTR_ALLOWED_HANDLE_TYPES;
    void *value = &types;

    return rt_cuda.pointer_get_attributes(1, &attribute, &value, at) == CU_OK &&
           types & CU_HANDLE_POSIX_FD;
}

static int export_legacy(const struct rt_gpu_ptr *p, struct rt_gpu_export *e)
{
    uint64_t capable = 0;
    int attribute = CU_PTR_IS_LEGACY_IPC_CAPABLE;
    void *value = &capable;
    struct cu_ipc h;

    if (rt_cuda.pointer_get_attributes(1, &attribute, &value, p->base) != CU_OK || !capable)
        return -RT_ENOTSUP;
    cu_result r = rt_cuda.ipc_get_mem_handle(&h, p->base);
    if (r != CU_OK) {
        log_info(GPU, "memory at 0x%llx has no IPC handle: %s", (unsigned long long)p->base,
                 name_of(r));
        return -RT_ENOTSUP;
    }
    memcpy(e->handle, h.bytes, sizeof e->handle);
    e->how = RT_GPU_SHARE_LEGACY;
    return 0;
}

/* A program that the application starts must not hold the descriptor. */
static cu_result descriptor_of(uintptr_t at, int *fd)
{
    cu_handle h;
    cu_result r = rt_cuda.mem_retain_allocation_handle(&h, (void *)at);

    if (r != CU_OK)
        return r;
    r = rt_cuda.mem_export_to_shareable_handle(fd, h, CU_HANDLE_POSIX_FD, 0);
    rt_cuda.mem_release(h);
    if (r == CU_OK)
        fcntl(*fd, F_SETFD, FD_CLOEXEC);
    return r;
}

static int export_vmm(const struct rt_gpu_ptr *p, struct rt_gpu_export *e, struct rt_gpu_fds *fds)
{
    size_t part = p->single ? p->len : p->part;

    if (!vmm_works() || !part || (p->len - 1) / part >= RT_GPU_PARTS)
        return -RT_ENOTSUP;
    for (size_t at = 0; at < p->len; at += part)
        if (!fd_allowed(p->base + at))
            return -RT_ENOTSUP;
    for (size_t at = 0; at < p->len; at += part) {
        cu_result r = descriptor_of(p->base + at, &fds->fd[fds->n]);
        if (r != CU_OK) {
            log_info(GPU, "memory at 0x%llx gives no descriptor: %s",
                     (unsigned long long)(p->base + at), name_of(r));
            rt_gpu_fds_close(fds);
            return -RT_ENOTSUP;
        }
        fds->n++;
    }
    e->how = RT_GPU_SHARE_VMM;
    e->part = part;
    return 0;
}

int rt_gpu_export_mem(const struct rt_gpu_ptr *p, struct rt_gpu_export *out, struct rt_gpu_fds *fds)
{
    struct rt_gpu_export e = { .base = p->base, .len = p->len };
    int err = -RT_ENOTSUP, in = rt_gpu_enter(p->g);

    fds->n = 0;
    if (in < 0)
        return in;
    if (p->kind == RT_MEM_CUDA && p->single)
        err = export_legacy(p, &e);
    else if (p->kind == RT_MEM_CUDA_VMM)
        err = export_vmm(p, &e, fds);
    rt_gpu_leave(in);
    if (err < 0)
        return err;
    memcpy(e.uuid, rt_gpu_info(p->g)->uuid, sizeof e.uuid);
    *out = e;
    return 0;
}

/* ---- memory to export, for tools ---- */

static struct cu_access access_for(const struct rt_gpu *g)
{
    return (struct cu_access){ { CU_LOCATION_DEVICE, rt_gpu_info(g)->ordinal },
                               CU_ACCESS_READWRITE };
}

static cu_result alloc_vmm(const struct rt_gpu *g, size_t len, cu_ptr *p)
{
    struct cu_access access = access_for(g);
    struct cu_alloc_prop prop = { .type = CU_ALLOCATION_PINNED,
                                  .handle_types = CU_HANDLE_POSIX_FD,
                                  .location = access.location };
    size_t grain = 1;
    cu_handle h;

    if (!vmm_works() || !rt_cuda.mem_create || !rt_cuda.mem_get_allocation_granularity)
        return CU_ERROR_NOT_SUPPORTED;
    cu_result r = rt_cuda.mem_get_allocation_granularity(&grain, &prop, 0);
    len = (len + grain - 1) / grain * grain;
    if (r == CU_OK)
        r = rt_cuda.mem_create(&h, len, &prop, 0);
    if (r == CU_OK)
        r = rt_cuda.mem_address_reserve(p, len, 0, 0, 0);
    if (r == CU_OK)
        r = rt_cuda.mem_map(*p, len, 0, h, 0);
    return r == CU_OK ? rt_cuda.mem_set_access(*p, len, &access, 1) : r;
}

int rt_gpu_alloc(struct rt_gpu *g, enum rt_gpu_share how, size_t len, void **out)
{
    cu_ptr p = 0;
    int in = rt_gpu_enter(g);

    if (in < 0)
        return in;
    cu_result r = how == RT_GPU_SHARE_LEGACY ? rt_cuda.mem_alloc(&p, len) : alloc_vmm(g, len, &p);
    rt_gpu_leave(in);
    *out = (void *)(uintptr_t)p;
    return r == CU_OK ? 0 : rt_cuda_error(r, "allocating device memory");
}

/* ---- import ---- */

static void devices_look(void)
{
    struct rt_gpu_info info;

    if (my.ndevices >= 0)
        return;
    int n = rt_gpu_count();
    my.ndevices = n < DEVICES_MAX ? n : DEVICES_MAX;
    memset(my.uuid, 0, sizeof my.uuid);
    for (int i = 0; i < my.ndevices; i++)
        if (rt_gpu_describe(i, &info) == 0)
            memcpy(my.uuid[i], info.uuid, sizeof my.uuid[i]);
}

/* Which of this process's devices this is; -1 if the process does not see it. */
static int ordinal_of(const uint8_t *uuid)
{
    devices_look();
    for (int i = 0; i < my.ndevices && memcmp(uuid, no_uuid, sizeof no_uuid); i++)
        if (!memcmp(my.uuid[i], uuid, sizeof my.uuid[i]))
            return i;
    return -1;
}

static bool first_time(uint64_t *reported, int ordinal)
{
    uint64_t bit = (uint64_t)1 << (ordinal % 64);
    bool first = !(*reported & bit);
    *reported |= bit;
    return first;
}

/* 0, or -RT_EUNREACH: g's device has no access to the exporter's.  An exporter's device that this
 * process does not see (CUDA_VISIBLE_DEVICES) cannot be checked here. */
static int access_to(const struct rt_gpu *g, const struct rt_gpu_export *e)
{
    const struct rt_gpu_info *here = rt_gpu_info(g);
    int there = ordinal_of(e->uuid);

    if (there < 0 || there == here->ordinal || rt_gpu_can_access(here->ordinal, there))
        return 0;
    if (first_time(&my.reported_apart, here->ordinal))
        log_info(GPU,
                 "device %d (%s) has no access to the memory of device %d: messages between them "
                 "are staged through the host",
                 here->ordinal, here->name, there);
    return -RT_EUNREACH;
}

static int map_legacy(struct rt_gpu_import *m, const struct rt_gpu_export *e, cu_result *r)
{
    struct cu_ipc h;

    memcpy(h.bytes, e->handle, sizeof h.bytes);
    memcpy(m->handle, e->handle, sizeof m->handle);
    *r = rt_cuda.ipc_open_mem_handle(&m->base, h, CU_IPC_LAZY_PEER_ACCESS);
    if (*r == CU_ERROR_ALREADY_MAPPED)
        return -RT_EAGAIN;
    return *r == CU_OK ? 0 : -RT_ENOTSUP;
}

/* The driver cuts small allocations from blocks of 2 MiB.  As long as a block exists, memory that
 * is freed and allocated again at the same place has the same handle but for the length in it, and
 * the driver refuses to map it with CU_ERROR_ALREADY_MAPPED while the former mapping is open (H100,
 * driver 580).  The former mapping is one of the same memory, and serves if it is long enough. */
static bool handles_differ_in_length(const struct rt_gpu_import *m, const struct rt_gpu_export *e)
{
    uint64_t was[8], is[8];

    memcpy(was, m->handle, sizeof was);
    memcpy(is, e->handle, sizeof is);
    for (int i = 0; i < 8; i++)
        if (was[i] != is[i] && (was[i] != m->len || is[i] != e->len))
            return false;
    return true;
}

static struct rt_gpu_import *former(const struct rt_gpu *g, const struct rt_gpu_export *e)
{
    struct rt_list *l;

    rt_list_each (l, &my.imports) {
        struct rt_gpu_import *m = rt_container(l, struct rt_gpu_import, link);
        if (m->g == g && m->unused && m->len >= e->len && handles_differ_in_length(m, e))
            return m;
    }
    return NULL;
}

/* Unmaps the first n bytes, mapping by mapping. */
static cu_result unmap_parts(const struct rt_gpu_import *m, size_t n)
{
    cu_result r = CU_OK;

    for (size_t at = 0; at < n; at += m->part) {
        cu_result one = rt_cuda.mem_unmap(m->base + at,
                                          m->len - at < m->part ? m->len - at : m->part);
        r = r == CU_OK ? one : r;
    }
    return r;
}

/* The mapping keeps the memory of the handle. */
static cu_result map_part(const struct rt_gpu_import *m, size_t at, int fd)
{
    cu_handle h;
    cu_result r = rt_cuda.mem_import_from_shareable_handle(&h, (void *)(intptr_t)fd,
                                                           CU_HANDLE_POSIX_FD);

    if (r != CU_OK)
        return r;
    r = rt_cuda.mem_map(m->base + at, m->len - at < m->part ? m->len - at : m->part, 0, h, 0);
    rt_cuda.mem_release(h);
    return r;
}

static int map_vmm(struct rt_gpu_import *m, const struct rt_gpu_fds *fds, cu_result *r)
{
    struct cu_access a = access_for(m->g);
    size_t done = 0;

    if (!vmm_works() || !m->part || (size_t)fds->n != (m->len + m->part - 1) / m->part)
        return -RT_ENOTSUP;
    *r = rt_cuda.mem_address_reserve(&m->base, m->len, 0, 0, 0);
    if (*r != CU_OK)
        return -RT_ENOTSUP;
    for (int i = 0; i < fds->n && *r == CU_OK; i++, done += *r == CU_OK ? m->part : 0)
        *r = map_part(m, done, fds->fd[i]);
    if (*r == CU_OK)
        *r = rt_cuda.mem_set_access(m->base, m->len, &a, 1);
    if (*r == CU_OK)
        return 0;
    unmap_parts(m, done);
    rt_cuda.mem_address_free(m->base, m->len);
    return -RT_ENOTSUP;
}

/* Reports once for each device why the mapping was refused; not an error, because messages have
 * another way. */
static int refused(struct rt_gpu *g, const struct rt_gpu_export *e, int err, cu_result r)
{
    static const char *const kinds[] = { "", "cuMemAlloc", "cuMemCreate" };
    int ordinal = rt_gpu_info(g)->ordinal;

    if (r != CU_OK && rt_gpu_check_lost(g, r))
        return -RT_EGPU;
    if (r == CU_ERROR_OUT_OF_MEMORY)
        err = -RT_ENOMEM;
    bool unseen = ordinal_of(e->uuid) < 0;
    if (first_time(unseen ? &my.reported_unseen : &my.reported_refused, ordinal))
        log_info(GPU,
                 "memory of another process (%s, %llu bytes%s) could not be mapped for device %d: "
                 "%s; messages from it are staged",
                 kinds[e->how], (unsigned long long)e->len,
                 unseen ? ", of a device that is not visible here" : "", ordinal,
                 r != CU_OK ? name_of(r) : rt_err_text(err));
    return unseen ? -RT_EUNREACH : err;
}

/* For a legacy handle, waits for the device: rt_gpu_unimport() defers it. */
static void unmap(struct rt_gpu_import *m)
{
    cu_result r = CU_OK;
    int in = rt_gpu_enter(m->g);

    if (in < 0)
        return;
    if (m->how == RT_GPU_SHARE_LEGACY) {
        r = rt_cuda.ipc_close_mem_handle(m->base);
    } else {
        r = unmap_parts(m, m->len);
        rt_cuda.mem_address_free(m->base, m->len);
    }
    rt_gpu_leave(in);
    if (r != CU_OK && !rt_gpu_check_lost(m->g, r))
        log_info(GPU, "memory of another process could not be unmapped: %s", name_of(r));
}

bool rt_gpu_import_alive(const struct rt_gpu_import *m) { return m->g && !m->g->lost; }

static void import_free(struct rt_gpu_import *m)
{
    if (m->g)
        unmap(m);
    rt_list_del(&m->link);
    free(m);
}

static void run_deferred(struct rt_gpu_deferred *d)
{
    import_free(rt_container(d, struct rt_gpu_import, deferred));
}

int rt_gpu_import(struct rt_gpu *g, const struct rt_gpu_export *e, const struct rt_gpu_fds *fds,
                  struct rt_gpu_import **out, void **base)
{
    cu_result r = CU_OK;
    int err = access_to(g, e);

    if (err < 0)
        return err;
    struct rt_gpu_import *m = calloc(1, sizeof *m);
    if (!m)
        return -RT_ENOMEM;
    *m = (struct rt_gpu_import){ .g = g, .how = e->how, .len = e->len, .part = e->part };
    lists_init();
    int in = rt_gpu_enter(g);
    if (in < 0) {
        free(m);
        return in;
    }
    if (e->how == RT_GPU_SHARE_LEGACY)
        err = map_legacy(m, e, &r);
    else if (e->how == RT_GPU_SHARE_VMM)
        err = map_vmm(m, fds, &r);
    else
        err = -RT_EINVAL;
    rt_gpu_leave(in);
    if (err < 0)
        free(m);
    if (r == CU_ERROR_ALREADY_MAPPED && (m = former(g, e)) != NULL) {
        rt_gpu_undefer(g, &m->deferred);
        m->unused = false;
    } else if (err < 0) {
        return err == -RT_EAGAIN ? err : refused(g, e, err, r);
    } else {
        rt_list_append(&my.imports, &m->link);
    }
    *out = m;
    *base = (void *)(uintptr_t)m->base;
    return 0;
}

/* The driver maps whole pages; these are the smallest (H200). */
#define PAGE_NBYTES ((size_t)2 << 20)

/* A handle that is opened again before the deferred close gets the same address; the driver counts
 * the openings. */
void rt_gpu_unimport(struct rt_gpu_import *m)
{
    size_t held = (m->len + PAGE_NBYTES - 1) & ~(PAGE_NBYTES - 1);
    if (m->how == RT_GPU_SHARE_LEGACY && m->g) {
        m->unused = true;
        rt_gpu_defer(m->g, &m->deferred, held, run_deferred);
    } else {
        import_free(m);
    }
}

void rt_gpu_ipc_fini(struct rt_gpu *g)
{
    struct rt_list *l;

    lists_init();
    rt_list_each (l, &my.imports) {
        struct rt_gpu_import *m = rt_container(l, struct rt_gpu_import, link);
        if (m->g != g)
            continue;
        if (!g->lost)
            unmap(m);
        m->g = NULL;
    }
    my.ndevices = -1;
}

/* ---- memory of this process for another of its devices ---- */

int rt_gpu_reach(struct rt_gpu *g, const struct rt_gpu_ptr *p)
{
    const struct rt_gpu_info *here = rt_gpu_info(g);
    cu_result r;

    if (p->g == g || p->kind == RT_MEM_MANAGED)
        return 0;
    /* Access to such memory is granted for a device, and only by its owner. */
    if (p->kind != RT_MEM_CUDA)
        return p->ordinal == here->ordinal ? 0 : -RT_EUNREACH;
    if (p->ordinal == here->ordinal || !rt_gpu_can_access(here->ordinal, p->ordinal))
        return -RT_EUNREACH; /* two contexts of one device cannot be joined */
    int in = rt_gpu_enter(g);
    if (in < 0)
        return in;
    r = rt_cuda.ctx_enable_peer_access(p->g->ctx, 0);
    rt_gpu_leave(in);
    if (r == CU_OK || r == CU_ERROR_PEER_ACCESS_ALREADY_ENABLED)
        return 0;
    return rt_gpu_check_lost(g, r) ? -RT_EGPU : -RT_EUNREACH;
}
