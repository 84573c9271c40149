/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that sleep while other threads of their process use MPI: what one thread finds must wake
 * the thread that waits for it, and work that a thread leaves behind must not wait for the next
 * thread that calls MPI.  Run with settings that make a wait sleep at once.  No sleep may need its
 * time limit, which the library counts (wait_rescues). */
#include "test/mpi/mpitest.h"
#include <pthread.h>

enum { THREADS = 4, LARGE = 200000 };
static int rounds = 60;

struct job {
    int id, errors;
    MPI_Comm comm;
};

#define DO(call) (j->errors += (call) != MPI_SUCCESS)
#define WANT(cond) (j->errors += !(cond))

static void run_threads(void *(*body)(void *), int n)
{
    pthread_t t[THREADS];
    struct job j[THREADS];
    for (int i = 0; i < n; i++) {
        j[i] = (struct job){ .id = i };
        OK(MPI_Comm_dup(mt_comm, &j[i].comm));
    }
    for (int i = 0; i < n; i++)
        CHECK_EQ(pthread_create(&t[i], NULL, body, &j[i]), 0);
    for (int i = 0; i < n; i++) {
        CHECK_EQ(pthread_join(t[i], NULL), 0);
        CHECK_EQ(j[i].errors, 0);
        OK(MPI_Comm_free(&j[i].comm));
    }
}

static void pause_ms(int ms) { nanosleep(&(struct timespec){ 0, ms * 1000000L }, NULL); }

/* ---- traffic ---- */

static void complete(struct job *j, MPI_Request *r, int how)
{
    int index;
    switch (how % 4) {
    case 0:
        DO(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
        return;
    case 1:
        DO(MPI_Wait(&r[0], MPI_STATUS_IGNORE));
        DO(MPI_Wait(&r[1], MPI_STATUS_IGNORE));
        return;
    default:
        DO(MPI_Waitany(2, r, &index, MPI_STATUS_IGNORE));
        DO(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
    }
}

/* Threads exchange messages of all lengths with neighbours at different distances; a thread that is
 * done leaves the others alone. */
static void *exchange(void *arg)
{
    static const int lens[] = { 0, 8, 100, 3000, LARGE, 9000, 40 };
    struct job *j = arg;
    char *out = calloc(1, LARGE), *in = malloc(LARGE);
    for (int i = 0; i < rounds * (1 + j->id); i++) {
        int far = 1 + (i + j->id) % mt_size, from = (mt_rank + far * (mt_size - 1)) % mt_size;
        int len = lens[(i * 3 + j->id) % 7];
        MPI_Request r[2];
        DO(MPI_Irecv(in, LARGE, MPI_BYTE, j->id % 2 ? MPI_ANY_SOURCE : from, i, j->comm, &r[0]));
        DO(MPI_Isend(out, len, MPI_BYTE, (mt_rank + far) % mt_size, i, j->comm, &r[1]));
        complete(j, r, i + j->id);
    }
    free(in);
    free(out);
    return NULL;
}

static void traffic(void) { run_threads(exchange, THREADS); }

/* ---- a thread waits for what another one does in the same process ---- */

static MPI_Request greq;
static int query_none(void *state, MPI_Status *s)
{
    (void)state;
    MPI_Status_set_elements(s, MPI_BYTE, 0);
    MPI_Status_set_cancelled(s, 0);
    s->MPI_SOURCE = s->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
}
static int free_none(void *state)
{
    (void)state;
    return MPI_SUCCESS;
}
static int cancel_none(void *state, int done)
{
    (void)state;
    (void)done;
    return MPI_SUCCESS;
}

static void *complete_late(void *arg)
{
    struct job *j = arg;
    pause_ms(20);
    DO(MPI_Grequest_complete(greq));
    return NULL;
}

static void generalized_request(void)
{
    pthread_t t;
    struct job j = { 0 };
    for (int i = 0; i < 5; i++) {
        OK(MPI_Grequest_start(query_none, free_none, cancel_none, NULL, &greq));
        MPI_Request r = greq;
        CHECK_EQ(pthread_create(&t, NULL, complete_late, &j), 0);
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        CHECK_EQ(pthread_join(t, NULL), 0);
    }
    CHECK_EQ(j.errors, 0);
}

/* Sends to its own process and computes: the receiver, asleep, has to move the message. */
static void *send_to_self(void *arg)
{
    struct job *j = arg;
    static char large[LARGE];
    MPI_Request r[3];
    pause_ms(20);
    DO(MPI_Isend(NULL, 0, MPI_BYTE, mt_rank, 1, mt_comm, &r[0]));
    DO(MPI_Isend(large, LARGE, MPI_BYTE, mt_rank, 2, mt_comm, &r[1]));
    DO(MPI_Issend(NULL, 0, MPI_BYTE, mt_rank, 3, mt_comm, &r[2]));
    pause_ms(50);
    DO(MPI_Waitall(3, r, MPI_STATUSES_IGNORE));
    return NULL;
}

static void self_messages(void)
{
    static char in[LARGE];
    pthread_t t;
    struct job j = { 0 };
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(pthread_create(&t, NULL, send_to_self, &j), 0);
        OK(MPI_Probe(mt_rank, 1, mt_comm, MPI_STATUS_IGNORE));
        OK(MPI_Recv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, 1, mt_comm, MPI_STATUS_IGNORE));
        OK(MPI_Recv(in, LARGE, MPI_BYTE, MPI_ANY_SOURCE, 2, mt_comm, MPI_STATUS_IGNORE));
        OK(MPI_Recv(NULL, 0, MPI_BYTE, mt_rank, 3, mt_comm, MPI_STATUS_IGNORE));
        CHECK_EQ(pthread_join(t, NULL), 0);
    }
    CHECK_EQ(j.errors, 0);
}

