/* SPDX-License-Identifier: BSD-3-Clause */
/* A CUDA driver that runs on the CPU, for tests on machines without a GPU: the libcuda.so.1 of the
 * build tree.  Device memory is a memfd that the driver maps for itself, while its user address is
 * only reserved, so that a CPU access to it crashes as it should.  A stream is a thread that works
 * through a queue, so copies are really asynchronous.
 *
 * Thread rule: `fake.lock` guards every table; a stream's own lock guards its queue and may be
 * taken under it, not the other way round.  No thread waits for a stream with `fake.lock` held.
 * Contexts, streams and events are never returned to malloc, so that stale handles are detected.
 *
 * Environment: FAKE_CUDA_DEVICES, FAKE_CUDA_DMABUF, FAKE_CUDA_PEER, FAKE_CUDA_MEM, FAKE_CUDA_MPS,
 * FAKE_CUDA_SPREAD, FAKE_CUDA_DELAY_US, FAKE_CUDA_FAIL, FAKE_CUDA_VERSION, FAKE_CUDA_MISSING,
 * CUDA_VISIBLE_DEVICES: init.c. */
#ifndef TEST_FAKE_GPU_FAKE_H
#define TEST_FAKE_GPU_FAKE_H

#include <pthread.h>
#include <stdatomic.h>
#include "runtime/gpu/move_kernels.h"
#include "runtime/gpu/push_kernels.h"
#include "test/gpu/cuda_more.h"

#define FAKE_DEVICES 16
#define FAKE_MULTIPROCESSORS 4
#define FAKE_THREADS 2048       /* on a multiprocessor at the same time */
#define FAKE_GRANULE (2u << 20) /* unit of device addresses, as with the real driver */

#define FAKE_DECLARE(field, symbol, params) \
    __attribute__((visibility("default"))) cu_result symbol params;
CU_FUNCTIONS(FAKE_DECLARE, FAKE_DECLARE)
CU_MORE_FUNCTIONS(FAKE_DECLARE)
#undef FAKE_DECLARE

__attribute__((visibility("default"))) fake_cuda_alive_fn fake_cuda_alive;
__attribute__((visibility("default"))) fake_cuda_nwaits_fn fake_cuda_nwaits;
__attribute__((visibility("default"))) fake_cuda_hold_fn fake_cuda_hold;
__attribute__((visibility("default"))) fake_cuda_release_fn fake_cuda_release;
__attribute__((visibility("default"))) fake_cuda_nstalls_fn fake_cuda_nstalls;
__attribute__((visibility("default"))) fake_cuda_pinned_fn fake_cuda_pinned;
__attribute__((visibility("default"))) fake_cuda_fail_fn fake_cuda_fail;
__attribute__((visibility("default"))) fake_cuda_seen_fn fake_cuda_seen;

struct cu_ctx_st {
    int dev, ordinal; /* number of the device on the machine, and in this process */
    bool primary, destroyed;
    int nref;        /* of a primary context; 0 = inactive */
    _Atomic int err; /* sticky: every later call returns it */
    uint32_t peers;  /* bit per device of the machine whose memory kernels may access */
    struct cu_stream_st *streams, *null_stream;
    struct cu_ctx_st *next; /* in the list of all contexts ever created */
};

struct fake_op { /* in a stream's queue; the stream frees it */
    struct fake_op *next;
    int (*run)(struct fake_op *op); /* result: 0 or a sticky error */
    cu_stream stream;
    uint64_t ticket;
    struct fake_dep {
        cu_stream stream;
        uint64_t ticket;
    } * deps; /* operations that must finish first */
    int ndeps;
    uint64_t dst, src;
    size_t len, dst_pitch, src_pitch, height;
    uint32_t value;
    uint32_t nblocks; /* of a kernel */
    bool fills;  /* a kernel of the application with a block for each multiprocessor, or more */
    int *result; /* for a caller that waits */
    size_t nparams;
    char params[]; /* of a kernel */
};

struct cu_stream_st {
    uint32_t magic;
    cu_ctx ctx;
    bool blocking;  /* synchronises with the null stream */
    bool urgent;    /* has a hardware queue of its own */
    bool destroyed; /* the thread ends when the queue is empty */
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    struct fake_op *head, **tail;
    struct fake_op *captured, **captured_tail; /* NULL: no capture */
    _Atomic bool capture_broken;
    int capture_mode;
    pthread_t capturer;                /* the thread that began the capture */
    struct cu_stream_st *next_capture; /* in the list of all captures in progress */
    struct cu_stream_st *origin;       /* of the capture that this stream has joined; or NULL */
    uint64_t submitted;
    _Atomic uint64_t completed;
    struct cu_stream_st *next; /* of the context, including destroyed streams */
};

