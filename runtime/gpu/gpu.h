/* SPDX-License-Identifier: BSD-3-Clause */
/* GPUs, as the rest of the library sees them: classification of addresses, copies that complete
 * later, staging memory, sharing memory with other processes.  runtime/gpu is the only code that
 * calls the CUDA driver, which is opened when a process first needs it: nothing is linked against
 * it, and MPI_Init touches no GPU.
 *
 * Thread rule: any thread may call rt_gpu_is_device() without a lock; everything else, unless
 * stated, is called under the domain's lock.  done() is called from rt_gpu_progress() only. */
#ifndef RT_GPU_GPU_H
#define RT_GPU_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/base/atomic.h"
#include "runtime/base/clock.h"
#include "runtime/base/list.h"
#include "runtime/base/memkind.h"

/* ---- addresses: classify.c ---- */

/* False where no address can be device memory: no NVIDIA device on the machine, or cfg.gpu is off.
 * Set by rt_gpu_init(), constant from then on. */
extern RT_HIDDEN bool rt_gpu_watch;

bool rt_gpu_look(const void *p); /* asks the driver, if this process has loaded it */

/* Parts of the address space into which no driver maps anything: the program's variables, its heap
 * (memory of brk()), and the main thread's stack.  They save most small buffers a call of the
 * driver, 0.15 us for host memory (H200, driver 580).  Lengths change; the heap's address is
 * written once, before its length.  A thread that sees the two writes in the other order takes only
 * the lowest addresses for the heap, which is harmless. */
extern struct rt_gpu_own {
    uintptr_t data, heap, stack_end;
    size_t data_len, heap_len, stack_len;
} rt_gpu_own;

static inline bool rt_gpu_is_own(const void *p)
{
    const uintptr_t a = (uintptr_t)p;
    unsigned data = a - rt_gpu_own.data < rt_gpu_own.data_len;
    unsigned heap = a - rt_load_relaxed(&rt_gpu_own.heap) < rt_load_relaxed(&rt_gpu_own.heap_len);
    unsigned stack = rt_gpu_own.stack_end - a - 1 < rt_load_relaxed(&rt_gpu_own.stack_len);
    return (data | heap | stack) != 0; /* one branch */
}

/* Whether p is memory that the CPU must not touch (or, for managed memory, should not): one
 * predicted branch without a GPU; with one, a few nanoseconds for the program's own memory.  For
 * all other memory the driver is asked each time, because no earlier answer is safe: memory that
 * has been unmapped may be device memory at the next call.  Pinned host memory is host memory. */
static inline bool rt_gpu_is_device(const void *p)
{
    return rt_unlikely(rt_gpu_watch) && !rt_gpu_is_own(p) && rt_gpu_look(p);
}

struct rt_gpu; /* one CUDA context that this process uses: streams, kernels, staging; dev.c */

/* What the driver reports about a device address. */
struct rt_gpu_ptr {
    enum rt_memkind kind;
    int ordinal;    /* device, in the numbering of this process */
    void *ctx;      /* the pointer's context, or NULL: the device's primary context */
    uintptr_t base; /* of the allocation that contains it; for VMM memory, of the mapping */
    size_t len;
    uint64_t id; /* of the allocation; not used again in this process */
    /* False: several VMM mappings side by side, which cannot be exported as one. */
    bool single;
    struct rt_gpu *g; /* context in which copies of it run; made when first needed */
};
/* The driver maps an allocation for other processes in pages of 2 MiB if its length is a multiple
 * of that, else in small pages.  Copy engines of two ranks at once put 295 instead of 385 GB/s each
 * into small pages (H200, driver 580); one rank alone, reads by engines, and kernels are not
 * affected. */
static inline bool rt_gpu_in_large_pages(const struct rt_gpu_ptr *p)
{
    return p->len % (2u << 20) == 0;
}
/* Asks the driver about [p, p + len).  -RT_EINVAL, logged with the bounds at level info: the range
 * ends outside its allocation.  -RT_ENOENT, not logged: p is not device memory; if
 * rt_gpu_is_device() has returned true, it has been freed or was never valid.  -RT_ENOTSUP: the
 * driver is too old.  -RT_EGPU, -RT_ENOMEM, logged. */
