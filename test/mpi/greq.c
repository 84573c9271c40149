/* SPDX-License-Identifier: BSD-3-Clause */
/* Generalised requests (MPI-5.0 section 13.2): which callback each call runs, how often and with
 * what; their error codes; arrays mixed with messages; callbacks that call MPI; completion by
 * another thread. */
#include "test/mpi/mpitest.h"
#include <pthread.h>

enum { SOURCE = 17, TAG = 23, ELEMENTS = 5 };

struct op {
    int queried, freed, cancelled, seen_complete, order; /* order: query before free */
    int query_code, free_code, cancel_code;
    int set_cancelled;
    bool call_mpi;
    bool status_null;
};

static int query_fn(void *extra, MPI_Status *st)
{
    struct op *o = extra;

    o->status_null = o->status_null || st == MPI_STATUS_IGNORE;
    o->order = o->order || o->freed;
    o->queried++;
    if (st == MPI_STATUS_IGNORE)
        return MPI_ERR_INTERN;
    MPI_Status_set_elements(st, MPI_INT, ELEMENTS);
    MPI_Status_set_cancelled(st, o->set_cancelled);
    st->MPI_SOURCE = SOURCE;
    st->MPI_TAG = TAG;
    if (o->call_mpi) { /* another request inside: the callback is not called under a lock */
        int x = 4, y = 0, rank = -1;
        MPI_Request r;
        MPI_Comm_rank(mt_comm, &rank);
        MPI_Irecv(&y, 1, MPI_INT, rank, 77, mt_comm, &r);
        MPI_Send(&x, 1, MPI_INT, rank, 77, mt_comm);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        if (y != 4)
            return MPI_ERR_INTERN;
    }
    return o->query_code;
}

static int free_fn(void *extra)
{
    struct op *o = extra;

    o->freed++;
    if (o->call_mpi) {
        int flag;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, mt_comm, &flag, MPI_STATUS_IGNORE);
    }
    return o->free_code;
}

static int cancel_fn(void *extra, int complete)
{
    struct op *o = extra;

    o->cancelled++;
    o->seen_complete = complete;
    return o->cancel_code;
}

static MPI_Request begin(struct op *o)
{
    MPI_Request r = MPI_REQUEST_NULL;

    OK(MPI_Grequest_start(query_fn, free_fn, cancel_fn, o, &r));
    CHECK(r != MPI_REQUEST_NULL);
    return r;
}

static void check_ran(const struct op *o, int queried, int freed)
{
    CHECK_EQ(o->queried, queried);
    CHECK_EQ(o->freed, freed);
    CHECK(!o->order);
    CHECK(!o->status_null);
}

static void check_filled(MPI_Status *st)
{
    int n = -1, cancelled = -1;

    CHECK_EQ(st->MPI_SOURCE, SOURCE);
    CHECK_EQ(st->MPI_TAG, TAG);
    OK(MPI_Get_count(st, MPI_INT, &n));
    CHECK_EQ(n, ELEMENTS);
    OK(MPI_Test_cancelled(st, &cancelled));
    CHECK_EQ(cancelled, 0);
}

