/* SPDX-License-Identifier: BSD-3-Clause */
/* GPU memory for test programs: gputest.h. */
#include "test/gpu/gputest.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD 512u   /* bytes before and after; alignment that `odd` is added to */
#define CHUNK 65536u /* contents are created and compared in pieces of this length */
#define GUARD_BYTE 0xa7
#define PART (2u << 20)

struct gt_cuda cu;
const char *const gt_kind_names[GT_ALL_KINDS] = { "host",     "pinned",    "managed", "cuda",
                                                  "vmm",      "pool",      "vmm_own", "vmm_parts",
                                                  "pool_own", "registered" };

#define MAX_DEVICES 16
static struct {
    cu_ctx ctx;
    cu_stream stream; /* non-blocking: does not wait for the library's kernels */
    cu_pool pool;
} devices[MAX_DEVICES];
static int ndevices;
static char why[256];

static struct block {
    unsigned char *p, *base; /* the user's, the allocation's */
    size_t n, room;
    enum gt_kind kind;
    int dev;
    struct block *next;
} * blocks;

#define GOOD(call) good((call), #call, __LINE__)
static void good(int err, const char *call, int line)
{
    const char *name = NULL;

    if (!err)
        return;
    if (cu.get_error_name)
        cu.get_error_name(err, &name);
    printf("# gputest.c:%d: %s gave %d, %s\n", line, call, err, name ? name : "?");
    fflush(stdout);
    abort();
}

/* ---- the driver ---- */

static bool load(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);

    if (!lib) {
        snprintf(why, sizeof(why), "no CUDA driver: %s", dlerror());
        return false;
    }
#define FIND(field, symbol, params) *(void **)&cu.field = dlsym(lib, #symbol);
    CU_FUNCTIONS(FIND, FIND)
    CU_MORE_FUNCTIONS(FIND)
#undef FIND
    if (cu.init && cu.device_get_count)
        return true;
    snprintf(why, sizeof(why), "libcuda.so.1 has no cuInit");
    return false;
}

const char *gt_open(void)
{
    const char *text = NULL;
    int err;

    if (ndevices)
        return NULL;
    if (!cu.init && !load())
        return why;
    err = cu.init(0);
    if (err) {
        if (cu.get_error_string)
            cu.get_error_string(err, &text);
        snprintf(why, sizeof(why), "cuInit gives %d, %s", err, text ? text : "unknown");
        return why;
    }
    GOOD(cu.device_get_count(&ndevices));
    if (ndevices > MAX_DEVICES)
        ndevices = MAX_DEVICES;
    return ndevices ? NULL : "no CUDA device";
}

/* WEFT_GPU_KERNELS is a text for people; a fake driver may refuse the existing kernels. */
bool gt_kernels(void)
{
    const char *fails = getenv("FAKE_CUDA_FAIL");

    return !strncmp(WEFT_GPU_KERNELS, "built", 5) &&
           !(fails && strstr(fails, "cuModuleLoadData:1+"));
}

void gt_need(int wanted)
{
    const char *reason = gt_open(), *more = getenv("GT_DEVICES"), *fails = getenv("FAKE_CUDA_FAIL");
    char text[64];

    if (more && atoi(more) > wanted)
        wanted = atoi(more);
    if (!reason && ndevices < wanted) {
        snprintf(text, sizeof(text), "%d CUDA devices here, %d wanted", ndevices, wanted);
        reason = text;
    }
    if (!reason && fails && !strncmp(fails, "kernel:", 7) && !strchr(fails, ',') && !gt_kernels())
        reason = "a kernel is to fail, and this library has none: built without nvcc";
    if (!reason)
        return;
    printf("1..0 # SKIP %s\n", reason);
    fflush(stdout);
    exit(77);
}

int gt_ndevices(void) { return ndevices; }

bool gt_is_fake(void)
{
    char name[64] = "";

    GOOD(cu.device_get_name(name, sizeof(name), 0));
    return !strncmp(name, "Fake", 4);
}

