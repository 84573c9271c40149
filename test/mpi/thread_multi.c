/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_THREAD_MULTIPLE (MPI-5.0 section 11.6): several threads of each rank send, receive, probe and
 * wait at the same time. Threads count their own errors; the main thread checks the sums, because
 * check.h is not for threads. */
#include "test/mpi/mpitest.h"
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 200, BIG = 100000 };

struct job {
    int id, errors;
    MPI_Comm comm;
};

static int right(void) { return (mt_rank + 1) % mt_size; }
static int left(void) { return (mt_rank + mt_size - 1) % mt_size; }

static void run_threads(void *(*fn)(void *), MPI_Comm *comms)
{
    pthread_t t[THREADS];
    struct job jobs[THREADS];
    int i;

    for (i = 0; i < THREADS; i++) {
        jobs[i] = (struct job){ .id = i, .comm = comms ? comms[i] : mt_comm };
        CHECK_EQ(pthread_create(&t[i], NULL, fn, &jobs[i]), 0);
    }
    for (i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(t[i], NULL), 0);
        CHECK_MSG(jobs[i].errors == 0, "rank %d: thread %d saw %d errors", mt_rank, i,
                  jobs[i].errors);
    }
}

/* A ring for each thread, with sizes that take all paths. */
static void *ring(void *arg)
{
    static const int sizes[] = { 0, 8, 200, 9000, BIG };
    struct job *j = arg;
    unsigned char *out = malloc(BIG), *in = malloc(BIG);
    MPI_Request r[2];
    MPI_Status st[2];
    int i, n, got;
    unsigned key;

    for (i = 0; i < ROUNDS; i++) {
        n = sizes[(i + j->id) % 5];
        key = (unsigned)(j->id * 50 + i);
        mt_fill(out, (size_t)n, key + (unsigned)mt_rank);
        j->errors += MPI_Irecv(in, n, MPI_BYTE, left(), j->id, j->comm, &r[0]) != MPI_SUCCESS;
        j->errors += MPI_Isend(out, n, MPI_BYTE, right(), j->id, j->comm, &r[1]) != MPI_SUCCESS;
        j->errors += MPI_Waitall(2, r, st) != MPI_SUCCESS;
        MPI_Get_count(&st[0], MPI_BYTE, &got);
        j->errors += got != n || st[0].MPI_TAG != j->id || st[0].MPI_SOURCE != left();
        j->errors += mt_differs(in, (size_t)n, key + (unsigned)left()) != (size_t)n;
    }
    free(out);
    free(in);
    return NULL;
}

static void own_tags(void) { run_threads(ring, NULL); }

static void own_communicators(void)
{
    MPI_Comm comms[THREADS];
    int i;

    for (i = 0; i < THREADS; i++)
        OK(MPI_Comm_dup(mt_comm, &comms[i]));
    run_threads(ring, comms);
    for (i = 0; i < THREADS; i++)
        OK(MPI_Comm_free(&comms[i]));
}

/* Blocking calls: even threads send to the right, odd ones receive from the left. */
static void *blocking(void *arg)
{
    struct job *j = arg;
    int i, x, tag = j->id / 2;

    for (i = 0; i < ROUNDS * 5; i++)
        if (j->id % 2) {
            x = -1;
            j->errors += MPI_Recv(&x, 1, MPI_INT, left(), tag, j->comm, MPI_STATUS_IGNORE) !=
                         MPI_SUCCESS;
            j->errors += x != i;
        } else {
            j->errors += MPI_Send(&i, 1, MPI_INT, right(), tag, j->comm) != MPI_SUCCESS;
        }
    return NULL;
}

static void blocking_calls(void) { run_threads(blocking, NULL); }

/* One thread sits in MPI_Recv while the others exchange; the message that it waits for comes last.
 */
static void *one_waits(void *arg)
{
    struct job *j = arg;
    int x = 0, y = 7;

    if (j->id == 0) {
        j->errors += MPI_Recv(&x, 1, MPI_INT, left(), 99, j->comm, MPI_STATUS_IGNORE) !=
                     MPI_SUCCESS;
        j->errors += x != 7;
        return NULL;
    }
    ring(arg);
    if (j->id == 1) {
        mt_sleep_ms(20);
        j->errors += MPI_Send(&y, 1, MPI_INT, right(), 99, j->comm) != MPI_SUCCESS;
    }
    return NULL;
}

