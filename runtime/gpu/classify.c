/* SPDX-License-Identifier: BSD-3-Clause */
/* Classification of addresses.  Two questions.  The first, host or device, is asked for every
 * buffer of every message, on any thread.  The program's own memory is known without asking; for
 * all other memory the driver is asked each time, by its plural call only (the singular one is slow
 * since driver 580).  The second, all about a device address, is asked under the domain's lock,
 * alone or together with the first: the code above asks once, where an MPI call begins. The last
 * allocations are remembered, and the driver's ids for them are compared at each use.
 *
 * Nothing here loads the driver: an application that has memory of the driver has loaded it. */
#include "runtime/gpu/classify.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/gpu/context.h"
#include "runtime/gpu/dev.h"
#include "runtime/gpu/driver.h"
#include "runtime/gpu/gpu_int.h"

#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/uio.h>
#include <unistd.h>

/* The kernel keeps mappings at least this far from the main thread's stack. */
#define STACK_GAP ((size_t)128 << 20)

bool rt_gpu_watch;
struct rt_gpu_own rt_gpu_own;

static struct {
    uint64_t none; /* number of libraries loaded when none of them was the driver; any thread */
    int known;     /* index in fields_known: what this driver supports; any thread */
} look;

/* The main program comes first; its variables are the writable segment. */
static int note_data(struct dl_phdr_info *info, size_t len, void *arg)
{
    (void)len, (void)arg;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        if (h->p_type == PT_LOAD && h->p_flags & PF_W) {
            rt_gpu_own.data = (uintptr_t)(info->dlpi_addr + h->p_vaddr);
            rt_gpu_own.data_len = h->p_memsz;
        }
    }
    return 1;
}

/* Start of the heap: field 47, start_brk; the second field is a name in parentheses that may
 * contain anything. 0 without /proc. */
static uintptr_t heap_start(void)
{
    char line[1024];
    FILE *f = fopen("/proc/self/stat", "re");
    if (!f)
        return 0;
    char *at = fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
    fclose(f);
    for (int field = 2; at && field < 47; field++)
        at = strchr(at + 1, ' ');
    return at ? (uintptr_t)strtoull(at, NULL, 10) : 0;
}

/* Any thread.  The heap may have grown or shrunk.  After it has shrunk, and until the next look,
 * the space above is taken for the heap; only a program that chooses the address could map anything
 * there.  On the main thread everything from here to the stack's end is stack. */
static void note_own(const void *p)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0), end = (uintptr_t)sbrk(0);
    size_t depth = rt_gpu_own.stack_end - here;
    if (!rt_load_relaxed(&rt_gpu_own.heap)) {
        uintptr_t start = heap_start();
        rt_store_relaxed(&rt_gpu_own.heap, start && start <= end ? start : end);
    }
    size_t len = end - rt_load_relaxed(&rt_gpu_own.heap);
    if (len <= end && len != rt_load_relaxed(&rt_gpu_own.heap_len))
        rt_store_relaxed(&rt_gpu_own.heap_len, len);
    if ((uintptr_t)p >= here && (uintptr_t)p < rt_gpu_own.stack_end && depth < STACK_GAP &&
        depth > rt_load_relaxed(&rt_gpu_own.stack_len))
        rt_store_relaxed(&rt_gpu_own.stack_len, depth);
}

/* What the driver reports; all zero for what it does not know.  Booleans are 4 bytes. */
struct answer {
    cu_ctx ctx;
    cu_ptr start, mapping;
    uint64_t id, block_id;
    size_t len, mapping_len;
    uint32_t type, managed, legacy, mapped;
    int ordinal;
    cu_pool pool;
};

/* In the order in which drivers introduced them. */
#define FIELD(attribute, field) \
    { \
        attribute, offsetof(struct answer, field) \
    }
static const struct {
    int attribute;
    size_t off;
} fields[] = { FIELD(CU_PTR_CONTEXT, ctx),
               FIELD(CU_PTR_MEMORY_TYPE, type),
               FIELD(CU_PTR_BUFFER_ID, id),
               FIELD(CU_PTR_IS_MANAGED, managed),
               FIELD(CU_PTR_DEVICE_ORDINAL, ordinal),
               FIELD(CU_PTR_IS_LEGACY_IPC_CAPABLE, legacy),
               FIELD(CU_PTR_RANGE_START, start),
               FIELD(CU_PTR_RANGE_SIZE, len),
               FIELD(CU_PTR_MAPPED, mapped),
               FIELD(CU_PTR_MEMPOOL_HANDLE, pool), /* CUDA 11.3 */
               FIELD(CU_PTR_MAPPING_SIZE, mapping_len),
               FIELD(CU_PTR_MAPPING_BASE, mapping), /* 12 */
               FIELD(CU_PTR_MEMORY_BLOCK_ID, block_id) };
