/* SPDX-License-Identifier: BSD-3-Clause */
/* Array sections as datatypes.  The dimensions of a descriptor are merged first: what is left is a
 * contiguous unit of elements, and for each dimension the number of repetitions and their distance.
 * The first k elements are then a few nested vectors.  The types of the last sections of
 * predefined datatypes are kept in each thread, so a loop over calls builds them once. */
#include "mpi/fortran/section.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RANK 15

/* gfortran 12 does not set the distance of the elements of an allocatable array that was assigned
 * from RESHAPE, PACK or MATMUL: it is what the memory held before.  Such an array is contiguous.
 * An array is taken for one of these if its distances are impossible: elements overlap, are not
 * aligned, or are farther apart than the address space. */
static bool contiguous(const struct wf_desc *d)
{
    const intptr_t most = (intptr_t)1 << 47;
    intptr_t len = (intptr_t)d->elem_len, align = len & -len;
    if (wf_flat(d))
        return true;
    for (int i = 0; i < d->rank; i++) {
        intptr_t n = d->dim[i].extent, step = d->dim[i].stride;
        if (n <= 1)
            continue;
        if (step > most / n || step < -most / n || (step < len && step > -len))
            return true;
        if (len && step % (align < 8 ? align : 8))
            return true;
    }
    return false;
}

/* A merged descriptor. */
struct shape {
    MPI_Count unit;     /* contiguous elements */
    MPI_Count elem_len; /* bytes of one */
    MPI_Count total;    /* elements in all */
    int rank;
    struct {
        MPI_Count n, step; /* repetitions, and bytes between them */
    } dim[MAX_RANK];
};

static void merge(struct shape *s, const struct wf_desc *d)
{
    *s = (struct shape){ .unit = 1, .elem_len = (MPI_Count)d->elem_len, .total = 1 };
    for (int i = 0; i < d->rank && i < MAX_RANK; i++) {
        MPI_Count n = d->dim[i].extent, step = d->dim[i].stride;
        s->total *= n;
        if (n == 1)
            continue;
        if (s->rank == 0 && step == s->unit * s->elem_len) {
            s->unit *= n;
        } else if (s->rank > 0 && step == s->dim[s->rank - 1].n * s->dim[s->rank - 1].step) {
            s->dim[s->rank - 1].n *= n;
        } else {
            s->dim[s->rank].n = n;
            s->dim[s->rank++].step = step;
        }
    }
}

/* Where element i is: bytes from the first one. */
static MPI_Count place_of(const struct shape *s, MPI_Count i)
{
    MPI_Count at = i % s->unit * s->elem_len;
    i /= s->unit;
    for (int d = 0; d < s->rank; d++) {
        MPI_Count n = d < s->rank - 1 ? s->dim[d].n : i + 1;
        at += i % n * s->dim[d].step;
        i /= n;
    }
    return at;
}

/* ---- types ---- */

/* The pieces of a structure in the making. */
struct pieces {
    int n;
    MPI_Datatype type[MAX_RANK + 2];
    MPI_Count disp[MAX_RANK + 2], one[MAX_RANK + 2];
};

static void put_piece(struct pieces *p, int err, MPI_Datatype type, MPI_Count disp)
{
    if (err)
        return;
    p->type[p->n] = type;
    p->disp[p->n] = disp;
    p->one[p->n++] = 1;
}

static void free_types(MPI_Datatype *types, int n)
{
    for (int i = 0; i < n; i++)
        if (types[i])
            PMPI_Type_free(&types[i]);
}

/* One type of the pieces, which are freed. */
static int join_pieces(struct pieces *p, int err, MPI_Datatype *out)
{
    if (!err && p->n == 1 && p->disp[0] == 0) {
        *out = p->type[0];
        return MPI_SUCCESS;
    }
    if (!err)
        err = PMPI_Type_create_struct_c(p->n, p->one, p->disp, p->type, out);
    free_types(p->type, p->n);
    return err;
}

/* The first `nitems` items of the section, `per` of which make an element.  level[d] is one
 * repetition of dimension d: it contains all dimensions below d completely.  The pieces are as many
 * repetitions of the levels, highest first, as make up nitems. */
