/* SPDX-License-Identifier: BSD-3-Clause */
/* runtime/mem/regcache and watch: a registration of memory that is no longer there is never
 * returned.  The registrar is a fake that does what an adapter does: it holds the pages (by
 * vmsplice into a pipe, which keeps a reference to each) and remembers which pages they were (page
 * frames from /proc/self/pagemap, for root).  Held pages cannot be reused meanwhile, so a
 * registration is right exactly if the addresses still lead to the same frames. */
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "runtime/gpu/gpu.h"
#include "runtime/gpu/gpu_int.h"
#include "runtime/mem/regcache.h"
#include "runtime/mem/watch.h"
#include "test/check.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096u
#define PAGES 8 /* of most ranges here */
#define LEN (PAGES * (size_t)PAGE)
#define FRAME(e) ((e) & ((1ull << 55) - 1))
#define PRESENT(e) ((e) >> 63)

static int pagemap, live; /* number of registrations */
static unsigned long made;
static bool frames_known; /* this process may read page frames */
static int fail_next;     /* how many times the registrar returns -RT_ENOMEM next */
static bool not_to_keep;
static void (*inside)(void); /* called during registration */

struct fake {
    uintptr_t start;
    size_t npages;
    int pipe[2];
    uint64_t frame[64];
};

static uint64_t frame_of(uintptr_t a)
{
    uint64_t e = 0;
    if (pread(pagemap, &e, sizeof e, (off_t)(a / PAGE * sizeof e)) != (ssize_t)sizeof e)
        return 0;
    return PRESENT(e) ? FRAME(e) : 0;
}

/* Makes the pages present, at least for reading.  Whole pages: more than was allocated. */
__attribute__((no_sanitize("address"))) static void touch(volatile const char *p, size_t npages)
{
    for (size_t i = 0; i < npages; i++)
        (void)p[i * PAGE];
}

static int fake_reg(void *arg, int slot, uintptr_t start, size_t len, const struct rt_gpu_ptr *at,
                    void **out)
{
    (void)arg, (void)slot;
    if (fail_next > 0 && fail_next--)
        return -RT_ENOMEM;
    if (inside)
        inside();
    struct fake *f = calloc(1, sizeof *f);
    f->start = start;
    f->npages = len / PAGE < 64 ? len / PAGE : 64;
    f->pipe[0] = f->pipe[1] = -1;
    if (!at && frames_known) {
        struct iovec v = { (void *)start, f->npages * PAGE };
        touch((volatile const char *)start, f->npages);
        if (pipe2(f->pipe, O_CLOEXEC) || fcntl(f->pipe[1], F_SETPIPE_SZ, 128 * PAGE) < 0 ||
            vmsplice(f->pipe[1], &v, 1, SPLICE_F_NONBLOCK) != (ssize_t)(f->npages * PAGE))
            CHECK_MSG(0, "pages cannot be held");
        for (size_t i = 0; i < f->npages; i++)
            f->frame[i] = frame_of(start + i * PAGE);
    }
    live++;
    made++;
    *out = f;
    return not_to_keep;
}

static void fake_dereg(void *arg, int slot, void *reg)
{
    (void)arg, (void)slot;
    struct fake *f = reg;
    if (f->pipe[0] >= 0) {
        close(f->pipe[0]);
        close(f->pipe[1]);
    }
    free(f);
    live--;
}

static const struct rt_regcache_ops fake_ops = { fake_reg, fake_dereg };
static struct rt_regcache *cache;

static void setup(size_t max_nbytes)
{
    CHECK(rt_regcache_create(&fake_ops, NULL, max_nbytes, &cache) == 0);
}

static void teardown(void)
{
    rt_regcache_destroy(cache);
    CHECK_EQ(live, 0);
}

/* Whether the registered pages are those that the addresses lead to. */
static bool true_now(const struct rt_reg *r)
{
    const struct fake *f = r->slot[0];
    for (size_t i = 0; frames_known && f->pipe[0] >= 0 && i < f->npages; i++)
        if (frame_of(f->start + i * PAGE) != f->frame[i])
            return false;
    return true;
}

