/* SPDX-License-Identifier: BSD-3-Clause */
/* The device of gpu_copy_test: gpu_copy_dev.h. */
#include "test/unit/gpu_copy_dev.h"
#include "runtime/base/cfg.h"
#include "test/check.h"

enum what { COPY, WRITE, RECORD, BATCH, LINGER, PACK, FOLD, ATOMIC, SET };
struct cu_function_st {
    enum rt_gpu_kernel k;
};
struct cu_event_st {
    bool recorded;
};
struct cu_graph_st {
    bool there;
};
struct cu_graph_exec_st {
    struct cu_kernel_node k;
    struct item *runs; /* in its stream */
    _Alignas(16) char params[sizeof(struct rt_gpu_batch)];
};
struct item {
    struct item *next;
    struct cu_graph_exec_st *exec;
    enum what what;
    char *dst;
    const char *src;
    size_t len;
    uint32_t value;
    struct cu_event_st *event;
    struct rt_gpu_batch batch;
    unsigned grid, step, nskipped; /* of a batch: blocks; done so far; blocks that were recalled */
    bool skips;                    /* the block that runs was */
    struct rt_gpu_pack pack;
    struct rt_gpu_linger linger;
    struct rt_gpu_fold_args fold;
    struct rt_gpu_atomic_args atomic;
};
struct cu_stream_st {
    int number;
    struct item *first, **last;
};

struct dev dev;
enum dev_graphs dev_graphs;
static struct cu_function_st fns[RT_GPU_KERNELS];
static struct cu_stream_st *streams[32];
static int nstreams, nbatches;
static struct rt_gpu gpu;
static char dummy;
static struct {
    char *p;
    size_t len;
    int device;
} mem[64];
static int nmem;
static struct rt_gpu_linger *lingering; /* the kernel's parameters while it runs */
static struct item *linger_item;
static uint32_t linger_next;
static bool is_full;

#define ANSWER \
    do { \
        if (dev.dead) \
            return dev.dead; \
    } while (0)

/* ---- streams ---- */

static struct item *push(cu_stream s, enum what what)
{
    struct item *i = calloc(1, sizeof *i);
    i->what = what;
    *s->last = i;
    s->last = &i->next;
    return i;
}

static void pop(struct cu_stream_st *s)
{
    struct item *i = s->first;
    s->first = i->next;
    if (!s->first)
        s->last = &s->first;
    if (i->exec)
        i->exec->runs = NULL;
    free(i);
}

static void store(uint64_t addr, uint32_t v)
{
    if (!dev.no_last_store)
        *(volatile uint32_t *)(uintptr_t)addr = v;
}

/* A block of a batch takes two steps: it counts itself, which shows whether it was recalled,
 * and copies or not.  False: all blocks have ended. */
static bool batch_step(struct item *item)
{
    const struct rt_gpu_batch *b = &item->batch;
    struct rt_gpu_line *line = (struct rt_gpu_line *)(uintptr_t)b->counter;
    unsigned block = item->step / 2;

    if (item->step++ % 2 == 0) {
        line->recall.started++;
        item->skips = line->recall.recalled == b->value;
        return true;
    }
    if (item->skips)
        ((struct rt_gpu_flag *)(uintptr_t)b->flag)->skipped = b->value;
    for (unsigned i = block; !item->skips && i < b->n; i += item->grid)
        memcpy((void *)(uintptr_t)b->move[i].dst, (void *)(uintptr_t)b->move[i].src,
               b->move[i].len);
    item->nskipped += item->skips;
    if (block + 1 < item->grid)
        return true;
    dev.nrecalled += item->nskipped > 0;
    dev.nparted += item->nskipped > 0 && item->nskipped < item->grid;
    CHECK_EQ(line->counter, 0);
    store(b->flag, b->value);
    nbatches--;
    return false;
}

/* Whatever the operation, the device only adds integers of 4 bytes, at any address. */
static void add(const uint64_t *src, unsigned nsrc, const uint64_t *dst, unsigned ndst, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t sum = 0, v;
        for (unsigned s = 0; s < nsrc; s++) {
            memcpy(&v, (const char *)(uintptr_t)src[s] + i * sizeof v, sizeof v);
            sum += v;
        }
        for (unsigned d = 0; d < ndst; d++)
            memcpy((char *)(uintptr_t)dst[d] + i * sizeof sum, &sum, sizeof sum);
    }
}

