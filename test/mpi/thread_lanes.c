/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads with communicators of their own, which lie on different lanes (mpi/p2p/lane.h), and calls
 * that concern several lanes: requests of several communicators in one call, a communicator that is
 * freed with pending operations, a lane that only threads of other lanes advance.  The n-th threads
 * of all ranks make the same random choices; order and content of the messages are checked. */
#include "test/mpi/mpitest.h"
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

enum { MOST = 16, OWN = 3, BURST = 4, LARGE = 150000, SHARED_TAGS = 1000 };

static int rounds = 12;
static bool apart; /* these processes have the lanes of their communicators */
static MPI_Comm shared;

struct job {
    int id, errors;
    uint64_t seed;
    MPI_Comm comm[OWN], other; /* `other` has no receive that could match */
    unsigned char *out, *in[OWN * BURST];
};

#define DO(call) (j->errors += (call) != MPI_SUCCESS)
#define WANT(cond) (j->errors += !(cond))

static unsigned draw(struct job *j, unsigned n)
{
    j->seed = j->seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(j->seed >> 33) % n;
}

static int right(void) { return (mt_rank + 1) % mt_size; }
static int left(void) { return (mt_rank + mt_size - 1) % mt_size; }

static int any_length(struct job *j)
{
    static const int lens[] = { 0, 8, 48, 500, 9000, LARGE };
    return lens[draw(j, 6)];
}

static unsigned key_of(int from, int c, int k) { return (unsigned)(from * 100 + c * 10 + k); }

static void on_lane(const char *lane, MPI_Comm *c)
{
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "weft_lane", lane));
    OK(MPI_Comm_dup_with_info(mt_comm, info, c));
    OK(MPI_Info_free(&info));
}

/* ---- messages on several communicators, completed together ---- */

static void complete(struct job *j, MPI_Request *r, int n)
{
    int flag = 0, i, some[2 * OWN * BURST + 1], got, left_over = n;
    switch (draw(j, 7)) {
    case 0:
        while (!flag)
            DO(MPI_Testall(n, r, &flag, MPI_STATUSES_IGNORE));
        return;
    case 1:
        for (; left_over; left_over--) {
            DO(MPI_Waitany(n, r, &i, MPI_STATUS_IGNORE));
            WANT(i != MPI_UNDEFINED && r[i] == MPI_REQUEST_NULL);
        }
        return;
    case 2:
        for (; left_over > 0; left_over -= got) {
            DO(MPI_Waitsome(n, r, &got, some, MPI_STATUSES_IGNORE));
            WANT(got > 0);
        }
        return;
    case 3:
        while (left_over) {
            DO(MPI_Testany(n, r, &i, &flag, MPI_STATUS_IGNORE));
            left_over -= flag;
        }
        return;
    case 4:
        for (; left_over > 0; left_over -= got)
            DO(MPI_Testsome(n, r, &got, some, MPI_STATUSES_IGNORE));
        return;
    case 5:
        for (i = n - 1; i >= 0; i--)
            DO(MPI_Wait(&r[i], MPI_STATUS_IGNORE));
        return;
    default:
        DO(MPI_Waitall(n, r, MPI_STATUSES_IGNORE));
    }
}

/* A few messages on each communicator; those with one tag arrive in order. */
static void mix(struct job *j)
{
    MPI_Request r[2 * OWN * BURST + 1];
    int len[OWN][BURST], n = 0, sum = 0, one = 1;
    bool coll = draw(j, 3) == 0, sync = draw(j, 4) == 0;

    for (int c = 0; c < OWN; c++)
        for (int k = 0; k < BURST; k++) {
            int src = draw(j, 2) ? MPI_ANY_SOURCE : left(), tag = draw(j, 2) ? MPI_ANY_TAG : 7;
            len[c][k] = any_length(j);
            DO(MPI_Irecv(j->in[c * BURST + k], LARGE, MPI_BYTE, src, tag, j->comm[c], &r[n++]));
        }
    if (coll)
        DO(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, j->comm[0], &r[n++]));
    for (int k = 0; k < BURST; k++)
        for (int c = 0; c < OWN; c++) {
            unsigned char *at = j->out + (size_t)(c * BURST + k) * LARGE;
            mt_fill(at, (size_t)len[c][k], key_of(mt_rank, c, k));
            DO((sync ? MPI_Issend : MPI_Isend)(at, len[c][k], MPI_BYTE, right(), 7, j->comm[c],
                                               &r[n++]));
        }
    complete(j, r, n);
    for (int c = 0; c < OWN; c++)
        for (int k = 0; k < BURST; k++)
            WANT(mt_differs(j->in[c * BURST + k], (size_t)len[c][k], key_of(left(), c, k)) ==
                 (size_t)len[c][k]);
    WANT(!coll || sum == mt_size);
}

