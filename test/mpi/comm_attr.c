/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes (MPI-5.0 section 7.7) and error handlers (section 9.3) of communicators. */
#include "test/mpi/mpitest.h"

static int copies, deletes, state_seen;
static MPI_Comm deleted_on;

static int count_copy(MPI_Comm old, int key, void *extra, void *in, void *out, int *flag)
{
    (void)old, (void)key;
    copies++;
    state_seen = *(int *)extra;
    *(void **)out = (char *)in + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int refuse_copy(MPI_Comm old, int key, void *extra, void *in, void *out, int *flag)
{
    (void)old, (void)key, (void)extra, (void)in, (void)out;
    *flag = 0;
    return MPI_SUCCESS;
}

static int failing_copy(MPI_Comm old, int key, void *extra, void *in, void *out, int *flag)
{
    (void)old, (void)key, (void)extra, (void)in, (void)out;
    *flag = 0;
    return MPI_ERR_OTHER;
}

static int count_delete(MPI_Comm c, int key, void *value, void *extra)
{
    (void)key, (void)value, (void)extra;
    deletes++;
    deleted_on = c;
    return MPI_SUCCESS;
}

static void *value_of(MPI_Comm c, int key)
{
    void *v = NULL;
    int flag = 0;

    OK(MPI_Comm_get_attr(c, key, &v, &flag));
    return flag ? v : NULL;
}

static void set_get_delete(void)
{
    int key = MPI_KEYVAL_INVALID, x, y;

    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, count_delete, &key, NULL));
    CHECK(key != MPI_KEYVAL_INVALID);
    deletes = 0;
    CHECK(value_of(mt_comm, key) == NULL);
    OK(MPI_Comm_set_attr(mt_comm, key, &x));
    CHECK(value_of(mt_comm, key) == &x);
    OK(MPI_Comm_set_attr(mt_comm, key, &y)); /* replacing deletes the old value */
    CHECK_EQ(deletes, 1);
    CHECK(value_of(mt_comm, key) == &y);
    OK(MPI_Comm_delete_attr(mt_comm, key));
    CHECK_EQ(deletes, 2);
    CHECK(deleted_on == mt_comm);
    CHECK(value_of(mt_comm, key) == NULL);
    OK(MPI_Comm_free_keyval(&key));
    CHECK_EQ(key, MPI_KEYVAL_INVALID);
}

static void copied_by_dup(void)
{
    int key, none, refused, state = 42;
    char data[4];
    MPI_Comm c;

    copies = deletes = 0;
    OK(MPI_Comm_create_keyval(count_copy, count_delete, &key, &state));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &none, NULL));
    OK(MPI_Comm_create_keyval(refuse_copy, MPI_COMM_NULL_DELETE_FN, &refused, NULL));
    OK(MPI_Comm_set_attr(mt_comm, key, &data[0]));
    OK(MPI_Comm_set_attr(mt_comm, none, &data[1]));
    OK(MPI_Comm_set_attr(mt_comm, refused, &data[2]));
    OK(MPI_Comm_dup(mt_comm, &c));
    CHECK_EQ(copies, 1);
    CHECK_EQ(state_seen, 42);
    CHECK(value_of(c, key) == &data[1]);
    CHECK(value_of(c, none) == NULL);
    CHECK(value_of(c, refused) == NULL);
    CHECK(value_of(mt_comm, key) == &data[0]);
    OK(MPI_Comm_free(&c));
    CHECK_EQ(deletes, 1);
    OK(MPI_Comm_split(mt_comm, 0, 0, &c)); /* split copies nothing */
    CHECK(value_of(c, key) == NULL);
    OK(MPI_Comm_free(&c));
    OK(MPI_Comm_delete_attr(mt_comm, key));
    OK(MPI_Comm_delete_attr(mt_comm, none));
    OK(MPI_Comm_delete_attr(mt_comm, refused));
    OK(MPI_Comm_free_keyval(&key));
    OK(MPI_Comm_free_keyval(&none));
    OK(MPI_Comm_free_keyval(&refused));
}

