/* SPDX-License-Identifier: BSD-3-Clause */
/* Datatypes: the predefined types against the fact table (its path is the argument), bounds of
 * derived types against examples of MPI-5.0 chapter 5, envelopes, basic elements, packing. */
#include "mpi/api/bodies.h"
#include "mpi/base/status.h"
#include "mpi/datatype/type.h"
#include "mpi/op/op.h"
#include "test/check.h"

static const char *table;
#define T(h) wm_type_get(h)
#define INTS(...) \
    (struct wm_counts) { (const int[]){ __VA_ARGS__ }, false }
#define DISP(...) \
    (struct wm_displs) { (const int[]){ __VA_ARGS__ }, false }
#define ADDR(...) \
    (struct wm_displs) { (const MPI_Aint[]){ __VA_ARGS__ }, true }

static void check_type(const struct wm_type *t, int64_t size, int64_t lb, int64_t extent)
{
    CHECK_EQ(t->layout.size, size);
    CHECK_EQ(t->layout.lb, lb);
    CHECK_EQ(t->layout.extent, extent);
}

static int split_tabs(char *line, char *col[], int max)
{
    int n = 0;
    for (char *p = line; p && n < max; n++) {
        col[n] = p;
        p = strchr(p, '\t');
        if (p)
            *p++ = '\0';
    }
    return n;
}

/* Columns: name handle bits block encoded c_type fortran_type size_rule size extent optional class
 * allowed_ops ... */
static void predefined_sizes(void)
{
    char line[2048], *col[14];
    int rows = 0, absent = 0;
    FILE *f = fopen(table, "r");
    CHECK_MSG(f, "cannot open %s", table);
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        if (split_tabs(line, col, 14) < 13 || strncmp(col[0], "MPI_", 4) ||
            !strcmp(col[0], "MPI_DATATYPE_NULL"))
            continue;
        struct wm_type *t = T((MPI_Datatype)strtoul(col[1], NULL, 16));
        MPI_Count size, lb, extent;
        rows++;
        CHECK_MSG(t, "%s has no entry", col[0]);
        if (!t)
            continue;
        wm_api_type_size(t, &size);
        wm_api_type_get_extent(t, &lb, &extent);
        if (t->absent) {
            absent++;
            CHECK_MSG(!strncmp(col[10], "optional", 8), "%s is absent but required", col[0]);
            CHECK_EQ(size, MPI_UNDEFINED);
            continue;
        }
        CHECK_MSG(size == atoi(col[8]) && extent == atoi(col[9]) && !lb,
                  "%s: size %lld, extent %lld", col[0], (long long)size, (long long)extent);
    }
    if (f)
        fclose(f);
    CHECK(rows >= 70);
    CHECK_EQ(absent, 0); /* gcc and clang on 64-bit machines have them all */
    CHECK(!T(MPI_DATATYPE_NULL));
    CHECK(!T((MPI_Datatype)0x204));
    CHECK(!T(NULL));
}

/* Combinations that the table, which is the standard's, does not have and other libraries
 * accept. */
static bool allowed_beyond(MPI_Datatype t, MPI_Op op)
{
    bool logical = op == MPI_LAND || op == MPI_LOR || op == MPI_LXOR;
    if (t == MPI_CHAR)
        return op != MPI_MINLOC && op != MPI_MAXLOC && op != MPI_REPLACE && op != MPI_NO_OP;
    return logical && (t == MPI_AINT || t == MPI_COUNT || t == MPI_OFFSET);
}

/* The allowed operations of the table's row and those beyond it, and no others. */
static void allowed_ops(void)
{
    static const struct {
        const char *name;
        MPI_Op op;
    } ops[] = {
        { "MAX", MPI_MAX },         { "MIN", MPI_MIN },       { "SUM", MPI_SUM },
        { "PROD", MPI_PROD },       { "LAND", MPI_LAND },     { "LOR", MPI_LOR },
        { "LXOR", MPI_LXOR },       { "BAND", MPI_BAND },     { "BOR", MPI_BOR },
        { "BXOR", MPI_BXOR },       { "MINLOC", MPI_MINLOC }, { "MAXLOC", MPI_MAXLOC },
        { "REPLACE", MPI_REPLACE }, { "NO_OP", MPI_NO_OP },
    };
    char line[2048], *col[14], list[256], want[32];
    int checked = 0;
    FILE *f = fopen(table, "r");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        if (split_tabs(line, col, 14) < 13 || strncmp(col[0], "MPI_", 4) ||
            !strcmp(col[0], "MPI_DATATYPE_NULL"))
            continue;
        const struct wm_type *t = T((MPI_Datatype)strtoul(col[1], NULL, 16));
        snprintf(list, sizeof list, " %s ", col[12]);
        for (size_t i = 0; t && !t->absent && i < sizeof ops / sizeof ops[0]; i++) {
            snprintf(want, sizeof want, " %s ", ops[i].name);
            bool allowed = strstr(list, want) ||
                           allowed_beyond((MPI_Datatype)strtoul(col[1], NULL, 16), ops[i].op);
            CHECK_MSG(wm_op_allows(wm_op_get(ops[i].op), t) == allowed, "%s on %s", ops[i].name,
                      col[0]);
            checked++;
        }
    }
    if (f)
        fclose(f);
    CHECK(checked > 900);
}

