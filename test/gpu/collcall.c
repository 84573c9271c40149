/* SPDX-License-Identifier: BSD-3-Clause */
/* Layout, contents and comparison of one collective call: collcall.h. */
#include "test/gpu/collcall.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM 64 /* bytes on both sides of a buffer that must not be written */
#define NUNITS 5
#define NFORMS 7
#define KEPT 40

uint64_t cc_alike_state, cc_own_state;
static struct cc_type types[NUNITS][NFORMS];

uint32_t cc_draw(uint64_t *state, uint32_t n)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return (uint32_t)((z ^ z >> 31) >> 16) % n;
}

/* ---- datatypes ---- */

/* Units that an element has before its address. */
static int below(const struct cc_type *t)
{
    int low = t->at[0] < t->at[t->per - 1] ? t->at[0] : t->at[t->per - 1];

    return low < 0 ? -low : 0;
}

/* Basic; two together; with a gap at the end; two in reverse, dense; two in reverse with a gap; the
 * last two start before the address that is passed, dense and with a gap. */
static void make_types(MPI_Datatype basic, int unit, struct cc_type *t)
{
    static const struct cc_type forms[NFORMS] = { { .per = 1, .ext = 1 },
                                                  { .per = 2, .ext = 2, .at = { 0, 1 } },
                                                  { .per = 1, .ext = 2 },
                                                  { .per = 2, .ext = 2, .at = { 1, 0 } },
                                                  { .per = 2, .ext = 3, .at = { 2, 0 } },
                                                  { .per = 1, .ext = 1, .at = { -1 } },
                                                  { .per = 2, .ext = 3, .at = { 0, -2 } } };
    int one[2] = { 1, 1 };
    MPI_Datatype plain;

    for (int i = 0; i < NFORMS; i++) {
        t[i] = forms[i];
        t[i].unit = unit;
        t[i].h = basic;
        if (!i)
            continue;
        MPI_Type_indexed(t[i].per, one, t[i].at, basic, &plain);
        MPI_Type_create_resized(plain, -below(&t[i]) * unit, t[i].ext * unit, &t[i].h);
        MPI_Type_free(&plain);
        MPI_Type_commit(&t[i].h);
    }
}

void cc_init(void)
{
    static const MPI_Datatype basic[NUNITS] = { MPI_BYTE, MPI_SHORT, MPI_INT, MPI_DOUBLE,
                                                MPI_C_DOUBLE_COMPLEX };

    for (int u = 0; u < NUNITS; u++)
        make_types(basic[u], 1 << u, types[u]);
}

void cc_fini(void)
{
    for (int u = 0; u < NUNITS; u++)
        for (int i = 1; i < NFORMS; i++)
            MPI_Type_free(&types[u][i].h);
    cc_forget_memory();
    cc_comm_forget();
}

static const struct cc_type *any_type(const struct cc_call *c)
{
    return &types[c->unit][c->derived ? cc_own(NFORMS) : 0];
}

static size_t nbytes(const struct cc_type *t, int units)
{
    return (size_t)(units / t->per) * (size_t)t->ext * (size_t)t->unit;
}

/* Writes units of the block from one rank to another, starting at `p`. */
static void put(unsigned char *p, const struct cc_type *t, int n, uint64_t key)
{
    size_t u = (size_t)t->unit;

    if (t == types[0] || (t->per == t->ext && !t->at[0])) {
        gt_fill(p, (size_t)n * u, key);
        return;
    }
    for (int i = 0; i < n; i++) {
        unsigned char *to = p + (i / t->per * t->ext + t->at[i % t->per]) * t->unit;
        for (size_t b = 0; b < u; b++)
            to[b] = gt_byte((size_t)i * u + b, key);
    }
}

/* ---- memory, kept for other calls, so that addresses are reused, as a whole and in part ---- */

static struct kept {
    unsigned char *p;
    size_t room;
    enum gt_kind kind;
    int dev;
    bool busy;
} kept[KEPT];

