/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory of a transport whose target copies arriving data to their place itself.  A
 * table finds the memory by the index and generation of a key, and finds none after the memory is
 * deregistered.  Serialised by the engine, as the transport is. */
#ifndef BTL_REGION_H
#define BTL_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct btl_op;
struct btl_peer;

struct btl_regions {     /* zeroed before first use */
    uint32_t n, live;    /* live: registered now */
    struct btl_mem **at; /* by index; may hold free entries */
    struct btl_mem *spare;
};

struct btl_mem {
    struct btl_regions *table;
    uint32_t region, gen; /* index in the table; odd generation: registered */
    char *base;
    size_t len;  /* bytes */
    bool window; /* by window_reg() */
    struct btl_mem *next_spare;
    struct btl_op *filled; /* called when the last of `missing` bytes has arrived, or NULL */
    struct btl_peer *from; /* the peer whose puts count */
    uint64_t missing;
};

/* Registers [base, base + len).  0 or -RT_ENOMEM. */
int btl_region_add(struct btl_regions *t, void *base, size_t len, struct btl_mem **out);
/* Deregisters: data that arrive for m from here on find no region. */
void btl_region_drop(struct btl_mem *m);
void btl_regions_fini(struct btl_regions *t);

/* Address of [off, off + len) of a region; NULL: not within memory that is registered now. */
static inline char *btl_region_at(const struct btl_regions *t, uint32_t region, uint32_t gen,
                                  uint64_t off, uint64_t len)
{
    const struct btl_mem *m = region < t->n ? t->at[region] : NULL;
    if (!m || m->gen != gen || !(gen & 1) || off > m->len || len > m->len - off)
        return NULL;
    return m->base + off;
}

#endif
