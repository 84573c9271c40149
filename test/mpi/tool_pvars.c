/* SPDX-License-Identifier: BSD-3-Clause */
/* Performance variables (MPI-5.0 section 15.3.7): they count what happens, exactly; sessions,
 * handles and every error code.  Values are read before MPI_Init and after MPI_Finalize as well. */
#include "test/mpi/mpitest.h"

#define T(call) CHECK_EQ((call), MPI_SUCCESS)
#define IS(call, code) CHECK_EQ((call), MPI_T_ERR_##code)
#define STALE ((void *)0x6fffffff)
#define N 10
#define LARGE 300000

typedef unsigned long long ull;
static MPI_T_pvar_session session;
static char large[LARGE];

static MPI_T_pvar_handle open_pvar(const char *name, int var_class, void *obj, int *count)
{
    MPI_T_pvar_handle h = MPI_T_PVAR_HANDLE_NULL;
    int index = -1, n = 0;
    T(MPI_T_pvar_get_index(name, var_class, &index));
    T(MPI_T_pvar_handle_alloc(session, index, obj, &h, count ? count : &n));
    return h;
}

static MPI_T_pvar_handle counter(const char *name)
{
    return open_pvar(name, MPI_T_PVAR_CLASS_COUNTER, NULL, NULL);
}

static MPI_T_pvar_handle bytes(const char *name)
{
    return open_pvar(name, MPI_T_PVAR_CLASS_AGGREGATE, NULL, NULL);
}

static ull value(MPI_T_pvar_handle h)
{
    ull v = 0xdead;
    T(MPI_T_pvar_read(session, h, &v));
    return v;
}

static void table(void)
{
    int n = 0;
    T(MPI_T_pvar_get_num(&n));
    for (int i = 0; i < n; i++) {
        char name[64] = "", desc[1024] = "";
        int name_len = sizeof name, desc_len = sizeof desc, verbosity, cls, bind, ro, cont, atomic;
        int again = -1;
        MPI_Datatype type;
        MPI_T_enum e;
        T(MPI_T_pvar_get_info(i, name, &name_len, &verbosity, &cls, &type, &e, desc, &desc_len,
                              &bind, &ro, &cont, &atomic));
        CHECK(*name && *desc);
        CHECK(cls >= MPI_T_PVAR_CLASS_STATE && cls <= MPI_T_PVAR_CLASS_GENERIC);
        CHECK(cls == MPI_T_PVAR_CLASS_STATE ? type == MPI_INT && e != MPI_T_ENUM_NULL
                                            : type == MPI_UNSIGNED_LONG_LONG || type == MPI_DOUBLE);
        CHECK(ro == 0 || ro == 1);
        CHECK(bind == MPI_T_BIND_NO_OBJECT || bind == MPI_T_BIND_MPI_COMM);
        T(MPI_T_pvar_get_index(name, cls, &again));
        CHECK_EQ(again, i);
        IS(MPI_T_pvar_get_index(name, cls + 1, &again), INVALID_NAME);
        T(MPI_T_pvar_get_info(i, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                              NULL));
    }
}