static void user_fn(void *in, void *inout, int *n, MPI_Datatype *type)
{
    CHECK(*type == MPI_INT);
    for (int i = 0; i < *n; i++)
        ((int *)inout)[i] = 10 * ((int *)in)[i] + ((int *)inout)[i];
}

static void user_op(void)
{
    struct wm_op *o;
    int a[3] = { 1, 2, 3 }, b[3] = { 4, 5, 6 };
    CHECK_EQ(wm_api_op_create(user_fn, 0, &o), 0);
    CHECK(wm_op_handle(o) != MPI_OP_NULL && wm_op_get(wm_op_handle(o)) == o);
    CHECK(!o->op.commutes);
    CHECK(wm_op_allows(o, T(MPI_CHAR)));
    o->op.user(&o->op, a, b, 3, &T(MPI_INT)->layout);
    CHECK(b[0] == 14 && b[1] == 25 && b[2] == 36);
    MPI_Op h = wm_op_handle(o);
    CHECK_EQ(wm_api_op_free(o), 0);
    CHECK(!wm_op_get(h));
    CHECK_EQ(wm_api_op_free(wm_op_get(MPI_SUM)), MPI_ERR_OP);
}

/* Example 5.2 and 5.3 of MPI-5.0: {(double, 0), (char, 8)} has extent 16. */
static void struct_bounds(void)
{
    struct wm_type *t, *c, *r, *mixed;
    MPI_Datatype types[] = { MPI_DOUBLE, MPI_CHAR };
    CHECK_EQ(wm_api_type_create_struct(2, INTS(1, 1), ADDR(0, 8), types, &t), 0);
    check_type(t, 9, 0, 16);
    CHECK_EQ(t->layout.true_extent, 9);
    CHECK_EQ(wm_api_type_contiguous(3, t, &c), 0);
    check_type(c, 27, 0, 48);
    CHECK_EQ(c->layout.true_extent, 41);
    /* A resized part determines the bounds alone. */
    CHECK_EQ(wm_api_type_create_resized(T(MPI_INT), -3, 9, &r), 0);
    check_type(r, 4, -3, 9);
    MPI_Datatype parts[] = { MPI_DOUBLE, wm_type_handle(r) };
    CHECK_EQ(wm_api_type_create_struct(2, INTS(1, 2), ADDR(0, 8), parts, &mixed), 0);
    check_type(mixed, 16, 5, 18);
    CHECK_EQ(mixed->nelems, 3);
    wm_api_type_free(mixed);
    wm_api_type_free(r);
    wm_api_type_free(c);
    wm_api_type_free(t);
    CHECK_EQ(wm_type_slab.used, 0);
}

static void vectors(void)
{
    struct wm_type *v, *h, *x;
    CHECK_EQ(wm_api_type_vector(2, 3, 4, T(MPI_DOUBLE), &v), 0);
    check_type(v, 48, 0, 56);
    CHECK_EQ(wm_api_type_create_hvector(3, 1, -8, T(MPI_INT), &h), 0);
    check_type(h, 12, -16, 20);
    CHECK_EQ(wm_api_type_indexed(2, INTS(3, 1), DISP(4, 0), v, &x), 0);
    check_type(x, 4 * 48, 0, 7 * 56);
    CHECK(x->basic == T(MPI_DOUBLE) && x->nelems == 24 && x->layout.elem == RT_ELEM_F64);
    struct wm_type *none;
    CHECK_EQ(wm_api_type_indexed(1, INTS(-1), DISP(0), v, &none), MPI_ERR_ARG);
    struct wm_type lacking = { .absent = true, .name = "MPI_REAL16" };
    CHECK_EQ(wm_api_type_contiguous(1, &lacking, &none), MPI_ERR_TYPE);
    wm_api_type_free(x);
    wm_api_type_free(h);
    wm_api_type_free(v);
    CHECK_EQ(wm_type_slab.used, 0);
}