/* Of atomic changes the device only adds a given number to one integer of 4 bytes. */
static void change(uint64_t dst, uint64_t src, uint64_t old)
{
    uint32_t *p = (uint32_t *)(uintptr_t)dst;
    if (old)
        *(uint32_t *)(uintptr_t)old = *p;
    *p += (uint32_t)src;
}

static void change_in_ring(const struct rt_gpu_desc *d)
{
    CHECK_EQ(d->len, 4);
    CHECK_EQ(RT_GPU_RING_CODE(d->fold), RT_GPU_FOLD_SUM);
    CHECK_EQ(RT_GPU_RING_NSRC(d->fold), RT_GPU_GIVEN_SRC);
    change(d->dst, d->more[0], d->src);
    dev.nchanges++;
}

static void add_in_ring(const struct rt_gpu_desc *d)
{
    uint64_t place[RT_GPU_RING_PLACES] = { d->dst, d->src };
    unsigned nsrc = RT_GPU_RING_NSRC(d->fold);
    memcpy(place + 2, d->more, sizeof d->more);
    if (d->fold & RT_GPU_RING_FAR) {
        CHECK_EQ(d->seq_far, d->seq);
        CHECK_EQ(d->seq_far_too, d->seq);
        memcpy(place + RT_GPU_RING_NEAR, d->far, sizeof d->far);
    }
    add(place, nsrc, place + (RT_GPU_RING_SAME(d->fold) ? 0 : nsrc), RT_GPU_RING_NDST(d->fold),
        d->len / 4);
    dev.nfolds++;
}

static void do_item(struct item *i)
{
    switch (i->what) {
    case COPY:
        memcpy(i->dst, i->src, i->len);
        break;
    case SET:
        memset(i->dst, (int)i->value, i->len);
        break;
    case WRITE:
        store((uintptr_t)i->dst, i->value);
        break;
    case RECORD:
        i->event->recorded = true;
        break;
    case BATCH:
        while (batch_step(i) && !dev.by_steps)
            ;
        break;
    case PACK: /* moves len bytes and ends with its flag */
        if (i->pack.len)
            memcpy((void *)(uintptr_t)i->pack.packed, (void *)(uintptr_t)i->pack.user,
                   (size_t)i->pack.len);
        store(i->pack.flag, i->pack.value);
        break;
    case FOLD:
        add(i->fold.src, i->fold.nsrc, i->fold.dst, i->fold.ndst, i->fold.count);
        store(i->fold.flag, i->fold.value);
        break;
    case ATOMIC:
        change(i->atomic.dst, i->atomic.src, i->atomic.old);
        store(i->atomic.flag, i->atomic.value);
        break;
    case LINGER:
        break;
    }
}

bool dev_step(int n)
{
    struct cu_stream_st *s = streams[n];
    if (!s->first)
        return false;
    if (s->first->what != LINGER) {
        do_item(s->first);
        if (s->first->what != BATCH || s->first->step == 2u * s->first->grid)
            pop(s);
        return true;
    }
    if (lingering)
        return false;
    linger_item = s->first;
    lingering = &linger_item->linger;
    linger_next = lingering->next;
    CHECK_EQ(lingering->first.seq, linger_next);
    CHECK_EQ(lingering->first.seq_too, linger_next);
    struct rt_gpu_recall *word = (struct rt_gpu_recall *)(uintptr_t)lingering->recall;
    word->started++;
    if (word->recalled == lingering->launch) {
        dev.nrecalled++;
        dev_linger_leave();
    }
    return true;
}

int dev_nstreams(void) { return nstreams; }

void dev_run(void)
{
    for (bool any = true; any;) {
        any = false;
        for (int i = 0; i < nstreams; i++)
            while (dev_step(i))
                any = true;
    }
}