#define NFIELDS ((int)(sizeof fields / sizeof *fields))
static const int fields_known[] = { NFIELDS, NFIELDS - 3, NFIELDS - 4 };

static cu_result ask_for(int n, cu_ptr p, struct answer *a)
{
    int attributes[sizeof fields / sizeof *fields];
    void *values[sizeof fields / sizeof *fields];
    memset(a, 0, sizeof *a);
    for (int i = 0; i < n; i++) {
        attributes[i] = fields[i].attribute;
        values[i] = (char *)a + fields[i].off;
    }
    return rt_cuda.pointer_get_attributes((unsigned)n, attributes, values, p);
}

/* One unknown attribute fails the whole call, so an old driver is asked for fewer from then on. */
static cu_result ask(cu_ptr p, struct answer *a)
{
    int known = rt_load_relaxed(&look.known);
    cu_result r = ask_for(fields_known[known], p, a);
    for (int k = known + 1; r == CU_ERROR_INVALID_VALUE && k < 3; k++) {
        r = ask_for(fields_known[k], p, a);
        if (r == CU_OK)
            rt_store_relaxed(&look.known, k);
    }
    return r;
}

/* Enough to distinguish allocations, at a lower price: 102 ns instead of 137 (H200, driver 580). */
static cu_result ask_short(cu_ptr p, struct answer *a)
{
    int attributes[] = { CU_PTR_MEMORY_TYPE, CU_PTR_IS_MANAGED, CU_PTR_BUFFER_ID,
                         CU_PTR_RANGE_START, CU_PTR_RANGE_SIZE, CU_PTR_MEMORY_BLOCK_ID };
    void *values[] = { &a->type, &a->managed, &a->id, &a->start, &a->len, &a->block_id };
    memset(a, 0, sizeof *a);
    return rt_cuda.pointer_get_attributes(rt_load_relaxed(&look.known) ? 5 : 6, attributes, values,
                                          p);
}

/* The number alone, which no other memory of cuMemAlloc ever has: 70 ns instead of 90 (H200, driver
 * 580), and what is freed has number 0. */
static cu_result ask_id(cu_ptr p, struct answer *a)
{
    int attribute = CU_PTR_BUFFER_ID;
    void *value = &a->id;
    a->id = 0;
    return rt_cuda.pointer_get_attributes(1, &attribute, &value, p);
}

/* For memory that is likely host memory: 0.15 us instead of 0.24. */
static cu_result ask_type(cu_ptr p, struct answer *a)
{
    int attributes[] = { CU_PTR_MEMORY_TYPE, CU_PTR_IS_MANAGED };
    void *values[] = { &a->type, &a->managed };
    memset(a, 0, sizeof *a);
    return rt_cuda.pointer_get_attributes(2, attributes, values, p);
}

static enum rt_memkind kind_of(const struct answer *a)
{
    if (a->managed)
        return RT_MEM_MANAGED;
    if (a->pool)
        return RT_MEM_CUDA_POOL;
    return a->legacy ? RT_MEM_CUDA : RT_MEM_CUDA_VMM;
}

/* This thread's last allocations.  An entry holds what has been found out, and is valid only while
 * the driver's short answer is unchanged. */
#define RECENT 4
static __thread struct {
    struct recent {
        cu_ptr p; /* 0: none */
        struct answer a;
        struct rt_gpu_ptr all; /* what rt_gpu_query() has found; `g` NULL: not yet */
        uint32_t era;          /* rt_gpu_era then */
    } of[RECENT];
    unsigned next;
} recent;

/* For VMM memory, which may consist of several mappings, an entry is about one address. */
static bool covers(const struct recent *r, cu_ptr p)
{
    if (r->p == p)
        return true;
    return r->p && kind_of(&r->a) != RT_MEM_CUDA_VMM && p - r->a.start < r->a.len;
}

static bool same(const struct answer *a, const struct answer *b)
{
    return a->id == b->id && a->block_id == b->block_id && a->start == b->start &&
           a->len == b->len && a->type == b->type && a->managed == b->managed;
}

/* Whether the driver still reports what r holds.  A pool gives out freed memory again, and what is
 * mapped at an address may change, so there the number alone is not enough. */