static void subarrays(void)
{
    struct wm_type *c, *f;
    int a[4][5], out[6];
    for (int i = 0; i < 20; i++)
        ((int *)a)[i] = i;
    CHECK_EQ(wm_api_type_create_subarray(2, INTS(4, 5), INTS(2, 3), INTS(1, 2), MPI_ORDER_C,
                                         T(MPI_INT), &c),
             0);
    check_type(c, 24, 0, 80);
    rt_layout_pack(&c->layout, 1, a, 0, out, 24);
    CHECK(out[0] == 7 && out[2] == 9 && out[3] == 12 && out[5] == 14);
    CHECK_EQ(wm_api_type_create_subarray(2, INTS(5, 4), INTS(3, 2), INTS(2, 1), MPI_ORDER_FORTRAN,
                                         T(MPI_INT), &f),
             0);
    memset(out, 0, sizeof out);
    rt_layout_pack(&f->layout, 1, a, 0, out, 24);
    CHECK(out[0] == 7 && out[2] == 9 && out[3] == 12 && out[5] == 14);
    wm_api_type_free(c);
    wm_api_type_free(f);
    CHECK_EQ(wm_api_type_create_subarray(1, INTS(4), INTS(3), INTS(2), MPI_ORDER_C, T(MPI_INT), &c),
             MPI_ERR_ARG);
}

static void contents(void)
{
    struct wm_type *t;
    int ni, na, nt, combiner, ints[8];
    MPI_Aint addrs[4];
    MPI_Datatype types[4], parts[] = { MPI_INT, MPI_DOUBLE };
    CHECK_EQ(wm_api_type_create_struct(2, INTS(5, 6), ADDR(16, 64), parts, &t), 0);
    CHECK_EQ(wm_api_type_get_envelope(t, &ni, &na, &nt, &combiner), 0);
    CHECK(ni == 3 && na == 2 && nt == 2 && combiner == MPI_COMBINER_STRUCT);
    CHECK_EQ(wm_api_type_get_contents(t, 3, 2, 2, ints, addrs, types), 0);
    CHECK(ints[0] == 2 && ints[1] == 5 && ints[2] == 6 && addrs[0] == 16 && addrs[1] == 64);
    CHECK(types[0] == MPI_INT && types[1] == MPI_DOUBLE);
    CHECK_EQ(wm_api_type_get_contents(t, 2, 2, 2, ints, addrs, types), MPI_ERR_ARG);
    /* A part outlives its handle. */
    MPI_Datatype h = wm_type_handle(t);
    struct wm_type *d;
    CHECK_EQ(wm_api_type_dup(t, &d), 0);
    CHECK_EQ(wm_api_type_free(t), 0);
    CHECK_EQ(wm_api_type_get_contents(d, 0, 0, 1, ints, addrs, types), 0);
    CHECK(types[0] == h);
    wm_type_unref(wm_type_get(h));
    wm_api_type_free(d);
    CHECK_EQ(wm_type_slab.used, 0);
    CHECK_EQ(wm_api_type_get_contents(T(MPI_INT), 0, 0, 0, ints, addrs, types), MPI_ERR_TYPE);
    CHECK_EQ(wm_api_type_free(T(MPI_INT)), MPI_ERR_TYPE);
    /* A count beyond int is returned by the large form only. */
    MPI_Count nc, ni_c, na_c, nt_c, counts[2];
    CHECK_EQ(wm_api_type_contiguous(5000000000, T(MPI_CHAR), &t), 0);
    CHECK_EQ(wm_api_type_get_envelope(t, &ni, &na, &nt, &combiner), MPI_ERR_TYPE);
    CHECK_EQ(wm_api_type_get_envelope_c(t, &ni_c, &na_c, &nc, &nt_c, &combiner), 0);
    CHECK(ni_c == 0 && na_c == 0 && nc == 1 && nt_c == 1);
    CHECK_EQ(wm_api_type_get_contents_c(t, 0, 0, 1, 1, NULL, NULL, counts, types), 0);
    CHECK_EQ(counts[0], 5000000000);
    wm_api_type_free(t);
}

static MPI_Count elements(struct wm_type *t, int64_t nbytes)
{
    MPI_Status s;
    MPI_Count n = -1;
    wm_status_set(&s, 0, 0, nbytes, false);
    CHECK_EQ(wm_api_get_elements(&s, t, &n), 0);
    return n;
}

