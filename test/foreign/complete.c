/* SPDX-License-Identifier: BSD-3-Clause */
/* Each call that starts or completes requests, in a foreign ABI: Weft reads and writes the
 * program's requests and statuses in place.  Fields, error codes and constants are those of the
 * ABI, and what lies beside an array stays. */
#include "test/mpi/mpitest.h"

enum { N = 70, LEN = 3, NONE = N - 1, TAG_OF_NULL = N - 2, UNSET = -77 };

/* Elements 0 and N + 1 must not change. */
static MPI_Request recvs[N + 2], sends[N + 2];
static MPI_Status got[N + 2], sent[N + 2];
static int in[N][LEN], out[N][LEN];

static void fence(MPI_Request *r, MPI_Status *s)
{
    memset(r, 0x5a, (N + 2) * sizeof *r);
    memset(s, 0x5a, (N + 2) * sizeof *s);
    for (int i = 1; i <= N; i++) {
        s[i].MPI_SOURCE = s[i].MPI_TAG = s[i].MPI_ERROR = UNSET;
        r[i] = MPI_REQUEST_NULL;
    }
}

static void check_fence(const MPI_Request *r, const MPI_Status *s)
{
    MPI_Request r_want;
    MPI_Status s_want;
    memset(&r_want, 0x5a, sizeof r_want);
    memset(&s_want, 0x5a, sizeof s_want);
    CHECK(!memcmp(&r[0], &r_want, sizeof r_want) && !memcmp(&r[N + 1], &r_want, sizeof r_want));
    CHECK(!memcmp(&s[0], &s_want, sizeof s_want) && !memcmp(&s[N + 1], &s_want, sizeof s_want));
    for (int i = 1; i <= N; i++)
        CHECK(r[i] == MPI_REQUEST_NULL);
}

/* Messages to the own rank; one receive is from MPI_PROC_NULL, and one request is null. */
static void post(void)
{
    fence(recvs, got);
    fence(sends, sent);
    for (int i = 0; i < NONE; i++) {
        int peer = i == TAG_OF_NULL ? MPI_PROC_NULL : mt_rank;
        OK(MPI_Irecv(in[i], LEN, MPI_INT,
                     i % 2              ? peer
                     : i == TAG_OF_NULL ? peer
                                        : MPI_ANY_SOURCE,
                     i % 3 || i == TAG_OF_NULL ? i : MPI_ANY_TAG, mt_comm, &recvs[1 + i]));
        OK((i % 2 ? MPI_Isend : MPI_Issend)(out[i], 1 + i % LEN, MPI_INT, peer, i, mt_comm,
                                            &sends[1 + i]));
    }
}

/* `multiple`: the call writes MPI_ERROR of each status. */
static void check_status(const MPI_Status *s, int src, int tag, int n, bool multiple)
{
    int count = -1, cancelled = -1;
    CHECK_EQ(s->MPI_SOURCE, src);
    CHECK_EQ(s->MPI_TAG, tag);
    CHECK_EQ(s->MPI_ERROR, multiple ? MPI_SUCCESS : UNSET);
    OK(MPI_Get_count(s, MPI_INT, &count));
    OK(MPI_Test_cancelled(s, &cancelled));
    CHECK_EQ(count, n);
    CHECK_EQ(cancelled, 0);
}

static void wait_one(MPI_Request *r, MPI_Status *s)
{
    for (int i = 0; i < NONE; i++)
        OK(MPI_Wait(&r[i], s ? &s[i] : MPI_STATUS_IGNORE));
}

static void test_one(MPI_Request *r, MPI_Status *s)
{
    for (int i = 0, flag = 0; i < NONE; i++, flag = 0)
        while (!flag)
            OK(MPI_Test(&r[i], &flag, s ? &s[i] : MPI_STATUS_IGNORE));
}

static void peek_one(MPI_Request *r, MPI_Status *s)
{
    for (int i = 0, flag = 0; i < NONE; i++, flag = 0)
        while (!flag)
            OK(MPI_Request_get_status(r[i], &flag, s ? &s[i] : MPI_STATUS_IGNORE));
}

static void wait_any(MPI_Request *r, MPI_Status *s)
{
    MPI_Status one;
    int i;
    for (int k = 0; k < NONE; k++) {
        one.MPI_ERROR = UNSET;
        OK(MPI_Waitany(N, r, &i, s ? &one : MPI_STATUS_IGNORE));
        CHECK(i >= 0 && i < NONE);
        if (s)
            s[i] = one;
    }
    OK(MPI_Waitany(N, r, &i, &one));
    CHECK_EQ(i, MPI_UNDEFINED);
    CHECK_EQ(one.MPI_SOURCE, MPI_ANY_SOURCE);
    CHECK_EQ(one.MPI_TAG, MPI_ANY_TAG);
}

