/* SPDX-License-Identifier: BSD-3-Clause */
/* A program of a foreign ABI: predefined handles, null handles, constants, error codes, attributes
 * and removed procedures.  It is built position-independent, at a fixed address, and as a library
 * that a program without MPI opens. */
#include "test/mpi/mpitest.h"
#include <stdint.h>

/* MPI_LB and MPI_UB, and handles of no object. */
#ifdef TEST_ompi
#define LB ((MPI_Datatype)(void *)&ompi_mpi_lb)
#define UB ((MPI_Datatype)(void *)&ompi_mpi_ub)
#define NO_TYPE ((MPI_Datatype)0x9fffffff)
#define NO_COMM ((MPI_Comm)0x9fffffff)
#else
#define LB ((MPI_Datatype)0x4c000010)
#define UB ((MPI_Datatype)0x4c000011)
#define NO_TYPE ((MPI_Datatype)0x4c0000ff)
#define INTEL_BF16 ((MPI_Datatype)0x4c000247) /* has the number of MPI_LOGICAL1 */
#define NO_COMM ((MPI_Comm)0x101)
#endif

#define T(type) \
    { \
        type, #type \
    }
static const struct {
    MPI_Datatype type;
    const char *name;
} named[] = {
    T(MPI_CHAR),
    T(MPI_SIGNED_CHAR),
    T(MPI_UNSIGNED_CHAR),
    T(MPI_BYTE),
    T(MPI_WCHAR),
    T(MPI_SHORT),
    T(MPI_UNSIGNED_SHORT),
    T(MPI_INT),
    T(MPI_UNSIGNED),
    T(MPI_LONG),
    T(MPI_UNSIGNED_LONG),
    T(MPI_FLOAT),
    T(MPI_DOUBLE),
    T(MPI_LONG_DOUBLE),
    T(MPI_UNSIGNED_LONG_LONG),
    T(MPI_PACKED),
    T(MPI_FLOAT_INT),
    T(MPI_DOUBLE_INT),
    T(MPI_LONG_INT),
    T(MPI_SHORT_INT),
    T(MPI_2INT),
    T(MPI_LONG_DOUBLE_INT),
    T(MPI_COMPLEX),
    T(MPI_DOUBLE_COMPLEX),
    T(MPI_LOGICAL),
    T(MPI_REAL),
    T(MPI_DOUBLE_PRECISION),
    T(MPI_INTEGER),
    T(MPI_2INTEGER),
    T(MPI_2REAL),
    T(MPI_2DOUBLE_PRECISION),
    T(MPI_CHARACTER),
    T(MPI_REAL4),
    T(MPI_REAL8),
    T(MPI_COMPLEX8),
    T(MPI_COMPLEX16),
    T(MPI_INTEGER1),
    T(MPI_INTEGER2),
    T(MPI_INTEGER4),
    T(MPI_INTEGER8),
    T(MPI_INT8_T),
    T(MPI_INT16_T),
    T(MPI_INT32_T),
    T(MPI_INT64_T),
    T(MPI_UINT8_T),
    T(MPI_UINT16_T),
    T(MPI_UINT32_T),
    T(MPI_UINT64_T),
    T(MPI_C_BOOL),
    T(MPI_C_DOUBLE_COMPLEX),
    T(MPI_C_LONG_DOUBLE_COMPLEX),
    T(MPI_AINT),
    T(MPI_OFFSET),
    T(MPI_COUNT),
#ifdef MPI_LOGICAL1
    T(MPI_LOGICAL1),
#endif
#ifdef MPIX_BFLOAT16
    T(MPIX_BFLOAT16),
#endif
};

static void check_type(MPI_Datatype type, const char *name)
{
    char text[MPI_MAX_OBJECT_NAME];
    int len, ni, na, nt, combiner, one = 0;
    MPI_Datatype pair, inner = MPI_DATATYPE_NULL;
    OK(MPI_Type_get_name(type, text, &len));
    CHECK_MSG(!strcmp(text, name), "%s is named %s", name, text);
    OK(MPI_Type_get_envelope(type, &ni, &na, &nt, &combiner));
    CHECK_EQ(combiner, MPI_COMBINER_NAMED);
    OK(MPI_Type_contiguous(2, type, &pair));
    OK(MPI_Type_get_contents(pair, 1, 0, 1, &one, NULL, &inner));
    CHECK_EQ(one, 2);
    CHECK_MSG(inner == type, "%s came back as %#jx", name, (uintmax_t)(uintptr_t)inner);
    OK(MPI_Type_free(&pair));
    CHECK_EQ(pair, MPI_DATATYPE_NULL);
}

