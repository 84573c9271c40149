/* SPDX-License-Identifier: BSD-3-Clause */
/* MPIX_Init_from_store: the program's key-value store in place of a PMIx server.  Called before the
 * library is up; life.c keeps later calls out. */
#include "mpi/api/bind.h"
#include "mpi/core/life.h"
#include "runtime/boot/store.h"

#define TIMEOUT_S 300 /* for a timeout_s of 0: longer than launchers take to start a job */

static struct {
    MPIX_Store_put_function *put;
    MPIX_Store_get_function *get;
} user;

static int put(void *arg, const char *key, const void *val, size_t len)
{
    return user.put(arg, key, val, (MPI_Count)len);
}

static int get(void *arg, const char *key, void *val, size_t max, size_t *len, int timeout_ms)
{
    MPI_Count n = 0;
    int code = user.get(arg, key, val, (MPI_Count)max, &n, timeout_ms);
    if (code == MPI_ERR_PENDING)
        return -RT_ETIMEOUT;
    if (code == MPI_SUCCESS && n < 0)
        return MPI_ERR_COUNT;
    *len = (size_t)n;
    return code;
}

static int check(int rank, int size, int timeout_s, MPIX_Store_put_function *p,
                 MPIX_Store_get_function *g)
{
    if (size < 1)
        return wm_err(MPI_ERR_ARG, "argument 2 (size) is %d, expected 1 or more", size);
    if (rank < 0 || rank >= size)
        return wm_err(MPI_ERR_RANK, "argument 1 (rank) is %d, which is outside 0..%d", rank,
                      size - 1);
    if (timeout_s < 0)
        return wm_err(MPI_ERR_ARG, "argument 3 (timeout_s) is %d, expected 0 or more", timeout_s);
    if (!p)
        return wm_bad_null("argument 4 (put)", MPI_ERR_ARG);
    if (!g)
        return wm_bad_null("argument 5 (get)", MPI_ERR_ARG);
    return MPI_SUCCESS;
}

WM_EXPORT int PMPIX_Init_from_store(int rank, int size, int timeout_s, MPIX_Store_put_function *p,
                                    MPIX_Store_get_function *g, void *store)
{
    int err = check(rank, size, timeout_s, p, g);
    if (!err) {
        struct rt_store s = { .rank = rank,
                              .size = size,
                              .timeout_s = timeout_s ? timeout_s : TIMEOUT_S,
                              .put = put,
                              .get = get,
                              .arg = store };
        err = wm_life_use_store(&s);
    }
    if (err)
        return wm_raise_comm(NULL, err, "MPIX_Init_from_store");
    user.put = p;
    user.get = g;
    return MPI_SUCCESS;
}
WM_WEAK(MPIX_Init_from_store);