cu_ctx gt_ctx(int dev)
{
    cu_ctx before;

    if (devices[dev].ctx)
        return devices[dev].ctx;
    GOOD(cu.primary_ctx_retain(&devices[dev].ctx, dev));
    GOOD(cu.ctx_get_current(&before));
    GOOD(cu.ctx_set_current(devices[dev].ctx));
    GOOD(cu.stream_create(&devices[dev].stream, CU_STREAM_NON_BLOCKING));
    GOOD(cu.ctx_set_current(before));
    return devices[dev].ctx;
}

void gt_use(int dev) { GOOD(cu.ctx_set_current(gt_ctx(dev))); }

/* ---- allocating ---- */

bool gt_is_device_kind(enum gt_kind kind)
{
    return kind != GT_HOST && kind != GT_PINNED && kind != GT_MANAGED && kind != GT_REGISTERED;
}

static size_t parts(size_t n) { return (n + PART - 1) / PART * PART; }

/* Addresses behind a mapping that stay empty, so that no other allocation follows directly. */
#define VMM_GAP (64u << 20)

/* Mappings of `step` bytes each. */
static int vmm_alloc(cu_ptr *p, int dev, size_t room, size_t step, bool exported)
{
    struct cu_alloc_prop prop = { .type = CU_ALLOCATION_PINNED,
                                  .handle_types = exported ? CU_HANDLE_POSIX_FD : 0,
                                  .location = { CU_LOCATION_DEVICE, dev } };
    struct cu_access access = { { CU_LOCATION_DEVICE, dev }, CU_ACCESS_READWRITE };
    cu_handle h;
    size_t at;
    int err = 0;

    GOOD(cu.mem_address_reserve(p, room + VMM_GAP, 0, 0, 0));
    for (at = 0; at < room && !err; at += step) {
        err = cu.mem_create(&h, step, &prop, 0);
        if (err)
            break;
        GOOD(cu.mem_map(*p + at, step, 0, h, 0));
        GOOD(cu.mem_release(h));
    }
    if (!err)
        GOOD(cu.mem_set_access(*p, room, &access, 1));
    else
        GOOD(cu.mem_address_free(*p, room + VMM_GAP)); /* only step == room can fail here */
    return err;
}

static int pool_alloc(cu_ptr *p, int dev, size_t room)
{
    struct cu_pool_props props = { .type = CU_ALLOCATION_PINNED,
                                   .handle_types = CU_HANDLE_POSIX_FD,
                                   .location = { CU_LOCATION_DEVICE, dev } };
    int err;

    if (!devices[dev].pool)
        GOOD(cu.pool_create(&devices[dev].pool, &props));
    err = cu.mem_alloc_from_pool_async(p, room, devices[dev].pool, devices[dev].stream);
    if (!err)
        GOOD(cu.stream_synchronize(devices[dev].stream));
    return err;
}

static int raw_alloc(enum gt_kind kind, int dev, size_t *room, void **out)
{
    cu_ptr p = 0;
    int err = 0;

    switch (kind) {
    case GT_HOST:
        *out = malloc(*room);
        return *out ? 0 : CU_ERROR_OUT_OF_MEMORY;
    case GT_REGISTERED:
        *out = malloc(*room);
        return *out ? cu.mem_host_register(*out, *room, CU_HOST_PORTABLE) : CU_ERROR_OUT_OF_MEMORY;
    case GT_PINNED:
        return cu.mem_host_alloc(out, *room, CU_HOST_PORTABLE);
    case GT_MANAGED:
        err = cu.mem_alloc_managed(&p, *room, CU_MEM_ATTACH_GLOBAL);
        break;
    case GT_CUDA:
        err = cu.mem_alloc(&p, *room);
        break;
    case GT_POOL:
        err = pool_alloc(&p, dev, *room);
        break;
    case GT_POOL_OWN:
        err = cu.mem_alloc_async(&p, *room, devices[dev].stream);
        if (!err)
            GOOD(cu.stream_synchronize(devices[dev].stream));
        break;
    default:
        *room = parts(*room);
        err = vmm_alloc(&p, dev, *room, kind == GT_VMM_PARTS ? PART : *room, kind != GT_VMM_OWN);
    }
    *out = (void *)(uintptr_t)p;
    return err;
}

