/* SPDX-License-Identifier: BSD-3-Clause */
/* A program with one thread takes no lock: this one reads how often the library has taken its lock,
 * and it puts its own pthread_mutex_lock in front of the C library's and counts its main thread's
 * calls of that, too.  With the argument "multiple" it asks for
 * MPI_THREAD_MULTIPLE and expects some: the control.  Short one-sided operations on memory of this
 * host take almost no locks even then. */
#include "test/mpi/mpitest.h"
#include <dlfcn.h>
#include <pthread.h>

static __thread bool counting; /* threads of other libraries do not count */
enum { ROUNDS = 1000 };
static unsigned long nlocks;
static bool multiple;

__attribute__((visibility("default"))) int pthread_mutex_lock(pthread_mutex_t *m)
{
    static int (*real)(pthread_mutex_t *);
    int (*fn)(pthread_mutex_t *) = __atomic_load_n(&real, __ATOMIC_RELAXED);

    if (!fn) {
        void *found = dlsym(RTLD_NEXT, "pthread_mutex_lock");
        memcpy(&fn, &found, sizeof(fn));
        __atomic_store_n(&real, fn, __ATOMIC_RELAXED);
    }
    nlocks += counting;
    return fn(m);
}

static MPI_T_pvar_session session;
static MPI_T_pvar_handle taken;

static void open_counter(void)
{
    int provided, index, n;
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    OK(MPI_T_pvar_session_create(&session));
    OK(MPI_T_pvar_get_index("lock_taken", MPI_T_PVAR_CLASS_COUNTER, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &taken, &n));
}

static unsigned long long library_locks(void)
{
    unsigned long long n = 0;
    OK(MPI_T_pvar_read(session, taken, &n));
    return n;
}

/* Locks of one call of work(). */
static unsigned long count_locks(void (*work)(void))
{
    unsigned long long before = library_locks();
    nlocks = 0;
    counting = true;
    work();
    counting = false;
    return nlocks + (unsigned long)(library_locks() - before);
}

static int right(void) { return (mt_rank + 1) % mt_size; }
static int left(void) { return (mt_rank + mt_size - 1) % mt_size; }

static void messages(void)
{
    static char out[100000], in[100000];
    static const int sizes[] = { 0, 8, 1000, 100000 };
    MPI_Request r[2];
    int i, k, flag;

    for (k = 0; k < 20; k++)
        for (i = 0; i < 4; i++) {
            OK(MPI_Irecv(in, sizes[i], MPI_BYTE, left(), i, mt_comm, &r[0]));
            OK(MPI_Isend(out, sizes[i], MPI_BYTE, right(), i, mt_comm, &r[1]));
            OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
            OK(MPI_Sendrecv(out, sizes[i], MPI_BYTE, right(), i, in, sizes[i], MPI_BYTE, left(), i,
                            mt_comm, MPI_STATUS_IGNORE));
            OK(MPI_Iprobe(MPI_ANY_SOURCE, 99, mt_comm, &flag, MPI_STATUS_IGNORE));
        }
}

static void collectives(void)
{
    double x[1000] = { 1 }, y[1000];
    MPI_Request r;
    int k;

    for (k = 0; k < 20; k++) {
        OK(MPI_Barrier(mt_comm));
        OK(MPI_Allreduce(x, y, k * 50, MPI_DOUBLE, MPI_SUM, mt_comm));
        OK(MPI_Bcast(x, 1000, MPI_DOUBLE, 0, mt_comm));
        OK(MPI_Iallreduce(x, y, 10, MPI_DOUBLE, MPI_MAX, mt_comm, &r));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    }
}

static void objects(void)
{
    MPI_Datatype t;
    MPI_Comm dup;

    OK(MPI_Type_vector(3, 1, 2, MPI_INT, &t));
    OK(MPI_Type_commit(&t));
    OK(MPI_Type_free(&t));
    OK(MPI_Comm_dup(mt_comm, &dup));
    OK(MPI_Comm_free(&dup));
}

static void counted(void (*work)(void), const char *what)
{
    work(); /* first uses connect, which asks the process manager */
    unsigned long n = count_locks(work);
    if (multiple)
        CHECK_MSG(n > 0, "rank %d: %s took no lock under MPI_THREAD_MULTIPLE", mt_rank, what);
    else
        CHECK_MSG(n == 0, "rank %d: %s took %lu locks", mt_rank, what, n);
}

static MPI_Win win;
static int near; /* a rank of this host */

static void one_sided(void)
{
    long v = 1, old = 0;
    for (int i = 0; i < ROUNDS; i++) {
        OK(MPI_Put(&v, 1, MPI_LONG, near, 8, 1, MPI_LONG, win));
        OK(MPI_Win_flush(near, win));
        OK(MPI_Get(&old, 1, MPI_LONG, near, 8, 1, MPI_LONG, win));
        OK(MPI_Win_flush_local(near, win));
        OK(MPI_Accumulate(&v, 1, MPI_LONG, near, 0, 1, MPI_LONG, MPI_SUM, win));
        OK(MPI_Fetch_and_op(&v, &old, MPI_LONG, near, 0, MPI_SUM, win));
    }
}

static void few_locks(void)
{
    MPI_Comm host;
    MPI_Group here, world;
    long *mem;
    int n;

    OK(MPI_Comm_split_type(mt_comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host));
    OK(MPI_Comm_size(host, &n));
    OK(MPI_Comm_group(host, &here));
    OK(MPI_Comm_group(mt_comm, &world));
    n--;
    OK(MPI_Group_translate_ranks(here, 1, &n, world, &near));
    OK(MPI_Win_allocate(16, 1, MPI_INFO_NULL, mt_comm, &mem, &win));
    OK(MPI_Win_lock_all(0, win));
    one_sided();
    unsigned long taken_n = count_locks(one_sided);
    CHECK_MSG(taken_n < ROUNDS, "rank %d: %d one-sided calls took %lu locks", mt_rank, 6 * ROUNDS,
              taken_n);
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
    OK(MPI_Group_free(&here));
    OK(MPI_Group_free(&world));
    OK(MPI_Comm_free(&host));
}

static void no_locks(void)
{
    counted(messages, "messages");
    counted(collectives, "collectives");
    counted(objects, "objects");
}

int main(int argc, char **argv)
{
    int provided;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    check_skip("a sanitizer has its own pthread_mutex_lock");
#endif
    multiple = argc > 1 && !strcmp(argv[1], "multiple");
    MPI_Init_thread(&argc, &argv, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED,
                    &provided);
    mt_setup();
    open_counter();
    MT_RUN(no_locks);
    MT_RUN(few_locks);
    return mt_end();
}