static void wait_and_test(void)
{
    struct op a = { 0 }, b = { 0 };
    MPI_Request r = begin(&a);
    MPI_Status st = { .MPI_ERROR = 99 };
    int flag = -1;

    OK(MPI_Test(&r, &flag, &st));
    CHECK_EQ(flag, 0);
    check_ran(&a, 0, 0);
    OK(MPI_Grequest_complete(r));
    check_ran(&a, 0, 0); /* not before a call completes the request */
    OK(MPI_Wait(&r, &st));
    CHECK(r == MPI_REQUEST_NULL);
    check_filled(&st);
    CHECK_EQ(st.MPI_ERROR, 99); /* single completion leaves it alone */
    check_ran(&a, 1, 1);
    r = begin(&b);
    OK(MPI_Grequest_complete(r));
    OK(MPI_Test(&r, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 1);
    CHECK(r == MPI_REQUEST_NULL);
    check_ran(&b, 1, 1);
}

static void get_status(void)
{
    struct op o = { 0 };
    MPI_Request r = begin(&o);
    MPI_Status st;
    int flag = -1;

    OK(MPI_Request_get_status(r, &flag, &st));
    CHECK_EQ(flag, 0);
    check_ran(&o, 0, 0);
    OK(MPI_Grequest_complete(r));
    OK(MPI_Request_get_status(r, &flag, &st));
    CHECK_EQ(flag, 1);
    check_filled(&st);
    OK(MPI_Request_get_status(r, &flag, MPI_STATUS_IGNORE));
    check_ran(&o, 2, 0);
    o.query_code = MPI_ERR_KEYVAL;
    FAILS(MPI_Request_get_status(r, &flag, &st), MPI_ERR_KEYVAL);
    o.query_code = MPI_SUCCESS;
    CHECK(r != MPI_REQUEST_NULL);
    OK(MPI_Wait(&r, &st));
    check_ran(&o, 4, 1);
}

#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
static void get_status_arrays(void)
{
    struct op o[3] = { { 0 }, { 0 }, { 0 } };
    MPI_Request r[4] = { begin(&o[0]), begin(&o[1]), MPI_REQUEST_NULL, begin(&o[2]) };
    MPI_Status st[4];
    int flag = -1, index = -1, n = -1, where[4], i;

    OK(MPI_Request_get_status_any(4, r, &index, &flag, st));
    CHECK(!flag && index == MPI_UNDEFINED);
    OK(MPI_Request_get_status_some(4, r, &n, where, st));
    CHECK_EQ(n, 0);
    OK(MPI_Grequest_complete(r[1]));
    OK(MPI_Request_get_status_all(4, r, &flag, st));
    CHECK(!flag);
    OK(MPI_Request_get_status_any(4, r, &index, &flag, st));
    CHECK(flag && index == 1);
    check_filled(st);
    OK(MPI_Request_get_status_some(4, r, &n, where, MPI_STATUSES_IGNORE));
    CHECK(n == 1 && where[0] == 1);
    check_ran(&o[1], 2, 0);
    OK(MPI_Grequest_complete(r[0]));
    OK(MPI_Grequest_complete(r[3]));
    for (i = 0; i < 4; i++)
        st[i].MPI_ERROR = 99;
    OK(MPI_Request_get_status_all(4, r, &flag, st));
    CHECK(flag);
    check_filled(&st[0]);
    check_filled(&st[3]);
    CHECK_EQ(st[0].MPI_ERROR, MPI_SUCCESS);
    CHECK_EQ(st[2].MPI_SOURCE, MPI_ANY_SOURCE);
    o[2].query_code = MPI_ERR_KEYVAL;
    FAILS(MPI_Request_get_status_all(4, r, &flag, st), MPI_ERR_IN_STATUS);
    CHECK_EQ(st[0].MPI_ERROR, MPI_SUCCESS);
    CHECK_EQ(st[3].MPI_ERROR, MPI_ERR_KEYVAL);
    FAILS(MPI_Request_get_status_some(4, r, &n, where, st), MPI_ERR_IN_STATUS);
    CHECK_EQ(n, 3);
    CHECK_EQ(st[2].MPI_ERROR, MPI_ERR_KEYVAL);
    o[2].query_code = 0;
    OK(MPI_Waitall(4, r, MPI_STATUSES_IGNORE));
    for (i = 0; i < 3; i++)
        CHECK_EQ(o[i].freed, 1);
}
#endif

static void freeing(void)
{
    struct op a = { 0 }, b = { 0 }, c = { .free_code = MPI_ERR_KEYVAL };
    MPI_Request r = begin(&a), copy = r;

    OK(MPI_Request_free(&r));
    CHECK(r == MPI_REQUEST_NULL);
    check_ran(&a, 0, 0);
    OK(MPI_Grequest_complete(copy)); /* the last of the two frees the request */
    check_ran(&a, 0, 1);
    r = begin(&b);
    OK(MPI_Grequest_complete(r));
    OK(MPI_Request_free(&r));
    check_ran(&b, 0, 1);
    r = begin(&c);
    OK(MPI_Grequest_complete(r));
    FAILS(MPI_Request_free(&r), MPI_ERR_KEYVAL);
    CHECK(r == MPI_REQUEST_NULL);
    check_ran(&c, 0, 1);
    r = copy = begin(&c);
    OK(MPI_Request_free(&r));
    FAILS(MPI_Grequest_complete(copy), MPI_ERR_KEYVAL);
    check_ran(&c, 0, 2);
}

static void cancelling(void)
{
    struct op o = { .set_cancelled = 1 };
    MPI_Request r = begin(&o);
    MPI_Status st;
    int cancelled = 0;

    OK(MPI_Cancel(&r));
    CHECK(o.cancelled == 1 && o.seen_complete == 0);
    o.cancel_code = MPI_ERR_KEYVAL;
    FAILS(MPI_Cancel(&r), MPI_ERR_KEYVAL);
    OK(MPI_Grequest_complete(r));
    o.cancel_code = MPI_SUCCESS;
    OK(MPI_Cancel(&r));
    CHECK(o.cancelled == 3 && o.seen_complete != 0);
    OK(MPI_Wait(&r, &st));
    OK(MPI_Test_cancelled(&st, &cancelled));
    CHECK_EQ(cancelled, 1);
}

static MPI_Request completed(struct op *o)
{
    MPI_Request r = begin(o);

    OK(MPI_Grequest_complete(r));
    return r;
}

/* A call returns the error code of the callback that ran last, or of the only one that failed; also
 * codes that the user has added. */
static void error_codes(void)
{
    struct op query = { .query_code = MPI_ERR_KEYVAL }, both = { .query_code = MPI_ERR_KEYVAL };
    struct op freed = { .free_code = MPI_ERR_ASSERT };
    MPI_Request r;
    int flag = 0, index = -1, errclass = -1, code = -1;

    both.free_code = MPI_ERR_ASSERT;
    r = completed(&query);
    FAILS(MPI_Wait(&r, MPI_STATUS_IGNORE), MPI_ERR_KEYVAL);
    CHECK(r == MPI_REQUEST_NULL);
    check_ran(&query, 1, 1);
    r = completed(&both);
    FAILS(MPI_Test(&r, &flag, MPI_STATUS_IGNORE), MPI_ERR_ASSERT);
    CHECK(flag && r == MPI_REQUEST_NULL);
    r = completed(&freed);
    FAILS(MPI_Waitany(1, &r, &index, MPI_STATUS_IGNORE), MPI_ERR_ASSERT);
    CHECK(index == 0 && r == MPI_REQUEST_NULL);
    r = completed(&freed);
    FAILS(MPI_Testany(1, &r, &index, &flag, MPI_STATUS_IGNORE), MPI_ERR_ASSERT);
    CHECK(flag && r == MPI_REQUEST_NULL);
    OK(MPI_Add_error_class(&errclass));
    OK(MPI_Add_error_code(errclass, &code));
    freed.free_code = code;
    r = completed(&freed);
    CHECK_EQ(MPI_Wait(&r, MPI_STATUS_IGNORE), code);
}

/* Among messages, in every call on arrays. */
static void mixed(void)
{
    struct op o[2];
    MPI_Request r[4];
    MPI_Status st[4];
    int x, y, n, i, where[4], call;

    for (call = 0; call < 4; call++) {
        memset(o, 0, sizeof(o));
        o[1].free_code = call % 2 ? MPI_ERR_KEYVAL : MPI_SUCCESS;
        x = mt_rank;
        y = -1;
        OK(MPI_Irecv(&y, 1, MPI_INT, mt_rank, 1, mt_comm, &r[0]));
        r[1] = completed(&o[0]);
        OK(MPI_Isend(&x, 1, MPI_INT, mt_rank, 1, mt_comm, &r[2]));
        r[3] = completed(&o[1]);
        for (i = 0; i < 4; i++)
            st[i].MPI_ERROR = 99;
        if (call == 0) {
            OK(MPI_Waitall(4, r, st));
            for (i = 0; i < 4; i++)
                CHECK_EQ(st[i].MPI_ERROR, MPI_SUCCESS);
        } else if (call == 1) {
            FAILS(MPI_Waitall(4, r, st), MPI_ERR_IN_STATUS);
            for (i = 0; i < 4; i++)
                CHECK_EQ(st[i].MPI_ERROR, i == 3 ? MPI_ERR_KEYVAL : MPI_SUCCESS);
        } else {
            int rc, got = 0, last = MPI_SUCCESS;
            while (got < 4) {
                rc = call == 2 ? MPI_Waitsome(4, r, &n, where, st)
                               : MPI_Testsome(4, r, &n, where, st);
                if (n == MPI_UNDEFINED)
                    break;
                if (rc == MPI_ERR_IN_STATUS)
                    for (i = 0; i < n; i++) {
                        CHECK_EQ(st[i].MPI_ERROR, where[i] == 3 ? MPI_ERR_KEYVAL : MPI_SUCCESS);
                        last = where[i] == 3 ? rc : last;
                    }
                else
                    OK(rc);
                got += n;
            }
            CHECK_EQ(got, 4);
            CHECK_EQ(last, call == 2 ? MPI_SUCCESS : MPI_ERR_IN_STATUS);
        }
        CHECK_EQ(y, mt_rank);
        for (i = 0; i < 4; i++)
            CHECK(r[i] == MPI_REQUEST_NULL);
        check_ran(&o[0], 1, 1);
        check_ran(&o[1], 1, 1);
    }
}

static void without_statuses(void)
{
    struct op o[2] = { { .free_code = MPI_ERR_KEYVAL }, { 0 } };
    MPI_Request r[2] = { completed(&o[0]), completed(&o[1]) };
    int flag = 0;

    FAILS(MPI_Testall(2, r, &flag, MPI_STATUSES_IGNORE), MPI_ERR_IN_STATUS);
    CHECK(flag && r[0] == MPI_REQUEST_NULL && r[1] == MPI_REQUEST_NULL);
    check_ran(&o[0], 1, 1);
    check_ran(&o[1], 1, 1);
}

static void callbacks_call_mpi(void)
{
    struct op o[3] = { { .call_mpi = true }, { .call_mpi = true }, { .call_mpi = true } };
    MPI_Request r[3] = { completed(&o[0]), completed(&o[1]), completed(&o[2]) };
    int flag;

    OK(MPI_Request_get_status(r[0], &flag, MPI_STATUS_IGNORE));
    OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    OK(MPI_Request_free(&r[2]));
    check_ran(&o[0], 2, 1);
    check_ran(&o[2], 0, 1);
}

static void wrong_requests(void)
{
    struct op o = { 0 };
    MPI_Request r = begin(&o), stale = r, other;
    int x;

    OK(MPI_Grequest_complete(r));
    FAILS(MPI_Grequest_complete(r), MPI_ERR_REQUEST);
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    FAILS(MPI_Grequest_complete(stale), MPI_ERR_REQUEST);
    FAILS(MPI_Grequest_complete(MPI_REQUEST_NULL), MPI_ERR_REQUEST);
    OK(MPI_Irecv(&x, 1, MPI_INT, mt_rank, 9, mt_comm, &other));
    FAILS(MPI_Grequest_complete(other), MPI_ERR_REQUEST);
    OK(MPI_Cancel(&other));
    OK(MPI_Wait(&other, MPI_STATUS_IGNORE));
    FAILS(MPI_Grequest_start(NULL, free_fn, cancel_fn, NULL, &r), MPI_ERR_ARG);
    FAILS(MPI_Grequest_start(query_fn, NULL, cancel_fn, NULL, &r), MPI_ERR_ARG);
    FAILS(MPI_Grequest_start(query_fn, free_fn, NULL, NULL, &r), MPI_ERR_ARG);
    FAILS(MPI_Grequest_start(query_fn, free_fn, cancel_fn, NULL, NULL), MPI_ERR_ARG);
}

enum { BY_OTHERS = 50 };
static MPI_Request handed[BY_OTHERS];
static int thread_errors; /* check.h is not for threads */
static void *complete_them(void *arg)
{
    int i;

    (void)arg;
    for (i = 0; i < BY_OTHERS; i++) {
        if (i % 10 == 0)
            mt_sleep_ms(1);
        thread_errors += MPI_Grequest_complete(handed[i]) != MPI_SUCCESS;
    }
    return NULL;
}

static void completed_by_thread(void)
{
    static struct op o[BY_OTHERS];
    MPI_Request r[BY_OTHERS];
    pthread_t t;
    int i, index, freed = 0;

    memset(o, 0, sizeof(o));
    for (i = 0; i < BY_OTHERS; i++)
        r[i] = handed[i] = begin(&o[i]);
    CHECK_EQ(pthread_create(&t, NULL, complete_them, NULL), 0);
    OK(MPI_Wait(&r[BY_OTHERS - 1], MPI_STATUS_IGNORE));
    OK(MPI_Waitany(BY_OTHERS, r, &index, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&r[index == 0]));
    OK(MPI_Waitall(BY_OTHERS, r, MPI_STATUSES_IGNORE));
    CHECK_EQ(pthread_join(t, NULL), 0);
    CHECK_EQ(thread_errors, 0);
    for (i = 0; i < BY_OTHERS; i++)
        freed += o[i].freed;
    CHECK_EQ(freed, BY_OTHERS);
}

int main(int argc, char **argv)
{
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    mt_setup();
    MT_RUN(wait_and_test);
    MT_RUN(get_status);
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
    MT_RUN(get_status_arrays);
#endif
    MT_RUN(freeing);
    MT_RUN(cancelling);
    MT_RUN(error_codes);
    MT_RUN(mixed);
    MT_RUN(without_statuses);
    MT_RUN(callbacks_call_mpi);
    MT_RUN(wrong_requests);
    MT_RUN(completed_by_thread);
    return mt_end();
}