/* Gets and puts a registration; true: it was new.  A stale registration fails the test. */
static bool fresh(const void *p, size_t len)
{
    struct rt_reg *r = NULL;
    unsigned long before = made;
    int err = rt_regcache_get(cache, p, len, NULL, 0, &r);
    CHECK_EQ(err, 0);
    if (err)
        return false;
    CHECK(r->start <= (uintptr_t)p && r->end >= (uintptr_t)p + len && r->slot[0]);
    CHECK(true_now(r));
    rt_regcache_put(cache, r);
    return made != before;
}

/* Addresses that nothing else uses.  The tests unmap pages and map them again; in between, the
 * kernel must not give the hole to an allocation of another thread.  The kernel searches for room
 * from the highest address down, so a hole far below everything else stays free. */
static void *place(size_t len)
{
    static char *next = (char *)0x200000000000;
    char *p = next;
    next += len + PAGE;
    return p;
}

/* `where` NULL: at an address of place(). */
static char *map_at(void *where, size_t len, bool fixed)
{
    char *p = mmap(where ? where : place(len), len, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | (fixed ? MAP_FIXED : 0), -1, 0);
    CHECK(p != MAP_FAILED);
    memset(p, 1, len);
    return p;
}

/* Registers, and checks that it is cached: tests change the memory next. */
static char *cached(void *where, size_t len)
{
    char *p = map_at(where, len, where != NULL);
    CHECK(fresh(p, len));
    CHECK(!fresh(p, len));
    CHECK(!fresh(p + PAGE + 3, len - 2 * PAGE));
    return p;
}

/* ---- events that remove memory ---- */

static void unmapped_and_mapped_again(void)
{
    setup(1u << 30);
    char *p = cached(NULL, LEN);
    munmap(p, LEN);
    map_at(p, LEN, true);
    CHECK(fresh(p, LEN));
    CHECK(!fresh(p, LEN));
    munmap(p + 3 * PAGE, PAGE); /* a part of it */
    map_at(p + 3 * PAGE, PAGE, true);
    CHECK(fresh(p, LEN));
    munmap(p - 0, LEN);
    teardown();
}

static void mapped_over(void)
{
    setup(1u << 30);
    char *p = cached(NULL, LEN);
    map_at(p + LEN - PAGE, PAGE, true);
    CHECK(fresh(p, LEN));
    CHECK(!fresh(p, LEN));
    munmap(p, LEN);
    teardown();
}

static void moved(void)
{
    setup(1u << 30);
    char *p = cached(NULL, LEN), *q = map_at(NULL, 4 * LEN, false);
    char *r = mremap(p, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, q + LEN);
    CHECK(r == q + LEN);
    map_at(p, LEN, true);
    CHECK(fresh(p, LEN)); /* new memory at the old place */
    CHECK(fresh(r, LEN)); /* old memory at a new place */
    CHECK(!fresh(r, LEN));
    char *s = mremap(p, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, r); /* onto a cached range */
    CHECK(s == r);
    CHECK(fresh(r, LEN));
    munmap(q, 4 * LEN);
    teardown();
}