/* N small and 2 large messages from each rank to the next, which waits for none of them. */
static void traffic(void)
{
    int to = (mt_rank + 1) % mt_size, from = (mt_rank + mt_size - 1) % mt_size;
    MPI_Request r[2];
    static char in[LARGE];
    for (int i = 0; i < N; i++) {
        OK(MPI_Irecv(in, 8, MPI_BYTE, from, i, mt_comm, &r[0]));
        OK(MPI_Send(large, 8, MPI_BYTE, to, i, mt_comm));
        OK(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
    }
    for (int i = 0; i < 2; i++) {
        OK(MPI_Irecv(in, LARGE, MPI_BYTE, from, i, mt_comm, &r[0]));
        OK(MPI_Isend(large, LARGE, MPI_BYTE, to, i, mt_comm, &r[1]));
        OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    }
}

static void messages(void)
{
    MPI_T_pvar_handle eager = counter("p2p_sent_eager"), rndv = counter("p2p_sent_rendezvous");
    MPI_T_pvar_handle got = counter("p2p_received"), idle = counter("p2p_sent_eager");
    MPI_T_pvar_handle out = bytes("p2p_sent_bytes"), in = bytes("p2p_received_bytes");
    mt_sync();
    T(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES));
    T(MPI_T_pvar_stop(session, idle));
    traffic();
    T(MPI_T_pvar_stop(session, MPI_T_PVAR_ALL_HANDLES));
    CHECK_EQ(value(eager), N);
    CHECK_EQ(value(rndv), 2);
    CHECK_EQ(value(got), N + 2);
    CHECK_EQ(value(out), N * 8 + 2 * LARGE);
    CHECK_EQ(value(in), N * 8 + 2 * LARGE);
    CHECK_EQ(value(idle), 0);
    mt_sync(); /* stopped: does not count */
    CHECK_EQ(value(got), N + 2);
    T(MPI_T_pvar_start(session, eager)); /* continues from there */
    traffic();
    CHECK_EQ(value(eager), 2 * N);
    T(MPI_T_pvar_write(session, eager, &(ull){ 1000 }));
    traffic();
    CHECK_EQ(value(eager), 1000 + N);
    ull v = 0;
    T(MPI_T_pvar_readreset(session, eager, &v));
    CHECK_EQ(v, 1000 + N);
    CHECK_EQ(value(eager), 0);
    T(MPI_T_pvar_reset(session, MPI_T_PVAR_ALL_HANDLES));
    CHECK_EQ(value(got), 0);
    T(MPI_T_pvar_handle_free(session, &eager));
    CHECK(eager == MPI_T_PVAR_HANDLE_NULL);
    T(MPI_T_pvar_handle_free(session, &rndv));
    T(MPI_T_pvar_handle_free(session, &got));
    T(MPI_T_pvar_handle_free(session, &idle));
    T(MPI_T_pvar_handle_free(session, &out));
    T(MPI_T_pvar_handle_free(session, &in));
}

/* Ranks take turns, and no rank sends a message to the one whose turn it is. */
static void one_by_one(void (*fn)(void))
{
    for (int turn = 0; turn < mt_size; turn++) {
        if (turn != mt_rank) {
            OK(MPI_Recv(NULL, 0, MPI_BYTE, turn, 100, mt_comm, MPI_STATUS_IGNORE));
            continue;
        }
        fn();
        for (int i = 0; i < mt_size; i++)
            if (i != mt_rank)
                OK(MPI_Send(NULL, 0, MPI_BYTE, i, 100, mt_comm));
    }
}

/* Messages to itself without a receive, and receives without a message. */
static void queues_alone(void)
{
    MPI_T_pvar_handle level = open_pvar("p2p_unexpected_queue", MPI_T_PVAR_CLASS_LEVEL, 0, 0);
    MPI_T_pvar_handle posted = open_pvar("p2p_posted_queue", MPI_T_PVAR_CLASS_LEVEL, 0, 0);
    MPI_T_pvar_handle peak = open_pvar("p2p_unexpected_peak", MPI_T_PVAR_CLASS_HIGHWATERMARK, 0, 0);
    MPI_T_pvar_handle late = open_pvar("p2p_unexpected_peak", MPI_T_PVAR_CLASS_HIGHWATERMARK, 0, 0);
    MPI_T_pvar_handle came = counter("p2p_unexpected");
    MPI_Request r;
    int i, x = 0, flag;
    ull before = value(level), waiting = value(posted);
    T(MPI_T_pvar_reset(session, peak));
    T(MPI_T_pvar_start(session, peak));
    T(MPI_T_pvar_start(session, came));
    for (i = 0; i < 5; i++)
        OK(MPI_Send(&i, 1, MPI_INT, mt_rank, i, mt_comm));
    do
        OK(MPI_Iprobe(mt_rank, 4, mt_comm, &flag, MPI_STATUS_IGNORE));
    while (!flag);
    CHECK_EQ(value(level), before + 5);
    CHECK_EQ(value(peak), before + 5);
    CHECK_EQ(value(came), 5);
    for (i = 0; i < 5; i++)
        OK(MPI_Recv(&x, 1, MPI_INT, mt_rank, i, mt_comm, MPI_STATUS_IGNORE));
    CHECK_EQ(value(level), before);
    CHECK_EQ(value(peak), before + 5);
    T(MPI_T_pvar_reset(session, late));
    T(MPI_T_pvar_start(session, late)); /* a second handle sees only what comes now */
    CHECK_EQ(value(late), before);
    CHECK_EQ(value(peak), before + 5);
    T(MPI_T_pvar_stop(session, peak));
    OK(MPI_Irecv(&x, 1, MPI_INT, mt_rank, 77, mt_comm, &r));
    CHECK_EQ(value(posted), waiting + 1);
    OK(MPI_Send(&x, 1, MPI_INT, mt_rank, 77, mt_comm));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    CHECK_EQ(value(posted), waiting);
    IS(MPI_T_pvar_start(session, level), PVAR_NO_STARTSTOP);
    IS(MPI_T_pvar_stop(session, level), PVAR_NO_STARTSTOP);
    IS(MPI_T_pvar_reset(session, level), PVAR_NO_WRITE);
    IS(MPI_T_pvar_write(session, level, &before), PVAR_NO_WRITE);
    IS(MPI_T_pvar_readreset(session, level, &before), PVAR_NO_WRITE);
    T(MPI_T_pvar_session_free(&session)); /* takes the handles along */
    CHECK(session == MPI_T_PVAR_SESSION_NULL);
    T(MPI_T_pvar_session_create(&session));
    IS(MPI_T_pvar_read(session, level, &before), INVALID_HANDLE);
}