static void dup_fn(void)
{
    int key, old, x;
    MPI_Comm c;

    OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL));
    OK(MPI_Comm_set_attr(mt_comm, key, &x));
    OK(MPI_Comm_dup(mt_comm, &c));
    CHECK(value_of(c, key) == &x);
    old = key;
    OK(MPI_Comm_free_keyval(&key)); /* the key lives on while attributes use it */
    CHECK(value_of(c, old) == &x);
    FAILS(MPI_Comm_set_attr(c, old, &x), MPI_ERR_KEYVAL);
    OK(MPI_Comm_delete_attr(c, old));
    CHECK(value_of(c, old) == NULL);
    OK(MPI_Comm_free(&c));
    OK(MPI_Comm_delete_attr(mt_comm, old));
    FAILS(MPI_Comm_delete_attr(mt_comm, old), MPI_ERR_KEYVAL); /* now it is gone */
}

static void failing_copy_fails_dup(void)
{
    int key, x;
    MPI_Comm c = MPI_COMM_NULL;

    OK(MPI_Comm_create_keyval(failing_copy, MPI_COMM_NULL_DELETE_FN, &key, NULL));
    OK(MPI_Comm_set_attr(mt_comm, key, &x));
    CHECK(MPI_Comm_dup(mt_comm, &c) != MPI_SUCCESS);
    OK(MPI_Comm_delete_attr(mt_comm, key));
    OK(MPI_Comm_free_keyval(&key));
    mt_sync();
}

/* Only one rank's function fails: so does the duplication of all others. */
static void failing_copy_fails_idup(void)
{
    int key, x;
    MPI_Comm c = MPI_COMM_NULL;
    MPI_Request r = MPI_REQUEST_NULL;

    OK(MPI_Comm_create_keyval(failing_copy, MPI_COMM_NULL_DELETE_FN, &key, NULL));
    if (mt_rank == 0) {
        OK(MPI_Comm_set_attr(mt_comm, key, &x));
        FAILS(MPI_Comm_idup(mt_comm, &c, &r), MPI_ERR_OTHER);
        OK(MPI_Comm_delete_attr(mt_comm, key));
    } else {
        OK(MPI_Comm_idup(mt_comm, &c, &r));
        FAILS(MPI_Wait(&r, MPI_STATUS_IGNORE), MPI_ERR_OTHER);
        OK(MPI_Comm_free(&c));
    }
    OK(MPI_Comm_free_keyval(&key));
    mt_sync();
    OK(MPI_Comm_idup(mt_comm, &c, &r)); /* and later ones work everywhere */
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    OK(MPI_Comm_free(&c));
}

static int deleted_order[3], n_deleted;
static int note_delete(MPI_Comm c, int key, void *value, void *extra)
{
    (void)c, (void)key, (void)extra;
    if (n_deleted < 3)
        deleted_order[n_deleted] = (int)(intptr_t)value;
    n_deleted++;
    return MPI_SUCCESS;
}

static void many_keys(void)
{
    int keys[100], i, wrong = 0;
    MPI_Comm c;

    n_deleted = 0;
    OK(MPI_Comm_dup(mt_comm, &c));
    for (i = 0; i < 100; i++) {
        OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, note_delete, &keys[i], NULL));
        OK(MPI_Comm_set_attr(c, keys[i], (void *)(intptr_t)(i + 1)));
    }
    for (i = 0; i < 100; i++)
        wrong += value_of(c, keys[i]) != (void *)(intptr_t)(i + 1);
    CHECK_EQ(wrong, 0);
    OK(MPI_Comm_free(&c));
    CHECK_EQ(n_deleted, 100);
    for (i = 0; i < 100; i++)
        OK(MPI_Comm_free_keyval(&keys[i]));
}

static void bad_keys(void)
{
    int key = MPI_KEYVAL_INVALID, x;

    FAILS(MPI_Comm_set_attr(mt_comm, MPI_KEYVAL_INVALID, &x), MPI_ERR_KEYVAL);
    FAILS(MPI_Comm_free_keyval(&key), MPI_ERR_KEYVAL);
    CHECK(MPI_Comm_set_attr(mt_comm, MPI_TAG_UB, &x) != MPI_SUCCESS);
}