static bool is_valid(const struct recent *r, cu_ptr p)
{
    enum rt_memkind kind = kind_of(&r->a);
    struct answer a;
    if (kind == RT_MEM_CUDA)
        return ask_id(p, &a) == CU_OK && a.id == r->a.id;
    if (kind == RT_MEM_CUDA_VMM)
        return ask(p, &a) == CU_OK && !memcmp(&a, &r->a, sizeof a);
    return ask_short(p, &a) == CU_OK && same(&a, &r->a);
}

/* The entry, if it is still valid: one call of the driver. */
static struct recent *find_recent(cu_ptr p)
{
    for (int i = 0; i < RECENT; i++) {
        struct recent *r = &recent.of[i];
        if (!covers(r, p))
            continue;
        if (is_valid(r, p))
            return r;
        r->p = 0;
        return NULL;
    }
    return NULL;
}

/* Numbers of granules of 2 MiB that the processor was able to read; 0: empty.  Any thread. */
static uint64_t readable[256];

static uint64_t granule_of(const void *p) { return (uintptr_t)p >> 21 | 1ull << 63; }

static uint64_t *readable_word(const void *p)
{
    uint64_t granule = granule_of(p);
    return &readable[(granule ^ granule >> 8) % 256];
}

void rt_gpu_classify_init(void)
{
    rt_gpu_own.stack_end = getauxval(AT_EXECFN); /* a string above all frames */
    dl_iterate_phdr(note_data, NULL);
    memset(readable, 0, sizeof readable);
    /* Of this thread; entries of other threads are outdated by the era. */
    memset(&recent, 0, sizeof recent);
    look.none = 0;
    look.known = 0;
}

/* For addresses that the driver does not know, or cannot report on because a kernel of the
 * application has failed.  Memory that the processor cannot read is device memory, freed or not, or
 * an error of the user: rt_gpu_query() finds that, where touching the memory would end the
 * process. */
static bool cpu_can_read(const void *p)
{
    char byte;
    struct iovec here = { &byte, 1 }, there = { (void *)(uintptr_t)p, 1 };
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1 || errno != EFAULT;
}

/* The entry of an outdated answer about p, else the oldest entry. */
static struct recent *take_place(cu_ptr p)
{
    for (int i = 0; i < RECENT; i++)
        if (covers(&recent.of[i], p))
            return &recent.of[i];
    return &recent.of[recent.next++ % RECENT];
}

static struct recent *note_device(cu_ptr p, const struct answer *a)
{
    struct recent *r = take_place(p);
    r->p = p;
    r->a = *a;
    r->all.g = NULL;
    return r;
}

/* The program has used the memory at p before: the processor may touch it.  A granule of 2 MiB in
 * which device memory is seen is forgotten.  The answer is wrong only for an erroneous program: one
 * that passes a device address which it has freed, never seen until then, where host memory was
 * before. */
static bool is_readable(const void *p)
{
    uint64_t *word = readable_word(p), granule = granule_of(p);
    if (rt_load_relaxed(word) == granule)
        return true;
    if (!cpu_can_read(p))
        return false;
    rt_store_relaxed(word, granule);
    return true;
}

/* How many libraries have been loaded in the life of the process: if the number is the same, no
 * library and so no driver has been loaded. 35 ns. */
static int count_loaded(struct dl_phdr_info *info, size_t len, void *arg)
{
    (void)len;
    *(uint64_t *)arg = info->dlpi_adds;
    return 1;
}

static bool no_driver(void)
{
    uint64_t none = rt_load_relaxed(&look.none), n = 0;
    if (rt_likely(!none) && rt_gpu_driver(false) != RT_GPU_DRIVER_NONE)
        return false;
    dl_iterate_phdr(count_loaded, &n);
    if (n == none)
        return true;
    bool absent = rt_gpu_driver(false) == RT_GPU_DRIVER_NONE; /* after they have been counted */
    rt_store_relaxed(&look.none, absent ? n : 0);
    return absent;
}

static bool look_at(const void *buf, struct recent **entry)
{
    cu_ptr p = (cu_ptr)(uintptr_t)buf;
    struct answer a;
    cu_result got = ask_type(p, &a);
    if (got == CU_OK && (a.type == CU_MEMORY_DEVICE || a.managed))
        got = ask(p, &a);
    if (got == CU_OK && (a.type == CU_MEMORY_DEVICE || a.managed)) {
        uint64_t *word = readable_word(buf);
        if (rt_load_relaxed(word) == granule_of(buf))
            rt_store_relaxed(word, 0);
        *entry = note_device(p, &a);
        return true;
    }
    if (got == CU_ERROR_NOT_INITIALIZED || got == CU_ERROR_DEINITIALIZED)
        return false;
    if (got == CU_OK && a.type != 0)
        return false;
    return got == CU_OK ? !is_readable(buf) : !cpu_can_read(buf);
}