static void forget(struct kept *k)
{
    if (!gt_guards_intact(k->p)) {
        printf("# %s memory: written beyond an allocation\n", gt_kind_names[k->kind]);
        fflush(stdout);
        abort();
    }
    gt_free(k->p);
    *k = (struct kept){ 0 };
}

void cc_forget_memory(void)
{
    for (int i = 0; i < KEPT; i++)
        if (kept[i].p && !kept[i].busy)
            forget(&kept[i]);
}

static unsigned char *take(enum gt_kind kind, int dev, size_t len)
{
    struct kept *k, *place = NULL;

    for (k = kept; k < kept + KEPT; k++) {
        if (!k->p)
            place = k;
        if (!k->p || k->busy || k->kind != kind || k->dev != dev || k->room < len || !cc_own(4))
            continue;
        k->busy = true;
        return k->p + cc_own((uint32_t)((k->room - len) / 64) + 1) * 64;
    }
    for (k = kept; !place && k < kept + KEPT; k++)
        if (!k->busy) {
            forget(k);
            place = k;
        }
    *place = (struct kept){
        .room = len + cc_own(2) * cc_own(70000), .kind = kind, .dev = dev, .busy = true
    };
    place->p = gt_alloc(kind, dev, place->room, 0);
    return place->p;
}

static void give(unsigned char *p)
{
    struct kept *k = kept;

    while (!k->p || p < k->p || p > k->p + k->room || !k->busy)
        k++;
    k->busy = false;
    if (!cc_own(5))
        forget(k);
}

/* ---- layout ---- */

bool cc_reduces(enum cc_kind k) { return k >= CC_REDUCE && k <= CC_EXSCAN; }

bool cc_may_be_in_place(const struct cc_call *c)
{
    return !c->comm->inter && c->kind >= CC_REDUCE && c->kind < CC_N_ALLGATHER;
}

bool cc_in_place_is_own(const struct cc_call *c)
{
    return c->kind == CC_REDUCE_SCATTER || c->kind == CC_REDUCE_SCATTER_BLOCK ||
           c->kind == CC_SCAN || c->kind == CC_EXSCAN;
}

/* Units that `from` sends to `to` in a v form: zero, all, or some even number. */
static int count(const struct cc_call *c, uint64_t from, uint64_t to)
{
    uint64_t h;

    if (c->in_place && from > to && (c->kind == CC_ALLTOALLV || c->kind == CC_ALLTOALLW))
        return count(c, to, from);
    h = cr_mix(c->id + 77, from * 1000 + to);
    return h % 4 == 0 ? 0 : h % 4 == 1 ? c->n : (int)(h / 4 % ((uint32_t)c->n + 1)) & ~1;
}

/* Blocks from, or to, the ranks `who` (of cc_world). each: each rank gets different data.
 * vector: of unequal length, in any order, with holes; w: of different types. */
struct layout {
    int nblocks;
    const int *who;
    bool get, each, vector, w;
    int *counts, *displs;
    MPI_Aint *far;
    MPI_Datatype *handles;
};
#define EVERYBODY 99

static void lay_out(const struct cc_call *c, const struct layout *l, const struct cc_type *type,
                    struct cc_side *s)
{
    size_t at = l->vector ? cc_own(3) : 0, step;
    int start = l->vector && l->nblocks ? (int)cc_own((uint32_t)l->nblocks) : 0;

    for (int j = 0; j < l->nblocks; j++) {
        int i = (start + j) % l->nblocks;
        const struct cc_type *t = l->w ? any_type(c) : type;
        uint64_t other = (uint64_t)l->who[i], me = (uint64_t)cc_world_rank;
        uint64_t from = l->get ? other : me, to = !l->each ? EVERYBODY : l->get ? me : other;
        int n = l->vector ? count(c, from, to) : c->n;

        step = (size_t)t->unit * (size_t)(l->w ? 1 : t->ext);
        at += l->w ? (size_t)(below(t) * t->unit) : 0; /* same type, same distance */
        at = (at + step - 1) / step * step;
        s->block[s->nblocks++] = (struct cc_block){ at, n, t, from, to };
        l->counts[i] = n / t->per;
        l->displs[i] = (int)(at / (l->w ? 1 : step));
        l->far[i] = (MPI_Aint)at;
        l->handles[i] = t->h;
        at += nbytes(t, n) + (l->vector ? cc_own(3) * step : 0);
    }
}