static void moved_but_left_mapped(void)
{
#ifdef MREMAP_DONTUNMAP
    setup(1u << 30);
    char *p = cached(NULL, LEN);
    char *q = mremap(p, LEN, LEN, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    if (q != MAP_FAILED) {
        memset(p, 2, LEN);
        CHECK(fresh(p, LEN));
        CHECK(fresh(q, LEN));
        munmap(q, LEN);
    }
    munmap(p, LEN);
    teardown();
#endif
}

static void shrunk_and_grown(void)
{
    setup(1u << 30);
    char *p = map_at(NULL, 4 * LEN, false);
    munmap(p + LEN, 3 * LEN); /* space to grow */
    CHECK(fresh(p, LEN));
    CHECK(mremap(p, LEN, LEN / 2, 0) == p);
    CHECK(fresh(p, LEN / 2));                  /* the upper half was removed with the whole range */
    if (mremap(p, LEN / 2, 2 * LEN, 0) == p) { /* if the space was still free */
        memset(p, 3, 2 * LEN);
        CHECK(fresh(p, LEN));
        CHECK(fresh(p + LEN, LEN));
        munmap(p + LEN, LEN);
        map_at(p + LEN, LEN, true);
        CHECK(fresh(p + LEN, LEN));
    }
    munmap(p, 2 * LEN);
    teardown();
}

static void emptied(void)
{
    setup(1u << 30);
    char *p = cached(NULL, LEN);
    madvise(p, PAGE, MADV_DONTNEED);
    CHECK_EQ(p[0], 0); /* reading and writing it needs no other thread */
    memset(p, 4, PAGE);
    CHECK(fresh(p, LEN));
    madvise(p + 5 * PAGE, PAGE, MADV_FREE);
    memset(p + 5 * PAGE, 4, PAGE);
    CHECK(fresh(p, LEN));
    munmap(p, LEN);
    teardown();
}

/* The kernel itself writes to watched memory that is not present: read(2) must not fail. */
static void read_into_emptied(void)
{
    setup(1u << 30);
    char *p = cached(NULL, LEN);
    int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < 2; i++) { /* watched, then not watched */
        madvise(p, LEN, MADV_DONTNEED);
        CHECK_EQ(read(fd, p, LEN), (ssize_t)LEN);
        CHECK(fresh(p, LEN));
        CHECK_EQ(read(fd, p, LEN), (ssize_t)LEN);
    }
    close(fd);
    munmap(p, LEN);
    teardown();
}

static void from_malloc(void)
{
    setup(1u << 30);
    for (size_t len = 64u << 10; len <= 4u << 20; len *= 4)
        for (int i = 0; i < 8; i++) {
            char *p = malloc(len), *guard = i & 1 ? malloc(64) : NULL;
            memset(p, i, len);
            fresh(p, len < 60 * PAGE ? len : 60 * PAGE);
            free(p);
            if (i & 2)
                malloc_trim(0);
            free(guard);
        }
    teardown();
}

static void at_the_break(void)
{
    setup(1u << 30);
    char *p = sbrk(3 * LEN);
    if (p != (void *)-1) {
        p = (char *)(((uintptr_t)p + PAGE - 1) & ~(uintptr_t)(PAGE - 1));
        memset(p, 5, LEN);
        CHECK(fresh(p, LEN));
        if (sbrk(0) == p + 3 * LEN || (char *)sbrk(0) > p + LEN) {
            CHECK(sbrk(-(intptr_t)((char *)sbrk(0) - p)) != (void *)-1);
            CHECK(sbrk(2 * LEN) == p);
            memset(p, 6, LEN);
            CHECK(fresh(p, LEN));
        }
    }
    teardown();
}

/* ---- memory whose changes the kernel does not report: never cached ---- */

static void shared_segment(void)
{
    setup(1u << 30);
    int id = shmget(IPC_PRIVATE, LEN, 0600), id2 = shmget(IPC_PRIVATE, LEN, 0600);
    char *p = shmat(id, place(LEN), 0);
    memset(p, 1, LEN);
    CHECK(fresh(p, LEN));
    shmdt(p);
    CHECK(shmat(id2, p, 0) == p);
    memset(p, 2, LEN);
    CHECK(fresh(p, LEN));
    CHECK(fresh(p, LEN));
    shmdt(p);
    map_at(p, LEN, true);
    CHECK(fresh(p, LEN));
    CHECK(!fresh(p, LEN));
    munmap(p, LEN);
    shmctl(id, IPC_RMID, NULL);
    shmctl(id2, IPC_RMID, NULL);
    teardown();
}

static void shared_file(void)
{
    setup(1u << 30);
    int fd = memfd_create("test", MFD_CLOEXEC);
    CHECK(ftruncate(fd, (off_t)LEN) == 0);
    char *p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    memset(p, 1, LEN);
    CHECK(fresh(p, LEN));
    CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE) == 0);
    memset(p, 2, LEN);
    CHECK(fresh(p, LEN));
    CHECK(ftruncate(fd, 0) == 0 && ftruncate(fd, (off_t)LEN) == 0);
    memset(p, 3, LEN);
    CHECK(fresh(p, LEN));
    munmap(p, LEN);
    close(fd);
    teardown();
}

