/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RT_MEM_KIND_H
#define RT_MEM_KIND_H

/* Kinds of memory a buffer may lie in.  A transport's caps hold one bit (1u << kind) for each kind
 * it moves directly. */
enum rt_memkind {
    RT_MEM_HOST,
    RT_MEM_PINNED,
    RT_MEM_MANAGED,
    RT_MEM_CUDA,
    RT_MEM_CUDA_VMM,
    RT_MEM_CUDA_POOL,
    RT_MEM_KINDS
};

#define RT_MEM_BIT(kind) (1u << (kind))
#define RT_MEM_HOST_BITS (RT_MEM_BIT(RT_MEM_HOST) | RT_MEM_BIT(RT_MEM_PINNED))

#endif
