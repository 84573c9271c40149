/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RT_BASE_MEMKIND_H
#define RT_BASE_MEMKIND_H

/* Kinds of memory of a buffer.  A transport's caps hold one bit (1u << kind) for each kind that it
 * moves directly. */
enum rt_memkind {
    RT_MEM_HOST,
    RT_MEM_PINNED,
    RT_MEM_MANAGED,
    RT_MEM_CUDA,      /* cuMemAlloc, cudaMalloc */
    RT_MEM_CUDA_VMM,  /* cuMemCreate, cuMemMap */
    RT_MEM_CUDA_POOL, /* cudaMallocAsync */
    RT_MEM_KINDS
};

#define RT_MEM_BIT(kind) (1u << (kind))
#define RT_MEM_HOST_BITS (RT_MEM_BIT(RT_MEM_HOST) | RT_MEM_BIT(RT_MEM_PINNED))
#define RT_MEM_DEVICE_BITS \
    (RT_MEM_BIT(RT_MEM_MANAGED) | RT_MEM_BIT(RT_MEM_CUDA) | RT_MEM_BIT(RT_MEM_CUDA_VMM) | \
     RT_MEM_BIT(RT_MEM_CUDA_POOL))

#endif
