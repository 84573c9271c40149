/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Pack_external and its companions: the "external32" representation (MPI-5.0 sections 5.3 and
 * 14.5.2), big-endian, with sizes of its own: long and wchar_t are shorter there, long double is an
 * IEEE quad.
 *
 * A conversion is a walk along the constructors of the datatype, which gives the basic types in
 * typemap order, beside a stream of the item's packed native bytes, which rt_layout_pack() fills or
 * rt_layout_unpack() empties a buffer at a time.  Any thread. */
#include "mpi/api/bodies.h"
#include "mpi/datatype/make.h"
#include "mpi/datatype/recipe.h"
#include "mpi/p2p/pack_any.h"
#include "runtime/gpu/gpu.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum how { REVERSE, SIGNED, UNSIGNED, QUAD };

/* One number of a basic type: bytes here and in external32. */
struct number {
    uint8_t native, external;
    uint8_t how;
};
/* A basic type is n equal numbers, or two different ones: a value and an index. */
struct rule {
    int n;
    struct number first, second;
};

static const struct number int_rule = { sizeof(int), 4, SIGNED };

static struct number number_of(const struct wm_type *t, int nbytes)
{
    if (t == wm_type_get(MPI_LONG) || t == wm_type_get(MPI_LONG_INT))
        return (struct number){ sizeof(long), 4, SIGNED };
    if (t == wm_type_get(MPI_UNSIGNED_LONG))
        return (struct number){ sizeof(long), 4, UNSIGNED };
    if (t == wm_type_get(MPI_WCHAR))
        return (struct number){ (uint8_t)nbytes, 2, UNSIGNED };
    if (t->layout.elem == RT_ELEM_LDBL || t->layout.elem == RT_ELEM_CLDBL ||
        t->layout.elem == RT_ELEM_LDBL_I32)
        return (struct number){ sizeof(long double), 16, QUAD };
    return (struct number){ (uint8_t)nbytes, (uint8_t)nbytes, REVERSE };
}

static bool is_complex(const struct wm_type *t)
{
    enum rt_elem e = t->layout.elem;
    return e == RT_ELEM_C32 || e == RT_ELEM_C64 || e == RT_ELEM_CLDBL || e == RT_ELEM_CF16 ||
           e == RT_ELEM_C128;
}

static struct rule rule_of(const struct wm_type *t)
{
    int nbytes = (int)t->layout.size;
    if (t->nelems == 2) { /* an index is an int, or has the value's own type (Fortran) */
        struct number v = number_of(t, t->pair_first);
        bool alike = nbytes == 2 * t->pair_first && t->layout.elem != RT_ELEM_I32_I32;
        return (struct rule){ 2, v, alike ? v : int_rule };
    }
    int n = is_complex(t) ? 2 : 1;
    struct number one = number_of(t, nbytes / n);
    return (struct rule){ n, one, one };
}

/* The quad nearest to v, most significant byte first. */
static void quad_store(unsigned char *q, long double v)
{
    int e = 0;
    long double m = signbit(v) ? -v : v;
    unsigned biased = 0x7fff;
    memset(q, 0, 16);
    if (isnan(v)) {
        q[2] = 0x80;
    } else if (!isinf(v)) {
        m = frexpl(m, &e); /* in [0.5, 1): quads have [1, 2) and one exponent less */
        if (m == 0)
            biased = 0;
        else if (e - 1 + 16383 >= 1) {
            biased = (unsigned)(e - 1 + 16383);
            m = 2 * m - 1;
        } else {
            biased = 0;
            m = ldexpl(m, e + 16382);
        }
        for (int i = 2; i < 16; i++) {
            m *= 256;
            q[i] = (unsigned char)m;
            m -= q[i];
        }
    }
    q[0] = (unsigned char)((signbit(v) ? 0x80 : 0) | biased >> 8);
    q[1] = (unsigned char)biased;
}

static long double quad_load(const unsigned char *q)
{
    unsigned biased = (unsigned)(q[0] & 0x7f) << 8 | q[1];
    uint64_t hi = 0, lo = 0;
    for (int i = 2; i < 8; i++)
        hi = hi << 8 | q[i];
    for (int i = 8; i < 16; i++)
        lo = lo << 8 | q[i];
    long double v;
    if (biased == 0x7fff) {
        v = hi | lo ? (long double)NAN : (long double)INFINITY;
    } else {
        int e = biased ? (int)biased - 16383 : -16382;
        hi |= biased ? (uint64_t)1 << 48 : 0;
        v = ldexpl((long double)hi + ldexpl((long double)lo, -64), e - 48);
    }
    return q[0] & 0x80 ? -v : v;
}

static bool little_endian(void)
{
    const uint16_t one = 1;
    unsigned char b;
    memcpy(&b, &one, 1);
    return b == 1;
}

static void copy_reversed(unsigned char *to, const unsigned char *from, int n)
{
    bool reverse = little_endian();
    for (int i = 0; i < n; i++)
        to[i] = from[reverse ? n - 1 - i : i];
}

