/* SPDX-License-Identifier: BSD-3-Clause */
/* The copy loops of packing and unpacking.  Private to runtime/layout. */
#ifndef RT_LAYOUT_COPY_H
#define RT_LAYOUT_COPY_H

#include "runtime/layout/layout.h"

/* The pieces i..end-1 of each of `n` groups, `step` bytes apart, between `packed` and `user`; the
 * group is a list of single pieces. */
void rt_layout_copy_pieces(char *packed, char *user, int64_t step, int64_t n,
                           const struct rt_blocks *g, uint32_t i, uint32_t end, bool to_packed);
/* The repetitions of a block without `sub`, `n` times, `step` bytes apart; `user` is where its
 * first piece is. */
void rt_layout_copy_strided(char *packed, char *user, int64_t step, int64_t n,
                            const struct rt_block *b, bool to_packed);

#endif
