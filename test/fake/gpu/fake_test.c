/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of the fake CUDA driver: the properties that the tests of the device path rely on.
 * Runs itself again as the other process of a case: "fake_test import PIPE...". */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "runtime/gpu/move_kernels.h"
#include "test/check.h"
#include "test/gpu/cuda_more.h"

#define FIELD(field, symbol, params) cu_result(*field) params;
static struct {
    CU_FUNCTIONS(FIELD, FIELD) CU_MORE_FUNCTIONS(FIELD)
} cu;
static cu_ctx ctx[2];
static const char ptx[16] = "//"; /* as long as the part of an image that is inspected */

/* Every function of driver.h must exist. */
static int load(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW);
    int missing = 0;

    if (!lib)
        printf("# %s\n", dlerror());
    if (!lib)
        return -1;
#define FIND(field, symbol, params) \
    *(void **)&cu.field = dlsym(lib, #symbol); \
    if (!cu.field) { \
        printf("# no %s\n", #symbol); \
        missing++; \
    }
    CU_FUNCTIONS(FIND, FIND)
    CU_MORE_FUNCTIONS(FIND)
    return missing;
}

#define GOOD(call) CHECK_EQ((call), CU_OK)

static void use(int dev) { GOOD(cu.ctx_set_current(ctx[dev])); }

/* The primary context is reset and used again. */
static void begin_anew(int dev)
{
    cu_ptr p;

    GOOD(cu.primary_ctx_reset(dev));
    CHECK_EQ(cu.ctx_set_current(ctx[dev]), CU_ERROR_CONTEXT_IS_DESTROYED);
    CHECK_EQ(cu.mem_alloc(&p, 8), CU_ERROR_CONTEXT_IS_DESTROYED);
    GOOD(cu.primary_ctx_retain(&ctx[dev], dev));
    use(dev);
}

static void fill(unsigned char *p, size_t n, unsigned seed)
{
    size_t i;

    for (i = 0; i < n; i++)
        p[i] = (unsigned char)((i * 2654435761u >> 7) + seed);
}

static bool same(const unsigned char *p, size_t n, unsigned seed)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (p[i] != (unsigned char)((i * 2654435761u >> 7) + seed))
            return false;
    return true;
}

static cu_ptr host(const void *p) { return (cu_ptr)(uintptr_t)p; }

#define N 100003
static unsigned char in[N], out[N];

static void put(cu_ptr p, size_t n, unsigned seed)
{
    fill(in, n, seed);
    GOOD(cu.memcpy_now(p, host(in), n));
}

static bool holds(cu_ptr p, size_t n, unsigned seed)
{
    memset(out, 0xee, n);
    GOOD(cu.memcpy_now(host(out), p, n));
    return same(out, n, seed);
}

static void before_init(void)
{
    int n;

    CHECK_EQ(cu.device_get_count(&n), CU_ERROR_NOT_INITIALIZED);
    GOOD(cu.driver_get_version(&n));
    CHECK_EQ(n, 13000);
    CHECK_EQ(cu.init(1), CU_ERROR_INVALID_VALUE);
    GOOD(cu.init(0));
    GOOD(cu.device_get_count(&n));
    CHECK_EQ(n, 2);
}

static void contexts(void)
{
    cu_ctx c;
    cu_ptr p;
    cu_device d;
    int i;

    CHECK_EQ(cu.mem_alloc(&p, 8), CU_ERROR_INVALID_CONTEXT);
    for (i = 0; i < 2; i++)
        GOOD(cu.primary_ctx_retain(&ctx[i], i));
    GOOD(cu.ctx_push_current(ctx[1]));
    GOOD(cu.ctx_get_device(&d));
    CHECK_EQ(d, 1);
    GOOD(cu.ctx_pop_current(&c));
    CHECK(c == ctx[1]);
    GOOD(cu.ctx_get_current(&c));
    CHECK(c == NULL);
    GOOD(cu.ctx_create(&c, 0, 0));
    GOOD(cu.mem_alloc(&p, 8));
    GOOD(cu.ctx_destroy(c));
    CHECK_EQ(cu.ctx_push_current(c), CU_ERROR_CONTEXT_IS_DESTROYED);
    use(0);
    CHECK_EQ(cu.memset_d8(p, 0, 8), CU_ERROR_INVALID_VALUE); /* freed with its context */
}

struct look {
    cu_ctx c;
    uint32_t type, managed, legacy;
    int ordinal;
    uint64_t id, start, types;
    size_t len;
};
static struct look look(cu_ptr p)
{
    struct look l = { 0 };
    int what[] = { CU_PTR_CONTEXT,
                   CU_PTR_MEMORY_TYPE,
                   CU_PTR_IS_MANAGED,
                   CU_PTR_DEVICE_ORDINAL,
                   CU_PTR_BUFFER_ID,
                   CU_PTR_RANGE_START,
                   CU_PTR_RANGE_SIZE,
                   CU_PTR_IS_LEGACY_IPC_CAPABLE,
                   CU_PTR_ALLOWED_HANDLE_TYPES };
    void *to[] = { &l.c,     &l.type, &l.managed, &l.ordinal, &l.id,
                   &l.start, &l.len,  &l.legacy,  &l.types };

    GOOD(cu.pointer_get_attributes(9, what, to, p));
    return l;
}

