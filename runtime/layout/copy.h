/* SPDX-License-Identifier: BSD-3-Clause */
/* The copy loops of packing and unpacking.  Private to runtime/layout. */
#ifndef RT_LAYOUT_COPY_H
#define RT_LAYOUT_COPY_H

#include "runtime/layout/layout.h"

/* Copies pieces i..end-1 of each of `n` groups, `step` bytes apart, between `packed` and `user`;
 * the group is a list of single pieces. */
void rt_layout_copy_pieces(char *packed, char *user, int64_t step, int64_t n,
                           const struct rt_blocks *g, uint32_t i, uint32_t end, bool to_packed);
/* Copies `n` repetitions, `step` bytes apart, of a block without `sub`; `user` is the address of
 * its first piece. */
void rt_layout_copy_strided(char *packed, char *user, int64_t step, int64_t n,
                            const struct rt_block *b, bool to_packed);

/* Packed position at which block i of a list begins; i may be n. */
static inline int64_t rt_blocks_first(const struct rt_blocks *g, uint32_t i)
{
    return g->piece ? i * g->piece : g->first[i];
}
/* Block i, for both forms of a list; without a reference. */
static inline struct rt_block rt_blocks_at(const struct rt_blocks *g, uint32_t i)
{
    if (g->b)
        return g->b[i];
    int64_t len = rt_blocks_first(g, i + 1) - rt_blocks_first(g, i);
    return (struct rt_block){ g->off[i], len, len, 1, NULL };
}
/* The block that contains packed byte `pos` < size. */
static inline uint32_t rt_blocks_find(const struct rt_blocks *g, int64_t pos)
{
    uint32_t low = 0, high = g->n; /* first[low] <= pos < first[high] */
    if (g->piece)
        return (uint32_t)(pos / g->piece);
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        if (g->first[mid] <= pos)
            low = mid;
        else
            high = mid;
    }
    return low;
}

#endif
