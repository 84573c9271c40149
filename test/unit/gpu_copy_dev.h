/* SPDX-License-Identifier: BSD-3-Clause */
/* A device for tests of runtime/gpu/copy.c: the driver's functions over ordinary memory, with
 * streams that advance only when the test lets them, and the two kernels of move.cu. */
#ifndef TEST_UNIT_GPU_COPY_DEV_H
#define TEST_UNIT_GPU_COPY_DEV_H

#include "runtime/gpu/gpu.h"
#include "runtime/gpu/move_state.h"

struct dev {
    int nlaunch[RT_GPU_KERNELS];                               /* kernels launched, */
    int ncopies, nwrites, nrecords, nqueries, nasked, nenters; /* other calls since dev_open() */
    int nplaces;                                               /* queries of an address */
    int nrows;      /* of the copies, those of several rows */
    int longest;    /* most batches in streams at the same time */
    int nplain;     /* launches by cuLaunchKernel, */
    int ngraphs;    /* existing instances of graphs */
    int no_set;     /* a kernel's number + 1: no graph may be set to it; -1: none can be launched */
    size_t batch_n; /* copies of the last batch */
    bool batch_near, fold_near; /* whether it was marked as near; whether the last reduction was */
    unsigned batch_grid, linger_grid;
    int nfolds;                       /* reductions in the ring */
    int nchanges;                     /* atomic changes in the ring */
    int nrecalled;                    /* recalled kernels */
    int nparted;                      /* batches of which only some blocks were recalled */
    int nnear;                        /* descriptors in the ring that are marked as near */
    struct rt_gpu_linger linger;      /* parameters of the last launch of weft_linger */
    struct cu_function_st *refuse_fn; /* launches of this function return `refuse` */
    cu_result refuse;
    const void *bad;    /* copies to this address are refused with CU_ERROR_INVALID_VALUE */
    cu_result dead;     /* result of every call after the context has failed */
    bool no_marks;      /* stream writes and event records are refused */
    bool by_steps;      /* dev_step() is a third of what a block of a batch does */
    bool no_last_store; /* kernels and stream writes do not store their word */
    char where[64];     /* streams of the copies by copy engines, one digit each */
};
extern struct dev dev;
/* Functions for graphs: all exist; the driver has memory for three instances; one is missing. */
extern enum dev_graphs { DEV_GRAPHS, DEV_FEW_GRAPHS, DEV_NO_GRAPHS } dev_graphs;

/* Opens a context with kernels and stream writes; its copies are initialised. */
struct rt_gpu *dev_open(bool kernels, bool writes);
struct rt_gpu *dev_open_full(void); /* with kernels, but without free device memory */
void dev_close(struct rt_gpu *g);
/* Memory of the device itself (0) or of another device (1); at most 7 of each. */
char *dev_mem(int device, size_t nbytes);
#define DEV_NOW RT_GPU_ENGINES /* number of rt_gpu.now; lower ones are the copy engines' */
/* Lets stream number s execute its next operation; false: it has none. */
bool dev_step(int s);
void dev_run(void); /* runs all streams until they are empty or hold only the polling kernel */
int dev_nstreams(void);
/* The polling kernel takes up to n descriptors; false: it is not running. */
bool dev_linger(int n);
bool dev_linger_leave(void);
void dev_settle(void); /* device and progress, until nothing is in progress */

#endif
