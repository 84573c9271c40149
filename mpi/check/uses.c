/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/check/uses.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "mpi/check/memory.h"
#include "runtime/base/list.h"

struct use {
    struct rt_list link;
    struct check_use u;
    uint64_t sum;
};

static struct rt_list reads = { &reads, &reads }, writes = { &writes, &writes };

/* ---- contents ---- */

static uint64_t mix(uint64_t h, const char *at, size_t len)
{
    uint64_t word = 0;
    for (; len >= sizeof word; at += sizeof word, len -= sizeof word) {
        memcpy(&word, at, sizeof word);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    for (; len; at++, len--)
        h = (h ^ (unsigned char)*at) * 0x9e3779b97f4a7c15u;
    return h;
}

/* Of the data, without what lies between them. */
static uint64_t checksum(const struct check_buf *b)
{
    int64_t nbytes = b->count * b->layout->size;
    if (b->layout->contig)
        return mix(0, b->buf, (size_t)nbytes);
    char part[8192];
    uint64_t h = 0;
    for (int64_t at = 0, n; at < nbytes; at += n) {
        n = nbytes - at < (int64_t)sizeof part ? nbytes - at : (int64_t)sizeof part;
        rt_layout_pack(b->layout, b->count, b->buf, at, part, n);
        h = mix(h, part, (size_t)n);
    }
    return h;
}

/* ---- places ---- */

/* The range from the first byte of the data to the last one; false if bytes between are not data,
 * so that an overlap of ranges means nothing. */
static bool range(const struct check_buf *b, uintptr_t *low, uintptr_t *high)
{
    const struct rt_layout *l = b->layout;
    int64_t more = (b->count - 1) * l->extent;
    *low = (uintptr_t)b->buf + (uintptr_t)l->true_lb + (uintptr_t)(more < 0 ? more : 0);
    *high = (uintptr_t)b->buf + (uintptr_t)(l->true_lb + l->true_extent + (more < 0 ? 0 : more));
    return (int64_t)(*high - *low) == b->count * l->size;
}

static const char *text_of(const struct use *x, char *buf, size_t len)
{
    char place[160];
    snprintf(buf, len, "%s, %s", check_place_text(&x->u.place, place, sizeof place), x->u.what);
    return buf;
}

static void compare(const struct use *x, const struct rt_list *with)
{
    uintptr_t low, high, l, h;
    char a[300], b[300];
    const struct rt_list *i;
    if (!range(&x->u.at, &low, &high))
        return;
    rt_list_each (i, with) {
        const struct use *y = rt_container(i, struct use, link);
        bool together = x->u.together && y->u.owner == x->u.owner;
        if (!together && range(&y->u.at, &l, &h) && l < high && low < h)
            check_fail("rank %d: buffers of two unfinished operations overlap, %lld bytes from %p "
                       "on: %s (%s it); %s (%s it)",
                       rt_boot.rank, (long long)((h < high ? h : high) - (l > low ? l : low)),
                       (void *)(l > low ? l : low), text_of(y, a, sizeof a),
                       y->u.writes ? "writes" : "reads", text_of(x, b, sizeof b),
                       x->u.writes ? "writes" : "reads");
    }
}

void check_use_begin(const struct check_use *u)
{
    struct use *x;
    if (u->at.count * u->at.layout->size <= 0)
        return;
    if (!(x = malloc(sizeof *x)))
        check_no_memory();
    *x = (struct use){ .u = *u };
    if (!u->place.inner)
        x->u.place = check_here();
    compare(x, &writes);
    if (u->writes)
        compare(x, &reads);
    if (u->sealed)
        x->sum = checksum(&u->at);
    rt_list_append(u->writes ? &writes : &reads, &x->link);
}

/* Before the contents are read: the memory may not be mapped any more. */
static void look_at_memory(const struct use *x)
{
    uintptr_t low, high;
    char a[300];
    const char *why = x->u.lasts && range(&x->u.at, &low, &high)
                          ? check_memory_gone((const void *)low, high - low)
                          : NULL;
    if (why)
        check_fail("rank %d: the buffer of %s, %s before the operation was complete", rt_boot.rank,
                   text_of(x, a, sizeof a), why);
}

static void end(struct rt_list *list, const void *owner, const void *part, bool verify)
{
    struct rt_list *l, *tmp;
    char a[300];
    rt_list_each_safe (l, tmp, list) {
        struct use *x = rt_container(l, struct use, link);
        if (x->u.owner != owner || (part && x->u.part != part))
            continue;
        if (verify)
            look_at_memory(x);
        if (verify && x->u.sealed && checksum(&x->u.at) != x->sum)
            check_fail("rank %d: the buffer of %s, was modified before the operation was complete",
                       rt_boot.rank, text_of(x, a, sizeof a));
        rt_list_del(&x->link);
        free(x);
    }
}

void check_use_end(const void *owner, const void *part, bool verify)
{
    end(&reads, owner, part, verify);
    end(&writes, owner, part, verify);
}

const char *check_use_from(const void *owner, char *buf, size_t len)
{
    const struct rt_list *lists[] = { &reads, &writes }, *i;
    char place[160];
    *buf = '\0';
    for (int k = 0; k < 2; k++)
        rt_list_each (i, lists[k]) {
            const struct use *x = rt_container(i, struct use, link);
            if (x->u.owner == owner)
                snprintf(buf, len, ", from %s", check_place_text(&x->u.place, place, sizeof place));
        }
    return buf;
}