bool dev_linger(int n)
{
    for (int i = 0; i < nstreams; i++)
        if (streams[i]->first && streams[i]->first->what == LINGER)
            dev_step(i);
    if (!lingering)
        return false;
    struct rt_gpu_desc *ring = (struct rt_gpu_desc *)(uintptr_t)lingering->ring;
    struct rt_gpu_words *words = (struct rt_gpu_words *)(uintptr_t)lingering->words;
    for (; n > 0; n--, linger_next++) {
        const struct rt_gpu_desc *d = linger_next == lingering->next
                                          ? &lingering->first
                                          : &ring[linger_next % RT_GPU_RING_SLOTS];
        if (d->seq != linger_next || d->seq_too != linger_next)
            return true;
        dev.nnear += d->near != 0;
        if (RT_GPU_RING_KIND(d->fold) == RT_GPU_RING_ATOMIC)
            change_in_ring(d);
        else if (d->fold)
            add_in_ring(d);
        else
            memcpy((void *)(uintptr_t)d->dst, (void *)(uintptr_t)d->src, d->len);
        words->done = linger_next;
    }
    return true;
}

bool dev_linger_leave(void)
{
    if (!lingering)
        return false;
    if (!dev.no_last_store)
        ((struct rt_gpu_words *)(uintptr_t)lingering->words)->left = lingering->launch;
    lingering = NULL;
    for (int i = 0; i < nstreams; i++)
        if (streams[i]->first == linger_item)
            pop(streams[i]);
    return true;
}

void dev_settle(void)
{
    for (int i = 0; i < 10000 && rt_gpu_nactive; i++) {
        dev_run();
        dev_linger(100);
        rt_gpu_progress();
    }
    CHECK_EQ(rt_gpu_nactive, 0);
}

/* ---- the driver ---- */

static cu_result get_current(cu_ctx *c)
{
    dev.nenters++;
    *c = gpu.ctx;
    return CU_OK;
}

static cu_result priorities(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return CU_OK;
}

static cu_result stream_create(cu_stream *s, unsigned flags, int priority)
{
    ANSWER;
    CHECK_EQ(flags, CU_STREAM_NON_BLOCKING);
    CHECK_EQ(priority, -5);
    *s = calloc(1, sizeof **s);
    (*s)->number = nstreams;
    (*s)->last = &(*s)->first;
    streams[nstreams++] = *s;
    return CU_OK;
}

static cu_result stream_destroy(cu_stream s)
{
    CHECK(!s->first);
    return CU_OK;
}

static cu_result stream_query(cu_stream s)
{
    dev.nqueries++;
    ANSWER;
    return s->first ? CU_ERROR_NOT_READY : CU_OK;
}

static cu_result stream_synchronize(cu_stream s)
{
    ANSWER;
    while (s->first) {
        dev_step(s->number);
        if (lingering) {
            dev_linger(1000);
            dev_linger_leave();
        }
    }
    return CU_OK;
}

static cu_result write_value(cu_stream s, cu_ptr addr, uint32_t value, unsigned flags)
{
    ANSWER;
    if (dev.no_marks)
        return CU_ERROR_OUT_OF_MEMORY;
    CHECK_EQ(flags, 0);
    dev.nwrites++;
    struct item *i = push(s, WRITE);
    i->dst = (char *)(uintptr_t)addr;
    i->value = value;
    return CU_OK;
}

static cu_result memcpy_async(cu_ptr dst, cu_ptr src, size_t len, cu_stream s)
{
    ANSWER;
    if (dev.bad && (char *)(uintptr_t)dst == dev.bad)
        return CU_ERROR_INVALID_VALUE;
    if (s != gpu.now && dev.ncopies < (int)sizeof dev.where - 1)
        dev.where[dev.ncopies] = (char)('0' + s->number);
    dev.ncopies += s != gpu.now;
    struct item *i = push(s, COPY);
    i->dst = (char *)(uintptr_t)dst;
    i->src = (const char *)(uintptr_t)src;
    i->len = len;
    return CU_OK;
}

/* Counts as one copy. */
static cu_result memcpy_2d_async(const struct cu_copy2d *c, cu_stream s)
{
    CHECK(c->src_type == CU_MEMORY_UNIFIED && c->dst_type == CU_MEMORY_UNIFIED);
    CHECK(c->width > 0 && c->height > 1);
    CHECK(c->src_pitch >= c->width && c->dst_pitch >= c->width);
    cu_result r = CU_OK;
    for (size_t y = 0; y < c->height && r == CU_OK; y++)
        r = memcpy_async(c->dst_device + y * c->dst_pitch, c->src_device + y * c->src_pitch,
                         c->width, s);
    dev.ncopies -= (int)c->height - 1;
    dev.nrows++;
    return r;
}

