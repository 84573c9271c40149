/* SPDX-License-Identifier: BSD-3-Clause */
/* Fake CUDA driver: virtual memory management.  A handle is a number; each mapping and each handle
 * hold a reference to the memory. */
#include <fcntl.h>
#include <string.h>
#include "test/fake/gpu/fake.h"

#define NHANDLES 4096
static struct {
    struct fake_phys *phys; /* NULL: unused */
    int nref;
} handles[NHANDLES];

/* The handle of entry n is n + 1, because 0 is no handle. */
static struct fake_phys *handle_phys(cu_handle h)
{
    return h >= 1 && h <= NHANDLES ? handles[h - 1].phys : NULL;
}

static cu_handle handle_make(struct fake_phys *p) /* takes over the reference */
{
    cu_handle h;

    for (h = 1; h <= NHANDLES && handles[h - 1].phys; h++)
        ;
    if (h > NHANDLES) {
        fake_phys_unref(p);
        return 0;
    }
    handles[h - 1].phys = p;
    handles[h - 1].nref = 1;
    return h;
}

static int prop_device(const struct cu_alloc_prop *prop)
{
    if (!prop || prop->type != CU_ALLOCATION_PINNED || prop->location.type != CU_LOCATION_DEVICE ||
        prop->location.id < 0 || prop->location.id >= fake.nvisible)
        return -1;
    return fake.visible[prop->location.id];
}

cu_result cuMemGetAllocationGranularity(size_t *nbytes, const struct cu_alloc_prop *prop,
                                        int option)
{
    int err = fake_enter("cuMemGetAllocationGranularity");

    (void)option;
    if (err || prop_device(prop) < 0)
        return err ? err : CU_ERROR_INVALID_VALUE;
    *nbytes = FAKE_GRANULE;
    return 0;
}

cu_result cuMemCreate(cu_handle *h, size_t nbytes, const struct cu_alloc_prop *prop,
                      unsigned long long flags)
{
    struct fake_phys *p;
    int err = fake_enter("cuMemCreate"), dev = prop_device(prop);

    if (err)
        return err;
    if (flags || dev < 0 || !nbytes || nbytes % FAKE_GRANULE ||
        (prop->handle_types & ~CU_HANDLE_POSIX_FD))
        return CU_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake.lock);
    p = fake_phys_make(nbytes, dev, "vmm", &err);
    if (p) {
        p->handle_types = prop->handle_types;
        *h = handle_make(p);
        err = *h ? 0 : CU_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&fake.lock);
    return err;
}

cu_result cuMemRelease(cu_handle h)
{
    int err = fake_enter("cuMemRelease");

    if (err)
        return err;
    pthread_mutex_lock(&fake.lock);
    if (!handle_phys(h))
        err = CU_ERROR_INVALID_VALUE;
    else if (--handles[h - 1].nref == 0) {
        fake_phys_unref(handles[h - 1].phys);
        handles[h - 1].phys = NULL;
    }
    pthread_mutex_unlock(&fake.lock);
    return err;
}

cu_result cuMemRetainAllocationHandle(cu_handle *out, void *p)
{
    struct fake_mem *m;
    cu_handle h;
    int err = fake_enter("cuMemRetainAllocationHandle");

    if (err)
        return err;
    pthread_mutex_lock(&fake.lock);
    m = fake_mem_find((uint64_t)(uintptr_t)p);
    if (!m || m->kind != FAKE_VMM) {
        err = CU_ERROR_INVALID_VALUE;
        goto unlock;
    }
    for (h = 1; h <= NHANDLES && handles[h - 1].phys != m->phys; h++)
        ;
    if (h <= NHANDLES)
        handles[h - 1].nref++;
    else {
        m->phys->nref++;
        h = handle_make(m->phys);
    }
    *out = h;
    err = h ? 0 : CU_ERROR_OUT_OF_MEMORY;
unlock:
    pthread_mutex_unlock(&fake.lock);
    return err;
}

int fake_handles_alive(void)
{
    int i, n = 0;

    for (i = 0; i < NHANDLES; i++)
        n += handles[i].phys != NULL;
    return n;
}

/* ---- addresses ---- */

cu_result cuMemAddressReserve(cu_ptr *p, size_t nbytes, size_t align, cu_ptr at,
                              unsigned long long flags)
{
    int err = fake_enter("cuMemAddressReserve");

    (void)at; /* only a hint */
    if (err)
        return err;
    if (!nbytes || nbytes % FAKE_GRANULE || flags || align > FAKE_GRANULE)
        return CU_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake.lock);
    *p = fake_va_take(nbytes);
    pthread_mutex_unlock(&fake.lock);
    return *p ? 0 : CU_ERROR_OUT_OF_MEMORY;
}

static bool overlaps(uint64_t p, size_t nbytes)
{
    struct fake_mem *m = fake_mem_next(p);

    return fake_mem_find(p) || (m && m->base < p + nbytes);
}