unsigned char *gt_try_alloc(enum gt_kind kind, int dev, size_t n, unsigned odd)
{
    size_t room = n + odd + 3 * GUARD;
    struct block *b = malloc(sizeof(*b));
    void *base = NULL;
    cu_ctx before;
    int err;

    if (!b)
        return NULL;
    GOOD(cu.ctx_get_current(&before));
    gt_use(dev);
    err = raw_alloc(kind, dev, &room, &base);
    if (err) {
        GOOD(cu.ctx_set_current(before));
        free(b);
        return NULL;
    }
    *b = (struct block){ .base = base, .n = n, .room = room, .kind = kind, .dev = dev };
    b->p = (unsigned char *)(((uintptr_t)base + 2 * GUARD - 1) / GUARD * GUARD) + odd;
    b->next = blocks;
    blocks = b;
    gt_set(base, GUARD_BYTE, room);
    gt_set(b->p, GT_POISON, n);
    GOOD(cu.ctx_set_current(before));
    return b->p;
}

unsigned char *gt_alloc(enum gt_kind kind, int dev, size_t n, unsigned odd)
{
    unsigned char *p = gt_try_alloc(kind, dev, n, odd);

    if (p)
        return p;
    printf("# no %s memory of %zu bytes on device %d\n", gt_kind_names[kind], n, dev);
    fflush(stdout);
    abort();
}

static struct block **find(const unsigned char *p)
{
    struct block **at;

    for (at = &blocks; *at && (*at)->p != p; at = &(*at)->next)
        ;
    if (*at)
        return at;
    printf("# %p was not allocated by gt_alloc\n", (const void *)p);
    fflush(stdout);
    abort();
}

static void vmm_free(const struct block *b)
{
    cu_ptr p = (cu_ptr)(uintptr_t)b->base;

    GOOD(cu.mem_unmap(p, b->room));
    GOOD(cu.mem_address_free(p, b->room + VMM_GAP));
}

void gt_free(unsigned char *p)
{
    struct block **at = find(p), *b = *at;
    cu_ptr base = (cu_ptr)(uintptr_t)b->base;
    cu_ctx before;

    *at = b->next;
    GOOD(cu.ctx_get_current(&before));
    gt_use(b->dev);
    switch (b->kind) {
    case GT_REGISTERED:
        GOOD(cu.mem_host_unregister(b->base)); /* fall through */
    case GT_HOST:
        free(b->base);
        break;
    case GT_PINNED:
        GOOD(cu.mem_free_host(b->base));
        break;
    case GT_MANAGED:
    case GT_CUDA:
        GOOD(cu.mem_free(base));
        break;
    case GT_POOL:
    case GT_POOL_OWN:
        GOOD(cu.mem_free_async(base, devices[b->dev].stream));
        GOOD(cu.stream_synchronize(devices[b->dev].stream));
        break;
    default:
        vmm_free(b);
    }
    GOOD(cu.ctx_set_current(before));
    free(b);
}

bool gt_guards_intact(const unsigned char *p)
{
    const struct block *b = *find(p);
    size_t before = (size_t)(b->p - b->base), behind = b->room - before - b->n;

    if (before > 2 * GUARD)
        before = 2 * GUARD;
    if (behind > GUARD)
        behind = GUARD;
    return gt_unlike(b->p - before, before, GUARD_BYTE) == before &&
           gt_unlike(b->p + b->n, behind, GUARD_BYTE) == behind;
}

/* ---- contents ---- */

/* The device whose stream copies it; -1 for memory that the CPU may access. */
static int device_of(const void *p)
{
    int what[] = { CU_PTR_MEMORY_TYPE, CU_PTR_IS_MANAGED, CU_PTR_DEVICE_ORDINAL };
    uint32_t type = 0;
    uint64_t managed = 0;
    int dev = -1;
    void *to[] = { &type, &managed, &dev };

    if (!ndevices)
        return -1;
    GOOD(cu.pointer_get_attributes(3, what, to, (cu_ptr)(uintptr_t)p));
    return type == CU_MEMORY_DEVICE && !managed ? dev : -1;
}

/* One copy per mapping: not every driver copies across mappings. */
static void copy(int dev, cu_ptr dst, cu_ptr src, size_t n)
{
    cu_ctx before;

    GOOD(cu.ctx_get_current(&before));
    gt_use(dev);
    GOOD(cu.memcpy_async(dst, src, n, devices[dev].stream));
    GOOD(cu.stream_synchronize(devices[dev].stream));
    GOOD(cu.ctx_set_current(before));
}

