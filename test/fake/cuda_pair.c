/* SPDX-License-Identifier: BSD-3-Clause */
/* Two processes with btl/cuda between them. */
#include "test/fake/cuda_pair.h"
#include "btl/all/all.h"
#include "btl/cuda/cuda.h"
#include "runtime/base/cfg.h"
#include "runtime/base/err.h"
#include "test/fake/btl_pair.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIMEOUT_S 60 /* a real driver takes seconds to start */
#define GRANULE ((size_t)2 << 20)

const char *const mem_names[MEM_HOWS] = { "cuMemAlloc", "VMM",          "VMM not exportable",
                                          "pool",       "default pool", "managed" };
struct cuda_app cu;
struct cuda_pair_words *words;
struct btl *tp;
struct btl_peer *peer;
int ncalls_open, ncalls_close, ncalls_fd;
bool room_for_mappings = true;
int ndevices;
bool is_fake;
static cu_pool pools[16]; /* that the driver could export, by device */

static cu_result count_open(cu_ptr *p, struct cu_ipc h, unsigned flags)
{
    if (!room_for_mappings)
        return CU_ERROR_OUT_OF_MEMORY;
    ncalls_open++;
    return cu.ipc_open_mem_handle(p, h, flags);
}

static cu_result count_import(cu_handle *h, void *fd, int type)
{
    ncalls_open++;
    return cu.mem_import_from_shareable_handle(h, fd, type);
}

static cu_result count_close(cu_ptr p)
{
    ncalls_close++;
    return cu.ipc_close_mem_handle(p);
}

static cu_result count_unmap(cu_ptr p, size_t len)
{
    ncalls_close++;
    return cu.mem_unmap(p, len);
}

static cu_result count_fd(void *fd, cu_handle h, int type, unsigned long long flags)
{
    ncalls_fd++;
    return cu.mem_export_to_shareable_handle(fd, h, type, flags);
}

static int load(void)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW);

    if (!lib)
        printf("# %s\n", dlerror());
    if (!lib)
        return -1;
#define FIND(field, symbol, params) \
    *(void **)&cu.field = dlsym(lib, #symbol); \
    if (!cu.field) \
        return -1;
    CU_FUNCTIONS(FIND, FIND)
    CU_MORE_FUNCTIONS(FIND)
#undef FIND
    if (rt_cuda_open(false) < 0)
        return -1;
    rt_cuda.ipc_open_mem_handle = count_open;
    rt_cuda.mem_import_from_shareable_handle = count_import;
    rt_cuda.ipc_close_mem_handle = count_close;
    rt_cuda.mem_unmap = count_unmap;
    rt_cuda.mem_export_to_shareable_handle = count_fd;
    return 0;
}

/* In a child process, because a driver that has started does not survive fork(). */
static int look(void)
{
    char name[64] = "";
    int n = 0;

    if (load() < 0 || cu.init(0) != CU_OK || cu.device_get_count(&n) != CU_OK || n < 1 ||
        cu.device_get_name(name, sizeof name, 0) != CU_OK)
        return 0;
    return (n < 16 ? n : 15) | (strncmp(name, "Fake", 4) ? 0 : 16);
}

void pair_look(void)
{
    int st = 0;
    pid_t pid = fork();

    if (pid == 0)
        _exit(look());
    waitpid(pid, &st, 0);
    ndevices = WIFEXITED(st) ? WEXITSTATUS(st) & 15 : 0;
    is_fake = WIFEXITED(st) && (WEXITSTATUS(st) & 16);
    if (!ndevices) {
        printf("1..0 # SKIP no CUDA driver or no device\n");
        exit(77);
    }
}