static cu_result memset_async(cu_ptr p, unsigned char c, size_t n, cu_stream s)
{
    struct item *i = push(s, SET);
    i->dst = (char *)(uintptr_t)p;
    i->value = c;
    i->len = n;
    return CU_OK;
}

static cu_result launch_kernel(cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                               unsigned by, unsigned bz, unsigned shared, cu_stream s,
                               void **params, void **extra)
{
    ANSWER;
    if (f == dev.refuse_fn)
        return dev.refuse;
    CHECK(gx > 0 && gy == 1 && gz == 1 && bx > 0 && by == 1 && bz == 1 && !shared && !extra);
    dev.nlaunch[f->k]++;
    dev.nplain++;
    if (f->k == RT_GPU_BATCH) {
        const struct rt_gpu_batch *b = params[0];
        struct item *i = push(s, BATCH);
        memcpy(&i->batch, b, offsetof(struct rt_gpu_batch, move) + b->n * sizeof b->move[0]);
        dev.batch_n = b->n;
        dev.batch_near = b->near;
        dev.batch_grid = i->grid = gx;
        if (++nbatches > dev.longest)
            dev.longest = nbatches;
    } else if (f->k == RT_GPU_LINGER) {
        CHECK_EQ(bx, WEFT_LINGER_THREADS);
        dev.linger_grid = gx;
        dev.linger = push(s, LINGER)->linger = *(struct rt_gpu_linger *)params[0];
    } else if (f->k == RT_GPU_ATOMIC) {
        push(s, ATOMIC)->atomic = *(struct rt_gpu_atomic_args *)params[0];
    } else if (f->k >= RT_GPU_FOLD_BITS) {
        dev.fold_near = ((struct rt_gpu_fold_args *)params[0])->near;
        push(s, FOLD)->fold = *(struct rt_gpu_fold_args *)params[0];
    } else {
        push(s, PACK)->pack = *(struct rt_gpu_pack *)params[0];
    }
    return CU_OK;
}

/* Memory that is lost with its context: freed when the device is closed. */
static void *owned[64];
static int nowned;
static void *own(void *p)
{
    CHECK(nowned < 64);
    return owned[nowned++] = p;
}
static cu_result disown(void *p)
{
    int i = 0;
    while (i < nowned && owned[i] != p)
        i++;
    CHECK(i < nowned);
    owned[i] = owned[--nowned];
    free(p);
    return CU_OK;
}

/* ---- graphs: of one kernel, and each instance in one stream at a time ---- */

static struct cu_graph_st graph;
static cu_result graph_create(cu_graph *out, unsigned flags)
{
    CHECK(!flags && !graph.there);
    graph.there = true;
    *out = &graph;
    return CU_OK;
}

static cu_result graph_add(cu_graph_node *node, cu_graph g, const cu_graph_node *after,
                           size_t nafter, const struct cu_kernel_node *k)
{
    CHECK(g == &graph && !after && !nafter && k->f && k->params[0]);
    *node = (cu_graph_node)(void *)g;
    return CU_OK;
}

static cu_result graph_instantiate(cu_graph_exec *exec, cu_graph g, unsigned long long flags)
{
    CHECK(g == &graph && !flags);
    if (dev_graphs == DEV_FEW_GRAPHS && dev.ngraphs == 3)
        return CU_ERROR_OUT_OF_MEMORY;
    dev.ngraphs++;
    *exec = own(calloc(1, sizeof **exec));
    return CU_OK;
}

static cu_result graph_upload(cu_graph_exec exec, cu_stream s)
{
    CHECK(exec && s);
    return CU_OK;
}