static void test_any(MPI_Request *r, MPI_Status *s)
{
    MPI_Status one;
    int i = 0, flag;
    while (i != MPI_UNDEFINED) {
        one.MPI_ERROR = UNSET;
        do
            OK(MPI_Testany(N, r, &i, &flag, s ? &one : MPI_STATUS_IGNORE));
        while (!flag);
        if (s && i != MPI_UNDEFINED)
            s[i] = one;
    }
}

static void some(int (*call)(int, MPI_Request *, int *, int *, MPI_Status *), MPI_Request *r,
                 MPI_Status *s)
{
    MPI_Status found[N];
    int at[N], n = 0;
    while (n != MPI_UNDEFINED) {
        OK(call(N, r, &n, at, s ? found : MPI_STATUSES_IGNORE));
        for (int k = 0; s && k < n; k++)
            s[at[k]] = found[k];
    }
}

static void wait_some(MPI_Request *r, MPI_Status *s) { some(MPI_Waitsome, r, s); }
static void test_some(MPI_Request *r, MPI_Status *s) { some(MPI_Testsome, r, s); }

static void wait_all(MPI_Request *r, MPI_Status *s)
{
    OK(MPI_Waitall(N, r, s ? s : MPI_STATUSES_IGNORE));
}

static void test_all(MPI_Request *r, MPI_Status *s)
{
    for (int flag = 0; !flag;)
        OK(MPI_Testall(N, r, &flag, s ? s : MPI_STATUSES_IGNORE));
}

static void peek_all(MPI_Request *r, MPI_Status *s)
{
    for (int flag = 0; !flag;)
        OK(MPI_Request_get_status_all(N, r, &flag, s ? s : MPI_STATUSES_IGNORE));
}

static void peek_some(MPI_Request *r, MPI_Status *s)
{
    MPI_Status found[N];
    int at[N], n;
    do
        OK(MPI_Request_get_status_some(N, r, &n, at, s ? found : MPI_STATUSES_IGNORE));
    while (n < NONE);
    for (int k = 0; s && k < n; k++)
        s[at[k]] = found[k];
}

static void peek_any(MPI_Request *r, MPI_Status *s)
{
    for (int i = 0, k = -1, flag = 0; i < NONE; i++, flag = 0) {
        MPI_Request two[] = { MPI_REQUEST_NULL, r[i] };
        while (!flag)
            OK(MPI_Request_get_status_any(2, two, &k, &flag, s ? &s[i] : MPI_STATUS_IGNORE));
        CHECK_EQ(k, 1);
    }
}

static const struct {
    const char *name;
    void (*call)(MPI_Request *r, MPI_Status *s);
    bool multiple, all, keeps; /* all: writes the status of the null request, too */
} ways[] = {
    { "MPI_Wait", wait_one, false, false, false },
    { "MPI_Test", test_one, false, false, false },
    { "MPI_Waitany", wait_any, false, false, false },
    { "MPI_Testany", test_any, false, false, false },
    { "MPI_Waitsome", wait_some, true, false, false },
    { "MPI_Testsome", test_some, true, false, false },
    { "MPI_Waitall", wait_all, true, true, false },
    { "MPI_Testall", test_all, true, true, false },
    { "MPI_Request_get_status", peek_one, false, false, true },
    { "MPI_Request_get_status_any", peek_any, false, false, true },
    { "MPI_Request_get_status_some", peek_some, true, false, true },
    { "MPI_Request_get_status_all", peek_all, true, true, true },
};

static void statuses_in_place(void)
{
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        int before = check_failed_case;
        post();
        ways[w].call(recvs + 1, got + 1);
        ways[w].call(sends + 1, sent + 1);
        if (ways[w].keeps) {
            wait_all(recvs + 1, NULL);
            wait_all(sends + 1, NULL);
        }
        check_fence(recvs, got);
        check_fence(sends, sent);
        for (int i = 0; i < NONE; i++) {
            bool none = i == TAG_OF_NULL;
            check_status(&got[1 + i], none ? MPI_PROC_NULL : mt_rank, none ? MPI_ANY_TAG : i,
                         none ? 0 : 1 + i % LEN, ways[w].multiple);
            CHECK_EQ(sent[1 + i].MPI_ERROR, ways[w].multiple ? MPI_SUCCESS : UNSET);
        }
        if (ways[w].all) {
            check_status(&got[1 + NONE], MPI_ANY_SOURCE, MPI_ANY_TAG, 0, true);
            check_status(&sent[1 + NONE], MPI_ANY_SOURCE, MPI_ANY_TAG, 0, true);
        }
        if (check_failed_case != before)
            printf("# in %s\n", ways[w].name);
    }
}

