/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that open sessions at once, before the library knows of any thread, make communicators
 * with strings of their own, use them, and close them while others still open theirs. */
#include <pthread.h>
#include "test/mpi/session.h"

#define NTHREADS 4
#define ROUNDS 15

static pthread_barrier_t together;
static int failures[NTHREADS];

/* CHECK is for one thread. */
#define WANT(cond) \
    do { \
        if (!(cond)) { \
            failures[id]++; \
            printf("# rank %d, thread %d, round %d: %s\n", st_rank, id, round, #cond); \
        } \
    } while (0)

static void one_round(int id, int round, MPI_Info info)
{
    MPI_Session s = MPI_SESSION_NULL;
    MPI_Group g = MPI_GROUP_NULL;
    MPI_Comm c = MPI_COMM_NULL;
    int n = 0, r = -1, sum = -1, got = -1;
    char tag[32];
    snprintf(tag, sizeof tag, "thread %d", id);
    WANT(MPI_Session_init(info, MPI_ERRORS_RETURN, &s) == MPI_SUCCESS);
    WANT(MPI_Group_from_session_pset(s, "mpi://WORLD", &g) == MPI_SUCCESS);
    WANT(MPI_Comm_create_from_group(g, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &c) == MPI_SUCCESS);
    WANT(MPI_Group_free(&g) == MPI_SUCCESS);
    MPI_Comm_size(c, &n);
    MPI_Comm_rank(c, &r);
    int mine = 100 * id + r;
    WANT(MPI_Sendrecv(&mine, 1, MPI_INT, (r + 1) % n, 1, &got, 1, MPI_INT, (r + n - 1) % n, 1, c,
                      MPI_STATUS_IGNORE) == MPI_SUCCESS);
    WANT(got == 100 * id + (r + n - 1) % n);
    WANT(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, c) == MPI_SUCCESS);
    WANT(sum == 100 * id * n + n * (n - 1) / 2);
    WANT(MPI_Comm_free(&c) == MPI_SUCCESS);
    WANT(MPI_Session_finalize(&s) == MPI_SUCCESS);
}

static void *work(void *arg)
{
    int id = *(int *)arg;
    MPI_Info info;
    pthread_barrier_wait(&together);
    MPI_Info_create(&info);
    MPI_Info_set(info, "thread_level", "MPI_THREAD_MULTIPLE");
    for (int round = 0; round < ROUNDS; round++)
        one_round(id, round, info);
    MPI_Info_free(&info);
    return NULL;
}

static void many_threads(void)
{
    pthread_t t[NTHREADS];
    int id[NTHREADS];
    pthread_barrier_init(&together, NULL, NTHREADS);
    for (int i = 0; i < NTHREADS; i++) {
        id[i] = i;
        CHECK_EQ(pthread_create(&t[i], NULL, work, &id[i]), 0);
    }
    for (int i = 0; i < NTHREADS; i++) {
        pthread_join(t[i], NULL);
        CHECK_EQ(failures[i], 0);
    }
    pthread_barrier_destroy(&together);
}

/* A second thread that opens a session while MPI runs without locks gets only the level that MPI
 * can provide. */
static MPI_Session inner;
static void *late(void *arg)
{
    (void)arg;
    inner = st_open();
    return NULL;
}

static void late_thread(void)
{
    MPI_Info info;
    char text[64] = "";
    int len = sizeof text, flag;
    OK(MPI_Session_get_info(inner, &info));
    OK(MPI_Info_get_string(info, "thread_level", &len, text, &flag));
    CHECK_STR(text, "MPI_THREAD_SERIALIZED");
    OK(MPI_Info_free(&info));
    OK(MPI_Session_finalize(&inner));
}

int main(int argc, char **argv)
{
    bool alone = argc > 1 && !strcmp(argv[1], "alone");
    st_begin();
    if (alone) { /* in a process of its own: locks are never switched off again */
        pthread_t t;
        MPI_Init(&argc, &argv);
        pthread_create(&t, NULL, late, NULL);
        pthread_join(t, NULL);
        ST_RUN(late_thread);
        MPI_Finalize();
    } else {
        ST_RUN(many_threads);
    }
    return st_end();
}
