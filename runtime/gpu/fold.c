/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions on a device: which kernel does one, how its work is divided, and the launch.
 * Reductions with equal bits are one case here, so that there are few kernels: a copy and the
 * bitwise operations work on bytes; a sum of complex numbers is a sum of twice as many reals.
 * Under the domain's lock. */
#include "runtime/gpu/fold.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/gpu/context.h"
#include "runtime/gpu/copy.h"
#include "runtime/gpu/driver.h"
#include "runtime/gpu/flight.h"
#include "runtime/gpu/fold_kernels.h"
#include "runtime/gpu/linger.h"
#include "runtime/gpu/move.h"
#include "runtime/gpu/place.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof((struct rt_gpu_fold){ 0 }.src) == RT_GPU_FOLD_PLACES * sizeof(void *),
               "struct rt_gpu_fold has room for them");

/* ---- types ---- */

enum family { INTEGER, REAL, COMPLEX, PAIR };
struct type_facts {
    uint8_t nbytes; /* of an element */
    uint8_t word;   /* bytes of the word it is loaded by, which is also its alignment in C */
    uint8_t family; /* enum family */
    uint8_t kernel; /* enum rt_gpu_kernel */
    uint8_t part;   /* of complex types: enum rt_gpu_type of one half */
};
static const struct type_facts types[RT_GPU_TYPES] = {
    [RT_GPU_I8] = { 1, 1, INTEGER, RT_GPU_FOLD_1, 0 },
    [RT_GPU_U8] = { 1, 1, INTEGER, RT_GPU_FOLD_1, 0 },
    [RT_GPU_I16] = { 2, 2, INTEGER, RT_GPU_FOLD_2, 0 },
    [RT_GPU_U16] = { 2, 2, INTEGER, RT_GPU_FOLD_2, 0 },
    [RT_GPU_I32] = { 4, 4, INTEGER, RT_GPU_FOLD_4, 0 },
    [RT_GPU_U32] = { 4, 4, INTEGER, RT_GPU_FOLD_4, 0 },
    [RT_GPU_I64] = { 8, 8, INTEGER, RT_GPU_FOLD_8, 0 },
    [RT_GPU_U64] = { 8, 8, INTEGER, RT_GPU_FOLD_8, 0 },
    [RT_GPU_F16] = { 2, 2, REAL, RT_GPU_FOLD_F16, 0 },
    [RT_GPU_BF16] = { 2, 2, REAL, RT_GPU_FOLD_BF16, 0 },
    [RT_GPU_F32] = { 4, 4, REAL, RT_GPU_FOLD_4, 0 },
    [RT_GPU_F64] = { 8, 8, REAL, RT_GPU_FOLD_8, 0 },
    [RT_GPU_C32] = { 8, 4, COMPLEX, RT_GPU_FOLD_WIDE8, RT_GPU_F32 },
    [RT_GPU_C64] = { 16, 8, COMPLEX, RT_GPU_FOLD_WIDE16, RT_GPU_F64 },
    [RT_GPU_F32_I32] = { 8, 4, PAIR, RT_GPU_FOLD_WIDE8, 0 },
    [RT_GPU_F64_I32] = { 16, 8, PAIR, RT_GPU_FOLD_WIDE16, 0 },
    [RT_GPU_I64_I32] = { 16, 8, PAIR, RT_GPU_FOLD_WIDE16, 0 },
    [RT_GPU_I32_I32] = { 8, 4, PAIR, RT_GPU_FOLD_WIDE8, 0 },
    [RT_GPU_I16_I32] = { 8, 4, PAIR, RT_GPU_FOLD_WIDE8, 0 },
    [RT_GPU_F32_F32] = { 8, 4, PAIR, RT_GPU_FOLD_WIDE8, 0 },
    [RT_GPU_F64_F64] = { 16, 8, PAIR, RT_GPU_FOLD_WIDE16, 0 },
};

#define BIT(code) (1u << RT_GPU_FOLD_##code)
#define MOVES (BIT(COPY) | BIT(EACH))
#define ARITHMETIC (MOVES | BIT(SUM) | BIT(PROD))
static const uint32_t codes_of[] = {
    [INTEGER] = ARITHMETIC | BIT(MAX) | BIT(MIN) | BIT(LAND) | BIT(LOR) | BIT(LXOR) | BIT(BAND) |
                BIT(BOR) | BIT(BXOR),
    [REAL] = ARITHMETIC | BIT(MAX) | BIT(MIN),
    [COMPLEX] = ARITHMETIC,
    [PAIR] = MOVES | BIT(MINLOC) | BIT(MAXLOC),
};

size_t rt_gpu_type_nbytes(unsigned type) { return type < RT_GPU_TYPES ? types[type].nbytes : 0; }

static bool is_bits(unsigned code)
{
    return code == RT_GPU_FOLD_COPY || code == RT_GPU_FOLD_EACH || code == RT_GPU_FOLD_BAND ||
           code == RT_GPU_FOLD_BOR || code == RT_GPU_FOLD_BXOR;
}