static void waiting_thread(void) { run_threads(one_waits, NULL); }

/* All threads take from one stream with wildcards; together they get each number once. */
static int taken[THREADS * ROUNDS];
static void *take(void *arg)
{
    struct job *j = arg;
    int i, x;

    for (i = 0; i < ROUNDS; i++) {
        x = -1;
        j->errors += MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, j->comm,
                              MPI_STATUS_IGNORE) != MPI_SUCCESS;
        if (x < 0 || x >= THREADS * ROUNDS)
            j->errors++;
        else
            __atomic_fetch_add(&taken[x], 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void shared_stream(void)
{
    MPI_Request r[THREADS * ROUNDS];
    int i, v[THREADS * ROUNDS], wrong = 0;

    memset(taken, 0, sizeof(taken));
    for (i = 0; i < THREADS * ROUNDS; i++) {
        v[i] = i;
        OK(MPI_Isend(&v[i], 1, MPI_INT, right(), i % 5, mt_comm, &r[i]));
    }
    run_threads(take, NULL);
    OK(MPI_Waitall(THREADS * ROUNDS, r, MPI_STATUSES_IGNORE));
    for (i = 0; i < THREADS * ROUNDS; i++)
        wrong += taken[i] != 1;
    CHECK_EQ(wrong, 0);
}

/* Matched probe: what one thread found no other can take, so the sizes fit. */
static void *probe_and_take(void *arg)
{
    struct job *j = arg;
    char buf[64];
    int i, n = -1;
    MPI_Message m;
    MPI_Status st;

    for (i = 0; i < ROUNDS; i++) {
        j->errors += MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, j->comm, &m, &st) != MPI_SUCCESS;
        MPI_Get_count(&st, MPI_BYTE, &n);
        j->errors += n < 0 || n >= 64 || MPI_Mrecv(buf, n, MPI_BYTE, &m, &st) != MPI_SUCCESS;
        j->errors += n > 0 && buf[n - 1] != (char)n;
    }
    return NULL;
}

static void matched_probe(void)
{
    MPI_Request r[THREADS * ROUNDS];
    static char data[64][64];
    int i;

    for (i = 0; i < 64; i++)
        memset(data[i], i, 64);
    for (i = 0; i < THREADS * ROUNDS; i++)
        OK(MPI_Isend(data[i * 7 % 64], i * 7 % 64, MPI_BYTE, right(), i % 3, mt_comm, &r[i]));
    run_threads(probe_and_take, NULL);
    OK(MPI_Waitall(THREADS * ROUNDS, r, MPI_STATUSES_IGNORE));
}

/* One thread posts and hands its requests to another, which waits. */
static MPI_Request handed[ROUNDS];
static int handed_data[ROUNDS];
static sem_t n_handed;
static void *wait_for_other(void *arg)
{
    struct job *j = arg;
    int i, x;

    for (i = 0; i < ROUNDS; i++)
        if (j->id == 0) {
            j->errors += MPI_Irecv(&handed_data[i], 1, MPI_INT, left(), i, j->comm, &handed[i]) !=
                         MPI_SUCCESS;
            sem_post(&n_handed);
        } else if (j->id == 1) {
            while (sem_wait(&n_handed)) /* a signal */
                ;
            j->errors += MPI_Wait(&handed[i], MPI_STATUS_IGNORE) != MPI_SUCCESS ||
                         handed_data[i] != i * 3;
        } else if (j->id == 2) {
            x = i * 3;
            j->errors += MPI_Send(&x, 1, MPI_INT, right(), i, j->comm) != MPI_SUCCESS;
        }
    return NULL;
}

static void handed_requests(void)
{
    CHECK_EQ(sem_init(&n_handed, 0, 0), 0);
    run_threads(wait_for_other, NULL);
}

/* Collectives on a communicator of its own for each thread. */
static void *reduce(void *arg)
{
    struct job *j = arg;
    int i, x, sum;

    for (i = 0; i < ROUNDS; i++) {
        x = mt_rank + i + j->id;
        sum = -1;
        j->errors += MPI_Allreduce(&x, &sum, 1, MPI_INT, MPI_SUM, j->comm) != MPI_SUCCESS;
        j->errors += sum != mt_size * (mt_size - 1) / 2 + mt_size * (i + j->id);
        if (i % 20 == 0)
            j->errors += MPI_Barrier(j->comm) != MPI_SUCCESS;
    }
    return NULL;
}

static void collectives(void)
{
    MPI_Comm comms[THREADS];
    int i;

    for (i = 0; i < THREADS; i++)
        OK(MPI_Comm_dup(mt_comm, &comms[i]));
    run_threads(reduce, comms);
    for (i = 0; i < THREADS; i++)
        OK(MPI_Comm_free(&comms[i]));
}

static void *main_or_not(void *arg)
{
    int flag = -1;

    ((struct job *)arg)->errors += MPI_Is_thread_main(&flag) != MPI_SUCCESS || flag;
    return NULL;
}

static void thread_main(void)
{
    int flag = 0;

    OK(MPI_Is_thread_main(&flag));
    CHECK(flag);
    run_threads(main_or_not, NULL);
}

static void ignore_error(MPI_Comm *c, int *code, ...) { (void)c, (void)code; }

/* All threads set and read the handler of one communicator: often, because the steps are short. */
static void *swap_handlers(void *arg)
{
    struct job *j = arg;
    MPI_Errhandler h, got;
    int i;

    for (i = 0; i < 2000 * ROUNDS; i++) {
        j->errors += MPI_Comm_create_errhandler(ignore_error, &h) != MPI_SUCCESS;
        j->errors += MPI_Comm_set_errhandler(j->comm, h) != MPI_SUCCESS;
        j->errors += MPI_Errhandler_free(&h) != MPI_SUCCESS;
        j->errors += MPI_Comm_get_errhandler(j->comm, &got) != MPI_SUCCESS;
        j->errors += MPI_Errhandler_free(&got) != MPI_SUCCESS;
    }
    return NULL;
}

static void handlers(void)
{
    run_threads(swap_handlers, NULL);
    OK(MPI_Comm_set_errhandler(mt_comm, MPI_ERRORS_RETURN));
}

/* The first use of a text that all threads share. */
static void *world_info(void *arg)
{
    struct job *j = arg;
    MPI_Info info;
    char kinds[64] = "";
    int len = sizeof kinds, flag = 0;
    j->errors += MPI_Comm_get_info(MPI_COMM_WORLD, &info) != MPI_SUCCESS;
    j->errors += MPI_Info_get_string(info, "mpi_memory_alloc_kinds", &len, kinds, &flag);
    j->errors += !flag || !strstr(kinds, "system");
    MPI_Info_free(&info);
    return NULL;
}

static void infos(void) { run_threads(world_info, NULL); }

static char port[MPI_MAX_PORT_NAME];

static void *accept_in_vain(void *arg)
{
    MPI_Comm c;
    *(int *)arg = MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &c);
    return NULL;
}

/* Whether the other thread waits already, or calls too late, makes no difference to the error. */
static void closed_port(void)
{
    pthread_t t;
    int err = MPI_SUCCESS;
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Open_port(MPI_INFO_NULL, port));
    CHECK_EQ(pthread_create(&t, NULL, accept_in_vain, &err), 0);
    usleep(50000);
    OK(MPI_Close_port(port));
    CHECK_EQ(pthread_join(t, NULL), 0);
    FAILS(err, MPI_ERR_PORT);
}

int main(int argc, char **argv)
{
    int provided = -1;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    mt_setup();
    if (provided != MPI_THREAD_MULTIPLE) {
        printf("Bail out! MPI_THREAD_MULTIPLE is not provided: %d\n", provided);
        MPI_Finalize();
        return 1;
    }
    MT_RUN(infos); /* first */
    MT_RUN(own_tags);
    MT_RUN(own_communicators);
    MT_RUN(blocking_calls);
    MT_RUN(waiting_thread);
    MT_RUN(shared_stream);
    MT_RUN(matched_probe);
    MT_RUN(handed_requests);
    MT_RUN(collectives);
    MT_RUN(closed_port);
    MT_RUN(handlers);
    MT_RUN(thread_main);
    return mt_end();
}
