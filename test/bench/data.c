/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers, and the patterns by which -c recognises wrong data.  Every byte depends on its place,
 * sender, receiver and pass, so that a block that arrives late, twice or at the wrong place is
 * seen.  Numbers are small integers, whose sums are exact in any type.  With --fault rank 0 sends
 * one wrong byte: the self-test uses this to show that -c can fail.  Contents of device memory are
 * written and compared in a copy on the host.  With -D the gaps between the blocks must stay
 * unchanged, too. */
#include "test/bench/bench.h"
#include "test/bench/device.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { POISON = 0xee };

static unsigned char pattern(const struct bench *b, size_t i, int from, int to)
{
    return (unsigned char)(i * 7 + (i >> 8) * 3 + (unsigned)from * 31u + (unsigned)to * 17u +
                           b->seed * 53u);
}

static int number(const struct bench *b, size_t i, int rank)
{
    unsigned most = 16, exact = (unsigned)b->elem->exact / (unsigned)b->nranks;

    if (b->elem->exact && exact < most) /* the sum of all ranks is to be exact */
        most = exact > 1 ? exact : 2;
    return (int)((i + (unsigned)rank * 3u + b->seed) % most);
}

static void corrupt(const struct bench *b, void *buf, size_t at)
{
    if (b->opt.fault && b->rank == 0)
        ((unsigned char *)buf)[at] ^= 0x40;
}

void *bench_alloc_host(size_t len)
{
    void *p = NULL;

    if (posix_memalign(&p, (size_t)sysconf(_SC_PAGESIZE), len ? len : 1))
        return NULL;
    memset(p, 'a', len);
    return p;
}

void *bench_alloc(const struct bench *b, size_t len)
{
    void *p;

    if (b->kind == 'H')
        return bench_alloc_host(len);
    p = device_alloc(b->kind, len);
    if (p)
        device_set(p, 'a', len);
    return p;
}

void bench_free(const struct bench *b, void *p)
{
    if (b->kind == 'H')
        free(p);
    else
        device_free(p);
}

/* The host memory in which a buffer's contents are written and compared. */
static unsigned char *scratch(const struct bench *b, void *buf, size_t len)
{
    unsigned char *p = b->kind == 'H' ? buf : malloc(len ? len : 1);

    if (!p)
        MPI_Abort(MPI_COMM_WORLD, 2);
    return p;
}

static void scratch_put(const struct bench *b, void *buf, unsigned char *p, size_t len)
{
    if (b->kind == 'H')
        return;
    device_copy(buf, p, len);
    free(p);
}

static const unsigned char *scratch_get(const struct bench *b, const void *buf, size_t len)
{
    unsigned char *p;

    if (b->kind == 'H')
        return buf;
    p = scratch(b, NULL, len);
    device_copy(p, buf, len);
    return p;
}

static void scratch_drop(const struct bench *b, const unsigned char *p)
{
    if (b->kind != 'H')
        free((void *)(uintptr_t)p);
}

size_t bench_span(const struct bench *b, size_t nbytes)
{
    if (!b->block || nbytes <= b->block)
        return nbytes;
    return (nbytes - 1) / b->block * b->stride + (nbytes - 1) % b->block + 1;
}

void bench_fill(struct bench *b, void *buf, size_t nbytes, int from, int to)
{
    size_t block = b->block ? b->block : nbytes, span = bench_span(b, nbytes), i = 0;
    unsigned char *c;

    if (!b->opt.check)
        return;
    c = scratch(b, buf, span);
    memset(c, 0x11, span);
    for (size_t at = 0; i < nbytes; at += b->stride) {
        for (size_t k = 0; k < block && i < nbytes; k++, i++)
            c[at + k] = pattern(b, i, from, to);
    }
    if (nbytes)
        corrupt(b, c, bench_span(b, nbytes / 2 + 1) - 1);
    scratch_put(b, buf, c, span);
}

/* What an earlier pass left in a receive buffer must not look like an arrival. */
void bench_poison(struct bench *b, void *buf, size_t nbytes)
{
    if (!b->opt.check)
        return;
    if (b->kind == 'H')
        memset(buf, POISON, bench_span(b, nbytes));
    else
        device_set(buf, POISON, bench_span(b, nbytes));
}

static bool right(const struct bench *b, const unsigned char *c, size_t nbytes, int from, int to)
{
    size_t block = b->block ? b->block : nbytes, i = 0;

    for (size_t at = 0; i < nbytes; at += b->stride) {
        for (size_t k = 0; k < block && i < nbytes; k++, i++) {
            if (c[at + k] != pattern(b, i, from, to))
                return false;
        }
        for (size_t k = block; k < b->stride && i < nbytes; k++) {
            if (c[at + k] != POISON)
                return false;
        }
    }
    return true;
}

void bench_check(struct bench *b, const void *buf, size_t nbytes, int from, int to)
{
    const unsigned char *c;

    if (!b->opt.check)
        return;
    c = scratch_get(b, buf, bench_span(b, nbytes));
    b->bad += !right(b, c, nbytes, from, to);
    scratch_drop(b, c);
}

void bench_fill_numbers(struct bench *b, void *buf, size_t nbytes)
{
    size_t n = nbytes / b->type_len;
    unsigned char *c;

    if (!b->opt.check)
        return;
    c = scratch(b, buf, nbytes);
    for (size_t i = 0; i < n; i++)
        bench_number_put(b->elem, c + i * b->type_len, number(b, i, b->rank), b->rank);
    if (nbytes)
        corrupt(b, c, nbytes / 2);
    scratch_put(b, buf, c, nbytes);
}

void bench_check_part(struct bench *b, const void *buf, size_t n, size_t first, int nranks)
{
    const unsigned char *c;
    bool good = true;

    if (!b->opt.check)
        return;
    c = scratch_get(b, buf, n * b->type_len);
    for (size_t i = 0; i < n && good; i++) {
        int x = number(b, first + i, 0), place = 0;
        unsigned char want[BENCH_ELEM_MAX];
        for (int r = 1; r < nranks; r++)
            x = bench_op_fold(b->opt.op, x, place, number(b, first + i, r), r, &place);
        bench_number_put(b->elem, want, x, place);
        good = !memcmp(c + i * b->type_len, want, b->type_len);
    }
    b->bad += !good;
    scratch_drop(b, c);
}

void bench_check_sum(struct bench *b, const void *buf, size_t nbytes)
{
    bench_check_part(b, buf, nbytes / b->type_len, 0, b->nranks);
}

void bench_check_same(struct bench *b, const void *buf, const void *want, size_t nbytes)
{
    const unsigned char *x, *y;

    if (!b->opt.check)
        return;
    x = scratch_get(b, buf, nbytes);
    y = scratch_get(b, want, nbytes);
    b->bad += memcmp(x, y, nbytes) != 0;
    scratch_drop(b, x);
    scratch_drop(b, y);
}