static void lay_out_sends(struct cc_call *c, int nblocks, const int *who, bool each, bool w)
{
    bool vector = c->kind == CC_GATHERV || c->kind == CC_SCATTERV || c->kind == CC_ALLGATHERV ||
                  c->kind == CC_ALLTOALLV || c->kind == CC_ALLTOALLW ||
                  c->kind == CC_N_ALLGATHERV || c->kind >= CC_N_ALLTOALLV;
    struct layout l = { nblocks, who,        false,      each,    vector,
                        w,       c->scounts, c->sdispls, c->sfar, c->stypes };

    lay_out(c, &l, c->st, &c->s);
    if (!each && vector)
        c->s.block[0].at = 0; /* it has no displacement */
    c->one = c->scounts[0];
}

static void lay_out_receives(struct cc_call *c, int nblocks, const int *who, bool each, bool w)
{
    bool vector = c->kind == CC_GATHERV || c->kind == CC_SCATTERV || c->kind == CC_ALLGATHERV ||
                  c->kind == CC_ALLTOALLV || c->kind == CC_ALLTOALLW ||
                  c->kind == CC_N_ALLGATHERV || c->kind >= CC_N_ALLTOALLV;
    struct layout l = { nblocks, who,        true,       each,    vector,
                        w,       c->rcounts, c->rdispls, c->rfar, c->rtypes };

    lay_out(c, &l, c->rtype, &c->r);
    if (c->kind == CC_SCATTERV)
        c->r.block[0].at = 0;
}

static void lay_out_moves(struct cc_call *c)
{
    const struct cc_comm *m = c->comm;
    int p = m->nsrc, n = m->n, me = cc_world_rank, root = c->root_world;
    bool near = c->kind >= CC_N_ALLGATHER, gather = c->kind == CC_GATHER || c->kind == CC_GATHERV;
    bool scatter = c->kind == CC_SCATTER || c->kind == CC_SCATTERV;
    bool all_to_all = c->kind == CC_ALLTOALL || c->kind == CC_ALLTOALLV ||
                      c->kind == CC_ALLTOALLW || c->kind >= CC_N_ALLTOALL;
    bool w = c->kind == CC_ALLTOALLW || c->kind == CC_N_ALLTOALLW;
    int from[2] = { m->src[(m->me + 1) % n], m->src[(m->me + 2) % n] };
    int to[2] = { m->src[(m->me - 1 + n) % n], m->src[(m->me - 2 + 2 * n) % n] };

    if (c->kind == CC_BCAST)
        lay_out_receives(c, c->sends || c->gets, &root, false, false);
    else if (gather || !all_to_all) {
        if (scatter) {
            lay_out_sends(c, c->is_root ? p : 0, m->src, true, false);
            lay_out_receives(c, c->gets && !(c->in_place && c->is_root), &root, true, false);
            return;
        }
        lay_out_sends(c, c->sends && !(c->in_place && (!gather || c->is_root)), &me, false, false);
        lay_out_receives(c, !c->gets ? 0 : near ? 2 : p, near ? from : m->src, false, false);
    } else {
        lay_out_sends(c, c->in_place ? 0 : near ? 2 : p, near ? to : m->src, true, w);
        lay_out_receives(c, near ? 2 : p, near ? from : m->src, true, w);
    }
    for (int j = 0; j < c->r.nblocks; j++) {
        struct cc_block b = c->r.block[j];
        if (all_to_all && c->in_place)
            b = (struct cc_block){ b.at, b.n, b.t, b.to, b.from };
        else if (b.from != (uint64_t)me || (!c->in_place && c->kind != CC_BCAST))
            continue;
        c->in.block[c->in.nblocks++] = b;
    }
}