static void queues(void) { one_by_one(queues_alone); }

static void collectives(void)
{
    enum { BARRIER = 0, BCAST = 1, ALLREDUCE = 3 };
    int count = 0, x = 1, y, alg = -7, n;
    ull calls[64];
    MPI_T_enum e;
    MPI_Request req;
    MPI_T_pvar_handle h = open_pvar("coll_calls", MPI_T_PVAR_CLASS_COUNTER, NULL, &count);
    MPI_T_pvar_handle mine = open_pvar("comm_coll_calls", MPI_T_PVAR_CLASS_COUNTER, &mt_comm, NULL);
    MPI_T_pvar_handle size = open_pvar("comm_size", MPI_T_PVAR_CLASS_SIZE, &mt_comm, NULL);
    MPI_T_pvar_handle last = open_pvar("coll_algorithm", MPI_T_PVAR_CLASS_STATE, NULL, NULL);
    CHECK(count >= 17 && count <= 64);
    T(MPI_T_pvar_start(session, h));
    for (int i = 0; i < 3; i++)
        OK(MPI_Bcast(&x, 1, MPI_INT, 0, mt_comm));
    for (int i = 0; i < 4; i++)
        OK(MPI_Allreduce(&x, &y, 1, MPI_INT, MPI_SUM, mt_comm));
    OK(MPI_Ibarrier(mt_comm, &req));
    OK(MPI_Wait(&req, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(mt_comm));
    T(MPI_T_pvar_read(session, h, calls));
    CHECK_EQ(calls[BCAST], 3);
    CHECK_EQ(calls[ALLREDUCE], 4);
    CHECK_EQ(calls[BARRIER], 2);
    CHECK_EQ(calls[2], 0);
    CHECK_EQ(value(mine), 9);
    CHECK_EQ(value(size), mt_size);
    T(MPI_T_pvar_read(session, last, &alg));
    CHECK(mt_size == 1 ? alg == -1 : alg >= 0);
    if (alg >= 0) {
        char name[64];
        int len = sizeof name, index;
        T(MPI_T_pvar_get_index("coll_algorithm", MPI_T_PVAR_CLASS_STATE, &index));
        T(MPI_T_pvar_get_info(index, NULL, NULL, NULL, NULL, NULL, &e, NULL, NULL, NULL, NULL, NULL,
                              NULL));
        T(MPI_T_enum_get_info(e, &n, NULL, NULL));
        CHECK(alg < n);
        T(MPI_T_enum_get_item(e, alg, NULL, name, &len));
        CHECK_MSG(!strncmp(name, "barrier:", 8), "a barrier ran %s", name);
    }
    T(MPI_T_pvar_handle_free(session, &h));
    T(MPI_T_pvar_handle_free(session, &size));
    T(MPI_T_pvar_handle_free(session, &last));
    /* A handle for a communicator that has been freed is invalid. */
    MPI_Comm c;
    MPI_T_pvar_handle gone;
    OK(MPI_Comm_dup(mt_comm, &c));
    gone = open_pvar("comm_size", MPI_T_PVAR_CLASS_SIZE, &c, NULL);
    CHECK_EQ(value(gone), mt_size);
    OK(MPI_Comm_free(&c));
    ull v;
    IS(MPI_T_pvar_read(session, gone, &v), INVALID_HANDLE);
    T(MPI_T_pvar_handle_free(session, &gone));
    T(MPI_T_pvar_handle_free(session, &mine));
}

/* A control variable that was written before MPI_Init. */
static void chosen_algorithm(void)
{
    int alg = -7, x = 0, index, len = 64;
    char name[64] = "";
    MPI_T_enum e;
    MPI_T_pvar_handle last = open_pvar("coll_algorithm", MPI_T_PVAR_CLASS_STATE, NULL, NULL);
    OK(MPI_Bcast(&x, 1, MPI_INT, 0, mt_comm));
    T(MPI_T_pvar_read(session, last, &alg));
    T(MPI_T_pvar_get_index("coll_algorithm", MPI_T_PVAR_CLASS_STATE, &index));
    T(MPI_T_pvar_get_info(index, NULL, NULL, NULL, NULL, NULL, &e, NULL, NULL, NULL, NULL, NULL,
                          NULL));
    if (mt_size > 1)
        T(MPI_T_enum_get_item(e, alg, NULL, name, &len));
    CHECK_STR(name, mt_size > 1 ? "bcast:chain" : "");
    T(MPI_T_pvar_handle_free(session, &last));
}

static void objects(void)
{
    MPI_T_pvar_handle comms = open_pvar("objects_communicators", MPI_T_PVAR_CLASS_LEVEL, 0, 0);
    MPI_T_pvar_handle types = open_pvar("objects_datatypes", MPI_T_PVAR_CLASS_LEVEL, 0, 0);
    MPI_T_pvar_handle used = open_pvar("shm_segment_used_bytes", MPI_T_PVAR_CLASS_LEVEL, 0, 0);
    MPI_T_pvar_handle all = open_pvar("shm_segment_bytes", MPI_T_PVAR_CLASS_SIZE, 0, 0);
    MPI_T_pvar_handle asleep = open_pvar("wait_sleep_time", MPI_T_PVAR_CLASS_TIMER, 0, 0);
    ull before = value(comms), ntypes = value(types);
    double seconds = -1;
    MPI_Comm c;
    MPI_Datatype t;
    OK(MPI_Comm_dup(mt_comm, &c));
    OK(MPI_Type_contiguous(3, MPI_INT, &t));
    CHECK_EQ(value(comms), before + 1);
    CHECK_EQ(value(types), ntypes + 1);
    OK(MPI_Comm_free(&c));
    OK(MPI_Type_free(&t));
    CHECK_EQ(value(comms), before);
    CHECK_EQ(value(types), ntypes);
    CHECK(value(all) > 0 && value(used) <= value(all));
    T(MPI_T_pvar_read(session, asleep, &seconds));
    CHECK(seconds == 0);
    T(MPI_T_pvar_start(session, asleep));
    T(MPI_T_pvar_write(session, asleep, &(double){ 2.5 }));
    T(MPI_T_pvar_read(session, asleep, &seconds));
    CHECK(seconds >= 2.5 && seconds < 60);
    T(MPI_T_pvar_session_free(&session));
    T(MPI_T_pvar_session_create(&session));
}

static void errors(void)
{
    int n, index, count;
    ull v;
    MPI_Comm none = MPI_COMM_NULL;
    MPI_T_pvar_session other, null = MPI_T_PVAR_SESSION_NULL;
    MPI_T_pvar_handle h = counter("p2p_received"), all = MPI_T_PVAR_ALL_HANDLES, bad = STALE;
    T(MPI_T_pvar_get_num(&n));
    T(MPI_T_pvar_session_create(&other));
    IS(MPI_T_pvar_get_num(NULL), INVALID);
    IS(MPI_T_pvar_get_info(n, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                           NULL),
       INVALID_INDEX);
    IS(MPI_T_pvar_get_index("no_such", MPI_T_PVAR_CLASS_COUNTER, &index), INVALID_NAME);
    IS(MPI_T_pvar_get_index(NULL, MPI_T_PVAR_CLASS_COUNTER, &index), INVALID);
    IS(MPI_T_pvar_handle_alloc(null, 0, NULL, &bad, &count), INVALID_SESSION);
    IS(MPI_T_pvar_handle_alloc(session, -1, NULL, &bad, &count), INVALID_INDEX);
    IS(MPI_T_pvar_handle_alloc(session, n, NULL, &bad, &count), INVALID_INDEX);
    IS(MPI_T_pvar_handle_alloc(session, 0, NULL, NULL, &count), INVALID);
    T(MPI_T_pvar_get_index("comm_size", MPI_T_PVAR_CLASS_SIZE, &index));
    IS(MPI_T_pvar_handle_alloc(session, index, NULL, &bad, &count), INVALID);
    IS(MPI_T_pvar_handle_alloc(session, index, &none, &bad, &count), INVALID_HANDLE);
    IS(MPI_T_pvar_read(other, h, &v), INVALID_HANDLE);
    IS(MPI_T_pvar_read(session, all, &v), INVALID_HANDLE);
    IS(MPI_T_pvar_readreset(session, all, &v), INVALID_HANDLE);
    IS(MPI_T_pvar_write(session, all, &v), INVALID_HANDLE);
    IS(MPI_T_pvar_handle_free(session, &all), INVALID_HANDLE);
    IS(MPI_T_pvar_read(session, STALE, &v), INVALID_HANDLE);
    IS(MPI_T_pvar_read(null, h, &v), INVALID_SESSION);
    IS(MPI_T_pvar_read(session, h, NULL), INVALID);
    IS(MPI_T_pvar_start(null, MPI_T_PVAR_ALL_HANDLES), INVALID_SESSION);
    IS(MPI_T_pvar_start(other, h), INVALID_HANDLE);
    IS(MPI_T_pvar_session_free(&null), INVALID_SESSION);
    IS(MPI_T_pvar_session_free(NULL), INVALID);
    IS(MPI_T_pvar_session_create(NULL), INVALID);
    T(MPI_T_pvar_start(other, MPI_T_PVAR_ALL_HANDLES)); /* none is no error */
    T(MPI_T_pvar_session_free(&other));
    IS(MPI_T_pvar_handle_free(other, &h), INVALID_SESSION);
    T(MPI_T_pvar_handle_free(session, &h));
    IS(MPI_T_pvar_handle_free(session, &h), INVALID_HANDLE);
}

int main(int argc, char **argv)
{
    ull total = 0;
    MPI_T_init_thread(MPI_THREAD_SINGLE, NULL);
    MPI_T_pvar_session_create(&session);
    MPI_T_pvar_handle all = counter("p2p_received");
    MPI_T_pvar_start(session, all);
    MPI_T_pvar_read(session, all, &total);
    if (total != 0)
        return 1;
    MPI_T_cvar_handle coll;
    int index, count;
    if (MPI_T_cvar_get_index("coll", &index) ||
        MPI_T_cvar_handle_alloc(index, NULL, &coll, &count) ||
        MPI_T_cvar_write(coll, "bcast:chain"))
        return 1;
    MPI_T_pvar_session first = session;
    MPI_T_pvar_session_create(&session);
    mt_init(argc, argv);
    MT_RUN(table);
    MT_RUN(messages);
    MT_RUN(queues);
    MT_RUN(collectives);
    MT_RUN(chosen_algorithm);
    MT_RUN(objects);
    MT_RUN(errors);
    int rc = mt_end();
    MPI_T_pvar_read(first, all, &total); /* what was counted outlives the library */
    if (total < 3 * (N + 2)) {
        printf("# only %llu messages counted after MPI_Finalize\n", total);
        rc = 1;
    }
    return MPI_T_finalize() || rc;
}