struct cu_event_st {
    uint32_t magic;
    cu_ctx ctx;
    struct fake_dep at; /* stream NULL: not recorded */
    bool destroyed;
    struct cu_event_st *next;
    cu_stream capture; /* the stream whose capture it was recorded in; or NULL */
};

enum fake_kind {
    FAKE_HOST,       /* cuMemHostAlloc */
    FAKE_REGISTERED, /* cuMemHostRegister */
    FAKE_MANAGED,
    FAKE_DEVICE, /* cuMemAlloc */
    FAKE_VMM,    /* a mapping by cuMemMap */
    FAKE_POOL,
    FAKE_IPC /* another process's memory, from cuIpcOpenMemHandle */
};

struct fake_phys { /* memory, independent of where it is mapped */
    int nref;      /* allocations, handles, arenas, and running copies */
    int fd;        /* -1 if it cannot be shared */
    size_t len;
    char *alias;      /* readable and writable mapping, for the driver only */
    int dev;          /* -1 for host memory */
    int handle_types; /* of VMM memory: how it may be exported */
    bool charged;     /* counts against the device's memory */
};

struct fake_mem { /* a range of usable addresses: entry of the table in space.c */
    uint64_t base, id;
    size_t len;
    enum fake_kind kind;
    int dev;
    cu_ctx ctx;
    struct fake_phys *phys; /* NULL for registered memory */
    size_t off;             /* in phys */
    uint32_t access;        /* VMM, imports: bit per device of the machine */
    cu_pool pool;
    int nopen; /* of imports */
    uint64_t ipc_id;
    struct fake_arena *arena; /* the arena that it was cut from */
};

struct fake_arena {    /* addresses and memory shared by several allocations */
    uint64_t base, id; /* the id of its first allocation */
    size_t len;
    struct fake_phys *phys;
    int nused;
    cu_ctx ctx;
    struct fake_arena *next;
};

struct cu_pool_st {
    uint32_t magic;
    int dev;
    int handle_types;
    bool destroyed, is_default;
    struct fake_arena arena;
};

struct fake {
    pthread_mutex_t lock;
    pthread_mutex_t submitting; /* taken before the lock */
    int pid;                    /* the process that called cuInit; 0: none */
    int ndevices, nvisible, visible[FAKE_DEVICES];
    bool peer, spread, dmabuf, mps;
    size_t mem_nbytes, used[FAKE_DEVICES];
    int version;
    unsigned delay_us;
    bool one_queue;
    struct cu_ctx_st primary[FAKE_DEVICES], *contexts;
    struct cu_event_st *events;
    cu_pool default_pool[FAKE_DEVICES], current_pool[FAKE_DEVICES];
};
extern struct fake fake;

/* init.c: every entry point starts with one of these; they return its injected or sticky error. */
int fake_enter(const char *symbol);
int fake_enter_ctx(const char *symbol, cu_ctx *c); /* also requires a usable current context */
int fake_fails(const char *what);                  /* an injected error, or 0 */
void fake_read_env(void);
void fake_hide_symbols(const char *list);
int fake_ordinal(int dev); /* of a device of the machine, or -1 */

/* ctx.c */
int fake_ctx_check(cu_ctx c);
int fake_ctx_wait(cu_ctx c); /* waits for all streams; a stall if the application's are busy */

/* space.c: addresses, memory, the table.  Under fake.lock, except fake_pin/unpin. */
uint64_t fake_va_take(size_t len);
void fake_va_give(uint64_t va);
/* what: "host", "device", "vmm", "pool": part of the file's name, from which another process that
 * gets the descriptor knows the kind.  A pool's memory is charged as it is used. */
struct fake_phys *fake_phys_make(size_t len, int dev, const char *what, int *err);
struct fake_phys *fake_phys_adopt(int fd, const char *what); /* the caller keeps fd */
void fake_phys_unref(struct fake_phys *p);
struct fake_mem *fake_mem_add(uint64_t base, size_t len, enum fake_kind kind,
                              struct fake_phys *phys, size_t off);
struct fake_mem *fake_mem_find(uint64_t p);
void fake_mem_drop(struct fake_mem *m);                    /* from the table, with phys */
struct fake_mem *fake_mem_next(uint64_t p);                /* the first with base >= p */
uint64_t fake_arena_cut(struct fake_arena *a, size_t len); /* an unused address, or 0 */
/* Translates an address that a context's copy engine or kernel uses to the driver's own address;
 * *pin is held until fake_unpin.  NULL: no access. */