static cu_result graph_set(cu_graph_exec exec, cu_graph_node node, const struct cu_kernel_node *k)
{
    static const size_t nbytes[RT_GPU_KERNELS] = {
        [RT_GPU_BATCH] = offsetof(struct rt_gpu_batch, move),
        [RT_GPU_LINGER] = sizeof(struct rt_gpu_linger),
        [RT_GPU_PACK] = sizeof(struct rt_gpu_pack),
        [RT_GPU_FOLD_BITS] = sizeof(struct rt_gpu_fold_args),
        [RT_GPU_FOLD_4] = sizeof(struct rt_gpu_fold_args),
        [RT_GPU_ATOMIC] = sizeof(struct rt_gpu_atomic_args),
    };
    ANSWER;
    CHECK(node == (cu_graph_node)(void *)&graph);
    if (dev.no_set == (int)k->f->k + 1)
        return CU_ERROR_NOT_SUPPORTED;
    exec->k = *k;
    size_t n = nbytes[k->f->k];
    if (k->f->k == RT_GPU_BATCH)
        n += ((struct rt_gpu_batch *)k->params[0])->n * sizeof(struct rt_gpu_move);
    CHECK(n > 0);
    memcpy(exec->params, k->params[0], n);
    return CU_OK;
}

static cu_result graph_launch(cu_graph_exec exec, cu_stream s)
{
    ANSWER;
    if (dev.no_set == -1)
        return CU_ERROR_NOT_SUPPORTED;
    CHECK(!exec->runs);
    void *params[] = { exec->params };
    const struct cu_kernel_node *k = &exec->k;
    cu_result r = launch_kernel(k->f, k->gx, k->gy, k->gz, k->bx, k->by, k->bz, k->shared_nbytes, s,
                                params, NULL);
    if (r != CU_OK)
        return r;
    dev.nplain--;
    for (exec->runs = s->first; exec->runs->next;)
        exec->runs = exec->runs->next;
    exec->runs->exec = exec;
    return CU_OK;
}

static cu_result exec_destroy(cu_graph_exec exec)
{
    CHECK(exec && !exec->runs);
    dev.ngraphs--;
    return disown(exec);
}

static cu_result graph_destroy(cu_graph g)
{
    CHECK(g == &graph && graph.there);
    graph.there = false;
    return CU_OK;
}

static cu_result event_create(cu_event *e, unsigned flags)
{
    CHECK_EQ(flags, CU_EVENT_DISABLE_TIMING);
    *e = own(calloc(1, sizeof **e));
    return CU_OK;
}
static cu_result event_record(cu_event e, cu_stream s)
{
    ANSWER;
    if (dev.no_marks)
        return CU_ERROR_OUT_OF_MEMORY;
    dev.nrecords++;
    e->recorded = false;
    push(s, RECORD)->event = e;
    return CU_OK;
}
static cu_result event_query(cu_event e)
{
    ANSWER;
    dev.nasked++;
    return e->recorded ? CU_OK : CU_ERROR_NOT_READY;
}
static cu_result event_destroy(cu_event e) { return disown(e); }

static cu_result pointer_attributes(unsigned n, int *attributes, void **values, cu_ptr p)
{
    int at = -1;
    dev.nplaces++;
    for (int i = 0; i < nmem; i++)
        if ((char *)(uintptr_t)p >= mem[i].p && (char *)(uintptr_t)p < mem[i].p + mem[i].len)
            at = i;
    for (unsigned i = 0; i < n; i++)
        *(int *)values[i] = attributes[i] == CU_PTR_DEVICE_ORDINAL ? (at < 0 ? -2 : mem[at].device)
                            : attributes[i] == CU_PTR_MEMORY_TYPE  ? (at < 0 ? 0 : 2)
                                                                   : 0;
    return CU_OK;
}

static cu_result host_alloc(void **p, size_t n, unsigned flags)
{
    CHECK_EQ(flags, CU_HOST_PORTABLE | CU_HOST_DEVICEMAP);
    if (posix_memalign(p, 4096, n))
        return CU_ERROR_OUT_OF_MEMORY;
    own(*p);
    return CU_OK;
}
static cu_result host_free(void *p) { return disown(p); }
static cu_result mem_alloc(cu_ptr *p, size_t n)
{
    void *v = NULL;
    if (is_full || posix_memalign(&v, 512, n))
        return CU_ERROR_OUT_OF_MEMORY;
    memset(v, 0x77, n);
    *p = (uintptr_t)own(v);
    return CU_OK;
}
static cu_result module_unload(cu_module module)
{
    CHECK(module == (cu_module)(void *)&dummy);
    return CU_OK;
}
static cu_result mem_free(cu_ptr p) { return disown((void *)(uintptr_t)p); }
static cu_result error_name(cu_result r, const char **t)
{
    *t = r ? "CUDA_ERROR_X" : "";
    return 0;
}

