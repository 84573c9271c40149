/* SPDX-License-Identifier: BSD-3-Clause */
/* Fake CUDA driver: addresses, the memory behind them, and the table of usable memory.  A device
 * address is a reserved address (PROT_NONE) in granules of 2 MiB; the memory is a memfd that only
 * the driver has mapped.  Freed addresses are kept and reused first, like those of the real driver,
 * so code with stale knowledge of an allocation meets the new one.  With FAKE_CUDA_SPREAD every
 * other allocation lies terabytes below host memory, like memory of pools and of cuMemMap on real
 * machines. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "test/fake/gpu/fake.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NSPARE 32
#define NRANGES 8192
static struct range {
    uint64_t va;
    size_t len;
    uint64_t freed; /* when it was freed, in frees; 0: in use */
} ranges[NRANGES];  /* all reserved ranges */
static int nranges, nspare;
static uint64_t nfreed;

static struct fake_mem **table; /* sorted by base, without overlaps */
static size_t ntable, room;
static uint64_t last_id;

/* ---- addresses ---- */

static size_t granules(size_t len)
{
    return (len + FAKE_GRANULE - 1) & ~(size_t)(FAKE_GRANULE - 1);
}

#define LOW ((uintptr_t)0x300000000) /* where the addresses of real drivers start */
static void *reserve(void *at, size_t len)
{
    return mmap(at, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/* The spare range of this length that was freed last; or, with len 0, the range freed first. */
static struct range *find_spare(size_t len)
{
    struct range *best = NULL;
    int i;

    for (i = 0; i < nranges; i++) {
        struct range *r = &ranges[i];

        if (!r->freed || (len && r->len != len))
            continue;
        if (!best || (len ? r->freed > best->freed : r->freed < best->freed))
            best = r;
    }
    return best;
}

/* Only a hint: sanitizers reserve such addresses. */
static void *hint(size_t len)
{
    static uintptr_t next = LOW;
    static unsigned n;
    uintptr_t at = next;

    if (!fake.spread || n++ % 2)
        return NULL;
    next += granules(len) + FAKE_GRANULE;
    return (void *)at;
}

uint64_t fake_va_take(size_t len)
{
    struct range *r;
    char *p, *va;

    len = granules(len);
    r = find_spare(len);
    if (r) {
        r->freed = 0;
        nspare--;
        return r->va;
    }
    if (nranges == NRANGES)
        return 0;
    p = mmap(hint(len + FAKE_GRANULE), len + FAKE_GRANULE, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return 0;
    va = (char *)granules((size_t)p);
    if (va > p)
        munmap(p, (size_t)(va - p));
    munmap(va + len, (size_t)(p + FAKE_GRANULE - va));
    ranges[nranges++] = (struct range){ .va = (uint64_t)va, .len = len };
    return (uint64_t)va;
}

void fake_va_give(uint64_t va)
{
    struct range *r = ranges;

    while (r->va != va)
        r++;
    reserve((void *)va, r->len); /* removes existing mappings there */
    r->freed = ++nfreed;
    if (nspare++ < NSPARE)
        return;
    r = find_spare(0);
    munmap((void *)r->va, r->len);
    *r = ranges[--nranges];
    nspare--;
}

/* ---- memory ---- */

static struct fake_phys *phys_map(int fd, size_t len, int dev)
{
    struct fake_phys *p = calloc(1, sizeof(*p));

    if (!p)
        return NULL;
    p->alias = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (p->alias == MAP_FAILED) {
        free(p);
        return NULL;
    }
    p->fd = fd;
    p->len = len;
    p->dev = dev;
    p->nref = 1;
    return p;
}

struct fake_phys *fake_phys_make(size_t len, int dev, const char *what, int *err)
{
    struct fake_phys *p = NULL;
    bool charge = dev >= 0 && strcmp(what, "pool");
    char name[64];
    int fd;

    *err = CU_ERROR_OUT_OF_MEMORY;
    len = granules(len);
    if (charge && fake.used[dev] + len > fake.mem_nbytes)
        return NULL;
    snprintf(name, sizeof(name), "fake-cuda-%s-%d", what, dev);
    fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0)
        return NULL;
    if (!ftruncate(fd, (off_t)len))
        p = phys_map(fd, len, dev);
    if (!p) {
        close(fd);
        return NULL;
    }
    p->charged = charge;
    if (charge)
        fake.used[dev] += len;
    *err = 0;
    return p;
}

struct fake_phys *fake_phys_adopt(int fd, const char *what)
{
    char link[64], name[96], expect[64];
    struct fake_phys *p;
    struct stat st;
    ssize_t n;
    int dev;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, name, sizeof(name) - 1);
    snprintf(expect, sizeof(expect), "/memfd:fake-cuda-%s-%%d", what);
    if (n < 0 || fstat(fd, &st))
        return NULL;
    name[n] = 0;
    if (sscanf(name, expect, &dev) != 1)
        return NULL;
    fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return NULL;
    p = phys_map(fd, (size_t)st.st_size, dev);
    if (!p)
        close(fd);
    return p;
}

void fake_phys_unref(struct fake_phys *p)
{
    if (!p || --p->nref)
        return;
    if (p->charged)
        fake.used[p->dev] -= p->len;
    munmap(p->alias, p->len);
    close(p->fd);
    free(p);
}

/* index of the first entry with base > p */

static size_t position(uint64_t p) /* of the first entry with base > p */
{
    size_t lo = 0, hi = ntable;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (table[mid]->base > p)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

struct fake_mem *fake_mem_find(uint64_t p)
{
    size_t i = position(p);

    return i && p - table[i - 1]->base < table[i - 1]->len ? table[i - 1] : NULL;
}

struct fake_mem *fake_mem_next(uint64_t p)
{
    size_t i = p ? position(p - 1) : 0;

    return i < ntable ? table[i] : NULL;
}

static size_t npinned, pinned_most;

static void count_pinned(const struct fake_mem *m, bool more)
{
    if (m->kind != FAKE_HOST && m->kind != FAKE_REGISTERED)
        return;
    npinned += more ? m->len : -m->len;
    pinned_most = npinned > pinned_most ? npinned : pinned_most;
}

size_t fake_cuda_pinned(void)
{
    size_t most;

    pthread_mutex_lock(&fake.lock);
    most = pinned_most;
    pinned_most = npinned;
    pthread_mutex_unlock(&fake.lock);
    return most;
}

/* Consumes the caller's reference to phys, on failure too. */
struct fake_mem *fake_mem_add(uint64_t base, size_t len, enum fake_kind kind,
                              struct fake_phys *phys, size_t off)
{
    struct fake_mem *m = calloc(1, sizeof(*m)), **t = table;
    size_t i = position(base);

    if (m && ntable == room) {
        t = realloc(table, (room + 256) * sizeof(*t));
        if (t) {
            table = t;
            room += 256;
        }
    }
    if (!m || !t) {
        free(m);
        fake_phys_unref(phys);
        return NULL;
    }
    memmove(&table[i + 1], &table[i], (ntable - i) * sizeof(*t));
    table[i] = m;
    ntable++;
    *m = (struct fake_mem){ .base = base,
                            .id = ++last_id,
                            .len = len,
                            .kind = kind,
                            .phys = phys,
                            .off = off,
                            .dev = phys ? phys->dev : -1 };
    count_pinned(m, true);
    return m;
}

void fake_mem_drop(struct fake_mem *m)
{
    size_t i = position(m->base);

    count_pinned(m, false);
    memmove(&table[i - 1], &table[i], (ntable - i) * sizeof(*table));
    ntable--;
    fake_phys_unref(m->phys);
    free(m);
}

int fake_mem_alive(void) { return (int)ntable; }

/* First fit, so that freed addresses are reused at once. */
uint64_t fake_arena_cut(struct fake_arena *a, size_t len)
{
    uint64_t at = a->base;
    struct fake_mem *m;

    for (m = fake_mem_next(at); m && m->base < a->base + a->len; m = fake_mem_next(at)) {
        if (m->base - at >= len)
            return at;
        at = (m->base + m->len + 511) & ~(uint64_t)511;
    }
    return a->base + a->len >= at + len ? at : 0;
}

bool fake_is_known(uint64_t p)
{
    int i;

    for (i = 0; i < nranges; i++)
        if (p - ranges[i].va < ranges[i].len)
            return true;
    return fake_mem_find(p);
}

/* ---- access ---- */

static bool may_use(cu_ctx c, const struct fake_mem *m, enum fake_who who)
{
    switch (m->kind) {
    case FAKE_HOST:
    case FAKE_REGISTERED:
    case FAKE_MANAGED:
        return true;
    case FAKE_DEVICE: /* the copy engines go through the host if devices have no access */
        return who == FAKE_BY_ENGINE || m->dev == c->dev || c->peers & 1u << m->dev;
    case FAKE_POOL:
        return m->pool->dev == c->dev;
    default:
        return m->access & 1u << c->dev;
    }
}

size_t fake_run(uint64_t p, size_t len)
{
    struct fake_mem *m;

    pthread_mutex_lock(&fake.lock);
    m = fake_mem_find(p);
    if (m && m->kind == FAKE_VMM && len > m->len - (p - m->base))
        len = m->len - (p - m->base);
    pthread_mutex_unlock(&fake.lock);
    return len;
}

bool fake_reaches(uint64_t p, size_t len)
{
    struct fake_mem *m = fake_mem_find(p);
    uint64_t end = p + len;

    while (m && m->base + m->len < end)
        m = m->kind == FAKE_VMM ? fake_mem_find(m->base + m->len) : NULL;
    return m;
}

/* Prints the details for the author of a test; the library sees only error 700. */
static void say_illegal(cu_ctx c, uint64_t p, size_t len, enum fake_who who,
                        const struct fake_mem *m)
{
    static const char *const kinds[] = { "pinned", "registered", "managed", "cuda",
                                         "vmm",    "pool",       "imported" };

    fprintf(stderr, "fake CUDA: pid %d: a %s of GPU %d touches %p+%zu: ", (int)getpid(),
            who == FAKE_BY_KERNEL ? "kernel" : "copy", c->dev, (void *)p, len);
    if (m)
        fprintf(stderr, "%s memory %p+%zu of GPU %d%s\n", kinds[m->kind], (void *)m->base, m->len,
                m->dev, may_use(c, m, who) ? "" : ", no access");
    else
        fprintf(stderr, "nothing there\n");
}

char *fake_pin(cu_ctx c, uint64_t p, size_t len, enum fake_who who, struct fake_phys **pin)
{
    struct fake_mem *m;
    char *at = NULL;

    pthread_mutex_lock(&fake.lock);
    m = fake_mem_find(p);
    *pin = NULL;
    if (m && len <= m->len - (p - m->base) && may_use(c, m, who)) {
        at = m->phys ? m->phys->alias + m->off + (p - m->base) : (char *)p;
        *pin = m->phys;
        if (m->phys)
            m->phys->nref++;
    } else if (m || who == FAKE_BY_KERNEL || fake_is_known(p))
        say_illegal(c, p, len, who, m);
    pthread_mutex_unlock(&fake.lock);
    return at;
}

void fake_unpin(struct fake_phys *pin)
{
    if (!pin)
        return;
    pthread_mutex_lock(&fake.lock);
    fake_phys_unref(pin);
    pthread_mutex_unlock(&fake.lock);
}