static void private_file_and_mixed(void)
{
    setup(1u << 30);
    int fd = memfd_create("test", MFD_CLOEXEC);
    CHECK(ftruncate(fd, (off_t)LEN) == 0);
    char *p = map_at(NULL, 2 * LEN, false);
    CHECK(mmap(p, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 0) == p);
    memset(p, 1, LEN);
    CHECK(fresh(p, LEN) && fresh(p, LEN));
    CHECK(fresh(p + LEN / 2, LEN) && fresh(p + LEN / 2, LEN)); /* file and anonymous */
    CHECK(fresh(p + LEN, LEN) && !fresh(p + LEN, LEN));
    munmap(p, 2 * LEN);
    close(fd);
    teardown();
}

static char in_data[4 * PAGE] = { 1 };
static const char constant[2 * PAGE] = { 1 };
static char in_bss[16 * PAGE];

static void of_the_program(void)
{
    setup(1u << 30);
    memset(in_bss, 1, sizeof in_bss);
    fresh(in_data, sizeof in_data); /* cached or not: right in any case */
    fresh(in_bss, sizeof in_bss);
    CHECK(fresh(constant, sizeof constant));
    char stack[2 * PAGE];
    memset(stack, 1, sizeof stack);
    fresh(stack, sizeof stack);
    teardown();
}

/* The text form of /proc/self/maps, for kernels without its ioctl, gives the same result. */
static void maps_by_text(void)
{
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    int file = memfd_create("test", MFD_CLOEXEC);
    CHECK(ftruncate(file, (off_t)LEN) == 0);
    char *p = map_at(NULL, 4 * LEN, false);
    mprotect(p + PAGE, PAGE, PROT_READ); /* three mappings */
    mmap(p + LEN, LEN, PROT_READ, MAP_SHARED, file, 0);
    mmap(p + 2 * LEN, LEN, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0);
    uintptr_t a = (uintptr_t)p;
    for (int i = 0; i < 2; i++, close(fd), fd = open("/tmp", O_RDONLY | O_CLOEXEC)) {
        if (i == 1) { /* a copy of the text, which has no ioctl */
            char text[65536];
            int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
            int copy = memfd_create("maps", MFD_CLOEXEC);
            for (ssize_t n; (n = read(maps, text, sizeof text)) > 0;)
                CHECK(write(copy, text, (size_t)n) == n);
            close(maps);
            close(fd);
            fd = copy;
        }
        CHECK(rt_maps_anonymous(fd, a, a + LEN));
        CHECK(rt_maps_anonymous(fd, a + PAGE, a + 2 * PAGE));
        CHECK(!rt_maps_anonymous(fd, a + 2 * LEN, a + 3 * LEN));
        CHECK(!rt_maps_anonymous(fd, a + LEN, a + 4 * LEN));
        CHECK(rt_maps_anonymous(fd, a + 3 * LEN, a + 4 * LEN));
        CHECK(!rt_maps_anonymous(fd, 0, PAGE));
        CHECK(!rt_maps_anonymous(fd, UINTPTR_MAX - 2 * PAGE, UINTPTR_MAX - PAGE));
    }
    close(fd);
    close(file);
    munmap(p, 4 * LEN);
}

/* ---- many, in use, bounds ---- */

static void in_use_survives(void)
{
    struct rt_reg *a, *b;
    setup(1u << 30);
    char *p = cached(NULL, LEN);
    CHECK(rt_regcache_get(cache, p, LEN, NULL, 0, &a) == 0);
    munmap(p, LEN);
    map_at(p, LEN, true);
    CHECK(rt_regcache_get(cache, p, LEN, NULL, 0, &b) == 0);
    CHECK(a != b && true_now(b) && !a->kept && live == 2);
    rt_regcache_put(cache, a);
    CHECK_EQ(live, 1);
    CHECK(rt_regcache_get(cache, p, LEN, NULL, 3, &a) == 0); /* another device */
    CHECK(a == b && a->slot[3] && live == 2);
    rt_regcache_put(cache, a);
    rt_regcache_put(cache, b);
    munmap(p, LEN);
    teardown();
}

