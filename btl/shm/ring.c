/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of the ring that need not be inline. */
#include "btl/shm/ring.h"

void btl_shm_ring_refill(struct ring_tx *t)
{
    if (!t->slots_open)
        return;
    uint64_t credit = rt_load_acquire(&t->mem->credit); /* pairs with the release in ring_take() */
    t->limit = (uint32_t)credit + RING_SLOTS;
    if (t->bytes_open)
        t->bytes_limit = (uint32_t)(credit >> 32) + RING_BYTES;
}