/* The kernel's parameters for a reduction, and its number. */
static enum rt_gpu_kernel simplify(struct rt_gpu_fold_args *a)
{
    const struct type_facts *t = &types[a->type];

    if (a->nsrc == 1)
        a->code = RT_GPU_FOLD_COPY;
    if (is_bits(a->code)) {
        a->count *= t->nbytes;
        a->type = RT_GPU_U8;
        return RT_GPU_FOLD_BITS;
    }
    if (t->family == COMPLEX && a->code == RT_GPU_FOLD_SUM) {
        a->count *= 2;
        a->type = t->part;
    }
    return (enum rt_gpu_kernel)types[a->type].kernel;
}

enum rt_gpu_kernel rt_gpu_fold_kernel(uint8_t *type, unsigned code)
{
    struct rt_gpu_fold_args a = { .type = *type, .code = (uint8_t)code, .nsrc = 2 };
    enum rt_gpu_kernel k = simplify(&a);
    *type = a.type;
    return k;
}

bool rt_gpu_can_fold(struct rt_gpu *g, unsigned type, unsigned code)
{
    if (type >= RT_GPU_TYPES || code >= RT_GPU_FOLD_CODES ||
        !(codes_of[types[type].family] & 1u << code) || g->lost)
        return false;
    struct rt_gpu_fold_args a = { .type = (uint8_t)type, .code = (uint8_t)code, .nsrc = 2 };
    return g->fn[simplify(&a)] != NULL;
}

/* ---- how it is cut ---- */

/* The longest unit that all addresses allow: kernel.h. */
static uint16_t unit_of(const struct rt_gpu_fold_args *a)
{
    const struct type_facts *t = &types[a->type];
    uint64_t first = a->dst[0], differ = 0, any = 0;

    for (unsigned i = 0; i < a->nsrc; i++) {
        differ |= a->src[i] ^ first;
        any |= a->src[i];
    }
    for (unsigned i = 0; i < a->ndst; i++) {
        differ |= a->dst[i] ^ first;
        any |= a->dst[i];
    }
    if (!(differ & 15) && !(first & (t->nbytes - 1u)))
        return 16;
    if (t->nbytes < 4 && !(differ & 3) && !(first & (t->nbytes - 1u)))
        return 4;
    return any & (t->word - 1u) ? 1 : t->word;
}

/* A block's piece is what its threads load at once.  For a short operation the piece is shorter, so
 * that more multiprocessors take part, except if one block can do it at once: a meeting of blocks
 * takes 1 us (H200). */
static unsigned cut(struct rt_gpu_fold_args *a, unsigned most)
{
    uint32_t nbytes = types[a->type].nbytes, group = a->unit > nbytes ? a->unit : nbytes;
    uint64_t ngroups = a->count * nbytes / group + 1, each = ngroups / most / WEFT_FOLD_THREADS;

    if (each > WEFT_FOLD_AHEAD || (a->nsrc <= 2 && ngroups <= WEFT_FOLD_THREADS * WEFT_FOLD_AHEAD))
        each = WEFT_FOLD_AHEAD;
    a->piece = WEFT_FOLD_THREADS * (each < 1 ? 1 : (uint32_t)each);
    uint64_t npieces = (ngroups + a->piece - 1) / a->piece;
    return npieces < most ? (unsigned)npieces : most;
}

/* The link of the i-th place: the sources come first, then the destinations. */
static enum rt_gpu_link place_link(struct rt_gpu *g, const struct rt_gpu_fold *f, unsigned i)
{
    if (i < f->nsrc)
        return move_link(g->move, f->dst[f->code == RT_GPU_FOLD_EACH ? i : 0], f->src[i]);
    enum rt_gpu_link l = move_link(g->move, f->dst[i - f->nsrc], f->dst[0]);
    return l == RT_GPU_LINK_PEER ? RT_GPU_LINK_PUT : l; /* dst[0] itself is in another GPU */
}

/* The slowest link that the reduction uses: a source in another GPU counts before a destination. */
static enum rt_gpu_link link_of(struct rt_gpu *g, const struct rt_gpu_fold *f)
{
    enum rt_gpu_link worst = RT_GPU_LINK_LOCAL;
    unsigned n = f->nsrc + (f->code == RT_GPU_FOLD_EACH ? 0u : f->ndst);

    for (unsigned i = 0; i < n; i++) {
        enum rt_gpu_link l = place_link(g, f, i);
        if (l == RT_GPU_LINK_HOST || worst == RT_GPU_LINK_HOST)
            worst = RT_GPU_LINK_HOST;
        else if (l == RT_GPU_LINK_PEER || worst == RT_GPU_LINK_LOCAL)
            worst = l;
    }
    return worst;
}

/* With memory of another GPU, one block on each multiprocessor fills the link, and more slow each
 * other down: 16 MiB in place, H200: 281 GB/s with 132 blocks, 259 with twice as many. */
static unsigned most_blocks(const struct rt_gpu *g, enum rt_gpu_link link)
{
    return rt_gpu_most_blocks(g, link == RT_GPU_LINK_LOCAL ? WEFT_FOLD_BLOCKS_SM : 1);
}

