/* SPDX-License-Identifier: BSD-3-Clause */
/* A table-driven CUDA driver, for unit tests of runtime/gpu that need every error: contexts,
 * allocations and the attributes of addresses.  Device memory is ordinary memory.  The library's
 * dlopen() and dlsym() find it (linked with --wrap), and so do calls of copy.c and images.c, which
 * have their own tests.  The other fake driver, test/fake/gpu, is a real library, for whole
 * programs. */
#ifndef TEST_UNIT_GPU_TABLE_H
#define TEST_UNIT_GPU_TABLE_H

#include "runtime/gpu/gpu.h"
#include "runtime/gpu/gpu_int.h"

struct cu_ctx_st {
    bool alive;
    int device;
};

/* The driver's attributes of the addresses from base on. */
struct region {
    cu_ptr base, start, mapping; /* start and len: the range attributes */
    size_t extent, len, mapping_len;
    uint32_t type, managed, legacy, mapped;
    int ordinal;
    cu_ctx ctx;
    cu_pool pool;
    uint64_t id, block_id;
};

enum table_library { TABLE_ABSENT, TABLE_ON_DISK, TABLE_LOADED };
struct table {
    enum table_library library;
    const char *missing; /* a function that the library does not have */
    int version, ndevices;
    int major;           /* of the devices' compute capability */
    const char *files;   /* names that access() finds, each followed by a space; NULL: those of
                            this machine */
    cu_result init, ask; /* results of cuInit, cuPointerGetAttributes if not CU_OK */
    int newest;          /* newest attribute that the driver knows */
    bool stream_writes;
    const char *fail; /* the function that fails, by its field in struct rt_cuda, */
    int fail_at;      /* at the n-th call from now, 1 is the next; 0: never */
    cu_result fail_with;
    bool can_access;

    int mode, need_mode; /* of captures; streams are created and destroyed only in need_mode */
    int nexchanges;
    int ndlopen, nask;           /* numbers of calls; any thread */
    unsigned nattributes;        /* asked by the last call */
    int nalloc, nhost, nstreams; /* live */
    int nmoves, nimages;         /* live, of copy.c and images.c */
    int retained[4];             /* references of the primary contexts */
    int depth;                   /* contexts pushed */
    cu_ctx current;
    struct cu_ctx_st primary[4], own[4];
    struct region regions[64];
    int nregions;
    uint64_t next_id;
};
extern struct table table;

/* Resets everything: loaded, initialised, two devices, nothing allocated; the library has been
 * through rt_gpu_fini() and rt_gpu_init(). */
void table_reset(void);
/* Adds a description; the caller changes it as needed. */
struct region *table_add(const void *base, size_t len, cu_ctx ctx, int ordinal);
void table_remove(const void *base);
/* Destroys a context with its memory; setting alive makes its address usable again. */
void table_destroy(cu_ctx ctx);
/* Contexts are checked again after seconds (true), or each time. */
void table_believe(bool long_time);

#endif