static int first_items(const struct shape *s, MPI_Datatype item, MPI_Count per, MPI_Count nitems,
                       MPI_Datatype *out)
{
    MPI_Datatype level[MAX_RANK + 1] = { 0 };
    MPI_Count units = nitems / (s->unit * per), rest = nitems % (s->unit * per), at = 0;
    MPI_Count below[MAX_RANK + 1] = { 1 }; /* units in one repetition of dimension d */
    struct pieces p = { 0 };
    int top = 0;
    int err = PMPI_Type_contiguous_c(s->unit * per, item, &level[0]);
    for (; !err && top + 1 < s->rank && below[top] * s->dim[top].n <= units; top++) {
        below[top + 1] = below[top] * s->dim[top].n;
        err = PMPI_Type_create_hvector_c(s->dim[top].n, 1, s->dim[top].step, level[top],
                                         &level[top + 1]);
        if (err)
            level[top + 1] = 0;
    }
    for (int d = top; !err && d >= 0; d--) {
        MPI_Datatype t = 0;
        MPI_Count n = units / below[d];
        if (n == 0)
            continue;
        MPI_Count step = s->rank > 0 ? s->dim[d].step : 0;
        err = PMPI_Type_create_hvector_c(n, 1, step, level[d], &t);
        put_piece(&p, err, t, at);
        units -= n * below[d];
        at += n * step;
    }
    if (!err && rest > 0) {
        MPI_Datatype t = 0;
        err = PMPI_Type_contiguous_c(rest, item, &t);
        put_piece(&p, err, t, at);
    }
    free_types(level, top + 1);
    return join_pieces(&p, err, out);
}

/* ---- datatypes that are not made of the elements of the section ---- */

/* The pieces of a section that a datatype selects.  Each run of bytes of the datatype, in the
 * contiguous buffer that the section stands for, is cut where the section has gaps.  n of `room`
 * pieces are in use; disp and len share one allocation, which begins at disp. */
struct cut {
    const struct shape *s;
    MPI_Count n, room, *len, *disp;
};

static void cut_run(struct cut *c, MPI_Count at, MPI_Count len)
{
    const struct shape *s = c->s;
    MPI_Count whole = s->unit * s->elem_len;
    while (len > 0) {
        MPI_Count in = at % whole, part = whole - in < len ? whole - in : len;
        if (c->n == c->room) {
            MPI_Count room = c->room ? 2 * c->room : 64,
                      *moved = wf_alloc(2 * sizeof(MPI_Count) * (size_t)room);
            for (MPI_Count i = 0; i < c->n; i++) {
                moved[i] = c->disp[i];
                moved[room + i] = c->len[i];
            }
            free(c->disp);
            c->disp = moved;
            c->len = moved + room;
            c->room = room;
        }
        c->disp[c->n] = place_of(s, at / s->elem_len) + at % s->elem_len;
        c->len[c->n++] = part;
        at += part;
        len -= part;
    }
}

static int any_items(const struct shape *s, MPI_Datatype type, MPI_Count count, MPI_Count extent,
                     MPI_Datatype *out)
{
    MPI_Count n = 0, nbytes = 0;
    struct cut c = { .s = s };
    int err = PMPIX_Type_iov_len(type, -1, &n, &nbytes);
    if (err)
        return err;
    MPIX_Iov *v = wf_alloc(sizeof *v * (size_t)(n + 1));
    err = PMPIX_Type_iov(type, 0, v, n, &n);
    for (MPI_Count i = 0; !err && i < count; i++)
        for (MPI_Count k = 0; k < n; k++)
            cut_run(&c, i * extent + (MPI_Count)v[k].iov_base, v[k].iov_len);
    if (!err)
        err = PMPI_Type_create_hindexed_c(c.n, c.len, c.disp, MPI_BYTE, out);
    free(c.disp);
    free(v);
    return err;
}

/* The datatype of a call and its size and extents, in bytes. */
struct item {
    MPI_Datatype type;
    MPI_Count size, lb, extent, true_lb, true_extent;
};

