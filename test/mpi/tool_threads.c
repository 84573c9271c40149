/* SPDX-License-Identifier: BSD-3-Clause */
/* A tool's thread samples every performance variable, and opens and closes sessions, while the
 * program communicates; what it reads never goes back. */
#include <pthread.h>
#include "test/mpi/mpitest.h"

#define T(call) CHECK_EQ((call), MPI_SUCCESS)
#define ROUNDS 200

static int stop, samples, errors;

static void *sampler(void *arg)
{
    int n = 0, index, count;
    unsigned long long v[64], before = 0;
    MPI_T_pvar_session s, other;
    MPI_T_pvar_handle h, got;
    (void)arg;
    errors += MPI_T_pvar_get_num(&n) != MPI_SUCCESS;
    errors += MPI_T_pvar_session_create(&s) != MPI_SUCCESS;
    errors += MPI_T_pvar_get_index("p2p_received", MPI_T_PVAR_CLASS_COUNTER, &index) != 0;
    errors += MPI_T_pvar_handle_alloc(s, index, NULL, &got, &count) != MPI_SUCCESS;
    errors += MPI_T_pvar_start(s, got) != MPI_SUCCESS;
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        errors += MPI_T_pvar_session_create(&other) != MPI_SUCCESS;
        for (int i = 0; i < n; i++) {
            int bind;
            MPI_T_pvar_get_info(i, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, &bind, NULL,
                                NULL, NULL);
            if (bind != MPI_T_BIND_NO_OBJECT)
                continue;
            errors += MPI_T_pvar_handle_alloc(other, i, NULL, &h, &count) != MPI_SUCCESS;
            errors += MPI_T_pvar_read(other, h, v) != MPI_SUCCESS;
        }
        errors += MPI_T_pvar_session_free(&other) != MPI_SUCCESS;
        errors += MPI_T_pvar_read(s, got, v) != MPI_SUCCESS || v[0] < before;
        before = v[0];
        mt_sleep_ms(1); /* cores are few */
        __atomic_store_n(&samples, samples + 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void sampled(void)
{
    pthread_t t;
    int x = 1, y;
    CHECK_EQ(pthread_create(&t, NULL, sampler, NULL), 0);
    while (!__atomic_load_n(&samples, __ATOMIC_ACQUIRE))
        mt_sleep_ms(1);
    for (int i = 0; i < ROUNDS; i++) {
        OK(MPI_Sendrecv(&x, 1, MPI_INT, (mt_rank + 1) % mt_size, 1, &y, 1, MPI_INT,
                        (mt_rank + mt_size - 1) % mt_size, 1, mt_comm, MPI_STATUS_IGNORE));
        OK(MPI_Allreduce(&x, &y, 1, MPI_INT, MPI_SUM, mt_comm));
        CHECK_EQ(y, mt_size);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    CHECK_EQ(pthread_join(t, NULL), 0);
    CHECK_EQ(errors, 0);
    CHECK(samples > 0);
}

int main(int argc, char **argv)
{
    int provided = -1;
    MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided);
    mt_init(argc, argv);
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    MT_RUN(sampled);
    /* MPI itself has begun without threads, the tool's may still come and go. */
    T(MPI_T_finalize());
    T(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    T(MPI_T_finalize());
    return mt_end() || check_failed_case;
}