static void bounded(void)
{
    struct rt_regcache_counts n;
    struct rt_reg *r;
    setup(8 * LEN);
    char *p = map_at(NULL, 32 * LEN, false);
    for (int i = 0; i < 32; i++)
        CHECK(fresh(p + i * (int)LEN, LEN));
    rt_regcache_count(cache, &n);
    CHECK(n.nbytes == 8 * LEN && n.n == 8 && live == 8 && n.evicted == 24);
    CHECK(!fresh(p + 31 * LEN, LEN) && !fresh(p + 24 * LEN, LEN)); /* the newest are there */
    CHECK(fresh(p, LEN) && fresh(p + 23 * LEN, LEN));
    CHECK(!fresh(p + 24 * LEN, LEN)); /* was used since */
    CHECK(fresh(p, 10 * LEN));        /* longer than the limit: not cached */
    CHECK(fresh(p, 10 * LEN));
    CHECK(!fresh(p + 24 * LEN, LEN)); /* and no other was dropped for it */
    fail_next = 3;
    CHECK(rt_regcache_get(cache, p + 12 * LEN, LEN, NULL, 0, &r) == 0);
    CHECK_EQ(fail_next, 0);
    rt_regcache_put(cache, r);
    fail_next = 100;
    CHECK_EQ(rt_regcache_get(cache, p + 14 * LEN, LEN, NULL, 0, &r), -RT_ENOMEM);
    CHECK_EQ(live, 0);
    fail_next = 0;
    CHECK(fresh(p + 14 * LEN, LEN));
    not_to_keep = true;
    CHECK(fresh(p + 16 * LEN, LEN) && fresh(p + 16 * LEN, LEN));
    not_to_keep = false;
    CHECK_EQ(rt_regcache_get(cache, (void *)(UINTPTR_MAX - 100), 4096, NULL, 0, &r), -RT_EINVAL);
    munmap(p, 32 * LEN);
    teardown();
    setup(0);
    p = map_at(NULL, LEN, false);
    CHECK(fresh(p, LEN) && fresh(p, LEN));
    CHECK(rt_regcache_why_not(cache) != NULL);
    munmap(p, LEN);
    teardown();
}