static void types(void)
{
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        check_type(named[i].type, named[i].name);
    MPI_Datatype f90;
    OK(MPI_Type_create_f90_integer(9, &f90));
    CHECK(f90 != MPI_DATATYPE_NULL);
    FAILS(MPI_Type_size(NO_TYPE, &(int){ 0 }), MPI_ERR_TYPE);
#ifdef INTEL_BF16
    FAILS(MPI_Type_size(INTEL_BF16, &(int){ 0 }), MPI_ERR_TYPE);
#endif
    FAILS(MPI_Type_size(MPI_DATATYPE_NULL, &(int){ 0 }), MPI_ERR_TYPE);
}

static void objects(void)
{
    MPI_Group all, none;
    MPI_Errhandler e;
    MPI_Message message;
    MPI_Request r = MPI_REQUEST_NULL;
    MPI_Status st;
    MPI_Comm made;
    int flag;
    OK(MPI_Comm_group(mt_comm, &all));
    OK(MPI_Group_difference(all, all, &none));
    CHECK_EQ(none, MPI_GROUP_EMPTY);
    OK(MPI_Group_free(&all));
    CHECK_EQ(all, MPI_GROUP_NULL);
    OK(MPI_Comm_get_errhandler(mt_comm, &e));
    CHECK_EQ(e, MPI_ERRORS_RETURN);
    OK(MPI_Comm_set_errhandler(mt_comm, MPI_ERRORS_ARE_FATAL));
    OK(MPI_Comm_get_errhandler(mt_comm, &e));
    CHECK_EQ(e, MPI_ERRORS_ARE_FATAL);
    OK(MPI_Comm_set_errhandler(mt_comm, MPI_ERRORS_RETURN));
    OK(MPI_Mprobe(MPI_PROC_NULL, 0, mt_comm, &message, &st));
    CHECK_EQ(message, MPI_MESSAGE_NO_PROC);
    OK(MPI_Mrecv(NULL, 0, MPI_INT, &message, &st));
    CHECK_EQ(message, MPI_MESSAGE_NULL);
    CHECK_EQ(st.MPI_SOURCE, MPI_PROC_NULL);
    CHECK_EQ(st.MPI_TAG, MPI_ANY_TAG);
    OK(MPI_Wait(&r, &st));
    CHECK_EQ(st.MPI_SOURCE, MPI_ANY_SOURCE);
    CHECK_EQ(r, MPI_REQUEST_NULL);
    OK(MPI_Comm_split(mt_comm, MPI_UNDEFINED, 0, &made));
    CHECK_EQ(made, MPI_COMM_NULL);
    OK(MPI_Topo_test(mt_comm, &flag));
    CHECK_EQ(flag, MPI_UNDEFINED);
    OK(MPI_Comm_compare(MPI_COMM_WORLD, MPI_COMM_WORLD, &flag));
    CHECK_EQ(flag, MPI_IDENT);
    OK(MPI_Comm_compare(MPI_COMM_WORLD, mt_comm, &flag));
    CHECK_EQ(flag, MPI_CONGRUENT);
    CHECK_EQ(MPI_Comm_f2c(MPI_Comm_c2f(mt_comm)), mt_comm);
}

static void handles_of_strangers(void)
{
    MPI_Aint at;
    OK(MPI_Get_address(MPI_IN_PLACE, &at));
    CHECK_EQ(at, (MPI_Aint)MPI_IN_PLACE);
#if MPI_VERSION >= 5
    MPI_Status st;
    int code;
    OK(MPI_Status_set_error(&st, 333));
    OK(MPI_Status_get_error(&st, &code));
    CHECK_EQ(code, 333);
#endif
    FAILS(MPI_Comm_size(NO_COMM, &(int){ 0 }), MPI_ERR_COMM);
    FAILS(MPI_Comm_size(MPI_COMM_NULL, &(int){ 0 }), MPI_ERR_COMM);
    FAILS(MPI_Send(NULL, 0, MPI_INT, -4, 0, mt_comm), MPI_ERR_RANK);
    FAILS(MPI_Send(NULL, 0, MPI_INT, MPI_ANY_SOURCE, 0, mt_comm), MPI_ERR_RANK);
    FAILS(MPI_Send(NULL, 0, MPI_INT, 0, MPI_ANY_TAG, mt_comm), MPI_ERR_TAG);
    FAILS(MPI_Send(NULL, 0, MPI_INT, 0, -2, mt_comm), MPI_ERR_TAG);
}

/* ---- error codes ---- */

static int seen_code, seen_comm_is_ours, deleted;

static void on_error(MPI_Comm *comm, int *code, ...)
{
    seen_code = *code;
    seen_comm_is_ours = *comm == mt_comm;
}