char *dev_mem(int device, size_t nbytes)
{
    /* Places are distinguished by granules of 2 MiB. */
    size_t granule = 2u << 20, room = (nbytes + granule - 1) & ~(granule - 1);
    void *v = NULL;
    if (posix_memalign(&v, granule, room))
        abort();
    if (device >= 0) {
        mem[nmem].p = v;
        mem[nmem].len = room;
        mem[nmem++].device = device;
    }
    return v;
}

struct rt_gpu *dev_open_full(void)
{
    is_full = true;
    struct rt_gpu *g = dev_open(true, true);
    is_full = false;
    return g;
}

struct rt_gpu *dev_open(bool kernels, bool writes)
{
    memset(&dev, 0, sizeof dev);
    memset(&gpu, 0, sizeof gpu);
    gpu.info.nsm = 132;
    nstreams = nbatches = 0;
    cfg.gpu_linger_us = 200;
    rt_cuda = (struct rt_cuda){ .ctx_get_current = get_current,
                                .ctx_get_stream_priority_range = priorities,
                                .stream_create_with_priority = stream_create,
                                .stream_destroy = stream_destroy,
                                .stream_query = stream_query,
                                .stream_synchronize = stream_synchronize,
                                .stream_write_value32 = write_value,
                                .memcpy_async = memcpy_async,
                                .memcpy_2d_async = memcpy_2d_async,
                                .memset_d8_async = memset_async,
                                .launch_kernel = launch_kernel,
                                .event_create = event_create,
                                .event_record = event_record,
                                .event_query = event_query,
                                .event_destroy = event_destroy,
                                .pointer_get_attributes = pointer_attributes,
                                .mem_host_alloc = host_alloc,
                                .mem_free_host = host_free,
                                .mem_alloc = mem_alloc,
                                .mem_free = mem_free,
                                .module_unload = module_unload,
                                .get_error_name = error_name,
                                .get_error_string = error_name,
                                .graph_create = graph_create,
                                .graph_add_kernel = graph_add,
                                .graph_instantiate = graph_instantiate,
                                .graph_upload = graph_upload,
                                .graph_set_kernel = graph_set,
                                .graph_exec_destroy = exec_destroy,
                                .graph_launch = dev_graphs == DEV_NO_GRAPHS ? NULL : graph_launch,
                                .graph_destroy = graph_destroy };
    graph.there = false;
    gpu.ctx = (cu_ctx)(void *)&dummy;
    gpu.stream_writes = writes;
    gpu.near_fence = true;
    for (int i = 0; i < RT_GPU_ENGINES; i++) /* numbers 0 to 3 */
        stream_create(&gpu.engine[i], CU_STREAM_NON_BLOCKING, -5);
    stream_create(&gpu.now, CU_STREAM_NON_BLOCKING, -5); /* DEV_NOW */
    stream_create(&gpu.kernels, CU_STREAM_NON_BLOCKING, -5);
    for (int k = 0; kernels && k < RT_GPU_KERNELS; k++)
        fns[k].k = (enum rt_gpu_kernel)k, gpu.fn[k] = &fns[k];
    rt_gpu_stage_init(&gpu);
    rt_list_init(&gpu.deferred.calls);
    gpu.info.mem_nbytes = (size_t)1 << 40;
    gpu.module[0] = kernels ? (cu_module)(void *)&dummy : NULL;
    CHECK_EQ(rt_gpu_move_init(&gpu), 0);
    return &gpu;
}

void dev_close(struct rt_gpu *g)
{
    rt_gpu_move_fini(g);
    rt_gpu_stage_fini(g);
    CHECK(!g->move);
    for (int i = 0; i < nstreams; i++) {
        while (streams[i]->first)
            pop(streams[i]);
        free(streams[i]);
    }
    for (int i = 0; i < nmem; i++)
        free(mem[i].p);
    while (nowned)
        free(owned[--nowned]);
    nstreams = nmem = 0;
    lingering = NULL;
}