static void persist(struct job *j)
{
    MPI_Request r[2 * OWN];
    int in[OWN], out[OWN];
    for (int c = 0; c < OWN; c++) {
        DO(MPI_Recv_init(&in[c], 1, MPI_INT, left(), 3, j->comm[c], &r[2 * c]));
        DO(MPI_Send_init(&out[c], 1, MPI_INT, right(), 3, j->comm[c], &r[2 * c + 1]));
    }
    for (int i = 0; i < 3; i++) {
        for (int c = 0; c < OWN; c++)
            out[c] = 100 * i + 10 * c + j->id;
        DO(MPI_Startall(2 * OWN, r));
        DO(MPI_Waitall(2 * OWN, r, MPI_STATUSES_IGNORE));
        for (int c = 0; c < OWN; c++)
            WANT(in[c] == 100 * i + 10 * c + j->id);
    }
    for (int i = 0; i < 2 * OWN; i++)
        DO(MPI_Request_free(&r[i]));
}

/* ---- one communicator ---- */

/* Blocking, on the communicator that all threads use. */
static void share(struct job *j)
{
    int len = any_length(j), tag = SHARED_TAGS + j->id;
    MPI_Status st;
    mt_fill(j->out, (size_t)len, key_of(mt_rank, 0, 0));
    DO(MPI_Sendrecv(j->out, len, MPI_BYTE, right(), tag, j->in[0], LARGE, MPI_BYTE, left(), tag,
                    shared, &st));
    WANT(st.MPI_SOURCE == left() && st.MPI_TAG == tag);
    WANT(mt_differs(j->in[0], (size_t)len, key_of(left(), 0, 0)) == (size_t)len);
}

static void probe(struct job *j)
{
    MPI_Comm c = j->comm[draw(j, OWN)];
    int len = any_length(j), got = -1, flag = 0, how = (int)draw(j, 3);
    MPI_Message m;
    MPI_Request r;
    MPI_Status st;
    mt_fill(j->out, (size_t)len, key_of(mt_rank, 1, 0));
    DO(MPI_Isend(j->out, len, MPI_BYTE, right(), 5, c, &r));
    while (how == 0 && !flag)
        DO(MPI_Improbe(MPI_ANY_SOURCE, 5, c, &flag, &m, &st));
    if (how == 1)
        DO(MPI_Probe(left(), MPI_ANY_TAG, c, &st));
    if (how)
        DO(MPI_Mprobe(left(), MPI_ANY_TAG, c, &m, &st));
    MPI_Get_count(&st, MPI_BYTE, &got);
    WANT(got == len);
    DO(MPI_Mrecv(j->in[0], LARGE, MPI_BYTE, &m, &st));
    WANT(mt_differs(j->in[0], (size_t)len, key_of(left(), 1, 0)) == (size_t)len);
    DO(MPI_Wait(&r, MPI_STATUS_IGNORE));
}

static void cancel(struct job *j)
{
    MPI_Comm c = j->other;
    MPI_Request r[2];
    MPI_Status st[2];
    int x = 1, flag[2] = { 0, 0 };
    DO(MPI_Irecv(&x, 1, MPI_INT, MPI_ANY_SOURCE, 98, c, &r[0]));
    DO(MPI_Issend(&x, 1, MPI_INT, right(), 99, c, &r[1]));
    for (int i = 0; i < 2; i++)
        DO(MPI_Cancel(&r[i]));
    DO(MPI_Waitall(2, r, st));
    for (int i = 0; i < 2; i++)
        DO(MPI_Test_cancelled(&st[i], &flag[i]));
    WANT(flag[0] && flag[1]);
}