static int handled, handled_code;
static MPI_Comm handled_on;
static void note_error(MPI_Comm *c, int *code, ...)
{
    handled++;
    handled_on = *c;
    handled_code = *code;
}

static int provoke(MPI_Comm c)
{
    int x = 0;

    return MPI_Send(&x, 1, MPI_INT, mt_size + 5, 0, c);
}

static void user_handler(void)
{
    MPI_Errhandler h = MPI_ERRHANDLER_NULL, got = MPI_ERRHANDLER_NULL;
    MPI_Comm c;
    int cls = -1, rc;

    handled = 0;
    OK(MPI_Comm_create_errhandler(note_error, &h));
    OK(MPI_Comm_set_errhandler(mt_comm, h));
    OK(MPI_Comm_get_errhandler(mt_comm, &got));
    CHECK(got == h);
    OK(MPI_Errhandler_free(&got));
    rc = provoke(mt_comm);
    CHECK_EQ(handled, 1);
    CHECK(handled_on == mt_comm);
    CHECK_EQ(rc, handled_code);
    OK(MPI_Error_class(handled_code, &cls));
    CHECK_EQ(cls, MPI_ERR_RANK);
    OK(MPI_Comm_dup(mt_comm, &c)); /* a copy has the same handler */
    OK(MPI_Errhandler_free(&h));   /* which lives on while a communicator uses it */
    CHECK(h == MPI_ERRHANDLER_NULL);
    provoke(c);
    CHECK_EQ(handled, 2);
    CHECK(handled_on == c);
    OK(MPI_Comm_call_errhandler(c, MPI_ERR_TOPOLOGY));
    CHECK_EQ(handled, 3);
    CHECK_EQ(handled_code, MPI_ERR_TOPOLOGY);
    OK(MPI_Comm_free(&c));
    OK(MPI_Comm_set_errhandler(mt_comm, MPI_ERRORS_RETURN));
    FAILS(provoke(mt_comm), MPI_ERR_RANK);
    CHECK_EQ(handled, 3);
}

/* A truncated receive is raised on the communicator of the request, also from MPI_Wait. */
static void handler_of_a_request(void)
{
    MPI_Errhandler h;
    MPI_Request r;
    char big[100] = "", small[10];
    int cls = -1;

    handled = 0;
    OK(MPI_Comm_create_errhandler(note_error, &h));
    OK(MPI_Comm_set_errhandler(mt_comm, h));
    OK(MPI_Irecv(small, 10, MPI_BYTE, (mt_rank + mt_size - 1) % mt_size, 1, mt_comm, &r));
    mt_sync();
    OK(MPI_Send(big, 100, MPI_BYTE, (mt_rank + 1) % mt_size, 1, mt_comm));
    CHECK(MPI_Wait(&r, MPI_STATUS_IGNORE) != MPI_SUCCESS);
    CHECK_EQ(handled, 1);
    CHECK(handled_on == mt_comm);
    MPI_Error_class(handled_code, &cls);
    CHECK_EQ(cls, MPI_ERR_TRUNCATE);
    OK(MPI_Errhandler_free(&h));
    OK(MPI_Comm_set_errhandler(mt_comm, MPI_ERRORS_RETURN));
}

static char name_seen[MPI_MAX_OBJECT_NAME];
static void note_name(MPI_Comm *c, int *code, ...)
{
    int len;

    handled++;
    handled_code = *code;
    name_seen[0] = '\0';
    MPI_Comm_get_name(*c, name_seen, &len);
}