/* Bytes from p on that one copy may cover. */
static size_t run(const void *p, size_t n)
{
    size_t to_end = PART - (uintptr_t)p % PART;

    return n < to_end ? n : to_end;
}

void gt_write(void *p, const void *host, size_t n)
{
    int dev = n ? device_of(p) : -1;
    size_t at, len;

    if (dev < 0) {
        memcpy(p, host, n);
        return;
    }
    for (at = 0; at < n; at += len) {
        len = run((char *)p + at, n - at);
        copy(dev, (cu_ptr)(uintptr_t)p + at, (cu_ptr)(uintptr_t)host + at, len);
    }
}

void gt_read(void *host, const void *p, size_t n)
{
    int dev = n ? device_of(p) : -1;
    size_t at, len;

    if (dev < 0) {
        memcpy(host, p, n);
        return;
    }
    for (at = 0; at < n; at += len) {
        len = run((const char *)p + at, n - at);
        copy(dev, (cu_ptr)(uintptr_t)host + at, (cu_ptr)(uintptr_t)p + at, len);
    }
}

static unsigned char chunk[CHUNK * 16];

void gt_set(void *p, int byte, size_t n)
{
    int dev = n ? device_of(p) : -1;
    size_t at, len;

    if (dev < 0) {
        memset(p, byte, n);
        return;
    }
    memset(chunk, byte, n < sizeof(chunk) ? n : sizeof(chunk));
    for (at = 0; at < n; at += len) {
        len = n - at < sizeof(chunk) ? n - at : sizeof(chunk);
        gt_write((char *)p + at, chunk, len);
    }
}

/* Eight bytes of the contents of a key. */
static uint64_t word(size_t i, uint64_t key)
{
    uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u ^ key * 0xd1342543de82ef95u;

    x = (x ^ x >> 32) * 0xda942042e4dd58b5u;
    return x ^ x >> 29;
}

unsigned char gt_byte(size_t i, uint64_t key)
{
    return (unsigned char)(word(i / 8, key) >> 8 * (i % 8));
}

static void make(unsigned char *out, size_t n, uint64_t key, size_t from)
{
    size_t i = 0;
    uint64_t w;

    while (i < n && (from + i) % 8)
        out[i] = gt_byte(from + i, key), i++;
    for (; i + 8 <= n; i += 8) {
        w = word((from + i) / 8, key);
        memcpy(out + i, &w, 8);
    }
    for (; i < n; i++)
        out[i] = gt_byte(from + i, key);
}

void gt_fill_from(void *p, size_t n, uint64_t key, size_t from)
{
    size_t at, len;

    for (at = 0; at < n; at += len) {
        len = n - at < sizeof(chunk) ? n - at : sizeof(chunk);
        make(chunk, len, key, from + at);
        gt_write((char *)p + at, chunk, len);
    }
}

void gt_fill(void *p, size_t n, uint64_t key) { gt_fill_from(p, n, key, 0); }

size_t gt_differs_from(const void *p, size_t n, uint64_t key, size_t from)
{
    static unsigned char got[sizeof(chunk)];
    size_t at, len, i;

    for (at = 0; at < n; at += len) {
        len = n - at < sizeof(chunk) ? n - at : sizeof(chunk);
        make(chunk, len, key, from + at);
        gt_read(got, (const char *)p + at, len);
        if (!memcmp(chunk, got, len))
            continue;
        for (i = 0; chunk[i] == got[i]; i++)
            ;
        return at + i;
    }
    return n;
}

size_t gt_differs(const void *p, size_t n, uint64_t key) { return gt_differs_from(p, n, key, 0); }

size_t gt_unlike(const void *p, size_t n, int byte)
{
    size_t at, len, i;

    for (at = 0; at < n; at += len) {
        len = n - at < sizeof(chunk) ? n - at : sizeof(chunk);
        gt_read(chunk, (const char *)p + at, len);
        for (i = 0; i < len; i++)
            if (chunk[i] != (unsigned char)byte)
                return at + i;
    }
    return n;
}
