/* SPDX-License-Identifier: BSD-3-Clause */
/* Queries about the ABI, and the facts that a Fortran layer reports about its compiler (MPI-5.0
 * chapter 20).  Usable at any time, by any thread; one mutex guards the reported facts. */
#include "mpi/api/bodies.h"
#include "mpi/core/info.h"
#include "mpi/datatype/predef.h"
#include "mpi/datatype/type.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOGICAL_MAX 16

static struct {
    pthread_mutex_t lock;
    struct wm_info *info; /* from MPI_Abi_set_fortran_info, NULL before that call; never freed */
    int logical_size;     /* from MPI_Abi_set_fortran_booleans, 0 before that call */
    unsigned char is_true[LOGICAL_MAX], is_false[LOGICAL_MAX];
} fortran = { .lock = PTHREAD_MUTEX_INITIALIZER };

int wm_api_abi_get_version(int *abi_major, int *abi_minor)
{
    *abi_major = MPI_ABI_VERSION;
    *abi_minor = MPI_ABI_SUBVERSION;
    return MPI_SUCCESS;
}

static int put_size(struct wm_info *i, const char *key, size_t nbytes)
{
    char text[16];
    snprintf(text, sizeof text, "%zu", nbytes);
    return wm_info_put(i, key, text);
}

int wm_api_abi_get_info(struct wm_info **info)
{
    struct wm_info *i = NULL;
    int err = wm_info_create(&i);
    if (err)
        return err;
    err = put_size(i, "mpi_aint_size", sizeof(MPI_Aint));
    if (!err)
        err = put_size(i, "mpi_count_size", sizeof(MPI_Count));
    if (!err)
        err = put_size(i, "mpi_offset_size", sizeof(MPI_Offset));
    if (err)
        wm_info_destroy(i);
    else
        *info = i;
    return err;
}

/* The sizes of Fortran's default kinds; the sizes of the Fortran datatypes follow from them. */
static const struct {
    const char *key;
    enum wm_fortran_kind kind;
} sizes[] = {
    { "mpi_logical_size", WM_FORTRAN_LOGICAL },
    { "mpi_integer_size", WM_FORTRAN_INTEGER },
    { "mpi_real_size", WM_FORTRAN_REAL },
    { "mpi_double_precision_size", WM_FORTRAN_DOUBLE },
};
#define NSIZES ((int)(sizeof sizes / sizeof sizes[0]))

static int read_sizes(const struct wm_info *info, int nbytes[])
{
    for (int i = 0; i < NSIZES; i++) {
        const char *text = wm_info_find(info, sizes[i].key);
        char *end = NULL;
        long n = text ? strtol(text, &end, 10) : 0;
        nbytes[i] = (int)n;
        if (text && (end == text || *end || n < 1 || n > LOGICAL_MAX ||
                     !wm_type_fortran_known(sizes[i].kind, (int)n)))
            return wm_err(MPI_ERR_ARG,
                          "argument 1 (info): %s is \"%s\", and there is no such kind of %s bytes",
                          sizes[i].key, text, text);
    }
    return MPI_SUCCESS;
}

/* Only the first call of a process takes effect. */
int wm_api_abi_set_fortran_info(struct wm_info *info)
{
    int nbytes[NSIZES];
    struct wm_info *copy = NULL;
    int err = read_sizes(info, nbytes);
    if (!err)
        err = wm_info_dup(info, &copy);
    if (err)
        return err;
    pthread_mutex_lock(&fortran.lock);
    bool first = !fortran.info;
    for (int i = 0; first && i < NSIZES; i++)
        if (nbytes[i])
            wm_type_fortran_size(sizes[i].kind, nbytes[i]);
    if (first)
        fortran.info = copy;
    pthread_mutex_unlock(&fortran.lock);
    if (first)
        return MPI_SUCCESS;
    wm_info_destroy(copy);
    return wm_err(MPI_ERR_ABI, "the facts about Fortran are set already; they are set once");
}

int wm_api_abi_get_fortran_info(struct wm_info **info)
{
    pthread_mutex_lock(&fortran.lock);
    int err = fortran.info ? wm_info_dup(fortran.info, info) : MPI_SUCCESS;
    pthread_mutex_unlock(&fortran.lock);
    return err;
}

static int check_logical(int nbytes)
{
    if (nbytes > 0 && nbytes <= LOGICAL_MAX && !(nbytes & (nbytes - 1)))
        return MPI_SUCCESS;
    return wm_err(MPI_ERR_ARG,
                  "argument 1 (logical_size): %d is none of the sizes 1, 2, 4, 8 and 16", nbytes);
}

int wm_api_abi_set_fortran_booleans(int logical_size, void *logical_true, void *logical_false)
{
    int err = check_logical(logical_size);
    if (err)
        return err;
    size_t n = (size_t)logical_size;
    if (!memcmp(logical_true, logical_false, n))
        return wm_err(MPI_ERR_ARG, "true and false are the same value");
    pthread_mutex_lock(&fortran.lock);
    bool first = !fortran.logical_size;
    if (first) {
        fortran.logical_size = logical_size;
        memcpy(fortran.is_true, logical_true, n);
        memcpy(fortran.is_false, logical_false, n);
    }
    pthread_mutex_unlock(&fortran.lock);
    return first ? MPI_SUCCESS
                 : wm_err(MPI_ERR_ABI, "Fortran's true and false are set already; they are set "
                                       "once");
}

/* *is_set is true only for the size that MPI_Abi_set_fortran_booleans was given. */
int wm_api_abi_get_fortran_booleans(int logical_size, void *logical_true, void *logical_false,
                                    int *is_set)
{
    int err = check_logical(logical_size);
    if (err)
        return err;
    pthread_mutex_lock(&fortran.lock);
    *is_set = fortran.logical_size == logical_size;
    if (*is_set) {
        memcpy(logical_true, fortran.is_true, (size_t)logical_size);
        memcpy(logical_false, fortran.is_false, (size_t)logical_size);
    }
    pthread_mutex_unlock(&fortran.lock);
    return MPI_SUCCESS;
}