cu_result cuMemAddressFree(cu_ptr p, size_t nbytes)
{
    int err = fake_enter("cuMemAddressFree");

    if (err)
        return err;
    pthread_mutex_lock(&fake.lock);
    if (!fake_is_known(p) || overlaps(p, nbytes))
        err = CU_ERROR_INVALID_VALUE;
    else
        fake_va_give(p);
    pthread_mutex_unlock(&fake.lock);
    return err;
}

cu_result cuMemMap(cu_ptr p, size_t nbytes, size_t off, cu_handle h, unsigned long long flags)
{
    struct fake_phys *phys;
    int err = fake_enter("cuMemMap");

    if (err)
        return err;
    pthread_mutex_lock(&fake.lock);
    phys = handle_phys(h);
    if (!phys || off || flags || nbytes % FAKE_GRANULE || p % FAKE_GRANULE || nbytes > phys->len ||
        !fake_is_known(p) || overlaps(p, nbytes))
        err = CU_ERROR_INVALID_VALUE;
    else {
        phys->nref++;
        err = fake_mem_add(p, nbytes, FAKE_VMM, phys, 0) ? 0 : CU_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&fake.lock);
    return err;
}

/* Calls fn for the mappings of [p, p + nbytes), which must start and end with a mapping. */
static int each_mapping(uint64_t p, size_t nbytes, void (*fn)(struct fake_mem *m, uint32_t access),
                        uint32_t access)
{
    uint64_t at;
    struct fake_mem *m;

    for (at = p; at < p + nbytes; at += m->len) {
        m = fake_mem_find(at);
        if (!m || m->base != at || m->kind != FAKE_VMM || at + m->len > p + nbytes)
            return CU_ERROR_INVALID_VALUE;
    }
    for (at = p; at < p + nbytes;) {
        m = fake_mem_find(at);
        at += m->len;
        fn(m, access);
    }
    return 0;
}

static void mapping_drop(struct fake_mem *m, uint32_t access)
{
    (void)access;
    fake_mem_drop(m);
}

static void mapping_access(struct fake_mem *m, uint32_t access) { m->access |= access; }

/* Like the real driver, it does not wait for work that uses the memory. */
cu_result cuMemUnmap(cu_ptr p, size_t nbytes)
{
    int err = fake_enter("cuMemUnmap");

    if (err)
        return err;
    pthread_mutex_lock(&fake.lock);
    err = each_mapping(p, nbytes, mapping_drop, 0);
    pthread_mutex_unlock(&fake.lock);
    return err;
}

uint32_t fake_access_mask(const struct cu_access *a, size_t n, int dev)
{
    uint32_t mask = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        int d = a[i].location.id;

        if (a[i].location.type != CU_LOCATION_DEVICE || d < 0 || d >= fake.nvisible)
            return 0;
        if (fake.visible[d] != dev && !fake.peer)
            return 0;
        if (a[i].flags)
            mask |= 1u << fake.visible[d];
    }
    return mask;
}

cu_result cuMemSetAccess(cu_ptr p, size_t nbytes, const struct cu_access *a, size_t n)
{
    struct fake_mem *m;
    uint32_t mask;
    int err = fake_enter("cuMemSetAccess");

    if (err)
        return err;
    pthread_mutex_lock(&fake.lock);
    m = fake_mem_find(p);
    mask = m ? fake_access_mask(a, n, m->dev) : 0;
    if (!m)
        err = CU_ERROR_INVALID_VALUE;
    else
        err = mask ? each_mapping(p, nbytes, mapping_access, mask) : CU_ERROR_INVALID_DEVICE;
    pthread_mutex_unlock(&fake.lock);
    return err;
}

/* ---- other processes ---- */

cu_result cuMemExportToShareableHandle(void *fd, cu_handle h, int type, unsigned long long flags)
{
    struct fake_phys *p;
    int err = fake_enter("cuMemExportToShareableHandle"), copy;

    if (err || flags || type != CU_HANDLE_POSIX_FD)
        return err ? err : CU_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake.lock);
    p = handle_phys(h);
    if (!p || !(p->handle_types & CU_HANDLE_POSIX_FD))
        err = CU_ERROR_INVALID_VALUE;
    else if ((copy = fcntl(p->fd, F_DUPFD_CLOEXEC, 0)) < 0)
        err = CU_ERROR_OUT_OF_MEMORY;
    else
        *(int *)fd = copy;
    pthread_mutex_unlock(&fake.lock);
    return err;
}

cu_result cuMemImportFromShareableHandle(cu_handle *h, void *fd, int type)
{
    struct fake_phys *p;
    int err = fake_enter("cuMemImportFromShareableHandle");

    if (err || type != CU_HANDLE_POSIX_FD)
        return err ? err : CU_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake.lock);
    p = fake_phys_adopt((int)(intptr_t)fd, "vmm");
    if (!p)
        err = CU_ERROR_INVALID_VALUE;
    else {
        p->handle_types = CU_HANDLE_POSIX_FD;
        *h = handle_make(p);
        err = *h ? 0 : CU_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&fake.lock);
    return err;
}
