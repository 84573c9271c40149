/* SPDX-License-Identifier: BSD-3-Clause */
/* Two processes with btl/cuda between them, over the libcuda.so.1 that is found: memory of every
 * kind, data to compare, keys passed in shared memory. */
#ifndef TEST_FAKE_CUDA_PAIR_H
#define TEST_FAKE_CUDA_PAIR_H

#include "btl/btl.h"
#include "runtime/gpu/gpu.h"
#include "runtime/gpu/gpu_int.h"
#include "test/gpu/cuda_more.h"

/* OWN: the driver could not export it. */
enum mem_how { LEGACY, VMM, VMM_OWN, POOL, POOL_OWN, MANAGED, MEM_HOWS };
#define EXPORTABLE(how) ((how) == LEGACY || (how) == VMM)
extern const char *const mem_names[MEM_HOWS];

#define CU_FIELD(field, symbol, params) cu_result(*field) params;
struct cuda_app { /* driver functions for the application's part */
    CU_FUNCTIONS(CU_FIELD, CU_FIELD)
    CU_MORE_FUNCTIONS(CU_FIELD)
};
#undef CU_FIELD
extern struct cuda_app cu;

#define KEYS 64
struct cuda_pair_words { /* shared by the two processes */
    uint32_t step[2];
    int32_t seen[8];
    char key[KEYS][BTL_KEY_MAX];
};
extern struct cuda_pair_words *words;
extern struct btl *tp;
extern struct btl_peer *peer;
/* The library's calls of the driver: mappings made and closed, descriptors. */
extern int ncalls_open, ncalls_close, ncalls_fd;
extern bool room_for_mappings; /* false: the driver has no memory for another mapping */

/* Over a real driver a case that needs two devices, or the fake driver, has to check this.  Devices
 * are numbered modulo ndevices everywhere. */
extern int ndevices;
extern bool is_fake;
void pair_look(void); /* call it first; without a driver or a device the program is skipped */
/* Runs fn as ranks 0 and 1; returns 0 or the result of fake_run_ranks(). */
int pair_run(const char *name, int (*fn)(int rank, void *arg), void *arg);
/* In each process: starts the driver with cuInit, device `dev` current, the node segment, the
 * transport, the peer. */
int pair_start(int rank, int dev);
int pair_open(int rank); /* the last two only */
void pair_end(void);
/* Waits until both have come here; keeps calling progress. */
void meet(int rank);

cu_ptr mem_make(enum mem_how how, int dev, size_t len);
void mem_free(enum mem_how how, cu_ptr p, size_t len);
void mem_fill(cu_ptr p, size_t len, unsigned seed); /* the data depend on the seed */
bool mem_is(cu_ptr p, size_t len, unsigned seed);
bool mem_all(cu_ptr p, size_t len, unsigned char c);

/* mem_reg, mem_offer, mem_key into words->key[k]; the first error. */
int give_key(cu_ptr p, size_t len, int k, struct btl_mem **m);
int get_now(struct btl_rmem *r, size_t off, cu_ptr dst, size_t len);
int put_now(struct btl_rmem *r, size_t off, cu_ptr src, size_t len);

#endif
