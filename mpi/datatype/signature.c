/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/datatype/signature.h"
#include <stdio.h>
#include "mpi/datatype/recipe.h"

/* A polynomial: joining two sequences multiplies the hash of the second by a power given by the
 * length of the first. */
struct seq {
    uint64_t hash, shift;
};
#define BASE 0x9e3779b97f4a7c15u

static struct seq join(struct seq a, struct seq b)
{
    return (struct seq){ a.hash + a.shift * b.hash, a.shift * b.shift };
}

static struct seq repeat(struct seq a, int64_t n)
{
    struct seq all = { 0, 1 };
    for (; n > 0; n >>= 1, a = join(a, a))
        if (n & 1)
            all = join(all, a);
    return all;
}

static struct seq one(MPI_Datatype t)
{
    uint64_t x = (uint64_t)(uintptr_t)t * 0xff51afd7ed558ccdu;
    return (struct seq){ x ^ x >> 29, BASE };
}

/* A pair type counts as a struct of its two parts (MPI-5.0 section 6.9.4). */
static struct seq predefined(MPI_Datatype h)
{
    static const struct {
        MPI_Datatype pair, first;
    } pairs[] = {
        { MPI_FLOAT_INT, MPI_FLOAT }, { MPI_DOUBLE_INT, MPI_DOUBLE },
        { MPI_LONG_INT, MPI_LONG },   { MPI_2INT, MPI_INT },
        { MPI_SHORT_INT, MPI_SHORT }, { MPI_LONG_DOUBLE_INT, MPI_LONG_DOUBLE },
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (pairs[i].pair == h)
            return join(one(pairs[i].first), one(MPI_INT));
    return one(h);
}

static struct seq seq_of(const struct wm_type *t);

/* The basic datatypes in the first *left bytes of n elements; subtracts the bytes that it has
 * found. */
static struct seq head_of(const struct wm_type *t, int64_t n, int64_t *left)
{
    struct seq all = { 0, 1 };
    int64_t size = t->layout.size, whole = size ? *left / size : 0;
    whole = whole < n ? whole : n;
    if (whole > 0)
        all = repeat(seq_of(t), whole);
    *left -= whole * size;
    const struct wm_type_recipe *r = t->recipe;
    if (whole == n || !*left || !r || t->predefined)
        return all;
    if (t->combiner != MPI_COMBINER_STRUCT)
        return r->ntype ? join(all, head_of(r->types[0], INT64_MAX, left)) : all;
    for (int64_t i = 0; i < r->ntype && *left; i++)
        all = join(all, head_of(r->types[i], r->ncount ? r->counts[1 + i] : r->ints[1 + i], left));
    return all;
}

static struct seq seq_of(const struct wm_type *t)
{
    const struct wm_type_recipe *r = t->recipe;
    struct seq all = { 0, 1 };
    if (!r || t->predefined)
        return predefined(wm_type_handle(t));
    if (t->combiner != MPI_COMBINER_STRUCT) {
        const struct wm_type *old = r->ntype ? r->types[0] : NULL;
        return old && old->layout.size ? repeat(seq_of(old), t->layout.size / old->layout.size)
                                       : all;
    }
    for (int64_t i = 0; i < r->ntype; i++)
        all = join(all, repeat(seq_of(r->types[i]), r->ncount ? r->counts[1 + i] : r->ints[1 + i]));
    return all;
}

static bool is_packed(const struct wm_type *t) { return t->basic == wm_type_get(MPI_PACKED); }

uint64_t wm_sig_hash(const struct wm_type *t, int64_t count)
{
    return is_packed(t) ? 0 : repeat(seq_of(t), count).hash;
}

/* ---- in 24 bits ---- */

#define MIXED (1u << (WM_SIG_BITS - 1))

static uint32_t mixed(uint64_t hash)
{
    return MIXED | (uint32_t)((hash ^ hash >> 32) & (MIXED - 1));
}

uint32_t wm_sig_brief(const struct wm_type *t, int64_t count)
{
    const struct wm_type *b = t->basic;
    uintptr_t h = b ? (uintptr_t)wm_type_handle(b) : 0;
    if (is_packed(t) || !count || !t->layout.size || h >= WM_PREDEFINED_MAX)
        return 0; /* the datatypes of MPI_Type_create_f90_* have other handles in each process */
    return b && b->nelems == 1 ? (uint32_t)h : mixed(wm_sig_hash(t, count));
}

bool wm_sig_brief_matches(uint32_t sig, int64_t nbytes, const struct wm_type *t, int64_t count)
{
    if (!sig || !wm_sig_brief(t, count))
        return true;
    uint64_t here = head_of(t, count, &(int64_t){ nbytes }).hash;
    if (sig & MIXED)
        return mixed(here) == sig;
    const struct wm_type *sent = wm_type_get((MPI_Datatype)(uintptr_t)sig);
    return !sent || here == wm_sig_hash(sent, nbytes / sent->layout.size);
}

void wm_sig_brief_text(uint32_t sig, int64_t nbytes, char *buf, size_t len)
{
    const struct wm_type *t = sig & MIXED ? NULL : wm_type_get((MPI_Datatype)(uintptr_t)sig);
    if (t && t->layout.size)
        snprintf(buf, len, "%lld %s", (long long)(nbytes / t->layout.size), t->name);
    else
        snprintf(buf, len, "%lld bytes of several datatypes", (long long)nbytes);
}

struct search {
    const struct rt_layout *layout;
    const struct wm_type *found;
};

static void look_at(void *obj, void *arg)
{
    const struct wm_type *t = obj;
    struct search *s = arg;
    if (&t->layout == s->layout)
        s->found = t;
}

const struct wm_type *wm_type_of_layout(const struct rt_layout *l)
{
    struct search s = { .layout = l };
    for (int i = 0; i < 256 && !s.found; i++)
        if (wm_type_predefined[i])
            look_at(wm_type_predefined[i], &s);
    if (!s.found)
        rt_slab_each(&wm_type_slab, look_at, &s);
    return s.found;
}