/* ---- a thread that only tests takes what others wait for, and leaves ---- */

static int stop; /* atomic */

static void *test_now_and_then(void *arg)
{
    struct job *j = arg;
    MPI_Request r;
    int flag = 0;
    DO(MPI_Irecv(NULL, 0, MPI_BYTE, mt_rank, 9, j->comm, &r));
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        for (int i = 0; i < 20; i++)
            DO(MPI_Test(&r, &flag, MPI_STATUS_IGNORE));
        pause_ms(1);
    }
    DO(MPI_Send(NULL, 0, MPI_BYTE, mt_rank, 9, j->comm));
    DO(MPI_Wait(&r, MPI_STATUS_IGNORE));
    return NULL;
}

static void beside_a_tester(void)
{
    pthread_t t;
    struct job j = { 0 };
    __atomic_store_n(&stop, 0, __ATOMIC_RELEASE);
    OK(MPI_Comm_dup(mt_comm, &j.comm));
    CHECK_EQ(pthread_create(&t, NULL, test_now_and_then, &j), 0);
    run_threads(exchange, THREADS - 1);
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    CHECK_EQ(pthread_join(t, NULL), 0);
    CHECK_EQ(j.errors, 0);
    OK(MPI_Comm_free(&j.comm));
}

/* ---- a service thread sleeps beside one that communicates, computes and ends ---- */

static void *serve(void *arg)
{
    struct job *j = arg;
    int x;
    MPI_Status st;
    for (int left = 0; left < mt_size;) {
        DO(MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, 1, j->comm, &st));
        DO(MPI_Send(&x, 1, MPI_INT, st.MPI_SOURCE, 2, j->comm));
        left += x < 0;
    }
    return NULL;
}