static void lay_out_reduction(struct cc_call *c)
{
    const struct cc_comm *m = c->comm;

    c->total = c->mine = c->n;
    c->first = 0;
    if (c->kind == CC_REDUCE_SCATTER_BLOCK || (c->kind == CC_REDUCE_SCATTER && m->inter)) {
        c->mine = c->n * (m->inter ? m->nsrc : 1);
        c->total = c->mine * m->n;
        c->first = c->mine * m->me;
        for (int j = 0; j < m->n; j++)
            c->rcounts[j] = c->mine;
    } else if (c->kind == CC_REDUCE_SCATTER) {
        c->total = 0;
        for (int j = 0; j < m->n; j++) {
            if (j == m->me)
                c->first = c->total;
            c->rcounts[j] = count(c, (uint64_t)j, 98);
            c->total += c->rcounts[j];
        }
        c->mine = c->rcounts[m->me];
    }
}

static size_t span(const struct cc_side *s)
{
    size_t end = 0, e;

    for (int j = 0; j < s->nblocks; j++) {
        e = s->block[j].at + nbytes(s->block[j].t, s->block[j].n);
        end = e > end ? e : end;
    }
    return end;
}

static void region(struct cc_side *s, enum gt_kind kind, int dev, size_t len, unsigned unit)
{
    unsigned odd = cc_own(4) * unit;

#ifndef __SANITIZE_ADDRESS__ /* the host's kernels may accept what UBSan does not allow */
    if (unit < 16 && !cc_own(8))
        odd += cc_own(unit);
#endif
    s->kind = kind;
    s->dev = dev;
    s->at = ROOM + odd;
    s->len = s->at + len + ROOM;
    s->before = malloc(s->len);
    s->after = malloc(s->len);
    s->region = take(kind, dev, s->len);
    if (!s->before || !s->after)
        abort();
    s->buf = !len && !cc_own(3) ? NULL : s->region + s->at;
}

static unsigned alignment(const struct cr_type *t)
{
    unsigned a = 1;

    while (t->extent % (2 * (int)a) == 0 && a < 16)
        a *= 2;
    return a;
}

void cc_make(struct cc_call *c)
{
    const struct cc_comm *m = c->comm;
    bool rooted = c->kind == CC_BCAST || c->kind == CC_REDUCE ||
                  (c->kind >= CC_GATHER && c->kind <= CC_SCATTERV);
    bool to_root = rooted && c->kind != CC_BCAST && c->kind != CC_SCATTER && c->kind != CC_SCATTERV;
    bool roots_side = !m->inter || m->side == c->root_side;

    c->root_world = m->inter && roots_side ? cc_world_rank : m->src[c->root];
    c->is_root = rooted && roots_side && m->me == c->root;
    c->sends = !rooted || (to_root ? !m->inter || !roots_side : c->is_root);
    c->gets = !rooted || (to_root ? c->is_root : !m->inter || !roots_side);
    c->st = any_type(c);
    c->rtype = any_type(c);
    if (c->kind == CC_BARRIER)
        return;
    if (cc_reduces(c->kind)) {
        bool in_place = c->in_place && c->gets;
        size_t e = (size_t)c->rt->extent;
        lay_out_reduction(c);
        if (c->sends && !in_place)
            region(&c->s, c->skind, c->sdev, (size_t)c->total * e, alignment(c->rt));
        if (c->gets)
            region(&c->r, c->rkind, c->rdev, (size_t)(in_place ? c->total : c->mine) * e,
                   alignment(c->rt));
        return;
    }
    lay_out_moves(c);
    if (c->s.nblocks)
        region(&c->s, c->skind, c->sdev, span(&c->s), 1u << c->unit);
    if (c->r.nblocks)
        region(&c->r, c->rkind, c->rdev, span(&c->r), 1u << c->unit);
}

/* ---- contents ---- */