int rt_gpu_query(const void *p, size_t len, struct rt_gpu_ptr *out);
/* Both questions at once, with one call of the driver: 0, p is host memory; 1, *out is set; or an
 * error of rt_gpu_query(). */
int rt_gpu_find_watched(const void *p, size_t len, struct rt_gpu_ptr *out);
static inline int rt_gpu_find(const void *p, size_t len, struct rt_gpu_ptr *out)
{
    return rt_unlikely(rt_gpu_watch) && !rt_gpu_is_own(p) ? rt_gpu_find_watched(p, len, out) : 0;
}
/* Whether an allocation found by a query still exists, and has not been replaced by another one;
 * memory of cuMemAlloc: by one of another length.  Other threads may free it meanwhile. */
bool rt_gpu_is_still(const struct rt_gpu_ptr *p);

/* Whether memory is this device's own: neither managed memory, which may be on the host, nor
 * another device's memory mapped in its context. */
bool rt_gpu_lies_on(const struct rt_gpu *g, const struct rt_gpu_ptr *p);

/* ---- life and devices: dev.c ---- */

/* Whether this process has loaded the driver; with `load`, loads it.  OLD: functions are missing;
 * only attributes of addresses can be queried, so that device memory is refused with an error and
 * not accessed.  Any thread. */
enum rt_gpu_driver { RT_GPU_DRIVER_NONE, RT_GPU_DRIVER_READY, RT_GPU_DRIVER_OLD };
enum rt_gpu_driver rt_gpu_driver(bool load);
/* Whether rt_gpu_init() would set rt_gpu_watch, by the settings and the machine.  Any thread. */
bool rt_gpu_possible(void);
void rt_gpu_init(void); /* sets rt_gpu_watch; costs an access(2) */
/* Called when something is set up that messages may use later: prepares the calling thread's
 * current context, if there is one, because that takes long and waits for the device (streams,
 * kernels).  A context that no such call has seen is prepared by its first message. */
void rt_gpu_prepare(void);
/* Memory of the device of the calling thread's current context, which other processes can map.
 * -RT_ENOTSUP: the thread has no context; -RT_ENOMEM, not logged; -RT_EGPU. */
int rt_gpu_take(size_t len, void **out);
void rt_gpu_give(void *p); /* freed later: the free waits for the device */
/* Waits for operations in progress and frees everything; tolerates that the application has
 * destroyed its contexts already. */
void rt_gpu_fini(void);
/* Makes g's context current when it is not.  Hand the answer to rt_gpu_leave(), on this thread:
 *     int in = rt_gpu_enter(g);
 *     if (in < 0)
 *         return in;
 *     ...
 *     rt_gpu_leave(in);
 * -RT_EGPU: not logged, because it may not matter, when the context is lost. */
int rt_gpu_enter(struct rt_gpu *g);
void rt_gpu_leave(int in);

/* Changes when a context is first used and when contexts have been released; a kept struct rt_gpu
 * is then invalid.  rt_gpu_next() lists those in use: NULL gives the first. */
extern uint32_t rt_gpu_era;
struct rt_gpu *rt_gpu_next(const struct rt_gpu *g);
struct rt_gpu_info {
    int ordinal;
    char name[64];
    uint8_t uuid[16];
    char pci[16]; /* "0000:18:00.0" */
    int major, minor, nsm;
    size_t mem_nbytes;
    bool unified_managed; /* the CPU may access managed memory while kernels run */
    bool exclusive;       /* compute mode: one process at a time */
    bool mps;             /* processes use it at the same time; without MPS, in turns */
};
const struct rt_gpu_info *rt_gpu_info(const struct rt_gpu *g);
/* Most blocks of a kernel, of which per_sm would run on each multiprocessor; the setting
 * gpu_multiprocessors limits it. */
unsigned rt_gpu_most_blocks(const struct rt_gpu *g, unsigned per_sm);
/* Opens the driver (loads it if needed) and returns the number of devices; 0 without a driver.  For
 * tools; the message path never loads the driver itself. */