static void ignored_statuses(void)
{
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        post();
        ways[w].call(recvs + 1, NULL);
        ways[w].call(sends + 1, NULL);
        wait_all(recvs + 1, NULL);
        wait_all(sends + 1, NULL);
        check_fence(recvs, got);
    }
}

static void null_requests(void)
{
    MPI_Status s;
    MPI_Request r = MPI_REQUEST_NULL;
    int flag = 0;
    OK(MPI_Wait(&r, &s));
    check_status(&s, MPI_ANY_SOURCE, MPI_ANY_TAG, 0, true);
    OK(MPI_Test(&r, &flag, &s));
    CHECK_EQ(flag, 1);
    OK(MPI_Request_get_status(r, &flag, &s));
    CHECK_EQ(flag, 1);
    CHECK(r == MPI_REQUEST_NULL);
}

/* Message 1 of three is longer than its receive. */
static void post_errors(int tag)
{
    fence(recvs, got);
    for (int i = 0; i < 3; i++) {
        OK(MPI_Irecv(in[i], 1, MPI_INT, mt_rank, tag + i, mt_comm, &recvs[1 + i]));
        OK(MPI_Send(out[i], i == 1 ? 2 : 1, MPI_INT, mt_rank, tag + i, mt_comm));
    }
}

static void errors_in_statuses(void)
{
    int n = 0, at[3], flag = 0;
    post_errors(100);
    CHECK_EQ(MPI_Waitall(3, recvs + 1, got + 1), MPI_ERR_IN_STATUS);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(got[1 + i].MPI_ERROR, i == 1 ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
    check_fence(recvs, got);
    post_errors(200);
    while (!flag)
        CHECK_EQ(MPI_Testall(3, recvs + 1, &flag, got + 1), flag ? MPI_ERR_IN_STATUS : 0);
    CHECK_EQ(got[2].MPI_ERROR, MPI_ERR_TRUNCATE);
    post_errors(300);
    CHECK_EQ(MPI_Waitsome(3, recvs + 1, &n, at, got + 1), MPI_ERR_IN_STATUS);
    CHECK_EQ(n, 3);
    CHECK_EQ(got[2].MPI_ERROR, MPI_ERR_TRUNCATE);
    post_errors(400);
    FAILS(MPI_Wait(&recvs[2], &got[2]), MPI_ERR_TRUNCATE);
    OK(MPI_Wait(&recvs[1], &got[1]));
    OK(MPI_Wait(&recvs[3], &got[3]));
    check_fence(recvs, got);
}

static void persistent_requests(void)
{
    fence(recvs, got);
    for (int i = 0; i < 2; i++) {
        OK(MPI_Recv_init(in[i], LEN, MPI_INT, mt_rank, i, mt_comm, &recvs[1 + 2 * i]));
        OK(MPI_Send_init(out[i], LEN, MPI_INT, mt_rank, i, mt_comm, &recvs[2 + 2 * i]));
    }
    for (int turn = 0; turn < 3; turn++) {
        if (turn)
            OK(MPI_Startall(4, recvs + 1));
        else
            for (int i = 1; i <= 4; i++)
                OK(MPI_Start(&recvs[i]));
        OK(MPI_Waitall(4, recvs + 1, got + 1));
        check_status(&got[1], mt_rank, 0, LEN, true);
        check_status(&got[3], mt_rank, 1, LEN, true);
        OK(MPI_Wait(&recvs[1], &got[1])); /* inactive */
        check_status(&got[1], MPI_ANY_SOURCE, MPI_ANY_TAG, 0, true);
    }
    for (int i = 1; i <= 4; i++)
        OK(MPI_Request_free(&recvs[i]));
    check_fence(recvs, got);
    FAILS(MPI_Startall(1, recvs + 1), MPI_ERR_REQUEST);
}

static void cancelled_receive(void)
{
    int cancelled = 0;
    fence(recvs, got);
    OK(MPI_Irecv(in[0], LEN, MPI_INT, mt_rank, 9, mt_comm, &recvs[1]));
    OK(MPI_Cancel(&recvs[1]));
    OK(MPI_Waitall(1, recvs + 1, got + 1));
    OK(MPI_Test_cancelled(&got[1], &cancelled));
    CHECK_EQ(cancelled, 1);
    check_fence(recvs, got);
}

int main(int argc, char **argv)
{
    mt_init(argc, argv);
    MT_RUN(statuses_in_place);
    MT_RUN(ignored_statuses);
    MT_RUN(null_requests);
    MT_RUN(errors_in_statuses);
    MT_RUN(persistent_requests);
    MT_RUN(cancelled_receive);
    return mt_end();
}
