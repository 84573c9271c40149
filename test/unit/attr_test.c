/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes (MPI-5.0 section 7.7): keys, order of deletion, copying, and functions that fail or
 * call back. */
#include "mpi/api/bodies.h"
#include "mpi/base/attr.h"
#include "mpi/base/comm.h"
#include "mpi/datatype/type.h"
#include "test/check.h"

static char deleted[64];
static struct wm_comm a, b;

static int del(MPI_Comm comm, int keyval, void *value, void *extra)
{
    int flag;
    void *found;
    (void)keyval;
    CHECK(comm == wm_comm_handle(&a) || comm == wm_comm_handle(&b));
    CHECK_STR(extra, "extra");
    /* Functions may call MPI: the value is valid until they return. */
    wm_api_comm_get_attr(comm == wm_comm_handle(&a) ? &a : &b, keyval, &found, &flag);
    size_t n = strlen(deleted);
    snprintf(deleted + n, sizeof deleted - n, "%s", (char *)value);
    return MPI_SUCCESS;
}

static int copy_upper(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    CHECK(comm == wm_comm_handle(&a));
    (void)keyval;
    (void)extra;
    *(void **)out = *(char *)in == 'x' ? "X" : in;
    *flag = *(char *)in != 'n';
    return *(char *)in == 'e' ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static void setup(void)
{
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    a.obj = (struct rt_obj){ 0x101, 1 };
    b.obj = (struct rt_obj){ 0x102, 1 };
    deleted[0] = '\0';
}

static void life_of_attributes(void)
{
    int k1, k2, flag, old;
    char *v = NULL;
    setup();
    CHECK_EQ(wm_api_comm_create_keyval(MPI_COMM_NULL_COPY_FN, del, &k1, "extra"), 0);
    CHECK_EQ(wm_api_comm_create_keyval(MPI_COMM_DUP_FN, del, &k2, "extra"), 0);
    CHECK(k1 > 0 && k2 > 0 && k1 != k2);
    CHECK(!wm_api_comm_get_attr(&a, k1, &v, &flag) && !flag);
    CHECK_EQ(wm_api_comm_set_attr(&a, k1, "1"), 0);
    CHECK_EQ(wm_api_comm_set_attr(&a, k2, "2"), 0);
    CHECK(!wm_api_comm_get_attr(&a, k1, &v, &flag) && flag);
    CHECK_STR(v, "1");
    CHECK_EQ(wm_api_comm_set_attr(&a, k1, "3"), 0);
    CHECK_STR(deleted, "1"); /* the old value is deleted */
    CHECK_EQ(wm_attrs_copy(a.attrs, wm_comm_handle(&a), &b.attrs, wm_comm_handle(&b)), 0);
    CHECK(!wm_api_comm_get_attr(&b, k1, &v, &flag) && !flag);
    CHECK(!wm_api_comm_get_attr(&b, k2, &v, &flag) && flag);
    old = k2;
    CHECK_EQ(wm_api_comm_free_keyval(&k2), 0);
    CHECK_EQ(k2, MPI_KEYVAL_INVALID);
    CHECK_EQ(wm_api_comm_set_attr(&a, old, "4"), MPI_ERR_KEYVAL);
    CHECK(!wm_api_comm_get_attr(&a, old, &v, &flag) && flag); /* stored attributes stay readable */
    CHECK_STR(v, "2");
    CHECK_EQ(wm_api_comm_delete_attr(&a, k1), 0);
    CHECK_EQ(wm_api_comm_delete_attr(&a, k1), MPI_ERR_KEYVAL);
    CHECK_STR(deleted, "13");
    CHECK_EQ(wm_api_comm_set_attr(&a, k1, "5"), 0);
    CHECK_EQ(wm_attrs_delete_all(&a.attrs, wm_comm_handle(&a)), 0);
    CHECK_STR(deleted, "1352"); /* last set first; the freed key's function is still called */
    CHECK_EQ(wm_attrs_delete_all(&b.attrs, wm_comm_handle(&b)), 0);
    CHECK_STR(deleted, "13522");
    CHECK_EQ(wm_api_comm_free_keyval(&k1), 0);
}

static void copy_functions(void)
{
    int k[3], flag;
    char *v;
    setup();
    for (int i = 0; i < 3; i++)
        CHECK_EQ(wm_api_comm_create_keyval(copy_upper, del, &k[i], "extra"), 0);
    wm_api_comm_set_attr(&a, k[0], "x");
    wm_api_comm_set_attr(&a, k[1], "n");
    CHECK_EQ(wm_attrs_copy(a.attrs, wm_comm_handle(&a), &b.attrs, wm_comm_handle(&b)), 0);
    CHECK(!wm_api_comm_get_attr(&b, k[0], &v, &flag) && flag && !strcmp(v, "X"));
    CHECK(!wm_api_comm_get_attr(&b, k[1], &v, &flag) && !flag);
    wm_attrs_delete_all(&b.attrs, wm_comm_handle(&b));
    wm_api_comm_set_attr(&a, k[2], "e");
    deleted[0] = '\0';
    CHECK_EQ(wm_attrs_copy(a.attrs, wm_comm_handle(&a), &b.attrs, wm_comm_handle(&b)),
             MPI_ERR_OTHER);
    CHECK_STR(deleted, "X"); /* copies made before the failure are deleted again */
    CHECK(!b.attrs);
    wm_attrs_delete_all(&a.attrs, wm_comm_handle(&a));
    for (int i = 0; i < 3; i++)
        wm_api_comm_free_keyval(&k[i]);
}

static int meddle_keys[20];

/* The first call deletes the attributes of the keys 0 and 2 and adds many, which moves the list. */
static int copy_meddling(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)comm;
    (void)extra;
    if (keyval == meddle_keys[0]) {
        CHECK_EQ(wm_api_comm_free_keyval(&meddle_keys[0]), 0);
        CHECK_EQ(wm_api_comm_delete_attr(&a, keyval), 0);
        CHECK_EQ(wm_api_comm_delete_attr(&a, meddle_keys[2]), 0);
        for (int i = 4; i < 20; i++)
            CHECK_EQ(wm_api_comm_set_attr(&a, meddle_keys[i], "new"), 0);
    }
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static void copy_functions_that_change_the_list(void)
{
    int flag, first;
    char *v = NULL;
    setup();
    for (int i = 0; i < 20; i++)
        CHECK_EQ(wm_api_comm_create_keyval(copy_meddling, MPI_COMM_NULL_DELETE_FN, &meddle_keys[i],
                                           "extra"),
                 0);
    first = meddle_keys[0];
    for (int i = 0; i < 4; i++)
        CHECK_EQ(wm_api_comm_set_attr(&a, meddle_keys[i], "old"), 0);
    CHECK_EQ(wm_attrs_copy(a.attrs, wm_comm_handle(&a), &b.attrs, wm_comm_handle(&b)), 0);
    CHECK(!wm_api_comm_get_attr(&b, first, &v, &flag) && flag); /* copied before it was deleted */
    for (int i = 1; i < 20; i++) {
        CHECK(!wm_api_comm_get_attr(&b, meddle_keys[i], &v, &flag));
        CHECK_EQ(flag, i == 1 || i == 3);
    }
    CHECK_EQ(wm_attrs_delete_all(&a.attrs, wm_comm_handle(&a)), 0);
    CHECK_EQ(wm_attrs_delete_all(&b.attrs, wm_comm_handle(&b)), 0);
    CHECK_EQ(wm_api_comm_get_attr(&b, first, &v, &flag), MPI_ERR_KEYVAL);
    for (int i = 1; i < 20; i++)
        wm_api_comm_free_keyval(&meddle_keys[i]);
}

static int type_deletes;
static int del_type(MPI_Datatype t, int keyval, void *value, void *extra)
{
    (void)t, (void)keyval, (void)value, (void)extra;
    type_deletes++;
    return MPI_SUCCESS;
}

/* MPI_Type_get_contents gives another handle of the same datatype. */
static void types_with_two_handles(void)
{
    int key, flag, ints[1];
    char *v = NULL;
    struct wm_type *inner = NULL, *outer = NULL;
    MPI_Datatype again;
    CHECK_EQ(wm_api_type_create_keyval(MPI_TYPE_NULL_COPY_FN, del_type, &key, NULL), 0);
    CHECK_EQ(wm_api_type_contiguous(2, wm_type_get(MPI_INT), &inner), 0);
    CHECK_EQ(wm_api_type_contiguous(3, inner, &outer), 0);
    CHECK_EQ(wm_api_type_set_attr(inner, key, "mine"), 0);
    CHECK_EQ(wm_api_type_get_contents(outer, 1, 0, 1, ints, NULL, &again), 0);
    CHECK_EQ(wm_api_type_free(wm_type_get(again)), 0);
    CHECK_EQ(type_deletes, 0);
    CHECK(!wm_api_type_get_attr(inner, key, &v, &flag) && flag);
    CHECK_STR(v, "mine");
    CHECK_EQ(wm_api_type_free(inner), 0);
    CHECK_EQ(type_deletes, 1);
    CHECK_EQ(wm_api_type_get_contents(outer, 1, 0, 1, ints, NULL, &again), 0);
    CHECK_EQ(wm_api_type_free(wm_type_get(again)), 0);
    CHECK_EQ(wm_api_type_free(outer), 0);
    CHECK_EQ(type_deletes, 1);
    CHECK_EQ(wm_api_type_free_keyval(&key), 0);
}

static void predefined(void)
{
    int flag, *p = NULL, key = MPI_TAG_UB, type_key;
    setup();
    CHECK(!wm_api_comm_get_attr(&a, MPI_TAG_UB, &p, &flag) && flag && *p == 0x7fffffff);
    CHECK(!wm_api_comm_get_attr(&a, MPI_LASTUSEDCODE, &p, &flag) && flag && *p >= MPI_ERR_LASTCODE);
    CHECK_EQ(wm_api_comm_set_attr(&a, MPI_TAG_UB, p), MPI_ERR_KEYVAL);
    CHECK_EQ(wm_api_comm_delete_attr(&a, MPI_IO), MPI_ERR_KEYVAL);
    CHECK_EQ(wm_api_comm_free_keyval(&key), MPI_ERR_KEYVAL);
    CHECK_EQ(wm_api_comm_set_attr(&a, MPI_KEYVAL_INVALID, p), MPI_ERR_KEYVAL);
    CHECK_EQ(wm_api_comm_set_attr(&a, 12345, p), MPI_ERR_KEYVAL);
    CHECK_EQ(
        wm_api_type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &type_key, NULL),
        0);
    CHECK_EQ(wm_api_comm_set_attr(&a, type_key, p), MPI_ERR_KEYVAL);
    CHECK_EQ(wm_api_type_set_attr(wm_type_get(MPI_INT), type_key, p), 0);
    CHECK_EQ(wm_api_type_delete_attr(wm_type_get(MPI_INT), type_key), 0);
    CHECK_EQ(wm_api_type_free_keyval(&type_key), 0);
}

int main(void)
{
    RUN(life_of_attributes);
    RUN(copy_functions);
    RUN(copy_functions_that_change_the_list);
    RUN(types_with_two_handles);
    RUN(predefined);
    return check_end();
}
