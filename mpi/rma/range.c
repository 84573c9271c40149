/* SPDX-License-Identifier: BSD-3-Clause */
/* Which memory of a window may be accessed: the range of an operation's elements, and the regions
 * that are attached to a dynamic window. */
#include "mpi/rma/range.h"

/* Where the elements of the target's side begin and end, relative to its first byte. */
void wm_rma_span(const struct rt_layout *l, int64_t count, int64_t *low, int64_t *high)
{
    int64_t last = (count - 1) * l->extent;
    *low = l->true_lb + (last < 0 ? last : 0);
    *high = l->true_lb + l->true_extent + (last > 0 ? last : 0);
}

/* Attached as one region or as several that adjoin.  Regions are sorted and do not overlap. */
static bool is_attached(const struct wm_rma *r, uint64_t low, uint64_t high)
{
    for (int i = 0; i < r->memory.nregions && low < high && r->memory.region[i].base <= low; i++) {
        uint64_t end = r->memory.region[i].base + r->memory.region[i].nbytes;
        low = end > low ? end : low;
    }
    return low >= high;
}

bool wm_rma_in_window(const struct wm_rma *r, int64_t low, int64_t high)
{
    if (r->win->flavor != MPI_WIN_FLAVOR_DYNAMIC)
        return low >= 0 && low <= high && (uint64_t)high <= r->memory.nbytes;
    return low >= 0 && low <= high && is_attached(r, (uint64_t)low, (uint64_t)high);
}

struct cover {
    const struct wm_rma *r;
    int64_t at; /* of the element */
    bool all;
};

static void cover(void *arg, int64_t off, int64_t len, int64_t stride, int64_t nrep)
{
    struct cover *c = arg;
    for (int64_t i = 0, at = c->at + off; i < nrep && c->all; i++, at += stride)
        c->all = wm_rma_in_window(c->r, at, at + len);
}

bool wm_rma_pieces_in_window(const struct wm_rma *r, const struct rt_layout *l, int64_t count,
                             int64_t at)
{
    struct cover c = { .r = r, .at = at, .all = true };
    for (int64_t i = 0; i < count && c.all; i++, c.at += l->extent)
        rt_layout_each(l, cover, &c);
    return c.all;
}