/* Freed while its operations are pending. */
static void drop(struct job *j)
{
    MPI_Comm c;
    MPI_Request r[2];
    int in = -1, out = mt_rank;
    if (draw(j, 2)) {
        DO(MPI_Comm_dup(j->comm[0], &c));
    } else {
        DO(MPI_Comm_idup(j->comm[0], &c, &r[0]));
        DO(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
    }
    DO(MPI_Irecv(&in, 1, MPI_INT, left(), 1, c, &r[0]));
    DO(MPI_Isend(&out, 1, MPI_INT, right(), 1, c, &r[1]));
    DO(MPI_Comm_free(&c));
    DO(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    WANT(in == left());
}

static void buffered(struct job *j)
{
    MPI_Comm c = j->comm[draw(j, OWN)];
    int len = any_length(j);
    MPI_Request r;
    mt_fill(j->out, (size_t)len, key_of(mt_rank, 2, 0));
    DO(MPI_Irecv(j->in[0], LARGE, MPI_BYTE, left(), 2, c, &r));
    DO(MPI_Bsend(j->out, len, MPI_BYTE, right(), 2, c));
    if (draw(j, 2))
        DO(MPI_Buffer_flush());
    DO(MPI_Wait(&r, MPI_STATUS_IGNORE));
    WANT(mt_differs(j->in[0], (size_t)len, key_of(left(), 2, 0)) == (size_t)len);
}

/* ---- collectives ---- */

/* Of any length, so that some move through shared memory and others as messages. */
static void broadcast(struct job *j)
{
    int len = any_length(j), root = (int)draw(j, (unsigned)mt_size);
    unsigned char *at = mt_rank == root ? j->out : j->in[0];
    mt_fill(at, (size_t)len, key_of(mt_rank, 4, 0));
    DO(MPI_Bcast(at, len, MPI_BYTE, root, j->comm[draw(j, OWN)]));
    WANT(mt_differs(at, (size_t)len, key_of(root, 4, 0)) == (size_t)len);
}

/* On all communicators at once, and completed in any way, beside a message. */
static void collect(struct job *j)
{
    enum { N = 2 * OWN + 3 };
    MPI_Request r[N];
    int n = 0, mine = mt_rank + 1, sum[OWN] = { 0 }, first[OWN] = { 0 }, all[64], got = -1;
    MPI_Comm c = j->comm[draw(j, OWN)];
    for (int i = 0; i < OWN; i++) {
        DO(MPI_Iallreduce(&mine, &sum[i], 1, MPI_INT, MPI_SUM, j->comm[i], &r[n++]));
        DO(MPI_Iexscan(&mine, &first[i], 1, MPI_INT, MPI_SUM, j->comm[i], &r[n++]));
    }
    DO(MPI_Iallgather(&mine, 1, MPI_INT, all, 1, MPI_INT, c, &r[n++]));
    DO(MPI_Irecv(&got, 1, MPI_INT, left(), 6, c, &r[n++]));
    DO(MPI_Isend(&mine, 1, MPI_INT, right(), 6, c, &r[n++]));
    complete(j, r, n);
    for (int i = 0; i < OWN; i++) {
        WANT(sum[i] == mt_size * (mt_size + 1) / 2);
        WANT(!mt_rank || first[i] == mt_rank * (mt_rank + 1) / 2);
    }
    for (int i = 0; i < mt_size; i++)
        WANT(all[i] == i + 1);
    WANT(got == left() + 1);
}

/* Persistent collectives are messages, which ranks may start in different orders. */
static void collect_again(struct job *j)
{
    MPI_Request r[OWN];
    int mine[OWN], sum[OWN];
    for (int c = 0; c < OWN; c++)
        DO(MPI_Allreduce_init(&mine[c], &sum[c], 1, MPI_INT, MPI_SUM, j->comm[c], MPI_INFO_NULL,
                              &r[c]));
    for (int i = 0; i < 3; i++) {
        for (int c = 0; c < OWN; c++)
            mine[c] = i + c;
        if (mt_rank % 2)
            for (int c = OWN - 1; c >= 0; c--)
                DO(MPI_Start(&r[c]));
        else
            DO(MPI_Startall(OWN, r));
        DO(MPI_Waitall(OWN, r, MPI_STATUSES_IGNORE));
        for (int c = 0; c < OWN; c++)
            WANT(sum[c] == mt_size * (i + c));
    }
    for (int c = 0; c < OWN; c++)
        DO(MPI_Request_free(&r[c]));
}

/* The edges of a graph are exchanged by collectives of the old communicator, of which one is in
 * progress. */
static void ring_of(struct job *j)
{
    MPI_Comm old = j->comm[0], ring;
    MPI_Request r;
    int me = mt_rank, degree = 1, to = right(), one = 1, sum = 0, from = -1;
    DO(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, old, &r));
    DO(MPI_Dist_graph_create(old, 1, &me, &degree, &to, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &ring));
    DO(MPI_Neighbor_allgather(&me, 1, MPI_INT, &from, 1, MPI_INT, ring));
    WANT(from == left());
    DO(MPI_Wait(&r, MPI_STATUS_IGNORE));
    WANT(sum == mt_size);
    DO(MPI_Comm_free(&ring));
}

static void collective(struct job *j)
{
    static void (*const kinds[])(struct job *) = { broadcast, collect, collect_again, ring_of };
    kinds[draw(j, 4)](j);
}

static void *work(void *arg)
{
    static void (*const steps[])(struct job *) = { mix,    persist, share,    probe,
                                                   cancel, drop,    buffered, collective };
    struct job *j = arg;
    for (int i = 0; i < rounds; i++)
        (i % 2 ? steps[draw(j, 8)] : mix)(j);
    return NULL;
}

static void run(int nthreads)
{
    static struct job jobs[MOST];
    pthread_t t[MOST];
    for (int i = 0; i < nthreads; i++) {
        struct job *j = &jobs[i];
        *j = (struct job){ .id = i, .seed = (uint64_t)(nthreads * 100 + i) };
        for (int c = 0; c < OWN; c++)
            OK(MPI_Comm_dup(mt_comm, &j->comm[c]));
        OK(MPI_Comm_dup(mt_comm, &j->other));
        j->out = malloc((size_t)OWN * BURST * LARGE);
        for (int k = 0; k < OWN * BURST; k++)
            j->in[k] = malloc(LARGE);
    }
    OK(MPI_Comm_dup(mt_comm, &shared));
    for (int i = 0; i < nthreads; i++)
        CHECK_EQ(pthread_create(&t[i], NULL, work, &jobs[i]), 0);
    for (int i = 0; i < nthreads; i++)
        CHECK_EQ(pthread_join(t[i], NULL), 0);
    for (int i = 0; i < nthreads; i++) {
        CHECK_MSG(jobs[i].errors == 0, "rank %d: thread %d of %d saw %d errors", mt_rank, i,
                  nthreads, jobs[i].errors);
        for (int c = 0; c < OWN; c++)
            OK(MPI_Comm_free(&jobs[i].comm[c]));
        OK(MPI_Comm_free(&jobs[i].other));
        free(jobs[i].out);
        for (int k = 0; k < OWN * BURST; k++)
            free(jobs[i].in[k]);
    }
    OK(MPI_Comm_free(&shared));
}

static void one_thread(void) { run(1); }
static void two_threads(void) { run(2); }
static void five_threads(void) { run(5); }
static void sixteen_threads(void) { run(MOST); }

/* ---- a collective holds no other lane ---- */

enum { TRIES = 100, LONG_MS = 50 };
static MPI_Comm busy, other;
static int inside, passed; /* of one try */
static __thread bool adds;

/* Called under the lock of the lane of `busy`; by another thread, too, which makes progress there
 * before it sleeps, or waits for that lock then. */
static void slow_sum(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void)type;
    __atomic_store_n(&inside, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < LONG_MS && adds && !__atomic_load_n(&passed, __ATOMIC_ACQUIRE); i++)
        mt_sleep_ms(1);
    for (int i = 0; i < *n; i++)
        ((int *)inout)[i] += ((int *)in)[i];
    __atomic_store_n(&inside, 0, __ATOMIC_RELEASE);
}

