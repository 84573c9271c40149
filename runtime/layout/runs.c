/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs of a layout, and the map between packed positions and offsets.  All walks recurse along the
 * groups of blocks, as deep as groups are nested.  No state; any thread. */
#include "runtime/layout/runs.h"
#include "runtime/base/log.h"
#include "runtime/layout/copy.h"

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- runs ---- */

struct list {
    struct rt_run *run;
    int n, max;
    int64_t left; /* packed bytes still to list */
    bool full;
};

static void add(struct list *s, int64_t off, int64_t len)
{
    struct rt_run *last = s->n ? &s->run[s->n - 1] : NULL;
    len = least(len, s->left);
    if (last && last->off + last->len == off) {
        last->len += len;
    } else if (s->n < s->max) {
        s->run[s->n++] = (struct rt_run){ off, len };
    } else {
        s->full = true;
        return;
    }
    s->left -= len;
}

static bool more(const struct list *s) { return s->left && !s->full; }

static void add_group(struct list *s, int64_t at, const struct rt_blocks *g, int64_t skip);

/* Adds the runs of a block from `skip` packed bytes on. */
static void add_block(struct list *s, int64_t at, const struct rt_block *b, int64_t skip)
{
    int64_t rep = b->nrep == 1 ? 0 : skip / b->len;
    skip -= rep * b->len;
    for (; rep < b->nrep && more(s); rep++, skip = 0) {
        int64_t piece = at + b->off + rep * b->stride;
        if (b->sub)
            add_group(s, piece, b->sub, skip);
        else
            add(s, piece + skip, b->len - skip);
    }
}

static void add_group(struct list *s, int64_t at, const struct rt_blocks *g, int64_t skip)
{
    uint32_t i = rt_blocks_find(g, skip);
    skip -= rt_blocks_first(g, i);
    for (; i < g->n && more(s); i++, skip = 0) {
        if (g->b)
            add_block(s, at, &g->b[i], skip);
        else
            add(s, at + g->off[i] + skip, rt_blocks_first(g, i + 1) - rt_blocks_first(g, i) - skip);
    }
}

int64_t rt_layout_runs(const struct rt_layout *l, int64_t pos, int64_t len, struct rt_run *runs,
                       int max, int *n)
{
    struct list s = { runs, 0, max, len, false };
    if (len && l->contig) {
        add(&s, pos, len);
    } else if (len) {
        int64_t e = pos / l->size, skip = pos % l->size;
        for (; more(&s); e++, skip = 0)
            add_group(&s, e * l->extent, l->blocks, skip);
    }
    *n = s.n;
    return len - s.left;
}

int64_t rt_layout_offset(const struct rt_layout *l, int64_t pos)
{
    struct rt_run run = { 0, 0 };
    int n;
    if (l->size)
        rt_layout_runs(l, pos, 1, &run, 1, &n);
    return run.off;
}

/* ---- facts ---- */

static int64_t gcd(int64_t a, int64_t b)
{
    a = a < 0 ? -a : a;
    b = b < 0 ? -b : b;
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

static int64_t begin_of(const struct rt_blocks *g, uint32_t i)
{
    return g->b ? g->b[i].off + (g->b[i].sub ? g->b[i].sub->low : 0) : g->off[i];
}

static void look_group(struct rt_layout_facts *f, const struct rt_blocks *g, int64_t nrep);

static void look_block(struct rt_layout_facts *f, const struct rt_block *b, int64_t nrep)
{
    int64_t span = b->sub ? b->sub->high - b->sub->low : b->len;
    f->gcd = gcd(f->gcd, b->off);
    if (b->nrep > 1) {
        f->gcd = gcd(f->gcd, b->stride);
        f->ordered &= b->stride >= span;
    }
    if (b->sub) {
        look_group(f, b->sub, nrep * b->nrep);
    } else {
        f->gcd = gcd(f->gcd, b->len);
        f->nruns += nrep * b->nrep;
    }
}

static void look_group(struct rt_layout_facts *f, const struct rt_blocks *g, int64_t nrep)
{
    int64_t end = g->low;
    for (uint32_t i = 0; i < g->n; i++) {
        struct rt_block b = rt_blocks_at(g, i);
        int64_t begin = begin_of(g, i), span = b.sub ? b.sub->high - b.sub->low : b.len;
        f->ordered &= begin >= end;
        end = begin + (b.nrep - 1) * b.stride + span;
        look_block(f, &b, nrep);
    }
}

void rt_layout_facts(const struct rt_layout *l, struct rt_layout_facts *out)
{
    *out = (struct rt_layout_facts){ .ordered = true };
    if (!l->size)
        return;
    if (l->contig) {
        out->nruns = 1;
        out->gcd = l->size;
        return;
    }
    out->first = l->blocks->low;
    look_group(out, l->blocks, 1);
    out->gcd = gcd(out->gcd, l->extent);
    out->ordered &= l->extent >= l->blocks->high - l->blocks->low;
}

/* ---- from offsets to packed positions ---- */

static int64_t below_group(const struct rt_blocks *g, int64_t off);

/* `off` is above the beginning of the block. */
static int64_t below_block(const struct rt_block *b, int64_t off)
{
    int64_t low = b->sub ? b->sub->low : 0, in = off - b->off - low;
    int64_t rep = b->nrep > 1 ? least((in - 1) / b->stride, b->nrep - 1) : 0;
    in -= rep * b->stride;
    return rep * b->len + (b->sub ? below_group(b->sub, in + low) : least(in, b->len));
}

static int64_t below_group(const struct rt_blocks *g, int64_t off)
{
    if (off <= g->low)
        return 0;
    if (off >= g->high)
        return g->size;
    uint32_t low = 0, high = g->n; /* invariant: the block at `low` begins below `off`, the block at
                                    * `high` does not */
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        if (begin_of(g, mid) < off)
            low = mid;
        else
            high = mid;
    }
    struct rt_block b = rt_blocks_at(g, low);
    return rt_blocks_first(g, low) + below_block(&b, off);
}

int64_t rt_layout_below(const struct rt_layout *l, int64_t off)
{
    if (!l->size)
        return 0;
    if (l->contig)
        return off > 0 ? off : 0;
    off -= l->blocks->low;
    if (off <= 0)
        return 0;
    int64_t e = l->extent ? off / l->extent : 0;
    return e * l->size + below_group(l->blocks, off - e * l->extent + l->blocks->low);
}