static void service(void)
{
    pthread_t t;
    struct job j = { 0 };
    int sum, one = 1;
    OK(MPI_Comm_dup(mt_comm, &j.comm));
    CHECK_EQ(pthread_create(&t, NULL, serve, &j), 0);
    for (int i = 0; i < rounds; i++) {
        int x = i + 1 < rounds ? i : -1, y = 0;
        for (int to = 0; to < mt_size; to++) {
            OK(MPI_Send(&x, 1, MPI_INT, (mt_rank + to) % mt_size, 1, j.comm));
            OK(MPI_Recv(&y, 1, MPI_INT, (mt_rank + to) % mt_size, 2, j.comm, MPI_STATUS_IGNORE));
            CHECK_EQ(y, x);
        }
        if (i % 10 == 0)
            pause_ms(10);
        OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, mt_comm));
    }
    CHECK_EQ(pthread_join(t, NULL), 0);
    OK(MPI_Comm_free(&j.comm));
}

/* Threads make communicators of this process alone, which wait for each other. */
static void *duplicate_self(void *arg)
{
    struct job *j = arg;
    MPI_Comm c;
    for (int i = 0; i < rounds; i++) {
        DO(MPI_Comm_dup(i % 2 ? MPI_COMM_SELF : j->comm, &c));
        DO(MPI_Barrier(c));
        DO(MPI_Comm_disconnect(&c));
    }
    return NULL;
}

static void communicators(void) { run_threads(duplicate_self, THREADS); }

/* ---- requests of several communicators, which lie on different lanes (mpi/p2p/lane.h) ---- */

enum { COMMS = 4 };
static MPI_Comm across[COMMS];

static void make_across(void)
{
    for (int c = 0; c < COMMS; c++)
        OK(MPI_Comm_dup(mt_comm, &across[c]));
}

static void free_across(void)
{
    for (int c = 0; c < COMMS; c++)
        OK(MPI_Comm_free(&across[c]));
}

/* Sends one message on each communicator to this process, the last one late, or receives one that
 * no other thread waits for: its progress completes what another thread waits for. */
static void *complete_others(void *arg)
{
    struct job *j = arg;
    for (int i = 0; i < rounds; i++)
        for (int c = 0; c < COMMS; c++) {
            int at = (c + i) % COMMS, x = i;
            if (c == COMMS - 1 && i % 4 == 0)
                pause_ms(i % 3);
            DO(MPI_Sendrecv(&x, 1, MPI_INT, mt_rank, 2, &x, 1, MPI_INT, mt_rank, 2, across[at],
                            MPI_STATUS_IGNORE));
            DO(MPI_Send(&x, 1, MPI_INT, (mt_rank + 1) % mt_size, 1, across[at]));
        }
    return NULL;
}

/* Waits for one message on each communicator, all together or one after the other. */
static void *wait_across(void *arg)
{
    struct job *j = arg;
    for (int i = 0; i < rounds; i++) {
        MPI_Request r[COMMS];
        int in[COMMS], index;
        for (int c = 0; c < COMMS; c++)
            DO(MPI_Irecv(&in[c], 1, MPI_INT, (mt_rank + mt_size - 1) % mt_size, 1, across[c],
                         &r[c]));
        for (int c = 0; c < COMMS && i % 2; c++)
            DO(MPI_Waitany(COMMS, r, &index, MPI_STATUS_IGNORE));
        DO(MPI_Waitall(COMMS, r, MPI_STATUSES_IGNORE));
        for (int c = 0; c < COMMS; c++)
            WANT(in[c] == i);
    }
    return NULL;
}

/* Waits on one of the communicators all the time. */
static void *wait_beside(void *arg)
{
    struct job *j = arg;
    DO(MPI_Recv(NULL, 0, MPI_BYTE, mt_rank, 3, across[1], MPI_STATUS_IGNORE));
    return NULL;
}

static void across_lanes(void)
{
    void *(*const bodies[])(void *) = { complete_others, wait_across, wait_beside };
    struct job j[3] = { { .id = 0 } };
    pthread_t t[3];
    make_across();
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_create(&t[i], NULL, bodies[i], &j[i]), 0);
    for (int i = 0; i < 3; i++) {
        if (i == 2)
            OK(MPI_Send(NULL, 0, MPI_BYTE, mt_rank, 3, across[1]));
        CHECK_EQ(pthread_join(t[i], NULL), 0);
        CHECK_EQ(j[i].errors, 0);
    }
    free_across();
}