int rt_gpu_count(void);
/* -RT_ENOENT: no such device; -RT_EGPU; both logged. */
int rt_gpu_describe(int ordinal, struct rt_gpu_info *out);
int rt_gpu_driver_version(void);  /* 13000 for CUDA 13.0; 0 without one */
const char *rt_gpu_why_not(void); /* why there is no driver or no device, as text for a user */
/* The device's primary context as struct rt_gpu, for tools and for memory without a context.
 * -RT_ENOENT, -RT_ENOMEM, -RT_EGPU, logged. */
int rt_gpu_primary(int ordinal, struct rt_gpu **out);
/* Several processes use this device: no polling kernel, because contexts take turns, and, without
 * MPS, copies within it of up to RT_GPU_BY_HOST bytes, or RT_GPU_BY_HOST_ALONE if no others wait,
 * go through pinned memory: bounce.c. */
void rt_gpu_set_shared(struct rt_gpu *g);
#define RT_GPU_BY_HOST (64u << 10)
#define RT_GPU_BY_HOST_ALONE (2u << 20)
#define RT_GPU_TURN_NS 140000u /* H200, driver 580; for predictions */
/* Whether one device can access the memory of another; ordinals of this process. */
bool rt_gpu_can_access(int ordinal, int peer);

/* ---- copies: copy.c ---- */

/* Embedded by the caller, lent until done(). */
struct rt_gpu_op {
    void (*done)(struct rt_gpu_op *op, int err); /* err: 0 or -RT_E..., logged */
    struct rt_list link;                         /* the rest is private to runtime/gpu */
    struct rt_gpu *g;
    void *dst;
    const void *src;
    size_t len;
    int err;
    bool near; /* a copy of rt_gpu_copy_near() */
};

/* Starts a copy between any two of: memory of g's device, memory of another device mapped in g's
 * context (rt_gpu_import), managed memory, pinned host memory.  Never blocks and never fails at
 * once.  Copies are not ordered among each other.  done() means that every stream, device and the
 * CPU sees the data. */
void rt_gpu_copy(struct rt_gpu *g, void *dst, const void *src, size_t len, struct rt_gpu_op *op);
/* The same for a copy from memory of any device into memory that lies on g's (rt_gpu_lies_on):
 * copies by kernels end sooner. */
void rt_gpu_copy_near(struct rt_gpu *g, void *dst, const void *src, size_t len,
                      struct rt_gpu_op *op);
/* The same for a copy that is to begin when `before`, an unfinished copy on the same device, has
 * ended: without the host, so that the link is not idle between the two.  False: nothing has
 * happened, because `before` is not with a copy engine, or this copy would not be. */
bool rt_gpu_copy_behind(struct rt_gpu *g, void *dst, const void *src, size_t len,
                        struct rt_gpu_op *op, const struct rt_gpu_op *before);
/* For a caller that starts copies one after another without rt_gpu_progress() in between: starts
 * those that wait if they are enough for a launch, which then run beside the caller. */
void rt_gpu_copies_more(struct rt_gpu *g);
/* The same as rt_gpu_copy(), complete on return, with any host memory; for calls that block anyway.
 * 0, -RT_EGPU, -RT_ENOMEM, logged. */
int rt_gpu_copy_now(struct rt_gpu *g, void *dst, const void *src, size_t len);
/* For a caller that waits for an operation: starts `op` with the values of rt_gpu_wait_begin();
 * rt_gpu_wait() returns the value that done() was given.  It calls rt_gpu_progress(): not from
 * inside a callback. */