static void *sum_slowly(void *arg)
{
    struct job *j = arg;
    int one = 1, sum = 0;
    MPI_Op op;
    adds = true;
    DO(MPI_Op_create(slow_sum, 1, &op));
    DO(MPI_Allreduce(&one, &sum, 1, MPI_INT, op, busy));
    WANT(sum == mt_size);
    DO(MPI_Op_free(&op));
    return NULL;
}

/* Whether a collective on another lane was over during a reduction, in some rank. */
static bool pass_by(void)
{
    struct job j = { .id = 0 };
    pthread_t t;
    int in, any = 0, mine;
    __atomic_store_n(&passed, 0, __ATOMIC_RELEASE);
    CHECK_EQ(pthread_create(&t, NULL, sum_slowly, &j), 0);
    for (int i = 0; i < LONG_MS && !__atomic_load_n(&inside, __ATOMIC_ACQUIRE); i++)
        mt_sleep_ms(1);
    in = __atomic_load_n(&inside, __ATOMIC_ACQUIRE);
    OK(MPI_Barrier(other));
    mine = in && __atomic_load_n(&inside, __ATOMIC_ACQUIRE);
    __atomic_store_n(&passed, 1, __ATOMIC_RELEASE);
    CHECK_EQ(pthread_join(t, NULL), 0);
    CHECK_EQ(j.errors, 0);
    OK(MPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_MAX, other));
    return any;
}

