/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of registered memory: see region.h. */
#include "btl/region.h"

#include <stdlib.h>
#include "runtime/base/err.h"

static int make(struct btl_regions *t, struct btl_mem **out)
{
    if ((t->n & (t->n - 1)) == 0) { /* grows by doubling, at 0, 1, 2, 4, ... */
        uint32_t room = t->n ? 2 * t->n : 1;
        struct btl_mem **more = realloc(t->at, room * sizeof(struct btl_mem *));
        if (!more)
            return -RT_ENOMEM;
        t->at = more;
    }
    struct btl_mem *m = calloc(1, sizeof *m);
    if (!m)
        return -RT_ENOMEM;
    m->table = t;
    m->region = t->n;
    t->at[t->n++] = m;
    *out = m;
    return 0;
}

int btl_region_add(struct btl_regions *t, void *base, size_t len, struct btl_mem **out)
{
    struct btl_mem *m = t->spare;

    if (m) {
        t->spare = m->next_spare;
    } else {
        int err = make(t, &m);
        if (err < 0)
            return err;
    }
    t->live++;
    m->gen++;
    m->base = base;
    m->len = len;
    m->window = false;
    m->filled = NULL;
    *out = m;
    return 0;
}

void btl_region_drop(struct btl_mem *m)
{
    m->table->live--;
    m->gen++;
    m->len = 0;
    m->next_spare = m->table->spare;
    m->table->spare = m;
}

void btl_regions_fini(struct btl_regions *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        free(t->at[i]);
    free(t->at);
    *t = (struct btl_regions){ 0 };
}