/* ---- the counters ---- */

static MPI_T_pvar_session session;
static MPI_T_pvar_handle sleeps, rescues;

static MPI_T_pvar_handle counter(const char *name)
{
    MPI_T_pvar_handle h = MPI_T_PVAR_HANDLE_NULL;
    int index, n;
    OK(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &h, &n));
    OK(MPI_T_pvar_start(session, h));
    return h;
}

static void counters_start(void)
{
    int provided;
    OK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided));
    OK(MPI_T_pvar_session_create(&session));
    sleeps = counter("wait_sleeps");
    rescues = counter("wait_rescues");
}

static void *send_late(void *arg)
{
    struct job *j = arg;
    pause_ms(300);
    for (int c = 0; c < COMMS; c++)
        DO(MPI_Send(NULL, 0, MPI_BYTE, 0, 1, across[c]));
    return NULL;
}

/* A wait for requests of several lanes sleeps until there is an event, not for short times, also
 * where transports to other hosts have descriptors. */
static void one_long_sleep(void)
{
    unsigned long long before = 0, after = 0;
    struct job j = { 0 };
    MPI_Request r[COMMS];
    pthread_t t;
    for (int c = 0; c < COMMS; c++)
        OK(MPI_Comm_dup(MPI_COMM_SELF, &across[c]));
    MPI_Barrier(mt_comm);
    for (int c = 0; c < COMMS; c++)
        OK(MPI_Irecv(NULL, 0, MPI_BYTE, 0, 1, across[c], &r[c]));
    OK(MPI_T_pvar_read(session, sleeps, &before));
    CHECK_EQ(pthread_create(&t, NULL, send_late, &j), 0);
    OK(MPI_Waitall(COMMS, r, MPI_STATUSES_IGNORE));
    OK(MPI_T_pvar_read(session, sleeps, &after));
    CHECK_EQ(pthread_join(t, NULL), 0);
    CHECK_EQ(j.errors, 0);
    CHECK_MSG(after - before <= 10, "%llu sleeps in 300 ms without an event", after - before);
    free_across();
}

static void no_sleep_was_rescued(void)
{
    unsigned long long n = 0;
    OK(MPI_T_pvar_read(session, sleeps, &n));
    CHECK(n > 0);
    OK(MPI_T_pvar_read(session, rescues, &n));
    CHECK_EQ((long long)n, 0);
    OK(MPI_T_pvar_session_free(&session));
    OK(MPI_T_finalize());
}

/* The algorithm of the last collective, in whatever lane it has run. */
static void last_algorithm(void)
{
    MPI_T_pvar_handle h = MPI_T_PVAR_HANDLE_NULL;
    int index, n, after[2];
    make_across();
    OK(MPI_T_pvar_get_index("coll_algorithm", MPI_T_PVAR_CLASS_STATE, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &h, &n));
    for (int i = 0; i < 2; i++) {
        if (i)
            OK(MPI_Bcast(&n, 1, MPI_INT, 0, across[1]));
        else
            OK(MPI_Barrier(across[2]));
        OK(MPI_T_pvar_read(session, h, &after[i]));
    }
    CHECK(mt_size == 1 || (after[0] >= 0 && after[1] >= 0 && after[0] != after[1]));
    OK(MPI_T_pvar_handle_free(session, &h));
    free_across();
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    mt_setup();
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    if (argc > 1)
        rounds = atoi(argv[1]);
    counters_start();
    MT_RUN(traffic);
    MT_RUN(generalized_request);
    MT_RUN(self_messages);
    MT_RUN(beside_a_tester);
    MT_RUN(service);
    MT_RUN(communicators);
    MT_RUN(across_lanes);
    MT_RUN(one_long_sleep);
    MT_RUN(last_algorithm);
    MT_RUN(no_sleep_was_rescued);
    return mt_end();
}
