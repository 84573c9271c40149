/* SPDX-License-Identifier: BSD-3-Clause */
/* GPU functions for test programs, the same over the real driver and the fake one: memory of every
 * kind, its contents written and compared from the host, devices by rank, skipping with a reason.
 * Byte i of a buffer's contents depends on its key and i alone, so the receiver knows what the
 * sender wrote.  Each buffer has guards on both sides that must not be written.  A failure of the
 * driver itself ends the program: it is never under test here. */
#ifndef TEST_GPU_GPUTEST_H
#define TEST_GPU_GPUTEST_H

#include "test/gpu/cuda_more.h"

struct gt_cuda {
    CU_FUNCTIONS(CU_FIELD_OF_TEST, CU_FIELD_OF_TEST)
    CU_MORE_FUNCTIONS(CU_FIELD_OF_TEST)
};
extern struct gt_cuda cu;

enum gt_kind {
    GT_HOST,
    GT_PINNED,
    GT_MANAGED,
    GT_CUDA, /* cuMemAlloc */
    GT_VMM,  /* cuMemCreate, may be exported */
    GT_POOL, /* from a pool that the driver could export */
    GT_KINDS,
    GT_VMM_OWN = GT_KINDS, /* may not be exported */
    GT_VMM_PARTS,          /* several consecutive mappings of 2 MiB, may be exported */
    GT_POOL_OWN,           /* cuMemAllocAsync */
    GT_REGISTERED,         /* host memory, registered after its allocation */
    GT_ALL_KINDS
};
extern const char *const gt_kind_names[GT_ALL_KINDS];

/* Opens and initialises the driver; returns NULL, or why there is no driver or device. */
const char *gt_open(void);
/* The same at the start of main().  Ends the program with 77 and the reason on standard output if
 * there are fewer devices than `devices` or than GT_DEVICES in the environment; or if
 * FAKE_CUDA_FAIL injects only the failure of a kernel and there are no kernels. */
void gt_need(int devices);
int gt_ndevices(void);
bool gt_is_fake(void);
/* Whether the library has kernels for its devices; without them the host does their work. */
bool gt_kernels(void);
/* Makes the primary context of a device current. */
void gt_use(int dev);
cu_ctx gt_ctx(int dev);

/* A buffer of n bytes (may be 0) at an address that is `odd` more than a multiple of 512. */
unsigned char *gt_alloc(enum gt_kind kind, int dev, size_t n, unsigned odd);
void gt_free(unsigned char *p);
bool gt_guards_intact(const unsigned char *p);
bool gt_is_device_kind(enum gt_kind kind); /* the CPU must not access it */
/* The same, but returns 0 if there is no memory. */
unsigned char *gt_try_alloc(enum gt_kind kind, int dev, size_t n, unsigned odd);

/* For any memory and alignment; complete on return, for every stream. */
void gt_write(void *p, const void *host, size_t n);
void gt_read(void *host, const void *p, size_t n);
void gt_set(void *p, int byte, size_t n);
/* Writes the contents of a key from its byte `from` on. */
void gt_fill(void *p, size_t n, uint64_t key);
void gt_fill_from(void *p, size_t n, uint64_t key, size_t from);
/* The first byte that differs from the key's; n if there is none. */
size_t gt_differs(const void *p, size_t n, uint64_t key);
size_t gt_differs_from(const void *p, size_t n, uint64_t key, size_t from);
/* The first byte that is not `byte`, or n. */
size_t gt_unlike(const void *p, size_t n, int byte);
#define GT_POISON 0xee
unsigned char gt_byte(size_t i, uint64_t key);

#define GT_CHECK_DATA(p, n, key) \
    do { \
        size_t gt_n = (n), gt_at = gt_differs((p), gt_n, (key)); \
        CHECK_MSG(gt_at == gt_n, "byte %zu of %zu is wrong (key %llu)", gt_at, gt_n, \
                  (unsigned long long)(key)); \
    } while (0)

#endif