/* True: device memory.  *entry: the entry of its allocation, or NULL if the driver does not know
 * it. */
static bool look_up(const void *p, struct recent **entry)
{
    if ((uintptr_t)p < 4096)
        return false; /* NULL, MPI_BOTTOM, MPI_IN_PLACE */
    *entry = rt_cuda.pointer_get_attributes ? find_recent((cu_ptr)(uintptr_t)p) : NULL;
    if (*entry)
        return true;
    note_own(p);
    if (rt_gpu_is_own(p))
        return false;
    return !no_driver() && look_at(p, entry);
}

bool rt_gpu_look(const void *p)
{
    struct recent *entry;
    return look_up(p, &entry);
}

/* ---- all about a device address ---- */

/* Where memory of the driver's virtual memory calls is mapped: `start` and `len` are those of the
 * reserved addresses.  False: nothing is mapped here. */
static bool vmm_mapping(cu_ptr p, struct answer *a)
{
    /* Memory with a context is not VMM memory, but may be impossible to export: another
     * process's. */
    if (!a->mapped && !a->ctx)
        return false;
    if (a->mapping_len != 0) {
        a->start = a->mapping;
        a->len = a->mapping_len;
    } else if (!a->ctx) {
        cu_ptr start;
        size_t len;
        if (rt_cuda.mem_get_address_range(&start, &len, p) == CU_OK) {
            a->start = start;
            a->len = len;
        }
    }
    return true;
}

/* A pool gives out freed memory again, so neither id alone distinguishes allocations. */
static uint64_t id_of(const struct answer *a, enum rt_memkind kind)
{
    if (a->block_id == 0 || kind == RT_MEM_CUDA || kind == RT_MEM_MANAGED)
        return a->id;
    return kind == RT_MEM_CUDA_VMM ? a->block_id : a->block_id * 0x9e3779b97f4a7c15u ^ a->id;
}

/* A VMM buffer may consist of several mappings, if they are adjacent; out: single, part, id. */
static void vmm_extend(cu_ptr p, size_t len, struct answer *a, struct rt_gpu_ptr *out)
{
    size_t last = a->len;
    out->part = a->len;
    while (p + len > a->start + a->len && p + len > p) {
        struct answer next;
        cu_ptr at = a->start + a->len;
        if (ask(at, &next) != CU_OK || next.type != CU_MEMORY_DEVICE ||
            kind_of(&next) != RT_MEM_CUDA_VMM || !vmm_mapping(at, &next) || next.start != at ||
            next.len == 0)
            return;
        a->len += next.len;
        out->single = false;
        out->part = last == out->part ? out->part : 0;
        last = next.len;
        out->id = out->id * 0x9e3779b97f4a7c15u ^ id_of(&next, RT_MEM_CUDA_VMM);
    }
}

/* The context if the library uses it. */
static struct rt_gpu *used(cu_ctx ctx)
{
    struct rt_gpu *g = rt_gpu_next(NULL);
    while (g && (g->ctx != ctx || g->lost))
        g = rt_gpu_next(g);
    return g;
}

/* Asked for attributes of memory that another thread frees at that moment, the driver dies (H200,
 * driver 580: memory of cuMemAlloc, within some thousand queries; not memory of VMM in millions).
 * Asked for the range of an address, it does not. */
static bool range_is_still(struct rt_gpu *g, const struct rt_gpu_ptr *p)
{
    cu_ptr start = 0;
    size_t len = 0;
    int in = rt_gpu_enter(g);
    if (in < 0)
        return false;
    cu_result r = rt_cuda.mem_get_address_range(&start, &len, p->base);
    rt_gpu_leave(in);
    return r == CU_OK && start == p->base && len == p->len;
}

/* Several mappings: whether all are what they were. */
static bool are_still(const struct rt_gpu_ptr *p)
{
    struct answer a;
    struct rt_gpu_ptr now = { .single = true };
    if (ask(p->base, &a) != CU_OK || a.type != CU_MEMORY_DEVICE || kind_of(&a) != RT_MEM_CUDA_VMM ||
        !vmm_mapping(p->base, &a))
        return false;
    now.id = id_of(&a, RT_MEM_CUDA_VMM);
    vmm_extend(p->base, p->len, &a, &now);
    return a.start == p->base && a.len == p->len && now.id == p->id;
}

