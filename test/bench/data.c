/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers, and the patterns by which -c tells right data from wrong.  Every byte depends on its
 * place, sender, receiver and pass, so that a block that arrives late, twice or at the wrong place
 * is seen.  Numbers are small integers, whose sums are exact in any type.  With --fault rank 0
 * sends one wrong byte: the self-test proves by it that -c can fail. */
#include "test/bench/bench.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned char pattern(const struct bench *b, size_t i, int from, int to)
{
    return (unsigned char)(i * 7 + (i >> 8) * 3 + (unsigned)from * 31u + (unsigned)to * 17u +
                           b->seed * 53u);
}

static int number(const struct bench *b, size_t i, int rank)
{
    return (int)((i + (unsigned)rank * 3u + b->seed) % 16);
}

static void corrupt(const struct bench *b, void *buf, size_t nbytes)
{
    if (b->opt.fault && b->rank == 0 && nbytes)
        ((unsigned char *)buf)[nbytes / 2] ^= 0x40;
}

void *bench_alloc(size_t len)
{
    void *p = NULL;

    if (posix_memalign(&p, (size_t)sysconf(_SC_PAGESIZE), len ? len : 1))
        return NULL;
    memset(p, 'a', len);
    return p;
}

void bench_fill(struct bench *b, void *buf, size_t nbytes, int from, int to)
{
    unsigned char *c = buf;

    if (!b->opt.check)
        return;
    for (size_t i = 0; i < nbytes; i++)
        c[i] = pattern(b, i, from, to);
    corrupt(b, buf, nbytes);
}

/* What an earlier pass left in a receive buffer must not look like an arrival. */
void bench_poison(struct bench *b, void *buf, size_t nbytes)
{
    if (b->opt.check)
        memset(buf, 0xee, nbytes);
}

void bench_check(struct bench *b, const void *buf, size_t nbytes, int from, int to)
{
    const unsigned char *c = buf;

    if (!b->opt.check)
        return;
    for (size_t i = 0; i < nbytes; i++) {
        if (c[i] != pattern(b, i, from, to)) {
            b->bad++;
            return;
        }
    }
}

void bench_fill_numbers(struct bench *b, void *buf, size_t nbytes)
{
    size_t n = nbytes / b->type_len;

    if (!b->opt.check)
        return;
    for (size_t i = 0; i < n; i++) {
        if (b->type == MPI_FLOAT)
            ((float *)buf)[i] = (float)number(b, i, b->rank);
        else
            ((int *)buf)[i] = number(b, i, b->rank);
    }
    corrupt(b, buf, nbytes);
}

void bench_check_part(struct bench *b, const void *buf, size_t n, size_t first, int nranks)
{
    if (!b->opt.check)
        return;
    for (size_t i = 0; i < n; i++) {
        int sum = 0;
        for (int r = 0; r < nranks; r++)
            sum += number(b, first + i, r);
        if (b->type == MPI_FLOAT ? ((const float *)buf)[i] != (float)sum
                                 : ((const int *)buf)[i] != sum) {
            b->bad++;
            return;
        }
    }
}

void bench_check_sum(struct bench *b, const void *buf, size_t nbytes)
{
    bench_check_part(b, buf, nbytes / b->type_len, 0, b->nranks);
}