static uint32_t seed = 12345;
static unsigned rnd(unsigned n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

/* The cache's thread is running when it has processed this page.  A thread that starts maps its own
 * memory; with sanitizers it might get the addresses that a test has just unmapped to map them
 * again. */
static void setup_and_wait(void)
{
    setup(1u << 30);
    char *p = map_at(NULL, PAGE, false);
    CHECK(fresh(p, PAGE));
    munmap(p, PAGE);
}

/* Overlapping ranges with changes in between: a range that was not changed since its registration
 * is found; true_now() checks each time that no changed range is found. */
static void random_ranges(void)
{
    enum { N = 48 };
    unsigned long clock = 0, changed[N], reg_at[64];
    unsigned reg_first[64], reg_n[64], nreg = 0;
    setup_and_wait();
    char *p = map_at(NULL, N * PAGE, false);
    memset(changed, 0, sizeof changed);
    for (int step = 0; step < 4000; step++) {
        unsigned first = rnd(N - 8), n = 1 + rnd(8);
        clock++;
        if (rnd(4) == 0) {
            int how = (int)rnd(3);
            if (how == 0)
                munmap(p + first * PAGE, n * PAGE);
            if (how == 1)
                madvise(p + first * PAGE, n * PAGE, MADV_DONTNEED);
            if (how != 1)
                map_at(p + first * PAGE, n * PAGE, true);
            memset(p + first * PAGE, 7, n * PAGE);
            for (unsigned i = 0; i < n; i++)
                changed[first + i] = clock;
            continue;
        }
        bool expect = false;
        for (unsigned k = 0; k < nreg && !expect; k++) {
            expect = reg_first[k] <= first && reg_first[k] + reg_n[k] >= first + n;
            for (unsigned i = 0; i < reg_n[k] && expect; i++)
                expect = changed[reg_first[k] + i] < reg_at[k];
        }
        bool was = fresh(p + first * PAGE + 5, n * PAGE - 9);
        CHECK_MSG(was == !expect, "step %d: pages %u+%u are %s", step, first, n,
                  was ? "registered again" : "found");
        if (!was)
            continue;
        unsigned k = nreg < 64 ? nreg++ : rnd(64);
        reg_first[k] = first, reg_n[k] = n, reg_at[k] = clock;
        if (nreg == 64) { /* the model forgets, the cache does not: start again */
            nreg = 0;
            teardown();
            setup_and_wait();
        }
    }
    munmap(p, N * PAGE);
    teardown();
}

static void more_than_the_ring_holds(void)
{
    setup(1u << 30);
    char *p = cached(NULL, LEN), *q = map_at(NULL, LEN, false);
    CHECK(fresh(q, LEN));
    for (int i = 0; i < 3000; i++)
        madvise(p, PAGE, MADV_DONTNEED);
    memset(p, 1, LEN);
    CHECK(fresh(p, LEN));
    CHECK(fresh(q, LEN)); /* may have changed, too */
    CHECK(!fresh(q, LEN) && !fresh(p, LEN));
    munmap(p, LEN);
    munmap(q, LEN);
    teardown();
}

/* Registration may free watched memory itself, as a provider's allocator does. */
static char *to_unmap;
static void unmap_inside(void)
{
    inside = NULL;
    munmap(to_unmap, LEN);
}

static void freed_while_registering(void)
{
    setup(1u << 30);
    to_unmap = cached(NULL, LEN);
    char *p = map_at(NULL, LEN, false);
    inside = unmap_inside;
    CHECK(fresh(p, LEN));
    map_at(to_unmap, LEN, true);
    CHECK(fresh(to_unmap, LEN));
    CHECK(!fresh(p, LEN));
    munmap(to_unmap, LEN);
    munmap(p, LEN);
    teardown();
}

/* ---- threads and processes ---- */

#define THREADS 4
static pthread_mutex_t serial = PTHREAD_MUTEX_INITIALIZER;
static int stale;

static void *churn(void *arg)
{
    char *mine = arg;
    uint32_t x = (uint32_t)(uintptr_t)arg;
    for (int i = 0; i < 600; i++) {
        x = x * 1664525u + 1013904223u;
        size_t off = (x >> 20) % PAGES * PAGE, len = LEN - off;
        struct rt_reg *r;
        pthread_mutex_lock(&serial);
        if (rt_regcache_get(cache, mine + off, len, NULL, 0, &r) == 0) {
            stale += !true_now(r);
            rt_regcache_put(cache, r);
        }
        pthread_mutex_unlock(&serial);
        if (x >> 30 == 0)
            munmap(mine + off, len);
        if (x >> 30 == 1)
            madvise(mine + off, len, MADV_DONTNEED);
        if (x >> 30 != 2)
            mmap(mine + off, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                 -1, 0);
        memset(mine, (int)i, LEN);
        free(malloc(1u << (x >> 27) % 22));
    }
    return NULL;
}

static void threads(void)
{
    pthread_t t[THREADS];
    setup(1u << 30);
    char *p = map_at(NULL, THREADS * LEN, false);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, churn, p + i * (int)LEN);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    CHECK_EQ(stale, 0);
    munmap(p, THREADS * LEN);
    teardown();
}