struct rt_gpu_wait {
    struct rt_gpu_op op; /* first */
    bool done;
    int err;
};
void rt_gpu_wait_begin(struct rt_gpu_wait *w);
int rt_gpu_wait(struct rt_gpu_wait *w);
/* Starts a kernel of the embedded images on g's kernel stream; op as for a copy. */
enum rt_gpu_kernel {
    RT_GPU_BATCH,  /* move.cu: up to RT_GPU_BATCH_MAX copies at once */
    RT_GPU_LINGER, /* move.cu: polls a ring of copies */
    RT_GPU_PACK,   /* pack.cu */
    RT_GPU_UNPACK,
    RT_GPU_MEET,      /* meet.cu: stream_ops.c */
    RT_GPU_FOLD_BITS, /* fold.cu: copies and bitwise operations, of bytes */
    RT_GPU_FOLD_4,    /* integers and floats of 4 bytes, */
    RT_GPU_FOLD_8,    /* of 8 bytes */
    RT_GPU_FOLD_F16,
    RT_GPU_FOLD_BF16,
    RT_GPU_FOLD_1,     /* fold_rare.cu: integers of 1 byte, */
    RT_GPU_FOLD_2,     /* of 2 bytes, */
    RT_GPU_FOLD_WIDE8, /* products of complex numbers, and pairs */
    RT_GPU_FOLD_WIDE16,
    RT_GPU_ATOMIC, /* atomic.cu */
    RT_GPU_KERNELS
};
bool rt_gpu_has_kernels(struct rt_gpu *g); /* built with nvcc and loaded on this device */
void rt_gpu_launch(struct rt_gpu *g, enum rt_gpu_kernel k, unsigned grid, unsigned block,
                   const void *params, size_t nbytes, struct rt_gpu_op *op);

/* How a device is joined to others by NVLink (links.c); rows LINKS of cost.def. */
enum rt_gpu_links {
    RT_GPU_LINKS_UNKNOWN, /* planned for as a switch */
    RT_GPU_LINKS_NONE,
    RT_GPU_LINKS_SWITCH, /* all other devices share a device's links */
    RT_GPU_LINKS_DIRECT, /* each other device has links of its own */
};
extern const char *const rt_gpu_links_names[];
/* Asks each time, which takes some milliseconds; the driver must have been opened. */
enum rt_gpu_links rt_gpu_links_at(const struct rt_gpu_info *device);
enum rt_gpu_links rt_gpu_links(struct rt_gpu *g); /* asks once */
/* Whether copy engines copy to several devices at the same time (rows LINKS of cost.def). */
bool rt_gpu_links_are_direct(enum rt_gpu_links kind);
bool rt_gpu_links_direct(struct rt_gpu *g); /* those of g */

/* Set by the code that puts work on the application's streams: whether some of that work may now
 * wait for another process.  Then no call is made that waits for an idle device, because the device
 * might wait for what this process's host does next; deferred calls (gpu_int.h) stay deferred even
 * when memory runs out. */
extern bool (*rt_gpu_awaits)(void);

/* Closes unused mappings and frees unused memory of all devices.  Waits for the application's
 * kernels, so it is for callers that have no other way; does nothing where such a wait may last for
 * ever (rt_gpu_awaits).  Returns whether anything was done. */
bool rt_gpu_run_deferred(void);

extern int rt_gpu_nactive; /* operations in progress: threads that wait for one must not sleep */
int rt_gpu_progress_slow(void);
static inline int rt_gpu_progress(void)
{
    return rt_unlikely(rt_gpu_nactive) ? rt_gpu_progress_slow() : 0;
}

/* The cost model: which way a copy of this length goes, and its predicted time; for the choice
 * itself and for weft_info --paths. */
enum rt_gpu_way { RT_GPU_WAY_LINGER, RT_GPU_WAY_BATCH, RT_GPU_WAY_ENGINE, RT_GPU_WAYS };
/* PEER: from another device; PUT: to another device. */
enum rt_gpu_link {
    RT_GPU_LINK_LOCAL,
    RT_GPU_LINK_PEER,
    RT_GPU_LINK_HOST,
    RT_GPU_LINK_PUT,
    RT_GPU_LINKS
};
extern const char *const rt_gpu_way_names[RT_GPU_WAYS];
uint64_t rt_gpu_cost_ns(enum rt_gpu_way way, enum rt_gpu_link link, size_t len);
/* Which process copies a message of this length between two devices: RT_GPU_LINK_PEER, the receiver
 * reads; RT_GPU_LINK_PUT, the receiver asks the sender to write.  large_pages: into such memory. */