static void error_codes(void)
{
    MPI_Errhandler e;
    int class, code, back, len, *last, flag;
    char text[MPI_MAX_ERROR_STRING];
    OK(MPI_Add_error_class(&class));
    CHECK_MSG(class > MPI_ERR_LASTCODE, "%d", class);
    OK(MPI_Add_error_code(class, &code));
    OK(MPI_Add_error_string(code, "own text"));
    OK(MPI_Error_string(code, text, &len));
    CHECK(!strcmp(text, "own text"));
    OK(MPI_Error_class(code, &back));
    CHECK_EQ(back, class);
    for (int known = 0; known <= MPI_ERR_RMA_SYNC; known++) {
        OK(MPI_Error_string(known, text, &len));
        OK(MPI_Error_class(known, &back));
    }
    OK(MPI_Error_class(MPI_ERR_RMA_SYNC, &back));
    CHECK_EQ(back, MPI_ERR_RMA_SYNC);
    OK(MPI_Comm_get_attr(mt_comm, MPI_LASTUSEDCODE, &last, &flag));
    CHECK_EQ(*last, code);
    OK(MPI_Comm_create_errhandler(on_error, &e));
    OK(MPI_Comm_set_errhandler(mt_comm, e));
    OK(MPI_Errhandler_free(&e));
    CHECK_EQ(e, MPI_ERRHANDLER_NULL);
    CHECK_EQ(MPI_Send(NULL, 0, MPI_DATATYPE_NULL, 0, 0, mt_comm), MPI_ERR_TYPE);
    CHECK_EQ(seen_code, MPI_ERR_TYPE);
    CHECK(seen_comm_is_ours);
    OK(MPI_Comm_call_errhandler(mt_comm, code));
    CHECK_EQ(seen_code, code);
}

/* ---- attributes ---- */

static int copy_attr(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    (void)key;
    CHECK_EQ(comm, mt_comm);
    *(char **)out = (char *)in + *(int *)extra;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete_attr(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)extra;
    deleted++;
    return value ? MPI_SUCCESS : MPI_ERR_OTHER;
}

static void attributes(void)
{
    int key, dup_key, two = 2, flag, *value;
    char *text;
    MPI_Comm other;
    OK(MPI_Comm_create_keyval(copy_attr, delete_attr, &key, &two));
    OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &dup_key, NULL));
    OK(MPI_Comm_set_attr(mt_comm, key, "attribute"));
    OK(MPI_Comm_set_attr(mt_comm, dup_key, "copied"));
    OK(MPI_Comm_dup(mt_comm, &other));
    OK(MPI_Comm_get_attr(other, key, &text, &flag));
    CHECK(flag && !strcmp(text, "tribute"));
    OK(MPI_Comm_get_attr(other, dup_key, &text, &flag));
    CHECK(flag && !strcmp(text, "copied"));
    OK(MPI_Comm_set_attr(other, key, NULL));
    CHECK_EQ(deleted, 1);
    FAILS(MPI_Comm_delete_attr(other, key), MPI_ERR_OTHER);
    OK(MPI_Comm_set_attr(other, dup_key, NULL));
    CHECK_EQ(deleted, 2);
    OK(MPI_Comm_free_keyval(&key));
    CHECK_EQ(key, MPI_KEYVAL_INVALID);
    OK(MPI_Comm_free_keyval(&dup_key));
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag));
    CHECK(flag && *value >= 32767);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_HOST, &value, &flag));
    CHECK(flag && *value == MPI_PROC_NULL);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_IO, &value, &flag));
    CHECK(flag && *value == MPI_ANY_SOURCE);
}

