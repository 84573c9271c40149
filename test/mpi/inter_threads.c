/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that make and use intercommunicators at the same time, over one peer communicator, each
 * with a cut of its own.  Threads count their errors; the main thread checks the sums. */
#include "test/mpi/mpitest.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 12 };

struct job {
    int id, errors, k;
    bool left;
    MPI_Comm local;
};

static void *work(void *arg)
{
    struct job *j = arg;
    int k = j->k, i, sum, want, first = j->left ? k : 0, n = j->left ? mt_size - k : k, size;
    MPI_Comm c, d, all;
    MPI_Request r;

    for (want = 0, i = 0; i < n; i++)
        want += first + i;
    for (i = 0; i < ROUNDS; i++) {
        j->errors += MPI_Intercomm_create(j->local, 0, mt_comm, j->left ? k : 0, j->id, &c) != 0;
        j->errors += MPI_Comm_idup(c, &d, &r) != 0;
        j->errors += MPI_Intercomm_merge(c, !j->left, &all) != 0;
        sum = -1;
        j->errors += MPI_Allreduce(&mt_rank, &sum, 1, MPI_INT, MPI_SUM, c) != 0 || sum != want;
        j->errors += MPI_Wait(&r, MPI_STATUS_IGNORE) != 0;
        sum = -1;
        j->errors += MPI_Allreduce(&mt_rank, &sum, 1, MPI_INT, MPI_SUM, d) != 0 || sum != want;
        sum = -1;
        j->errors += MPI_Allreduce(&mt_rank, &sum, 1, MPI_INT, MPI_SUM, all) != 0 ||
                     sum != mt_size * (mt_size - 1) / 2;
        j->errors += MPI_Comm_size(all, &size) != 0 || size != mt_size;
        j->errors += MPI_Comm_free(&c) != 0;
        j->errors += MPI_Comm_free(&d) != 0;
        j->errors += MPI_Comm_free(&all) != 0;
    }
    return NULL;
}

static void side_by_side(void)
{
    pthread_t t[THREADS];
    struct job jobs[THREADS];
    int i;

    for (i = 0; i < THREADS; i++) {
        jobs[i] = (struct job){ .id = i, .k = 1 + i % (mt_size - 1) };
        jobs[i].left = mt_rank < jobs[i].k;
        OK(MPI_Comm_split(mt_comm, jobs[i].left, mt_rank, &jobs[i].local));
    }
    for (i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&t[i], NULL, work, &jobs[i]), 0);
    for (i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(t[i], NULL), 0);
        CHECK_MSG(jobs[i].errors == 0, "rank %d: thread %d saw %d errors", mt_rank, i,
                  jobs[i].errors);
        OK(MPI_Comm_free(&jobs[i].local));
    }
}

int main(int argc, char **argv)
{
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    mt_setup();
    MT_RUN(side_by_side);
    return mt_end();
}