static void put_blocks(const struct cc_call *c, const struct cc_side *s, unsigned char *image)
{
    for (int j = 0; j < s->nblocks; j++) {
        const struct cc_block *b = &s->block[j];
        put(image + b->at, b->t, b->n, cr_mix(c->key, b->from * 1000 + b->to));
    }
}

static void reduction_contents(const struct cc_call *c)
{
    uint64_t keys[CC_RANKS], own = cr_mix(c->key, (uint64_t)cc_world_rank);
    int nkeys = c->kind == CC_SCAN     ? c->comm->me + 1
                : c->kind == CC_EXSCAN ? c->comm->me
                                       : c->comm->nsrc;

    for (int j = 0; j < nkeys; j++)
        keys[j] = cr_mix(c->key, (uint64_t)c->comm->src[j]);
    if (c->s.region)
        cr_fill(c->rt, c->op, own, 0, (size_t)c->total, c->s.before + c->s.at);
    if (!c->r.region)
        return;
    if (c->in_place)
        cr_fill(c->rt, c->op, own, 0, (size_t)c->total, c->r.before + c->r.at);
    memcpy(c->r.after, c->r.before, c->r.len);
    if (nkeys)
        cr_expect(c->rt, c->op, keys, nkeys, (size_t)c->first, (size_t)c->mine,
                  c->r.after + c->r.at);
}

void cc_contents(struct cc_call *c)
{
    if (c->s.region)
        memset(c->s.before, GT_POISON, c->s.len);
    if (c->r.region)
        memset(c->r.before, GT_POISON, c->r.len);
    if (cc_reduces(c->kind))
        reduction_contents(c);
    else {
        if (c->s.region)
            put_blocks(c, &c->s, c->s.before + c->s.at);
        if (c->r.region) {
            put_blocks(c, &c->in, c->r.before + c->r.at);
            memcpy(c->r.after, c->r.before, c->r.len);
            put_blocks(c, &c->r, c->r.after + c->r.at);
        }
    }
    if (c->s.region) {
        memcpy(c->s.after, c->s.before, c->s.len);
        gt_write(c->s.region, c->s.before, c->s.len);
    }
    if (c->r.region)
        gt_write(c->r.region, c->r.before, c->r.len);
}

/* ---- comparison ---- */

static bool compare(const struct cc_call *c, const struct cc_side *s, const char *which)
{
    unsigned char *got;
    size_t i = 0, elements = s->region && cc_reduces(c->kind) && s == &c->r
                                 ? (s->len - s->at - ROOM) / (size_t)c->rt->extent
                                 : 0;
    char text[600];

    if (!s->region)
        return true;
    got = malloc(s->len);
    gt_read(got, s->region, s->len);
    if (elements)
        cr_forgive(c->rt, s->after + s->at, got + s->at, elements);
    while (i < s->len && got[i] == s->after[i])
        i++;
    if (i < s->len) {
        size_t n = 0, end = s->len;
        for (size_t k = i; k < s->len; k++)
            n += got[k] != s->after[k];
        while (got[end - 1] == s->after[end - 1])
            end--;
        cc_describe(c, text, sizeof(text));
        printf("# rank %d: wrong data in the %s buffer: %zd bytes from its start it is %02x, "
               "not %02x (before %02x); %zu bytes differ, the last at %zd; buffer %p\n#   %s\n",
               cc_world_rank, which, (ssize_t)(i - s->at), got[i], s->after[i], s->before[i], n,
               (ssize_t)(end - 1 - s->at), (void *)(s->region + s->at), text);
        fflush(stdout);
    }
    free(got);
    return i == s->len;
}

bool cc_right(struct cc_call *c)
{
    bool r = compare(c, &c->r, "receive"), s = compare(c, &c->s, "send");

    return r && s;
}

void cc_drop(struct cc_call *c)
{
    struct cc_side *sides[2] = { &c->s, &c->r };

    for (int i = 0; i < 2; i++) {
        free(sides[i]->before);
        free(sides[i]->after);
        if (sides[i]->region)
            give(sides[i]->region);
        sides[i]->region = NULL;
    }
}