static int64_t load_int(const struct number *k, const unsigned char *from)
{
    union {
        int64_t s8;
        uint32_t u4;
        int32_t s4;
        uint16_t u2;
        unsigned char b[8];
    } u = { 0 };
    memcpy(u.b, from, k->native);
    if (k->native == 8)
        return u.s8;
    if (k->native == 4)
        return k->how == SIGNED ? u.s4 : (int64_t)u.u4;
    return u.u2;
}

/* False when the value does not fit there. */
static bool to_external(const struct number *k, unsigned char *to, const unsigned char *from)
{
    if (k->how == REVERSE) {
        copy_reversed(to, from, k->native);
        return true;
    }
    if (k->how == QUAD) {
        long double v;
        memcpy(&v, from, sizeof v);
        quad_store(to, v);
        return true;
    }
    int64_t v = load_int(k, from), bits = 8 * k->external;
    for (int i = 0; i < k->external; i++)
        to[i] = (unsigned char)((uint64_t)v >> (bits - 8 - 8 * i));
    int64_t over = v >> (k->how == SIGNED ? bits - 1 : bits);
    return over == 0 || (k->how == SIGNED && over == -1);
}

static void from_external(const struct number *k, unsigned char *to, const unsigned char *from)
{
    if (k->how == REVERSE) {
        copy_reversed(to, from, k->native);
        return;
    }
    if (k->how == QUAD) {
        long double v = quad_load(from);
        memset(to, 0, sizeof v);
        memcpy(to, &v, sizeof v);
        return;
    }
    uint64_t v = k->how == SIGNED && from[0] & 0x80 ? UINT64_MAX : 0;
    for (int i = 0; i < k->external; i++)
        v = v << 8 | from[i];
    unsigned char be[8];
    for (int i = 0; i < 8; i++)
        be[i] = (unsigned char)(v >> (56 - 8 * i));
    copy_reversed(to, be + 8 - k->native, k->native);
}

struct convert {
    const struct rt_layout *l;
    int64_t count;
    char *user;
    int64_t pos;      /* packed native bytes that have passed through `buf` */
    int64_t at, have; /* in `buf`: position of the next number, bytes that are valid */
    unsigned char *external;
    bool pack;
    int err; /* of copying device memory */
    _Alignas(16) unsigned char buf[16384];
};

/* Fills the buffer with native bytes to pack, or empties it into the user's buffer. */
static void refill(struct convert *c)
{
    int64_t total = c->count * c->l->size;
    if (c->pack) {
        int64_t rest = c->have - c->at, n = (int64_t)sizeof c->buf - rest;
        memmove(c->buf, c->buf + c->at, (size_t)rest);
        n = n < total - c->pos ? n : total - c->pos;
        int err = wm_pack_any(c->l, c->count, c->user, c->pos, c->buf + rest, n);
        c->err = c->err ? c->err : err;
        c->pos += n;
        c->have = rest + n;
    } else {
        int err = wm_unpack_any(c->l, c->count, c->user, c->pos, c->buf, c->at);
        c->err = c->err ? c->err : err;
        c->pos += c->at;
        c->have = (int64_t)sizeof c->buf;
    }
    c->at = 0;
}

static unsigned char *native(struct convert *c, int64_t nbytes)
{
    if (c->have - c->at < nbytes)
        refill(c);
    c->at += nbytes;
    return c->buf + c->at - nbytes;
}

static int convert_basic(struct convert *c, const struct wm_type *t, int64_t n)
{
    const struct rule r = rule_of(t);
    for (int64_t i = 0; i < n * r.n; i++) {
        const struct number *k = r.n == 2 && i & 1 ? &r.second : &r.first;
        unsigned char *p = native(c, k->native);
        if (!c->pack)
            from_external(k, p, c->external);
        else if (!to_external(k, c->external, p))
            return wm_err(MPI_ERR_CONVERSION,
                          "a value of %s does not fit in the %d bytes that it has in external32",
                          t->name, k->external);
        c->external += k->external;
    }
    return MPI_SUCCESS;
}

/* Items of the i-th type of a structure. */
static int64_t block_items(const struct wm_type_recipe *r, int64_t i)
{
    return r->ncount ? r->counts[1 + i] : r->ints[1 + i];
}

static int convert(struct convert *c, const struct wm_type *t, int64_t n)
{
    const struct wm_type_recipe *r = t->recipe;
    if (!t->layout.size || !n)
        return MPI_SUCCESS;
    if (t->basic)
        return convert_basic(c, t->basic, n * (t->layout.size / t->basic->layout.size));
    if (t->combiner != MPI_COMBINER_STRUCT)
        return convert(c, r->types[0], n * (t->layout.size / r->types[0]->layout.size));
    int err = MPI_SUCCESS;
    for (int64_t k = 0; k < n; k++)
        for (int64_t i = 0; i < r->ntype && !err; i++)
            err = convert(c, r->types[i], block_items(r, i));
    return err;
}