static void windows(void)
{
    int *value, flag, cell = 0;
    MPI_Win win;
    OK(MPI_Win_create(&cell, sizeof cell, 1, MPI_INFO_NULL, mt_comm, &win));
    OK(MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &value, &flag));
    CHECK(flag && *value == MPI_WIN_FLAVOR_CREATE);
    OK(MPI_Win_get_attr(win, MPI_WIN_MODEL, &value, &flag));
    CHECK(flag && *value == MPI_WIN_UNIFIED);
    OK(MPI_Win_fence(MPI_MODE_NOPRECEDE | MPI_MODE_NOSTORE, win));
    OK(MPI_Accumulate(&(int){ 1 }, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    if (!mt_rank)
        CHECK_EQ(cell, mt_size);
    OK(MPI_Win_lock(MPI_LOCK_SHARED, mt_rank, MPI_MODE_NOCHECK, win));
    OK(MPI_Win_unlock(mt_rank, win));
    OK(MPI_Win_free(&win));
    CHECK_EQ(win, MPI_WIN_NULL);
}

/* ---- datatypes ---- */

static void contents(void)
{
    int sizes[2] = { 4, 6 }, sub[2] = { 2, 3 }, starts[2] = { 1, 1 }, v[9], ni, na, nt, combiner;
    int distribs[2] = { MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_NONE }, procs[2] = { 2, 1 };
    int dargs[2] = { MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG };
    MPI_Datatype type, inner;
    OK(MPI_Type_create_subarray(2, sizes, sub, starts, MPI_ORDER_FORTRAN, MPI_DOUBLE, &type));
    OK(MPI_Type_get_envelope(type, &ni, &na, &nt, &combiner));
    CHECK_EQ(combiner, MPI_COMBINER_SUBARRAY);
    OK(MPI_Type_get_contents(type, ni, na, nt, v, NULL, &inner));
    CHECK_EQ(v[7], MPI_ORDER_FORTRAN);
    OK(MPI_Type_free(&type));
    OK(MPI_Type_create_darray(2, 0, 2, sizes, distribs, dargs, procs, MPI_ORDER_C, MPI_DOUBLE,
                              &type));
    int w[12];
    OK(MPI_Type_get_contents(type, 12, 0, 1, w, NULL, &inner));
    CHECK_EQ(inner, MPI_DOUBLE);
    CHECK_EQ(w[5], MPI_DISTRIBUTE_BLOCK);
    CHECK_EQ(w[6], MPI_DISTRIBUTE_NONE);
    CHECK_EQ(w[7], MPI_DISTRIBUTE_DFLT_DARG);
    CHECK_EQ(w[11], MPI_ORDER_C);
    OK(MPI_Type_free(&type));
    /* The sizes are large counts, so the integers begin elsewhere. */
    MPI_Count large[2] = { 4, 6 }, got[2];
    OK(MPI_Type_create_darray_c(2, 0, 2, large, distribs, dargs, procs, MPI_ORDER_C, MPI_DOUBLE,
                                &type));
    OK(MPI_Type_get_contents_c(type, 10, 0, 2, 1, w, NULL, got, &inner));
    CHECK_EQ(w[3], MPI_DISTRIBUTE_BLOCK);
    CHECK_EQ(w[5], MPI_DISTRIBUTE_DFLT_DARG);
    CHECK_EQ(w[9], MPI_ORDER_C);
    OK(MPI_Type_free(&type));
}

static void removed(void)
{
    int lengths[3] = { 1, 1, 1 };
    MPI_Aint displs[3] = { -8, 0, 24 }, lb, ub, extent, here;
    MPI_Datatype types[3] = { LB, MPI_INT, UB };
    MPI_Datatype type;
    OK(MPI_Type_struct(3, lengths, displs, types, &type));
    OK(MPI_Type_lb(type, &lb));
    OK(MPI_Type_ub(type, &ub));
    OK(MPI_Type_extent(type, &extent));
    CHECK_EQ(lb, -8);
    CHECK_EQ(ub, 24);
    CHECK_EQ(extent, 32);
    OK(MPI_Type_free(&type));
    OK(MPI_Type_hvector(2, 1, 8, MPI_INT, &type));
    OK(MPI_Type_extent(type, &extent));
    CHECK_EQ(extent, 12);
    OK(MPI_Type_free(&type));
    OK(MPI_Type_hindexed(3, lengths, displs, MPI_INT, &type));
    OK(MPI_Type_extent(type, &extent));
    CHECK_EQ(extent, 36);
    OK(MPI_Type_free(&type));
    OK(MPI_Get_address(MPI_IN_PLACE, &here));
    CHECK_EQ(here, (MPI_Aint)MPI_IN_PLACE);
    OK(MPI_Address(lengths, &here));
    CHECK_EQ(here, (MPI_Aint)lengths);
}

static void operation(void *in, void *inout, int *len, MPI_Datatype *type)
{
    CHECK_EQ(*type, MPI_INT);
    for (int i = 0; i < *len; i++)
        ((int *)inout)[i] = ((int *)in)[i] * 2 + ((int *)inout)[i] * 2;
}

static void reduce(void)
{
    MPI_Op op;
    int v[3] = { 1, 1, 1 };
    OK(MPI_Op_create(operation, 1, &op));
    OK(MPI_Allreduce(MPI_IN_PLACE, v, 3, MPI_INT, MPI_SUM, mt_comm));
    CHECK_EQ(v[2], mt_size);
    if (mt_size == 2) {
        OK(MPI_Allreduce(MPI_IN_PLACE, v, 3, MPI_INT, op, mt_comm));
        CHECK_EQ(v[1], 8);
    }
    OK(MPI_Op_free(&op));
    CHECK_EQ(op, MPI_OP_NULL);
}

int main(int argc, char **argv); /* has another name in the library */

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MT_RUN(types);
    MT_RUN(objects);
    MT_RUN(handles_of_strangers);
    MT_RUN(error_codes);
    MT_RUN(attributes);
    MT_RUN(windows);
    MT_RUN(contents);
    MT_RUN(removed);
    MT_RUN(reduce);
    return mt_end();
}