bool rt_gpu_is_still(const struct rt_gpu_ptr *p)
{
    struct answer a;
    if (rt_cuda_open(false))
        return false;
    if (!p->single)
        return are_still(p);
    struct rt_gpu *g = p->kind == RT_MEM_CUDA ? used(p->ctx) : NULL;
    if (g)
        return range_is_still(g, p);
    if (ask_short(p->base, &a) != CU_OK)
        return false;
    /* The start of VMM memory is that of the block, which need not be that of the mapping. */
    return id_of(&a, p->kind) == p->id &&
           (p->kind == RT_MEM_CUDA_VMM || (a.start == p->base && a.len == p->len));
}

static int check_range(cu_ptr p, size_t len, const struct answer *a)
{
    size_t room = (size_t)(a->start + a->len - p);
    if (len <= room)
        return 0;
    log_info(GPU,
             "buffer 0x%llx of %zu bytes ends %zu bytes behind its allocation 0x%llx+%zu "
             "on GPU %d",
             (unsigned long long)p, len, len - room, (unsigned long long)a->start, a->len,
             a->ordinal);
    return -RT_EINVAL;
}

/* What an earlier query has found out about the same allocation. */
static bool known_all(const struct recent *r)
{
    return r && r->all.g && r->era == rt_gpu_era && !r->all.g->lost;
}

/* What the driver reports about p, for VMM memory up to p + len. */
static int find_out(cu_ptr p, size_t len, struct answer *a, struct rt_gpu_ptr *out)
{
    if (a->type != CU_MEMORY_DEVICE && !a->managed)
        return -RT_ENOENT;
    *out = (struct rt_gpu_ptr){ .id = id_of(a, kind_of(a)), .single = true };
    if (kind_of(a) == RT_MEM_CUDA_VMM) {
        if (!vmm_mapping(p, a)) {
            log_info(GPU,
                     "buffer 0x%llx of %zu bytes lies in addresses that are reserved but not "
                     "mapped",
                     (unsigned long long)p, len);
            return -RT_EINVAL;
        }
        vmm_extend(p, len, a, out);
    }
    int err = check_range(p, len, a);
    /* btl/cuda may map memory of a device that this process cannot see where memory of the program
     * was. */
    return err == 0 && !a->ctx && a->ordinal < 0 ? -RT_ENOENT : err;
}

static int query(cu_ptr p, size_t len, struct recent *r, struct rt_gpu_ptr *out)
{
    struct answer a;
    struct rt_gpu_ptr parts;
    if (rt_likely(known_all(r)) && len <= r->all.base + r->all.len - p) {
        *out = r->all;
        return 0;
    }
    cu_result got = r ? CU_OK : ask(p, &a);
    if (got != CU_OK)
        return rt_cuda_error(got, "cuPointerGetAttributes");
    if (r)
        a = r->a;
    enum rt_memkind kind = kind_of(&a);
    struct rt_gpu *g;
    int err = find_out(p, len, &a, &parts);
    if (err || (err = rt_gpu_of(a.ctx, a.ordinal, &g)))
        return err;
    *out = (struct rt_gpu_ptr){ .kind = kind,
                                .ordinal = a.ordinal,
                                .ctx = a.ctx,
                                .base = (uintptr_t)a.start,
                                .len = a.len,
                                .id = parts.id,
                                .single = parts.single,
                                .part = parts.part,
                                .g = g };
    if (kind == RT_MEM_CUDA_VMM)
        return 0;
    r = r ? r : note_device(p, &a);
    r->all = *out;
    r->era = rt_gpu_era;
    return 0;
}

int rt_gpu_query(const void *buf, size_t len, struct rt_gpu_ptr *out)
{
    cu_ptr p = (cu_ptr)(uintptr_t)buf;
    if (rt_cuda_open(false))
        return rt_gpu_driver(false) == RT_GPU_DRIVER_OLD ? -RT_ENOTSUP : -RT_ENOENT;
    return query(p, len, find_recent(p), out);
}

int rt_gpu_find_watched(const void *buf, size_t len, struct rt_gpu_ptr *out)
{
    struct recent *r;
    if (!look_up(buf, &r))
        return 0;
    if (rt_cuda_open(false))
        return rt_gpu_driver(false) == RT_GPU_DRIVER_OLD ? -RT_ENOTSUP : -RT_ENOENT;
    int err = query((cu_ptr)(uintptr_t)buf, len, r, out);
    return err < 0 ? err : 1;
}

bool rt_gpu_lies_on(const struct rt_gpu *g, const struct rt_gpu_ptr *p)
{
    return p->kind != RT_MEM_MANAGED && p->ordinal == rt_gpu_info(g)->ordinal;
}