static void attributes(void)
{
    cu_ptr a, b;
    struct look l;
    void *h;

    use(1);
    GOOD(cu.mem_alloc(&a, 1000));
    GOOD(cu.mem_alloc(&b, 1000));
    l = look(a + 999);
    CHECK(l.c == ctx[1] && l.start == a && l.len == 1000 && l.ordinal == 1 && l.legacy);
    CHECK_EQ(l.type, CU_MEMORY_DEVICE);
    CHECK(l.id != look(b).id);
    CHECK_EQ(look(host(in)).type, 0);
    CHECK_EQ(look(host(in)).id, 0);
    GOOD(cu.mem_host_alloc(&h, 100, CU_HOST_PORTABLE));
    CHECK_EQ(look(host(h)).type, CU_MEMORY_HOST);
    memset(h, 1, 100);
    GOOD(cu.mem_free_host(h));
    GOOD(cu.mem_alloc_managed(&b, 100, CU_MEM_ATTACH_GLOBAL));
    CHECK_EQ(look(b).managed, 1);
    memset((void *)b, 1, 100);
    GOOD(cu.mem_free(b));
    GOOD(cu.mem_host_register(in, sizeof(in), 0));
    CHECK_EQ(cu.mem_host_register(in, 8, 0), CU_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    CHECK_EQ(look(host(in) + 5).type, CU_MEMORY_HOST);
    GOOD(cu.mem_host_unregister(in));
    CHECK_EQ(cu.mem_host_unregister(in), CU_ERROR_HOST_MEMORY_NOT_REGISTERED);
    l = look(a);
    GOOD(cu.mem_free(a));
    CHECK_EQ(look(a).type, 0);
    GOOD(cu.mem_alloc(&b, 1000));
    CHECK_EQ(b, a);            /* the address is reused, */
    CHECK(look(b).id != l.id); /* the identifier is not */
    GOOD(cu.mem_free(b));
}

/* The CPU cannot touch device memory. */
static void untouchable(void)
{
    cu_ptr p;
    int status, fd[2];

    use(0);
    GOOD(cu.mem_alloc(&p, 4096));
    CHECK(pipe(fd) == 0);
    CHECK(write(fd[1], (void *)p, 1) < 0); /* the kernel returns EFAULT */
    status = close(fd[0]) | close(fd[1]);
    CHECK_EQ(status, 0);
    GOOD(cu.mem_free(p));
}

/* Several copies by one call; the call names a wrong copy. */
static void batched(cu_ptr a, cu_ptr b)
{
    struct cu_copy_attr any = { .order = CU_COPY_ORDER_STREAM };
    cu_ptr dst[3] = { b + 5, b + 100, b + 50 }, src[3] = { a, a + 33, a + 8 };
    size_t len[3] = { 5, 40, 1 }, first = 0, bad = 0;
    cu_stream s;

    GOOD(cu.stream_create(&s, CU_STREAM_NON_BLOCKING));
    GOOD(cu.memset_d8(b, 0x5a, 140));
    GOOD(cu.memcpy_batch_async(dst, src, len, 3, &any, &first, 1, &bad, s));
    GOOD(cu.stream_synchronize(s));
    fill(in, 80, 7);
    GOOD(cu.memcpy_now(host(out), b, 140));
    CHECK(!memcmp(out + 5, in, 5) && !memcmp(out + 100, in + 33, 40) && out[50] == in[8]);
    CHECK(out[4] == 0x5a && out[10] == 0x5a && out[49] == 0x5a && out[51] == 0x5a);
    len[1] = 2 * N;
    CHECK_EQ(cu.memcpy_batch_async(dst, src, len, 3, &any, &first, 1, &bad, s),
             CU_ERROR_INVALID_VALUE);
    CHECK_EQ(bad, 1);
    CHECK_EQ(cu.memcpy_batch_async(dst, src, len, 3, &any, &first, 1, &bad, NULL),
             CU_ERROR_INVALID_VALUE);
    GOOD(cu.stream_destroy(s));
}

static void copies(void)
{
    struct cu_copy2d k = { .src_type = CU_MEMORY_UNIFIED, .dst_type = CU_MEMORY_UNIFIED };
    cu_ptr a, b;
    int i;

    use(0);
    GOOD(cu.mem_alloc(&a, N));
    use(1);
    GOOD(cu.mem_alloc(&b, N));
    put(a, N, 7);
    CHECK(holds(a, N, 7));
    GOOD(cu.memcpy_now(b + 1, a, N - 1));
    CHECK(holds(b + 1, N - 1, 7));
    GOOD(cu.memset_d8(b, 0x5a, 10));
    GOOD(cu.memcpy_now(host(out), b, 10));
    for (i = 0; i < 10; i++)
        CHECK_EQ(out[i], 0x5a);
    k.src_device = a;
    k.src_pitch = 10;
    k.dst_device = b;
    k.dst_pitch = 7;
    k.width = 7;
    k.height = 100;
    GOOD(cu.memcpy_2d_async(&k, NULL));
    GOOD(cu.stream_synchronize(NULL));
    fill(in, 1000, 7);
    GOOD(cu.memcpy_now(host(out), b, 700));
    for (i = 0; i < 100; i++)
        CHECK(!memcmp(out + 7 * i, in + 10 * i, 7));
    batched(a, b);
    CHECK_EQ(cu.memcpy_now(a, b, N + 1), CU_ERROR_INVALID_VALUE);
    CHECK_EQ(cu.memcpy_now(a, host((void *)0x10), 8), CU_ERROR_INVALID_VALUE);
    GOOD(cu.mem_free(b));
    CHECK_EQ(cu.memcpy_now(a, b, 1), CU_ERROR_INVALID_VALUE);
    GOOD(cu.mem_free(a));
}

/* With the delay of FAKE_CUDA_DELAY_US an operation takes a while; its flag is stored after its
 * data. */
static void streams(void)
{
    cu_stream s;
    cu_event e;
    cu_ptr a;
    uint32_t *flag;
    void *h;
    int i, late = 0;

    use(0);
    GOOD(cu.mem_alloc(&a, N));
    GOOD(cu.mem_host_alloc(&h, N + 64, CU_HOST_PORTABLE));
    flag = (void *)((char *)h + (N + 63) / 64 * 64);
    GOOD(cu.stream_create_with_priority(&s, CU_STREAM_NON_BLOCKING, -5));
    GOOD(cu.event_create(&e, CU_EVENT_DISABLE_TIMING));
    GOOD(cu.event_query(e));
    for (i = 1; i <= 20; i++) {
        put(a, N, (unsigned)i);
        memset(h, 0, N);
        GOOD(cu.memcpy_async(host(h), a, N, s));
        GOOD(cu.stream_write_value32(s, host(flag), (uint32_t)i, 0));
        GOOD(cu.event_record(e, s));
        late += cu.stream_query(s) == CU_ERROR_NOT_READY;
        while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != (uint32_t)i)
            ;
        CHECK(same(h, N, (unsigned)i));
        GOOD(cu.event_synchronize(e));
        GOOD(cu.event_query(e));
    }
    CHECK_MSG(late > 0, "no operation was found under way");
    GOOD(cu.stream_destroy(s));
    CHECK_EQ(cu.stream_query(s), CU_ERROR_INVALID_HANDLE);
    GOOD(cu.event_destroy(e));
    GOOD(cu.mem_free_host(h));
    GOOD(cu.mem_free(a));
}

