/* SPDX-License-Identifier: BSD-3-Clause */
/* Random cases of weft_pack and weft_unpack, with the expected results: for pack_check.cu on a
 * device and test/unit/gpu_kernel.cc on the CPU.  C++. */
#ifndef TEST_GPU_PACK_CASE_H
#define TEST_GPU_PACK_CASE_H

#include "runtime/gpu/kernel.h"
#include <stdlib.h>
#include <string.h>
#include <algorithm>
#include <vector>

typedef std::vector<char> bytes;
typedef std::vector<rt_gpu_group> groups;

static const size_t USER = 4 << 20, PACKED = 2 << 20; /* the buffers */
static uint64_t rng;

static uint32_t rnd(uint32_t n) /* 0..n-1 */
{
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rng >> 33) % n;
}

static void fill(bytes &b)
{
    for (size_t i = 0; i + 8 <= b.size(); i += 8) {
        rng = rng * 6364136223846793005u + 1442695040888963407u;
        uint64_t v = rng ^ rng >> 29;
        memcpy(&b[i], &v, 8);
    }
}

struct place { /* of an element's bytes; packed order is the order of the groups */
    groups g;
    int64_t size = 0, low = 0, high = 0;
};

/* Pieces that do not overlap, not in the order of their addresses; all lengths and distances are
 * multiples of unit. */
static place random_place(uint32_t unit)
{
    place e;
    int64_t at = 0;
    uint32_t n = 1 + rnd(rnd(3) ? 12 : 300), longest = rnd(4) ? 40 : 2000;
    for (uint32_t i = 0; i < n && at < 300000; i++) {
        rt_gpu_group g;
        g.len = (1 + rnd(rnd(8) ? longest : 24000 / unit)) * unit;
        g.nrep = g.len > 10000 || rnd(2) ? 1 : 1 + rnd(20);
        g.stride = g.nrep == 1 ? g.len : g.len + (int64_t)rnd(20) * unit;
        g.off = at + rnd(10) * unit;
        at = g.off + g.stride * (g.nrep - 1) + g.len;
        if (g.nrep > 1 && !rnd(4)) { /* backwards */
            g.off += g.stride * (g.nrep - 1);
            g.stride = -g.stride;
        }
        e.g.push_back(g);
    }
    e.high = at;
    for (size_t i = e.g.size(); i > 1 && rnd(2); i--)
        std::swap(e.g[i - 1], e.g[rnd((uint32_t)i)]);
    for (rt_gpu_group &g : e.g) {
        g.first = e.size;
        e.size += g.len * g.nrep;
    }
    return e;
}

/* The definition in kernel.h, byte by byte. */
static void reference(const rt_gpu_pack &p, const groups &g, char *u, char *packed, bool pack)
{
    size_t i = 0;
    for (int64_t x = p.pos; x < p.pos + p.len; x++) {
        int64_t e = x / p.size, r = x % p.size;
        if (r == 0)
            i = 0;
        while (i + 1 < g.size() && g[i + 1].first <= r)
            i++;
        while (g[i].first > r)
            i--;
        int64_t in = r - g[i].first;
        char *at = u + e * p.extent + g[i].off + in / g[i].len * g[i].stride + in % g[i].len;
        if (pack)
            packed[x - p.pos] = *at;
        else
            *at = packed[x - p.pos];
    }
}

struct pack_case {
    place e;
    rt_gpu_pack k; /* without flag, counter and table */
    bool pack;
    int64_t origin, begin; /* offsets of first element and packed form in their buffers */
    unsigned grid;
};

/* Over buffers at these addresses, which are multiples of 64. */
static pack_case random_case(char *user, char *packed)
{
    static const unsigned grids[] = { 1, 2, 7, 33, 528 };
    pack_case c = {};
    uint32_t unit = 1u << rnd(5), count = 1 + rnd(4);
    c.e = random_place(unit);
    c.pack = rnd(2);
    c.grid = grids[rnd(5)];
    int64_t extent = c.e.high + (int64_t)rnd(50) * unit;
    while (count > 1 && (count * c.e.size > (int64_t)PACKED - 4096 ||
                         (count + 1) * extent > (int64_t)USER - 4096))
        count--;
    if (rnd(2))
        extent = -extent;
    int64_t total = count * c.e.size;
    c.origin = 64 + rnd(64 / unit) * unit + (extent < 0 ? (count - 1) * -extent : 0);
    c.begin = rnd(1024 / unit) * unit;
    c.k.unit = unit;
    c.k.packed = (uint64_t)packed + c.begin;
    c.k.user = (uint64_t)user + c.origin;
    c.k.pos = rnd(2) ? 0 : (int64_t)rnd((uint32_t)(total / unit)) * unit;
    c.k.len = rnd(2) ? total - c.k.pos
                     : (1 + (int64_t)rnd((uint32_t)((total - c.k.pos) / unit))) * unit;
    c.k.size = c.e.size;
    c.k.extent = extent;
    c.k.ngroups = (uint32_t)c.e.g.size();
    return c;
}

#endif