static void at_once(void)
{
    bool done = false;
    if (!apart || mt_size == 1)
        return;
    on_lane("2", &busy);
    on_lane("0", &other);
    for (int i = 0; i < TRIES && !done; i++)
        done = pass_by();
    CHECK(done);
    OK(MPI_Comm_free(&busy));
    OK(MPI_Comm_free(&other));
}

/* ---- a lane without a thread ---- */

static MPI_Comm waited, served;
static sem_t over;

/* Starts a message that needs more steps of this process, and makes no calls until the other thread
 * has its own message. */
static void *leave_behind(void *arg)
{
    struct job *j = arg;
    MPI_Request r[2];
    int x = 0;
    DO(MPI_Isend(j->out, LARGE, MPI_BYTE, right(), 0, served, &r[0]));
    DO(MPI_Isend(&x, 1, MPI_INT, mt_rank, 1, served, &r[1]));
    sem_wait(&over);
    DO(MPI_Recv(&x, 1, MPI_INT, mt_rank, 1, served, MPI_STATUS_IGNORE));
    DO(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    return NULL;
}

static void *answer(void *arg)
{
    struct job *j = arg;
    int x = 0;
    DO(MPI_Recv(j->in[0], LARGE, MPI_BYTE, left(), 0, served, MPI_STATUS_IGNORE));
    DO(MPI_Send(&x, 1, MPI_INT, left(), 0, waited));
    return NULL;
}

static void served_by_others(void)
{
    struct job j[3] = { { .id = 0 } };
    pthread_t t[2];
    CHECK_EQ(sem_init(&over, 0, 0), 0);
    for (int i = 0; i < 8; i++) {
        int x;
        OK(MPI_Comm_dup(mt_comm, &waited));
        OK(MPI_Comm_dup(mt_comm, &served));
        j[0].out = calloc(1, LARGE);
        j[1].in[0] = malloc(LARGE);
        CHECK_EQ(pthread_create(&t[0], NULL, leave_behind, &j[0]), 0);
        if (i % 2)
            mt_sleep_ms(3);
        CHECK_EQ(pthread_create(&t[1], NULL, answer, &j[1]), 0);
        OK(MPI_Recv(&x, 1, MPI_INT, right(), 0, waited, MPI_STATUS_IGNORE));
        sem_post(&over);
        for (int k = 0; k < 2; k++) {
            CHECK_EQ(pthread_join(t[k], NULL), 0);
            CHECK_EQ(j[k].errors, 0);
        }
        free(j[0].out);
        free(j[1].in[0]);
        OK(MPI_Comm_free(&waited));
        OK(MPI_Comm_disconnect(&served));
    }
    sem_destroy(&over);
}

/* A receive whose request and communicator are freed; MPI_Finalize waits for the message. */
static void left_to_finalize(void)
{
    static int in, out;
    MPI_Request r;
    MPI_Comm c;
    for (int i = 0; i < 4; i++) {
        OK(MPI_Comm_dup(mt_comm, &c));
        OK(MPI_Irecv(&in, 1, MPI_INT, left(), 0, c, &r));
        OK(MPI_Request_free(&r));
        OK(MPI_Send(&out, 1, MPI_INT, right(), 0, c));
        OK(MPI_Comm_free(&c));
    }
}

/* The communicators above lie on the lanes in turn, and the hint chooses one. */
static void hint(void)
{
    MPI_Info info;
    MPI_Comm c;
    int flag, len = 8, x = mt_rank, y = -1;
    char lane[8];
    on_lane("3", &c);
    OK(MPI_Sendrecv(&x, 1, MPI_INT, right(), 0, &y, 1, MPI_INT, left(), 0, c, MPI_STATUS_IGNORE));
    CHECK_EQ(y, left());
    OK(MPI_Comm_get_info(c, &info));
    OK(MPI_Info_get_string(info, "weft_lane", &len, lane, &flag));
    CHECK(flag && !strcmp(lane, "3"));
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_free(&c));
}