/* The request is the last that keeps the communicator, until the handler has returned. */
static void handler_of_a_freed_comm(void)
{
    MPI_Errhandler h;
    MPI_Request r;
    MPI_Comm c;
    char big[100] = "", small[10];

    handled = 0;
    OK(MPI_Comm_create_errhandler(note_name, &h));
    OK(MPI_Comm_dup(mt_comm, &c));
    OK(MPI_Comm_set_name(c, "freed"));
    OK(MPI_Comm_set_errhandler(c, h));
    OK(MPI_Errhandler_free(&h));
    OK(MPI_Irecv(small, 10, MPI_BYTE, (mt_rank + mt_size - 1) % mt_size, 1, c, &r));
    mt_sync();
    OK(MPI_Send(big, 100, MPI_BYTE, (mt_rank + 1) % mt_size, 1, c));
    OK(MPI_Comm_free(&c));
    FAILS(MPI_Wait(&r, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    CHECK_EQ(handled, 1);
    CHECK_STR(name_seen, "freed");
}

static void predefined_handlers(void)
{
    MPI_Errhandler got = MPI_ERRHANDLER_NULL;
    MPI_Comm c;

    OK(MPI_Comm_get_errhandler(mt_comm, &got));
    CHECK(got == MPI_ERRORS_RETURN);
    OK(MPI_Comm_dup(mt_comm, &c));
    OK(MPI_Comm_set_errhandler(c, MPI_ERRORS_ARE_FATAL));
    OK(MPI_Comm_get_errhandler(c, &got));
    CHECK(got == MPI_ERRORS_ARE_FATAL);
    OK(MPI_Comm_free(&c));
}

static int handled_wrong;
static void wrong_handler(MPI_Comm *c, int *code, ...)
{
    (void)c;
    (void)code;
    handled_wrong++;
}

/* A receive outlives its communicator's handle, and so does the handler that its error goes to. */
static void handler_goes_with_the_request(void)
{
    int right = (mt_rank + 1) % mt_size, left = (mt_rank + mt_size - 1) % mt_size, i, x, cls, rc;
    static char out[100000], in[10];
    static const int lengths[] = { 100, 100000 };
    MPI_Errhandler h;
    MPI_Request r, s;
    MPI_Comm c;

    for (i = 0; i < 4; i++) { /* the user's handler, then MPI_ERRORS_RETURN */
        handled = 0;
        handled_code = MPI_SUCCESS;
        OK(MPI_Comm_dup(mt_comm, &c));
        OK(MPI_Comm_create_errhandler(note_error, &h));
        OK(MPI_Comm_set_errhandler(c, i < 2 ? h : MPI_ERRORS_RETURN));
        OK(MPI_Errhandler_free(&h));
        OK(MPI_Irecv(in, 10, MPI_BYTE, left, 1, c, &r));
        OK(MPI_Isend(out, lengths[i % 2], MPI_BYTE, right, 1, c, &s));
        OK(MPI_Comm_free(&c)); /* the last reference to the handler, except the receive's */
        OK(MPI_Comm_create_errhandler(wrong_handler, &h));
        OK(MPI_Comm_dup(mt_comm, &c)); /* may take the place of the freed one */
        OK(MPI_Comm_set_errhandler(c, h));
        OK(MPI_Errhandler_free(&h));
        rc = MPI_Wait(&r, MPI_STATUS_IGNORE);
        FAILS(rc, MPI_ERR_TRUNCATE);
        CHECK_EQ(handled, i < 2);
        CHECK_EQ(handled_wrong, 0);
        if (i < 2) {
            cls = -1;
            OK(MPI_Error_class(handled_code, &cls));
            CHECK_EQ(cls, MPI_ERR_TRUNCATE);
        }
        MPI_Wait(&s, MPI_STATUS_IGNORE);
        OK(MPI_Comm_free(&c));
    }
    x = 0;
    OK(MPI_Sendrecv(&mt_rank, 1, MPI_INT, right, 2, &x, 1, MPI_INT, left, 2, mt_comm,
                    MPI_STATUS_IGNORE));
    CHECK_EQ(x, left);
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MT_RUN(set_get_delete);
    MT_RUN(copied_by_dup);
    MT_RUN(dup_fn);
    MT_RUN(failing_copy_fails_dup);
    MT_RUN(failing_copy_fails_idup);
    MT_RUN(many_keys);
    MT_RUN(bad_keys);
    MT_RUN(user_handler);
    MT_RUN(handler_of_a_request);
    MT_RUN(handler_of_a_freed_comm);
    MT_RUN(predefined_handlers);
    MT_RUN(handler_goes_with_the_request);
    return mt_end();
}