static int item_of(struct item *t, wf_int datatype)
{
    *t = (struct item){ .type = wf_h(MPI_Datatype, datatype) };
    int err = PMPI_Type_size_c(t->type, &t->size);
    if (!err)
        err = PMPI_Type_get_extent_c(t->type, &t->lb, &t->extent);
    return err ? err : PMPI_Type_get_true_extent_c(t->type, &t->true_lb, &t->true_extent);
}

static bool predefined(const struct item *t) { return (uintptr_t)t->type < 0x1000; }
static bool dense(const struct item *t)
{
    return t->size == t->extent && t->size == t->true_extent && !t->lb && !t->true_lb;
}

/* `count` items of a section as one type.  A dense item that fits an element is repeated as it is;
 * any dense predefined item as bytes. */
static int picked(const struct shape *s, const struct item *t, MPI_Count count, MPI_Datatype *out)
{
    if (dense(t) && s->elem_len % t->size == 0)
        return first_items(s, t->type, s->elem_len / t->size, count, out);
    if (dense(t) && predefined(t))
        return first_items(s, MPI_BYTE, s->elem_len, count * t->size, out);
    return any_items(s, t->type, count, t->extent, out);
}

/* Whether `count` items lie in the section. */
static bool fits(const struct shape *s, const struct item *t, MPI_Count count)
{
    MPI_Count last;
    if (t->true_lb < 0 || t->extent < 0)
        return false;
    return !__builtin_mul_overflow(count - 1, t->extent, &last) &&
           last <= s->total * s->elem_len - t->true_lb - t->true_extent;
}

/* ---- the last types ---- */

#define KEPT 16 /* the faces of a few arrays; a type made anew costs as much as 500 comparisons */

/* What a call gave: the descriptor without its address, datatype, count, blocks (0: no blocks). */
struct kept {
    MPI_Datatype made; /* 0: nothing is kept here */
    MPI_Count count;
    size_t elem_len;
    wf_int type;
    int blocks, rank;
    struct {
        intptr_t extent, stride;
    } dim[MAX_RANK];
};
/* Of this thread; NULL before the first.  A pointer fits the static TLS that dlopen has. */
static __thread struct kept *kept __attribute__((tls_model("initial-exec")));
static __thread unsigned next_kept;
static pthread_key_t at_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void forget(void *all)
{
    int over = 0;
    PMPI_Finalized(&over);
    for (int i = 0; i < KEPT; i++)
        if (!over && ((struct kept *)all)[i].made)
            PMPI_Type_free(&((struct kept *)all)[i].made);
    kept = NULL;
    free(all);
}
static void make_key(void) { pthread_key_create(&at_exit, forget); }

static bool same_dims(const struct kept *k, const struct wf_desc *d)
{
    for (int i = 0; i < d->rank; i++)
        if (k->dim[i].extent != d->dim[i].extent || k->dim[i].stride != d->dim[i].stride)
            return false;
    return true;
}

static inline __attribute__((always_inline)) MPI_Datatype
recall(const struct wf_desc *d, wf_int type, MPI_Count count, int blocks)
{
    const struct kept *all = kept;
    for (const struct kept *k = all; all && k < all + KEPT; k++)
        if (k->count == count && k->made && k->type == type && k->blocks == blocks &&
            k->elem_len == d->elem_len && k->rank == d->rank && same_dims(k, d))
            return k->made;
    return 0;
}

static void keep(const struct wf_desc *d, wf_int type, MPI_Count count, int blocks,
                 MPI_Datatype made)
{
    if (!kept) {
        kept = wf_alloc(KEPT * sizeof *kept);
        memset(kept, 0, KEPT * sizeof *kept);
        pthread_once(&once, make_key);
        pthread_setspecific(at_exit, kept);
    }
    struct kept *k = &kept[next_kept++ % KEPT];
    if (k->made)
        PMPI_Type_free(&k->made);
    k->made = made;
    k->type = type;
    k->count = count;
    k->blocks = blocks;
    k->elem_len = d->elem_len;
    k->rank = d->rank;
    for (int i = 0; i < d->rank; i++) {
        k->dim[i].extent = d->dim[i].extent;
        k->dim[i].stride = d->dim[i].stride;
    }
}

