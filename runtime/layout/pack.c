/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies between a layout and its packed form.  One walk serves both directions: it divides the
 * range of packed bytes into whole groups, which the loops of copy.c move, and partial pieces at
 * both ends.  No state; any thread. */
#include "runtime/base/log.h"
#include "runtime/layout/copy.h"
#include <string.h>

struct walk {
    char *packed; /* next byte of the packed form */
    int64_t left; /* packed bytes still to move */
    bool to_packed;
};

static void passed(struct walk *w, int64_t len)
{
    w->packed += len;
    w->left -= len;
}

/* Moves a part of a piece. */
static void walk_bytes(struct walk *w, char *at, int64_t len)
{
    if (len <= 0)
        return;
    if (w->to_packed)
        memcpy(w->packed, at, (size_t)len);
    else
        memcpy(at, w->packed, (size_t)len);
    passed(w, len);
}

/* Moves `n` whole groups, `step` bytes apart. */
static void walk_groups(struct walk *w, char *at, const struct rt_blocks *g, int64_t step,
                        int64_t n)
{
    if (!g->b) {
        rt_layout_copy_pieces(w->packed, at, step, n, g, 0, g->n, w->to_packed);
        passed(w, n * g->size);
        return;
    }
    if (g->n == 1 && !g->b->sub) {
        rt_layout_copy_strided(w->packed, at + g->b->off, step, n, g->b, w->to_packed);
        passed(w, n * g->size);
        return;
    }
    for (int64_t e = 0; e < n; e++, at += step) {
        for (uint32_t i = 0; i < g->n; i++) {
            const struct rt_block *b = &g->b[i];
            if (b->sub) {
                walk_groups(w, at + b->off, b->sub, b->stride, b->nrep);
            } else {
                rt_layout_copy_strided(w->packed, at + b->off, 0, 1, b, w->to_packed);
                passed(w, b->len * b->nrep);
            }
        }
    }
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Moves single pieces of a list, from `skip` packed bytes on, to the end of the list or of the
 * walk. */
static void walk_pieces(struct walk *w, char *at, const struct rt_blocks *g, int64_t skip)
{
    uint32_t i = rt_blocks_find(g, skip), end;
    int64_t begin = g->piece ? i * g->piece : g->first[i];
    int64_t last = least(skip + w->left, g->size); /* packed position of the end */
    if (begin < skip) {
        int64_t next = g->piece ? begin + g->piece : g->first[i + 1];
        walk_bytes(w, at + g->off[i] + (skip - begin), least(next, last) - skip);
        begin = next;
        i++;
    }
    if (begin >= last)
        return;
    end = last == g->size ? g->n : rt_blocks_find(g, last);
    if (end > i) {
        rt_layout_copy_pieces(w->packed, at, 0, 1, g, i, end, w->to_packed);
        int64_t whole = (g->piece ? end * g->piece : g->first[end]) - begin;
        passed(w, whole);
        begin += whole;
    }
    walk_bytes(w, at + (end < g->n ? g->off[end] : 0), last - begin);
}

static void walk_part(struct walk *w, char *at, const struct rt_blocks *g, int64_t skip);

/* Moves a block from `skip` packed bytes on. */
static void walk_block(struct walk *w, char *at, const struct rt_block *b, int64_t skip)
{
    int64_t rep = b->nrep == 1 ? 0 : skip / b->len, inside = skip - rep * b->len;
    at += b->off + rep * b->stride;
    if (inside) {
        if (b->sub)
            walk_part(w, at, b->sub, inside);
        else
            walk_bytes(w, at + inside, least(b->len - inside, w->left));
        rep++;
        at += b->stride;
    }
    int64_t whole = least(w->left / b->len, b->nrep - rep);
    if (whole > 0) {
        if (b->sub) {
            walk_groups(w, at, b->sub, b->stride, whole);
        } else {
            const struct rt_block some = { 0, b->len, b->stride, whole, NULL };
            rt_layout_copy_strided(w->packed, at, 0, 1, &some, w->to_packed);
            passed(w, b->len * whole);
        }
        at += whole * b->stride;
        rep += whole;
    }
    if (!w->left || rep >= b->nrep)
        return;
    if (b->sub)
        walk_part(w, at, b->sub, 0);
    else
        walk_bytes(w, at, w->left);
}

/* Moves a part of a group: from `skip` on, to the end of the group or of the walk. */
static void walk_part(struct walk *w, char *at, const struct rt_blocks *g, int64_t skip)
{
    if (!w->left)
        return;
    if (!g->b) {
        walk_pieces(w, at, g, skip);
        return;
    }
    uint32_t i = rt_blocks_find(g, skip);
    skip -= g->first[i];
    for (; i < g->n && w->left; i++, skip = 0)
        walk_block(w, at, &g->b[i], skip);
}

static void walk(struct walk *w, const struct rt_layout *l, char *user, int64_t pos)
{
    const struct rt_blocks *g = l->blocks;
    const struct rt_block all = { 0, l->size, l->extent, pos / l->size + w->left / l->size + 2, g };
    if (g->n == 1 && g->piece) { /* one piece in each element: all elements together are one
                                  * block */
        struct rt_block pieces = all;
        pieces.off = g->off[0];
        pieces.sub = NULL;
        walk_block(w, user, &pieces, pos);
    } else if (!pos && w->left == l->size) {
        walk_groups(w, user, g, 0, 1);
    } else {
        walk_block(w, user, &all, pos);
    }
}

void rt_layout_pack(const struct rt_layout *l, int64_t count, const void *buf, int64_t pos,
                    void *out, int64_t len)
{
    rt_assert(pos >= 0 && len >= 0 && pos + len <= count * l->size);
    (void)count;
    if (!len)
        return;
    if (l->contig) {
        memcpy(out, (const char *)buf + pos, (size_t)len);
        return;
    }
    struct walk w = { out, len, true };
    walk(&w, l, (char *)(uintptr_t)buf, pos);
}

void rt_layout_unpack(const struct rt_layout *l, int64_t count, void *buf, int64_t pos,
                      const void *in, int64_t len)
{
    rt_assert(pos >= 0 && len >= 0 && pos + len <= count * l->size);
    (void)count;
    if (!len)
        return;
    if (l->contig) {
        memcpy((char *)buf + pos, in, (size_t)len);
        return;
    }
    struct walk w = { (char *)(uintptr_t)in, len, false };
    walk(&w, l, buf, pos);
}

void rt_layout_copy(const struct rt_layout *src_l, int64_t src_n, const void *src,
                    const struct rt_layout *dst_l, int64_t dst_n, void *dst)
{
    int64_t len = src_n * src_l->size;
    rt_assert(len == dst_n * dst_l->size);
    if (src_l->contig) {
        rt_layout_unpack(dst_l, dst_n, dst, 0, src, len);
        return;
    }
    if (dst_l->contig) {
        rt_layout_pack(src_l, src_n, src, 0, dst, len);
        return;
    }
    char tmp[8192]; /* fits in the first-level cache */
    for (int64_t pos = 0; pos < len; pos += (int64_t)sizeof tmp) {
        int64_t n = least(len - pos, (int64_t)sizeof tmp);
        rt_layout_pack(src_l, src_n, src, pos, tmp, n);
        rt_layout_unpack(dst_l, dst_n, dst, pos, tmp, n);
    }
}

static void each(const struct rt_blocks *g, int64_t at, rt_layout_fn *fn, void *arg)
{
    for (uint32_t i = 0; i < g->n; i++) {
        if (!g->b) {
            int64_t len = g->piece ? g->piece : g->first[i + 1] - g->first[i];
            fn(arg, at + g->off[i], len, len, 1);
            continue;
        }
        const struct rt_block *b = &g->b[i];
        if (!b->sub)
            fn(arg, at + b->off, b->len, b->stride, b->nrep);
        for (int64_t r = 0; b->sub && r < b->nrep; r++)
            each(b->sub, at + b->off + r * b->stride, fn, arg);
    }
}

void rt_layout_each(const struct rt_layout *l, rt_layout_fn *fn, void *arg)
{
    if (l->contig)
        fn(arg, 0, l->size, l->size, l->size ? 1 : 0);
    else
        each(l->blocks, 0, fn, arg);
}