/* ---- kernels ---- */

static cu_function kernel(const char *name)
{
    static cu_module m;
    cu_function f = NULL;

    if (!m)
        GOOD(cu.module_load_data(&m, ptx));
    CHECK_EQ(cu.module_get_function(&f, m, "nothing"), CU_ERROR_NOT_FOUND);
    GOOD(cu.module_get_function(&f, m, name));
    return f;
}

static void wait_for(const uint32_t *flag, uint32_t value)
{
    while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != value)
        ;
}

static void batch(void)
{
    struct rt_gpu_batch b = { .value = 9, .n = 3 };
    void *params[] = { &b };
    cu_ptr a, c;
    void *h;

    use(0);
    GOOD(cu.mem_alloc(&a, N));
    GOOD(cu.mem_alloc(&c, N));
    GOOD(cu.mem_host_alloc(&h, 128, 0));
    put(a, N, 3);
    GOOD(cu.memset_d8(c, 0, N));
    b.counter = (b.flag = host(h)) + 64;
    b.move[0] = (struct rt_gpu_move){ c, a, 1000 };
    b.move[1] = (struct rt_gpu_move){ c + 1000, a + 1000, 1 };
    b.move[2] = (struct rt_gpu_move){ c + 1001, a + 1001, N - 1001 };
    GOOD(cu.launch_kernel(kernel("weft_batch"), 3, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    wait_for(h, 9);
    CHECK(holds(c, N, 3));
    GOOD(cu.mem_free_host(h));
    GOOD(cu.mem_free(a));
    GOOD(cu.mem_free(c));
}

/* Work on a stream in a capture is done by each launch of the graph, and not before. */
static void graphs(void)
{
    cu_graph graph;
    cu_graph_exec exec;
    cu_stream s;
    cu_ptr p, q;
    unsigned char byte = 0;
    int status = -1, mode = CU_CAPTURE_RELAXED;

    use(0);
    GOOD(cu.stream_create(&s, CU_STREAM_NON_BLOCKING));
    GOOD(cu.mem_alloc(&p, 8));
    GOOD(cu.memset_d8(p, 1, 8));
    CHECK(cu.stream_begin_capture(NULL, CU_CAPTURE_GLOBAL) != CU_OK);
    GOOD(cu.stream_begin_capture(s, CU_CAPTURE_GLOBAL));
    GOOD(cu.stream_is_capturing(s, &status));
    CHECK_EQ(status, 1);
    GOOD(cu.thread_exchange_capture_mode(&mode));
    CHECK_EQ(mode, CU_CAPTURE_GLOBAL);
    GOOD(cu.mem_alloc(&q, 8));
    GOOD(cu.thread_exchange_capture_mode(&mode));
    GOOD(cu.memset_d8_async(p, 2, 8, s));
    GOOD(cu.memcpy_async(q, p, 8, s));
    GOOD(cu.stream_end_capture(s, &graph));
    GOOD(cu.stream_is_capturing(s, &status));
    CHECK_EQ(status, CU_CAPTURE_NONE);
    GOOD(cu.stream_synchronize(s));
    GOOD(cu.memcpy_now((cu_ptr)(uintptr_t)&byte, p, 1));
    CHECK_EQ(byte, 1);
    GOOD(cu.graph_instantiate(&exec, graph, 0));
    GOOD(cu.graph_destroy(graph));
    for (int i = 0; i < 3; i++) {
        GOOD(cu.memset_d8(q, 7, 8));
        GOOD(cu.graph_launch(exec, s));
        GOOD(cu.stream_synchronize(s));
        GOOD(cu.memcpy_now((cu_ptr)(uintptr_t)&byte, q, 1));
        CHECK_EQ(byte, 2);
    }
    GOOD(cu.graph_exec_destroy(exec));
    GOOD(cu.stream_begin_capture(s, CU_CAPTURE_RELAXED)); /* invalidated by a query */
    CHECK_EQ(cu.stream_query(s), CU_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK_EQ(cu.stream_end_capture(s, &graph), CU_ERROR_STREAM_CAPTURE_INVALIDATED);
    GOOD(cu.mem_free(p));
    GOOD(cu.mem_free(q));
    GOOD(cu.stream_destroy(s));
}

/* The calls that a capture forbids, and to which threads; each such call invalidates the
 * capture. */
static struct asking {
    cu_stream s;
    int mode, answer;
} asking;

static void *ask(void *arg)
{
    struct asking *a = arg;
    int mode = a->mode;

    use(0);
    GOOD(cu.thread_exchange_capture_mode(&mode));
    a->answer = cu.stream_query(a->s);
    GOOD(cu.thread_exchange_capture_mode(&mode));
    return NULL;
}

static bool forbidden(cu_stream s, int capture, bool same, int mode)
{
    cu_stream captured;
    cu_graph graph;
    pthread_t t;

    asking = (struct asking){ s, mode, -1 };
    GOOD(cu.stream_create(&captured, CU_STREAM_NON_BLOCKING));
    GOOD(cu.stream_begin_capture(captured, capture));
    if (same)
        ask(&asking);
    else if (!pthread_create(&t, NULL, ask, &asking))
        pthread_join(t, NULL);
    bool spoilt = cu.stream_end_capture(captured, &graph) == CU_ERROR_STREAM_CAPTURE_INVALIDATED;
    CHECK_EQ(spoilt, asking.answer == CU_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (!spoilt)
        GOOD(cu.graph_destroy(graph));
    GOOD(cu.stream_destroy(captured));
    return spoilt;
}

static void captures(void)
{
    enum { GLOBAL = CU_CAPTURE_GLOBAL, LOCAL = CU_CAPTURE_THREAD_LOCAL, FREE = CU_CAPTURE_RELAXED };
    cu_stream s;

    use(0);
    GOOD(cu.stream_create(&s, CU_STREAM_NON_BLOCKING));
    for (int same = 0; same < 2; same++)
        for (int mode = GLOBAL; mode <= FREE; mode++) {
            CHECK_EQ(forbidden(s, GLOBAL, same, mode), mode != FREE && (same || mode == GLOBAL));
            CHECK_EQ(forbidden(s, LOCAL, same, mode), mode != FREE && same);
            CHECK(!forbidden(s, FREE, same, mode));
        }
    GOOD(cu.stream_query(s));
    GOOD(cu.stream_destroy(s));
}

/* A graph of one kernel, whose instances are updated and launched. */
static void kernel_nodes(void)
{
    struct rt_gpu_batch b = { .value = 1, .n = 1 };
    void *params[] = { &b };
    struct cu_kernel_node k = { kernel("weft_batch"), 1, 1, 1, 32, 1, 1, 0, params, NULL };
    cu_graph graph, empty;
    cu_graph_node node;
    cu_graph_exec exec[2];
    cu_stream s, t;
    cu_ptr a, c;
    void *h;

    use(0);
    GOOD(cu.mem_alloc(&a, N));
    GOOD(cu.mem_alloc(&c, N));
    GOOD(cu.mem_host_alloc(&h, 128, 0));
    memset(h, 0, 128);
    GOOD(cu.stream_create(&s, CU_STREAM_NON_BLOCKING));
    GOOD(cu.stream_create(&t, CU_STREAM_NON_BLOCKING));
    put(a, N, 3);
    b.counter = (b.flag = host(h)) + 64;
    b.move[0] = (struct rt_gpu_move){ c, a, 8 };
    GOOD(cu.graph_create(&graph, 0));
    GOOD(cu.graph_add_kernel(&node, graph, NULL, 0, &k));
    for (int i = 0; i < 2; i++) {
        GOOD(cu.graph_instantiate(&exec[i], graph, 0));
        GOOD(cu.graph_upload(exec[i], s));
    }
    GOOD(cu.stream_begin_capture(s, CU_CAPTURE_GLOBAL));
    CHECK_EQ(cu.graph_launch(exec[0], t), CU_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK_EQ(cu.stream_end_capture(s, &empty), CU_ERROR_STREAM_CAPTURE_INVALIDATED);
    for (uint32_t i = 0; i < 20; i++) { /* one instance in two streams: one after the other */
        GOOD(cu.memset_d8(c, 0, N));
        for (uint32_t j = 1; j <= 4; j++) {
            b.value = 4 * i + j;
            b.move[0] = (struct rt_gpu_move){ c, a, 1000 * j };
            GOOD(cu.graph_set_kernel(exec[i % 2], node, &k));
            GOOD(cu.graph_launch(exec[i % 2], j % 2 ? s : t));
        }
        GOOD(cu.stream_synchronize(t));
        CHECK_EQ(*(uint32_t *)h, 4 * i + 4);
        CHECK(holds(c, 4000, 3));
    }
    k.f = NULL;
    CHECK(cu.graph_set_kernel(exec[0], node, &k) != CU_OK);
    GOOD(cu.graph_exec_destroy(exec[0]));
    GOOD(cu.graph_exec_destroy(exec[1]));
    GOOD(cu.graph_destroy(graph));
    GOOD(cu.stream_destroy(s));
    GOOD(cu.stream_destroy(t));
    GOOD(cu.mem_free_host(h));
    GOOD(cu.mem_free(a));
    GOOD(cu.mem_free(c));
}

/* Two streams that wait for each other, and a stream that is made to leave its wait. */
static void meetings(void)
{
    struct rt_gpu_meet_words *words;
    struct rt_gpu_meet m[2];
    cu_module mod;
    cu_function f;
    cu_stream s[2];
    cu_ptr p;

    use(0);
    GOOD(cu.module_load_data(&mod, ptx));
    GOOD(cu.module_get_function(&f, mod, "weft_meet"));
    GOOD(cu.mem_alloc(&p, 64));
    GOOD(cu.memset_d8(p, 0, 64));
    GOOD(cu.mem_host_alloc((void **)&words, 2 * sizeof(*words), 0));
    memset(words, 0, 2 * sizeof(*words));
    for (int i = 0; i < 2; i++) {
        GOOD(cu.stream_create(&s[i], CU_STREAM_NON_BLOCKING));
        m[i] = (struct rt_gpu_meet){ .count = p + 16 * (cu_ptr)i,
                                     .runs = p + 16 * (cu_ptr)i + 4,
                                     .poison = p + 16 * (cu_ptr)i + 8,
                                     .words = (cu_ptr)(uintptr_t)&words[i],
                                     .step = 1,
                                     .nsignal = 1,
                                     .nwait = 1,
                                     .npoison = 1,
                                     .ticket = 5 };
        m[i].wait[0] = p + 16 * (cu_ptr)i + 12;
        m[i].signal[0] = p + 16 * (cu_ptr)!i + 12;
        m[i].poison_of[0] = p + 16 * (cu_ptr)!i + 8;
    }
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 2; i++)
            GOOD(cu.launch_kernel(f, 1, 1, 1, 32, 1, 1, 0, s[i], (void *[]){ &m[i] }, NULL));
    for (int i = 0; i < 2; i++) {
        GOOD(cu.stream_synchronize(s[i]));
        CHECK_EQ(words[i].ended, 5u);
        CHECK_EQ(words[i].over, 3u);
        CHECK_EQ(words[i].failed, 0u);
    }
    GOOD(cu.launch_kernel(f, 1, 1, 1, 32, 1, 1, 0, s[0], (void *[]){ &m[0] }, NULL));
    wait_for(&words[0].begun, 4);
    CHECK_EQ(cu.stream_query(s[0]), CU_ERROR_NOT_READY);
    __atomic_store_n(&words[0].abort, 1u, __ATOMIC_RELEASE);
    GOOD(cu.stream_synchronize(s[0]));
    CHECK_EQ(words[0].failed, 1u);
    GOOD(cu.launch_kernel(f, 1, 1, 1, 32, 1, 1, 0, s[1], (void *[]){ &m[1] }, NULL));
    GOOD(cu.launch_kernel(f, 1, 1, 1, 32, 1, 1, 0, s[1], (void *[]){ &m[1] }, NULL));
    GOOD(cu.stream_synchronize(s[1])); /* the first continues, the second is poisoned */
    CHECK_EQ(words[1].failed, 1u);
    for (int i = 0; i < 2; i++)
        GOOD(cu.stream_destroy(s[i]));
    GOOD(cu.mem_free_host(words));
    GOOD(cu.mem_free(p));
    GOOD(cu.module_unload(mod));
}

static void post(struct rt_gpu_desc *ring, uint32_t seq, cu_ptr dst, cu_ptr src, size_t len)
{
    struct rt_gpu_desc *d = &ring[seq % RT_GPU_RING_SLOTS];

    d->dst = dst;
    d->src = src;
    d->len = len;
    __atomic_store_n(&d->seq_too, seq, __ATOMIC_RELEASE);
    __atomic_store_n(&d->seq, seq, __ATOMIC_RELEASE);
}

static void lingering(void)
{
    struct rt_gpu_linger k = { .next = 1, .launch = 5, .idle_ns = 20000000, .life_ns = 2000000000 };
    const size_t ring_nbytes = RT_GPU_RING_SLOTS * sizeof(struct rt_gpu_desc);
    void *params[] = { &k };
    struct rt_gpu_words *words;
    cu_stream s;
    cu_ptr a, b;
    uint32_t i;
    void *h;

    use(0);
    GOOD(cu.mem_alloc(&a, 6400));
    GOOD(cu.mem_alloc(&b, 6400));
    GOOD(cu.mem_host_alloc(&h, ring_nbytes + 4096, 0));
    memset(h, 0, ring_nbytes + 4096);
    words = (void *)((char *)h + ring_nbytes);
    k.ring = host(h);
    k.recall = (k.words = host(words)) + sizeof *words;
    put(a, 6400, 4);
    GOOD(cu.stream_create(&s, CU_STREAM_NON_BLOCKING));
    GOOD(cu.launch_kernel(kernel("weft_linger"), 1, 1, 1, 32, 1, 1, 0, s, params, NULL));
    for (i = 1; i <= 64; i++) {
        post(h, i, b + (i - 1) * 100, a + (i - 1) * 100, 100);
        while (__atomic_load_n(&words->done, __ATOMIC_ACQUIRE) != i)
            if (__atomic_load_n(&words->left, __ATOMIC_ACQUIRE) == k.launch) {
                k.launch++; /* the kernel had left before it could see the descriptor */
                k.next = words->done + 1;
                GOOD(
                    cu.launch_kernel(kernel("weft_linger"), 1, 1, 1, 32, 1, 1, 0, s, params, NULL));
            }
    }
    CHECK(holds(b, 6400, 4));
    GOOD(cu.ctx_synchronize()); /* waits until the kernel has left */
    CHECK_EQ(words->left, k.launch);
    GOOD(cu.stream_destroy(s));
    GOOD(cu.mem_free(a));
    GOOD(cu.mem_free(b));
    GOOD(cu.mem_free_host(h));
}

/* 3 elements of {5 blocks of 7 bytes every 20, then 4 bytes at 2}: to a middle part of their packed
 * form, and back. */
static void packing(void)
{
    struct rt_gpu_pack k = {
        .value = 1, .unit = 1, .pos = 3, .len = 110, .size = 39, .ngroups = 2
    };
    void *params[] = { &k };
    unsigned char want[117];
    int e, r, i, at = 0;
    cu_ptr a, b;
    void *h;

    use(0);
    GOOD(cu.mem_alloc(&a, 1000));
    GOOD(cu.mem_alloc(&b, 1000));
    GOOD(cu.mem_host_alloc(&h, 64, 0));
    k.extent = 120;
    k.flag = host(h);
    k.packed = b;
    k.user = a;
    k.inline_groups[0] = (struct rt_gpu_group){ 0, 10, 7, 20, 5 };
    k.inline_groups[1] = (struct rt_gpu_group){ 35, 2, 4, 4, 1 };
    put(a, 1000, 8);
    for (e = 0; e < 3; e++) {
        for (r = 0; r < 5; r++)
            for (i = 0; i < 7; i++)
                want[at++] = in[e * 120 + 10 + r * 20 + i];
        for (i = 0; i < 4; i++)
            want[at++] = in[e * 120 + 2 + i];
    }
    GOOD(cu.launch_kernel(kernel("weft_pack"), 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    GOOD(cu.ctx_synchronize());
    wait_for(h, 1);
    GOOD(cu.memcpy_now(host(out), b, 110));
    CHECK(!memcmp(out, want + 3, 110));
    GOOD(cu.memset_d8(a, 0xcc, 1000));
    GOOD(cu.launch_kernel(kernel("weft_unpack"), 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    GOOD(cu.ctx_synchronize());
    GOOD(cu.memcpy_now(host(out), a, 1000));
    CHECK(out[10] == 0xcc && out[12] == 0xcc && out[13] == want[3] && out[30] == want[7]);
    k.unit = 4;
    GOOD(cu.launch_kernel(kernel("weft_pack"), 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    CHECK_EQ(cu.ctx_synchronize(), CU_ERROR_MISALIGNED_ADDRESS);
    begin_anew(0);
}

/* A kernel that accesses forbidden memory: the context is lost. */
static void illegal(void)
{
    struct rt_gpu_batch b = { .value = 9, .n = 1 };
    void *params[] = { &b }, *h;
    cu_module m;
    cu_function f;
    cu_ptr a, other;
    cu_ctx c;

    use(1);
    GOOD(cu.mem_alloc(&other, 100));
    GOOD(cu.ctx_create(&c, 0, 0));
    GOOD(cu.module_load_data(&m, ptx));
    GOOD(cu.module_get_function(&f, m, "weft_batch"));
    GOOD(cu.mem_alloc(&a, 100));
    GOOD(cu.mem_host_alloc(&h, 128, 0));
    b.counter = (b.flag = host(h)) + 64;
    b.move[0] = (struct rt_gpu_move){ a, other, 100 };
    GOOD(cu.ctx_enable_peer_access(ctx[1], 0));
    CHECK_EQ(cu.ctx_enable_peer_access(ctx[1], 0), CU_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    GOOD(cu.launch_kernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    GOOD(cu.ctx_synchronize());
    CHECK_EQ(*(uint32_t *)h, 9);
    GOOD(cu.ctx_disable_peer_access(ctx[1]));
    GOOD(cu.launch_kernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    CHECK_EQ(cu.ctx_synchronize(), CU_ERROR_ILLEGAL_ADDRESS);
    CHECK_EQ(cu.mem_alloc(&a, 8), CU_ERROR_ILLEGAL_ADDRESS);
    GOOD(cu.ctx_destroy(c));
    use(1);
    GOOD(cu.mem_free(other));
}

/* ---- VMM and pools ---- */

static cu_ptr vmm_alloc(int dev, size_t nbytes, bool exported, cu_handle *h)
{
    struct cu_alloc_prop prop = { .type = CU_ALLOCATION_PINNED,
                                  .handle_types = exported ? CU_HANDLE_POSIX_FD : 0,
                                  .location = { CU_LOCATION_DEVICE, dev } };
    struct cu_access access = { { CU_LOCATION_DEVICE, dev }, CU_ACCESS_READWRITE };
    cu_ptr p = 0;

    GOOD(cu.mem_create(h, nbytes, &prop, 0));
    GOOD(cu.mem_address_reserve(&p, nbytes, 0, 0, 0));
    GOOD(cu.mem_map(p, nbytes, 0, *h, 0));
    CHECK_EQ(cu.memset_d8(p, 0, 8), dev == 0 ? CU_ERROR_ILLEGAL_ADDRESS : CU_OK);
    begin_anew(0);
    GOOD(cu.mem_set_access(p, nbytes, &access, 1));
    return p;
}

static void vmm(void)
{
    const size_t len = 4u << 20;
    cu_handle h, again;
    cu_ptr p;
    int fd = -1;

    use(0);
    p = vmm_alloc(0, len, true, &h);
    put(p + 1, N, 2);
    CHECK(holds(p + 1, N, 2));
    CHECK(look(p).c == NULL && look(p).len == len);
    CHECK_EQ(look(p).types, CU_HANDLE_POSIX_FD);
    GOOD(cu.mem_release(h));
    CHECK(holds(p + 1, N, 2));
    GOOD(cu.mem_retain_allocation_handle(&again, (void *)p));
    GOOD(cu.mem_export_to_shareable_handle(&fd, again, CU_HANDLE_POSIX_FD, 0));
    GOOD(cu.mem_release(again));
    GOOD(cu.mem_unmap(p, len));
    CHECK_EQ(look(p).type, 0);
    GOOD(cu.mem_import_from_shareable_handle(&h, (void *)(intptr_t)fd, CU_HANDLE_POSIX_FD));
    close(fd);
    GOOD(cu.mem_map(p, len, 0, h, 0));
    GOOD(cu.mem_set_access(p, len, &(struct cu_access){ { CU_LOCATION_DEVICE, 0 }, 3 }, 1));
    CHECK(holds(p + 1, N, 2));
    GOOD(cu.mem_unmap(p, len));
    GOOD(cu.mem_release(h));
    GOOD(cu.mem_address_free(p, len));
    p = vmm_alloc(0, len, false, &h);
    CHECK_EQ(cu.mem_export_to_shareable_handle(&fd, h, CU_HANDLE_POSIX_FD, 0),
             CU_ERROR_INVALID_VALUE);
    GOOD(cu.mem_unmap(p, len));
    GOOD(cu.mem_release(h));
    GOOD(cu.mem_address_free(p, len));
}

static void pools(void)
{
    struct cu_pool_props props = { .type = CU_ALLOCATION_PINNED,
                                   .handle_types = CU_HANDLE_POSIX_FD,
                                   .location = { CU_LOCATION_DEVICE, 1 } };
    cu_pool pool;
    cu_ptr a, b;

    use(1);
    GOOD(cu.mem_alloc_async(&a, N, NULL));
    put(a, N, 6);
    CHECK(holds(a, N, 6));
    CHECK_EQ(look(a).legacy, 0);
    GOOD(cu.mem_free_async(a, NULL));
    GOOD(cu.stream_synchronize(NULL));
    CHECK_EQ(look(a).type, 0);
    GOOD(cu.mem_alloc_async(&b, N, NULL));
    CHECK_EQ(b, a);
    GOOD(cu.mem_free_async(b, NULL));
    GOOD(cu.pool_create(&pool, &props));
    GOOD(cu.mem_alloc_from_pool_async(&a, N, pool, NULL));
    GOOD(cu.mem_free(a));
    GOOD(cu.mem_pool_destroy(pool));
}

static void too_much(void)
{
    size_t room, total;
    cu_ptr p;

    use(0);
    GOOD(cu.mem_get_info(&room, &total));
    CHECK(room <= total);
    CHECK_EQ(cu.mem_alloc(&p, room + 1), CU_ERROR_OUT_OF_MEMORY);
    GOOD(cu.mem_alloc(&p, room));
    GOOD(cu.mem_get_info(&room, &total));
    CHECK_EQ(room, 0);
    GOOD(cu.mem_free(p));
}

/* ---- another process ---- */

struct shared { /* from the exporting process */
    struct cu_ipc small, large;
};

static void send_fd(int sock, const struct shared *s, int fd)
{
    char control[CMSG_SPACE(sizeof(int))] = { 0 };
    struct iovec iov = { (void *)(uintptr_t)s, sizeof(*s) };
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
    };
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof(int));
    CHECK(sendmsg(sock, &m, 0) == sizeof(*s));
}

static int recv_fd(int sock, struct shared *s)
{
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec iov = { s, sizeof(*s) };
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
    };

    int fd;

    CHECK(recvmsg(sock, &m, MSG_WAITALL) == sizeof(*s));
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
    return fd;
}

/* The importer: checks the data and writes other data. */
static void import_one(cu_ptr p, unsigned seed)
{
    CHECK(holds(p, N, seed));
    put(p, N, seed + 100);
}

static int importer(int sock)
{
    struct cu_access access = { { CU_LOCATION_DEVICE, 0 }, CU_ACCESS_READWRITE };
    struct shared s;
    cu_handle h;
    cu_ptr a, b;
    int fd;
    char go;

    load();
    GOOD(cu.init(0));
    GOOD(cu.primary_ctx_retain(&ctx[0], 0));
    use(0);
    fd = recv_fd(sock, &s);
    GOOD(cu.ipc_open_mem_handle(&a, s.small, CU_IPC_LAZY_PEER_ACCESS));
    import_one(a, 11);
    GOOD(cu.ipc_open_mem_handle(&b, s.small, CU_IPC_LAZY_PEER_ACCESS));
    CHECK_EQ(b, a);
    GOOD(cu.ipc_close_mem_handle(a));
    GOOD(cu.ipc_open_mem_handle(&b, s.large, CU_IPC_LAZY_PEER_ACCESS));
    import_one(b, 12);
    GOOD(cu.ipc_close_mem_handle(b));
    GOOD(cu.mem_import_from_shareable_handle(&h, (void *)(intptr_t)fd, CU_HANDLE_POSIX_FD));
    GOOD(cu.mem_address_reserve(&b, 2u << 20, 0, 0, 0));
    GOOD(cu.mem_map(b, 2u << 20, 0, h, 0));
    GOOD(cu.mem_set_access(b, 2u << 20, &access, 1));
    import_one(b, 13);
    CHECK(write(sock, "x", 1) == 1 && read(sock, &go, 1) == 1);
    /* The exporter frees it and allocates it again: a new handle is needed. */
    CHECK(holds(a, N, 111));
    CHECK(recv(sock, &s, sizeof(s), MSG_WAITALL) == sizeof(s));
    GOOD(cu.ipc_open_mem_handle(&b, s.large, 0));
    CHECK(b != a && holds(b, N, 15));
    GOOD(cu.ipc_close_mem_handle(b));
    GOOD(cu.ipc_close_mem_handle(a));
    CHECK_EQ(cu.ipc_open_mem_handle(&a, s.small, 0), CU_ERROR_INVALID_VALUE);
    return check_failed_case;
}

static pid_t start_importer(int *sock, const char *self)
{
    char arg[16];
    int pair[2];
    pid_t pid;

    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    snprintf(arg, sizeof(arg), "%d", pair[1]);
    pid = fork();
    if (pid == 0) {
        close(pair[0]);
        execl(self, self, "import", arg, (char *)NULL);
        _exit(9);
    }
    close(pair[1]);
    *sock = pair[0];
    return pid;
}

static void processes(void)
{
    struct shared s;
    cu_ptr small, large, mapped, again;
    cu_handle h;
    int sock, status, fd;
    char x;
    pid_t pid = start_importer(&sock, "/proc/self/exe");

    use(0);
    mapped = vmm_alloc(0, 2u << 20, true, &h);
    GOOD(cu.mem_alloc(&again, 777));
    GOOD(cu.mem_alloc(&small, N));
    GOOD(cu.mem_alloc(&large, 3u << 20));
    put(small, N, 11);
    put(large, N, 12);
    put(mapped, N, 13);
    GOOD(cu.ipc_get_mem_handle(&s.small, small));
    GOOD(cu.ipc_get_mem_handle(&s.large, large + 5));
    CHECK_EQ(cu.ipc_get_mem_handle(&s.large, mapped), CU_ERROR_INVALID_VALUE);
    GOOD(cu.ipc_get_mem_handle(&s.large, large));
    CHECK_EQ(cu.ipc_open_mem_handle(&again, s.large, 0), CU_ERROR_INVALID_CONTEXT);
    GOOD(cu.mem_export_to_shareable_handle(&fd, h, CU_HANDLE_POSIX_FD, 0));
    send_fd(sock, &s, fd);
    CHECK(read(sock, &x, 1) == 1);
    CHECK(holds(small, N, 111) && holds(large, N, 112));
    CHECK(holds(mapped, N, 113));
    GOOD(cu.mem_free(large));
    GOOD(cu.mem_alloc(&again, 3u << 20));
    CHECK_EQ(again, large);
    put(again, N, 15);
    CHECK(write(sock, "x", 1) == 1);
    s.small = s.large; /* the freed allocation */
    GOOD(cu.ipc_get_mem_handle(&s.large, again));
    CHECK(write(sock, &s, sizeof(s)) == sizeof(s));
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_EQ(status, 0);
    close(sock);
}

int main(int argc, char **argv)
{
    int missing;

    if (argc == 3 && !strcmp(argv[1], "import"))
        return importer(atoi(argv[2]));
    setenv("FAKE_CUDA_DELAY_US", "300", 0);
    missing = load();
    if (missing)
        printf("not ok 1 - %d functions are missing\n1..1\n", missing);
    if (missing)
        return 1;
    RUN(before_init);
    RUN(contexts);
    RUN(attributes);
    RUN(untouchable);
    RUN(copies);
    RUN(streams);
    RUN(batch);
    RUN(graphs);
    RUN(captures);
    RUN(kernel_nodes);
    RUN(meetings);
    RUN(lingering);
    RUN(packing);
    RUN(illegal);
    RUN(vmm);
    RUN(pools);
    RUN(too_much);
    RUN(processes);
    return check_end();
}