enum rt_gpu_link rt_gpu_side(size_t len, bool large_pages);
/* The fastest way.  linger: the polling kernel takes this copy; kernels: kernels may copy. */
enum rt_gpu_way rt_gpu_choose(enum rt_gpu_link link, size_t len, bool linger, bool kernels);

/* ---- reductions: fold.c ---- */

/* A reduction (kernel.h has the enums and the rule).  All pointers are usable by g as for
 * rt_gpu_copy(): its own memory, mapped memory of other devices, pinned host memory. */
struct rt_gpu_fold {
    uint8_t type, code; /* enum rt_gpu_type, enum rt_gpu_fold_code */
    uint8_t nsrc, ndst; /* 1 to RT_GPU_FOLD_PLACES */
    bool near;          /* all destinations lie on g (rt_gpu_lies_on): completes sooner */
    bool prefixes;      /* dst[j] gets the fold of src[0] to src[j] */
    size_t count;       /* elements */
    const void *src[16];
    void *dst[16];
};
/* Whether g has a kernel for this; the same on all devices of one generation. */
bool rt_gpu_can_fold(struct rt_gpu *g, unsigned type, unsigned code);
size_t rt_gpu_type_nbytes(unsigned type);
/* Starts it like rt_gpu_copy(); `f` is copied.  Not ordered with other operations.  done() means
 * that every stream, device and the CPU sees all destinations.  By the polling kernel or by a
 * launch, as the cost model decides. */
void rt_gpu_fold(struct rt_gpu *g, const struct rt_gpu_fold *f, struct rt_gpu_op *op);
/* The same as a kernel on a stream of the application in g's context, in order with the stream's
 * work.  Its end is not reported, and it may be captured.  -RT_ENOTSUP: no kernel; -RT_EGPU,
 * logged. */
int rt_gpu_fold_on(struct rt_gpu *g, void *stream, const struct rt_gpu_fold *f);

/* ---- atomic changes of elements: atomic.c ---- */

/* Parameters of weft_atomic, which kernel.h describes; type: an integer or a real number. */
struct rt_gpu_atomic {
    uint8_t type, code, given;
    /* `old` lies on g (rt_gpu_lies_on), or is 0 and the elements do: completes sooner.  What has
     * returned an old value has changed the element, on any device. */
    bool near;
    size_t count;
    uint64_t dst, table, src, compare, old;
};
/* Whether g can carry these out. */
bool rt_gpu_has_atomics(struct rt_gpu *g);
/* Whether changes by g of the memory at `at`, its own or mapped, are atomic with changes by the
 * device on which the memory lies. */
bool rt_gpu_atomics_reach(struct rt_gpu *g, const void *at);
/* Starts it like rt_gpu_fold(). */
void rt_gpu_atomic(struct rt_gpu *g, const struct rt_gpu_atomic *a, struct rt_gpu_op *op);

/* ---- staging memory: stage.c ---- */

/* A buffer from a pool: pinned host memory that every context of this process may address, or
 * device memory that can be exported. */
struct rt_gpu_stage {
    char *p;
    size_t len;
    struct rt_gpu *g; /* NULL: pinned host */
    struct rt_gpu_stage *next;
};
/* Bytes.  Buffers have one of these lengths, or a larger power of two.  Small: an eager message of
 * any transport; large: a piece long enough for the full rate of a link (NVLink 4). */
#define RT_GPU_STAGE_SMALL (32u << 10)
#define RT_GPU_STAGE_LARGE (4u << 20)
/* `g`: the context in use; where: host or device memory.  -RT_ENOMEM, logged with the consequence:
 * for these two lengths once, for larger ones at level info; -RT_EGPU. */
int rt_gpu_stage_take(struct rt_gpu *g, bool host, size_t nbytes, struct rt_gpu_stage **out);
void rt_gpu_stage_give(struct rt_gpu_stage *s);

/* ---- memory of other processes: ipc.c ---- */

