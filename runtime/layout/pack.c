/* SPDX-License-Identifier: BSD-3-Clause */
/* Moving data between a layout and its packed form.  One walk serves both directions: it cuts the
 * wanted range of packed bytes into runs of equal pieces and hands each run to a copy loop.  No
 * state; any thread. */
#include "runtime/layout/layout.h"
#include "runtime/base/atomic.h"
#include "runtime/base/copy.h"
#include "runtime/base/log.h"
#include <string.h>

/* Copies of a constant size become one load and one store, a call of memcpy does not. */
#define COPY_LOOP(nbytes) \
    do { \
        for (int64_t i = 0; i < n; i++, dst += dst_step, src += src_step) \
            memcpy(dst, src, (nbytes)); \
    } while (0)

static void copy_pieces(char *dst, int64_t dst_step, const char *src, int64_t src_step, int64_t len,
                        int64_t n)
{
    switch (len) {
    case 1:
        COPY_LOOP(1);
        break;
    case 2:
        COPY_LOOP(2);
        break;
    case 4:
        COPY_LOOP(4);
        break;
    case 8:
        COPY_LOOP(8);
        break;
    case 12:
        COPY_LOOP(12);
        break;
    case 16:
        COPY_LOOP(16);
        break;
    case 24:
        COPY_LOOP(24);
        break;
    case 32:
        COPY_LOOP(32);
        break;
    default:
        COPY_LOOP((size_t)len);
        break;
    }
}

struct walk {
    char *user;   /* the element buffer */
    char *packed; /* next byte of the packed form */
    int64_t left; /* packed bytes still to move */
    bool to_packed;
};

static void move(struct walk *w, char *at, int64_t len, int64_t stride, int64_t n)
{
    if (w->to_packed)
        copy_pieces(w->packed, len, at, stride, len, n);
    else
        copy_pieces(at, stride, w->packed, len, len, n);
    w->packed += len * n;
    w->left -= len * n;
}

/* A block from `skip` bytes into its packed form. */
static void walk_block(struct walk *w, char *elem, const struct rt_block *b, int64_t skip)
{
    int64_t rep = b->nrep == 1 ? 0 : skip / b->len, inside = skip - rep * b->len;
    char *at = elem + b->off + rep * b->stride;
    if (inside && w->left) {
        int64_t n = b->len - inside < w->left ? b->len - inside : w->left;
        move(w, at + inside, n, n, 1);
        rep++;
        at += b->stride;
    }
    int64_t whole = w->left / b->len;
    whole = whole < b->nrep - rep ? whole : b->nrep - rep;
    if (whole > 0) {
        move(w, at, b->len, b->stride, whole);
        at += whole * b->stride;
        rep += whole;
    }
    if (w->left && rep < b->nrep)
        move(w, at, w->left, w->left, 1);
}

/* A whole element, the usual case: no divisions, small pieces without a call. */
static void walk_element(struct walk *w, char *elem, const struct rt_layout *l)
{
    for (uint32_t i = 0; i < l->nblocks; i++) {
        const struct rt_block *b = &l->blocks[i];
        char *at = elem + b->off;
        if (b->nrep > 1 || b->len > RT_CACHE_LINE) {
            move(w, at, b->len, b->stride, b->nrep);
            continue;
        }
        if (w->to_packed)
            rt_copy_small(w->packed, at, (size_t)b->len);
        else
            rt_copy_small(at, w->packed, (size_t)b->len);
        w->packed += b->len;
        w->left -= b->len;
    }
}

static uint32_t find_block(const struct rt_layout *l, int64_t pos)
{
    uint32_t low = 0, high = l->nblocks; /* first[low] <= pos < first[high] */
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        if (l->first[mid] <= pos)
            low = mid;
        else
            high = mid;
    }
    return low;
}

static void walk(struct walk *w, const struct rt_layout *l, int64_t pos)
{
    int64_t e = pos / l->size, in = pos - e * l->size;
    if (l->nblocks == 1 && l->blocks[0].nrep == 1) {
        /* One piece an element: all elements together are one block. */
        struct rt_block all = { l->blocks[0].off, l->size, l->extent, w->left / l->size + 2 };
        walk_block(w, w->user + e * l->extent, &all, in);
        return;
    }
    if (in) { /* the rest of a begun element */
        uint32_t i = find_block(l, in);
        int64_t skip = in - l->first[i];
        char *elem = w->user + e++ * l->extent;
        for (; i < l->nblocks && w->left; i++, skip = 0)
            walk_block(w, elem, &l->blocks[i], skip);
    }
    for (; w->left >= l->size; e++)
        walk_element(w, w->user + e * l->extent, l);
    for (uint32_t i = 0; w->left; i++)
        walk_block(w, w->user + e * l->extent, &l->blocks[i], 0);
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
    struct walk w = { (char *)(uintptr_t)buf, out, len, true };
    walk(&w, l, pos);
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
    struct walk w = { buf, (char *)(uintptr_t)in, len, false };
    walk(&w, l, pos);
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
    char tmp[8192]; /* stays in the first-level cache */
    for (int64_t pos = 0; pos < len; pos += (int64_t)sizeof tmp) {
        int64_t n = len - pos < (int64_t)sizeof tmp ? len - pos : (int64_t)sizeof tmp;
        rt_layout_pack(src_l, src_n, src, pos, tmp, n);
        rt_layout_unpack(dst_l, dst_n, dst, pos, tmp, n);
    }
}
