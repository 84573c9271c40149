/* SPDX-License-Identifier: BSD-3-Clause */
/* Fake CUDA driver: modules, and the library's kernels as runtime/gpu/kernel.h describes them, on
 * the CPU.  A kernel may access memory of its own device, of devices with peer access, managed and
 * pinned memory; any other address is illegal. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "test/bench/limits.h"
#include "test/fake/gpu/fake.h"

#define MODULE_MAGIC 0x30d01eu
struct cu_module_st {
    uint32_t magic;
    cu_ctx ctx;
    struct cu_module_st *next;
};
static struct cu_module_st *modules; /* kept, including unloaded modules */

enum {
    BATCH,
    LINGER,
    PACK,
    UNPACK,
    MEET,
    ATOMIC,
    FOLD,
    PUSH = FOLD + FAKE_FOLDS, /* one for each kernel that reduces */
    MESSAGE = PUSH + FAKE_FOLDS,
    BENCH,
    NKERNELS = BENCH + FAKE_BENCH_KERNELS
};
#define FOLD_ROW(kernel, name) \
    [FOLD + FAKE_FOLD_##kernel] = { "weft_fold_" name, sizeof(struct rt_gpu_fold_args) }, \
            [PUSH + FAKE_FOLD_##kernel] = { "weft_push_" name, sizeof(struct rt_gpu_push) }
static const struct {
    const char *name;
    size_t nbytes;
} kernels[NKERNELS] = {
    [BATCH] = { "weft_batch", sizeof(struct rt_gpu_batch) },
    [LINGER] = { "weft_linger", sizeof(struct rt_gpu_linger) },
    [PACK] = { "weft_pack", sizeof(struct rt_gpu_pack) },
    [UNPACK] = { "weft_unpack", sizeof(struct rt_gpu_pack) },
    [MEET] = { "weft_meet", sizeof(struct rt_gpu_meet) },
    [ATOMIC] = { "weft_atomic", sizeof(struct rt_gpu_atomic_args) },
    [MESSAGE] = { "weft_message", sizeof(struct rt_gpu_message) },
    FOLD_ROW(BITS, "bits"),
    FOLD_ROW(4, "4"),
    FOLD_ROW(8, "8"),
    FOLD_ROW(F16, "f16"),
    FOLD_ROW(BF16, "bf16"),
    FOLD_ROW(1, "1"),
    FOLD_ROW(2, "2"),
    FOLD_ROW(WIDE8, "wide8"),
    FOLD_ROW(WIDE16, "wide16"),
    [BENCH + FAKE_BENCH_EMPTY] = { "bench_empty", sizeof(struct bench_kernel) },
    [BENCH + FAKE_BENCH_FLAG] = { "bench_flag", sizeof(struct bench_kernel) },
    [BENCH + FAKE_BENCH_ECHO] = { "bench_echo", sizeof(struct bench_kernel) },
    [BENCH + FAKE_BENCH_PONG] = { "bench_pong", sizeof(struct bench_kernel) },
    [BENCH + FAKE_BENCH_WORK] = { "bench_work", sizeof(struct bench_kernel) },
};
struct cu_function_st {
    struct cu_module_st *module;
    int which;
};

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void fake_nap_us(unsigned us)
{
    struct timespec t = { us / 1000000, (long)(us % 1000000) * 1000 };

    if (us)
        nanosleep(&t, NULL);
}

/* ---- what kernels do ---- */

static int move_part(cu_ctx c, uint64_t dst, uint64_t src, size_t len)
{
    struct fake_phys *dpin = NULL, *spin = NULL;
    char *d, *s;
    int err = CU_ERROR_ILLEGAL_ADDRESS;

    d = fake_pin(c, dst, len, FAKE_BY_KERNEL, &dpin);
    s = fake_pin(c, src, len, FAKE_BY_KERNEL, &spin);
    if (d && s) {
        fake_bytes_copy(d, s, len);
        err = 0;
    }
    fake_unpin(dpin);
    fake_unpin(spin);
    return err;
}

static int move(cu_ctx c, uint64_t dst, uint64_t src, uint64_t len)
{
    size_t at, n;
    int err = 0;

    for (at = 0; at < len && !err; at += n) {
        n = fake_run(dst + at, fake_run(src + at, len - at));
        err = move_part(c, dst + at, src + at, n);
    }
    return err;
}

static int store32(cu_ctx c, uint64_t addr, uint32_t value)
{
    struct fake_phys *pin;
    char *p = addr & 3 ? NULL : fake_pin(c, addr, 4, FAKE_BY_KERNEL, &pin);

    if (!p)
        return addr & 3 ? CU_ERROR_MISALIGNED_ADDRESS : CU_ERROR_ILLEGAL_ADDRESS;
    __atomic_store_n((uint32_t *)(void *)p, value, __ATOMIC_RELEASE);
    fake_unpin(pin);
    return 0;
}

int fake_check_near(cu_ctx c, uint32_t near, uint64_t dst)
{
    const struct fake_mem *m;
    bool good;

    if (!near)
        return 0;
    pthread_mutex_lock(&fake.lock);
    m = fake_mem_find(dst);
    good = m && m->dev == c->dev && m->kind != FAKE_HOST && m->kind != FAKE_REGISTERED &&
           m->kind != FAKE_MANAGED;
    pthread_mutex_unlock(&fake.lock);
    return good ? 0 : CU_ERROR_ILLEGAL_ADDRESS;
}

/* The counter at which blocks meet must exist and be zero; it is zero again afterwards. */
static int meeting_point(cu_ctx c, uint64_t counter)
{
    struct fake_phys *pin;
    char *p;
    int err;

    if (!counter)
        return 0;
    p = fake_pin(c, counter, 4, FAKE_BY_KERNEL, &pin);
    if (!p)
        return CU_ERROR_ILLEGAL_ADDRESS;
    err = __atomic_load_n((uint32_t *)(void *)p, __ATOMIC_ACQUIRE) ? CU_ERROR_ILLEGAL_ADDRESS : 0;
    fake_unpin(pin);
    return err;
}

/* nblocks start.  A negative number: the host has recalled this launch. */
static int begins(cu_ctx c, uint64_t word, uint32_t number, uint32_t nblocks)
{
    struct fake_phys *pin;
    char *p = word & 7 ? NULL : fake_pin(c, word, 8, FAKE_BY_KERNEL, &pin);
    uint64_t was;

    if (!p)
        return word & 7 ? CU_ERROR_MISALIGNED_ADDRESS : CU_ERROR_ILLEGAL_ADDRESS;
    was = __atomic_fetch_add((uint64_t *)(void *)p, nblocks, __ATOMIC_SEQ_CST);
    fake_unpin(pin);
    return (uint32_t)(was >> 32) == number ? -1 : 0;
}

static int batch_skips(cu_ctx c, const struct rt_gpu_batch *b)
{
    int err = store32(c, b->flag + offsetof(struct rt_gpu_flag, skipped), b->value);

    return err ? err : store32(c, b->flag, b->value);
}

static int run_batch(struct fake_op *op)
{
    const struct rt_gpu_batch *b = (const void *)op->params;
    cu_ctx c = op->stream->ctx;
    int err = b->n > RT_GPU_BATCH_MAX ? CU_ERROR_ILLEGAL_ADDRESS : meeting_point(c, b->counter);
    uint32_t i;

    if (!err)
        err = begins(c, b->counter + offsetof(struct rt_gpu_line, recall), b->value, op->nblocks);
    if (err)
        return err < 0 ? batch_skips(c, b) : err;
    for (i = 0; i < b->n && !err; i++) {
        err = fake_check_near(c, b->near, b->move[i].dst);
        if (!err)
            err = move(c, b->move[i].dst, b->move[i].src, b->move[i].len);
    }
    return err ? err : store32(c, b->flag, b->value);
}

/* A descriptor is complete when its first and last words have the expected number. */
static bool ring_read(const struct rt_gpu_desc *ring, uint32_t seq, struct rt_gpu_desc *out)
{
    const struct rt_gpu_desc *slot = &ring[seq % RT_GPU_RING_SLOTS];

    if (__atomic_load_n(&slot->seq, __ATOMIC_ACQUIRE) != seq ||
        __atomic_load_n(&slot->seq_too, __ATOMIC_ACQUIRE) != seq)
        return false;
    *out = *slot;
    return !(out->fold & RT_GPU_RING_FAR) ||
           (__atomic_load_n(&slot->seq_far, __ATOMIC_ACQUIRE) == seq &&
            __atomic_load_n(&slot->seq_far_too, __ATOMIC_ACQUIRE) == seq);
}

static int ring_do(cu_ctx c, const struct rt_gpu_desc *d)
{
    int err;

    if (RT_GPU_RING_KIND(d->fold) == RT_GPU_RING_ATOMIC)
        return fake_ring_atomic(c, d);
    if (d->fold)
        return fake_ring_fold(c, d);
    err = fake_check_near(c, d->near, d->dst);
    return err ? err : move(c, d->dst, d->src, d->len);
}

static int linger(cu_ctx c, const struct rt_gpu_linger *k, const struct rt_gpu_desc *ring,
                  struct rt_gpu_words *words)
{
    uint64_t start = now_ns(), idle = start, now = start;
    struct rt_gpu_desc d = k->first;
    uint32_t next = k->next;
    bool there = d.seq == next && d.seq_too == next;
    int err;

    err = begins(c, k->recall, k->launch, 1);
    if (err > 0)
        return err;
    if (err < 0)
        start -= k->life_ns;
    while (now - idle < k->idle_ns && now - start < k->life_ns) {
        if (there || ring_read(ring, next, &d)) {
            there = false;
            err = ring_do(c, &d);
            if (err)
                return err;
            __atomic_store_n(&words->done, next++, __ATOMIC_RELEASE);
            idle = now_ns();
        } else
            sched_yield(); /* there are few processors */
        now = now_ns();
    }
    __atomic_store_n(&words->left, k->launch, __ATOMIC_RELEASE);
    return 0;
}

static int run_linger(struct fake_op *op)
{
    const struct rt_gpu_linger *k = (const void *)op->params;
    cu_ctx c = op->stream->ctx;
    struct fake_phys *rpin = NULL, *wpin = NULL;
    char *ring = fake_pin(c, k->ring, RT_GPU_RING_SLOTS * sizeof(struct rt_gpu_desc),
                          FAKE_BY_KERNEL, &rpin);
    char *words = fake_pin(c, k->words, sizeof(struct rt_gpu_words), FAKE_BY_KERNEL, &wpin);
    int err = CU_ERROR_ILLEGAL_ADDRESS;

    if (ring && words)
        err = linger(c, k, (const void *)ring, (void *)words);
    fake_unpin(rpin);
    fake_unpin(wpin);
    return err;
}

/* ---- weft_pack, weft_unpack ---- */

struct packing {
    cu_ctx ctx;
    const struct rt_gpu_pack *k;
    const struct rt_gpu_group *groups;
    bool unpack;
};

/* Bytes [pos, pos + len) of the packed form, all of one repetition of one group. */
static int pack_run(const struct packing *p, int64_t pos, int64_t user, int64_t len)
{
    uint64_t packed = p->k->packed + (uint64_t)(pos - p->k->pos);
    uint64_t at = p->k->user + (uint64_t)user;
    uint64_t unit = p->k->unit;

    if (!unit || unit > 16 || unit & (unit - 1) || (packed | at | (uint64_t)len) & (unit - 1))
        return CU_ERROR_MISALIGNED_ADDRESS;
    return p->unpack ? move(p->ctx, at, packed, (uint64_t)len)
                     : move(p->ctx, packed, at, (uint64_t)len);
}

static const struct rt_gpu_group *group_at(const struct packing *p, int64_t in_element)
{
    uint32_t low = 0, high = p->k->ngroups;

    while (low < high) { /* groups before low start at or before, from high on after */
        uint32_t mid = low + (high - low) / 2;

        if (p->groups[mid].first <= in_element)
            low = mid + 1;
        else
            high = mid;
    }
    return low ? &p->groups[low - 1] : NULL;
}

static int pack_all(const struct packing *p)
{
    const struct rt_gpu_pack *k = p->k;
    int64_t pos = k->pos, end = k->pos + k->len;
    int err = 0;

    while (pos < end && !err) {
        int64_t element = pos / k->size, in = pos % k->size, rep, into, n;
        const struct rt_gpu_group *g = group_at(p, in);

        if (!g || g->len <= 0 || (rep = (in - g->first) / g->len) >= g->nrep)
            return CU_ERROR_ILLEGAL_ADDRESS;
        into = (in - g->first) % g->len;
        n = g->len - into < end - pos ? g->len - into : end - pos;
        err = pack_run(p, pos, element * k->extent + g->off + rep * g->stride + into, n);
        pos += n;
    }
    return err;
}

static int run_packing(struct fake_op *op, bool unpack)
{
    const struct rt_gpu_pack *k = (const void *)op->params;
    struct packing p = { op->stream->ctx, k, k->inline_groups, unpack };
    struct fake_phys *pin = NULL;
    int err = meeting_point(p.ctx, k->counter);

    if (!err && (k->size <= 0 || (!k->table && k->ngroups > RT_GPU_PACK_INLINE)))
        err = CU_ERROR_ILLEGAL_ADDRESS;
    if (!err && k->table) {
        p.groups = (const void *)fake_pin(p.ctx, k->table, k->ngroups * sizeof(*p.groups),
                                          FAKE_BY_KERNEL, &pin);
        if (!p.groups)
            err = CU_ERROR_ILLEGAL_ADDRESS;
    }
    if (!err)
        err = pack_all(&p);
    fake_unpin(pin);
    return err ? err : store32(p.ctx, k->flag, k->value);
}

static int run_fold(struct fake_op *op)
{
    const struct rt_gpu_fold_args *k = (const void *)op->params;
    int err = meeting_point(op->stream->ctx, k->counter);

    if (!err)
        err = fake_run_fold(op, (enum fake_fold)((int)op->value - FOLD));
    return err || !k->flag ? err : store32(op->stream->ctx, k->flag, k->value);
}

static int run_atomic(struct fake_op *op)
{
    const struct rt_gpu_atomic_args *k = (const void *)op->params;
    cu_ctx c = op->stream->ctx;
    int err = meeting_point(c, k->counter);

    if (!err)
        err = fake_run_atomic(c, k);
    return err ? err : store32(c, k->flag, k->value);
}

/* A kernel of the application that fills a device lets no other one of this process start there
 * until it has ended; so do copies within the device.  Other copies continue. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t free;
    bool full[FAKE_DEVICES];
} rooms = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, { false } };

static void enter_room(const struct fake_op *op)
{
    int dev = op->stream->ctx->dev;

    pthread_mutex_lock(&rooms.lock);
    while (rooms.full[dev])
        pthread_cond_wait(&rooms.free, &rooms.lock);
    rooms.full[dev] = op->fills;
    pthread_mutex_unlock(&rooms.lock);
}

void fake_room_wait(int dev)
{
    pthread_mutex_lock(&rooms.lock);
    while (rooms.full[dev])
        pthread_cond_wait(&rooms.free, &rooms.lock);
    pthread_mutex_unlock(&rooms.lock);
}

static void leave_room(const struct fake_op *op)
{
    if (!op->fills)
        return;
    pthread_mutex_lock(&rooms.lock);
    rooms.full[op->stream->ctx->dev] = false;
    pthread_cond_broadcast(&rooms.free);
    pthread_mutex_unlock(&rooms.lock);
}

static int run_any(struct fake_op *op)
{
    if (op->value >= FOLD && op->value < FOLD + FAKE_FOLDS)
        return run_fold(op);
    if (op->value == MESSAGE)
        return fake_run_message(op);
    if (op->value >= PUSH && op->value < PUSH + FAKE_FOLDS)
        return fake_run_push(op, (enum fake_fold)((int)op->value - PUSH));
    switch ((int)op->value) {
    case BATCH:
        return run_batch(op);
    case LINGER:
        return run_linger(op);
    case PACK:
        return run_packing(op, false);
    case UNPACK:
        return run_packing(op, true);
    case MEET:
        return fake_run_meet(op);
    case ATOMIC:
        return run_atomic(op);
    default:
        return fake_run_bench(op, (enum fake_bench)((int)op->value - BENCH));
    }
}

static int run_kernel(struct fake_op *op)
{
    int err = fake_fails("kernel");

    if (err)
        return err;
    enter_room(op);
    err = run_any(op);
    leave_room(op);
    return err;
}

/* ---- the driver's functions ---- */

/* Image formats that the real driver accepts: ELF, a fat binary, PTX text. */
cu_result cuModuleLoadData(cu_module *m, const void *image)
{
    cu_ctx c;
    int err = fake_enter_ctx("cuModuleLoadData", &c);

    if (err || !image)
        return err ? err : CU_ERROR_INVALID_VALUE;
    if (memcmp(image, "\177ELF", 4) && memcmp(image, "\x50\xed\x55\xba", 4) &&
        memcmp(image, "//", 2) && memcmp(image, ".version", 8))
        return CU_ERROR_INVALID_IMAGE;
    fake_ctx_wait(c); /* like the real driver */
    *m = calloc(1, sizeof(**m));
    if (!*m)
        return CU_ERROR_OUT_OF_MEMORY;
    (*m)->magic = MODULE_MAGIC;
    (*m)->ctx = c;
    pthread_mutex_lock(&fake.lock);
    (*m)->next = modules;
    modules = *m;
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

int fake_modules_alive(void)
{
    struct cu_module_st *m;
    int n = 0;

    for (m = modules; m; m = m->next)
        n += m->magic == MODULE_MAGIC && fake_ctx_check(m->ctx) != CU_ERROR_CONTEXT_IS_DESTROYED;
    return n;
}

cu_result cuModuleUnload(cu_module m)
{
    cu_ctx c;
    int err = fake_enter_ctx("cuModuleUnload", &c);

    if (err || !m || m->magic != MODULE_MAGIC)
        return err ? err : CU_ERROR_INVALID_HANDLE;
    fake_ctx_wait(c);
    m->magic = 0;
    return 0;
}

cu_result cuModuleGetFunction(cu_function *f, cu_module m, const char *name)
{
    static struct cu_function_st made[1024];
    static _Atomic int nmade;
    cu_ctx c;
    int err = fake_enter_ctx("cuModuleGetFunction", &c), i, k;

    if (err || !m || m->magic != MODULE_MAGIC)
        return err ? err : CU_ERROR_INVALID_HANDLE;
    for (k = 0; k < NKERNELS && strcmp(kernels[k].name, name); k++)
        ;
    if (k == NKERNELS)
        return CU_ERROR_NOT_FOUND;
    i = atomic_fetch_add(&nmade, 1) % 1024;
    made[i].module = m;
    made[i].which = k;
    *f = &made[i];
    return 0;
}

cu_result cuFuncLoad(cu_function f)
{
    cu_ctx c;
    int err = fake_enter_ctx("cuFuncLoad", &c);

    return err ? err : f && f->module ? 0 : CU_ERROR_INVALID_HANDLE;
}

/* Creates the operation that launches a kernel in c. */
int fake_kernel_op(cu_ctx c, const struct cu_kernel_node *k, struct fake_op **out)
{
    const void *from = k->params ? k->params[0] : NULL;
    void **extra = k->extra;
    cu_function f = k->f;
    uint64_t nthreads = (uint64_t)k->gx * k->gy * k->gz * k->bx * k->by * k->bz;

    if (!f || !f->module || f->module->magic != MODULE_MAGIC || f->module->ctx != c)
        return CU_ERROR_INVALID_HANDLE;
    if (!k->gx || !k->gy || !k->gz || !k->bx || !k->by || !k->bz ||
        (size_t)k->bx * k->by * k->bz > 1024)
        return CU_ERROR_INVALID_VALUE;
    for (; !k->params && extra && extra[0]; extra += 2) /* 1: the parameters, 2: their length */
        if (extra[0] == (void *)1)
            from = extra[1];
    if (!from)
        return CU_ERROR_INVALID_VALUE;
    *out = fake_op_make(run_kernel, kernels[f->which].nbytes);
    if (!*out)
        return CU_ERROR_OUT_OF_MEMORY;
    memcpy((*out)->params, from, kernels[f->which].nbytes);
    (*out)->value = (uint32_t)f->which;
    (*out)->nblocks = k->gx;
    (*out)->fills = f->which >= BENCH && nthreads >= FAKE_MULTIPROCESSORS * FAKE_THREADS;
    return 0;
}

cu_result cuLaunchKernel(cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                         unsigned by, unsigned bz, unsigned shared_nbytes, cu_stream s,
                         void **params, void **extra)
{
    struct cu_kernel_node k = { f, gx, gy, gz, bx, by, bz, shared_nbytes, params, extra };
    struct fake_op *op;
    cu_ctx c;
    int err = fake_enter_ctx("cuLaunchKernel", &c);

    if (!err)
        err = fake_stream_of(c, s, &s);
    if (!err)
        err = fake_kernel_op(s->ctx, &k, &op);
    return err ? err : fake_submit(s, op);
}