/* 0 if the child ends by itself with status 0 within 10 s. */
static int wait_for(pid_t pid)
{
    for (int i = 0; i < 1000; i++) {
        int status;
        if (waitpid(pid, &status, WNOHANG) == pid)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 200;
        poll(NULL, 0, 10);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return 100;
}

static void forked(void)
{
    setup(1u << 30);
    char *p = cached(NULL, LEN), *q = cached(NULL, LEN);
    int before = live;
    pid_t pid = fork();
    if (pid == 0) {
        munmap(p, LEN); /* waits for no thread */
        madvise(q, LEN, MADV_DONTNEED);
        memset(q, 1, LEN);
        frames_known = false;                     /* the pipes are the parent's */
        bool ok = fresh(q, LEN) && fresh(q, LEN); /* nothing is cached here */
        rt_regcache_destroy(cache);
        _exit(ok && live == before + 2 && !check_failed_case ? 0 : 1); /* none is released */
    }
    CHECK_EQ(wait_for(pid), 0);
    CHECK(!fresh(p, LEN)); /* the child's changes do not affect the parent */
    munmap(p, LEN);
    map_at(p, LEN, true);
    CHECK(fresh(p, LEN));
    pid = fork(); /* a child that stays must not keep the watch alive */
    if (pid == 0) {
        pause();
        _exit(0);
    }
    teardown();
    pid_t other = fork();
    if (other == 0)
        _exit(0);
    wait_for(other);
    alarm(100); /* otherwise it would wait for ever */
    munmap(p, LEN);
    munmap(q, LEN);
    alarm(0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* A program that closes descriptors that are not its own: detected soon after memory is unmapped
 * next. */
static void closed_by_the_program(void)
{
    char path[64], what[64];
    setup(1u << 30);
    char *p = cached(NULL, LEN);
    for (int fd = 3; fd < 1000; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(path, what, sizeof what - 1);
        if (n > 0 && memmem(what, (size_t)n, "userfaultfd", 11))
            close(fd);
    }
    munmap(p, LEN);
    map_at(p, LEN, true);
    for (int i = 0; i < 2000 && !rt_regcache_why_not(cache); i++, poll(NULL, 0, 5)) {
        struct rt_reg *r;
        CHECK(rt_regcache_get(cache, p, LEN, NULL, 0, &r) == 0);
        rt_regcache_put(cache, r);
    }
    CHECK(fresh(p, LEN) && fresh(p, LEN)); /* nothing is cached any more */
    CHECK(rt_regcache_why_not(cache) && strstr(rt_regcache_why_not(cache), "descriptors"));
    munmap(p, LEN);
    teardown();
}

static void opened_again(void)
{
    for (int i = 0; i < 5; i++) {
        setup(1u << 30);
        char *p = cached(NULL, LEN);
        if (i & 1)
            munmap(p, LEN);
        teardown();
        if (!(i & 1))
            munmap(p, LEN);
    }
}

/* If the system refuses userfaultfd, each get registers. */
static void not_allowed(void)
{
    struct sock_filter f[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog prog = { 4, f };
    pid_t pid = fork();
    if (pid == 0) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &prog))
            _exit(77);
        setup(1u << 30);
        char *p = map_at(NULL, LEN, false);
        bool ok = fresh(p, LEN) && fresh(p, LEN) && rt_regcache_why_not(cache) &&
                  strstr(rt_regcache_why_not(cache), "seccomp");
        teardown();
        fflush(stdout);
        _exit(ok && !check_failed_case ? 0 : 1);
    }
    int status = wait_for(pid);
    CHECK_MSG(status == 0 || status == 77, "status %d", status);
}

/* Device memory: identified by its number, on a machine without a GPU. */
static void device_memory(void)
{
    struct rt_reg *a, *b;
    setup(1u << 30);
    char *p = map_at(NULL, LEN, false);
    struct rt_gpu_ptr at = {
        .kind = RT_MEM_CUDA, .base = (uintptr_t)p, .len = LEN, .id = 7, .single = true
    };
    CHECK(rt_regcache_get(cache, p + 100, 50, &at, 0, &a) == 0);
    CHECK(a->start == (uintptr_t)p && a->end == (uintptr_t)p + LEN && a->id == 7);
    CHECK(rt_regcache_get(cache, p + 5000, 50, &at, 0, &b) == 0 && a == b);
    rt_regcache_put(cache, b);
    at.id = 8; /* freed and allocated again */
    CHECK(rt_regcache_get(cache, p, LEN, &at, 0, &b) == 0 && b != a && !a->kept);
    rt_regcache_put(cache, a);
    rt_regcache_put(cache, b);
    CHECK(rt_regcache_get(cache, p, LEN, &at, 0, &a) == 0 && a == b);
    rt_regcache_put(cache, a);
    CHECK(fresh(p, LEN)); /* now host memory */
    at.single = false;    /* several mappings: only the first has the number */
    CHECK(rt_regcache_get(cache, p, LEN, &at, 0, &a) == 0 && !a->kept);
    rt_regcache_put(cache, a);
    munmap(p, LEN);
    teardown();
}

/* Host memory that the CUDA driver has pinned (over the driver of test/fake/gpu): cached although
 * it is shared memory, until the driver has another number for it. */
static void pinned_memory(void)
{
    struct rt_reg *a, *b;
    rt_gpu_init();
    struct rt_gpu *g;
    CHECK_EQ(rt_cuda_open(true), 0);
    CHECK_EQ(rt_gpu_primary(0, &g), 0);
    int in = rt_gpu_enter(g);
    CHECK(in >= 0);
    setup(1u << 30);
    int fd = memfd_create("test", MFD_CLOEXEC);
    CHECK(ftruncate(fd, (off_t)LEN) == 0);
    char *p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    memset(p, 1, LEN);
    CHECK(fresh(p, LEN) && fresh(p, LEN));
    CHECK_EQ(rt_cuda.mem_host_register(p, LEN, 0), CU_OK);
    CHECK(rt_regcache_get(cache, p + PAGE, 100, NULL, 0, &a) == 0);
    CHECK(a->kept && a->pinned && a->id && a->start == (uintptr_t)p && a->end == a->start + LEN);
    CHECK(rt_regcache_get(cache, p, LEN, NULL, 0, &b) == 0 && a == b);
    rt_regcache_put(cache, b);
    rt_regcache_put(cache, a);
    CHECK_EQ(rt_cuda.mem_host_unregister(p), CU_OK);
    CHECK(ftruncate(fd, 0) == 0 && ftruncate(fd, (off_t)LEN) == 0);
    memset(p, 2, LEN);
    CHECK(fresh(p, LEN) && fresh(p, LEN));
    CHECK_EQ(rt_cuda.mem_host_register(p, LEN, 0), CU_OK);
    CHECK(fresh(p, LEN) && !fresh(p, LEN));
    CHECK_EQ(rt_cuda.mem_host_unregister(p), CU_OK);
    char *q = map_at(NULL, LEN, false); /* a miss checks for freed memory */
    CHECK(fresh(q, LEN));
    CHECK_EQ(live, 1);
    munmap(q, LEN);
    munmap(p, LEN);
    close(fd);
    teardown();
    rt_gpu_leave(in);
    rt_gpu_fini();
}

int main(int argc, char **argv)
{
    if (rt_cfg_load() < 0)
        return 1;
    if (argc > 1 && !strcmp(argv[1], "gpu")) {
        RUN(pinned_memory);
        return check_end();
    }
    pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    in_bss[0] = 1;
    frames_known = pagemap >= 0 && frame_of((uintptr_t)in_bss) != 0;
    if (!frames_known)
        printf("# page frames are hidden: only new registrations are counted\n");
    RUN(device_memory);
    RUN(not_allowed);
    int err = rt_watch_open();
    rt_watch_close();
    if (err) {
        printf("# no watch here: %s\n", rt_watch_why_not());
        return check_end();
    }
    RUN(unmapped_and_mapped_again);
    RUN(mapped_over);
    RUN(moved);
    RUN(moved_but_left_mapped);
    RUN(shrunk_and_grown);
    RUN(emptied);
    RUN(read_into_emptied);
    RUN(from_malloc);
    RUN(at_the_break);
    RUN(shared_segment);
    RUN(shared_file);
    RUN(private_file_and_mixed);
    RUN(of_the_program);
    RUN(maps_by_text);
    RUN(in_use_survives);
    RUN(bounded);
    RUN(random_ranges);
    RUN(more_than_the_ring_holds);
    RUN(freed_while_registering);
    RUN(threads);
    RUN(forked);
    RUN(closed_by_the_program);
    RUN(opened_again);
    return check_end();
}