/* ---- sections ---- */

static int refuse(struct wf_section *s, const char *why)
{
    s->why = why;
    return MPI_ERR_BUFFER;
}

static int one_of_type(struct wf_section *s, const struct wf_desc *d, MPI_Datatype type)
{
    wf_section_as_is(s, d, 1, wf_i(type));
    return MPI_SUCCESS;
}

static const char too_short[] = "the call needs more data than the array section has";

/* The type of `count` items; n blocks of it follow each other `step` bytes apart (n = 0: no
 * blocks). */
static int section_type(struct wf_section *s, const struct wf_desc *d, const struct shape *shape,
                        const struct item *t, MPI_Count count, int n, MPI_Count step)
{
    MPI_Datatype made = 0;
    int err = picked(shape, t, count, &made);
    if (!err && n) {
        MPI_Datatype whole = made;
        err = PMPI_Type_create_resized_c(whole, 0, step, &made);
        PMPI_Type_free(&whole);
    }
    if (!err)
        err = PMPI_Type_commit(&made);
    if (err)
        return err;
    if (predefined(t))
        keep(d, wf_i(t->type), count, n, made);
    else
        s->made = made;
    return one_of_type(s, d, made);
}

/* wf_section_strided where no type is kept. */
static WF_COLD int new_section(struct wf_section *s, const struct wf_desc *d, MPI_Count count,
                               wf_int datatype)
{
    struct shape shape;
    struct item t;
    if (contiguous(d) || count <= 0)
        return wf_section_as_is(s, d, count, datatype);
    int err = item_of(&t, datatype);
    if (err || t.size <= 0)
        return err ? err : wf_section_as_is(s, d, count, datatype);
    merge(&shape, d);
    if (!fits(&shape, &t, count))
        return refuse(s, too_short);
    return section_type(s, d, &shape, &t, count, 0, 0);
}

int wf_section_strided(struct wf_section *s, const struct wf_desc *d, MPI_Count count,
                       wf_int datatype)
{
    MPI_Datatype made = recall(d, datatype, count, 0);
    return wf_likely(made) ? one_of_type(s, d, made) : new_section(s, d, count, datatype);
}

/* Bytes from one block of `m` elements to the next, if all n blocks have the same layout; otherwise
 * 0. */
static MPI_Count block_step(const struct shape *s, int n, MPI_Count m)
{
    MPI_Count below = s->unit;
    if (s->unit % m == 0 && n <= s->unit / m)
        return m * s->elem_len;
    for (int d = 0; d < s->rank; d++) {
        MPI_Count each = m % below ? 0 : m / below; /* repetitions of dimension d in a block */
        if (each && n * each <= s->dim[d].n)
            return each * s->dim[d].step;
        below *= s->dim[d].n;
    }
    return 0;
}

int wf_section_blocks(struct wf_section *s, const struct wf_desc *d, int n, MPI_Count count,
                      wf_int datatype, struct wf_place place)
{
    struct shape shape;
    struct item t;
    MPI_Datatype made = n > 0 ? recall(d, datatype, count, n) : 0;
    if (made)
        return one_of_type(s, d, made);
    if (contiguous(d) || count <= 0 || n <= 0)
        return wf_section_as_is(s, d, count, datatype);
    int err = item_of(&t, datatype);
    if (err || t.size <= 0)
        return err ? err : wf_section_as_is(s, d, count, datatype);
    merge(&shape, d);
    if (!fits(&shape, &t, count * n))
        return refuse(s, too_short);
    MPI_Count nbytes = count * t.extent;
    MPI_Count step = nbytes % shape.elem_len ? 0 : block_step(&shape, n, nbytes / shape.elem_len);
    if (step)
        return section_type(s, d, &shape, &t, count, n, step);
    wf_section_as_is(s, d, count, datatype);
    return wf_section_copy(s, d, place);
}

/* ---- copies ---- */