enum rt_gpu_share { RT_GPU_SHARE_NONE, RT_GPU_SHARE_LEGACY, RT_GPU_SHARE_VMM };
/* Everything another process needs to map an allocation, except the descriptor, which travels over
 * a Unix socket. */
struct rt_gpu_export {
    uint8_t how; /* enum rt_gpu_share */
    uint8_t uuid[16];
    uint8_t handle[64];
    uint64_t base, len; /* in the exporter's address space */
};
/* For tools: memory of a kind that can be exported, on g's device; it exists until the process
 * ends.  -RT_ENOMEM, -RT_EGPU, logged. */
int rt_gpu_alloc(struct rt_gpu *g, enum rt_gpu_share how, size_t len, void **out);
/* *fd: a descriptor to send with it, which the caller closes, or -1.  -RT_ENOTSUP: this memory
 * cannot be exported; -RT_EGPU: the context is lost. */
int rt_gpu_export_mem(const struct rt_gpu_ptr *p, struct rt_gpu_export *out, int *fd);
struct rt_gpu_import; /* a mapping of another process's allocation */
/* Maps it for use by g's device (fd remains the caller's).  -RT_EUNREACH: the devices have no
 * access to each other; -RT_ENOTSUP: the driver refuses this memory; both are reported once, with
 * what happens instead.  -RT_EAGAIN: memory that has been freed there but is still mapped here lies
 * at the same address, and unmapping it could wait for the application's kernels; it may be mapped
 * later (rt_gpu_run_deferred()).  -RT_ENOMEM: the driver has no memory for it.
 * -RT_EGPU: g is lost.  Takes 3 to 4 ms. */
int rt_gpu_import(struct rt_gpu *g, const struct rt_gpu_export *e, int fd,
                  struct rt_gpu_import **out, void **base);
void rt_gpu_unimport(struct rt_gpu_import *m);
/* False when the context in which it was mapped has gone: then only rt_gpu_unimport() is
 * allowed. */
bool rt_gpu_import_alive(const struct rt_gpu_import *m);
/* Whether copies of g may use memory of another device of this process; enables its device's access
 * to the other's memory.  -RT_EUNREACH; -RT_EGPU. */
int rt_gpu_reach(struct rt_gpu *g, const struct rt_gpu_ptr *p);

/* ---- memory that other devices read and write: rdma.c ---- */

/* A descriptor of the device memory of whole pages around [start, start + len), for an adapter's
 * driver to map; the caller closes it. *off: offset of start in it.  From now on the driver's
 * copies of that allocation end before the calls that start them return, so that an adapter never
 * reads what a copy has yet to write.  -RT_ENOTSUP, not logged: not with this driver or this
 * memory; -RT_EGPU: the context is lost. */
int rt_gpu_dmabuf(const struct rt_gpu_ptr *p, uintptr_t start, size_t len, int *fd, size_t *off);
/* Only makes the driver's copies of the allocation end before the calls that start them return, for
 * memory that an adapter accesses in another way. */
void rt_gpu_sync_copies(const struct rt_gpu_ptr *p);

/* Whether p is host memory that the driver has pinned; if so, its allocation: kind, base, len, id;
 * nothing else of *out.  Costs a call of the driver, if this process has loaded it. */
bool rt_gpu_pinned(const void *p, struct rt_gpu_ptr *out);

/* What to do after an adapter has written to a GPU's memory, before that GPU is notified. */
enum rt_gpu_order {
    RT_GPU_ORDERED,  /* nothing */
    RT_GPU_FLUSH,    /* rt_gpu_flush_writes() */
    RT_GPU_READ_BACK /* the adapter must read something of that GPU's memory */
};
struct rt_gpu_rdma {
    bool rdma;   /* adapters may write to its memory at all */
    bool dmabuf; /* rt_gpu_dmabuf() */
    enum rt_gpu_order order;
};
/* False: there is no such device. */
bool rt_gpu_rdma_facts(int ordinal, struct rt_gpu_rdma *out);
int rt_gpu_flush_writes(struct rt_gpu *g); /* 0 or -RT_EGPU, logged */

#endif
