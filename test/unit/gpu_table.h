/* SPDX-License-Identifier: BSD-3-Clause */
/* A CUDA driver of a few tables, for unit tests of runtime/gpu that need every error: contexts,
 * allocations and what is said of addresses.  Device memory is ordinary memory.  dlopen() and
 * dlsym() of the library find it (linked with --wrap), as do calls of copy.c and images.c, which
 * have tests of their own.  test/fake/gpu is the other one: a real library, for whole programs. */
#ifndef TEST_UNIT_GPU_TABLE_H
#define TEST_UNIT_GPU_TABLE_H

#include "runtime/gpu/gpu_int.h"

struct cu_ctx_st {
    bool alive;
    int device;
};

/* What the driver says of the addresses from base on. */
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
    const char *missing;      /* a function that the library has not */
    int version, ndevices;
    int major;                /* of the devices' compute capability */
    const char *files;        /* names of those that access() finds, each with a space behind; NULL:
                               * those of this machine */
    cu_result init, ask;      /* answers of cuInit, cuPointerGetAttributes when not CU_OK */
    int newest;               /* newest attribute that is known */
    bool stream_writes;
    const char *fail;         /* the function that fails, by its field in struct rt_cuda, */
    int fail_at;              /* at this call of it from now, 1 the next; 0: never */
    cu_result fail_with;
    bool can_access;

    int mode, need_mode;      /* of captures; streams are made and given back in need_mode alone */
    int nexchanges;
    int ndlopen, nask;        /* calls; any thread */
    int nalloc, nhost, nstreams; /* live */
    int nmoves, nimages;      /* live, of copy.c and images.c */
    int retained[4];          /* references of the primary contexts */
    int depth;                /* contexts pushed */
    cu_ctx current;
    struct cu_ctx_st primary[4], own[4];
    struct region regions[64];
    int nregions;
    uint64_t next_id;
};
extern struct table table;

/* Everything as at the start: loaded, initialised, two devices, nothing allocated; the library has
 * been through rt_gpu_fini() and rt_gpu_init(). */
void table_reset(void);
/* Adds a description; the caller changes it as needed. */
struct region *table_add(const void *base, size_t len, cu_ctx ctx, int ordinal);
void table_remove(const void *base);
/* Destroys a context with its memory; its address may be used again by setting alive. */
void table_destroy(cu_ctx ctx);
/* Makes contexts be looked at after seconds again, or each time. */
void table_believe(bool long_time);

#endif