/* The request of a small send is complete, and the same for all threads: its completion takes no
 * lock, which all threads would share. */
static unsigned long long locks_taken(void)
{
    MPI_T_pvar_session session;
    MPI_T_pvar_handle taken;
    unsigned long long n = 0;
    int index, count;
    OK(MPI_T_pvar_session_create(&session));
    OK(MPI_T_pvar_get_index("lock_taken", MPI_T_PVAR_CLASS_COUNTER, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &taken, &count));
    OK(MPI_T_pvar_read(session, taken, &n));
    OK(MPI_T_pvar_handle_free(session, &taken));
    OK(MPI_T_pvar_session_free(&session));
    return n;
}

static void end_of_small_sends(void)
{
    enum { SENDS = 16, CALLS = 50 };
    int x = mt_rank, y[SENDS], provided, flag, one;
    MPI_Request r[SENDS], q[SENDS];
    MPI_Comm c;
    OK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided));
    on_lane("1", &c);
    for (int i = 0; i < SENDS; i++)
        OK(MPI_Irecv(&y[i], 1, MPI_INT, left(), 0, c, &q[i]));
    OK(MPI_Barrier(c));
    for (int i = 0; i < SENDS; i++)
        OK(MPI_Isend(&x, 1, MPI_INT, right(), 0, c, &r[i]));
    unsigned long long before = locks_taken();
    for (int i = 0; i < CALLS; i++) {
        MPI_Request again[SENDS];
        memcpy(again, r, sizeof r); /* one request, which is never freed, has all these handles */
        OK(MPI_Wait(&again[0], MPI_STATUS_IGNORE));
        OK(MPI_Test(&again[1], &flag, MPI_STATUS_IGNORE));
        OK(MPI_Waitany(SENDS, again, &one, MPI_STATUS_IGNORE));
        CHECK(flag && one == 2);
        OK(MPI_Testall(SENDS, again, &flag, MPI_STATUSES_IGNORE));
        CHECK(flag);
        memcpy(again, r, sizeof r);
        OK(MPI_Waitall(SENDS, again, MPI_STATUSES_IGNORE));
        CHECK(again[0] == MPI_REQUEST_NULL && again[SENDS - 1] == MPI_REQUEST_NULL);
    }
    unsigned long long taken = locks_taken() - before;
    CHECK(taken < CALLS); /* of other calls; nearly 0 */
    OK(MPI_Waitall(SENDS, r, MPI_STATUSES_IGNORE));
    OK(MPI_Waitall(SENDS, q, MPI_STATUSES_IGNORE));
    for (int i = 0; i < SENDS; i++)
        CHECK_EQ(y[i], left());
    OK(MPI_Comm_free(&c));
    OK(MPI_T_finalize());
}

int main(int argc, char **argv)
{
    int provided;
    static char buffer[MOST * (LARGE + MPI_BSEND_OVERHEAD)];
    void *at;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    mt_setup();
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    apart = argc > 1 && !strcmp(argv[1], "apart");
    OK(MPI_Buffer_attach(buffer, sizeof buffer));
    MT_RUN(hint);
    MT_RUN(end_of_small_sends);
    MT_RUN(one_thread);
    MT_RUN(two_threads);
    MT_RUN(five_threads);
    MT_RUN(sixteen_threads);
    MT_RUN(at_once);
    MT_RUN(served_by_others);
    OK(MPI_Buffer_detach(&at, &provided));
    MT_RUN(left_to_finalize);
    return mt_end();
}