static int copy_all(struct wf_section *s, bool in)
{
    MPI_Count at = 0;
    static const char native[] = "external32"; /* bytes have one form only */
    if (s->comm && in)
        return PMPI_Pack_c(s->d->base, 1, s->all, s->addr, s->nbytes, &at, s->comm);
    if (s->comm)
        return PMPI_Unpack_c(s->addr, s->nbytes, &at, s->d->base, 1, s->all, s->comm);
    if (in)
        return PMPI_Pack_external_c(native, s->d->base, 1, s->all, s->addr, s->nbytes, &at);
    return PMPI_Unpack_external_c(native, s->addr, s->nbytes, &at, s->d->base, 1, s->all);
}

int wf_section_copy(struct wf_section *s, const struct wf_desc *d, struct wf_place place)
{
    struct shape shape;
    s->addr = d->base;
    if (contiguous(d))
        return MPI_SUCCESS;
    if (!place.blocks)
        return refuse(
            s, "this nonblocking or persistent call takes contiguous arrays only: the data of "
               "this section cannot be described by one datatype");
    merge(&shape, d);
    s->nbytes = shape.total * shape.elem_len;
    s->comm = place.comm ? wf_h(MPI_Comm, place.comm) : 0;
    int err = first_items(&shape, MPI_BYTE, shape.elem_len, s->nbytes, &s->all);
    if (!err)
        err = PMPI_Type_commit(&s->all);
    if (err)
        return err;
    s->d = d;
    s->addr = wf_alloc((size_t)s->nbytes);
    s->back = place.writes;
    return copy_all(s, true);
}

int wf_section_whole(struct wf_section *s, const struct wf_desc *d)
{
    s->addr = d->base;
    return contiguous(d) ? MPI_SUCCESS : refuse(s, "the memory must be a contiguous array");
}

void wf_section_refused(const struct wf_section s[], int n, const char *call, wf_int comm, int err,
                        wf_int *ierror)
{
    for (int i = 0; i < n; i++)
        if (s[i].why)
            err = PMPIX_Comm_raise(comm ? wf_h(MPI_Comm, comm) : MPI_COMM_NULL, err, call,
                                   s[i].why);
    wf_error(ierror, err);
}

void wf_section_release(struct wf_section *s)
{
    if (s->made)
        PMPI_Type_free(&s->made);
    if (!s->d)
        return;
    if (s->back)
        copy_all(s, false);
    free(s->addr);
    PMPI_Type_free(&s->all);
}

int wf_root_blocks(wf_int comm, wf_int root)
{
    int rank = MPI_UNDEFINED;
    if (root == MPI_ROOT)
        return wf_peers(comm);
    return PMPI_Comm_rank(wf_h(MPI_Comm, comm), &rank) == MPI_SUCCESS && root == rank
               ? wf_peers(comm)
               : 0;
}

/* MPI_SIZEOF: the compiler passes the size in the descriptor. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
WF_EXPORT void WF_F08TS(MPI_Sizeof, mpi_sizeof_f08ts_)(const struct wf_desc *x, wf_int *size,
                                                       wf_int *ierror)
{
    WF_DESC(x);
    *size = (wf_int)x->elem_len;
    wf_error(ierror, MPI_SUCCESS);
}
WF_EXPORT void WF_F08TS(PMPI_Sizeof, pmpir_sizeof_f08ts_)(const struct wf_desc *x, wf_int *size,
                                                          wf_int *ierror)
{
    WF_F08TS(MPI_Sizeof, mpi_sizeof_f08ts_)(x, size, ierror);
}

#ifndef WF_ABI
/* For probe.f90: what the library sees of a descriptor, and of an argument that is absent. */
WF_EXPORT void weft_describe(const struct wf_desc *x, int64_t out[64], const int64_t *absent)
{
    out[0] = (int64_t)x->elem_len;
    out[1] = x->rank;
    out[2] = (int64_t)(intptr_t)x->base;
    out[3] = absent == NULL;
    for (int i = 0; i < x->rank && i < MAX_RANK; i++) {
        out[4 + i] = x->dim[i].extent;
        out[19 + i] = x->dim[i].stride;
    }
}
#endif