int pair_run(const char *name, int (*fn)(int rank, void *arg), void *arg)
{
    words = mmap(NULL, sizeof *words, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (words == MAP_FAILED)
        return 1;
    int rc = fake_run_ranks(name, 2, fn, arg, TIMEOUT_S);
    munmap(words, sizeof *words);
    return rc;
}

int pair_open(int rank)
{
    static const struct btl_up up;
    struct rt_proc other = { 0, (uint32_t)!rank };

    rt_gpu_init();
    if (rt_node_open(btl_node_pair_nbytes()) < 0)
        return -1;
    rt_node.settled = true; /* a rank that is late maps the same segment */
    if (btl_cuda_ops.open(&up, &tp, 1) != 1 || btl_check(tp) < 0)
        return -1;
    return tp->ops->add_peer(tp, &other, NULL, 0, &peer);
}

int pair_start(int rank, int dev)
{
    cu_ctx c;
    cu_device d;

    rt_cfg_set("gpu", "on", RT_CFG_CMD);
    if (load() < 0 || cu.init(0) != CU_OK || cu.device_get(&d, dev % ndevices) != CU_OK ||
        cu.primary_ctx_retain(&c, d) != CU_OK || cu.ctx_set_current(c) != CU_OK)
        return -1;
    return pair_open(rank);
}

void pair_end(void)
{
    tp->ops->del_peer(peer);
    tp->ops->close(tp);
    rt_gpu_fini();
    rt_node_close();
}

void meet(int rank)
{
    uint32_t n = __atomic_add_fetch(&words->step[rank], 1, __ATOMIC_ACQ_REL);

    while (rt_load_acquire(&words->step[!rank]) < n) {
        if (tp)
            tp->ops->progress(tp);
        usleep(50);
    }
    if (tp)
        tp->ops->progress(tp);
}

/* ---- memory ---- */

static bool vmm_make(int dev, size_t len, int types, cu_ptr *p)
{
    struct cu_alloc_prop prop = { .type = CU_ALLOCATION_PINNED,
                                  .handle_types = types,
                                  .location = { CU_LOCATION_DEVICE, dev } };
    struct cu_access a = { { CU_LOCATION_DEVICE, dev }, CU_ACCESS_READWRITE };
    cu_handle h;
    bool good = cu.mem_create(&h, len, &prop, 0) == CU_OK &&
                cu.mem_address_reserve(p, len, 0, 0, 0) == CU_OK &&
                cu.mem_map(*p, len, 0, h, 0) == CU_OK && cu.mem_set_access(*p, len, &a, 1) == CU_OK;

    return good && cu.mem_release(h) == CU_OK;
}

static bool pool_make(int dev, size_t len, bool own, cu_ptr *p)
{
    struct cu_pool_props props = { .type = CU_ALLOCATION_PINNED,
                                   .handle_types = CU_HANDLE_POSIX_FD,
                                   .location = { CU_LOCATION_DEVICE, dev } };

    if (own && !pools[dev] && cu.pool_create(&pools[dev], &props) != CU_OK)
        return false;
    cu_result r = own ? cu.mem_alloc_from_pool_async(p, len, pools[dev], NULL)
                      : cu.mem_alloc_async(p, len, NULL);
    return r == CU_OK && cu.stream_synchronize(NULL) == CU_OK;
}

static size_t granules(size_t len) { return (len + GRANULE - 1) / GRANULE * GRANULE; }

cu_ptr mem_make(enum mem_how how, int dev, size_t len)
{
    cu_ptr p = 0;
    bool good = false;

    dev %= ndevices;

    if (how == LEGACY)
        good = cu.mem_alloc(&p, len) == CU_OK;
    else if (how == VMM || how == VMM_OWN)
        good = vmm_make(dev, granules(len), how == VMM ? CU_HANDLE_POSIX_FD : 0, &p);
    else if (how == POOL || how == POOL_OWN)
        good = pool_make(dev, len, how == POOL, &p);
    else
        good = cu.mem_alloc_managed(&p, len, CU_MEM_ATTACH_GLOBAL) == CU_OK;
    if (!good)
        printf("# no memory of kind %s\n", mem_names[how]);
    return good ? p : 0;
}

void mem_free(enum mem_how how, cu_ptr p, size_t len)
{
    if (how == LEGACY || how == MANAGED) {
        cu.mem_free(p);
    } else if (how == POOL || how == POOL_OWN) {
        cu.mem_free_async(p, NULL);
        cu.stream_synchronize(NULL);
    } else {
        cu.mem_unmap(p, granules(len));
        cu.mem_address_free(p, granules(len));
    }
}

static unsigned char pattern(unsigned seed, size_t i)
{
    return (unsigned char)((i + seed) * 2654435761u >> 13 ^ seed);
}

void mem_fill(cu_ptr p, size_t len, unsigned seed)
{
    unsigned char *host = malloc(len);
    for (size_t i = 0; i < len; i++)
        host[i] = pattern(seed, i);
    cu.memcpy_now(p, (cu_ptr)(uintptr_t)host, len);
    free(host);
}

static unsigned char *copy_of(cu_ptr p, size_t len)
{
    unsigned char *host = malloc(len ? len : 1);
    memset(host, 0xee, len);
    cu.memcpy_now((cu_ptr)(uintptr_t)host, p, len);
    return host;
}

bool mem_is(cu_ptr p, size_t len, unsigned seed)
{
    unsigned char *host = copy_of(p, len);
    bool good = true;
    for (size_t i = 0; i < len && good; i++)
        good = host[i] == pattern(seed, i);
    free(host);
    return good;
}

bool mem_all(cu_ptr p, size_t len, unsigned char c)
{
    unsigned char *host = copy_of(p, len);
    bool good = true;
    for (size_t i = 0; i < len && good; i++)
        good = host[i] == c;
    free(host);
    return good;
}

/* ---- keys and copies ---- */

int give_key(cu_ptr p, size_t len, int k, struct btl_mem **m)
{
    struct rt_gpu_ptr at;
    int err = rt_gpu_query((void *)(uintptr_t)p, len, &at);

    if (err == 0)
        err = tp->ops->mem_reg(tp, (void *)(uintptr_t)p, len, &at, m);
    if (err < 0)
        return err;
    err = tp->ops->mem_offer(peer, *m);
    if (err == 0)
        err = tp->ops->mem_key(*m, words->key[k]);
    if (err < 0)
        tp->ops->mem_dereg(*m);
    return err;
}

struct waited {
    struct btl_op op;
    int calls, err;
};

static void waited_done(struct btl_op *op, int err)
{
    ((struct waited *)op)->calls++;
    ((struct waited *)op)->err = err;
}

int get_now(struct btl_rmem *r, size_t off, cu_ptr dst, size_t len)
{
    struct waited w = { .op = { waited_done } };
    int err = tp->ops->get(r, off, NULL, (void *)(uintptr_t)dst, len, &w.op);

    while (err == 0 && !w.calls)
        rt_gpu_progress();
    return err ? err : w.err;
}

int put_now(struct btl_rmem *r, size_t off, cu_ptr src, size_t len)
{
    struct waited w = { .op = { waited_done } };
    int err = tp->ops->put(r, off, NULL, (void *)(uintptr_t)src, len, &w.op);

    while (err == 0 && !w.calls)
        rt_gpu_progress();
    return err ? err : w.err;
}