enum fake_who { FAKE_BY_ENGINE, FAKE_BY_KERNEL };
char *fake_pin(cu_ctx c, uint64_t p, size_t len, enum fake_who who, struct fake_phys **pin);
/* The bytes from p on, at most len, that one pin covers: ranges may cross consecutive mappings of
 * cuMemMap. len for unknown memory. */
size_t fake_run(uint64_t p, size_t len);
/* Whether known memory continues from p for len bytes; p lies in known memory.  Under the lock. */
bool fake_reaches(uint64_t p, size_t len);
void fake_unpin(struct fake_phys *pin);
bool fake_is_known(uint64_t p); /* memory in use, or an address that was device memory */

/* mem.c, pool.c */
int fake_mem_free(struct fake_mem *m); /* any kind that cuMemFree accepts; under the lock */
void fake_pool_free(struct fake_mem *m);
void fake_ctx_free_all(cu_ctx c);

/* vmm.c: mask of the devices in `a` that have access to memory of device `dev`; 0 if one of them
 * cannot. */
uint32_t fake_access_mask(const struct cu_access *a, size_t n, int dev);

int fake_handles_alive(void); /* under the lock, like the next two functions */
int fake_modules_alive(void);
int fake_mem_alive(void);

/* stream.c */
struct fake_op *fake_op_make(int (*run)(struct fake_op *op), size_t nparams);
int fake_submit(cu_stream s, struct fake_op *op);          /* consumes op */
int fake_stream_of(cu_ctx c, cu_stream s, cu_stream *out); /* resolves the null stream */
void fake_stream_wait(cu_stream s, uint64_t ticket);
void fake_stream_stop(cu_stream s);

/* copy.c */
void fake_bytes_copy(char *dst, const char *src, size_t len);

/* kernel.c */
void fake_nap_us(unsigned us);
void fake_room_wait(int dev); /* until no kernel of the application fills the device */
/* Whether destinations that are marked as near are in memory of the context's own device. */
int fake_check_near(cu_ctx c, uint32_t near, uint64_t dst);
int fake_kernel_op(cu_ctx c, const struct cu_kernel_node *k, struct fake_op **out);

/* meet.c: the kernel that synchronises streams of several processes */
int fake_run_meet(struct fake_op *op);

/* graph.c: streams that record their work instead of doing it.  Under the stream's lock. */
void fake_capture(cu_stream s, struct fake_op *op);
cu_stream
fake_capture_of(cu_stream s); /* the stream whose graph its work becomes part of; or NULL */
/* The error of a call that a capture now forbids to this thread, which also invalidates the
 * capture; or 0. */
int fake_capture_check(const char *symbol);

/* bench.c: the kernels of the benchmarks' --limits */
enum fake_bench {
    FAKE_BENCH_EMPTY,
    FAKE_BENCH_FLAG,
    FAKE_BENCH_ECHO,
    FAKE_BENCH_PONG,
    FAKE_BENCH_WORK,
    FAKE_BENCH_KERNELS
};
int fake_run_bench(struct fake_op *op, enum fake_bench which);

/* fold.c: the kernels that reduce; fold.c does not store their flag */
enum fake_fold {
    FAKE_FOLD_BITS,
    FAKE_FOLD_4,
    FAKE_FOLD_8,
    FAKE_FOLD_F16,
    FAKE_FOLD_BF16,
    FAKE_FOLD_1,
    FAKE_FOLD_2,
    FAKE_FOLD_WIDE8,
    FAKE_FOLD_WIDE16,
    FAKE_FOLDS
};
int fake_run_fold(struct fake_op *op, enum fake_fold which);
int fake_ring_fold(cu_ctx c, const struct rt_gpu_desc *d);
/* *acc = *acc op *v, an element of one of the types of weft_atomic. */
int fake_combine(unsigned type, unsigned code, void *acc, const void *v);
/* Between the driver's memory and a kernel's address. */
int fake_carry(cu_ctx c, uint64_t at, void *buf, size_t len, bool store);

/* push.c: short collectives of streams, for all kinds of elements */
int fake_run_push(struct fake_op *op, enum fake_fold which);
int fake_run_message(struct fake_op *op); /* short messages of streams */
/* out = x[0] op x[1] op ...: `len` bytes of elements of each rank, at most 8192. */
int fake_fold_rows(enum fake_fold which, const struct rt_gpu_push *k, const char *const *x,
                   char *out, size_t len);

/* atomic.c: the kernel that changes elements; it does not store its flag */
int fake_run_atomic(cu_ctx c, const struct rt_gpu_atomic_args *k);
int fake_ring_atomic(cu_ctx c, const struct rt_gpu_desc *d);

#endif