/* ---- the operation ---- */

static struct move_fold plan(struct rt_gpu *g, const struct rt_gpu_fold *f, enum rt_gpu_link link)
{
    struct move_fold p = { .args = { .type = f->type,
                                     .code = f->code,
                                     .nsrc = f->nsrc,
                                     .ndst = f->ndst,
                                     .near = f->near && g->near_fence,
                                     .prefixes = f->prefixes,
                                     .count = f->count } };

    rt_assert(f->type < RT_GPU_TYPES && codes_of[types[f->type].family] & 1u << f->code);
    rt_assert(f->nsrc >= 1 && f->nsrc <= RT_GPU_FOLD_PLACES && f->ndst >= 1 &&
              f->ndst <= RT_GPU_FOLD_PLACES);
    rt_assert((f->code != RT_GPU_FOLD_EACH && !f->prefixes) || f->nsrc == f->ndst);
    p.k = simplify(&p.args);
    p.weight = p.args.count * types[p.args.type].nbytes *
               (p.args.code == RT_GPU_FOLD_EACH ? f->nsrc : WEFT_LINGER_FOLD_WEIGHT);
    for (unsigned i = 0; i < f->nsrc; i++)
        p.args.src[i] = (uintptr_t)f->src[i];
    for (unsigned i = 0; i < f->ndst; i++)
        p.args.dst[i] = (uintptr_t)f->dst[i];
    p.args.unit = unit_of(&p.args);
    p.grid = cut(&p.args, most_blocks(g, link));
    return p;
}

/* A reduction as requested, with what fold.c has found out for it: programs repeat reductions. */
#define NKNOWN 8u /* reductions; another one in the same place replaces the first */
struct move_known {
    struct rt_gpu_fold asked; /* nsrc 0: none */
    struct move_fold fold;
    bool ring; /* it goes to the ring, as `desc` */
    struct rt_gpu_desc desc;
};

static bool is_same(const struct rt_gpu_fold *a, const struct rt_gpu_fold *b)
{
    return a->count == b->count && a->type == b->type && a->code == b->code && a->nsrc == b->nsrc &&
           a->ndst == b->ndst && a->near == b->near && a->prefixes == b->prefixes &&
           !memcmp(a->src, b->src, a->nsrc * sizeof *a->src) &&
           !memcmp(a->dst, b->dst, a->ndst * sizeof *a->dst);
}

/* The links only affect speed, so the answer may be out of date.  NULL: no memory. */
static struct move_known *look_up(struct rt_gpu *g, const struct rt_gpu_fold *f)
{
    uintptr_t x = (uintptr_t)f->dst[0] ^ (uintptr_t)f->src[0] ^ f->count;
    struct move_state *m = g->move;

    if (rt_unlikely(!m->known) && !(m->known = calloc(NKNOWN, sizeof *m->known)))
        return NULL;
    struct move_known *k = &m->known[(x >> 3 ^ x >> 9 ^ x >> 20) % NKNOWN];
    if (rt_likely(is_same(&k->asked, f)))
        return k;
    enum rt_gpu_link link = link_of(g, f);
    k->fold = plan(g, f, link);
    k->ring = !f->prefixes && move_linger_describe(&k->fold, link, &k->desc);
    k->asked = *f;
    return k;
}

void rt_gpu_fold(struct rt_gpu *g, const struct rt_gpu_fold *f, struct rt_gpu_op *op)
{
    size_t len = f->count * rt_gpu_type_nbytes(f->type);

    if (len == 0 || !g->move) { /* ends at once, with success or an error */
        rt_gpu_copy(g, NULL, NULL, 0, op);
        return;
    }
    struct move_known *k = look_up(g, f);
    op->len = 0;
    if (!move_begin(g, op))
        return;
    if (rt_unlikely(!k)) {
        log_error(GPU, "no memory for the plan of a reduction");
        move_end(g->move, op, -RT_ENOMEM);
    } else if (k->ring && move_ring_is_idle(g->move) &&
               move_linger_takes(g->move, k->fold.weight)) {
        move_linger_post_fold(g->move, &k->fold, &k->desc, op);
    } else {
        move_launch(g->move, k->fold.k, k->fold.grid, WEFT_FOLD_THREADS, &k->fold.args,
                    sizeof k->fold.args, op);
    }
}

int rt_gpu_fold_on(struct rt_gpu *g, void *stream, const struct rt_gpu_fold *f)
{
    if (g->lost || !g->move)
        return rt_gpu_gone(g);
    if (f->count == 0)
        return 0;
    struct move_fold p = plan(g, f, link_of(g, f));
    if (!g->fn[p.k])
        return -RT_ENOTSUP;
    int in = rt_gpu_enter(g);
    if (in < 0)
        return in;
    cu_result r = rt_cuda.launch_kernel(g->fn[p.k], p.grid, 1, 1, WEFT_FOLD_THREADS, 1, 1, 0,
                                        stream, (void *[]){ &p.args }, NULL);
    rt_gpu_leave(in);
    return r == CU_OK ? 0 : rt_cuda_error(r, "launching a reduction on the application's stream");
}