/* Bytes of one item; false when 63 bits do not hold them. */
static bool external_size(const struct wm_type *t, int64_t *out)
{
    const struct wm_type_recipe *r = t->recipe;
    int64_t part, sum = 0;
    *out = 0;
    if (!t->layout.size)
        return true;
    if (t->basic) {
        struct rule k = rule_of(t->basic);
        part = k.n == 2 ? k.first.external + k.second.external : k.first.external;
        return !__builtin_mul_overflow(part, t->layout.size / t->basic->layout.size, out);
    }
    if (t->combiner != MPI_COMBINER_STRUCT)
        return external_size(r->types[0], &part) &&
               !__builtin_mul_overflow(part, t->layout.size / r->types[0]->layout.size, out);
    for (int64_t i = 0; i < r->ntype; i++)
        if (!external_size(r->types[i], &part) ||
            __builtin_mul_overflow(part, block_items(r, i), &part) ||
            __builtin_add_overflow(sum, part, &sum))
            return false;
    *out = sum;
    return true;
}

int wm_api_pack_external_size(const char *datarep, MPI_Count incount, struct wm_type *datatype,
                              MPI_Count *size)
{
    int64_t one;
    if (strcmp(datarep, "external32"))
        return wm_err(MPI_ERR_UNSUPPORTED_DATAREP,
                      "datarep is \"%.40s\"; the one representation to pack to is \"external32\"",
                      datarep);
    if (datatype->absent)
        return wm_err(MPI_ERR_TYPE,
                      "%s is not supported by this library (MPI_Type_size gives MPI_UNDEFINED)",
                      datatype->name);
    if (incount < 0)
        return wm_err(MPI_ERR_COUNT, "count is %lld; it must not be negative", (long long)incount);
    if (!external_size(datatype, &one) || __builtin_mul_overflow(one, incount, size))
        return wm_err(MPI_ERR_COUNT, "%lld items are more than a packed buffer can have",
                      (long long)incount);
    return MPI_SUCCESS;
}

static int convert_all(struct convert *c, const struct wm_type *t, unsigned char *external)
{
    c->external = external;
    int err = convert(c, t, c->count);
    if (!err && !c->pack)
        refill(c);
    return !err && c->err < 0 ? wm_any_error(c->err) : err;
}

/* The external form in device memory passes through the host. */
static int convert_at(struct convert *c, const struct wm_type *t, unsigned char *external,
                      int64_t nbytes)
{
    const struct rt_layout *bytes = &wm_type_get(MPI_BYTE)->layout;
    if (!nbytes || !rt_gpu_is_device(external))
        return convert_all(c, t, external);
    unsigned char *host = malloc((size_t)nbytes);
    if (!host)
        return wm_err(MPI_ERR_NO_MEM, "no memory for a copy of %lld bytes", (long long)nbytes);
    int bad = c->pack ? 0 : wm_pack_any(bytes, nbytes, external, 0, host, nbytes);
    int err = bad < 0 ? wm_any_error(bad) : convert_all(c, t, host);
    bad = err || !c->pack ? 0 : wm_unpack_any(bytes, nbytes, external, 0, host, nbytes);
    free(host);
    return bad < 0 ? wm_any_error(bad) : err;
}

static int run(const char *datarep, struct convert *c, const struct wm_type *t,
               unsigned char *packed, MPI_Count room, MPI_Count *position)
{
    MPI_Count nbytes = 0;
    int err = wm_api_pack_external_size(datarep, c->count, (struct wm_type *)(uintptr_t)t, &nbytes);
    if (err)
        return err;
    if (*position < 0 || *position > room)
        return wm_err(MPI_ERR_ARG, "position is %lld, the packed buffer has bytes 0..%lld",
                      (long long)*position, (long long)room);
    if (nbytes > room - *position)
        return wm_err(
            MPI_ERR_TRUNCATE,
            "%lld items need %lld bytes, the packed buffer has %lld from position %lld on",
            (long long)c->count, (long long)nbytes, (long long)(room - *position),
            (long long)*position);
    c->l = &t->layout;
    c->have = c->pack ? 0 : (int64_t)sizeof c->buf;
    c->err = 0;
    err = convert_at(c, t, packed + *position, nbytes);
    if (!err)
        *position += nbytes;
    return err;
}

int wm_api_pack_external(const char *datarep, const void *inbuf, MPI_Count incount,
                         struct wm_type *datatype, void *outbuf, MPI_Count outsize,
                         MPI_Count *position)
{
    struct convert c;
    c.count = incount;
    c.user = (char *)(uintptr_t)inbuf;
    c.pos = c.at = 0;
    c.pack = true;
    return run(datarep, &c, datatype, outbuf, outsize, position);
}

int wm_api_unpack_external(const char datarep[], const void *inbuf, MPI_Count insize,
                           MPI_Count *position, void *outbuf, MPI_Count outcount,
                           struct wm_type *datatype)
{
    struct convert c;
    c.count = outcount;
    c.user = outbuf;
    c.pos = c.at = 0;
    c.pack = false;
    return run(datarep, &c, datatype, (unsigned char *)(uintptr_t)inbuf, insize, position);
}