static void basic_elements(void)
{
    struct wm_type *t, *v;
    MPI_Datatype parts[] = { MPI_INT, MPI_DOUBLE };
    MPI_Status s;
    MPI_Count n;
    CHECK_EQ(wm_api_type_create_struct(2, INTS(2, 1), ADDR(0, 8), parts, &t), 0);
    CHECK_EQ(wm_api_type_vector(2, 1, 2, t, &v), 0); /* ints, double; ints, double: 32 bytes */
    CHECK_EQ(elements(v, 0), 0);
    CHECK_EQ(elements(v, 4), 1);
    CHECK_EQ(elements(v, 8), 2);
    CHECK_EQ(elements(v, 12), MPI_UNDEFINED);
    CHECK_EQ(elements(v, 16), 3);
    CHECK_EQ(elements(v, 20), 4);
    CHECK_EQ(elements(v, 32 + 24), 6 + 5);
    CHECK_EQ(elements(T(MPI_DOUBLE_INT), 12), 2);
    CHECK_EQ(elements(T(MPI_DOUBLE_INT), 8), 1);
    CHECK_EQ(elements(T(MPI_DOUBLE_INT), 10), MPI_UNDEFINED);
    CHECK_EQ(elements(T(MPI_SHORT_INT), 8), 3);
    wm_status_set(&s, 0, 0, 24, false);
    CHECK_EQ(wm_api_get_count(&s, T(MPI_DOUBLE), &n), 0);
    CHECK_EQ(n, 3);
    CHECK_EQ(wm_api_get_count(&s, v, &n), 0);
    CHECK_EQ(n, MPI_UNDEFINED);
    CHECK_EQ(wm_api_status_set_elements(&s, v, 12), 0);
    CHECK_EQ(wm_status_len(&s), 64);
    wm_api_type_free(v);
    wm_api_type_free(t);
}

static void packing(void)
{
    struct wm_type *v;
    int in[6] = { 1, 2, 3, 4, 5, 6 }, back[6] = { 0 };
    char buf[16];
    MPI_Count at = 2;
    CHECK_EQ(wm_api_type_vector(3, 1, 2, T(MPI_INT), &v), 0);
    CHECK_EQ(wm_api_pack(in, 1, v, buf, 16, &at, NULL), MPI_ERR_TYPE); /* not committed */
    wm_api_type_commit(v);
    CHECK_EQ(wm_api_pack(in, 1, v, buf, 16, &at, NULL), 0);
    CHECK_EQ(at, 14);
    CHECK_EQ(wm_api_pack(in, 1, v, buf, 16, &at, NULL), MPI_ERR_TRUNCATE);
    CHECK_EQ(at, 14);
    at = 2;
    CHECK_EQ(wm_api_unpack(buf, 16, &at, back, 1, v, NULL), 0);
    CHECK(back[0] == 1 && back[1] == 0 && back[2] == 3 && back[4] == 5);
    CHECK_EQ(wm_api_unpack(buf, 16, &at, back, 1, v, NULL), MPI_ERR_TRUNCATE);
    at = 20;
    CHECK_EQ(wm_api_unpack(buf, 16, &at, back, 1, v, NULL), MPI_ERR_ARG);
    wm_api_type_free(v);
}

#define SAYS(call, errclass, text) \
    do { \
        CHECK_EQ(call, errclass); \
        CHECK_MSG(strstr(wm_err_detail(), text), "the text is: %s", wm_err_detail()); \
    } while (0)
static void error_texts(void)
{
    struct wm_type *t;
    long big = 1L << 40;
    char buf[16];
    MPI_Count at = 0;
    const int block = MPI_DISTRIBUTE_BLOCK, four = 4, two = 2;
    SAYS(wm_api_type_create_darray(2, 0, 1, INTS(10), &block, &four, &two, MPI_ORDER_C, T(MPI_INT),
                                   &t),
         MPI_ERR_ARG, "array_of_dargs[0] is 4; blocks of this length on 2 processes");
    SAYS(wm_api_type_create_darray(3, 0, 1, INTS(10), &block, &four, &two, MPI_ORDER_C, T(MPI_INT),
                                   &t),
         MPI_ERR_ARG, "a grid of 2 processes, size is 3");
    SAYS(wm_api_pack_external("external32", &big, 1, T(MPI_LONG), buf, 16, &at), MPI_ERR_CONVERSION,
         "a value of MPI_LONG does not fit in the 4 bytes");
    SAYS(wm_api_pack_external("xdr", &big, 1, T(MPI_LONG), buf, 16, &at),
         MPI_ERR_UNSUPPORTED_DATAREP, "datarep is \"xdr\"");
    SAYS(wm_api_type_create_f90_real(40, 2, &t), MPI_ERR_ARG, "precision 40 and range 2");
}

int main(int argc, char **argv)
{
    table = argc > 1 ? argv[1] : "mpi/api/datatype-sizes.tsv";
    RUN(predefined_sizes);
    RUN(allowed_ops);
    RUN(user_op);
    RUN(struct_bounds);
    RUN(vectors);
    RUN(subarrays);
    RUN(contents);
    RUN(basic_elements);
    RUN(packing);
    RUN(error_texts);
    return check_end();
}
